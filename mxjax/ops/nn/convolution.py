"""Convolution, deconvolution and pooling over one to three spatial axes."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..._xla.capacity import refuse_result
from ...base import MXNetError
from ..by_device import MOST_KERNEL, by_device
from ..common import Array, accumulation, broadcast, is_float
from ..infer import computed, exact, filled
from ..params import Count, Lengths, Range, Shape
from ..registry import register
from ._correlation import channels_last, correlate, transposed
from ._depthwise import depthwise, is_depthwise
from .layers import _without

Layout = Literal["NCW", "NCHW", "NCDHW", "NWC", "NHWC", "NDHWC"] | None


def _per_axis(name: str, value: tuple[int, ...], dims: int, default: int) -> tuple[int, ...]:
    """A parameter with a value for each spatial axis; () means the default for all."""
    if not value:
        return (default,) * dims
    if len(value) != dims:
        raise MXNetError(f"{name} has {len(value)} values for {dims} spatial axes")
    return value


def _check_spatial(name: str, shape: tuple, kernel: tuple[int, ...]) -> None:
    if len(shape) != len(kernel) + 2:
        raise MXNetError(f"{name} with a kernel of {len(kernel)} axes requires data of {len(kernel) + 2} axes, got "
                         f"shape {shape}")


def _add_bias(out: Array, bias: Array | None, layout: str | None) -> Array:
    if bias is None:
        return out
    return out + broadcast(bias if channels_last(layout) else bias.reshape((1, -1) + (1,) * (out.ndim - 2)), out.shape)


def _channels(p: dict[str, Any], x: tuple[int, ...]) -> int:
    return x[-1] if channels_last(p.get("layout")) else x[1]


def _outer_inner(p: dict[str, Any], outer: int, inner: int | None) -> tuple[int | None, ...]:
    """The shape of a weight: (outer, inner, *kernel), or with channels last (outer, *kernel, inner)."""
    return (outer, *p["kernel"], inner) if channels_last(p["layout"]) else (outer, inner, *p["kernel"])


def _weight_shape(p: dict[str, Any], x: tuple[int, ...]) -> tuple[int | None, ...]:
    return _outer_inner(p, p["num_filter"], _channels(p, x) // p["num_group"])


def _check_weight(operator: str, weight: Array, expected: tuple[int | None, ...], data: Array) -> None:
    if weight.shape != expected:
        raise MXNetError(f"operator {operator}: weight must have the shape {expected} for data of shape {data.shape}, "
                         f"got {weight.shape}")


def _check_groups(operator: str, bias: Array | None, channels: int, num_filter: int, num_group: int) -> None:
    """Raises MXNetError if groups do not divide the channels, or the bias has another length."""
    if channels % num_group or num_filter % num_group:
        raise MXNetError(f"operator {operator}: num_group={num_group} must divide the {channels} channels of the data "
                         f"and num_filter={num_filter}")
    if bias is not None and bias.shape != (num_filter,):
        raise MXNetError(f"operator {operator}: bias must have the shape {(num_filter,)}, got {bias.shape}")


def _check_steps(operator: str, **steps: tuple[int, ...]) -> None:
    for name, values in steps.items():
        if min(values, default=1) < 1:
            raise MXNetError(f"operator {operator}: {name} must be positive, got {values}")


def _checked(data: Array, weight: Array, bias: Array | None, kernel: tuple, stride: tuple, dilate: tuple, pad: tuple,
             num_filter: int, num_group: int, layout: str | None) -> tuple[tuple, tuple, tuple]:
    """The stride, dilation and padding of a convolution for each axis.

    Raises:
        MXNetError: the arrays are not of shapes that belong together.
    """
    _check_spatial("Convolution", data.shape, kernel)
    dims = len(kernel)
    stride, dilate = _per_axis("stride", stride, dims, 1), _per_axis("dilate", dilate, dims, 1)
    pad = _per_axis("pad", pad, dims, 0)
    _check_steps("Convolution", kernel=kernel, stride=stride, dilate=dilate)
    params = {"num_filter": num_filter, "kernel": kernel, "num_group": num_group, "layout": layout}
    _check_groups("Convolution", bias, _channels(params, data.shape), num_filter, num_group)
    _check_weight("Convolution", weight, _weight_shape(params, data.shape), data)
    space = data.shape[1:-1] if channels_last(layout) else data.shape[2:]
    if any(n + 2 * p <= d * (k - 1) for n, p, d, k in zip(space, pad, dilate, kernel, strict=True)):
        raise MXNetError(f"operator Convolution: the kernel {kernel} with dilate={dilate} is larger than the input of "
                         f"size {space} with pad={pad}")
    return stride, dilate, pad


def convolution(data: Array, weight: Array, bias: Array | None = None, *, kernel: Shape, stride: Shape = (),
                 dilate: Shape = (), pad: Shape = (), num_filter: Count, num_group: Count = 1,
                 workspace: Annotated[int, Range(0)] = 1024, no_bias: bool = False,
                 cudnn_tune: Literal["fastest", "limited_workspace", "off"] | None = None, cudnn_off: bool = False,
                 layout: Layout = None) -> Array:
    """Cross-correlation of data with weight, plus bias.

    data: (batch, channel, space...) or, with a layout that ends in C, (batch, space..., channel);
    weight: (num_filter, channel / num_group, *kernel), channels last (num_filter, *kernel, channel / num_group);
    bias: (num_filter,).  Output space: floor((x + 2 pad - dilate (kernel - 1) - 1) / stride) + 1.
    """
    stride, dilate, pad = _checked(data, weight, bias, kernel, stride, dilate, pad, num_filter, num_group, layout)
    params = {"layout": layout}
    dims, space = len(kernel), data.shape[1:-1] if channels_last(layout) else data.shape[2:]
    large = math.prod(kernel) > MOST_KERNEL
    axes = [i for i in range(dims) if 1 < kernel[i] == space[i] and not pad[i] or large and
            space[i] + 2 * pad[i] - dilate[i] * (kernel[i] - 1) <= _FEW_PLACES * stride[i]]
    if num_group == 1 and 0 < len(axes) < dims:
        return _add_bias(_along_the_rest(data, weight, axes, stride, dilate, pad, channels_last(layout)), bias, layout)

    def whole(data: Array, weight: Array) -> Array:
        return correlate(data, weight, stride, dilate, pad, num_group, layout)

    def product(data: Array, weight: Array) -> Array:
        return as_product(data, weight, kernel, stride, dilate, pad, channels_last(layout))
    if is_depthwise(data, kernel, num_group, channels_last(layout)):
        out = by_device(data, weight, default=whole, cpu=lambda data, weight: depthwise(
            data, weight, stride, dilate, pad, channels_last(layout)))
    elif num_group == 1 and is_float(data.dtype) and \
            product_is_faster(data, num_filter, kernel, stride, dilate, pad, layout):
        better = 1 < math.prod(kernel) <= MOST_KERNEL and _channels(params, data.shape) >= _VERY_FEW
        out = by_device(data, weight, cpu=product, onednn=whole if better else product, default=whole)
    else:
        out = whole(data, weight)
    return _add_bias(out, bias, layout)


def _along_the_rest(data: Array, weight: Array, axes: Sequence[int], stride: tuple, dilate: tuple, pad: tuple,
                    last: bool) -> Array:
    """Returns the convolution for kernels with few places along some axes, which become channels.

    Kernels for words and their vectors, or for time and frequencies, have more elements than any that moves both ways;
    their gradients as such take XLA up to 300 times as long.
    """
    rest, first = [i for i in range(len(stride)) if i not in axes], 1 if last else 2
    around = [(pad[i], pad[i]) if i in axes else (0, 0) for i in range(len(stride))]
    if any(map(any, around)):
        data = jnp.pad(data, [(0, 0), *around, (0, 0)] if last else [(0, 0), (0, 0), *around])
    lengths = [dilate[i] * (weight.shape[first + i] - 1) + 1 for i in axes]
    places = [(data.shape[first + i] - n) // stride[i] + 1 for i, n in zip(axes, lengths, strict=True)]

    def window(at: Sequence[int]) -> Array:
        part = data
        for i, n, place in zip(axes, lengths, at, strict=True):
            part = lax.slice_in_dim(part, place * stride[i], place * stride[i] + n, dilate[i], first + i)
        return part

    def folded(array: Array) -> Array:
        inner, sizes = [first + i for i in axes], [array.shape[first + i] for i in rest]
        outer = [first + i for i in rest]
        order = [0, *outer, *inner, array.ndim - 1] if last else [0, 1, *inner, *outer]
        return array.transpose(order).reshape(array.shape[0], *([*sizes, -1] if last else [-1, *sizes]))
    batch, windows = data.shape[0], list(map(window, itertools.product(*map(range, places))))
    rows = windows[0] if len(windows) == 1 else jnp.stack(windows, 1).reshape(-1, *windows[0].shape[1:])
    rows, weight = folded(rows), folded(weight)
    out = convolution(rows, weight, kernel=tuple(weight.shape[1:-1] if last else weight.shape[2:]),
                       stride=tuple(stride[i] for i in rest), dilate=tuple(dilate[i] for i in rest),
                       pad=tuple(pad[i] for i in rest), num_filter=weight.shape[0], no_bias=True,
                       layout=("NWC", "NHWC")[len(rest) - 1] if last else None)
    if len(windows) == 1:
        return jnp.expand_dims(out, [first + i for i in axes])
    out = out.reshape(batch, *places, *out.shape[1:])
    space = [1 + axes.index(i) if i in axes else first + len(axes) + rest.index(i) for i in range(len(stride))]
    return out.transpose([0, *space, out.ndim - 1] if last else [0, 1 + len(axes), *space])


_FEW_PLACES = 4  # along an axis, for which large kernels are put there one by one
_VERY_FEW = 3  # channels: with fewer a product is faster than oneDNN's convolution with its gradients
_FULL_VECTORS = 16  # channels from which XLA's convolution is the faster one, unless most places have no result


def product_is_faster(data: Array, num_filter: int, kernel: tuple, stride: tuple, dilate: tuple, pad: tuple,
                       layout: str | None) -> bool:
    """Returns whether one matrix product beats XLA's convolution on a CPU, forward and backward
    (benchmarks/convolution.py).
    """
    if math.prod(kernel) == 1:
        return True
    space = data.shape[1:-1] if channels_last(layout) else data.shape[2:]
    outputs = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, d, p in
               zip(space, kernel, stride, dilate, pad, strict=True)]
    channels, count = data.shape[-1 if channels_last(layout) else 1], math.prod(outputs)
    row = math.prod(kernel) * channels
    if not isinstance(data.shape[0], int):  # a batch of any size (`jax.export`)
        return False
    if data.shape[0] * count <= 4 * num_filter:  # large weight for few places: its layout dominates the cost
        return True
    if count <= 16 and data.shape[0] * count * row <= 8 * data.size:  # kernels nearly as large as the picture
        return True
    if channels >= _FULL_VECTORS and 2 * count > math.prod(space):
        return False
    return row <= 512 and data.shape[0] * count * row <= 3_000_000


def as_product(data: Array, weight: Array, kernel: tuple, stride: tuple, dilate: tuple, pad: tuple,
               last: bool) -> Array:
    """A convolution as one matrix product of all windows, laid out side by side, with the weight."""
    dims = len(kernel)
    if not last:
        data, weight = jnp.moveaxis(data, 1, -1), jnp.moveaxis(weight, 1, -1)
    if any(pad):
        data = jnp.pad(data, [(0, 0), *((p, p) for p in pad), (0, 0)])
    space = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(data.shape[1:-1], kernel, stride, dilate,
                                                                  strict=True)]
    batch, channels = data.shape[0], data.shape[-1]

    def strided(place: tuple[int, ...], first: tuple, count: Sequence[int], step: tuple) -> Array:
        start = [o * f for o, f in zip(place, first, strict=True)]
        stop = [b + (n - 1) * s + 1 for b, n, s in zip(start, count, step, strict=True)]
        return lax.slice(data, (0, *start, 0), (batch, *stop, channels), (1, *step, 1))
    if math.prod(space) < math.prod(kernel):  # window by window
        windows = [strided(o, stride, kernel, dilate).reshape(batch, -1) for o in itertools.product(*map(range, space))]
        rows = jnp.stack(windows, axis=1).reshape(batch * math.prod(space), -1)
    else:  # axis by axis: XLA recomputes parts of the data for each slice, so there should be few
        rows = data
        for axis in range(dims, 0, -1):
            if kernel[axis - 1] == stride[axis - 1] == 1:
                continue  # the data as they are
            starts = [o * dilate[axis - 1] for o in range(kernel[axis - 1])]
            length = (space[axis - 1] - 1) * stride[axis - 1] + 1
            rows = jnp.concatenate([lax.slice_in_dim(rows, b, b + length, stride[axis - 1], axis) for b in starts], -1)
        rows = rows.reshape(batch * math.prod(space), -1)
    out = (rows @ weight.reshape(weight.shape[0], -1).T).reshape(batch, *space, weight.shape[0])
    return out if last else jnp.moveaxis(out, dims + 1, 1)


def _data_shape(p: dict[str, Any], x: tuple, out: tuple) -> tuple:
    """Returns the data's shape as far as the output determines it: the batch, and the space at stride 1."""
    space = [old if stride > 1 else new + dilate * (kernel - 1) - 2 * pad for old, (new, kernel, stride, pad, dilate)
             in zip(_space(p, x), _geometry("Convolution", p, out), strict=True)]
    return _image(p, out[0], _channels(p, x), space)


def _space(p: dict[str, Any], x: tuple) -> tuple:
    return x[1:-1] if channels_last(p.get("layout")) else x[2:]


def _image(p: dict[str, Any], batch: Any, channels: Any, space: Sequence) -> tuple:
    return (batch, *space, channels) if channels_last(p.get("layout")) else (batch, channels, *space)


def _geometry(name: str, p: dict[str, Any], x: tuple) -> list[tuple]:
    """(size, kernel, stride, pad, dilate) of each spatial axis."""
    _check_spatial(name, x, p["kernel"])
    dims = len(p["kernel"])
    return list(zip(_space(p, x), p["kernel"], *(_per_axis(n, p.get(n, ()), dims, default) for n, default in
                                                 (("stride", 1), ("pad", 0), ("dilate", 1))), strict=True))


def _convolved(p: dict[str, Any], x: tuple, *_: Any) -> tuple:
    """The shape of the output of a convolution."""
    return _image(p, x[0], p["num_filter"], [
        computed(_places, n + 2 * pad, dilate * (kernel - 1) + 1, stride)
        for n, kernel, stride, pad, dilate in _geometry("Convolution", p, x)])


def _grouped(p: dict[str, Any], x: tuple, *_: Any) -> bool:
    """Returns whether a convolution accepts data of this shape: its groups divide the channels, and its strides move
    on.
    """
    return _channels(p, x) % p["num_group"] == p["num_filter"] % p["num_group"] == 0 and \
        min(*p["kernel"], *p["stride"], *p["dilate"], 1) > 0


def _places(size: int, window: int, stride: int) -> int:
    if size < window:
        raise MXNetError(f"the kernel of width {window} is larger than the padded input of width {size}")
    return (size - window) // stride + 1


for _name, _aliases in [("Convolution", ("_npx_convolution",)), ("Convolution_v1", ())]:
    register(_name, aliases=_aliases, inputs=_without("no_bias", "data", "weight"), infer_shape=filled(
        _data_shape, weight=_weight_shape, bias=lambda p, x: (p["num_filter"],)),
        FPartialShape=exact(_convolved, _grouped))(convolution)


def _transposed_shape(p: dict[str, Any], x: tuple[int, ...]) -> tuple[int | None, ...]:
    return _outer_inner(p, _channels(p, x), p["num_filter"] // p["num_group"])


def _deconvolved(p: dict[str, Any], x: tuple, *_: Any) -> tuple:
    space = p["target_shape"] or [
        stride * (n - 1) + dilate * (kernel - 1) + 1 - 2 * pad + adj for (n, kernel, stride, pad, dilate), adj in
        zip(_geometry("Deconvolution", p, x), _per_axis("adj", p["adj"], len(x) - 2, 0), strict=True)]
    return _image(p, x[0], p["num_filter"], space)


@register("Deconvolution", aliases=("_npx_deconvolution",), inputs=_without("no_bias", "data", "weight"),
          infer_shape=filled(weight=_transposed_shape, bias=lambda p, x: (p["num_filter"],)),
          FPartialShape=exact(_deconvolved, lambda p, x, *_: not p["target_shape"] and _grouped(p, x) and all(
              a < s for a, s in zip(p["adj"], p["stride"] or (1,) * len(x), strict=False))))
def deconvolution(data: Array, weight: Array, bias: Array | None = None, *, kernel: Shape, stride: Shape = (),
                  dilate: Shape = (), pad: Shape = (), adj: Shape = (), target_shape: Shape | None = (),
                  num_filter: Count, num_group: Count = 1, workspace: Annotated[int, Range(0)] = 512,
                  no_bias: bool = True, cudnn_tune: Literal["fastest", "limited_workspace", "off"] | None = None,
                  cudnn_off: bool = False, layout: Layout = None) -> Array:
    """Transposed convolution: the gradient of Convolution with respect to data, as an operator.

    weight: (channel, num_filter / num_group, *kernel).  Output space:
    stride (x - 1) + dilate (kernel - 1) + 1 - 2 pad + adj, or `target_shape`.
    """
    _check_spatial("Deconvolution", data.shape, kernel)
    params = {"num_filter": num_filter, "kernel": kernel, "num_group": num_group, "layout": layout}
    _check_groups("Deconvolution", bias, _channels(params, data.shape), num_filter, num_group)
    _check_weight("Deconvolution", weight, _transposed_shape(params, data.shape), data)
    dims = len(kernel)
    stride, dilate = _per_axis("stride", stride, dims, 1), _per_axis("dilate", dilate, dims, 1)
    _check_steps("Deconvolution", kernel=kernel, stride=stride, dilate=dilate)
    pad, adj = _per_axis("pad", pad, dims, 0), _per_axis("adj", adj, dims, 0)
    if not target_shape and any(a >= s for a, s in zip(adj, stride, strict=True)):
        raise MXNetError(f"Deconvolution: adj={adj} must be smaller than stride={stride}")
    span = [d * (k - 1) for d, k in zip(dilate, kernel, strict=True)]
    space = data.shape[1:-1] if channels_last(layout) else data.shape[2:]
    if target_shape:
        excess = [s * (n - 1) + k + 1 - t for s, n, k, t in zip(stride, space, span, target_shape, strict=True)]
        if min(excess) < 0:
            raise MXNetError(f"Deconvolution: target_shape {target_shape} is larger than the kernel can cover")
        pad, adj = tuple((e + 1) // 2 for e in excess), tuple(e % 2 for e in excess)
    out = transposed(data, weight, stride, dilate, pad, adj, num_group, layout)
    return _add_bias(out, bias, layout)


def _windows(size: int, kernel: int, stride: int, pad: int, convention: str) -> tuple[int, int]:
    """(outputs, padding behind) along one axis."""
    if convention == "same":
        count = -(-size // stride)
    else:
        if size + 2 * pad < kernel:
            raise MXNetError(f"Pooling: the kernel ({kernel}) is larger than the padded input ({size + 2 * pad})")
        count = (size + 2 * pad - kernel) // stride + 1
        if convention == "full":
            count = -(-(size + 2 * pad - kernel) // stride) + 1
    return count, max((count - 1) * stride + kernel - size - pad, 0)


def _counts(size: int, kernel: int, stride: int, pad: int, count: int, include: bool) -> np.ndarray:
    """Returns how many elements each window averages over along one axis (MXNet counts padding up to size + pad)."""
    start = np.arange(count) * stride - pad
    stop = np.minimum(start + kernel, size + pad)
    return stop - start if include else np.minimum(stop, size) - np.maximum(start, 0)


_SMALL_WINDOW = 16  # up to this sum of its sides, slices beat XLA's windows on a CPU: 2 to 5 times with the backward


def _first_of_equals(a: Array, b: Array) -> Array:
    """The maximum, whose gradient goes to one of two equal values."""
    return jnp.where(b > a, b, a)


def _reduced(data: Array, axis: int, size: int, stride: int, count: int, function: Any) -> Array:
    """All windows along one axis reduced to a value each."""
    places = (count - 1) * stride + 1

    def part(values: Array, start: int, length: int, step: int = 1) -> Array:
        return lax.slice_in_dim(values, start, start + length, step, axis)
    if function is lax.add and (size == stride or count == 1):
        apart = part(data, 0, places + size - 1)
        return apart.reshape(*data.shape[:axis], count, size, *data.shape[axis + 1:]).sum(axis + 1)
    if size <= max(3, 2 * stride):  # of more, as many steps as the size has bits take less
        return functools.reduce(function, [part(data, i, places, stride) for i in range(size)])
    # windows of 1, 2, 4, ... at all places; sums put together those that the size is the sum of
    wide, done, pieces, length = 1, 0, [], places + size - 1
    data = part(data, 0, length)
    while 2 * wide <= size:
        if size & wide and function is lax.add:
            pieces.append(part(data, done, places))
            done += wide
        length -= wide
        data = function(part(data, 0, length), part(data, wide, length))
        wide *= 2
    pieces.append(part(data, done, places))
    if function is not lax.add and wide < size:
        pieces.append(part(data, size - wide, places))
    return part(functools.reduce(function, pieces), 0, places, stride)


def _kept(function: Any, alike: Any) -> Any:
    """A function whose value, where it is differentiated, comes from another one that XLA fuses into nothing.

    Otherwise a reader of a function of slices (such as a convolution of windows) recomputes it for each element.
    """
    @jax.custom_jvp
    def kept(x: Array) -> Array:
        return alike(x)

    @jax.custom_jvp
    def alone(x: Array) -> Array:
        return function(x)

    def rule(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
        return kept(*primals), jax.jvp(function, primals, tangents)[1]
    kept.defjvp(rule)
    alone.defjvp(rule)
    return alone


@dataclasses.dataclass(frozen=True)
class _Windows:
    """Windows over the spatial axes of data.

    Attributes:
        first: the first spatial axis.
        axes: for each spatial axis (size, length of a window, stride, padding).
        ends: for each (number of windows, padding behind).
    """

    first: int
    axes: Sequence[tuple[int, int, int, int]]
    ends: Sequence[tuple[int, int]]

    @property
    def count(self) -> list[int]:
        """Returns the number of windows along each axis."""
        return [count for count, _ in self.ends]

    @property
    def behind(self) -> bool:
        """Returns whether there are windows behind the data, of padding alone."""
        return any((count - 1) * stride - pad >= size
                   for (size, _, stride, pad), count in zip(self.axes, self.count, strict=True))

    def reduce(self, values: Array, start: Any, function: Callable) -> Array:
        """Returns the reduction of each window: a maximum or a sum.

        Args:
            values: the data.
            start: the function's neutral element, which the padding has.
            function: `lax.max` or `lax.add`.
        """
        start = np.asarray(start, values.dtype)
        _, kernel, stride, _ = zip(*self.axes, strict=True)
        padding = self._full(values, [(p, behind) for (*_, p), (_, behind) in zip(self.axes, self.ends, strict=True)],
                             (0, 0))
        lengths, steps = self._full(values, kernel, 1), self._full(values, stride, 1)

        def whole(values: Array) -> Array:
            return lax.reduce_window(values, start, function, lengths, steps, padding)

        def channels_behind(values: Array) -> Array:
            """As XLA lays images out on GPUs: the gradient writes neighbours one after the other."""
            order = 0, *range(self.first, values.ndim), *range(1, self.first)

            def last(numbers: Sequence) -> list:
                return [numbers[axis] for axis in order]
            result = lax.reduce_window(lax.transpose(values, order), start, function, last(lengths), last(steps),
                                       last(padding))
            return lax.transpose(result, [order.index(axis) for axis in range(values.ndim)])

        def slices(values: Array) -> Array:
            values = jnp.pad(values, padding, constant_values=start)
            for axis in reversed(range(len(self.axes))):  # of equal values the first one wins, row by row
                values = _reduced(values, self.first + axis, kernel[axis], stride[axis], self.count[axis],
                                  _first_of_equals if function is lax.max else function)
            return values
        if sum(kernel) > _SMALL_WINDOW:
            overlap = any(count > 1 and k > s for k, s, count in zip(kernel, stride, self.count, strict=True))
            return by_device(values, cpu=slices if overlap or function is lax.add else whole, default=whole)
        if function is lax.max and is_float(values.dtype):  # XLA's own on accelerators keeps less for the backward
            return by_device(values, cpu=_kept(slices, whole), cuda=channels_behind, default=whole)
        return _kept(slices, whole)(values)

    def _full(self, values: Array, numbers: Sequence, other: Any) -> tuple:
        """Returns numbers of the spatial axes as those of all axes."""
        return (other,) * self.first + tuple(numbers) + (other,) * (values.ndim - self.first - len(self.axes))


def _pooling(data: Array, *, kernel: Lengths = (), pool_type: Literal["avg", "lp", "max", "sum"] = "max",
             global_pool: bool = False, cudnn_off: bool = False,
             pooling_convention: Literal["full", "same", "valid"] = "valid", stride: Lengths = (), pad: Shape = (),
             p_value: int | None = None, count_include_pad: bool | None = None, layout: Layout = None) -> Array:
    """Pooling: maximum, sum, average or p-norm over windows of the spatial axes.

    data: as for Convolution.  Output space: floor ("valid") or ceil ("full") of (x + 2 pad - kernel) / stride, + 1;
    ceil(x / stride) ("same").  `global_pool` uses the whole space as window.
    """
    dims = data.ndim - 2
    if not 1 <= dims <= 3:
        raise MXNetError(f"Pooling takes data with batch, channel and 1 to 3 spatial axes, got {data.shape}")
    first = 1 if channels_last(layout) else 2
    space = data.shape[first:first + dims]
    if global_pool:
        kernel, stride, pad = space, (1,) * dims, (0,) * dims
    _check_spatial("Pooling", data.shape, kernel)
    stride, pad = _per_axis("stride", stride, dims, 1), _per_axis("pad", pad[:dims], dims, 0)
    if pooling_convention == "same" and any(pad):
        raise MXNetError(f'Pooling: the convention "same" determines the padding, so pad must be 0, got {pad}')
    if pool_type in ("max", "avg") and any(p >= k for p, k in zip(pad, kernel, strict=True)):
        raise MXNetError(f"Pooling: pad={pad} must be smaller than kernel={tuple(kernel)}; otherwise windows would "
                         "contain only padding")
    axes = list(zip(space, kernel, stride, pad, strict=True))
    windows = _Windows(first, axes, [_windows(*axis, pooling_convention) for axis in axes])
    refuse_result((math.prod(data.shape) // max(math.prod(space), 1), *windows.count), data.dtype)
    if pool_type == "max":
        return _largest(data, windows)
    wide = data.astype(accumulation(data.dtype))
    if pool_type == "lp":
        return _p_norm(wide, windows, 2 if p_value is None else p_value).astype(data.dtype)
    total = windows.reduce(wide, 0, lax.add)
    if pool_type == "avg":
        include = count_include_pad is None or count_include_pad
        for axis, (sizes, count) in enumerate(zip(axes, windows.count, strict=True)):
            counts = np.maximum(_counts(*sizes, count, include), 1)  # windows behind the end: 0
            shape = [1] * data.ndim
            shape[first + axis] = count
            total = total / counts.reshape(shape).astype(wide.dtype)
    return total.astype(data.dtype)


def _largest(data: Array, windows: _Windows) -> Array:
    """The maximum of each window."""
    if not is_float(data.dtype):
        return windows.reduce(data, jnp.iinfo(data.dtype).min, lax.max)
    least = jnp.finfo(data.dtype).min  # MXNet's maximum of nothing; NaN is none, either
    result = windows.reduce(jnp.where(data >= least, data, least), -jnp.inf, lax.max)
    return jnp.maximum(result, least) if windows.behind else result


def _p_norm(values: Array, windows: _Windows, power: int) -> Array:
    """The root of the sum of powers in each window, without absolute values, as in MXNet."""
    if power not in (1, 2, 3):
        raise MXNetError(f"Pooling: p_value must be 1, 2 or 3, got {power}")
    total = windows.reduce(values ** power, 0, lax.add)
    if power == 1:
        return total
    some = total != 0  # the root's slope is infinite at 0; MXNet's gradient there is 0
    return jnp.where(some, (jnp.sqrt if power == 2 else jnp.cbrt)(jnp.where(some, total, 1)), 0)


def _pooled(p: dict[str, Any], x: tuple, *_: Any) -> tuple:
    """The shape of the output of a pooling."""
    space = _space(p, x)
    if p["global_pool"]:
        space = (1,) * len(space)
    else:
        space = [computed(lambda size, kernel, stride, pad: _windows(
            size, kernel, stride, pad, p["pooling_convention"])[0], *axis[:4])
                 for axis in _geometry("Pooling", p, x)]
    return _image(p, x[0], _channels(p, x), space)


def _has_windows(p: dict[str, Any], x: tuple) -> bool:
    """Returns whether data of this shape have windows of more than padding."""
    dims = len(x) - 2
    if not 1 <= dims <= 3 or p["pool_type"] == "lp" and p["p_value"] not in (None, 1, 2, 3):
        return False
    pads = p["pad"][:dims]
    if p["global_pool"]:
        return True
    return min(p["kernel"]) > 0 and min(p["stride"], default=1) > 0 and min(pads, default=0) >= 0 and \
        not (p["pooling_convention"] == "same" and any(pads)) and \
        (p["pool_type"] not in ("max", "avg") or all(a < k for a, k in zip(pads, p["kernel"], strict=False)))


register("Pooling", aliases=("_npx_pooling",), FPartialShape=exact(_pooled, _has_windows))(_pooling)


@register("Pooling_v1", FPartialShape=_pooled)
def pooling_v1(data: Array, *, kernel: Lengths = (), pool_type: Literal["avg", "max", "sum"] = "max",
               global_pool: bool = False, pooling_convention: Literal["full", "valid"] = "valid", stride: Lengths = (),
               pad: Shape = ()) -> Array:
    """Pooling as before MXNet 0.12: padding is treated as zeros, and averages divide by the size of the kernel."""
    if not 4 <= data.ndim <= 5:
        raise MXNetError(f"Pooling_v1 takes data (batch, channel, 2 or 3 spatial axes), got {data.shape}")
    if global_pool:
        kernel = data.shape[2:]
    elif pad:
        data = jnp.pad(data, [(0, 0), (0, 0), *((p, p) for p in pad)])
    out = _pooling(data, kernel=kernel, pool_type="sum" if pool_type == "avg" else pool_type,
                   pooling_convention=pooling_convention, stride=() if global_pool else stride)
    return out / math.prod(kernel) if pool_type == "avg" else out
