"""`mx.np`: arrays and functions with NumPy's semantics.

The functions also work on symbols (`mx.sym.np`), see `_dispatch`.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from .. import level as _level
from . import (
    _protocol,
    arrayprint,
    fallback,
    fallback_linalg,
    function_base,
    io,
    linalg,
    multiarray,
    random,
    set_functions,
    stride_tricks,
    type_functions,
    utils,
)
from .arrayprint import *  # noqa: F403  each module's __all__ lists the public names
from .function_base import *  # noqa: F403
from .io import *  # noqa: F403
from .multiarray import *  # noqa: F403
from .set_functions import *  # noqa: F403
from .stride_tricks import *  # noqa: F403
from .type_functions import *  # noqa: F403
from .utils import *  # noqa: F403

# names copied from there, which are set anew when the level is chosen
_level.follow(lambda api: globals().update({name: getattr(module, name) for module in (multiarray, utils)
                                            for name in module.__all__}))

if _TYPE_CHECKING:  # they don't see through an `__all__` that is computed
    from ._ndarray import array as array
    from ._ndarray import asarray as asarray
    from ._ndarray import empty as empty
    from ._ndarray import from_dlpack as from_dlpack
    from ._ndarray import ndarray as ndarray
    from ._stubs.multiarray import *  # noqa: F403
