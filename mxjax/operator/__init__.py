"""Custom operators, through any of MXNet's interfaces; all of them use the same registry.

    register_op            NNVM-style: name, inputs, attributes, FCompute; or `mxjax.ops.register` on a function
    register_simple_op     a unary or binary function and its gradient by kind of argument
    register_property      the legacy OperatorProperty / Operator pair, traced into the compiled program
    register               CustomOp / CustomOpProp: any Python, run by the engine (also NumpyOp, NDArrayOp)
    from_jax               a JAX function as it is
"""

import ctypes

from .. import symbol
from ..array.dense import NDArray
from ..base import NDArrayHandle, check_call, py_str
from . import _numpy_fallbacks as _numpy_fallbacks
from ._custom import CustomOp, CustomOpProp, NDArrayOp, NumpyOp, PythonOp, register
from ._jax import from_jax
from ._listing import (
    OperatorArguments,
    get_all_registered_operators,
    get_all_registered_operators_grouped,
    get_operator_arguments,
)
from ._nnvm import register_op
from ._property import OpContext, Operator, OperatorProperty, ResourceRequest, assign, register_property
from ._simple import EnvArguments, Input0, Input1, OutputGrad, OutputValue, SimpleOp, register_simple_op

__all__ = ["CustomOp", "CustomOpProp", "EnvArguments", "Input0", "Input1", "NDArrayOp", "NumpyOp", "OpContext",
           "Operator", "OperatorArguments", "OperatorProperty", "OutputGrad", "OutputValue", "PythonOp",
           "ResourceRequest", "SimpleOp", "assign", "from_jax", "get_all_registered_operators",
           "get_all_registered_operators_grouped",
           "get_operator_arguments", "register", "register_op", "register_property", "register_simple_op"]
__all__ += ["NDArray", "NDArrayHandle", "check_call", "ctypes", "py_str", "symbol"]  # `import *` gives them in MXNet
