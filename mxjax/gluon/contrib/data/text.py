"""Texts for language models."""

from __future__ import annotations

import os
import shutil
import zipfile
from collections import Counter
from typing import Any, ClassVar

import numpy as np

from .... import ndarray as nd
from ...._support.download import _get_repo_file_url, check_sha1, download
from ...._support.files import check_unpacked, reading, replacing
from ...._support.text import Vocabulary, count_tokens_from_str
from ....base import data_dir
from ...data import dataset

__all__ = ["WikiText2", "WikiText103"]

EOS_TOKEN = "<eos>"

_File = tuple[str, str]  # name and SHA-1


class _WikiText(dataset._DownloadedDataset):
    """Articles of Wikipedia as rows of `seq_len` word numbers; a label is the row one word further on."""

    _namespace = ""
    _archive: ClassVar[_File]
    _files: ClassVar[dict[str, _File]]

    def __init__(self, root: str, segment: str, vocab: Vocabulary | None, seq_len: int) -> None:
        if segment not in self._files:
            raise ValueError(f"segment must be one of {', '.join(self._files)}; got {segment!r}")
        self._segment, self._seq_len = segment, seq_len
        self._vocab: Any = vocab  # a `Vocabulary` once the data is there
        self._counter = Counter[str]()
        super().__init__(root, None)

    @property
    def vocabulary(self) -> Vocabulary:
        """Indices of the words."""
        return self._vocab

    @property
    def frequencies(self) -> Counter:
        """Returns how often each word occurs."""
        return self._counter

    def _get_data(self) -> None:
        name, sha1 = self._files[self._segment]
        path = os.path.join(self._root, name)
        if not os.path.exists(path) or not check_sha1(path, sha1):
            self._unpack()
        with reading(path, "text"), open(path, encoding="utf8") as file:
            content = file.read()
        self._counter = count_tokens_from_str(content)
        if self._vocab is None:
            self._vocab = Vocabulary(counter=self._counter, reserved_tokens=[EOS_TOKEN])
        lines = [line.split() for line in content.splitlines()]
        words = self._vocab.to_indices([word for line in lines if line for word in (*line, EOS_TOKEN)])
        rows = (len(words) - 1) // self._seq_len
        numbers = np.array(words[:rows * self._seq_len + 1], np.int32)
        self._data, self._label = (nd.array(part.reshape(rows, self._seq_len), dtype=np.int32)
                                   for part in (numbers[:-1], numbers[1:]))

    def _unpack(self) -> None:
        """Puts the files of the archive, which is downloaded if need be, into the folder."""
        name, sha1 = self._archive
        path = download(_get_repo_file_url(f"gluon/dataset/{self._namespace}", name), self._root, sha1_hash=sha1)
        with reading(path, "an archive"), zipfile.ZipFile(path) as archive:
            check_unpacked(sum(entry.file_size for entry in archive.infolist()), os.path.getsize(path), path)
            for member in archive.namelist():
                if os.path.basename(member):
                    with archive.open(member) as source, \
                            replacing(os.path.join(self._root, os.path.basename(member))) as target:
                        shutil.copyfileobj(source, target)

    def __getitem__(self, idx: int) -> tuple[nd.NDArray, nd.NDArray]:
        return self._data[idx], self._label[idx]


class WikiText2(_WikiText):
    """WikiText-2. Merity et al., 2016, arXiv:1609.07843. Creative Commons Attribution-ShareAlike.

    Each sample is (indices of `seq_len` words, indices of the words that follow each). Sentences
    end with "<eos>".

    Args:
        root: directory of the files or their archive; missing files are downloaded.
        segment: "train", "validation" or "test".
        vocab: the vocabulary; by default built from the text.
        seq_len: length of a sample.
    """

    _namespace = "wikitext-2"
    _archive = ("wikitext-2-v1.zip", "3c914d17d80b1459be871a5039ac23e752a53cbe")
    _files: ClassVar[dict[str, _File]] = {
        "train": ("wiki.train.tokens", "863f29c46ef9d167fff4940ec821195882fe29d1"),
        "validation": ("wiki.valid.tokens", "0418625c8b4da6e4b5c7a0b9e78d4ae8f7ee5422"),
        "test": ("wiki.test.tokens", "c7b8ce0aa086fb34dab808c5c49224211eb2b172")}

    def __init__(self, root: str = os.path.join(data_dir(), "datasets", "wikitext-2"), segment: str = "train",
                 vocab: Vocabulary | None = None, seq_len: int = 35) -> None:
        super().__init__(root, segment, vocab, seq_len)


class WikiText103(_WikiText):
    """WikiText-103, fifty times as long as `WikiText2`; same arguments."""

    _namespace = "wikitext-103"
    _archive = ("wikitext-103-v1.zip", "0aec09a7537b58d4bb65362fee27650eeaba625a")
    _files: ClassVar[dict[str, _File]] = {
        "train": ("wiki.train.tokens", "b7497e2dfe77e72cfef5e3dbc61b7b53712ac211"),
        "validation": ("wiki.valid.tokens", "c326ac59dc587676d58c422eb8a03e119582f92b"),
        "test": ("wiki.test.tokens", "8a5befc548865cec54ed4273cf87dbbad60d1e47")}

    def __init__(self, root: str = os.path.join(data_dir(), "datasets", "wikitext-103"), segment: str = "train",
                 vocab: Vocabulary | None = None, seq_len: int = 35) -> None:
        super().__init__(root, segment, vocab, seq_len)
