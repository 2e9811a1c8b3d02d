"""Importers of ONNX operators: constants, shapes of values, ranges, random numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..symbol import Symbol
from ._export import package
from ._folding import dtype_name, dynamic_axes, folding
from ._import import Derived, ImportedNode, importer


def _number(c: ImportedNode) -> np.ndarray:
    for name in ("value_float", "value_int", "value_floats", "value_ints"):
        if name in c.attrs:
            return np.asarray(c.attrs[name], np.int64 if "int" in name else np.float32)
    return package().numpy_helper.to_array(c.attrs["value"])


importer("Constant")(_number)


def _of_shape(c: ImportedNode, take: Callable[[tuple[int, ...]], Any], make: Callable[[], Symbol]) -> Any:
    """A number or a list of the first input's shape."""
    sizes = c.sized(0)
    if c.known(0) is not None and not c.derives(0):
        return np.array(take(c.given(c.shape(0), "a constant of an unknown shape")), np.int64)
    return make() if sizes is None else Derived([np.array(take(s), np.int64) for s in sizes], make)


@importer("Shape")
def _shape(c: ImportedNode) -> Any:
    some = slice(c.attr("start", 0), c.attr("end"))

    def make() -> Symbol:
        whole = c.op("shape_array", c.sym(0))
        return whole if some == slice(0, None) else c.op("slice", whole, begin=(some.start,), end=(some.stop,))
    return _of_shape(c, lambda shape: shape[some], make)


@importer("Size")
def _size(c: ImportedNode) -> Any:
    return _of_shape(c, math.prod, lambda: c.op("size_array", c.sym(0)))


def _filled(c: ImportedNode) -> tuple[float, np.dtype]:
    fill = package().numpy_helper.to_array(c.attrs["value"]) if "value" in c.attrs else np.zeros(1, np.float32)
    return fill.reshape(-1)[0], fill.dtype


def _full(c: ImportedNode, shape: np.ndarray) -> np.ndarray:
    c.make(math.prod(shape.tolist()))
    return np.full(shape.tolist(), *_filled(c))


@importer("ConstantOfShape")
@folding(_full)
def _constant_of_shape(c: ImportedNode) -> Any:
    if not c.derives(0):
        return _full(c, c.value(0))
    shape, dynamic = dynamic_axes(c.for_each_size(lambda: c.value(0).tolist()))
    return c.stretched(c.param(_full(c, np.array(shape)), "value"), dynamic)


def _numbers(c: ImportedNode, start: np.ndarray, stop: np.ndarray, step: np.ndarray) -> np.ndarray:
    c.make((stop.item() - start.item()) / step.item() if step.item() else math.inf)
    return np.arange(start.item(), stop.item(), step.item(), dtype=start.dtype)


@importer("Range")
@folding(_numbers)
def _range(c: ImportedNode) -> Any:
    if c.derives(1) and c.known(1) is None:
        start, step = c.value(0).item(), c.value(2).item()
        c.need((start, step) == (0, 1), "a dynamic end, and another start than 0 or step than 1")
        return c.op("Cast", c.counted(c.for_each_size(lambda: c.value(1).item())), dtype=c.value(0).dtype.name)
    return _numbers(c, *(c.value(i) for i in range(3)))


# ---------------------------------------------------------------- random numbers
def _drawn(name: str, names: dict[str, tuple[str, float]], like: bool) -> Callable[[ImportedNode], Symbol]:
    def convert(c: ImportedNode) -> Symbol:
        params = {new: c.attr(old, default) for old, (new, default) in names.items()}
        if like:
            c.need("dtype" not in c.attrs, "dtype other than that of the input")
            return c.op(f"_random_{name}_like", c.sym(0), **params)
        return c.op(f"_random_{name}", shape=c.attr("shape"), dtype=dtype_name(c, c.attr("dtype", 1)), **params)
    return convert


for _onnx, _kind, _names in (("Uniform", "uniform", {"low": ("low", 0.0), "high": ("high", 1.0)}),
                             ("Normal", "normal", {"mean": ("loc", 0.0), "scale": ("scale", 1.0)})):
    importer(f"Random{_onnx}")(_drawn(_kind, _names, False))
    importer(f"Random{_onnx}Like")(_drawn(_kind, _names, True))


@importer("Multinomial")
def _multinomial(c: ImportedNode) -> Symbol:
    """Of logarithms of probabilities, which need not add up to 1."""
    chances = c.op("softmax", c.sym(0), axis=-1)
    result = c.op("_sample_multinomial", chances, shape=(c.attr("sample_size", 1),), dtype="int32")
    return c.op("Cast", result, dtype=dtype_name(c, c.attr("dtype", 6)))
