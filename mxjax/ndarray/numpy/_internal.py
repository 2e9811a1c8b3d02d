"""`mx.nd.np._internal`: the operators that the functions of mx.np call."""

from ..._namespace import attach
from ...array import functions
from ...numpy._dispatch import IMPERATIVE

attach(globals(), IMPERATIVE.maker(functions.make), "numpy._internal")
