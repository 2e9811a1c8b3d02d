"""Where a worker finds its place, and what a scheduler does with those who come, go, or keep silent."""

import socket
import threading
import time

import numpy as np
import pytest

import mxjax as mx
from mxjax.kvstore import wire
from mxjax.kvstore.cluster import Place, _first_node, find_place
from mxjax.kvstore.scheduler import Scheduler


@pytest.mark.parametrize("env, place", [
    ({}, None),
    ({"DMLC_PS_ROOT_URI": "h", "DMLC_PS_ROOT_PORT": "9000", "DMLC_NUM_WORKER": "3", "DMLC_NUM_SERVER": "2"},
     Place(3, None, ("h", 9000), False, 2, "DMLC")),
    ({"DMLC_PS_ROOT_URI": "h", "DMLC_PS_ROOT_PORT": "9000", "DMLC_NUM_WORKER": "3", "DMLC_WORKER_ID": "2"},
     Place(3, 2, ("h", 9000), False, 0, "DMLC")),
    ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_JOB_NODELIST": "gpu[003-006],x", "SLURM_JOB_ID": "20017"},
     Place(8, 0, ("gpu003", 20017), True, 0, "SLURM")),
    ({"SLURM_PROCID": "0", "SLURM_NTASKS": "1"}, None),
    ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"},
     Place(2, 1, ("127.0.0.1", 9091), False, 0, "Open MPI")),
    ({"PMI_RANK": "1", "PMI_SIZE": "4", "MXJAX_COORDINATOR": "n0:77"}, Place(4, 1, ("n0", 77), False, 0, "PMI")),
    ({"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "pod-0", "MASTER_PORT": "23456"},
     Place(2, 1, ("pod-0", 23456), False, 0, "torchrun or Kubeflow")),
    ({"MXJAX_RANK": "0", "MXJAX_NUM_WORKERS": "2", "MXJAX_COORDINATOR": "a:1"},
     Place(2, 0, ("a", 1), True, 0, "MXJAX")),
])
def test_places(env, place):
    assert find_place(env) == place


@pytest.mark.parametrize("env, message", [
    ({"DMLC_PS_ROOT_URI": "h"}, "DMLC_PS_ROOT_PORT, DMLC_NUM_WORKER is not"),
    ({"SLURM_PROCID": "4", "SLURM_NTASKS": "4"}, "ranks are numbered from 0"),
    ({"PMI_RANK": "x", "PMI_SIZE": "4"}, "PMI_RANK='x'"),
    ({"PMI_RANK": "0", "PMI_SIZE": "4"}, "MXJAX_COORDINATOR=host:port"),
    ({"PMI_RANK": "0", "PMI_SIZE": "4", "MXJAX_COORDINATOR": "host"}, "expected host:port"),
])
def test_wrong_places(env, message):
    with pytest.raises(mx.MXNetError, match=message):
        find_place(env)


def test_node_lists():
    assert [_first_node(n) for n in ("a", "a,b", "n[01-04,7]", "n[5]", "a-b[2,3]")] == ["a", "a", "n01", "n5", "a-b2"]


def test_messages_keep_arrays_and_refuse_nonsense():
    left, right = socket.socketpair()
    arrays = [np.arange(6, dtype="f").reshape(2, 3), np.zeros((0, 2), "i4"), np.float16(3)]
    wire.send(left, {"op": "x", "key": 3}, arrays)
    header, got = wire.receive(right)
    assert header == {"op": "x", "key": 3}
    assert all(a.dtype == b.dtype and a.shape == b.shape and (a == b).all() for a, b in zip(got, arrays, strict=True))
    left.sendall(b"GET / HTTP/1.1\r\n\r\n")
    with pytest.raises(mx.MXNetError, match="does not speak"):
        wire.receive(right)
    left.close()
    right.close()


class _Member:
    """A worker as the scheduler sees it."""

    def __init__(self, scheduler, rank=None, version="1", token=""):
        self.sock = wire.connect(("127.0.0.1", scheduler.port), 5, "scheduler")
        self.sock.settimeout(10)
        wire.send(self.sock, {"op": "hello", "role": "worker", "rank": rank, "host": "h", "pid": 1, "port": 2,
                              "version": version, "token": token})

    def hears(self):
        message = wire.receive(self.sock)
        return None if message is None else message[0]


@pytest.fixture
def scheduler():
    made = Scheduler(2, host="127.0.0.1", token="secret", heartbeat_timeout=1.0)
    yield made
    made.close()


def test_ranks_are_given_and_wishes_respected(scheduler):
    second, first = _Member(scheduler, 1, token="secret"), _Member(scheduler, token="secret")
    assert [first.hears()["rank"], second.hears()["rank"]] == [0, 1]
    third = _Member(scheduler, token="secret")
    assert "this job has its 2 workers already" in third.hears()["reason"]
    assert _Member(scheduler).hears() is None  # without the token: no word


def test_other_versions_are_refused(scheduler):
    first = _Member(scheduler, 0, "mxjax 1 with jax 2", "secret")
    while ("worker", 0) not in scheduler.members:
        time.sleep(0.01)
    reason = _Member(scheduler, 1, "mxjax 1 with jax 3", "secret").hears()["reason"]
    assert "worker 1 on h runs mxjax 1 with jax 3, but worker 0 on h runs mxjax 1 with jax 2" in reason
    first.sock.close()


def test_who_dies_or_falls_silent_is_reported(scheduler):
    first, second = _Member(scheduler, 0, token="secret"), _Member(scheduler, 1, token="secret")
    assert first.hears()["op"] == second.hears()["op"] == "welcome"
    stop = threading.Event()

    def beat():
        while not stop.wait(0.2):
            wire.send(first.sock, {"op": "ping"})
    thread = threading.Thread(target=beat)
    thread.start()
    try:
        heard = first.hears()  # the second is there, but says nothing
        assert (heard["op"], heard["rank"]) == ("lost", 1) and "no sign of life for 1 s" in heard["reason"]
    finally:
        stop.set()
        thread.join()
    wire.send(first.sock, {"op": "bye"})
    first.sock.close()
    scheduler.done.wait(5)
    assert scheduler.done.is_set()


def test_who_never_comes_ends_the_wait():
    scheduler = Scheduler(2, host="127.0.0.1", join_timeout=0.5)
    first = _Member(scheduler, 0)
    assert first.hears()["reason"] == "worker 1 did not join within 0.5 s"
    with pytest.raises(mx.MXNetError, match="worker 1 did not join"):
        scheduler.wait()


def test_one_process_is_a_job_of_one(monkeypatch):
    for name in ("dist_sync", "dist_device_sync", "dist_async"):
        store = mx.kv.create(name)
        assert (store.type, store.rank, store.num_workers, store.get_num_dead_node(7)) == (name, 0, 1, 0)
        store.init(3, mx.nd.ones((2,)))
        store.set_optimizer(mx.optimizer.create("test"))
        store.push(3, [mx.nd.ones((2,), ctx=mx.cpu(i)) for i in range(2)])
        out = mx.nd.zeros((2,))
        store.pull(3, out)
        assert out.asnumpy().tolist() == [3, 3]
    with pytest.raises(mx.MXNetError, match="unknown kvstore 'dist_none'"):
        mx.kv.create("dist_none")


def test_nobody_hears_of_a_leaving_before_the_parts_that_came_first():
    scheduler = Scheduler(2)
    heard = {0: [], 1: []}

    class Member:
        role, leaving = "worker", False

        def __init__(self, rank):
            self.rank = rank

        def tell(self, *message):
            heard[self.rank].append(b"".join(message))
            if self.rank == 0 and len(heard[0]) == 1:  # it leaves as soon as it has been told

                def leave():
                    with scheduler._lock:
                        scheduler._tell_all({"op": "leaving"})
                leaver.append(threading.Thread(target=leave))
                leaver[0].start()
                leaver[0].join(0.2)
    leaver = []
    scheduler.members = {("worker", rank): Member(rank) for rank in range(2)}
    scheduler._parts = {rank: ("step", [np.ones(1)]) for rank in range(2)}
    try:
        scheduler._settle()
        leaver[0].join()
    finally:
        scheduler.close()
    assert [b"gathered" in message for message in heard[1]] == [True, False]
