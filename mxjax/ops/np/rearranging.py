"""Operators of mx.np that rearrange, join, split, pad and multiply arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, cast

import jax.numpy as jnp
import numpy as np

from ...base import MXNetError
from ..common import Array, no_gradient, normalized, size_of
from ..infer import UNKNOWN, broadcasted, elementwise, exact, first, known, mark, unify
from ..infer import Shape as Known
from ..params import Count, Double, Doubles, DoubleScalar, Shape, Shapes
from ..registry import register
from ..shape.slicing import _joined_shapes, _stacked_shapes, split_v2
from ..shape.slicing import stack as _stack
from .reductions import axes_of

Dims = Sequence[int | None]


# ------------------------------------------------------------ reshape
def _completed(name: str, source: Dims, target: list[int | None], computed: int | None) -> tuple[int | None, ...]:
    """`target` with the dimension at `computed` worked out from the sizes; raises MXNetError if they do not fit."""
    mistake = MXNetError(f"operator {name}: cannot reshape an array of shape {tuple(source)} into {tuple(target)}")
    rest = tuple([n for i, n in enumerate(target) if i != computed])
    if not known(tuple(source)) or not known(rest):
        return tuple(target)
    size = size_of(cast(Sequence[int], source))
    if computed is not None:
        if size_of(rest) == 0 or size % size_of(rest):
            raise mistake
        target[computed] = size // size_of(rest)
    if size_of(cast(Sequence[int], target)) != size:
        raise mistake
    return tuple(target)


def np_reshaped(source: Dims, codes: Sequence[int]) -> tuple[int | None, ...]:
    """The result shape of NumPy's reshape (-1 is inferred)."""
    if any(n < -1 for n in codes) or list(codes).count(-1) > 1:
        raise MXNetError(f"operator _np_reshape: newshape={tuple(codes)} must not contain negative numbers except one "
                         "-1")
    computed = codes.index(-1) if -1 in codes else None
    return _completed("_np_reshape", source, [None if n == -1 else n for n in codes], computed)


def npx_reshaped(source: Dims, codes: Sequence[int], reverse: bool = False) -> tuple[int | None, ...]:
    """The result shape for the codes of npx.reshape.

    -1 is computed, -2 keeps a dimension, -3 drops one of size 1, -4 keeps all that remain, -5 multiplies two, -6 splits
    one into the two numbers that follow (one may be -1). With `reverse` all is read from the right.

    Raises:
        MXNetError: the codes do not fit the source.
    """
    def mistake(reason: str) -> MXNetError:
        return MXNetError(f"operator _npx_reshape: newshape={tuple(codes)} does not match an array of shape "
                          f"{tuple(source)}: {reason}")
    dims, steps = (source[::-1], iter(codes[::-1])) if reverse else (source, iter(codes))
    out: list[int | None] = []
    position, computed = 0, None
    try:
        for code in steps:
            if code >= 0:
                out.append(code)
                position += 1
            elif code == -1:
                if computed is not None:
                    raise mistake("only one dimension can be -1")
                computed = len(out)
                out.append(None)
                position += 1
            elif code == -2:
                out.append(dims[position])
                position += 1
            elif code == -3:
                if dims[position] not in (1, None):
                    raise mistake("-3 only drops a dimension of size 1")
                position += 1
            elif code == -4:
                out += dims[position:]
                position = len(dims)
            elif code == -5:
                pair = dims[position], dims[position + 1]
                out.append(size_of(pair) if known(pair) else None)
                position += 2
            elif code == -6:
                left, right, size = next(steps), next(steps), dims[position]
                if left == right == -1:
                    raise mistake("-6 cannot be followed by -1 twice")
                if size is not None:
                    left, right = (size // right if left == -1 else left), (size // left if right == -1 else right)
                    if left * right != size:
                        raise mistake(f"{size} cannot be split into {left} times {right}")
                out += [None if n == -1 else n for n in (left, right)]
                position += 1
            else:
                raise mistake(f"{code} has no meaning")
    except IndexError:
        raise mistake("it has too few dimensions") from None
    except StopIteration:
        raise mistake("two numbers must follow -6") from None
    result = _completed("_npx_reshape", dims, out, computed)
    return result[::-1] if reverse else result


def _need_c_order(name: str, order: str) -> None:
    if order != "C":
        raise MXNetError(f"operator {name}: order must be 'C', got {order!r}")


def _reshape_shapes(target: Callable[..., tuple]) -> Callable[..., None]:
    def rule(params: dict[str, Any], ins: list, outs: list) -> None:
        if ins[0] is not None and params["order"] == "C":
            result = outs[0] = unify(outs[0], target(params, ins[0]))
            if known(result) and ins[0].count(None) == 1:
                rest = math.prod(n for n in ins[0] if n is not None)
                if rest:
                    ins[0] = tuple(size_of(result) // rest if n is None else n for n in ins[0])
    mark(rule, exact=True)
    return rule


@register("_np_reshape", infer_shape=_reshape_shapes(lambda p, shape: np_reshaped(shape, p["newshape"])))
def np_reshape(a: Array, *, newshape: Shape, order: str = "C") -> Array:
    """Changes the shape; one dimension may be -1, which is inferred."""
    _need_c_order("_np_reshape", order)
    return a.reshape(np_reshaped(a.shape, newshape))


@register("_npx_reshape", aliases=("_npi_reshape",),
          infer_shape=_reshape_shapes(lambda p, shape: npx_reshaped(shape, p["newshape"], p["reverse"])))
def npx_reshape(a: Array, *, newshape: Shape, reverse: bool = False, order: str = "C") -> Array:
    """Changes the shape of an array.

    In `newshape` -1 is inferred, -2 keeps a dimension, -3 drops one of size 1, -4 keeps all remaining ones, -5
    multiplies two, -6 splits one into the next two numbers; with `reverse` it is read from the right.
    """
    _need_c_order("_npx_reshape", order)
    return a.reshape(npx_reshaped(a.shape, newshape, reverse))


# ------------------------------------------------------------ axes
def _transpose_shapes(params: dict[str, Any], ins: list[Known], outs: list[Known]) -> None:
    data, result = ins[0], outs[0]
    like = result if data is None else data
    if like is None:
        return
    order = [normalized(a, len(like)) for a in params["axes"]] if params["axes"] else list(range(len(like)))[::-1]
    if data is not None:
        like = outs[0] = unify(result, tuple(data[a] for a in order))
    ins[0] = unify(data, tuple(like[order.index(a)] for a in range(len(like))))


mark(_transpose_shapes, exact=True)


@register("_np_transpose", infer_shape=_transpose_shapes)
def transpose(a: Array, *, axes: Shape | None = None) -> Array:
    """Permutes the axes (None: reverses them)."""
    if axes and sorted(axes_of("_np_transpose", axes, a.ndim)) != list(range(a.ndim)):
        raise MXNetError(f"operator _np_transpose: axes={axes} must contain each of the {a.ndim} axes exactly once")
    return jnp.transpose(a, axes or None)


@register("_np_moveaxis")
def moveaxis(a: Array, *, source: Shape, destination: Shape) -> Array:
    """Moves axes to other positions; the others keep their order."""
    return jnp.moveaxis(a, source, destination)


@register("_npi_rollaxis")
def rollaxis(a: Array, *, axis: int, start: int = 0) -> Array:
    """Moves an axis to the position before axis `start`."""
    if not -a.ndim <= axis < a.ndim:
        raise MXNetError(f"operator _npi_rollaxis: axis must be in [{-a.ndim}, {a.ndim - 1}], got {axis}")
    if not -a.ndim <= start <= a.ndim:
        raise MXNetError(f"operator _npi_rollaxis: start must be in [{-a.ndim}, {a.ndim}], got {start}")
    return jnp.rollaxis(a, axis, start)


def squeezed(p: dict[str, Any], x: tuple) -> tuple:
    """The shape without axes of size 1 (FPartialShape)."""
    axes = [i for i, n in enumerate(x) if n == 1] if p["axis"] is None else axes_of("_np_squeeze", p["axis"], len(x))
    return tuple(n for i, n in enumerate(x) if i not in axes)


@register("_np_squeeze", FPartialShape=exact(
    squeezed, lambda p, x: p["axis"] is None or all(x[a] == 1 for a in axes_of("_np_squeeze", p["axis"], len(x))),
    partly=False))
def squeeze(a: Array, *, axis: Shape | None = None) -> Array:
    """Removes axes of size 1: all of them, or the given ones."""
    if a.ndim == 0 and axis in ((0,), (-1,)):
        return a
    if axis is not None:
        axis = axes_of("_np_squeeze", axis, a.ndim)
        if any(a.shape[i] != 1 for i in axis):
            raise MXNetError(f"operator _np_squeeze: the axes {axis} of an array of shape {a.shape} must all have size "
                             "1")
    return jnp.squeeze(a, axis)


@register("_npi_flip", infer_shape=elementwise,
          FPartialShape=exact(first, lambda p, x: axes_of("_npi_flip", p["axis"], len(x)) is not None))
def flip(data: Array, *, axis: Shape | None = None) -> Array:
    """Reverses the order of the elements along axes (None: all)."""
    return jnp.flip(data, axes_of("_npi_flip", axis, data.ndim))


@register("_npi_rot90")
def rot90(data: Array, *, k: int = 1, axes: Shape | None = (0, 1)) -> Array:
    """Rotates by 90 degrees k times in the plane of two axes, from the first towards the second."""
    if axes is None or len(axes) != 2:
        raise MXNetError(f"operator _npi_rot90: axes={axes} must be two axes")
    if data.ndim < 2 or len(axes_of("_npi_rot90", axes, data.ndim)) != 2:
        raise MXNetError(f"operator _npi_rot90: axes={axes} is not a plane of an array with {data.ndim} dimensions")
    return jnp.rot90(data, k, axes)


@register("_np_roll", infer_shape=elementwise, FPartialShape=first)
def roll(data: Array, *, shift: Shape | None = None, axis: Shape | None = None) -> Array:
    """Rolls the elements along axes (None: of the flattened array); those beyond the end reappear at the beginning."""
    if shift is None:
        raise MXNetError("operator _np_roll: shift is required")
    if axis is None:
        if len(shift) != 1:
            raise MXNetError(f"operator _np_roll: shift={shift} must be one number if axis is None")
        return jnp.roll(data, shift[0])
    if len(shift) not in (1, len(axis)):
        raise MXNetError(f"operator _np_roll: shift={shift} and axis={axis} must have the same length")
    if any(not -data.ndim <= a < data.ndim for a in axis):
        raise MXNetError(f"operator _np_roll: axis={axis} is out of range for {data.ndim} dimensions")
    return jnp.roll(data, shift * (len(axis) // len(shift)), axis)


def stretched(p: dict[str, Any], x: tuple) -> tuple:
    """The shape in the parameters, where -2 is the array's own dimension (FPartialShape)."""
    lead = len(p["shape"]) - len(x)
    return tuple(x[i - lead] if n == -2 and i >= lead else n for i, n in enumerate(p["shape"]))


@register("_npi_broadcast_to", FPartialShape=exact(
    stretched, lambda p, x: len(x) <= len(p["shape"]) and broadcasted(p, x, stretched(p, x)) == stretched(p, x),
    partly=False))
def broadcast_to(array: Array, *, shape: Shape = ()) -> Array:
    """Broadcasts the array to a shape; -2 keeps a dimension."""
    lead = len(shape) - array.ndim
    target = tuple(array.shape[i - lead] if n == -2 and i >= lead else n for i, n in enumerate(shape))
    return jnp.broadcast_to(array, target)


@register("_np_copy", infer_shape=elementwise)
def copy(a: Array) -> Array:
    """A copy."""
    return a


def lifted(shape: Any, ndim: int) -> Any:
    """The shape of an array with at least so many dimensions."""
    if shape is UNKNOWN or len(shape) >= ndim:
        return shape
    return (1,) * ndim if not shape else (1, *shape, 1)[:ndim] if len(shape) == 1 else (*shape, 1)


def _each_its_own(params: dict[str, Any], ins: list, outs: list) -> None:
    """The type rule of functions of several arrays one by one."""
    ins[:] = outs[:] = [a or b for a, b in zip(ins, outs, strict=True)]


def _at_least(ndim: int) -> None:
    def compute(*arys: Array, num_args: Count) -> tuple[Array, ...]:
        function = getattr(jnp, f"atleast_{ndim}d")
        return tuple(function(a) for a in arys)
    compute.__doc__ = f"The arrays with at least {ndim} dimensions."
    register(f"_np_atleast_{ndim}d", FPartialShape=lambda p, *shapes: [lifted(s, ndim) for s in shapes],
             infer_type=_each_its_own, FGradient=no_gradient, num_outputs=lambda p: p["num_args"])(compute)


for _ndim in (1, 2, 3):
    _at_least(_ndim)


# ------------------------------------------------------------ joins and pieces
def _concatenate_shapes(params: dict[str, Any], ins: list, outs: list) -> None:
    if params["axis"] is not None:
        _joined_shapes(1)({**params, "dim": params["axis"]}, ins, outs)


mark(_concatenate_shapes, exact=True)


@register("_npi_concatenate", infer_shape=_concatenate_shapes, output_names=lambda p: ["out"])
def concatenate(*data: Array, axis: int | None = 0, dim: int = 1) -> Array:
    """Joins arrays along an axis (None: their flattened elements); the other axes agree."""
    if axis is None:
        return jnp.concatenate([d.ravel() for d in data])
    return jnp.concatenate(data, normalized(axis, data[0].ndim))


@register("_npi_stack", infer_shape=_stacked_shapes)
def stack(*data: Array, axis: int = 0) -> Array:
    """Joins arrays along a new axis. All have the number of elements of the first one, and are read in its shape."""
    return _stack(*data, axis=axis)


def _stacking(name: str, function: Callable[..., Array], doc: str, lift: Callable[[tuple], tuple],
              axis: int, output: str) -> None:
    """Registers a join along `axis` (at most the last one) of arrays whose shapes `lift` gives more dimensions."""
    def compute(*data: Array) -> Array:
        return function(data)
    compute.__doc__ = doc
    register(f"_npi_{name}", output_names=lambda p: [output],
             FPartialShape=lambda p, *shapes: _joined(list(map(lift, shapes)), axis))(compute)


def _joined(shapes: list[tuple], axis: int) -> tuple:
    """The shape of arrays joined along an axis (of vectors: their only one)."""
    axis = min(axis, len(shapes[0]) - 1)
    rest: Any = None
    for shape in shapes:
        rest = unify(rest, tuple(None if i == axis or n is UNKNOWN else n for i, n in enumerate(shape)))
    return tuple(sum(s[axis] for s in shapes) if i == axis else UNKNOWN if n is None else n
                 for i, n in enumerate(rest))


_stacking("vstack", jnp.vstack, "Joins arrays along the first axis; vectors count as rows.",
          lambda s: lifted(s, 2), 0, "output")
_stacking("hstack", jnp.hstack, "Joins arrays along the second axis, vectors along the first.",
          lambda s: lifted(s, 1), 1, "out")
_stacking("dstack", jnp.dstack, "Joins arrays along the third axis, which those of fewer dimensions get.",
          lambda s: lifted(s, 3), 2, "out")
_stacking("column_stack", jnp.column_stack, "Joins arrays along the second axis; vectors count as columns.",
          lambda s: s if len(s) > 1 else (*s, 1) if s else (1, 1), 1, "output")


def _splitting(name: str, axis_of: Callable[[int], int]) -> None:
    def compute(data: Array, *, indices: Shape, axis: int = 1, squeeze_axis: bool = False,
                sections: int = 0) -> tuple[Array, ...]:
        along = axis_of(data.ndim)
        if sections and data.shape[along] % sections:
            raise MXNetError(f"operator {name}: an axis of size {data.shape[along]} cannot be split into {sections}")
        return split_v2(data, indices=indices, axis=along, squeeze_axis=squeeze_axis, sections=sections)
    compute.__doc__ = "Splits into `sections` equal pieces, or at the given start indices."
    register(name, num_outputs=lambda p: p["sections"] or len(p["indices"]))(compute)


_splitting("_npi_hsplit", lambda ndim: 1 if ndim > 1 else 0)
_splitting("_npi_dsplit", lambda ndim: 2)


# ------------------------------------------------------------ diagonals and triangles
@register("_np_diag")
def diag(data: Array, *, k: int = 0) -> Array:
    """The k-th diagonal of a matrix, or a matrix with this vector on it."""
    if data.ndim not in (1, 2):
        raise MXNetError(f"operator _np_diag takes a vector or a matrix, got shape {data.shape}")
    return jnp.diag(data, k)


@register("_np_diagflat")
def diagflat(data: Array, *, k: int = 0) -> Array:
    """A matrix with the flattened data on its k-th diagonal."""
    return jnp.diagflat(data, k)


def _without_two(p: dict[str, Any], x: tuple) -> tuple:
    gone = [normalized(p[a], len(x)) for a in ("axis1", "axis2")]
    return tuple(n for i, n in enumerate(x) if i not in gone)


@register("_np_diagonal", FPartialShape=lambda p, x: (*_without_two(p, x), UNKNOWN))
def diagonal(data: Array, *, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The diagonals of the matrices in two axes, as a new last axis."""
    return jnp.diagonal(data, offset, axis1, axis2)


@register("_np_trace", FPartialShape=_without_two)
def trace(data: Array, *, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The sums of the diagonals of the matrices in two axes."""
    return jnp.sum(jnp.diagonal(data, offset, axis1, axis2), -1, dtype=data.dtype)


@register("_npi_tril")
def tril(data: Array, *, k: int = 0) -> Array:
    """The numbers on and below the k-th diagonal, with zeros above; for a vector, of the matrix with equal rows."""
    return jnp.tril(data if data.ndim > 1 else jnp.broadcast_to(data, (data.size, data.size)), k)


@register("_npi_triu")
def triu(data: Array, *, k: int = 0) -> Array:
    """The elements on and above the k-th diagonal, zeros below; for a vector, of the matrix with equal rows."""
    return jnp.triu(data if data.ndim > 1 else jnp.broadcast_to(data, (data.size, data.size)), k)


@register("_npi_fill_diagonal", FPartialShape=first)
def fill_diagonal(a: Array, *, val: Doubles, wrap: bool = False) -> Array:
    """Fills the main diagonal with numbers, which are repeated as needed.

    wrap: restarts the diagonal after the last column, below a gap of one row.
    """
    if a.ndim < 2 or a.ndim > 2 and len(set(a.shape)) > 1:
        raise MXNetError("operator _npi_fill_diagonal takes a matrix, or an array whose axes have the same size, got "
                         f"shape {a.shape}")
    if not val:
        raise MXNetError("operator _npi_fill_diagonal: val is empty")
    step = a.shape[1] + 1 if a.ndim == 2 else 1 + sum(math.prod(a.shape[:i]) for i in range(1, a.ndim))
    end = a.shape[1] ** 2 if a.ndim == 2 and not wrap else a.size
    places = np.arange(0, min(end, a.size), step)
    return a.reshape(-1).at[places].set(np.resize(np.asarray(val), len(places)).astype(a.dtype)).reshape(a.shape)


def _one_dtype(name: str, a: Array, b: Array) -> None:
    if a.dtype != b.dtype:
        raise MXNetError(f"operator {name}: the dtypes of both arrays must match, got {a.dtype} and {b.dtype}")


@register("_npi_kron")
def kron(a: Array, b: Array) -> Array:
    """The Kronecker product: b times each element of a."""
    _one_dtype("_npi_kron", a, b)
    return jnp.kron(a, b)


@register("_npi_cross")
def cross(a: Array, b: Array, *, axisa: int = -1, axisb: int = -1, axisc: int = -1) -> Array:
    """The cross products of vectors of 2 or 3 elements along `axisa` and `axisb`; a number for two vectors of 2."""
    _one_dtype("_npi_cross", a, b)
    if a.dtype not in (jnp.float32, jnp.float64):
        raise MXNetError(f"operator _npi_cross takes float32 and float64, got {a.dtype}")
    sizes = a.shape[normalized(axisa, a.ndim)], b.shape[normalized(axisb, b.ndim)]
    if not {2, 3}.issuperset(sizes):
        raise MXNetError(f"operator _npi_cross takes vectors of 2 or 3 elements, got {sizes[0]} and {sizes[1]}")
    # not jnp.cross: newer versions take no vectors of 2 elements
    (a0, a1, a2), (b0, b1, b2) = (
        [x[..., i] if i < x.shape[-1] else jnp.zeros_like(x[..., 0]) for i in range(3)]
        for x in (jnp.moveaxis(a, axisa, -1), jnp.moveaxis(b, axisb, -1)))
    last = a0 * b1 - a1 * b0
    if sizes == (2, 2):
        return last
    return jnp.moveaxis(jnp.stack([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, last], -1), -1, axisc)


# ------------------------------------------------------------ extension and differences
def _pad_shapes(params: dict[str, Any], ins: list, outs: list) -> None:
    if ins[0] is not None:
        outs[0] = unify(outs[0], tuple(None if n is None else n + a + b
                                       for n, (a, b) in zip(ins[0], params["pad_width"], strict=False)))


@register("_npi_pad", infer_shape=_pad_shapes)
def pad(data: Array, *, pad_width: Shapes, mode: Literal["constant", "edge", "maximum", "minimum", "reflect",
                                                      "symmetric"] = "constant",
        constant_value: DoubleScalar = 0.0, reflect_type: str = "even") -> Array:
    """Pads the array before and after each axis.

    pad_width: a pair (before, after) for each axis.
    """
    if len(pad_width) != data.ndim or any(len(pair) != 2 or min(pair) < 0 for pair in pad_width):
        raise MXNetError(f"operator _npi_pad: pad_width={pad_width} must contain a pair of sizes for each axis of "
                         f"{data.shape}")
    if mode == "constant":
        return jnp.pad(data, pad_width, constant_values=jnp.asarray(constant_value).astype(data.dtype))
    return jnp.pad(data, pad_width, mode)


@register("_npi_diff")
def diff(a: Array, *, n: int = 1, axis: int = -1) -> Array:
    """The n-th differences of adjacent elements along an axis."""
    if n < 0:
        raise MXNetError(f"operator _npi_diff: n must not be negative, got {n}")
    axis = normalized(axis, a.ndim)
    for _ in range(n):
        size = a.shape[axis]
        a = jnp.take(a, np.arange(1, size), axis) - jnp.take(a, np.arange(max(size - 1, 0)), axis)
    return a


def _ediff1d_inputs(params: dict[str, Any]) -> list[str]:
    given = params["to_begin_arr_given"] + params["to_end_arr_given"]
    return ["input1", "input2", "input3"][:1 + given]


@register("_npi_ediff1d", inputs=_ediff1d_inputs)
def ediff1d(input1: Array, input2: Array | None = None, input3: Array | None = None, *,
            to_begin_arr_given: bool = False, to_end_arr_given: bool = False, to_begin_scalar: Double | None = None,
            to_end_scalar: Double | None = None) -> Array:
    """The differences of adjacent elements of the flattened array, with optional elements before and after them."""
    arrays = iter(a for a in (input2, input3) if a is not None)
    parts = [jnp.diff(input1.ravel())]
    for given, number, place in ((to_begin_arr_given, to_begin_scalar, 0), (to_end_arr_given, to_end_scalar, 2)):
        if given or number is not None:
            extra = next(arrays).ravel() if given else np.full(1, number)
            parts.insert(place, jnp.asarray(extra.astype(input1.dtype)))
    return jnp.concatenate(parts)


# ------------------------------------------------------------ products
def _dot_shapes(params: dict[str, Any], ins: list, outs: list) -> None:
    """The summed axes agree."""
    a, b = ins
    if a and b:
        size = unify(a[-1:], b[max(len(b) - 2, 0):][:1], "the summed axis")
        ins[0] = a[:-1] + size
        ins[1] = b[:-2] + size + b[-1:] if len(b) > 1 else size


@register("_np_dot", infer_shape=_dot_shapes,
          FPartialShape=exact(lambda p, a, b: a[:-1] + b[:-2] + b[-1:] * (len(b) > 1) if a and b else a or b))
def dot(a: Array, b: Array) -> Array:
    """Product of vectors, matrices, numbers, or sums over the last axis of a and the second to last (or only) of b."""
    if a.ndim and b.ndim and a.shape[-1] != b.shape[max(b.ndim - 2, 0)]:
        raise MXNetError(f"operator _np_dot: the last axis of {a.shape} does not match {b.shape}")
    return jnp.dot(a, b)


@register("_npi_matmul", infer_shape=_dot_shapes, output_names=lambda p: ["out"], FPartialShape=exact(lambda p, a, b: (
    *broadcasted(p, a[:-2], b[:-2]), *a[-2:-1], *b[-1:] * (len(b) > 1)), lambda p, a, b: len(a) > 0 < len(b)))
def matmul(a: Array, b: Array) -> Array:
    """Matrix products over the last two axes, the others broadcast; vectors count as rows and columns."""
    if not a.ndim or not b.ndim or a.shape[-1] != b.shape[max(b.ndim - 2, 0)]:
        raise MXNetError(f"operator _npi_matmul: shapes {a.shape} and {b.shape} cannot be multiplied")
    return jnp.matmul(a, b)


@register("_npi_tensordot_int_axes", FPartialShape=lambda p, a, b: a[:len(a) - p["axes"]] + b[p["axes"]:])
def tensordot_int_axes(a: Array, b: Array, *, axes: int) -> Array:
    """Sums of products over the last `axes` axes of a and the first ones of b."""
    return jnp.tensordot(a, b, axes)


def _without(shape: tuple, axes: Sequence[int]) -> tuple:
    gone = [normalized(a, len(shape)) for a in axes]
    return tuple(n for i, n in enumerate(shape) if i not in gone)


@register("_npi_tensordot", FPartialShape=lambda p, a, b: (
    _without(a, p["a_axes_summed"]) + _without(b, p["b_axes_summed"])))
def tensordot(a: Array, b: Array, *, a_axes_summed: Shape, b_axes_summed: Shape) -> Array:
    """Sums of products over pairs of axes of a and b."""
    return jnp.tensordot(a, b, (a_axes_summed, b_axes_summed))


@register("_npi_einsum")
def einsum(*data: Array, subscripts: str = "", optimize: int = 0) -> Array:
    """Sums of products in Einstein's notation, e.g. "ij,jk->ik"."""
    return jnp.einsum(subscripts, *data, optimize="optimal" if optimize else False).astype(data[0].dtype)


@register("_npi_polyval", infer_shape=lambda p, ins, outs: outs.__setitem__(0, unify(ins[1], outs[0])))
def polyval(p: Array, x: Array) -> Array:
    """Evaluates a polynomial at x.  p: (n,) coefficients, the highest power first; x: any shape -> its shape."""
    if p.ndim != 1:
        raise MXNetError(f"operator _npi_polyval: p must be a vector, got shape {p.shape}")
    return jnp.polyval(p, x)
