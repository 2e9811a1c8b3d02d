"""`mx.sym.np.linalg`: linear algebra on the last two axes."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from ...numpy import linalg as _linalg
from ...numpy._of_2 import speak as _speak

_ARRAYS_ONLY = ("cond", "matrix_power", "multi_dot")
_OF_2 = ("lstsq", "matrix_rank", "qr")
globals().update({name: getattr(_linalg, name) for name in _linalg.__all__
                  if name not in (*_ARRAYS_ONLY, *_linalg.BY_LEVEL)})
_speak(globals(), {name: function for name, function in _linalg.BY_LEVEL.items() if name not in _OF_2},
       {name: _linalg.BY_LEVEL[name] for name in _OF_2}, prefix="linalg.", kind="symbols")
if _TYPE_CHECKING:
    from ...numpy.linalg import *  # noqa: F403
