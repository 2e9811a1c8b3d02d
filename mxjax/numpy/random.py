"""`mx.np.random`: draws from distributions whose parameters are numbers or ndarrays."""

from ._dispatch import IMPERATIVE as _IMPERATIVE
from ._random import functions as _functions

globals().update(_functions(_IMPERATIVE))
