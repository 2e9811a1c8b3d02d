"""Slicing, splitting, concatenation and stacking of arrays."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import Annotated, Any

import jax.numpy as jnp

from ...base import MXNetError
from ..common import Array, converted, gives, normalized
from ..infer import Shape as Known
from ..infer import exact, mark, unify
from ..params import DoubleScalar, Range, Shape
from ..registry import register


# ------------------------------------------------------------ slices
def slices(name: str, ndim: int, begin: Shape, end: Shape, step: Shape | None = ()) -> tuple[slice, ...]:
    """One slice for each of the first axes; raises MXNetError if the parameters do not fit together."""
    steps = step or (None,) * len(begin)
    if not len(begin) == len(end) == len(steps) <= ndim or 0 in steps:
        raise MXNetError(f"operator {name}: begin={begin}, end={end} and step={step} must have the same length, at "
                         f"most {ndim}, and step must not contain 0")
    return tuple(map(slice, begin, end, steps))


def _lengths(params: dict[str, Any], name: str, shape: tuple) -> tuple:
    """The shape of a slice of an array whose dimensions may be unknown."""
    parts = slices(name, len(shape), params["begin"], params["end"], params["step"])
    cut = tuple(None if n is None else len(range(*s.indices(n))) for s, n in zip(parts, shape, strict=False))
    return cut + shape[len(parts):]


def _slice_shapes(params: dict[str, Any], ins: list, outs: list) -> None:
    if ins[0] is not None:
        outs[0] = unify(outs[0], _lengths(params, "slice", ins[0]))


mark(_slice_shapes, complete=True, exact=True)


def slice_part(params: dict[str, Any], shape: tuple[int, ...]) -> tuple[slice, ...]:
    return slices("slice", len(shape), params["begin"], params["end"], params["step"])


@register("slice", aliases=("crop", "_npi_slice", "_npx_slice", "_sparse_slice"), infer_shape=_slice_shapes,
          FPart=slice_part)
def slice_(data: Array, *, begin: Shape, end: Shape, step: Shape | None = ()) -> Array:
    """data[begin[0]:end[0]:step[0], ...] of the first axes, with Python's rules; None leaves a limit open."""
    return data[slice_part({"begin": begin, "end": end, "step": step}, data.shape)]


def _assign_shapes(params: dict[str, Any], ins: list, outs: list) -> None:
    ins[0] = outs[0] = unify(ins[0], outs[0])
    if ins[0] is not None:
        ins[1] = unify(ins[1], _lengths(params, "_slice_assign", ins[0]))


@register("_slice_assign", aliases=("_crop_assign", "_npi_slice_assign"), infer_shape=_assign_shapes)
def slice_assign(lhs: Array, rhs: Array, *, begin: Shape, end: Shape, step: Shape = ()) -> Array:
    """Returns lhs with a slice (as in `slice`) replaced by rhs."""
    return lhs.at[slices("_slice_assign", lhs.ndim, begin, end, step)].set(rhs)


@register("_slice_assign_scalar", aliases=("_crop_assign_scalar", "_npi_slice_assign_scalar"))
def slice_assign_scalar(data: Array, *, scalar: DoubleScalar = 0.0, begin: Shape, end: Shape,
                        step: Shape = ()) -> Array:
    """Returns data with a slice (as in `slice`) filled with a number."""
    return data.at[slices("_slice_assign_scalar", data.ndim, begin, end, step)].set(converted(scalar, data.dtype))


def _interval(begin: int, end: int | None, size: int) -> tuple[int, int]:
    first, last = (n + size if n < 0 else n for n in (begin, size if end is None else end))
    if not 0 <= first < last <= size:
        raise MXNetError(f"operator slice_axis: begin={begin}, end={end} is not a valid range for an axis of size "
                         f"{size}")
    return first, last


def _slice_axis_shapes(params: dict[str, Any], ins: list, outs: list) -> None:
    if ins[0] is None:
        return
    shape = list(ins[0])
    axis = normalized(params["axis"], len(shape))
    if shape[axis] is not None:
        first, last = _interval(params["begin"], params["end"], shape[axis])
        shape[axis] = last - first
    outs[0] = unify(outs[0], tuple(shape))


mark(_slice_axis_shapes, complete=True, exact=True)


def slice_axis_part(params: dict[str, Any], shape: tuple[int, ...]) -> tuple[slice, ...]:
    axis = normalized(params["axis"], len(shape))
    return (slice(None),) * axis + (slice(*_interval(params["begin"], params["end"], shape[axis])),)


@register("slice_axis", infer_shape=_slice_axis_shapes, FPart=slice_axis_part)
def slice_axis(data: Array, *, axis: int, begin: int, end: int | None) -> Array:
    """The part [begin, end) of one axis; negative numbers count from its end."""
    return data[slice_axis_part({"axis": axis, "begin": begin, "end": end}, data.shape)]


def _like_shapes(p: dict[str, Any], x: tuple, like: tuple) -> tuple:
    axes = {normalized(a, len(x)) for a in p["axes"] or range(len(x))}
    return tuple(like[i] if i in axes else n for i, n in enumerate(x))


def _holds(p: dict[str, Any], x: tuple, like: tuple) -> bool:
    return (p["axes"] or len(x) == len(like)) and all(
        like[a] <= x[a] for a in (normalized(a, len(x)) for a in p["axes"] or range(len(x))))


@register("slice_like", FPartialShape=exact(_like_shapes, _holds), infer_type=gives(lambda p: None))
def slice_like(data: Array, shape_like: Array, *, axes: Shape = ()) -> Array:
    """The leading part of the data that has the size of `shape_like` along `axes`, by default along all."""
    if not axes and data.ndim != shape_like.ndim:
        raise MXNetError("operator slice_like: without axes, both arrays must have the same number of dimensions; got "
                         f"shapes {data.shape} and {shape_like.shape}")
    parts = [slice(None)] * data.ndim
    for a in axes or range(data.ndim):
        a = normalized(a, data.ndim)
        if a >= shape_like.ndim or data.shape[a] < shape_like.shape[a]:
            raise MXNetError(f"operator slice_like: axis {a} of {shape_like.shape} exceeds that of {data.shape}")
        parts[a] = slice(shape_like.shape[a])
    return data[tuple(parts)]


# ------------------------------------------------------------ splits
def _split_channel_shapes(params: dict[str, Any], ins: list[Known], outs: list[Known]) -> None:
    if ins[0] is None:
        return
    count, data = params["num_outputs"], list(ins[0])
    axis = normalized(params["axis"], len(data))
    size = _section(params, tuple(data))
    keep = [] if params["squeeze_axis"] else [size]
    piece: tuple[int | None, ...] = (*data[:axis], *keep, *data[axis + 1:])
    for out in outs:
        piece = unify(piece, out)
    outs[:] = [piece] * count
    own = None if params["squeeze_axis"] else piece[axis]
    whole = count if params["squeeze_axis"] else None if own is None else own * count
    rest = piece if params["squeeze_axis"] else piece[:axis] + piece[axis + 1:]
    ins[0] = unify(tuple(data), (*rest[:axis], whole, *rest[axis:]))


mark(_split_channel_shapes, exact=True)


def _section(params: dict[str, Any], shape: tuple) -> int | None:
    """Size of one piece of SliceChannel, None if the axis is unknown; raises MXNetError when it does not divide."""
    size, count = shape[normalized(params["axis"], len(shape))], params["num_outputs"]
    if size is None:
        return None
    if size % count or (params["squeeze_axis"] and size != count):
        raise MXNetError(f"operator SliceChannel: axis {params['axis']} of shape {shape} cannot be split into "
                         f"num_outputs={count} pieces{' of size 1' if params['squeeze_axis'] else ' of equal size'}")
    return size // count


@register("SliceChannel", aliases=("split",), num_outputs=lambda p: p["num_outputs"], infer_shape=_split_channel_shapes,
          output_names=lambda p: [f"output{i}" for i in range(p["num_outputs"])])
def slice_channel(data: Array, *, num_outputs: Annotated[int, Range(1)], axis: int = 1,
                  squeeze_axis: bool = False) -> tuple[Array, ...]:
    """Splits an axis into equal pieces; `squeeze_axis` drops the axis, which then has size 1 in the pieces."""
    _section({"axis": axis, "num_outputs": num_outputs, "squeeze_axis": squeeze_axis}, data.shape)
    pieces = jnp.split(data, num_outputs, axis)
    return tuple(p.squeeze(axis) if squeeze_axis else p for p in pieces)


def _pieces(p: dict[str, Any], x: tuple) -> list[tuple]:
    """The shapes of the pieces of `_split_v2` (FPartialShape)."""
    axis, count = normalized(p["axis"], len(x)), p["sections"]
    if count:
        sizes = [x[axis] // count + (i < x[axis] % count) for i in range(count)]
    else:
        limits = [*p["indices"], x[axis]]
        sizes = [b - a for a, b in itertools.pairwise(limits)]
    return [(*x[:axis], *[size] * (not p["squeeze_axis"]), *x[axis + 1:]) for size in sizes]


def _can_split(p: dict[str, Any], x: tuple) -> bool:
    limits = [*p["indices"], x[p["axis"]]]
    return p["sections"] > 0 and not p["squeeze_axis"] or not p["sections"] and sorted(limits) == limits and \
        min(limits) >= 0 and not p["squeeze_axis"]


@register("_split_v2", aliases=("_npi_split",), num_outputs=lambda p: p["sections"] or len(p["indices"]),
          FPartialShape=exact(_pieces, _can_split, partly=False))
def split_v2(data: Array, *, indices: Shape, axis: int = 1, squeeze_axis: bool = False,
             sections: int = 0) -> tuple[Array, ...]:
    """Splits an axis into `sections` pieces (the first ones may be longer by one), or at the given start indices."""
    axis = normalized(axis, data.ndim)
    size = data.shape[axis]
    if sections:
        pieces = jnp.array_split(data, sections, axis)
    else:
        limits = [*(indices if size else (0,) * len(indices)), size]
        if sorted(limits) != limits:
            raise MXNetError(f"operator _split_v2: indices={indices} must increase and stay within an axis of size "
                             f"{size}")
        head = (slice(None),) * axis
        pieces = [data[(*head, slice(a, b))] for a, b in zip(limits[:-1], limits[1:], strict=True)]
    if squeeze_axis and any(p.shape[axis] != 1 for p in pieces):
        raise MXNetError("operator _split_v2: squeeze_axis requires pieces of size 1, got sizes "
                         f"{[p.shape[axis] for p in pieces]}")
    return tuple(p.squeeze(axis) if squeeze_axis else p for p in pieces)


# ------------------------------------------------------------ joins
def _joined_shapes(equal_unknowns: int) -> Callable[..., None]:
    """Rule of a concatenation; up to `equal_unknowns` inputs share the rest of the output's size."""
    def rule(params: dict[str, Any], ins: list, outs: list) -> None:
        rest: tuple[int | None, ...] | None = None
        axis = 0
        for shape in [*ins, outs[0]]:
            if shape is not None:
                axis = normalized(params["dim"], len(shape))
                rest = unify(rest, (*shape[:axis], None, *shape[axis + 1:]))
        if rest is None:
            return
        ins[:] = [unify(shape, rest) for shape in ins]
        before: Known = outs[0]
        result = outs[0] = unify(before, rest)
        missing = [i for i, shape in enumerate(ins) if shape[axis] is None]
        total = sum(shape[axis] for shape in ins if shape[axis] is not None)
        if not missing:
            outs[0] = unify(result, (*rest[:axis], total, *rest[axis + 1:]))
        elif (whole := result[axis]) is not None and len(missing) <= equal_unknowns:
            share = (whole - total) // len(missing)
            if share < 0:
                raise MXNetError(f"the inputs have {total} elements along axis {axis}, but the output has {whole}")
            for i in missing:
                ins[i] = (*ins[i][:axis], share, *ins[i][axis + 1:])
    mark(rule, exact=True)
    return rule


@register("Concat", aliases=("concat", "_sparse_concat"), infer_shape=_joined_shapes(1))
def concat(*data: Array, dim: int = 1) -> Array:
    """Joins arrays along axis `dim`; the other axes agree."""
    return jnp.concatenate(data, normalized(dim, data[0].ndim))


@register("_rnn_param_concat", aliases=("_npi_rnn_param_concat",), infer_shape=_joined_shapes(2))
def rnn_param_concat(*data: Array, dim: int = 1) -> Array:
    """Concat for the parameters of a fused RNN: one or two unknown input sizes follow from the output's."""
    return concat(*data, dim=dim)


def _stacked_shapes(params: dict[str, Any], ins: list, outs: list) -> None:
    known = [None if shape is None or None in shape else math.prod(shape) for shape in ins]
    if None in known or len(set(known)) > 1:  # otherwise, equal numbers of elements will do
        shape = functools.reduce(unify, ins)
        ins[:] = [shape] * len(ins)
    shape = ins[0]
    if shape is not None:
        axis = normalized(params["axis"], len(shape) + 1)
        outs[0] = unify(outs[0], (*shape[:axis], len(ins), *shape[axis:]))


mark(_stacked_shapes, exact=True)


@register("stack", infer_shape=_stacked_shapes)
def stack(*data: Array, axis: int = 0) -> Array:
    """Joins arrays along a new axis. All have the number of elements of the first one, and are read in its shape."""
    shape = data[0].shape
    return jnp.stack([array.reshape(shape) for array in data], normalized(axis, len(shape) + 1))
