"""Shared by all tests."""

import logging
import threading

import jax
import pytest

from mxjax import util
from mxjax.kernel import compiled
from mxjax.kernel.interpreted import HostCall

from .internals import calls_of

_compiled = []
# Programs are dropped when a process has very many, at a moment that no test can know: only who asks hears of it.
logging.getLogger("mxjax.kernel").setLevel(logging.WARNING)


@pytest.fixture(scope="session")
def _listening():
    def listen(event, seconds, **_):
        if event.endswith("backend_compile_duration"):
            _compiled.append(threading.current_thread())
    jax.monitoring.register_event_duration_secs_listener(listen)


@pytest.fixture
def room(monkeypatch):
    """What has been compiled stays meanwhile, however much the tests before have left."""
    compiled.budget.make()  # if that was next
    monkeypatch.setattr(compiled.budget, "most", 1 << 50)
    monkeypatch.setattr(compiled.budget, "_many", lambda: False)


@pytest.fixture
def at_once(room, monkeypatch):
    """XLA computes all calls: NumPy has none at first."""
    monkeypatch.setenv("MXNET_ENFORCE_DETERMINISM", "1")
    for one in list(compiled.budget.functions):
        one.interpreter.sizes.clear()
        calls = calls_of(one)
        for signature, call in list(calls.items()):
            if isinstance(call, HostCall):  # NumPy computes it a few times more
                calls.pop(signature, None)


@pytest.fixture
def compilers(_listening, room):
    """A list that grows with every XLA program that is compiled, by the thread that compiled it.

    What has been compiled stays meanwhile, however much it is.
    """
    _compiled.clear()
    return _compiled


@pytest.fixture
def compiles(compilers, at_once):
    """As `compilers`, where a new signature is compiled at its first call."""
    return compilers


@pytest.fixture
def np_semantics():
    """NumPy semantics for shapes and arrays, in this thread."""
    with util.np_shape(), util.np_array():
        yield
