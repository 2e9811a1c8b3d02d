"""`mx.nd.npx.image`: image operators for ndarrays."""

from ..._namespace import attach
from ...array import functions
from ...numpy._dispatch import IMPERATIVE

attach(globals(), IMPERATIVE.maker(functions.make), "numpy_extension.image")
