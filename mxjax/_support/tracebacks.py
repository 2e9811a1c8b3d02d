"""Hides the library's own frames in displayed tracebacks.

Tracebacks are shortened only when an uncaught error is displayed: by Python, in a thread, in
IPython, or by pytest (with the plug-in `pytest_plugin.py`). Errors that a program catches keep
their full traceback.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any

from . import settings

__all__ = ["install", "shortened", "visible"]

_SWITCH = "MXJAX_TRACEBACK_FILTERING"
_OURS = __name__.partition(".")[0]
_HELPERS = {*sys.stdlib_module_names, "jax", "jaxlib", "numpy", "scipy"}  # hidden where the library has called them


@contextlib.contextmanager
def shortened(error: BaseException | None) -> Iterator[int]:
    """A scope in which an error and its causes have no frames of the library; returns the number of hidden frames.

    Frames of user code stay, including functions that the library calls (`forward` of a block, an
    operator, a callback). The environment variable `MXJAX_TRACEBACK_FILTERING=off` disables this.

    Args:
        error: the error to display.
    """
    whole = {} if not settings.TRACEBACK_FILTERING() else {one: one.__traceback__ for one in _chain(error)}
    hidden = 0
    for one, trace in whole.items():
        left = visible(trace)
        if left is None and one is error:  # raised and caught within the library: all frames are its own
            continue
        hidden += _length(trace) - _length(left)
        one.__traceback__ = left
    try:
        yield hidden
    finally:
        for one, trace in whole.items():
            one.__traceback__ = trace


def _chain(error: BaseException | None) -> list[BaseException]:
    """Returns an error and all that is shown with it: causes, contexts, members of groups."""
    results: list[BaseException] = []
    todo = [error]
    while todo:
        one = todo.pop()
        if one is not None and not any(one is other for other in results):
            results.append(one)
            todo += [one.__cause__, None if one.__suppress_context__ else one.__context__]
            todo += getattr(one, "exceptions", ()) if isinstance(one, BaseExceptionGroup) else ()
    return results


def _entries(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _package(frame: FrameType) -> str:
    # `__package__` first: the command line's module is called __main__
    return str(frame.f_globals.get("__package__") or frame.f_globals.get("__name__")).partition(".")[0]


def _length(trace: TracebackType | None) -> int:
    return sum(1 for _ in _entries(trace))


def visible(trace: TracebackType | None) -> TracebackType | None:
    """Returns a traceback without the library's frames and those of JAX, NumPy and Python that it called.

    Args:
        trace: a traceback, which is not modified; it is returned as is if it contains no frames of
            the library.
    """
    entries = list(_entries(trace))
    packages = [_package(entry.tb_frame) for entry in entries]
    if _OURS not in packages:
        return trace
    kept, inside = [], True  # frames of runpy and threading come before a program's first
    for entry, package in zip(entries, packages, strict=True):
        inside = package == _OURS or inside and package in _HELPERS
        if not inside:
            kept.append(entry)
    shown = None
    for entry in reversed(kept):
        shown = TracebackType(shown, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return shown


def _say(hidden: int) -> None:
    # above the traceback, so that its last line stays the error's message
    if hidden and sys.stderr is not None:
        print(f"({hidden} frames of {_OURS} are hidden; {_SWITCH}=off shows them)", file=sys.stderr)


def install() -> None:
    """Makes Python, its threads and IPython shorten uncaught errors before the existing hooks display them."""
    if not hasattr(sys.excepthook, _SWITCH):
        _install_in_python()
    get_shell = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell = get_shell() if get_shell else None
    if shell is not None and not hasattr(shell.showtraceback, _SWITCH):
        _install_in_shell(shell)


def _install_in_python() -> None:
    of_process, of_threads = sys.excepthook, threading.excepthook

    def excepthook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        with shortened(error) as hidden:
            _say(hidden)
            of_process(kind, error, error.__traceback__ if hidden else trace)

    def of_thread(args: Any) -> None:
        with shortened(args.exc_value) as hidden:
            if hidden:
                _say(hidden)
                args = threading.ExceptHookArgs((args.exc_type, args.exc_value, args.exc_value.__traceback__,
                                                 args.thread))
            of_threads(args)
    setattr(excepthook, _SWITCH, True)
    sys.excepthook, threading.excepthook = excepthook, of_thread


def _install_in_shell(shell: Any) -> None:
    show = shell.showtraceback

    def showtraceback(exc_tuple: object = None, *args: object, **options: object) -> None:
        result: Any = exc_tuple or sys.exc_info()
        with shortened(result[1]) as hidden:
            if hidden:
                _say(hidden)
                exc_tuple = (result[0], result[1], result[1].__traceback__)
            show(exc_tuple, *args, **options)
    setattr(showtraceback, _SWITCH, True)
    shell.showtraceback = showtraceback
