"""`mx.profiler`: records operators and their durations as a Chrome trace and as a table.

    mx.profiler.set_config(filename="trace.json", aggregate_stats=True)
    mx.profiler.set_state("run")
    ...
    mx.profiler.set_state("stop")
    print(mx.profiler.dumps())
    mx.profiler.dump()            # chrome://tracing and https://ui.perfetto.dev read the file

XLA runs a graph as one program, which is a single event here ("symbolic"). XLA's own trace shows
its contents; `set_config(jax_trace="folder")` also writes that trace. While the profiler runs, each
call waits for its result, so that the length of an event is the duration of the work (with
`synchronous=False`: of starting it). When the profiler is off, it costs one comparison per call.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import jax
from jax.core import Tracer

from ._support import settings
from ._support.files import write_file
from .base import MXNetError
from .kernel import kernel as _kernel
from .storage import used

__all__ = ["Counter", "Domain", "Event", "Frame", "Marker", "Task", "dump", "dump_profile", "dumps", "pause",
           "profiler_set_config", "profiler_set_state", "resume", "scope", "set_config", "set_kvstore_handle",
           "set_state"]

_SETTINGS: dict[str, Any] = {
    "filename": "profile.json", "profile_all": False, "profile_symbolic": True, "profile_imperative": True,
    "profile_memory": True, "profile_api": True, "continuous_dump": True, "dump_period": 1.0, "aggregate_stats": False,
    "profile_process": "worker", "jax_trace": "", "synchronous": True}
_SORTING = {"total": "Total", "avg": "Avg", "min": "Min", "max": "Max", "count": "Count"}
_MARKER_SCOPES = {"global": "g", "process": "p", "thread": "t", "task": "t", "marker": "t"}
SERVER_COMMAND = 5  # the head of the message with which workers make servers profile
_MEMORY = "Device Storage"


class _Profiler:
    """The state of this process's profiler."""

    def __init__(self) -> None:
        self.settings = dict(_SETTINGS)
        self.running = self.paused = self.tracing = False
        self.events: list[dict[str, Any]] = []
        self.statistics: dict[tuple[str, str], list[float]] = {}
        self.begin_here()
        self.end: int | None = None  # where in the file the next event goes; None: it has to be begun
        self.threads: set[int] = set()
        self.kvstore: Any = None
        self.sampled = 0.0

    def begin_here(self) -> None:
        """Creates the state of this process; in a forked child, inherited locks may belong to
        threads that no longer exist."""
        self.lock = threading.RLock()
        self.writing = threading.RLock()  # of the file; `lock` is held for moments only
        self.switching = threading.RLock()  # on and off
        self.writer: threading.Timer | None = None

    @property
    def active(self) -> bool:
        return self.running and not self.paused

    # ------------------------------------------------------------ recording
    def duration(self, name: str, category: str, begin: int, end: int) -> None:
        """Records an event from `begin` to `end` (nanoseconds)."""
        self.note((category, name), (end - begin) / 1e6,
                  {"ph": "B", "ts": begin // 1000}, {"ph": "E", "ts": end // 1000})

    def counter(self, name: str, category: str, value: float, shown: float) -> None:
        """Records a value; `shown` is its value in the table."""
        self.note((category, name), shown, {"ph": "C", "ts": time.time_ns() // 1000, "args": {name: value}})

    def note(self, place: tuple[str, str], value: float | None, *events: dict[str, Any]) -> None:
        thread = threading.get_ident()
        with self.lock:
            if thread not in self.threads:
                self.threads.add(thread)
                self.events.append({"name": "thread_name", "ph": "M", "pid": os.getpid(), "tid": thread,
                                    "args": {"name": threading.current_thread().name}})
            for event in events:
                self.events.append({"name": place[1], "cat": place[0], "pid": os.getpid(), "tid": thread, **event})
            if value is not None and self.settings["aggregate_stats"]:
                row = self.statistics.setdefault(place, [0, 0.0, value, value])
                row[:] = row[0] + 1, row[1] + value, min(row[2], value), max(row[3], value)

    def observe(self, name: str, kind: str, call: Callable[..., Any], *args: object) -> Any:
        """Runs a compiled call and records its duration."""
        wanted, memory = (self.settings["profile_all"] or self.settings[f"profile_{part}"] for part in (kind, "memory"))
        if not self.active or not (wanted or memory or _inside.operator):
            return call(*args)
        begin = time.time_ns()
        result = call(*args)
        if self.settings["synchronous"]:
            jax.block_until_ready([v for v in jax.tree.leaves(result) if not isinstance(v, Tracer)])
        if _inside.operator:
            self.duration(f"{_inside.operator}::{name}", "Custom Operator", begin, time.time_ns())
        elif wanted:
            self.duration(name, "operator" if kind == "imperative" else kind, begin, time.time_ns())
        if memory:
            self.sample_memory()
        return result

    def sample_memory(self) -> None:
        """Records the memory in use on each device, at most a hundred times per second."""
        with self.lock:
            now = time.monotonic()
            if now - self.sampled < 0.01:
                return
            self.sampled = now
        for device, count in used(jax.local_devices()).items():
            self.counter(f"Memory: {device.platform}/{device.id}", _MEMORY, count, count / 1e3)

    # ------------------------------------------------------------ state
    def start(self) -> None:
        """Starts recording."""
        with self.switching:
            if self.running:
                return
            self.running, self.paused = True, False
            _kernel.watch(self.observe)
            if self.settings["jax_trace"]:
                jax.profiler.start_trace(self.settings["jax_trace"])
                self.tracing = True
            self.write_later()

    def stop(self) -> None:
        """Stops recording."""
        with self.switching:
            if not self.running:
                return
            self.running = False
            _kernel.watch(None)
            if self.writer is not None:
                self.writer.cancel()
                self.writer = None
            if self.tracing:
                self.tracing = False
                jax.profiler.stop_trace()

    def write_later(self, taken: float = 0.0) -> None:
        """Schedules periodic writes of the file while the profiler runs; `taken`: seconds of the last write."""
        if self.running and self.settings["continuous_dump"]:
            # a long file is written in full each time: not for more than a tenth of the time
            self.writer = threading.Timer(max(self.settings["dump_period"], 9 * taken), self.write_again)
            self.writer.daemon = True
            self.writer.start()

    def write_again(self) -> None:
        """Writes the file from a timer's thread, and starts the next timer while the profiler runs."""
        me, begin = threading.current_thread(), time.monotonic()
        with self.writing:
            if self.writer is me:  # after the end it would begin the file anew
                self.write()
        with self.switching:
            if self.writer is me:  # not stopped or restarted meanwhile
                self.write_later(time.monotonic() - begin)

    def write(self, finished: bool = False) -> None:
        """Appends the events since the last write to the file, which is complete JSON at all times.

        Args:
            finished: the next events begin the file anew.
        """
        with self.writing:
            with self.lock:
                path, events, self.events = self.settings["filename"], self.events, []
            begun = b'{"traceEvents": [\n'
            added = events
            if self.end is None:
                added = [{"name": "process_name", "ph": "M", "pid": os.getpid(), "args": {"name": _process()}}, *events]
            else:
                with open(path, "rb") as file:
                    begun = file.read(self.end) + b",\n" * bool(events)
            begun += ",\n".join(map(json.dumps, added)).encode()
            try:
                write_file(path, begun + b'\n], "displayTimeUnit": "ms"}\n')
            except OSError:
                with self.lock:
                    self.events[:0] = events
                raise
            self.end = None if finished else len(begun)
            if finished:
                with self.lock:
                    self.threads.clear()


def _process() -> str:
    rank = os.environ.get("DMLC_WORKER_ID")
    return "mxjax" if rank is None else f"mxjax worker {rank}"


class _Inside(threading.local):
    """The custom operator whose Python code this thread runs, and the open scopes."""

    operator = ""
    scope = ""


_inside = _Inside()
_profiler = _Profiler()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_profiler.begin_here)


@contextlib.contextmanager
def custom_operator(name: str) -> Iterator[None]:
    """Marks that this thread runs a custom operator's Python code; its calls count towards the operator."""
    before, _inside.operator = _inside.operator, name
    begin = time.time_ns()
    try:
        yield
    finally:
        _inside.operator = before
        if _profiler.active:
            _profiler.duration(f"{name}::pure_python", "Custom Operator", begin, time.time_ns())


# -------------------------------------------------------------------- settings
def set_kvstore_handle(handle: object) -> None:
    """Sets the kvstore whose servers `profile_process="server"` refers to."""
    _profiler.kvstore = handle


def _ask_servers(function: str, **arguments: object) -> None:
    """Has all servers of the kvstore call a function of this module."""
    if _profiler.kvstore is None:
        raise MXNetError(f"profiler.{function}(profile_process='server'): the servers are unknown; call "
                         "set_kvstore_handle(store) first")
    _profiler.kvstore._send_command_to_servers(SERVER_COMMAND, json.dumps({"function": function, **arguments}))


def _on_server(process: str, function: str, **arguments: object) -> bool:
    """Returns whether a call is meant for the servers, which have been asked then."""
    if process not in ("worker", "server"):
        raise MXNetError(f"profile_process: expected 'worker' or 'server', got {process!r}")
    if process == "server":
        _ask_servers(function, **arguments)
    return process == "server"


def obey(body: str) -> None:
    """Runs a worker's request with `profile_process="server"` on a server."""
    asked = json.loads(body)
    function = {"set_config": set_config, "set_state": set_state, "dump": dump, "pause": pause,
                "resume": resume}[asked.pop("function")]
    function(**asked)


def set_config(**kwargs: object) -> None:
    """Configures the profiler; settings that are not passed get their defaults.

    Args:
        filename: file of the trace (by default "profile.json").
        profile_all, profile_symbolic, profile_imperative, profile_memory, profile_api: what to
            record: everything, graphs, imperative operators, memory in use. `profile_api` has no
            effect, because there is no C API.
        continuous_dump, dump_period: write the file every `dump_period` seconds while recording.
        aggregate_stats: collect the statistics that `dumps` shows.
        profile_process: "worker", or "server" for the servers of the store in `set_kvstore_handle`.
        jax_trace: directory for XLA's own trace (TensorBoard, Perfetto); specific to mxjax.
        synchronous: wait for each call's result; specific to mxjax.

    Raises:
        MXNetError: unknown setting, or a value of the wrong type.
    """
    unknown = set(kwargs) - set(_SETTINGS)
    if unknown:
        raise MXNetError(f"profiler.set_config: unknown settings {', '.join(sorted(unknown))}; known: "
                         f"{', '.join(_SETTINGS)}")
    settings = {name: _converted(name, value) for name, value in kwargs.items()}
    if _on_server(settings.pop("profile_process", "worker"), "set_config", **settings):
        return
    with _profiler.writing, _profiler.lock:
        if settings.get("filename", _SETTINGS["filename"]) != _profiler.settings["filename"]:
            _profiler.end = None
        _profiler.settings = {**_SETTINGS, **settings}


def _converted(name: str, value: object) -> Any:
    default = _SETTINGS[name]
    try:
        if isinstance(default, bool):
            texts = {"true": True, "1": True, "false": False, "0": False}
            return texts[str(value).lower()]
        return type(default)(value)
    except (KeyError, TypeError, ValueError):
        raise MXNetError(f"profiler.set_config: {name}={value!r} is not of type {type(default).__name__}") from None


def profiler_set_config(mode: str = "symbolic", filename: str = "profile.json") -> None:
    """Deprecated form of `set_config`; mode is "symbolic" or "all"."""
    warnings.warn("profiler.profiler_set_config() is deprecated. Please use profiler.set_config() instead",
                  stacklevel=2)
    set_config(**{f"profile_{mode}": True, "filename": filename})


def set_state(state: str = "stop", profile_process: str = "worker") -> None:
    """Starts or stops recording.

    Args:
        state: "run" or "stop".
        profile_process: "worker" or "server".

    Raises:
        KeyError: unknown state.
    """
    action = {"run": _profiler.start, "stop": _profiler.stop}[state]
    if not _on_server(profile_process, "set_state", state=state):
        action()


def profiler_set_state(state: str = "stop") -> None:
    """Deprecated form of `set_state`."""
    warnings.warn("profiler.profiler_set_state() is deprecated. Please use profiler.set_state() instead", stacklevel=2)
    set_state(state)


def pause(profile_process: str = "worker") -> None:
    """Pauses recording until `resume`."""
    if not _on_server(profile_process, "pause"):
        _profiler.paused = True


def resume(profile_process: str = "worker") -> None:
    """Resumes recording after `pause`."""
    if not _on_server(profile_process, "resume"):
        _profiler.paused = False


# -------------------------------------------------------------------- results
def dump(finished: bool = True, profile_process: str = "worker") -> None:
    """Writes the recorded events to the file.

    Args:
        finished: stop recording; later events start a new file.
        profile_process: "worker" or "server".
    """
    if _on_server(profile_process, "dump", finished=finished):
        return
    if finished:
        _profiler.stop()
    _profiler.write(finished)


def dump_profile() -> None:
    """Deprecated form of `dump`."""
    warnings.warn("profiler.dump_profile() is deprecated. Please use profiler.dump() instead", stacklevel=2)
    dump(True)


def dumps(reset: bool = False, format: str = "table", sort_by: str = "total", ascending: bool = False) -> str:
    """Returns the statistics collected so far (`set_config(aggregate_stats=True)`), in milliseconds and kB.

    Args:
        reset: reset them afterwards.
        format: "table" or "json".
        sort_by: "total", "avg", "min", "max" or "count", within each category.
        ascending: smallest first.

    Raises:
        AssertionError: an argument is invalid.
    """
    for name, value, known in (("format", format, ("table", "json")), ("sort_by", sort_by, tuple(_SORTING)),
                               ("ascending", ascending, (False, True)), ("reset", reset, (False, True))):
        if value not in known:
            raise AssertionError(f"Invalid value provided for {name}: {value}. Support: {', '.join(map(repr, known))}")
    with _profiler.lock:
        rows = {place: list(row) for place, row in _profiler.statistics.items()}
        if reset:
            _profiler.statistics.clear()
    groups: dict[str, dict[str, dict[str, float]]] = {}
    for (category, name), (count, total, least, most) in rows.items():
        groups.setdefault(category, {})[name] = {"Count": count, "Total": total, "Min": least, "Max": most,
                                                 "Avg": total / count}
    for category in groups:
        groups[category] = dict(sorted(groups[category].items(), key=lambda item: item[1][_SORTING[sort_by]],
                                       reverse=not ascending))
    memory = {_MEMORY: groups.pop(_MEMORY)} if _MEMORY in groups else {}
    for row in memory.get(_MEMORY, {}).values():
        del row["Total"]
    times = dict(sorted(groups.items()))
    if format == "json":
        return json.dumps({"Time": times, "Memory": memory, "Unit": {"Time": "ms", "Memory": "kB"}}, indent=4)
    lines = ["", "Profile Statistics:", "\tNote the difference in units for different entries."]
    lines += _table(memory, ["Min Use  (kB)", "Max Use  (kB)", "Avg Use  (kB)"], ["Min", "Max", "Avg"])
    lines += _table(times, ["Time (ms)", "Min Time (ms)", "Max Time (ms)", "Avg Time (ms)"],
                    ["Total", "Min", "Max", "Avg"])
    return "\n".join(lines) + "\n"


def _table(groups: dict[str, dict[str, dict[str, float]]], titles: list[str], columns: list[str]) -> list[str]:
    lines = []
    for category, rows in groups.items():
        lines += [category, "=" * 17, "".join([f"{'Name':25s}{'Total Count':>16s}", *(f"{t:>17s}" for t in titles)]),
                  "".join([f"{'----':25s}{'-----------':>16s}", *(f"{'-' * len(t):>17s}" for t in titles)])]
        lines += ["".join([f"{name:25s}{row['Count']:16d}", *(f"{row[c]:17.4f}" for c in columns)])
                  for name, row in rows.items()]
        lines.append("")
    return lines


# -------------------------------------------------------------------- a user's own events
class _Duration:
    """Something with a beginning and an end, that may come again and again."""

    _category = ""

    def __init__(self, name: str) -> None:
        self.name = name
        self._begun: deque[int] = deque(maxlen=1)  # of the threads that share this, one takes the beginning out

    def start(self) -> None:
        """Marks the start."""
        self._begun.append(time.time_ns())

    def stop(self) -> None:
        """Marks the end; does nothing without a start."""
        try:
            begin = self._begun.pop()
        except IndexError:
            return
        if _profiler.active:
            _profiler.duration(self.name, self._category, begin, time.time_ns())

    def __str__(self) -> str:
        return self.name


class Domain:
    """A category of tasks, frames, counters and markers.

    Example:
        >>> domain = mx.profiler.Domain("input")
        >>> task = domain.new_task("decode")
        >>> task.start(); task.stop()
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return self.name

    def new_task(self, name: str) -> Task:
        """Creates a Task in this domain."""
        return Task(self, name)

    def new_frame(self, name: str) -> Frame:
        """Creates a Frame in this domain."""
        return Frame(self, name)

    def new_counter(self, name: str, value: int | None = None) -> Counter:
        """Creates a Counter in this domain."""
        return Counter(self, name, value)

    def new_marker(self, name: str) -> Marker:
        """Creates a Marker in this domain."""
        return Marker(self, name)


class Task(_Duration):
    """A piece of work of a thread, from `start` to `stop`; its durations are accumulated."""

    def __init__(self, domain: Domain, name: str) -> None:
        super().__init__(name)
        self._category = str(domain)


class Frame(_Duration):
    """One cycle of recurring work, such as an iteration."""

    def __init__(self, domain: Domain, name: str) -> None:
        super().__init__(name)
        self._category = f"{domain},frame"


class Event(_Duration):
    """A time span without a domain."""

    _category = "event"

    def __init__(self, name: str) -> None:
        super().__init__(name)


class Counter:
    """A number that changes over time.

    Args:
        domain: its category.
        name: its name.
        value: its initial value.
    """

    def __init__(self, domain: Domain, name: str, value: int | None = None) -> None:
        self.name, self._category, self._value = name, str(domain), 0
        self._lock = threading.Lock()
        if value is not None:
            self.set_value(value)

    def _set(self, value: int | None, delta: int = 0) -> None:
        """Sets the number to `value` (None: its value) plus `delta`, atomically for other threads."""
        with self._lock:
            self._value = (self._value if value is None else value) + delta
            if _profiler.active:  # the table of statistics divides by a thousand, as for times
                _profiler.counter(self.name, self._category, self._value, self._value / 1e3)

    def set_value(self, value: int) -> None:
        """Sets the number."""
        self._set(int(value))

    def increment(self, delta: int = 1) -> None:
        """Increments the number."""
        self._set(None, int(delta))

    def decrement(self, delta: int = 1) -> None:
        """Decrements the number."""
        self._set(None, -int(delta))

    def __iadd__(self, delta: int) -> Counter:
        self.increment(delta)
        return self

    def __isub__(self, delta: int) -> Counter:
        self.decrement(delta)
        return self

    def __str__(self) -> str:
        return self.name


class Marker:
    """A point in time."""

    def __init__(self, domain: Domain, name: str) -> None:
        self.name, self.domain = name, domain

    def mark(self, scope: str = "process") -> None:
        """Marks the current time.

        Args:
            scope: extent of the drawn mark: "global", "process", "thread", "task" or "marker".

        Raises:
            MXNetError: unknown scope.
        """
        if scope not in _MARKER_SCOPES:
            raise MXNetError(f"Marker.mark: unknown scope {scope!r}; known: {', '.join(_MARKER_SCOPES)}")
        if _profiler.active:
            _profiler.note((f"{self.domain},instant_marker", self.name), None,
                           {"ph": "i", "ts": time.time_ns() // 1000, "s": _MARKER_SCOPES[scope]})


@contextlib.contextmanager
def scope(name: str = "<unk>:", append_mode: bool = True) -> Iterator[None]:
    """A `with` block that is recorded as one event, and as a named range in XLA's trace.

    Args:
        name: its name.
        append_mode: append it to the names of the enclosing scopes.
    """
    before = _inside.scope
    _inside.scope = before + name if append_mode else name
    begin = time.time_ns()
    try:
        with jax.profiler.TraceAnnotation(_inside.scope):
            yield
    finally:
        if _profiler.active:
            _profiler.duration(_inside.scope, "scope", begin, time.time_ns())
        _inside.scope = before


def autostart() -> None:
    """Starts recording and writes the file at exit, for MXNET_PROFILER_AUTOSTART.

    MXNET_PROFILER_MODE: 0 records only graphs, 1 (default) everything.
    """
    everything = settings.PROFILER_MODE()
    set_config(profile_all=everything, profile_imperative=everything, profile_memory=everything)
    set_state("run")
    atexit.register(dump)
