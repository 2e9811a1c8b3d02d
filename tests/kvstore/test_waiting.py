"""Who waits for other workers is woken by news of them: nobody looks again and again, and no news goes unheard."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

import mxjax as mx
from mxjax.kvstore import cluster
from mxjax.kvstore.cluster import Cluster, Place
from mxjax.kvstore.scheduler import Scheduler

from ..internals import channel_of

SECRET = "a secret of this test of waiting"
SOON = 6  # seconds; what takes longer never happens


@pytest.fixture
def job(monkeypatch):
    """A scheduler and two workers of it in this process; the first one's waits are noted."""
    monkeypatch.setenv("MXJAX_CLUSTER_TOKEN", SECRET)
    monkeypatch.setenv("MXJAX_FAILURE_GRACE", "0.4")
    monkeypatch.setattr(cluster, "atexit", SimpleNamespace(register=lambda function: None))
    scheduler = Scheduler(2, secret=SECRET.encode())
    with ThreadPoolExecutor(2) as pool:
        workers = list(pool.map(lambda rank: Cluster(Place(2, rank, ("127.0.0.1", scheduler.port)), xla=False), (0, 1)))
    for worker in workers:
        worker.end_later = lambda: None  # it would end this process
    _note_waits(workers[0])
    yield scheduler, *workers
    for worker in reversed(workers):
        worker.left = True
        channel_of(worker).close()
    scheduler.close()


def _note_waits(worker):
    """Has `worker.waits` count the times at which it begins to wait for news, and `worker.seconds` for how long."""
    wait, worker.seconds, worker.waits = worker.news.wait, [], threading.Semaphore(0)

    def noted(timeout=None):
        worker.seconds.append(timeout)
        worker.waits.release()
        return wait(timeout)
    worker.news.wait = noted


@pytest.fixture
def begin():
    """Runs a function in a thread of its own; what it gives is the future of the result."""
    pool = ThreadPoolExecutor(4)
    yield pool.submit
    pool.shutdown(wait=False, cancel_futures=True)


def _until(condition):
    end = time.monotonic() + SOON
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    assert condition()


def test_a_gathering_waits_for_the_others_in_one_go(job, begin):
    _, first, second = job
    together = begin(first.gather, "x", [np.arange(2)], 50.0)
    assert first.waits.acquire(timeout=SOON)
    second.gather("x", [np.arange(3)])
    assert [part[0].tolist() for part in together.result(SOON)] == [[0, 1], [0, 1, 2]]
    assert 40 < first.seconds[0] <= 50
    del first.seconds[:]
    together = begin(first.barrier)
    assert first.waits.acquire(timeout=SOON)
    second.barrier()
    together.result(SOON)
    assert first.seconds[0] is None or first.seconds[0] > 1e6


def test_a_gathering_ends_at_its_deadline(job):
    _, first, _ = job
    with pytest.raises(mx.MXNetError, match="did not reach 'x' within 0.2 s"):
        first.gather("x", [], 0.2)
    assert first.seconds and max(first.seconds) <= 0.2


@pytest.mark.parametrize("how", ["dies", "leaves", "fails"])
def test_a_gathering_ends_with_what_has_happened_to_another(job, begin, how):
    scheduler, first, second = job
    together = begin(first.barrier)
    assert first.waits.acquire(timeout=SOON)
    _until(lambda: scheduler.parts)
    if how == "dies":
        channel_of(second).close()
    elif how == "leaves":
        second.leave()
    else:
        first.fail("something else")
    with pytest.raises(mx.MXNetError, match="worker 0: (worker 1 .*has died|worker 1 has left|something else)"):
        together.result(SOON)
    assert min(first.seconds) > 1e6


def test_a_failure_is_printed_before_another_thread_can_raise_it(job, monkeypatch):
    """That thread's error may end the process, and threads that print end with it."""
    _, first, _ = job
    seen = []
    monkeypatch.setattr(cluster, "print", lambda *args, **kwargs: seen.append((args[0], first.failure)), raising=False)
    first.fail("something else")
    first.fail("another thing")
    assert seen == [("mxjax: worker 0: something else", "")] and first.failure == "something else"


def test_an_error_is_explained_as_soon_as_there_is_news(job, begin, monkeypatch):
    _, first, second = job
    with monkeypatch.context() as patch:
        patch.setattr(cluster, "time", SimpleNamespace(monotonic=time.monotonic))
        explained = begin(first.explain, ValueError("a connection"))
        assert first.waits.acquire(timeout=SOON)
    channel_of(second).close()
    assert "worker 1 (process" in str(explained.result(SOON)) and 2 < first.seconds[0] <= 3
    assert "has died" in str(first.explain(ValueError("another")))


def test_who_waits_for_somebody_who_has_left_is_told(job):
    _, first, second = job
    first.busy = time.monotonic()
    second.leave()
    _until(lambda: first.failure)
    assert first.failure == "worker 1 has left the job while this one waits for it"


def test_who_has_left_a_moment_before_the_others_wait_is_noticed(job):
    _, first, second = job
    first.check()
    second.leave()
    _until(lambda: first.gone)
    first.busy = time.monotonic()  # after its check
    _until(lambda: first.failure)


def test_a_collective_that_ends_nevertheless_is_no_failure(job):
    _, first, second = job
    first.grace = 2 * SOON
    first.busy = time.monotonic()
    second.leave()
    _until(lambda: any(t.name == "mxjax-doubt" for t in threading.enumerate()))
    first.busy = 0.0
    _until(lambda: not any(t.name == "mxjax-doubt" for t in threading.enumerate()))
    assert not first.failure


def test_who_serves_others_stays_until_they_have_left(job, begin):
    _, first, second = job
    first.serves = True
    leaving = begin(first.leave)
    assert first.waits.acquire(timeout=SOON) and not leaving.done()
    second.leave()
    leaving.result(SOON)
    assert min(first.seconds) > 1e6


def test_who_stays_for_others_does_not_stay_for_ever(job, begin):
    scheduler, first, _ = job
    first.serves = True
    leaving = begin(first.leave)
    assert first.waits.acquire(timeout=SOON)
    scheduler.members["worker", 0].channel.close()
    leaving.result(SOON)
