"""`mx.np.random`: draws from distributions whose parameters are numbers or ndarrays."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from .._random.streams import seed as seed
from ._dispatch import IMPERATIVE as _IMPERATIVE
from ._of_2 import speak as _speak
from ._random import functions as _functions

_speak(globals(), {**_functions(_IMPERATIVE), "seed": seed})
if _TYPE_CHECKING:
    from ._stubs.random import *  # noqa: F403
