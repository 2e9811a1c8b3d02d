"""Parameters of blocks, of the level of MXNet's API that this process speaks."""

from ..level import fix
from ._parameter import DeferredInitializationError, tensor_types

if fix("mxjax.gluon") == 2:
    from ._structural_parameter import Constant, Parameter
    __all__ = ["Constant", "DeferredInitializationError", "Parameter", "tensor_types"]
else:
    from ._parameter import Constant, Parameter, ParameterDict  # type: ignore[assignment]
    ParameterDict.__module__ = __name__
    __all__ = ["Constant", "DeferredInitializationError", "Parameter", "ParameterDict", "tensor_types"]
for _kind in (Constant, DeferredInitializationError, Parameter):
    _kind.__module__ = __name__  # where pickles and users find them
