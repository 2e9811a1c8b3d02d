"""Convolutions in the forms that CPUs compute fastest, chosen after differentiation for each of a layer's three.

XLA takes the gradient by the weight for a convolution with a kernel as large as the picture. It is a sum of matrix
products, sample by sample where pictures are large, whose windows then stay in the processor's cache, and one product
where they are small. Where a convolution moves by several places, XLA multiplies the zeros in between for its gradient
by the data, which is one product, too, whose results are spread. All others oneDNN computes, where jaxlib has it
(docs/design/0005, 0028).
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, JaxprEqn

from .onednn import by_onednn
from .rewriting import each_equation

__all__ = ["with_fast_convolutions"]

_LEAST = 20_000_000  # products of two numbers for each sample: below, a loop's steps are too short for two threads
_LEAST_SPACE, _MOST_KERNEL = 400, 64  # of fewer places the loop is no faster; of more elements the windows are many
_FULL_VECTORS = 16  # channels: with fewer, products over them are short
Numbers = tuple[int, ...]


def with_fast_convolutions(closed: ClosedJaxpr, library: bool) -> ClosedJaxpr:
    """A program for CPUs with convolutions in their fastest forms; `library`: oneDNN's among them."""
    return each_equation(closed, functools.partial(_fast, library=library))


def _fast(eqn: JaxprEqn, library: bool) -> JaxprEqn | None:
    if eqn.primitive is not lax.conv_general_dilated_p:
        return None
    form = _form(eqn, library)
    if form is None:
        return by_onednn(eqn) if library else None
    p, (data, other, made) = eqn.params, [v.aval.shape for v in (*eqn.invars, *eqn.outvars)]
    call = _call(form, data, other, made, p["dimension_numbers"], p["window_strides"], p["padding"], p["lhs_dilation"],
                 p["rhs_dilation"])
    return call.replace(invars=eqn.invars, outvars=eqn.outvars, source_info=eqn.source_info)


def _form(eqn: JaxprEqn, library: bool) -> Callable | None:
    """The function that computes it with products of matrices, where that is faster."""
    p, numbers, avals = eqn.params, eqn.params["dimension_numbers"], [v.aval for v in (*eqn.invars, *eqn.outvars)]
    if p["feature_group_count"] * p["batch_group_count"] != 1 or any(aval.dtype != np.float32 or not all(
            isinstance(n, int) and n for n in aval.shape) for aval in avals):  # a batch of any size (`jax.export`)
        return None
    data, other, made = [aval.shape for aval in avals]
    spreads = max(p["lhs_dilation"]) > 1
    if numbers.lhs_spec[1] == 0 and not spreads:  # the gradient by the weight: its channels are the batch
        filters, places, taps = (other[numbers.rhs_spec[0]], math.prod(other[axis] for axis in numbers.rhs_spec[2:]),
                                 math.prod(made[axis] for axis in numbers.out_spec[2:]))
        if taps > _MOST_KERNEL:
            return None
        if data[0] > 1 and places >= _LEAST_SPACE and math.prod(made) * places >= _LEAST:
            return _sum_of_products
        return _product if library and taps > 1 and data[0] * places <= 2 * filters else None
    if library and spreads and max(*p["window_strides"], *p["rhs_dilation"]) == 1:
        wide = min(other[axis] for axis in numbers.rhs_spec[:2]) >= _FULL_VECTORS
        return _spread if wide and math.prod(other[axis] for axis in numbers.rhs_spec[2:]) <= _MOST_KERNEL else None
    return None


@functools.lru_cache(maxsize=1024)
def _call(form: Callable, data: Numbers, other: Numbers, *told: Any) -> JaxprEqn:
    @jax.jit
    def convolution(*args: jax.Array) -> jax.Array:
        return form(*args, *told)
    return jax.make_jaxpr(convolution)(*[jax.ShapeDtypeStruct(shape, np.float32) for shape in (data, other)]).eqns[0]


def _last(image: jax.Array, spec: Sequence[int]) -> jax.Array:
    """An image with channels last; spec: where its batch, its channels and its space are."""
    return lax.transpose(image, (spec[0], *spec[2:], spec[1]))


def _windows(image: jax.Array, kernel: Sequence[int], places: Sequence[int], steps: Numbers, strides: Numbers,
             first: int) -> Iterator[jax.Array]:
    """What each element of a kernel sees of an image whose space begins at an axis."""
    for place in itertools.product(*map(range, kernel)):
        start, stop, stride = [0] * image.ndim, list(image.shape), [1] * image.ndim
        for axis, (i, step, wide, count) in enumerate(zip(place, steps, strides, places, strict=True), first):
            start[axis], stop[axis], stride[axis] = i * step, i * step + wide * (count - 1) + 1, wide
        yield lax.slice(image, start, stop, stride)


def _sum_of_products(data: jax.Array, head: jax.Array, made: Numbers, numbers: lax.ConvDimensionNumbers,
                     steps: Numbers, padding: tuple, _: Numbers, strides: Numbers) -> jax.Array:
    """The gradient by the weight of the data and of the gradient of the result, sample by sample."""
    data, head = [_last(image, (spec[1], spec[0], *spec[2:])) for image, spec in (
        (data, numbers.lhs_spec), (head, numbers.rhs_spec))]
    kernel, (_, *places, filters) = [made[axis] for axis in numbers.out_spec[2:]], head.shape

    def add(total: jax.Array, sample: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        image, slope = sample
        image = lax.pad(jnp.moveaxis(image, -1, 0), np.float32(0), [(0, 0, 0), *(around + (0,) for around in padding)])
        seen = jnp.stack(list(_windows(image, kernel, places, steps, strides, 1)), 1)
        return total + seen.reshape(len(total), -1) @ slope.reshape(-1, filters), None
    channels = data.shape[-1]
    total = lax.scan(add, jnp.zeros((channels * math.prod(kernel), filters), np.float32), (data, head))[0]
    return _laid(total.reshape(channels, *kernel, filters), (0, len(made) - 1, *range(1, len(made) - 1)), numbers)


def _product(data: jax.Array, head: jax.Array, made: Numbers, numbers: lax.ConvDimensionNumbers,
             steps: Numbers, padding: tuple, _: Numbers, strides: Numbers) -> jax.Array:
    """The gradient by the weight of the data and of the gradient of the result, as one product."""
    data, head = [_last(image, (spec[1], spec[0], *spec[2:])) for image, spec in (
        (data, numbers.lhs_spec), (head, numbers.rhs_spec))]
    kernel, (_, *places, filters), channels = [made[axis] for axis in numbers.out_spec[2:]], head.shape, data.shape[-1]
    data = lax.pad(data, np.float32(0), [(0, 0, 0), *(around + (0,) for around in padding), (0, 0, 0)])
    seen = jnp.stack(list(_windows(data, kernel, places, steps, strides, 1)), -1)  # as weights are: these are larger
    total = head.reshape(-1, filters).T @ seen.reshape(-1, channels * math.prod(kernel))
    return _laid(total.reshape(filters, channels, *kernel), (1, 0, *range(2, len(made))), numbers)


def _spread(data: jax.Array, weight: jax.Array, made: Numbers, numbers: lax.ConvDimensionNumbers, _: Numbers,
            padding: tuple, apart: Numbers, __: Numbers) -> jax.Array:
    """A convolution of data with zeros in between: what each place gives, added where it reaches."""
    data = _last(data, numbers.lhs_spec)
    filters, channels, *space = numbers.rhs_spec
    weight = lax.transpose(weight, (channels, *space, filters))
    kernel, sizes = weight.shape[1:-1], [made[axis] for axis in numbers.out_spec[2:]]
    given = (data.reshape(-1, data.shape[-1]) @ weight.reshape(len(weight), -1)).reshape(
        *data.shape[:-1], math.prod(kernel), -1)
    total = None
    for i, place in enumerate(itertools.product(*map(range, kernel))):
        around = [(first - at, size - (first - at) - (count - 1) * step - 1, step - 1) for at, (first, _), step, size,
                  count in zip(place, padding, apart, sizes, data.shape[1:-1], strict=True)]
        part = lax.pad(lax.index_in_dim(given, i, data.ndim - 1, False), np.float32(0), [(0, 0, 0), *around, (0, 0, 0)])
        total = part if total is None else total + part
    return _laid(total, (0, len(made) - 1, *range(1, len(made) - 1)), numbers)


def _laid(result: jax.Array, axes: Sequence[int], numbers: lax.ConvDimensionNumbers) -> jax.Array:
    """A result as a convolution gives it; axes: where what is its batch, its channels and its space are now."""
    return lax.transpose(result, [axes[numbers.out_spec.index(axis)] for axis in range(result.ndim)])
