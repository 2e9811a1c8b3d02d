"""`mx.gluon.data.batchify`: functions that combine samples into a batch, for the `batchify_fn` of a `DataLoader`.

`use_shared_mem` is accepted for compatibility and ignored: loaders always move batches through
shared memory.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import ndarray as nd
from ...array.dense import _from_host
from ...context import cpu
from .dataloader import _array_class, default_batchify_fn
from .dataset import HasHandle

if TYPE_CHECKING:
    from ...ops.params import DTypeLike

__all__ = ["Append", "AsList", "Group", "Pad", "Stack"]


class Stack(HasHandle):
    """Stacks samples of the same shape along a new first axis; tuples and lists element by element.

    Args:
        use_shared_mem: see above.

    Example:
        >>> mx.gluon.data.batchify.Stack()([[1, 2], [3, 4]])[1].asnumpy()
        array([2, 4])
    """

    _in_cpp = True  # MXNet 2's loader in C++ supports it

    def __init__(self, use_shared_mem: bool = False) -> None:
        self._use_shared_mem = use_shared_mem

    def __call__(self, data: Sequence[Any]) -> Any:
        if isinstance(data[0], tuple | list):
            return [self(part) for part in zip(*data, strict=True)]
        return default_batchify_fn(data)


class Pad(HasHandle):
    """Stacks samples of different sizes along a new first axis, each padded to the largest size of each axis.

    Args:
        val: padding value; 0 by default.
        dtype: dtype of the batch; by default that of the samples.
        round_to: round sizes up to a multiple of this number.
        use_shared_mem: see above.

    Example:
        >>> mx.gluon.data.batchify.Pad(val=-1)([[1, 2, 3], [4]]).asnumpy()
        array([[ 1,  2,  3],
               [ 4, -1, -1]])
    """

    _in_cpp = True

    def __init__(self, val: float | None = None, dtype: DTypeLike | None = None, round_to: int | None = None,
                 use_shared_mem: bool = False) -> None:
        self._val = 0 if val is None else val
        self._dtype, self._round_to, self._warned = dtype, round_to, False
        self._use_shared_mem = use_shared_mem

    def __call__(self, data: Sequence[Any]) -> Any:
        if not isinstance(data[0], nd.NDArray | np.ndarray | list):
            raise NotImplementedError(f"Pad expects arrays or lists, got samples of type {type(data[0]).__name__}; for "
                                      "samples of several parts use Group(Pad(), Pad(), ...)")
        if isinstance(data[0], nd.NDArray) and not self._warned:
            self._warned = True
            warnings.warn("Pad is slower with NDArrays than with lists or NumPy arrays", UserWarning, stacklevel=2)
        arrays = [x.asnumpy() if isinstance(x, nd.NDArray) else np.asarray(x) for x in data]
        if not all(array.size for array in arrays):
            raise AssertionError(f"Pad: a sample is empty; the shapes are {[array.shape for array in arrays]}")
        shape = [self._rounded(max(sizes)) for sizes in zip(*[array.shape for array in arrays], strict=True)]
        batch = np.full((len(arrays), *shape), self._val, self._dtype or arrays[0].dtype)
        for row, array in zip(batch, arrays, strict=True):
            row[tuple(map(slice, array.shape))] = array
        return _from_host(batch, cpu(), _array_class())

    def _rounded(self, size: int) -> int:
        return size if self._round_to is None else self._round_to * math.ceil(size / self._round_to)


class Append:
    """Collects the samples in a list of arrays.

    Args:
        expand: add a batch axis of length 1 to each array.
        batch_axis: position of that axis.
        use_shared_mem: see above.

    Example:
        >>> [x.shape for x in mx.gluon.data.batchify.Append()([[1, 2, 3], [4]])]
        [(1, 3), (1, 1)]
    """

    def __init__(self, expand: bool = True, batch_axis: int = 0, use_shared_mem: bool = False) -> None:
        self._expand, self._batch_axis, self._use_shared_mem = expand, batch_axis, use_shared_mem

    def __call__(self, data: Sequence[Any]) -> list[Any]:
        arrays = [x if isinstance(x, nd.NDArray) else _from_host(np.asarray(x, np.float32), cpu(), _array_class())
                  for x in data]
        return [x.expand_dims(axis=self._batch_axis) for x in arrays] if self._expand else arrays


class Group(HasHandle):
    """Applies a separate batchify function to each part of the samples.

    Args:
        fn: function of the first part, or a list of all functions.
        *args: functions of the other parts.

    Raises:
        AssertionError: an argument is not a function, or the samples have another number of parts.

    Example:
        >>> both = mx.gluon.data.batchify.Group(mx.gluon.data.batchify.Stack(), mx.gluon.data.batchify.Pad())
        >>> [x.shape for x in both([(1, [1, 2, 3]), (2, [4])])]
        [(2,), (2, 3)]
    """

    def __init__(self, fn: Callable[[Sequence[Any]], Any] | Sequence[Callable[[Sequence[Any]], Any]],
                 *args: Callable[[Sequence[Any]], Any]) -> None:
        if isinstance(fn, list | tuple):
            if args:
                raise AssertionError("Group accepts functions as separate arguments or as a list, not both")
            functions: tuple[Any, ...] = tuple(fn)
        else:
            functions = (fn, *args)
        for i, one in enumerate(functions):
            if not callable(one):
                raise AssertionError(f"Group: function {i} is a {type(one).__name__}, which cannot be called")
        self._fn: tuple[Callable[[Sequence[Any]], Any], ...] = functions

    @property
    def _in_cpp(self) -> bool:
        return all(getattr(fn, "_in_cpp", False) for fn in self._fn)

    def __call__(self, data: Sequence[Any]) -> tuple[Any, ...]:
        if len(data[0]) != len(self._fn):
            raise AssertionError(f"Group: samples have {len(data[0])} parts, but there are {len(self._fn)} functions")
        return tuple(fn([sample[i] for sample in data]) for i, fn in enumerate(self._fn))


class AsList:
    """Returns the samples unchanged, in a list."""

    def __call__(self, data: Sequence[Any]) -> list[Any]:
        return list(data)
