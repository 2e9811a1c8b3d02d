"""Strangers at the ports of a job, and members that talk nonsense; meanwhile a worker goes on working."""

import hmac
import json
import os
import random
import re
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import mxjax as mx
from mxjax import optimizer as opt
from mxjax.kvstore import cluster, handshake, wire
from mxjax.kvstore.dist_async import ServerConnection
from tests.internals import channel_of  # not relative: a script below imports this file by itself

SECRET = "the secret of the job under attack"
GUESS = "what a stranger thinks it may be"
MOST = 64 << 20  # bytes that the server may be given

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="processes are watched through /proc")


# ---------------------------------------------------------------- what is attacked
def _environment(**env):
    own = {k: v for k, v in os.environ.items() if not k.startswith(("DMLC_", "MXJAX_", "SLURM_", "OMPI_", "PMI_"))}
    root = str(Path(mx.__file__).parents[1])
    return own | {"PYTHONPATH": os.pathsep.join([root, own.get("PYTHONPATH", "")]), "JAX_PLATFORMS": "cpu", **env}


def _status(pid, field):
    """A number from /proc/PID/status: kilobytes, or threads."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return int(re.search(rf"^{field}:\s+(\d+)", file.read(), re.MULTILINE)[1])


def _listens(pid):
    """The addresses on which a process listens."""
    own = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            own.add(os.readlink(f"/proc/{pid}/fd/{name}"))
        except OSError:
            pass  # closed meanwhile
    found = set()
    for family, table in ((socket.AF_INET, "tcp"), (socket.AF_INET6, "tcp6")):
        with open(f"/proc/net/{table}", encoding="utf-8") as file:
            for words in map(str.split, list(file)[1:]):
                if words[3] == "0A" and f"socket:[{words[9]}]" in own:
                    raw = bytes.fromhex(words[1].partition(":")[0])
                    raw = b"".join(raw[i:i + 4][::-1] for i in range(0, len(raw), 4))
                    found.add(socket.inet_ntop(family, raw))
    return found


class _Job:
    """A scheduler and a parameter server in processes of their own, and this process as their worker."""

    def __init__(self):
        self.ports = {"scheduler": wire.free_port()}
        env = _environment(DMLC_PS_ROOT_URI="127.0.0.1", DMLC_PS_ROOT_PORT=str(self.ports["scheduler"]),
                           DMLC_NUM_WORKER="1", DMLC_NUM_SERVER="1", MXJAX_CLUSTER_TOKEN=SECRET,
                           MXJAX_KVSTORE_MOST_BYTES=str(MOST), MXJAX_HEARTBEAT_TIMEOUT="600")
        self.processes = {
            role: subprocess.Popen([sys.executable, "-m", "mxjax.kvstore_server"], env=dict(env, DMLC_ROLE=role),
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            for role in ("scheduler", "server")}
        self.channel = handshake.connect(("127.0.0.1", self.ports["scheduler"]), SECRET.encode(), "scheduler", 60, "it")
        wire.send(self.channel, {"op": "hello", "role": "worker", "rank": 0, "host": "127.0.0.1", "pid": os.getpid(),
                                 "port": 0, "version": cluster.versions()})
        self.channel.sock.settimeout(60)
        welcome = wire.receive(self.channel)[0]
        self.ports["server"] = next(m["port"] for m in welcome["members"] if m["role"] == "server")
        self.server = ServerConnection(("127.0.0.1", self.ports["server"]), 0, SECRET.encode(), 10)
        channel_of(self.server).sock.settimeout(20)
        self.value = np.zeros((100, 10), "f")
        self.server.ask("init", [self.value], key=0, stype="default")
        states = opt.get_updater(opt.create("test")).get_states(dump_optimizer=True)
        self.server.ask("optimizer", [np.frombuffer(states, np.uint8)])
        for _ in range(4):
            self.work()  # what is to be compiled is, and XLA has its threads
        self.before = {role: (_status(p.pid, "VmHWM"), _status(p.pid, "Threads"))
                       for role, p in self.processes.items()}

    def work(self):
        """A step of the worker: a push, a pull and a barrier; AssertionError where anything is not as it should be."""
        self.value += 1
        self.server.ask("push", [np.ones_like(self.value)], answer=False, key=0, form="dense", seen=0)
        _, (got,) = self.server.ask("pull", key=0)
        assert (got == self.value).all(), f"the value is {got.ravel()[:3]}, should be {self.value.ravel()[:3]}"
        wire.send(self.channel, {"op": "gather", "name": "barrier"}, [self.value[0]])
        header, (back,) = wire.receive(self.channel)
        assert header["op"] == "gathered" and (back == self.value[0]).all()

    def check(self, tally, threads=4):
        """Counts whether the job is as well as it was: processes, values, memory, threads."""
        try:
            self.work()
            tally.count("ok")
        except (AssertionError, mx.MXNetError, OSError, TypeError) as error:
            tally.count("hang" if isinstance(error, TimeoutError) else "differs", repr(error))
        for role, process in self.processes.items():
            if process.poll() is not None:
                tally.count("crash", f"{role}: {process.communicate()[0][-500:]}")
                continue
            peak, count = self.before[role]
            grown = _status(process.pid, "VmHWM") - peak
            if grown > 40 << 10:
                tally.count("differs", f"{role}: memory has grown by {grown} kB")
            end = time.monotonic() + 8
            while _status(process.pid, "Threads") > count + threads and time.monotonic() < end:
                time.sleep(0.05)  # connections that were closed a moment ago
            if _status(process.pid, "Threads") > count + threads:
                tally.count("differs", f"{role}: {_status(process.pid, 'Threads')} threads, {count} before")

    def close(self):
        wire.send(self.channel, {"op": "bye"})
        self.channel.close()
        outputs = {role: process.communicate(timeout=30)[0] for role, process in self.processes.items()}
        assert [p.returncode for p in self.processes.values()] == [0, 0], outputs
        assert not re.search("Traceback|Exception in thread", "".join(outputs.values())), outputs


@pytest.fixture(scope="module")
def job():
    made = _Job()
    yield made
    made.close()


def _outcome(sock, patience=8.0):
    """How a connection ends that should be ended by the other side: "refused", or "hang"; all it says is read."""
    sock.settimeout(patience)
    said = b""
    try:
        while piece := sock.recv(1 << 16):
            said += piece
            assert len(said) < 1 << 20
    except TimeoutError:
        return "hang", said
    except OSError:
        pass
    return "refused", said


# ---------------------------------------------------------------- strangers
def _call(port):
    """A connection, and the greeting it got."""
    sock = socket.create_connection(("127.0.0.1", port), timeout=10)
    return sock, handshake.exactly(sock, 36)


def _claim(greeting, key, purpose, own=None):
    said = own or b"MXJM" + random.randbytes(32)
    return said + hmac.digest(key, f"mxjax 2: caller of {purpose}\n".encode() + greeting + said, "sha256")


def _strangers(role, port, rng):
    """Names, and functions that make a connection each and say something on it."""

    def says(what):
        def go():
            sock, greeting = _call(port)
            said = what(greeting) if callable(what) else what
            try:
                sock.sendall(said)
            except OSError:
                pass  # it has hung up already, and well so
            return sock
        return go
    old = json.dumps({"op": "hello", "role": "worker", "rank": 0, "token": "wrong", "arrays": [["uint8", [4 << 30]]]})
    yield "four gigabytes", says(struct.pack("<4sIQ", b"MXJ1", len(old), 4 << 30) + old.encode())
    yield "four gigabytes, new magic", says(struct.pack("<4sIQ", b"MXJ2", len(old), 4 << 30) + old.encode())
    yield "http", says(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    yield "tls", says(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + rng.randbytes(500))
    yield "nothing", says(b"")
    yield "deep json", says(b"MXJ2" + b"[" * 100_000)
    yield "much", says(rng.randbytes(1 << 20))
    yield "much, with the right beginning", says(b"MXJ2" + rng.randbytes(1 << 20))
    yield "a pickle", says(b"cos\nsystem\n(S'echo'\ntR.")
    yield "a guess", says(lambda greeting: _claim(greeting, GUESS.encode(), role))
    yield "no secret", says(lambda greeting: _claim(greeting, b"", role))
    yield "another handshake's proof", says(lambda greeting: _claim(greeting, SECRET.encode(), "devices"))
    yield "the greeting back", says(lambda greeting: greeting + greeting[4:])
    yield "the greeting as own number", says(lambda greeting: _claim(greeting, GUESS.encode(), role, greeting))
    sock, greeting = _call(port)
    heard = _claim(greeting, SECRET.encode(), role)  # as somebody in between would have heard it
    sock.close()
    yield "a proof heard before", says(heard)
    flips = rng.randrange(1, 256)  # not a random byte: of 256 one is the right one
    yield "a changed proof", says(lambda greeting: (proof := _claim(greeting, SECRET.encode(), role))[:-1] +
                                  bytes([proof[-1] ^ flips]))
    yield "a proof for another number", says(lambda greeting: _claim(b"MXJ2" + bytes(32), SECRET.encode(), role))
    yield "garbage", says(rng.randbytes(rng.randrange(1, 200)))
    yield "garbage, with the right beginning", says(b"MXJM" + rng.randbytes(rng.randrange(1, 200)))
    length = rng.randrange(1, 68)
    yield f"{length} bytes of a proof", says(lambda greeting: _claim(greeting, GUESS.encode(), role)[:length])


def test_strangers(job, tally, effort):
    """Whatever they say, they are sent away within the time of a handshake, and nothing is told or kept."""
    rng, waiting = random.Random(7), []
    for _ in range(effort(2, 10)):
        for role, port in job.ports.items():
            waiting += [(name, go()) for name, go in _strangers(role, port, rng)]
        job.check(tally)
    for name, sock in waiting:  # who says too little is waited for, but all at once
        with sock:
            outcome, said = _outcome(sock)
            if said and said != b"MXJN" + bytes(32):
                tally.count("differs", f"{name}: was told {said[:50]!r}")
            else:
                tally.count(outcome, name)
    job.check(tally)


def test_idle_and_slow_connections(job, tally, effort):
    """They get no threads, keep no worker out, and are ended, also those that say something all the time."""
    count = effort(120, 400)
    idle = [socket.create_connection(("127.0.0.1", port), timeout=20) for port in job.ports.values()
            for _ in range(count)]
    for role, port in job.ports.items():
        threads, before = _status(job.processes[role].pid, "Threads"), job.before[role][1]
        tally.count("ok" if threads <= before + 2 else "differs", f"{role}: {threads} threads, {before} before")
        begun = time.monotonic()
        handshake.connect(("127.0.0.1", port), SECRET.encode(), role, 15, role).close()
        tally.count("ok" if time.monotonic() - begun < 10 else "hang", f"{role}: a worker was kept out")
    slow = [_call(port)[0] for port in job.ports.values() for _ in range(effort(4, 40))]
    job.check(tally)
    begun, ended = time.monotonic(), set()
    for sock in slow:
        sock.setblocking(False)
    for byte in b"MXJ2" + random.Random(3).randbytes(60):
        for sock in set(slow) - ended:
            try:
                sock.send(bytes([byte]))
                if not sock.recv(100):
                    ended.add(sock)
            except BlockingIOError:
                pass
            except OSError:
                ended.add(sock)
        if len(ended) == len(slow):
            break
        time.sleep(0.15)
    for sock in slow:
        tally.count("refused" if sock in ended else "hang", f"a slow one after {time.monotonic() - begun:.1f} s")
        sock.close()
    for sock in idle:
        with sock:
            tally.count(_outcome(sock, 12)[0], "an idle connection")
    job.check(tally)


# ---------------------------------------------------------------- members
def _head(header, length=0, magic=b"MXJ2", announced=None):
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<4sIQ", magic, len(raw) if announced is None else announced, length) + raw


def _request(**header):
    return {"answer": True, "arrays": [], **header}


def _nonsense():
    """Heads of messages, sealed as they should be, that make no sense to anybody."""
    yield "deep lists", _head(b"[" * 60_000)
    yield "deep objects", _head(b'{"a":' * 12_000)
    yield "deep, and whole", _head(b'{"op":' + b"[" * 30_000 + b"]" * 30_000 + b',"arrays":[]}')
    yield "no json", _head(b"\xff\xfe\x00")
    yield "nothing", _head(b"")
    yield "a list", _head([1, 2])
    yield "a number", _head(b"1" * 5000)
    yield "no arrays", _head({"op": "sync", "answer": True})
    yield "a header of a gigabyte", _head(b"{}", announced=1 << 30)
    yield "a header of four gigabytes", _head(b"{}", announced=0xFFFFFFFF)
    yield "another magic", _head(_request(op="sync"), magic=b"MXJ1")
    for arrays in (7, "x", [7], [["float32"]], [["float32", 3]], [["float32", [-1]]], [["float32", ["3"]]],
                   [["float32", [1.5]]], [["float32", [None]]], [["object", [1]]], [["V8", [1]]], [["S99999999", [1]]],
                   [["nothing", [1]]], [[["float32"], [1]]], [["float32", [1 << 40, 1 << 40]]],
                   [["float32", [int("9" * 400)]]], [["float32", [1] * 1000]], [["float32", [0, 1 << 47, 1 << 47]]]):
        yield f"arrays {str(arrays)[:40]}", _head(_request(op="push", key=0, form="dense", seen=0, arrays=arrays), 4)
    push = _request(op="push", key=0, form="dense", seen=0, arrays=[["float32", [1000]]])
    yield "other lengths", _head(push, 1 << 40)


def _enter(job, role):
    channel = handshake.connect(("127.0.0.1", job.ports[role]), SECRET.encode(), role, 15, role)
    channel.sock.settimeout(10)
    return channel


@pytest.mark.parametrize("role", ["scheduler", "server"])
def test_members_that_send_no_messages(job, role, tally, effort):
    """They have the secret; still nothing but their own connection ends."""
    for _ in range(effort(1, 6)):
        for name, head in _nonsense():
            channel = _enter(job, role)
            channel.send([head])
            tally.count(_outcome(channel.sock)[0], name)
            channel.close()
        for what in ("seal", "half", "half an array"):  # a wrong seal; ends in mid-message
            channel = _enter(job, role)
            head = _head(_request(op="push", key=0, form="dense", seen=0, arrays=[["float32", [100, 10]]]), 4000)
            if what == "seal":
                channel.sock.sendall(head + bytes(32))
            elif what == "half":
                channel.sock.sendall(head[:50])
                channel.sock.shutdown(socket.SHUT_WR)
            else:
                channel.send([head, bytes(2000)])
                channel.sock.shutdown(socket.SHUT_WR)
            tally.count(_outcome(channel.sock)[0], what)
            channel.close()
    job.check(tally)


def _bad_requests():
    """(what the error says, header, arrays): requests in good form that a server must refuse."""
    small, wide = np.zeros(3, "f"), np.zeros((100, 11), "f")
    push = {"op": "push", "key": 0, "form": "dense", "seen": 0}
    yield "unknown request '__init__'", {"op": "__init__"}, []
    yield "unknown request '_do_pull'", {"op": "_do_pull"}, []
    yield "unknown request 'None'", {}, []
    yield "unknown request", {"op": ["pull"]}, []
    yield "field 'key' is 'None' of type NoneType", {"op": "pull"}, []
    yield "field 'key'", {"op": "pull", "key": [1]}, []
    yield "field 'key'", {"op": "pull", "key": {"a": 1}}, []
    yield "has not been initialized", {"op": "pull", "key": "none"}, []
    yield "unexpected arrays", {"op": "pull", "key": 0}, [small]
    yield "field 'stype'", {"op": "init", "key": 5}, [small]
    yield "unknown storage type", {"op": "init", "key": 5, "stype": "strange"}, [small]
    yield "unexpected arrays", {"op": "init", "key": 5, "stype": "default"}, []
    yield "expected one array of shape", push, [small]
    yield "expected one array of shape", push, [wide]
    yield "expected one array of shape", push, []
    yield "unknown form 'odd'", push | {"form": "odd"}, [small]
    yield "field 'seen'", push | {"seen": "now"}, [wide]
    yield "gradient compression has not been set", push | {"form": "packed"}, [np.zeros(250, np.uint8)]
    yield "unexpected arrays", push | {"form": "rows"}, [small]
    yield "unexpected arrays", push | {"form": "rows"}, [np.zeros((2, 10), "f"), np.zeros(3, np.int64)]
    yield "unexpected arrays", push | {"form": "rows"}, [np.zeros((2, 10), "f"), np.zeros(2, "f")]
    yield "rows 5 to 100 are out of range", push | {"form": "rows"}, [np.zeros((2, 10), "f"), np.array([5, 100])]
    yield "rows -1 to 5 are out of range", {"op": "rows", "key": 0}, [np.array([5, -1])]
    yield "unexpected arrays", {"op": "rows", "key": 0}, [np.zeros(101, np.int64)]
    yield "", {"op": "optimizer"}, [np.frombuffer(b"cos\nsystem\n(S'touch /tmp/no'\ntR.", np.uint8)]
    yield "", {"op": "states", "dump_optimizer": False}, [np.frombuffer(b"\x80\x04garbage", np.uint8)]
    yield "field 'params'", {"op": "compression", "params": "2bit"}, []
    yield "unknown type", {"op": "compression", "params": {"type": "3bit"}}, []
    yield "field 'head'", {"op": "command", "head": "x", "body": "y"}, []
    yield "", {"op": "command", "head": 5, "body": "{"}, []
    yield "", {"op": "command", "head": 5, "body": "[" * 30_000}, []
    yield "", {"op": "command", "head": 5, "body": '{"function": "exec"}'}, []


def test_requests_that_cannot_be_met(job, tally, effort):
    """Each is answered with an error that says what is wrong, and the connection goes on."""
    for turn in range(effort(2, 8)):
        channel = _enter(job, "server")
        for message, header, arrays in _bad_requests():
            if turn % 2:  # no answer is asked for: the error comes with the next request
                wire.send(channel, {"answer": False, **header}, arrays)
                wire.send(channel, _request(op="sync"))
            else:
                wire.send(channel, {"answer": True, **header}, arrays)
            try:
                error = wire.receive(channel)[0]["error"]
                tally.count("refused" if error and message in error else "differs", f"{header}: {error!r}")
            except (OSError, TypeError) as problem:
                tally.count("hang" if isinstance(problem, TimeoutError) else "crash", f"{header}: {problem!r}")
                channel = _enter(job, "server")
        channel.close()
    assert not os.path.exists("/tmp/no")
    job.check(tally)


def test_large_arrays_are_refused_before_there_is_memory_for_them(job, tally, effort):
    """Announced and not sent, or sent and forgotten; beside what a server is there to keep."""
    for _ in range(effort(1, 5)):
        for name, header, spec in (
                ("init", {"op": "init", "key": 6, "stype": "default"}, ["float32", [MOST]]),
                ("init", {"op": "init", "key": 6, "stype": "default"}, ["float64", [1 << 40]]),
                ("push", {"op": "push", "key": 0, "form": "dense", "seen": 0}, ["float32", [1 << 30]]),
                ("packed", {"op": "push", "key": 0, "form": "packed", "seen": 0}, ["uint8", [1 << 30]]),
                ("optimizer", {"op": "optimizer"}, ["uint8", [4 << 30]]),
                ("sync", {"op": "sync"}, ["uint8", [4 << 30]])):
            channel = _enter(job, "server")
            length = int(np.prod(spec[1])) * np.dtype(spec[0]).itemsize
            channel.send([_head(_request(arrays=[spec], **header), length)])
            channel.sock.sendall(bytes(1 << 16))
            channel.sock.settimeout(0.2)
            try:
                tally.count("differs", f"{name}: {channel.sock.recv(100)!r}")  # it waits for what was announced
            except TimeoutError:
                tally.count("refused")
            channel.close()
        channel = _enter(job, "server")
        wire.send(channel, _request(op="init", key=6, stype="default"), [np.zeros(MOST // 4, "f")])
        error = wire.receive(channel)[0]["error"]
        tally.count("refused" if "exceed the limit of MXJAX_KVSTORE_MOST_BYTES" in error else "differs", error)
        channel.close()
        channel = _enter(job, "scheduler")
        channel.send([_head({"op": "hello", "arrays": [["uint8", [4 << 30]]]}, 4 << 30)])
        channel.sock.sendall(bytes(1 << 16))
        channel.sock.shutdown(socket.SHUT_WR)
        tally.count(_outcome(channel.sock)[0], "a long hello")
        channel.close()
    job.check(tally)


def test_what_is_no_hello(job, tally, effort):
    """A scheduler that has all its members; whoever comes more is told no, or is sent away."""
    good = {"op": "hello", "role": "worker", "rank": 0, "host": "h", "pid": 1, "port": 2,
            "version": cluster.versions()}
    for _ in range(effort(1, 6)):
        for change in ({"op": "ping"}, {"op": None}, {"role": "king"}, {"role": ["worker"]}, {"rank": "0"},
                       {"rank": -1}, {"rank": 10**30}, {"rank": 0.5}, {"host": 7}, {"host": "h" * 5000}, {"pid": None},
                       {"port": "x"}, {"version": 1}, {"version": "another"}, {}, {"rank": None}):
            channel = _enter(job, "scheduler")
            wire.send(channel, good | change)
            tally.count(_outcome(channel.sock)[0], str(change)[:50])
            channel.close()
    job.check(tally)


# ---------------------------------------------------------------- who may listen, who may know
def test_local_jobs_listen_on_loopback(job, tally):
    for role, process in job.processes.items():
        found = _listens(process.pid)
        tally.count("ok" if found and found <= {"127.0.0.1", "::1"} else "differs", f"{role} listens on {found}")


_SCRIPT = """
import os, sys
sys.path.insert(0, {here!r})
import mxnet as mx
from test_ports import _listens
for kind in ("dist_sync", "dist_async"):
    store = mx.kv.create(kind)
    store.init(0, mx.nd.zeros((2,)))
    store._barrier()
secret = os.environ["MXJAX_CLUSTER_TOKEN"].encode()
seen = 0
for pid in filter(str.isdecimal, os.listdir("/proc")):
    try:
        with open(f"/proc/{{pid}}/cmdline", "rb") as file:
            seen += secret in file.read()
    except OSError:
        pass
if os.stat(f"/proc/{{os.getpid()}}/environ").st_mode & 0o077:
    seen += 1
print("found", sorted(_listens(os.getpid()) | _listens(os.getppid())), seen, flush=True)
store._barrier()
"""


@pytest.mark.slow
def test_a_whole_job(tally, tmp_path):
    """Scheduler, JAX's coordination service, both kinds of stores: all on loopback, and the secret on no command line.

    XLA's own collectives (gloo) listen where the machine's name leads; nothing of ours chooses that.
    """
    script = tmp_path / "script.py"
    script.write_text(_SCRIPT.format(here=str(Path(__file__).parent)))
    done = subprocess.run([sys.executable, "-m", "mxjax", "launch", "-n", "2", str(script)], env=_environment(),
                          timeout=120, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    found = re.findall(r"\[\d\] found \[(.*)\] (\d+)", done.stdout)
    assert done.returncode == 0 and len(found) == 2, done.stdout
    gloos = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None)}
    for addresses, seen in found:
        strange = set(re.findall(r"'(.+?)'", addresses)) - {"127.0.0.1", "::1"} - gloos
        tally.count("differs" if strange or not addresses else "ok", addresses)
        tally.count("differs" if int(seen) else "ok", "the secret can be seen")


def test_no_job_without_a_secret(tally, tmp_path):
    """Over several machines; and none from a file that others can read."""
    (tmp_path / "open").write_text(SECRET)
    (tmp_path / "open").chmod(0o644)
    cases = (({}, "needs a secret that only its processes know"),
             ({"MXJAX_CLUSTER_TOKEN_FILE": str(tmp_path / "open")}, "users other than its owner can access it"),
             ({"MXJAX_CLUSTER_TOKEN": "short"}, "a secret must have 16 to"))
    started = [subprocess.Popen(
        [sys.executable, "-m", "mxjax.kvstore_server"], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env=_environment(DMLC_ROLE="scheduler", DMLC_PS_ROOT_URI="192.0.2.1", DMLC_PS_ROOT_PORT="9",
                         DMLC_NUM_WORKER="1", XDG_CONFIG_HOME=str(tmp_path), **extra)) for extra, _ in cases]
    for popen, (_, message) in zip(started, cases, strict=True):
        output = popen.communicate(timeout=100)[0]
        right = popen.returncode == 1 and message in output and "Traceback" not in output
        tally.count("refused" if right else "differs", output)
    with pytest.raises(mx.MXNetError, match="requires the secret"):
        handshake.AuthenticatedListener(["127.0.0.1"], 0, b"", "server", lambda channel: None, 1)
