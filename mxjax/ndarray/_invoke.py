"""Calling operators on NDArrays: the hot path, `out=`, in-place writes with donation, recording for autograd."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import jax

from ..base import MXNetError
from ..context import Context, current_context
from ..ops.kernel import Kernel, prepare, run
from ..ops.registry import Op
from ..random import next_key
from ._chunk import Chunk, Pending, transformation
from ._host import HostPending, push_kernel

__all__ = ["State", "call", "invoke", "late", "state", "wrap"]


class State(threading.local):
    """What a thread's calls depend on: recording and training mode, and the open segment of deferred calls."""

    recording = False
    training = False
    segment: Any = None


state = State()


class _Late:
    """What modules imported later provide: the class of dense arrays, and the tape's `record`."""

    array: Any = None
    record: Any = None


late = _Late()
_default_device: list[Any] = []


def on_default_device(ctx: Context) -> bool:
    """Whether a context's device is the one JAX computes on by itself."""
    if not _default_device:
        _default_device.append(jax.local_devices()[0])
    return ctx.jax_device == _default_device[0]


def call(op: Op, arrays: Sequence[Any], params: dict[str, Any], out: Any = None, ctx: Context | None = None) -> Any:
    """Calls an operator with parameters as a user gives them; used off the hot path.

    Args:
        op: the operator.
        arrays: NDArrays; None where an optional input is absent.
        params: raw parameters.
        out: NDArray or list of NDArrays to write to.
        ctx: the context, for operators without inputs.
    """
    values = op.parse(params)
    present: Any = len(arrays)
    if any(a is None for a in arrays):
        while arrays and arrays[-1] is None:
            arrays = arrays[:-1]
        present = len(arrays)
        if any(a is None for a in arrays):
            present, arrays = tuple(a is not None for a in arrays), [a for a in arrays if a is not None]
    check_inputs(op, values, len(arrays) if isinstance(present, int) else len(present), type_of(arrays))
    if op.get_attr("FHost") is not None:
        return run_host(op, values, list(arrays), out)
    kernel = prepare(op, values, present, state.training)
    return invoke(kernel, arrays, tuple(values[n] for n in kernel.dynamic), out, ctx)


def run_host(op: Op, params: dict[str, Any], arrays: list[Any], out: Any = None) -> Any:
    """Calls an operator that runs on the host."""
    results = op.get_attr("FHost")(params, arrays, arrays[0].context if arrays else current_context())
    if out is not None:
        targets = out if isinstance(out, (list, tuple)) else [out]
        for target, result in zip(targets, results, strict=True):
            target._write_result(result)
        return out
    return results[0] if len(results) == 1 else results


def type_of(arrays: Sequence[Any]) -> type:
    """The class of the results: NumPy-flavoured where an input is."""
    return next((type(a) for a in arrays if type(a) is not late.array), late.array)


def check_inputs(op: Op, params: dict[str, Any], count: int, _: Any = None) -> None:
    """Raises MXNetError where the number of inputs is not what the operator takes."""
    if op.variadic:
        return
    names = op.inputs(params)
    least = len([n for n in names if n not in op.optional_inputs]) if op.get_attr("FListInputNames") is None \
        else len(names)
    if not least <= count <= max(len(names), len(op.input_names)):
        raise MXNetError(f"operator {op.name} takes {len(names)} inputs ({', '.join(names)}), got {count}")


def invoke(kernel: Kernel, arrays: Sequence[Any], extras: tuple = (), out: Any = None,
           ctx: Context | None = None) -> Any:
    """Runs a kernel on NDArrays and returns an NDArray, or a list where it has several visible outputs."""
    wide, missing, born = kernel.wide, False, None
    args: list[Any] = []
    for a in arrays:
        chunk = a._chunk
        wide = wide or chunk.wide
        born = born or chunk.born
        if a._view is None and chunk.pending is None:
            args.append(chunk.buffer)
        else:
            args.append(None)
            missing = True
    if arrays:
        ctx = arrays[0]._chunk.ctx
    elif ctx is None:
        ctx = current_context()
    failure = None
    if kernel.check is not None:
        failure = kernel.check({**kernel.params, **dict(zip(kernel.dynamic, extras, strict=True))})
    if kernel.uses_key:
        extras += next_key(ctx)
    if state.segment is not None and not kernel.eager and failure is None and state.segment.accepts(ctx):
        return state.segment.add(kernel, arrays, extras, out, ctx, wide)
    waiting = missing and _fill(args, arrays) or failure is not None
    args += extras
    target = out if out is None or isinstance(out, (list, tuple)) else (out,)
    if waiting:
        return finish(kernel, arrays, args, push_kernel(kernel, args, wide, ctx, failure), target, ctx)
    if target is None and arrays and kernel.num_outputs == 1 and not kernel.mutated:  # the usual case, shortest
        result = wrap(run(kernel, args, wide)[0], ctx, type(arrays[0]))
        result._chunk.born = born
        if state.recording:
            late.record(kernel, arrays, args, (result,))
        return result
    donated = ()
    if (target is not None or kernel.mutated) and not state.recording:
        donated = _donations(kernel, arrays, args, target)
    if not arrays:
        born = transformation()
    if arrays or on_default_device(ctx):
        outputs = run(kernel, args, wide, kernel.donating(donated) if donated else None)
    else:
        with jax.default_device(ctx.jax_device):
            outputs = jax.device_put(run(kernel, args, wide), ctx.jax_device)
    return finish(kernel, arrays, args, outputs, target, ctx, born)


def _fill(args: list[Any], arrays: Sequence[Any]) -> bool:
    """Reads the values that are not there as plain buffers; host work in flight is not waited for (then: True)."""
    waiting = False
    for i, a in enumerate(args):
        if a is None:
            pending = arrays[i]._chunk.pending
            if arrays[i]._view is None and isinstance(pending, HostPending) and pending.value is None:
                args[i], waiting = pending, True
            else:
                args[i] = arrays[i]._read()
    return waiting


def finish(kernel: Kernel, arrays: Sequence[Any], args: list[Any], outputs: Sequence[Any], target: Any,
           ctx: Context, born: Any = None) -> Any:
    """Writes mutated inputs, wraps or writes the outputs, records the call. Values may be buffers or Pending."""
    for position, value in zip(kernel.mutated, outputs[kernel.num_outputs:], strict=True):
        arrays[position]._write(value)
    kind = type(arrays[0]) if arrays else None
    results = [wrap(value, ctx, kind) for value in outputs[:kernel.num_outputs]]
    for result in results if born is not None else ():
        result._chunk.born = born
    if state.recording and arrays:
        late.record(kernel, arrays, args, results)
    results = results[:kernel.num_visible]
    if target is not None:
        if len(target) < len(results):
            raise MXNetError(f"operator {kernel.name}: out has {len(target)} arrays, {len(results)} are needed")
        for given, result in zip(target, results, strict=False):
            if given._entry is not None and state.recording and given._entry[0].grad is not None:
                raise MXNetError(f"operator {kernel.name}: out= an array with attach_grad() while recording")
            given._write_result(result)
        return target[0] if len(results) == 1 else list(target)
    return results[0] if len(results) == 1 else results


def _donations(kernel: Kernel, arrays: Sequence[Any], args: list[Any], target: Any) -> tuple[int, ...]:
    """Positions of the arguments that are about to be overwritten and that nobody else holds."""
    overwritten = {id(arrays[i]._chunk) for i in kernel.mutated}
    overwritten.update(id(t._chunk) for t in target or ())
    if kernel.eager:
        return ()
    chosen, seen = [], []
    for i, a in enumerate(arrays):
        chunk = a._chunk
        if id(chunk) in overwritten and a._view is None:
            args[i] = None
            if not any(c is chunk for c in seen) and chunk.sole():
                chosen.append(i)
            args[i] = chunk.buffer
        seen.append(chunk)
    if len({id(c) for c in seen}) != len(seen):
        chosen = [i for i in chosen if sum(c is arrays[i]._chunk for c in seen) == 1]
    return tuple(chosen)


def wrap(value: Any, ctx: Context, kind: type | None = None) -> Any:
    """A new array handle for a buffer or Pending."""
    if kind is None or not kind._plain:
        kind = late.array
    array = kind.__new__(kind)
    array._chunk = Chunk(None, ctx, value) if isinstance(value, Pending) else Chunk(value, ctx)
    array._view = array._entry = array._grad = None
    return array

