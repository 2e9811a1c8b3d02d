"""The choice of the operator that draws: for numbers, or for arrays of parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...base import Unfit, _Null, numeric_types
from ...context import one_context
from ..registry import get

__all__ = ["draw"]


def draw(distribution: str, parameters: dict[str, Any], shape: Any, dtype: Any, ctx: Any, out: Any,
         kwargs: dict[str, Any], invoke: Callable[..., Any], array_type: type) -> Any:
    """Has `invoke(operator, inputs, parameters, out, ctx)` call `_random_<distribution>` where the parameters are
    numbers, `_sample_<distribution>` where they are arrays.

    Raises:
        Unfit: numbers and arrays are mixed.
        ValueError: a parameter is of another type.
    """
    given = {k: v for k, v in {"shape": shape, "dtype": dtype, **kwargs}.items() if v is not _Null and v is not None}
    ctx = one_context(distribution, given, ctx)
    values = list(parameters.values())
    if all(isinstance(v, array_type) for v in values):
        return invoke(get(f"_sample_{distribution}"), values, given, out)
    if not all(isinstance(v, numeric_types) for v in values):
        mixed = all(isinstance(v, (array_type, *numeric_types)) for v in values)
        raise (Unfit if mixed else ValueError)(
            f"Distribution parameters must all be {array_type.__name__} or all be numbers, "
            f"got {', '.join(type(v).__name__ for v in values)}")
    if shape is _Null and out is None:
        given["shape"] = (1,)
    elif out is not None and "shape" not in given:
        given["shape"] = out.shape
        given.setdefault("dtype", out.dtype)
    return invoke(get(f"_random_{distribution}"), [], {**parameters, **given}, out, ctx)
