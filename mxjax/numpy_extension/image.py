"""`mx.npx.image`: image operators for ndarrays."""

from .._namespace import attach
from ..ndarray import _front
from ..numpy._dispatch import IMPERATIVE

attach(globals(), IMPERATIVE.maker(_front.make), "numpy_extension.image")
