"""Functions of mx.np.linalg that NumPy computes."""

import numpy as _np

from .fallback import of_numpy as _of_numpy

__all__ = ["cond", "lstsq", "matrix_power", "matrix_rank", "multi_dot", "qr"]

cond, lstsq, matrix_power, matrix_rank, multi_dot, qr = (_of_numpy(name, _np.linalg) for name in __all__)
