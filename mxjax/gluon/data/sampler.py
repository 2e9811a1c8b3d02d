"""Samplers, which determine the order of a data set's samples and group them into batches."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...io.state import check_count, check_order, check_state, plain
from ._state import need_state

if TYPE_CHECKING:
    from .._types import Indexed

__all__ = ["BatchSampler", "FilterSampler", "IntervalSampler", "RandomSampler", "Sampler", "SequentialSampler"]


class Sampler:
    """Base of samplers. Subclasses define `__iter__`, over indices of samples, and `__len__`.

    For `DataLoader.state_dict()` they also define `state_dict`, which returns the position in the
    epoch after each index, and `load_state_dict`, after which the next iteration continues from
    there.
    """

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} must define __iter__")

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} must define __len__")


class _Resumable(Sampler, abc.ABC):
    """A sampler whose rounds can be resumed.

    A subclass defines `__len__`, `_settings`, `_order`, and, where rounds differ, the last four methods.
    """

    _running = False  # between the begin and the end of a round
    _loaded = False  # the next iteration goes on with the round of a state
    _position = 0  # indices given in this round

    @abc.abstractmethod
    def _settings(self) -> dict[str, Any]:
        """Returns the settings that must be equal for a state to fit."""

    @abc.abstractmethod
    def _order(self) -> Sequence[Any] | np.ndarray:
        """The indices of the current round."""

    def _begin(self) -> None:
        """Begin another round."""

    def _this_round(self) -> dict[str, Any]:
        """Returns the state of the current round."""
        return {}

    def _next_round(self) -> dict[str, Any]:
        """The same of the round to come."""
        return {}

    def _take_round(self, state: dict[str, Any], position: int) -> bool:
        """Make the round of a state the current one; whether it had begun."""
        return True

    def __iter__(self) -> Iterator[Any]:
        if not self._loaded:
            self._begin()
            self._position = 0
        self._loaded, self._running = False, True
        return self._give(self._order()[self._position:], self._position)

    def _give(self, rest: Iterable[Any], position: int) -> Iterator[Any]:
        for self._position, index in enumerate(rest, start=position + 1):
            yield index
        self._running = False

    def state_dict(self) -> dict[str, Any]:
        """Returns the position in the current epoch.

        Returns:
            JSON-compatible numbers and strings.
        """
        return {"kind": type(self).__name__, **self._settings(),
                **(self._this_round() if self._running else self._next_round()),
                "position": self._position if self._running else 0}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Makes the next iteration continue from where `state_dict` was called; later ones start new epochs.

        Args:
            state: result of `state_dict`.

        Raises:
            ValueError: the state belongs to another kind of sampler, another length or other
                settings; the message names what differs.
        """
        name = type(self).__name__
        check_state(name, state, {"kind": name, **self._settings()}, (*self._next_round(), "position"))
        position = check_count(name, "position", state["position"], len(self))
        begun = self._take_round(state, position)
        self._position, self._running, self._loaded = position, begun, begun


class SequentialSampler(_Resumable):
    """Samples the indices start, start + 1, ..., start + length - 1.

    Args:
        length: how many.
        start: the first.
    """

    def __init__(self, length: int, start: int = 0) -> None:
        self._indices = range(start, start + length)

    def _settings(self) -> dict[str, Any]:
        return {"length": len(self._indices), "start": self._indices.start}

    def _order(self) -> Sequence[int]:
        return self._indices

    def __len__(self) -> int:
        return len(self._indices)


class RandomSampler(_Resumable):
    """Samples the indices 0 ... length - 1 in a new random order each epoch, drawn from `numpy.random`.

    A saved state reproduces the epoch's order from the generator's state before the draw. Later
    epochs use the current state of `numpy.random`: save it with `numpy.random.get_state()` and
    restore it with `set_state`, or use a `DistributedSampler`, whose orders depend only on its
    seed.

    Args:
        length: how many.
    """

    def __init__(self, length: int) -> None:
        self._length = length

    _drawn_by: dict[str, Any] | None = None  # the generator's state before the current round was drawn
    _indices: np.ndarray

    def _settings(self) -> dict[str, Any]:
        return {"length": self._length}

    def _begin(self) -> None:
        self._drawn_by = np.random.get_state(legacy=False)
        self._indices = np.arange(self._length)
        np.random.shuffle(self._indices)

    def _order(self) -> np.ndarray:
        return self._indices

    def _this_round(self) -> dict[str, Any]:
        inner = self._drawn_by["state"] if self._drawn_by else {}
        if set(inner) != {"key", "pos"}:  # not NumPy's usual generator, or none: the order itself
            return {"drawn_by": self._indices.tolist(), "drawn_at": 0}
        return {"drawn_by": inner["key"].astype("<u4").tobytes().hex(), "drawn_at": int(inner["pos"])}

    def _next_round(self) -> dict[str, Any]:
        return {"drawn_by": "", "drawn_at": 0}

    def _take_round(self, state: dict[str, Any], position: int) -> bool:
        if not state["drawn_by"]:
            return False
        if isinstance(state["drawn_by"], list):
            self._drawn_by = None
            self._indices = check_order("RandomSampler", "drawn_by", state["drawn_by"], self._length)
            return True
        random = np.random.RandomState()
        try:
            key = np.frombuffer(bytes.fromhex(state["drawn_by"]), "<u4")
            random.set_state(("MT19937", key, state["drawn_at"], 0, 0.0))
        except (TypeError, ValueError) as error:
            raise ValueError(f"RandomSampler: the generator state in this state is corrupt: {error}") from error
        self._drawn_by = random.get_state(legacy=False)
        self._indices = np.arange(self._length)
        random.shuffle(self._indices)
        return True

    def __len__(self) -> int:
        return self._length


class FilterSampler(_Resumable):
    """Samples the indices for which a function is true; the function runs once, when the sampler is created.

    Args:
        fn: function(sample) -> bool.
        dataset: the samples.
    """

    def __init__(self, fn: Callable[[Any], bool], dataset: Indexed) -> None:
        self._indices = [i for i in range(len(dataset)) if fn(dataset[i])]

    def _settings(self) -> dict[str, Any]:
        return {"length": len(self._indices)}

    def _order(self) -> Sequence[int]:
        return self._indices

    def __len__(self) -> int:
        return len(self._indices)


class BatchSampler(Sampler):
    """Groups a sampler's indices into lists.

    Args:
        sampler: sampler of the indices.
        batch_size: length of a list.
        last_batch: treatment of the last indices if they do not fill a list. "keep": a shorter
            list. "discard": they are dropped. "rollover": they start the next epoch.

    Raises:
        ValueError: on iteration, if `last_batch` is unknown.

    Example:
        >>> list(BatchSampler(SequentialSampler(5), 2, "keep"))
        [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Sampler, batch_size: int, last_batch: str = "keep") -> None:
        self._sampler, self._batch_size, self._last_batch = sampler, batch_size, last_batch
        self._prev: list[Any] = []

    _over = False  # the round's last, shorter list has been given
    _loaded = False  # whether `_over` comes from a state

    def _check(self) -> None:
        if self._last_batch not in ("keep", "discard", "rollover"):
            raise ValueError("last_batch must be one of 'keep', 'discard', or 'rollover', but got "
                             f"{self._last_batch!r}")

    @property
    def _changes(self) -> int:
        """See `DistributedSampler`."""
        return getattr(self._sampler, "_changes", 0)

    def __iter__(self) -> Iterator[list[Any]]:
        self._check()
        nothing_left = self._loaded and self._over
        self._loaded = self._over = False
        return iter(()) if nothing_left else self._group(iter(self._sampler))

    def _group(self, indices: Iterator[Any]) -> Iterator[list[Any]]:
        batch, self._prev = self._prev, []
        for index in indices:
            batch.append(index)
            if len(batch) == self._batch_size:
                yield batch
                batch = []
        if batch and self._last_batch == "keep":
            self._over = True
            yield batch
            self._over = False
        elif self._last_batch == "rollover":
            self._prev = batch

    def __len__(self) -> int:
        self._check()
        count = len(self._sampler)
        if self._last_batch == "keep":
            return -(-count // self._batch_size)
        return (count + len(self._prev)) // self._batch_size

    def _settings(self) -> dict[str, Any]:
        return {"kind": type(self).__name__, "batch_size": self._batch_size, "last_batch": self._last_batch}

    def state_dict(self) -> dict[str, Any]:
        """Returns the position in the current epoch.

        Returns:
            JSON-compatible numbers, strings and lists, with the state of `sampler` under "sampler".

        Raises:
            TypeError: the sampler has no state.
        """
        need_state(self)
        return {**self._settings(), "kept": plain(self._prev), "over": self._over,
                "sampler": need_state(self._sampler).state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Makes the next iteration continue from where `state_dict` was called; later ones start new epochs.

        Args:
            state: result of `state_dict`.

        Raises:
            TypeError: the sampler has no state.
            ValueError: the state belongs to other settings or another sampler; the message names
                what differs.
        """
        need_state(self)
        check_state(type(self).__name__, state, self._settings(), ("kept", "over", "sampler"))
        need_state(self._sampler).load_state_dict(state["sampler"])
        self._prev, self._over, self._loaded = list(state["kept"]), bool(state["over"]), True


class IntervalSampler(Sampler):
    """Samples the indices 0, interval, 2 * interval, ... below `length`.

    Args:
        length: upper bound of the indices.
        interval: step.
        rollover: start again at 1, 2, ..., until all indices have been sampled.

    Raises:
        AssertionError: `interval` is greater than `length`.

    Example:
        >>> list(IntervalSampler(5, interval=3))
        [0, 3, 1, 4, 2]
    """

    def __init__(self, length: int, interval: int, rollover: bool = True) -> None:
        if interval > length:
            raise AssertionError(f"Interval {interval} must be smaller than or equal to length {length}")
        self._length, self._interval, self._rollover = length, interval, rollover

    def __iter__(self) -> Iterator[int]:
        for first in range(self._interval if self._rollover else 1):
            yield from range(first, self._length, self._interval)

    def __len__(self) -> int:
        return self._length
