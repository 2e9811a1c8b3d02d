"""`mx.sym.op`: All operators with a public name."""

from .._namespace import attach
from . import _front

attach(globals(), _front.make, "op")
