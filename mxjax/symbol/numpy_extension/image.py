"""`mx.sym.npx.image`: image operators for symbols."""

from ..._namespace import attach
from ...numpy._dispatch import SYMBOLIC
from .. import _front

attach(globals(), SYMBOLIC.maker(_front.make), "numpy_extension.image")
