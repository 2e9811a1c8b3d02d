"""A training step as it would run on devices that need not be here: recorded as for them, and not run."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from ..array.chunk import Chunk
from ..array.segment import Segment
from ..base import MXNetError
from ..context import Context, standing_in
from ..ndarray import NDArray
from ..ops.params import WIDE
from ..plan import Group, Plan, make_plan, target

if TYPE_CHECKING:
    from .train_step import TrainStep

__all__ = ["plan_of"]


class _Planned(Segment):
    """A step that is not run."""

    def run(self) -> None:
        if self.calls:
            raise MXNetError("plan: something in the step looks at a value that the step computes (asnumpy, a custom "
                             "operator, a decision): it is not one program, and cannot be planned as one")
        super().run()


def plan_of(step: TrainStep, inputs: Sequence[NDArray], on: str, batch_size: int | None) -> Plan:
    """See `TrainStep.plan`; everything that a step has is initialized."""
    trainer, devices = step._trainer, target(on)
    parameters = {id(p): p for p in (*trainer._params, *_of_blocks(step))}.values()
    arrays = {"parameters": [p._data[0] for p in parameters if p.grad_req != "null"],
              "optimizer states": [s for updater in trainer._updaters for state in updater.states.values()
                                   for s in jax.tree.leaves(state, is_leaf=lambda x: isinstance(x, NDArray))
                                   if isinstance(s, NDArray)],
              "auxiliary states": [p._data[0] for p in parameters if p.grad_req == "null"],
              "inputs": list(inputs), "gradients": [g for p in parameters if p._grad for g in p._grad]}
    chunks = {kind: list(dict.fromkeys(a._chunk for a in every)) for kind, every in arrays.items()}
    held = {id(chunk.read()): (kind, chunk) for kind, every in chunks.items() for chunk in every}
    where = Context("gpu" if devices.device.platform == "cuda" else "tpu", 0)
    with _unchanged(trainer, [chunk for every in chunks.values() for chunk in every], where) as written, \
            standing_in(where), where:
        segment = _Planned(1 << 30, trials=0)
        loss = step._record(segment, inputs, batch_size)
        function, values, replaced = segment.told()
        del loss  # until now it was wanted
        changed = written()
    groups: dict[tuple[str, bool], list[int]] = {}
    for place, value in enumerate(values):
        kind, chunk = held.get(id(value), ("numbers", None))
        groups.setdefault((kind, chunk in changed), []).append(place)
    order = [place for places in groups.values() for place in places]
    back = [*np.argsort(order), len(order)]
    results = sorted(range(len(replaced)), key=lambda i: back[replaced[i]])  # as a segment that runs has them

    def program(*given: Any) -> list[Any]:
        made = function(*[given[i] for i in back[:-1]])
        return [made[i] for i in results]
    made = [Group(kind, [jax.ShapeDtypeStruct(np.shape(values[p]), _dtype(values[p])) for p in places],
                  kept=kept, split=kind == "inputs") for (kind, kept), places in groups.items()]
    return make_plan(f"a step of {type(step._net).__name__} by {type(trainer._optimizer).__name__}", program, made, on,
                     batch=inputs[0].shape[0], wide=any(str(_dtype(v)) in WIDE for v in values))


def _dtype(value: Any) -> Any:
    return value.dtype if hasattr(value, "dtype") else jax.typeof(value).dtype  # a number of Python's


def _of_blocks(step: TrainStep) -> Iterator[Any]:
    for block in (step._net, step._loss):
        if hasattr(block, "collect_params"):
            yield from block.collect_params().values()


@contextlib.contextmanager
def _unchanged(trainer: Any, chunks: list[Chunk], where: Context) -> Iterator[Any]:
    """A block in which arrays are said to be on a device, after which they and the optimizer are as they were.

    Gives a function that tells which chunks have been written to.
    """
    kept = [(chunk, chunk.ctx, chunk.read(), chunk.version) for chunk in chunks]
    optimizer, scheduler = trainer._optimizer, trainer._optimizer.lr_scheduler
    attributes = {**vars(optimizer), "_all_index_update_counts": copy.deepcopy(optimizer._all_index_update_counts)}
    times = dict(vars(scheduler)) if scheduler is not None else None
    device = next((d for d, counts in optimizer._all_index_update_counts.items()
                   if counts is optimizer._index_update_count), 0)
    try:
        for chunk in chunks:
            chunk.ctx = where
        yield lambda: {chunk for chunk, _, value, _ in kept if chunk.buffer is not value}
    finally:
        for chunk, ctx, value, version in kept:
            chunk.ctx, chunk.buffer, chunk.pending, chunk.version = ctx, value, None, version
        vars(optimizer).update(attributes)
        optimizer._set_current_context(device)
        if times is not None:
            vars(scheduler).update(times)
