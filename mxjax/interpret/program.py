"""Conversion of a jaxpr to a function of NumPy arrays, by rules for its primitives."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import ml_dtypes
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn

from .._xla.tracing import aval_of
from ..passes.division import is_quotient
from ..passes.rewriting import called

__all__ = ["Array", "Aval", "ByLeaves", "Rules", "Unknown", "as_it_is", "by_numpy", "need"]

# A value of a program. It may also be a NumPy scalar, which functions of arrays without axes return: it has the
# attributes of an array, but not its type.
Array: TypeAlias = np.ndarray
ByLeaves = Callable[[Sequence[Any]], "list[np.ndarray] | None"]
# computed as float32, rounded after each operation
_HALVES = frozenset([np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)])
_DTYPES = _HALVES | frozenset([np.dtype(name) for name in (
    "bool", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8", "c8", "c16")])
_SINGLE, _KEY = np.dtype("f4"), np.dtype("u8")
_AS_THEY_ARE = frozenset("""
    bitcast_convert_type broadcast_in_dim concatenate copy dim_as_value dynamic_slice expand_dims optimization_barrier
    reshape rev slice split squeeze stack stop_gradient tile transpose unstack
""".split())  # primitives that do not round half-precision floats


class Unknown(Exception):
    """A primitive, a form of it, or numbers that NumPy does not support here."""


def need(holds: object) -> None:
    """Leaves a program to XLA if a condition is false.

    Raises:
        Unknown: the condition is false.
    """
    if not holds:
        raise Unknown


class Rules(NamedTuple):
    """The primitives that NumPy supports: functions of arrays by the name of a primitive.

    Args:
        functions: functions of arrays alone.
        forms: function(parameters, avals of the inputs, aval of the first output) -> the function of arrays.
        programs: function(parameters, function(closed jaxpr) -> its function of a list of arrays, the equation) -> the
            function of arrays with several results: loops and branches.
    """

    functions: dict[str, Callable]
    forms: dict[str, Callable[[dict, list, Any], Callable]]
    programs: dict[str, Callable[[dict, Callable, Any], Callable]]


def as_it_is(size: object) -> Any:
    """Returns the size of an array as a number."""
    return size


def by_numpy(closed: ClosedJaxpr, rules: Rules, known: Callable[[Any], Any] = as_it_is) -> ByLeaves | None:
    """Returns a closed jaxpr as a function of a list of arrays; None if XLA must compile it.

    The function returns None if XLA must compute the result.

    Args:
        closed: the jaxpr.
        rules: the primitives that NumPy supports.
        known: function(size) -> its value, for a jaxpr with symbolic sizes; other arguments are returned unchanged.
    """
    try:
        run = _program(closed.jaxpr, closed.consts, known, rules)
    except Exception:  # a case that a rule does not support
        return None
    dtypes = [v.aval.dtype for v in closed.jaxpr.invars]

    def call(arrays: Sequence[Any]) -> list[np.ndarray] | None:
        try:
            with np.errstate(all="ignore"):
                return run([np.asarray(x, d) for x, d in zip(arrays, dtypes, strict=True)])
        except Exception:  # XLA decides whether this is an error
            return None
    return call


class Aval(NamedTuple):
    """Returns the type of an array in a program with known sizes."""

    shape: tuple[int, ...]
    dtype: np.dtype


def _widened(aval: Aval) -> Aval:
    return Aval(aval.shape, _SINGLE) if aval.dtype in _HALVES else aval


def _as_single(x: Array) -> Any:
    return x.astype(_SINGLE) if x.dtype in _HALVES else x


def _program(jaxpr: Jaxpr, consts: Sequence[Any], known: Callable[[Any], Any],
             rules: Rules) -> Callable[[Sequence[Any]], list[Any]]:
    need(not jaxpr.effects)

    def within(closed: ClosedJaxpr) -> Callable:
        return _program(closed.jaxpr, closed.consts, known, rules)
    places: dict[Any, int] = {}
    first: list[Any] = []

    def place(variable: Any, value: Array | None = None) -> int:
        if hasattr(variable, "val"):  # a literal
            value = np.asarray(variable.val, variable.aval.dtype)
        elif variable in places:
            return places[variable]
        else:
            places[variable] = len(first)
        need(_dtype(variable) in _DTYPES)
        first.append(value)
        return len(first) - 1

    for variable, value in zip(jaxpr.constvars, consts, strict=True):
        place(variable, np.asarray(value))
    inputs = [place(v) for v in jaxpr.invars]
    steps = []
    for eqn in _used(jaxpr):
        ins = [place(v) for v in eqn.invars]
        outs = [(place(v), _dtype(v)) for v in eqn.outvars]
        function, several = _step(eqn, known, rules, within)
        steps.append((function, ins, outs, several))
    results = [place(v) for v in jaxpr.outvars]

    def run(arrays: Sequence[Any]) -> list[np.ndarray]:
        values = list(first)
        for i, array in zip(inputs, arrays, strict=True):
            values[i] = array
        for function, ins, outs, several in steps:
            made = function(*[values[i] for i in ins])
            for (i, dtype), value in zip(outs, made if several else (made,), strict=True):
                values[i] = value if value.dtype == dtype else value.astype(dtype)
        return [values[i] for i in results]
    return run


def _step(eqn: JaxprEqn, known: Callable[[Any], Any], rules: Rules,
          within: Callable[[Any], Callable]) -> tuple[Callable[..., Any], bool]:
    """Returns (an equation as a function of arrays, whether it has several results)."""
    quotient = is_quotient(eqn)
    inner = None if quotient else called(eqn)
    if inner is not None:
        run = within(inner)
        return (lambda *xs: run(xs)), True
    name = "div" if quotient else eqn.primitive.name
    params = {key: _each(known, value) for key, value in eqn.params.items()}
    if name in rules.programs:
        return rules.programs[name](params, within, eqn), True
    need(name in rules.functions or name in rules.forms)
    several = eqn.primitive.multiple_results and not quotient
    *arguments, out = [Aval(tuple(map(known, aval_of(v).shape)), _dtype(v)) for v in (*eqn.invars, eqn.outvars[0])]
    if not math.prod(out.shape) and not several:
        return (lambda *_: np.zeros(out.shape, out.dtype)), False
    halves = name not in _AS_THEY_ARE and any(a.dtype in _HALVES for a in (*arguments, out))
    if halves:
        *arguments, out = map(_widened, (*arguments, out))
    function = rules.functions.get(name) or rules.forms[name](params, arguments, out)
    return (lambda *xs: function(*map(_as_single, xs))) if halves else function, several


def _dtype(variable: Any) -> Any:
    """Returns the dtype of a value; random keys are 64-bit numbers."""
    dtype = getattr(variable.aval, "dtype", None)
    if isinstance(dtype, np.dtype):
        return dtype
    return _KEY if getattr(dtype, "name", "") == "key<fry>" else dtype


def _used(jaxpr: Jaxpr) -> list[Any]:
    """Returns the equations that the results depend on."""
    live, result = {v for v in jaxpr.outvars if not hasattr(v, "val")}, []
    for eqn in reversed(jaxpr.eqns):
        if not live.isdisjoint(eqn.outvars):
            result.append(eqn)
            live.update([v for v in eqn.invars if not hasattr(v, "val")])
    return result[::-1]


def _each(known: Callable[[Any], Any], value: Any) -> Any:
    """Returns a parameter of an equation with known sizes."""
    return tuple([_each(known, v) for v in value]) if type(value) is tuple else known(value)
