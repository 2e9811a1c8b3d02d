"""Importers of ONNX operators: axes, indexing, shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from ..symbol import Symbol
from ._folding import MOST_FOLDED, dynamic_axes, every_input, folding
from ._import import ImportedNode, importer

_FAR = 2**31 - 1


def _sized(c: ImportedNode) -> list[tuple[int, ...]]:
    """The data's shape for each set of sizes."""
    return c.given(c.sized(0), "dynamic sizes and data of an unknown shape")


def _filled_in(c: ImportedNode, shape: tuple[int, ...], wanted: Sequence[int]) -> tuple[int, ...]:
    """A wanted shape, in which 0 stood for the size that the data has there."""
    kept = not c.attr("allowzero", 0)
    c.need(not kept or all(n or i < len(shape) for i, n in enumerate(wanted)), f"shape {wanted} of data {shape}")
    return tuple(shape[i] if n == 0 and kept else n for i, n in enumerate(wanted))


@importer("Reshape")
@folding(lambda c, x, shape: x.reshape(_filled_in(c, x.shape, shape.tolist())))
def _reshape(c: ImportedNode) -> Symbol:
    if not c.derives(1) or c.known(1) is not None:
        shape = c.listed(1, "shape")
        c.need(not c.attr("allowzero", 0) or 0 not in shape, "a size of 0 with allowzero")
        return c.op("Reshape", c.sym(0), shape=shape)
    wanted, shapes = c.for_each_size(lambda: c.value(1).reshape(-1).tolist()), _sized(c)
    c.need(len({len(w) for w in wanted}) == 1, "the number of dimensions depends on dynamic sizes")
    wanted = [_resolved(c, shape, w) for shape, w in zip(shapes, wanted, strict=True)]
    old, new = (list(zip(*versions, strict=True)) for versions in (shapes, wanted))
    return c.op("Reshape", c.sym(0), shape=_spelled(c, old, new))


def _resolved(c: ImportedNode, shape: tuple[int, ...], wanted: list[int]) -> tuple[int, ...]:
    """A wanted shape with all its sizes."""
    known = _filled_in(c, shape, wanted)
    rest = math.prod(shape) // max(math.prod(n for n in known if n != -1), 1)
    return tuple(rest if n == -1 else n for n in known)


def _spelled(c: ImportedNode, sizes: Sequence[tuple], wanted: Sequence[tuple]) -> tuple[int, ...]:
    """A wanted shape in the language of MXNet's Reshape.

    0 keeps a size, -3 merges two of them, -4 splits one in two, -1 follows from the others. Sizes are tuples: one for
    each set of dynamic sizes.
    """
    def product(first: tuple, second: tuple) -> tuple:
        return tuple(a * b for a, b in zip(first, second, strict=True))

    def number(size: tuple, otherwise: int = -1) -> int:
        return size[0] if len(set(size)) == 1 else otherwise
    old, new, spelled, followers = list(sizes), list(wanted), [], 0
    while new:
        size = new.pop(0)
        if old and size == old[0]:
            spelled.append(number(size, 0))
        elif len(old) > 1 and size == product(*old[:2]):
            spelled.append(-3)
            del old[0]
        elif old and new and product(size, new[0]) == old[0] and number(size) + number(new[0]) > -2:
            spelled += [-4, number(size), number(new.pop(0))]
        else:
            spelled.append(number(size))
            followers += number(size) == -1
        del old[:1]
    c.need(followers < 2, "more than one dynamic size that the data has not")
    return tuple(spelled)


@importer("Flatten")
def _flatten(c: ImportedNode) -> Symbol:
    axis = c.attr("axis", 1)
    if axis == 1:
        return c.op("Flatten", c.sym(0))
    shape = c.given(c.shape(0), "axis other than 1 of an unknown shape")
    return c.op("Reshape", c.sym(0), shape=(math.prod(shape[:axis]), -1))


@importer("Transpose")
@folding(lambda c, x: np.transpose(x, c.attr("perm")))
def _transpose(c: ImportedNode) -> Symbol:
    return c.op("transpose", c.sym(0), axes=c.attr("perm", ()))


@importer("Unsqueeze")
@folding(lambda c, x, *axes: np.expand_dims(x, c.listed(1, "axes")))
def _unsqueeze(c: ImportedNode) -> Symbol:
    axes = c.listed(1, "axes")
    if any(a < 0 for a in axes) and len(axes) > 1:
        ndim = len(c.shape(0) or ()) + len(axes)
        axes = [a % ndim for a in axes]
    return reduce(lambda x, a: c.op("expand_dims", x, axis=a), sorted(axes), c.sym(0))


@importer("Squeeze")
@folding(lambda c, x, *axes: np.squeeze(x, c.listed(1, "axes")))
def _squeeze(c: ImportedNode) -> Symbol:
    return c.op("squeeze", c.sym(0), axis=c.listed(1, "axes"))


@importer("Concat")
@folding(lambda c, *parts: np.concatenate(parts, c.attr("axis")))
def _concat(c: ImportedNode) -> Symbol:
    return c.op("Concat", *every_input(c), dim=c.attr("axis"))


def _ends(c: ImportedNode) -> tuple[int, ...]:
    """Returns the end of a slice; a dynamic end must be that of the axis."""
    if not c.derives(2) or c.known(2) is not None:
        return c.listed(2, "ends")
    ends = c.for_each_size(lambda: c.value(2).reshape(-1).tolist())
    axes = c.listed(3, "axes") or range(len(ends[0]))
    shapes = c.given(c.sized(0), "dynamic ends of an unknown shape")
    results = []
    for axis, sizes in zip(axes, zip(*ends, strict=True), strict=True):
        whole = all(n >= shape[axis] for n, shape in zip(sizes, shapes, strict=True))
        c.need(whole or len(set(sizes)) == 1, "a dynamic end inside an axis")
        results.append(_FAR if whole else sizes[0])
    return tuple(results)


def _parts(c: ImportedNode) -> dict[int, tuple]:
    """{axis: (begin, end, step)} of a slice; None where it is an end."""
    begins, ends = c.listed(1, "starts"), _ends(c)
    axes = c.listed(3, "axes") or range(len(begins))
    steps = c.listed(4, "steps") or (1,) * len(begins)
    return {a: (None if s < 0 and b >= _FAR else b, None if e >= _FAR or e <= -_FAR else e, s)
            for a, b, e, s in zip(axes, begins, ends, steps, strict=True)}


def _cut(c: ImportedNode, x: np.ndarray, *rest: np.ndarray) -> np.ndarray:
    parts = _parts(c)
    return x[tuple(slice(*parts.get(i, (None,))) for i in range(x.ndim))]


@importer("Slice")
@folding(_cut)
def _slice(c: ImportedNode) -> Symbol:
    parts, shape = _parts(c), c.shape(0)
    if min(parts, default=0) < 0 and shape is None:
        c.need(all(step == 1 for _, _, step in parts.values()),
               "steps along an axis from the end of an unknown shape")
        return reduce(lambda x, item: c.op("slice_axis", x, axis=item[0], begin=item[1][0] or 0, end=item[1][1]),
                      parts.items(), c.sym(0))
    ndim = len(shape) if shape else max(parts, default=0) + 1
    parts = {a % ndim: part for a, part in parts.items()}
    columns = [parts.get(i, (None, None, None)) for i in range(max(parts, default=0) + 1)]
    return c.op("slice", c.sym(0), **dict(zip(("begin", "end", "step"), map(tuple, zip(*columns, strict=True)),
                                             strict=True)))


def _pieces(c: ImportedNode, x: np.ndarray, *sizes: np.ndarray) -> list[np.ndarray]:
    parts = c.listed(1, "split") or _even(x.shape[c.attr("axis", 0)], len(c.outputs))
    return np.split(x, np.cumsum(parts)[:-1], c.attr("axis", 0))


def _even(length: int, count: int) -> list[int]:
    """Lengths of parts that are equal, but for a last one that is smaller."""
    each = -(-length // count)
    return [min(each, length - begin) for begin in range(0, length, each)]


@importer("Split")
@folding(_pieces)
def _split(c: ImportedNode) -> Any:
    axis, sizes, shape = c.attr("axis", 0), c.listed(1, "split"), c.shape(0)
    if "num_outputs" in c.attrs and shape is not None and shape[axis] % len(c.outputs):  # the last part is smaller
        sizes = _even(shape[axis], len(c.outputs))
    if not sizes or len(set(sizes)) == 1:
        return c.op("SliceChannel", c.sym(0), axis=axis, num_outputs=len(c.outputs))
    starts = [0, *np.cumsum(sizes).tolist()]
    return [c.op("slice_axis", c.sym(0), axis=axis, begin=a, end=b)
            for a, b in zip(starts, starts[1:], strict=False)]


@importer("Gather")
@folding(lambda c, x, i: np.take(x, i, c.attr("axis", 0)))
def _gather(c: ImportedNode) -> Symbol:
    axis, places = c.attr("axis", 0), c.known(1)
    if places is not None and places.ndim == 0:
        end = places.item() + 1
        part = c.op("slice_axis", c.sym(0), axis=axis, begin=places.item(), end=end or None)
        return c.op("squeeze", part, axis=axis)
    inside = places is not None and (not places.size or places.min() >= 0)
    return c.op("take", c.sym(0), c.sym(1), axis=axis, mode="clip" if inside else "wrap")


@importer("GatherND")
@folding(lambda c, x, places: x[tuple(np.moveaxis(places, -1, 0))])
def _gather_nd(c: ImportedNode) -> Symbol:
    shape = c.given(None if c.attr("batch_dims", 0) else c.shape(1), "indices of unknown shape, or batch_dims")
    axes = (len(shape) - 1, *range(len(shape) - 1))
    return c.op("gather_nd", c.sym(0), c.op("transpose", c.sym(1), axes=axes))


def _scattered(c: ImportedNode, x: np.ndarray, places: np.ndarray, values: np.ndarray) -> np.ndarray:
    c.need(c.attr("reduction", "none") == "none", "a reduction")
    x = x.copy()
    x[tuple(np.moveaxis(places, -1, 0))] = values
    return x


@importer("ScatterND")
@folding(_scattered)
def _scatter_nd(c: ImportedNode) -> Symbol:
    shape = c.given(c.shape(1), "places of unknown shape")
    c.need(c.attr("reduction", "none") == "none", "a reduction")
    places = c.op("transpose", c.sym(1), axes=(len(shape) - 1, *range(len(shape) - 1)))
    return c.op("_scatter_set_nd", c.sym(0), c.sym(2), places, shape=c.shape(0) or ())


def _wide(c: ImportedNode, x: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    shape = np.broadcast_shapes(x.shape, wanted.tolist())
    c.make(math.prod(shape))
    return np.broadcast_to(x, shape)


@importer("Expand")
@folding(_wide)
def _expand(c: ImportedNode) -> Symbol:
    shape = c.shape(0)
    if c.derives(1) and c.known(1) is None:
        return _expand_dynamic(c)
    wanted = c.listed(1, "shape")
    if shape is not None:
        return c.op("_npi_broadcast_to", c.sym(0), shape=np.broadcast_shapes(shape, wanted))
    return c.op("broadcast_mul", c.sym(0), c.op("_ones", shape=wanted))


def _expand_dynamic(c: ImportedNode) -> Symbol:
    wanted, shapes = c.for_each_size(lambda: c.value(1).tolist()), _sized(c)
    shapes = [shape or (1,) for shape in shapes]  # so long is a parameter without dimensions
    wide = [np.broadcast_shapes(shape, w) for shape, w in zip(shapes, wanted, strict=True)]
    data = c.sym(0)
    for _ in range(len(wide[0]) - len(shapes[0])):
        data = c.op("expand_dims", data, axis=0)
    offset = len(wide[0]) - len(shapes[0])
    target, dynamic = dynamic_axes(wide)
    for axis in list(dynamic):
        if axis >= offset and [shape[axis - offset] for shape in shapes] == dynamic[axis]:
            target[axis] = 0  # broadcast_to keeps the size
            del dynamic[axis]
    return c.stretched(c.op("broadcast_to", data, shape=tuple(target)), dynamic)


def _repeated(c: ImportedNode, x: np.ndarray, repeats: np.ndarray) -> np.ndarray:
    c.make(x.size * math.prod(repeats.tolist()))
    return np.tile(x, repeats.tolist())


@importer("Tile")
@folding(_repeated)
def _tile(c: ImportedNode) -> Symbol:
    return c.op("tile", c.sym(0), reps=c.listed(1, "repeats"))


def _with_borders(c: ImportedNode, x: np.ndarray, *rest: np.ndarray) -> np.ndarray:
    pads = c.listed(1, "pads")
    c.make(x.size + sum(map(abs, pads)) if x.ndim == 1 else MOST_FOLDED)
    c.need(min(pads, default=0) >= 0 and c.attr("mode", "constant") == "constant", "such padding of a constant")
    sides = list(zip(pads[:len(pads) // 2], pads[len(pads) // 2:], strict=True))
    return np.pad(x, sides, constant_values=rest[1].item() if len(rest) > 1 else c.attr("value", 0))


@importer("Pad")
@folding(_with_borders)
def _pad(c: ImportedNode) -> Symbol:
    pads = c.listed(1, "pads")
    width = [n for pair in zip(pads[:len(pads) // 2], pads[len(pads) // 2:], strict=True) for n in pair]
    value = c.value(2).item() if c.has(2) else c.attr("value", 0.0)
    return c.op("Pad", c.sym(0), mode=c.attr("mode", "constant"), pad_width=tuple(width), constant_value=value)


@importer("OneHot")
def _one_hot(c: ImportedNode) -> Symbol:
    c.need(c.attr("axis", -1) == -1, "axis other than -1")
    off, on = c.value(2).tolist()
    return c.op("one_hot", c.sym(0), depth=int(c.value(1).item()), on_value=on, off_value=off,
                dtype=c.value(2).dtype.name)


@importer("DepthToSpace")
def _depth_to_space(c: ImportedNode) -> Symbol:
    return _blocks(c, "depth_to_space")


@importer("SpaceToDepth")
def _space_to_depth(c: ImportedNode) -> Symbol:
    return _blocks(c, "space_to_depth")


def _blocks(c: ImportedNode, name: str) -> Symbol:
    if c.attr("mode", "DCR") == "DCR":
        return c.op(name, c.sym(0), block_size=c.attr("blocksize"))
    block = c.attr("blocksize")
    n, depth, height, width = c.given(c.shape(0), "mode CRD of an unknown shape")
    if name == "depth_to_space":
        parts, axes = (n, depth // block ** 2, block, block, height, width), (0, 1, 4, 2, 5, 3)
        result = (n, depth // block ** 2, height * block, width * block)
    else:
        parts, axes = (n, depth, height // block, block, width // block, block), (0, 1, 3, 5, 2, 4)
        result = (n, depth * block ** 2, height // block, width // block)
    return c.op("Reshape", c.op("transpose", c.op("Reshape", c.sym(0), shape=parts), axes=axes), shape=result)


@importer("ReverseSequence")
def _reverse_sequence(c: ImportedNode) -> Symbol:
    c.need((c.attr("batch_axis", 1), c.attr("time_axis", 0)) == (1, 0), "time_axis other than 0")
    return c.op("SequenceReverse", c.sym(0), c.sym(1), use_sequence_length=True)


@importer("Trilu")
def _trilu(c: ImportedNode) -> Symbol:
    k = int(c.value(1).item()) if c.has(1) else 0
    if not c.attr("upper", 1):
        return c.op("_npi_tril", c.sym(0), k=k)
    below = c.op("_npi_tril", c.op("ones_like", c.sym(0)), k=k - 1)
    return c.op("_npi_where_lscalar", below, c.sym(0), scalar=0)
