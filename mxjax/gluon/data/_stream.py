"""Iterable data sets (streams), which yield samples in their own order, without indices."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ...io.state import check_count, check_state
from .sampler import Sampler

__all__ = ["End", "Stream", "StreamBatchify", "StreamBatches", "is_stream"]


class End:
    """Marks the end of a stream's samples and of its batches."""


def is_stream(dataset: object) -> bool:
    """Returns whether a data set can only be iterated over, like those of WebDataset, grain and Hugging Face."""
    if not hasattr(dataset, "__iter__"):
        return False
    if any(cls.__name__ == "IterableDataset" for cls in type(dataset).__mro__):  # some inherit an idle __getitem__
        return True
    return not hasattr(dataset, "__getitem__")


class Stream:
    """Provides a stream's samples by ascending index; a smaller index restarts the stream and skips to it.

    Args:
        dataset: iterable that can be iterated over repeatedly.
    """

    def __init__(self, dataset: Iterable[Any]) -> None:
        self._dataset = dataset
        self._next = -1
        self._samples: Iterator[Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_dataset": self._dataset, "_next": -1, "_samples": None}

    def __getitem__(self, number: int) -> Any:
        samples = self._samples
        if samples is None or number == 0 or number != self._next:
            begun = iter(self._dataset)
            if begun is self._dataset and samples is not None:
                raise TypeError(f"{type(begun).__name__} is an iterator, which can be consumed only once: pass the "
                                "DataLoader an object whose __iter__ starts again")
            samples = self._samples = itertools.islice(begun, number, None)
        self._next = -1  # if it raises: a failure must not look like the end
        sample = next(samples, End())
        self._next = number + 1
        return sample


class StreamBatchify:
    """Batchify function for samples of which some may lie beyond the end of the stream.

    Args:
        batchify: the function.
        size: samples in a full batch.
        last_batch: "keep" or "discard".
    """

    def __init__(self, batchify: Callable, size: int, last_batch: str) -> None:
        self._batchify, self._least = batchify, size if last_batch == "discard" else 1

    def __call__(self, samples: Sequence[Any]) -> Any:
        there = [sample for sample in samples if not isinstance(sample, End)]
        return self._batchify(there) if len(there) >= self._least else End()


class StreamBatches(Sampler):
    """Yields batches of ascending indices until the consumer calls `finish` at the end of the stream.

    Args:
        batch_size: indices in a batch.
    """

    def __init__(self, batch_size: int) -> None:
        self.size, self._position, self._loaded = batch_size, 0, False

    def __iter__(self) -> Iterator[list[int]]:
        if not self._loaded:
            self._position = 0
        self._loaded = False
        return self._numbers()

    def _numbers(self) -> Iterator[list[int]]:
        while True:
            first = self._position
            self._position += self.size
            yield list(range(first, self._position))

    def __len__(self) -> int:
        raise TypeError("the number of batches of an iterable data set is unknown")

    def finish(self) -> None:
        """Makes the next iteration start a new epoch."""
        self._position = 0

    def state_dict(self) -> dict[str, Any]:
        """Returns the number of samples consumed in this epoch."""
        return {"kind": "stream", "batch_size": self.size, "position": self._position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Makes the next iteration continue from where `state_dict` was called.

        Raises:
            ValueError: the state belongs to another kind of sampler or another batch size.
        """
        check_state("stream", state, {"kind": "stream", "batch_size": self.size}, ("position",))
        self._position = check_count("stream", "position", state["position"], 2 ** 62)
        self._loaded = True
