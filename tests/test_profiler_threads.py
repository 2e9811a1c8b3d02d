"""mx.profiler used from several threads: nothing is lost, counted twice or overwritten."""

import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from mxjax import profiler

from .internals import recorder

THREADS = 8


@pytest.fixture(autouse=True)
def switching():
    """Threads take turns as often as they can; the profiler is left off, with its defaults."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)
    profiler.set_state("stop")
    recorder.events.clear()
    profiler.dumps(reset=True)
    profiler.set_config()


def together(work):
    """What `work` returns in each of several threads that begin at the same time."""
    barrier = threading.Barrier(THREADS)

    def begin(number):
        barrier.wait()
        return work(number)
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(begin, range(THREADS)))


@pytest.mark.parametrize("recording", [False, True])
def test_every_change_of_a_counter_arrives(recording, tmp_path):
    profiler.set_config(aggregate_stats=True, continuous_dump=False, filename=str(tmp_path / "trace.json"))
    profiler.set_state("run" if recording else "stop")
    rounds = 300 if recording else 10_000
    counter = profiler.Counter("domain", "number", 5)

    def work(number):
        own = counter
        for _ in range(rounds):
            counter.increment(3)
            counter.decrement()
            own += 2
            own -= 1
        return own
    assert all(result is counter for result in together(work))
    profiler.set_state("run")
    counter.increment(0)
    profiler.dump()
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    values = [e["args"]["number"] for e in events if e["ph"] == "C" and e["name"] == "number"]  # memory is counted, too
    assert values[-1] == 5 + THREADS * rounds * 3
    if recording:
        assert len(values) == 2 + 4 * THREADS * rounds
        assert {b - a for a, b in zip(values, values[1:], strict=False)} == {-1, 0, 2, 3}


def test_a_beginning_has_one_end(tmp_path):
    profiler.set_config(aggregate_stats=True, continuous_dump=False, filename=str(tmp_path / "trace.json"))
    profiler.set_state("run")
    task = profiler.Domain("domain").new_task("shared")
    for _ in range(200):
        task.start()
        together(lambda _: task.stop())
    times = json.loads(profiler.dumps(format="json"))["Time"]
    assert times["domain"]["shared"]["Count"] == 200


def test_an_end_waits_for_the_beginning(monkeypatch, tmp_path):
    calls = []
    stopper = threading.Thread(target=profiler.set_state, args=("stop",))

    def start_trace(folder):
        stopper.start()
        stopper.join(0.2)
        calls.append("start")
    monkeypatch.setattr(profiler.jax.profiler, "start_trace", start_trace)
    monkeypatch.setattr(profiler.jax.profiler, "stop_trace", lambda: calls.append("stop"))
    profiler.set_config(jax_trace=str(tmp_path), filename=str(tmp_path / "trace.json"))
    profiler.set_state("run")
    stopper.join()
    assert calls == ["start", "stop"]


def test_a_timer_that_comes_late_leaves_the_next_recording_alone(tmp_path):
    path = tmp_path / "trace.json"
    profiler.set_config(filename=str(path), dump_period=100)
    profiler.set_state("run")
    profiler.dump()
    profiler.set_state("run")  # while the timer of the first recording still has to see that it is over
    current, written = recorder.writer, path.read_bytes()
    profiler.Counter("domain", "number", 7)
    late = threading.Thread(target=recorder.write_again)
    late.start()
    late.join()
    assert recorder.writer is current and path.read_bytes() == written
    profiler.dump()
    assert [e["name"] for e in json.loads(path.read_text())["traceEvents"]].count("number") == 1
