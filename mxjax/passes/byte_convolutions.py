"""Convolutions of 8-bit integers by oneDNN, which multiplies them as they are and adds up in int32.

The operator writes such a convolution as a function of its own, of integers that are made int32 first. That is right as
it is, whoever compiles it; here it becomes oneDNN's, of the 8-bit integers themselves.
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
    """A program whose convolutions of 8-bit integers are oneDNN's."""
    return each_equation(closed, _fast)


def _fast(eqn: JaxprEqn) -> JaxprEqn | None:
    inner = called(eqn)
    if inner is None or eqn.params.get("name") != BYTE_CONVOLUTION:
        return None
    avals: list[Any] = [v.aval for v in eqn.invars]
    made = jax.make_jaxpr(jax.jit(functools.partial(_of_bytes, inner.jaxpr)))(
        *[jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals]).eqns[0]
    return made.replace(invars=eqn.invars, outvars=eqn.outvars, source_info=eqn.source_info)


def _of_bytes(jaxpr: Jaxpr, *args: jax.Array) -> jax.Array:
    """The results of the function, whose integers stay as they are on the way to the convolution."""
    values: dict[Any, Any] = dict(zip(jaxpr.invars, args, strict=True))
    for eqn in jaxpr.eqns:
        read = [v.val if isinstance(v, Literal) else values[v] for v in eqn.invars]
        if eqn.primitive is lax.conv_general_dilated_p:
            out: Any = eqn.outvars[0].aval
            data, weight = read
            made = by_onednn(data, weight, out.shape, eqn.params, dtype=np.int32)
        elif eqn.primitive is lax.convert_element_type_p:
            made = read[0]
        else:  # they are turned
            made = eqn.primitive.bind(*read, **eqn.params)
        values[eqn.outvars[0]] = made
    return values[jaxpr.outvars[0]]
