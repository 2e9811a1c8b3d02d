"""Element-wise functions of two arrays, of an array and a number, and of several arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..direct import need, numpy_form
from ..program import Array
from .elementwise import NUMBERS, chosen, flat, floats, passed, reads_none, summed_to

__all__: list[str] = []

_LARGEST = 1 << 24  # integers that float32 represents exactly


class _Binary(NamedTuple):
    """A function of two arrays x, y.

    Attributes:
        function: function of both; also of integers if `integers` is set.
        slopes: function(out_grad, x, y) -> gradient before it is summed, of each array; None: zero.
        reads: the arrays whose values each of them reads, "", "x", "y" or "xy".
    """

    function: Callable[[Any, Any], Any]
    slopes: tuple[Callable[[Any, Any, Any], Any], ...] | None = None
    reads: tuple[str, str] = ("", "")
    integers: bool = True


def _quotient_slope(g: Array, x: Array, y: Array) -> Any:
    return -g * x / np.square(y)


def _mod(x: Array, y: Array) -> Any:
    """Returns the remainder with the sign of y; 0 where y is 0."""
    return chosen(np.broadcast_to(y != 0, np.broadcast_shapes(x.shape, y.shape)), np.mod(x, y))


_WHOLE: dict[float, Any] = {1: passed, 2: np.square, 3: lambda x: x * x * x, -1: np.reciprocal}


def _power(x: Array, y: Array) -> Any:
    """Returns x to the power of y; NumPy's function is slow for negative x."""
    whole = None if y.ndim else _WHOLE.get(float(y))
    return np.power(x, y) if whole is None else whole(x)


def _base_slope(g: Array, x: Array, y: Array) -> Any:
    return g * (y * _power(x, y - 1))


def _by_mask(mask: Callable[[Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    return lambda g, x, y: g * mask(x, y)


_TABLE = {
    "add": _Binary(np.add, (lambda g, x, y: passed(g),) * 2),
    "sub": _Binary(np.subtract, (lambda g, x, y: passed(g), lambda g, x, y: -g)),
    "mul": _Binary(np.multiply, (lambda g, x, y: g * y, lambda g, x, y: g * x), ("y", "x")),
    "div": _Binary(np.divide, (lambda g, x, y: g / y, _quotient_slope), ("y", "xy"), False),
    "mod": _Binary(_mod, (lambda g, x, y: passed(g), lambda g, x, y: g * -np.floor(x / y)), ("", "xy"), False),
    "power": _Binary(_power, (_base_slope, lambda g, x, y: g * (np.power(x, y) * np.log(x))), ("xy", "xy"), False),
    "maximum": _Binary(np.maximum, (_by_mask(np.greater_equal), _by_mask(np.less)), ("xy", "xy")),
    "minimum": _Binary(np.minimum, (_by_mask(np.less_equal), _by_mask(np.greater)), ("xy", "xy")),
    "hypot": _Binary(np.hypot, (lambda g, x, y: g * x / np.hypot(x, y), lambda g, x, y: g * y / np.hypot(x, y)),
                     ("xy", "xy"), False),
}
_TESTS = {  # in mx.np, two of them have other names, and the results are booleans
    "equal": np.equal, "not_equal": np.not_equal, "greater": np.greater, "greater_equal": np.greater_equal,
    "lesser": np.less, "lesser_equal": np.less_equal, "logical_and": np.logical_and, "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}


def _as_numbers(test: Callable[[Any, Any], Any]) -> _Binary:
    """A test whose result has the dtype of the arrays."""
    return _Binary(lambda x, y: test(x, y).astype(x.dtype))


def _dtypes(form: _Binary) -> dict[str, Any]:
    return {"dtypes": NUMBERS} if form.integers else {}


# ------------------------------------------------------------ of two arrays
def _broadcasts(x: tuple[int, ...], y: tuple[int, ...]) -> bool:
    """Returns whether two shapes can be broadcast together."""
    pairs = zip(reversed(x), reversed(y), strict=False)
    return all([n == m or 1 in (n, m) for n, m in pairs])


def _of_two(names: Sequence[str], form: _Binary, stretches: bool) -> None:
    """Registers operators of two arrays of the same shape, or with broadcasting if `stretches`."""
    def forward(p: dict, x: Array, y: Array) -> Any:
        if x.shape != y.shape:
            need(stretches and _broadcasts(x.shape, y.shape))
        return form.function(x, y)

    def backward(p: dict, out_grads: Sequence[Any], needs_grad: Sequence[bool], x: Array, y: Array) -> list[Any]:
        floats(x, y)
        if form.slopes is None:
            return flat(x, y)
        return [summed_to(slope(out_grads[0], x, y), a.shape) if w else None
                for slope, w, a in zip(form.slopes, needs_grad, (x, y), strict=True)]

    def reads(p: dict, needs_grad: Sequence[bool]) -> list[bool]:
        read = "".join([names for names, w in zip(form.reads, needs_grad, strict=True) if w])
        return ["x" in read, "y" in read]
    numpy_form(*names, backward=backward, reads=reads, **_dtypes(form))(forward)


def _numpy_name(key: str) -> str:
    """The name of an operator of mx.np."""
    return "_npi_" + {"sub": "subtract", "mul": "multiply", "div": "true_divide", "lesser": "less",
                      "lesser_equal": "less_equal"}.get(key, key)


_ELEMWISE = {"add": ["elemwise_add", "_grad_add"], "sub": ["elemwise_sub"], "mul": ["elemwise_mul"],
             "div": ["elemwise_div"]}
_OWN = {"add", "sub", "mul", "div", "mod", "power"}  # mx.np has a separate one
for _key, _form in _TABLE.items():
    _of_two(_ELEMWISE.get(_key, [f"_{_key}"]), _form, False)
    _of_two([f"broadcast_{_key}", *[_numpy_name(_key)] * (_key in _OWN or _key == "hypot")], _form, True)
for _key, _test in _TESTS.items():
    _of_two([f"_{_key}"], _as_numbers(_test), False)
    _of_two([f"broadcast_{_key}"], _as_numbers(_test), True)
    if "logical" not in _key:
        _of_two([_numpy_name(_key)], _Binary(_test), True)


# ------------------------------------------------------------ of an array and a number
def _number(p: dict, x: Array) -> Any:
    """Returns the number in the dtype of the array."""
    dtype, value = x.dtype, float(p["scalar"])
    if dtype.kind != "f":
        need(p.get("is_int", True) and value.is_integer() and abs(value) <= _LARGEST)
        need(np.iinfo(dtype).min <= value <= np.iinfo(dtype).max)
        return dtype.type(int(value))
    return dtype.type(value)


def _with_number(names: Sequence[str], form: _Binary, swapped: bool = False) -> None:
    """Registers operators of an array and a number; the number comes first if they are `swapped`."""
    def forward(p: dict, x: Array) -> Any:
        number = _number(p, x)
        return form.function(number, x) if swapped else form.function(x, number)

    def backward(p: dict, out_grads: Sequence[Any], needs_grad: Sequence[bool], x: Array) -> list[Any]:
        floats(x)
        if form.slopes is None:
            return flat(x)
        number = _number(p, x)
        return [form.slopes[1](out_grads[0], number, x) if swapped else form.slopes[0](out_grads[0], x, number)]
    reads = form.reads[1][-1:] == "y" if swapped else form.reads[0][:1] == "x"
    numpy_form(*names, backward=backward, reads=lambda p, needs_grad: [reads], **_dtypes(form))(forward)


_CLASSIC = {"add": "plus", "sub": "minus"}
for _key, _form in _TABLE.items():
    _with_number([f"_{_CLASSIC.get(_key, _key)}_scalar", *[_numpy_name(_key) + "_scalar"] * (_key in _OWN)], _form)
for _key in ("sub", "div", "mod", "power"):
    _with_number([f"_r{_CLASSIC.get(_key, _key)}_scalar",
                  _numpy_name(_key).replace("_npi_", "_npi_r") + "_scalar"], _TABLE[_key], True)
for _key, _test in _TESTS.items():
    _with_number([f"_{_key}_scalar"], _as_numbers(_test))
    if "logical" not in _key:
        _with_number([_numpy_name(_key) + "_scalar"], _Binary(_test))


# ------------------------------------------------------------ of several arrays
def _add_n_backward(p: dict, out_grads: Sequence[Any], needs_grad: Sequence[bool], *arrays: Array) -> list[Any]:
    floats(*arrays)
    return [passed(out_grads[0]) for _ in arrays]


@numpy_form("add_n", backward=_add_n_backward, reads=reads_none, dtypes=NUMBERS)
def _add_n(p: dict, *arrays: Array) -> Any:
    need(all([a.shape == arrays[0].shape for a in arrays]))
    if len(arrays) == 1:
        return passed(arrays[0])
    total = np.add(arrays[0], arrays[1])
    for array in arrays[2:]:
        total += array
    return total
