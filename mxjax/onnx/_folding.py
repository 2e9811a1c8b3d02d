"""Operators of ONNX that are computed while a file is read: sizes and shapes, above all.

A file computes shapes by operators. They become parameters of MXNet's operators, so their values must be known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..symbol import Symbol
from ._export import package
from ._import import Derived, ImportedNode

__all__ = ["MOST_FOLDED", "dtype_name", "dynamic_axes", "every_input", "folding"]

MOST_FOLDED = 1 << 20  # shapes are computed that way, which are short


def folding(compute: Callable[..., Any]) -> Callable[[Callable], Callable]:
    """Decorates the importer of an operator that is computed at once if all inputs are constant integers.

    Other numbers than integers are computed, too, if they are single or derive from shapes.

    Args:
        compute: function of the call and the values of the inputs; returns the result, or the list of results.
    """
    def decorate(function: Callable[[ImportedNode], Any]) -> Callable[[ImportedNode], Any]:
        def convert(c: ImportedNode) -> Any:
            places = [i for i in range(len(c.inputs)) if c.has(i)]
            derives = any(c.derives(i) for i in places)
            if not all(_short(c, i, derives) for i in places):
                return function(c)
            results = c.for_each_size(lambda: _arrays(compute(c, *(c.known(i) for i in places))))
            if not derives:
                return results[0] if len(results[0]) > 1 else results[0][0]
            symbols: list[Symbol] = []

            def make(number: int) -> Symbol:
                if not symbols:
                    items = function(c)
                    symbols.extend(items if isinstance(items, (list, tuple, Symbol)) else [_symbol(c, items)])
                return symbols[number]
            items = [Derived(versions, lambda n=n: make(n)) for n, versions in enumerate(zip(*results, strict=True))]
            return items if len(items) > 1 else items[0]
        return convert
    return decorate


def _short(c: ImportedNode, index: int, derives: bool) -> bool:
    values = [c.known(index)] if not c.derives(index) else c.for_each_size(lambda: c.known(index))
    return all(v is not None and v.size <= MOST_FOLDED and (v.dtype.kind in "iub" or v.size == 1 or derives)
               for v in values)


def _arrays(values: Any) -> list[np.ndarray]:
    return [np.asarray(f) for f in (values if isinstance(values, list) else [values])]


def _symbol(c: ImportedNode, value: Any) -> Symbol:
    return value.make() if isinstance(value, Derived) else c.param(value, "constant")


def dynamic_axes(shapes: Sequence[Sequence[int]]) -> tuple[list[int], dict[int, list[int]]]:
    """Returns (a shape with 1 for dynamic sizes, {axis: its size for each set of sizes})."""
    dynamic = {axis: list(sizes) for axis, sizes in enumerate(zip(*shapes, strict=True)) if len(set(sizes)) > 1}
    return [1 if axis in dynamic else n for axis, n in enumerate(shapes[0])], dynamic


def every_input(c: ImportedNode) -> list[Symbol]:
    """Returns all inputs as symbols."""
    return [c.sym(i) for i in range(len(c.inputs))]


def dtype_name(c: ImportedNode, number: int) -> str:
    """Returns the name of a dtype of ONNX."""
    return np.dtype(package().helper.tensor_dtype_to_np_dtype(number)).name
