"""`mx.contrib.symbol`: the same as `mx.symbol.contrib`."""

from ..symbol import contrib as _contrib


def __getattr__(name):
    return getattr(_contrib, name)


def __dir__():
    return dir(_contrib)
