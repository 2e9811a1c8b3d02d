"""Data sets that give their samples in an order of their own, without numbers: streams."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ...io.state import check_count, check_state
from .sampler import Sampler

__all__ = ["End", "Stream", "StreamBatchify", "StreamBatches", "is_stream"]


class End:
    """Mark behind the last sample of a stream, and behind its last batch."""


def is_stream(dataset: object) -> bool:
    """Returns whether a data set can only be iterated over, as WebDataset, grain and Hugging Face have them."""
    if not hasattr(dataset, "__iter__"):
        return False
    if any(kind.__name__ == "IterableDataset" for kind in type(dataset).__mro__):  # some inherit an idle __getitem__
        return True
    return not hasattr(dataset, "__getitem__")


class Stream:
    """A stream's samples by number, where the numbers go up; any other number begins anew and passes over those before.

    Args:
        dataset: gives a new iterator over the same samples each time it is asked.
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
                raise TypeError(f"{type(begun).__name__} is an iterator, which gives its samples once: give the "
                                "DataLoader an object whose __iter__ begins anew")
            samples = self._samples = itertools.islice(begun, number, None)
        self._next = -1  # where it raises: what has failed must not look like the end
        sample = next(samples, End())
        self._next = number + 1
        return sample


class StreamBatchify:
    """A function that makes batches, for samples some of which are behind the end.

    Args:
        batchify: the function.
        size: samples in a whole batch.
        last_batch: "keep" or "discard".
    """

    def __init__(self, batchify: Callable, size: int, last_batch: str) -> None:
        self._batchify, self._least = batchify, size if last_batch == "discard" else 1

    def __call__(self, samples: Sequence[Any]) -> Any:
        there = [sample for sample in samples if not isinstance(sample, End)]
        return self._batchify(there) if len(there) >= self._least else End()


class StreamBatches(Sampler):
    """Batches of ever higher numbers; whoever takes them says when a stream has ended.

    Args:
        batch_size: numbers in a batch.
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
        raise TypeError("a data set that can only be iterated over does not tell how many batches it has")

    def finish(self) -> None:
        """The next iteration is of a new round."""
        self._position = 0

    def state_dict(self) -> dict[str, Any]:
        """Returns how many samples of the round were given out."""
        return {"kind": "stream", "batch_size": self.size, "position": self._position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Have the next iteration go on from where `state_dict` was called.

        Raises:
            ValueError: it is of something else, or of another batch size.
        """
        check_state("stream", state, {"kind": "stream", "batch_size": self.size}, ("position",))
        self._position = check_count("stream", "position", state["position"], 2 ** 62)
        self._loaded = True
