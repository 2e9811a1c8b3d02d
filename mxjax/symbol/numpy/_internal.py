"""`mx.sym.np._internal`: the operators that the functions of mx.np call."""

from ..._namespace import attach
from ...numpy._dispatch import SYMBOLIC
from .. import _functions

attach(globals(), SYMBOLIC.maker(_functions.make), "numpy._internal")
