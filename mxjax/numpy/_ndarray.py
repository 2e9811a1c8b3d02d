"""`mx.np.ndarray`, and the functions that convert values to it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from .. import level
from ..array.creation import from_dlpack as _from_dlpack
from ..array.creation import host_values
from ..array.dense import NDArray, _flatten, _from_host, _unflatten
from ..array.python_operators import IN_PLACE
from ..base import MXNetError
from ..context import Context, chosen, takes_device
from ..eager.array_types import array_classes
from ..eager.modes import state
from ..ops.params import DTypeLike, ShapeLike, np_dtype
from ..util import default_float, is_np_default_dtype, set_module
from . import _create, _elemwise, _index, _matrix, fallback
from ._dispatch import IMPERATIVE, Operand
from ._methods import Methods, at_level_2, of_2

__all__ = ["array", "asarray", "empty", "from_dlpack", "ndarray"]


class _Protocol:
    """The functions of mx.np that stand for NumPy's; set when they are there."""

    ufuncs: dict[str, Callable[..., Any]]
    functions: Callable[[], dict[Callable, Callable]]
    namespace: Callable[[], Any]


protocol = _Protocol()


def _memory(value: Any) -> Any:
    """Returns a NumPy view of an array's memory if it is on the host, else of unshared memory."""
    if not isinstance(value, ndarray):
        return value
    if value.ctx.device_type != "cpu":
        return np.empty(0)
    return np.from_dlpack(value.chunk.read())  # pyright: ignore[reportArgumentType]  JAX's and NumPy's stubs differ


# NumPy's name, and its signatures on purpose
@set_module("mxjax.numpy")  # where pickles and users find it
class ndarray(Methods, NDArray):  # noqa: N801  # pyright: ignore[reportIncompatibleMethodOverride]
    """An array on a device with NumPy's semantics; made by `np.array`, `np.zeros`, ...

    Unlike `mx.nd.NDArray`, it follows NumPy: zero-dimensional arrays, empty arrays, boolean masks, and comparisons that
    return booleans. Unlike in NumPy, and as in MXNet, the default dtype is float32. Indexing by ints and slices returns
    a view if the selected elements are contiguous in memory.

    Example:
        >>> from mxjax import np
        >>> a = np.arange(6).reshape(2, 3)
        >>> a[a > 2].sum()
        array(12.)
    """

    __slots__ = ()
    zero_dim = True

    @property
    def dtype(self) -> np.dtype:  # pyright: ignore[reportIncompatibleMethodOverride]  as NumPy has it
        """The element type.

        Example:
            >>> mx.np.array([1, 2]).dtype
            dtype('float32')
        """
        return self.chunk.dtype

    # ------------------------------------------------------------ NumPy's protocols
    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__":
            return NotImplemented
        if "out" in kwargs:
            if len(kwargs["out"]) != 1:
                raise ValueError("The `out` parameter must have exactly one ndarray")
            kwargs["out"] = kwargs["out"][0]
            if isinstance(kwargs["out"], np.ndarray) and level.current() == 2:  # a += b of NumPy's a
                return ufunc(*fallback.to_host(inputs), **kwargs)
        own = protocol.ufuncs.get(ufunc.__name__)
        return fallback.host_call(ufunc, inputs, kwargs) if own is None else own(*inputs, **kwargs)

    def __array_function__(self, func: Callable, types: Iterable[type], args: tuple, kwargs: dict[str, Any]) -> Any:
        own = protocol.functions().get(func)
        if own is None:
            return fallback.host_call(func, args, kwargs)
        if func in (np.shares_memory, np.may_share_memory) and np.ndarray in types:
            return func(*map(_memory, args), **kwargs)
        if not all(issubclass(t, ndarray) for t in types):
            return NotImplemented
        return own(*args, **kwargs)

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        """The namespace of the functions for these arrays, as the array API standard requires.

        Args:
            api_version: None, or "2021.12".

        Raises:
            ValueError: any other version.
        """
        if api_version is not None and not re.fullmatch(r"2021\.(0?[1-9]|1[0-2])", api_version):
            raise ValueError(f"Unrecognized array API version: {api_version!r}; expected 2021.12")
        return protocol.namespace()

    # ------------------------------------------------------------ values
    def item(self, *args: Any) -> Any:
        """An element as a Python number.

        Args:
            args: nothing if there is only one element; else an index of the flattened array, or one index for each axis
                (as ints or a tuple).

        Returns:
            An int, a float or a bool.

        Raises:
            ValueError: no index is given, and there are several elements.
            IndexError: an index is out of range.

        Example:
            >>> a = mx.np.array([[1, 2], [3, 4]])
            >>> a.sum().item(), a.item(1), a.item(1, 0)
            (10.0, 2.0, 3.0)
        """
        return self.asnumpy().item(*args)

    def asscalar(self) -> Any:
        """Not available for ndarrays.

        Raises:
            AttributeError: always; use `item`.

        Example:
            >>> mx.np.array([1]).asscalar()
            Traceback (most recent call last):
            ...
            AttributeError: mxnet.numpy.ndarray object has no attribute asscalar
        """
        raise AttributeError("mxnet.numpy.ndarray object has no attribute asscalar")

    def tolist(self) -> Any:
        """The values as nested lists of Python numbers; a number for a zero-dimensional array.

        Example:
            >>> mx.np.array([[1, 2], [3, 4]]).tolist()
            [[1.0, 2.0], [3.0, 4.0]]
        """
        return self.asnumpy().tolist()

    def copy(self, order: str = "C") -> ndarray:
        """A copy on the same context.

        Args:
            order: "C".

        Returns:
            An ndarray with its own memory.

        Raises:
            NotImplementedError: `order` is not "C".

        Example:
            >>> a = mx.np.array([1, 2])
            >>> b = a.copy()
            >>> b[0] = 9
            >>> a
            array([1., 2.])
        """
        if order != "C":
            raise NotImplementedError("ndarray.copy only supports order='C'")
        return _matrix.copy(self)

    def __bool__(self) -> bool:
        if self.size == 0:
            warnings.warn("The truth value of an empty array is ambiguous. Returning False, but in future this will "
                          "result in an error.", DeprecationWarning, stacklevel=2)
            return False
        if self.size > 1:
            raise ValueError("The truth value of an ndarray with multiple elements is ambiguous.")
        return bool(self.item())

    def _single(self) -> Any:
        if self.size != 1:
            raise TypeError("only size-1 arrays can be converted to Python scalars")
        return self.item()

    def __float__(self) -> float:
        return float(self._single())

    def __int__(self) -> int:
        return int(self._single())

    def __index__(self) -> int:
        if self.chunk.dtype.kind not in "iu":
            raise TypeError("only integer scalar arrays can be converted to a scalar index")
        return int(self._single())

    def __hash__(self) -> int:
        return id(self) >> 4

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Any:
        if not self.shape and level.current() == 1:
            raise TypeError("iteration over a 0-d array")
        return NDArray.__iter__(self)

    # ------------------------------------------------------------ print
    def __repr__(self) -> str:
        if isinstance(self.chunk.buffer, Tracer):
            return NDArray.__repr__(self)
        values, notes = self.asnumpy(), []
        shown = np.array_repr(np.asarray(values.astype(np.float64) if values.dtype.name == "bfloat16" else values))
        shown, _, rest = shown.partition("dtype=")
        body = shown.rstrip().removesuffix(",") if rest else shown.removesuffix(")")
        if values.dtype not in (np.float32, np.bool_):
            notes.append(f"dtype={values.dtype.name}")
        if self.context.device_type != "cpu":
            notes.append(f"ctx={self.context}")
        return ", ".join([body, *notes]) + ")"

    def __str__(self) -> str:
        if isinstance(self.chunk.buffer, Tracer):
            return NDArray.__repr__(self)
        text = str(self.asnumpy())
        return text if self.context.device_type == "cpu" or not self.shape else f"{text} @{self.context}"

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if not self.shape else object.__format__(self, spec)

    def __round__(self, n: int = 0) -> ndarray:
        return _elemwise.round(self, n)

    def __floor__(self) -> ndarray:
        return _elemwise.floor(self)

    def __ceil__(self) -> ndarray:
        return _elemwise.ceil(self)

    def __trunc__(self) -> ndarray:
        return _elemwise.trunc(self)

    # ------------------------------------------------------------ differences from the classic array
    def reshape_view(self, *shape: ShapeLike, **kwargs: Any) -> ndarray:
        """The same memory with another shape, as `NDArray.reshape`.

        Args:
            shape: ints, or one tuple; 0, -1, -2, -3 and -4 have the same meaning as in `mx.nd.reshape`.
            kwargs: those of `NDArray.reshape`: `shape`, `reverse`.

        Returns:
            An ndarray; writing to it changes this array too.

        Raises:
            ValueError: the number of elements does not match the shape.

        Example:
            >>> a = mx.np.array([1, 2, 3, 4])
            >>> a.reshape_view(2, 2)[0] = 9
            >>> a
            array([9., 9., 3., 4.])
        """
        return NDArray.reshape(self, *shape, **kwargs)  # pyright: ignore[reportReturnType]  of the array's class

    def attach_grad(  # pyright: ignore[reportIncompatibleMethodOverride]  MXNet's signature
            self, grad_req: str = "write") -> None:
        """Marks this array as a variable whose gradient `backward` stores in `.grad`; see `NDArray.attach_grad`.

        Args:
            grad_req: "write" replaces the gradient, "add" adds to it, "null" keeps none.

        Raises:
            MXNetError: an unknown `grad_req`.

        Example:
            >>> x = mx.np.array([1, 2])
            >>> x.attach_grad()
            >>> with mx.autograd.record():
            ...     y = (x * x).sum()
            >>> y.backward()
            >>> x.grad
            array([2., 4.])
        """
        NDArray.attach_grad(self, grad_req)

    def sort(  # pyright: ignore[reportIncompatibleMethodOverride]  NumPy's signature
            self, axis: int | None = -1, kind: str | None = None, order: str | Sequence[str] | None = None) -> None:
        """Sorts in place along an axis.

        Args:
            axis: the axis.
            kind: has no effect.
            order: only None.

        Raises:
            NotImplementedError: `order` is given.

        Example:
            >>> a = mx.np.array([3, 1, 2])
            >>> a.sort()
            >>> a
            array([1., 2., 3.])
        """
        self[...] = _index.sort(self, axis, kind, order)

    def nonzero(self) -> tuple[ndarray, ...]:
        """`np.nonzero` of this array: indices of the nonzero elements.

        Returns:
            A tuple with an int64 vector for each axis.

        Example:
            >>> mx.np.array([0, 7, 8]).nonzero()
            (array([1, 2], dtype=int64),)
        """
        return _index.nonzero(self)

    def diag(self, k: int = 0, **kwargs: Any) -> ndarray:
        """`np.diag` of this array: the diagonal of a matrix, or a matrix with this vector on it.

        Args:
            k: the diagonal: 0 for the main diagonal, positive above it, negative below it.
            kwargs: has no effect.

        Returns:
            A vector for a matrix, a matrix for a vector.

        Example:
            >>> mx.np.array([[1, 2], [3, 4]]).diag()
            array([1., 4.])
        """
        return _matrix.diag(self, k)

    def expand_dims(self, *args: Any, **kwargs: Any) -> ndarray:
        """`np.expand_dims` of this array: a new axis of size 1.

        Args:
            args, kwargs: `axis`, the position of the axis in the result.

        Returns:
            A copy with one additional axis.

        Raises:
            MXNetError: the axis is out of range.

        Example:
            >>> mx.np.array([1, 2]).expand_dims(0)
            array([[1., 2.]])
        """
        return _matrix.expand_dims(self, *args, **kwargs)

    def as_in_ctx(self, ctx: Context) -> ndarray:
        """This array if it is on `ctx`, else a copy on `ctx`.

        Args:
            ctx: the context.

        Returns:
            An ndarray on that context.

        Example:
            >>> a = mx.np.array([1, 2], ctx=mx.cpu())
            >>> a.as_in_ctx(mx.cpu()) is a
            True
        """
        return self.as_in_context(ctx)  # pyright: ignore[reportReturnType]  of the array's class

    def tostype(self, stype: str) -> ndarray:
        """A copy; there are only dense ndarrays.

        Args:
            stype: "default".

        Returns:
            An ndarray.

        Raises:
            ValueError: `stype` is not "default".

        Example:
            >>> mx.np.array([1, 2]).tostype("default")
            array([1., 2.])
        """
        if stype != "default":
            raise ValueError(f"mx.np.ndarray supports only the storage type 'default', got {stype!r}")
        return self.copy()


def _inplace(name: str, function: Callable) -> Callable[[ndarray, Any], ndarray]:
    def method(self: ndarray, other: Operand) -> ndarray:
        if state.recording and self.entry is not None:
            raise MXNetError(IN_PLACE)
        own = self.dtype
        kind = np.dtype(own).kind  # of booleans and numbers come integers, of quotients of integers floats
        if (kind == "b" or isinstance(other, (ndarray, np.ndarray)) and other.dtype != own
                or kind in "iu" and (name == "truediv" or isinstance(other, float) and level.current() == 2)):
            result = function(self, other).dtype
            if result != own:
                raise MXNetError(f"__i{name}__: cannot store a result of dtype {np_dtype(result).name} in place in an "
                                 f"array of dtype {np_dtype(own).name}; convert the array first with astype()")
        return function(self, other, out=self)
    return method


for _name, _function in [("add", "add"), ("sub", "subtract"), ("mul", "multiply"), ("truediv", "true_divide"),
                         ("mod", "mod"), ("and", "bitwise_and"), ("or", "bitwise_or"), ("xor", "bitwise_xor")]:
    setattr(ndarray, f"__i{_name}__", _inplace(_name, getattr(_elemwise, _function)))
ndarray.__imatmul__ = _inplace(  # pyright: ignore[reportAttributeAccessIssue]  set as those above are
    "matmul", _matrix.matmul)
at_level_2(ndarray, {f"__i{name}__": _inplace(name, getattr(_elemwise, function)) for name, function in [
    ("floordiv", "floor_divide"), ("pow", "power"), ("lshift", "bitwise_left_shift"),
    ("rshift", "bitwise_right_shift")]} | {"sort": of_2.sort})

IMPERATIVE.kind = array_classes.numpy = ndarray
level.follow(lambda api: setattr(IMPERATIVE, "taken", ndarray if api == 1 else NDArray))
jax.tree_util.register_pytree_node(ndarray, _flatten, _unflatten)


# ------------------------------------------------------------ arrays out of values
def _dtype_of(value: object) -> Any:
    """The dtype of an ndarray with these values: that of an array, else the default one.

    In MXNet 2 the dtype of NumPy arrays is ignored, unless float64 is the default dtype as in NumPy.
    """
    if isinstance(value, np.ndarray) and level.current() == 2 and not is_np_default_dtype():
        return None
    return default_float(getattr(value, "dtype", None))


@takes_device
def array(object: Any, dtype: DTypeLike = None, ctx: Context | None = None) -> ndarray:
    """An ndarray with the values of an array, number or nested sequence.

    Args:
        object: the values.
        dtype: dtype of the result; defaults to that of an array, else float32.
        ctx: context of the result; defaults to the current context.

    Returns:
        An ndarray with its own memory.

    Raises:
        ValueError: `object` is a classic NDArray; use its `as_np_ndarray()`, which does not copy.
        TypeError: the values do not form an array.

    Example:
        >>> mx.np.array([[1, 2], [3, 4]])
        array([[1., 2.],
               [3., 4.]])
        >>> mx.np.array(np.array([1, 2], dtype="int8"))
        array([1, 2], dtype=int8)
    """
    ctx = chosen(ctx)
    if isinstance(object, NDArray) and not isinstance(object, ndarray):
        raise ValueError("If you're trying to create a mxnet.numpy.ndarray from mx.nd.NDArray, please use the "
                         "zero-copy as_np_ndarray function.")
    if isinstance(object, (list, tuple)) and any(isinstance(v, NDArray) for v in object):
        object = [fallback.to_host(v) for v in object]
    dtype = np_dtype(_dtype_of(object) if dtype is None else dtype)
    if isinstance(object, ndarray):  # on the device, and recorded as any call
        return (object.copy() if dtype == object.dtype else object.astype(dtype)).as_in_ctx(ctx)
    try:
        values = host_values(object, dtype)
    except (TypeError, ValueError) as error:
        raise TypeError(f"np.array cannot convert this to an array: {error}") from None
    return _from_host(values, ctx, ndarray)


@takes_device
def asarray(obj: Any, dtype: DTypeLike = None, ctx: Context | None = None, copy: bool | None = None) -> ndarray:
    """An ndarray with the values of an array, number or nested sequence; returns a suitable ndarray as it is.

    Args:
        obj: the values.
        dtype: dtype of the result; defaults to that of an array, int64 for an int, else float32.
        ctx: context of the result; defaults to that of an ndarray, else to the current context.
        copy: has no effect.

    Returns:
        An ndarray.

    Raises:
        TypeError: the values do not form an array.

    Example:
        >>> a = mx.np.array([1, 2])
        >>> mx.np.asarray(a) is a
        True
    """
    if isinstance(obj, ndarray):
        same = obj if dtype is None or np_dtype(dtype) == obj.dtype else obj.astype(dtype)
        return same if ctx is None else same.as_in_ctx(ctx)
    return array(obj, np.int64 if dtype is None and isinstance(obj, int) else dtype, ctx)


def from_dlpack(x: object) -> ndarray:
    """An ndarray that shares the memory of an object with `__dlpack__`, or of a DLPack capsule.

    Args:
        x: the object, such as an array of another library.

    Returns:
        An ndarray.

    Example:
        >>> mx.np.from_dlpack(np.array([1, 2]))
        array([1, 2], dtype=int64)
    """
    return _from_dlpack(x).as_np_ndarray()


@takes_device
def empty(shape: ShapeLike, dtype: DTypeLike = np.float32, order: str = "C", ctx: Context | None = None) -> ndarray:
    """An array with unspecified values (zeros).

    Args:
        shape: int or tuple of ints.
        dtype: dtype of the result; defaults to float32.
        order: "C".
        ctx: context of the result; defaults to the current context.

    Returns:
        An ndarray of that shape.

    Raises:
        NotImplementedError: `order` is not "C".

    Example:
        >>> mx.np.empty((2, 3)).shape
        (2, 3)
    """
    return _create.zeros(IMPERATIVE, shape, dtype, order, ctx)
