"""Everything that the library saves, in two versions each; as a program, it attacks those who save.

`python savers.py FOLDER ATTACK AMOUNT` prints a line of JSON for each kind of file: name, outcomes, notes. The writers
are forked from a process that has all arrays: saving only reads them, and a fork takes a moment where a start takes
seconds.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import io
import json
import mmap
import os
import random
import resource
import signal
import sys
import time
import types
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

import mxjax as mx
from mxjax import gluon, profiler
from mxjax._support import files as _files
from mxjax.gluon.utils import download
from mxjax.kvstore.dist_async import DistAsyncKVStore
from mxjax.module import Module
from mxjax.tools import convert, im2rec

LEFT = ".mxjax-tmp"
NEW_MOUNTS, PRIVATE = 0x20000, 0x44000  # CLONE_NEWNS; MS_REC | MS_PRIVATE
DEADLINE = 20.0  # seconds for what takes milliseconds


class Kind:
    """What is saved: `save(version)` writes the files `names` in the folder; `load()` raises where they are damaged."""

    def __init__(self, folder: Path, names: list[str], save: Callable[[int], object], load: Callable[[], object],
                 version: Callable[[bytes], int] | None = None) -> None:
        self.folder, self.names, self.load, self._save = folder, names, load, save
        self.good: list[dict[str, bytes]] = []
        self._version = version
        for number in (0, 1):
            self.save(number)
            self.load()
            self.good.append({name: (folder / name).read_bytes() for name in names})
        assert version or all(self.good[0][name] != self.good[1][name] for name in names)

    def save(self, version: int) -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            self._save(version)

    def versions(self) -> list[int]:
        """Which version each file is; ValueError: it is neither."""
        return [self._which(name, (self.folder / name).read_bytes()) for name in self.names]

    def _which(self, name: str, content: bytes) -> int:
        if self._version is not None:
            return self._version(content)
        for number in (0, 1):
            if content == self.good[number][name]:
                return number
        raise ValueError(f"{name}: {len(content)} bytes, of {len(self.good[0][name])} or {len(self.good[1][name])}")

    def others(self) -> set[str]:
        return set(os.listdir(self.folder)) - set(self.names)

    def clear(self) -> None:
        for name in self.others():
            os.unlink(self.folder / name)


# ------------------------------------------------------------------ what is saved
def _arrays(version: int) -> dict[str, mx.nd.NDArray]:
    dense = mx.nd.array(np.full((200, 100), version + 1))
    return {"dense": dense, "csr": dense[:20].tostype("csr"), "rows": dense[20:40].tostype("row_sparse")}


def _symbol(version: int) -> mx.sym.Symbol:
    out = mx.sym.var("data")
    for i in range(30):
        out = mx.sym.FullyConnected(out, num_hidden=20, no_bias=True, name=f"layer{i}", attr={"version": str(version)})
    return out


def _network(version: int) -> tuple[gluon.nn.HybridSequential, gluon.Trainer]:
    net = gluon.nn.HybridSequential(prefix=f"net{version}_")
    with net.name_scope():
        net.add(gluon.nn.Dense(100, in_units=150), gluon.nn.Dense(10, in_units=100))
    net.initialize()
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9},
                            update_on_kvstore=False)
    with mx.autograd.record():
        loss = net(mx.nd.ones((2, 150))).sum() * (version + 1)
    loss.backward()
    trainer.step(2)
    return net, trainer


def _store(version: int) -> mx.kv.KVStore:
    store = mx.kv.create("local")
    store.set_optimizer(mx.optimizer.SGD(learning_rate=0.1 * (version + 1), momentum=0.9))
    store.init("weight", mx.nd.ones((100, 50)))
    store.push("weight", mx.nd.full((100, 50), version + 1))
    return store


def _module(version: int) -> Module:
    out = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=40, name="layer", attr={"version": str(version)})
    module = Module(mx.sym.LinearRegressionOutput(out, mx.sym.var("label")), label_names=["label"])
    module.bind([("data", (4, 100))], [("label", (4, 40))])
    module.init_params(mx.init.Uniform())
    module.init_optimizer(optimizer_params={"learning_rate": 0.1, "momentum": 0.9})
    module.forward_backward(mx.io.DataBatch([mx.nd.ones((4, 100))], [mx.nd.full((4, 40), version)]))
    module.update()
    return module


def _profiled(path: str, version: int) -> None:
    profiler.set_config(filename=path, profile_all=True)
    profiler.set_state("run")
    counter = profiler.Counter(None, "version")
    for _ in range(100):
        counter.set_value(version)
    profiler.dump()


def _profiled_version(content: bytes) -> int:
    """The last one: what could not be written before is written with it."""
    return int([event["args"]["version"] for event in json.loads(content)["traceEvents"]
                if event["ph"] == "C" and "version" in event["args"]][-1])


def kinds(folder: Path) -> dict[str, Kind]:
    """All kinds, each in a folder of its own."""
    def at(kind: str) -> Path:
        (folder / kind).mkdir()
        return folder / kind

    folder.mkdir(parents=True, exist_ok=True)
    versions = (0, 1)
    arrays, symbols = ([make(v) for v in versions] for make in (_arrays, _symbol))
    networks, stores, modules = ([make(v) for v in (0, 1, 2)] for make in (_network, _store, _module))  # 2 loads
    for module in modules:
        module.get_params()
    blobs = [[np.full(3000 + v, i, np.uint8) for i in versions] for v in versions]
    dense = [{"dense": a["dense"]} for a in arrays]
    sources = [folder / f"source{v}" for v in versions]
    for v, source in enumerate(sources):
        source.write_bytes(bytes([v]) * 100_000)
    items = [[im2rec.Item(i, f"{v}/{i}.jpg", (float(v),)) for i in range(500)] for v in versions]
    servers = [types.SimpleNamespace(_servers=[
        types.SimpleNamespace(ask=lambda *_, blob=blob, **__: ({}, [blob])) for blob in each]) for each in blobs]

    made = {}

    def add(name: str, files: list[str], save: Callable[[str, int], object], load: Callable[[str], object],
            version: Callable[[bytes], int] | None = None) -> None:
        base = at(name)
        made[name] = Kind(base, files, lambda v: save(str(base / "x"), v), lambda: load(str(base / "x")), version)

    def read(path: str) -> bytes:
        return Path(path).read_bytes()

    add("params", ["x"], lambda p, v: mx.nd.save(p, arrays[v]), mx.nd.load)
    add("npz", ["x"], lambda p, v: convert.npz(types.SimpleNamespace(params=dense[v]), p), mx.nd.load)
    add("symbol", ["x"], lambda p, v: symbols[v].save(p), mx.sym.load)
    add("checkpoint", ["x-symbol.json", "x-0001.params"],
        lambda p, v: mx.model.save_checkpoint(p, 1, symbols[v], dense[v], {}), lambda p: mx.model.load_checkpoint(p, 1))
    add("module", ["x-symbol.json", "x-0001.states", "x-0001.params"],
        lambda p, v: modules[v].save_checkpoint(p, 1, True),
        lambda p: (Module.load(p, 1, label_names=["label"]), modules[2].load_optimizer_states(p + "-0001.states")))
    add("parameters", ["x"], lambda p, v: networks[v][0].save_parameters(p), networks[2][0].load_parameters)
    add("export", ["x-symbol.json", "x-0000.params"], lambda p, v: networks[v][0].export(p),
        lambda p: mx.model.load_checkpoint(p, 0))
    add("block", ["x-model.json", "x-model.params"], lambda p, v: networks[v][0].save(p),
        lambda p: (json.loads(read(p + "-model.json")), networks[2][0].load_parameters(p + "-model.params")))
    add("trainer", ["x"], lambda p, v: networks[v][1].save_states(p), networks[2][1].load_states)
    add("kvstore", ["x"], lambda p, v: stores[v].save_optimizer_states(p, dump_optimizer=True),
        stores[2].load_optimizer_states)
    add("servers", ["x", "x.1"], lambda p, v: DistAsyncKVStore.save_optimizer_states(servers[v], p), read)
    add("module states", ["x"], lambda p, v: modules[v].save_optimizer_states(p), modules[2].load_optimizer_states)
    add("profile", ["x"], _profiled, read, _profiled_version)
    add("download", ["x"], lambda p, v: download(sources[v].as_uri(), p, overwrite=True), read)
    add("list", ["x"], lambda p, v: im2rec.write_list(p, items[v]), lambda p: list(im2rec.read_list(p)))
    return made


# ------------------------------------------------------------------ attacks
class Result:
    """Outcomes of one attack on one kind."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.notes: list[str] = []
        self.interrupted = 0  # kills that came while a file was written

    def count(self, outcome: str, note: object = "") -> None:
        self.counts[outcome] += 1
        if outcome not in ("ok", "refused"):
            self.notes.append(f"{outcome}: {note}")


def forked(work: Callable[[], None]) -> int:
    """A child that does some work and exits: 0, or 1 after an error, which it prints."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        work()
        status = 0
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
    finally:
        os._exit(status)


def check(kind: Kind, result: Result, note: object) -> None:
    """Counts whether each file is whole and of one version, and nothing but temporary files lies beside them."""
    try:
        kind.versions()
        kind.load()
        strange = {name for name in kind.others() if not name.endswith(LEFT)}
        result.count("differs" if strange else "ok", f"{note}: {strange}")
    except Exception as error:
        result.count("differs", f"{note}: {type(error).__name__}: {error}")
        kind.save(0)


def kills(kind: Kind, count: float) -> Result:
    """A process that saves both versions in turn is killed at random moments."""
    result, rng = Result(), random.Random(kind.folder.name)
    begin = time.monotonic()
    for v in (0, 1, 0, 1):
        kind.save(v)
    span = (time.monotonic() - begin) / 2
    saved = np.frombuffer(mmap.mmap(-1, 8), np.int64)  # shared with the children
    saved[0] = 0

    def save_on() -> None:
        while True:
            for v in (0, 1):
                kind.save(v)
                saved[0] += 1

    for trial in range(int(count)):
        before = saved[0]
        child = forked(save_on)
        until = time.monotonic() + DEADLINE
        while saved[0] == before and time.monotonic() < until and not os.waitid(
                os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            time.sleep(0.0005)
        time.sleep(rng.uniform(0, span))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            result.count("crash", f"trial {trial}: the writer ended by itself")
        elif saved[0] == before:
            result.count("hang", f"trial {trial}: nothing was saved")
        else:
            result.interrupted += any(name.endswith(LEFT) for name in kind.others())
            check(kind, result, f"trial {trial}")
        kind.clear()
    return result


def two_writers(kind: Kind, seconds: float) -> Result:
    """Two processes save different versions at once, while a third reads."""
    result = Result()

    def save_on(version: int) -> None:
        while True:
            kind.save(version)

    children = [forked(lambda v=v: save_on(v)) for v in (0, 1)]
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            kind.versions()
            result.count("ok")
        except Exception as error:
            result.count("differs", f"two writers: {type(error).__name__}: {error}")
        time.sleep(0.001)
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    check(kind, result, "after two writers")
    kind.clear()
    return result


def refused(kind: Kind, prepare: Callable[[], None], words: str) -> Result:
    """Within limits that `prepare` sets, saving version 1 fails in words, and version 0 stays."""
    result = Result()
    kind.save(0)
    reader, writer = os.pipe()

    def save() -> None:
        os.close(reader)
        told = ""
        try:
            prepare()
            kind.save(1)
            told = "saved in spite of the limit"
        except _NotHere:
            told = "not here"
        except Exception as error:
            told = f"{type(error).__name__}: {error}"
            if words in told and str(kind.folder / "x") in told and isinstance(error, (OSError, mx.MXNetError)):
                told = "refused"
            if set(kind.versions()) != {0} or kind.others():
                told = f"{told}, but left {kind.versions()} and {kind.others()}"
        os.write(writer, told.encode())

    child = forked(save)
    os.close(writer)
    with open(reader, "rb") as answer:
        told = answer.read().decode()
    os.waitpid(child, 0)
    if told != "not here":
        result.count("refused" if told == "refused" else "differs", told or "nothing was told")
        check(kind, result, "under a limit")
    return result


class _NotHere(Exception):
    """This system does not let us make the limit."""


def small_files(kind: Kind, _: float) -> Result:
    """A limit on the size of files, less than the largest of these."""
    def limit() -> None:
        most = max(len(content) for content in kind.good[1].values())
        resource.setrlimit(resource.RLIMIT_FSIZE, (most // 2, resource.RLIM_INFINITY))
    return refused(kind, limit, "File too large")


def full_disk(kind: Kind, _: float) -> Result:
    """A disk of which little is free; it is seen by the child only and goes with it."""
    def mount() -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        size = sum(len(content) // 4096 + 1 for content in kind.good[0].values()) * 4096
        free = max(len(content) for content in kind.good[1].values()) // 8192 * 4096
        if libc.unshare(NEW_MOUNTS) or libc.mount(None, b"/", None, PRIVATE, None) or libc.mount(
                b"tmpfs", bytes(kind.folder), b"tmpfs", 0, b"size=%d" % (2 * size)):
            raise _NotHere
        kind.save(0)
        if libc.mount(b"tmpfs", bytes(kind.folder), b"tmpfs", 32, b"size=%d" % (size + free)):  # MS_REMOUNT
            raise _NotHere
    return refused(kind, mount, "No space left")


class _Interrupt(BaseException):
    """As of Ctrl-C."""


class _System:
    """The system's calls as the writer of files sees them; something happens before the n-th."""

    calls = ("open", "fsync", "replace", "dup", "fchmod")

    def __init__(self, number: int, happens: Callable[[], None]) -> None:
        self.left, self._happens, self.renamed = number, happens, False

    def __getattr__(self, name: str) -> object:
        return self.watched(getattr(os, name)) if name in self.calls else getattr(os, name)

    def watched(self, call: Callable[..., object]) -> Callable[..., object]:
        def watched(*args: object, **kwargs: object) -> object:
            self.left -= 1
            if self.left == 0:
                self._happens()
            self.renamed = self.renamed or call is os.replace
            return call(*args, **kwargs)
        return watched

    def open_file(self, path: object, mode: str, **text: str) -> io.IOBase:
        """As `open`, with writing and closing watched."""
        raw = _Raw(path, "w")
        raw.write, raw.close = self.watched(raw.write), self.watched(raw.close)
        file = io.BufferedWriter(raw)
        return file if "b" in mode else io.TextIOWrapper(file, **text)

    def __enter__(self) -> _System:
        _files.os, _files.open = self, self.open_file
        return self

    def __exit__(self, *_: object) -> None:
        _files.os = os
        del _files.open


class _Raw(io.FileIO):
    """A file whose methods can be replaced."""


def faults(kind: Kind, step: float) -> Result:
    """Each call of the system fails once, is interrupted once, and is the last one once (every `step`-th)."""
    def fail() -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def interrupt() -> None:
        raise _Interrupt

    result = Result()
    for happens in (fail, interrupt):
        number, system = 0, _System(0, happens)
        while system.left <= 0:
            number += 1
            kind.save(0)
            what = f"{happens.__name__} before call {number}"
            with _System(number, happens) as system:
                try:
                    kind.save(1)
                    told = ""
                except (OSError, mx.MXNetError, _Interrupt) as error:
                    told = str(error) or "interrupted"
            found = set(kind.versions())
            if found != {1} if not told else found != {0} and not system.renamed:
                result.count("differs", f"{what}: versions {found}, {told or 'no error'}")
            if kind.others():
                result.count("differs", f"{what}: left {kind.others()}")
            if happens is fail and told and str(kind.folder) not in told:
                result.count("differs", f"{what}: the error does not name the file: {told}")
            check(kind, result, what)
            kind.clear()
    for last in range(1, number, int(step)):
        def die(last: int = last) -> None:
            with _System(last, lambda: os._exit(0)):
                kind.save(1)
        kind.save(0)
        os.waitpid(forked(die), 0)
        check(kind, result, f"end before call {last}")
        kind.clear()
    return result


ATTACKS = {"kills": kills, "two writers": two_writers, "small files": small_files, "full disk": full_disk,
           "faults": faults}


def main(folder: str, attack: str, amount: str) -> None:
    """Attacks every kind; a line for each."""
    warnings.filterwarnings("ignore", "os.fork")
    for name, kind in kinds(Path(folder)).items():
        result = ATTACKS[attack](kind, float(amount))
        print(json.dumps([name, result.counts, result.notes, result.interrupted]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
