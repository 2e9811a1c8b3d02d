"""`mx.npx`: what MXNet adds to NumPy: neural networks, scopes, devices, files."""

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from .._namespace import attach as _attach
from ..array import functions
from ..array.creation import waitall as waitall
from ..context import *
from ..numpy._dispatch import IMPERATIVE as _IMPERATIVE
from ..numpy._dispatch import call as _call
from ..util import get_cuda_compute_capability as get_cuda_compute_capability
from ..util import is_np_array as is_np_array
from ..util import is_np_shape as is_np_shape
from ..util import reset_np as reset_np
from ..util import set_np as set_np
from . import image, random, utils
from .utils import *


def reshape(a: _Any, newshape: _Any, reverse: bool = False, order: str = "C") -> _Any:
    """The same elements in another shape.

    Args:
        a: ndarray or symbol.
        newshape: ints; -1 is computed, -2 keeps a dimension, -3 drops one of size 1, -4 keeps all that remain, -5
            multiplies two, -6 splits one into the two numbers that follow.
        reverse: read `newshape` from the right.
        order: "C".

    Returns:
        An ndarray of the new shape.

    Raises:
        MXNetError: the elements do not fit the shape.

    Example:
        >>> a = mx.np.zeros((2, 3, 4))
        >>> mx.npx.reshape(a, (-2, -5)).shape
        (2, 12)
        >>> mx.npx.reshape(a, (-6, 1, 2, -4)).shape
        (1, 2, 3, 4)
    """
    return _call("_npx_reshape", [a], newshape=newshape, reverse=reverse, order=order)


def nonzero(a: _Any) -> _Any:
    """Positions of the nonzero elements of an ndarray, a row each.

    Args:
        a: ndarray.

    Returns:
        An ndarray (count, dimensions) int64.

    Example:
        >>> mx.npx.nonzero(mx.np.array([[0, 7], [8, 0]]))
        array([[0, 1],
               [1, 0]], dtype=int64)
    """
    return _call("_npx_nonzero", [a])


def constraint_check(x: _Any, msg: str = "Constraint violated.") -> _Any:
    """True where all elements of x are true.

    Args:
        x: ndarray or symbol of booleans.
        msg: what the error says.

    Returns:
        An ndarray of one boolean, without dimensions.

    Raises:
        ValueError: some element is false; the message is `msg`.

    Example:
        >>> mx.npx.constraint_check(mx.np.array([1, 2]) > 0, msg="must be positive")
        array(True)
    """
    return _call("_npx_constraint_check", [x], msg=msg)


if _TYPE_CHECKING:
    from ._stubs.op import *

_attach(globals(), _IMPERATIVE.maker(functions.make), "numpy_extension")
