"""Shared by all tests."""

import logging

import jax
import pytest

from mxjax.compile import compiled

_compiled = []
# Programs are dropped when a process has very many, at a moment that no test can know: only who asks hears of it.
logging.getLogger("mxjax.compile").setLevel(logging.WARNING)


@pytest.fixture(scope="session")
def _listening():
    def listen(event, seconds, **_):
        if event.endswith("backend_compile_duration"):
            _compiled.append(event)
    jax.monitoring.register_event_duration_secs_listener(listen)


@pytest.fixture
def compiles(_listening, monkeypatch):
    """A list that grows by an item with every XLA program that is compiled (in any thread).

    What has been compiled stays meanwhile, however much it is.
    """
    monkeypatch.setattr(compiled._room, "most", 1 << 50)
    _compiled.clear()
    return _compiled
