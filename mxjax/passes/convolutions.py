"""Selects the fastest form of each convolution on CPUs, after differentiation.

XLA computes the gradient by the weight as a convolution with a kernel as large as the image. Here it is a sum of matrix
products. oneDNN computes one product per element of the kernel, or a single one if there are few positions. Otherwise,
large images are computed sample by sample, so that their windows stay in the processor's cache. Grouped convolutions
always are, because XLA takes hundreds of times as long. The gradient by the data of a strided convolution contains
inserted zeros, which XLA multiplies, too. It becomes several convolutions without zeros. oneDNN computes all others, if
jaxlib contains it (docs/design/0005, 0028).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, JaxprEqn

from .._xla.tracing import aval_of
from ..ops.by_device import MOST_KERNEL
from .onednn import by_onednn, laid, last, may_compute, product_of_rows
from .rewriting import each_equation

__all__ = ["CONVOLUTION_PARAMS", "computed_by_library", "with_fast_convolutions"]

_LEAST = 20_000_000  # multiplications per sample; below that, the steps of a loop are too short for two threads
_LEAST_SPACE, _MOST_KERNEL = 400, 64  # fewer positions: the loop is not faster; more elements: too many windows
_FULL_VECTORS = 16  # channels; with fewer, products over them are too short
_PRODUCTS = 1_000_000  # multiplications from which on oneDNN is faster
_FEW_FILTERS, _LITTLE = 16, 4_000_000  # filters and multiplications up to which XLA takes 2 to 8 times as long
_MOST_PHASES = 9  # with more, one convolution computes all phases
_FEW_GROUPS = 8  # convolutions that are compiled one by one
_MOST_WINDOWS = 1 << 26  # elements of the windows of one sample
_FEW_ROWS = 2  # rows per filter up to which all windows take about as much memory as the result
CONVOLUTION_PARAMS = ("dimension_numbers", "window_strides", "padding", "lhs_dilation", "rhs_dilation",
                      "feature_group_count", "batch_group_count")
Numbers = tuple[int, ...]


def with_fast_convolutions(closed: ClosedJaxpr, library: bool) -> ClosedJaxpr:
    """Returns a program for CPUs with convolutions in their fastest forms; `library`: oneDNN may be called."""
    return each_equation(closed, functools.partial(_fast, library=library))


def computed_by_library(eqn: JaxprEqn) -> bool:
    """Returns whether this is a convolution that oneDNN computes if it is available."""
    return _are_numbers(eqn) and _form(eqn, True) is by_onednn


def _are_numbers(eqn: JaxprEqn) -> bool:
    """Returns whether all arrays are float32, not empty, and of known size (`jax.export` can leave the batch size
    open).
    """
    return _is_sized(eqn) and all(aval_of(v).dtype == np.float32 for v in (*eqn.invars, *eqn.outvars))


def _is_sized(eqn: JaxprEqn) -> bool:
    return all(isinstance(n, int) and n for v in (*eqn.invars, *eqn.outvars) for n in aval_of(v).shape)


def _fast(eqn: JaxprEqn, library: bool) -> JaxprEqn | None:
    if eqn.primitive is not lax.conv_general_dilated_p or not _is_sized(eqn):
        return None
    form = _by_group if _is_by_group(eqn) else _form(eqn, library) if _are_numbers(eqn) else None
    if form is None and _is_each_group(eqn):
        form = _each_group
    if form is None:
        return None
    params = tuple((name, eqn.params[name]) for name in CONVOLUTION_PARAMS)
    avals = [aval_of(v) for v in (*eqn.invars, *eqn.outvars)]
    call = equation_of(form, *[aval.shape for aval in avals], avals[-1].dtype, params)
    return call.replace(invars=eqn.invars, outvars=eqn.outvars, source_info=eqn.source_info)


def _form(eqn: JaxprEqn, library: bool) -> Callable | None:
    """Returns the function that computes a convolution faster than XLA; None: there is none."""
    p = eqn.params
    if not 3 <= len(aval_of(eqn.outvars[0]).shape) <= 5:
        return None
    if max(p["lhs_dilation"]) > 1:
        return _form_of_phases(eqn) if library else None
    by_weight = p["feature_group_count"] == p["batch_group_count"] == 1 and p["dimension_numbers"].lhs_spec[1] == 0
    form = _form_by_weight(eqn, library) if by_weight else None  # its channels are the batch
    return by_onednn if form is None and library and may_compute(eqn) else form


def _is_by_group(eqn: JaxprEqn) -> bool:
    """Returns whether this is the gradient by the weight of a grouped convolution without too many windows."""
    p, numbers = eqn.params, eqn.params["dimension_numbers"]
    dtype, *others = {aval_of(v).dtype for v in (*eqn.invars, *eqn.outvars)}
    if p["batch_group_count"] == 1 or max(p["lhs_dilation"], default=1) > 1 or numbers.lhs_spec[1] != 0 or others or \
            not jnp.issubdtype(dtype, jnp.floating):
        return False
    data, other, out_shape = [aval_of(v).shape for v in (*eqn.invars, *eqn.outvars)]
    windows = data[numbers.lhs_spec[0]] * _size(out_shape, numbers.out_spec) * _size(other, numbers.rhs_spec)
    return windows <= _MOST_WINDOWS


def _is_each_group(eqn: JaxprEqn) -> bool:
    """Returns whether this is a convolution in float64 of groups of several channels, and not a small one."""
    avals = [aval_of(v) for v in (*eqn.invars, *eqn.outvars)]
    (_, weight, out), spec = avals, eqn.params["dimension_numbers"].rhs_spec
    return eqn.params["feature_group_count"] > 1 and eqn.params["batch_group_count"] == 1 and \
        weight.shape[spec[1]] > 1 and all(a.dtype == np.float64 for a in avals) and \
        math.prod(out.shape) * math.prod(weight.shape) // weight.shape[spec[0]] >= _PRODUCTS


def _form_by_weight(eqn: JaxprEqn, library: bool) -> Callable | None:
    numbers = eqn.params["dimension_numbers"]
    data, other, out_shape = [aval_of(v).shape for v in (*eqn.invars, *eqn.outvars)]
    if _size(out_shape, numbers.out_spec) > _MOST_KERNEL:
        return None
    filters, places = other[numbers.rhs_spec[0]], _size(other, numbers.rhs_spec)
    channels, rows = data[numbers.lhs_spec[0]], other[numbers.rhs_spec[1]] * places
    if filters <= _FEW_FILTERS and math.prod(out_shape) * rows <= _LITTLE:
        return sum_of_products
    if library and _full(channels) and _full(filters) and channels * filters * rows >= _PRODUCTS:
        return _at_once if rows <= _FEW_ROWS * filters else _by_element
    if data[0] > 1 and places >= _LEAST_SPACE and math.prod(out_shape) * places >= _LEAST:
        return sum_of_products
    return None


def _form_of_phases(eqn: JaxprEqn) -> Callable | None:
    p, weight, spec = eqn.params, aval_of(eqn.invars[1]).shape, eqn.params["dimension_numbers"].rhs_spec
    taps = math.prod([-(-weight[axis] // step) for axis, step in zip(spec[2:], p["lhs_dilation"], strict=True)])
    if max(p["batch_group_count"], *p["window_strides"], *p["rhs_dilation"]) > 1 or taps > MOST_KERNEL:
        return None
    if math.prod(p["lhs_dilation"]) <= _MOST_PHASES and weight[spec[0]] >= _FULL_VECTORS:
        return _by_phase
    return _phases_at_once if p["feature_group_count"] == 1 else None


def _full(channels: int) -> bool:
    return channels % _FULL_VECTORS == 0


def _size(shape: Numbers, spec: Sequence[int]) -> int:
    """Returns the number of elements of the spatial axes."""
    return math.prod(shape[axis] for axis in spec[2:])


@functools.lru_cache(maxsize=1024)
def equation_of(form: Callable, data: Numbers, other: Numbers, out_shape: Numbers, dtype: Any,
                params: tuple) -> JaxprEqn:
    """Returns the equation that calls another form of a convolution for arrays of these shapes."""
    @jax.jit
    def convolution(data: jax.Array, other: jax.Array) -> jax.Array:
        return form(data, other, out_shape, dict(params))
    return jax.make_jaxpr(convolution)(*[jax.ShapeDtypeStruct(shape, dtype) for shape in (data, other)]).eqns[0]


def _images(data: jax.Array, head: jax.Array, out_shape: Numbers,
            p: dict[str, Any]) -> tuple[jax.Array, jax.Array, Numbers, Numbers]:
    """Returns both images of a gradient by the weight with channels last, the size of the kernel, and the positions of
    the result."""
    numbers = p["dimension_numbers"]
    data, head = [last(image, (spec[1], spec[0], *spec[2:])) for image, spec in (
        (data, numbers.lhs_spec), (head, numbers.rhs_spec))]  # its channels were the batch
    return data, head, tuple([out_shape[axis] for axis in numbers.out_spec[2:]]), head.shape[1:-1]


def _windows(image: jax.Array, kernel: Numbers, places: Numbers, p: dict[str, Any]) -> list[jax.Array]:
    """Returns the parts of an image, whose spatial axes begin at 1, that each element of a kernel reads."""
    seen = [image]
    for axis, size in enumerate(kernel, 1):
        seen = [part for one in seen for part in _along(one, axis, size, axis, places, p)]
    return seen


def _stacked(image: jax.Array, kernel: Numbers, places: Numbers, p: dict[str, Any]) -> jax.Array:
    """Returns the same as one array, with the axes of the kernel before the spatial axes. It is computed axis by axis:
    a kernel of 7 x 7 needs 14 slices, not 49."""
    for axis, size in enumerate(kernel, 1):
        image = jnp.stack(_along(image, 2 * axis - 1, size, axis, places, p), axis)
    return image


def _along(image: jax.Array, at: int, size: int, axis: int, places: Numbers, p: dict[str, Any]) -> list[jax.Array]:
    """Returns the parts of an image that each row of a kernel reads along a spatial axis, the axis `at` of the image.
    """
    step, wide, reach = p["window_strides"][axis - 1], p["rhs_dilation"][axis - 1], places[axis - 1] - 1
    return [lax.slice_in_dim(image, i * step, i * step + wide * reach + 1, wide, at) for i in range(size)]


def _padded(image: jax.Array, p: dict[str, Any]) -> jax.Array:
    """Returns an image, whose spatial axes begin at 1, with zero padding."""
    around = [(0, 0, 0), *((before, behind, 0) for before, behind in p["padding"])]
    return lax.pad(image, np.zeros((), image.dtype), around + [(0, 0, 0)] * (image.ndim - len(around)))


def sum_of_products(data: jax.Array, head: jax.Array, out_shape: Numbers, p: dict[str, Any]) -> jax.Array:
    """Computes the gradient by the weight from the data and the gradient of the result, sample by sample."""
    data, head, kernel, places = _images(data, head, out_shape, p)
    channels, filters, dims = data.shape[-1], head.shape[-1], data.ndim

    def add(total: jax.Array, sample: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        image, slope = sample
        seen = _stacked(_padded(jnp.moveaxis(image, -1, 0), p), kernel, places, p)
        return total + seen.reshape(len(total), -1) @ slope.reshape(-1, filters), None
    total = lax.scan(add, jnp.zeros((channels * math.prod(kernel), filters), np.float32), (data, head))[0]
    return laid(total.reshape(channels, *kernel, filters), (0, dims - 1, *range(1, dims - 1)), p["dimension_numbers"])


def _by_group(data: jax.Array, head: jax.Array, out_shape: Numbers, p: dict[str, Any]) -> jax.Array:
    """Computes the gradient by the weight of a grouped convolution, sample by sample, with one product per group."""
    numbers, groups = p["dimension_numbers"], p["batch_group_count"]
    kernel, places = (tuple([shape[axis] for axis in spec[2:]]) for shape, spec in (
        (out_shape, numbers.out_spec), (head.shape, numbers.rhs_spec)))
    filters = head.shape[numbers.rhs_spec[0]]
    (data, first), (head, second) = [_samples(image, spec) for image, spec in (
        (data, numbers.lhs_spec), (head, numbers.rhs_spec))]
    wide = jnp.promote_types(data.dtype, np.float32)

    def add(total: jax.Array, sample: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        image, slope = lax.transpose(sample[0], first), lax.transpose(sample[1], second)
        seen = _stacked(_padded(image, p), kernel, places, p).reshape(groups, -1, math.prod(places))
        return total + lax.dot_general(slope.reshape(groups, -1, math.prod(places)), seen, (((2,), (2,)), ((0,), (0,))),
                                       preferred_element_type=wide), None
    each = filters // groups, out_shape[numbers.out_spec[0]] * math.prod(kernel)
    total = lax.scan(add, jnp.zeros((groups, *each), wide), (data, head))[0].astype(data.dtype)
    total = total.reshape(filters, -1, *kernel)
    return laid(total, (1, 0, *range(2, total.ndim)), numbers)


def _each_group(data: jax.Array, weight: jax.Array, out_shape: Numbers, p: dict[str, Any]) -> jax.Array:
    """Computes a convolution of groups one after another. At once, XLA multiplies one number at a time in float64."""
    numbers, groups = p["dimension_numbers"], p["feature_group_count"]

    def one(pair: tuple[jax.Array, jax.Array]) -> jax.Array:
        return lax.conv_general_dilated(*pair, p["window_strides"], p["padding"], p["lhs_dilation"], p["rhs_dilation"],
                                        numbers)

    def apart(image: jax.Array, axis: int) -> jax.Array:
        parts = image.reshape(*image.shape[:axis], groups, -1, *image.shape[axis + 1:])
        return jnp.moveaxis(parts, axis, 0)
    channels, pairs = numbers.out_spec[1], (apart(data, numbers.lhs_spec[1]), apart(weight, numbers.rhs_spec[0]))
    loop = groups > _FEW_GROUPS  # its convolutions use one thread, but are compiled once
    results = lax.map(one, pairs) if loop else jnp.stack(list(map(one, zip(*pairs, strict=True))))
    return jnp.moveaxis(results, 0, channels).reshape(out_shape)


def _samples(image: jax.Array, spec: Sequence[int]) -> tuple[jax.Array, Numbers]:
    """Returns images, whose channels are the batch, one by one in their order in memory, and the permutation of their
    axes to channels, space."""
    batch = spec[1]
    rest = [axis - (axis > batch) for axis in (spec[0], *spec[2:])]
    return jnp.moveaxis(image, batch, 0), tuple(rest)


def _by_element(data: jax.Array, head: jax.Array, out_shape: Numbers, p: dict[str, Any]) -> jax.Array:
    """Computes the gradient by the weight from the data and the gradient of the result, one product per element of the
    kernel."""
    data, head, kernel, places = _images(data, head, out_shape, p)
    slopes = head.reshape(-1, head.shape[-1])
    parts = [product_of_rows(slopes, seen.reshape(-1, seen.shape[-1]))
             for seen in _windows(_padded(data, p), kernel, places, p)]
    total = jnp.stack(parts, -1).reshape(*parts[0].shape, *kernel)
    return laid(total, (1, 0, *range(2, data.ndim)), p["dimension_numbers"])


def _at_once(data: jax.Array, head: jax.Array, out_shape: Numbers, p: dict[str, Any]) -> jax.Array:
    """Computes the gradient by the weight from the data and the gradient of the result, one product for all
    elements."""
    data, head, kernel, places = _images(data, head, out_shape, p)
    channels, filters, dims = data.shape[-1], head.shape[-1], data.ndim
    slopes, seen = head.reshape(-1, filters), jnp.concatenate(_windows(_padded(data, p), kernel, places, p), -1)
    total = product_of_rows(slopes, seen.reshape(len(slopes), -1)).reshape(filters, *kernel, channels)
    return laid(total, (dims - 1, 0, *range(1, dims - 1)), p["dimension_numbers"])


def _by_phase(data: jax.Array, weight: jax.Array, out_shape: Numbers, p: dict[str, Any]) -> jax.Array:
    """Computes a convolution of data with inserted zeros. Results at the distance of the data use the same elements of
    the kernel, so each such phase is a convolution without zeros."""
    numbers, apart, sizes = p["dimension_numbers"], p["lhs_dilation"], _sizes(out_shape, p)
    image, phases = last(data, numbers.lhs_spec), []
    counts = [-(-size // step) for size, step in zip(sizes, apart, strict=True)]
    for phase in np.ndindex(*apart):
        kernel, begins = weight, []
        for axis, begin, step, (before, _) in zip(numbers.rhs_spec[2:], phase, apart, p["padding"], strict=True):
            first = (before - begin) % step  # the first element of the kernel that is multiplied with data
            kernel = lax.slice_in_dim(kernel, min(first, kernel.shape[axis]), None, step, axis)
            begins.append((begin - before + first) // step)
        phases.append(_without_zeros(image, kernel, numbers.rhs_spec, begins, counts, p["feature_group_count"]))
    return _woven(jnp.stack(phases, -2), [0] * len(sizes), sizes, p)


def _phases_at_once(data: jax.Array, weight: jax.Array, out_shape: Numbers, p: dict[str, Any]) -> jax.Array:
    """Computes the same by one convolution with the filters of all phases: each position of the data meets as many
    elements of the kernel as there are phases."""
    numbers, apart, sizes = p["dimension_numbers"], p["lhs_dilation"], _sizes(out_shape, p)
    skipped, begins, counts, around, split = [], [], [], [], []
    for step, size, (before, _), taps in zip(apart, sizes, p["padding"], [weight.shape[axis] for axis in
                                                                         numbers.rhs_spec[2:]], strict=True):
        skipped.append((-1 - before) % step)  # drops results so that all phases begin at the same position
        begins.append(1 - (before + skipped[-1] + 1) // step)
        counts.append(-(-(size + skipped[-1]) // step))
        around.append((0, -taps % step, 0))
        split += [-(-taps // step), step]
    kernel = lax.pad(lax.transpose(weight, numbers.rhs_spec), np.float32(0), [(0, 0, 0), (0, 0, 0), *around])
    kernel = kernel.reshape(*kernel.shape[:2], *split)
    phases, taps = range(3, kernel.ndim, 2), range(2, kernel.ndim, 2)
    kernel = lax.transpose(lax.rev(kernel, phases), (*phases, 0, 1, *taps))
    kernel = kernel.reshape(-1, *kernel.shape[len(sizes) + 1:])
    result = _without_zeros(last(data, numbers.lhs_spec), kernel, range(kernel.ndim), begins, counts, 1)
    return _woven(result.reshape(*result.shape[:-1], math.prod(apart), -1), skipped, sizes, p)


def _sizes(out_shape: Numbers, p: dict[str, Any]) -> list[int]:
    return [out_shape[axis] for axis in p["dimension_numbers"].out_spec[2:]]


def _without_zeros(image: jax.Array, kernel: jax.Array, spec: Sequence[int], begins: Sequence[int],
                   counts: Sequence[int], groups: int) -> jax.Array:
    """Computes a convolution of an image with channels last, whose first results read from `begins` on; spec: the axes
    of the kernel's filters, channels and space."""
    out_shape, taps = (len(image), *counts, kernel.shape[spec[0]]), [kernel.shape[axis] for axis in spec[2:]]
    if not all(taps):
        return jnp.zeros(out_shape, np.float32)
    around = [(-begin, begin + count + n - 1 - size)
              for begin, count, n, size in zip(begins, counts, taps, image.shape[1:-1], strict=True)]
    if min(map(min, around)) < 0:
        image, around = _padded(image, {"padding": around}), [(0, 0)] * len(around)
    ones, images = (1,) * len(taps), (0, image.ndim - 1, *range(1, image.ndim - 1))
    return by_onednn(image, kernel, out_shape, {
        "dimension_numbers": lax.ConvDimensionNumbers(images, tuple(spec), images), "window_strides": ones,
        "padding": around, "rhs_dilation": ones, "feature_group_count": groups})


def _woven(phases: jax.Array, begins: Sequence[int], sizes: Sequence[int], p: dict[str, Any]) -> jax.Array:
    """Returns the results from (batch, positions, phases, channels), with the phases of a position next to each
    other."""
    apart, (batch, *places, _, channels) = p["lhs_dilation"], phases.shape
    dims = len(places)
    image = phases.reshape(batch, *places, *apart, channels)
    image = lax.transpose(image, (0, *[n for i in range(1, dims + 1) for n in (i, dims + i)], 2 * dims + 1))
    image = image.reshape(batch, *[n * step for n, step in zip(places, apart, strict=True)], channels)
    for axis, (begin, size) in enumerate(zip(begins, sizes, strict=True), 1):
        image = lax.slice_in_dim(image, begin, begin + size, axis=axis)
    return laid(image, (0, dims + 1, *range(1, dims + 1)), p["dimension_numbers"])
