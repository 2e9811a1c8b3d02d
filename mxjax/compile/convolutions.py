"""Gradients of convolutions by their weight, on CPUs: sample by sample, each one matrix product.

XLA takes them for convolutions with a kernel as large as the picture, for which it turns the whole batch around twice.
The windows of one sample stay in the processor's cache (docs/design/0005).
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, JaxprEqn

from .rewriting import each_equation

__all__ = ["with_sample_gradients"]

_LEAST = 20_000_000  # products of two numbers for each sample: below, a loop's steps are too short for two threads
_LEAST_SPACE, _MOST_KERNEL = 100, 64  # of fewer places the product is no faster; of more elements the windows are many
Numbers = tuple[int, ...]


def with_sample_gradients(closed: ClosedJaxpr) -> ClosedJaxpr:
    """A program for CPUs whose large gradients of convolutions by their weight are sums over samples."""
    return each_equation(closed, _by_sample)


def _by_sample(eqn: JaxprEqn) -> JaxprEqn | None:
    if eqn.primitive is not lax.conv_general_dilated_p or not _is_large_gradient(eqn):
        return None
    (data, head), p = [v.aval.shape for v in eqn.invars], eqn.params
    call = _call(data, head, eqn.outvars[0].aval.shape, p["window_strides"], p["rhs_dilation"], p["padding"])
    return call.replace(invars=eqn.invars, outvars=eqn.outvars, source_info=eqn.source_info)


def _is_large_gradient(eqn: JaxprEqn) -> bool:
    """Whether it is the gradient of a convolution (batch, channel, space) by its weight, and large."""
    p, avals = eqn.params, [v.aval for v in (*eqn.invars, *eqn.outvars)]
    data, head, weight = [aval.shape for aval in avals]
    turned = (1, 0, *range(2, len(data)))
    if tuple(p["dimension_numbers"]) != (turned,) * 3 or p["feature_group_count"] * p["batch_group_count"] != 1:
        return False
    if any(aval.dtype != np.float32 for aval in avals) or any(d != 1 for d in p["lhs_dilation"]):
        return False
    if not all(isinstance(n, int) for n in (*data, *head)):  # a batch of any size (`jax.export`)
        return False
    return data[0] > 1 and math.prod(weight[2:]) <= _MOST_KERNEL and math.prod(head[2:]) >= _LEAST_SPACE and \
        math.prod(weight + head[2:]) >= _LEAST


@functools.lru_cache(maxsize=1024)
def _call(data: Numbers, head: Numbers, weight: Numbers, *geometry: Any) -> JaxprEqn:
    function = jax.jit(functools.partial(_sum_of_products, weight=weight, geometry=geometry))
    return jax.make_jaxpr(function)(*[jax.ShapeDtypeStruct(shape, np.float32) for shape in (data, head)]).eqns[0]


def _sum_of_products(data: jax.Array, head: jax.Array, weight: Numbers, geometry: tuple) -> jax.Array:
    """Of data (batch, channel, *space) and head (batch, filter, *places) what lies in weight (filter, channel, ...)."""
    steps, strides, padding = geometry
    kernel, space = weight[2:], head.shape[2:]

    def add(total: jax.Array, sample: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        image, slope = sample
        image = lax.pad(image, np.float32(0), [(0, 0, 0), *((before, behind, 0) for before, behind in padding)])
        seen = []
        for place in itertools.product(*map(range, kernel)):
            start = [i * d for i, d in zip(place, steps, strict=True)]
            stop = [a + s * (n - 1) + 1 for a, s, n in zip(start, strides, space, strict=True)]
            seen.append(lax.slice(image, (0, *start), (len(image), *stop), (1, *strides)))
        windows = jnp.stack(seen, 1).reshape(weight[1] * len(seen), -1)
        return total + slope.reshape(weight[0], -1) @ windows.T, None
    start = jnp.zeros((weight[0], math.prod(weight[1:])), np.float32)
    return lax.scan(add, start, (data, head))[0].reshape(weight)
