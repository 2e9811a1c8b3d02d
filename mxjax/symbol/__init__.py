"""`mx.sym`: graphs of operators."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from .. import ndarray as _ndarray
from .._namespace import attach as _attach
from .._namespace import lend as _lend
from . import _front, _make, contrib, image, linalg, op, random, sparse, symbol
from . import _internal as _internal
from ._make import (
    arange,
    eye,
    full,
    histogram,
    hypot,
    linspace,
    maximum,
    minimum,
    ones,
    pow,
    power,
    split_v2,
    zeros,
)
from .symbol import Group, Symbol, Variable, load, load_json, var

_lend(symbol, _make)
if _TYPE_CHECKING:
    from ._stubs.op import *
_attach(globals(), _front.make, "op", {"np": "numpy", "numpy": "numpy", "npx": "numpy_extension",
                                       "numpy_extension": "numpy_extension"})
