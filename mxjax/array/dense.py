"""NDArray: a mutable handle over immutable JAX buffers."""

from __future__ import annotations

import ctypes
import html
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import jax
import numpy as np
from jax.core import Tracer

from .. import level
from .._support.c_math import c_number
from .._support.handles import pointer, taken
from .._xla.process import waits
from .._xla.x64 import X64_DTYPES
from ..base import MXNetError, NotOneOf, Unfit, WrongShape, integer_types, numeric_types
from ..context import Context, current_context
from ..eager.array_types import array_classes, storage, wrap
from ..eager.backward import backward, drop, retain
from ..eager.call_cache import kernel_of
from ..eager.chunk import Chunk, RLock, placed, transformation
from ..eager.dispatch import call, change, invoke
from ..eager.host_work import HostPromise, push
from ..eager.modes import state
from ..eager.promise import HostValue, Promise, on_default_device, put
from ..eager.tape import GRAD_REQS, Node, mark, record
from ..kernel.kernel import mistake, prepare, run
from ..kernel.policy import next_round
from ..ops import registry
from ..ops.params import DTYPES, DTypeLike, ShapeLike, np_dtype
from ..util import is_np_shape
from . import file_format, indexing
from .python_operators import IN_PLACE, add_operators
from .stored import StoredArray, offset_scalar, part_on_host

if TYPE_CHECKING:
    from ._stubs.dense import Base as _Base  # methods that are generated from operators
else:
    _Base = object

__all__ = ["NDArray"]


class _Single(np.ndarray):
    """One number or a column of them: `float` and `int` take one, which NumPy refuses since 2.4 and scripts rely on."""

    @classmethod
    def of(cls, array: np.ndarray) -> np.ndarray:
        """The array, as a `_Single` where it, or what it consists of, is an array of one number."""
        shape = array.shape
        return array.view(cls) if shape and (array.size == 1 or len(shape) > 1 and math.prod(shape[1:]) == 1) else array

    def __array_wrap__(self, array: np.ndarray, context: object = None, return_scalar: bool = False) -> Any:
        return self.of(np.asarray(array)) if array.ndim else array[()]

    def __float__(self) -> float:
        return float(self.item() if self.size == 1 else np.asarray(self))

    def __int__(self) -> int:
        return int(self.item() if self.size == 1 else np.asarray(self))

    def __repr__(self) -> str:
        return repr(np.asarray(self))

    def __reduce__(self) -> Any:
        return np.asarray(self).__reduce__()


class NDArray(StoredArray, _Base):
    """A multi-dimensional array on a device, computed asynchronously.

    Arrays are made by `mx.nd.array`, `mx.nd.zeros`, ... Operators, in-place changes, NumPy-like indexing and views
    (`a[1]`, `a[0:2]`, `a.reshape(...)` share memory with `a`) work as in MXNet 1.9.1. An NDArray is a JAX pytree,
    so it can be passed to `jax.jit`, `jax.grad`, optax and flax; `a.to_jax()` and `mx.nd.from_jax(x)` convert
    without a copy.

    Example:
        >>> a = mx.nd.ones((2, 3))
        >>> a[1] += 2
        >>> a.sum().asnumpy()
        array([12.], dtype=float32)
    """

    __slots__ = ()
    gradient: NDArray | None
    split_v2: Callable[..., Any]  # see `functions`
    __array_priority__ = 1000.0
    zero_dim = False
    stype = "default"

    def __init__(self, handle: object, writable: bool = True) -> None:
        """Wraps the chunk of another NDArray, a JAX array, or a pointer (`ctypes.cast(array, NDArrayHandle)`)."""
        self.region = self.entry = self.gradient = None
        if isinstance(handle, ctypes.c_void_p):
            source = taken(handle, NDArray)
            handle, self.region, self._cache = source.chunk, source.region, (-1, None)
            self.entry, self.gradient = source.entry, source.gradient
        if handle is not None:  # None: MXNet's pickles call `__setstate__` afterwards
            self.chunk = handle if isinstance(handle, Chunk) else Chunk(handle, context_of(handle))

    # ------------------------------------------------------------ what it is
    @property
    def handle(self) -> ctypes.c_void_p:
        """A pointer for the functions of `mx.base._LIB`, valid as long as the array exists."""
        return pointer(self)

    _as_parameter_ = handle  # the value for ctypes

    @property
    def writable(self) -> bool:
        """Returns whether the array is writable, which is always the case."""
        return True

    @property
    def dtype(self) -> type:
        """The element type as a NumPy class, e.g. `numpy.float32`."""
        return self.chunk.dtype.type

    @property
    def __numpy_dtype__(self) -> np.dtype:
        """Supports `numpy.dtype(array)`, which rejects a class as attribute `dtype` from NumPy 2.4 on."""
        return np.dtype(self.dtype)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def context(self) -> Context:
        """The context of the array."""
        return self.chunk.ctx

    ctx = device = context

    @property
    def T(self) -> NDArray:  # noqa: N802
        """A transposed copy (axes reversed); one-dimensional arrays are returned unchanged."""
        return self if self.ndim < 2 else self.transpose()

    @property
    def grad(self) -> NDArray | None:
        """The gradient buffer that `attach_grad` allocated, or None."""
        gradient = self.gradient
        if gradient is not None and type(gradient) is not type(self) and gradient.dense and self.dense:
            gradient = self.gradient = gradient.alias(type(self))  # of the other class of arrays
        return gradient

    @property
    def _fresh_grad(self) -> bool:
        """Returns whether a backward pass has written the gradient since this was last set to False."""
        entry = self.entry
        return entry is not None and entry[0].fresh

    @_fresh_grad.setter
    def _fresh_grad(self, value: bool) -> None:
        entry = self.entry
        if entry is None:
            raise MXNetError("only arrays with attach_grad() have a fresh gradient")
        entry[0].fresh = value

    # ------------------------------------------------------------ value in and out
    def take_result(self, result: NDArray) -> None:
        """Takes over the value of an operator's result for `out=`, and its tape position while recording."""
        if result.shape != self.shape:
            raise MXNetError(f"out= has shape {self.shape}, but the result has shape {result.shape}")
        if result.dtype != self.dtype:
            result = result.astype(self.dtype)
        chunk = result.chunk
        if chunk.ctx != self.chunk.ctx:
            self.write(placed(chunk.read(), self.chunk.ctx.jax_device))
        else:
            self.write(chunk.peek())
        if state.recording:
            self.entry = result.entry

    def asnumpy(self) -> np.ndarray:
        """A writable NumPy copy; waits for the value."""
        pending, view = self.chunk.pending, self.region
        value = pending if type(pending) is HostValue else self.chunk.read() if view is not None else self.read()
        waits()
        next_round()
        try:
            part = None if view is None else part_on_host(value, *view, True)
            if part is not None:
                return _Single.of(part)
            if type(value) is HostValue and view is None:
                return _Single.of(np.array(value.numpy()))
        except (jax.errors.JaxRuntimeError, MemoryError) as error:
            raise mistake("asnumpy", [value], error) from None
        value = self.read()
        if isinstance(value, Tracer):
            raise MXNetError("asnumpy() cannot run inside a JAX transformation (jit, grad, vmap ...): the array has no "
                             "value yet")
        try:
            return _Single.of(np.array(value, order="C"))
        except (jax.errors.JaxRuntimeError, MemoryError) as error:
            raise mistake("asnumpy", [value], error) from None

    def asscalar(self) -> Any:
        """The only element as a Python/NumPy scalar.

        Raises:
            ValueError: there is more than one element.
        """
        if self.size != 1:
            raise ValueError("The current array is not a scalar")
        return self.asnumpy().reshape(())[()]

    item = asscalar

    def wait_to_read(self) -> None:
        """Waits until the value is available; raises the error of its computation."""
        value = None if type(self.chunk.pending) is HostValue else self.read()
        waits()
        next_round()
        if value is not None and not isinstance(value, Tracer):
            try:
                value.block_until_ready()
            except jax.errors.JaxRuntimeError as error:
                raise mistake("wait_to_read", [value], error) from None

    def to_jax(self) -> jax.Array:
        """The value as a `jax.Array`, without a copy. Later changes of this NDArray do not affect it."""
        return self.read()

    def __jax_array__(self) -> jax.Array:
        return self.read()

    def __array__(self, dtype: DTypeLike = None, copy: bool | None = None) -> np.ndarray:
        array = self.asnumpy()
        return array if dtype is None else array.astype(dtype)

    def __dlpack__(self, **options: object) -> Any:
        self.chunk.lent = True
        value = self.read()
        value.block_until_ready()
        return value.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        value = self.read()
        return value.__dlpack_device__()  # pyright: ignore[reportAttributeAccessIssue]  JAX's stubs omit it

    def to_dlpack_for_read(self) -> Any:
        """A DLPack capsule that shares this array's memory."""
        return self.__dlpack__()

    def to_dlpack_for_write(self) -> Any:
        """A DLPack capsule; XLA buffers are immutable, so writing through it is undefined behaviour."""
        return self.__dlpack__()

    # ------------------------------------------------------------ copies and conversions
    def copy(self) -> NDArray:
        """A copy on the same context."""
        return invoke(kernel_of("_copy"), [self])

    def copyto(self, other: NDArray | Context) -> NDArray:
        """Copies the value to another array of the same shape, or to a new array on a context; returns the copy.

        Raises:
            TypeError: `other` is neither.
        """
        if isinstance(other, Context):
            return self.moved_to(other)
        if not isinstance(other, NDArray):
            raise TypeError(f"copyto expects an NDArray or a context such as mx.cpu(), got {other!r}")
        if other is self:
            return other
        mine, its = self.chunk, other.chunk
        if self.region is None and other.region is None and self.dense and other.dense and not state.recording and \
                other.entry is None and its.take_over(mine, alike=True):
            return other
        if other.shape != self.shape:
            raise MXNetError(f"copyto: shapes {self.shape} and {other.shape} differ")
        if state.recording or not self.dense:
            other.take_result(self.copy() if state.recording else wrap(self.read(), self.chunk.ctx, type(self)))
        elif state.trace is not None and other.dense and mine.ctx == its.ctx:
            invoke(kernel_of("Cast", dtype=its.dtype), [self], (), other)  # it can be deferred
        else:
            ctx, array_type = self.chunk.ctx, type(self)
            change([other], [self], lambda values: other.take_result(wrap(values[0], ctx, array_type)))
        return other

    def moved_to(self, context: Context) -> NDArray:
        """A copy on another context; its gradient comes back the same way."""
        if state.recorder is not None:
            return state.recorder.moved(self, context)
        source, device, value = self.chunk.ctx, context.jax_device, self.chunk.peek()
        if isinstance(value, HostPromise) and value.value is None and self.region is None:
            value = push(lambda values: [placed(values[0], device)], [value], [(value.shape, value.dtype)], ctx=context,
                         name="copy")[0]
        else:
            value = placed(self.read(), device)
        result = wrap(value, context, type(self))
        if state.recording and self.entry is not None:
            def pull(slots: list[Any], _: bool) -> list[Any]:
                return [s.moved_to(source) if isinstance(s, NDArray) else placed(s, source.jax_device) for s in slots]
            result.entry = (Node(None, (), [self.entry], [(self.shape, self.chunk.dtype)], context, pull), 0)
        return result

    def as_in_context(self, context: Context) -> NDArray:
        """This array if it is on `context`, else a copy on `context`."""
        return self if self.chunk.ctx == context else self.copyto(context)

    as_in_ctx = as_in_context

    def to_device(self, device: Context) -> NDArray:
        """This array if it is on `device`, else a copy on `device`."""
        return self.as_in_context(device)

    def as_nd_ndarray(self) -> NDArray:
        """The same array as a classic `mx.nd.NDArray`; sparse arrays are returned unchanged."""
        return self if type(self) is NDArray or not self.dense else self.alias(NDArray)

    def as_np_ndarray(self) -> Any:
        """The same array as an `mx.np.ndarray`.

        Raises:
            ValueError: the array is sparse.
        """
        if not self.dense:
            raise ValueError(f"mx.np does not support storage type {self.stype}; convert the array with "
                             "tostype('default')")
        return self if type(self) is array_classes.numpy else self.alias(array_classes.numpy)

    def astype(self, dtype: DTypeLike, copy: bool = True) -> NDArray:
        """A copy with another dtype; the array itself if `copy` is False and the dtype is the same."""
        if not copy and np_dtype(dtype) == self.chunk.dtype:
            return self
        return invoke(kernel_of("Cast", dtype="float32" if dtype is None else dtype), [self])

    def tostype(self, stype: str) -> Any:
        """A copy with another storage type: "default", "csr" or "row_sparse"."""
        if stype == "default":
            return self.copy()
        if stype == "csr" and len(self.shape) != 2:
            raise ValueError(f"only matrices can be stored as csr, got shape {self.shape}")
        return storage(stype).of_dense(self)

    def detach(self) -> NDArray:
        """The same memory, detached from the recorded graph."""
        if state.recorder is not None:
            return state.recorder.detached(self)
        array = self.alias(type(self))
        array.entry = array.gradient = None
        return array

    # ------------------------------------------------------------ autograd
    def attach_grad(self, grad_req: str = "write", stype: str | None = None) -> None:
        """Marks this array as a variable whose gradient `backward` stores in `.grad`.

        Args:
            grad_req: "write" (each backward overwrites), "add" (accumulates) or "null".
            stype: storage type of the gradient buffer.
        """
        if grad_req not in GRAD_REQS:
            raise NotOneOf(f"grad_req must be one of {', '.join(GRAD_REQS)}, got {grad_req!r}")
        stype = stype or self.stype
        zero = storage(stype).zeros(self.shape, self.chunk.ctx, self.chunk.dtype)
        zero = zero.alias(type(self)) if stype == "default" and self.dense else zero
        entry = self.entry
        if level.current() == 2 and entry is not None and entry[0].alive and entry[0].grad is None:
            retain(self, zero, grad_req)  # MXNet 2 keeps the graph behind an array
        else:
            mark(self, zero, grad_req)

    def drop_grad(self) -> None:
        """Removes the gradient buffer that `attach_grad` allocated."""
        drop(self)

    def backward(self, out_grad: NDArray | None = None, retain_graph: bool = False, train_mode: bool = True) -> None:
        """Computes the gradients of this array with respect to its variables; see `mx.autograd.backward`."""
        backward([self], [out_grad], retain_graph, train_mode)

    # ------------------------------------------------------------ indexing and views
    def __getitem__(self, key: object) -> NDArray:
        if state.recorder is not None:
            return state.recorder.index(self, key)
        shape = self.shape
        if type(key) is int and not state.recording and shape and -shape[0] <= key < shape[0]:
            count = self.size // shape[0]
            return self.view_at((key % shape[0]) * count, shape[1:] or (() if self.has_scalars() else (1,)))
        if type(key) is slice and key.start is None and key.stop is None and key.step in (None, 1) or \
                type(key) is tuple and not key:
            return self  # not a view: it has the gradient too
        chosen = indexing.selection(key, shape, self.has_scalars(), self.zero_dim)
        if chosen.offset is not None:
            return self.view_at(chosen.offset, chosen.shape)
        kernel = indexing.read_kernel(chosen.kind, chosen.shape, chosen.sizes, chosen.items, len(chosen.arrays))
        arrays = [a if isinstance(a, NDArray) else _from_host(np.asarray(a), self.chunk.ctx)
                  for a in self._index_values(chosen)]
        return invoke(kernel, [self, *arrays], _starts(chosen))

    def has_scalars(self) -> bool:
        """Returns whether a single element of this array has the shape (), rather than (1,)."""
        return self.zero_dim or is_np_shape()

    def _at(self, idx: int) -> NDArray:
        """The view of one row, as `self[idx]`."""
        if not -len(self) <= idx < len(self):
            raise MXNetError(f"_at: index {idx} is out of range for {len(self)} rows")
        return self[idx]

    def _slice(self, start: int, stop: int) -> NDArray:
        """The view of some rows, as `self[start:stop]`."""
        return self[start:stop]

    def _index_values(self, chosen: indexing.Selection) -> list[Any]:
        """Returns the index arrays of a selection, copied from other contexts if necessary."""
        return [a.as_in_context(self.chunk.ctx) if isinstance(a, NDArray) else a for a in chosen.arrays]

    def view_at(self, offset: int, shape: tuple[int, ...]) -> NDArray:
        """Returns a view of `shape` that begins at element `offset` of this array."""
        base = 0 if self.region is None else self.region[0]
        array = self.alias(type(self), (base + offset, shape))
        array.gradient = array.entry = None
        if state.recording and self.entry is not None:
            value = wrap(array.read(), self.chunk.ctx)
            record(indexing.view_kernel(shape), [self], [self.read(), offset_scalar(offset)], [value])
            array.entry = value.entry
        return array

    def __setitem__(self, key: object, value: object) -> None:
        if state.recorder is not None:
            state.recorder.refuse_change()
        if type(key) is slice and key == _ALL or key is Ellipsis or key is None:
            if state.recording and self.entry is not None:
                raise MXNetError(IN_PLACE)
            self.assign(value)
            return
        chosen = indexing.selection(key, self.shape, self.has_scalars(), self.zero_dim, writing=True)
        if type(key) is tuple and chosen.kind != "gather" and any([item is None for item in key]):
            # MXNet ignores new axes that the value does not have
            flat = indexing.selection(tuple([item for item in key if item is not None]), self.shape,
                                      self.has_scalars(), self.zero_dim, writing=True)
            chosen = flat if np.ndim(cast(Any, value)) <= len(flat.shape) else chosen
        if state.recording and (self.entry is not None or getattr(value, "entry", None) is not None):
            raise MXNetError(IN_PLACE)
        if chosen.offset is not None:
            self.view_at(chosen.offset, chosen.shape).assign(value)
            return
        source = self._operand(value, chosen.shape if chosen.kind == "box" else None)
        kernel = indexing.write_kernel(chosen.kind, chosen.shape, chosen.sizes, chosen.items, len(chosen.arrays))
        if isinstance(source, NDArray) and not source.dense:
            source = source.read()
        args = [None, source, *self._index_values(chosen), *_starts(chosen)]
        if self.region is None:
            self.update(kernel, args)
            return
        args[0] = self
        x64 = self.chunk.x64 or getattr(source, "dtype", None) in X64_DTYPES
        change([self], [a for a in args if isinstance(a, NDArray)], lambda values: self.write(
            run(kernel, [values.pop(0) if isinstance(a, NDArray) else a for a in args], x64)[0]))

    def _operand(self, value: object, shape: tuple[int, ...] | None) -> Any:
        """Returns the right-hand side of an assignment as an NDArray on this context, a NumPy array or a scalar."""
        if isinstance(value, NDArray):
            source = value if value.chunk.ctx == self.chunk.ctx else value.as_in_context(self.chunk.ctx)
        elif isinstance(value, numeric_types) and not isinstance(value, np.complexfloating):
            return c_number(value, self.chunk.dtype)
        elif isinstance(value, jax.Array):
            source = value
        else:
            try:
                with np.errstate(invalid="ignore"):
                    source = np.asarray(value)
                    if source.dtype.kind == "c" and not isinstance(value, np.ndarray):
                        raise TypeError("complex numbers")
                    source = source.astype(self.chunk.dtype, copy=False)
            except (TypeError, ValueError):
                raise TypeError(f"an array of {self.chunk.dtype} and shape {self.shape} does not support assignment "
                                f"with {str(value)[:60]} of type {type(value)}; expected numbers or an array") from None
        if shape is not None and not _broadcasts(source.shape, shape):
            raise WrongShape(f"cannot assign an array of shape {tuple(source.shape)} to a selection of shape {shape}")
        return source

    def assign(self, value: object) -> None:
        """self[:] = value."""
        shape, chunk = self.shape, self.chunk
        if type(value) is type(self) or isinstance(value, NDArray):
            same = value.chunk
            if value.shape == shape and same.ctx == chunk.ctx and same.dtype == chunk.dtype:
                if value is self:
                    return
                if state.recording:
                    self.take_result(value.copy())
                elif self.region is None and value.region is None and chunk.take_over(same):
                    return
                elif not value.dense:
                    self.write(value.read())
                else:  # a pending value is taken over as such
                    change([self], [value], lambda values: self.write(values[0]),
                           _any if self.region is None else None)
                return
        source = self._operand(value, shape)
        if isinstance(source, NDArray):
            kernel = indexing.fill_kernel(shape, chunk.dtype.name)
            if state.recording:
                self.take_result(invoke(kernel, [source]))
                return
            source = source if source.dense else wrap(source.read(), chunk.ctx)
            x64 = chunk.x64 or source.chunk.x64
            change([self], [source], lambda values: self.write(run(kernel, values, x64)[0]))
            return
        x64 = chunk.x64 or getattr(source, "dtype", None) in X64_DTYPES
        if isinstance(source, np.ndarray) and source.shape == shape:
            result = put(source.copy() if source is value else source, chunk.ctx)
        else:
            here = on_default_device(chunk.ctx)
            if isinstance(source, np.ndarray) and (source.ndim or not here and chunk.ctx.memory != "cpu"):
                source = put(source, chunk.ctx)  # the number is copied to another accelerator, not the array
            if here or isinstance(source, jax.Array):
                result = run(indexing.fill_kernel(shape, chunk.dtype.name), [source], x64)[0]
            else:
                result = put(np.full(shape, source), chunk.ctx)
        self.write(result)

    @staticmethod
    def _basic_indexing_slice_is_contiguous(slc_key: tuple, shape: tuple[int, ...]) -> bool:
        """Returns whether a basic index selects contiguous memory, so that the result is a view."""
        chosen = indexing.selection(slc_key, shape)
        return 0 in chosen.shape or chosen.offset is not None

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array with no dimensions")
        return self.shape[0]

    def __iter__(self) -> Iterator[NDArray]:
        if not self.shape and level.current() == 2:
            return iter(())  # as in MXNet 2
        return (self[i] for i in range(len(self)))

    def __contains__(self, value: object) -> bool:
        return bool((self.asnumpy() == (value.asnumpy() if isinstance(value, NDArray) else value)).any())

    # ------------------------------------------------------------ shapes that share memory
    def reshape(self, *shape: Any, **kwargs: Any) -> NDArray:
        """A view with another shape.

        Args:
            shape: ints or one tuple; 0 keeps a dimension, -1 is inferred, -2 keeps all remaining ones, -3 merges two,
                -4 splits one into the next two numbers.
            reverse: whether to read the special values from the right.

        Raises:
            WrongShape: the sizes do not match, or the special values are misused (a ValueError and an MXNetError).
            TypeError: a size is not an integer.
        """
        if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
            shape = tuple(shape[0])
        elif not shape:
            shape = tuple(kwargs.get("shape") or ())
            if not shape:
                raise Unfit("Shape must be provided.")
        unknown = set(kwargs) - {"shape", "reverse"}
        if unknown:
            raise TypeError(f"reshape got unknown keyword arguments: {', '.join(sorted(unknown))}. "
                            "Accepted: 'shape' and 'reverse'.")
        shape = tuple(map(operator.index, shape))
        try:
            target = new_shape(self.shape, shape, bool(kwargs.get("reverse", False)))
        except MXNetError as error:
            raise WrongShape(str(error)) from None
        if state.recorder is not None:
            return state.recorder.reshaped(self, shape, bool(kwargs.get("reverse", False)))
        return self.view_at(0, target)

    def reshape_view(self, *shape: Any, **kwargs: Any) -> NDArray:
        """An alias of `reshape`."""
        return self.reshape(*shape, **kwargs)

    def expand_dims(self, axis: int, inplace: bool = False) -> NDArray:
        """A copy with a new axis of length 1 at `axis`; with `inplace` a view."""
        if inplace:
            place = axis if axis >= 0 else axis + self.ndim + 1
            return self.reshape(self.shape[:place] + (1,) + self.shape[place:])
        return call(registry.get("expand_dims"), [self], {"axis": axis})

    def squeeze(self, axis: int | tuple[int, ...] | None = None, inplace: bool = False) -> NDArray:
        """A copy without axes of length 1 (all, or those given); with `inplace` a view."""
        result = call(registry.get("squeeze"), [self], {"axis": axis})
        return self.view_at(0, result.shape) if inplace else result

    def flatten(self, inplace: bool = False) -> NDArray:
        """A copy of shape (first axis, everything else); with `inplace` a view."""
        if inplace:
            return self.reshape((self.shape[0], -1))
        return call(registry.get("Flatten"), [self], {})

    def broadcast_to(self, shape: ShapeLike) -> NDArray:
        """A copy that is broadcast to `shape`."""
        shape = (shape,) if isinstance(shape, integer_types) else tuple(shape)
        old = self.shape
        if len(shape) < len(old) or any(o not in (1, n) and n != 0 for o, n in
                                        zip(old, shape[len(shape) - len(old):], strict=True)):
            raise ValueError(f"operands could not be broadcast together with remapped shapes "
                             f"[original->remapped]: {old} and requested shape {shape}")
        source = self if len(old) == len(shape) else self.reshape((1,) * (len(shape) - len(old)) + old)
        return call(registry.get("broadcast_to"), [source], {"shape": shape})

    def broadcast_like(self, other: NDArray) -> NDArray:
        """`broadcast_to(other.shape)`."""
        return self.broadcast_to(other.shape)

    def diag(self, k: int = 0, **kwargs: object) -> NDArray:
        """The k-th diagonal, or a matrix with this diagonal."""
        return call(registry.get("diag"), [self], {"k": k, **kwargs})

    def slice_assign(self, rhs: NDArray | float, begin: tuple, end: tuple, step: tuple) -> NDArray:
        """self[begin:end:step] = rhs, in place; returns self."""
        self[tuple(map(slice, begin, end, step or (None,) * len(begin)))] = rhs
        return self

    def slice_assign_scalar(self, value: float, begin: tuple, end: tuple, step: tuple) -> NDArray:
        """self[begin:end:step] = value, in place; returns self."""
        return self.slice_assign(value, begin, end, step)

    # ------------------------------------------------------------ Python's protocols
    def __repr__(self) -> str:
        if isinstance(self.chunk.buffer, Tracer):
            return f"<{type(self).__name__} {'x'.join(map(str, self.shape))} of {self.chunk.buffer}>"
        shape = "x".join(map(str, self.shape))
        return f"\n{self.asnumpy()}\n<{type(self).__name__} {shape} @{self.context}>"

    def _repr_html_(self) -> str:
        """Returns the description and the values for notebooks."""
        if isinstance(self.chunk.buffer, Tracer):
            return f"<pre>{html.escape(repr(self))}</pre>"
        shape = " × ".join(map(str, self.shape)) or "scalar"
        return (f"<div><b>{type(self).__name__}</b> {shape} <i>{np.dtype(self.dtype).name}</i> @{self.context}"
                f"<pre>{html.escape(str(self.asnumpy()))}</pre></div>")

    def __bool__(self) -> bool:
        if self.size == 0:
            return False
        if self.size == 1:
            return bool(self.asscalar())
        raise ValueError("The truth value of an NDArray with multiple elements is ambiguous.")

    def __float__(self) -> float:
        return float(self._only("float"))

    def __int__(self) -> int:
        return int(self._only("int"))

    def _only(self, name: str) -> Any:
        if self.size != 1:
            raise TypeError(f"{name}() requires an array with one element, got {self.size} elements")
        return self.asscalar()

    def __index__(self) -> int:
        if self.chunk.dtype.kind not in "iu" or self.size != 1:
            raise TypeError("only integer arrays with one element can be converted to an index")
        return int(self.asscalar())

    def __hash__(self) -> int:
        return id(self) >> 4

    def __reduce__(self) -> tuple:
        return _unpickle, (type(self),), self.__getstate__()

    def __getstate__(self) -> dict[str, bytearray]:
        return {"handle": bytearray(file_format.dumps(self))}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restores an array from MXNet's pickled form, which contains it as in a `.params` file."""
        self.__init__(file_format.loads(state["handle"]).chunk)

    def __copy__(self) -> NDArray:
        return self.copy()

    def __deepcopy__(self, memo: dict) -> NDArray:
        return self.copy()

    def __neg__(self) -> NDArray:
        return invoke(kernel_of("negative"), [self])

    def __abs__(self) -> NDArray:
        return invoke(kernel_of("abs"), [self])


def _any(pending: Promise) -> bool:
    """Every value may stay Promise."""
    return True


_ALL = slice(None)
py_slice = slice  # `slice` is also an operator
_STORAGE_TYPE_STR_TO_ID = {stype: number for number, stype in file_format.STYPES.items()}
_DTYPE_MX_TO_NP = {-1: None} | {code: dtype.type for code, dtype in DTYPES.items()}
_DTYPE_NP_TO_MX = {dtype: code for code, dtype in _DTYPE_MX_TO_NP.items()}
_GRAD_REQ_MAP = {"null": 0, "write": 1, "add": 3}


# ---------------------------------------------------------------- values and kernels used directly
def _starts(chosen: indexing.Selection) -> tuple:
    return tuple(chosen.starts) if chosen.kind == "box" else ()


def _broadcasts(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    extra = len(shape) - len(target)
    if extra > 0:
        if any(n != 1 for n in shape[:extra]):
            return False
        shape = shape[extra:]
    return all(n in (1, t) for n, t in zip(shape[::-1], target[::-1], strict=False))


def new_shape(old: tuple[int, ...], codes: tuple[int, ...], reverse: bool = False) -> tuple[int, ...]:
    """Returns the shape for reshape's special values 0, -1, -2, -3, -4 and an array of shape `old`."""
    if not codes:  # the operator would interpret it as "unchanged"
        if math.prod(old) != 1:
            raise MXNetError(f"Cannot reshape array of size {math.prod(old)} into shape ()")
        return ()
    if not reverse and min(codes, default=0) > 0 and np.prod(codes, dtype=np.int64) == np.prod(old, dtype=np.int64):
        return codes
    op = registry.get("Reshape")
    kernel = prepare(op, op.parse({"shape": codes, "reverse": reverse}), 1, False)
    return kernel.specs([jax.ShapeDtypeStruct(old, np.float32)])[0][0]


# ---------------------------------------------------------------- host values
def context_of(value: Any) -> Context:
    """Returns the context of a JAX array (the current one for a tracer)."""
    if isinstance(value, Tracer) or not hasattr(value, "devices"):
        return current_context()
    device = next(iter(value.devices()))
    device_type = {"cpu": "cpu", "tpu": "tpu"}.get(device.platform, "gpu")
    current = current_context()
    if current.device_type == device_type and current.jax_device == device:
        return current
    return Context(device_type, jax.local_devices(backend=device.platform).index(device))


def _from_host(array: np.ndarray, ctx: Context, array_type: type[NDArray] = NDArray) -> Any:
    result = wrap(put(array, ctx), ctx, array_type)
    result.chunk.origin_trace = transformation()
    return result


def _unpickle(cls: type[NDArray]) -> NDArray:
    return cls.__new__(cls)


def _flatten(array: NDArray) -> tuple[tuple, Any]:
    return (array.read(),), (type(array), array.chunk.ctx)


def _unflatten(kind_and_ctx: tuple, leaves: Sequence[Any]) -> NDArray:
    array_type, ctx = kind_and_ctx
    array = array_type.__new__(array_type)
    array.chunk = Chunk.__new__(Chunk)
    chunk = array.chunk
    chunk.buffer, chunk.pending, chunk.ctx, chunk.version, chunk.lent = leaves[0], None, ctx, 0, False
    chunk.lock, chunk.stash = RLock(), None
    chunk.origin_trace = transformation()
    chunk.x64 = getattr(leaves[0], "dtype", None) in X64_DTYPES
    array.region = array.entry = array.gradient = None
    return array


add_operators(NDArray)
jax.tree_util.register_pytree_node(NDArray, _flatten, _unflatten)
array_classes.classic = NDArray
