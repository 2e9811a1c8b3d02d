"""These tests are of MXNet 2's API: `../test_level.py` runs them in processes that speak it."""

import os

import pytest

collect_ignore_glob = [] if os.environ.get("MXJAX_API") == "2" else ["test_*.py"]


@pytest.fixture(autouse=True)
def begun_anew():
    """Random numbers and semantics that do not depend on the order of tests."""
    import mxjax as mx
    mx.random.seed(7)
    mx.npx.set_np()
