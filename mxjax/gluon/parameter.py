"""Parameters of blocks, for the MXNet API level that this process uses."""

from typing import TYPE_CHECKING

from ..level import fix
from ._parameter import DeferredInitializationError, tensor_types

if TYPE_CHECKING or fix("mxjax.gluon") == 1:  # checkers see level 1, the default
    from ._parameter import Constant, Parameter, ParameterDict
    ParameterDict.__module__ = __name__
    __all__ = ["Constant", "DeferredInitializationError", "Parameter", "ParameterDict", "tensor_types"]
else:
    from ._structural_parameter import Constant, Parameter  # type: ignore[assignment]
    __all__ = ["Constant", "DeferredInitializationError", "Parameter", "tensor_types"]
for _kind in (Constant, DeferredInitializationError, Parameter):
    _kind.__module__ = __name__  # where pickles and users find them
