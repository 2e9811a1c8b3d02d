"""Shared by all tests."""

import logging

import jax
import pytest

from mxjax.compile import compiled, policy

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
def room(monkeypatch):
    """What has been compiled stays meanwhile, however much the tests before have left."""
    monkeypatch.setattr(compiled._room, "most", 1 << 50)


@pytest.fixture
def compiles(_listening, room, monkeypatch):
    """A list that grows by an item with every XLA program that is compiled (in any thread).

    What has been compiled stays meanwhile, however much it is, and a new signature is compiled at its third call
    whatever shapes its operator has had in the tests before.
    """
    monkeypatch.setattr(policy, "VARIED_CALLS", policy.FIRST_CALLS)
    _compiled.clear()
    return _compiled
