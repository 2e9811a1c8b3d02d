"""`mx.sym.np.linalg`: linear algebra on the last two axes."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from ...numpy import linalg as _linalg

_ARRAYS_ONLY = ("cond", "lstsq", "matrix_power", "matrix_rank", "multi_dot", "qr")
globals().update({name: getattr(_linalg, name) for name in _linalg.__all__ if name not in _ARRAYS_ONLY})
if _TYPE_CHECKING:
    from ...numpy.linalg import *  # noqa: F403
