"""Convolution whose samples are moved by learnt offsets: deformable convolution, versions 1 and 2."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import jax.numpy as jnp
from jax import lax

from ...base import MXNetError
from ..common import Array, broadcast
from ..infer import filled
from ..params import Count, Range, Shape
from ..registry import register
from ._interpolation import interpolate

_Layout = Literal["NCDHW", "NCHW", "NCW"] | None


def _shapes() -> Any:
    return filled(weight=lambda p, x: (p["num_filter"], x[1] // p["num_group"], *p["kernel"]),
                  bias=lambda p, x: (p["num_filter"],))


def _convolve(operator: str, data: Array, offset: Array, mask: Array | None, weight: Array, bias: Array | None,
              p: dict[str, Any]) -> Array:
    """The samples of each output pixel as columns, then one matrix product per group."""
    kernel, groups, parts = p["kernel"], p["num_group"], p["num_deformable_group"]
    stride, dilate, pad = p["stride"] or (1, 1), p["dilate"] or (1, 1), p["pad"] or (0, 0)
    batch, channels, height, width = data.shape
    size = [(n + 2 * a - d * (k - 1) - 1) // s + 1
            for n, a, d, k, s in zip((height, width), pad, dilate, kernel, stride, strict=True)]
    taps = kernel[0] * kernel[1]
    if channels % groups or channels % parts or p["num_filter"] % groups:
        raise MXNetError(f"operator {operator}: {channels} channels and {p['num_filter']} filters must be divisible by "
                         f"{groups} groups, and the channels by {parts} deformable groups")
    for name, array, count in (("offset", offset, 2 * parts * taps), ("mask", mask, parts * taps)):
        if array is not None and array.shape != (batch, count, *size):
            raise MXNetError(f"operator {operator}: {name} must have the shape {(batch, count, *size)}, got shape "
                             f"{array.shape}")
    moved = offset.reshape(batch, parts, *kernel, 2, *size)

    def places(axis: int) -> Array:
        """Returns where along an axis each tap of each output pixel is, (batch, parts, *kernel, *size)."""
        tap = jnp.arange(kernel[axis]).reshape([-1 if i == axis else 1 for i in range(4)]) * dilate[axis]
        pixel = jnp.arange(size[axis]).reshape([-1 if i == axis + 2 else 1 for i in range(4)]) * stride[axis]
        return moved[:, :, :, :, axis] + (pixel - pad[axis] + tap)
    y, x = places(0), places(1)
    base = (jnp.arange(batch)[:, None] * (height * width * parts) + jnp.arange(parts)).reshape(batch, parts, 1, 1, 1, 1)
    rows = data.reshape(batch, parts, channels // parts, height, width).transpose(0, 3, 4, 1, 2)
    rows = rows.reshape(-1, channels // parts)
    if mask is None:
        inside = (y >= 0) & (x >= 0) & (y < height) & (x < width)
        columns = interpolate(rows, base, y, x, height, width, parts, inside)
    else:  # the second version fades out within a pixel of the border
        inside = (y > -1) & (x > -1) & (y < height) & (x < width)
        fade = _fade(y, height) * _fade(x, width) * mask.reshape(batch, parts, *kernel, *size)
        columns = interpolate(rows, base, y, x, height, width, parts, inside) * fade[..., None]
    columns = columns.transpose(0, 1, 6, 2, 3, 4, 5).reshape(batch, groups, -1, *size)
    result = jnp.einsum("ngkhw,gfk->ngfhw", columns, weight.reshape(groups, p["num_filter"] // groups, -1),
                        precision=lax.Precision.HIGHEST)
    result = result.reshape(batch, p["num_filter"], *size).astype(data.dtype)
    return result if bias is None else result + broadcast(bias[:, None, None], result.shape)


def _fade(place: Array, length: int) -> Array:
    """1 inside of the image, falling to 0 one pixel outside."""
    return jnp.where(place < 0, place + 1, jnp.where(place >= length - 1, length - place, 1))


@register("_contrib_DeformableConvolution", infer_shape=_shapes(),
          inputs=lambda p: ["data", "offset", "weight", *(() if p["no_bias"] else ("bias",))])
def deformable_convolution(data: Array, offset: Array, weight: Array, bias: Array | None = None, *, kernel: Shape,
                           stride: Shape = (), dilate: Shape = (), pad: Shape = (),
                           num_filter: Count, num_group: int = 1, num_deformable_group: int = 1,
                           workspace: Annotated[int, Range(0)] = 1024, no_bias: bool = False,
                           layout: _Layout = None) -> Array:
    """2-D convolution with an offset for each tap of each output pixel (arXiv:1703.06211).

    data: (batch, channel, height, width); offset: (batch, 2 * num_deformable_group * taps, h, w), y before x;
    weight: (num_filter, channel / num_group, *kernel); bias: (num_filter,) -> (batch, num_filter, h, w).
    """
    return _convolve("DeformableConvolution", data, offset, None, weight, bias, {
        "kernel": kernel, "stride": stride, "dilate": dilate, "pad": pad, "num_filter": num_filter,
        "num_group": num_group, "num_deformable_group": num_deformable_group})


@register("_contrib_ModulatedDeformableConvolution", infer_shape=_shapes(), inputs=lambda p: [
    "data", "offset", "mask", "weight", *(() if p["no_bias"] else ("bias",))])
def modulated_deformable_convolution(data: Array, offset: Array, mask: Array, weight: Array, bias: Array | None = None,
                                     *, kernel: Shape, stride: Shape = (), dilate: Shape = (), pad: Shape = (),
                                     num_filter: Count, num_group: int = 1,
                                     num_deformable_group: int = 1, workspace: Annotated[int, Range(0)] = 1024,
                                     no_bias: bool = False, im2col_step: int = 64, layout: _Layout = None) -> Array:
    """`DeformableConvolution` with a factor for each sample as well (arXiv:1811.11168).

    mask: (batch, num_deformable_group * taps, h, w).
    """
    return _convolve("ModulatedDeformableConvolution", data, offset, mask, weight, bias, {
        "kernel": kernel, "stride": stride, "dilate": dilate, "pad": pad, "num_filter": num_filter,
        "num_group": num_group, "num_deformable_group": num_deformable_group})
