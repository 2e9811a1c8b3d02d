"""The methods that `mx.np.ndarray` and `mx.sym.np._Symbol` share: the functions of mx.np as methods."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .. import level
from ..ops.params import DTypeLike, ShapeLike
from . import _elemwise, _index, _matrix, _of_2, _reduce
from ._dispatch import ArrayOrSymbol, Axes, call

if TYPE_CHECKING:
    from ._stubs.methods import Base as _Base  # methods that are made of operators
else:
    _Base = object

__all__ = ["Methods", "at_level_2", "of_2"]


class Methods(_Base):
    """Operators of Python and methods with NumPy's semantics."""

    __slots__ = ()
    # of the classes that have these methods, as properties
    ndim: Any
    shape: Any
    size: Any
    dtype: Any

    # ------------------------------------------------------------ operators of Python
    def __neg__(self) -> Any:
        return _elemwise.multiply(self, -1)  # MXNet's way: booleans become int64

    def __abs__(self) -> Any:
        return _elemwise.absolute(self)

    def __invert__(self) -> Any:
        return _elemwise.invert(self)

    def __matmul__(self, other: ArrayOrSymbol) -> Any:
        return _matrix.matmul(self, other)

    def __rmatmul__(self, other: ArrayOrSymbol) -> Any:
        return _matrix.matmul(other, self)

    # ------------------------------------------------------------ reductions
    def all(self, axis: Axes = None, out: ArrayOrSymbol | None = None, keepdims: bool = False) -> Any:
        """`np.all` of this array: whether all elements along axes are nonzero.

        Args:
            axis: int or tuple of ints; None for all axes.
            out: ndarray to write to.
            keepdims: keep reduced axes with size 1.

        Returns:
            An ndarray of booleans without the reduced axes.

        Example:
            >>> mx.np.array([[1, 0], [1, 1]]).all(axis=1)
            array([False,  True])
        """
        return _reduce.all(self, axis, keepdims, out)

    def any(self, axis: Axes = None, out: ArrayOrSymbol | None = None, keepdims: bool = False) -> Any:
        """`np.any` of this array: whether any element along axes is nonzero.

        Args:
            axis: int or tuple of ints; None for all axes.
            out: ndarray to write to.
            keepdims: keep reduced axes with size 1.

        Returns:
            An ndarray of booleans without the reduced axes.

        Example:
            >>> mx.np.array([[1, 0], [0, 0]]).any(axis=1)
            array([ True, False])
        """
        return _reduce.any(self, axis, keepdims, out)

    def sum(self, axis: Axes = None, dtype: DTypeLike = None, out: ArrayOrSymbol | None = None,
            keepdims: bool = False) -> Any:
        """`np.sum` of this array.

        Args:
            axis: int or tuple of ints; None for all axes.
            dtype: dtype of the result; defaults to that of the array, int64 for booleans.
            out: ndarray to write to.
            keepdims: keep reduced axes with size 1.

        Returns:
            An ndarray without the reduced axes.

        Example:
            >>> mx.np.array([[1, 2], [3, 4]]).sum(axis=0)
            array([4., 6.])
        """
        return _reduce.sum(self, axis, dtype, keepdims, None, out)

    def prod(self, axis: Axes = None, dtype: DTypeLike = None, out: ArrayOrSymbol | None = None,
             keepdims: bool = False) -> Any:
        """`np.prod` of this array: the product.

        Args:
            axis: int or tuple of ints; None for all axes.
            dtype: dtype of the result; defaults to that of the array, int64 for booleans.
            out: ndarray to write to.
            keepdims: keep reduced axes with size 1.

        Returns:
            An ndarray without the reduced axes.

        Example:
            >>> mx.np.array([[1, 2], [3, 4]]).prod()
            array(24.)
        """
        return _reduce.prod(self, axis, dtype, keepdims, out=out)

    def mean(self, axis: Axes = None, dtype: DTypeLike = None, out: ArrayOrSymbol | None = None,
             keepdims: bool = False) -> Any:
        """`np.mean` of this array.

        Args:
            axis: int or tuple of ints; None for all axes.
            dtype: dtype of the result; defaults to that of the array, float32 for integers.
            out: ndarray to write to.
            keepdims: keep reduced axes with size 1.

        Returns:
            An ndarray without the reduced axes.

        Example:
            >>> mx.np.array([[1, 2], [3, 6]]).mean(axis=1)
            array([1.5, 4.5])
        """
        return _reduce.mean(self, axis, dtype, out, keepdims)

    def std(self, axis: Axes = None, dtype: DTypeLike = None, out: ArrayOrSymbol | None = None, ddof: int = 0,
            keepdims: bool = False) -> Any:
        """`np.std` of this array: the standard deviation.

        Args:
            axis: int or tuple of ints; None for all axes.
            dtype: dtype of the result; defaults to that of the array.
            out: ndarray to write to.
            ddof: the sum of squares is divided by the number of elements minus `ddof`.
            keepdims: keep reduced axes with size 1.

        Returns:
            An ndarray without the reduced axes.

        Example:
            >>> mx.np.array([1, 3]).std()
            array(1.)
        """
        return _reduce.std(self, axis, dtype, out, ddof, keepdims)

    def var(self, axis: Axes = None, dtype: DTypeLike = None, out: ArrayOrSymbol | None = None, ddof: int = 0,
            keepdims: bool = False) -> Any:
        """`np.var` of this array: the variance.

        Args:
            axis: int or tuple of ints; None for all axes.
            dtype: dtype of the result; defaults to that of the array.
            out: ndarray to write to.
            ddof: the sum of squares is divided by the number of elements minus `ddof`.
            keepdims: keep reduced axes with size 1.

        Returns:
            An ndarray without the reduced axes.

        Example:
            >>> mx.np.array([1, 2, 3]).var(ddof=1)
            array(1.)
        """
        return _reduce.var(self, axis, dtype, out, ddof, keepdims)

    def max(self, axis: Axes = None, out: ArrayOrSymbol | None = None, keepdims: bool = False) -> Any:
        """`np.max` of this array.

        Args:
            axis: int or tuple of ints; None for all axes.
            out: ndarray to write to.
            keepdims: keep reduced axes with size 1.

        Returns:
            An ndarray without the reduced axes.

        Raises:
            MXNetError: there are no elements to reduce.

        Example:
            >>> mx.np.array([[1, 5], [4, 2]]).max(axis=0)
            array([4., 5.])
        """
        return _reduce.max(self, axis, keepdims, out=out)

    def min(self, axis: Axes = None, out: ArrayOrSymbol | None = None, keepdims: bool = False) -> Any:
        """`np.min` of this array.

        Args:
            axis: int or tuple of ints; None for all axes.
            out: ndarray to write to.
            keepdims: keep reduced axes with size 1.

        Returns:
            An ndarray without the reduced axes.

        Raises:
            MXNetError: there are no elements to reduce.

        Example:
            >>> mx.np.array([[1, 5], [4, 2]]).min(axis=0)
            array([1., 2.])
        """
        return _reduce.min(self, axis, keepdims, out=out)

    def argmax(self, axis: int | None = None, out: ArrayOrSymbol | None = None) -> Any:
        """`np.argmax` of this array: the index of the first maximum.

        Args:
            axis: the axis; None for the flattened array.
            out: ndarray to write to.

        Returns:
            An int64 ndarray of indices, without the axis.

        Example:
            >>> mx.np.array([[1, 5], [4, 2]]).argmax(axis=1)
            array([1, 0], dtype=int64)
        """
        return _reduce.argmax(self, axis, out)

    def argmin(self, axis: int | None = None, out: ArrayOrSymbol | None = None) -> Any:
        """`np.argmin` of this array: the index of the first minimum.

        Args:
            axis: the axis; None for the flattened array.
            out: ndarray to write to.

        Returns:
            An int64 ndarray of indices, without the axis.

        Example:
            >>> mx.np.array([[1, 5], [4, 2]]).argmin(axis=1)
            array([0, 1], dtype=int64)
        """
        return _reduce.argmin(self, axis, out)

    def cumsum(self, axis: int | None = None, dtype: DTypeLike = None, out: ArrayOrSymbol | None = None) -> Any:
        """`np.cumsum` of this array: running sums.

        Args:
            axis: the axis; None for the flattened array.
            dtype: dtype of the result; defaults to that of the array, int64 for booleans.
            out: ndarray to write to.

        Returns:
            The sums, of the array's shape, or a vector if `axis` is None.

        Example:
            >>> mx.np.array([[1, 2], [3, 4]]).cumsum(axis=1)
            array([[1., 3.],
                   [3., 7.]])
        """
        return _reduce.cumsum(self, axis, dtype, out)

    # ------------------------------------------------------------ elements
    def argsort(self, axis: int | None = -1, kind: str | None = None, order: str | Sequence[str] | None = None) -> Any:
        """`np.argsort` of this array: the indices that sort it.

        Args:
            axis: the axis; None for the flattened array.
            kind: has no effect.
            order: only None.

        Returns:
            An int64 ndarray of indices.

        Raises:
            NotImplementedError: `order` is given.

        Example:
            >>> mx.np.array([30, 10, 20]).argsort()
            array([1, 2, 0], dtype=int64)
        """
        return _index.argsort(self, axis, kind, order)

    def take(self, indices: ArrayOrSymbol, axis: int | None = None, mode: str = "raise") -> Any:
        """`np.take` of this array: the elements at the given indices.

        Args:
            indices: ndarray of indices.
            axis: the axis; None to index the flattened array.
            mode: treatment of indices out of range: "raise" an error, "clip" them to the range, or "wrap" them around.

        Returns:
            The elements; the axes of `indices` replace `axis`.

        Raises:
            NotImplementedError: an unsupported mode.
            MXNetError: an index is out of range and mode is "raise".

        Example:
            >>> mx.np.array([5, 6, 7]).take(mx.np.array([2, 0]))
            array([7., 5.])
        """
        return _index.take(self, indices, axis, mode)

    def clip(self, min: float | None = None, max: float | None = None, out: ArrayOrSymbol | None = None) -> Any:
        """`np.clip` of this array: the values clipped to [min, max].

        Args:
            min: the lower limit; None for no limit.
            max: the upper limit; None for no limit.
            out: ndarray to write to.

        Returns:
            An ndarray of the same shape.

        Raises:
            ValueError: both limits are None.

        Example:
            >>> mx.np.array([-1, 0.5, 2]).clip(0, 1)
            array([0. , 0.5, 1. ])
        """
        return _elemwise.clip(self, min, max, out)

    def round(self, decimals: int = 0, out: ArrayOrSymbol | None = None, **kwargs: Any) -> Any:
        """`np.round` of this array: values rounded, halves to the nearest even value.

        Args:
            decimals: number of digits after the decimal point.
            out: ndarray to write to.
            kwargs: NumPy's ufunc options; only their defaults are supported.

        Returns:
            An ndarray of the same shape.

        Example:
            >>> mx.np.array([1.25, 2.789]).round(1)
            array([1.2, 2.8])
        """
        return _elemwise.around(self, decimals, out, **kwargs)

    # ------------------------------------------------------------ shapes
    @property
    def T(self) -> Any:  # noqa: N802
        """A copy with the axes reversed.

        Example:
            >>> mx.np.array([[1, 2], [3, 4]]).T
            array([[1., 3.],
                   [2., 4.]])
        """
        return self.transpose()

    def transpose(self, *axes: Any) -> Any:
        """`np.transpose` of this array.

        Args:
            axes: the old axis for each new one, as ints or one tuple; without any, reverses the axes.

        Returns:
            A copy with permuted axes.

        Raises:
            ValueError: an axis is named twice.

        Example:
            >>> mx.np.zeros((1, 2, 3)).transpose(2, 0, 1).shape
            (3, 1, 2)
        """
        if len(axes) == 1 and not isinstance(axes[0], int):
            axes = axes[0]
        return _matrix.transpose(self, tuple(axes) if axes else None)

    def reshape(self, *args: Any, **kwargs: Any) -> Any:
        """`np.reshape` of this array.

        Args:
            args: the shape, as ints or one tuple; one of them may be -1, which is inferred.
            kwargs: `order`, only "C".

        Returns:
            A copy with that shape.

        Raises:
            TypeError: the shape is missing, or a keyword is unknown.
            NotImplementedError: `order` is not "C".
            MXNetError: the number of elements does not match the shape.

        Example:
            >>> mx.np.arange(6).reshape(2, -1)
            array([[0., 1., 2.],
                   [3., 4., 5.]])
        """
        order = kwargs.pop("order", "C")
        if kwargs:
            raise TypeError(f"reshape got an unexpected keyword argument '{next(iter(kwargs))}'")
        if order != "C":
            raise NotImplementedError(f"only supports C-order, while received {order}")
        if not args:
            raise TypeError("reshape() takes exactly 1 argument (0 given)")
        return _matrix.reshape(self, args[0] if len(args) == 1 and not isinstance(args[0], int) else args)

    def flatten(self, order: str = "C") -> Any:
        """A one-dimensional copy.

        Args:
            order: "C".

        Returns:
            A vector.

        Raises:
            NotImplementedError: `order` is not "C".

        Example:
            >>> mx.np.array([[1, 2], [3, 4]]).flatten()
            array([1., 2., 3., 4.])
        """
        return self.reshape(-1, order=order)

    def squeeze(self, axis: Axes = None) -> Any:
        """`np.squeeze` of this array: removes axes of size 1.

        Args:
            axis: int or tuple of ints; None for all axes of size 1.

        Returns:
            A copy without the axes.

        Raises:
            MXNetError: an axis has a size other than 1.

        Example:
            >>> mx.np.zeros((1, 3, 1)).squeeze().shape
            (3,)
        """
        return _matrix.squeeze(self, axis)

    def swapaxes(self, axis1: int, axis2: int) -> Any:
        """`np.swapaxes` of this array: exchanges two axes.

        Args:
            axis1, axis2: the axes.

        Returns:
            A copy with the axes exchanged.

        Example:
            >>> mx.np.zeros((1, 2, 3)).swapaxes(0, 2).shape
            (3, 2, 1)
        """
        return _matrix.swapaxes(self, axis1, axis2)

    def broadcast_to(self, shape: ShapeLike) -> Any:
        """`np.broadcast_to` of this array: broadcasts it to a shape.

        Args:
            shape: int or tuple of ints.

        Returns:
            A copy of that shape.

        Raises:
            MXNetError: the array does not broadcast to the shape.

        Example:
            >>> mx.np.array([1, 2]).broadcast_to((2, 2))
            array([[1., 2.],
                   [1., 2.]])
        """
        return _matrix.broadcast_to(self, shape)

    def repeat(self, repeats: int, axis: int | None = None) -> Any:
        """`np.repeat` of this array: repeats each element.

        Args:
            repeats: number of repetitions, one int for all elements.
            axis: the axis; None for the flattened array.

        Returns:
            An ndarray; the axis is `repeats` times as long.

        Example:
            >>> mx.np.array([1, 2]).repeat(2)
            array([1., 1., 2., 2.])
        """
        return _matrix.repeat(self, repeats, axis)

    def dot(self, b: ArrayOrSymbol, out: ArrayOrSymbol | None = None) -> Any:
        """`np.dot` of this array and b: the product of vectors or matrices.

        Args:
            b: ndarray or symbol.
            out: ndarray to write to.

        Returns:
            An ndarray, as `np.dot` returns it.

        Raises:
            MXNetError: the summed axes have different lengths.

        Example:
            >>> mx.np.array([[1, 2], [3, 4]]).dot(mx.np.array([1, 1]))
            array([3., 7.])
        """
        return _matrix.dot(self, b, out)

    def astype(self, dtype: DTypeLike, order: str = "K", casting: str = "unsafe", subok: bool = True,
               copy: bool = True) -> Any:
        """A copy with another dtype; the array itself if `copy` is False and the dtype is the same.

        Args:
            dtype: the new dtype; None: float32.
            order: only "K" or None.
            casting: only "unsafe".
            subok: only True.
            copy: whether to copy if the dtype is the same.

        Returns:
            An ndarray of the same shape.

        Raises:
            ValueError: order, casting or subok is not the default.

        Example:
            >>> mx.np.array([1.7, -1.7]).astype("int32")
            array([ 1, -1], dtype=int32)
        """
        if order not in (None, "K"):
            raise ValueError(f"order must be either None or 'K', got {order!r}")
        if casting != "unsafe":
            raise ValueError("casting must be equal to 'unsafe'")
        if not subok:
            raise ValueError("subok must be equal to True")
        if not copy and getattr(self, "dtype", None) == dtype:
            return self
        return call("_npi_cast", [self], dtype="float32" if dtype is None else dtype)


def _swapped(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda self, other: function(other, self)


for _name, _function in [("add", "add"), ("sub", "subtract"), ("mul", "multiply"), ("truediv", "true_divide"),
                         ("mod", "mod"), ("pow", "power"), ("and", "bitwise_and"), ("or", "bitwise_or"),
                         ("xor", "bitwise_xor")]:
    setattr(Methods, f"__{_name}__", getattr(_elemwise, _function))
    # `add` with the number after the array, which may be of integers
    setattr(Methods, f"__r{_name}__", _elemwise.add if _name == "add" else _swapped(getattr(_elemwise, _function)))
for _name, _function in [("eq", "equal"), ("ne", "not_equal"), ("gt", "greater"), ("ge", "greater_equal"),
                         ("lt", "less"), ("le", "less_equal")]:
    setattr(Methods, f"__{_name}__", getattr(_elemwise, _function))


# ------------------------------------------------------------ methods of MXNet 2 that differ or are new
class of_2:
    """Methods that arrays and symbols have at level 2."""

    ndim: int  # the array's own
    shape: tuple[int, ...]
    size: Any
    dtype: Any
    reshape: Any
    astype: Any

    def __neg__(self) -> Any:
        return _elemwise.negative(self)

    def __pos__(self) -> Any:
        return _matrix.copy(self)

    def mean(self, axis: Axes = None, dtype: DTypeLike = None, out: ArrayOrSymbol | None = None,
             keepdims: bool = False) -> Any:
        """`np.mean` of this array."""
        return _of_2.mean(self, axis, dtype, out, keepdims)

    def std(self, axis: Axes = None, dtype: DTypeLike = None, out: ArrayOrSymbol | None = None, correction: int = 0,
            keepdims: bool = False, **old: Any) -> Any:
        """`np.std` of this array; `ddof` is another name of `correction`."""
        return _reduce.std(self, axis, dtype, out, old.pop("ddof", correction), keepdims, **old)

    def var(self, axis: Axes = None, dtype: DTypeLike = None, out: ArrayOrSymbol | None = None, correction: int = 0,
            keepdims: bool = False, **old: Any) -> Any:
        """`np.var` of this array; `ddof` is another name of `correction`."""
        return _reduce.var(self, axis, dtype, out, old.pop("ddof", correction), keepdims, **old)

    def argmax(self, axis: int | None = None, out: ArrayOrSymbol | None = None, keepdims: bool = False) -> Any:
        """`np.argmax` of this array."""
        return _of_2.argmax(self, axis, out, keepdims)

    def argmin(self, axis: int | None = None, out: ArrayOrSymbol | None = None, keepdims: bool = False) -> Any:
        """`np.argmin` of this array."""
        return _of_2.argmin(self, axis, out, keepdims)

    def argsort(self, axis: int | None = -1, descending: bool = False, stable: bool = True, **old: object) -> Any:
        """`np.argsort` of this array."""
        return _of_2.argsort(self, axis, descending, stable, **old)

    def sort(self, axis: int | None = -1, descending: bool = False, stable: bool = True, **old: object) -> Any:
        """`np.sort` of this array: a sorted copy."""
        return _of_2.sort(self, axis, descending, stable, **old)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
        """`np.diagonal` of this array."""
        return _matrix.diagonal(self, offset, axis1, axis2)

    @property
    def mT(self) -> Any:  # noqa: N802
        """The matrices in the last two axes transposed.

        Raises:
            ValueError: there are fewer than two axes.
        """
        if self.ndim < 2:
            raise ValueError(f"mT requires an array with at least two axes, got shape {self.shape}")
        return _matrix.swapaxes(self, -1, -2)


def at_level_2(kind: type, members: dict[str, Any]) -> None:
    """Adds members to a class while the process is at level 2."""
    before = {name: kind.__dict__.get(name) for name in members}

    def speak(api: int) -> None:
        for name, member in (members if api == 2 else before).items():
            if member is not None:
                setattr(kind, name, member)
            elif name in kind.__dict__:
                delattr(kind, name)
    level.follow(speak)


at_level_2(Methods, {name: member for name, member in vars(of_2).items() if inspect.isfunction(member)
                     or isinstance(member, property)} | {
    f"__{side}{name}__": _swapped(function) if side else function for name, function in [
        ("floordiv", _elemwise.floor_divide), ("lshift", _elemwise.bitwise_left_shift),
        ("rshift", _elemwise.bitwise_right_shift)] for side in ("", "r")})
