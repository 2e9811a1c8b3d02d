"""Small products by NumPy use one thread, and leave BLAS as it was."""

import threading

import numpy as np
import pytest

import mxjax as mx
from mxjax.interpret import blas

threadpoolctl = pytest.importorskip("threadpoolctl")


def _threads():
    return [library.num_threads for library in blas.controllers()]


@pytest.fixture
def several():
    """BLAS has three threads."""
    with threadpoolctl.threadpool_limits(3, user_api="blas"):
        if set(_threads()) != {3}:
            pytest.skip("NumPy's BLAS has one thread alone")
        yield


def test_one_thread_within_and_as_many_as_before_after(several):
    with blas.single_thread:
        assert set(_threads()) == {1}
    assert set(_threads()) == {3}
    with pytest.raises(ZeroDivisionError), blas.single_thread:
        1 / 0  # noqa: B018
    assert set(_threads()) == {3}


def test_blocks_of_threads_overlap(several):
    entered, leave, seen = threading.Event(), threading.Event(), []

    def other():
        with threadpoolctl.threadpool_limits(3, user_api="blas"), blas.single_thread:
            seen.append(set(_threads()))
            entered.set()
            leave.wait(30)
        seen.append(set(_threads()))
    thread = threading.Thread(target=other)
    with blas.single_thread:
        thread.start()
        assert entered.wait(30)
    leave.set()
    thread.join()
    assert set(_threads()) == {3} and seen == [{1}, {3}]


def test_products_of_first_calls_use_one_thread_and_large_ones_all(several, monkeypatch):
    seen = []
    matmul = np.matmul

    def watched(*args, **kwargs):
        seen.append(max(_threads()))
        return matmul(*args, **kwargs)
    monkeypatch.setattr(np, "matmul", watched)
    for height in (1, 128):
        mx.nd.Convolution(mx.nd.ones((1, 64, height, 32)), mx.nd.ones((64, 64, 3, 3)), no_bias=True, kernel=(3, 3),
                          pad=(1, 1), num_filter=64).wait_to_read()
    assert seen[0] == 1 and seen[-1] == 3 and set(_threads()) == {3}
