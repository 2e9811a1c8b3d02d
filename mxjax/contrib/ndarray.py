"""`mx.contrib.ndarray`: the same as `mx.ndarray.contrib`."""

from ..ndarray import contrib as _contrib


def __getattr__(name):
    return getattr(_contrib, name)


def __dir__():
    return dir(_contrib)
