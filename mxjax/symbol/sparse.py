"""`mx.sym.sparse`: Operators with sparse storage."""

from .._namespace import attach
from . import _front

attach(globals(), _front.make, "sparse")
