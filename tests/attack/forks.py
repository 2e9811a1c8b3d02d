"""Forks: ways of touching the library before one, and ways of computing after it.

`python forks.py FOLDER BEFORE AFTER...` forks a child for each AFTER, and prints a line of JSON for each: name,
outcome, note. The parent computes the same when all children are gone; its results are the right ones.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings

import numpy as np

import mxjax as mx

DEADLINE = 60.0  # seconds for what takes one or two, also where other tests are at work
KEEP = []  # what the parent has made stays
PICTURES = np.random.RandomState(0).rand(4, 1, 8, 8).astype("float32")


# ------------------------------------------------------------------ files that another process has made
def make_files(folder: str) -> None:
    """A network with parameters, arrays and trainer states."""
    data = mx.sym.var("data")
    out = mx.sym.Pooling(mx.sym.Activation(mx.sym.Convolution(data, kernel=(3, 3), num_filter=2, name="conv"), "relu"),
                         kernel=(2, 2), stride=(2, 2), pool_type="max")
    out = mx.sym.FullyConnected(mx.sym.Flatten(out), num_hidden=3, name="dense")
    shapes = dict(zip(out.list_arguments(), out.infer_shape(data=(1, 1, 8, 8))[0], strict=True))
    draw = np.random.RandomState(1)
    values = {name: mx.nd.array(draw.rand(*shape) - 0.5) for name, shape in shapes.items() if name != "data"}
    mx.model.save_checkpoint(os.path.join(folder, "net"), 0, out, values, {})
    mx.nd.save(os.path.join(folder, "arrays"), {"a": mx.nd.arange(6).reshape((2, 3))})


def at(name: str) -> str:
    """The path of one of these files."""
    return os.path.join(sys.argv[1], name)


def network() -> mx.gluon.nn.HybridSequential:
    """A small network, always with the same weights."""
    mx.random.seed(3)
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Conv2D(2, 3, activation="relu"), mx.gluon.nn.BatchNorm(), mx.gluon.nn.MaxPool2D(2),
            mx.gluon.nn.Dense(3))
    net.initialize(mx.init.Xavier())
    return net


def trained(hybridize: bool, whole: bool = False):
    """The loss of each of two steps."""
    net, losses = network(), []
    if hybridize:
        net.hybridize()
    trainer = mx.gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.1})
    loss, labels = mx.gluon.loss.SoftmaxCrossEntropyLoss(), mx.nd.array([0, 1, 2, 0])
    pictures = mx.nd.array(PICTURES)
    step = mx.gluon.TrainStep(net, loss, trainer) if whole else None
    for _ in range(2):
        if whole:
            value = step(pictures, labels)
        else:
            with mx.autograd.record():
                value = loss(net(pictures), labels)
            value.backward()
            trainer.step(4)
        losses.append(value.mean())
    return [value.asnumpy() for value in losses]


def imported() -> mx.gluon.SymbolBlock:
    """A network from files."""
    return mx.gluon.SymbolBlock.imports(at("net-symbol.json"), ["data"], at("net-0000.params"))


def module() -> mx.mod.Module:
    """A module from files, which nothing is bound to yet."""
    made = mx.mod.Module(mx.sym.load(at("net-symbol.json")), label_names=None)
    made.bind([("data", (4, 1, 8, 8))], for_training=False)
    _, arguments, states = mx.model.load_checkpoint(at("net"), 0)
    made.set_params(arguments, states)
    return made


def bound() -> mx.executor.Executor:
    """An executor that has not run."""
    x = mx.sym.var("x")
    made = mx.sym.dot(x, x).simple_bind(mx.cpu(), x=(3, 3))
    made.arg_dict["x"][:] = mx.nd.arange(9).reshape((3, 3))
    return made


def loaded(**how):
    """The sum of each batch of a data loader."""
    data = mx.gluon.data.ArrayDataset(np.arange(12, dtype="float32").reshape(6, 2))
    return [batch.sum().asnumpy() for batch in mx.gluon.data.DataLoader(data, 2, **how)]


def pushed():
    """What a job of the engine has left."""
    engine, got = mx.engine.get(), []
    var = engine.new_variable("got")
    engine.push(lambda _: got.append(7), (), (var,))
    engine.wait_for_var(var)
    return [np.array(got)]


def summed():
    """What a store gives back."""
    store, out = mx.kv.create("local"), mx.nd.zeros((2, 2))
    store.init("w", mx.nd.ones((2, 2)))
    store.push("w", [mx.nd.ones((2, 2)), mx.nd.ones((2, 2)) * 2])
    store.pull("w", out=out)
    return [out.asnumpy()]


def profiled():
    """Calls with the profiler on, which rewrites its file from a thread of its own."""
    mx.profiler.set_config(filename=os.path.join(tempfile.mkdtemp(), "profile.json"), profile_all=True,
                           continuous_dump=True, dump_period=0.05)
    mx.profiler.set_state("run")
    return [(mx.nd.ones((5, 5)) * 3).asnumpy()]


def drawn():
    """Random numbers of both kinds."""
    mx.random.seed(11)
    return [mx.nd.random.uniform(shape=(3,)).asnumpy(), mx.np.random.normal(size=(3,)).asnumpy(),
            mx.nd.random.shuffle(mx.nd.arange(5)).asnumpy(), mx.nd.Dropout(mx.nd.ones((4,)), mode="always").asnumpy()]


def saved():
    """What a file that has been written gives back."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a")
        mx.nd.save(path, {"a": mx.nd.arange(4), "csr": mx.nd.ones((2, 2)).tostype("csr")})
        net = network()
        net(mx.nd.array(PICTURES))
        net.save_parameters(path + "-net")
        net.load_parameters(path + "-net")
        return [value.asnumpy() for _, value in sorted(mx.nd.load(path).items())]


def sparse():
    """A sparse product."""
    return [mx.nd.dot(mx.nd.array([[0, 2.], [1, 0]]).tostype("csr"), mx.nd.ones((2, 3))).asnumpy()]


def differentiated():
    """Gradients of arrays."""
    x = mx.nd.array([[1., 2], [3, 4]])
    x.attach_grad()
    with mx.autograd.record():
        y = (mx.nd.dot(x, x) * mx.nd.exp(x / 4)).sum()
    y.backward()
    return [x.grad.asnumpy()]


def called(jax: bool = False):
    """A function of JAX's own, which a child of the parent's threads is refused."""
    import jax.numpy as jnp
    return [np.asarray(jnp.arange(3.0) + 1)]


class Scale(mx.operator.CustomOp):
    """An operator of one's own."""

    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], in_data[0] * 3)


@mx.operator.register("scale_of_forks")
class ScaleProp(mx.operator.CustomOpProp):
    """The properties of `Scale`."""

    def create_operator(self, ctx, shapes, dtypes):
        return Scale()


def bulked():
    """Calls that wait to become one program."""
    before = mx.engine.set_bulk_size(100)
    out = mx.nd.ones((3, 3))
    for _ in range(5):
        out = out * 2 - 0.5
    mx.engine.set_bulk_size(before)
    return [out.asnumpy()]


def iterated():
    """Batches of an iterator that another thread prepares."""
    plain = mx.io.NDArrayIter(np.arange(12, dtype="float32").reshape(6, 2), batch_size=2)
    return [batch.data[0].asnumpy() for batch in mx.io.PrefetchingIter(plain)]


def in_another_thread():
    """What another thread computes."""
    got = []
    thread = threading.Thread(target=lambda: got.append((mx.nd.ones((3, 2)) * 4).sum().asnumpy()))
    thread.start()
    thread.join()
    return got


def in_grandchild():
    """A child of a child computes the same."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.write(writer, (mx.nd.arange(3) * 2).asnumpy().tobytes())
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    with open(reader, "rb") as file:
        found = np.frombuffer(file.read(), "float32")
    assert os.waitpid(child, 0)[1] == 0
    return [found]


def looked_up():
    """What is known of devices, memory and features."""
    return [np.array([mx.context.num_gpus(), mx.runtime.Features().is_enabled("CPU_SSE"), mx.cpu().device_id])]


def predicted():
    """A saved network, for inference only."""
    made = mx.predictor.Predictor(open(at("net-symbol.json")).read(), at("net-0000.params"), {"data": (4, 1, 8, 8)})
    made.forward(data=PICTURES)
    return [made.get_output(0)]


def ran(executor):
    """An executor's result and gradient."""
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones((3, 3)))
    return [executor.outputs[0].asnumpy(), executor.grad_arrays[0].asnumpy()]


def answered(made):
    """A module's answer."""
    made.forward(mx.io.DataBatch([mx.nd.array(PICTURES)]), is_train=False)
    return [made.get_outputs()[0].asnumpy()]


def hybridized(net):
    """The same network, as one program."""
    net.hybridize()
    return net


AFTER = {
    "array": lambda: [mx.nd.array([[1, 2.5]]).asnumpy(), mx.nd.zeros((2,)).asnumpy(), mx.nd.arange(5).asnumpy()],
    "large array": lambda: [mx.nd.array(np.arange(300_000)).asnumpy()[-3:], mx.nd.ones((600, 600)).sum().asnumpy()],
    "add": lambda: [(mx.nd.array([1, 2]) + 3).asnumpy(), (mx.nd.ones((2, 3)) / mx.nd.arange(1, 4)).asnumpy()],
    "products": lambda: [mx.nd.dot(mx.nd.ones((300, 300)), mx.nd.ones((300, 300))).asnumpy()[:2]],
    "wide": lambda: [(mx.nd.array([2**40], dtype="int64") + 1).asnumpy(), mx.nd.ones(3, dtype="float64").asnumpy()],
    "numpy": lambda: [mx.np.linalg.inv(mx.np.array([[2., 1], [1, 3]])).asnumpy(),
                      mx.np.unique(mx.np.array([3, 1, 3])).asnumpy(), (mx.np.ones(3) > 0).asnumpy()],
    "forward": lambda: [network()(mx.nd.array(PICTURES)).asnumpy()],
    "hybridized": lambda: [hybridized(network())(mx.nd.array(PICTURES)).asnumpy()],
    "from files": lambda: [imported()(mx.nd.array(PICTURES)).asnumpy()],
    "from files, hybridized": lambda: [hybridized(imported())(mx.nd.array(PICTURES)).asnumpy()],
    "module": lambda: answered(module()),
    "predictor": predicted,
    "executor": lambda: ran(bound()),
    "backward": differentiated,
    "training": lambda: trained(False),
    "hybridized training": lambda: trained(True),
    "whole steps": lambda: trained(True, True),
    "load": lambda: [mx.nd.load(at("arrays"))["a"].asnumpy()],
    "save": saved,
    "draw": drawn,
    "loader": loaded,
    "loader's processes": lambda: loaded(num_workers=1),
    "loader's threads": lambda: loaded(num_workers=1, thread_pool=True),
    "iterator": iterated,
    "engine": pushed,
    "store": summed,
    "profiler": profiled,
    "sparse": sparse,
    "own operator": lambda: [mx.nd.Custom(mx.nd.arange(3), op_type="scale_of_forks").asnumpy()],
    "bulk": bulked,
    "jax": called,
    "thread": in_another_thread,
    "grandchild": in_grandchild,
    "devices": looked_up,
    "wait": lambda: [np.array(mx.nd.waitall() is None)],
    "exit": list,
}


def _keeps(make, use=None):
    """A way of touching the library that leaves an object, which the child uses as well."""
    def before():
        made = make()
        KEEP.append(made)
        return use and (lambda: use(made))
    return before


def _does(work):
    def before():
        KEEP.append(work())
    return before


def _recorded():
    """What has been recorded, and is walked back in the child."""
    x = mx.nd.array([[1., 2], [3, 4]])
    x.attach_grad()
    with mx.autograd.record():
        y = (x * x).sum()

    def use():
        y.backward(retain_graph=True)
        return [x.grad.asnumpy()]
    KEEP.append((x, y))
    return use


def _in_bulk():
    mx.engine.set_bulk_size(100)
    waiting = mx.nd.ones((3,)) * 2 + 1
    return lambda: [waiting.asnumpy()]


def _at_work():
    """Another thread goes on computing."""
    def work():
        while True:
            (mx.nd.ones((4, 4)) * 2).asnumpy()
    threading.Thread(target=work, daemon=True).start()
    time.sleep(0.5)


def _importing():
    """Another thread loads a module of the library, which takes a while."""
    import mxjax as slow
    loading = threading.Event()

    class Finder:
        def find_spec(self, name, path=None, target=None):
            if name == "mxjax.gluon.contrib" and threading.current_thread() is not threading.main_thread():
                loading.set()
                time.sleep(1)
            return None
    sys.meta_path.insert(0, Finder())
    threading.Thread(target=lambda: slow.gluon.contrib, daemon=True).start()
    loading.wait()
    return lambda: [np.array(hasattr(mx.gluon.contrib, "nn"))]


def _job_at_work():
    """A job of the engine that has not ended."""
    engine = mx.engine.get()
    var = engine.new_variable("slow")
    engine.push(lambda _: time.sleep(0.5), (), (var,))


def _in_an_epoch(**how):
    """A loader's workers in the midst of an epoch."""
    def before():
        data = mx.gluon.data.ArrayDataset(np.arange(12, dtype="float32").reshape(6, 2))
        batches = iter(mx.gluon.data.DataLoader(data, 2, **how))
        KEEP.append(next(batches))
        return lambda: [next(batches).asnumpy()]
    return before


def _ahead():
    plain = mx.io.NDArrayIter(np.arange(12, dtype="float32").reshape(6, 2), batch_size=2)
    batches = mx.io.PrefetchingIter(plain)
    KEEP.append(batches.next())
    return lambda: [batches.next().data[0].asnumpy()]


def _records():
    """An iterator over pictures, whose threads read ahead."""
    path = os.path.join(tempfile.mkdtemp(), "a.rec")
    writer = mx.recordio.MXRecordIO(path, "w")
    for i in range(6):
        picture = np.full((8, 8, 3), 9 * i, np.uint8)
        writer.write(mx.recordio.pack_img(mx.recordio.IRHeader(0, i, i, 0), picture, quality=3,
                                          img_fmt=".png"))
    writer.close()
    batches = mx.io.ImageRecordIter(path_imgrec=path, data_shape=(3, 8, 8), batch_size=2, preprocess_threads=2)
    KEEP.append(batches.next())
    return lambda: [batches.next().data[0].asnumpy()]


def _written_again():
    """A profiler's thread that is writing a long file."""
    mx.profiler.set_config(filename=os.path.join(tempfile.mkdtemp(), "profile.json"), profile_all=True,
                           continuous_dump=True, dump_period=0.001)
    mx.profiler.set_state("run")
    counter = mx.profiler.Counter(None, "many")
    for i in range(50_000):
        counter.set_value(i)

    def use():
        mx.profiler.set_state("stop")
        mx.profiler.dump()
        return []
    return use


def _forward(make):
    def use(net):
        mx.random.seed(4)  # weights are drawn at the first call, where shapes are not known before
        return [net(mx.nd.array(PICTURES)).asnumpy()]
    return _keeps(make, use)


def _called_once(net):
    net(mx.nd.array(PICTURES)).wait_to_read()
    return net


def _set_np():
    mx.npx.set_np()
    mx.npx.reset_np()


BEFORE = {
    "import": lambda: None,
    "names": lambda: [getattr(mx, name) for name in dir(mx)] and None,
    "devices": _does(looked_up),
    "device": _does(lambda: mx.cpu().jax_device),
    "memory": _does(lambda: mx.cpu().empty_cache()),
    "switches": _set_np,
    "seed": lambda: mx.random.seed(5),
    "symbol": _keeps(lambda: mx.sym.load(at("net-symbol.json")),
                     lambda s: [np.array(s.infer_shape(data=(4, 1, 8, 8))[1][0])]),
    "array": _keeps(lambda: mx.nd.array([[1, 2.]]), lambda a: [(a * 2).asnumpy()]),
    "large array": _keeps(lambda: mx.nd.array(PICTURES.repeat(999)), lambda a: [a.sum().asnumpy()]),
    "zeros": _keeps(lambda: mx.nd.zeros((2, 2)), lambda a: [(a + 2).asnumpy()]),
    "numpy array": _keeps(lambda: mx.np.array([1, 2]), lambda a: [(a + 2).asnumpy()]),
    "sparse array": _keeps(lambda: mx.nd.sparse.csr_matrix(([1., 2], [0, 1], [0, 1, 2]), shape=(2, 2)),
                           lambda a: [a.asnumpy(), mx.nd.dot(a, mx.nd.ones((2, 1))).asnumpy()]),
    "load": _keeps(lambda: mx.nd.load(at("arrays"))["a"], lambda a: [(a * 2).asnumpy()]),
    "checkpoint": _keeps(lambda: mx.model.load_checkpoint(at("net"), 0),
                         lambda made: [sum(v.sum().asscalar() for v in made[1].values())]),
    "from files": _forward(imported),
    "from files, hybridized": _forward(lambda: hybridized(imported())),
    "module": _keeps(module, answered),
    "predictor": _does(lambda: mx.predictor.Predictor(open(at("net-symbol.json")).read(), at("net-0000.params"),
                                                      {"data": (4, 1, 8, 8)})),
    "executor": _keeps(bound, ran),
    "block": _forward(network),
    "hybridized block": _forward(lambda: hybridized(network())),
    "computed": _does(AFTER["add"]),
    "forward": _forward(lambda: _called_once(network())),
    "hybridized forward": _forward(lambda: _called_once(hybridized(network()))),
    "backward": _does(differentiated),
    "recording": _recorded,
    "training": _does(AFTER["training"]),
    "hybridized training": _does(AFTER["hybridized training"]),
    "whole steps": _does(AFTER["whole steps"]),
    "save": _does(saved),
    "draw": _does(drawn),
    "loader": _does(loaded),
    "loader's processes": _does(AFTER["loader's processes"]),
    "loader's threads": _does(AFTER["loader's threads"]),
    "loader in an epoch": _in_an_epoch(),
    "loader's processes in an epoch": _in_an_epoch(num_workers=1),
    "loader's threads in an epoch": _in_an_epoch(num_workers=1, thread_pool=True),
    "iterator in an epoch": _ahead,
    "pictures in an epoch": _records,
    "iterator": _does(iterated),
    "engine": _does(pushed),
    "engine at work": _job_at_work,
    "store": _does(summed),
    "profiler": _does(profiled),
    "profiler at work": _written_again,
    "own operator": _does(AFTER["own operator"]),
    "bulk": _in_bulk,
    "jax": _does(called),
    "jax as function": _does(lambda: mx.interop.block_to_jax(network(), mx.nd.array(PICTURES))),
    "thread": _does(in_another_thread),
    "thread at work": _at_work,
    "import at work": _importing,
    "everything": lambda: [KEEP.append(AFTER[name]()) for name in AFTER if name not in ("grandchild", "profiler")] and
    None,
}


# ------------------------------------------------------------------ forks
class Child:
    """A forked child that computes something and exits as a script does."""

    def __init__(self, work) -> None:
        reader, writer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(reader)
            told = {}
            try:
                told = {"values": [np.asarray(value).tolist() for value in work()]}
            except mx.MXNetError as error:
                told = {"refused": str(error)}
            except BaseException:
                told = {"failed": traceback.format_exc()[-900:]}
            os.write(writer, json.dumps(told).encode())
            os.close(writer)
            sys.exit(7)
        os.close(writer)
        self._reader = reader

    def result(self) -> tuple[str, object]:
        """("ok", values), ("refused", message), or what must not be, with a note."""
        end, told = time.monotonic() + DEADLINE, b""
        os.set_blocking(self._reader, False)
        while True:
            with contextlib.suppress(BlockingIOError):
                while part := os.read(self._reader, 1 << 16):
                    told += part
            gone, status = os.waitpid(self.pid, os.WNOHANG)
            if gone or time.monotonic() > end:
                break
            time.sleep(0.005)
        if not gone:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            os.close(self._reader)
            return "hang", "at its exit" if told else "while it computed"
        with contextlib.suppress(BlockingIOError):
            while part := os.read(self._reader, 1 << 16):
                told += part
        os.close(self._reader)
        if os.waitstatus_to_exitcode(status) != 7:
            return "crash", f"status {os.waitstatus_to_exitcode(status)}"
        found = json.loads(told)
        if "failed" in found:
            return "differs", found["failed"]
        return ("refused", found["refused"]) if "refused" in found else ("ok", found["values"])


def main(before: str, *after: str) -> None:
    """Forks a child for each way of computing, one after the other."""
    warnings.filterwarnings("ignore")
    use = BEFORE[before]()
    works = {"the parent's": use} if use is not None else {}  # at once: other threads may be at work
    works.update({name: AFTER[name] for name in after})
    found = {name: Child(work).result() for name, work in works.items()}
    for name, (outcome, told) in found.items():
        note = str(told)
        if outcome == "ok":
            note = ""
            try:
                for got, expected in zip(told, works[name](), strict=True):
                    np.testing.assert_allclose(got, expected, 2e-4, 2e-5)
            except Exception as error:
                outcome, note = "differs", f"{type(error).__name__}: {str(error)[:600]}"
        elif outcome == "refused" and "was forked" not in note:
            outcome = "differs"
        print(json.dumps([name, outcome, note]), flush=True)
    os._exit(0)  # daemon threads are at work


if __name__ == "__main__":
    if sys.argv[2] == "make files":
        make_files(sys.argv[1])
    else:
        main(*sys.argv[2:])
