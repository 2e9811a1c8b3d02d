"""Images: upsampling, cropping, sampling at given positions, pooling of regions, correlation of two images."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..._xla.capacity import refuse_result
from ...base import MXNetError
from ..common import Array, need_float
from ..infer import broadcasted, exact, filled, unify
from ..nn.convolution import deconvolution
from ..params import Count, Fraction, Lengths, Range, Shape
from ..registry import register


# ------------------------------------------------------------ size
def _upsampling_inputs(params: dict[str, Any]) -> list[str]:
    if params["sample_type"] == "bilinear":
        return ["data", "weight"]
    return [f"arg{i}" for i in range(params["num_args"])]


def _upsampling_shapes(params: dict[str, Any], ins: list, outs: list) -> None:
    if params["sample_type"] == "bilinear" and ins[0] is not None:
        kernel = 2 * params["scale"] - params["scale"] % 2
        ins[1] = unify(ins[1], (ins[0][1], 1, kernel, kernel), "UpSampling: weight")


def _enlarged(p: dict[str, Any], x: tuple, *others: tuple) -> tuple:
    batch, channels = x[:2]
    if p["sample_type"] == "bilinear":
        channels = p["num_filter"]
    elif p["multi_input_mode"] == "concat":
        channels += sum(s[1] for s in others)
    else:
        batch, channels = broadcasted(p, x[:2], *(s[:2] for s in others))
    return (batch, channels, *(n * p["scale"] for n in x[2:]))


@register("UpSampling", variadic="num_args", inputs=_upsampling_inputs, infer_shape=_upsampling_shapes,
          FPartialShape=exact(_enlarged, lambda p, x, *others: len(x) == 4 and not others and
                              p["sample_type"] == "nearest"),
          FSetInputVarAttrOnCompose={"weight": {"__init__": '["bilinear", {}]'}})
def up_sampling(data: Array, *others: Array, scale: Count,
                num_filter: int = 0, sample_type: Literal["bilinear", "nearest"],
                multi_input_mode: Literal["concat", "sum"] = "concat", num_args: Count = 1,
                workspace: Annotated[int, Range(0)] = 512) -> Array:
    """Upsamples images by the factor `scale`.

    data: (batch, channel, height, width) -> (batch, channel, scale·height, scale·width).  "nearest" repeats pixels;
    further arrays are upsampled to the same size and concatenated along the channels, or added.  "bilinear" is a
    Deconvolution of each channel by the second input, (num_filter, 1, k, k) with k = 2 scale - scale % 2.
    """
    if sample_type == "bilinear":
        if len(others) != 1:
            raise MXNetError("UpSampling: sample_type='bilinear' takes two inputs, data and weight")
        kernel, pad = 2 * scale - scale % 2, scale // 2
        return deconvolution(data, others[0], kernel=(kernel,) * 2, stride=(scale,) * 2, pad=(pad,) * 2,
                             num_filter=num_filter, num_group=num_filter)
    height, width = (n * scale for n in data.shape[2:])
    enlarged = []
    for array in (data, *others):
        if height % array.shape[2] or width % array.shape[3]:
            raise MXNetError(f"UpSampling: an input of shape {array.shape} must divide the output of {height} x "
                             f"{width}")
        array = jnp.repeat(array, height // array.shape[2], axis=2)
        enlarged.append(jnp.repeat(array, width // array.shape[3], axis=3))
    return sum(enlarged[1:], enlarged[0]) if multi_input_mode == "sum" else jnp.concatenate(enlarged, axis=1)


@register("Crop", variadic="num_args",
          FPartialShape=lambda p, x, *like: (*x[:2], *(like[0][2:] if like else p["h_w"])))
def crop(*data: Array, num_args: Annotated[int, Range(1, 3)] = 1, offset: Shape = (0, 0), h_w: Shape = (0, 0),
         center_crop: bool = False) -> Array:
    """Crops images to height and width `h_w`, or to those of the second input.

    data: (batch, channel, height, width).  The crop begins at `offset`, or is centred with `center_crop`.
    """
    image = data[0]
    size = data[1].shape[2:] if len(data) > 1 else h_w
    room = [whole - part for whole, part in zip(image.shape[2:], size, strict=True)]
    start = [r // 2 for r in room] if center_crop else offset
    if min(size) < 1 or not all(0 <= s <= r for s, r in zip(start, room, strict=True)):
        raise MXNetError(f"Crop: the crop of {tuple(size)} at {tuple(start)} is not inside {image.shape[2:]}")
    return image[:, :, start[0]:start[0] + size[0], start[1]:start[1] + size[1]]


# ------------------------------------------------------------ sampling
def sample(data: Array, grid: Array) -> Array:
    """Bilinear interpolation at grid positions: (x, y) in [-1, 1] from corner to corner; zero outside of the image."""
    flat = data.reshape(*data.shape[:2], -1)
    places, weights = [], []
    for i, size in enumerate(reversed(data.shape[2:])):
        position = (grid[:, i] + 1) * (size - 1) / 2
        first = jnp.floor(position)
        pair = jnp.stack([first, first + 1], axis=1)
        inside = (pair >= 0) & (pair <= size - 1)
        places.append(jnp.where(inside, pair, 0).astype(jnp.int32))
        weights.append(jnp.where(inside, jnp.stack([1 - (position - first), position - first], axis=1), 0))
    corners = (places[1] * data.shape[3])[:, :, None] + places[0][:, None]  # (batch, 2, 2, h, w)
    values = jnp.take_along_axis(flat, corners.reshape(len(data), 1, -1), axis=2, mode="promise_in_bounds")
    shares = weights[1][:, :, None] * weights[0][:, None]
    out = (values.reshape(*data.shape[:2], 4, -1) * shares.reshape(len(data), 1, 4, -1)).sum(axis=2)
    return out.reshape(*data.shape[:2], *grid.shape[2:])


def _affine_grid(theta: Array, size: tuple[int, ...]) -> Array:
    """Positions (batch, 2, height, width) of the pixels under affine maps (batch, 6)."""
    refuse_result((8, *size), np.float64)  # with intermediate values
    y, x = np.meshgrid(*(np.linspace(-1, 1, n) for n in size), indexing="ij")
    pixels = jnp.asarray(np.stack([x, y, np.ones_like(x)]), theta.dtype)
    return jnp.einsum("nij,jhw->nihw", theta.reshape(-1, 2, 3), pixels)


@register("BilinearSampler")
def bilinear_sampler(data: Array, grid: Array, *, cudnn_off: bool | None = None) -> Array:
    """Samples data at the positions of grid, with bilinear interpolation and zeros outside (arXiv:1506.02025).

    data: (batch, channel, height, width); grid: (batch, 2, h, w), x then y, -1 and 1 are the outermost pixels
    -> (batch, channel, h, w).
    """
    if data.ndim != 4 or grid.ndim != 4 or grid.shape[1] != 2 or grid.shape[0] != data.shape[0]:
        raise MXNetError(f"BilinearSampler takes data (batch, channel, height, width) and grid (batch, 2, h, w), got "
                         f"{data.shape} and {grid.shape}")
    return sample(data, grid)


@register("GridGenerator", FPartialShape=lambda p, x: (
    x[0], 2, *(p["target_shape"] if p["transform_type"] == "affine" else x[2:])))
def grid_generator(data: Array, *, transform_type: Literal["affine", "warp"], target_shape: Shape = (0, 0)) -> Array:
    """Generates sampling positions for `BilinearSampler`.

    affine: data (batch, 6), the matrix that maps positions of the result, of size `target_shape`, to those of the
    source.  warp: data (batch, 2, height, width), a flow in pixels that is added to each pixel's position.
    """
    if transform_type == "affine":
        if min(target_shape) < 1:
            raise MXNetError(f"GridGenerator: affine requires a target_shape, got {target_shape}")
        if data.shape[1:] != (6,):
            raise MXNetError(f"GridGenerator: affine takes data (batch, 6), got shape {data.shape}")
        return _affine_grid(data, target_shape)
    if data.ndim != 4 or data.shape[1] != 2:
        raise MXNetError(f"GridGenerator: warp takes data (batch, 2, height, width), got shape {data.shape}")
    height, width = data.shape[2:]
    pixels = np.stack(np.meshgrid(np.arange(width), np.arange(height)))
    half = np.array([(width - 1) / 2, (height - 1) / 2]).reshape(2, 1, 1)
    return (data + jnp.asarray(pixels, data.dtype)) / jnp.asarray(half, data.dtype) - 1


@register("SpatialTransformer", infer_shape=filled(loc=lambda p, x: (x[0], 6)))
def spatial_transformer(data: Array, loc: Array, *, target_shape: Shape = (0, 0), transform_type: Literal["affine"],
                        sampler_type: Literal["bilinear"], cudnn_off: bool | None = None) -> Array:
    """Applies an affine map to data (arXiv:1506.02025): `GridGenerator`, then `BilinearSampler`.

    data: (batch, channel, height, width); loc: (batch, 6) -> (batch, channel, *target_shape).
    """
    if min(target_shape) < 1:
        raise MXNetError(f"SpatialTransformer: target_shape must be positive, got {target_shape}")
    return sample(data, _affine_grid(loc, target_shape))


# ------------------------------------------------------------ regions
def _bins(low: Array, high: Array, count: int, size: int) -> tuple[Array, Array]:
    """Returns where `count` parts of regions from low to high begin and end, of `size` pixels -> (regions, count) each.
    """
    part = jnp.maximum(high - low + 1, 1)[:, None] / count
    start, stop = jnp.floor(jnp.arange(count) * part), jnp.ceil(jnp.arange(1, count + 1) * part)
    first, last = (jnp.clip(jnp.nan_to_num(edge + low[:, None]), 0, size).astype(jnp.int32) for edge in (start, stop))
    return first, last


@register("ROIPooling", aliases=("_npx_roi_pooling",), infer_shape=filled(rois=lambda p, x: (None, 5)),
          FPartialShape=exact(lambda p, x, rois: (rois[0], x[1], *p["pooled_size"]),
                              lambda p, x, rois: len(x) == 4 and len(rois) == 2 and rois[1] == 5))
def roi_pooling(data: Array, rois: Array, *, pooled_size: Lengths, spatial_scale: Fraction) -> Array:
    """The maxima of the parts of regions of interest (arXiv:1504.08083).

    data: (batch, channel, height, width); rois: (number, 5): index in the batch, x1, y1, x2, y2, both ends included,
    in pixels divided by `spatial_scale` -> (number, channel, *pooled_size); 0 where a part is empty.
    """
    need_float("ROIPooling", data)
    if data.ndim != 4 or rois.ndim != 2 or rois.shape[1] != 5:
        raise MXNetError(f"ROIPooling takes data (batch, channel, height, width) and rois (number, 5), got "
                         f"{data.shape} and {rois.shape}")
    batch, channels, height, width = data.shape
    number = rois[:, 0].astype(jnp.int32)
    x1, y1, x2, y2 = lax.round(lax.stop_gradient(rois)[:, 1:] * spatial_scale, lax.RoundingMethod.AWAY_FROM_ZERO).T
    (top, bottom), (left, right) = _bins(y1, y2, pooled_size[0], height), _bins(x1, x2, pooled_size[1], width)
    flat = jnp.moveaxis(data, 1, -1).reshape(-1)
    pixels = lax.stop_gradient(flat).reshape(-1, channels)
    first = (jnp.clip(number, 0, batch - 1) * height * width)[:, None, None]
    columns = (right - left).max(initial=0)

    def look(k: Array, known: tuple[Array, Array]) -> tuple[Array, Array]:
        """The k-th pixel of each part, if it has one: the largest so far, and where it is; of equal ones the first."""
        best, at = known
        y, x = top + k // columns, left + k % columns
        inside = (y < bottom)[:, :, None] & (x < right)[:, None]
        place = first + jnp.minimum(y, height - 1)[:, :, None] * width + jnp.minimum(x, width - 1)[:, None]
        value = pixels.at[place].get(mode="promise_in_bounds")
        larger = inside[..., None] & (value > best)
        return jnp.where(larger, value, best), jnp.where(larger, place[..., None], at)
    shape, least = (len(rois), *pooled_size, channels), jnp.finfo(data.dtype).min
    _, at = lax.fori_loop(0, columns * (bottom - top).max(initial=0), look, (
        jnp.full(shape, least, data.dtype), jnp.full(shape, -1, jnp.int32)))
    values = jnp.where(at < 0, least, flat[at * channels + jnp.arange(channels)])
    some = (bottom > top)[:, :, None] & (right > left)[:, None] & ((number >= 0) & (number < batch))[:, None, None]
    return jnp.moveaxis(jnp.where(some[..., None], values, jnp.zeros((), data.dtype)), -1, 1)


# ------------------------------------------------------------ correlation
_LEAST_BLOCK = 16  # pixels of a row that one matrix product correlates: fewer make products too small


def _correlated(p: dict[str, Any], x: tuple, *_: Any) -> tuple:
    border = p["max_displacement"] + p["kernel_size"] // 2 - p["pad_size"]
    return (x[0], (2 * (p["max_displacement"] // p["stride2"]) + 1) ** 2,
            *(-(-(n - 2 * border) // p["stride1"]) for n in x[2:]))


@register("Correlation", FPartialShape=_correlated)
def correlation(data1: Array, data2: Array, *, kernel_size: Count = 1, max_displacement: int = 1,
                stride1: Count = 1, stride2: Count = 1, pad_size: int = 0,
                is_multiply: bool = True) -> Array:
    """Correlates patches of one image with displaced patches of another (FlowNet, arXiv:1504.06852).

    data1, data2: (batch, channel, height, width), padded with `pad_size` zeros.  Patches of `kernel_size` (odd) pixels
    at every `stride1`-th pixel are compared over displacements up to `max_displacement` in steps of `stride2`:
    the mean product, or the mean absolute difference -> (batch, displacements, h, w).
    """
    if kernel_size % 2 == 0:
        raise MXNetError(f"Correlation: kernel_size must be odd, got {kernel_size}")
    if data1.ndim != 4 or data1.shape != data2.shape:
        raise MXNetError("Correlation takes two arrays (batch, channel, height, width) of the same shape, got "
                         f"{data1.shape} and {data2.shape}")
    around = [(0, 0), (0, 0), (pad_size, pad_size), (pad_size, pad_size)]
    first, second = jnp.pad(data1, around), jnp.pad(data2, around)
    border = max_displacement + kernel_size // 2
    counts = [-(-(n - 2 * border) // stride1) for n in first.shape[2:]]
    if min(counts) < 1:
        raise MXNetError(f"Correlation: displacement and kernel require more than {2 * border} pixels, but the padded "
                         f"images have {first.shape[2:]}")
    radius = max_displacement // stride2
    refuse_result((4, 2 * radius + 1, 2 * radius + 1), np.int32)
    steps = np.arange(-radius, radius + 1, dtype=np.int32) * stride2
    height, width = ((n - 1) * stride1 + kernel_size for n in counts)
    centre = first[:, :, max_displacement:, max_displacement:][:, :, :height, :width]
    sums = (_products if is_multiply else _differences)(centre, second, max_displacement + steps)
    sums = lax.reduce_window(sums, sums.dtype.type(0), lax.add, (1, 1, kernel_size, kernel_size),
                             (1, 1, stride1, stride1), "valid")
    return sums / (kernel_size ** 2 * data1.shape[1])


def _products(centre: Array, other: Array, steps: np.ndarray) -> Array:
    """Returns the sums over channels of the products of all pixels and their neighbours.

    They are the diagonals of matrix products, of blocks of a row with the parts of another row that are near them.

    Args:
        centre: (batch, channel, height, width).
        other: (batch, channel, ...), an image that contains all neighbours.
        steps: first rows, and columns, of the displaced windows in `other`; equally spaced.

    Returns:
        (batch, displacements, height, width).
    """
    batch, channels, height, width = centre.shape
    span, stride = int(steps[-1] - steps[0]) + 1, int(steps[-1] - steps[-2]) if len(steps) > 1 else 1
    block = min(max(span, _LEAST_BLOCK), width)
    blocks = -(-width // block)
    near = block + span - 1
    rows = jnp.pad(jnp.moveaxis(centre, 1, -1), [(0, 0), (0, 0), (0, blocks * block - width), (0, 0)])
    rows = rows.reshape(batch, height, blocks, block, channels)
    other = jnp.moveaxis(other[..., int(steps[0]):], 1, -1)
    other = jnp.pad(other, [(0, 0), (0, 0), (0, max((blocks - 1) * block + near - other.shape[2], 0)), (0, 0)])
    parts = jnp.stack([other[:, :, i * block:i * block + near] for i in range(blocks)], axis=2)

    @jax.checkpoint
    def displaced(top: Array) -> Array:
        products = jnp.einsum("byixc,byizc->byixz", rows, lax.dynamic_slice_in_dim(parts, top, height, axis=1))
        # with one column more, the elements of a diagonal are below each other
        flat = products.reshape(batch, height, blocks, block * near)
        flat = jnp.pad(flat, [(0, 0), (0, 0), (0, 0), (0, block)]).reshape(batch, height, blocks, block, near + 1)
        diagonals = flat[..., :span:stride].reshape(batch, height, blocks * block, len(steps))
        return jnp.moveaxis(diagonals[:, :, :width], -1, 1)
    return jnp.moveaxis(lax.map(displaced, jnp.asarray(steps)), 0, 1).reshape(batch, -1, height, width)


def _differences(centre: Array, other: Array, steps: np.ndarray) -> Array:
    """Returns the sums over channels of the absolute differences of pixels and their neighbours; see `_products`."""
    @jax.checkpoint
    def displaced(corner: Array) -> Array:
        near = lax.dynamic_slice(other, (jnp.zeros_like(corner[0]), jnp.zeros_like(corner[0]), *corner), centre.shape)
        # MXNet's slope of |a - b| is 1 where a = b
        return jnp.sum(jnp.where(centre >= near, centre - near, near - centre), axis=1)
    corners = np.stack(np.meshgrid(steps, steps, indexing="ij"), axis=-1).reshape(-1, 2)
    return jnp.moveaxis(lax.map(displaced, jnp.asarray(corners)), 0, 1)
