"""Forms of primitives on numbers: functions, conversions, comparisons, bits, random numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from .._support.c_math import erf
from .._xla.tracing import settings
from .program import Array, Aval, need

__all__ = ["FUNCTIONS", "NUMBERS", "as_c"]


_FEW = 4096  # elements up to which exact digits are worth a microsecond


def as_c(function: np.ufunc) -> Callable[[Any], Any]:
    """Returns a NumPy function whose float32 results are rounded correctly for small arrays.

    NumPy's results differ by up to four units in the last place, because of vector instructions. Those of the C
    library, which MXNet uses, are nearly always the nearest numbers.
    """
    def call(x: Array) -> Any:
        if x.dtype != np.float32 or x.size > _FEW:
            return function(x)
        return function(x, dtype=np.float64).astype(np.float32)
    return call


# ------------------------------------------------------------ arithmetic
def _quotient(x: Array, y: Array) -> Any:
    """Divides integers towards zero; division by 0 sets all bits, and the smallest integer divided by -1 is
    unchanged."""
    if x.dtype.kind not in "iu":
        return np.divide(x, y)
    plain = (y != 0) & ((y != -1) if y.dtype.kind == "i" else True)
    divisor = np.where(plain, y, 1).astype(y.dtype)
    towards_zero = (x - np.fmod(x, divisor)) // divisor
    return np.where(plain, towards_zero, np.where(y == 0, ~np.zeros_like(x), np.negative(x)))


def _rest(x: Array, y: Array) -> Any:
    if x.dtype.kind not in "iu":
        return np.fmod(x, y)
    return np.where(y == 0, x, x - y * _quotient(x, np.where(y == 0, 1, y).astype(y.dtype)))


def _polynomial(x: Array, *coefficients: Array) -> Any:
    """The first coefficient is that of x ** 0."""
    total = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        total = total * x + coefficient
    return total


def _special(name: str) -> Callable:
    def call(x: Array) -> Any:
        import scipy.special  # 0.2 s to import
        return getattr(scipy.special, name)(x)
    return call


def _power(params: dict, ins: list, out: Aval) -> Callable:
    return lambda x: np.power(x, np.asarray(params["y"], x.dtype) if out.dtype.kind == "f" else params["y"])


def _round(params: dict, ins: list, out: Aval) -> Callable:
    if params["rounding_method"] == jax.lax.RoundingMethod.TO_NEAREST_EVEN:
        return np.rint

    def away_from_zero(x: Array) -> Any:
        whole = np.trunc(x)
        return np.where(np.abs(x - whole) >= 0.5, whole + np.sign(x), whole)
    return away_from_zero


# ------------------------------------------------------------ conversions and choices
def _convert(params: dict, ins: list, out: Aval) -> Callable:
    old, new = ins[0].dtype, out.dtype
    if new.kind == "b":
        return lambda x: x != 0
    if old.kind == "c" and new.kind != "c":
        return lambda x: x.real.astype(new)
    if old.kind != "f" or new.kind not in "iu":
        return lambda x: x.astype(new)
    least, most = np.iinfo(new).min, np.iinfo(new).max

    def to_integers(x: Array) -> Any:  # values out of range saturate, as in XLA
        inside = (x > float(least) - 1) & (x < float(most) + 1)
        return np.where(inside, np.where(inside, x, 0).astype(new), np.where(x > 0, most, least * (x < 0)).astype(new))
    return to_integers


def _bitcast(params: dict, ins: list, out: Aval) -> Callable:
    need(ins[0].dtype.itemsize == out.dtype.itemsize)
    return lambda x: x.view(out.dtype)


def _shifted_bits(x: Array, y: Array) -> Any:
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    return np.right_shift(x.view(unsigned), y.view(unsigned)).view(x.dtype)


def _in_order(compare: np.ufunc) -> Callable:
    """A comparison in which -0.0 comes before 0.0, and NaN last."""
    def key(x: Array) -> Any:
        if x.dtype.kind != "f":
            return x
        bits = np.ascontiguousarray(x).view(f"i{x.dtype.itemsize}")
        return np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)
    return lambda x, y: compare(key(x), key(y))


def _chosen(params: dict, ins: list, out: Aval) -> Callable:
    if ins[0].dtype == bool:
        return lambda which, no, yes: np.where(which, yes, no)
    return lambda which, *cases: np.choose(np.clip(which, 0, len(cases) - 1), cases)


# ------------------------------------------------------------ random numbers
def _threefry(key: Array, high: Array, low: Array) -> tuple[Any, Any]:
    """Threefry-2x32 with 20 rounds (Salmon et al., SC 2011), for JAX's random keys: two words from a key and two
    words."""
    first, second = (key >> 32).astype(np.uint32), key.astype(np.uint32)
    keys = first, second, first ^ second ^ np.uint32(0x1BD11BDA)
    x, y = high + first, low + second
    for i, turns in enumerate(((13, 15, 26, 6), (17, 29, 16, 24), (13, 15, 26, 6), (17, 29, 16, 24), (13, 15, 26, 6))):
        for turn in turns:
            x = x + y
            y = (y << np.uint32(turn) | y >> np.uint32(32 - turn)) ^ x
        x, y = x + keys[(i + 1) % 3], y + keys[(i + 2) % 3] + np.uint32(i + 1)
    return x, y


def _as_key(high: Array, low: Array) -> Any:
    return high.astype(np.uint64) << np.uint64(32) | low.astype(np.uint64)


def _counted(keys: Array, shape: Sequence[int]) -> tuple[Any, Any]:
    """Returns two words for each key and each position of a shape."""
    places = np.arange(math.prod(shape), dtype=np.uint64).reshape(shape)
    keys = keys.reshape(keys.shape + (1,) * len(shape))
    return _threefry(keys, (places >> np.uint64(32)).astype(np.uint32), places.astype(np.uint32))


def _bits(params: dict, ins: list, out: Aval) -> Callable:
    def bits(keys: Array) -> Any:
        high, low = _counted(keys, params["shape"])
        return _as_key(high, low) if params["bit_width"] == 64 else (high ^ low).astype(out.dtype)
    if not settings.jax_threefry_partitionable:
        need(False)
    return bits


def _split(params: dict, ins: list, out: Aval) -> Callable:
    if not settings.jax_threefry_partitionable:
        need(False)
    return lambda keys: _as_key(*_counted(keys, params["shape"]))


def _fold_in(keys: Array, number: Array) -> Any:
    number = number.astype(np.uint32)
    return _as_key(*_threefry(keys, np.zeros_like(number), number))


def _unwrapped(keys: Array) -> Any:
    return np.stack([keys >> np.uint64(32), keys & np.uint64(0xFFFFFFFF)], -1).astype(np.uint32)


# ------------------------------------------------------------ the table
def _platform_index(params: dict, ins: list, out: Aval) -> Callable:
    place = next(i for i, platforms in enumerate(params["platforms"]) if platforms is None or "cpu" in platforms)
    return lambda: np.int32(place)


def _empty(params: dict, ins: list, out: Aval) -> Callable:
    return lambda: np.zeros(out.shape, out.dtype)


FUNCTIONS: dict[str, Callable] = {
    "add": np.add, "add_any": np.add, "sub": np.subtract, "mul": np.multiply, "sqrt": np.sqrt,
    "square": np.square, "neg": np.negative, "abs": np.absolute, "max": np.maximum, "min": np.minimum,
    "clamp": lambda low, x, high: np.minimum(np.maximum(x, low), high),
    "sign": lambda x: np.where(x == 0, x, np.sign(x)),  # -0.0 has the result -0.0
    "floor": np.floor, "ceil": np.ceil, "is_finite": np.isfinite, "not": np.invert, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor, "shift_left": np.left_shift, "eq": np.equal, "ne": np.not_equal,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "copy": np.asarray, "stop_gradient": np.asarray, "optimization_barrier": lambda *xs: xs,
    **{name: as_c(getattr(np, name)) for name in ("exp", "exp2", "expm1", "log", "log1p", "tanh", "sinh", "cosh", "sin",
                                                  "cos", "tan", "cbrt", "log2")},
    **{"a" + name: as_c(getattr(np, "arc" + name)) for name in ("sinh", "cosh", "tanh", "sin", "cos", "tan")},
    "erf": erf, "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "atan2": np.arctan2, "rem": _rest, "pow": np.power, "rsqrt": lambda x: 1 / np.sqrt(x),
    "one_minus_square": lambda x: (1 + x) * (1 - x), "polynomial": _polynomial,
    **{name: _special(theirs) for name, theirs in {"erfc": "erfc", "erf_inv": "erfinv", "lgamma": "gammaln",
                                                    "digamma": "digamma"}.items()},
    "shift_right_arithmetic": np.right_shift, "shift_right_logical": _shifted_bits,
    "lt_to": _in_order(np.less), "le_to": _in_order(np.less_equal), "eq_to": _in_order(np.equal),
    "nextafter": np.nextafter, "real": np.real, "imag": np.imag, "conj": np.conj, "complex": lambda x, y: x + 1j * y,
    "random_wrap": lambda data: _as_key(data[..., 0], data[..., 1]), "random_unwrap": _unwrapped,
    "random_fold_in": _fold_in,
}
NUMBERS: dict[str, Callable[[dict, list, Any], Callable]] = {
    "div": lambda p, ins, out: _quotient, "integer_pow": _power, "round": _round, "convert_element_type": _convert,
    "bitcast_convert_type": _bitcast, "select_n": _chosen, "platform_index": _platform_index,
    "empty": _empty, "empty2": _empty, "random_bits": _bits, "random_split": _split,
}
