"""Convolutions in the forms that CPUs compute fastest, chosen after differentiation for each of a layer's three.

XLA takes the gradient by the weight for a convolution with a kernel as large as the picture. It is a sum of matrix
products: where oneDNN computes them one for each element of the kernel, or one for all if there are few places; else
sample by sample where pictures are large, whose windows then stay in the processor's cache. Where a convolution moves
by several places, XLA multiplies the zeros in between for its gradient by the data, which is one product, too, whose
results are spread. All others oneDNN computes, where jaxlib has it (docs/design/0005, 0028).
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, JaxprEqn

from .onednn import by_onednn, laid, last, may_compute, product_of_rows
from .rewriting import each_equation

__all__ = ["TOLD", "computed_by_library", "with_fast_convolutions"]

_LEAST = 20_000_000  # products of two numbers for each sample: below, a loop's steps are too short for two threads
_LEAST_SPACE, _MOST_KERNEL = 400, 64  # of fewer places the loop is no faster; of more elements the windows are many
_FULL_VECTORS = 16  # channels: with fewer, products over them are short
_PRODUCTS = 1_000_000  # of two numbers: from so many on oneDNN is faster
_FEW_ROWS = 2  # times as many as filters: all windows of so few take about as much memory as what they give
TOLD = ("dimension_numbers", "window_strides", "padding", "lhs_dilation", "rhs_dilation", "feature_group_count")
Numbers = tuple[int, ...]


def with_fast_convolutions(closed: ClosedJaxpr, library: bool) -> ClosedJaxpr:
    """A program for CPUs with convolutions in their fastest forms; `library`: oneDNN's among them."""
    return each_equation(closed, functools.partial(_fast, library=library))


def computed_by_library(eqn: JaxprEqn) -> bool:
    """Whether it is a convolution that oneDNN computes, where it is there."""
    return _are_numbers(eqn) and _form(eqn, True) is by_onednn


def _are_numbers(eqn: JaxprEqn) -> bool:
    """Whether all arrays are float32 and not empty; their sizes are not those of a batch of any size (`jax.export`)."""
    return all(v.aval.dtype == np.float32 and all(isinstance(n, int) and n for n in v.aval.shape)
               for v in (*eqn.invars, *eqn.outvars))


def _fast(eqn: JaxprEqn, library: bool) -> JaxprEqn | None:
    if eqn.primitive is not lax.conv_general_dilated_p or not _are_numbers(eqn):
        return None
    form = _form(eqn, library)
    if form is None:
        return None
    told = tuple((name, eqn.params[name]) for name in TOLD)
    call = _call(form, *[v.aval.shape for v in (*eqn.invars, *eqn.outvars)], told)
    return call.replace(invars=eqn.invars, outvars=eqn.outvars, source_info=eqn.source_info)


def _form(eqn: JaxprEqn, library: bool) -> Callable | None:
    """The function that computes a convolution faster than XLA's; None: there is none."""
    p, numbers = eqn.params, eqn.params["dimension_numbers"]
    data, other, made = [v.aval.shape for v in (*eqn.invars, *eqn.outvars)]
    if p["feature_group_count"] == p["batch_group_count"] == 1:
        spreads = max(p["lhs_dilation"]) > 1
        if numbers.lhs_spec[1] == 0 and not spreads:  # the gradient by the weight: its channels are the batch
            filters, places = other[numbers.rhs_spec[0]], _size(other, numbers.rhs_spec)
            taps = _size(made, numbers.out_spec)
            if taps <= _MOST_KERNEL:
                channels, rows = data[numbers.lhs_spec[0]], other[numbers.rhs_spec[1]] * places
                if library and _full(channels) and _full(filters) and channels * filters * rows >= _PRODUCTS:
                    return _at_once if rows <= _FEW_ROWS * filters else _by_element
                if data[0] > 1 and places >= _LEAST_SPACE and math.prod(made) * places >= _LEAST:
                    return _sum_of_products
        elif library and spreads and max(*p["window_strides"], *p["rhs_dilation"]) == 1 and \
                min(other[axis] for axis in numbers.rhs_spec[:2]) >= _FULL_VECTORS and \
                _size(other, numbers.rhs_spec) <= _MOST_KERNEL:
            return _spread
    return by_onednn if library and may_compute(eqn) else None


def _full(channels: int) -> bool:
    return channels % _FULL_VECTORS == 0


def _size(shape: Numbers, spec: Sequence[int]) -> int:
    """The elements of what is space in a shape."""
    return math.prod(shape[axis] for axis in spec[2:])


@functools.lru_cache(maxsize=1024)
def _call(form: Callable, data: Numbers, other: Numbers, made: Numbers, told: tuple) -> JaxprEqn:
    @jax.jit
    def convolution(data: jax.Array, other: jax.Array) -> jax.Array:
        return form(data, other, made, dict(told))
    return jax.make_jaxpr(convolution)(*[jax.ShapeDtypeStruct(shape, np.float32) for shape in (data, other)]).eqns[0]


def _images(data: jax.Array, head: jax.Array, made: Numbers,
            p: dict[str, Any]) -> tuple[jax.Array, jax.Array, Numbers, Numbers]:
    """Of a gradient by the weight both images with channels last, the kernel's size, and places of the result."""
    numbers = p["dimension_numbers"]
    data, head = [last(image, (spec[1], spec[0], *spec[2:])) for image, spec in (
        (data, numbers.lhs_spec), (head, numbers.rhs_spec))]  # what counts as channels was the batch
    return data, head, tuple([made[axis] for axis in numbers.out_spec[2:]]), head.shape[1:-1]


def _windows(image: jax.Array, kernel: Numbers, places: Numbers, p: dict[str, Any]) -> list[jax.Array]:
    """What each element of a kernel sees of an image whose space begins at axis 1."""
    seen = [image]
    for axis, size in enumerate(kernel, 1):
        seen = [part for one in seen for part in _along(one, axis, size, axis, places, p)]
    return seen


def _stacked(image: jax.Array, kernel: Numbers, places: Numbers, p: dict[str, Any]) -> jax.Array:
    """The same in one array, the kernel's axes before those of space, made axis by axis: 14 slices are compiled for a
    kernel of 7 x 7, not 49."""
    for axis, size in enumerate(kernel, 1):
        image = jnp.stack(_along(image, 2 * axis - 1, size, axis, places, p), axis)
    return image


def _along(image: jax.Array, at: int, size: int, axis: int, places: Numbers, p: dict[str, Any]) -> list[jax.Array]:
    """What each row of a kernel sees of an image along an axis of space, which is here the image's axis `at`."""
    step, wide, reach = p["window_strides"][axis - 1], p["rhs_dilation"][axis - 1], places[axis - 1] - 1
    return [lax.slice_in_dim(image, i * step, i * step + wide * reach + 1, wide, at) for i in range(size)]


def _padded(image: jax.Array, p: dict[str, Any]) -> jax.Array:
    """An image whose space begins at axis 1, with zeros around."""
    around = [(0, 0, 0), *((before, behind, 0) for before, behind in p["padding"])]
    return lax.pad(image, np.float32(0), around + [(0, 0, 0)] * (image.ndim - len(around)))


def _sum_of_products(data: jax.Array, head: jax.Array, made: Numbers, p: dict[str, Any]) -> jax.Array:
    """The gradient by the weight of the data and of the gradient of the result, sample by sample."""
    data, head, kernel, places = _images(data, head, made, p)
    channels, filters, dims = data.shape[-1], head.shape[-1], data.ndim

    def add(total: jax.Array, sample: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        image, slope = sample
        seen = _stacked(_padded(jnp.moveaxis(image, -1, 0), p), kernel, places, p)
        return total + seen.reshape(len(total), -1) @ slope.reshape(-1, filters), None
    total = lax.scan(add, jnp.zeros((channels * math.prod(kernel), filters), np.float32), (data, head))[0]
    return laid(total.reshape(channels, *kernel, filters), (0, dims - 1, *range(1, dims - 1)), p["dimension_numbers"])


def _by_element(data: jax.Array, head: jax.Array, made: Numbers, p: dict[str, Any]) -> jax.Array:
    """The gradient by the weight of the data and of the gradient of the result, for each element of the kernel."""
    data, head, kernel, places = _images(data, head, made, p)
    slopes = head.reshape(-1, head.shape[-1])
    parts = [product_of_rows(slopes, seen.reshape(-1, seen.shape[-1]))
             for seen in _windows(_padded(data, p), kernel, places, p)]
    total = jnp.stack(parts, -1).reshape(*parts[0].shape, *kernel)
    return laid(total, (1, 0, *range(2, data.ndim)), p["dimension_numbers"])


def _at_once(data: jax.Array, head: jax.Array, made: Numbers, p: dict[str, Any]) -> jax.Array:
    """The gradient by the weight of the data and of the gradient of the result, for all elements of the kernel."""
    data, head, kernel, places = _images(data, head, made, p)
    channels, filters, dims = data.shape[-1], head.shape[-1], data.ndim
    slopes, seen = head.reshape(-1, filters), jnp.concatenate(_windows(_padded(data, p), kernel, places, p), -1)
    total = product_of_rows(slopes, seen.reshape(len(slopes), -1)).reshape(filters, *kernel, channels)
    return laid(total, (dims - 1, 0, *range(1, dims - 1)), p["dimension_numbers"])


def _spread(data: jax.Array, weight: jax.Array, made: Numbers, p: dict[str, Any]) -> jax.Array:
    """A convolution of data with zeros in between: what each place gives, added where it reaches."""
    numbers, dims = p["dimension_numbers"], data.ndim
    data = last(data, numbers.lhs_spec)
    filters, channels, *space = numbers.rhs_spec
    weight = lax.transpose(weight, (channels, *space, filters))
    kernel, sizes = weight.shape[1:-1], [made[axis] for axis in numbers.out_spec[2:]]
    given = (data.reshape(-1, data.shape[-1]) @ weight.reshape(len(weight), -1)).reshape(
        *data.shape[:-1], math.prod(kernel), -1)
    parts = []
    for i, place in enumerate(itertools.product(*map(range, kernel))):
        around = []
        for at, (before, _), apart, size, count in zip(place, p["padding"], p["lhs_dilation"], sizes, data.shape[1:-1],
                                                       strict=True):
            first = before - at
            around.append((first, size - first - (count - 1) * apart - 1, apart - 1))
        part = lax.index_in_dim(given, i, dims - 1, False)
        parts.append(lax.pad(part, np.float32(0), [(0, 0, 0), *around, (0, 0, 0)]))
    return laid(functools.reduce(lax.add, parts), (0, dims - 1, *range(1, dims - 1)), numbers)
