"""`mx.sym.npx`: the operators that extend mx.np."""

from ..._namespace import attach as _attach
from ...numpy._dispatch import SYMBOLIC as _SYMBOLIC
from .. import _functions
from . import image, random

_attach(globals(), _SYMBOLIC.maker(_functions.make), "numpy_extension")
