import sys

import pytest

from mxjax import engine

KINDS = {kind.__name__: kind for kind in (engine.ThreadedEnginePerDevice, engine.ThreadedEngine, engine.NaiveEngine)}


@pytest.fixture(params=list(KINDS))
def eng(request):
    """An engine of each type."""
    made = KINDS[request.param]()
    yield made
    assert made.stop(timeout=20) == []


@pytest.fixture(params=[name for name in KINDS if name != "NaiveEngine"])
def threaded(request):
    """An engine of each type with workers."""
    made = KINDS[request.param]()
    yield made
    assert made.stop(timeout=20) == []


@pytest.fixture
def restless():
    """Threads change places as often as they can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)
