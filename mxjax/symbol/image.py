"""`mx.sym.image`: Image operators."""

from .._namespace import attach
from . import _front

attach(globals(), _front.make, "image")
