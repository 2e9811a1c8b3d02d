"""Bilinear interpolation at arbitrary places of images kept as rows of channels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import jax.numpy as jnp

from ..common import Array

__all__ = ["interpolate", "neighbours"]


def _limited(place: Array, last: int) -> Array:
    """The place within [0, last]; on the borders too the derivative is 1."""
    return jnp.where(place < 0, 0, jnp.where(place > last, last, place))


def interpolate(rows: Array, base: Any, y: Array, x: Array, height: int, width: int, stride: int,
                inside: Array | None) -> Array:
    """Interpolates between four neighbouring pixels; values are constant beyond the outermost pixels.

    Args:
        rows: (pixels, channels); pixel (r, c) of an image is row base + (r * width + c) * stride.
        base: ints that broadcast with y and x.
        y, x: places in [0, height - 1] and [0, width - 1]; others are moved to the border.
        inside: where False the result is zero.

    Returns:
        (*places, channels).
    """
    out = 0
    for index, weight in neighbours(base, y, x, height, width, stride, inside):
        out = out + jnp.take(rows, index, axis=0, mode="clip") * weight[..., None].astype(rows.dtype)
    return cast(Array, out)


def neighbours(base: Any, y: Array, x: Array, height: int, width: int, stride: int = 1,
               inside: Array | None = None) -> Iterator[tuple[Array, Array]]:
    """(row, weight) of each of the four pixels; arguments as those of `interpolate`."""
    y, x = _limited(y, height - 1), _limited(x, width - 1)
    top, left = jnp.floor(y), jnp.floor(x)
    for row, weight_y in ((top, 1 - (y - top)), (jnp.minimum(top + 1, height - 1), y - top)):
        for column, weight_x in ((left, 1 - (x - left)), (jnp.minimum(left + 1, width - 1), x - left)):
            weight = weight_y * weight_x
            yield (base + (row.astype(jnp.int32) * width + column.astype(jnp.int32)) * stride,
                   weight if inside is None else jnp.where(inside, weight, 0))
