"""Errors and small shared types."""

from __future__ import annotations

import ast
import contextlib
import ctypes
import os
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ._support.error_kinds import addressed
from ._support.providers import of_library

__all__ = ["MXNetError", "NotImplementedForSymbol", "NotSupportedForSparseNDArray"]

string_types = (str,)
numeric_types = (float, int, np.generic)
integer_types = (int, np.integer)
Key: TypeAlias = int | str  # identifies a parameter: its number or its name


class MXNetError(RuntimeError):
    """The error for all failures of operators, graphs, the engine and files.

    Its text ends with the code of its kind, if it has one: `python -m mxjax explain CODE` explains
    cause and solution. `code` is the kind of all errors of a class; the kinds of other errors are
    recognized by their messages.
    """

    code = ""

    def __str__(self) -> str:
        """Returns the message and its code."""
        plain = OSError.__str__(self) if isinstance(self, OSError) else Exception.__str__(self)
        return addressed(plain, self.code)

    def add_note(self, note: str) -> None:
        """Adds a note, except JAX's note about frames that it removed from the traceback of a compiled function."""
        if "JAX_TRACEBACK_FILTERING" not in note:
            super().add_note(note)


class MissingFile(FileNotFoundError, MXNetError):
    """A file does not exist; both Python's and MXNet's error."""

    __str__ = MXNetError.__str__


class ForbiddenFile(PermissionError, MXNetError):
    """Access to a file is denied; both Python's and MXNet's error."""

    __str__ = MXNetError.__str__


class FolderForFile(IsADirectoryError, MXNetError):
    """A directory was found instead of a file; both Python's and MXNet's error."""

    __str__ = MXNetError.__str__


class FileForFolder(NotADirectoryError, MXNetError):
    """A file was found instead of a directory; both Python's and MXNet's error."""

    __str__ = MXNetError.__str__


class RefusedFile(OSError, MXNetError):
    """The system rejects a file for another reason; both Python's and MXNet's error."""

    __str__ = MXNetError.__str__


class Precondition(MXNetError, AssertionError):
    """A call came too early, or with arguments that do not belong together. MXNet raises AssertionError."""

    code = "call-order"


class Unfit(MXNetError, AssertionError):
    """An argument does not fit. MXNet raises AssertionError."""


class WrongShape(MXNetError, ValueError):
    """A shape does not fit. MXNet raises ValueError or MXNetError, depending on the function and its version."""


class Unreadable(MXNetError, ValueError):
    """A file does not contain parameters, or there is no such file. MXNet 2 raises ValueError."""


class UnknownArgument(MXNetError, TypeError):
    """A function has no argument with this name: a TypeError in Python, an operator error in MXNet."""


class NotOneOf(MXNetError, KeyError, ValueError):
    """A name is not one of the allowed ones, which MXNet looks up in a dictionary or rejects; the
    message lists them."""

    __str__ = MXNetError.__str__  # KeyError's would put it in quotes


class WrongKind(TypeError, AssertionError):
    """An argument is of a wrong type: a TypeError in Python, an assertion in MXNet."""


class NotRegistered(ValueError, AssertionError):
    """Nothing is registered under a name. MXNet raises AssertionError; the message lists the registered names."""


class NotImplementedForSymbol(MXNetError):
    """An imperative-only operation was called on a Symbol.

    Args:
        function: the function or its name.
        alias: operator notation it is also known by.
        args: the arguments of the call.
        hint: alternative to suggest.
    """

    code = "symbol-in-block"

    def __init__(self, function: object, alias: str | None, *args: object,
                 hint: str = "use operators of F there, or do not hybridize()") -> None:
        name = getattr(function, "__name__", function)
        kinds = f" with arguments ({', '.join(type(a).__name__ for a in args)})" if args else ""
        also = f" (namely operator {alias!r})" if alias else ""
        super().__init__(f"{name}{also}{kinds} is not supported for Symbol, only for NDArray; within hybrid_forward "
                         f"arrays are Symbols once the block is hybridized: {hint}")


class NotSupportedForSparseNDArray(MXNetError):
    """A dense-only operation was called on a sparse array; arguments as in `NotImplementedForSymbol`."""

    def __init__(self, function: object, alias: str | None, *args: object) -> None:
        name = getattr(function, "__name__", function)
        kinds = ", ".join(type(a).__name__ for a in args)
        also = f" (namely operator {alias!r})" if alias else ""
        super().__init__(f"{name}{also} with arguments ({kinds}) is not supported for sparse NDArrays")


class _NullType:
    """The value of an argument that was not given."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "_Null"

    def __bool__(self) -> bool:
        return False


_Null = _NullType()


def evaluated(text: str) -> Any:
    """Evaluates `text` like `ast.literal_eval`, safely for concurrent threads.

    Python 3.11 counts the recursion depth of all threads together, so concurrent calls can raise
    SystemError.
    """
    for _ in range(100):
        with contextlib.suppress(SystemError):
            return ast.literal_eval(text)
    return ast.literal_eval(text)


def literal(text: str) -> Any:
    """Evaluates `text` as a Python literal; returns `text` itself if it is not a literal."""
    try:
        return evaluated(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


mx_real_t = np.float32
error_types = {"MXNetError": MXNetError, "ValueError": ValueError, "TypeError": TypeError, "IndexError": IndexError,
               "AttributeError": AttributeError, "NotImplementedError": NotImplementedError}


def register_error(func_name: Any = None, cls: type | None = None) -> Any:
    """Registers an error class, under its own or another name; usable as a decorator.

    Args:
        func_name: the class, or a name for it.
        cls: the class, if `func_name` is a name.

    Returns:
        The class, or a decorator if only a name is passed.

    Example:
        >>> @mx.error.register
        ... class MyError(mx.MXNetError):
        ...     pass
        >>> mx.base.c2pyerror("MyError: no such column")
        ('no such column', 'MyError')
    """
    if isinstance(func_name, type):
        func_name, cls = func_name.__name__, func_name

    def decorate(kind: type) -> type:
        error_types[func_name or kind.__name__] = kind
        return kind
    return decorate if cls is None else decorate(cls)


def data_dir_default() -> str:
    """Returns MXNet's default data directory, used unless MXNET_HOME is set: ~/.mxnet, on Windows below APPDATA."""
    if sys.platform == "win32":
        return os.path.join(os.environ.get("APPDATA", ""), "mxnet")
    return os.path.join(os.path.expanduser("~"), ".mxnet")


def data_dir() -> str:
    """Returns the data directory: MXNET_HOME, otherwise `data_dir_default()`."""
    return os.getenv("MXNET_HOME", data_dir_default())


class classproperty:  # noqa: N801
    """A read-only property of a class."""

    def __init__(self, func: Callable[[type], Any]) -> None:
        self._func = func

    def __get__(self, instance: object, owner: type) -> Any:
        return self._func(owner)


def with_metaclass(meta: type, *bases: type) -> type:
    """Creates a base class with a metaclass (a relic of Python 2); the class itself has these bases only."""
    class Temporary(type):
        def __new__(cls, name: str, _: tuple, members: dict[str, Any]) -> type:
            return meta(name, bases, members)
    return type.__new__(Temporary, "temporary_class", (), {})


def _as_list(obj: object) -> list[Any] | tuple[Any, ...]:
    """A list or tuple as it is, anything else as a list of one."""
    return obj if isinstance(obj, (list, tuple)) else [obj]


def py_str(x: bytes | str) -> str:
    """Converts bytes to text."""
    return x.decode("utf-8") if isinstance(x, bytes) else x


# Functions with which scripts built the arguments of MXNet's C interface.
mx_int, mx_uint, mx_int64 = ctypes.c_int, ctypes.c_uint, ctypes.c_int64
mx_float, mx_float_p = ctypes.c_float, ctypes.POINTER(ctypes.c_float)
CachedOpHandle = DLPackHandle = DataIterHandle = ExecutorHandle = KVStoreHandle = NDArrayHandle = OpHandle = \
    ProfileHandle = RecordIOHandle = SymbolHandle = ctypes.c_void_p


def c_str(string: str) -> ctypes.c_char_p:
    """Converts text to a C string."""
    return ctypes.c_char_p(string.encode("utf-8"))


def c_array(ctype: Any, values: Sequence[Any]) -> Any:
    """Converts values to a C array."""
    return (ctype * len(values))(*values)


def c_array_buf(ctype: Any, buf: Any) -> Any:
    """Converts a buffer to a C array that shares its memory."""
    return (ctype * len(buf)).from_buffer(buf)


def c_str_array(strings: Sequence[str]) -> Any:
    """Converts texts to a C array of strings."""
    return c_array(ctypes.c_char_p, [s.encode("utf-8") for s in strings])


def c_handle_array(objs: Sequence[Any]) -> Any:
    """Converts the identities of objects to a C array of pointers."""
    return c_array(ctypes.c_void_p, [id(o) for o in objs])


def ctypes2buffer(cptr: Any, length: int) -> bytearray:
    """Returns `length` bytes at a C pointer to characters.

    Raises:
        TypeError: it is another object.
    """
    if not isinstance(cptr, ctypes.POINTER(ctypes.c_char)):
        raise TypeError(f"expected char pointer, got {type(cptr).__name__}")
    return bytearray(ctypes.string_at(cptr, length))


def ctypes2numpy_shared(cptr: object, shape: Sequence[int]) -> np.ndarray:
    """Returns a NumPy array that shares the memory of floats at a C pointer.

    Raises:
        RuntimeError: it is another object.
    """
    if not isinstance(cptr, mx_float_p):
        raise RuntimeError(f"expected float pointer, got {type(cptr).__name__}")
    return np.ctypeslib.as_array(cptr, tuple(shape))


def check_call(ret: int) -> None:
    """Raises the error of a C call (a function of `_LIB`) if its result is not 0."""
    if ret != 0:
        raise get_last_ffi_error()


def __getattr__(name: str) -> Any:
    if name != "_LIB":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()["_LIB"] = library = of_library[-1]()
    return library


_last_error = threading.local()


def note_error(error: Exception | None) -> None:
    """Stores the error of a C call for this thread."""
    _last_error.value = error


def get_last_ffi_error() -> Exception:
    """Returns the error of this thread's last failed C call."""
    return getattr(_last_error, "value", None) or MXNetError("no C call has failed")


def c2pyerror(err_msg: str) -> tuple[str, str | None]:
    """Returns (message, name of the error class) of a C error text such as "ValueError: bad shape"."""
    name, colon, rest = err_msg.partition(":")
    return (rest.strip(), name) if colon and name in error_types else (err_msg, None)


def add_fileline_to_docstring(module: object, incursive: bool = True) -> None:
    """Does nothing; kept for compatibility, because `inspect` finds the location of functions."""


def build_param_doc(arg_names: Sequence[str], arg_types: Sequence[str], arg_descs: Sequence[str],
                    remove_dup: bool = True) -> str:
    """Builds a documentation section of parameters."""
    seen: set[str] = set()
    lines = ["Parameters", "----------"]
    for name, kind, text in zip(arg_names, arg_types, arg_descs, strict=True):
        if remove_dup and name in seen or name == "num_args":
            continue
        seen.add(name)
        lines.append(f"{name} : {kind}" + (f"\n    {text}" if text else ""))
    return "\n".join(lines) + "\n"
