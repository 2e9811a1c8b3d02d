"""`mx.sym.contrib`: Operators that MXNet calls experimental."""

from .._namespace import attach
from . import _front

attach(globals(), _front.make, "contrib")
