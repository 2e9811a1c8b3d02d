"""`mx.nd.<operator>`: from user arguments to kernels, without parsing on the hot path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._namespace import document, give_methods, positional, signature
from ..base import WrongKind, _Null
from ..context import as_context, one_context
from ..eager.call_cache import CachedCall, prepared
from ..eager.dispatch import check_inputs, invoke, run_host, stored_as_asked
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
    """Returns the imperative function of an operator."""
    inputs = op.input_names

    def function(*args: object, out: object = None, name: str | None = None, **kwargs: object) -> Any:
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
                value = prepared.get(key)
            except TypeError:  # an unhashable argument, such as a list
                value = key = None
            if value is not None:
                kernel, extras, numbers = value
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

    For arguments of the program, it contains only the type.
    """
    if dynamic.isdisjoint(kwargs):
        return tuple(kwargs.items())
    return tuple([(k, v) if k not in dynamic else (k, len(v) if type(v) in (tuple, list) else type(v))
                  for k, v in kwargs.items()])


def _extras(kernel: Kernel, numbers: list[tuple[str, Any]], kwargs: dict[str, Any], arrays: tuple) -> tuple:
    x64 = any([a.chunk.x64 for a in arrays])
    values = {name: kwargs.get(name, default) for name, default in numbers}
    if x64 and kernel.op is not None:  # 32-bit arguments round by themselves
        return kernel.extras({k: kernel.op.params[k].parse(v) for k, v in values.items()}, x64)
    return kernel.extras({k: argument(v) if type(v) is float else v for k, v in values.items()}, x64)


def _general(op: Op, inputs: list[str], key: object, arrays: tuple, rest: tuple, out: object,
             kwargs: dict[str, Any]) -> Any:
    """Handles calls that are new, have inputs by name, or have dynamic parameters."""
    if rest and op.variadic and not arrays and isinstance(rest[0], (list, tuple)):
        arrays, rest = tuple(rest[0]), rest[1:]
    ctx = _context(op, inputs, kwargs)
    operands, rest = _positional(op, inputs, arrays, rest)
    if _take_named(op, inputs, operands, kwargs):
        key = None
    elif op.variadic and not inputs:
        extra = [n for n in kwargs if isinstance(kwargs[n], NDArray)]
        operands += [kwargs.pop(n) for n in sorted(extra, key=_argument_number)]
    if out is None and not op.variadic and not op.get_attr("opaque"):
        out, rest = _positional_out(op, inputs, operands, rest)
        key = key if out is None else None
    _take_parameters(op, inputs, rest, kwargs)
    if op.variadic in op.params and not op.get_attr("own_count"):
        kwargs.setdefault(op.variadic, len(operands))
    values = op.parse({k: v for k, v in kwargs.items() if v is not _Null})
    if out is not None and op.get_attr("FTakesOut", never)(values):
        operands, key = [*operands, *(out if isinstance(out, (list, tuple)) else [out])], None
    operands, present = _without_gaps(op, operands)
    check_inputs(op, values, len(operands))
    if op.get_attr("FHost") is not None:
        return run_host(op, values, operands, out)
    part = op.get_attr("FPart")
    if part is not None and len(op.kernels) >= VARIED_SLICES and operands[0].stype == "default":
        cut = indexing.selection(part(values, operands[0].shape), operands[0].shape)
        if cut.kind == "box":
            return invoke(indexing.read_kernel("box", cut.shape, cut.sizes, (), 0), operands, cut.starts, out)
    kernel = prepare(op, values, present, state.training, pack=True)
    extras = kernel.extras(values, any([a.chunk.x64 for a in operands]))
    if op.get_attr("FStored", never)(values):
        return invoke(kernel, operands, extras, out) if out is not None else \
            stored_as_asked(op, values, invoke(kernel, operands, extras))
    if key is not None:
        _remember(op, key, kernel, extras, values, kwargs)
    return invoke(kernel, operands, extras, out, as_context(ctx))


def _context(op: Op, inputs: list[str], kwargs: dict[str, Any]) -> Any:
    """Returns the context that a call requests by `ctx` or `device`; None if it follows the inputs."""
    makes = not inputs and not op.variadic
    ctx = kwargs.pop("ctx", None) if makes else kwargs.get("ctx")
    if "device" in kwargs and "device" not in op.params:
        ctx = one_context(op.name, kwargs, ctx)
        if not makes:
            kwargs["ctx"] = ctx
    return ctx


def _positional(op: Op, inputs: list[str], arrays: tuple, rest: tuple) -> tuple[list[Any], tuple]:
    """Returns (inputs, further arguments) from the positional arguments; a leading None is an absent input.

    Raises:
        TypeError: an input is not an array.
    """
    values: list[Any] = list(arrays)
    for value in rest[:max(len(inputs) - len(values), 0)]:
        if value is not None:
            raise WrongKind(f"operator {op.name}: input {inputs[len(values)]} must be an NDArray, got "
                            f"{type(value).__name__}")
        values.append(None)
    return values, rest[max(len(values) - len(arrays), 0):]


def _take_named(op: Op, inputs: list[str], values: list[Any], kwargs: dict[str, Any]) -> bool:
    """Moves inputs by name from `kwargs` to their positions; returns whether there were any.

    Raises:
        TypeError: an input is passed twice, or is not an array.
    """
    named = {n: kwargs.pop(n) for n in inputs if n in kwargs and n not in op.params or
             isinstance(kwargs.get(n), NDArray)}
    for position, n in enumerate(inputs if named else ()):
        if n in named:
            values += [None] * (position + 1 - len(values))
            if values[position] is not None:
                raise TypeError(f"operator {op.name}: got multiple values for input {n}")
            if named[n] is not None and not isinstance(named[n], NDArray):
                raise WrongKind(f"operator {op.name}: input {n} must be an NDArray, got {type(named[n]).__name__}")
            values[position] = named[n]
    return bool(named)


def _positional_out(op: Op, inputs: list[str], values: list[Any], rest: tuple) -> tuple[Any, tuple]:
    """Returns (out, further arguments): `out` is the first argument after the parameters, and `name` the second."""
    count = len(positional(op))
    if len(rest) > count:
        return rest[count], rest[:count] + rest[count + 2:]
    if not count and len(values) == len(inputs) + 1:
        return values.pop(), rest
    return None, rest


def _take_parameters(op: Op, inputs: list[str], rest: tuple, kwargs: dict[str, Any]) -> None:
    """Adds positional parameters to those by name.

    Raises:
        TypeError: there are too many, one is passed twice, or the operator takes only arrays by position.
    """
    if rest and op.variadic and not inputs:
        raise WrongKind(f"operator {op.name}: positional arguments must be NDArrays, got {type(rest[0]).__name__}")
    places = positional(op) if rest else []
    if len(rest) > len(places):
        raise TypeError(f"operator {op.name} takes at most {len(inputs) + len(places)} positional arguments")
    for n, value in zip(places, rest, strict=False):
        if n in kwargs:
            raise TypeError(f"operator {op.name}: got multiple values for parameter {n}")
        kwargs[n] = value
    for unknown in ("attr", "__layout__"):
        kwargs.pop(unknown, None)


def _without_gaps(op: Op, values: list[Any]) -> tuple[list[NDArray], Any]:
    """Returns (present inputs, their number; if some are absent, for each whether it is present).

    Raises:
        TypeError: an input is not an array.
    """
    while values and values[-1] is None:
        values.pop()
    there = tuple([one is not None for one in values])
    present = len(values) if all(there) else there
    values = [one for one in values if one is not None]
    for one in values:
        if not isinstance(one, NDArray):
            raise TypeError(f"operator {op.name}: inputs must be NDArrays, got {type(one).__name__}")
    return values, present


def _remember(op: Op, key: object, kernel: Kernel, extras: tuple, values: dict[str, Any],
              kwargs: dict[str, Any]) -> None:
    """Lets later calls of this form use the kernel directly, unless their numbers need parsing."""
    names = [n for n in op.params if n in kwargs and n in op.dynamic_names]
    numbers = [(n, values[n]) for n in (*dict(kernel.packed), *kernel.dynamic)]
    if not numbers:
        prepared[key] = CachedCall(kernel, extras)
    elif all(type(kwargs[n]) in ((tuple, list) if type(values[n]) is tuple else (float,)) and
             not op.params[n].limits for n in names):
        prepared[key] = CachedCall(kernel, extras, numbers)


def _argument_number(name: str) -> tuple[int, str]:
    digits = name[3:] if name.startswith("arg") else ""
    return (int(digits) if digits.isdigit() else 1 << 30, name)


give_methods(NDArray, METHODS, make, "`mx.nd.{}` with this array as the first argument.")


def _split_v2(self: NDArray, *args: Any, **kwargs: Any) -> Any:
    """`mx.nd.split_v2` with this array as the first argument."""
    return split_v2(self, *args, **kwargs)


NDArray.split_v2 = _split_v2
