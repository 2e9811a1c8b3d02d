"""The parameter schema of operators: Python annotations that parse, check and print attribute values.

An operator's keyword-only arguments are its parameters. Their annotations are taken from this vocabulary:

    int  float  bool  str       plain values; text such as "3" or "True" (from JSON) parses too
    Double                      a C double; `float` is a C float, which rounds to float32
    Scalar  DoubleScalar        a number that is an argument of the compiled program: a new value never recompiles
    Shape                       tuple of ints; a single int is a tuple of one
    Shapes                      tuple of tuples of ints
    Floats  Doubles             tuple of floats, of doubles
    Scalars                     tuple of floats, arguments of the compiled program as a Scalar is
    DType                       a dtype's name ("float32"); classes and NumPy dtypes are accepted
    Literal["max", "avg"]       one of these words
    Annotated[int, Range(1)]    limits, both ends included; of a tuple, those of each item
    Count  Fraction  Lengths    an int >= 1, a float in [0, 1], a Shape of such ints
    X | None                    None (or "None") as well
    Any                         anything hashable, as it comes
"""

from __future__ import annotations

import inspect
import math
import re
import types
import typing
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import ml_dtypes
import numpy as np

from ..base import MXNetError, _Null, evaluated

__all__ = ["Count", "DType", "DTypeLike", "Double", "DoubleScalar", "Doubles", "Floats", "Fraction", "Lengths",
           "MaybeDType", "MaybeDouble", "MaybeScalar", "MaybeShape", "Param", "Range", "Scalar", "Scalars", "Shape",
           "ShapeLike", "Shapes", "UnknownType", "argument", "dtype_name", "np_dtype", "schema", "texts"]


class UnknownType(MXNetError, TypeError):
    """A value is not a dtype. This is also a TypeError, as NumPy raises in MXNet."""


class Range(NamedTuple):
    """Inclusive limits of a number."""

    low: float = -math.inf
    high: float = math.inf

    def __str__(self) -> str:
        if self.high == math.inf:
            return f">= {self.low}"
        return f"<= {self.high}" if self.low == -math.inf else f"in [{self.low}, {self.high}]"


class _Marker:
    """Marks an annotation that is more than its Python type."""

    def __init__(self, name: str) -> None:
        self.name = name


Scalar = Annotated[float, _Marker("scalar")]
Double = Annotated[float, _Marker("double")]
DoubleScalar = Annotated[float, _Marker("double scalar")]
Shape = Annotated[tuple[int, ...], _Marker("shape")]
Shapes = Annotated[tuple[tuple[int, ...], ...], _Marker("shapes")]
Floats = Annotated[tuple[float, ...], _Marker("floats")]
Doubles = Annotated[tuple[float, ...], _Marker("doubles")]
Scalars = Annotated[tuple[float, ...], _Marker("scalars")]
DType = Annotated[str, _Marker("dtype")]
MaybeScalar: TypeAlias = Scalar | None
MaybeDouble: TypeAlias = Double | None
MaybeShape: TypeAlias = Shape | None
MaybeDType: TypeAlias = DType | None
# types of arguments for them
ShapeLike: TypeAlias = int | np.integer | Sequence[int | np.integer]
DTypeLike: TypeAlias = str | type | np.dtype | None
Count = Annotated[int, Range(1)]
Fraction = Annotated[float, Range(0, 1)]
Lengths = Annotated[Shape, Range(1)]

# MXNet's numbers of the dtypes, in files and graphs
CODES = {"float32": 0, "float64": 1, "float16": 2, "uint8": 3, "int32": 4, "int8": 5, "int64": 6, "bool": 7,
         "int16": 8, "uint16": 9, "uint32": 10, "uint64": 11, "bfloat16": 12}
DTYPES = {code: np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name) for name, code in CODES.items()}
_DTYPES = {name: np.dtype(name) for name in (
    "float32 float64 float16 uint8 int32 int8 int64 bool int16 uint16 uint32 uint64 complex64 complex128").split()}
_DTYPES["bfloat16"] = np.dtype(ml_dtypes.bfloat16)
_OF_MXNET = np.dtype([("bfloat16", np.uint16)])  # bfloat16 in MXNet's scripts, since NumPy has none


def np_dtype(value: Any) -> np.dtype:
    """The NumPy dtype for a name, class, dtype or object with a `dtype`; float32 for None.

    Raises:
        TypeError: the dtype is unknown.
    """
    if value is None:
        return _DTYPES["float32"]
    if isinstance(value, str) and value in _DTYPES:
        return _DTYPES[value]
    dtype = np.dtype(getattr(value, "dtype", value) if not isinstance(value, type) else value)
    if dtype == _OF_MXNET:
        return _DTYPES["bfloat16"]
    if dtype.name not in _DTYPES:
        raise TypeError(f"dtype {dtype.name!r} is not supported; supported: {', '.join(_DTYPES)}")
    return _DTYPES[dtype.name]


def dtype_name(value: Any) -> str:
    """The canonical name of `np_dtype(value)`."""
    return np_dtype(value).name


def _literal(value: Any) -> Any:
    return evaluated(value.strip()) if isinstance(value, str) else value


def _int(value: Any) -> int:
    value = _literal(value)
    number = int(value)
    if number != value:
        raise ValueError
    return number


def _double(value: Any) -> float:
    return float(value.rstrip("f") if isinstance(value, str) and "inf" not in value else value)


def _rounded(number: float) -> float:
    """Returns a number of MXNet's type `float` as it computes with it, also on float64 arrays: rounded to float32, if
    that has it as a normal number. Whole numbers stay, because integers are compared with them."""
    return float(np.float32(number)) if _TINY <= abs(number) <= _HUGE and number != int(number) else number


_TINY, _HUGE = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)


def _float(value: Any) -> float:
    return _rounded(_double(value))


def _bool(value: Any) -> bool:
    if isinstance(value, str):
        return {"true": True, "1": True, "false": False, "0": False}[value.strip().lower()]
    return bool(value)


def argument(number: float) -> int | float:
    """A number as programs get it: an int instead of a whole number that float32 may not have."""
    return int(number) if 2**24 < abs(number) < 2**31 and number == int(number) else number


def _double_scalar(value: Any) -> int | float:
    if isinstance(value, str):
        text = value.strip().lower()
        value = {"true": 1, "false": 0}[text] if text in ("true", "false") else _double(text)
    if isinstance(value, (bool, np.bool_)):
        return int(value)
    if isinstance(value, (int, np.integer)) and -2**31 <= value < 2**31:
        return int(value)
    return argument(float(value))


def _scalar(value: Any) -> int | float:
    number = _double_scalar(value)
    return number if type(number) is int else _rounded(number)


def shape_of(value: Any) -> tuple[int | None, ...]:
    """Returns the shape that a number, a sequence or a text of one gives.

    Raises:
        ValueError, TypeError, SyntaxError: it is not a shape.
    """
    if isinstance(value, str):
        value = _LONG.sub("", value)
    value = _literal(value)
    items = value if isinstance(value, (tuple, list, np.ndarray)) else (value,)
    if any(isinstance(i, (float, np.floating)) for i in items):  # not those that are whole either
        raise ValueError
    return tuple(None if i is None else _int(i) for i in items)


_LONG = re.compile(r"(?<=\d)L(?=\s*[,)\]])")  # Python 2 wrote its long integers so, which MXNet's old files contain


def _shapes(value: Any) -> tuple[tuple[int | None, ...], ...]:
    return tuple(map(shape_of, _literal(value)))


def _doubles(value: Any) -> tuple[float, ...]:
    value = _literal(value)
    return tuple(float(i) for i in (value if isinstance(value, (tuple, list, np.ndarray)) else (value,)))


def _floats(value: Any) -> tuple[float, ...]:
    return tuple(map(_rounded, _doubles(value)))


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, value)) if isinstance(value, (list, tuple)) else value


_PARSERS: dict[Any, tuple[Callable[[Any], Any], str]] = {
    int: (_int, "int"), float: (_float, "float"), bool: (_bool, "boolean"), str: (str, "string"),
    "scalar": (_scalar, "float"), "double": (_double, "double"), "double scalar": (_double_scalar, "double"),
    "shape": (shape_of, "Shape(tuple)"), "floats": (_floats, "tuple of <float>"),
    "doubles": (_doubles, "tuple of <double>"),
    "shapes": (_shapes, "tuple of <Shape(tuple)>"),
    "scalars": (_floats, "tuple of <float>"),
    "dtype": (dtype_name, "dtype"), Any: (_hashable, "any"),
}


_ROUNDED = {float, "scalar", "floats", "scalars"}


class Param:
    """One parameter of an operator: name, type, default, limits.

    Args:
        operator: name for error messages.
        name: the parameter's name.
        annotation: its type in this module's vocabulary.
        default: its default; `inspect.Parameter.empty` for a required one. `filled` is the number
            that calls without the parameter use.
    """

    __slots__ = ("operator", "name", "default", "filled", "required", "optional", "choices", "limits", "dynamic",
                 "kind", "_parse", "_type_name")

    def __init__(self, operator: str, name: str, annotation: Any, default: Any) -> None:
        self.operator, self.name = operator, name
        self.required = default is inspect.Parameter.empty
        self.default = None if self.required else default
        self.choices: tuple[str, ...] | None = None
        self.limits: Range | None = None
        self.optional = self.default is None and not self.required
        self.kind: Any = annotation
        self._take(annotation)
        self.filled = self.default if self.default is None or self.kind not in _ROUNDED else self._parse(self.default)
        self.dynamic = self.kind in ("scalar", "double scalar", "scalars")

    def _take(self, annotation: Any) -> None:
        origin, args = typing.get_origin(annotation), typing.get_args(annotation)
        if origin in (typing.Union, types.UnionType):
            self.optional = True
            rest = [a for a in args if a is not type(None)]
            self._take(rest[0])
            return
        if origin is Literal:
            self.choices, self.kind = args, "choice"
            self._parse, self._type_name = str, "{" + ", ".join(map(repr, args)) + "}"
            return
        if origin is Annotated:
            kind = next((m.name for m in args[1:] if isinstance(m, _Marker)), None)
            self.limits = next((m for m in args[1:] if isinstance(m, Range)), self.limits)
            if kind is None:
                self._take(args[0])
                return
            annotation = kind
        if annotation not in _PARSERS:
            raise TypeError(f"operator {self.operator}: parameter {self.name} has unknown type {annotation!r}")
        self.kind = annotation
        self._parse, self._type_name = _PARSERS[annotation]

    def parse(self, value: Any) -> Any:
        """Returns the canonical, hashable value; raises MXNetError with operator, parameter and valid values."""
        if value is None or (self.optional and isinstance(value, str) and value == "None"):
            if self.optional:
                return None
            raise self._error(value)
        try:
            parsed = self._parse(value)
        except (ValueError, TypeError, KeyError, SyntaxError, OverflowError):
            raise self._error(value) from None
        if self.choices is not None and parsed not in self.choices:
            raise self._error(value)
        if self.limits is not None:
            numbers: Any = parsed if isinstance(parsed, tuple) else (parsed,)
            if not all([self.limits.low <= n <= self.limits.high for n in numbers]):
                raise self._error(value)
        return parsed

    def _error(self, value: Any) -> MXNetError:
        limits = f" {self.limits}" if self.limits else ""
        kind = UnknownType if self.kind == "dtype" and value is not None else MXNetError
        return kind(f"operator {self.operator}: parameter {self.name} must be {self._type_name}{limits}"
                    f"{' or None' if self.optional else ''}, got {value!r}")

    def __str__(self) -> str:
        """The type as MXNet's documentation writes it."""
        kind = f"{self._type_name}{f' {self.limits}' if self.limits else ''}{' or None' if self.optional else ''}"
        return f"{kind}, required" if self.required else f"{kind}, optional, default={self.default!r}"


def schema(operator: str, function: Callable[..., Any]) -> dict[str, Param]:
    """The parameters that a function's keyword-only arguments declare (those starting with `_` are ours)."""
    hints = typing.get_type_hints(function, include_extras=True)
    return {name: Param(operator, name, hints.get(name, Any), p.default)
            for name, p in inspect.signature(function).parameters.items()
            if p.kind is p.KEYWORD_ONLY and not name.startswith("_")}


def texts(params: dict[str, Param], values: dict[str, Any]) -> dict[str, str]:
    """Returns canonical values as graphs and files have them: numbers that are rounded to float32 in their shortest
    form."""
    def text(name: str, value: Any) -> str:
        rounded = name in params and params[name].kind in _ROUNDED
        return str(np.float32(value)) if rounded and type(value) is float and math.isfinite(value) else str(value)
    return {name: text(name, value) for name, value in values.items() if value is not None}


def parse(operator: str, params: dict[str, Param], given: dict[str, Any]) -> dict[str, Any]:
    """Canonical values of all parameters; raises MXNetError for unknown, missing or bad ones."""
    values = {}
    for name, value in given.items():
        if name not in params:
            raise MXNetError(f"operator {operator} has no parameter {name!r}; it has: {', '.join(params) or 'none'}")
        if value is not _Null:
            values[name] = params[name].parse(value)
    for name, param in params.items():
        if name not in values:
            if param.required:
                raise MXNetError(f"operator {operator}: required parameter {name} ({param}) is missing")
            values[name] = param.filled
    return values
