"""Convolution of each channel by itself on a CPU: a sum, over the kernel's elements, of shifted data times a weight.

XLA's own grouped convolution takes 7 to 100 times as long there (docs/design/0005); one loop does all of this.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import partial
from typing import cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..common import Array, accumulation, by_own_rules, is_float

__all__ = ["depthwise", "is_depthwise"]

_MOST_TAPS = 64
Numbers = tuple[int, ...]


def is_depthwise(data: Array, kernel: Numbers, groups: int, last: bool) -> bool:
    """Returns whether this convolution has a group for each channel, and a kernel small enough for a sum."""
    return groups > 1 and groups == data.shape[-1 if last else 1] and math.prod(kernel) <= _MOST_TAPS and \
        is_float(data.dtype)


def depthwise(data: Array, weight: Array, stride: Numbers, dilate: Numbers, pad: Numbers, last: bool) -> Array:
    """The convolution; arguments as those of Convolution, one or more filters for each channel."""
    channel = data.ndim - 1 if last else 1
    filters = weight.shape[0] // data.shape[channel]
    if filters > 1:
        data = jnp.repeat(data, filters, axis=channel)
    wide = accumulation(data.dtype)
    out = _sum(stride, dilate, pad, last, data.astype(wide), jnp.squeeze(weight, channel).astype(wide))
    return cast(Array, out).astype(data.dtype)  # `custom_vjp` hides the type


def _places(kernel: Numbers) -> Iterator[Numbers]:
    return itertools.product(*map(range, kernel))


def _padded(data: Array, widths: list[tuple[int, int, int]], last: bool) -> Array:
    """Data with (before, after, between) zeros along the spatial axes; negative numbers cut off."""
    widths = [(0, 0, 0), *widths, (0, 0, 0)] if last else [(0, 0, 0), (0, 0, 0), *widths]
    return lax.pad(data, jnp.zeros((), data.dtype), widths)


def _seen(data: Array, place: Numbers, space: Numbers, stride: Numbers, dilate: Numbers, last: bool) -> Array:
    """Returns the data that an element of the kernel meets: padded data at `place` of every window."""
    start = [p * d for p, d in zip(place, dilate, strict=True)]
    stop = [a + (n - 1) * s + 1 for a, n, s in zip(start, space, stride, strict=True)]
    batch, channels = data.shape[0], data.shape[-1 if last else 1]
    if last:
        return lax.slice(data, (0, *start, 0), (batch, *stop, channels), (1, *stride, 1))
    return lax.slice(data, (0, 0, *start), (batch, channels, *stop), (1, 1, *stride))


def _correlate(data: Array, weight: Array, stride: Numbers, dilate: Numbers, last: bool) -> Array:
    """Padded data with weight (channel, *kernel)."""
    space = tuple([(n - d * (k - 1) - 1) // s + 1 for n, d, k, s in
                   zip(data.shape[1:-1] if last else data.shape[2:], dilate, weight.shape[1:], stride, strict=True)])
    lying = weight.shape[:1] if last else (weight.shape[0], *(1,) * len(space))
    terms = [_seen(data, place, space, stride, dilate, last) * weight[(slice(None), *place)].reshape(lying)
             for place in _places(weight.shape[1:])]
    return sum(terms[1:], terms[0])


@partial(jax.custom_vjp, nondiff_argnums=(0, 1, 2, 3))
def _sum(stride: Numbers, dilate: Numbers, pad: Numbers, last: bool, data: Array, weight: Array) -> Array:
    return _correlate(_padded(data, [(p, p, 0) for p in pad], last), weight, stride, dilate, last)


def _forward(stride: Numbers, dilate: Numbers, pad: Numbers, last: bool, data: Array, weight: Array) -> tuple:
    return _sum(stride, dilate, pad, last, data, weight), (data, weight)


@by_own_rules
def _backward(stride: Numbers, dilate: Numbers, pad: Numbers, last: bool, saved: tuple, head: Array) -> tuple:
    """Both gradients in the same form: JAX's own, of pads and slices, are up to nine times slower on a CPU."""
    data, weight = saved
    shape, space = ((a.shape[1:-1] if last else a.shape[2:]) for a in (data, head))
    widths = []
    for n, m, s, d, k, p in zip(shape, space, stride, dilate, weight.shape[1:], pad, strict=True):
        reach = d * (k - 1)
        widths.append((reach - p, n + p - (m - 1) * s - 1, s - 1))
    turned = jnp.flip(weight, range(1, weight.ndim))
    by_data = _correlate(_padded(head, widths, last), turned, (1,) * len(pad), dilate, last)
    padded = _padded(data, [(p, p, 0) for p in pad], last)
    return by_data, _by_weight(stride, dilate, last, weight.shape, padded, head)


def _products(stride: Numbers, dilate: Numbers, last: bool, shape: Numbers, padded: Array, head: Array) -> list[Array]:
    """Returns the terms whose sum is the gradient, for each element of the kernel."""
    space = head.shape[1:-1] if last else head.shape[2:]
    return [_seen(padded, place, space, stride, dilate, last) * head for place in _places(shape[1:])]


@partial(jax.custom_jvp, nondiff_argnums=(0, 1, 2, 3))
def _by_weight(stride: Numbers, dilate: Numbers, last: bool, shape: Numbers, padded: Array, head: Array) -> Array:
    """The gradient of a weight (channel, *kernel), all sums in one loop: one by one each would write its product.

    The last axis of space is summed by itself: sums of fewer numbers are more precise.
    """
    products = _products(stride, dilate, last, shape, padded, head)
    channel, row = (head.ndim - 1, head.ndim - 2) if last else (1, head.ndim - 1)
    others = [a for a in range(head.ndim) if a not in (channel, row)]
    zeros = [np.zeros((), head.dtype)] * len(products)
    sums = lax.reduce(products, zeros, lambda a, b: [x + y for x, y in zip(a, b, strict=True)], others)
    return jnp.stack(sums, -1).sum(0 if last else 1).reshape(shape)


@_by_weight.defjvp
def _by_weight_jvp(stride: Numbers, dilate: Numbers, last: bool, shape: Numbers, primals: tuple,
                   tangents: tuple) -> tuple[Array, Array]:
    """JAX transposes sums, but not such a loop."""
    def plain(padded: Array, head: Array) -> Array:
        others = tuple(a for a in range(head.ndim) if a != (head.ndim - 1 if last else 1))
        products = _products(stride, dilate, last, shape, padded, head)
        return jnp.stack([p.sum(others) for p in products], -1).reshape(shape)
    return _by_weight(stride, dilate, last, shape, *primals), jax.jvp(plain, primals, tangents)[1]


_sum.defvjp(_forward, _backward)
