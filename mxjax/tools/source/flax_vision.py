"""flax: functions on boxes and regions, as the written source has them."""

from __future__ import annotations

__all__ = ["HELPERS"]

_CORNERS = '''def corners(boxes: jax.Array) -> jax.Array:
    """Boxes (..., 4) by their corners instead of centre and size."""
    centre, size = jnp.split(boxes, 2, axis=-1)
    return jnp.concatenate((centre - size / 2, centre + size / 2), -1)'''
_CENTRES = '''def centres(boxes: jax.Array) -> jax.Array:
    """Boxes (..., 4) by centre and size instead of their corners."""
    low, high = jnp.split(boxes, 2, axis=-1)
    return jnp.concatenate(((low + high) / 2, high - low), -1)'''
_BOX_IOU = '''def box_iou(boxes: jax.Array, others: jax.Array) -> jax.Array:
    """Intersection over union of each of (..., 4) with each of (..., 4), by corners."""
    a, b = boxes.reshape(-1, 1, 4), others.reshape(1, -1, 4)
    sides = jnp.minimum(a[..., 2:], b[..., 2:]) - jnp.maximum(a[..., :2], b[..., :2])
    shared = jnp.maximum(sides, 0).prod(-1)
    area, other = (jnp.maximum(x[..., 2:] - x[..., :2], 0).prod(-1) for x in (a, b))
    found = jnp.where(shared > 0, shared / (area + other - shared), 0)
    return found.reshape(boxes.shape[:-1] + others.shape[:-1])'''
_BOX_DECODE = '''def box_decode(offsets: jax.Array, anchors: jax.Array, stds: tuple[float, ...],
               limit: float = jnp.inf) -> jax.Array:
    """Boxes by corners out of offsets (batch, n, 4) from anchors by centre and size."""
    centre, size = jnp.split(anchors.reshape(-1, offsets.shape[1], 4)[:1], 2, axis=-1)
    shift, scale = jnp.split(offsets * jnp.array(stds), 2, axis=-1)
    middle, half = shift * size + centre, jnp.exp(jnp.minimum(scale, limit)) * size / 2
    return jnp.concatenate((middle - half, middle + half), -1)'''
_BOX_NMS = '''def box_nms(data: jax.Array, *, overlap: float, least: float, most: int, start: int = 2, score: int = 1,
            kind: int = -1, background: int = -1, across: bool = False, centred: bool = False) -> jax.Array:
    """Boxes (..., n, numbers) without those that overlap a better one, the best first; then rows of -1.

    least: the score that a box must exceed; start, score, kind: where a box has its coordinates, score and class;
    across: boxes suppress those of other classes too; centred: coordinates are centre and size.
    """
    def one(rows: jax.Array) -> jax.Array:
        good, places = rows[:, score] > least, jnp.arange(len(rows))
        if kind >= 0:
            good &= rows[:, kind] != background
        order = jnp.argsort(jnp.where(good, -rows[:, score], jnp.inf))
        rows, good = rows[order], good[order] & (places < most)
        low, high = jnp.split(rows[:, start:start + 4], 2, axis=1)
        if centred:
            low, high = low - high / 2, low + high / 2
        area = jnp.maximum(high - low, 0).prod(1)

        def suppress(i: jax.Array, kept: jax.Array) -> jax.Array:
            shared = jnp.maximum(jnp.minimum(high[i], high) - jnp.maximum(low[i], low), 0).prod(1)
            over = shared / (area[i] + area - shared) > overlap
            if kind >= 0 and not across:
                over &= rows[:, kind].astype("int32") == rows[i, kind].astype("int32")
            return kept & ~(over & (places > i) & kept[i])
        kept = jax.lax.fori_loop(0, len(rows), suppress, good)
        order = jnp.argsort(~kept)
        return jnp.where(kept[order, None], rows[order], -1)
    return jax.vmap(one)(data.reshape(-1, *data.shape[-2:])).reshape(data.shape)'''
_ROI_ALIGN = '''\
def roi_align(data: jax.Array, regions: jax.Array, size: tuple[int, int], scale: float, samples: int = 0,
              sensitive: bool = False, aligned: bool = False) -> jax.Array:
    """Means of interpolated samples of the parts of regions (number, 5): index in the batch, x1, y1, x2, y2.

    samples: along each side of a part, 0: as many as it has pixels; sensitive: each part has channels of its own;
    aligned: the centres of pixels are at half numbers.
    """
    def shares(low: jax.Array, high: jax.Array, parts: int, length: int) -> jax.Array:
        """How much each pixel counts in each part: (parts, length)."""
        step = (high - low if aligned else jnp.maximum(high - low, 1)) / parts
        count = samples or jnp.ceil(step)
        part, pixel = jnp.arange(parts)[:, None], jnp.arange(length)

        def add(i: jax.Array, total: jax.Array) -> jax.Array:
            place = low + (part + (i + 0.5) / count) * step
            inside = (place >= -1) & (place <= length)
            share = jnp.maximum(1 - jnp.abs(jnp.clip(place, 0, length - 1) - pixel), 0)
            return total + jnp.where(inside, share / count, 0)
        return jax.lax.fori_loop(0, samples or count.astype("int32"), add, jnp.zeros((parts, length)))

    def one(region: jax.Array) -> jax.Array:
        x1, y1, x2, y2 = region[1:] * scale - (0.5 if aligned else 0)
        image = data[jnp.maximum(region[0].astype("int32"), 0)]
        rows, columns = shares(y1, y2, size[0], data.shape[2]), shares(x1, x2, size[1], data.shape[3])
        if sensitive:
            found = jnp.einsum("ph,cpqhw,qw->cpq", rows, image.reshape(-1, *size, *data.shape[2:]), columns)
        else:
            found = jnp.einsum("ph,chw,qw->cpq", rows, image, columns)
        return jnp.where(region[0] >= 0, found, 0)
    return jax.lax.map(one, regions)'''
_ROI_POOL = '''def roi_pool(data: jax.Array, regions: jax.Array, size: tuple[int, int], scale: float) -> jax.Array:
    """Maxima of the parts of regions (number, 5): index in the batch, x1, y1, x2, y2; 0 where a part is empty."""
    def inside(low: jax.Array, high: jax.Array, parts: int, length: int) -> jax.Array:
        """Which pixels are in each part: (parts, length)."""
        step = jnp.maximum(high - low + 1, 1) / parts
        start = jnp.floor(jnp.arange(parts) * step) + low
        stop = jnp.ceil(jnp.arange(1, parts + 1) * step) + low
        pixel = jnp.arange(length)
        return (pixel >= start[:, None]) & (pixel < stop[:, None])

    def one(region: jax.Array) -> jax.Array:
        places = region[1:] * scale
        x1, y1, x2, y2 = jnp.floor(jnp.abs(places) + 0.5) * jnp.sign(places)
        rows, columns = inside(y1, y2, size[0], data.shape[2]), inside(x1, x2, size[1], data.shape[3])
        image = data[jnp.clip(region[0].astype("int32"), 0, len(data) - 1)]
        best = jnp.where(columns, image[:, :, None], -jnp.inf).max(3)
        best = jnp.where(rows[:, :, None], best[:, None], -jnp.inf).max(2)
        return jnp.where((best > -jnp.inf) & (region[0] >= 0) & (region[0] < len(data)), best, 0)
    return jax.lax.map(one, regions)'''
_PROPOSE = '''\
def propose(scores: jax.Array, offsets: jax.Array, sizes: jax.Array, anchors: jax.Array, *, stride: int, before: int,
            after: int, overlap: float, least: float, by_corners: bool = False) -> tuple[jax.Array, jax.Array]:
    """The best regions, `after` of each image, with the image's number before the corners; and their scores.

    scores: (images, 2 * anchors, height, width), the background first; offsets: (images, 4 * anchors, height, width);
    sizes: height, width and scale of each image; before: how many are looked at; least: length of a side;
    by_corners: offsets are those of the corners.
    """
    count, (height, width) = len(anchors), scores.shape[2:]
    y, x = jnp.meshgrid(jnp.arange(height), jnp.arange(width), indexing="ij")
    boxes = ((jnp.stack((x, y, x, y), -1) * stride)[:, :, None] + anchors).reshape(-1, 4)
    cells = jnp.stack((y, x), -1).reshape(-1, 2).repeat(count, axis=0)

    def one(score: jax.Array, offset: jax.Array, info: jax.Array) -> tuple[jax.Array, jax.Array]:
        rows, columns, scale = info
        score = score[count:].transpose(1, 2, 0).reshape(-1)
        offset = offset.reshape(count, 4, height, width).transpose(2, 3, 0, 1).reshape(-1, 4)
        if by_corners:
            moved = boxes + offset
        else:
            size = boxes[:, 2:] - boxes[:, :2] + 1
            centre = offset[:, :2] * size + boxes[:, :2] + 0.5 * (size - 1)
            half = 0.5 * (jnp.exp(offset[:, 2:]) * size - 1)
            moved = jnp.concatenate((centre - half, centre + half), 1)
        moved = jnp.maximum(jnp.minimum(moved, jnp.stack((columns, rows, columns, rows)) - 1), 0)
        side = least * scale
        small = (moved[:, 2:] - moved[:, :2] + 1 < side).any(1)
        moved = jnp.where(small[:, None], moved + jnp.stack((-side, -side, side, side)) / 2, moved)
        outside = (cells >= (info[:2] / stride).astype("int32")).any(1)
        score = jnp.where(outside | small, -1, score)
        order = jnp.argsort(score, descending=True)[:before]
        moved, score, places = moved[order], score[order], jnp.arange(before)
        area = (moved[:, 2:] - moved[:, :2] + 1).prod(1)

        def suppress(i: jax.Array, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            alive, kept = state
            good = alive[i] & (kept < after)
            low, high = jnp.maximum(moved[i, :2], moved[:, :2]), jnp.minimum(moved[i, 2:], moved[:, 2:])
            shared = jnp.maximum(high - low + 1, 0).prod(1)
            over = shared / (area[i] + area - shared) > overlap
            return alive & ~(over & (places > i) & good), kept + good
        alive, kept = jax.lax.fori_loop(0, before, suppress, (jnp.ones(before, bool), jnp.array(0)))
        chosen = jnp.argsort(~alive)[jnp.arange(after) % kept]  # too few are repeated
        return moved[chosen], score[chosen]
    found, best = jax.vmap(one)(scores, offsets, sizes)
    number = jnp.broadcast_to(jnp.arange(len(found))[:, None, None], (len(found), after, 1))
    return jnp.concatenate((number, found), -1).reshape(-1, 5), best.reshape(-1, 1)'''
_SAMPLE = '''def grid_sample(x: jax.Array, grid: jax.Array) -> jax.Array:
    """x (batch, channel, height, width) between its pixels at (batch, 2, h, w), from -1 to 1; 0 outside."""
    height, width = x.shape[2:]
    right, down = (grid[:, 0] + 1) * (width - 1) / 2, (grid[:, 1] + 1) * (height - 1) / 2
    batch, total = jnp.arange(len(x))[:, None, None], 0
    for i in (jnp.floor(down), jnp.floor(down) + 1):
        for j in (jnp.floor(right), jnp.floor(right) + 1):
            inside = (i >= 0) & (i < height) & (j >= 0) & (j < width)
            share = jnp.where(inside, (1 - jnp.abs(down - i)) * (1 - jnp.abs(right - j)), 0)
            row, column = (jnp.where(inside, n, 0).astype("int32") for n in (i, j))
            total += share[..., None] * x[batch, :, row, column]
    return total.transpose(0, 3, 1, 2)'''
_AFFINE = '''def affine_grid(matrices: jax.Array, height: int, width: int) -> jax.Array:
    """The places (batch, 2, height, width) of pixels, from -1 to 1, under maps (batch, 6)."""
    x, y = jnp.meshgrid(jnp.linspace(-1, 1, width), jnp.linspace(-1, 1, height))
    return jnp.einsum("nij,jhw->nihw", matrices.reshape(-1, 2, 3), jnp.stack((x, y, jnp.ones_like(x))))'''

HELPERS = {
    "corners": _CORNERS, "centres": _CENTRES, "box_iou": _BOX_IOU, "box_decode": _BOX_DECODE, "box_nms": _BOX_NMS,
    "roi_align": _ROI_ALIGN, "roi_pool": _ROI_POOL, "propose": _PROPOSE, "sample": "grid_sample({0}, {1})",
    "sample_helper": _SAMPLE, "affine": "affine_grid({0}, {height}, {width})", "affine_helper": _AFFINE,
    "warp": "({0} + jnp.stack(jnp.meshgrid(jnp.arange({width}), jnp.arange({height})))) * 2 / "
            "jnp.array([{width} - 1, {height} - 1])[:, None, None] - 1",
}
