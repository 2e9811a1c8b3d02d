"""float32 products in float32 on accelerators, as in MXNet, unless lower precision is requested.

By default, XLA uses TF32 (10 of 23 bits) on GPUs and bfloat16 (7 bits) on TPUs. These settings take precedence:
MXNET_CUDA_TENSOR_OP_MATH_ALLOW_CONVERSION=1, which allows the same in MXNet, JAX's `jax_default_matmul_precision`, and
a precision that an operator sets (docs/design/0023).
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
    """Returns whether float32 products may use lower precision."""
    return settings.TENSOR_OP_CONVERSION()


def with_precision(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Returns a program for accelerators whose float32 products use float32; an explicit precision is kept."""
    return closed if allows_conversion() else each_equation(closed, _in_full)


def _in_full(eqn: JaxprEqn) -> JaxprEqn | None:
    if eqn.primitive not in _PRODUCTS:
        return None
    if eqn.params["precision"] is not None or any(aval_of(v).dtype != np.float32 for v in eqn.invars):
        return eqn
    return eqn.replace(params={**eqn.params, "precision": (lax.Precision.HIGHEST, lax.Precision.HIGHEST)})
