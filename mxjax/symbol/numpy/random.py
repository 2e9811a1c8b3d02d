"""`mx.sym.np.random`: draws from distributions whose parameters are numbers or symbols."""

from ...numpy import random as _random
from ...numpy._dispatch import SYMBOLIC as _SYMBOLIC

__all__ = [name for name in _random.__all__ if name not in ("multinomial", "randn")]

_random.bind(_SYMBOLIC, globals(), __all__)
