"""Dtypes of mx.np's functions of one or two arrays: MXNet 1.9.1's rules, and MXNet 2.0's at level 2.

A rule accepts the operator's name and two arrays (or objects with a dtype), and returns the dtype to which both are
converted. Rules are applied while an operator is traced or its types are inferred, not for repeated calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from ... import level
from ...base import MXNetError
from ..common import Array, is_float, need_float

__all__ = ["angle", "compared", "counts", "differing", "divisor", "first_real", "floating", "integer", "mixed",
           "need_int", "no_bool", "number", "of_number", "promoted", "quotient", "real", "truth", "whole"]


def floating(dtype: Any) -> Any:
    """The floating point dtype of equal rank: float16 of booleans and 8 bits, float32 of wider integers."""
    return dtype if is_float(dtype) else jnp.dtype("float16" if dtype.itemsize == 1 else "float32")


def whole(dtype: Any) -> Any:
    """Integers are unchanged; booleans become float16."""
    return jnp.dtype("float16") if dtype == jnp.bool_ else dtype


def no_bool(name: str, *arrays: Array) -> None:
    """Raises MXNetError if an array is of booleans."""
    if any(a.dtype == jnp.bool_ for a in arrays):
        raise MXNetError(f"operator {name} does not take boolean arrays")


def need_int(name: str, *arrays: Array) -> None:
    """Raises MXNetError unless all arrays are of integers or booleans."""
    for a in arrays:
        if is_float(a.dtype):
            raise MXNetError(f"operator {name} takes integers or booleans, got {a.dtype}")


def _common(name: str, a: Array, b: Array) -> Any:
    """The one dtype of both; raises MXNetError if they differ."""
    if a.dtype != b.dtype:
        raise MXNetError(f"operator {name}: the dtypes of both arrays must match, got {a.dtype} and {b.dtype}")
    return a.dtype


def promoted(x: Any, y: Any) -> Any:
    """The dtype of MXNet 2 for two: floating point wins over integers, the wider over the narrower, all over booleans.

    Of a signed and an unsigned integer it is the signed one if that is wider, else the next wider signed one.
    """
    if x == y or y == jnp.bool_:
        return x
    if x == jnp.bool_:
        return y
    if is_float(x) != is_float(y):
        return x if is_float(x) else y
    if x.kind != y.kind and not is_float(x):
        signed, other = (x, y) if x.kind == "i" else (y, x)
        return signed if signed.itemsize > other.itemsize else jnp.dtype(f"int{min(16 * other.itemsize, 64)}")
    return x if x.itemsize >= y.itemsize else y


def mixed(name: str, a: Array, b: Array) -> Any:
    """Floating point wins over integers, the wider over the narrower, integers over booleans."""
    x, y = jnp.dtype(a.dtype), jnp.dtype(b.dtype)
    if level.current() == 1:
        if {x.name, y.name} == {"int8", "uint8"}:
            raise MXNetError(f"operator {name}: int8 and uint8 cannot be combined")
        if x.kind != y.kind and {x.kind, y.kind} == {"i", "u"}:
            return x if x.itemsize >= y.itemsize else y
    return promoted(x, y)


def differing(name: str, a: Array, b: Array) -> Any:
    """As `mixed`, but two arrays of booleans are refused; in MXNet 1.9.1 also any, and two integer dtypes."""
    if is_float(a.dtype) or is_float(b.dtype):
        return mixed(name, a, b)
    if level.current() == 2 and a.dtype != b.dtype:
        return mixed(name, a, b)
    no_bool(name, a, b)
    return _common(name, a, b)


def quotient(name: str, a: Array, b: Array) -> Any:
    """float32 for two equal integer dtypes; else the floating point one, the wider of two."""
    if is_float(a.dtype) or is_float(b.dtype):
        return mixed(name, a, b)
    _common(name, a, b)
    return jnp.dtype("float32")


def number(name: str, a: Array, b: Array) -> Any:
    """The one dtype of both, not bool."""
    no_bool(name, a, b)
    return _common(name, a, b)


def real(name: str, a: Array, b: Array) -> Any:
    """The one floating point dtype of both."""
    need_float(name, a)
    return _common(name, a, b)


def angle(name: str, a: Array, b: Array) -> Any:
    """As `real`; in MXNet 2 only the first need be of floating point."""
    need_float(name, a)
    return mixed(name, a, b) if level.current() == 2 else _common(name, a, b)


def divisor(name: str, a: Array, b: Array) -> Any:
    """The one dtype of both, of integers or bool."""
    need_int(name, a, b)
    return _common(name, a, b)


def integer(name: str, a: Array, b: Array) -> Any:
    """As `divisor`; in MXNet 2 the wider of two."""
    need_int(name, a, b)
    return mixed(name, a, b) if level.current() == 2 else _common(name, a, b)


def counts(name: str, a: Array, b: Array) -> Any:
    """The wider of two integer dtypes; booleans are refused."""
    need_int(name, a, b)
    no_bool(name, a, b)
    return mixed(name, a, b)


def first_real(name: str, a: Array, b: Array) -> Any:
    """As `mixed`, the first of floating point, the second not of booleans."""
    need_float(name, a)
    no_bool(name, b)
    return mixed(name, a, b)


def compared(name: str, a: Array, b: Array) -> Any:
    """The one dtype of both; in MXNet 2 as `mixed`."""
    return mixed(name, a, b) if level.current() == 2 else _common(name, a, b)


def truth(name: str, a: Array, b: Array) -> Any:
    """bool."""
    return jnp.dtype("bool")


def of_number(function_dtypes: Callable[..., Any]) -> Callable[..., Any]:
    """The dtype in which an array meets a number: its own; int64 for booleans; float32 for quotients of integers.

    Where the number is none of integers (`is_int`), integers and booleans become float64.
    """
    def rule(name: str, data: Array, is_int: bool = True) -> Any:
        if function_dtypes is quotient and not is_float(data.dtype):
            return jnp.dtype("float32")
        if function_dtypes in (integer, divisor, counts):
            need_int(name, data)
            if function_dtypes is counts and level.current() == 2:
                no_bool(name, data)
            return data.dtype
        if not is_int and not is_float(data.dtype):
            return jnp.dtype("float64")
        return jnp.dtype("int64") if data.dtype == jnp.bool_ else data.dtype
    return rule
