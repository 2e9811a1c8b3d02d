"""`mx.npx`: MXNet's extensions of NumPy: neural networks, scopes, devices, files."""

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
from ..util import is_np_default_dtype as is_np_default_dtype
from ..util import is_np_shape as is_np_shape
from ..util import reset_np as reset_np
from ..util import set_np as set_np
from ..util import set_np_default_dtype as set_np_default_dtype
from . import control_flow, image, random, utils
from ._of_2 import maker as _maker
from .control_flow import *
from .utils import *


def reshape(a: _Any, newshape: _Any, reverse: bool = False, order: str = "C", out: _Any = None) -> _Any:
    """Changes the shape of an array.

    Args:
        a: ndarray or symbol.
        newshape: ints; -1 is inferred, -2 keeps a dimension, -3 drops a dimension of size 1, -4 keeps all remaining
            ones, -5 multiplies two, -6 splits one into the next two numbers.
        reverse: whether to read `newshape` from the right.
        order: "C".
        out: ndarray to write to.

    Returns:
        An ndarray of the new shape.

    Raises:
        MXNetError: the number of elements does not match the shape.

    Example:
        >>> a = mx.np.zeros((2, 3, 4))
        >>> mx.npx.reshape(a, (-2, -5)).shape
        (2, 12)
        >>> mx.npx.reshape(a, (-6, 1, 2, -4)).shape
        (1, 2, 3, 4)
    """
    return _call("_npx_reshape", [a], out, newshape=newshape, reverse=reverse, order=order)


def nonzero(a: _Any) -> _Any:
    """Indices of the nonzero elements of an ndarray, one row for each element.

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
    """Checks that all elements of x are true.

    Args:
        x: ndarray or symbol of booleans.
        msg: message of the error.

    Returns:
        A zero-dimensional boolean ndarray.

    Raises:
        ValueError: an element is false; the message is `msg`.

    Example:
        >>> mx.npx.constraint_check(mx.np.array([1, 2]) > 0, msg="must be positive")
        array(True)
    """
    return _call("_npx_constraint_check", [x], msg=msg)


def index_add(a: _Any, ind: _Any, val: _Any) -> _Any:
    """Adds values at the given indices of an array; a repeated index accumulates.

    Args:
        a: ndarray or symbol.
        ind: int32 or int64 (dimensions, count): coordinates on the leading axes of `a`; a vector contains indices of
            the first axis.
        val: values of the dtype of `a` that broadcast to (count, *the other axes of a).

    Returns:
        A new ndarray of the shape of `a`.

    Raises:
        IndexError: an index is negative or out of range, or `ind` has more rows than `a` has axes. A hybridized block
            ignores values whose index is out of range.
        MXNetError: the dtypes or shapes do not match.

    Example:
        >>> mx.npx.index_add(mx.np.zeros((2, 2)), mx.np.array([[0, 1], [0, 1]], dtype="int32"), mx.np.array([5, 6]))
        array([[5., 0.],
               [0., 6.]])
    """
    return _call("_npx_index_add", [a, ind, val])


def index_update(a: _Any, ind: _Any, val: _Any) -> _Any:
    """Sets values at the given indices of an array.

    Args:
        a: ndarray or symbol.
        ind: int32 or int64 (dimensions, count): coordinates on the leading axes of `a`; a vector contains indices of
            the first axis.
        val: values of the dtype of `a` that broadcast to (count, *the other axes of a).

    Returns:
        A new ndarray of the shape of `a`.

    Raises:
        IndexError: an index is negative or out of range, or `ind` has more rows than `a` has axes. A hybridized block
            ignores values whose index is out of range.
        MXNetError: the dtypes or shapes do not match.

    Example:
        >>> mx.npx.index_update(mx.np.ones((2, 2)), mx.np.array([1], dtype="int32"), mx.np.array([5, 6]))
        array([[1., 1.],
               [5., 6.]])
    """
    return _call("_npx_index_update", [a, ind, val])


def masked_softmax(data: _Any, mask: _Any, axis: int = -1, temperature: float = 1.0, normalize: bool = True) -> _Any:
    """Softmax of data / temperature along an axis, over the elements where the mask is true; 0 elsewhere.

    Args:
        data: ndarray or symbol of floats.
        mask: ndarray or symbol of dtype bool with the same number of axes, each of the size in `data` or of size 1.
        axis: the axis.
        temperature: divisor of `data`.
        normalize: has no effect.

    Returns:
        An ndarray of the shape and dtype of `data`.

    Raises:
        MXNetError: `data` is not floating point, the mask is not boolean, or the shapes do not match.

    Example:
        >>> mx.npx.masked_softmax(mx.np.zeros((1, 3)), mx.np.array([[1, 0, 1]], dtype="bool"))
        array([[0.5, 0. , 0.5]])
    """
    return _call("masked_softmax", [data, mask], axis=axis, temperature=temperature, normalize=normalize)


def masked_log_softmax(data: _Any, mask: _Any, axis: int = -1, temperature: float = 1.0,
                       normalize: bool = True) -> _Any:
    """Logarithm of `masked_softmax`: -infinity where the mask is false.

    Args:
        data: ndarray or symbol of floats.
        mask: ndarray or symbol of dtype bool with the same number of axes, each of the size in `data` or of size 1.
        axis: the axis.
        temperature: divisor of `data`.
        normalize: has no effect.

    Returns:
        An ndarray of the shape and dtype of `data`.

    Raises:
        MXNetError: `data` is not floating point, the mask is not boolean, or the shapes do not match.

    Example:
        >>> mx.npx.masked_log_softmax(mx.np.zeros((1, 2)), mx.np.array([[1, 0]], dtype="bool"))
        array([[  0., -inf]])
    """
    return _call("masked_log_softmax", [data, mask], axis=axis, temperature=temperature, normalize=normalize)


def group_norm(data: _Any, gamma: _Any, beta: _Any, num_groups: int = 1, eps: float = 1e-3,
               output_mean_var: bool = False) -> _Any:
    """Normalizes groups of channels: zero mean and unit variance, times `gamma`, plus `beta`.

    Args:
        data: ndarray or symbol (batch, channels, ...).
        gamma, beta: ndarrays or symbols (channels,).
        num_groups: number of groups of channels.
        eps: constant that is added to the variance.
        output_mean_var: whether to return the means and standard deviations of the groups as well.

    Returns:
        An ndarray of the shape of `data`; with `output_mean_var` a list of this ndarray and two ndarrays (batch,
        num_groups).

    Raises:
        MXNetError: `num_groups` does not divide the number of channels, or the shapes do not match.

    Example:
        >>> x = mx.np.array([[[1, 3], [2, 2]]])
        >>> mx.npx.group_norm(x, mx.np.ones(2), mx.np.zeros(2)).round(1)
        array([[[-1.4,  1.4],
                [ 0. ,  0. ]]])
    """
    return _call("_npx_group_norm", [data, gamma, beta], num_groups=num_groups, eps=eps,
                 output_mean_var=output_mean_var)


if _TYPE_CHECKING:
    from ._stubs.op import *

_attach(globals(), _maker(_IMPERATIVE.maker(functions.make)), "numpy_extension")
