"""`mx.nd.np.linalg`: `mx.np.linalg`, some of whose functions keep the arguments of 1.x in MXNet 2."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from ...numpy import linalg as _linalg
from ...numpy._of_2 import speak as _speak

globals().update({name: getattr(_linalg, name) for name in _linalg.__all__ if name not in _linalg.BY_LEVEL})
_speak(globals(), _linalg.BY_LEVEL, prefix="linalg.", kind="classic")
if _TYPE_CHECKING:
    from ...numpy.linalg import *  # noqa: F403
