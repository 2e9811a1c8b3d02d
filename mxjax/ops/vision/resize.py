"""Resampling of images by one matrix per axis: bilinear resizing, adaptive average pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import jax.numpy as jnp
import numpy as np
from jax import lax

from ..._xla.capacity import refuse_result
from ...base import MXNetError
from ..common import Array, accumulation, gives, need_float
from ..infer import UNKNOWN, computed
from ..params import Range, Shape
from ..registry import register


def _resampled(operator: str, data: Array, rows: np.ndarray, columns: np.ndarray) -> Array:
    """rows @ image @ columnsᵀ for each image and channel of (batch, channel, height, width)."""
    need_float(operator, data)
    wide = data.astype(accumulation(data.dtype))
    down, right = jnp.asarray(rows, wide.dtype), jnp.asarray(columns, wide.dtype)
    return jnp.einsum("oh,nchw,pw->ncop", down, wide, right, precision=lax.Precision.HIGHEST).astype(data.dtype)


def _four(operator: str, data: Array) -> tuple[int, int]:
    if data.ndim != 4:
        raise MXNetError(f"operator {operator}: data must have the shape (batch, channel, height, width), got shape "
                         f"{data.shape}")
    return data.shape[2], data.shape[3]


def bilinear_matrix(size: int, new: int, align_corners: bool) -> np.ndarray:
    """(new, size): the weights of the old pixels in each new one along an axis."""
    refuse_result((2, new, size), np.float32)
    pixels = np.arange(new, dtype=np.float32)
    if align_corners:
        places = pixels * np.float32((size - 1) / (new - 1) if new > 1 else 0)
    else:
        places = np.maximum((pixels + np.float32(0.5)) * np.float32(size / new if new > 1 else 0) - np.float32(0.5), 0)
    low = np.minimum(places.astype(np.int64), size - 1)
    part = places - low
    weights = np.zeros((new, size), np.float32)
    np.add.at(weights, (np.arange(new), low), 1 - part)
    np.add.at(weights, (np.arange(new), np.minimum(low + 1, size - 1)), part)
    return weights


_ROUNDED = {"to_even_down": lambda n: n - n % 2, "to_even_up": lambda n: n + n % 2,
            "to_odd_down": lambda n: n - 1 + n % 2, "to_odd_up": lambda n: n + 1 - n % 2}


def _resized(mode: str, old: Sequence[Any], size: Sequence[int], scales: Sequence[float | None], like: Any) -> Any:
    """Height and width of the result."""
    if mode == "like":
        return like[2:]
    if mode in _ROUNDED:
        return [_ROUNDED[mode](n) for n in old]
    if mode == "size" and scales[0] is None:
        return size
    if None in scales:
        raise MXNetError(f"operator BilinearResize2D: mode {mode!r} requires both scales, got {scales}")
    return [computed(lambda n, s: int(np.float32(s) * (n - n % 2)) + n % 2 if mode == "odd_scale" else
                     int(np.float32(s) * n), n, s) for n, s in zip(old, scales, strict=True)]


def _resized_shape(p: dict[str, Any], x: tuple, like: Any = UNKNOWN) -> tuple:
    scales = p["scale_height"], p["scale_width"]
    return (*x[:2], *_resized(p["mode"], x[2:], (p["height"], p["width"]), scales, like))


@register("_contrib_BilinearResize2D", FPartialShape=_resized_shape, infer_type=gives(lambda p: None),
          inputs=lambda p: ["data", "like"] if p["mode"] == "like" else ["data"])
def bilinear_resize(data: Array, like: Array | None = None, *, height: Annotated[int, Range(1)] = 1,
                    width: Annotated[int, Range(1)] = 1, scale_height: float | None = None,
                    scale_width: float | None = None,
                    mode: Literal["size", "odd_scale", "like", "to_even_down", "to_even_up", "to_odd_down",
                                  "to_odd_up"] = "size", align_corners: bool = True) -> Array:
    """Bilinear interpolation of images (batch, channel, height, width).

    Args:
        data: the images.
        like: images that define the size (mode "like").
        height, width: the new size (mode "size", without scales).
        scale_height, scale_width: factors (mode "size"; mode "odd_scale": odd sizes are scaled to odd ones for even
            factors).
        mode: "to_even_down" and the like change a size by at most 1.
        align_corners: whether the centres of the outermost pixels stay in place, instead of their borders.
    """
    old = _four("BilinearResize2D", data)
    new = _resized(mode, old, (height, width), (scale_height, scale_width), None if like is None else like.shape)
    return _resampled("BilinearResize2D", data, *(bilinear_matrix(n, m, align_corners)
                                                  for n, m in zip(old, new, strict=True)))


def _mean_matrix(size: int, new: int) -> np.ndarray:
    """(new, size): the weights of averages over parts of (nearly) equal length."""
    refuse_result((4, new, size), np.int64)
    steps = np.arange(new)[:, None]
    low, high = steps * size // new, -(-(steps + 1) * size // new)
    pixels = np.arange(size)
    return ((pixels >= low) & (pixels < high)) / (high - low)


@register("_contrib_AdaptiveAvgPooling2D",
          FPartialShape=lambda p, x: (*x[:2], *(p["output_size"] * 2 or (1, 1))[:2]))
def adaptive_avg_pooling(data: Array, *, output_size: Shape = ()) -> Array:
    """Averages of parts of (nearly) equal size of images (batch, channel, height, width).

    output_size: height and width of the result, one number for both, or nothing for 1.
    """
    size = (*output_size, *output_size)[:2] or (1, 1)
    if len(output_size) > 2 or min(size) < 1:
        raise MXNetError(f"operator AdaptiveAvgPooling2D: output_size must be one or two numbers, got {output_size}")
    return _resampled("AdaptiveAvgPooling2D", data, *(_mean_matrix(n, m) for n, m in
                                                      zip(_four("AdaptiveAvgPooling2D", data), size, strict=True)))
