"""Tests of data sets, samplers and the DataLoader."""

import gc
import importlib
import multiprocessing.pool
import os
import pathlib
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import mxjax as mx
from mxjax.gluon import data
from mxjax.workers import pool
from mxjax.workers.pool import ProcessPool

from ..internals import forgotten, pool_of, workers_of


def batches(loader):
    return [batch.asnumpy().tolist() for batch in loader]


# -------------------------------------------------------------------- samplers and data sets
def test_samplers():
    assert list(data.SequentialSampler(3, 2)) == [2, 3, 4]
    np.random.seed(0)
    drawn = list(data.RandomSampler(10))
    np.random.seed(0)
    expected = np.arange(10)
    np.random.shuffle(expected)
    assert drawn == expected.tolist()
    assert list(data.FilterSampler(lambda x: x > 4, [3, 5, 4, 9])) == [1, 3]


@pytest.mark.parametrize("last,first,second,length", [
    ("keep", [[0, 1], [2, 3], [4]], [[0, 1], [2, 3], [4]], 3),
    ("discard", [[0, 1], [2, 3]], [[0, 1], [2, 3]], 2),
    ("rollover", [[0, 1], [2, 3]], [[4, 0], [1, 2], [3, 4]], 2)])
def test_batch_sampler(last, first, second, length):
    sampler = data.BatchSampler(data.SequentialSampler(5), 2, last)
    assert len(sampler) == length
    assert list(sampler) == first
    assert list(sampler) == second


def test_batch_sampler_refuses_other_words():
    with pytest.raises(ValueError, match="'keep', 'discard', or 'rollover', but got 'all'"):
        list(data.BatchSampler(data.SequentialSampler(5), 2, "all"))


def test_data_sets_from_data_sets():
    numbers = data.SimpleDataset(list(range(9)))
    assert list(numbers.filter(lambda x: x % 2 == 0)) == [0, 2, 4, 6, 8]
    assert [list(numbers.shard(4, i)) for i in range(4)] == [[0, 1, 2], [3, 4], [5, 6], [7, 8]]
    assert list(numbers.take(2)) == [0, 1] and len(numbers.take(None)) == len(numbers.take(99)) == 9
    assert list(numbers.sample(data.SequentialSampler(2, 4))) == [4, 5]
    assert list(numbers.transform(lambda x: x * 10).take(2)) == [0, 10]
    eager = numbers.transform(lambda x: x + 1, lazy=False)
    assert eager[0] == 1 and isinstance(eager, data.SimpleDataset)
    pairs = data.ArrayDataset(mx.nd.arange(3), ["a", "b", "c"])
    assert pairs[1] == (1.0, "b") and pairs.transform_first(lambda x: -x)[2] == (-2.0, "c")


@pytest.mark.parametrize("make,error,words", [
    (lambda: data.ArrayDataset([1], [1, 2]), AssertionError, "number 2 has 2"),
    (lambda: data.ArrayDataset(), AssertionError, "at least one"),
    (lambda: data.SimpleDataset([1]).shard(2, 2), AssertionError, "shard 2 of 2"),
    (lambda: data.SimpleDataset([1]).sample([0]), TypeError, "Sampler, got list"),
    (lambda: data.DataLoader([1]), ValueError, "batch_size must be specified"),
    (lambda: data.DataLoader([1], 1, shuffle=True, sampler=data.SequentialSampler(1)), ValueError, "shuffle must not"),
    (lambda: data.DataLoader([1], 1, batch_sampler=[[0]]), ValueError, "must not be specified if batch_sampler"),
    (lambda: data.DataLoader([1], 1, timeout=0), AssertionError, "timeout must be positive")])
def test_bad_arguments(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_records(tmp_path):
    with mx.recordio.MXIndexedRecordIO(tmp_path / "x.idx", tmp_path / "x.rec", "w") as writer:
        for i in range(3):
            writer.write_idx(i, b"record %d" % i)
    records = data.RecordFileDataset(str(tmp_path / "x.rec"))
    assert len(records) == 3 and records[1] == b"record 1"


# -------------------------------------------------------------------- the DataLoader
def test_batches_keep_dtypes_and_structure():
    samples = [(np.float16(i), mx.nd.array([i, i], dtype="int32"), [1.0, 2.0]) for i in range(3)]
    first, last = data.DataLoader(samples, 2)
    halves, arrays, lists = first
    assert halves.dtype == np.float16 and arrays.dtype == np.int32 and arrays.shape == (2, 2)
    assert lists.asnumpy().tolist() == [[1, 2], [1, 2]] and lists.dtype == np.float64
    assert last[1].shape == (1, 2)


def test_batches_compile_nothing(compiles):
    arrays = [mx.nd.array(np.full((2, 3), i, np.float32)) for i in range(5)]
    compiles.clear()
    assert [batch.shape for batch in data.DataLoader(arrays, 3)] == [(3, 2, 3), (2, 2, 3)]
    assert not compiles


def test_samples_that_form_no_array():
    with pytest.raises(TypeError, match="NoneType cannot be converted to an array.*batchify_fn"):
        next(iter(data.DataLoader([{"a": None}], 1)))
    with pytest.raises(TypeError, match=r"sample 1 of the batch has the keys \['b'\], the first one has \['a'\]"):
        next(iter(data.DataLoader([{"a": 1}, {"b": 1}], 2)))


@pytest.mark.parametrize("options", [{}, {"num_workers": 2, "thread_pool": True}, {"num_workers": 2}])
def test_rounds(options):
    loader = data.DataLoader(data.SimpleDataset(list(range(7))).transform(lambda x: x * 2), 3, **options)
    assert len(loader) == 3
    for _ in range(2):
        assert batches(loader) == [[0, 2, 4], [6, 8, 10], [12]]


def test_pinned_and_reloaded():
    loader = data.DataLoader(range(4), 2, num_workers=1, thread_pool=True, pin_memory=True, auto_reload=True)
    for _ in range(2):
        assert [(batch.context.device_type, batch.asnumpy().tolist()) for batch in loader] == \
            [("cpu_pinned", [0, 1]), ("cpu_pinned", [2, 3])]


class Troubled(data.Dataset):
    """Number 2 makes trouble."""

    def __init__(self, trouble):
        self.trouble = trouble

    def __len__(self):
        return 4

    def __getitem__(self, i):
        if i == 2:
            self.trouble()
        return i


class Bound(Troubled):
    """The same, with what cannot be sent to another process."""

    def __init__(self, trouble=int):
        super().__init__(trouble)
        self.lock, self.squares = threading.Lock(), (i * i for i in range(9))
        self.scale = mx.nd.array([1, 10])

    def __getitem__(self, i):
        with self.lock:
            return super().__getitem__(i) + next(self.squares) * self.scale


def raises():
    raise KeyError("no such sample")


@pytest.mark.parametrize("threads", [True, False])
def test_errors_arrive_with_their_traceback(threads):
    loader = data.DataLoader(Troubled(raises), 1, num_workers=2, thread_pool=threads)
    seen = []
    with pytest.raises(KeyError, match="no such sample") as caught:
        seen.extend(batches([batch]) for batch in loader)
    assert len(seen) == 2
    if not threads:
        assert "in __getitem__" in str(caught.value.__cause__)


def test_rounds_that_are_broken_off_leave_nothing():
    """Batches that were loaded ahead, and nobody takes any more, are no longer kept: each takes a file descriptor."""
    loader = data.DataLoader(list(range(40)), 4, num_workers=2)
    for _ in range(15):
        assert next(iter(loader)).asnumpy().tolist() == [0, 1, 2, 3]
    pool = pool_of(loader)
    assert list(map(len, loader)) == [4] * 10
    kept, dropped = forgotten(pool)
    assert kept == 0 and dropped <= 4


@pytest.mark.parametrize("kind", [Troubled, Bound])
@pytest.mark.parametrize("trouble,words", [
    (lambda: os._exit(7), "exited with status 7 while loading the samples .2."),
    (lambda: os.kill(os.getpid(), 9), "was killed by SIGKILL while loading the samples .2."),
    (lambda: __import__("ctypes").string_at(0), "(?s)was killed by SIGSEGV.*Segmentation fault.*__getitem__")])
def test_dead_workers_are_reported(trouble, words, kind):
    with pytest.raises(mx.MXNetError, match=words):
        batches(data.DataLoader(kind(trouble), 1, num_workers=2))


@pytest.mark.parametrize("threads", [True, False])
def test_timeout(threads):
    begin = time.monotonic()
    with pytest.raises(multiprocessing.TimeoutError, match="within 0.3 seconds"):
        batches(data.DataLoader(Troubled(lambda: time.sleep(12)), 1, num_workers=2, thread_pool=threads, timeout=0.3))
    assert time.monotonic() - begin < 10


def test_what_cannot_be_sent_is_where_workers_are_forked_from(monkeypatch):
    mx.nd.ones(2).wait_to_read()
    loader = data.DataLoader(Bound(), 2, num_workers=1)
    assert batches(loader) == [[[0, 0], [2, 11]], [[6, 42], [12, 93]]]
    pid = workers_of(pool_of(loader))[0].pid
    pool_of(loader).close()
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, 0)  # no zombie either
    with pytest.raises(KeyError, match="no such sample") as caught:
        batches(data.DataLoader(Bound(raises), 1, num_workers=2))
    assert "in raises" in str(caught.value.__cause__)
    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(TypeError, match="cannot be sent to another process.*thread_pool"):
        data.DataLoader(Bound(), 1, num_workers=1)


def test_forked_workers_end_with_this_process(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import os, threading, mxjax as mx\n"
        "mx.nd.ones(2).wait_to_read()\n"
        "class Bound(mx.gluon.data.Dataset):\n"
        "    lock = threading.Lock()\n"
        "    def __init__(self): self.own = self.lock\n"
        "    def __len__(self): return 4\n"
        "    def __getitem__(self, i): return mx.nd.ones(2) * os.getpid()\n"
        "loaders = [mx.gluon.data.DataLoader(Bound(), 1, num_workers=2) for _ in range(2)]\n"
        "print(*{int(x[0, 0].asscalar()) for loader in loaders for x in loader}, flush=True)\n"
        "os.kill(os.getpid(), 9)\n")
    out = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60).stdout
    workers = list(map(int, out.split()))
    assert 2 <= len(workers) <= 4
    end = time.monotonic() + 10
    while any(os.path.exists(f"/proc/{pid}") and "Z" not in open(f"/proc/{pid}/stat").read().split()[2]
              for pid in workers):
        assert time.monotonic() < end
        time.sleep(0.05)


def test_workers_draw_different_and_reproducible_numbers():
    def draw(_):
        return np.random.randint(1 << 30)

    def drawn():
        np.random.seed(5)
        loader = data.DataLoader(data.SimpleDataset([0] * 4).transform(draw), 1, num_workers=1)
        return batches(loader)
    first = drawn()
    assert drawn() == first and len({batch[0] for batch in first}) == 4
    np.random.seed(5)
    state = np.random.get_state()[1].tolist()
    data.DataLoader([0], 1, num_workers=1)
    assert np.random.get_state()[1].tolist() == state


def test_workers_hand_over_arrays_of_all_kinds():
    def batchify(samples):
        return {"half": mx.nd.array(samples, dtype="float16"), "numpy": np.array(samples), "text": "x" * 5000}
    batch, = data.DataLoader([1, 2], 2, batchify_fn=batchify, num_workers=1)
    assert batch["half"].dtype == np.float16 and batch["half"].asnumpy().tolist() == [1, 2]
    batch["numpy"][0] = 5
    assert batch["numpy"].tolist() == [5, 2] and batch["text"] == "x" * 5000


SCRIPT = """
import mxjax as mx
factor = 3
class Numbers(mx.gluon.data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, i):
        return i * factor
loader = mx.gluon.data.DataLoader(Numbers().transform(lambda x: x + 1), 2, num_workers=2)
print([batch.asnumpy().tolist() for batch in loader])
"""


def test_scripts_need_no_main_guard(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    folder = os.path.dirname(os.path.dirname(mx.__file__))
    done = subprocess.run([sys.executable, str(tmp_path / "script.py")], capture_output=True, text=True, timeout=100,
                          env={**os.environ, "PYTHONPATH": folder})
    assert done.stdout == "[[1, 4], [7, 10]]\n" and not done.stderr, done.stderr


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """Three modules: an installed one, one that starts JAX's devices, and one of the user's that imports both."""
    (tmp_path / "site").mkdir()
    note = f"import os\nopen({str(tmp_path)!r} + '/' + __name__, 'a').write(f'{{os.getpid()}} ')\n"
    (tmp_path / "site" / "installed_one.py").write_text(note)
    (tmp_path / "site" / "starts_devices.py").write_text(note + "import mxjax as mx\nONE = mx.nd.ones(1).asnumpy()\n")
    monkeypatch.setattr(pool, "_INSTALLED", (str(tmp_path / "site"),))
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.syspath_prepend(tmp_path)

    def user(name, imported):
        (tmp_path / f"{name}.py").write_text(note + (
            f"import {imported}\nimport mxjax as mx\n"
            "class Squares:\n    def __len__(self): return 4\n"
            "    def __getitem__(self, i): return (mx.nd.array([i]) ** 2).asnumpy()\n"))
        return importlib.import_module(name).Squares()

    def imports(name):
        return {int(pid) for pid in (tmp_path / name).read_text().split()} - {os.getpid()}
    return user, imports


def test_installed_modules_are_imported_once_for_all_workers(packages, monkeypatch):
    user, imports = packages
    monkeypatch.setattr(sys, "path", [*sys.path, pathlib.Path("not_a_string")])
    squares = user("user_of_one", "installed_one")
    for _ in range(2):
        loader = data.DataLoader(squares, 2, num_workers=2)
        assert batches(loader) == [[[0], [1]], [[4], [9]]]
    assert len(imports("installed_one")) == 1  # by the server
    assert len(imports("user_of_one")) == 4  # by each worker, since its file may have changed
    assert pool.installed(["user_of_one", "__main__", "no_such", None]) == ["installed_one"]


def test_threads_that_need_other_modules_create_loaders_at_once(packages, tmp_path):
    user, _ = packages
    for i in range(4):
        (tmp_path / "site" / f"installed_of_thread_{i}.py").write_text("")
    squares = [user(f"user_of_thread_{i}", f"installed_of_thread_{i}") for i in range(4)]
    meet = threading.Barrier(4)

    def load(one):
        meet.wait(20)
        return batches(data.DataLoader(one, 2, num_workers=1))
    with multiprocessing.pool.ThreadPool(4) as threads:
        assert threads.map(load, squares) == [[[[0], [1]], [[4], [9]]]] * 4


def test_modules_that_start_devices_are_imported_by_workers(packages):
    user, imports = packages
    squares = user("user_of_devices", "starts_devices")
    before = data.DataLoader(squares, 2, num_workers=1)
    for loader in (before, data.DataLoader(squares, 2, num_workers=1)):
        assert batches(loader) == [[[0], [1]], [[4], [9]]]
    assert len(imports("starts_devices")) == 3  # by the server, which began anew, and by two workers
    before_pid, = [worker.pid for worker in workers_of(pool_of(before))]
    assert before_pid in imports("starts_devices")
    del before, loader
    gc.collect()
    assert not os.path.exists(f"/proc/{before_pid}")


def test_workers_end_with_their_process(tmp_path):
    code = SCRIPT + "import os; print(*[w.pid for w in loader._worker_pool._workers], flush=True); os._exit(0)"
    folder = os.path.dirname(os.path.dirname(mx.__file__))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100,
                          env={**os.environ, "PYTHONPATH": folder})
    pids = [int(pid) for pid in done.stdout.splitlines()[-1].split()]
    assert len(pids) == 2
    deadline = time.monotonic() + 20
    while any(os.path.exists(f"/proc/{pid}") for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc")
def test_workers_end_with_their_loader():
    loader = data.DataLoader([1, 2], 1, num_workers=2)
    assert batches(loader) == [[1], [2]]
    pids = [worker.pid for worker in workers_of(pool_of(loader))]
    assert all(os.path.exists(f"/proc/{pid}") for pid in pids)
    del loader
    gc.collect()
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for threads in /proc")
def test_workers_begin_with_the_modules_they_need():
    """Otherwise each would import gluon. The process that they are forked from has a single thread."""
    look = eval("lambda samples: ('mxjax.gluon' in sys.modules, len(os.listdir('/proc/self/task')))",
                {"__name__": "__main__", "sys": sys, "os": os})
    pool = ProcessPool(1, [0], look, 1)
    try:
        has_gluon, threads = pool.get(pool.submit([0]), 60)
    finally:
        pool.close()
    assert has_gluon and threads == 1


def test_workers_know_their_own_numbers():
    """The process that starts them answers in the order it was asked, whoever asks, and whoever wants to know first."""
    with multiprocessing.pool.ThreadPool(3) as threads:
        loaders = threads.map(lambda n: data.DataLoader(list(range(n, n + 8)), 4, num_workers=2), range(3))
    workers = [w for loader in loaders for w in workers_of(pool_of(loader))]
    pids = {w: w.pid for w in reversed(workers)}
    assert len(set(pids.values())) == 6
    for n, loader in enumerate(loaders):
        assert [batch.asnumpy().tolist() for batch in loader] == [list(range(k, k + 4)) for k in (n, n + 4)]
    os.kill(pids[workers[0]], 9)
    with pytest.raises(mx.MXNetError, match=f"pid {pids[workers[0]]}.*SIGKILL"):
        for _ in range(3):
            list(loaders[0])
    assert workers[0].pid is None
    with multiprocessing.pool.ThreadPool(3) as threads:  # requests of several threads at once stay apart
        threads.map(lambda loader: pool_of(loader).close(), loaders)
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids.values())


def test_queues_of_arrays():
    function, arguments = data.dataloader.reduce_ndarray(mx.nd.array([[1, 2], [3, 4]]))
    assert function(*arguments).asnumpy().tolist() == [[1, 2], [3, 4]]
    keys, done = data.dataloader.SimpleQueue(), data.dataloader.SimpleQueue()
    keys.put((0, [1, 2]))
    keys.put((None, None))
    data.dataloader.worker_loop_v1([5, 6, 7], keys, done, data.dataloader.default_batchify_fn)
    done.put((None, None))
    found = {}
    data.dataloader.fetcher_loop_v1(done, found)
    assert found[0].asnumpy().tolist() == [6, 7]


def test_threads_of_ones_own_pool_get_numpy_semantics():
    with multiprocessing.pool.ThreadPool(1, data.dataloader._thread_worker_initializer, (True, True)) as pool:
        assert pool.apply(lambda: (mx.util.is_np_shape(), mx.util.is_np_array())) == (True, True)
        batch = pool.apply(data.dataloader._thread_worker_fn,
                           ([2, 0], data.dataloader.default_batchify_fn, [5, 6, 7]))
    assert batch.asnumpy().tolist() == [7, 5]
    assert not mx.util.is_np_shape() and not mx.util.is_np_array()


def test_the_iterator_that_libraries_subclass():
    Plain = data.dataloader._MultiWorkerIter

    class Reversed(Plain):
        def _push_next(self):
            indices = next(self._iter, None)
            if indices is not None:
                self._data_buffer[self._sent_idx] = self._worker_pool.apply_async(
                    self._worker_fn, (indices[::-1], self._batchify_fn))
                self._sent_idx += 1
    data.dataloader._worker_initializer(np.arange(5.0))
    with multiprocessing.pool.ThreadPool(1) as pool:
        for kind, want in ((Reversed, [[1, 0], [3, 2], [4]]), (Plain, [[0, 1], [2, 3], [4]])):
            batches = kind(pool, data.dataloader.default_batchify_fn,
                           data.BatchSampler(data.SequentialSampler(5), 2, "keep"), prefetch=1, pin_memory=True)
            assert len(batches) == 3 and [b.asnumpy().tolist() for b in batches] == want
