"""`mx.sym`: graphs of operators."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from .. import graph as _graph
from .. import ops as _ops
from .._namespace import attach as _attach
from .._namespace import lend as _lend
from . import _creation, _functions, contrib, image, linalg, op, random, sparse, symbol
from . import _internal as _internal
from . import numpy as _numpy
from ._creation import (
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

_lend(symbol, _creation)
if _TYPE_CHECKING:
    from ._stubs.op import *
_attach(globals(), _functions.make, "op", {"np": "numpy", "numpy": "numpy", "npx": "numpy_extension",
                                       "numpy_extension": "numpy_extension"})
