"""Bulk scopes: the size, the exit hook, and functions merged into blocks."""

import threading

import pytest

from mxjax import engine
from mxjax.base import MXNetError
from mxjax.engine import bulking


@pytest.fixture
def hook(monkeypatch):
    monkeypatch.setattr(bulking, "callbacks", list(bulking.callbacks))
    return engine.on_bulk_exit


def test_size_is_the_threads_own():
    assert engine.set_bulk_size(4) == 0
    other = []
    thread = threading.Thread(target=lambda: other.append(engine.bulk_size()))
    thread.start()
    thread.join()
    assert other == [0]
    with engine.bulk(9):
        assert engine.bulk_size() == 9
    assert engine.set_bulk_size(0) == 4 and engine.bulk_size() == 0


@pytest.mark.parametrize("size", [-1, "3", 1.5, None])
def test_wrong_size(size):
    with pytest.raises(MXNetError, match="set_bulk_size: expected"):
        engine.set_bulk_size(size)
    assert engine.bulk_size() == 0


def test_hook_runs_on_every_change_and_all_hooks_run(hook):
    sizes = []

    @hook
    def broken():
        sizes.append(engine.bulk_size())
        raise ValueError("broken")

    hook(lambda: sizes.append("second"))
    with pytest.raises(ValueError, match="broken"):
        engine.set_bulk_size(3)
    with pytest.raises(ValueError, match="broken"):
        engine.set_bulk_size(0)
    assert sizes == [3, "second", 0, "second"]


def test_merged_into_blocks_of_at_most_size(threaded):
    x, seen = threaded.new_variable(), []
    with engine.bulk(4):
        for i in range(10):
            threaded.push(lambda run_ctx, i=i: seen.append((i, run_ctx.is_bulk, threading.get_ident())), (), (x,))
        assert x.pending_write
    threaded.wait_for_var(x)
    assert [entry[:2] for entry in seen] == [(i, True) for i in range(10)] and x.version == 10
    for first in (0, 4, 8):
        assert len({thread for _, _, thread in seen[first:first + 4]}) == 1


def test_waits_and_other_pushes_flush(threaded):
    x, y = threaded.new_variable(), threaded.new_variable()
    with engine.bulk(100):
        for flush in (lambda: threaded.wait_for_var(x), threaded.wait_for_all,
                      lambda: threaded.push_sync(lambda run_ctx: None, (x,)),
                      lambda: threaded.push_async(lambda run_ctx, on_complete: on_complete(), (y,)),
                      lambda: threaded.push(lambda run_ctx: None, (y,), priority=3),
                      lambda: threaded.push(lambda run_ctx: None, (y,), ctx="other"),
                      lambda: threaded.push(lambda run_ctx: None, (y,), lane="io")):
            done = threading.Event()
            threaded.push(lambda run_ctx, done=done: done.set(), (), (x,))
            assert not done.wait(0.01)
            flush()
            assert done.wait(10)


def test_another_thread_can_wait_for_an_open_block(threaded):
    """The thread in the scope waits for one that waits for what the scope put off."""
    x, seen = threaded.new_variable(), []
    with engine.bulk(100):
        threaded.push(lambda run_ctx: seen.append(1), (), (x,))
        other = threading.Thread(target=threaded.wait_for_var, args=(x,))
        other.start()
        other.join(10)
        assert not other.is_alive() and seen == [1]


def test_order_holds_against_other_threads(threaded):
    x, seen = threaded.new_variable(), []

    def push(label):
        threaded.push(lambda run_ctx: seen.append(label), (), (x,))

    with engine.bulk(100):
        push(1)
        other = threading.Thread(target=push, args=(2,))
        other.start()
        other.join(10)
        push(3)
    threaded.wait_for_var(x)
    assert seen == [1, 2, 3]


def test_crossing_scopes_of_two_threads_do_not_lock_each_other(threaded):
    """Each thread's open block would come to wait for the other's, if both could go on growing."""
    x, y, seen, turn = threaded.new_variable(), threaded.new_variable(), [], threading.Barrier(2)

    def scope(first, second):
        with engine.bulk(100):
            threaded.push(seen.append, (), (first,))
            turn.wait(10)
            threaded.push(seen.append, (), (second,))
            turn.wait(10)

    threads = [threading.Thread(target=scope, args=pair) for pair in ((x, y), (y, x))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert threaded.stop(timeout=10) == []
    assert len(seen) == 4 and (x.version, y.version) == (2, 2)


def test_reads_turned_to_writes(threaded):
    x, y, seen = threaded.new_variable(), threaded.new_variable(), []
    with engine.bulk(100):
        threaded.push(lambda run_ctx: seen.append("read"), (x,), (y,))
        threaded.push(lambda run_ctx: seen.append("write"), (y,), (x,))
    threaded.wait_for_all()
    assert seen == ["read", "write"] and (x.version, y.version) == (1, 1)


def test_errors_go_to_the_variables_of_the_right_function(threaded):
    x, y, z, seen = (threaded.new_variable(), threaded.new_variable(), threaded.new_variable(), [])

    def fail(run_ctx):
        raise ValueError("broken")

    with engine.bulk(100):
        threaded.push(seen.append, (), (x,))
        threaded.push(fail, (), (y,))
        threaded.push(seen.append, (y,), (z,))
        threaded.push(seen.append, (), (x,))
    threaded.wait_for_var(x)
    assert len(seen) == 2
    with pytest.raises(ValueError, match="broken"):
        threaded.wait_for_var(z)
    threaded.wait_for_var(y)
    threaded.wait_for_all()
