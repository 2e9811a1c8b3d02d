"""float32 products in float32 on accelerators, as MXNet has them, unless somebody asks for less.

XLA would give GPUs' matrix units TF32 (10 bits of a number's 23) and TPUs' one bfloat16 (7 bits), and say nothing. What
is asked for otherwise counts: MXNET_CUDA_TENSOR_OP_MATH_ALLOW_CONVERSION=1, which lets MXNet do the same, JAX's
`jax_default_matmul_precision`, and a precision that an operator sets itself (docs/design/0023).
"""

from __future__ import annotations

import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, JaxprEqn

from .._support import settings
from .._xla.tracing import aval_of
from .rewriting import each_equation

__all__ = ["allows_conversion", "with_precision"]

_PRODUCTS = (lax.dot_general_p, lax.conv_general_dilated_p)


def allows_conversion() -> bool:
    """Returns whether float32 products may be computed of shorter numbers."""
    return settings.TENSOR_OP_CONVERSION()


def with_precision(closed: ClosedJaxpr) -> ClosedJaxpr:
    """A program for accelerators whose float32 products are computed in float32; those with a precision keep it."""
    return closed if allows_conversion() else each_equation(closed, _in_full)


def _in_full(eqn: JaxprEqn) -> JaxprEqn | None:
    if eqn.primitive not in _PRODUCTS:
        return None
    if eqn.params["precision"] is not None or any(aval_of(v).dtype != np.float32 for v in eqn.invars):
        return eqn
    return eqn.replace(params={**eqn.params, "precision": (lax.Precision.HIGHEST, lax.Precision.HIGHEST)})
