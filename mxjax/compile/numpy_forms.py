"""Programs that move and compare numbers by NumPy: a jaxpr as a function of NumPy arrays, exact to the bit.

Only what NumPy and XLA compute alike. A compiler may round a product and a sum together, and change the order of sums
with constants, or of products; so after inputs there is one sum at most, and then one product.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from .barriers import called

__all__ = ["by_numpy"]

_KNOWN = {np.dtype(t) for t in ("bool", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8")}
_CONSTANT, _EXACT, _SUM, _PRODUCT = range(4)  # what a float is made of
_ROUNDING = {**dict.fromkeys(("add", "add_any", "sub", "reduce_sum", "scatter-add", "scatter_add"), _SUM),
             **dict.fromkeys(("mul", "div", "sqrt", "square", "integer_pow", "reduce_prod"), _PRODUCT)}
_LONGEST = 31  # axis along which XLA adds one number after the other


class _Unknown(Exception):
    """A primitive, or a form of it, that is not here."""


def by_numpy(closed: Any) -> Callable[[Sequence[Any]], list[np.ndarray] | None] | None:
    """What a closed jaxpr computes, as a function of a list of arrays; None where XLA has to compile it.

    The function returns None for arrays with denormal numbers, which XLA takes as zeros, and where the larger of 0.0
    and -0.0 is asked for.
    """
    try:
        run, _ = _program(closed.jaxpr, closed.consts)
    except _Unknown:
        return None

    def call(arrays: Sequence[Any]) -> list[np.ndarray] | None:
        with np.errstate(all="ignore"):
            try:
                return None if any(x.dtype.kind == "f" and _denormal(x).any() for x in arrays) else run(arrays)
            except _Unknown:
                return None
    return call


def _denormal(x: Any) -> Any:
    return (np.abs(x) < np.finfo(x.dtype).tiny) & (x != 0)


def _program(jaxpr: Any, consts: Sequence[Any], kinds: Sequence[int] | None = None) -> tuple[Callable, list[int]]:
    """(the program, what its results are made of), for arguments that are made of `kinds`."""
    _need(not jaxpr.effects)
    places: dict[Any, int] = {}
    first: list[Any] = []
    made: list[int] = []
    spread: set[Any] = set()

    def place(variable: Any, value: Any = None, kind: int = _EXACT) -> int:
        if hasattr(variable, "val"):  # a literal
            value, kind = np.asarray(variable.val, variable.aval.dtype), _CONSTANT
        elif variable in places:
            return places[variable]
        else:
            places[variable] = len(first)
        _need(getattr(variable.aval, "dtype", None) in _KNOWN)
        first.append(value)
        made.append(kind)
        return len(first) - 1

    for variable, value in zip(jaxpr.constvars, consts, strict=True):
        place(variable, np.asarray(value), _CONSTANT)
    given = [place(v, None, k) for v, k in zip(jaxpr.invars, kinds or [_EXACT] * len(jaxpr.invars), strict=True)]
    steps = []
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        ins = [place(v) for v in eqn.invars]
        before = [made[i] for i in ins]
        inner = called(eqn)
        if inner is not None:
            function, after = _program(inner.jaxpr, inner.consts, before)
            outs = [(place(v, None, k), None) for v, k in zip(eqn.outvars, after, strict=True)]
            steps.append(((lambda *xs, run=function: run(xs)), ins, outs, True))
            continue
        rule = _rules.get(name)
        upon = max(before, default=_CONSTANT)
        rounds = name in _ROUNDING and upon != _CONSTANT and _floats([eqn.outvars[0].aval])
        kind = _ROUNDING[name] if rounds else upon
        _need(rule is not None and not (rounds and kind <= upon))
        outs = [(place(v, None, kind), v.aval.dtype) for v in eqn.outvars]
        if name == "broadcast_in_dim":
            spread.update(eqn.outvars)
        if name == "div":
            divisor, shape = eqn.invars[1], eqn.outvars[0].aval.shape
            if upon != _CONSTANT and (before[1] == _CONSTANT or divisor.aval.shape != shape or divisor in spread):
                rule = _times_reciprocal
            else:  # something made may be spread, too
                _need(upon == _CONSTANT or shape == () or kinds is None and divisor in jaxpr.invars)
        function = rule if isinstance(rule, np.ufunc) else rule(eqn.params, [v.aval for v in eqn.invars],
                                                                [v.aval for v in eqn.outvars])
        steps.append((_flushed(function) if rounds else function, ins, outs, eqn.primitive.multiple_results))
    results = [place(v) for v in jaxpr.outvars]

    def run(arrays: Sequence[Any]) -> list[np.ndarray]:
        values = list(first)
        for i, array in zip(given, arrays, strict=True):
            values[i] = array
        for function, ins, outs, several in steps:
            found = function(*[values[i] for i in ins])
            for (i, dtype), value in zip(outs, found if several else (found,), strict=True):
                values[i] = value if dtype in (None, value.dtype) else value.astype(dtype)
        return [values[i] for i in results]
    return run, [made[i] for i in results]


def _flushed(function: Callable) -> Callable:
    def call(*xs: Any) -> Any:
        found = function(*xs)
        return np.where(_denormal(found), np.copysign(np.zeros_like(found), found), found)
    return call


_rules: dict[str, Any] = {
    "add": np.add, "add_any": np.add, "sub": np.subtract, "mul": np.multiply, "neg": np.negative, "abs": np.absolute,
    "floor": np.floor, "ceil": np.ceil, "sqrt": np.sqrt, "square": np.square,
    "is_finite": np.isfinite, "not": np.invert, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "shift_left": np.left_shift, "eq": np.equal, "ne": np.not_equal, "lt": np.less,
    "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}


def _rule(*names: str) -> Callable[[Callable], Callable]:
    """Registers a function (parameters, input avals, output avals) -> function of arrays."""
    def register(make: Callable) -> Callable:
        _rules.update(dict.fromkeys(names, make))
        return make
    return register


def _need(holds: bool) -> None:
    if not holds:
        raise _Unknown


def _floats(avals: Sequence[Any]) -> bool:
    return all(a.dtype.kind == "f" for a in avals)


# ------------------------------------------------------------ numbers
@_rule("div")
def _div(params: dict, ins: list, outs: list) -> Callable:
    _need(_floats(ins))  # integers divide by other rules than NumPy's
    return np.divide


def _times_reciprocal(params: dict, ins: list, outs: list) -> Callable:
    """What XLA makes of a division by one number, or by the same ones again and again."""
    _need(_floats(ins))
    return lambda x, by: x * (np.ones((), x.dtype) / by)


@_rule("max")
def _max(params: dict, ins: list, outs: list) -> Callable:
    return lambda x, y: np.maximum(_one_zero(x), _one_zero(y))


@_rule("min")
def _min(params: dict, ins: list, outs: list) -> Callable:
    return lambda x, y: np.minimum(_one_zero(x), _one_zero(y))


def _one_zero(x: Any) -> Any:
    """The array, which has no -0.0: to NumPy it is as large as 0.0, to XLA smaller."""
    _need(x.dtype.kind != "f" or not (np.signbit(x) & (x == 0)).any())
    return x


@_rule("sign")
def _sign(params: dict, ins: list, outs: list) -> Callable:
    return lambda x: np.where(x == 0, x, np.sign(x))  # of -0.0 it is -0.0


@_rule("rem")
def _rem(params: dict, ins: list, outs: list) -> Callable:
    _need(_floats(ins))
    return np.fmod


@_rule("integer_pow")
def _integer_pow(params: dict, ins: list, outs: list) -> Callable:
    _need(params["y"] == 2)
    return np.square


@_rule("round")
def _round(params: dict, ins: list, outs: list) -> Callable:
    if params["rounding_method"] == jax.lax.RoundingMethod.TO_NEAREST_EVEN:
        return np.rint

    def away_from_zero(x: Any) -> Any:
        whole = np.trunc(x)
        return np.where(np.abs(x - whole) >= 0.5, whole + np.sign(x), whole)
    return away_from_zero


@_rule("clamp")
def _clamp(params: dict, ins: list, outs: list) -> Callable:
    return lambda low, x, high: np.minimum(np.maximum(_one_zero(x), _one_zero(low)), _one_zero(high))


@_rule("select_n")
def _select(params: dict, ins: list, outs: list) -> Callable:
    _need(ins[0].dtype == bool and len(ins) == 3)
    return lambda which, no, yes: np.where(which, yes, no)


@_rule("convert_element_type")
def _convert(params: dict, ins: list, outs: list) -> Callable:
    old, new = ins[0].dtype, outs[0].dtype
    if new.kind == "b":
        return lambda x: x != 0
    if old.kind != "f" or new.kind == "f":
        return lambda x: x.astype(new)
    _need(new.itemsize < 8)  # whose limits no float is
    limits = np.iinfo(new)  # where JAX saturates; NaN becomes 0
    return lambda x: np.clip(np.nan_to_num(x.astype(np.float64)), limits.min, limits.max).astype(new)


@_rule("bitcast_convert_type")
def _bitcast(params: dict, ins: list, outs: list) -> Callable:
    _need(ins[0].dtype.itemsize == outs[0].dtype.itemsize)
    return lambda x: x.view(outs[0].dtype)


@_rule("copy", "copy_p", "stop_gradient")
def _same(params: dict, ins: list, outs: list) -> Callable:
    return np.asarray


@_rule("optimization_barrier")
def _barrier(params: dict, ins: list, outs: list) -> Callable:
    return lambda *xs: xs


# ------------------------------------------------------------ places
@_rule("reshape", "squeeze", "expand_dims")
def _reshape(params: dict, ins: list, outs: list) -> Callable:
    shape, order = outs[0].shape, params["dimensions"] if "new_sizes" in params else None
    return (lambda x: x.reshape(shape)) if order is None else lambda x: x.transpose(order).reshape(shape)


@_rule("broadcast_in_dim")
def _broadcast(params: dict, ins: list, outs: list) -> Callable:
    shape = params["shape"]
    column = _column(len(shape), dict(zip(params["broadcast_dimensions"], ins[0].shape, strict=True)))
    return lambda x: np.broadcast_to(x.reshape(column), shape)


def _column(rank: int, sizes: dict[int, int]) -> list[int]:
    """A shape of ones, but for these sizes."""
    return [sizes.get(i, 1) for i in range(rank)]


@_rule("transpose")
def _transpose(params: dict, ins: list, outs: list) -> Callable:
    return lambda x: x.transpose(params["permutation"])


@_rule("rev")
def _rev(params: dict, ins: list, outs: list) -> Callable:
    return lambda x: np.flip(x, params["dimensions"])


@_rule("concatenate")
def _concatenate(params: dict, ins: list, outs: list) -> Callable:
    return lambda *xs: np.concatenate(xs, params["dimension"])


@_rule("stack")
def _stack(params: dict, ins: list, outs: list) -> Callable:
    return lambda *xs: np.stack(xs, params["axis"])


@_rule("tile")
def _tile(params: dict, ins: list, outs: list) -> Callable:
    return lambda x: np.tile(x, params["reps"])


@_rule("split")
def _split(params: dict, ins: list, outs: list) -> Callable:
    return lambda x: np.split(x, np.cumsum(params["sizes"])[:-1], params["axis"])


@_rule("iota")
def _iota(params: dict, ins: list, outs: list) -> Callable:
    shape, along, dtype = outs[0].shape, params["dimension"], outs[0].dtype
    column = _column(len(shape), {along: shape[along]})
    return lambda: np.broadcast_to(np.arange(shape[along]).astype(dtype).reshape(column), shape)


@_rule("slice")
def _slice(params: dict, ins: list, outs: list) -> Callable:
    steps = params["strides"] or (1,) * len(outs[0].shape)
    part = tuple(map(slice, params["start_indices"], params["limit_indices"], steps))
    return lambda x: x[part]


@_rule("pad")
def _pad(params: dict, ins: list, outs: list) -> Callable:
    whole, into, kept = [], [], []  # sizes before edges are cut; where the array goes; what is kept
    for (low, high, between), size in zip(params["padding_config"], ins[0].shape, strict=True):
        spread = size + max(size - 1, 0) * between
        whole.append(spread + max(low, 0) + max(high, 0))
        into.append(slice(max(low, 0), max(low, 0) + spread, between + 1))
        kept.append(slice(max(-low, 0), whole[-1] - max(-high, 0)))

    def pad(x: Any, value: Any) -> Any:
        result = np.full(whole, value, x.dtype)
        result[tuple(into)] = x
        return result[tuple(kept)]
    return pad


@_rule("dynamic_slice")
def _dynamic_slice(params: dict, ins: list, outs: list) -> Callable:
    return lambda x, *starts: x[_window(x.shape, starts, params["slice_sizes"])]


@_rule("dynamic_update_slice")
def _dynamic_update_slice(params: dict, ins: list, outs: list) -> Callable:
    def update(x: Any, new: Any, *starts: Any) -> Any:
        x = np.array(x)
        x[_window(x.shape, starts, new.shape)] = new
        return x
    return update


def _window(shape: Sequence[int], starts: Sequence[Any], sizes: Sequence[int]) -> tuple[slice, ...]:
    """A window, moved until it lies inside."""
    begins = [min(max(int(s), 0), size - part) for s, size, part in zip(starts, shape, sizes, strict=True)]
    return tuple(slice(b, b + part) for b, part in zip(begins, sizes, strict=True))


def _windows(shape: Sequence[int], sizes: Sequence[int], rank: int, along: Sequence[int], flat: Sequence[int],
             moved: Sequence[int], shared: dict[int, int]) -> Callable[[Any], tuple[tuple, Any]]:
    """Places of windows of an array, for gathering and scattering.

    Args:
        shape: the array's.
        sizes: the windows'.
        rank: of the values at those places: axes of the windows (`along`), the others those of the indices.
        flat: the array's axes along which windows have no axis.
        moved: the array's axes that the last axis of the indices is about.
        shared: axes of the array that are axes of the indices.

    Returns:
        function of the indices: (an index of the array, what lies inside), laid out as the values are
    """
    batch = [i for i in range(rank) if i not in along]
    windows = iter(along)
    offsets = [np.zeros((), np.int64) if d in flat or d in shared else
               np.arange(size).reshape(_column(rank, {next(windows): size})) for d, size in enumerate(sizes)]

    def places(indices: Any) -> tuple[tuple, Any]:
        found, inside = list(offsets), np.ones((), bool)
        counts = indices.shape[:-1]
        for d, axis in shared.items():
            found[d] = np.arange(shape[d]).reshape(_column(rank, {batch[axis]: shape[d]}))
        for k, d in enumerate(moved):
            start = indices[..., k].astype(np.int64).reshape(_column(rank, dict(zip(batch, counts, strict=True))))
            most = shape[d] - sizes[d]
            inside = inside & (start >= 0) & (start <= most)
            found[d] = found[d] + np.clip(start, 0, most)
        return tuple(found), inside
    return places


@_rule("gather")
def _gather(params: dict, ins: list, outs: list) -> Callable:
    numbers, shape, result = params["dimension_numbers"], ins[0].shape, outs[0]
    _need(math.prod(shape) > 0)
    places = _windows(shape, params["slice_sizes"], len(result.shape), numbers.offset_dims,
                      numbers.collapsed_slice_dims, numbers.start_index_map,
                      dict(zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True)))
    fill, kind = params["fill_value"], result.dtype.kind
    if fill is None:
        fill = np.nan if kind == "f" else True if kind == "b" else \
            np.iinfo(result.dtype).min if kind == "i" else np.iinfo(result.dtype).max
    drops = jax.lax.GatherScatterMode.from_any(params["mode"]) == jax.lax.GatherScatterMode.FILL_OR_DROP

    def gather(x: Any, indices: Any) -> Any:
        index, inside = places(indices)
        found = np.broadcast_to(x[index], result.shape)
        return np.where(inside, found, np.asarray(fill, x.dtype)) if drops and not inside.all() else found
    return gather


def _scattering(combine: Callable[[Any, tuple, Any], None]) -> Callable:
    def make(params: dict, ins: list, outs: list) -> Callable:
        numbers, shape, new = params["dimension_numbers"], ins[0].shape, ins[2].shape
        _need(math.prod(shape) > 0 and math.prod(new) > 0)
        flat = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
        windows = iter(numbers.update_window_dims)
        sizes = [1 if d in flat else new[next(windows)] for d in range(len(shape))]
        places = _windows(shape, sizes, len(new), numbers.update_window_dims, numbers.inserted_window_dims,
                          numbers.scatter_dims_to_operand_dims, dict(zip(
                              numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True)))
        clips = jax.lax.GatherScatterMode.from_any(params["mode"]) == jax.lax.GatherScatterMode.CLIP

        def scatter(x: Any, indices: Any, updates: Any) -> Any:
            index, inside = places(indices)
            inside = np.broadcast_to(True if clips else inside, new)
            x = np.array(x)
            combine(x, tuple(np.broadcast_to(i, new)[inside] for i in index), updates[inside])
            return x
        return scatter
    return make


_rules["scatter"] = _scattering(lambda x, index, new: x.__setitem__(index, new))
_rules["scatter-add"] = _rules["scatter_add"] = _scattering(np.add.at)


# ------------------------------------------------------------ along axes
def _whole(ufunc: np.ufunc) -> Callable:
    def make(params: dict, ins: list, outs: list) -> Callable:
        if math.prod(ins[0].shape) == math.prod(outs[0].shape) > 0:
            return lambda x: x.reshape(outs[0].shape)
        _need(math.prod(ins[0].shape) > 0)
        axes = tuple(params["axes"])
        if ins[0].dtype.kind != "f" or ufunc in (np.maximum, np.minimum):
            return lambda x: ufunc.reduce(_one_zero(x), axes, x.dtype)
        _need(max(ins[0].shape[i] for i in axes) <= _LONGEST)
        order = [*axes, *[i for i in range(len(ins[0].shape)) if i not in axes]]
        return lambda x: ufunc.accumulate(x.transpose(order).reshape(-1, *outs[0].shape), 0)[-1]  # in XLA's order
    return make


def _running(ufunc: np.ufunc) -> Callable:
    def make(params: dict, ins: list, outs: list) -> Callable:
        axis = params["axis"]
        _need(ins[0].dtype.kind != "f" or ufunc in (np.maximum, np.minimum))
        if params["reverse"]:
            return lambda x: np.flip(ufunc.accumulate(np.flip(_one_zero(x), axis), axis, x.dtype), axis)
        return lambda x: ufunc.accumulate(_one_zero(x), axis, x.dtype)
    return make


for _name, _ufunc in {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum, "and": np.bitwise_and,
                      "or": np.bitwise_or}.items():
    _rules["reduce_" + _name] = _whole(_ufunc)
    if _name not in ("and", "or"):
        _rules["cum" + _name] = _running(_ufunc)


@_rule("argmax")
def _argmax(params: dict, ins: list, outs: list) -> Callable:
    return lambda x: np.argmax(x, params["axes"][0])


@_rule("argmin")
def _argmin(params: dict, ins: list, outs: list) -> Callable:
    return lambda x: np.argmin(x, params["axes"][0])


@_rule("sort")
def _sort(params: dict, ins: list, outs: list) -> Callable:
    _need(params["num_keys"] == 1)
    axis = params["dimension"]

    def sort(*xs: Any) -> list[Any]:
        order = np.argsort(xs[0], axis, kind="stable")
        return [np.take_along_axis(x, order, axis) for x in xs]
    return sort
