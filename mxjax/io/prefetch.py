"""Prefetching of batches."""

from __future__ import annotations

from typing import Any

from .. import engine
from ..base import Unfit
from .base import DataBatch, DataDesc, DataIter, _CurrentBatchIter
from .state import Resumable, check_state, need_state, plain

__all__ = ["PrefetchingIter"]


class PrefetchingIter(_CurrentBatchIter):
    """Prefetches the next batch of one or more iterators in the engine's workers.

    Args:
        iters: the iterator, or a list of iterators whose batches are combined.
        rename_data: for each iterator, a dictionary from old to new names of its data.
        rename_label: the same for its labels.

    Raises:
        ValueError: there is no iterator, or, during iteration, the batches do not match.

    Example:
        >>> ahead = PrefetchingIter(some_iter)  # doctest: +SKIP
    """

    def __init__(self, iters: DataIter | list[DataIter], rename_data: list[dict[str, str]] | None = None,
                 rename_label: list[dict[str, str]] | None = None) -> None:
        self.iters = iters if isinstance(iters, list) else [iters]
        if not self.iters:
            raise Unfit("PrefetchingIter needs at least one iterator")
        self.n_iter = len(self.iters)
        self.rename_data = rename_data
        self.rename_label = rename_label
        super().__init__(self.provide_data[0][1][0])
        self._engine = engine.get()
        self._vars = [self._engine.new_variable(f"PrefetchingIter {i}") for i in range(self.n_iter)]
        self.next_batch: list[DataBatch | None] = [None] * self.n_iter
        self._before: list[Any] = [None] * self.n_iter  # the iterators' states before they read that batch
        self._read_ahead()

    def _describe(self, attribute: str, rename: list[dict[str, str]] | None) -> list[Any]:
        descriptions = [(i, desc) for i, one in enumerate(self.iters) for desc in getattr(one, attribute)]
        if rename is None:
            return [desc for _, desc in descriptions]  # as the iterators have them, also plain tuples
        renamed = []
        for i, desc in descriptions:
            desc = desc if isinstance(desc, DataDesc) else DataDesc(*desc)
            name: str = desc.name
            renamed.append(DataDesc(rename[i].get(name, name), desc.shape, desc.dtype, desc.layout))
        return renamed

    @property
    def provide_data(self) -> list[Any]:
        """Descriptions of the data of all iterators."""
        return self._describe("provide_data", self.rename_data)

    @property
    def provide_label(self) -> list[Any]:
        """Descriptions of the labels of all iterators."""
        return self._describe("provide_label", self.rename_label)

    def _read_ahead(self) -> None:
        for i, (one, var) in enumerate(zip(self.iters, self._vars, strict=True)):
            self._engine.push(_reading(one, self.next_batch, self._before, i), (), (var,), lane="io",
                              name="PrefetchingIter")

    def _wait(self) -> None:
        for var in self._vars:
            self._engine.wait_for_var(var)

    def reset(self) -> None:
        self._wait()
        for one in self.iters:
            one.reset()
        self._read_ahead()

    def state_dict(self) -> dict[str, Any]:
        """Returns the positions of the iterators after the batches that were returned, without prefetched ones.

        Returns:
            Their states, as a list under "iters"; it can be stored as JSON.

        Raises:
            TypeError: an iterator has no `state_dict`; the message names it.
        """
        self._resumable()
        self._wait()
        return {"kind": "PrefetchingIter", "count": self.n_iter, "iters": plain(self._before)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores the position at which `state_dict` was called.

        Args:
            state: the result of `state_dict`.

        Raises:
            TypeError: an iterator has no `load_state_dict`; the message names it.
            ValueError: a state does not match its iterator; the message names the difference.
        """
        iters = self._resumable()
        check_state("PrefetchingIter", state, {"kind": "PrefetchingIter", "count": self.n_iter}, ("iters",))
        self._wait()
        before = plain(self._before)
        try:
            for one, inner in zip(iters, state["iters"], strict=True):
                one.load_state_dict(inner)
        except BaseException:
            for one, inner in zip(iters, before, strict=True):  # none of them goes on elsewhere than the others
                one.load_state_dict(inner)
            raise
        finally:
            self._read_ahead()

    def _resumable(self) -> list[Resumable]:
        """Returns the iterators; raises TypeError if one has no state."""
        return [need_state("PrefetchingIter", one) for one in self.iters]

    def iter_next(self) -> bool:
        self._wait()
        batches = [batch for batch in self.next_batch if batch is not None]
        if not batches:
            return False
        if len(batches) < self.n_iter:
            raise ValueError("PrefetchingIter: one of the iterators has fewer batches than another")
        if len({batch.pad for batch in batches}) > 1:
            raise ValueError(f"PrefetchingIter: the iterators' pads differ: {[batch.pad for batch in batches]}")
        self.current_batch = DataBatch(
            [array for batch in batches for array in batch.data or ()],
            [array for batch in batches for array in batch.label or ()], batches[0].pad, batches[0].index,
            provide_data=self.provide_data, provide_label=self.provide_label)
        self._read_ahead()
        return True

    def next(self) -> DataBatch:
        if not self.iter_next():
            raise StopIteration
        return self._batch()


def _reading(source: DataIter, batches: list[DataBatch | None], before: list[Any], i: int) -> Any:
    """A function for the engine that notes a state and reads batch `i`; it must not hold the PrefetchingIter."""
    state = getattr(source, "_state", None) or getattr(source, "state_dict", None)

    def read(_: Any) -> None:
        batches[i] = None
        before[i] = state() if state is not None else None
        try:
            batches[i] = source.next()
        except StopIteration:
            return

    return read
