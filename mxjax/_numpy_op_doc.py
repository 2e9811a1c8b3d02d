"""The documented functions of operators `_np_<name>`, under the operators' names."""

from __future__ import annotations

from typing import Any

from .numpy_op_signature import _get_builtin_op


def __getattr__(name: str) -> Any:
    if not name.startswith("_np_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _get_builtin_op(name)
