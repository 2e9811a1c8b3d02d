"""Convolutions by oneDNN, the library that computes them in MXNet, out of jaxlib.

jaxlib has it within, for a pass of XLA's that is not switched on; the operation which that pass would write into a
program can be written by others, too. It is nobody's documented interface: what it says of axes is counted differently
in older releases, and what it is not told rightly ends the process. So it is used only with releases that it was tried
with, on the one system that has it, for numbers and shapes that oneDNN always has an implementation for. Everybody
else has XLA's own convolution (docs/design/0028).
"""

from __future__ import annotations

import functools
import json
import math
import os
import platform
import sys
from collections.abc import Sequence
from typing import Any

import jax
import jaxlib
import numpy as np
from jax import lax
from jax.extend.core import JaxprEqn

__all__ = ["available", "by_onednn"]

_TRIED = ("0.10.", "0.11.", "0.12.")  # releases of jaxlib
_MOST_KERNEL = 128  # elements of one filter's window: a kernel as large as a picture has no fast implementation
_STATUS_RETURNING = 2  # the version of XLA's interface for custom calls in which the pass writes it


@functools.cache
def available() -> bool:
    """Whether convolutions of CPUs' programs may be oneDNN's; MXNET_MKLDNN_ENABLED=0 says no, as in MXNet."""
    return jaxlib.__version__.startswith(_TRIED) and sys.platform == "linux" and platform.machine() == "x86_64" and \
        os.environ.get("MXNET_MKLDNN_ENABLED", "1") not in ("0", "false", "False")


def by_onednn(eqn: JaxprEqn) -> JaxprEqn | None:
    """What computes a convolution by oneDNN; None where it is of a kind that is left to others."""
    (data, weight), out, p = [v.aval for v in eqn.invars], eqn.outvars[0].aval, eqn.params
    if any(aval.dtype != np.float32 or not all(isinstance(n, int) and n > 0 for n in aval.shape)
           for aval in (data, weight, out)):
        return None  # a size that is not a number: a batch of any size (`jax.export`)
    numbers = p["dimension_numbers"]
    if not 3 <= data.ndim <= 5 or p["batch_group_count"] != 1 or any(d != 1 for d in p["lhs_dilation"]):
        return None
    if any(n < 0 for around in p["padding"] for n in around):
        return None
    if math.prod(weight.shape[axis] for axis in numbers.rhs_spec[2:]) > _MOST_KERNEL:
        return None
    call = _call(data.shape, weight.shape, out.shape, numbers, p["window_strides"], p["padding"], p["rhs_dilation"],
                 p["feature_group_count"])
    return call.replace(invars=eqn.invars, outvars=eqn.outvars, source_info=eqn.source_info)


@functools.lru_cache(maxsize=1024)
def _call(data: tuple, weight: tuple, out: tuple, *geometry: Any) -> JaxprEqn:
    def convolution(data: jax.Array, weight: jax.Array) -> jax.Array:
        return _convolution(data, weight, out, *geometry)
    return jax.make_jaxpr(jax.jit(convolution))(*[jax.ShapeDtypeStruct(s, np.float32) for s in (data, weight)]).eqns[0]


def _convolution(data: jax.Array, weight: jax.Array, out: tuple, numbers: lax.ConvDimensionNumbers,
                 strides: Sequence[int], padding: Sequence[tuple[int, int]], dilation: Sequence[int],
                 groups: int) -> jax.Array:
    """Of data and results with channels last, as oneDNN has them fastest; weights it turns by itself."""
    dims = data.ndim
    last = (0, *range(2, dims), 1)  # from batch, channel, space
    data = lax.transpose(data, [numbers.lhs_spec[axis] for axis in last])
    images = {"dims": dims, "data": {"batch_dim": 0, "feature_dim": dims - 1, "spatial_dims": list(range(1, dims - 1))}}
    filters, channels, *kernel = numbers.rhs_spec
    told = {"dims": dims, "input": images, "output": images, "feature_groups": groups,
            "kernel": {"dims": dims, "filter": {"output_feature_dim": filters, "input_feature_dim": channels,
                                                "spatial_dims": kernel}},
            "window": {"size": [weight.shape[axis] for axis in kernel], "strides": strides,
                       "pad_left": [before for before, _ in padding], "pad_right": [behind for _, behind in padding],
                       "window_dilations": dilation}}
    made = jax.ShapeDtypeStruct([out[numbers.out_spec[axis]] for axis in last], np.float32)
    found = jax.ffi.ffi_call("__onednn$convolution", made, custom_call_api_version=_STATUS_RETURNING,
                             legacy_backend_config=json.dumps({"onednn_conv_config": told}))(data, weight)
    order = [numbers.out_spec[axis] for axis in last]  # where each of its axes belongs
    return lax.transpose(found, [order.index(axis) for axis in range(dims)])
