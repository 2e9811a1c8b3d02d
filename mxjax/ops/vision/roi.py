"""Pooling of regions of interest: ROIAlign, rotated and position-sensitive forms. ROIPooling is in `spatial`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ...base import MXNetError
from ..common import Array, accumulation, gives, need_float
from ..infer import filled, tied
from ..params import Fraction, Lengths
from ..registry import register
from ._interpolation import interpolate, neighbours


def _check(operator: str, data: Array, rois: Array, columns: int) -> None:
    need_float(operator, data)
    if data.ndim != 4 or rois.ndim != 2 or rois.shape[1] != columns:
        raise MXNetError(f"operator {operator} takes data (batch, channel, height, width) and rois (number, "
                         f"{columns}), got {data.shape} and {rois.shape}")


# -------------------------------------------------------------------- averages of interpolated samples
class _Samples:
    """The samples of each bin of each region, `count` of them at most."""

    def __init__(self, data: Array, rois: Array, pooled: tuple[int, ...], ratio: int, sensitive: bool,
                 size: tuple[Array, Array], place: Callable[[Array, Array], tuple[Array, Array]]) -> None:
        batch, channels, self.height, self.width = data.shape
        self.parts = pooled[0] * pooled[1] if sensitive else 1
        self.rows_shape = (batch, channels // self.parts, self.parts, self.height, self.width)
        self.place, self.pooled, self.image = place, pooled, rois[:, 0].astype(jnp.int32)
        self.bins = tuple((s / n)[:, None, None] for s, n in zip(size, pooled, strict=True))
        self.grid = tuple(jnp.full(len(rois), ratio) if ratio > 0 else jnp.ceil(s / n).astype(jnp.int32)
                          for s, n in zip(size, pooled, strict=True))
        self.grid = tuple(g[:, None, None] for g in self.grid)
        self.number = self.grid[0] * self.grid[1]
        self.count = ratio * ratio if ratio > 0 else self.number.max(initial=0)

    def rows(self, data: Array) -> Array:
        """The image as rows of channels; in the position-sensitive form each bin has channels of its own."""
        return data.reshape(self.rows_shape).transpose(0, 3, 4, 2, 1).reshape(-1, self.rows_shape[1])

    def image_of(self, rows: Array) -> Array:
        """The reverse of `rows`."""
        batch, channels, parts, height, width = self.rows_shape
        rows = rows.reshape(batch, height, width, parts, channels).transpose(0, 4, 3, 1, 2)
        return rows.reshape(batch, channels * parts, height, width)

    def pixels(self, k: Array) -> Iterator[tuple[Array, Array]]:
        """(row, weight) of the four pixels of the k-th sample of each bin; weight 0 where there is none."""
        first, second = jnp.arange(self.pooled[0])[:, None], jnp.arange(self.pooled[1])
        inner = jnp.divmod(k, jnp.maximum(self.grid[1], 1))
        y, x = self.place(*((n + (i + 0.5) / g) * b for n, i, g, b in
                            zip((first, second), inner, self.grid, self.bins, strict=True)))
        inside = (k < self.number) & (self.image >= 0)[:, None, None]
        inside = inside & (y >= -1) & (y <= self.height) & (x >= -1) & (x <= self.width)
        part = first * self.pooled[1] + second if self.parts > 1 else 0
        base = self.image[:, None, None] * (self.height * self.width * self.parts) + part
        for row, weight in neighbours(base, y, x, self.height, self.width, self.parts, inside):
            yield row, (weight / jnp.maximum(self.number, 1))[..., None]


def _average(samples: _Samples, data: Array) -> Array:
    """The mean sample of each bin, (regions, channels, pooled height, pooled width)."""
    rows = samples.rows(data.astype(accumulation(data.dtype)))
    start = jnp.zeros((len(samples.image), *samples.pooled, rows.shape[1]), rows.dtype)

    def add(k: Array, total: Array) -> Array:
        for row, weight in samples.pixels(k):
            total += jnp.take(rows, row, axis=0, mode="clip") * weight.astype(rows.dtype)
        return total
    return lax.fori_loop(0, samples.count, add, start).transpose(0, 3, 1, 2).astype(data.dtype)


def _average_gradient(samples: _Samples, data: Array, head: Array) -> Array:
    """The gradient of data; written out because the number of samples may depend on the regions."""
    wide = accumulation(data.dtype)
    start = jnp.zeros(samples.rows(data).shape, wide)
    head = head.transpose(0, 2, 3, 1).astype(wide)

    def add(k: Array, total: Array) -> Array:
        for row, weight in samples.pixels(k):
            total = total.at[row].add(head * weight.astype(wide), mode="drop")
        return total
    return samples.image_of(lax.fori_loop(0, samples.count, add, start))


def _aligned(data: Array, rois: Array, pooled_size: tuple[int, ...], spatial_scale: float, sample_ratio: int,
             position_sensitive: bool, aligned: bool) -> _Samples:
    pooled = (*pooled_size, *pooled_size)[:2]
    if position_sensitive and data.shape[1] % (pooled[0] * pooled[1]):
        raise MXNetError(f"operator ROIAlign: {data.shape[1]} channels must be divisible by the number of bins, "
                         f"{pooled}")
    corner = rois[:, 1:].astype(accumulation(rois.dtype)) * spatial_scale - (0.5 if aligned else 0)
    start_x, start_y, end_x, end_y = corner.T
    tall, wide = end_y - start_y, end_x - start_x
    size = (tall, wide) if aligned else (jnp.maximum(tall, 1), jnp.maximum(wide, 1))
    return _Samples(data, rois, pooled, sample_ratio, position_sensitive, size,
                    lambda y, x: (y + start_y[:, None, None], x + start_x[:, None, None]))


def _pooled(p: dict[str, Any], x: tuple, rois: tuple) -> tuple:
    pooled = (*p["pooled_size"], *p["pooled_size"])[:2]
    return (rois[0], x[1] // (pooled[0] * pooled[1]) if p.get("position_sensitive") else x[1], *pooled)


@register("_contrib_ROIAlign", infer_shape=filled(rois=lambda p, x: (None, 5)), FPartialShape=_pooled,
          FGradient=lambda heads, inputs, outputs, **p: (
              _average_gradient(_aligned(*inputs, **p), inputs[0], heads[0]), None))
def roi_align(data: Array, rois: Array, *, pooled_size: Lengths, spatial_scale: Fraction, sample_ratio: int = -1,
              position_sensitive: bool = False, aligned: bool = False) -> Array:
    """Averages of interpolated samples of each part of regions of interest (Mask R-CNN, arXiv:1703.06870).

    Args:
        data: (batch, channel, height, width).
        rois: (number, 5): index in the batch (negative: zeros), x1, y1, x2, y2 in pixels divided by `spatial_scale`.
        pooled_size: height and width of the result, or one number for both.
        spatial_scale: size of the data relative to the regions' coordinates.
        sample_ratio: samples per side of a part; if not positive, the number of pixels of the part.
        position_sensitive: whether each part is pooled from its own channels (R-FCN).
        aligned: whether pixels are centred at half-integers; regions are then not enlarged to 1 pixel.

    Returns:
        (number, channel, *pooled_size). The regions' gradient is zero.
    """
    _check("ROIAlign", data, rois, 5)
    return _average(_aligned(data, rois, pooled_size, spatial_scale, sample_ratio, position_sensitive, aligned), data)


def _rotated(data: Array, rois: Array, pooled_size: tuple[int, ...], spatial_scale: float,
             sampling_ratio: int) -> _Samples:
    x, y, width, height = (rois[:, 1:5].astype(accumulation(rois.dtype)) * spatial_scale).T
    angle = rois[:, 5] * (np.pi / 180)
    x, y, cos, sin = (v[:, None, None] for v in (x, y, jnp.cos(angle), jnp.sin(angle)))
    height, width = jnp.maximum(height, 1), jnp.maximum(width, 1)

    def place(down: Array, right: Array) -> tuple[Array, Array]:
        down, right = down - height[:, None, None] / 2, right - width[:, None, None] / 2
        return down * cos - right * sin + y, right * cos + down * sin + x
    return _Samples(data, rois, (*pooled_size, *pooled_size)[:2], sampling_ratio, False, (height, width), place)


@register("_contrib_RROIAlign", infer_shape=filled(rois=lambda p, x: (None, 6)), FPartialShape=_pooled,
          FGradient=lambda heads, inputs, outputs, **p: (
              _average_gradient(_rotated(*inputs, **p), inputs[0], heads[0]), None))
def rroi_align(data: Array, rois: Array, *, pooled_size: Lengths, spatial_scale: Fraction,
               sampling_ratio: int = -1) -> Array:
    """`ROIAlign` of rotated regions (arXiv:1703.01086).

    rois: (number, 6): index in the batch, x and y of the centre, width, height, angle in degrees.
    """
    _check("RROIAlign", data, rois, 6)
    return _average(_rotated(data, rois, pooled_size, spatial_scale, sampling_ratio), data)


# -------------------------------------------------------------------- position-sensitive
def _rounded(value: Array) -> Array:
    return lax.round(value, lax.RoundingMethod.AWAY_FROM_ZERO)


def _region(rois: Array, scale: float, pooled: int, shift: float) -> tuple[Array, Array, Array, Array]:
    """y and x where regions begin and their sizes; pixels counted as squares."""
    low = _rounded(rois[:, 1:3]) * scale - shift
    high = (_rounded(rois[:, 3:5]) + 1) * scale - shift
    size = jnp.maximum(high - low, 0.1)
    return low[:, 1], low[:, 0], size[:, 1], size[:, 0]


def _groups(pooled: int, group: int) -> np.ndarray:
    """Returns which of `group` groups of channels each part along an axis is pooled from."""
    return np.clip(np.arange(pooled) * group // pooled, 0, group - 1)


def _pooled_square(p: dict[str, Any], x: Any, rois: tuple, *_: Any) -> tuple:
    return (rois[0], p["output_dim"], p["pooled_size"], p["pooled_size"])


@register("_contrib_PSROIPooling", infer_shape=filled(rois=lambda p, x: (None, 5)), FPartialShape=_pooled_square)
def psroi_pooling(data: Array, rois: Array, *, spatial_scale: Fraction, output_dim: int, pooled_size: int,
                  group_size: int = 0) -> Array:
    """Averages of the parts of regions of interest, each from its own channels (R-FCN, arXiv:1605.06409).

    Args:
        data: (batch, output_dim * group_size², height, width).
        rois: (number, 5): index in the batch, x1, y1, x2, y2 in pixels divided by `spatial_scale`.
        output_dim, pooled_size: the result is (number, output_dim, pooled_size, pooled_size).
        group_size: channels are grouped in group_size² positions; 0: pooled_size.
    """
    _check("PSROIPooling", data, rois, 5)
    group = group_size or pooled_size
    if data.shape[1] != output_dim * group * group:
        raise MXNetError(f"operator PSROIPooling: data must have {output_dim} * {group}² channels, got {data.shape[1]}")
    batch, _, height, width = data.shape
    rois = lax.stop_gradient(rois.astype(accumulation(rois.dtype)))
    y, x, tall, wide = _region(rois, spatial_scale, pooled_size, 0)
    steps = jnp.arange(pooled_size)

    def share(start: Array, size: Array, length: int) -> Array:
        """(number, pooled_size, length): the weight of each pixel in the average of each part."""
        bin_size = (size / pooled_size)[:, None]
        low = jnp.clip(jnp.floor(steps * bin_size + start[:, None]), 0, length)[..., None]
        high = jnp.clip(jnp.ceil((steps + 1) * bin_size + start[:, None]), 0, length)[..., None]
        pixels = jnp.arange(length)
        return jnp.where((pixels >= low) & (pixels < high), 1 / jnp.maximum(high - low, 1), 0)
    rows, columns = share(y, tall, height).astype(data.dtype), share(x, wide, width).astype(data.dtype)
    image = jax.nn.one_hot(rois[:, 0].astype(jnp.int32), batch, dtype=data.dtype)
    parts = data.reshape(batch, output_dim, group, group, height, width)
    chosen = _groups(pooled_size, group)
    parts = parts[:, :, chosen][:, :, :, chosen]
    return jnp.einsum("rph,rn,ndpqhw,rqw->rdpq", rows, image, parts, columns,
                      precision=lax.Precision.HIGHEST).astype(data.dtype)


def _deformable_inputs(params: dict[str, Any]) -> list[str]:
    return ["data", "rois"] if params["no_trans"] else ["data", "rois", "trans"]


@register("_contrib_DeformablePSROIPooling", num_outputs=2, num_visible=1, inputs=_deformable_inputs,
          infer_type=tied(gives(lambda p: None), 0, 1),
          output_names=lambda p: ["output", "top_count"], infer_shape=filled(rois=lambda p, x: (None, 5)),
          FPartialShape=_pooled_square)
def deformable_psroi_pooling(data: Array, rois: Array, trans: Array | None = None, *, spatial_scale: Fraction,
                             output_dim: int, group_size: int, pooled_size: int, part_size: int = 0,
                             sample_per_part: int = 1, trans_std: Fraction = 0.0,
                             no_trans: bool = False) -> tuple[Array, Array]:
    """Position-sensitive pooling whose parts are moved by learnt offsets (arXiv:1703.06211).

    Args:
        data: (batch, output_dim * group_size², height, width).
        rois: (number, 5): index in the batch, x1, y1, x2, y2 in pixels divided by `spatial_scale`.
        trans: (number, 2 * classes, part_size, part_size): x and y offsets, relative to the region.
        output_dim, pooled_size: the result is (number, output_dim, pooled_size, pooled_size).
        group_size: channels are grouped in group_size² positions.
        part_size: size of the grid of offsets; 0: pooled_size.
        sample_per_part: samples per side of a part.
        trans_std: the offsets are multiplied by this.
        no_trans: whether to pool without offsets.
    """
    _check("DeformablePSROIPooling", data, rois, 5)
    if data.shape[1] != output_dim * group_size * group_size:
        raise MXNetError(f"operator DeformablePSROIPooling: data must have {output_dim} * {group_size}² channels, got "
                         f"{data.shape[1]}")
    batch, _, height, width = data.shape
    if trans is None and not no_trans:
        raise MXNetError("operator DeformablePSROIPooling: without no_trans, the third input trans is required")
    moves = None if no_trans else trans
    number, classes = len(rois), 1 if moves is None else moves.shape[1] // 2
    rois = lax.stop_gradient(rois)
    y, x, tall, wide = (v[:, None, None, None] for v in _region(rois, spatial_scale, pooled_size, 0.5))
    down, right = jnp.arange(pooled_size)[:, None], jnp.arange(pooled_size)
    y, x = y + down * (tall / pooled_size), x + right * (wide / pooled_size)
    if moves is not None:
        cell = np.arange(pooled_size) * (part_size or pooled_size) // pooled_size
        moved = moves.reshape(number, classes, 2, *moves.shape[2:])[:, :, :, cell[:, None], cell] * trans_std
        y, x = y + moved[:, :, 1] * tall, x + moved[:, :, 0] * wide
    y, x = (jnp.broadcast_to(v, (number, classes, pooled_size, pooled_size)) for v in (y, x))
    # rows of (batch, height, width, group row, group column, class), each with the channels of one class
    rows = data.reshape(batch, classes, output_dim // classes, group_size, group_size, height, width)
    rows = rows.transpose(0, 5, 6, 3, 4, 1, 2).reshape(-1, output_dim // classes)
    stride, chosen = group_size * group_size * classes, _groups(pooled_size, group_size)
    base = (chosen[:, None] * group_size + chosen) * classes + jnp.arange(classes)[:, None, None]
    base = base + rois[:, 0].astype(jnp.int32)[:, None, None, None] * (height * width * stride)
    steps = jnp.stack(jnp.meshgrid(*[jnp.arange(sample_per_part, dtype=y.dtype)] * 2, indexing="ij"), -1).reshape(-1, 2)

    @jax.checkpoint
    def add(known: tuple[Array, Array], step: Array) -> tuple[tuple[Array, Array], None]:
        """One sample of each part."""
        at_y = y + step[0] * (tall / pooled_size / sample_per_part)
        at_x = x + step[1] * (wide / pooled_size / sample_per_part)
        inside = (at_x >= -0.5) & (at_x <= width - 0.5) & (at_y >= -0.5) & (at_y <= height - 0.5)
        value = interpolate(rows, base, at_y, at_x, height, width, stride, inside)
        return (known[0] + value, known[1] + inside.astype(data.dtype)), None
    nothing = jnp.zeros((*y.shape, rows.shape[1]), data.dtype), jnp.zeros(y.shape, data.dtype)
    (total, count), _ = lax.scan(add, nothing, steps)
    mean = jnp.where(count[..., None] > 0, total / jnp.maximum(count, 1)[..., None], 0)

    def arranged(values: Array) -> Array:
        values = jnp.broadcast_to(values, mean.shape).transpose(0, 1, 4, 2, 3)
        return values.reshape(number, output_dim, pooled_size, pooled_size)
    return arranged(mean), arranged(count[..., None])
