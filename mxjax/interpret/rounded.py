"""Functions, sums, products of matrices, convolutions and loops by NumPy: as good as XLA's, the last bit aside.

They stand in for programs of shapes that are not met again (docs/design/0013), where compiling would take a hundred
times as long as computing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ..ops.reduce._ties_by_numpy import positions
from .exact import EXACT, Rules, Unknown, scattering

__all__ = ["ROUNDED", "limit", "while_loop"]

_MOST = 1 << 22  # elements of what a window's places are copied to
_STEPS = 1024  # of a loop: each is some operations of NumPy's


# ------------------------------------------------------------ along axes
def _reduced(ufunc: np.ufunc) -> Callable:
    return lambda params, ins, out: lambda x: ufunc.reduce(x, tuple(params["axes"]), x.dtype)


def _so_far(ufunc: np.ufunc) -> Callable:
    def make(params: dict, ins: list, out: Any) -> Callable:
        axis, back = params["axis"], params["reverse"]
        turned = (lambda x: np.flip(x, axis)) if back else (lambda x: x)
        return lambda x: turned(ufunc.accumulate(turned(x), axis, dtype=x.dtype))
    return make


def _top_k(params: dict, ins: list, out: Any) -> Callable:
    axis, count = params.get("axis", -1), params["k"]
    if axis not in (-1, len(ins[0].shape) - 1) or ins[0].dtype.kind == "u":
        raise Unknown

    def top(x: Any) -> list[Any]:
        order = np.argsort(-x if x.dtype.kind == "f" else ~x, -1, kind="stable")[..., :count]
        return [np.take_along_axis(x, order, -1), order]
    return top


def _dot(params: dict, ins: list, out: Any) -> Callable:
    (left_sum, right_sum), (left_batch, right_batch) = params["dimension_numbers"]

    def order(rank: int, batch: Sequence[int], sums: Sequence[int]) -> list[int]:
        return [i for i in range(rank) if i not in batch and i not in sums]
    left, right = ins
    left_own = order(len(left.shape), left_batch, left_sum)
    right_own = order(len(right.shape), right_batch, right_sum)
    batch = tuple(left.shape[i] for i in left_batch)
    count = math.prod(left.shape[i] for i in left_sum)
    rows, columns = (math.prod(a.shape[i] for i in own) for a, own in ((left, left_own), (right, right_own)))
    dtype = out.dtype

    def dot(x: Any, y: Any) -> Any:
        x = x.transpose(*left_batch, *left_own, *left_sum).reshape(*batch, rows, count)
        y = y.transpose(*right_batch, *right_sum, *right_own).reshape(*batch, count, columns)
        return np.matmul(x, y, dtype=dtype).reshape(out.shape)
    return dot


# ------------------------------------------------------------ windows
def _spread(x: Any, axes: Sequence[int], pads: Sequence[Sequence[int]], between: Sequence[int], fill: Any) -> Any:
    """The array with `between - 1` places after each of its own along axes, and edges; negative ones cut it."""
    shape, into, kept = list(x.shape), [slice(None)] * x.ndim, [slice(None)] * x.ndim
    for axis, (low, high), step in zip(axes, pads, between, strict=True):
        own = max(0, (x.shape[axis] - 1) * step + 1)
        shape[axis] = own + max(low, 0) + max(high, 0)
        into[axis] = slice(max(low, 0), max(low, 0) + own, step)
        kept[axis] = slice(max(-low, 0), shape[axis] - max(-high, 0))
    if shape == list(x.shape) and all(k in (slice(None), slice(0, n)) for k, n in zip(kept, shape, strict=True)):
        return x
    result = np.full(shape, fill, x.dtype)
    result[tuple(into)] = x
    return result[tuple(kept)]


def _windows(x: Any, axes: Sequence[int], sizes: Sequence[int], strides: Sequence[int],
             apart: Sequence[int]) -> Any:
    """A view of all windows: their places along the axes, what is in them along further axes at the end."""
    whole = [(n - 1) * step + 1 for n, step in zip(sizes, apart, strict=True)]
    view = sliding_window_view(x, whole, tuple(axes))
    steps: list[Any] = [slice(None)] * x.ndim
    for axis, stride in zip(axes, strides, strict=True):
        steps[axis] = slice(None, None, stride)
    return view[(*steps, *[slice(None, None, step) for step in apart])]


def limit(which: str, dtype: np.dtype) -> Any:
    """The smallest ("min") or largest ("max") value of a dtype."""
    if dtype.kind == "b":
        return which == "max"
    return getattr(np.iinfo(dtype), which) if dtype.kind in "iu" else np.inf if which == "max" else -np.inf


def _reduced_windows(ufunc: np.ufunc) -> Callable:
    def make(params: dict, ins: list, out: Any) -> Callable:
        sizes, strides, pads = params["window_dimensions"], params["window_strides"], params["padding"]
        between, apart = params["base_dilation"], params["window_dilation"]
        axes, kind, dtype = range(len(sizes)), out.dtype.kind, out.dtype
        fill = 0 if ufunc is np.add else limit("min" if ufunc is np.maximum else "max", dtype)
        if kind == "b" or not math.prod(out.shape) * math.prod(sizes):
            raise Unknown
        last = tuple(range(-len(sizes), 0))

        def reduced(x: Any) -> Any:
            view = _windows(_spread(x, axes, pads, between, fill), axes, sizes, strides, apart)
            return ufunc.reduce(view, last, dtype)
        return reduced
    return make


def _convolution(params: dict, ins: list, out: Any) -> Callable:
    numbers, pads = params["dimension_numbers"], params["padding"]
    groups, of_batch = params["feature_group_count"], params["batch_group_count"]
    strides, between, apart = params["window_strides"], params["lhs_dilation"], params["rhs_dilation"]
    weight = [ins[1].shape[i] for i in numbers.rhs_spec]  # (outputs, inputs, *sizes)
    sizes, rank = weight[2:], len(weight)
    made = [out.shape[i] for i in numbers.out_spec]  # (batch, outputs, *places)
    places = made[2:]
    if not math.prod(made) * math.prod(weight):
        raise Unknown
    axes = range(2, rank)
    order = np.argsort(numbers.out_spec)

    def convolve(x: Any, w: Any) -> Any:
        x, w = x.transpose(numbers.lhs_spec), w.transpose(numbers.rhs_spec)
        x = _spread(x, axes, pads, between, 0)
        view = _windows(x, axes, sizes, strides, apart)  # (batch, inputs, *places, *sizes)
        batch, inputs = x.shape[:2]
        many = groups * of_batch
        view = view.reshape(of_batch, batch // of_batch, groups, inputs // groups, *view.shape[2:])
        view = view.transpose(0, 2, 1, *range(4, 2 + rank), 3, *range(2 + rank, 2 * rank))
        rows = (batch // of_batch) * math.prod(places)
        w = w.reshape(many, weight[0] // many, -1)
        result = np.matmul(view.reshape(many, rows, -1), w.transpose(0, 2, 1), dtype=out.dtype)
        result = result.reshape(many, batch // of_batch, *places, weight[0] // many)
        result = np.moveaxis(result, -1, 1)  # (groups, outputs of one, batch, *places)
        result = result.reshape(weight[0], made[0], *places).swapaxes(0, 1)
        return result.transpose(order)
    return convolve


# ------------------------------------------------------------ numbers
def _quotient(params: dict, ins: list, out: Any) -> Callable:
    """Of floats; of integers towards zero, where that is defined."""
    return np.divide if out.dtype.kind == "f" else lambda x, y: (x - _rest(x, y)) // y


def _rest(x: Any, y: Any) -> Any:
    if x.dtype.kind in "iu" and not ((y != 0) & (y + 1 != 0)).all():
        raise Unknown
    return np.fmod(x, y)


def _polynomial(x: Any, *coefficients: Any) -> Any:
    """The coefficient of x ** 0 comes first."""
    total = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        total = total * x + coefficient
    return total


def _special(name: str) -> Callable:
    def call(x: Any) -> Any:
        import scipy.special  # 0.2 s to import
        return getattr(scipy.special, name)(x)
    return call


# ------------------------------------------------------------ loops and branches
def _scan(params: dict, within: Callable, eqn: Any) -> Callable:
    body, length, inner = within(params["jaxpr"]), params["length"], params["jaxpr"].jaxpr
    # releases of JAX tell by other parameters what is carried: what has as many axes within as outside
    carried = _alike(inner.outvars, eqn.outvars)
    consts = _alike(inner.invars, eqn.invars) - carried
    if not length:
        raise Unknown
    order = range(length - 1, -1, -1) if params["reverse"] else range(length)

    def scan(*xs: Any) -> list[Any]:
        fixed, carry, rows = xs[:consts], list(xs[consts:consts + carried]), xs[consts + carried:]
        made: list[list[Any]] = [[None] * length for _ in eqn.outvars[carried:]]
        for i in order:
            outs = body([*fixed, *carry, *[x[i] for x in rows]])
            carry = outs[:carried]
            for column, value in zip(made, outs[carried:], strict=True):
                column[i] = value
        return [*carry, *map(np.stack, made)]
    return scan


def _alike(inner: Sequence[Any], outer: Sequence[Any]) -> int:
    return sum(len(v.aval.shape) == len(w.aval.shape) for v, w in zip(inner, outer, strict=True))


def while_loop(params: dict, within: Callable, eqn: Any, most: int | None = _STEPS) -> Callable:
    """`lax.while_loop`, of at most so many steps (None: any)."""
    goes_on, body = within(params["cond_jaxpr"]), within(params["body_jaxpr"])
    first, second = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]

    def loop(*xs: Any) -> list[Any]:
        values = list(xs[second:])
        for _ in itertools.count() if most is None else range(most):
            going = goes_on([*xs[:first], *values])[0]
            if not going.any():
                return values
            made = body([*xs[first:second], *values])
            values = made if going.all() else [  # several loops at once: those that have ended stay as they are
                np.where(going.reshape(going.shape + (1,) * (new.ndim - going.ndim)), new, old)
                for new, old in zip(made, values, strict=True)]
        raise Unknown
    return loop


def _cond(params: dict, within: Callable, eqn: Any) -> Callable:
    branches = [within(branch) for branch in params["branches"]]
    return lambda which, *xs: branches[min(max(int(which), 0), len(branches) - 1)](xs)


def _power(params: dict, ins: list, out: Any) -> Callable:
    return lambda x: np.power(x, np.asarray(params["y"], x.dtype) if out.dtype.kind == "f" else params["y"])


def _is_little(name: str, params: dict, ins: list, out: Any) -> bool:
    """Returns whether NumPy need not be much slower, or take much more memory, than a program."""
    copied = 0
    if name == "scan":
        return params["length"] <= _STEPS
    if name == "conv_general_dilated":
        numbers = params["dimension_numbers"]
        places = math.prod(n for axis, n in enumerate(out.shape) if axis != numbers.out_spec[1])
        window = math.prod(n for axis, n in enumerate(ins[1].shape) if axis != numbers.rhs_spec[0])
        copied = places * window * params["feature_group_count"] * params["batch_group_count"]
    elif name.startswith("reduce_window"):
        copied = math.prod(out.shape) * math.prod(params["window_dimensions"])
    return copied <= _MOST and EXACT.fits(name, params, ins, out)


ROUNDED = Rules(
    {**{name: function for name, function in EXACT.functions.items() if name != "div"},
     "add": np.add, "add_any": np.add, "max": np.maximum, "min": np.minimum,
     "clamp": lambda low, x, high: np.minimum(np.maximum(x, low), high),
     "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log1p": np.log1p,
     "logistic": lambda x: 1 / (1 + np.exp(-x)),
     "tanh": np.tanh, "sinh": np.sinh, "cosh": np.cosh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
     "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
     "atan2": np.arctan2, "rem": _rest, "pow": np.power, "rsqrt": lambda x: 1 / np.sqrt(x), "cbrt": np.cbrt,
     "one_minus_square": lambda x: (1 + x) * (1 - x), "log2": np.log2, "polynomial": _polynomial,
     **{name: _special(theirs) for name, theirs in {"erf": "erf", "erfc": "erfc", "erf_inv": "erfinv",
                                                    "lgamma": "gammaln", "digamma": "digamma"}.items()}},
    {**EXACT.forms,
     "div": _quotient, "integer_pow": _power, "reduce_sum": _reduced(np.add), "reduce_prod": _reduced(np.multiply),
     "reduce_max": _reduced(np.maximum), "reduce_min": _reduced(np.minimum), "cumsum": _so_far(np.add),
     "cumprod": _so_far(np.multiply), "cummax": _so_far(np.maximum), "cummin": _so_far(np.minimum),
     "cumlogsumexp": _so_far(np.logaddexp), "top_k": _top_k, "dot_general": _dot,
     "conv_general_dilated": _convolution, "reduce_window_sum": _reduced_windows(np.add),
     "reduce_window_max": _reduced_windows(np.maximum), "reduce_window_min": _reduced_windows(np.minimum),
     "scatter-add": scattering(np.add.at), "scatter_add": scattering(np.add.at),
     "mxnet_order": lambda params, ins, out: lambda keys: positions(keys, **params)},
    {"scan": _scan, "while": while_loop, "cond": _cond}, False, EXACT.dtypes, _is_little)
