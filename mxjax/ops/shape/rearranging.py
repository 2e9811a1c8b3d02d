"""Shape manipulation: reshaping, axes, repetition, padding, diagonals, patches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from ...base import MXNetError
from ...util import is_np_shape
from ..common import Array, gives, normalized, size_of
from ..infer import Shape as Known
from ..infer import exact, first, known, mark, unify
from ..params import DoubleScalar, Range, Shape
from ..registry import register

Dims = Sequence[int | None]


# ------------------------------------------------------------ reshape
def reshaped(source: Dims, codes: Sequence[int], reverse: bool = False) -> tuple[int | None, ...]:
    """The result shape for MXNet's reshape codes and a source shape whose dimensions may be unknown (None).

    0 keeps a dimension, -1 is inferred from the others, -2 keeps all remaining ones, -3 multiplies two dimensions, -4
    splits one into the next two numbers (one may be -1). With `reverse` they are read from the right.

    Raises:
        MXNetError: the codes do not fit the source.
    """
    def mistake(reason: str) -> MXNetError:
        return MXNetError(f"operator Reshape: shape={tuple(codes)} does not match an array of shape {tuple(source)}: "
                          f"{reason}")
    dims, todo = list(source), list(codes)
    if reverse:
        dims, todo = dims[::-1], todo[::-1]
    out: list[int | None] = []
    position, computed = 0, None
    steps = iter(todo)
    try:
        for code in steps:
            if code == -1:
                if computed is not None:
                    raise mistake("only one dimension can be -1")
                computed = len(out)
                out.append(1)
                position += 1
            elif code == -2:
                out += dims[position:]
                position = len(dims)
            elif code == -3:
                out.append(_product([dims[position], dims[position + 1]]))
                position += 2
            elif code == -4:
                out += _split(dims[position], next(steps), next(steps), mistake)
                position += 1
            elif code < -4:
                raise mistake(f"{code} has no meaning")
            else:
                out.append(code or dims[position])
                position += 1
    except IndexError:
        raise mistake("it has too few dimensions") from None
    except StopIteration:
        raise mistake("two numbers must follow -4") from None
    if computed is not None:
        total, rest = _product(dims), _product(out)
        if total is not None and rest is not None and total % max(rest, 1):
            raise mistake(f"{total} elements are not divisible by {rest}")
        out[computed] = None if total is None or rest is None else total // max(rest, 1)
    given, made = tuple(dims), tuple(out)
    if known(given) and known(made) and size_of(given) != size_of(made):
        raise mistake(f"{size_of(given)} elements cannot be reshaped to {size_of(made)} elements")
    return tuple(out[::-1] if reverse else out)


def _product(dims: Dims) -> int | None:
    sizes = tuple(dims)
    return size_of(sizes) if known(sizes) else None


def _split(size: int | None, left: int, right: int, mistake: Any) -> list[int | None]:
    if left == right == -1:
        raise mistake("-4 cannot be followed by -1 twice")
    if size is None:
        return [None if n == -1 else n for n in (left, right)]
    left, right = (size // right if left == -1 else left), (size // left if right == -1 else right)
    if left * right != size:
        raise mistake(f"{size} cannot be split into {left} times {right}")
    return [left, right]


def reshape_target(params: dict[str, Any], source: Dims) -> tuple[int | None, ...] | None:
    """Returns the shape that Reshape's parameters ask for; None if they ask for none."""
    if params["shape"]:
        return reshaped(source, params["shape"], params["reverse"])
    target = list(params["target_shape"])  # the form of old versions: 0 is computed, -1 does not exist
    if not target:
        return None
    if params["keep_highest"]:
        target[0] = source[0]
    return reshaped(source, [-1 if n == 0 else n for n in target])


def _reshape_shapes(params: dict[str, Any], ins: list, outs: list) -> None:
    if ins[0] is None:
        return
    target = reshape_target(params, ins[0])
    if target is not None:
        outs[0] = unify(outs[0], target)
    if known(outs[0]) and ins[0].count(None) == 1:
        rest = math.prod(n for n in ins[0] if n is not None)
        if rest and size_of(outs[0]) % rest == 0:
            ins[0] = tuple(size_of(outs[0]) // rest if n is None else n for n in ins[0])


mark(_reshape_shapes, exact=True)


@register("Reshape", aliases=("reshape",), infer_shape=_reshape_shapes)
def reshape(data: Array, *, shape: Shape = (), reverse: bool = False, target_shape: Shape = (),
            keep_highest: bool = False) -> Array:
    """Changes the shape of an array.

    In `shape` 0 keeps a dimension, -1 is inferred, -2 keeps all remaining ones, -3 multiplies two dimensions, -4 splits
    one into the next two numbers; with `reverse` it is read from the right. `target_shape` and `keep_highest` are
    parameters of old versions.
    """
    target = reshape_target({"shape": shape, "reverse": reverse, "target_shape": target_shape,
                      "keep_highest": keep_highest}, data.shape)
    return data if target is None else data.reshape(target)


@register("_contrib_dynamic_reshape", eager=True, infer_type=gives(lambda p: None, None, "int64"))
def dynamic_reshape(data: Array, shape: Array) -> Array:
    """Changes the shape to that in a vector, with the codes of `Reshape`."""
    return data.reshape(reshaped(data.shape, [int(n) for n in np.asarray(shape)]))


@register("Flatten", aliases=("flatten", "_npx_batch_flatten"),
          FPartialShape=exact(lambda p, x: (*x[:1], size_of(x[1:])), lambda p, x: len(x) > 0))
def flatten(data: Array) -> Array:
    """(batch, ...) -> (batch, all the others)."""
    return data.reshape(data.shape[0], size_of(data.shape[1:]))


def dim_range(side: str, begin: int | None, end: int | None, ndim: int) -> tuple[int, int]:
    first, last = (n + ndim if n < 0 else n for n in (begin or 0, ndim if end is None else end))
    if not 0 <= first < last <= ndim:
        raise MXNetError(f"operator reshape_like: {side}_begin={begin}, {side}_end={end} is not a valid range of axes "
                         f"for an array of {ndim} dimensions")
    return first, last


@register("reshape_like", aliases=("_npx_reshape_like",), infer_type=gives(lambda p: None))
def reshape_like(lhs: Array, rhs: Array, *, lhs_begin: int | None = None, lhs_end: int | None = None,
                 rhs_begin: int | None = None, rhs_end: int | None = None) -> Array:
    """Changes the shape of lhs to that of rhs; with ranges of axes, only replaces those of lhs by those of rhs."""
    first, last = dim_range("lhs", lhs_begin, lhs_end, lhs.ndim)
    start, stop = dim_range("rhs", rhs_begin, rhs_end, rhs.ndim)
    shape = lhs.shape[:first] + rhs.shape[start:stop] + lhs.shape[last:]
    if size_of(shape) != lhs.size:
        raise MXNetError(f"operator reshape_like: {lhs.size} elements of shape {lhs.shape} cannot be reshaped to "
                         f"{shape}")
    return lhs.reshape(shape)


@register("shape_array", aliases=("_npx_shape_array",), x64=True, infer_type=gives("int64"))
def shape_array(data: Array) -> Array:
    """The shape as an int64 array."""
    return jnp.array(data.shape, jnp.int64)


@register("size_array", x64=True, infer_type=gives("int64"))
def size_array(data: Array) -> Array:
    """The number of elements as an int64 array of shape (1,)."""
    return jnp.array([data.size], jnp.int64)


# ------------------------------------------------------------ axes
def _transpose_shapes(params: dict[str, Any], ins: list[Known], outs: list[Known]) -> None:
    data, result = ins[0], outs[0]
    if data is not None:
        order = axes_order(params["axes"], len(data))
        result = outs[0] = unify(result, tuple(data[a] for a in order))
    elif result is not None:
        order = axes_order(params["axes"], len(result))
    else:
        return
    ins[0] = unify(data, tuple(result[order.index(i)] for i in range(len(order))))


mark(_transpose_shapes, exact=True)


def axes_order(axes: Sequence[int], ndim: int) -> list[int]:
    if not axes:
        return list(range(ndim))[::-1]
    order = [normalized(a, ndim) for a in axes]
    if sorted(order) != list(range(ndim)):
        raise MXNetError(f"operator transpose: axes={tuple(axes)} is not a permutation of {ndim} axes")
    return order


@register("transpose", infer_shape=_transpose_shapes)
def transpose(data: Array, *, axes: Shape = ()) -> Array:
    """Permutes the axes; reverses them by default."""
    return jnp.transpose(data, axes_order(axes, data.ndim))


def _swapped(p: dict[str, Any], x: tuple) -> tuple:
    one, other = normalized(p["dim1"], len(x)), normalized(p["dim2"], len(x))
    return tuple(x[other if i == one else one if i == other else i] for i in range(len(x)))


@register("SwapAxis", aliases=("swapaxes", "_npi_swapaxes"), FPartialShape=exact(_swapped))
def swap_axis(data: Array, *, dim1: int = 0, dim2: int = 0) -> Array:
    """Exchanges two axes."""
    return jnp.swapaxes(data, normalized(dim1, data.ndim), normalized(dim2, data.ndim))


def _expand_shapes(params: dict[str, Any], ins: list[Known], outs: list[Known]) -> None:
    data, result = ins[0], outs[0]
    if data is not None:
        axis = normalized(params["axis"], len(data) + 1)
        result = outs[0] = unify(result, (*data[:axis], 1, *data[axis:]))
    elif result is not None:
        axis = normalized(params["axis"], len(result))
    else:
        return
    ins[0] = unify(data, result[:axis] + result[axis + 1:])


mark(_expand_shapes, exact=True)


@register("expand_dims", aliases=("_npi_expand_dims",), infer_shape=_expand_shapes)
def expand_dims(data: Array, *, axis: int) -> Array:
    """Adds an axis of size 1 at position `axis`."""
    return jnp.expand_dims(data, normalized(axis, data.ndim + 1))


def squeezed(p: dict[str, Any], x: tuple) -> tuple:
    """The shape without the axes of size 1; raises MXNetError if the parameter names others."""
    axes = [i for i, n in enumerate(x) if n == 1] if p["axis"] is None else [normalized(a, len(x)) for a in p["axis"]]
    if len(set(axes)) < len(axes) or any(x[a] != 1 for a in axes):
        raise MXNetError(f"operator squeeze: axis={p['axis']} must contain different axes of size 1 of shape {x}")
    return tuple(n for i, n in enumerate(x) if i not in axes) or (1,)


@register("squeeze", FPartialShape=exact(squeezed, partly=False))
def squeeze(data: Array, *, axis: Shape | None = None) -> Array:
    """Removes axes of size 1: the given ones, or all; at least one axis is kept."""
    return data.reshape(squeezed({"axis": axis}, data.shape))


@register("reverse", aliases=("flip",), FPartialShape=exact(
    first, lambda p, x: len({normalized(a, len(x)) for a in p["axis"]}) == len(p["axis"])))
def reverse(data: Array, *, axis: Shape) -> Array:
    """Reverses the order of the elements along the given axes."""
    return jnp.flip(data, tuple(normalized(a, data.ndim) for a in axis))


# ------------------------------------------------------------ repetition, padding
def _tiled(p: dict[str, Any], x: tuple) -> tuple:
    """The shape of the whole repeated (FPartialShape)."""
    ndim, reps = max(len(x), len(p["reps"])), p["reps"]
    return tuple(a * b for a, b in zip((1,) * (ndim - len(x)) + x, (1,) * (ndim - len(reps)) + reps, strict=True))


def _tile(name: str) -> None:
    def tile(data: Array, *, reps: Shape) -> Array:
        """Repeats the whole array `reps` times along the axes; the shorter of shape and reps is padded with ones."""
        least = 0 if name.startswith("_np") or is_np_shape() else 1  # elsewhere a size of 0 is an unknown one
        if any(n < least for n in reps):
            raise MXNetError(f"operator {name}: reps={reps} must all be >= {least}")
        return jnp.tile(data, reps)
    register(name, FPartialShape=exact(_tiled, lambda p, x: all(n > 0 for n in p["reps"])))(tile)


_tile("tile")
_tile("_npi_tile")


def _repeated(p: dict[str, Any], x: tuple) -> tuple:
    """The shape of each element repeated (FPartialShape)."""
    if p["axis"] is None:
        return (size_of(x) * p["repeats"],)
    axis = normalized(p["axis"], len(x))
    return (*x[:axis], x[axis] * p["repeats"], *x[axis + 1:])


@register("repeat", aliases=("_np_repeat",), FPartialShape=exact(_repeated, lambda p, x: p["repeats"] > 0))
def repeat(data: Array, *, repeats: Annotated[int, Range(0)], axis: int | None = None) -> Array:
    """Repeats each element, along an axis or in the flattened array; zero repeats result in an array of shape (0,)."""
    if not repeats:
        return jnp.zeros((0,), data.dtype)
    return jnp.repeat(data, repeats, axis if axis is None else normalized(axis, data.ndim))


def _padded(p: dict[str, Any], x: tuple) -> tuple:
    return tuple(n + a + b for n, a, b in zip(x, p["pad_width"][::2], p["pad_width"][1::2], strict=False))


def _can_pad(p: dict[str, Any], x: tuple) -> bool:
    width = p["pad_width"]
    return len(x) in (4, 5) and len(width) == 2 * len(x) and not any(width[:4]) and min(width) >= 0 and \
        (p["mode"] != "reflect" or all(max(width[2 * i:2 * i + 2]) < n for i, n in enumerate(x)))


@register("Pad", aliases=("pad",), FPartialShape=exact(_padded, _can_pad, partly=False))
def pad(data: Array, *, mode: Literal["constant", "edge", "reflect"], pad_width: Shape,
        constant_value: DoubleScalar = 0.0) -> Array:
    """Pads all axes but the first two of an array of 4 or 5 dimensions.

    pad_width: (before_1, after_1, before_2, after_2, ...) for all axes, the first four numbers are zero. The padding
    is `constant_value`, the nearest edge value, or the values reflected at the edge.
    """
    if data.ndim not in (4, 5) or len(pad_width) != 2 * data.ndim or any(pad_width[:4]):
        raise MXNetError(f"operator Pad: pad_width={pad_width} must be two numbers for each axis, zero for the first "
                         f"two axes, of an array of 4 or 5 dimensions; got shape {data.shape}")
    if mode == "reflect" and any(max(pad_width[2 * i:2 * i + 2]) >= data.shape[i] for i in range(2, data.ndim)):
        raise MXNetError(f"operator Pad: pad_width={pad_width} must be smaller than the axes of {data.shape}")
    options = {"constant_values": jnp.asarray(constant_value).astype(data.dtype)} if mode == "constant" else {}
    return jnp.pad(data, list(zip(pad_width[::2], pad_width[1::2], strict=True)), mode, **options)


# ------------------------------------------------------------ diagonals, blocks, patches
@register("diag")
def diag(data: Array, *, k: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The k-th diagonal of two axes, as the last axis; for a vector, the matrix with this diagonal."""
    if data.ndim == 1:
        return jnp.diag(data, k)
    first, second = normalized(axis1, data.ndim), normalized(axis2, data.ndim)
    if first == second or not -data.shape[first] <= k <= data.shape[second]:
        raise MXNetError(f"operator diag: there is no diagonal k={k} for axes {axis1} and {axis2} of {data.shape}")
    return jnp.diagonal(data, k, first, second)


def _check_blocks(name: str, data: Array, block_size: int, axes: Sequence[int], block: int) -> None:
    """Raises an error unless each of these axes consists of blocks of this length."""
    if data.ndim != 4 or block_size < 1 or 0 in data.shape[1:] or any([data.shape[a] % block for a in axes]):
        raise MXNetError(f"operator {name}: block_size={block_size} does not divide an array of shape {data.shape} "
                         "(batch, depth, height, width)")


@register("depth_to_space")
def depth_to_space(data: Array, *, block_size: int) -> Array:
    """(batch, depth·b², height, width) -> (batch, depth, height·b, width·b) with b = block_size."""
    _check_blocks("depth_to_space", data, block_size, (1,), block_size ** 2)
    n, c, h, w = data.shape
    b = block_size
    blocks = data.reshape(n, b, b, c // b ** 2, h, w).transpose(0, 3, 4, 1, 5, 2)
    return blocks.reshape(n, c // b ** 2, h * b, w * b)


@register("space_to_depth")
def space_to_depth(data: Array, *, block_size: int) -> Array:
    """(batch, depth, height·b, width·b) -> (batch, depth·b², height, width) with b = block_size."""
    _check_blocks("space_to_depth", data, block_size, (2, 3), block_size)
    n, c, h, w = data.shape
    b = block_size
    return data.reshape(n, c, h // b, b, w // b, b).transpose(0, 3, 5, 1, 2, 4).reshape(n, c * b ** 2, h // b, w // b)


def _patches(data: Array, kernel: Shape, stride: Shape, dilate: Shape, padding: Shape) -> Array:
    """(batch, channel, *spatial) -> (batch, channel · size of kernel, number of windows)."""
    n = len(kernel)
    stride, dilate, padding = stride or (1,) * n, dilate or (1,) * n, padding or (0,) * n
    if data.ndim != n + 2 or not len(stride) == len(dilate) == len(padding) == n:
        raise MXNetError(f"operator im2col: kernel={kernel}, stride={stride}, dilate={dilate} and pad={padding} must "
                         f"have one number for each spatial axis of (batch, channel, *spatial); got shape {data.shape}")
    data = jnp.pad(data, [(0, 0), (0, 0), *((p, p) for p in padding)])
    for i, (size, step, spread) in enumerate(zip(kernel, stride, dilate, strict=True)):
        axis = 2 + 2 * i  # every spatial axis becomes two: place in the window, window
        count = (data.shape[axis] - spread * (size - 1) - 1) // step + 1
        if count < 1:
            raise MXNetError(f"operator im2col: kernel={kernel} is larger than the padded data")
        data = jnp.take(data, spread * jnp.arange(size)[:, None] + step * jnp.arange(count), axis)
    places, windows = range(2, 2 + 2 * n, 2), range(3, 2 + 2 * n, 2)
    data = data.transpose(0, 1, *places, *windows)
    return data.reshape(data.shape[0], data.shape[1] * size_of(kernel), size_of(data.shape[2 + n:]))


@register("im2col")
def im2col(data: Array, *, kernel: Shape, stride: Shape = (), dilate: Shape = (), pad: Shape = ()) -> Array:
    """The windows of a convolution as columns: (batch, channel, *spatial) -> (batch, channel · kernel, windows)."""
    return _patches(data, kernel, stride, dilate, pad)


@register("col2im")
def col2im(data: Array, *, output_size: Shape, kernel: Shape, stride: Shape = (), dilate: Shape = (),
           pad: Shape = ()) -> Array:
    """Sums columns back into an image of `output_size`: the transpose of im2col."""
    if data.ndim != 3 or data.shape[1] % size_of(kernel):
        raise MXNetError(f"operator col2im: the data must be (batch, channel · {size_of(kernel)}, windows), but has "
                         f"shape {data.shape}")
    image = jax.ShapeDtypeStruct((data.shape[0], data.shape[1] // size_of(kernel), *output_size), data.dtype)
    back = jax.linear_transpose(lambda x: _patches(x, kernel, stride, dilate, pad), image)
    return back(data)[0]
