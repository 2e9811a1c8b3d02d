"""Programs that move, choose and compare numbers by NumPy: a jaxpr as a function of NumPy arrays.

Only what is exact by definition, whoever computes it: places, choices, comparisons, logic, integers, and for floats one
operation that IEEE 754 rounds correctly, of arguments as they are. Of two operations in a row a compiler may make one:
of a product and a sum, or of a product with what a comparison became. Nothing is supposed of the order of sums, or of
what a division by a constant becomes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import ml_dtypes
import numpy as np

from ..passes.division import is_quotient
from ..passes.rewriting import called

__all__ = ["EXACT", "HALVES", "Exact", "Rules", "Unknown", "as_it_is", "by_numpy", "moved_by_numpy", "scattering"]

Exact = Callable[[Sequence[Any]], "list[np.ndarray] | None"]
_KNOWN = frozenset(map(np.dtype, ("bool", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8")))
HALVES = frozenset(map(np.dtype, ("f2", ml_dtypes.bfloat16)))
_SINGLE, _KEY = np.dtype("f4"), np.dtype("u8")
_MOST = 1 << 20  # elements of a value: XLA need not make the whole of it
_GIVEN, _MOVED, _MADE = range(3)  # arguments as they are; arguments and constants elsewhere; all other values
_MOVES = frozenset("""
    broadcast_in_dim concatenate copy dim_as_value dynamic_slice expand_dims optimization_barrier reshape rev slice
    split squeeze stack stop_gradient tile transpose unstack
""".split())
_AS_THEY_ARE = _MOVES | {"bitcast_convert_type"}
_ROUNDS = frozenset("add add_any sub mul div sqrt square integer_pow scatter-add scatter_add".split())


class Unknown(Exception):
    """A primitive, a form of it, or numbers that are not for NumPy."""


class Rules(NamedTuple):
    """The primitives that NumPy computes, and how: functions of arrays by the name of a primitive.

    Args:
        functions: those that need no more.
        forms: function(parameters, avals of the inputs, aval of the first output) -> the function of arrays.
        programs: function(parameters, function(closed jaxpr) -> its function of a list of arrays, the equation) -> the
            function of arrays, which gives several: loops and branches.
        exact: what is not exact by definition is unknown.
        dtypes: those of all values; half floats are computed as float32, and rounded after each operation.
        fits: function(name of a primitive, parameters, avals of the inputs, aval of the first output) -> whether it is
            little enough.
    """

    functions: dict[str, Callable]
    forms: dict[str, Callable[[dict, list, Any], Callable]]
    programs: dict[str, Callable[[dict, Callable, Any], Callable]]
    exact: bool
    dtypes: frozenset[np.dtype]
    fits: Callable[[str, dict, list, Any], bool]


def as_it_is(size: Any) -> Any:
    """The size of an array, which is a number."""
    return size


def by_numpy(closed: Any, known: Callable[[Any], Any] = as_it_is, rules: Rules | None = None) -> Exact | None:
    """Returns a closed jaxpr as a function of a list of arrays; None where XLA has to compile it.

    The function returns None for numbers of which XLA makes something else than IEEE 754 says, or nothing defined:
    denormal ones, zeros of both signs where one is chosen or they are added, floats beyond the integers they become,
    places that are written twice.

    Args:
        closed: the jaxpr.
        known: function(size) -> the number it is, for a jaxpr of arrays whose sizes are symbols; what is none, it gives
            back.
        rules: by default what is exact by definition.
    """
    rules = rules or EXACT
    try:
        run, _ = _program(closed.jaxpr, closed.consts, known, rules)
    except _refusals(rules.exact):
        return None
    return _with_care(run, [v.aval.dtype for v in closed.jaxpr.invars], rules.exact)


def moved_by_numpy(function: Callable[..., np.ndarray], count: int, exact: bool = True) -> Exact:
    """The same of a function of `count` NumPy arrays that moves numbers; exact: denormal ones are XLA's."""
    return _with_care(lambda arrays: [function(*arrays)], [None] * count, exact)


def _with_care(run: Callable[[list[Any]], list[np.ndarray]], dtypes: Sequence[Any], exact: bool = True) -> Exact:
    accepted = _normal if exact else as_it_is

    def call(arrays: Sequence[Any]) -> list[np.ndarray] | None:
        try:
            with np.errstate(all="ignore"):
                return run([accepted(np.asarray(x, d)) for x, d in zip(arrays, dtypes, strict=True)])
        except _refusals(exact):
            return None
    return call


def _refusals(exact: bool) -> type[Exception]:
    """Returns the exception that says that a program is not for NumPy.

    What is far from exact may fail in more ways, and XLA decides then.
    """
    return Unknown if exact else Exception


def _normal(x: Any) -> Any:
    """The array, which has no denormal numbers, nor what might be one rounded up: they are zeros to XLA."""
    _need(x.dtype.kind != "f" or not ((np.abs(x) <= np.finfo(x.dtype).tiny) & (x != 0)).any())
    return x


def _one_zero(x: Any) -> Any:
    """The array, which has no -0.0: to NumPy it is as large as 0.0, to XLA smaller."""
    _need(x.dtype.kind != "f" or not (np.signbit(x) & (x == 0)).any())
    return x


def _need(holds: Any) -> None:
    if not holds:
        raise Unknown


class _Aval(NamedTuple):
    shape: tuple[int, ...]
    dtype: np.dtype


def _widened(aval: _Aval) -> _Aval:
    return _Aval(aval.shape, _SINGLE) if aval.dtype in HALVES else aval


def _as_single(x: Any) -> Any:
    return x.astype(_SINGLE) if x.dtype in HALVES else x


def _program(jaxpr: Any, consts: Sequence[Any], known: Callable[[Any], Any], rules: Rules,
             kinds: Sequence[int] | None = None) -> tuple[Callable, list[int]]:
    """(the program, what its results are), for arguments that are `kinds`."""
    _need(not jaxpr.effects)
    accepted = _normal if rules.exact else as_it_is

    def within(closed: Any) -> Callable:
        return _program(closed.jaxpr, closed.consts, known, rules)[0]
    places: dict[Any, int] = {}
    first: list[Any] = []
    made: list[int] = []

    def place(variable: Any, value: Any = None, kind: int = _MOVED) -> int:
        if hasattr(variable, "val"):  # a literal
            value = np.asarray(variable.val, variable.aval.dtype)
        elif variable in places:
            return places[variable]
        else:
            places[variable] = len(first)
        _need(_dtype(variable) in rules.dtypes)
        first.append(value if value is None else accepted(value))
        made.append(kind)
        return len(first) - 1

    for variable, value in zip(jaxpr.constvars, consts, strict=True):
        place(variable, np.asarray(value))
    given = [place(v, None, k) for v, k in zip(jaxpr.invars, kinds or [_GIVEN] * len(jaxpr.invars), strict=True)]
    steps = []
    for eqn in _used(jaxpr):
        ins = [place(v) for v in eqn.invars]
        before = [made[i] for i in ins]
        quotient = is_quotient(eqn)
        inner = None if quotient else called(eqn)
        if inner is not None:
            function, after = _program(inner.jaxpr, inner.consts, known, rules, before)
            outs = [(place(v, None, k), None) for v, k in zip(eqn.outvars, after, strict=True)]
            steps.append(((lambda *xs, run=function: run(xs)), ins, outs, True))
            continue
        name = "div" if quotient else eqn.primitive.name
        params = {key: _each(known, value) for key, value in eqn.params.items()}
        *arguments, out = [_Aval(tuple(map(known, v.aval.shape)), _dtype(v))
                           for v in (*eqn.invars, eqn.outvars[0])]
        _need(rules.fits(name, params, arguments, out))
        if name in rules.programs:
            function = rules.programs[name](params, within, eqn)
            steps.append((function, ins, [(place(v, None, _MADE), None) for v in eqn.outvars], True))
            continue
        upon = max([_MOVED, *[k for k, a in zip(before, arguments, strict=True) if a.dtype == arguments[0].dtype]])
        rounds = rules.exact and name in _ROUNDS and out.dtype.kind == "f"
        _need(out.dtype in rules.dtypes and (name in rules.functions or name in rules.forms))
        _need(not (rounds and upon == _MADE))
        _need(name != "div" or quotient or not rules.exact and out.dtype.kind in "iu")
        halves = rules.dtypes is not _KNOWN and name not in _AS_THEY_ARE and \
            any(a.dtype in HALVES for a in (*arguments, out))
        if halves:
            *arguments, out = map(_widened, (*arguments, out))
        if rules.exact or math.prod(out.shape) or eqn.primitive.multiple_results:
            function = rules.functions.get(name) or rules.forms[name](params, arguments, out)
        else:
            function = lambda *_, made=out: np.zeros(made.shape, made.dtype)
        if halves:
            function = lambda *xs, run=function: run(*map(_as_single, xs))
        if rounds or rules.exact and name in ("convert_element_type", "bitcast_convert_type"):
            function = lambda *xs, run=function: _normal(run(*xs))
        kind = upon if name in _MOVES or name == "convert_element_type" and _same_numbers(arguments[0], out) else _MADE
        outs = [(place(v, None, kind), _dtype(v)) for v in eqn.outvars]
        steps.append((function, ins, outs, eqn.primitive.multiple_results and not quotient))
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


def _dtype(variable: Any) -> Any:
    """The dtype of a value; random keys are numbers of 64 bits."""
    dtype = getattr(variable.aval, "dtype", None)
    if isinstance(dtype, np.dtype):
        return dtype
    return _KEY if getattr(dtype, "name", "") == "key<fry>" else dtype


def _used(jaxpr: Any) -> list[Any]:
    """The equations that results depend on."""
    live, found = {v for v in jaxpr.outvars if not hasattr(v, "val")}, []
    for eqn in reversed(jaxpr.eqns):
        if not live.isdisjoint(eqn.outvars):
            found.append(eqn)
            live.update([v for v in eqn.invars if not hasattr(v, "val")])
    return found[::-1]


def _each(known: Callable[[Any], Any], value: Any) -> Any:
    """A parameter of an equation, whose sizes are known."""
    return tuple([_each(known, v) for v in value]) if type(value) is tuple else known(value)


# ------------------------------------------------------------ numbers
def _sum(x: Any, y: Any) -> Any:
    """x + y; XLA takes x + 0 for x, which it is not where x is -0.0."""
    _need(x.dtype.kind != "f" or not ((x == 0) & (y == 0) & (np.signbit(x) != np.signbit(y))).any())
    return x + y


def _larger(x: Any, y: Any) -> Any:
    return np.maximum(_one_zero(x), _one_zero(y))


def _smaller(x: Any, y: Any) -> Any:
    return np.minimum(_one_zero(x), _one_zero(y))


_FUNCTIONS: dict[str, Callable] = {
    "add": _sum, "add_any": _sum, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "sqrt": np.sqrt,
    "square": np.square, "neg": np.negative, "abs": np.absolute, "max": _larger, "min": _smaller,
    "clamp": lambda low, x, high: _smaller(_larger(x, low), high),
    "sign": lambda x: np.where(x == 0, x, np.sign(x)),  # of -0.0 it is -0.0
    "floor": np.floor, "ceil": np.ceil, "is_finite": np.isfinite, "not": np.invert, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor, "shift_left": np.left_shift, "eq": np.equal, "ne": np.not_equal,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "copy": np.asarray, "stop_gradient": np.asarray, "optimization_barrier": lambda *xs: xs,
}


def _integer_pow(params: dict, ins: list, out: Any) -> Callable:
    _need(params["y"] == 2)
    return np.square


def _round(params: dict, ins: list, out: Any) -> Callable:
    if params["rounding_method"] == jax.lax.RoundingMethod.TO_NEAREST_EVEN:
        return np.rint

    def away_from_zero(x: Any) -> Any:
        whole = np.trunc(x)
        return np.where(np.abs(x - whole) >= 0.5, whole + np.sign(x), whole)
    return away_from_zero


def _convert(params: dict, ins: list, out: Any) -> Callable:
    old, new = ins[0].dtype, out.dtype
    if new.kind == "b":
        return lambda x: x != 0
    if old.kind != "f" or new.kind == "f":
        scalar = old != new and _same_numbers(ins[0], out) and not _holds(new, old)
        return _to_number(new) if scalar else lambda x: x.astype(new)
    least, most = float(np.iinfo(new).min) - 1, 2.0 ** (8 * new.itemsize - (new.kind == "i"))

    def to_integers(x: Any) -> Any:
        whole = np.trunc(x)
        _need(((whole > least) & (whole < most)).all())
        return whole.astype(new)
    return to_integers


def _same_numbers(old: Any, new: Any) -> bool:
    """Returns whether a conversion changes nothing: not the type, or integers that floats hold, or one, a scalar
    argument.
    """
    return old.dtype == new.dtype or \
        old.dtype.kind in "iu" and new.dtype.kind == "f" and (new.shape == () or _holds(new.dtype, old.dtype))


def _holds(new: np.dtype, old: np.dtype) -> bool:
    """Returns whether floats of a type hold all integers of another."""
    return 8 * old.itemsize <= np.finfo(new).nmant


def _to_number(dtype: Any) -> Callable:
    def call(x: Any) -> Any:
        found = x.astype(dtype)
        _need((found.astype(x.dtype) == x).all())
        return found
    return call


def _bitcast(params: dict, ins: list, out: Any) -> Callable:
    _need(ins[0].dtype.itemsize == out.dtype.itemsize)
    return lambda x: x.view(out.dtype)


def _select(params: dict, ins: list, out: Any) -> Callable:
    _need(ins[0].dtype == bool and len(ins) == 3)
    return lambda which, no, yes: np.where(which, yes, no)


# ------------------------------------------------------------ places
def _reshape(params: dict, ins: list, out: Any) -> Callable:
    order = params.get("dimensions") if "new_sizes" in params else None
    return lambda x: (x if order is None else x.transpose(order)).reshape(out.shape)


def _column(rank: int, sizes: dict[int, int]) -> list[int]:
    """A shape of ones, but for these sizes."""
    return [sizes.get(i, 1) for i in range(rank)]


def _broadcast(params: dict, ins: list, out: Any) -> Callable:
    column = _column(len(out.shape), dict(zip(params["broadcast_dimensions"], ins[0].shape, strict=True)))
    return lambda x: np.broadcast_to(x.reshape(column), out.shape)


def _iota(params: dict, ins: list, out: Any) -> Callable:
    size = out.shape[params["dimension"]]
    column = _column(len(out.shape), {params["dimension"]: size})
    return lambda: np.broadcast_to(np.arange(size).astype(out.dtype).reshape(column), out.shape)


def _slice(params: dict, ins: list, out: Any) -> Callable:
    steps = params["strides"] or (1,) * len(out.shape)
    part = tuple(map(slice, params["start_indices"], params["limit_indices"], steps))
    return lambda x: x[part]


def _pad(params: dict, ins: list, out: Any) -> Callable:
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


def _dynamic_update_slice(params: dict, ins: list, out: Any) -> Callable:
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


def _gather(params: dict, ins: list, out: Any) -> Callable:
    numbers, shape = params["dimension_numbers"], ins[0].shape
    _need(math.prod(shape) > 0)
    places = _windows(shape, params["slice_sizes"], len(out.shape), numbers.offset_dims,
                      numbers.collapsed_slice_dims, numbers.start_index_map,
                      dict(zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True)))
    fill, kind = params["fill_value"], out.dtype.kind
    if fill is None:
        fill = np.nan if kind == "f" else True if kind == "b" else \
            np.iinfo(out.dtype).min if kind == "i" else np.iinfo(out.dtype).max
    drops = jax.lax.GatherScatterMode.from_any(params["mode"]) == jax.lax.GatherScatterMode.FILL_OR_DROP

    def gather(x: Any, indices: Any) -> Any:
        index, inside = places(indices)
        found = np.broadcast_to(x[index], out.shape)
        return np.where(inside, found, np.asarray(fill, x.dtype)) if drops and not inside.all() else found
    return gather


def scattering(combine: Callable[[Any, tuple, Any], None]) -> Callable:
    """The form of a scatter whose function(array, index, new values) changes the array."""
    def make(params: dict, ins: list, out: Any) -> Callable:
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


def _write(x: Any, index: tuple, new: Any) -> None:
    _once(x, index)
    x[index] = new


def _increase(x: Any, index: tuple, new: Any) -> None:
    if x.dtype.kind == "f":
        _once(x, index)
        x[index] = _sum(x[index], new)
    else:
        np.add.at(x, index, new)


def _once(x: Any, index: tuple) -> None:
    """No place is there twice: which number is written last, or in which order they are added, nothing says."""
    flat = np.ravel_multi_index(index, x.shape)
    _need(np.unique(flat).size == flat.size)


# ------------------------------------------------------------ along axes
def _whole(ufunc: np.ufunc) -> Callable:
    def make(params: dict, ins: list, out: Any) -> Callable:
        count = math.prod(ins[0].shape)
        _need(count > 0)
        if ufunc in (np.add, np.multiply) and ins[0].dtype.kind == "f":
            _need(count == math.prod(out.shape))  # nothing says in which order they are added
        return lambda x: ufunc.reduce(_one_zero(x), tuple(params["axes"]), x.dtype)
    return make


def _sort(params: dict, ins: list, out: Any) -> Callable:
    _need(params["num_keys"] == 1)
    _need(params["is_stable"] or len(ins) == 1 and ins[0].dtype.kind != "f")  # else equal ones come in any order
    axis = params["dimension"]

    def sort(*xs: Any) -> list[Any]:
        order = np.argsort(xs[0], axis, kind="stable")
        return [np.take_along_axis(x, order, axis) for x in xs]
    return sort


_FORMS: dict[str, Callable[[dict, list, Any], Callable]] = {  # of parameters, input avals, the first output's
    "integer_pow": _integer_pow, "round": _round, "convert_element_type": _convert, "bitcast_convert_type": _bitcast,
    "select_n": _select, "reshape": _reshape, "squeeze": _reshape, "expand_dims": _reshape,
    "broadcast_in_dim": _broadcast, "iota": _iota, "slice": _slice, "pad": _pad, "gather": _gather,
    "scatter": scattering(_write), "scatter-add": scattering(_increase), "scatter_add": scattering(_increase),
    "dynamic_slice": lambda p, ins, out: lambda x, *starts: x[_window(x.shape, starts, out.shape)],
    "dynamic_update_slice": _dynamic_update_slice,
    "dim_as_value": lambda p, ins, out: lambda: np.asarray(p["dim"], out.dtype),
    "transpose": lambda p, ins, out: lambda x: x.transpose(p["permutation"]),
    "rev": lambda p, ins, out: lambda x: np.flip(x, p["dimensions"]),
    "concatenate": lambda p, ins, out: lambda *xs: np.concatenate(xs, p["dimension"]),
    "stack": lambda p, ins, out: lambda *xs: np.stack(xs, p["axis"]),
    "tile": lambda p, ins, out: lambda x: np.tile(x, p["reps"]),
    "split": lambda p, ins, out: lambda x: np.split(x, np.cumsum(p["sizes"])[:-1], p["axis"]),
    "unstack": lambda p, ins, out: lambda x: list(np.moveaxis(x, p["axis"], 0)),
    "reduce_sum": _whole(np.add), "reduce_prod": _whole(np.multiply), "reduce_max": _whole(np.maximum),
    "reduce_min": _whole(np.minimum), "reduce_and": _whole(np.bitwise_and), "reduce_or": _whole(np.bitwise_or),
    "argmax": lambda p, ins, out: lambda x: np.argmax(x, p["axes"][0]),
    "argmin": lambda p, ins, out: lambda x: np.argmin(x, p["axes"][0]), "sort": _sort,
}
EXACT = Rules(_FUNCTIONS, _FORMS, {}, True, _KNOWN, lambda name, params, ins, out: math.prod(out.shape) <= _MOST)
