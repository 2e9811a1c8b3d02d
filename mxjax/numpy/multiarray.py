"""The functions of mx.np, and its array."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..array.dense import _DTYPE_MX_TO_NP as _DTYPE_MX_TO_NP  # these three: libraries take them from here, too
from ..array.dense import _DTYPE_NP_TO_MX as _DTYPE_NP_TO_MX
from ..array.dense import _GRAD_REQ_MAP as _GRAD_REQ_MAP
from . import _create, _elemwise, _index, _matrix, _reduce, fallback
from ._dispatch import IMPERATIVE
from ._namespace import functions
from ._ndarray import array, asarray, empty, from_dlpack, ndarray
from ._of_2 import speak
from .fallback import *  # noqa: F403  made from a table, which sets __all__

__all__ = ["array", "asarray", "empty", "from_dlpack", "ndarray", *_create.CREATORS, *_create.__all__,
           *_elemwise.__all__, *_index.__all__, *_matrix.__all__, *_reduce.__all__, *fallback.__all__]

if TYPE_CHECKING:
    from ._stubs.multiarray import *  # noqa: F403

speak(globals(), {**functions(IMPERATIVE), "array": array, "asarray": asarray, "empty": empty,
                  **{n: getattr(fallback, n) for n in ("interp", "positive", "result_type", "rollaxis")}},
      {"pmt": vars(fallback)["pmt"]})
UFUNCS = {name: globals()[name] for name in """abs fabs add arctan2 copysign degrees hypot lcm subtract multiply
true_divide divide negative power mod matmul absolute rint sign exp log log2 log10 expm1 sqrt square cbrt reciprocal
invert bitwise_not remainder sin cos tan sinh cosh tanh arcsin arccos arctan arcsinh arccosh arctanh maximum minimum
ceil trunc floor bitwise_and bitwise_xor bitwise_or logical_not equal not_equal less less_equal greater greater_equal
radians deg2rad rad2deg log1p isnan isinf isfinite""".split()}
