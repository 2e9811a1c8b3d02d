"""Convolutions of 8-bit integers by oneDNN, which multiplies them directly and accumulates in int32.

The operator expresses such a convolution as a separate function, which converts the integers to int32 first. That is
correct with any compiler. This pass replaces it by a call of oneDNN on the 8-bit integers.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

from ..ops.by_device import BYTE_CONVOLUTION
from .onednn import by_onednn
from .rewriting import called, each_equation

__all__ = ["with_byte_convolutions"]


def with_byte_convolutions(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Returns a program whose convolutions of 8-bit integers call oneDNN."""
    return each_equation(closed, _fast)


def _fast(eqn: JaxprEqn) -> JaxprEqn | None:
    inner = called(eqn)
    if inner is None or eqn.params.get("name") != BYTE_CONVOLUTION:
        return None
    avals: list[Any] = [v.aval for v in eqn.invars]
    call = jax.make_jaxpr(jax.jit(functools.partial(_of_bytes, inner.jaxpr)))(
        *[jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals]).eqns[0]
    return call.replace(invars=eqn.invars, outvars=eqn.outvars, source_info=eqn.source_info)


def _of_bytes(jaxpr: Jaxpr, *args: jax.Array) -> jax.Array:
    """Returns the results of the function, without the conversion of its integers before the convolution."""
    values: dict[Any, Any] = dict(zip(jaxpr.invars, args, strict=True))
    for eqn in jaxpr.eqns:
        read = [v.val if isinstance(v, Literal) else values[v] for v in eqn.invars]
        if eqn.primitive is lax.conv_general_dilated_p:
            out: Any = eqn.outvars[0].aval
            data, weight = read
            result = by_onednn(data, weight, out.shape, eqn.params, dtype=np.int32)
        elif eqn.primitive is lax.convert_element_type_p:
            result = read[0]
        else:  # they are transposed
            result = eqn.primitive.bind(*read, **eqn.params)
        values[eqn.outvars[0]] = result
    return values[jaxpr.outvars[0]]
