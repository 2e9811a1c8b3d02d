"""`mx.nd.npx`: the operators that extend mx.np."""

from ..._namespace import attach as _attach
from ...array import functions
from ...numpy._dispatch import IMPERATIVE as _IMPERATIVE
from ...numpy_extension import control_flow
from ...numpy_extension._of_2 import maker as _maker
from ...numpy_extension.control_flow import cond, foreach, while_loop
from . import image, random

_attach(globals(), _maker(_IMPERATIVE.maker(functions.make)), "numpy_extension")
