"""`mx.sym`: graphs of operators."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from .. import graph as _graph
from .. import ops as _ops
from .._namespace import attach as _attach
from .._namespace import lend as _lend
from . import _creation, _functions, _recorded_loops, contrib, image, linalg, op, random, sparse, symbol
from . import _internal as _internal
from . import numpy as _numpy
from ._creation import *
from .symbol import *

_lend(symbol, _creation)
if _TYPE_CHECKING:
    from . import numpy as np
    from . import numpy_extension as npx
    from ._stubs.op import *
_attach(globals(), _functions.make, "op", {"np": "numpy", "numpy": "numpy", "npx": "numpy_extension",
                                       "numpy_extension": "numpy_extension"})
