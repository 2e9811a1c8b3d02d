"""Plans of training steps for devices that this machine may lack: the step is traced for them, not run."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.sharding import NamedSharding

from .._xla.x64 import X64_NAMES
from ..base import MXNetError
from ..context import Context, standing_in
from ..eager.chunk import Chunk
from ..eager.mesh_trace import without_axis
from ..eager.promise import Promise
from ..eager.trace import Trace
from ..ndarray import NDArray
from ..plan import Group, Plan, abstract, make_plan, target
from ._sharding import Sharding
from ._sharding import arrays as arrays_of
from .parameter import Parameter
from .utils import shape_is_known

if TYPE_CHECKING:
    from .train_step import TrainStep

__all__ = ["plan_of"]


class _PlannedTrace(Trace):
    """A step that is not run: values that are not computed yet are arguments with their shapes.

    ways: shardings of sharded values where they are stored and where they are used, by identity.
    """

    def __init__(self) -> None:
        super().__init__(1 << 30, trials=0)
        self.ways: dict[int, tuple[NamedSharding, NamedSharding]] = {}

    def run(self) -> None:
        if self.calls:
            raise MXNetError("plan: the step reads a value that it computes (asnumpy, a custom operator, a condition), "
                             "so it is not a single program and cannot be planned")
        super().run()

    def takes(self, pending: Promise) -> bool:
        return super().takes(pending) or type(pending) is Promise or pending.stays

    def _taken(self, pending: Promise) -> Any:
        return pending.buffer_or_none() if pending.stays else pending.get()

    def holds(self, value: Any) -> bool:
        return type(value) is Promise or super().holds(value)

    def _ways(self, values: Sequence[Any]) -> list[tuple[NamedSharding, NamedSharding] | None]:
        return [self.ways.get(id(v)) for v in values]


def plan_of(step: TrainStep, inputs: Sequence[NDArray], on: str, batch_size: int | None, mesh: Mapping[str, int] | None,
            rule: Any) -> Plan:
    """See `TrainStep.plan`."""
    devices = target(on)
    mesh = dict(mesh or {step.axis or "data": devices.count})
    axis = next(iter(mesh))
    sharding = Sharding(abstract(mesh), rule or (step.sharding.rule if step.sharding else "replicated"), axis,
                        (step.net, step.loss))
    with _imagined(step, inputs) as parameters:
        return _plan_of(step, inputs, on, batch_size, parameters, sharding, mesh)


def _plan_of(step: TrainStep, inputs: Sequence[NDArray], on: str, batch_size: int | None, parameters: list[Parameter],
             sharding: Sharding, mesh: dict[str, int]) -> Plan:
    trainer, devices = step.trainer, target(on)
    arrays = {"parameters": [p.all_arrays()[0] for p in parameters if p.grad_req != "null"],
              "optimizer states": [s for updater in trainer._updaters for state in updater.states.values()
                                   for s in arrays_of(state)],
              "auxiliary states": [p.all_arrays()[0] for p in parameters if p.grad_req == "null"],
              "inputs": list(inputs), "gradients": [g for p in parameters if p._grad for g in p._grad]}
    chunks = {name: list(dict.fromkeys(a.chunk for a in every)) for name, every in arrays.items()}
    owners = {id(_now(chunk)): (name, chunk) for name, every in chunks.items() for chunk in every}
    lying = dict(sharding.lying(trainer, parameters)) if devices.count > 1 else {}
    where = Context("gpu" if devices.device.platform == "cuda" else "tpu", 0)
    with _unchanged(trainer, [chunk for every in chunks.values() for chunk in every], where) as written, \
            standing_in(where), where:
        trace = _PlannedTrace()
        trace.ways = {id(_now(chunk)): (at, without_axis(at, next(iter(mesh)))) for chunk, at in lying.items()}
        loss = step._record(trace, step._divided(inputs), batch_size)
        function, values, replaced = trace.as_function()
        del loss  # until now it was wanted
        changed = written()
    groups: dict[tuple[str, bool], list[int]] = {}
    for place, value in enumerate(values):
        name, chunk = owners.get(id(value), ("numbers", None))
        groups.setdefault((name, chunk in changed), []).append(place)
    order = [place for places in groups.values() for place in places]
    back = [*np.argsort(order), len(order)]
    results = sorted(range(len(replaced)), key=lambda i: back[replaced[i]])  # as a trace that runs has them
    specs = [tuple(lying[chunk].spec) if (chunk := owners.get(id(v), ("", None))[1]) in lying else () for v in values]

    def program(*arguments: Any) -> list[Any]:
        outputs = function(*[arguments[i] for i in back[:-1]])
        return [outputs[i] for i in results]
    outputs = [Group(name, [jax.ShapeDtypeStruct(np.shape(values[p]), _dtype(values[p])) for p in places],
                  kept=kept, split=name == "inputs", specs=[specs[p] for p in places])
            for (name, kept), places in groups.items()]
    return make_plan(f"a step of {type(step.net).__name__} with {type(trainer.optimizer).__name__}", program, outputs,
                     on, batch=inputs[0].shape[0], x64=any(str(_dtype(v)) in X64_NAMES for v in values), mesh=mesh,
                     results=[specs[replaced[i]] if replaced[i] < len(specs) else () for i in results])


def _now(chunk: Chunk) -> Any:
    """The value of a chunk, in parts where it is, or the zeros that it will have."""
    value = chunk.peek()
    if isinstance(value, Promise) and value.stays:
        return value.buffer_or_none()
    return value if type(value) is Promise else chunk.read()


@contextlib.contextmanager
def _imagined(step: TrainStep, inputs: Sequence[NDArray]) -> Iterator[list[Parameter]]:
    """All parameters; those that have no value have zeros in the block, which take no memory, and states of them."""
    trainer, context = step.trainer, inputs[0].context
    parameters = step._params()
    if not all(shape_is_known(p.shape) for p in parameters):
        step._infer(inputs)
    missing = [p for p in parameters if p._data is None]
    kept = [(p, {name: vars(p)[name] for name in ("_data", "_grad", "_ctx_list", "_ctx_map", "_deferred_init")})
            for p in missing]
    updater = trainer._updaters[0]
    states = dict(updater.states), dict(updater.states_synced)
    prepared = trainer._kv_initialized, list(trainer._params_to_init)
    try:
        for param in missing:
            param.imagine(context)
        trainer._prepare()
        for _ in step._states():
            pass
        yield parameters
    finally:
        if missing:
            updater.states, updater.states_synced = states
            trainer._kv_initialized, trainer._params_to_init = prepared
        for param, attributes in kept:
            vars(param).update(attributes)


@contextlib.contextmanager
def _unchanged(trainer: Any, chunks: list[Chunk], where: Context) -> Iterator[Any]:
    """A block in which arrays seem to be on a device; afterwards they and the optimizer are unchanged.

    Yields a function that returns the chunks that have been written.
    """
    kept = [(chunk, chunk.ctx, chunk.peek(), chunk.version) for chunk in chunks]
    optimizer, scheduler = trainer.optimizer, trainer.optimizer.lr_scheduler
    attributes = {**vars(optimizer), "_all_index_update_counts": copy.deepcopy(optimizer._all_index_update_counts)}
    times = dict(vars(scheduler)) if scheduler is not None else None
    device = next((d for d, counts in optimizer._all_index_update_counts.items()
                   if counts is optimizer._index_update_count), 0)
    try:
        for chunk in chunks:
            chunk.ctx = where
        yield lambda: {chunk for chunk, _, value, _ in kept if chunk.peek() is not value}
    finally:
        for chunk, ctx, value, version in kept:
            later = isinstance(value, Promise)
            chunk.ctx, chunk.version = ctx, version
            chunk.buffer, chunk.pending = (None, value) if later else (value, None)
        vars(optimizer).update(attributes)
        optimizer._set_current_context(device)
        if times is not None:
            vars(scheduler).update(times)


def _dtype(value: Any) -> Any:
    return value.dtype if hasattr(value, "dtype") else jax.typeof(value).dtype  # a number of Python's
