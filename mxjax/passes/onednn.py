"""Convolutions and some products by oneDNN, which MXNet uses, too, and which jaxlib contains.

jaxlib contains it for a pass of XLA that is disabled, and this module writes the operations of that pass into programs.
The interface is not documented: older releases number axes differently, and a wrong description ends the process. So it
is used only with releases of jaxlib that were tested one by one, on the only system that contains it, for dtypes and
shapes for which oneDNN always has an implementation. Otherwise XLA computes the convolution (docs/design/0028).
"""

from __future__ import annotations

import functools
import json
import math
import platform
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import jaxlib
import numpy as np
from jax import lax
from jax.extend.core import JaxprEqn

from .._support import settings
from .._xla.program_files import kept_in_no_file
from .._xla.tracing import aval_of
from ..ops.by_device import MOST_KERNEL

__all__ = ["available", "by_onednn", "in_no_file", "is_convolution", "laid", "last", "may_compute", "product_of_rows"]

_TRIED = frozenset(("0.10.0", "0.10.1", "0.10.2", "0.11.0", "0.11.1", "0.11.2", "0.12.0", "0.12.0.1"))
_TARGET = "__onednn$"
_STATUS_RETURNING = 2  # the version of XLA's interface for custom calls that the pass uses


@functools.cache
def available() -> bool:
    """Returns whether programs for CPUs may call oneDNN; MXNET_MKLDNN_ENABLED=0 disables it, as in MXNet."""
    version = jaxlib.__version__  # pyright: ignore[reportAttributeAccessIssue, reportPrivateImportUsage]  public
    return version in _TRIED and sys.platform == "linux" and platform.machine() == "x86_64" and \
        settings.MKLDNN_ENABLED()


def may_compute(eqn: JaxprEqn) -> bool:
    """Returns whether oneDNN has a fast implementation of a float32 convolution over one to three non-empty axes.
    """
    p, weight = eqn.params, aval_of(eqn.invars[1]).shape
    return p["batch_group_count"] == max(p["lhs_dilation"]) == 1 and \
        all(n >= 0 for around in p["padding"] for n in around) and \
        math.prod(weight[axis] for axis in p["dimension_numbers"].rhs_spec[2:]) <= MOST_KERNEL


def is_convolution(eqn: JaxprEqn) -> bool:
    """Returns whether this equation is a convolution by oneDNN."""
    return eqn.primitive.name == "ffi_call" and eqn.params["target_name"] == _TARGET + "convolution"


def by_onednn(data: jax.Array, weight: jax.Array, out_shape: Sequence[int], p: dict[str, Any],
              operations: Sequence[str] = (), operands: Sequence[jax.Array] = (), dtype: Any = np.float32) -> jax.Array:
    """Computes a convolution. Data and result have channels last, for which oneDNN is fastest; it transposes weights
    itself.

    out_shape: the result's shape; p: the parameters of JAX's operation; operations: operations on the result with these
    operands: "BIAS" adds a vector, "BINARY_ADD" an image with channels last, "RELU" clips; dtype: the
    result's, float32, or int32 of 8-bit integers.
    """
    numbers, dims = p["dimension_numbers"], data.ndim
    images = {"dims": dims, "data": {"batch_dim": 0, "feature_dim": dims - 1, "spatial_dims": list(range(1, dims - 1))}}
    filters, channels, *kernel = numbers.rhs_spec
    config = {"dims": dims, "input": images, "output": images, "feature_groups": p["feature_group_count"],
            "kernel": {"dims": dims, "filter": {"output_feature_dim": filters, "input_feature_dim": channels,
                                                "spatial_dims": kernel}},
            "window": {"size": [weight.shape[axis] for axis in kernel], "strides": p["window_strides"],
                       "pad_left": [before for before, _ in p["padding"]],
                       "pad_right": [behind for _, behind in p["padding"]], "window_dilations": p["rhs_dilation"]}}
    if operations:
        config["fusions"] = {"ops": list(operations)}
    batch, filters, *places = [out_shape[axis] for axis in numbers.out_spec]
    result = _call("convolution", (batch, *places, filters), {"onednn_conv_config": config},
                   last(data, numbers.lhs_spec), weight, *operands, dtype=dtype)
    return laid(result, (0, dims - 1, *range(1, dims - 1)), numbers)


def in_no_file(program: Callable[..., Any], called: Iterable[str]) -> Callable[..., Any]:
    """Returns a program that JAX's compilation cache ignores if it calls oneDNN; otherwise the program itself.

    XLA cannot serialize such a call: it mistakes it for another kind of call, and reads fields that do not exist. JAX
    compiles a program again in a later call if arrays are committed to a device.

    Args:
        program: a jitted function, or a function that compiles one.
        called: the targets of the calls in it.
    """
    if not any(target.startswith(_TARGET) for target in called):
        return program

    def unkept(*args: Any) -> Any:
        with kept_in_no_file():
            return program(*args)
    return unkept


def product_of_rows(left: jax.Array, right: jax.Array) -> jax.Array:
    """Computes left.T @ right, the sum of the products of all rows; faster than XLA for many rows."""
    shape = left.shape[1], right.shape[1]
    return _call("matmul", shape, {"onednn_matmul_config": {"transpose_a": True}}, left, right)


def _call(name: str, out_shape: Sequence[int], config: dict[str, Any], *operands: jax.Array,
          dtype: Any = np.float32) -> jax.Array:
    return jax.ffi.ffi_call(_TARGET + name, jax.ShapeDtypeStruct(tuple(out_shape), dtype),
                            custom_call_api_version=_STATUS_RETURNING,
                            legacy_backend_config=json.dumps(config))(*operands)


def last(image: jax.Array, spec: Sequence[int]) -> jax.Array:
    """Returns an image with channels last; spec: the axes of batch, channels and space."""
    return lax.transpose(image, (spec[0], *spec[2:], spec[1]))


def laid(result: jax.Array, axes: Sequence[int], numbers: lax.ConvDimensionNumbers) -> jax.Array:
    """Returns the result in the order of the convolution; axes: the current axes of batch, channels and space."""
    return lax.transpose(result, [axes[numbers.out_spec.index(axis)] for axis in range(result.ndim)])
