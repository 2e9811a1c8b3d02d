"""A sampler for distributed jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base import MXNetError
from ...io.state import check_count
from ...kvstore import cluster
from .sampler import _Resumable

__all__ = ["DistributedSampler"]


class DistributedSampler(_Resumable):
    """Samples one process's part of the indices 0 ... length - 1, so that all processes together
    cover each index once per epoch.

    The order depends only on `seed` and the epoch's number, so all processes draw the same order
    without communication. Its element i belongs to part i modulo `num_parts`. Epochs are counted
    from 0, or numbered by `set_epoch`.

    Args:
        length: number of samples.
        num_parts: number of parts; by default the number of processes in this job.
        part_index: index of the part; by default this process's rank.
        shuffle: draw a new order each epoch; otherwise the order is ascending.
        seed: seed of the orders; must be the same in all processes.
        last: treatment of the remainder if `num_parts` does not divide `length`. "keep": each index
            occurs once and some parts are longer by one. Some processes may then have one batch
            more than others, or a shorter last one. Synchronous training (a "dist_sync" store, a
            `TrainStep` over several processes) would wait forever for the missing batches, or
            reject the short ones. "pad": the epoch's first indices are repeated, so that all parts
            have the same length and as many batches. "drop": fewer than `num_parts` indices are
            left out, different ones each epoch if they are shuffled.

    Raises:
        ValueError: unknown `last`, `part_index` out of range, or a negative number.
        MXNetError: the defaults are needed, but this process has not joined its job yet.

    Example:
        >>> parts = [DistributedSampler(7, 3, i, shuffle=False) for i in range(3)]
        >>> [list(part) for part in parts]
        [[0, 3, 6], [1, 4], [2, 5]]
        >>> loader = mx.gluon.data.DataLoader(mx.nd.arange(8), 2, sampler=DistributedSampler(8))
        >>> len(loader)
        4
    """

    def __init__(self, length: int, num_parts: int | None = None, part_index: int | None = None, shuffle: bool = True,
                 seed: int = 0, last: str = "keep") -> None:
        if (num_parts is None) != (part_index is None):
            raise ValueError("num_parts and part_index must be passed together, got "
                             f"{num_parts} and {part_index}")
        if num_parts is None or part_index is None:
            num_parts, part_index = _place()
        if not 0 <= part_index < num_parts:
            raise ValueError(f"part_index must be from 0 to {num_parts - 1}, got {part_index} of {num_parts} parts")
        if length < 0 or seed < 0:
            raise ValueError(f"length and seed must be 0 or more, got {length} and {seed}")
        if last not in ("keep", "pad", "drop"):
            raise ValueError(f"last must be 'keep', 'pad' or 'drop', got {last!r}")
        self._length, self._num_parts, self._part_index = int(length), int(num_parts), int(part_index)
        self._shuffle, self._seed, self._last = bool(shuffle), int(seed), last
        self._epoch = self._coming = 0  # numbers of the current round and of the next one
        self._changes = 0  # calls of set_epoch: a DataLoader that has begun a round ahead drops it then

    def set_epoch(self, epoch: int) -> None:
        """Sets the number of the next epoch; without it, epochs are counted.

        Directly after `load_state_dict`, setting the resumed epoch's own number keeps the position.

        Args:
            epoch: 0 or more; the same in all processes.

        Raises:
            ValueError: it is negative.
        """
        if epoch < 0:
            raise ValueError(f"epoch must be 0 or more, got {epoch}")
        if self._loaded and epoch == self._epoch:
            return
        self._coming, self._loaded, self._running = int(epoch), False, False
        self._changes += 1

    def _settings(self) -> dict[str, Any]:
        return {"length": self._length, "num_parts": self._num_parts, "part_index": self._part_index,
                "shuffle": self._shuffle, "seed": self._seed, "last": self._last}

    def _begin(self) -> None:
        self._epoch, self._coming = self._coming, self._coming + 1

    def _order(self) -> Sequence[int]:
        order = np.arange(self._length)
        if self._shuffle:
            # not a Generator: NumPy promises that these numbers stay the same with all its versions
            words = [self._seed >> 32 * i & 0xFFFFFFFF for i in range(max(1, -(-self._seed.bit_length() // 32)))]
            order = np.random.RandomState([*words, self._epoch]).permutation(self._length)
        if self._last == "pad" and self._length:
            order = np.resize(order, -(-self._length // self._num_parts) * self._num_parts)
        end = len(order) - len(order) % self._num_parts if self._last == "drop" else len(order)
        return order[self._part_index:end:self._num_parts].tolist()

    def _this_round(self) -> dict[str, Any]:
        return {"epoch": self._epoch}

    def _next_round(self) -> dict[str, Any]:
        return {"epoch": self._coming}

    def _take_round(self, state: dict[str, Any], position: int) -> bool:
        epoch = check_count("DistributedSampler", "epoch", state["epoch"])
        self._epoch, self._coming = epoch, epoch + 1
        return True

    def __len__(self) -> int:
        least, longer = divmod(self._length, self._num_parts)
        return least + {"keep": self._part_index < longer, "pad": longer > 0, "drop": 0}[self._last]


def _place() -> tuple[int, int]:
    """Returns (number of processes in this job, rank of this process).

    Raises:
        MXNetError: the environment describes a job that this process has not joined.
    """
    joined = cluster.get()
    if joined is not None:
        return joined.size, joined.rank
    place = cluster.find_place()
    if place is not None and place.size > 1:  # without a word each of them would read everything
        raise MXNetError(f"{place.source}'s variables say that this process is one of {place.size}, but it has not "
                         "joined the job: call mx.kv.join() first, or pass num_parts and part_index")
    return 1, 0
