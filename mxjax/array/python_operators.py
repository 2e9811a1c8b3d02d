"""Python's operators for arrays: `a + b`, `2 * a`, `a += b`, comparisons."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from ..base import MXNetError
from ..eager.array_types import wrap
from ..eager.call_cache import kernel_of
from ..eager.dispatch import invoke
from ..eager.handle import Handle
from ..eager.modes import state
from ..ops.method_names import PYTHON2
from ..ops.params import argument

__all__ = ["IN_PLACE", "add_operators", "as_argument"]

IN_PLACE = "Inplace operations (+=, -=, x[:]=, etc) are not supported when recording with autograd"
_ARITHMETIC = [  # (name, operator of two arrays, of an array and a number, of a number and an array)
    ("add", "broadcast_add", "_plus_scalar", "_plus_scalar"),
    ("sub", "broadcast_sub", "_minus_scalar", "_rminus_scalar"),
    ("mul", "broadcast_mul", "_mul_scalar", "_mul_scalar"),
    ("truediv", "broadcast_div", "_div_scalar", "_rdiv_scalar"),
    ("mod", "broadcast_mod", "_mod_scalar", "_rmod_scalar"),
    ("pow", "broadcast_power", "_power_scalar", "_rpower_scalar")]
_COMPARISONS = {"eq": "equal", "ne": "not_equal", "gt": "greater", "ge": "greater_equal", "lt": "lesser",
                "le": "lesser_equal"}


def add_operators(cls: type[Handle]) -> None:
    """Defines the methods of Python's operators in a class of arrays."""
    for name, tensor, scalar, reverse in _ARITHMETIC:
        setattr(cls, f"__{name}__", _binary(f"__{name}__", tensor, scalar))
        setattr(cls, f"__r{name}__", _binary(f"__r{name}__", tensor, reverse, True))
        if name != "pow":
            setattr(cls, f"__i{name}__", _inplace(f"__i{name}__", tensor, scalar))
    for name, tensor in _COMPARISONS.items():
        setattr(cls, f"__{name}__", _binary(f"__{name}__", f"broadcast_{tensor}", f"_{tensor}_scalar"))
    for name, function in PYTHON2.items():
        setattr(cls, name, function)


def _binary(name: str, tensor: str, scalar: str, reverse: bool = False) -> Callable[[Any, Any], Any]:
    """A two-argument method: `tensor` is the operator for two arrays, `scalar` the one for an array and a number."""
    def method(self: Any, other: object) -> Any:
        if isinstance(other, Handle):
            return invoke(kernel_of(tensor), [other, self] if reverse else [self, other])
        if isinstance(other, (int, float)):
            return invoke(kernel_of(scalar), [self], (as_argument(other),))
        if isinstance(other, np.generic):
            return invoke(kernel_of(scalar), [self], (as_argument(other.item()),))
        if isinstance(other, jax.Array):
            other = wrap(other, self.context)
            return invoke(kernel_of(tensor), [other, self] if reverse else [self, other])
        if name in ("__eq__", "__ne__"):  # otherwise Python would compare identities and return a bool
            raise TypeError(f"{name}: type {type(other).__name__} is not supported")
        if isinstance(other, np.ndarray):
            raise TypeError(f"{name}: cannot combine an NDArray and a numpy.ndarray; convert one of them "
                            "(mx.nd.array(x) or a.asnumpy())")
        return NotImplemented
    method.__name__ = name
    return method


def as_argument(value: float) -> int | float:
    """Returns a number as an operator's argument: a float, or an int of 32 bits."""
    if isinstance(value, float):  # numpy.float64 is one, too
        return argument(float(value))
    return int(value) if -2**31 <= value < 2**31 else float(value)


def _inplace(name: str, tensor: str, scalar: str) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: object) -> Any:
        if state.recording and self.entry is not None:
            raise MXNetError(IN_PLACE)
        if isinstance(other, Handle):
            return invoke(kernel_of(tensor), [self, other], (), self)
        if isinstance(other, (int, float, np.generic)):
            value = other.item() if isinstance(other, np.generic) else other
            return invoke(kernel_of(scalar), [self], (as_argument(value),), self)
        raise TypeError(f"{name}: type {type(other).__name__} is not supported")
    method.__name__ = name
    return method
