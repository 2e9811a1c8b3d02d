"""`mx.sym._internal`: Operators whose names begin with an underscore."""

from .._namespace import attach
from . import _front

attach(globals(), _front.make, "_internal")
