"""The methods that `mx.np.ndarray` and `mx.sym.np._Symbol` have in common: the functions of mx.np, as methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import _elemwise, _index, _matrix, _reduce
from ._dispatch import call

if TYPE_CHECKING:
    from ._stubs.methods import Base as _Base  # methods that are made of operators
else:
    _Base = object

__all__ = ["Methods"]


class Methods(_Base):
    """Operators of Python and methods with NumPy's semantics."""

    __slots__ = ()

    # ------------------------------------------------------------ operators of Python
    def __neg__(self) -> Any:
        return _elemwise.negative(self)

    def __abs__(self) -> Any:
        return _elemwise.absolute(self)

    def __invert__(self) -> Any:
        return _elemwise.invert(self)

    def __matmul__(self, other: Any) -> Any:
        return _matrix.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return _matrix.matmul(other, self)

    # ------------------------------------------------------------ reductions
    def all(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        """`np.all` of this array."""
        return _reduce.all(self, axis, keepdims, out)

    def any(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        """`np.any` of this array."""
        return _reduce.any(self, axis, keepdims, out)

    def sum(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        """`np.sum` of this array."""
        return _reduce.sum(self, axis, dtype, keepdims, None, out)

    def prod(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        """`np.prod` of this array."""
        return _reduce.prod(self, axis, dtype, keepdims, out=out)

    def mean(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        """`np.mean` of this array."""
        return _reduce.mean(self, axis, dtype, out, keepdims)

    def std(self, axis: Any = None, dtype: Any = None, out: Any = None, ddof: int = 0, keepdims: bool = False) -> Any:
        """`np.std` of this array."""
        return _reduce.std(self, axis, dtype, out, ddof, keepdims)

    def var(self, axis: Any = None, dtype: Any = None, out: Any = None, ddof: int = 0, keepdims: bool = False) -> Any:
        """`np.var` of this array."""
        return _reduce.var(self, axis, dtype, out, ddof, keepdims)

    def max(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        """`np.max` of this array."""
        return _reduce.max(self, axis, keepdims, out=out)

    def min(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        """`np.min` of this array."""
        return _reduce.min(self, axis, keepdims, out=out)

    def argmax(self, axis: int | None = None, out: Any = None) -> Any:
        """`np.argmax` of this array."""
        return _reduce.argmax(self, axis, out)

    def argmin(self, axis: int | None = None, out: Any = None) -> Any:
        """`np.argmin` of this array."""
        return _reduce.argmin(self, axis, out)

    def cumsum(self, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
        """`np.cumsum` of this array."""
        return _reduce.cumsum(self, axis, dtype, out)

    # ------------------------------------------------------------ elements
    def argsort(self, axis: int | None = -1, kind: Any = None, order: Any = None) -> Any:
        """`np.argsort` of this array."""
        return _index.argsort(self, axis, kind, order)

    def take(self, indices: Any, axis: int | None = None, mode: str = "raise") -> Any:
        """`np.take` of this array."""
        return _index.take(self, indices, axis, mode)

    def clip(self, min: float | None = None, max: float | None = None, out: Any = None) -> Any:
        """`np.clip` of this array."""
        return _elemwise.clip(self, min, max, out)

    def round(self, decimals: int = 0, out: Any = None, **kwargs: Any) -> Any:
        """`np.round` of this array."""
        return _elemwise.around(self, decimals, out, **kwargs)

    # ------------------------------------------------------------ shapes
    @property
    def T(self) -> Any:  # noqa: N802
        """A copy with the axes reversed."""
        return self.transpose()

    def transpose(self, *axes: Any) -> Any:
        """`np.transpose` of this array; the axes as ints or one tuple."""
        if len(axes) == 1 and not isinstance(axes[0], int):
            axes = axes[0]
        return _matrix.transpose(self, tuple(axes) if axes else None)

    def reshape(self, *args: Any, **kwargs: Any) -> Any:
        """`np.reshape` of this array; the shape as ints or one tuple.

        Raises:
            TypeError: there is no shape, or an unknown keyword.
            NotImplementedError: `order` is not "C".
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
        """A copy of one dimension."""
        return self.reshape(-1, order=order)

    def squeeze(self, axis: Any = None) -> Any:
        """`np.squeeze` of this array."""
        return _matrix.squeeze(self, axis)

    def swapaxes(self, axis1: int, axis2: int) -> Any:
        """`np.swapaxes` of this array."""
        return _matrix.swapaxes(self, axis1, axis2)

    def broadcast_to(self, shape: Any) -> Any:
        """`np.broadcast_to` of this array."""
        return _matrix.broadcast_to(self, shape)

    def repeat(self, repeats: int, axis: int | None = None) -> Any:
        """`np.repeat` of this array."""
        return _matrix.repeat(self, repeats, axis)

    def dot(self, b: Any, out: Any = None) -> Any:
        """`np.dot` of this array and b."""
        return _matrix.dot(self, b, out)

    def astype(self, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True,
               copy: bool = True) -> Any:
        """A copy with another dtype; the array itself where `copy` is off and the dtype is the same.

        Raises:
            ValueError: order, casting or subok is not the default.
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
    setattr(Methods, f"__r{_name}__", _swapped(getattr(_elemwise, _function)))
for _name, _function in [("eq", "equal"), ("ne", "not_equal"), ("gt", "greater"), ("ge", "greater_equal"),
                         ("lt", "less"), ("le", "less_equal")]:
    setattr(Methods, f"__{_name}__", getattr(_elemwise, _function))
