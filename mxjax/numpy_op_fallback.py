"""Custom operators as functions of mx.np; those that MXNet has itself among them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from . import operator
from .ndarray.numpy import _internal as _nd_npi
from .operator._numpy_fallbacks import (
    EmptyLike,
    EmptyLikeProp,
    MultivariateNormal,
    MultivariateNormalProp,
    Resize,
    ResizeProp,
    Unravel_index,
    Unravel_indexProp,
)
from .symbol.numpy import _internal as _sym_npi

__all__ = ["EmptyLike", "EmptyLikeProp", "MultivariateNormal", "MultivariateNormalProp", "Resize", "ResizeProp",
           "Unravel_index", "Unravel_indexProp", "register"]


def register(op_name: str, imperative: bool = True, symbolic: bool = True) -> Callable[[type], type]:
    """A decorator that registers a CustomOpProp class and makes it a function of `mx.nd.np._internal` and
    `mx.sym.np._internal`.

    Raises:
        ValueError: such a function exists.
    """
    def decorate(prop_cls: type) -> type:
        operator.register(op_name)(prop_cls)
        for module, wanted in ((_nd_npi, imperative), (_sym_npi, symbolic)):
            if wanted and op_name in vars(module):
                raise ValueError(f"Duplicate name {op_name} found in module {module.__name__}")
            if wanted:
                _give(module, op_name)
        return prop_cls
    return decorate


def _give(module: Any, op_name: str) -> None:
    setattr(module, op_name, functools.partial(module.Custom, op_type=op_name))


for _name, _prop in {"empty_like_fallback": EmptyLikeProp, "resize_fallback": ResizeProp,
                     "unravel_index_fallback": Unravel_indexProp, "mvn_fallback": MultivariateNormalProp}.items():
    operator.register(_name)(_prop)
    for _module in (_nd_npi, _sym_npi):
        _give(_module, _name)  # in place of the operator's function
