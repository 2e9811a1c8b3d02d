"""`mx.nd.<operator>`: arguments as users give them, to kernels, without parsing on the hot path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._namespace import document, give_methods, signature
from ..base import _Null
from ..context import as_context, one_context
from ..eager.call_cache import CachedCall, prepared
from ..eager.dispatch import call_host, check_inputs, invoke, stored_as_asked
from ..eager.modes import state
from ..kernel.kernel import Kernel, never, prepare
from ..kernel.policy import VARIED_SLICES
from ..ops.method_names import METHODS
from ..ops.params import argument
from ..ops.registry import Op
from . import indexing
from .creation import split_v2
from .dense import NDArray

__all__ = ["make"]

def make(op: Op, name: str) -> Callable[..., Any]:
    """The imperative function of an operator."""
    inputs = op.input_names

    def function(*args: Any, out: Any = None, name: str | None = None, **kwargs: Any) -> Any:
        count = 0
        for a in args:
            if not isinstance(a, NDArray):
                break
            count += 1
        arrays, rest = args[:count], args[count:]
        key = None
        if count:
            key = (op, count, rest, _form(kwargs, op.dynamic_names), state.training)
            try:
                found = prepared.get(key)
            except TypeError:  # an unhashable argument, such as a list
                found = key = None
            if found is not None:
                kernel, extras, numbers = found
                if numbers is not None:
                    extras = _extras(kernel, numbers, kwargs, arrays)
                return invoke(kernel, arrays, extras, out)
        return _general(op, inputs, key, arrays, rest, out, kwargs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = document(op)
    function.__signature__ = signature(op)
    return function


def _form(kwargs: dict[str, Any], dynamic: frozenset[str]) -> tuple:
    """Returns the part of the keyword arguments that identifies a kernel.

    Of those that are arguments of the program it has only the type.
    """
    if dynamic.isdisjoint(kwargs):
        return tuple(kwargs.items())
    return tuple([(k, v) if k not in dynamic else (k, len(v) if type(v) in (tuple, list) else type(v))
                  for k, v in kwargs.items()])


def _extras(kernel: Kernel, numbers: list[tuple[str, Any]], kwargs: dict[str, Any], arrays: tuple) -> tuple:
    wide = any([a._chunk.wide for a in arrays])
    given = {name: kwargs.get(name, default) for name, default in numbers}
    return kernel.extras({k: argument(v) if type(v) is float else v for k, v in given.items()}, wide)


def _general(op: Op, inputs: list[str], key: Any, arrays: tuple, rest: tuple, out: Any,
             kwargs: dict[str, Any]) -> Any:
    """The way of a call seen for the first time, or with inputs by name, or with dynamic parameters."""
    if rest and op.variadic and not arrays and isinstance(rest[0], (list, tuple)):
        arrays, rest = tuple(rest[0]), rest[1:]
    ctx = kwargs.pop("ctx", None) if not inputs and not op.variadic else kwargs.get("ctx")
    if "device" in kwargs and "device" not in op.params:
        ctx = one_context(op.name, kwargs, ctx)
        if inputs or op.variadic:
            kwargs["ctx"] = ctx
    given: list[Any] = list(arrays)
    names = inputs if not op.variadic else inputs[:len(inputs)]
    for value in rest[:max(len(names) - len(given), 0)]:
        if value is not None:
            raise TypeError(f"operator {op.name}: input {names[len(given)]} must be an NDArray, got "
                            f"{type(value).__name__}")
        given.append(None)
    rest = rest[max(len(given) - len(arrays), 0):]
    named = {n: kwargs.pop(n) for n in names if n in kwargs and n not in op.params or
             isinstance(kwargs.get(n), NDArray)}
    if named:
        for position, n in enumerate(names):
            if n in named:
                given += [None] * (position + 1 - len(given))
                if given[position] is not None:
                    raise TypeError(f"operator {op.name}: input {n} is given twice")
                if named[n] is not None and not isinstance(named[n], NDArray):
                    raise TypeError(f"operator {op.name}: input {n} must be an NDArray, got {type(named[n]).__name__}")
                given[position] = named[n]
        key = None
    elif op.variadic and inputs == []:
        extra = [n for n in kwargs if isinstance(kwargs[n], NDArray)]
        given += [kwargs.pop(n) for n in sorted(extra, key=_argument_number)]
    params = list(op.params)
    if out is None and not op.variadic and not op.get_attr("opaque"):
        # `out` is the first argument after the parameters, and `name` the second
        if len(rest) > len(params):
            out, key, rest = rest[len(params)], None, rest[:len(params)] + rest[len(params) + 2:]
        elif not params and len(given) == len(names) + 1:
            out, key = given.pop(), None
    if len(rest) > len(params):
        raise TypeError(f"operator {op.name} takes at most {len(names) + len(params)} positional arguments")
    for n, value in zip(params, rest, strict=False):
        if n in kwargs:
            raise TypeError(f"operator {op.name}: parameter {n} is given twice")
        kwargs[n] = value
    for unknown in ("attr", "__layout__"):
        kwargs.pop(unknown, None)
    if op.variadic in op.params and not op.get_attr("own_count"):
        kwargs.setdefault(op.variadic, len(given))
    values = op.parse({k: v for k, v in kwargs.items() if v is not _Null})
    if out is not None and op.get_attr("FTakesOut", never)(values):
        given, key = [*given, *(out if isinstance(out, (list, tuple)) else [out])], None
    while given and given[-1] is None:
        given.pop()
    present: Any = len(given)
    if None in [None if g is None else 0 for g in given]:
        present = tuple(g is not None for g in given)
        given = [g for g in given if g is not None]
    bad = next((g for g in given if not isinstance(g, NDArray)), None)
    if bad is not None:
        raise TypeError(f"operator {op.name}: inputs must be NDArrays, got {type(bad).__name__}")
    check_inputs(op, values, len(given))
    if op.get_attr("FHost") is not None:
        return call_host(op, values, given, out)
    part = op.get_attr("FPart")
    if part is not None and len(op.kernels) >= VARIED_SLICES and given[0].stype == "default":
        cut = indexing.plan(part(values, given[0].shape), given[0].shape)
        if cut.kind == "box":
            return invoke(indexing.read_kernel("box", cut.shape, cut.sizes, (), 0), given, cut.starts, out)
    kernel = prepare(op, values, present, state.training, pack=True)
    extras = kernel.extras(values, any([a._chunk.wide for a in given]))
    if op.get_attr("FStored", never)(values):
        return invoke(kernel, given, extras, out) if out is not None else \
            stored_as_asked(op, values, invoke(kernel, given, extras))
    if key is not None:
        names = [n for n in op.params if n in kwargs and n in op.dynamic_names]
        numbers = [(n, values[n]) for n in (*dict(kernel.packed), *kernel.dynamic)]
        if not numbers:
            prepared[key] = CachedCall(kernel, extras)
        elif all(type(kwargs[n]) in ((tuple, list) if type(values[n]) is tuple else (float,)) and
                 not op.params[n].limits for n in names):
            prepared[key] = CachedCall(kernel, extras, numbers)
    return invoke(kernel, given, extras, out, as_context(ctx))


def _argument_number(name: str) -> tuple[int, str]:
    digits = name[3:] if name.startswith("arg") else ""
    return (int(digits) if digits.isdigit() else 1 << 30, name)


give_methods(NDArray, METHODS, make, "`mx.nd.{}` with this array as the first argument.")


def _split_v2(self: NDArray, *args: Any, **kwargs: Any) -> Any:
    """`mx.nd.split_v2` with this array as the first argument."""
    return split_v2(self, *args, **kwargs)


NDArray.split_v2 = _split_v2
