"""Normalisation: batch, layer, group, instance, L2, local response."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, Literal, cast

import jax
import jax.numpy as jnp
from jax import lax

from ... import level
from ...base import MXNetError
from ..by_device import by_device
from ..common import Array, accumulation, by_own_rules, hidden_output, normalized, size_of
from ..infer import agree, elementwise, exact, first, unify
from ..params import Double, Range, Scalar
from ..registry import register

_FEW_CHANNELS = 16  # of a window: more slices than these are more operations than a loop over windows is worth
_SHORT = 1 << 13  # numbers in a row that a GPU reduces in one step; longer rows need partial sums in memory


# ------------------------------------------------------------ the arithmetic that all share
@partial(jax.custom_vjp, nondiff_argnums=(4, 5))
def standardize(data: Array, gamma: Array, beta: Array, near: Array | None, axes: tuple[int, ...],
                eps: float) -> tuple[Array, Array, Array, Array]:
    """gamma·(data - mean) / sqrt(var + eps) + beta with mean and variance over `axes`, in float32 or wider.

    gamma, beta: broadcastable to data, of as many dimensions; near: likewise, a value close to the mean, if that is
    known. Returns also mean, variance and 1 / sqrt(var + eps), which have no gradient, as in MXNet. A derivative of its
    own, because the automatic one takes three times as long.
    """
    return _standardize_forward(data, gamma, beta, near, axes, eps)[0]


def _standardize_forward(data: Array, gamma: Array, beta: Array, near: Array | None, axes: tuple[int, ...],
                         eps: float) -> tuple:
    wide = data.astype(accumulation(data.dtype))
    two = partial(_moments, axes)
    if near is not None:
        mean, var = by_device(
            wide, near, cpu=lambda wide, _: two(wide), default=partial(moments_near, axes))
    elif size_of(tuple(data.shape[a] for a in axes)) <= _SHORT:
        mean, var = by_device(wide, cpu=two, default=partial(moments_merged, axes))
    else:
        mean, var = two(wide)
    scale = lax.rsqrt(var + eps)
    out = ((wide - mean) * (scale * gamma) + beta).astype(data.dtype)
    return (out, mean, var, scale), (data, mean, scale, gamma, beta)


def _sum(x: Array, axes: tuple[int, ...]) -> Array:
    """Returns the sum over the axes with keepdims: `jnp.sum` for float32 or wider, in half as many traced calls."""
    return lax.expand_dims(lax.reduce_sum(x, axes), axes)


def _mean(x: Array, axes: tuple[int, ...]) -> Array:
    """The mean over the axes, which are kept."""
    return _sum(x, axes) / size_of(tuple(x.shape[a] for a in axes))


def _averaged(total: Array, x: Array, axes: tuple[int, ...]) -> Array:
    """A sum over the axes of x as a mean that need not be exact: a product is a part of the loop that reads it, an
    exact quotient is a kernel of its own, to be compiled (docs/design/0020)."""
    count = size_of(tuple(x.shape[a] for a in axes))
    return total * (1 / count) if isinstance(count, int) and count else total / count


def _moments(axes: tuple[int, ...], data: Array) -> tuple[Array, Array]:
    """Mean and variance over the axes, which are kept; the mean of ones is one, so that one divides."""
    mean = _mean(data, axes)
    centred = data - mean
    return mean, _averaged(_sum(centred * centred, axes), data, axes)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def moments_merged(axes: tuple[int, ...], data: Array) -> tuple[Array, Array]:
    """The same in one pass over the data, for which an accelerator has least time, and as exact: mean, sum of squared
    differences and count of parts are merged (Chan, Golub, LeVeque, 1979)."""
    def merge(one: tuple[Array, ...], other: tuple[Array, ...]) -> tuple[Array, ...]:
        (mean, squares, count), (more_mean, more_squares, more) = one, other
        total, apart = count + more, more_mean - mean
        part = more / jnp.maximum(total, 1)
        return mean + apart * part, squares + more_squares + apart * apart * count * part, total
    zero = jnp.zeros((), data.dtype)
    mean, squares, count = lax.reduce((data, jnp.zeros_like(data), jnp.ones_like(data)), (zero,) * 3, merge, axes)
    return jnp.expand_dims(mean, axes), jnp.expand_dims(squares / count, axes)


@moments_merged.defjvp
def _moments_change(axes: tuple[int, ...], data: tuple[Array], change: tuple[Array]) -> tuple:
    mean, var = moments_merged(axes, *data)
    by_mean, by_var = (_mean(x, axes) for x in (change[0], 2 * (data[0] - mean) * change[0]))
    return (mean, var), (by_mean, by_var)


def moments_near(axes: tuple[int, ...], data: Array, near: Array) -> tuple[Array, Array]:
    """The same in one pass of two sums, of differences from `near`: squares of numbers far from 0 would cancel."""
    centred = data - near
    first, second = (_mean(x, axes) for x in (centred, centred * centred))
    return near + first, jnp.maximum(second - first * first, 0)


@by_own_rules
def _standardize_backward(axes: tuple[int, ...], eps: float, saved: tuple, heads: tuple) -> tuple:
    data, mean, scale, gamma, beta = saved
    head = heads[0].astype(mean.dtype)
    unit = (data.astype(mean.dtype) - mean) * scale
    # a gamma that is constant over the axes leaves the sums, which then give its own gradient too
    inside = any(gamma.shape[a] != 1 for a in axes)
    pulled, factor = (head * gamma, scale) if inside else (head, scale * gamma)
    first, second = (_sum(x, axes) for x in (pulled, pulled * unit))
    by_data = factor * (pulled - _averaged(first, data, axes) - unit * _averaged(second, data, axes))
    by_beta, by_gamma = (head, head * unit) if inside else (first, second)
    return by_data.astype(data.dtype), _summed(by_gamma, gamma), _summed(by_beta, beta), None


def _summed(gradient: Array, like: Array) -> Array:
    """The gradient of an array that was broadcast."""
    axes = tuple(i for i, n in enumerate(like.shape) if n == 1 and gradient.shape[i] != 1)
    return _sum(gradient, axes).astype(like.dtype)


standardize.defvjp(_standardize_forward, _standardize_backward)
_standardized = cast(Callable[..., tuple[Array, Array, Array, Array]], standardize)  # `custom_vjp` hides the type


def _along(axis: int, ndim: int, name: str, size: int, *arrays: Array) -> list[Array]:
    """Arrays of `size` elements, shaped so that these lie along `axis`."""
    for a in arrays:
        if a.size != size:
            raise MXNetError(f"{name}: gamma, beta and statistics must have the shape ({size},), got {a.shape}")
    shape = [1] * ndim
    shape[axis] = size
    return [a.reshape(shape) for a in arrays]


def _shapes(size: Callable[[dict[str, Any], tuple], int], vectors: bool = True) -> Callable[..., None]:
    """Shape rule: data and output alike, the other inputs vectors of size(params, shape of data).

    Without `vectors`, known shapes of as many elements are allowed as well.
    """
    def rule(params: dict[str, Any], ins: list, outs: list) -> None:
        ins[0] = outs[0] = unify(ins[0], outs[0])
        if ins[0] is not None:
            count = size(params, ins[0])
            ins[1:] = [shape if not vectors and shape and None not in shape and math.prod(shape) == count else
                       unify(shape, (count,)) for shape in ins[1:]]
    return rule


def _float32_beside_half(params: dict[str, Any], ins: list, outs: list) -> None:
    """Type rule: data and output alike; for half precision data the other inputs are float32."""
    ins[0] = outs[0] = ins[0] or outs[0]
    if ins[0] is not None:
        beside = "float32" if ins[0] in ("float16", "bfloat16") else ins[0]
        agree([beside, *ins[1:]])
        ins[1:] = [t or beside for t in ins[1:]]
        outs[1:] = [t or beside for t in outs[1:]]


def _with_moments(second: str, shape: Callable[[dict[str, Any], tuple], tuple],
                  fits: Callable[..., bool] | None = None) -> dict[str, Any]:
    """Registration of the outputs that `output_mean_var` asks for, of this shape(params, shape of data); `fits` as in
    `exact`."""
    names = ["output", "mean", second]
    return {"FHiddenOutputs": "output_mean_var", "num_outputs": lambda p: 3 if p["output_mean_var"] else 1,
            "output_names": lambda p: names if p["output_mean_var"] else names[:1],
            "FPartialShape": exact(lambda p, x, *_: [x, shape(p, x), shape(p, x)] if p["output_mean_var"] else x,
                                   fits)}


# ------------------------------------------------------------ batch normalisation
def _batch_norm(name: str, inputs: Sequence[Array], *, axis: int, eps: float, momentum: float, fix_gamma: bool,
                use_global_stats: bool, output_mean_var: bool, train: bool, output_scale: bool = False,
                finish: Callable[[Array], Array] = lambda out: out) -> tuple[Array, ...]:
    """The operator; `output_scale`: the third output is 1 / sqrt(var + eps), not var."""
    data, gamma, beta, moving_mean, moving_var = inputs
    axis = normalized(axis, data.ndim)
    if fix_gamma:
        gamma = jnp.ones_like(gamma)
    gamma, beta, mean, var = _along(axis, data.ndim, name, data.shape[axis], gamma, beta, moving_mean, moving_var)
    if train and not use_global_stats:
        others = tuple(a for a in range(data.ndim) if a != axis)
        near = lax.stop_gradient(mean).astype(accumulation(data.dtype))
        out, mean, var, scale = _standardized(data, gamma, beta, near, others, eps)
        moving_mean, moving_var = (
            (momentum * old.astype(new.dtype) + (1 - momentum) * new.reshape(old.shape)).astype(old.dtype)
            for old, new in [(moving_mean, lax.stop_gradient(mean)), (moving_var, lax.stop_gradient(var))])
    else:
        mean, var = lax.stop_gradient(mean), lax.stop_gradient(var)
        scale = lax.rsqrt(var + eps)
        out = ((data - mean) * (scale * gamma) + beta).astype(data.dtype)
    moments = [mean.reshape(-1), (scale if output_scale else var).reshape(-1)] if output_mean_var else []
    return (finish(out), *moments, moving_mean, moving_var)


_BATCH_NORM = """Normalization by the mean and variance of each channel (arXiv:1502.03167), times gamma plus beta.

    data: float, channels along `axis`; gamma, beta, moving_mean, moving_var: (channel,), float32 for half precision
    data -> the shape and dtype of data{what}. In training (without `use_global_stats`) the statistics are the
    batch's, and the moving ones become momentum·moving + (1 - momentum)·batch, on CPUs in the backward pass; otherwise
    the moving ones are used. `fix_gamma` takes gamma as 1 and writes that to it. With `output_mean_var` the outputs
    are also mean and {second}.
    """
_INITIAL = {"moving_mean": {"__init__": '["zero", {}]'}, "moving_var": {"__init__": '["one", {}]'}}


def _register_batch_norm(name: str, compute: Callable, aliases: tuple[str, ...] = (), what: str = "",
                         second: str = "1 / sqrt(var + eps)", **attrs: Any) -> None:
    compute.__doc__ = _BATCH_NORM.format(what=what, second=second)
    register(name, aliases=aliases, mutates=("moving_mean", "moving_var"), infer_type=_float32_beside_half,
             infer_shape=_shapes(lambda p, x: x[normalized(p.get("axis", 1), len(x))], vectors=False),
             FSetInputVarAttrOnCompose=_INITIAL,
             train_when=lambda p: not p["use_global_stats"], FDecay=lambda p: p["momentum"],
             FFixed=lambda p: {"gamma": 1.0} if p["fix_gamma"] else {},
             **_with_moments("var", lambda p, x: (x[p.get("axis", 1)],)), **attrs)(compute)


def _with_axis(name: str, finish: Callable[[Array], Array]) -> Callable:
    def compute(data: Array, gamma: Array, beta: Array, moving_mean: Array, moving_var: Array, *, eps: Double = 1e-3,
                momentum: float = 0.9, fix_gamma: bool = True, use_global_stats: bool = False,
                output_mean_var: bool = False, axis: int = 1, cudnn_off: bool = False,
                min_calib_range: float | None = None, max_calib_range: float | None = None,
                _train: bool = False) -> tuple[Array, ...]:
        return _batch_norm(name, (data, gamma, beta, moving_mean, moving_var), axis=axis, eps=eps, momentum=momentum,
                           fix_gamma=fix_gamma, use_global_stats=use_global_stats, output_mean_var=output_mean_var,
                           train=_train, output_scale=True, finish=finish)
    return compute


_register_batch_norm("BatchNorm", _with_axis("BatchNorm", lambda out: out), ("_npx_batch_norm",))
_register_batch_norm("_contrib_BatchNormWithReLU", _with_axis("BatchNormWithReLU", jax.nn.relu),
                     what=", negative values set to 0")


def _batch_norm_v1(data: Array, gamma: Array, beta: Array, moving_mean: Array, moving_var: Array, *, eps: float = 1e-3,
                   momentum: float = 0.9, fix_gamma: bool = True, use_global_stats: bool = False,
                   output_mean_var: bool = False, _train: bool = False) -> tuple[Array, ...]:
    return _batch_norm("BatchNorm_v1", (data, gamma, beta, moving_mean, moving_var), axis=1, eps=eps,
                       momentum=momentum, fix_gamma=fix_gamma, use_global_stats=use_global_stats,
                       output_mean_var=output_mean_var, train=_train)


def _sync_batch_norm(data: Array, gamma: Array, beta: Array, moving_mean: Array, moving_var: Array, *,
                     eps: Double = 1e-3, momentum: float = 0.9, fix_gamma: bool = True, use_global_stats: bool = False,
                     output_mean_var: bool = False, ndev: int = 1, key: str, _train: bool = False) -> tuple[Array, ...]:
    return _batch_norm("SyncBatchNorm", (data, gamma, beta, moving_mean, moving_var), axis=1, eps=eps,
                       momentum=momentum, fix_gamma=fix_gamma, use_global_stats=use_global_stats,
                       output_mean_var=output_mean_var, train=_train)


_register_batch_norm("BatchNorm_v1", _batch_norm_v1, second="variance", hidden=("moving_mean", "moving_var"))
_register_batch_norm("_contrib_SyncBatchNorm", _sync_batch_norm, second="variance")


# ------------------------------------------------------------ layer, group and instance normalisation


def _one_along(p: dict[str, Any], x: tuple) -> tuple:
    axis = normalized(p["axis"], len(x))
    return (*x[:axis], 1, *x[axis + 1:])


@register("LayerNorm", aliases=("_npx_layer_norm",),
          infer_shape=_shapes(lambda p, x: x[normalized(p["axis"], len(x))]), **_with_moments("std", _one_along))
def layer_norm(data: Array, gamma: Array, beta: Array, *, axis: int = -1, eps: float = 1e-5,
               output_mean_var: bool = False) -> Array | tuple[Array, ...]:
    """gamma·(data - mean) / sqrt(var + eps) + beta with mean and variance along `axis` (arXiv:1607.06450).

    data: any shape, float; gamma, beta: (size of the axis,) -> the shape of data; with `output_mean_var` also the mean
    and sqrt(var + eps), in which the axis has size 1.
    """
    axis = normalized(axis, data.ndim)
    gamma, beta = _along(axis, data.ndim, "LayerNorm", data.shape[axis], gamma, beta)
    out, mean, _, scale = _standardized(data, gamma, beta, None, (axis,), eps)
    return (out, mean.astype(data.dtype), (1 / scale).astype(data.dtype)) if output_mean_var else out


def _need_groups(name: str, data: Array, num_groups: int) -> None:
    if num_groups < 1:
        raise MXNetError(f"{name}: num_groups must be 1 or more, got {num_groups}")
    if data.ndim < 3 or data.shape[1] % num_groups:
        raise MXNetError(f"{name}: data of shape {data.shape} must be (batch, channel, ...) with a number of channels "
                         f"divisible by num_groups={num_groups}")


def _have_groups(p: dict[str, Any], x: tuple, *_: Any) -> bool:
    return len(x) > 2 and p["num_groups"] > 0 and x[1] % p["num_groups"] == 0


@register("GroupNorm", infer_shape=_shapes(lambda p, x: x[1] if level.current() == 2 else p["num_groups"]),
          **_with_moments("std", lambda p, x: (x[0], p["num_groups"]), _have_groups))
def group_norm(data: Array, gamma: Array, beta: Array, *, num_groups: int = 1, eps: float = 1e-5,
               output_mean_var: bool = False) -> Array | tuple[Array, ...]:
    """Normalization of each group of channels of each instance (arXiv:1803.08494), times gamma plus beta.

    data: (batch, channel, ...) float; gamma, beta: (num_groups,), at level 2 (channel,) -> the shape of data; with
    `output_mean_var` also mean and sqrt(var + eps), (batch, num_groups).
    """
    if level.current() == 2:
        return group_norm_by_channel(data, gamma, beta, num_groups=num_groups, eps=eps, output_mean_var=output_mean_var)
    _need_groups("GroupNorm", data, num_groups)
    grouped = data.reshape(data.shape[0], num_groups, -1)
    gamma, beta = _along(1, 3, "GroupNorm", num_groups, gamma, beta)
    out, mean, _, scale = _standardized(grouped, gamma, beta, None, (2,), eps)
    out = out.reshape(data.shape)
    if not output_mean_var:
        return out
    return out, mean[..., 0].astype(data.dtype), (1 / scale[..., 0]).astype(data.dtype)


@register("_npx_group_norm", infer_shape=_shapes(lambda p, x: x[1]),
          **_with_moments("std", lambda p, x: (x[0], p["num_groups"]), _have_groups))
def group_norm_by_channel(data: Array, gamma: Array, beta: Array, *, num_groups: int = 1, eps: float = 1e-5,
                          output_mean_var: bool = False) -> Array | tuple[Array, ...]:
    """Like GroupNorm, but with a gamma and beta for each channel, as in MXNet 2.

    data: (batch, channel, ...) float; gamma, beta: (channel,) -> the shape of data; with `output_mean_var` also
    mean and sqrt(var + eps), (batch, num_groups).
    """
    name = "_npx_group_norm"
    _need_groups(name, data, num_groups)
    _along(1, data.ndim, name, data.shape[1], gamma, beta)
    grouped = data.reshape(data.shape[0], num_groups, data.shape[1] // num_groups, -1)
    gamma, beta = (a.reshape(1, num_groups, -1, 1) for a in (gamma, beta))
    out, mean, _, scale = _standardized(grouped, gamma, beta, None, (2, 3), eps)
    out = out.reshape(data.shape)
    if not output_mean_var:
        return out
    return out, mean[..., 0, 0].astype(data.dtype), (1 / scale[..., 0, 0]).astype(data.dtype)


@register("InstanceNorm", infer_shape=_shapes(lambda p, x: x[1]),
          FPartialShape=exact(first, lambda p, x, *_: len(x) > 2))
def instance_norm(data: Array, gamma: Array, beta: Array, *, eps: float = 1e-3) -> Array:
    """Normalization of each channel of each instance (arXiv:1607.08022), times gamma plus beta.

    data: (batch, channel, space...) float; gamma, beta: (channel,) -> the shape of data.
    """
    if data.ndim < 3:
        raise MXNetError(f"InstanceNorm takes data of at least 3 dimensions, got shape {data.shape}")
    if level.current() == 2 and 0 in data.shape:
        return data  # MXNet 2 does not look at gamma and beta then
    gamma, beta = _along(1, data.ndim, "InstanceNorm", data.shape[1], gamma, beta)
    return _standardized(data, gamma, beta, None, tuple(range(2, data.ndim)), eps)[0]


# ------------------------------------------------------------ norms without parameters
_MODES = {"instance": lambda ndim: tuple(range(1, ndim)), "channel": lambda ndim: (1,),
          "spatial": lambda ndim: tuple(range(2, ndim))}


@register("L2Normalization", infer_shape=elementwise,
          FPartialShape=exact(first, lambda p, x: len(x) > 2 or p["mode"] == "instance" and len(x) > 0))
def l2_normalization(data: Array, *, eps: float = 1e-10,
                     mode: Literal["channel", "instance", "spatial"] = "instance") -> Array:
    """data / sqrt(sum of data² + eps), the sum over each instance, over the channels (axis 1), or over the space.

    data: (batch, channel, space...) float -> the same shape.
    """
    if mode != "instance" and data.ndim < 3:
        raise MXNetError(f"L2Normalization: mode {mode!r} takes data of at least 3 dimensions, got {data.shape}")
    wide = data.astype(accumulation(data.dtype))
    total = jnp.sum(wide * wide, _MODES[mode](data.ndim), keepdims=True)
    return (wide / jnp.sqrt(total + eps)).astype(data.dtype)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _channel_sums(nsize: int, x: Array) -> Array:
    """Sums of the odd number of channels around each: a loop over vectors; XLA's over windows takes single numbers."""
    around = [(nsize // 2, nsize // 2) if axis == 1 else (0, 0) for axis in range(x.ndim)]
    padded = lax.optimization_barrier(jnp.pad(x, around))
    return cast(Array, sum([lax.slice_in_dim(padded, i, i + x.shape[1], axis=1) for i in range(nsize)]))


# each number is in the sums around those that are in its own
_channel_sums.defvjp(lambda nsize, x: (_channel_sums(nsize, x), None),
                     lambda nsize, _, head: (_channel_sums(nsize, head),))


def _power(base: Array, exponent: float) -> Array:
    """base ** exponent by products and roots, else by exp and log: loops over vectors on a CPU, not a call for each."""
    if exponent % 1 == 0:
        return lax.integer_pow(base, int(exponent))
    if exponent % 0.25 == 0 and abs(exponent) < 2:
        return lax.integer_pow(lax.sqrt(lax.sqrt(base)), int(4 * exponent))
    return jnp.exp(exponent * jnp.log(base))


@register("LRN", infer_shape=elementwise, FPartialShape=exact(first, lambda p, x: len(x) > 1),
          **hidden_output("output_norm", "tmp_norm"))
def lrn(data: Array, *, alpha: Scalar = 1e-4, beta: float = 0.75, knorm: Scalar = 2.0,
        nsize: Annotated[int, Range(1)], output_norm: bool = False) -> Array | tuple[Array, Array]:
    """Local response normalization (Krizhevsky et al., 2012): data / (knorm + alpha/nsize · s)^beta.

    s is the sum of data² over the `nsize` channels around each one (`nsize` - 1 if `nsize` is even).
    data: (batch, channel, height, width) float. With `output_norm` also the base of the power.
    """
    wide = data.astype(accumulation(data.dtype))
    width = nsize - 1 + nsize % 2  # as many before as behind, also where nsize is even
    window = [width if axis == 1 else 1 for axis in range(data.ndim)]

    def windows(squares: Array) -> Array:
        around = [(n // 2, n // 2) for n in window]
        return lax.reduce_window(squares, squares.dtype.type(0), lax.add, window, [1] * data.ndim, around)
    total = by_device(wide * wide, default=windows,
                      cpu=partial(_channel_sums, width) if width <= _FEW_CHANNELS else windows)
    norm = knorm + alpha / nsize * total
    out = (wide * _power(norm, -beta)).astype(data.dtype)
    return (out, norm.astype(data.dtype)) if output_norm else out
