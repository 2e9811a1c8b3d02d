"""Common parts of resumable iterators and samplers: validation of a state, and its conversion to plain values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import numpy as np

__all__ = ["READ_AHEAD", "Resumable", "check_count", "check_order", "check_state", "filled_ahead", "need_state",
           "part_of", "plain"]

READ_AHEAD = 16  # batches that MXNet's iterators over files prefetch, for any prefetch_buffer


class Resumable(Protocol):
    """An iterator or sampler that can continue from the position of another one."""

    def state_dict(self) -> dict[str, Any]:
        """Returns the current position."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a position."""


def part_of(length: int, num_parts: int, part_index: int) -> slice:
    """Returns where one of several parts of `length` things lies: together they cover all, their lengths differ by one
    at most.

    Example:
        >>> [range(10)[part_of(10, 3, i)] for i in range(3)]
        [range(0, 3), range(3, 6), range(6, 10)]
    """
    return slice(length * part_index // num_parts, length * (part_index + 1) // num_parts)


def filled_ahead(left: int, batch_size: int) -> int:
    """Returns where the next epoch begins if an epoch is left early, with `round_batch`.

    If prefetching has reached the end of the epoch, the last batch is already filled with the first
    samples of the next epoch. As in MXNet, the next epoch then begins after these.

    Args:
        left: number of samples that remain in the epoch.
        batch_size: number of samples in a batch.

    Example:
        >>> filled_ahead(10, 4), filled_ahead(1000, 4)
        (2, 0)
    """
    return -left % batch_size if left <= READ_AHEAD * batch_size else 0


def plain(value: Any) -> Any:
    """Converts NumPy arrays and numbers in a value to Python lists and numbers, which can be stored as JSON."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def check_state(owner: str, state: Any, settings: Mapping[str, Any], position: Iterable[str]) -> None:
    """Raises ValueError unless a state belongs to the given settings; the error names the difference.

    Args:
        owner: expected owner of the state, for the message.
        state: the state that the user passed.
        settings: settings that must be equal.
        position: names of further required entries.
    """
    if not isinstance(state, Mapping):
        raise ValueError(f"{owner}: expected a dict returned by state_dict(), got {type(state).__name__}")
    differing = [f"{name} is {state[name]!r} there and {here!r} here" if name in state else f"{name} is not there"
                 for name, here in settings.items() if name not in state or state[name] != here]
    differing += [f"{name} is not there" for name in position if name not in state]
    if differing:
        raise ValueError(f"{owner}: this state does not match: {'; '.join(differing)}")


def need_state(owner: str, source: Any) -> Resumable:
    """Returns the source of `owner`; raises TypeError with its name if the source has no state."""
    if not hasattr(source, "state_dict") or not hasattr(source, "load_state_dict"):
        raise TypeError(f"{owner}: {type(source).__name__} has no state_dict() and load_state_dict(), so it cannot be "
                        "resumed")
    return source


def check_count(owner: str, name: str, value: Any, most: int | None = None) -> int:
    """A number of a state; raises ValueError unless it is an integer from 0 to `most`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0 or most is not None and value > most:
        raise ValueError(f"{owner}: {name} of this state must be a nonnegative "
                         f"integer{'' if most is None else f' of at most {most}'}, got {value!r}")
    return value


def check_order(owner: str, name: str, value: Any, length: int) -> np.ndarray:
    """An order of a state as an array; raises ValueError unless it has each of 0 ... length - 1 once."""
    order = np.asarray(value)
    if order.shape != (length,) or not np.array_equal(np.sort(order), np.arange(length)):
        raise ValueError(f"{owner}: {name} of this state must contain each number from 0 to {length - 1} exactly once")
    return order.astype(np.int64)
