"""Which public function stands for an operator of mx.np, and its signature as an attribute."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from . import numpy as mx_np
from . import numpy_extension as mx_npx
from .ops import registry

__all__: list[str] = []


def _get_builtin_op(op_name: str) -> Callable[..., Any] | None:
    """The function of mx.np for an operator `_np_<name>`, of mx.npx for `_npx_<name>`; else None.

    Raises:
        ValueError: there is no such function.
    """
    for prefix, module in (("_np_", mx_np), ("_npx__image_", mx_npx.image), ("_npx_", mx_npx)):
        if op_name.startswith(prefix):
            function = getattr(module, op_name[len(prefix):], None)
            if function is None:
                raise ValueError(f"Cannot find operator {op_name[len(prefix):]} in module {module.__name__}")
            return function
    return None


for _name in registry.names():
    if _name.startswith("_np_"):
        _function: Any = _get_builtin_op(_name)
        _function.__signature__ = inspect.signature(_function)
