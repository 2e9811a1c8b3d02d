"""The file format of optimizer states: a pickle of MXNet's classes, compatible with MXNet 1.9.1.

A pickle is a program that can run arbitrary code, so it is never executed. `load` interprets the
instructions itself and knows only those that build plain values, arrays, optimizers and schedules.
A file cannot trigger imports, calls or large allocations: an instruction needs little more memory
than its own bytes, and the number of instructions, the nesting depth and the total size are
bounded. The files written here stay within these limits.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import sys
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TypeGuard

import numpy as np

from .. import lr_scheduler
from ..array import file_format
from ..base import MXNetError
from ..eager.chunk import forget
from ..ndarray import NDArray
from .base import Optimizer

__all__ = ["dump", "load", "write"]

_MOST_STEPS = 1 << 21  # about 70,000 parameters with two arrays each
_MOST_BITS = 1024  # of an integer
_DEEPEST = 100
_NUMBERS = frozenset(["bool", "float16", "float32", "float64", *(f"{sign}int{bits}" for sign in ("", "u")
                                                                 for bits in (8, 16, 32, 64))])


# ------------------------------------------------------------------------------------------------------------ writing
if TYPE_CHECKING:
    class _PythonPickler:
        """The parts of `pickle._Pickler` used here, which type stubs leave out."""

        memo: dict[int, tuple[int, Any]]
        write: Callable[[bytes], object]

        def __init__(self, file: IO[bytes], protocol: int | None = None) -> None: ...
        def dump(self, obj: object) -> None: ...
        def get(self, i: int) -> bytes: ...
        def memoize(self, obj: object) -> None: ...
        def save(self, obj: object, save_persistent_id: bool = True) -> None: ...
else:
    _PythonPickler = pickle._Pickler


class _Pickler(_PythonPickler):
    """Writes arrays as MXNet does: class, (None,), {"handle": the array as in a .params file}.

    Classes get MXNet's names; NumPy's numbers become Python's, which need no classes.
    """

    _in_array = False

    def memoize(self, obj: object) -> None:
        """Memoizes values that may recur, but not the contents of arrays, which would stay in memory until the end."""
        if not (self._in_array and isinstance(obj, bytes | bytearray | tuple | dict)):
            super().memoize(obj)

    def save(self, obj: object, save_persistent_id: bool = True) -> None:
        value = obj
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, type) and value.__module__.partition(".")[0] in ("mxjax", "numpy"):
            self._name(value, value.__module__, value.__qualname__)
        elif value is _reconstruct:
            self._name(value, "numpy.core.multiarray", "_reconstruct")  # as old NumPy has it
        elif isinstance(value, NDArray):
            self._in_array = True
            super().save(value, save_persistent_id)
            self._in_array = False
        else:
            super().save(value, save_persistent_id)

    def _name(self, value: object, module: str, name: str) -> None:
        known = self.memo.get(id(value))
        if known is not None:
            self.write(self.get(known[0]))
            return
        self.write(f"c{_mxnet_module(module)}\n{name}\n".encode())
        self.memoize(value)

    def reducer_override(self, value: object) -> Any:
        if not isinstance(value, NDArray):
            return NotImplemented
        array = value.as_nd_ndarray() if value.stype == "default" else value
        handle = bytearray(file_format.dumps(array))
        if value.stype == "default":
            forget(value.chunk)
        return type(array), (None,), {"handle": handle}


_reconstruct = np.zeros(0).__reduce__()[0]


def dump(content: object) -> bytes:
    """Serializes states, or a pair of states and optimizer, to bytes; see `write`."""
    file = io.BytesIO()
    write(content, file)
    return file.getvalue()


def write(content: object, file: IO[bytes]) -> None:
    """Writes states, or a pair of states and optimizer, one array after another.

    Raises:
        MXNetError: they contain a value that cannot be written.
    """
    try:
        _Pickler(file, protocol=3).dump(content)  # the newest in which names of classes are plain text
    except (pickle.PicklingError, AttributeError, TypeError, RecursionError) as error:
        raise MXNetError(f"optimizer states cannot be written: {error}") from error


def _mxnet_module(module: str) -> str:
    """Returns the name of MXNet's module for `module` of mxjax."""
    if module.removeprefix("mxjax.optimizer.") in ("adaptive", "base", "momentum", "testing"):
        return "mxnet.optimizer.optimizer"
    return "mxnet" + module.removeprefix("mxjax") if module.startswith("mxjax") else module


# ------------------------------------------------------------------------------------------------------------ reading
class _Named(NamedTuple):
    """A class or function named in a file, with the functions that call it and that create an empty object."""

    name: str
    call: Callable[..., Any] | None = None
    kind: type | None = None


class _Unfinished:
    """An object between its creation and the BUILD instruction with its content, which replaces it."""

    def __init__(self, name: str, finish: Callable[[Any], Any]) -> None:
        self.name, self.finish, self.places = name, finish, []  # where it is noted for later use


class _Damaged(Exception):
    """The file is damaged; the message names the defect."""


def load(raw: bytes) -> Any:
    """Deserializes such bytes; see `Updater.set_states`.

    Raises:
        MXNetError: the bytes are corrupt or contain something other than optimizer states; the
            message names the offset.
    """
    reader = _Reader()
    try:
        for code, argument, reader.position in pickletools.genops(raw):
            reader.step(code.name, argument)
        result = reader.result()
        _check(result)
        return result
    except Exception as error:  # damaged content raises anything
        problem = str(error) if isinstance(error, _Damaged | MXNetError) else f"{type(error).__name__}: {error}"
        raise MXNetError(f"optimizer states: {problem} (offset {reader.position} of {len(raw)})") from error


class _Reader:
    """Follows the instructions of a pickle."""

    def __init__(self) -> None:
        self.position: int | None = 0
        self.steps = 0
        self.stack: list[Any] = []
        self.outer: list[list[Any]] = []  # the stacks below the marks
        self.memo: dict[int, Any] = {}

    def step(self, name: str, argument: object) -> None:
        """Executes one instruction."""
        self.steps += 1
        if self.steps > _MOST_STEPS:
            raise _Damaged(f"more than {_MOST_STEPS} instructions")
        if name in _CONSTANTS:
            if isinstance(argument, int) and argument.bit_length() > _MOST_BITS:
                raise _Damaged(f"an integer of {argument.bit_length()} bits")
            self.push(argument)
        elif name in _STEPS:
            _STEPS[name](self, argument)
        elif name not in ("PROTO", "FRAME", "STOP"):
            raise _Damaged(f"the instruction {name} is not allowed")

    def result(self) -> Any:
        """Returns the final object."""
        if self.outer or len(self.stack) != 1:
            raise _Damaged("the data ends too early")
        return self.stack[0]

    def push(self, value: object) -> None:
        """Pushes a value."""
        self.stack.append(value)

    def pop(self) -> Any:
        """Pops the last value."""
        if not self.stack:
            raise _Damaged("a value is missing")
        return self.stack.pop()

    def top(self, cls: type) -> Any:
        """Returns the last value, a container, without removing it."""
        if not self.stack or type(self.stack[-1]) not in (cls, OrderedDict if cls is dict else cls):
            raise _Damaged(f"there is no {cls.__name__} to fill")
        return self.stack[-1]

    def since_mark(self) -> list[Any]:
        """Pops the values since the last mark."""
        if not self.outer:
            raise _Damaged("a mark is missing")
        result, self.stack = self.stack, self.outer.pop()
        return result

    def tuple_of(self, count: int) -> None:
        """Makes a tuple of the last values."""
        if len(self.stack) < count:
            raise _Damaged("a value is missing")
        self.stack[len(self.stack) - count:] = [tuple(self.stack[len(self.stack) - count:])]

    def note(self, place: int) -> None:
        """Stores the last value for later use."""
        if not self.stack:
            raise _Damaged("a value is missing")
        self.memo[place] = self.stack[-1]
        if isinstance(self.stack[-1], _Unfinished):
            self.stack[-1].places.append(place)

    def again(self, place: int) -> None:
        """Pushes a stored value."""
        if place not in self.memo:
            raise _Damaged(f"value {place} was not stored")
        self.push(self.memo[place])

    def fill(self, pairs: list[Any]) -> None:
        """Puts keys and values into the last dict."""
        target = self.top(dict)
        if len(pairs) % 2:
            raise _Damaged("a key without a value")
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            # other keys could be chosen to collide
            if not isinstance(key, str | bytes) and not (isinstance(key, int) and -1 << 31 <= key < 1 << 31):
                raise _Damaged(f"a dict with a key that is neither a name nor an index ({type(key).__name__})")
            target[key] = value

    def name(self, module: object, name: object) -> None:
        """Pushes a class or function."""
        if not isinstance(module, str) or not isinstance(name, str):
            raise _Damaged("a class without a name")
        self.push(_named(module, name))

    def call(self) -> None:
        """Calls a function with a tuple of arguments."""
        arguments, function = self.pop(), self.pop()
        if not isinstance(function, _Named) or function.call is None or not isinstance(arguments, tuple):
            raise _Damaged(f"{_text(function)} cannot be called")
        self.push(function.call(*arguments))

    def new(self) -> None:
        """Creates an empty object."""
        arguments, cls = self.pop(), self.pop()
        if arguments != ():
            raise _Damaged(f"{_text(cls)} with arguments")
        self.push(_empty(cls))

    def build(self) -> None:
        """Sets an object's state."""
        state, target = self.pop(), self.pop()
        if not isinstance(target, _Unfinished):
            raise _Damaged(f"{_text(target)} is not an object whose state can be set")
        built = target.finish(state)
        self.push(built)
        for place in target.places:
            if self.memo[place] is target:
                self.memo[place] = built


def _text(value: object) -> str:
    return value.name if isinstance(value, _Named | _Unfinished) else f"a value of type {type(value).__name__}"


_CONSTANTS = frozenset("""INT BININT BININT1 BININT2 LONG LONG1 LONG4 FLOAT BINFLOAT STRING BINSTRING SHORT_BINSTRING
BINBYTES SHORT_BINBYTES BINBYTES8 BYTEARRAY8 UNICODE BINUNICODE SHORT_BINUNICODE BINUNICODE8""".split())


def _constant(value: object) -> Callable[[_Reader, Any], None]:
    return lambda r, _: r.push(value)


def _mark(r: _Reader, _: object) -> None:
    r.outer.append(r.stack)
    r.stack = []


def _global(r: _Reader, argument: str) -> None:
    module, _, name = argument.partition(" ")
    r.name(module, name)


def _stack_global(r: _Reader, _: object) -> None:
    name, module = r.pop(), r.pop()
    r.name(module, name)


def _append(r: _Reader, _: object) -> None:
    value = r.pop()
    r.top(list).append(value)


def _appends(r: _Reader, _: object) -> None:
    values = r.since_mark()
    r.top(list).extend(values)


def _set_item(r: _Reader, _: object) -> None:
    value, key = r.pop(), r.pop()
    r.fill([key, value])


def _dict(r: _Reader, _: object) -> None:
    pairs = r.since_mark()
    r.push({})
    r.fill(pairs)


_STEPS: dict[str, Callable[[_Reader, Any], object]] = {
    "NONE": _constant(None), "NEWTRUE": _constant(True), "NEWFALSE": _constant(False), "EMPTY_TUPLE": _constant(()),
    "EMPTY_LIST": lambda r, _: r.push([]), "EMPTY_DICT": lambda r, _: r.push({}),
    "MARK": _mark, "POP": lambda r, _: r.pop(), "POP_MARK": lambda r, _: r.since_mark(),
    "TUPLE": lambda r, _: r.push(tuple(r.since_mark())), "LIST": lambda r, _: r.push(r.since_mark()),
    "TUPLE1": lambda r, _: r.tuple_of(1), "TUPLE2": lambda r, _: r.tuple_of(2), "TUPLE3": lambda r, _: r.tuple_of(3),
    "APPEND": _append, "APPENDS": _appends,
    "DICT": _dict, "SETITEM": _set_item, "SETITEMS": lambda r, _: r.fill(r.since_mark()),
    "PUT": lambda r, place: r.note(place), "BINPUT": lambda r, place: r.note(place),
    "LONG_BINPUT": lambda r, place: r.note(place), "MEMOIZE": lambda r, _: r.note(len(r.memo)),
    "GET": lambda r, place: r.again(place), "BINGET": lambda r, place: r.again(place),
    "LONG_BINGET": lambda r, place: r.again(place),
    "GLOBAL": _global, "STACK_GLOBAL": _stack_global,
    "REDUCE": lambda r, _: r.call(), "NEWOBJ": lambda r, _: r.new(), "BUILD": lambda r, _: r.build(),
}


# --------------------------------------------------------------------------------------- the classes a file may name
def _named(module: str, name: str) -> _Named:
    """Returns the object that a file names.

    These are arrays, optimizers (the user's own, too), schedules and NumPy's numbers.
    """
    package, _, path = module.partition(".")
    full_name = f"{module}.{name}"
    if (module, name) in _FUNCTIONS:
        return _Named(full_name, _FUNCTIONS[module, name])
    if package == "numpy" and name in _NUMPY:
        return _Named(full_name, _NUMPY[name])
    if package in ("mxnet", "mxjax"):
        if path.startswith("ndarray") and name in ("NDArray", "RowSparseNDArray", "CSRNDArray"):
            return _Named(full_name, lambda handle=None: _Unfinished(full_name, _array))
        if path.startswith("optimizer") and name.lower() in Optimizer.opt_registry:
            return _Named(full_name, kind=Optimizer.opt_registry[name.lower()])
        if path == "lr_scheduler" and name in lr_scheduler.__all__:
            return _Named(full_name, kind=getattr(lr_scheduler, name))
    value = getattr(sys.modules.get(module), name, None)
    if isinstance(value, type) and issubclass(value, Optimizer | lr_scheduler.LRScheduler):
        return _Named(full_name, kind=value)  # the user's own, from a module already there
    raise _Damaged(f"{full_name} is not allowed in optimizer states")


def _empty(named: object, *_: object) -> _Unfinished:
    """An optimizer or a schedule, to be filled (old protocols also name the class it derives from)."""
    if not isinstance(named, _Named) or named.kind is None:
        raise _Damaged(f"{_text(named)} is not an optimizer or schedule")
    cls = named.kind
    return _Unfinished(named.name, lambda state: _object(cls, state))


def _object(cls: type[object], state: object) -> Any:
    if not isinstance(state, dict) or not all(isinstance(key, str) for key in state):
        raise _Damaged(f"{cls.__name__}: its attributes are not a dict with names as keys")
    for name, example in _example(cls).items():
        if name not in state:
            # the user's own may leave something out, and MXNet's have no kinds of steps
            if name not in ("param_dict", "_kinds_of_steps") and cls.__module__.startswith("mxjax."):
                raise _Damaged(f"{cls.__name__} has no attribute {name!r}")
        elif not _alike(state[name], example, name):
            raise _Damaged(f"{cls.__name__}: attribute {name!r} is {_text(state[name])}, expected one of type "
                           f"{type(example).__name__}")
    instance: Any = cls.__new__(cls)
    if hasattr(instance, "__setstate__"):
        instance.__setstate__(state)
    else:
        vars(instance).update(state)
    return instance


def _example(cls: type) -> dict[str, Any]:
    """The attributes of an object of this class, or of the library's class below it."""
    for base in cls.__mro__:
        if base.__module__.partition(".")[0] != "mxjax":
            continue  # constructors of users may have any signature
        for arguments in ((), (1,), ([1],)):
            try:
                with warnings.catch_warnings(action="ignore"):
                    return vars(base(*arguments))
            except (TypeError, ValueError, AssertionError):  # MXNet raises AssertionError
                continue
    return {}


def _alike(value: object, example: object, name: str) -> bool:
    """Returns whether an attribute can be used where the example is one; numbers may be unset."""
    if name == "lr_scheduler":
        return value is None or isinstance(value, lr_scheduler.LRScheduler)
    if name == "_kinds_of_steps" and isinstance(value, dict) and any(type(n) is not int for n in value.values()):
        raise _Damaged(f"attribute {name!r} has values other than integers")
    if example is None or isinstance(example, bool | int | float):
        return value is None or isinstance(value, bool | int | float)
    if isinstance(example, dict):
        return isinstance(value, dict)
    return isinstance(value, list | tuple) if isinstance(example, list | tuple) else isinstance(value, type(example))


def _array(state: object) -> NDArray:
    handle = state.get("handle") if isinstance(state, dict) else None
    if not isinstance(handle, bytes | bytearray):
        raise _Damaged("an array has no content")
    return file_format.loads(handle)


def _bytes(content: object = b"", encoding: str = "latin-1") -> bytes:
    """Stands for `bytearray`: only of bytes, which Python 2 wrote as text; never of a size."""
    if isinstance(content, str) and encoding in ("latin-1", "latin1"):
        return content.encode("latin-1")
    if not isinstance(content, bytes):
        raise _Damaged(f"a bytearray that is created from {type(content).__name__}")
    return content


def _ordered_dict(pairs: object = ()) -> OrderedDict:
    if not isinstance(pairs, list | tuple) or len(pairs):
        raise _Damaged("an OrderedDict that is created with arguments")
    return OrderedDict()


def _dtype(name: object, align: object = False, copy: object = False) -> _Unfinished:
    """Returns the dtype of a plain number by name; the rest in the file only confirms this machine's byte order."""
    code = name.removeprefix("<").removeprefix("|") if isinstance(name, str) else ""
    known = {code for number in _NUMBERS for code in (number, np.dtype(number).str[1:])}
    if code not in known:
        raise _Damaged(f"the dtype {str(name)[:40]!r} is not allowed: expected one of plain numbers")

    def finish(state: object) -> np.dtype:
        if not isinstance(state, tuple) or len(state) not in (8, 9) or state[1] not in ("<", "|", "=") or \
                (*state[2:8], *(part for part in state[8:] if part)) != (None, None, None, -1, -1, 0):
            raise _Damaged("a dtype that is not little-endian or not one of plain numbers")
        return np.dtype(code)
    return _Unfinished("numpy.dtype", finish)


def _is_number(dtype: object) -> TypeGuard[np.dtype]:
    return isinstance(dtype, np.dtype) and dtype.name in _NUMBERS


def _scalar(dtype: object, content: object) -> bool | int | float:
    content = content.encode("latin-1") if isinstance(content, str) else content
    if not _is_number(dtype) or not isinstance(content, bytes) or len(content) != dtype.itemsize:
        raise _Damaged("a NumPy number whose bytes do not match its dtype")
    return np.frombuffer(content, dtype)[0].item()


def _numpy_array(named: object, shape: object, code: object) -> _Unfinished:
    if not isinstance(named, _Named) or named.name != "numpy.ndarray":
        raise _Damaged(f"{_text(named)} is not an array")

    def finish(state: Any) -> np.ndarray:
        _, shape, dtype, fortran, content = state
        content = content.encode("latin-1") if isinstance(content, str) else content
        if not _is_number(dtype) or not isinstance(content, bytes):
            raise _Damaged("an array that does not consist of plain numbers")
        return np.frombuffer(content, dtype).reshape(shape, order="F" if fortran else "C").copy()
    return _Unfinished(named.name, finish)


def _no_call(*_: object) -> None:
    raise _Damaged("an array that is created by its class")


_FUNCTIONS: dict[tuple[str, str], Callable[..., Any]] = {
    ("builtins", "bytearray"): _bytes, ("__builtin__", "bytearray"): _bytes,
    ("collections", "OrderedDict"): _ordered_dict,
    ("copyreg", "_reconstructor"): _empty, ("copy_reg", "_reconstructor"): _empty,
    ("builtins", "object"): _no_call, ("__builtin__", "object"): _no_call,
    ("_codecs", "encode"): _bytes,  # bytes in the protocols of Python 2
}
_NUMPY: dict[str, Callable[..., Any]] = {"dtype": _dtype, "scalar": _scalar, "_reconstruct": _numpy_array,
                                         "ndarray": _no_call}


# ------------------------------------------------------------------------------------------- the whole, once it is made
def _parts(value: object) -> Iterator[Any]:
    """Returns the items of a container."""
    if isinstance(value, dict):
        return iter(value.values())
    if isinstance(value, list | tuple):
        return iter(value)
    return iter(vars(value).values()) if isinstance(value, Optimizer | lr_scheduler.LRScheduler) else iter(())


def _check(content: object) -> None:
    """Refuses objects that are unfinished, contain themselves, are too deep, or expand hugely by sharing."""
    known: dict[int, tuple[int, int]] = {}  # by container: its height, and how many values one meets in it
    objects = 0

    def visit(value: object, depth: int) -> tuple[int, int]:
        nonlocal objects
        objects += 1
        if isinstance(value, _Named | _Unfinished):
            raise _Damaged(f"{value.name} is used in place of a value")
        if not isinstance(value, dict | list | tuple | Optimizer | lr_scheduler.LRScheduler):
            return 0, 1
        if id(value) in known:
            if known[id(value)] is _OPEN:
                raise _Damaged("a container that contains itself")
            return known[id(value)]
        if depth > _DEEPEST:
            raise _Damaged(f"values nested more than {_DEEPEST} deep")
        known[id(value)] = _OPEN
        height = size = 0
        for part in _parts(value):
            inner, count = visit(part, depth + 1)
            height, size = max(height, inner), size + count
        known[id(value)] = height + 1, size + 1
        return known[id(value)]

    height, size = visit(content, 0)
    if height > _DEEPEST:
        raise _Damaged(f"values nested more than {_DEEPEST} deep")
    if size > 16 * objects + 1000:
        raise _Damaged(f"{objects} values that share references, so that they expand to {size}")


_OPEN = (-1, -1)
