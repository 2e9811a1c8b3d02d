"""Correlation with a kernel (MXNet's convolution) and its transpose, in the forms that XLA runs fast."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from ..by_device import by_device
from ..common import Array, by_own_rules

__all__ = ["channels_last", "correlate", "dimension_numbers", "transposed"]

Sizes = tuple[int, ...]


def channels_last(layout: str | None) -> bool:
    """Returns whether channels are the last axis."""
    return layout is not None and layout[-1] == "C"


def dimension_numbers(dims: int, layout: str | None) -> tuple[str, str, str]:
    """JAX's description of MXNet's layouts; weights are (out, in, ...) or, channels last, (out, ..., in)."""
    space = "DHW"[3 - dims:]
    data, weight = (f"N{space}C", f"O{space}I") if channels_last(layout) else (f"NC{space}", f"OI{space}")
    return (data, weight, data)


def _kernel(weight: Array, layout: str | None) -> Sizes:
    return weight.shape[1:-1] if channels_last(layout) else weight.shape[2:]


def correlate(data: Array, weight: Array, stride: Sizes, dilate: Sizes, pad: Sizes, groups: int,
              layout: str | None) -> Array:
    """Products with the kernel at all places; arguments as those of the operator Convolution."""
    dims, kernel = len(stride), _kernel(weight, layout)
    if any(s == 1 and 2 * p > d * (k - 1) for s, p, d, k in zip(stride, pad, dilate, kernel, strict=True)):
        # larger than the data: XLA's weight gradient on a CPU is then 20 to 40 times slower, unless padding is apart
        around = [(p, p) for p in pad]
        data = jnp.pad(data, [(0, 0), *around, (0, 0)] if channels_last(layout) else [(0, 0), (0, 0), *around])
        pad = (0,) * dims
    return lax.conv_general_dilated(data, weight, stride, [(p, p) for p in pad], rhs_dilation=dilate,
                                    dimension_numbers=dimension_numbers(dims, layout), feature_group_count=groups)


def transposed(data: Array, weight: Array, stride: Sizes, dilate: Sizes, pad: Sizes, adj: Sizes, groups: int,
               layout: str | None) -> Array:
    """The transpose of `correlate` as a function of its data; arguments as those of the operator Deconvolution.

    Its gradients are the correlation itself and the weight gradient of the correlation: JAX's own weight
    gradient is up to 300 times slower on a CPU.
    """
    kernel = _kernel(weight, layout)
    by_phase = groups == 1 and max(stride) > 1 and max(dilate) == 1 and not any(
        k % s for k, s in zip(kernel, stride, strict=True))

    @jax.custom_vjp
    def forward(data: Array, weight: Array) -> Array:
        def whole(data: Array, weight: Array) -> Array:
            return _spread(data, weight, stride, dilate, pad, adj, groups, layout)
        if not by_phase:
            return whole(data, weight)
        return by_device(data, weight, default=whole, cpu=lambda data, weight: _phases(
            data, weight, stride, pad, adj, layout))

    @by_own_rules
    def backward(saved: tuple[Array, Array], head: Array) -> tuple[Array, Array]:
        data, weight = saved
        result, pull = jax.vjp(lambda h, w: correlate(h, w, stride, dilate, pad, groups, layout), head, weight)
        return result, pull(data)[1]
    forward.defvjp(lambda data, weight: (forward(data, weight), (data, weight)), backward)
    return forward(data, weight)


def _spread(data: Array, weight: Array, stride: Sizes, dilate: Sizes, pad: Sizes, adj: Sizes, groups: int,
            layout: str | None) -> Array:
    """As one correlation of the data with zeros in between."""
    dims = len(stride)
    span = [d * (k - 1) for d, k in zip(dilate, _kernel(weight, layout), strict=True)]
    # (in, out / g, ...) -> (out, in / g, ...) with the kernel turned around
    channel = weight.ndim - 1 if channels_last(layout) else 1
    grouped = weight.reshape(groups, weight.shape[0] // groups, *weight.shape[1:])
    grouped = jnp.swapaxes(grouped, 1, channel + 1)
    weight = grouped.reshape(-1, *grouped.shape[2:])
    weight = jnp.flip(weight, range(1, dims + 1) if channels_last(layout) else range(2, dims + 2))
    return lax.conv_general_dilated(
        data, weight, (1,) * dims, [(k - p, k - p + a) for k, p, a in zip(span, pad, adj, strict=True)],
        lhs_dilation=stride, rhs_dilation=dilate, dimension_numbers=dimension_numbers(dims, layout),
        feature_group_count=groups)


def _phases(data: Array, weight: Array, stride: Sizes, pad: Sizes, adj: Sizes, layout: str | None) -> Array:
    """Each residue of the output's places modulo the stride by a small kernel of its own, all in one correlation.

    Source: Shi et al., Real-time single image and video super-resolution using an efficient sub-pixel convolutional
    neural network, arXiv:1609.05158.
    """
    dims = len(stride)
    if channels_last(layout):
        return jnp.moveaxis(_phases(jnp.moveaxis(data, -1, 1), jnp.moveaxis(weight, -1, 1), stride, pad, adj, None),
                            1, -1)
    batch, channels, *space = data.shape
    filters, kernel = weight.shape[1], weight.shape[2:]
    taps = [k // s for k, s in zip(kernel, stride, strict=True)]
    apart = [n for pair in zip(taps, stride, strict=True) for n in pair]
    weight = jnp.flip(weight.reshape(channels, filters, *apart), range(2, 2 + 2 * dims, 2))
    weight = weight.transpose(1, *range(3, 3 + 2 * dims, 2), 0, *range(2, 2 + 2 * dims, 2))  # filter, phase, in, tap
    out = correlate(data, weight.reshape(-1, channels, *taps), (1,) * dims, (1,) * dims,
                    tuple(t - 1 for t in taps), 1, None)
    out = out.reshape(batch, filters, *stride, *out.shape[2:])
    out = out.transpose(0, 1, *(i for d in range(dims) for i in (2 + dims + d, 2 + d)))
    whole = [(n + t - 1) * s for n, t, s in zip(space, taps, stride, strict=True)]
    wanted = [s * (n - 1) + k - 2 * p + a for n, s, k, p, a in zip(space, stride, kernel, pad, adj, strict=True)]
    out = out.reshape(batch, filters, *whole)
    zero = jnp.zeros((), out.dtype)
    return lax.pad(out, zero, [(0, 0, 0)] * 2 + [(-p, p + w - n, 0) for p, w, n in zip(pad, wanted, whole,
                                                                                     strict=True)])
