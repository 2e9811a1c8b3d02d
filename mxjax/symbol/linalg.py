"""`mx.sym.linalg`: Linear algebra operators."""

from .._namespace import attach
from . import _front

attach(globals(), _front.make, "linalg")
