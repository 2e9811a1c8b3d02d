"""`mx.nd._internal`: Operators whose names begin with an underscore."""

from typing import TYPE_CHECKING

from .._namespace import attach
from ..array import functions
from ..array.dense import NDArray
from ..base import MXNetError

NDArrayBase = NDArray  # MXNet has its C pointer in a base of its own


def _set_value(src: float, out: NDArray | None = None, **kwargs: object) -> NDArray:
    """Fills `out` with a number."""
    if out is None:
        raise MXNetError("_set_value requires out=, the array to fill")
    out[:] = src
    return out


if TYPE_CHECKING:
    from ._stubs._internal import *  # noqa: F403

attach(globals(), functions.make, "_internal")
