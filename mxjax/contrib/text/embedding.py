"""Word embeddings: GloVe, fastText, custom files, and combinations of several."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import ndarray as nd
from ... import registry
from ..._support.download import _get_repo_file_url, check_sha1, download
from ..._support.files import numbered_lines, unpack
from ..._support.text import UNKNOWN_IDX, Vocabulary
from ...base import data_dir
from ...ndarray import NDArray
from ...util import is_np_array
from . import _hashes

__all__ = ["CompositeEmbedding", "CustomEmbedding", "FastText", "GloVe", "create", "get_pretrained_file_names",
           "register"]

ROOT = os.path.join(data_dir(), "embeddings")


def register(embedding_cls: type) -> type:
    """Registers a class of embeddings for `create`; usable as a decorator."""
    return registry.get_register_func(_TokenEmbedding, "token embedding")(embedding_cls)


def create(embedding_name: str, **kwargs: Any) -> _TokenEmbedding:
    """Creates an embedding by the name of its class.

    Args:
        embedding_name: e.g. "glove"; case does not matter.
        kwargs: arguments of the class.
    """
    return registry.get_create_func(_TokenEmbedding, "token embedding")(embedding_name, **kwargs)


def get_pretrained_file_names(embedding_name: str | None = None) -> Any:
    """Returns the names of available files: a list for one class of embeddings, or a dict of lists for all classes.

    Raises:
        KeyError: there is no such class.
    """
    known = registry.get_registry(_TokenEmbedding)
    if embedding_name is None:
        return {name: list(cls.pretrained_file_name_sha1) for name, cls in known.items()}
    if embedding_name not in known:
        raise KeyError(f"Cannot find `embedding_name` {embedding_name}. Use "
                       "`get_pretrained_file_names(embedding_name=None).keys()` to get all the valid embedding names.")
    return list(known[embedding_name].pretrained_file_name_sha1)


def _array(values: np.ndarray) -> NDArray:
    """A float32 NDArray, or mx.np.ndarray where those are in use."""
    array = nd.array(values)
    return array.as_np_ndarray() if is_np_array() else array


class _TokenEmbedding(Vocabulary):
    """A vocabulary with a vector for each token: by default all tokens of the file the vectors come from."""

    pretrained_file_name_sha1: dict[str, str] = {}  # noqa: RUF012

    @classmethod
    def _archive(cls, file: str) -> str:
        """Returns the name of the archive that contains a file."""
        return file

    @classmethod
    def _check_pretrained_file_names(cls, file: str) -> None:
        """Raises KeyError where there is no such file."""
        name = cls.__name__.lower()
        if file not in cls.pretrained_file_name_sha1:
            raise KeyError(f"Cannot find pretrained file {file} for token embedding {name}. Valid pretrained files "
                           f"for embedding {name}: {', '.join(cls.pretrained_file_name_sha1)}")

    @classmethod
    def _get_pretrained_file(cls, root: str, file: str) -> str:
        """Returns the path of a file, downloaded if it is missing or damaged; KeyError: there is no such file."""
        cls._check_pretrained_file_names(file)
        name = cls.__name__.lower()
        folder = os.path.join(os.path.expanduser(root), name)
        path, sha1 = os.path.join(folder, file), cls.pretrained_file_name_sha1[file]
        if os.path.exists(path) and check_sha1(path, sha1):
            return path
        archive = cls._archive(file)
        expected = getattr(cls, "pretrained_archive_name_sha1", cls.pretrained_file_name_sha1)[archive]
        downloaded = download(_get_repo_file_url(f"gluon/embeddings/{name}", archive), os.path.join(folder, archive),
                              sha1_hash=expected)
        if archive.endswith((".zip", ".gz")):
            unpack(downloaded, folder)
        return path

    def _load_embedding(self, path: str, delimiter: str, init_unknown_vec: Callable, encoding: str = "utf8") -> None:
        """Reads vectors from a file.

        A token's first line counts; the unknown token's vector is the file's, else `init_unknown_vec(shape=...)`.
        """
        path = os.path.expanduser(path)
        if not os.path.isfile(path):
            raise ValueError("`pretrained_file_path` must be a valid path to the pre-trained token embedding file, "
                             f"got {path!r}.")
        logging.info("Loading pre-trained token embedding vectors from %s", path)
        rows: list[np.ndarray] = []
        unknown: np.ndarray | None = None
        seen: set[str] = set()
        for number, line in numbered_lines(path, "token embeddings", encoding):
            where = f"At line {number} of the pre-trained token embedding file {path}"
            token, *values = line.rstrip().split(delimiter)
            if not values:
                raise AssertionError(f"{where}: expected a token and numbers, separated by {delimiter!r}.")
            try:
                vector = np.array(values, np.float32)
            except ValueError as error:
                raise ValueError(f"{where}: {error}") from error
            if token == self.unknown_token and unknown is None:
                unknown = vector
            elif token in seen:
                warnings.warn(f"{where}: the embedding vector for token {token} has been loaded and a duplicate "
                              "embedding for the same token is seen and skipped.", stacklevel=4)
            elif len(vector) == 1:
                warnings.warn(f"{where}: token {token} with 1-dimensional vector {values} is likely a header and "
                              "is skipped.", stacklevel=4)
                continue
            else:
                if rows and len(vector) != len(rows[0]):
                    raise AssertionError(f"{where}: the dimension of token {token} is {len(vector)} but the "
                                         f"dimension of previous tokens is {len(rows[0])}. Dimensions of all the "
                                         "tokens must be the same.")
                rows.append(vector)
                self._token_to_idx[token] = len(self._idx_to_token)
                self._idx_to_token.append(token)
            seen.add(token)
        if not rows:
            raise ValueError(f"there are no vectors in the pre-trained token embedding file {path}")
        self._vec_len = len(rows[0])
        first = init_unknown_vec(shape=self._vec_len).asnumpy() if unknown is None else unknown
        reserved = [np.zeros(self._vec_len, np.float32)] * (len(self) - len(rows) - 1)
        self._idx_to_vec = _array(np.stack([first, *reserved, *rows]))

    def _build_embedding_for_vocabulary(self, vocabulary: Vocabulary | None) -> None:
        """Keeps only the tokens of a vocabulary, if there is one."""
        if vocabulary is not None:
            self._restrict(vocabulary, [self])

    def _restrict(self, vocabulary: Any, embeddings: list[_TokenEmbedding]) -> None:
        """Takes a vocabulary's tokens, and for each its vectors in `embeddings`, one after the other."""
        if not isinstance(vocabulary, Vocabulary):
            raise AssertionError("The argument `vocabulary` must be an instance of "
                                 f"mxnet.contrib.text.vocab.Vocabulary, got {type(vocabulary).__name__}.")
        rows = [[UNKNOWN_IDX, *embedding.to_indices(vocabulary.idx_to_token[1:])] for embedding in embeddings]
        self._idx_to_vec = _array(np.concatenate([embedding.idx_to_vec.asnumpy()[row] for embedding, row
                                                  in zip(embeddings, rows, strict=True)], axis=1))
        self._vec_len = self._idx_to_vec.shape[1]
        self._token_to_idx, self._idx_to_token = dict(vocabulary.token_to_idx), list(vocabulary.idx_to_token)
        self._unknown_token = vocabulary.unknown_token
        self._reserved_tokens = vocabulary.reserved_tokens and list(vocabulary.reserved_tokens)

    @property
    def vec_len(self) -> int:
        """Length of a vector."""
        return self._vec_len

    @property
    def idx_to_vec(self) -> NDArray:
        """Vectors by token index: (tokens, vec_len)."""
        return self._idx_to_vec

    def get_vecs_by_tokens(self, tokens: str | list[str], lower_case_backup: bool = False) -> NDArray:
        """Returns the vector (vec_len,) of a token, or the vectors (tokens, vec_len) of a list of tokens.

        Args:
            tokens: a token, or a list.
            lower_case_backup: also look up unknown tokens in lower case.
        """
        def index(token: str) -> int:
            if lower_case_backup and token not in self._token_to_idx:
                token = token.lower()
            return self._token_to_idx.get(token, UNKNOWN_IDX)
        vectors = self._idx_to_vec.asnumpy()
        return _array(vectors[[index(t) for t in tokens]] if isinstance(tokens, list) else vectors[index(tokens)])

    def update_token_vectors(self, tokens: str | list[str], new_vectors: NDArray) -> None:
        """Changes vectors.

        Args:
            tokens: a token, or a list.
            new_vectors: (tokens, vec_len), or (vec_len,) for one token.

        Raises:
            AssertionError: `new_vectors` is not an NDArray or has another shape.
            ValueError: a token is unknown.
        """
        tokens = tokens if isinstance(tokens, list) else [tokens]
        if not isinstance(new_vectors, NDArray) or new_vectors.ndim != 2 and (new_vectors.ndim, len(tokens)) != (1, 1):
            raise AssertionError("`new_vectors` must be an NDArray, 2-D or for a single token 1-D.")
        values = new_vectors.asnumpy().reshape(-1, new_vectors.shape[-1])
        if values.shape != (len(tokens), self._vec_len):
            raise AssertionError(f"new_vectors must have the shape {(len(tokens), self._vec_len)}: the number of "
                                 f"tokens and the length of vectors; got {new_vectors.shape}.")
        for token in tokens:
            if token not in self._token_to_idx:
                raise ValueError(f"Token {token} is unknown. To update the embedding vector for an unknown token, "
                                 f"please specify it explicitly as the `unknown_token` {self._idx_to_token[0]} in "
                                 "`tokens`. This is to avoid unintended updates.")
        vectors = self._idx_to_vec.asnumpy()
        vectors[[self._token_to_idx[token] for token in tokens]] = values
        self._idx_to_vec[:] = _array(vectors)


@register
class GloVe(_TokenEmbedding):
    """GloVe vectors. Pennington, Socher and Manning, EMNLP 2014, https://nlp.stanford.edu/projects/glove/.

    Args:
        pretrained_file_name: one of `get_pretrained_file_names("glove")`.
        embedding_root: directory that contains the directory "glove" with the files; missing files
            are downloaded.
        init_unknown_vec: function(shape=length) that returns the vector of the unknown token.
        vocabulary: keep only its tokens.
        kwargs: arguments of `Vocabulary`.

    Raises:
        KeyError: there is no such file.
    """

    pretrained_archive_name_sha1 = _hashes.GLOVE_ARCHIVES
    pretrained_file_name_sha1 = _hashes.GLOVE_FILES

    @classmethod
    def _archive(cls, file: str) -> str:
        corpus = file.split(".")[1]
        return next(name for name in cls.pretrained_archive_name_sha1 if name.split(".")[1] == corpus)

    def __init__(self, pretrained_file_name: str = "glove.840B.300d.txt", embedding_root: str = ROOT,
                 init_unknown_vec: Callable = nd.zeros, vocabulary: Vocabulary | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._load_embedding(self._get_pretrained_file(embedding_root, pretrained_file_name), " ", init_unknown_vec)
        self._build_embedding_for_vocabulary(vocabulary)


@register
class FastText(_TokenEmbedding):
    """fastText vectors. Bojanowski et al., 2016, arXiv:1607.04606, https://fasttext.cc/.

    Args:
        pretrained_file_name: one of `get_pretrained_file_names("fasttext")`.
        embedding_root: directory that contains the directory "fasttext" with the files; missing
            files are downloaded.
        init_unknown_vec, vocabulary, kwargs: as in `GloVe`.

    Raises:
        KeyError: there is no such file.
    """

    pretrained_archive_name_sha1 = _hashes.FASTTEXT_ARCHIVES
    pretrained_file_name_sha1 = _hashes.FASTTEXT_FILES

    @classmethod
    def _archive(cls, file: str) -> str:
        return os.path.splitext(file)[0] + ".zip"

    def __init__(self, pretrained_file_name: str = "wiki.simple.vec", embedding_root: str = ROOT,
                 init_unknown_vec: Callable = nd.zeros, vocabulary: Vocabulary | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._load_embedding(self._get_pretrained_file(embedding_root, pretrained_file_name), " ", init_unknown_vec)
        self._build_embedding_for_vocabulary(vocabulary)


class CustomEmbedding(_TokenEmbedding):
    """Vectors from a custom file, whose lines contain a token and numbers.

    Args:
        pretrained_file_path: the file.
        elem_delim: delimiter between token and numbers.
        encoding: encoding of the file.
        init_unknown_vec, vocabulary, kwargs: as in `GloVe`.

    Raises:
        ValueError: there is no such file, it contains no vectors, or a value is not a number.
        AssertionError: a line has no numbers, or another count than other lines.
    """

    def __init__(self, pretrained_file_path: str, elem_delim: str = " ", encoding: str = "utf8",
                 init_unknown_vec: Callable = nd.zeros, vocabulary: Vocabulary | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._load_embedding(pretrained_file_path, elem_delim, init_unknown_vec, encoding)
        self._build_embedding_for_vocabulary(vocabulary)


class CompositeEmbedding(_TokenEmbedding):
    """Concatenates the vectors of several embeddings for each token of a vocabulary.

    Args:
        vocabulary: the tokens.
        token_embeddings: an embedding, or a list.

    Raises:
        AssertionError: an argument has the wrong type.
    """

    def __init__(self, vocabulary: Vocabulary, token_embeddings: _TokenEmbedding | list[_TokenEmbedding]) -> None:
        embeddings = token_embeddings if isinstance(token_embeddings, list) else [token_embeddings]
        for embedding in embeddings:
            if not isinstance(embedding, _TokenEmbedding):
                raise AssertionError("The argument `token_embeddings` must be an instance or a list of instances of "
                                     f"token embeddings, got {type(embedding).__name__}.")
        self._restrict(vocabulary, embeddings)
