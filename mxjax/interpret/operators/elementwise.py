"""Element-wise functions of one array."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._support import c_math
from ...ops.params import np_dtype
from ..direct import Work, need, numpy_form
from ..numbers import as_c
from ..program import Array

__all__ = ["NUMBERS", "chosen", "erf", "flat", "floats", "passed", "reads_none", "sigmoid", "summed_to"]

NUMBERS = frozenset(map(np.dtype, ("f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")))
_CAST = NUMBERS | {np.dtype(bool)}


# ------------------------------------------------------------ shared by forms
def floats(*arrays: Array) -> None:
    """Omits the gradients of integer arrays."""
    need(all([a.dtype.kind == "f" for a in arrays]))


def passed(x: Array) -> Any:
    """Returns the array itself as a view, so that its memory is not mistaken for that of the result."""
    return x[...]


def flat(*arrays: Array) -> list[Any]:
    """Returns gradients of zero."""
    return [np.zeros(a.shape, a.dtype) for a in arrays]


def reads_none(p: dict, needs_grad: Sequence[bool]) -> list[bool]:
    """Declares that the gradients depend only on those of the outputs."""
    return [False] * len(needs_grad)


def chosen(mask: Array, x: Array) -> Any:
    """Returns x where the mask is true, else 0, with broadcasting. It uses bits, which is many times as fast as
    np.where."""
    bits = np.asarray(mask).view("i1").astype(f"i{x.dtype.itemsize}")
    np.negative(bits, out=bits)
    kept = np.bitwise_and(bits, x.view(bits.dtype), out=bits if bits.shape == x.shape else None)
    return kept.view(x.dtype)


def summed_to(grad: Array, shape: tuple[int, ...]) -> Any:
    """Returns the gradient of an array of this shape that was broadcast to the shape of the gradient."""
    if grad.shape == shape:
        return grad
    more = grad.ndim - len(shape)
    axes = tuple([i for i, n in enumerate(grad.shape) if i < more or shape[i - more] != n])
    return grad.sum(axes).reshape(shape)


# ------------------------------------------------------------ functions and their slopes
def _unary(names: str | Sequence[str], function: Callable[[Any], Any], slope: Callable[[Any], Any] | None = None, *,
           integers: bool = False, work: float = 0.0) -> None:
    """Registers an element-wise function.

    Args:
        names: names of the operators.
        function: function of an array with at least one axis.
        slope: the derivative, a new array; None: 0.
        integers: it accepts integers, too.
        work: work per element, if it is large.
    """
    def forward(p: dict, x: Array) -> Any:
        return function(x) if x.ndim else function(x.reshape(1)).reshape(())

    def backward(p: dict, out_grads: Sequence[Any], needs_grad: Sequence[bool], x: Array) -> list[Any]:
        floats(x)
        if slope is None:
            return flat(x)
        grad = slope(x if x.ndim else x.reshape(1)).reshape(x.shape)
        grad *= out_grads[0]
        return [grad]
    fields: dict[str, Any] = {} if slope else {"reads": reads_none}
    if integers:
        fields["dtypes"] = NUMBERS
    if work:
        fields["work"] = lambda p, x: Work(work * math.prod(x))
    numpy_form(*([names] if isinstance(names, str) else names), backward=backward, **fields)(forward)


_exp, tanh = as_c(np.exp), as_c(np.tanh)


def sigmoid(x: Array) -> Any:
    """Returns 1 / (1 + exp(-x))."""
    y = _exp(-x)
    y += 1
    return 1 / y


def _sigmoid_slope(x: Array) -> Any:
    s = sigmoid(x)
    s -= s * s
    return s


def _tanh_slope(x: Array) -> Any:
    t = tanh(x)
    np.multiply(t, t, out=t)
    return np.subtract(1, t, out=t)


def erf(x: Array) -> Any:
    """Returns the error function in float32."""
    need(x.dtype == np.float32)
    return c_math.erf(x)


def _relu_slope(x: Array) -> Any:
    need(not x.size or x.max() == x.max())  # the slope at NaN
    return (x > 0).astype(x.dtype)


def _abs_slope(x: Array) -> Any:
    slope = (x > 0).astype(x.dtype)  # 0 at NaN
    slope -= x < 0
    return slope


def _sign(x: Array) -> Any:
    return (x > 0).astype(x.dtype) - (x < 0)


def _nearest(x: Array) -> Any:
    """Rounds to the nearest integer, halves down."""
    low = np.floor(x)
    return low + (x - low > np.ceil(x) - x)


def _rounded(x: Array) -> Any:
    """Rounds to the nearest integer, halves away from zero."""
    whole = np.trunc(x)
    return whole + np.copysign(np.abs(x - whole) >= 0.5, x)


def _constant(factor: float) -> Callable[[Any], Any]:
    return lambda x: np.full(x.shape, factor, x.dtype)


_DEGREES = 180 / math.pi
_C = {name: as_c(getattr(np, name)) for name in (
    "exp", "expm1", "log", "log2", "log10", "log1p", "cbrt", "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh",
    "cosh", "tanh", "arcsinh", "arccosh", "arctanh")}
_LIGHT = {  # a function and its derivative
    "sigmoid": (sigmoid, _sigmoid_slope),
    "exp": (_C["exp"], _C["exp"]),
    "expm1": (_C["expm1"], _C["exp"]),
    "log": (_C["log"], lambda x: 1 / x),
    "log2": (_C["log2"], lambda x: (1 / math.log(2)) / x),
    "log10": (_C["log10"], lambda x: (1 / math.log(10)) / x),
    "log1p": (_C["log1p"], lambda x: 1 / (1 + x)),
    "sqrt": (np.sqrt, lambda x: 0.5 / np.sqrt(x)),
    "rsqrt": (lambda x: 1 / np.sqrt(x), lambda x: -0.5 / np.sqrt(x) / x),
    "cbrt": (_C["cbrt"], lambda x: (1 / 3) / np.square(np.cbrt(x))),
    "reciprocal": (np.reciprocal, lambda x: -1 / np.square(x)),
    "sin": (_C["sin"], _C["cos"]),
    "cos": (_C["cos"], lambda x: -np.sin(x)),
    "tan": (_C["tan"], lambda x: 1 + np.square(np.tan(x))),
    "arcsin": (_C["arcsin"], lambda x: 1 / np.sqrt(1 - x * x)),
    "arccos": (_C["arccos"], lambda x: -1 / np.sqrt(1 - x * x)),
    "arctan": (_C["arctan"], lambda x: 1 / (1 + x * x)),
    "sinh": (_C["sinh"], _C["cosh"]),
    "cosh": (_C["cosh"], _C["sinh"]),
    "tanh": (_C["tanh"], _tanh_slope),
    "arcsinh": (_C["arcsinh"], lambda x: 1 / np.sqrt(x * x + 1)),
    "arccosh": (_C["arccosh"], lambda x: 1 / np.sqrt((x - 1) * (x + 1))),
    "arctanh": (_C["arctanh"], lambda x: 1 / (1 - x * x)),
    "degrees": (np.degrees, _constant(_DEGREES)),
    "radians": (np.radians, _constant(1 / _DEGREES)),
    "ceil": (np.ceil, None),
    "floor": (np.floor, None),
    "trunc": (np.trunc, None),
    "fix": (np.trunc, None),
    "rint": (_nearest, None),
}
_EXACT = {  # the same for functions that accept integers unchanged
    "relu": (lambda x: np.maximum(x, 0), _relu_slope),
    "negative": (np.negative, _constant(-1)),
    "square": (np.square, lambda x: 2 * x),
    "sign": (_sign, None),
}
for _name, (_function, _slope) in _LIGHT.items():
    _others = {"sigmoid": ["_npx_sigmoid"], "rsqrt": []}.get(_name, [f"_npi_{_name}"])
    _unary([_name, *_others], _function, _slope)
for _name, (_function, _slope) in _EXACT.items():
    _unary([_name, "_npx_relu" if _name == "relu" else f"_npi_{_name}"], _function, _slope, integers=True)
_unary("softsign", lambda x: x / (1 + np.abs(x)), lambda x: 1 / np.square(1 + np.abs(x)))
_unary("erf", erf, lambda x: (2 / math.sqrt(math.pi)) * np.exp(-x * x), work=7)
_unary("round", _rounded)
_unary(["abs", "_npi_absolute"], np.abs, _abs_slope, integers=True)
_unary("logical_not", lambda x: (x == 0).astype(x.dtype), integers=True)
for _name, _function in {"logical_not": np.logical_not, "isnan": np.isnan, "isinf": np.isinf,
                         "isposinf": np.isposinf, "isneginf": np.isneginf, "isfinite": np.isfinite}.items():
    _unary(f"_npi_{_name}", _function)


# ------------------------------------------------------------ with parameters
def _by_number(x: Array, value: float) -> Any:
    """Returns a parameter in the dtype of a float array."""
    return x.dtype.type(value)


def _limits(p: dict, x: Array) -> tuple[Any, Any]:
    return _by_number(x, p["a_min"]), _by_number(x, p["a_max"])


def _clip_backward(p: dict, out_grads: Sequence[Any], needs_grad: Sequence[bool], x: Array) -> list[Any]:
    low, high = _limits(p, x)
    return [chosen(~((x < low) | (x > high)), out_grads[0])]  # NaN passes the gradient


@numpy_form("clip", backward=_clip_backward)
def _clip(p: dict, x: Array) -> Any:
    low, high = _limits(p, x)
    need(low <= high)
    return np.minimum(np.maximum(x, low), high)


def _line(p: dict, x: Array) -> Any:
    return x * _by_number(x, p["alpha"]) + _by_number(x, p["beta"])


def _hard_sigmoid_backward(p: dict, out_grads: Sequence[Any], needs_grad: Sequence[bool], x: Array) -> list[Any]:
    y = _line(p, x)
    return [chosen((y > 0) & (y < 1), out_grads[0]) * _by_number(x, p["alpha"])]


@numpy_form("hard_sigmoid", backward=_hard_sigmoid_backward)
def _hard_sigmoid(p: dict, x: Array) -> Any:
    y = _line(p, x)
    return np.minimum(np.maximum(y, 0), 1)


def _bend(p: dict, x: Array) -> tuple[Any, Any]:
    """Returns the square of the scale, and the point where the parabola becomes a line."""
    squared = np.square(_by_number(x, p["scalar"]))
    return squared, 1 / squared


def _smooth_l1_backward(p: dict, out_grads: Sequence[Any], needs_grad: Sequence[bool], x: Array) -> list[Any]:
    squared, end = _bend(p, x)
    need(squared > 0)
    slope = np.clip(x * squared, -1, 1)
    slope *= out_grads[0]
    return [slope]


@numpy_form("smooth_l1", backward=_smooth_l1_backward)
def _smooth_l1(p: dict, x: Array) -> Any:
    squared, end = _bend(p, x)
    need(squared > 0)
    far = np.abs(x)
    near = np.minimum(far, end)
    # the line continues beyond the parabola
    return (0.5 * squared) * near * near + (far - near)


@numpy_form("_npi_around", backward=lambda p, out_grads, needs_grad, x: flat(x), reads=reads_none)
def _around(p: dict, x: Array) -> Any:
    need(p["decimals"] == 0)
    return np.rint(x)


def _scale(x: Array) -> Any:
    need(x.ndim)
    return _by_number(x, x.shape[-1] ** 0.5)


numpy_form("_contrib_div_sqrt_dim", reads=reads_none,
           backward=lambda p, out_grads, needs_grad, x: [out_grads[0] / _scale(x)])(lambda p, x: x / _scale(x))


# ------------------------------------------------------------ the array itself, or its shape alone
def _itself(p: dict, x: Array, *others: Array) -> Any:
    return passed(x)


def _of_first(gradient: Callable[..., Any]) -> Callable[..., list[Any]]:
    """The gradient of the first array, function(parameters, out_grad, array) -> array; that of others is zero."""
    def backward(p: dict, out_grads: Sequence[Any], needs_grad: Sequence[bool], x: Array, *others: Array) -> list[Any]:
        floats(x)
        return [gradient(p, out_grads[0], x), *flat(*others)]
    return backward


for _names, _gradient in [
    (["_copy", "_np_copy", "_identity_with_attr_like_rhs"], lambda p, out_grad, x: passed(out_grad)),
    (["BlockGrad"], lambda p, out_grad, x: np.zeros(x.shape, x.dtype)),
    (["make_loss"], lambda p, out_grad, x: np.ones(x.shape, x.dtype)),
]:
    numpy_form(*_names, backward=_of_first(_gradient), reads=reads_none, dtypes=NUMBERS)(_itself)

def _loss_slope(p: dict, out_grad: Array, x: Array) -> Any:
    scale = p["grad_scale"]
    if p["normalization"] == "batch":
        need(x.size and x.ndim)
        scale = np.float32(scale) / np.float32(x.size // x.shape[-1])
    elif p["normalization"] == "valid":
        scale = scale / _by_number(x, max(int(np.count_nonzero(x > _by_number(x, p["valid_thresh"]))), 1))
    return np.full(x.shape, scale, x.dtype)


numpy_form("MakeLoss", backward=_of_first(_loss_slope),
           reads=lambda p, needs_grad: [p["normalization"] == "valid"])(lambda p, x: passed(x))


def _cast_backward(p: dict, out_grads: Sequence[Any], needs_grad: Sequence[bool], x: Array) -> list[Any]:
    floats(x)
    return flat(x) if p["dtype"] == "bool" else [out_grads[0].astype(x.dtype)]


@numpy_form("Cast", backward=_cast_backward, reads=reads_none, dtypes=_CAST)
def _cast(p: dict, x: Array) -> Any:
    new = np_dtype(p["dtype"])
    need(new in _CAST)
    if x.dtype.kind == "f" and new.kind in "iu" and x.size:
        whole = np.dtype("i8" if new.itemsize == 8 else "i4")  # narrow integers wrap around
        need(x.max() < -float(np.iinfo(whole).min) and x.min() > float(np.iinfo(whole).min))
        return x.astype(whole).astype(new, copy=False)
    return x.astype(new)
