"""Where a worker finds its place, and what a scheduler does with those who come, go, or keep silent."""

import socket
import threading
import time
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

import mxjax as mx
from mxjax.kvstore import handshake, wire
from mxjax.kvstore.cluster import Place, beat, find_place, first_node
from mxjax.kvstore.dist_async import ServerConnection
from mxjax.kvstore.scheduler import Scheduler
from mxjax.kvstore.server import ParameterServer
from mxjax.tools import launch

from ..internals import channel_of

SECRET = b"a secret of this test"


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
    ({"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_JOB_NODELIST": "gpu003", "SLURM_STEP_NUM_NODES": "1"},
     Place(2, 1, ("127.0.0.1", 9091), False, 0, "SLURM")),
    ({"RANK": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "pod-0", "MASTER_PORT": "23456"},
     Place(2, 1, ("127.0.0.1", 23456), False, 0, "torchrun or Kubeflow")),
    ({"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_NNODES": "2",  # mpirun in sbatch
      "OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"},
     Place(4, 3, ("n1", 9091), False, 0, "Open MPI")),
    ({"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_JOB_NODELIST": "n[1-2]", "RANK": "2", "WORLD_SIZE": "4",
      "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "n1", "MASTER_PORT": "29500"},  # srun torchrun, one for each node
     Place(4, 2, ("n1", 29500), False, 0, "torchrun or Kubeflow")),
    ({"JOB_COMPLETION_INDEX": "0", "MXJAX_NUM_WORKERS": "4", "MXJAX_COORDINATOR": "train-workers-0-0.train:9091"},
     Place(4, 0, ("train-workers-0-0.train", 9091), True, 0, "Kubernetes")),
    ({"JOB_COMPLETION_INDEX": "1"}, None),  # an indexed Job of something else
    ({"PMI_RANK": "1", "PMI_SIZE": "4", "MXJAX_COORDINATOR": "n0:77"}, Place(4, 1, ("n0", 77), False, 0, "PMI")),
    ({"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "pod-0", "MASTER_PORT": "23456"},
     Place(2, 1, ("pod-0", 23456), False, 0, "torchrun or Kubeflow")),
    ({"MXJAX_RANK": "0", "MXJAX_NUM_WORKERS": "2", "MXJAX_COORDINATOR": "a:1"},
     Place(2, 0, ("a", 1), True, 0, "MXJAX")),
])
def test_places(env, place):
    assert find_place(env) == place


@pytest.mark.parametrize("env, device", [
    ({"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "1",
      "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, 1),
    ({"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "0",
      "OMPI_COMM_WORLD_LOCAL_SIZE": "1"}, None),  # alone on its machine
    ({"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "2"}, 0),
    ({"PMI_RANK": "3", "PMI_SIZE": "4"}, None),
    ({"PMI_RANK": "3", "PMI_SIZE": "4", "SLURM_LOCALID": "1", "SLURM_NNODES": "2"}, 1),  # by srun --mpi=pmi2
    ({"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2", "SLURM_LOCALID": "0"}, 1),
    ({"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}, 1),
    ({"SLURM_PROCID": "5", "SLURM_NTASKS": "8", "SLURM_LOCALID": "1", "SLURM_NNODES": "2"}, 1),
    ({"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_LOCALID": "0", "SLURM_NNODES": "2"}, None),
    ({"SLURM_PROCID": "5", "SLURM_NTASKS": "8", "SLURM_LOCALID": "1", "CUDA_VISIBLE_DEVICES": "3"}, None),
    ({"SLURM_PROCID": "5", "SLURM_NTASKS": "8", "SLURM_LOCALID": "1", "CUDA_VISIBLE_DEVICES": "2,3"}, 1),
    ({"SLURM_PROCID": "5", "SLURM_NTASKS": "8", "SLURM_LOCALID": "1", "JAX_LOCAL_DEVICE_IDS": "0,1"}, None),
    ({"MXJAX_RANK": "1", "MXJAX_NUM_WORKERS": "2", "SLURM_LOCALID": "0"}, None),
])
def test_workers_of_one_machine_have_a_gpu_each(env, device):
    assert find_place({"MXJAX_COORDINATOR": "node1:9091", **env}).device == device


def test_where_to_listen(monkeypatch):
    monkeypatch.delenv("DMLC_NODE_HOST", raising=False)
    assert handshake.listening_addresses("127.0.0.1") == ["127.0.0.1"] and handshake.is_local("127.0.0.1")
    assert set(handshake.listening_addresses("localhost")) <= {"127.0.0.1", "::1"} and handshake.is_local("localhost")
    assert handshake.listening_addresses("10.9.8.7") == ["10.9.8.7"] and not handshake.is_local("10.9.8.7")
    monkeypatch.setattr(handshake, "_resolved", lambda host: ["127.0.1.1"])  # as Debian has it for a machine's own name
    monkeypatch.setattr(handshake, "_routed", lambda: ["10.9.8.7"])
    assert handshake.listening_addresses("node3") == ["127.0.1.1", "10.9.8.7"] and not handshake.is_local("node3")
    monkeypatch.undo()
    with pytest.raises(mx.MXNetError, match="DMLC_NODE_HOST"):
        Scheduler(1, secret=SECRET, hosts=["192.0.2.77"])
    monkeypatch.setenv("DMLC_NODE_HOST", "10.1.1.1")
    assert handshake.listening_addresses("node3") == ["10.1.1.1"]
    with pytest.raises(mx.MXNetError, match="host none.invalid cannot be resolved"):
        handshake.listening_addresses(monkeypatch.delenv("DMLC_NODE_HOST") or "none.invalid")


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
    assert [first_node(n) for n in ("a", "a,b", "n[01-04,7]", "n[5]", "a-b[2,3]")] == ["a", "a", "n01", "n5", "a-b2"]


def test_heartbeats_come_in_time(monkeypatch):
    """Four in each interval, until the other side is gone."""
    monkeypatch.setenv("MXJAX_HEARTBEAT_TIMEOUT", "0.4")
    left, right = socket.socketpair()
    sender, receiver = wire.Channel(left, (b"a", b"b"), False), wire.Channel(right, (b"b", b"a"), False)
    right.settimeout(20)
    start, before = time.monotonic(), set(threading.enumerate())
    beat(sender)
    (heart,) = set(threading.enumerate()) - before
    assert [wire.receive(receiver)[0]["op"] for _ in range(3)] == ["ping"] * 3
    assert time.monotonic() - start > 0.25
    right.close()
    heart.join(20)
    assert not heart.is_alive()


@pytest.mark.parametrize("same_machine", [True, False])
def test_messages_keep_arrays_and_refuse_nonsense(same_machine):
    left, right = socket.socketpair()
    keys = b"one", b"other"
    sender, receiver = wire.Channel(left, keys, same_machine), wire.Channel(right, keys[::-1], same_machine)
    arrays = [np.arange(6, dtype="f").reshape(2, 3), np.zeros((0, 2), "i4"), np.float16(3),
              np.ones(2, ml_dtypes.bfloat16)]
    for _ in range(2):
        wire.send(sender, {"op": "x", "key": 3}, arrays)
        header, got = wire.receive(receiver)
        assert header == {"op": "x", "key": 3}
        assert all(a.dtype == b.dtype and a.shape == b.shape and (a == b).all()
                   for a, b in zip(got, arrays, strict=True))

    def refuse(header, specs):
        raise mx.MXNetError(f"no {header['op']} of {wire.nbytes(specs)} bytes")
    wire.send(sender, {"op": "x"}, arrays)
    with pytest.raises(wire.Unwanted, match="no x of 30 bytes"):
        wire.receive(receiver, refuse)
    wire.send(sender, {"op": "next"}, arrays[:1])  # it is still in step
    assert wire.receive(receiver)[0] == {"op": "next"}
    left.sendall(b"GET / HTTP/1.1\r\n\r\n")
    with pytest.raises(mx.MXNetError, match="a corrupt message"):
        wire.receive(receiver)
    left.close()
    right.close()


@pytest.mark.parametrize("same_machine, place", [(True, 30), (False, 30), (False, -50)])
def test_a_changed_message_is_noticed(same_machine, place):
    """In the header on any connection, in the arrays where it comes from another machine."""
    left, right = socket.socketpair()
    between, end = socket.socketpair()
    keys = b"one", b"other"
    sender, receiver = wire.Channel(left, keys, same_machine), wire.Channel(end, keys[::-1], same_machine)
    wire.send(sender, {"op": "push", "key": 3}, [np.zeros(10, "f")])
    message = bytearray(right.recv(1000))
    message[place] ^= 1
    between.sendall(message)
    with pytest.raises(mx.MXNetError, match="modified in transit"):
        wire.receive(receiver)
    for sock in (left, right, between, end):
        sock.close()


def test_the_most_that_a_process_is_given(monkeypatch):
    monkeypatch.setenv("MXJAX_KVSTORE_MOST_BYTES", "100")
    wire.check_amount([(np.dtype("f4"), (10,))], stored=60)
    with pytest.raises(mx.MXNetError, match="40 bytes, with 61 already stored, exceed the limit of MXJAX_"):
        wire.check_amount([(np.dtype("f4"), (10,))], stored=61)
    monkeypatch.setenv("MXJAX_KVSTORE_MOST_BYTES", "much")
    with pytest.raises(mx.MXNetError, match="MXJAX_KVSTORE_MOST_BYTES='much'"):
        wire.most_bytes()


class _Member:
    """A worker as the scheduler sees it."""

    def __init__(self, scheduler, rank=None, version="1"):
        self.channel = handshake.connect(("127.0.0.1", scheduler.port), SECRET, "scheduler", 5, "scheduler")
        self.channel.sock.settimeout(10)
        self.says({"op": "hello", "role": "worker", "rank": rank, "host": "h", "pid": 1, "port": 2, "version": version})

    def says(self, header):
        wire.send(self.channel, header)

    def hears(self):
        message = wire.receive(self.channel)
        return None if message is None else message[0]


@pytest.fixture
def scheduler():
    made = Scheduler(2, secret=SECRET, heartbeat_timeout=1.0)
    yield made
    made.close()


def test_a_server_that_seems_to_be_on_another_machine():
    """Two addresses: arrays are sealed too, in both directions."""
    try:
        server = ParameterServer(SECRET, ["127.0.0.2"])
    except mx.MXNetError:
        pytest.skip("one loopback address here")
    worker = ServerConnection(("127.0.0.2", server.port), 0, SECRET, 5)
    assert channel_of(worker).seals_arrays == (channel_of(worker).sock.getsockname()[0] != "127.0.0.2")
    for shape in ((), (0, 3), (7,), (300, 1000)):
        value = np.asarray(np.random.RandomState(0).rand(*shape), "f")
        worker.ask("init", [value], key="w", stype="default")
        _, (got,) = worker.ask("pull", key="w")
        np.testing.assert_array_equal(got, value)
    with pytest.raises(mx.MXNetError, match=r"expected one array of shape \(300, 1000\)"):
        worker.ask("push", [np.zeros((500, 1000), "f")], key="w", form="dense", seen=0)
    worker.ask("sync")  # in step, after what was not wanted
    channel_of(worker).close()
    server.close()


def test_ranks_are_given_and_wishes_respected(scheduler):
    second, first = _Member(scheduler, 1), _Member(scheduler)
    assert [first.hears()["rank"], second.hears()["rank"]] == [0, 1]
    third = _Member(scheduler)
    assert "this job already has its 2 workers" in third.hears()["reason"]
    with pytest.raises(mx.MXNetError, match="another secret"):
        handshake.connect(("127.0.0.1", scheduler.port), b"a guess", "scheduler", 5, "scheduler")
    with pytest.raises(mx.MXNetError, match="another secret"):  # a scheduler is no parameter server
        handshake.connect(("127.0.0.1", scheduler.port), SECRET, "server", 5, "server")
    with pytest.raises(mx.MXNetError, match="requires the secret of its job"):
        Scheduler(2, secret=b"")


def test_other_versions_are_refused(scheduler):
    first = _Member(scheduler, 0, "mxjax 1 with jax 2")
    while ("worker", 0) not in scheduler.members:
        time.sleep(0.01)
    reason = _Member(scheduler, 1, "mxjax 1 with jax 3").hears()["reason"]
    assert "worker 1 on h runs mxjax 1 with jax 3, but worker 0 on h runs mxjax 1 with jax 2" in reason
    first.channel.close()


def test_who_dies_or_falls_silent_is_reported(scheduler):
    first, second = _Member(scheduler, 0), _Member(scheduler, 1)
    assert first.hears()["op"] == second.hears()["op"] == "welcome"
    stop = threading.Event()

    def beat():
        while not stop.wait(0.2):
            first.says({"op": "ping"})
    thread = threading.Thread(target=beat)
    thread.start()
    try:
        heard = first.hears()  # the second is there, but says nothing
        assert (heard["op"], heard["rank"]) == ("lost", 1) and "sent no heartbeat for 1 s" in heard["reason"]
    finally:
        stop.set()
        thread.join()
    assert second.hears()["op"] == "lost" and second.hears() is None  # nor does its thread stay
    assert [scheduler.turn("worker", rank) for rank in (0, 1, 2)] == [1, 0, -1]  # still here, gone, never seen
    first.says({"op": "bye"})
    first.channel.sock.close()
    scheduler.done.wait(5)
    assert scheduler.done.is_set()


def test_the_launcher_blames_the_cause(scheduler):
    """Which process it sees ended first is chance on a busy machine."""
    members = _Member(scheduler, 0), _Member(scheduler, 1)
    assert all(member.hears()["op"] == "welcome" for member in members)
    members[1].channel.sock.close()
    assert members[0].hears()["op"] == "lost"
    members[0].channel.sock.close()
    scheduler.done.wait(5)
    effect = SimpleNamespace(role="worker", rank=0, ended=1.0, code=1)
    cause = SimpleNamespace(role="worker", rank=1, ended=1.1, code=-9)
    assert launch.first_failure([effect, cause], scheduler) == 128 + 9
    assert launch.first_failure([], scheduler) == 0


def test_who_never_comes_ends_the_wait():
    scheduler = Scheduler(2, secret=SECRET, join_timeout=0.5)
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
    scheduler = Scheduler(2, secret=SECRET)
    heard = {0: [], 1: []}

    class Member:
        role, leaving = "worker", False

        def __init__(self, rank):
            self.rank = rank

        def tell(self, message):
            heard[self.rank].append(b"".join(message))
            if self.rank == 0 and len(heard[0]) == 1:  # it leaves as soon as it has been told

                def leave():
                    scheduler.tell_all({"op": "leaving"})
                leaver.append(threading.Thread(target=leave))
                leaver[0].start()
                leaver[0].join(0.2)
    leaver = []
    scheduler.members = {("worker", rank): Member(rank) for rank in range(2)}
    scheduler.parts = {rank: ("step", [np.ones(1)]) for rank in range(2)}
    try:
        scheduler.settle()
        leaver[0].join()
    finally:
        scheduler.close()
    assert [b"gathered" in message for message in heard[1]] == [True, False]
