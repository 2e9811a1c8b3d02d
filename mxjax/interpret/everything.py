"""What NumPy computes in a forked child, where XLA has no threads: all programs of which it knows each operation.

The results are as good as XLA's, but for the last bits; it takes more time and memory, for whole networks much more.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import jax
import numpy as np
import scipy.linalg
from jax.extend.core import ClosedJaxpr

from .._xla.process import forked, not_in_fork
from ..ops.by_device import traced_for
from .calls import as_buffers
from .exact import HALVES, Rules, Unknown, by_numpy, scattering
from .rounded import ROUNDED, limit, while_loop

__all__ = ["ALL", "FIRST", "Eager", "unknown"]


# ------------------------------------------------------------ numbers
def _quotient(x: Any, y: Any) -> Any:
    """Of integers towards zero; by 0 all bits are set, and by -1 the least one stays what it is."""
    if x.dtype.kind not in "iu":
        return np.divide(x, y)
    plain = (y != 0) & ((y != -1) if y.dtype.kind == "i" else True)
    divisor = np.where(plain, y, 1).astype(y.dtype)
    towards_zero = (x - np.fmod(x, divisor)) // divisor
    return np.where(plain, towards_zero, np.where(y == 0, ~np.zeros_like(x), np.negative(x)))


def _rest(x: Any, y: Any) -> Any:
    if x.dtype.kind not in "iu":
        return np.fmod(x, y)
    return np.where(y == 0, x, x - y * _quotient(x, np.where(y == 0, 1, y).astype(y.dtype)))


def _convert(params: dict, ins: list, out: Any) -> Callable:
    old, new = ins[0].dtype, out.dtype
    if new.kind == "b":
        return lambda x: x != 0
    if old.kind == "c" and new.kind != "c":
        return lambda x: x.real.astype(new)
    if old.kind != "f" or new.kind not in "iu":
        return lambda x: x.astype(new)
    least, most = np.iinfo(new).min, np.iinfo(new).max

    def to_integers(x: Any) -> Any:  # those beyond become the last ones, as XLA has it
        inside = (x > float(least) - 1) & (x < float(most) + 1)
        return np.where(inside, np.where(inside, x, 0).astype(new), np.where(x > 0, most, least * (x < 0)).astype(new))
    return to_integers


def _shifted_bits(x: Any, y: Any) -> Any:
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    return np.right_shift(x.view(unsigned), y.view(unsigned)).view(x.dtype)


def _in_order(compare: np.ufunc) -> Callable:
    """A comparison in which -0.0 comes before 0.0, and NaN last."""
    def key(x: Any) -> Any:
        if x.dtype.kind != "f":
            return x
        bits = np.ascontiguousarray(x).view(f"i{x.dtype.itemsize}")
        return np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)
    return lambda x, y: compare(key(x), key(y))


def _chosen(params: dict, ins: list, out: Any) -> Callable:
    if ins[0].dtype == bool:
        return lambda which, no, yes: np.where(which, yes, no)
    return lambda which, *cases: np.choose(np.clip(which, 0, len(cases) - 1), cases)


# ------------------------------------------------------------ along axes
def _reduced(ufunc: np.ufunc, start: str = "") -> Callable:
    """start: what there is without elements, the smallest ("min") or largest ("max") value; 0."""
    def make(params: dict, ins: list, out: Any) -> Callable:
        axes, first = tuple(params["axes"]), limit(start, out.dtype) if start else 0
        return lambda x: ufunc.reduce(x, axes, x.dtype) if x.size else ufunc.reduce(x, axes, x.dtype, initial=first)
    return make


def _sort(params: dict, ins: list, out: Any) -> Callable:
    axis, keys = params["dimension"], params["num_keys"]

    def sort(*xs: Any) -> list[Any]:
        order = np.argsort(xs[0], axis, kind="stable") if keys == 1 else np.lexsort(xs[keys - 1::-1], axis)
        return [np.take_along_axis(x, order, axis) for x in xs]
    return sort


def _reduce(params: dict, within: Callable, eqn: Any) -> Callable:
    """By a function of two elements each."""
    body, axes = within(params["jaxpr"]), tuple(params["dimensions"])

    def reduce(*xs: Any) -> list[Any]:
        arrays, totals = xs[:len(xs) // 2], list(xs[len(xs) // 2:])
        rows = [np.moveaxis(x, axes, range(len(axes))) for x in arrays]
        rows = [r.reshape(-1, *r.shape[len(axes):]) for r in rows]
        for i in range(len(rows[0])):
            totals = body([*totals, *[r[i] for r in rows]])
        return [np.broadcast_to(t, r.shape[1:]) for t, r in zip(totals, rows, strict=True)]
    return reduce


def _put(x: Any, index: tuple, new: Any) -> None:
    x[index] = new


# ------------------------------------------------------------ factorizations
def _matrices(function: Callable[..., Sequence[Any]]) -> Callable:
    """A function of matrices for stacks of them; those without an answer have NaN, as XLA has it."""
    def one(*xs: Any) -> Sequence[Any]:
        try:
            return function(*xs)
        except np.linalg.LinAlgError:
            return [np.full(x.shape, np.nan, x.dtype) for x in xs[-1:]]

    def call(*xs: Any) -> list[Any]:
        made = [one(*[x[i] for x in xs]) for i in np.ndindex(xs[0].shape[:-2])]
        return [np.reshape(np.stack(column), (*xs[0].shape[:-2], *column[0].shape))
                for column in zip(*made, strict=True)]
    return call


def _lu(params: dict, ins: list, out: Any) -> Callable:
    def lu(a: Any) -> tuple[Any, ...]:
        factors, pivots = scipy.linalg.lu_factor(a, check_finite=False)
        order = np.arange(a.shape[0])
        for i, j in enumerate(pivots):
            order[[i, j]] = order[[j, i]]
        return factors, pivots.astype(np.int32), order.astype(np.int32)
    return _matrices(lu)


def _triangular_solve(params: dict, ins: list, out: Any) -> Callable:
    lower, unit, left = params["lower"], params["unit_diagonal"], params["left_side"]
    turned = params["transpose_a"]

    def solve(a: Any, b: Any) -> tuple[Any]:
        conjugated = a.conj() if params["conjugate_a"] else a
        trans = int(turned if left else not turned)
        found = scipy.linalg.solve_triangular(conjugated, b if left else b.T, trans, lower, unit, check_finite=False)
        return (found if left else found.T,)
    return lambda a, b: _matrices(solve)(a, b)[0]


def _eigh(params: dict, ins: list, out: Any) -> Callable:
    return lambda x: np.linalg.eigh(x, "L" if params["lower"] else "U")[::-1]


def _eig(params: dict, ins: list, out: Any) -> Callable:
    if params["compute_left_eigenvectors"]:
        raise Unknown
    return np.linalg.eig if params["compute_right_eigenvectors"] else lambda x: [np.linalg.eigvals(x)]


def _svd(params: dict, ins: list, out: Any) -> Callable:
    if not params["compute_uv"]:
        return lambda x: [np.linalg.svd(x, compute_uv=False)]

    def svd(x: Any) -> list[Any]:
        left, values, right = np.linalg.svd(x, params["full_matrices"])
        return [values, left, right]
    return svd


def _linear_solve(params: dict, within: Callable, eqn: Any) -> Callable:
    counts, solve = params["const_lengths"], within(params["jaxprs"].solve)
    first = counts.matvec + counts.vecmat
    return lambda *xs: solve([*xs[first:first + counts.solve], *xs[first + counts.solve + counts.transpose_solve:]])


# ------------------------------------------------------------ random numbers
def _threefry(key: Any, high: Any, low: Any) -> tuple[Any, Any]:
    """Threefry-2x32 with 20 rounds (Salmon et al., SC 2011), of JAX's random keys: two words out of a key and two."""
    first, second = (key >> 32).astype(np.uint32), key.astype(np.uint32)
    keys = first, second, first ^ second ^ np.uint32(0x1BD11BDA)
    x, y = high + first, low + second
    for i, turns in enumerate(((13, 15, 26, 6), (17, 29, 16, 24), (13, 15, 26, 6), (17, 29, 16, 24), (13, 15, 26, 6))):
        for turn in turns:
            x = x + y
            y = (y << np.uint32(turn) | y >> np.uint32(32 - turn)) ^ x
        x, y = x + keys[(i + 1) % 3], y + keys[(i + 2) % 3] + np.uint32(i + 1)
    return x, y


def _as_key(high: Any, low: Any) -> Any:
    return high.astype(np.uint64) << np.uint64(32) | low.astype(np.uint64)


def _counted(keys: Any, shape: Sequence[int]) -> tuple[Any, Any]:
    """Two words for each key and each place of a shape."""
    places = np.arange(math.prod(shape), dtype=np.uint64).reshape(shape)
    keys = keys.reshape(keys.shape + (1,) * len(shape))
    return _threefry(keys, (places >> np.uint64(32)).astype(np.uint32), places.astype(np.uint32))


def _bits(params: dict, ins: list, out: Any) -> Callable:
    def bits(keys: Any) -> Any:
        high, low = _counted(keys, params["shape"])
        return _as_key(high, low) if params["bit_width"] == 64 else (high ^ low).astype(out.dtype)
    if not jax.config.jax_threefry_partitionable:
        raise Unknown
    return bits


def _split(params: dict, ins: list, out: Any) -> Callable:
    if not jax.config.jax_threefry_partitionable:
        raise Unknown
    return lambda keys: _as_key(*_counted(keys, params["shape"]))


def _fold_in(keys: Any, number: Any) -> Any:
    number = number.astype(np.uint32)
    return _as_key(*_threefry(keys, np.zeros_like(number), number))


def _unwrapped(keys: Any) -> Any:
    return np.stack([keys >> np.uint64(32), keys & np.uint64(0xFFFFFFFF)], -1).astype(np.uint32)


# ------------------------------------------------------------ loops and branches
def _remat(params: dict, within: Callable, eqn: Any) -> Callable:
    inner = within(ClosedJaxpr(params["jaxpr"], ()))
    return lambda *xs: inner(xs)


def _platform_index(params: dict, ins: list, out: Any) -> Callable:
    place = next(i for i, platforms in enumerate(params["platforms"]) if platforms is None or "cpu" in platforms)
    return lambda: np.int32(place)


def _empty(params: dict, ins: list, out: Any) -> Callable:
    return lambda: np.zeros(out.shape, out.dtype)


ALL = Rules(
    {**ROUNDED.functions, "rem": _rest, "shift_right_arithmetic": np.right_shift, "shift_right_logical": _shifted_bits,
     "lt_to": _in_order(np.less), "le_to": _in_order(np.less_equal), "eq_to": _in_order(np.equal),
     "nextafter": np.nextafter, "real": np.real, "imag": np.imag, "conj": np.conj,
     "random_wrap": lambda data: _as_key(data[..., 0], data[..., 1]), "random_unwrap": _unwrapped,
     "random_fold_in": _fold_in, "complex": lambda x, y: x + 1j * y,
     "cholesky": lambda x: _matrices(lambda a: [np.linalg.cholesky(a)])(x)[0]},
    {**ROUNDED.forms, "div": lambda p, ins, out: _quotient, "convert_element_type": _convert, "select_n": _chosen,
     "reduce_max": _reduced(np.maximum, "min"), "reduce_min": _reduced(np.minimum, "max"),
     "reduce_and": _reduced(np.bitwise_and, "max"), "reduce_or": _reduced(np.bitwise_or, "min"),
     "reduce_xor": _reduced(np.bitwise_xor), "sort": _sort,
     "scatter": scattering(_put), "scatter_mul": scattering(np.multiply.at), "scatter-mul": scattering(np.multiply.at),
     "scatter_min": scattering(np.minimum.at), "scatter-min": scattering(np.minimum.at),
     "scatter_max": scattering(np.maximum.at), "scatter-max": scattering(np.maximum.at),
     "lu": _lu, "triangular_solve": _triangular_solve, "eigh": _eigh, "svd": _svd,
     "qr": lambda p, ins, out: lambda x: np.linalg.qr(x, "complete" if p["full_matrices"] else "reduced"),
     "eig": _eig, "platform_index": _platform_index,
     "empty": _empty, "empty2": _empty, "random_bits": _bits, "random_split": _split},
    {**ROUNDED.programs, "while": functools.partial(while_loop, most=None),
     "reduce": _reduce, "remat2": _remat, "remat": _remat, "checkpoint": _remat,
     "custom_linear_solve": _linear_solve},
    False, ROUNDED.dtypes | HALVES | {np.dtype("c8"), np.dtype("c16")}, lambda *_: True)

FIRST = ALL._replace(programs={**ALL.programs, "while": while_loop})  # XLA's loops are faster where they are long


class Eager:
    """A function of arrays that is never compiled: what it does depends on their values.

    Args:
        function: the function.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *args: Any) -> Any:
        if not forked():
            return self.function(*args)
        try:
            with traced_for("cpu"):
                closed, shapes = jax.make_jaxpr(lambda: self.function(*args), return_shape=True)()
        except (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError):  # of what it has made
            unknown()
        found = by_numpy(closed, rules=ALL)
        values = unknown() if found is None else found([])
        if values is None:
            unknown()
        return as_buffers(jax.tree.unflatten(jax.tree.structure(shapes), values))


def unknown(*_: Any) -> NoReturn:
    """Says that NumPy has no form of a program."""
    raise not_in_fork("it cannot be computed")
