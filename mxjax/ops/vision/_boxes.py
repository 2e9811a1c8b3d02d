"""Helpers of the detection operators: overlaps of boxes, their formats, suppression."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from ..common import Array

__all__ = ["corners", "center_size", "areas", "intersection", "pairwise_iou", "product", "shared_with",
           "suppress", "unseen"]


def corners(boxes: Array) -> Array:
    """(xmin, ymin, xmax, ymax) of boxes given as (x, y, width, height), x and y being the centre; last axis."""
    centre, half = boxes[..., :2], boxes[..., 2:] / 2
    return jnp.concatenate([centre - half, centre + half], -1)


def center_size(boxes: Array) -> Array:
    """The reverse of `corners`."""
    low, high = boxes[..., :2], boxes[..., 2:]
    return jnp.concatenate([(low + high) / 2, high - low], -1)


def product(x: Array, y: Array) -> Array:
    """The product, rounded before anything is added to it, as in MXNet.

    LLVM makes one instruction of a product and a sum, which rounds once. Overlaps that are exactly a threshold, as
    those of boxes on a grid, then fall on its other side.
    """
    return jnp.maximum(x * y, jnp.finfo(x.dtype).min)


def areas(boxes: Array) -> Array:
    """Areas of boxes as corners; zero where a side is negative."""
    sides = boxes[..., 2:] - boxes[..., :2]
    return jnp.where((sides < 0).any(-1), 0, product(sides[..., 0], sides[..., 1]))


def intersection(lhs: Array, rhs: Array) -> Array:
    """Areas of the intersections of boxes given by corners; the arrays broadcast."""
    sides = jnp.minimum(lhs[..., 2:], rhs[..., 2:]) - jnp.maximum(lhs[..., :2], rhs[..., :2])
    sides = jnp.maximum(sides, 0)
    return product(sides[..., 0], sides[..., 1])


def shared_with(boxes: Array, added: float = 0.0) -> Callable[[Array], Array]:
    """Returns a function (i) -> areas of the intersections of box i with each box, for `suppress`.

    XLA vectorizes columns of coordinates for CPUs, rows of four it does not: columns take a tenth of the time.

    Args:
        boxes: (n, 4), by corners.
        added: length added to each side: 1 if both ends belong to a box.
    """
    left, top, right, bottom = boxes.T

    def shared(i: Array) -> Array:
        width = jnp.minimum(right[i], right) - jnp.maximum(left[i], left) + added
        height = jnp.minimum(bottom[i], bottom) - jnp.maximum(top[i], top) + added
        return product(jnp.maximum(width, 0), jnp.maximum(height, 0))
    return shared


def pairwise_iou(lhs: Array, rhs: Array) -> Array:
    """Intersection over union of each of lhs (a, 4) with each of rhs (b, 4), by corners; zero without intersection."""
    shared = intersection(lhs[:, None], rhs[None])
    union = areas(lhs)[:, None] + areas(rhs)[None] - shared
    return jnp.where(shared > 0, shared / jnp.where(shared > 0, union, 1), 0)


_FEW = 1024  # boxes whose pairs are compared at once


def suppress(alive: Array, suppressed_by: Callable[[Array], Array], most: int | None = None) -> Array:
    """Greedy non-maximum suppression over boxes in descending order of score; returns which are left.

    For few boxes all pairs are compared at once, and the loop runs as often as the longest chain of boxes that suppress
    each other has links: a box is left where none that is left suppresses it. For many it runs once for each box kept.

    Args:
        alive: (n,) which boxes take part.
        suppressed_by: function(i) -> (n,) which boxes box i suppresses.
        most: maximum number of kept boxes; later boxes are then not examined.
    """
    places = jnp.arange(len(alive))
    if 0 < len(alive) <= _FEW and most is None:
        pairs = jax.vmap(suppressed_by)(places) & (places > places[:, None])

        def again(state: tuple[Array, Array]) -> tuple[Array, Array]:
            before, _ = state
            left = alive & ~(before[:, None] & pairs).any(0)
            return left, (left != before).any()
        return lax.while_loop(lambda state: state[1], again, (alive, jnp.array(True)))[0]

    def following(i: Array, alive: Array) -> Array:
        return jnp.where(alive & (places > i), places, len(alive)).min()

    def step(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        i, count, alive = state
        alive &= ~(suppressed_by(i) & (places > i))
        return following(i, alive), count + 1, alive
    if not len(alive):
        return alive
    limit = len(alive) if most is None else most
    start = following(jnp.array(-1), alive), jnp.array(0), alive
    return lax.while_loop(lambda state: (state[0] < len(alive)) & (state[1] < limit), step, start)[2]


@jax.custom_jvp
def unseen(new: Array, old: Array) -> Array:
    """`new`, with the derivative of `old`."""
    return new


@unseen.defjvp
def _(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    return primals[0], tangents[1]
