"""Encoding of sentences as numbers, and batches of similar length."""

from __future__ import annotations

import bisect
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .. import ndarray as nd
from ..io import DataBatch, DataDesc, DataIter

if TYPE_CHECKING:
    from ..ops.params import DTypeLike

__all__ = ["BucketSentenceIter", "encode_sentences"]


def encode_sentences(sentences: Sequence[Sequence[str]], vocab: dict[str, int] | None = None,
                     invalid_label: int = -1, invalid_key: str = "\n", start_label: int = 0,
                     unknown_token: str | None = None) -> tuple[list[list[int]], dict[str, int]]:
    """Encodes words as numbers.

    Args:
        sentences: lists of words.
        vocab: numbers by word; None: build a vocabulary from the sentences.
        invalid_label: number that is not assigned to any word.
        invalid_key: key of that number in a new vocabulary.
        start_label: first number to assign.
        unknown_token: word that represents all words that are not in `vocab`. As in MXNet, it gets a new number for
            each of them.

    Returns:
        The sentences as lists of numbers, and the vocabulary.

    Raises:
        AssertionError: a word is not in the given vocabulary and there is no `unknown_token`.

    Example:
        >>> encode_sentences([["a", "b"], ["b"]])[0]
        [[0, 1], [1]]
    """
    growing = vocab is None
    vocab = {invalid_key: invalid_label} if growing else vocab
    label, coded = start_label, []
    for sentence in sentences:
        numbers = []
        for word in sentence:
            if word not in vocab:
                if not growing and not unknown_token:
                    raise AssertionError(f"word {word!r} is not in the vocabulary, and there is no unknown_token")
                word = unknown_token or word
                label += label == invalid_label
                vocab[word] = label
                label += 1
            numbers.append(vocab[word])
        coded.append(numbers)
    return coded, vocab


class BucketSentenceIter(DataIter):
    """Iterates over batches of sentences from buckets of similar lengths; the labels are the next words.

    Args:
        sentences: lists of numbers.
        batch_size: sentences in a batch.
        buckets: lengths to which sentences are padded; by default the lengths of at least
            `batch_size` sentences.
        invalid_label: padding value.
        data_name, label_name: names of data and label.
        dtype: dtype of both.
        layout: "NT" for (batch, time), "TN" for (time, batch).

    Raises:
        ValueError: unknown layout, or no buckets.
    """

    def __init__(self, sentences: Sequence[Sequence[int]], batch_size: int, buckets: list[int] | None = None,
                 invalid_label: int = -1, data_name: str = "data", label_name: str = "softmax_label",
                 dtype: DTypeLike = "float32", layout: str = "NT") -> None:
        super().__init__(batch_size)
        if layout.find("N") not in (0, 1):
            raise ValueError(f"layout must be NT (batch first) or TN (time first), got {layout!r}")
        if not buckets:
            counts = np.bincount([len(sentence) for sentence in sentences])
            buckets = [length for length, count in enumerate(counts) if count >= batch_size]
        filled: dict[int, list[np.ndarray]] = {length: [] for length in sorted(buckets)}
        lengths, discarded = list(filled), 0
        for sentence in sentences:
            place = bisect.bisect_left(lengths, len(sentence))
            if place == len(lengths):
                discarded += 1
                continue
            row = np.full(lengths[place], invalid_label, dtype)
            row[:len(sentence)] = sentence
            filled[lengths[place]].append(row)
        print(f"WARNING: discarded {discarded} sentences longer than the largest bucket.")  # as MXNet does, also for 0
        self.buckets = [length for length in lengths if filled[length]]
        if not self.buckets:
            raise ValueError(f"no length has {batch_size} sentences; pass buckets")
        self.data = [np.asarray(filled[length]) for length in self.buckets]
        self.data_name = data_name
        self.label_name = label_name
        self.dtype = dtype
        self.invalid_label = invalid_label
        self.layout = layout
        self.major_axis = layout.find("N")
        self.default_bucket_key = self.buckets[-1]
        shape = (batch_size, self.default_bucket_key)
        self.provide_data = [self._describe(data_name, shape[::-1] if self.major_axis else shape)]
        self.provide_label = [self._describe(label_name, shape[::-1] if self.major_axis else shape)]
        self.idx = [(i, j) for i, rows in enumerate(self.data) for j in range(0, len(rows) - batch_size + 1,
                                                                             batch_size)]
        self.reset()

    def _describe(self, name: str, shape: tuple[int, ...]) -> DataDesc:
        return DataDesc(name, shape, layout=self.layout)

    def reset(self) -> None:
        """Restarts from the beginning in a new order."""
        self.curr_idx = 0
        random.shuffle(self.idx)
        self.nddata, self.ndlabel = [], []
        for rows in self.data:
            np.random.shuffle(rows)
            labels = np.full_like(rows, self.invalid_label)
            labels[:, :-1] = rows[:, 1:]
            self.nddata.append(nd.array(rows, dtype=self.dtype))
            self.ndlabel.append(nd.array(labels, dtype=self.dtype))

    def next(self) -> DataBatch:
        if self.curr_idx == len(self.idx):
            raise StopIteration
        i, j = self.idx[self.curr_idx]
        self.curr_idx += 1
        data, label = (rows[i][j:j + self.batch_size] for rows in (self.nddata, self.ndlabel))
        if self.major_axis == 1:
            data, label = data.T, label.T
        return DataBatch([data], [label], pad=0, bucket_key=self.buckets[i],
                         provide_data=[self._describe(self.data_name, data.shape)],
                         provide_label=[self._describe(self.label_name, label.shape)])
