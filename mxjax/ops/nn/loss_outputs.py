"""Output layers: operators whose gradient starts a backward pass, independent of the head gradient."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp

from ...base import MXNetError
from ..common import Array, accumulation, need_float, size_of
from ..infer import exact, filled, first, known, unify
from ..params import Range, Scalar
from ..registry import get, register


# ------------------------------------------------------------ softmax with cross-entropy
def _softmax_label(params: dict[str, Any], ins: list, outs: list) -> None:
    data = ins[0] = outs[0] = unify(ins[0], outs[0])
    if not known(data) or ins[1] == data:
        return
    if not params["multi_output"]:
        ins[1] = unify(ins[1], data[:-1], "SoftmaxOutput: label")
        return
    flat = (data[0], size_of(data[2:]))
    allowed = [flat, (data[0], *data[2:]), (data[0], 1, *data[2:])]
    for shape in allowed:
        with contextlib.suppress(MXNetError):
            ins[1] = unify(ins[1], shape)
            return
    raise MXNetError(f"SoftmaxOutput: label must have the shape {flat} or {allowed[1]} for data {data}, got {ins[1]}")


def _per(grad_scale: Any, count: Any) -> Array:
    """Returns the scale of a gradient by a count, in float32 for all dtypes, as in MXNet."""
    return jnp.asarray(grad_scale, jnp.float32) / jnp.asarray(count, jnp.float32)


def _softmax_gradient(heads: tuple, inputs: tuple, outputs: tuple, *, grad_scale: Any, ignore_label: Any,
                      multi_output: bool, use_ignore: bool, preserve_shape: bool, normalization: str, out_grad: bool,
                      smooth_alpha: Any, _train: bool = False) -> tuple:
    label, out = inputs[1], outputs[0]
    if label.shape == out.shape:
        # labels are probabilities
        gradient = (out - label) * grad_scale
    else:
        # (batch, class, rest)
        classes = out.shape[1] if multi_output else out.shape[-1] if preserve_shape else size_of(out.shape[1:])
        probabilities = out.reshape((out.shape[0], classes, -1) if multi_output else (-1, classes, 1))
        if label.size != probabilities.size // classes:
            raise MXNetError(f"SoftmaxOutput: label of shape {label.shape} does not match output of shape {out.shape}; "
                             "multi_output or preserve_shape selects the axis of the classes")
        label = label.reshape(probabilities.shape[0], 1, -1)
        hit = label.astype(jnp.int32) == jnp.arange(classes).reshape(1, -1, 1)
        if multi_output:
            target = hit.astype(out.dtype)
        else:
            target = jnp.where(hit, 1 - smooth_alpha, smooth_alpha / max(classes - 1, 1)).astype(out.dtype)
        gradient = probabilities - target
        ignored = label.astype(jnp.int32) == jnp.asarray(ignore_label).astype(jnp.int32)
        if use_ignore:
            gradient = jnp.where(ignored, 0, gradient)
        count: Any = 1
        if normalization == "batch":
            count = out.shape[0] if multi_output else label.size
        elif normalization == "valid":
            count = jnp.maximum(label.size - jnp.sum(ignored), 1)
        if normalization != "valid":
            count = count * probabilities.shape[2]
        gradient = (gradient * _per(grad_scale, count).astype(out.dtype)).reshape(out.shape)
    # "out_grad" multiplies by the output, as MXNet 1.9 does (not by the head gradient)
    return (gradient * out if out_grad else gradient).astype(out.dtype), None


@register("SoftmaxOutput", aliases=("Softmax",), infer_shape=_softmax_label,
          FPartialShape=exact(first, lambda p, x, label: len(x) > 1),
          FGradient=_softmax_gradient, ignores_heads=True)
def softmax_output(data: Array, label: Array, *, grad_scale: Scalar = 1.0, ignore_label: Scalar = -1.0,
                   multi_output: bool = False, use_ignore: bool = False, preserve_shape: bool = False,
                   normalization: Literal["batch", "null", "valid"] = "null", out_grad: bool = False,
                   smooth_alpha: Annotated[Scalar, Range(0, 1)] = 0.0, _train: bool = False) -> Array:
    """Softmax, with the gradient of the cross-entropy: softmax(data) - one_hot(label).

    data: (batch, ...) float: softmax over all but the batch, over the last axis with `preserve_shape`, over axis 1
    with `multi_output`.  In inference, the softmax of 4-D float32 or bfloat16 data is always over the last axis, as in
    MXNet's oneDNN.
    label: the shape of data without the class axis (class indices), or that of data (probabilities).
    The gradient is multiplied by `grad_scale` and divided by the batch size ("batch"), the number of labels other than
    `ignore_label` ("valid") or the number of positions per instance ("null").  With `use_ignore` it is 0 where the
    label is `ignore_label`; `smooth_alpha` is the probability that label smoothing moves to the other classes.
    """
    need_float("SoftmaxOutput", data)
    _softmax_label({"multi_output": multi_output}, [data.shape, label.shape], [None])
    wide = data.astype(accumulation(data.dtype))
    of_library = not _train and data.ndim == 4 and data.dtype in (jnp.float32, jnp.bfloat16)
    if multi_output or preserve_shape or of_library:
        out = jax.nn.softmax(wide, axis=1 if multi_output else -1)
    else:
        out = jax.nn.softmax(wide.reshape(data.shape[0], -1), axis=-1).reshape(data.shape)
    return out.astype(data.dtype)


# ------------------------------------------------------------ regression
def _regression_label(params: dict[str, Any], ins: list, outs: list) -> None:
    data = ins[0] = outs[0] = unify(ins[0], outs[0])
    if not known(data):
        return
    if ins[1] is None:
        ins[1] = data[:1] if len(data) == 2 and data[1] == 1 else data
    elif known(ins[1]) and (ins[1][:1] != data[:1] or size_of(ins[1]) != size_of(data)):
        raise MXNetError(f"label of shape {ins[1]} does not match data of shape {data}")


def _regression(name: str, function: Callable[[Array], Array], slope: Callable[[Array], Array], doc: str) -> None:
    """Registers `name`: function(data), whose gradient is slope(output - label) over the outputs per instance."""
    def gradient(heads: tuple, inputs: tuple, outputs: tuple, grad_scale: Any) -> tuple:
        label, out = inputs[1], outputs[0]
        per_instance = size_of(label.shape) // label.shape[0]
        scale = _per(grad_scale, per_instance).astype(out.dtype)
        return slope(out - label.reshape(out.shape).astype(out.dtype)) * scale, None

    def compute(data: Array, label: Array, *, grad_scale: Scalar = 1.0) -> Array:
        _regression_label({}, [data.shape, label.shape], [None])
        return function(data)
    compute.__doc__ = (f"{doc}\n\ndata: (batch, ...) float; label: as many values for each; the gradient is multiplied "
                       "by `grad_scale` and divided by the number of values per instance.")
    register(name, aliases=(f"_sparse_{name}",), infer_shape=_regression_label, FPartialShape=exact(first),
             FGradient=gradient, ignores_heads=True)(compute)


_regression("LinearRegressionOutput", lambda x: x, lambda d: d,
            "The data itself, with the gradient of the squared error: data - label.")
_regression("MAERegressionOutput", lambda x: x, lambda d: jnp.where(d > 0, 1, -1).astype(d.dtype),
            "The data itself, with the gradient of the absolute error: 1 where data > label, else -1.")
_regression("LogisticRegressionOutput", jax.nn.sigmoid, lambda d: d,
            "sigmoid(data), with the gradient of the binary cross-entropy: sigmoid(data) - label.")


# ------------------------------------------------------------ support vector machine
def _svm_gradient(heads: tuple, inputs: tuple, outputs: tuple, *, margin: Any, regularization_coefficient: Any,
                  use_linear: bool) -> tuple:
    data, label = inputs
    rows = data.reshape(-1, data.shape[-1])
    hit = label.reshape(-1, 1).astype(jnp.int32) == jnp.arange(rows.shape[1])
    towards = jnp.where(hit, -1, 1)
    slack = margin + towards * rows
    slope = (slack > 0) if use_linear else 2 * jnp.maximum(slack, 0)
    return (towards * slope * regularization_coefficient).reshape(data.shape).astype(data.dtype), None


@register("SVMOutput", infer_shape=filled(label=lambda p, x: x[:-1]),
          FPartialShape=exact(first, lambda p, x, label: len(x) > 0), FGradient=_svm_gradient,
          ignores_heads=True)
def svm_output(data: Array, label: Array, *, margin: Scalar = 1.0, regularization_coefficient: Scalar = 1.0,
               use_linear: bool = False) -> Array:
    """Returns the data unchanged, with the gradient of the hinge loss: squared, or linear with `use_linear`.

    data: (batch, classes) float scores; label: (batch,) class indices.
    """
    unify(label.shape, data.shape[:-1], "SVMOutput: label")
    return data


# ------------------------------------------------------------ sparseness
def _moving_average(data: Array, moving_avg: Array, momentum: Any) -> Array:
    if data.ndim != 2:
        raise MXNetError(f"IdentityAttachKLSparseReg takes data (batch, units), got {data.shape}")
    return (momentum * moving_avg + (1 - momentum) * jnp.mean(data, axis=0)).astype(moving_avg.dtype)


def _sparse_gradient(heads: tuple, inputs: tuple, outputs: tuple, *, sparseness_target: Any, penalty: Any,
                     momentum: Any, _train: bool) -> tuple:
    data, moving_avg = inputs
    mean = _moving_average(data, moving_avg, momentum)
    push = penalty * ((1 - sparseness_target) / (1 - mean) - sparseness_target / mean)
    return (heads[0] + push).astype(data.dtype), None


@register("IdentityAttachKLSparseReg", mutates=("moving_avg",), hidden=("moving_avg",), FGradient=_sparse_gradient,
          infer_shape=filled(moving_avg=lambda p, x: x[1:2]), FDecay=lambda p: p["momentum"])
def identity_attach_kl_sparse_reg(data: Array, moving_avg: Array, *,
                                  sparseness_target: Annotated[Scalar, Range(0, 1)] = 0.1,
                                  penalty: Scalar = 0.001, momentum: Annotated[Scalar, Range(0, 1)] = 0.9,
                                  _train: bool = False) -> tuple[Array, Array]:
    """Returns the data; adds the gradient of a penalty that keeps mean activations near `sparseness_target`.

    The penalty is the Kullback-Leibler divergence of the target and a moving average of the mean activation over the
    batch (Hinton, A practical guide to training RBMs, 2010). Training updates the average, on CPUs in the backward
    pass. data: (batch, units), outputs of a sigmoid.
    """
    return data, _moving_average(data, moving_avg, momentum) if _train else moving_avg


get("IdentityAttachKLSparseReg").set_attr("FSetInputVarAttrOnCompose",
                                          {"moving_avg": {"__init__": '["zero", {}]'}})
