"""Operator calls on arrays: the hot path, `out=`, in-place writes with donation, recording for autograd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from .._random.streams import next_key, on_host, source
from .._xla.capacity import refuse_result
from .._xla.transfer import moved
from ..base import MXNetError
from ..context import Context, accelerators, as_context, current_context
from ..kernel.ahead import Later, compiling
from ..kernel.derivative import derivative_of
from ..kernel.kernel import USER_MISTAKES, Kernel, mistake, never, prepare, run, watched
from ..ops.registry import Op
from .array_types import array_classes, wrap
from .chunk import Chunk, exclusive, transformation
from .deferred_call import DeferredCall, after, may_wait
from .handle import Handle
from .host_work import HostPromise, push_kernel, waits_for_compiler
from .modes import state
from .program import Target, run_into
from .promise import HostValue, Promise, on_default_device, on_devices, put
from .state_updates import StateUpdate, as_outputs, fixed_places, set_to
from .tape import Node, entries, record

__all__ = ["call", "change", "invoke", "perform", "stored_as_asked", "together",
           "waiting_value"]


def call(op: Op, arrays: Sequence[Any], params: dict[str, Any], out: object = None, ctx: Context | None = None) -> Any:
    """Calls an operator with raw user parameters; not for the hot path.

    Args:
        op: the operator.
        arrays: NDArrays; None for absent optional inputs.
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
    check_inputs(op, values, len(arrays))
    if op.get_attr("FHost") is not None:
        return run_host(op, values, list(arrays), out)
    kernel = prepare(op, values, present, state.training, pack=True)
    result = invoke(kernel, arrays, kernel.extras(values, any([a.chunk.x64 for a in arrays])), out, as_context(ctx))
    return stored_as_asked(op, values, result) if out is None else result


def run_host(op: Op, params: dict[str, Any], arrays: list[Any], out: object = None) -> Any:
    """Calls an operator that runs on the host, and records the call if a graph is being recorded."""
    if state.recorder is not None:
        return state.recorder.on_host(op, params, arrays, lambda: run_host(op, params, arrays), out)
    try:
        results = op.get_attr("FHost")(params, arrays, arrays[0].context if arrays else current_context())
    except MemoryError as error:
        raise mistake(op.name, arrays, error) from error
    return handed(op.name, results, out)


def stored_as_asked(op: Op, params: dict[str, Any], result: Any) -> Any:
    """Converts the result of a call to the storage type that its parameters request (FStored), if any."""
    asked = op.get_attr("FStored", never)(params)
    if not asked or result.stype == asked:
        return result
    return (result if result.dense else result.tostype("default")).tostype(asked)


def handed(name: str, results: Sequence[Any], out: Any) -> Any:
    """Returns the results of a call to its caller: a single result by itself, several as a list; or
    `out`, after writing them to it.

    Raises:
        MXNetError: `out` has another number of arrays than there are results.
    """
    if out is None:
        return results[0] if len(results) == 1 else results
    targets = out if isinstance(out, (list, tuple)) else [out]
    if len(targets) != len(results):
        raise MXNetError(f"{name}: out has {len(targets)} arrays, expected {len(results)}")
    for target, result in zip(targets, results, strict=True):
        target.take_result(result)
    return out


def type_of(arrays: Sequence[Any]) -> type:
    """Returns the class of the results: `mx.np.ndarray` if an input is one."""
    return next((type(a) for a in arrays if type(a) is not array_classes.classic), array_classes.classic)


def check_inputs(op: Op, params: dict[str, Any], count: int) -> None:
    """Raises MXNetError if the operator does not accept this number of inputs."""
    if op.variadic and not op.get_attr("own_count"):
        op.require_arrays(count)
        return
    names = op.inputs(params)
    if op.variadic:
        if not len(names) <= count <= len(names) + op.get_attr("FTakesOut", never)(params):
            raise MXNetError(f"operator {op.name}: {op.variadic}={params[op.variadic]} requires {len(names)} arrays "
                             f"({', '.join(names)}), got {count}")
        return
    least = len([n for n in names if n not in op.optional_inputs]) if op.get_attr("FListInputNames") is None \
        else len(names)
    if not least <= count <= len(names):
        raise MXNetError(f"operator {op.name} expects {len(names)} inputs ({', '.join(names)}), got {count}")


_SEVERAL: tuple[type, ...] = (list, tuple)  # types of `out` for several results
on_call: Callable[..., tuple] | None = None  # mixed precision: changes kernel, arrays and extras of operators' calls


def invoke(kernel: Kernel, arrays: Sequence[Any], extras: tuple = (), out: Any = None,
           ctx: Context | None = None) -> Any:
    """Runs a kernel on NDArrays and returns an NDArray, or a list if it has several visible outputs."""
    if on_call is not None and kernel.op is not None and ctx is None:  # steps of graphs have a context
        kernel, arrays, extras = on_call(kernel, arrays, extras)
    if state.recorder is not None:
        return state.recorder.call(kernel, arrays, extras, out, ctx)
    if accelerators and len(arrays) > 1 and kernel.op is not None:
        together(kernel.name, arrays)
    if kernel.mutated or out is not None:
        if kernel.in_place is not None and arrays[0] is (out[0] if isinstance(out, _SEVERAL) else out):
            kernel = kernel.in_place
        if type(out) is array_classes.classic and kernel.simple and out.region is None and out.entry is None and \
                arrays and not state.recording and state.trace is None and _into(kernel, arrays, extras, out):
            return out
        if kernel.mutated and kernel.op is not None and kernel.op.get_attr("FDecay") is not None:
            return _with_states(kernel, arrays, extras, out, ctx)
        return _change(kernel, arrays, extras, out, ctx)
    x64, missing, origin_trace = kernel.x64, False, None
    args: list[Any] = []
    for a in arrays:
        chunk = a.chunk
        if chunk.x64:
            x64 = True
        if chunk.origin_trace is not None:
            origin_trace = chunk.origin_trace
        value = chunk.buffer
        if value is None:
            value = chunk.pending
            if type(value) is not HostValue:
                value = None
                missing = True
        if a.region is not None and value is not None:
            value = a.at_hand()
            missing = missing or value is None
        args.append(value)
    if kernel.simple and not missing and arrays and state.trace is None:  # the usual case, shortest
        args += extras
        results: Sequence[Any] | None = None
        try:
            results = run(kernel, args, x64, None, None, True, True)
        except Later:
            pass
        if results is None:
            results = push_kernel(kernel, args, x64, arrays[0].chunk.ctx, compiles=True)
        result = wrap(results[0], arrays[0].chunk.ctx, type(arrays[0]))
        result.chunk.origin_trace = origin_trace
        if state.recording:
            record(kernel, arrays, args, (result,))
        return result
    if missing and not all([a.dense for a in arrays]):
        result = _sparse_form(arrays)(kernel, arrays, extras, None)
        if result is not None:
            return result
    return _general(kernel, arrays, args, extras, None, ctx, x64, origin_trace, missing)


def together(name: str, arrays: Sequence[Any]) -> None:
    """Rejects a mix of host and accelerator arrays, as MXNet does; JAX would compute on one of the two.

    Raises:
        MXNetError: the arrays are mixed.
    """
    first = arrays[0].chunk.ctx
    for i, array in enumerate(arrays):
        ctx = array.chunk.ctx
        if ctx is not first and ctx.memory != first.memory:
            raise MXNetError(f"operator {name}: all inputs must be on one kind of device; input 0 is on {first}, "
                             f"input {i} on {ctx} (`as_in_context` copies an array to another device)")


def overwrite(kernel: Kernel, arrays: Sequence[Any], extras: tuple, targets: Sequence[Any] = ()) -> bool:
    """Runs a kernel whose results all replace the values of arguments and reuse their memory, as in a typical update.

    Args:
        kernel, extras: the kernel and its extra arguments.
        arrays: its array arguments; those at `kernel.mutated` receive the results that follow the
            outputs.
        targets: arguments that receive the outputs.

    Returns:
        True if the call is complete; False without any effect otherwise.
    """
    if state.trace is not None or state.recording or not kernel.direct or len(targets) != kernel.num_outputs:
        return False
    chunks = []
    for target in targets:
        entry = target.entry
        if target.region is not None or entry is not None and entry[0].grad is None:
            return False
        chunks.append(target.chunk)
    for place in kernel.mutated:
        chunks.append(arrays[place].chunk)
    taken = frozenset(chunks)
    with exclusive(chunks):
        args: list[Any] = []
        places: dict[Chunk, int] = {}
        x64, ctx, value, later = kernel.x64, arrays[0].chunk.ctx, None, False
        for array in arrays:
            chunk = array.chunk
            value = chunk.buffer
            if value is None:
                value = chunk.stash if chunk in taken else chunk.pending
            if value is None or array.region is not None or \
                    isinstance(value, (Promise, Tracer)) and type(value) is not HostValue or \
                    chunk.ctx is not ctx and chunk.ctx != ctx:
                if array.region is not None or chunk.ctx != ctx or not waits_for_compiler(value):
                    return False
                later = True
            if chunk.x64:
                x64 = True
            places[chunk] = -1 if chunk in places else len(args)
            args.append(value)
        for chunk in chunks:
            if chunk not in places or not chunk.hides:
                return False
        del value
        args += extras
        replaced: list[Target] = []
        for k, chunk in enumerate(chunks):
            if places[chunk] < 0:  # read twice, so the replaced argument is ambiguous
                return False
            replaced.append((chunk, places[chunk], k))
        run_into(kernel, args, x64, replaced, finish, (arrays, targets or None, ctx), later=later)
    return True


def _change(kernel: Kernel, arrays: Sequence[Any], extras: tuple, out: Any, ctx: Context | None) -> Any:
    """Performs `invoke` for calls that replace the values of arrays, which no other thread reads or changes
    meanwhile."""
    target = out if out is None or isinstance(out, (list, tuple)) else (out,)
    if target is not None:
        _check_targets(kernel, target)
    if target is not None and arrays and overwrite(kernel, arrays, extras, target):
        return target[0] if len(target) == 1 else list(target)
    if kernel.draw is not None and kernel.op.get_attr("draws_by_value"):
        settle(arrays)  # threads must not wait for values while they lock arrays
    chunks = [arrays[i].chunk for i in kernel.mutated]
    wholes = []  # values that are written in parts must exist
    for t in target or ():
        chunks.append(t.chunk)
        if t.region is not None:
            wholes.append(t.chunk)
    taken = frozenset(chunks)
    while True:
        with exclusive(chunks) as scope:
            args, x64, origin_trace, ready, missing, sparse = [], kernel.x64, None, True, False, False
            for a in arrays:
                chunk = a.chunk
                if chunk.x64:
                    x64 = True
                if chunk.origin_trace is not None:
                    origin_trace = chunk.origin_trace
                value = None
                if a.region is None:
                    value = chunk.buffer
                    if value is None:
                        value = chunk.pending
                        if value is None and chunk in taken:
                            value = chunk.seen()
                if value is None or isinstance(value, Promise) and type(value) is not HostValue:
                    missing = True
                    if value is None or value.value is not None and not value.stays or not _passed_on(value):
                        value = glimpse(scope, a, _passed_on)
                    if value is _ELSEWHERE:
                        ready = False
                    elif value is None:
                        sparse = True
                args.append(value)
            if sparse and ready:  # a sparse form may reuse the arrays' memory
                value = None
                args.clear()
                result = _sparse_form(arrays)(kernel, arrays, extras, out)
                if result is not None:
                    return result
                args = [glimpse(scope, a, _passed_on) for a in arrays]
                ready = _all_there(args)
            if ready and not (wholes and any([isinstance(scope.glimpse(c), Promise) for c in wholes])):
                value = None
                return _general(kernel, arrays, args, extras, target, ctx, x64, origin_trace, missing)
        _wait(arrays, wholes)


def _wait(arrays: Sequence[Any], chunks: Sequence[Chunk]) -> None:
    """Waits for values of arrays that cannot be passed to a call while pending, and for those of chunks."""
    settle(arrays, _passed_on)
    for chunk in chunks:
        chunk.read()


def _check_targets(kernel: Kernel, targets: Sequence[Any]) -> None:
    for target in targets:
        if not isinstance(target, array_classes.classic):
            raise TypeError(f"operator {kernel.name}: out= must be an NDArray, got {type(target).__name__}")


def _all_there(args: Sequence[Any]) -> bool:
    """Returns whether no argument is a value that another thread is changing."""
    return not any(value is _ELSEWHERE for value in args)


def _with_states(kernel: Kernel, arrays: Sequence[Any], extras: tuple, out: object, ctx: Context | None) -> Any:
    """Performs `invoke` of an operator whose states change in the backward pass on CPUs (FDecay)."""
    for place, number in fixed_places(kernel):
        set_to(arrays[place], number)
    if not on_host(arrays[0].chunk.ctx):
        return _change(kernel, arrays, extras, out, ctx)
    states = [(arrays[i], arrays[i].chunk.peek() if arrays[i].region is None else arrays[i].read())
              for i in kernel.mutated]
    results = invoke(as_outputs(kernel), arrays, extras, None, ctx or arrays[0].chunk.ctx)
    entry = results[0].entry
    if entry is not None and state.recording and state.training and kernel.op.trains(kernel.params):
        state_update, decay = StateUpdate(), kernel.op.get_attr("FDecay")({**kernel.params, **kernel.numbers(extras)})
        for (array, old), new in zip(states, results[kernel.num_outputs:], strict=True):
            state_update.add(array, old, new.chunk.peek(), decay)
        entry[0].state_update = state_update
    return handed(kernel.name, results[:kernel.num_visible], out)


def change(targets: Sequence[Any], sources: Sequence[Any], step: Callable[[list[Any]], Any],
           passed_on: Callable[[Promise], bool] | None = None) -> Any:
    """Runs a step that changes arrays atomically: no other thread reads or changes them meanwhile.

    Args:
        targets: the arrays that `step` writes.
        sources: the arrays that it reads.
        step: function of the sources' buffers that returns the result; it may write the targets,
            but must not wait.
        passed_on: values that may stay Promises.
    """
    chunks = [t.chunk for t in targets]
    wholes = [t.chunk for t in targets if t.region is not None]  # values that are written in parts must exist
    while True:
        with exclusive(chunks) as scope:
            values = [glimpse(scope, a, passed_on) for a in sources]
            if not any([v is _ELSEWHERE for v in values]) and \
                    not any([isinstance(scope.glimpse(c), Promise) for c in wholes]):
                on_devices(values)
                return step(values)
            values.clear()
        settle(sources, passed_on)
        for chunk in wholes:
            chunk.read()


_ELSEWHERE = object()  # marks a value that must be waited for, but not while arrays are changed


def glimpse(scope: exclusive, array: Handle, passed_on: Callable[[Promise], bool] | None = None) -> Any:
    """Returns the value of an array that a change reads: a buffer, a value of the host, a Promise if it may be
    passed on, or _ELSEWHERE.

    For sparse arrays it returns None; they are read when needed.
    """
    if not array.dense:
        return None
    version = array.chunk.version
    value = scope.glimpse(array.chunk)
    if isinstance(value, Promise) and type(value) is not HostValue:
        passes = array.region is None and (value.value is None or value.stays) and passed_on is not None and \
            passed_on(value)
        if passes or value.value is None:
            return value if passes else _ELSEWHERE
        value = value.value
    return _ELSEWHERE if value is None else array.seen_in(value, version)


def waiting_value(array: Handle, passed_on: Callable[[Promise], bool]) -> Any:
    """Returns the value of an array: its buffer, or a Promise if it may be passed on."""
    if array.region is None:
        value = array.chunk.peek()
        if not isinstance(value, Promise) or (value.value is None or value.stays) and passed_on(value):
            return value
    return array.read()


def settle(arrays: Sequence[Any], passed_on: Callable[[Promise], bool] | None = None) -> None:
    """Waits for values that other threads were changing."""
    for a in arrays:
        if a.dense:
            value = a.chunk.peek()
            if isinstance(value, Promise) and not (a.region is None and passed_on is not None and passed_on(value)):
                a.chunk.read()


def _passed_on(pending: Promise) -> bool:
    """Returns whether a call need not wait for a value: the engine's, or the open trace's own."""
    if state.trace is not None:
        return state.trace.takes(pending)
    return isinstance(pending, HostPromise) and (not pending.compiles or compiling())


def _general(kernel: Kernel, arrays: Sequence[Any], args: list[Any], extras: tuple, target: Sequence[Handle] | None,
             given_ctx: Context | None, x64: bool, origin_trace: object, missing: bool) -> Any:
    """Handles unusual cases of `invoke`; `args` are the buffers of the arrays, unless some are `missing`."""
    ctx: Context = arrays[0].chunk.ctx if arrays else current_context() if given_ctx is None else given_ctx
    if missing and state.recording and target is None and kernel.simple and not kernel.eager and kernel.op is not None:
        result = _after_graph(kernel, arrays, args, extras, ctx, x64)
        if result is not None:
            return result
    failure, params = None, None
    if kernel.check is not None or kernel.draw is not None:
        params = {**kernel.params, **kernel.numbers(extras)}
    if kernel.check is not None:
        failure = kernel.check(params)
    if kernel.uses_key:
        drawn = _draw(kernel, params, arrays, args, ctx) if kernel.draw is not None and failure is None else None
        if drawn is not None and not arrays:
            return finish(kernel, (), [drawn], (), target, ctx, transformation())
        extras += next_key(ctx) if drawn is None else (drawn,)
    on_the_host = failure is not None or kernel.refuses is not None and \
        not any(isinstance(a, Tracer) for a in args)
    if state.trace is not None and not kernel.eager and not on_the_host and state.trace.accepts(ctx):
        return _deferred(state.trace, kernel, arrays, args, extras, target, ctx, x64)
    waiting = missing and _fill(args, arrays, target is not None or bool(kernel.mutated)) or on_the_host
    args += extras
    replaced = _replaced_values(kernel, arrays, target) \
        if (target is not None or kernel.mutated) and not state.recording and arrays else []
    later = bool(replaced) and not on_the_host and any([waits_for_compiler(a) for a in args])
    if waiting and not later:
        return finish(kernel, args, push_kernel(kernel, args, x64, ctx, failure), arrays, target, ctx)
    if replaced:
        return run_into(kernel, args, x64, replaced, finish, (arrays, target, ctx, origin_trace), True, (), later)
    if not arrays:
        origin_trace = transformation()
    if arrays:
        outputs = perform(kernel, args, ctx, x64)
    elif on_default_device(ctx):
        outputs = run(kernel, args, x64)
    else:
        with jax.default_device(ctx.jax_device):
            outputs = [moved(value, ctx.jax_device) for value in run(kernel, args, x64)]
    return finish(kernel, args, outputs, arrays, target, ctx, origin_trace)


def _after_graph(kernel: Kernel, arrays: Sequence[Any], args: Sequence[Any], extras: tuple, ctx: Context,
                 x64: bool) -> Any:
    """Adds a call on results of a pending graph run to its program, so that it includes the loss.

    None: there are no such results, or they belong to several runs.
    """
    root = after(arrays)
    parents = entries(arrays) if root is not None else []
    if not any(parents) or kernel.by_rows and parents[1] is not None and parents[1][0].by_rows:
        return None
    values = [waiting_value(a, may_wait) if v is None else v for v, a in zip(args, arrays, strict=True)]
    values += extras
    parents += [None] * len(extras)
    specs = kernel.specs(values, True)
    derivative = derivative_of(kernel, tuple([p is not None for p in parents]))
    lazy = DeferredCall(derivative, values, specs, ctx, x64, root=root)
    result = wrap(lazy.results[0], ctx, type(arrays[0]))
    result.entry = Node(None, (), parents, specs, ctx, None, lazy), 0
    return result


def _sparse_form(arrays: Sequence[Any]) -> Callable[..., Any]:
    """Returns the function that tries an operator on sparse arrays as such.

    It is called as function(kernel, arrays, extras, out), and returns None if there is no sparse form.
    """
    return next(a for a in arrays if not a.dense).call_stored


def _deferred(trace: Any, kernel: Kernel, arrays: Sequence[Any], args: list[Any], extras: tuple,
              target: Sequence[Handle] | None, ctx: Context, x64: bool) -> Any:
    """Adds the call to a trace; `args` are values that are known already."""
    args = [v if v is not None else a.chunk.peek() if a.region is None else a.read()
            for v, a in zip(args, arrays, strict=True)]
    lent = [v for v, a in zip(args, arrays, strict=True) if a.chunk.lent]
    args += extras
    outputs = trace.defer(kernel, args, ctx, x64, lent)
    result = finish(kernel, args, outputs, arrays, target, ctx)
    del outputs, args
    if len(trace.calls) >= trace.size:
        trace.run()
    return result


def _draw(kernel: Kernel, params: dict[str, Any], arrays: Sequence[Any], args: Sequence[Any],
          ctx: Context) -> jax.Array | None:
    """Returns the numbers that a call draws on the host; None if it draws nothing, or JAX must draw."""
    if not on_host(ctx) or any([isinstance(a, Tracer) for a in args]):
        return None
    try:
        for name in ("shape", "size"):
            shape = params.get(name)
            if not isinstance(shape, float):  # gamma's shape is a number
                refuse_result((shape,) if isinstance(shape, int) else shape or (), np.float64)
        by_value = kernel.op.get_attr("draws_by_value")
        inputs = [np.asarray(v if isinstance(v, jax.Array) else a.read()) if by_value else
                  jax.ShapeDtypeStruct(a.shape, a.chunk.dtype) for v, a in zip(args, arrays, strict=True)]
        values = watched(kernel.name, kernel.draw, "imperative")(source, params, inputs)
    except (MXNetError, *USER_MISTAKES) as error:
        raise mistake(kernel.name, [], error) from None
    return None if values is None else put(values, ctx)


def perform(kernel: Kernel, args: list[Any], ctx: Context, x64: bool) -> Sequence[Any]:
    """Runs a kernel on buffers or Promise values, or defers it if a trace is open."""
    if state.trace is not None and not kernel.eager and state.trace.accepts(ctx):
        return state.trace.defer(kernel, args, ctx, x64)
    if any([waits_for_compiler(a) for a in args]):
        return push_kernel(kernel, args, x64, ctx)
    args = [a.get() if isinstance(a, Promise) and type(a) is not HostValue else a for a in args]
    try:
        return run(kernel, args, x64, None, None, True, True)
    except Later:
        pass
    return push_kernel(kernel, args, x64, ctx, compiles=True)


def _fill(args: list[Any], arrays: Sequence[Any], changes: bool) -> bool:
    """Reads pending values as buffers, without waiting for host work; returns True if there is any.

    It waits for values that only wait for compilation: separate calls would take the engine longer. It never waits in a
    call that changes arrays, because these are locked.
    """
    waiting = False
    for i, a in enumerate(args):
        if a is None and arrays[i].region is None:
            a = arrays[i].chunk.peek()
        if isinstance(a, HostPromise) and a.value is None and (not a.compiles or compiling() or changes):
            args[i], waiting = a, True
        elif a is None:
            args[i] = arrays[i].read()
        else:
            args[i] = a.get() if isinstance(a, Promise) and type(a) is not HostValue else a
    return waiting


def finish(kernel: Kernel, args: Sequence[Any], outputs: Sequence[Any], arrays: Sequence[Any],
           target: Sequence[Handle] | None, ctx: Context, origin_trace: object = None) -> Any:
    """Writes mutated inputs, wraps or writes the outputs, records the call. Values may be buffers or Promise."""
    for position, value in zip(kernel.mutated, outputs[kernel.num_outputs:], strict=True):
        arrays[position].write(value)
    if target is not None and kernel.num_visible == len(target) and not state.recording and \
            all([_replaced(array, value, ctx) for array, value in zip(target, outputs, strict=False)]):
        return target[0] if len(target) == 1 else list(target)
    array_type = type(arrays[0]) if arrays else None
    results = [wrap(value, ctx, array_type) for value in outputs[:kernel.num_outputs]]
    for result in results if origin_trace is not None else ():
        result.chunk.origin_trace = origin_trace
    if state.recording and arrays:
        record(kernel, arrays, args, results)
    results = results[:kernel.num_visible]
    if target is not None:
        if len(target) < len(results):
            raise MXNetError(f"operator {kernel.name}: out has {len(target)} arrays, expected {len(results)}")
        for array, result in zip(target, results, strict=False):
            if array.entry is not None and state.recording and array.entry[0].grad is not None:
                raise MXNetError(f"operator {kernel.name}: out= an array with attach_grad() while recording")
            array.take_result(result)
        return target[0] if len(results) == 1 else list(target)
    return results[0] if len(results) == 1 else results


def _replaced(target: Handle, value: Any, ctx: Context) -> bool:
    """Returns whether a result became the value of `target` without conversion, the usual case of `out=`."""
    chunk, view = target.chunk, target.region
    if type(target) is not array_classes.classic or target.entry is not None or chunk.ctx is not ctx:
        return False
    old = chunk.seen()  # this thread has its lock
    if value.dtype != old.dtype or value.shape != (old.shape if view is None else view[1]):
        return False
    if view is not None:
        target.write(value)
    elif isinstance(value, Promise):
        chunk.defer(value)
    else:
        chunk.write(value)
    return True


def _into(kernel: Kernel, arrays: Sequence[Any], extras: tuple, out: Any) -> bool:
    """Runs a simple kernel whose result replaces the value of `out`; returns False if more is necessary."""
    chunk = out.chunk
    with chunk.lock:
        old = chunk.buffer
        if old is None:
            old = chunk.pending
            if type(old) is not HostValue:
                return False
        # taken before any read, so that a thread which changes an input from `out` meanwhile must wait
        chunk.stash, chunk.buffer, chunk.pending = old, None, None
        try:
            x64, place, again = kernel.x64, -1, False
            args: list[Any] = []
            for a in arrays:
                source = a.chunk
                if source.x64:
                    x64 = True
                value = None
                if a.region is None:
                    value = source.buffer
                    if value is None:
                        value = source.pending
                        value = value if type(value) is HostValue else None
                if source is chunk:
                    place, again = len(args), place >= 0
                    value = old if a.region is None else None
                if value is None:
                    return False
                args.append(value)
            args += extras
            old = value = None
            ctx = arrays[0].chunk.ctx
            run_into(kernel, args, x64, ((chunk, -1 if again else place, 0),), finish, (arrays, (out,), ctx),
                     chunk.ctx is not ctx)
        finally:
            chunk.put_back()
    return True


def _replaced_values(kernel: Kernel, arrays: Sequence[Any], target: Sequence[Handle] | None) -> list[Target]:
    """Returns which results replace the values of locked chunks; an argument's value only if it is read once and as a
    whole.
    """
    results = {arrays[i].chunk: kernel.num_outputs + k for k, i in enumerate(kernel.mutated)}
    results.update({t.chunk: k for k, t in enumerate(target or ())})
    targets = []
    for chunk, index in () if kernel.eager else results.items():
        places = [i for i, a in enumerate(arrays) if a.chunk is chunk]
        if len(places) == 1 and arrays[places[0]].region is None and chunk.stash is not None:
            targets.append((chunk, places[0], index))
    return targets
