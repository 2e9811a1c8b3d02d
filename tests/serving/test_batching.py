"""Requests put together in batches: who shares one, the limits, failures, the end."""

import asyncio
import threading
import time

import numpy as np
import pytest

from mxjax.base import MXNetError
from mxjax.serving import Batcher, Overloaded, TooLate


def _rows(count, value, width=3, dtype="float32"):
    return {"x": np.full((count, width), value, dtype)}


def _ask(batcher, *requests):
    """The answers, or what was raised, of requests that arrive together."""
    async def together():
        try:
            return await asyncio.gather(*map(batcher.submit, requests), return_exceptions=True)
        finally:
            batcher.close()
    return asyncio.run(together())


class _Doubling:
    """A model that notes the shapes it is called with."""

    def __init__(self, wait=0.0):
        self.shapes, self.wait = [], wait

    def __call__(self, inputs):
        self.shapes.append(inputs["x"].shape)
        time.sleep(self.wait)
        if (inputs["x"] < 0).any():
            raise MXNetError("a negative number")
        return {"y": inputs["x"] * 2}


def test_requests_that_arrive_together_share_a_batch():
    model, noted = _Doubling(), []
    batcher = Batcher(model, max_batch=8, max_delay=0.2, sizes=(4, 8), on_batch=lambda *n: noted.append(n))
    answers = _ask(batcher, *(_rows(1, v) for v in range(3)))
    assert model.shapes == [(4, 3)] and noted == [(3, 3, 1)]
    for value, answer in enumerate(answers):
        np.testing.assert_array_equal(answer["y"], np.full((1, 3), 2 * value))


def test_a_full_batch_does_not_wait():
    model = _Doubling()
    begin = time.monotonic()
    _ask(Batcher(model, max_batch=2, max_delay=60), _rows(1, 1), _rows(1, 2), _rows(2, 3))
    assert time.monotonic() - begin < 30 and model.shapes == [(2, 3), (2, 3)]


def test_requests_of_other_shapes_or_dtypes_go_apart():
    model = _Doubling()
    answers = _ask(Batcher(model, max_delay=0.05), _rows(1, 1), _rows(1, 1, width=2), _rows(1, 2),
                   _rows(1, 1, dtype="int32"))
    assert sorted(model.shapes) == [(1, 2), (1, 3), (2, 3)]
    assert [a["y"].shape for a in answers] == [(1, 3), (1, 2), (1, 3), (1, 3)]
    assert answers[3]["y"].dtype == np.int32


def test_a_large_request_runs_in_pieces():
    model = _Doubling()
    value = np.arange(33, dtype="float32").reshape(11, 3)
    [answer] = _ask(Batcher(model, max_batch=4, max_delay=0, sizes=(1, 2, 4)), {"x": value})
    assert model.shapes == [(4, 3), (4, 3), (4, 3)]
    np.testing.assert_array_equal(answer["y"], value * 2)


def test_a_bad_request_harms_no_other():
    model = _Doubling()
    good, bad, other = _ask(Batcher(model, max_delay=0.05), _rows(1, 1), _rows(1, -1), _rows(2, 3))
    assert isinstance(bad, MXNetError) and good["y"][0, 0] == 2 and other["y"].shape == (2, 3)
    assert model.shapes == [(4, 3), (1, 3), (1, 3), (2, 3)]


def test_a_full_queue_and_a_late_answer():
    batcher = Batcher(_Doubling(), max_batch=1, max_delay=0, queue_size=2)
    answers = _ask(batcher, *(_rows(1, v) for v in range(5)))
    assert [isinstance(a, Overloaded) for a in answers] == [False, False, True, True, True]
    gate = threading.Event()

    def slow(inputs):
        gate.wait(20)
        return {"y": inputs["x"]}

    async def late():
        batcher = Batcher(slow, max_delay=0, timeout=0.05)
        with pytest.raises(TooLate, match=r"0\.05 s"):
            await batcher.submit(_rows(1, 1))
        gate.set()
        batcher.timeout = 30
        answer = await batcher.submit(_rows(1, 2))  # the next one is answered, and is its own
        batcher.close()
        return answer
    assert asyncio.run(late())["y"][0, 0] == 2


def test_draining_answers_what_waits_and_takes_no_more():
    async def end():
        batcher = Batcher(_Doubling(wait=0.02), max_batch=1, max_delay=0)
        waiting = [asyncio.ensure_future(batcher.submit(_rows(1, v))) for v in range(5)]
        await asyncio.sleep(0.01)
        await batcher.drain()
        await asyncio.sleep(0)  # the tasks themselves end
        assert all(one.done() for one in waiting)
        with pytest.raises(Overloaded, match="shutting down"):
            await batcher.submit(_rows(1, 1))
        batcher.close()
        return [one.result()["y"][0, 0] for one in waiting]
    assert asyncio.run(end()) == [0, 2, 4, 6, 8]


def test_what_no_batch_can_be_made_of():
    [answer] = _ask(Batcher(_Doubling()), {"x": np.ones((2, 3)), "z": np.ones((3, 3))})
    assert isinstance(answer, ValueError) and "first axes" in str(answer)
    [answer] = _ask(Batcher(_Doubling()), {"x": np.float32(1)})
    assert isinstance(answer, ValueError)
    [answer] = _ask(Batcher(lambda inputs: {"y": inputs["x"].sum()}), _rows(2, 1))
    assert isinstance(answer, MXNetError) and "first axis" in str(answer)
    with pytest.raises(ValueError, match="positive"):
        Batcher(_Doubling(), max_batch=0)


def test_many_requests_of_many_sizes_get_their_own_answers():
    random = np.random.default_rng(0)
    requests = [{"x": random.uniform(size=(int(n), 3)).astype("float32")} for n in random.integers(1, 33, 400)]
    answers = _ask(Batcher(_Doubling(), max_batch=32, max_delay=0.001, sizes=(1, 2, 4, 8, 16, 32)), *requests)
    for request, answer in zip(requests, answers, strict=True):
        np.testing.assert_array_equal(answer["y"], request["x"] * 2)
