"""`mx.sym.npx.image`: image operators for symbols."""

from ..._namespace import attach
from ...numpy._dispatch import SYMBOLIC
from .. import _functions

attach(globals(), SYMBOLIC.maker(_functions.make), "numpy_extension.image")
