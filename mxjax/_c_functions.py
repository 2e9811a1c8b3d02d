"""The functions of MXNet's C library that Python scripts call directly, as `mx.base._LIB`.

They accept `ctypes` objects, write results through pointers, and return 0, or -1 after an error, which
`mx.base.check_call` raises. Objects are known by pointers: `ctypes.cast(array, NDArrayHandle)` gives an NDArray's, and
`NDArray(handle)` and `Symbol(handle)` take over the objects that a function created.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ._random.streams import seed as seed_streams
from ._support.handles import handed_over, referent
from .array.creation import from_dlpack, waitall
from .array.dense import NDArray
from .base import MXNetError, error_types, get_last_ffi_error, note_error
from .context import num_gpus
from .engine import set_bulk_size
from .graph.backends import as_node, choose_operators, find, partition
from .ops import registry
from .symbol import Symbol

__all__ = ["Library"]


class Library:
    """Stands for the loaded C library; asking for a function that is not here is an AttributeError.

    Example:
        >>> version = ctypes.c_int()
        >>> mx.base.check_call(mx.base._LIB.MXGetVersion(ctypes.byref(version)))
        >>> version.value
        10901
    """

    def __init__(self) -> None:
        # Scripts that speak to MXNet's C library call these two as it has left them. They are everybody's: so they are
        # changed only when the library is requested, and unless other code has set their types.
        for function, kind in ((ctypes.pythonapi.PyCapsule_New, ctypes.py_object),
                               (ctypes.pythonapi.PyCapsule_GetPointer, ctypes.c_void_p)):
            if function.restype is ctypes.c_int:
                function.restype = kind

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in _functions:
            raise AttributeError(f"mxjax has no C library; of its functions there are {', '.join(_functions)} in "
                                 f"Python, not {name}")
        return _functions[name]


_functions: dict[str, Callable[..., Any]] = {}


def _function(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Registers the decorated function under names of the C library."""
    def register(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def call(*args: object) -> int:
            try:
                function(*args)
            except Exception as error:
                note_error(error)
                return -1
            return 0
        _functions.update(dict.fromkeys(names, call))
        return function
    return register


def _pointee(reference: object) -> Any:
    """Returns the object that `ctypes.byref(x)` or `ctypes.pointer(x)` refers to."""
    return getattr(reference, "_obj" if hasattr(reference, "_obj") else "contents")


def _number(value: object) -> int:
    number: Any = getattr(value, "value", value)
    return number


def _text(value: object) -> str:
    text: Any = getattr(value, "value", value)
    return text.decode()


def _give(reference: object, value: object) -> None:
    """Writes the pointer to a new object."""
    _pointee(reference).value = handed_over(value).value


# ------------------------------------------------------------ the process
@_function("MXGetVersion")
def _version(out: object) -> None:
    _pointee(out).value = 10901


def _last_error() -> bytes:
    """The text of this thread's last error, behind the name under which its class, or a base of it, is registered."""
    error = get_last_ffi_error()
    name = next((name for kind in type(error).__mro__ for name, known in error_types.items() if known is kind),
                type(error).__name__)
    return f"{name}: {error}".encode()


_functions["MXGetLastError"] = _last_error  # the only one that returns its result


@_function("MXNDArrayWaitAll", "MXNotifyShutdown")
def _wait() -> None:
    waitall()


@_function("MXRandomSeed")
def _seed(seed: object) -> None:
    seed_streams(_number(seed))


@_function("MXEngineSetBulkSize")
def _bulk_size(size: object, previous: object) -> None:
    _pointee(previous).value = set_bulk_size(_number(size))


@_function("MXGetGPUCount")
def _gpus(out: object) -> None:
    _pointee(out).value = num_gpus()


@_function("MXListAllOpNames")
def _operators(count: object, names: object) -> None:
    global _listed
    found = [name.encode() for name in registry.names()]
    _listed = (ctypes.c_char_p * len(found))(*found)
    _pointee(count).value = len(found)
    _pointee(names).contents = ctypes.c_char_p.from_buffer(_listed)


_listed: Any = None  # the last list of names, which its caller reads through a pointer


@_function("MXSetNumOMPThreads")
def _threads(count: object) -> None:
    """Nothing: XLA has its threads since it was first used, and numbers do not depend on how many there are."""


# ------------------------------------------------------------ record files
@_function("MXRecordIOReaderTell", "MXRecordIOWriterTell")
def _tell(handle: object, out: object) -> None:
    _pointee(out).value = _opened(handle).tell()


@_function("MXRecordIOReaderSeek")
def _seek(handle: object, position: object) -> None:
    _opened(handle).seek(_number(position))


def _opened(handle: Any) -> Any:
    if handle is None or handle.closed:
        raise MXNetError("the record file is not open")
    return handle


# ------------------------------------------------------------ arrays
@_function("MXNDArraySyncCopyToCPU")
def _copy_to(handle: Any, memory: Any, size: object) -> None:
    values = _array_of(handle, size).asnumpy()
    ctypes.memmove(memory, values.ctypes.data, values.nbytes)


@_function("MXNDArraySyncCopyFromCPU")
def _copy_from(handle: Any, memory: Any, size: object) -> None:
    array = _array_of(handle, size)
    values = np.empty(array.shape, array.dtype)
    ctypes.memmove(values.ctypes.data, memory, values.nbytes)
    array[:] = values


@_function("MXNDArrayWaitToRead", "MXNDArrayWaitToWrite")
def _wait_for_array(handle: Any) -> None:
    referent(handle, NDArray).wait_to_read()


def _array_of(handle: Any, size: object) -> NDArray:
    array: NDArray = referent(handle, NDArray)
    if array.stype != "default":
        raise MXNetError(f"copies need a dense array, got one of storage type {array.stype}")
    if array.size != _number(size):
        raise MXNetError(f"the array of shape {array.shape} has {array.size} elements, and the memory {_number(size)}")
    return array


@_function("MXNDArrayFromDLPack", "MXNDArrayFromDLPackEx")
def _from_dlpack(tensor: object, *rest: object) -> None:
    _give(rest[-1], from_dlpack(_new_capsule(tensor, _CAPSULE, None)))


_CAPSULE = b"dltensor"  # lives as long as any capsule does
# a separate prototype, since the types of ctypes.pythonapi's functions are shared by all code
_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi))


# ------------------------------------------------------------ parts of graphs
@_function("MXSetSubgraphPropertyOpNames", "MXSetSubgraphPropertyOpNamesV2")
def _choose(backend: object, count: object, names: ctypes.Array) -> None:
    choose_operators(_text(backend), [names[i].decode() for i in range(_number(count))])


@_function("MXRemoveSubgraphPropertyOpNames", "MXRemoveSubgraphPropertyOpNamesV2")
def _choose_none(backend: object) -> None:
    choose_operators(_text(backend), [])


@_function("MXBuildSubgraphByOpNames")
def _partitioned(symbol: object, backend: object, count: object, names: ctypes.Array, out: object) -> None:
    find(_text(backend))
    chosen = {names[i].decode() for i in range(_number(count))}
    _give(out, partition(Symbol(symbol), lambda node: node.op.name in chosen, as_node))


@_function("MXGenBackendSubgraph")
def _optimized(symbol: object, backend: object, out: object) -> None:
    _give(out, Symbol(symbol).get_backend_symbol(_text(backend)))
