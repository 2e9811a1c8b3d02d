"""Per-thread state of operator calls: recording and training mode, and the trace that collects calls."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any

from ..kernel import policy

__all__ = ["Collecting", "Modes", "State", "state"]


class State(threading.local):
    """The state of one thread.

    trace: trace that collects calls instead of running them (None: none); bulk: the trace of
    `mx.engine.bulk`, used if no `Collecting` scope is open; scopes: number of open `Collecting`
    scopes; recorder: recorder that adds calls to a graph instead of running them (see
    `mxjax/symbol/_recorder.py`).
    """

    recording = False
    training = False
    trace: Any = None
    bulk: Any = None
    scopes = 0
    recorder: Any = None


state = State()
policy.recording = lambda: state.recording


class Modes:
    """A `with` scope that sets recording and training mode (None: unchanged)."""

    __slots__ = ("_recording", "_training", "_before")

    def __init__(self, recording: bool | None, training: bool | None) -> None:
        self._recording, self._training = recording, training
        self._before: list[tuple[bool, bool]] = []

    def __enter__(self) -> None:
        self._before.append((state.recording, state.training))
        if self._recording is not None:
            state.recording = self._recording
        if self._training is not None:
            state.training = self._training

    def __exit__(self, kind: type | None, value: BaseException | None, trace: TracebackType | None) -> None:
        state.recording, state.training = self._before.pop()


class Collecting:
    """A `with` scope whose calls a trace collects, regardless of `bulk` scopes inside it; None:
    calls are not collected.

    Scopes can be nested. Collected calls run when a value is read, or by `trace.run()`.
    """

    __slots__ = ("trace", "_outer")

    def __init__(self, trace: object) -> None:
        self.trace = trace

    def __enter__(self) -> Any:
        self._outer = state.trace
        state.trace = self.trace
        state.scopes += 1
        return self.trace

    def __exit__(self, *_: object) -> None:
        state.scopes -= 1
        state.trace = self._outer if state.scopes else state.bulk
