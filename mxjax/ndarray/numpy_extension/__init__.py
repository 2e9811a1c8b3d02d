"""`mx.nd.npx`: the operators that extend mx.np."""

from ..._namespace import attach as _attach
from ...numpy._dispatch import IMPERATIVE as _IMPERATIVE
from .. import _front
from . import image, random

_attach(globals(), _IMPERATIVE.maker(_front.make), "numpy_extension")
