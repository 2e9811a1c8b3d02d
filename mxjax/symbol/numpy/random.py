"""`mx.sym.np.random`: draws from distributions whose parameters are numbers or symbols."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from ...numpy._dispatch import SYMBOLIC as _SYMBOLIC
from ...numpy._of_2 import speak as _speak
from ...numpy._random import functions as _functions

_ARRAYS_ONLY = ("multinomial", "randn")
_speak(globals(), {k: v for k, v in _functions(_SYMBOLIC).items() if k not in _ARRAYS_ONLY},
       kind="symbols")
if _TYPE_CHECKING:
    from ...numpy._stubs.random import *  # noqa: F403
