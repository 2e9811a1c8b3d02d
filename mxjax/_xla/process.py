"""Guards for the use of XLA: not in forked children, and not in other threads during interpreter exit.

A fork does not copy XLA's threads, so a program in the child would wait for them forever; NumPy
computes there instead (`compile.without_xla`). A daemon thread that returns from XLA after the
interpreter has exited would be unwound through C++ code that must not be unwound, which aborts the
process. Therefore a gate before all work of XLA closes at exit.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import pathlib
import selectors
import sys
import threading
import time
import types
import warnings
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.extend.backend import backends

from ..base import MXNetError
from .devices import before_start

__all__ = ["check", "check_home", "forked", "left_behind", "live_arrays", "not_in_fork", "starts", "waits",
           "when_closed", "when_forked"]

_PATIENCE = 20.0  # seconds that other threads are given to come back from XLA; a compilation may take as long
_BRIEFLY, _STILL = 250, 25  # looks at those in other functions: to come to the gate; to have stood still
_JAX = tuple(str(pathlib.Path(folder)) + os.sep for folder in jax.__path__)
_PACKAGE = pathlib.Path(__file__).parents[1]
_COMPUTING = tuple(str(_PACKAGE / part) + os.sep
                   for part in ("kernel", "interpret", "passes", "eager", "array", "executor"))
_HARMLESS = threading.__file__, *[folder + "_src" + os.sep + "compiler.py" for folder in _JAX]  # where threads wait
_IN_JAX = (*_JAX, *_COMPUTING[:3], str(_PACKAGE / "_xla" / "transfer.py"))
_IMPORTING = "<frozen importlib._bootstrap>"  # the file of the functions that load modules
_QUIET = (threading.__file__, selectors.__file__, str(_PACKAGE / "kvstore") + os.sep)
_WAITING = str(_PACKAGE / "eager" / "chunk.py")

_gate: Callable[[], None] | None = None
_when_closed: list[Callable[[Callable[[], None]], None]] = []
_started = _forked = _left_behind = _leaves_threads = False
_interval = 0.005
_begin: list[Callable[[], None]] = []
_forever = threading.Lock()
_open = threading.Event()  # set unless a thread is forking this process
_open.set()


def starts() -> None:
    """Prepares for the first use of XLA and JAX, and waits if another thread is forking this process."""
    global _started
    if not _open.is_set():
        _open.wait(_PATIENCE)
    if not _started:
        _started = True
        # JAX's warning says that forked children hang; here NumPy computes in them, with a warning if that is slow
        warnings.filterwarnings("ignore", r"os\.fork\(\) was called\.", RuntimeWarning, append=True)
        before_start()


def check() -> None:
    """Checks the gate before work of XLA; at exit it does not return in other threads."""
    if _gate is not None:
        _gate()


def waits() -> None:
    """Checks the gate before a wait for values; at exit it does not return in other threads."""
    if _gate is _park:
        _park()


def forked() -> bool:
    """Returns whether this is a child that was forked after the first use of arrays, which must not
    use XLA.
    """
    return _forked


def has_threads() -> bool:
    """Returns whether JAX has started its devices, asked by this library or by a script, for arrays or by a load."""
    if _started:
        return True
    asked = getattr(sys.modules.get(backends.__module__), "backends_are_initialized", None)
    return asked is not None and asked()


def live_arrays() -> list[jax.Array]:
    """Returns all existing JAX arrays on all platforms; `jax.live_arrays` returns only those of the default one."""
    before_start()  # asking for the platforms starts them
    return [array for client in backends().values() for array in client.live_arrays()]


def when_closed(tell: Callable[[Callable[[], None]], None]) -> None:
    """Calls `tell(gate)` when the gate closes, so that hot paths need not check it on each call."""
    _when_closed.append(tell)


def when_forked(begin: Callable[[], None]) -> Callable[[], None]:
    """Calls `begin()` first in each such child; also usable as a decorator."""
    _begin.append(begin)
    return begin


# ------------------------------------------------------------ forks
def not_in_fork(what: str) -> MXNetError:
    """Returns the error for an operation that a forked child cannot run."""
    return MXNetError(f"{what} in a process that was forked after the first use of arrays: XLA's threads exist only "
                      "in the parent, and this process computes with NumPy. Start processes by spawn "
                      "(multiprocessing.set_start_method('spawn'), subprocess), or fork before arrays are used")


def check_home(owner: int, what: str) -> None:
    """Rejects operations that need the threads or sockets of another process, for which a child would wait forever.

    Args:
        owner: id of the process that owns them.
        what: description of the operation for the message.

    Raises:
        MXNetError: this is another process.
    """
    if os.getpid() != owner:
        raise MXNetError(f"{what} in a process that was forked meanwhile: the workers exist only in the parent. Create "
                         "a new one in this process")


def left_behind() -> bool:
    """Returns whether other threads were active when this child was forked; they may have held locks."""
    return _left_behind


def _before_fork() -> None:
    """Finishes pending work, so that the child can read it, and waits for threads in JAX or its imports.

    There it may hold a lock of JAX's, or of a module, which would stay locked in the child. Who comes to JAX now waits
    (`starts`); who is there is waited for, but for compilations: they take long, and no lock is held.
    """
    global _interval, _left_behind, _leaves_threads
    _leaves_threads = has_threads()
    for array in live_arrays() if _leaves_threads and not _forked else ():  # in a child all is there already
        with contextlib.suppress(RuntimeError):  # deleted, or failed
            array.block_until_ready()
    _open.clear()
    own, end, _interval = threading.get_ident(), time.monotonic() + _PATIENCE, sys.getswitchinterval()
    while True:
        sys.setswitchinterval(_PATIENCE)  # no other thread goes on between the look and the fork
        others = [frame for thread, frame in sys._current_frames().items() if thread != own]
        if time.monotonic() > end or not any(map(_may_have_locks, others)):
            break
        del others
        sys.setswitchinterval(_interval)
        time.sleep(0.0005)
    _left_behind = _leaves_threads and any(_is_within(frame, *_COMPUTING) for frame in others)


def _may_have_locks(frame: types.FrameType) -> bool:
    """Returns whether a thread is in JAX, or loads a module of ours or of JAX's."""
    if _leaves_threads and _is_within(frame, *_IN_JAX) and frame.f_code.co_filename not in _HARMLESS:
        return True
    one: types.FrameType | None = frame
    while one is not None:
        if one.f_code.co_filename == _IMPORTING and \
                str(one.f_locals.get("name")).partition(".")[0] in ("mxjax", "mxnet", "jax", "jaxlib"):
            return True
        one = one.f_back
    return False


def _in_parent() -> None:
    sys.setswitchinterval(_interval)
    _open.set()


def _in_child() -> None:
    global _forked, _open
    sys.setswitchinterval(_interval)
    _open = threading.Event()
    _open.set()
    if _leaves_threads:
        if not _forked:
            atexit.register(_keep_threads)
            _refuse_programs()
            _leave_accelerators()
        _forked = True
        for begin in _begin:
            begin()


def _refuse_programs() -> None:
    """Makes JAX raise an error if the user's code requests a program, instead of waiting forever."""
    def refuse(*args: object, **kwargs: object) -> Any:
        raise not_in_fork("JAX cannot compile a program")
    with contextlib.suppress(ImportError):
        from jax._src import compiler
        from jax._src.interpreters import mlir
        for module, name in ((mlir, "lower_jaxpr_to_module"), (compiler, "backend_compile"),
                             (compiler, "backend_compile_and_load")):  # releases differ
            if hasattr(module, name):
                setattr(module, name, refuse)


def _leave_accelerators() -> None:
    """Prevents reads and releases of arrays on accelerators, whose drivers do not support a child."""
    for client in backends().values():
        if client.platform != "cpu":
            _keep(client, *client.live_executables(), *client.live_arrays())
    with contextlib.suppress(ImportError, AttributeError):
        from jax._src.array import ArrayImpl
        value = ArrayImpl._value

        def read(array: ArrayImpl) -> np.ndarray:
            away = [device for device in array.devices() if device.platform != "cpu"]
            if away and array._npy_value is None:
                raise not_in_fork(f"an array on {away[0]} cannot be read")
            return value.fget(array)
        ArrayImpl._value = property(read)  # pyright: ignore[reportAttributeAccessIssue]  replaced on purpose


def _keep_threads() -> None:
    """Has a child's exit end no thread pools of JAX's: it would wait for threads that the parent has."""
    _keep(*backends().values())
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("jax", "jaxlib"):
            _keep(*[v for v in list(vars(module).values()) if type(v).__module__.partition(".")[0] == "jaxlib"])


def _keep(*objects: object) -> None:
    """Keeps these objects alive forever."""
    keep = ctypes.pythonapi.Py_IncRef
    keep.argtypes = [ctypes.py_object]
    for one in objects:
        keep(one)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_in_parent, after_in_child=_in_child)


# ------------------------------------------------------------ exit
def _park() -> None:
    if threading.current_thread() is not threading.main_thread():
        _forever.acquire()


def _at_exit() -> None:
    """Stops other threads before their next use of XLA, and waits for those that may be in it."""
    global _gate
    others = [t.ident for t in threading.enumerate() if t is not threading.current_thread()]
    if not _started or not others or _forked:
        return
    _forever.acquire(blocking=False)  # never released
    _gate = _park
    for tell in _when_closed:
        tell(_park)
    end, look, since = time.monotonic() + _PATIENCE, 0, dict[int | None, tuple[Any, int]]()
    while time.monotonic() < end:
        frames: dict[int | None, types.FrameType] = {**sys._current_frames()}
        if all([_rests(thread, frames.get(thread), since, look) for thread in others]):
            break
        frames.clear()  # or the threads' last frames would live on in this one
        look += 1  # looks, not seconds: where the machine is busy, this thread waits as long as the others
        time.sleep(0.002)


def _rests(thread: int | None, frame: types.FrameType | None, since: dict[int | None, tuple[Any, int]],
           look: int) -> bool:
    """Returns whether a thread is certainly not in XLA, judging by its Python functions.

    JAX's own functions are called from C++, and call it. A thread in anybody's function may be freeing an array, which
    XLA does in C++, too: where that function goes on, it soon comes to the gate, or does not use arrays; where it
    stands still, it waits for something else.
    """
    if frame is None or frame.f_code is _park.__code__:
        return True
    file = frame.f_code.co_filename
    if file.startswith(_COMPUTING) and file != _WAITING or _is_within(frame, *_JAX):
        return False
    if file.startswith(_QUIET):
        return True
    place = id(frame), frame.f_lasti
    if since.get(thread, (None, 0))[0] != place:
        since[thread] = place, look
    return look - since[thread][1] > _STILL or look > _BRIEFLY


def _is_within(frame: types.FrameType | None, *folders: str) -> bool:
    """Returns whether a thread is in a function of a file in these folders, or in one that such a function has called.
    """
    while frame is not None:
        if frame.f_code.co_filename.startswith(folders):
            return True
        frame = frame.f_back
    return False


atexit.register(_at_exit)
