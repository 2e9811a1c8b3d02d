"""Loading without the garbage collector, which is on afterwards, and without drawing random numbers."""

import gc
import subprocess
import sys

import pytest

from mxjax._support.loading import loading


@pytest.fixture(autouse=True)
def on():
    gc.enable()
    yield
    gc.enable()


def test_the_collector_is_off_meanwhile():
    with loading():
        assert not gc.isenabled()
        with loading():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ImportError), loading():
        raise ImportError
    assert gc.isenabled()


def test_a_program_that_has_switched_it_off_finds_it_off():
    gc.disable()
    with loading():
        assert not gc.isenabled()
    assert not gc.isenabled()


@pytest.mark.parametrize("before, frozen", [("", True), ("kept = [[] for _ in range(100_000)]", False),
                                            ("import jax", False)])
def test_objects_are_frozen_where_they_come_first(before, frozen):
    code = f"import gc\n{before}\nimport mxjax as mx\nmx.nd\nprint(gc.get_freeze_count() > 50_000, gc.isenabled())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split() == [str(frozen), "True"]


@pytest.mark.parametrize("before", ["", "gc.disable()\n"])
def test_loading_jax_does_not_move_numpys_generator(before):
    code = f"""
import gc
import sys
import numpy as np
import mxjax as mx
np.random.seed(3)
{before}mx.nd.ones(2)
assert "jax" in sys.modules
assert np.random.rand() == np.random.RandomState(3).rand()
"""
    subprocess.run([sys.executable, "-c", code], timeout=120, check=True)
