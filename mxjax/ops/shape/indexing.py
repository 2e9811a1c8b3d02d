"""Reading and writing at indices given by arrays."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer

from ...base import MXNetError
from ..common import Array, chosen, converted, gives, is_float, normalized, whole
from ..infer import exact, filled, first, mark, unify
from ..params import Count, Doubles, DoubleScalar, DType, Shape, np_dtype
from ..registry import register
from ._rows import rows


# ------------------------------------------------------------ along one axis
def _check_positions(name: str, index: Array, size: int) -> None:
    """Raises MXNetError for positions out of range, where their values can be seen: in an imperative call."""
    if isinstance(index, Tracer) or not index.size:
        return
    positions = np.asarray(index)
    low, high = positions.min(), positions.max()
    if not (low > -1 and high < size):
        raise MXNetError(f"operator {name}: indices from {np.trunc(low):.0f} to {np.trunc(high):.0f} are out of "
                         f"range for an axis of size {size}")


def _taken(p: dict[str, Any], a: tuple, indices: tuple) -> tuple:
    axis = normalized(p["axis"], len(a))
    return (*a[:axis], *indices, *a[axis + 1:])


@register("take", aliases=("_npi_take",), infer_type=gives(lambda p: None, None, "float32"),
          FPartialShape=exact(_taken), eager_when=lambda p: p["mode"] == "raise")
def take(a: Array, indices: Array, *, axis: int = 0, mode: Literal["clip", "raise", "wrap"] = "clip") -> Array:
    """Takes slices of `a` at the given indices along an axis, which is replaced by the shape of `indices` (any dtype).

    Indices out of range are clipped (clip), wrapped around (wrap), or an error (raise, also for negative ones; in a
    compiled program, which cannot raise, the result is NaN).
    """
    axis = normalized(axis, a.ndim)
    if mode == "raise":
        _check_positions("take", indices, a.shape[axis])
    index = whole(indices)
    if axis == 0 and mode == "clip":
        return rows(a, index)
    return jnp.take(a, index, axis, mode="fill" if mode == "raise" else mode)


def _one_of_each(data: Array, index: Array, axis: int, mode: str) -> Array:
    """data[..., index[...], ...] along an axis that the result keeps with size 1."""
    index, size = whole(index), data.shape[axis]
    index = jnp.clip(index, 0, size - 1) if mode == "clip" else jnp.mod(index, size)
    return _along(axis, data, index.reshape(*data.shape[:axis], 1, *data.shape[axis + 1:]))


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _along(axis: int, data: Array, index: Array) -> Array:
    return jnp.take_along_axis(data, index, axis, mode="promise_in_bounds")


@_along.defjvp
def _along_tangent(axis: int, primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    """By a sum, whose transpose is a comparison: XLA does it where the gradient is used, and needs no scatter."""
    (data, index), (tangent, _) = primals, tangents
    here = lax.broadcasted_iota(index.dtype, data.shape, axis) == index
    return _along(axis, data, index), jnp.where(here, tangent, 0).sum(axis, keepdims=True, dtype=tangent.dtype)


def _pick_shapes(params: dict[str, Any], ins: list[Any], outs: list[Any]) -> None:
    """The index has the shape of the data without the axis, which is the default, or with size 1 there."""
    if ins[0] is None:
        return
    for kept in (False, True):
        rest = _without_axis({**params, "keepdims": kept}, ins[0])
        if ins[1] is None or None in ins[1] and len(ins[1]) == len(rest):
            ins[1] = unify(ins[1], rest)


def _picks(p: dict[str, Any], x: tuple, index: tuple) -> bool:
    """Returns whether an index of this shape, but for axes of size 1, is that of the data without the axis."""
    return [n for n in index if n != 1] == [n for n in _without_axis({**p, "keepdims": False}, x) if n != 1]


@register("pick", aliases=("choose_element_0index", "_npx_pick"), infer_type=gives(lambda p: None, None, "float32"),
          infer_shape=_pick_shapes, FPartialShape=exact(lambda p, x, *_: _without_axis(p, x) or (1,), _picks))
def pick(data: Array, index: Array, *, axis: int | None = -1, keepdims: bool = False,
         mode: Literal["clip", "wrap"] = "clip") -> Array:
    """Picks one element along an axis, at each position of the other axes.

    index: the shape of data without the axis (or with size 1 there), any dtype.
    """
    if axis is None:
        raise MXNetError("operator pick: axis=None is not supported; specify an axis")
    axis = normalized(axis, data.ndim)
    rest = data.shape[:axis] + data.shape[axis + 1:]
    if tuple(n for n in index.shape if n != 1) != tuple(n for n in rest if n != 1):
        raise MXNetError(f"operator pick: index has shape {index.shape}, but data without axis {axis} {rest}")
    picked = _one_of_each(data, index, axis, mode)
    return picked if keepdims else picked.reshape(rest or (1,))


def _without_axis(params: dict[str, Any], shape: tuple[int, ...]) -> tuple[int, ...]:
    axis = normalized(params["axis"], len(shape))
    return shape[:axis] + ((1,) if params["keepdims"] else ()) + shape[axis + 1:]


@register("batch_take", infer_type=gives(lambda p: None, None, "int32"))
def batch_take(a: Array, indices: Array) -> Array:
    """a[i, indices[i]] for each row i; indices are clipped to the range.  a: (rows, columns); indices: (rows,)."""
    if a.ndim != 2 or indices.size != a.shape[0]:
        raise MXNetError("operator batch_take: indices must contain one index for each row of a matrix; got shapes "
                         f"{a.shape} and {indices.shape}")
    return _one_of_each(a, indices, 1, "clip").reshape(indices.shape)


def _numbers(indices: Array) -> Array:
    """Returns indices as integers, with NaN as -1. XLA converts NaN to 0, which would be a valid index."""
    return whole(jnp.where(jnp.isnan(indices), -1, indices) if is_float(indices.dtype) else indices)


@register("one_hot", aliases=("_npx_one_hot",), FPartialShape=exact(lambda p, x: (*x, p["depth"])))
def one_hot(indices: Array, *, depth: int, on_value: DoubleScalar = 1.0, off_value: DoubleScalar = 0.0,
            dtype: DType = "float32") -> Array:
    """One-hot encoding: a new last axis of size `depth` with `on_value` at the index and `off_value` elsewhere."""
    if depth < 0:
        raise MXNetError(f"operator one_hot: depth must be 0 or more, got {depth}")
    hot = _numbers(indices)[..., None] == jnp.arange(depth)
    on, off = (converted(v, np_dtype(dtype)) for v in (on_value, off_value))
    return jnp.where(hot, on, off)


@register("_onehot_encode", infer_type=gives(None))
def onehot_encode(lhs: Array, rhs: Array) -> Array:
    """One-hot rows of the indices lhs (rows,), in the shape and dtype of rhs (rows, depth)."""
    return jax.nn.one_hot(_numbers(lhs), rhs.shape[1], dtype=rhs.dtype)


@register("fill_element_0index", infer_type=gives(None))
def fill_element_0index(lhs: Array, mhs: Array, rhs: Array) -> Array:
    """Returns lhs (rows, columns) with lhs[i, rhs[i]] = mhs[i]."""
    return lhs.at[jnp.arange(lhs.shape[0]), whole(rhs)].set(mhs)


# ------------------------------------------------------------ embedding
def _embedding_types(params: dict[str, Any], ins: list, outs: list) -> None:
    weight = ins[1] or outs[0] or params["dtype"]
    ins[:], outs[:] = [ins[0] or "float32", weight], [weight]


_looked_up = exact(lambda p, x, *_: (*x, p["output_dim"]))


@register("Embedding", aliases=("_npx_embedding", "_sparse_Embedding"), infer_type=_embedding_types,
          rows_when=lambda p: p["sparse_grad"], FPartialShape=_looked_up,
          infer_shape=filled(weight=lambda p, x: (p["input_dim"], p["output_dim"])))
def embedding(data: Array, weight: Array, *, input_dim: Count, output_dim: Count, dtype: DType = "float32",
              sparse_grad: bool = False) -> Array:
    """Looks up rows of a table: (...) -> (..., output_dim).

    data: indices of any dtype, clipped to the range; weight: (input_dim, output_dim). `sparse_grad` requests a
    row-sparse gradient.
    """
    if weight.shape != (input_dim, output_dim):
        raise MXNetError(f"operator Embedding: weight must have shape {(input_dim, output_dim)}, got {weight.shape}")
    return rows(weight, whole(data))


@register("_contrib_SparseEmbedding", infer_type=_embedding_types, rows_when=lambda p: True,
          FPartialShape=_looked_up,
          infer_shape=filled(weight=lambda p, x: (p["input_dim"], p["output_dim"])), hidden=("deterministic",))
def sparse_embedding(data: Array, weight: Array, *, input_dim: Count, output_dim: Count, dtype: DType = "float32",
                     sparse_grad: bool = False, deterministic: bool = False) -> Array:
    """The old name of Embedding with a row-sparse gradient; always deterministic."""
    return embedding(data, weight, input_dim=input_dim, output_dim=output_dim)


# ------------------------------------------------------------ along several axes
def _coordinates(indices: Array) -> tuple[Array, ...]:
    return tuple(whole(indices))


def _refuse_out_of_range(params: dict[str, Any], inputs: tuple, outputs: tuple) -> Exception | None:
    for axis, (row, size) in enumerate(zip(np.asarray(inputs[1]).astype(np.int64), inputs[0].shape, strict=False)):
        outside = row[(row < -size) | (row >= size)]
        if outside.size:
            return IndexError(f"operator gather_nd: index {outside[0]} is out of bounds for axis {axis} with size "
                              f"{size}")
    return None


@register("gather_nd", aliases=("_npi_gather_nd", "_npx_gather_nd"), infer_type=gives(lambda p: None, None, "float32"),
          FRefuse=_refuse_out_of_range, refuses_calls_alone=True, FPartialShape=exact(
    lambda p, x, index: index[1:] + x[index[0]:], lambda p, x, index: 1 <= index[0] <= len(x)))
def gather_nd(data: Array, indices: Array) -> Array:
    """data[indices[0], indices[1], ...]: the first axis of `indices` counts axes of data.

    Negative indices count from the end. Indices out of range raise an IndexError when the result of an imperative call
    is read, and result in NaN in graphs.
    """
    if not 1 <= indices.shape[0] <= data.ndim:
        raise MXNetError(f"operator gather_nd: the first axis of indices {indices.shape} must have a size from 1 to "
                         f"the {data.ndim} dimensions of data")
    return data.at[_coordinates(indices)].get(mode="fill")


def _scatter_gradient(heads: tuple, inputs: tuple, outputs: tuple, *, shape: Shape) -> tuple:
    """Every value takes the gradient from where it was written, also those that another one replaced, as in MXNet."""
    return (heads[0][_coordinates(inputs[1])], None)


@register("scatter_nd", infer_type=gives(lambda p: None, None, "float32"), FGradient=_scatter_gradient,
          FPartialShape=lambda p, *_: p["shape"])
def scatter_nd(data: Array, indices: Array, *, shape: Shape) -> Array:
    """Writes the data at indices (as in gather_nd) of an array of zeros of the given shape."""
    return jnp.zeros(shape, data.dtype).at[_coordinates(indices)].set(data)


@register("_backward_gather_nd", infer_type=gives(lambda p: None, None, "float32"),
          FPartialShape=lambda p, *_: p["shape"])
def backward_gather_nd(data: Array, indices: Array, *, shape: Shape) -> Array:
    """Adds the data at indices (as in gather_nd) of an array of zeros of the given shape."""
    return jnp.zeros(shape, data.dtype).at[_coordinates(indices)].add(data)


@register("_scatter_set_nd", aliases=("_npi_scatter_set_nd",), FPartialShape=first,
          infer_type=gives(lambda p: None, None, None, "float32"))
def scatter_set_nd(lhs: Array, rhs: Array, indices: Array, *, shape: Shape) -> Array:
    """Returns lhs with rhs written at indices (as in gather_nd)."""
    return lhs.at[_coordinates(indices)].set(rhs)


def _where_shapes(params: dict[str, Any], ins: list, outs: list) -> None:
    ins[1] = ins[2] = shape = unify(unify(ins[1], ins[2]), outs[0])
    if ins[0] is not None and None not in ins[0]:  # a condition may be a vector or of the full shape
        outs[0] = shape


mark(_where_shapes, complete=True)


@register("where", aliases=("_sparse_where",), infer_shape=_where_shapes, infer_type=chosen)
def where(condition: Array, x: Array, y: Array) -> Array:
    """Selects x where the condition is nonzero, y elsewhere.

    condition: the shape of x and y, or a vector for their first axis; any dtype.
    """
    if x.shape != y.shape or condition.shape not in (x.shape, x.shape[:1]):
        raise MXNetError(f"operator where: x {x.shape} and y {y.shape} must have the same shape, and the condition "
                         f"{condition.shape} must have that shape or one number for each row")
    chosen = condition != 0
    return jnp.where(chosen if condition.ndim == x.ndim else chosen.reshape(-1, *(1,) * (x.ndim - 1)), x, y)


# ------------------------------------------------------------ flat positions
@register("_ravel_multi_index", aliases=("ravel_multi_index",))
def ravel_multi_index(data: Array, *, shape: Shape | None = None) -> Array:
    """Converts coordinates to indices of the flattened array.  data: (dimensions, n) -> (n,), the same dtype.

    shape: shape of the array; its first dimension may be -1.
    """
    if shape is None or data.ndim != 2 or len(shape) != data.shape[0]:
        raise MXNetError(f"operator ravel_multi_index: shape={shape} must have the same number of dimensions as the "
                         f"matrix data {data.shape} has rows")
    position = whole(data[0])
    for row, size in zip(data[1:], shape[1:], strict=True):
        position = position * size + whole(row)
    return position.astype(data.dtype)


@register("_unravel_index", aliases=("unravel_index",))
def unravel_index(data: Array, *, shape: Shape | None = None) -> Array:
    """Converts indices of the flattened array to coordinates.  data: (...) -> (dimensions, ...), the same dtype.

    shape: shape of the array; its first dimension may be -1.
    """
    if not shape:
        raise MXNetError("operator unravel_index: shape is required")
    rest, rows = whole(data), []
    for size in shape[:0:-1]:
        rows.append(lax.rem(rest, jnp.asarray(size, rest.dtype)))
        rest = lax.div(rest, jnp.asarray(size, rest.dtype))
    return jnp.stack([rest, *rows[::-1]]).astype(data.dtype)


# ------------------------------------------------------------ contrib
def _mask_gradient(heads: tuple, inputs: tuple, outputs: tuple, *, axis: int) -> tuple:
    data, index = inputs
    return (jnp.zeros_like(data).at[np.flatnonzero(index)].set(heads[0]), None)


@register("_contrib_boolean_mask", aliases=("_npi_boolean_mask",), eager=True, FGradient=_mask_gradient,
          infer_type=gives(lambda p: None, None, "float32"))
def boolean_mask(data: Array, index: Array, *, axis: int = 0) -> Array:
    """Selects the rows of data where the vector `index` is nonzero; their number depends on its values."""
    if axis != 0 or index.ndim != 1 or index.shape[0] != data.shape[0]:
        raise MXNetError("operator boolean_mask: axis must be 0 and index must have one number for each row; got "
                         f"axis={axis} and shapes {data.shape}, {index.shape}")
    return data[np.flatnonzero(index)]


@register("_contrib_index_copy", infer_type=gives(lambda p: None, None, "int32"), FPartialShape=first)
def index_copy(old_tensor: Array, index_vector: Array, new_tensor: Array) -> Array:
    """Returns old_tensor with the rows at `index_vector` replaced by those of new_tensor."""
    if new_tensor.shape != index_vector.shape + old_tensor.shape[1:]:
        raise MXNetError(f"operator index_copy: new_tensor must have shape "
                         f"{index_vector.shape + old_tensor.shape[1:]}, got {new_tensor.shape}")
    return old_tensor.at[whole(index_vector)].set(new_tensor)


@register("_contrib_index_array", x64=True, infer_type=gives("int64"))
def index_array(data: Array, *, axes: Shape | None = None) -> Array:
    """The coordinates of each element, int64: (...) -> (..., number of axes)."""
    chosen = range(data.ndim) if axes is None else [normalized(a, data.ndim) for a in axes]
    grids = [lax.broadcasted_iota(jnp.int64, data.shape, a) for a in chosen]
    return jnp.stack(grids, -1) if grids else jnp.zeros((*data.shape, 0), jnp.int64)


# ------------------------------------------------------------ counting
@register("_histogram", aliases=("_npi_histogram",), num_outputs=2, x64=True, infer_type=gives(("int64", None)),
          inputs=lambda p: ["data", "bins"] if p["bin_cnt"] is None else ["data"])
def histogram(data: Array, bins: Array | None = None, *, bin_cnt: int | None = None,
              range: Doubles | None = None) -> tuple[Array, Array]:
    """Counts the values between adjacent edges in `bins`, including the last edge; also returns the edges.

    Instead of `bins`, `bin_cnt` requests equal bins of the interval `range`; a single number is the centre of an
    interval of length 1.  -> int64 counts, bins.
    """
    if bins is None:
        if range is None or bin_cnt is None or len(range) != 2 or bin_cnt < 1 or range[0] > range[1]:
            raise MXNetError(f"operator histogram: without bins, bin_cnt={bin_cnt} must be positive, and range={range} "
                             "must be an interval")
        low, high = range if range[0] < range[1] else (range[0] - 0.5, range[1] + 0.5)
        number = np.arange(bin_cnt + 1)
        bins = jnp.asarray(((high * number + low * (bin_cnt - number)) / bin_cnt).astype(data.dtype))
        values = data.ravel()
        inside = (values >= low) & (values <= high)
        # as in MXNet, also for bounds that are equal as integers; a product takes a tenth of a search's time
        guess = (values.astype(jnp.float64) - low) * bin_cnt / (high - low)
        guess = jnp.clip(guess, 0, bin_cnt - 1).astype(jnp.int32)
        place = jnp.clip(guess + (values >= bins[guess + 1]) - (values < bins[guess]), 0, bin_cnt - 1)
    else:
        values = data.ravel()
        inside = (values >= bins[0]) & (values <= bins[-1])
        place = jnp.minimum(jnp.searchsorted(bins, values, side="right") - 1, bins.size - 2)
    counts = jnp.zeros(bins.size - 1, jnp.int64).at[place].add(inside.astype(jnp.int64))
    return counts, bins
