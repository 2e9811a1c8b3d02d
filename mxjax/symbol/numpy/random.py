"""`mx.sym.np.random`: draws from distributions whose parameters are numbers or symbols."""

from ...numpy._dispatch import SYMBOLIC as _SYMBOLIC
from ...numpy._random import functions as _functions

_ARRAYS_ONLY = ("multinomial", "randn")
globals().update({k: v for k, v in _functions(_SYMBOLIC).items() if k not in _ARRAYS_ONLY})
