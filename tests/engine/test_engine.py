"""What the engine promises, for every engine type."""

import gc
import threading
import time
import traceback

import pytest

from mxjax import engine
from mxjax.base import MXNetError

from ..internals import workers_of


def nothing(run_ctx):
    pass


def fail(run_ctx):
    raise ValueError("broken")


def push(eng, *args, **kwargs):
    """Push; with the naive engine the error of the function comes at once, and is put back to be waited for."""
    try:
        eng.push(*args, **kwargs)
    except (ValueError, KeyboardInterrupt, SystemExit) as error:
        mutate = args[2] if len(args) > 2 else ()
        for var in mutate or (eng.new_variable(),):
            eng.set_exception(var, error)


def test_order_version_and_state(eng):
    x, y, seen = eng.new_variable("x"), eng.new_variable("y"), []
    for i in range(50):
        eng.push(lambda run_ctx, i=i: seen.append(i), (y,), (x,))
    eng.wait_for_var(x)
    assert seen == list(range(50))
    assert (x.version, y.version) == (50, 0)
    eng.wait_for_all()
    assert not (x.busy or x.pending_write or y.busy)


def test_busy_and_readers_side_by_side(threaded):
    x = threaded.new_variable()
    both, go = threading.Barrier(3), threading.Event()
    for _ in range(2):
        threaded.push(lambda run_ctx: (both.wait(10), go.wait(10)), (x,))
    both.wait(10)    # two readers run at once
    assert x.busy and not x.pending_write
    written = []
    threaded.push(lambda run_ctx: written.append(1), (), (x,))
    assert x.pending_write and not written
    go.set()
    threaded.wait_for_var(x)
    assert written == [1] and x.version == 1


def test_all_workers_are_used(monkeypatch):
    """Functions that become ready together run side by side, as many as there are workers."""
    monkeypatch.setenv("MXNET_CPU_WORKER_NTHREADS", "4")
    eng = engine.ThreadedEngine()
    for _ in range(20):
        gate, all_four = eng.new_variable(), threading.Barrier(4)
        eng.push(nothing, (), (gate,))
        for _ in range(4):
            eng.push(lambda run_ctx, barrier=all_four: barrier.wait(10), (gate,))
        eng.wait_for_all()
    eng.stop()


def test_push_sync_returns_and_raises(eng):
    x = eng.new_variable()
    assert eng.push_sync(lambda run_ctx: 41 + 1, (), (x,)) == 42
    with pytest.raises(ValueError, match="broken"):
        eng.push_sync(fail, (), (x,))
    eng.wait_for_var(x)    # raised already
    eng.wait_for_all()


def test_run_context(eng):
    op = eng.new_operator(lambda run_ctx: seen.append((run_ctx.ctx, run_ctx.is_bulk, run_ctx.resources)),
                          resources=("temp",))
    seen = []
    eng.push_operator(op, ctx="device 1")
    eng.wait_for_all()
    assert seen == [("device 1", False, ("temp",))]


def test_operators(eng):
    x, seen = eng.new_variable(), []
    op = eng.new_operator(lambda run_ctx: seen.append(1), (), (x,), name="count")
    for _ in range(10):
        eng.push_operator(op)
    eng.delete_operator(op)
    eng.wait_for_var(x)
    assert len(seen) == 10
    with pytest.raises(MXNetError, match="operator count was deleted"):
        eng.push_operator(op)


def test_async_completes_from_another_thread(eng):
    x, seen = eng.new_variable(), []

    def start(run_ctx, on_complete):
        threading.Timer(0.02, lambda: (seen.append("async"), on_complete())).start()

    eng.push_async(start, (), (x,))
    eng.push(lambda run_ctx: seen.append("after"), (x,))
    eng.wait_for_all()
    assert seen == ["async", "after"] and x.version == 1


def test_async_errors(threaded):
    eng, x, kept = threaded, threaded.new_variable("x"), []
    for start, expected, message in [
            (lambda run_ctx, done: done(OSError("disk")), OSError, "disk"),
            (lambda run_ctx, done: done("text"), MXNetError, "text"),
            (lambda run_ctx, done: fail(run_ctx), ValueError, "broken"),
            (lambda run_ctx, done: None, MXNetError, "dropped its on_complete"),
            (lambda run_ctx, done: (kept.append(done), done(KeyError("k"))), KeyError, "k")]:
        eng.push_async(start, (), (x,))
        with pytest.raises(expected, match=message):
            eng.wait_for_var(x)
    with pytest.raises(MXNetError, match="called twice"):
        kept[0]()
    eng.push_async(lambda run_ctx, done: (done(), fail(run_ctx)), (), (x,))
    eng.wait_for_var(x)
    with pytest.raises(ValueError, match="broken"):    # too late for x, not lost
        eng.wait_for_all()


@pytest.mark.parametrize("const, mutate, message", [
    ("xx", "", r"job: variable <Var x> occurs 2 times in const_vars"),
    ("", "yxyy", r"job: variable <Var y> occurs 3 times in mutate_vars"),
    ("xy", "y", r"job: variable <Var y> occurs in const_vars and in mutate_vars"),
])
def test_duplicates_are_refused(eng, const, mutate, message):
    var = {name: eng.new_variable(name) for name in "xy"}
    arguments = nothing, [var[n] for n in const], [var[n] for n in mutate]
    for call in eng.push, eng.push_sync, eng.push_async, eng.new_operator:
        with pytest.raises(MXNetError, match=message):
            call(*arguments, name="job")
    assert not var["x"].busy and not var["y"].busy


def test_bad_arguments(eng):
    x = eng.new_variable("x")
    with pytest.raises(MXNetError, match="expected a function"):
        eng.push(3)
    with pytest.raises(MXNetError, match="expected variables of Engine.new_variable, got 'x'"):
        eng.push(nothing, ("x",))
    with pytest.raises(MXNetError, match="expected one of compute, io, priority"):
        eng.push(nothing, lane="fast")
    with pytest.raises(MXNetError, match="expected an exception, got 'text'"):
        eng.set_exception(x, "text")


def test_delete_variable(eng):
    x, seen = eng.new_variable("x"), []
    eng.push(lambda run_ctx: (time.sleep(0.02), seen.append("use")), (x,))
    eng.delete_variable(x, lambda run_ctx: seen.append("deleted"))
    with pytest.raises(MXNetError, match="nothing: variable <Var x> was deleted"):
        eng.push(nothing, (), (x,))
    eng.wait_for_all()
    assert seen == ["use", "deleted"]


def test_delete_variable_with_error(eng):
    x, seen = eng.new_variable("x"), []
    eng.set_exception(x, ValueError("broken"))
    eng.delete_variable(x, lambda run_ctx: seen.append("deleted"))
    with pytest.raises(ValueError, match="broken"):
        eng.wait_for_all()
    assert seen == ["deleted"]


def test_error_flows_to_dependants_and_is_cleared_everywhere(eng):
    x, y, z, ran = eng.new_variable(), eng.new_variable(), eng.new_variable(), []
    push(eng, fail, (), (x,))
    push(eng, ran.append, (x,), (y,))
    push(eng, ran.append, (), (x,))
    push(eng, ran.append, (y,), (z,))
    with pytest.raises(ValueError, match="broken") as caught:
        eng.wait_for_var(z)
    assert "fail" in [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    for var in x, y, z:
        eng.wait_for_var(var)
    eng.wait_for_all()
    assert not ran or isinstance(eng, engine.NaiveEngine)
    eng.push(lambda run_ctx: ran.append("again"), (x, y), (z,))
    eng.wait_for_var(z)
    assert ran[-1] == "again"


def test_naive_raises_at_the_push():
    eng = engine.NaiveEngine()
    x = eng.new_variable()
    with pytest.raises(ValueError, match="broken"):
        eng.push(fail, (), (x,))
    eng.wait_for_all()


def test_wait_for_all_raises_the_first_and_names_the_others(eng):
    x, y = eng.new_variable(), eng.new_variable()
    push(eng, fail, (), (x,), name="first")
    eng.wait_for_var(y)
    gate = eng.new_variable()
    try:
        eng.wait_for_var(x)
    except ValueError as error:
        eng.set_exception(x, error)
    push(eng, fail, (), (gate,), name="second")
    with pytest.raises(ValueError) as caught:
        eng.wait_for_all()
    assert any("broken" in note for note in caught.value.__notes__)
    for wait in (eng.wait_for_all, lambda: eng.wait_for_var(x), lambda: eng.wait_for_var(gate)):
        wait()


def test_function_without_mutations_fails_at_wait_for_all(threaded):
    threaded.push(fail)
    with pytest.raises(ValueError, match="broken"):
        threaded.wait_for_all()
    threaded.wait_for_all()


def test_traceback_does_not_grow(eng):
    x, error = eng.new_variable(), ValueError("one object")
    depths = []
    for _ in range(4):
        eng.set_exception(x, error)
        try:
            eng.wait_for_var(x)
        except ValueError as caught:
            depths.append(len(traceback.extract_tb(caught.__traceback__)))
            error.__traceback__ = None
    assert len(set(depths)) == 1


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_base_exceptions_reach_the_wait_and_workers_go_on(eng, kind):
    x, seen = eng.new_variable(), []

    def leave(run_ctx):
        raise kind()

    for _ in range(8):
        push(eng, leave, (), (x,))
        with pytest.raises(kind):
            eng.wait_for_var(x)
    eng.push(seen.append, (), (x,))
    eng.wait_for_var(x)
    assert len(seen) == 1


def test_priority_among_ready_functions(monkeypatch):
    monkeypatch.setenv("MXNET_CPU_WORKER_NTHREADS", "1")
    eng, go, started, seen = engine.ThreadedEngine(), threading.Event(), threading.Event(), []
    eng.push(lambda run_ctx: (started.set(), go.wait(10)))
    started.wait(10)
    for priority in (0, 5, -5, 9, 5):
        eng.push(lambda run_ctx, p=priority: seen.append(p), priority=priority)
    go.set()
    eng.wait_for_all()
    assert seen == [9, 5, 5, 0, -5]
    eng.stop()


def test_lanes_and_devices_do_not_hold_each_other_up(monkeypatch):
    monkeypatch.setenv("MXNET_CPU_WORKER_NTHREADS", "1")
    eng, go = engine.ThreadedEnginePerDevice(), threading.Event()
    eng.push(lambda run_ctx: go.wait(10), ctx="a")
    for ctx, lane in (("b", "compute"), ("a", "io"), ("a", "priority")):
        assert eng.push_sync(lambda run_ctx: threading.current_thread().name, ctx=ctx, lane=lane).startswith(
            f"mxjax-engine-{lane}")
    go.set()
    eng.wait_for_all()
    eng.stop()


def test_push_and_wait_inside_a_function(monkeypatch):
    """Workers that wait for work do not starve it, even where there is one."""
    monkeypatch.setenv("MXNET_CPU_WORKER_NTHREADS", "1")
    for eng in (engine.ThreadedEngine(), engine.NaiveEngine()):
        x, y, seen = eng.new_variable("x"), eng.new_variable("y"), []

        def outer(run_ctx, eng=eng, x=x, y=y, seen=seen):
            eng.push(lambda run_ctx: seen.append("inner"), (), (y,))
            eng.wait_for_var(y)
            assert eng.push_sync(lambda run_ctx: 7, (y,)) == 7
            seen.append("outer")

        for _ in range(5):
            eng.push(outer, (), (x,))
        eng.wait_for_all()
        assert seen == ["inner", "outer"] * 5
        assert eng.stop(timeout=10) == []


def test_waits_for_itself_are_refused(eng):
    x, y = eng.new_variable("x"), eng.new_variable("y")

    def through_another(run_ctx):
        eng.push(nothing, (x,), (y,))
        eng.wait_for_var(y)

    for function, message in [
            (lambda run_ctx: eng.wait_for_var(x), "waits for <Var x>, which it mutates itself"),
            (lambda run_ctx: eng.wait_for_all(), "wait_for_all inside job would wait for itself"),
            (lambda run_ctx: eng.stop(), "stop inside job would wait for itself"),
            (lambda run_ctx: eng.push_sync(nothing, (x,)), "job waits for nothing, which waits for job"),
            (through_another, "job waits for work that itself waits for it")]:
        with pytest.raises(MXNetError, match=message):
            eng.push_sync(function, (), (x,), name="job")
    eng.wait_for_all()


def test_reader_may_wait_for_what_it_reads(threaded):
    x, inside, pushed = threaded.new_variable(), threading.Event(), threading.Event()

    def read(run_ctx):
        inside.set()
        pushed.wait(10)
        threaded.wait_for_var(x)    # not for the write behind it

    threaded.push(read, (x,))
    inside.wait(10)
    threaded.push(nothing, (), (x,))
    pushed.set()
    threaded.wait_for_all()
    assert x.version == 1


def test_destructors_may_push(threaded, restless):
    """The garbage collector may run a destructor within the engine's own bookkeeping."""
    x, seen, destroyed = threaded.new_variable(), [], []
    operator = threaded.new_operator(lambda run_ctx: seen.append(1), (), (x,))

    class Loop:
        def __init__(self):
            self.me = self

        def __del__(self):
            threaded.push_operator(operator)
            threaded.delete_variable(threaded.new_variable())
            destroyed.append(1)

    threshold = gc.get_threshold()
    gc.set_threshold(5)
    try:
        for _ in range(3000):
            Loop()
            threaded.push(nothing, (), (x,))
    finally:
        gc.set_threshold(*threshold)
    deadline = time.monotonic() + 20
    while len(destroyed) < 3000 and time.monotonic() < deadline:    # a worker may be in a collection, ours does nothing
        gc.collect()
        time.sleep(0.001)
    threaded.wait_for_all()
    assert len(seen) == 3000 and x.version == 6000


def test_calls_from_within_the_bookkeeping():
    """A device is asked for its kind there, as a destructor or a signal handler may run there."""
    eng = engine.ThreadedEnginePerDevice()
    x, order, refused = eng.new_variable(), [], []
    own = eng.new_operator(lambda run_ctx: order.append("pushed within"), (), (x,))

    class Device:
        @property
        def device_type(self):
            eng.push_operator(own)  # begins when the bookkeeping has ended
            for wait in (eng.wait_for_all, lambda: eng.wait_for_var(x), lambda: eng.push_sync(nothing, (x,))):
                try:
                    wait()
                except MXNetError as error:
                    refused.append(str(error))
            return "cpu"
    thread = threading.Thread(target=eng.push, args=(lambda run_ctx: order.append("first"), (), (x,)),
                              kwargs={"ctx": Device()}, daemon=True)
    thread.start()
    thread.join(20)
    assert len(refused) == 3 and all("cannot wait in a destructor or signal handler" in text for text in refused)
    eng.wait_for_all()
    assert order == ["first", "pushed within"] and eng.stop(timeout=20) == []


def test_stop_and_go_on(threaded):
    x = threaded.new_variable()
    for round_ in range(1, 4):
        threaded.push(nothing, (), (x,))
        assert threaded.stop(timeout=10) == []
        assert x.version == round_
        assert not workers_of(threaded)
