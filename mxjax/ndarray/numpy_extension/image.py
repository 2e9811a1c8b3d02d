"""`mx.nd.npx.image`: image operators for ndarrays."""

from ..._namespace import attach
from ...numpy._dispatch import IMPERATIVE
from .. import _front

attach(globals(), IMPERATIVE.maker(_front.make), "numpy_extension.image")
