"""PyTorch: functions on boxes and regions, as the written source has them."""

from __future__ import annotations

__all__ = ["HELPERS"]

_CORNERS = '''def corners(boxes: torch.Tensor) -> torch.Tensor:
    """Boxes (..., 4) by their corners instead of centre and size."""
    centre, size = boxes.chunk(2, -1)
    return torch.cat((centre - size / 2, centre + size / 2), -1)'''
_CENTRES = '''def centres(boxes: torch.Tensor) -> torch.Tensor:
    """Boxes (..., 4) by centre and size instead of their corners."""
    low, high = boxes.chunk(2, -1)
    return torch.cat(((low + high) / 2, high - low), -1)'''
_BOX_IOU = '''def box_iou(boxes: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    """Intersection over union of each of (..., 4) with each of (..., 4), by corners."""
    a, b = boxes.reshape(-1, 1, 4), others.reshape(1, -1, 4)
    shared = (torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])).clamp(min=0).prod(-1)
    area, other = ((x[..., 2:] - x[..., :2]).clamp(min=0).prod(-1) for x in (a, b))
    found = torch.where(shared > 0, shared / (area + other - shared), 0)
    return found.reshape(boxes.shape[:-1] + others.shape[:-1])'''
_BOX_DECODE = '''def box_decode(offsets: torch.Tensor, anchors: torch.Tensor, stds: tuple[float, ...],
               limit: float = torch.inf) -> torch.Tensor:
    """Boxes by corners out of offsets (batch, n, 4) from anchors by centre and size."""
    centre, size = anchors.reshape(-1, offsets.shape[1], 4)[:1].chunk(2, -1)
    shift, scale = (offsets * offsets.new_tensor(stds)).chunk(2, -1)
    middle, half = shift * size + centre, scale.clamp(max=limit).exp() * size / 2
    return torch.cat((middle - half, middle + half), -1)'''
_BOX_NMS = '''\
def box_nms(data: torch.Tensor, *, overlap: float, least: float, most: int, start: int = 2, score: int = 1,
            kind: int = -1, background: int = -1, across: bool = False, centred: bool = False) -> torch.Tensor:
    """Boxes (..., n, numbers) without those that overlap a better one, the best first; then rows of -1.

    least: the score that a box must exceed; start, score, kind: where a box has its coordinates, score and class;
    across: boxes suppress those of other classes too; centred: coordinates are centre and size.
    """
    found = torch.full_like(data, -1).reshape(-1, *data.shape[-2:])
    for rows, result in zip(data.reshape(found.shape), found):
        good = rows[:, score] > least
        if kind >= 0:
            good &= rows[:, kind] != background
        rows = rows[good]
        rows = rows[rows[:, score].argsort(dim=0, descending=True, stable=True)][:most]
        low, high = rows[:, start:start + 4].chunk(2, 1)
        if centred:
            low, high = low - high / 2, low + high / 2
        area, alive = (high - low).clamp(min=0).prod(1), torch.ones(len(rows), dtype=torch.bool)
        for i in range(len(rows)):
            if alive[i]:
                shared = (torch.minimum(high[i], high) - torch.maximum(low[i], low)).clamp(min=0).prod(1)
                over = shared / (area[i] + area - shared) > overlap
                if kind >= 0 and not across:
                    over &= rows[:, kind].int() == rows[i, kind].int()
                alive[i + 1:] &= ~over[i + 1:]
        result[:int(alive.sum())] = rows[alive]
    return found.reshape(data.shape)'''
_ROI_ALIGN = '''\
def roi_align(data: torch.Tensor, regions: torch.Tensor, size: tuple[int, int], scale: float, samples: int = 0,
              sensitive: bool = False, aligned: bool = False) -> torch.Tensor:
    """Means of interpolated samples of the parts of regions (number, 5): index in the batch, x1, y1, x2, y2.

    samples: along each side of a part, 0: as many as it has pixels; sensitive: each part has channels of its own;
    aligned: the centres of pixels are at half numbers.
    """
    places = regions[:, 1:] * scale - (0.5 if aligned else 0)

    def shares(low: torch.Tensor, high: torch.Tensor, parts: int, length: int) -> torch.Tensor:
        """How much each pixel counts in each part: (regions, parts, length)."""
        low, high = low[:, None, None], high[:, None, None]
        step = (high - low if aligned else (high - low).clamp(min=1)) / parts
        count = torch.full_like(step, samples) if samples else step.ceil()
        total, part, pixel = torch.zeros(len(low), parts, length), torch.arange(parts)[:, None], torch.arange(length)
        for i in range(int(count.max()) if len(count) else 0):
            place = low + (part + (i + 0.5) / count) * step
            inside = (place >= -1) & (place <= length) & (i < count)
            share = (1 - (place.clamp(0, length - 1) - pixel).abs()).clamp(min=0)
            total += torch.where(inside, share / count, 0)
        return total
    rows = shares(places[:, 1], places[:, 3], size[0], data.shape[2])
    columns = shares(places[:, 0], places[:, 2], size[1], data.shape[3])
    images = data.unflatten(1, (-1, *size)) if sensitive else data[:, :, None, None]
    found = [torch.einsum("ph,cpqhw,qw->cpq", row, images[i].expand(-1, *size, -1, -1), column)
             * (i >= 0) for i, row, column in zip(regions[:, 0].long(), rows, columns)]
    return torch.stack(found)'''
_ROI_POOL = '''\
def roi_pool(data: torch.Tensor, regions: torch.Tensor, size: tuple[int, int], scale: float) -> torch.Tensor:
    """Maxima of the parts of regions (number, 5): index in the batch, x1, y1, x2, y2; 0 where a part is empty."""
    def inside(low: torch.Tensor, high: torch.Tensor, parts: int, length: int) -> torch.Tensor:
        """Which pixels are in each part: (parts, length)."""
        step = (high - low + 1).clamp(min=1) / parts
        start = (torch.arange(parts) * step).floor() + low
        stop = (torch.arange(1, parts + 1) * step).ceil() + low
        pixel = torch.arange(length)
        return (pixel >= start[:, None]) & (pixel < stop[:, None])
    found = []
    for region in regions:
        places = region[1:] * scale
        x1, y1, x2, y2 = (places.abs() + 0.5).floor() * places.sign()
        rows, columns = inside(y1, y2, size[0], data.shape[2]), inside(x1, x2, size[1], data.shape[3])
        image = data[int(region[0])] if 0 <= region[0] < len(data) else torch.full_like(data[0], -torch.inf)
        best = torch.where(columns, image[:, :, None], -torch.inf).amax(3)
        best = torch.where(rows[:, :, None], best[:, None], -torch.inf).amax(2)
        found.append(torch.where(best > -torch.inf, best, 0))
    return torch.stack(found)'''
_PROPOSE = '''def propose(scores: torch.Tensor, offsets: torch.Tensor, sizes: torch.Tensor, anchors: torch.Tensor, *,
            stride: int, before: int, after: int, overlap: float, least: float,
            by_corners: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """The best regions, `after` of each image, with the image's number before the corners; and their scores.

    scores: (images, 2 * anchors, height, width), the background first; offsets: (images, 4 * anchors, height, width);
    sizes: height, width and scale of each image; before: how many are looked at; least: length of a side;
    by_corners: offsets are those of the corners.
    """
    count, (height, width) = len(anchors), scores.shape[2:]
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    boxes = ((torch.stack((x, y, x, y), -1) * stride)[:, :, None] + anchors).reshape(-1, 4)
    cells = torch.stack((y, x), -1).reshape(-1, 2).repeat_interleave(count, 0)
    found, best = [], []
    for number, (score, offset, (rows, columns, scale)) in enumerate(zip(scores, offsets, sizes)):
        score = score[count:].permute(1, 2, 0).flatten()
        offset = offset.unflatten(0, (count, 4)).permute(2, 3, 0, 1).reshape(-1, 4)
        if by_corners:
            moved = boxes + offset
        else:
            size = boxes[:, 2:] - boxes[:, :2] + 1
            centre = offset[:, :2] * size + boxes[:, :2] + 0.5 * (size - 1)
            half = 0.5 * (offset[:, 2:].exp() * size - 1)
            moved = torch.cat((centre - half, centre + half), 1)
        moved = torch.minimum(moved, torch.stack((columns, rows, columns, rows)) - 1).clamp(min=0)
        side = least * scale
        small = (moved[:, 2:] - moved[:, :2] + 1 < side).any(1)
        grown = moved + torch.stack((-side, -side, side, side)) / 2
        moved = torch.where(small[:, None], grown, moved)
        outside = (cells >= (torch.stack((rows, columns)) / stride).int()).any(1)
        score = torch.where(outside | small, -1, score)
        order = score.argsort(dim=0, descending=True, stable=True)[:before]
        moved, score = moved[order], score[order]
        area, alive, kept = (moved[:, 2:] - moved[:, :2] + 1).prod(1), torch.ones(len(moved), dtype=torch.bool), []
        for i in range(len(moved)):
            if alive[i] and len(kept) < after:
                kept.append(i)
                low, high = torch.maximum(moved[i, :2], moved[:, :2]), torch.minimum(moved[i, 2:], moved[:, 2:])
                shared = (high - low + 1).clamp(min=0).prod(1)
                alive &= ~(shared / (area[i] + area - shared) > overlap)
        kept = torch.tensor(kept)[torch.arange(after) % len(kept)]  # too few are repeated
        found.append(torch.cat((moved.new_full((after, 1), number), moved[kept]), 1))
        best.append(score[kept, None])
    return torch.cat(found), torch.cat(best)'''

HELPERS = {
    "corners": _CORNERS, "centres": _CENTRES, "box_iou": _BOX_IOU, "box_decode": _BOX_DECODE, "box_nms": _BOX_NMS,
    "roi_align": _ROI_ALIGN, "roi_pool": _ROI_POOL, "propose": _PROPOSE,
    "sample": "F.grid_sample({0}, {1}.permute(0, 2, 3, 1), align_corners=True)", "sample_helper": "",
    "affine": "F.affine_grid({0}.reshape(-1, 2, 3), (len({0}), 1, {height}, {width}), align_corners=True)"
              ".permute(0, 3, 1, 2)", "affine_helper": "",
    "warp": "({0} + torch.stack(torch.meshgrid(torch.arange({width}), torch.arange({height}), indexing=\"xy\"))) * 2 / "
            "torch.tensor([{width} - 1, {height} - 1])[:, None, None] - 1",
}
