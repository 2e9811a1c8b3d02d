"""Writes the corpus that fuzzing starts from: small files by the library's own writers. `python seeds.py` renews it."""

import gzip
import io
import os
import pickle
import struct
import tarfile
import tempfile
import zipfile

import numpy as np

import mxjax as mx
from mxjax import recordio
from mxjax._support import images

CORPUS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus")
_R = np.random.RandomState(0)


def _bytes(write):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x")
        write(path)
        with open(path, "rb") as file:
            return file.read()


def _picture(height=6, width=5):
    return _R.randint(0, 256, (height, width, 3)).astype(np.uint8)


def _params():
    w = mx.nd.array(_R.rand(2, 3))
    yield _bytes(lambda p: mx.nd.save(p, {"arg:fc_weight": w, "aux:mean": mx.nd.ones(2, dtype="float16")}))
    yield _bytes(lambda p: mx.nd.save(p, [w, mx.nd.array([1, 2], dtype="int64")]))
    yield _bytes(lambda p: mx.nd.save(p, {"c": mx.nd.array([[1, 0, 2], [0, 0, 3]]).tostype("csr"),
                                          "r": mx.nd.array([[0, 0], [1, 2], [3, 4]]).tostype("row_sparse")}))
    with mx.util.np_shape():
        yield _bytes(lambda p: mx.nd.save(p, [mx.nd.zeros(())]))


def _net():
    net = mx.gluon.nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(mx.gluon.nn.Dense(2, in_units=3), mx.gluon.nn.Dense(1, in_units=2))
    net.initialize()
    return net


def _states():
    for name, options in [("sgd", {"momentum": 0.9}), ("adam", {"lr_scheduler": mx.lr_scheduler.FactorScheduler(3)}),
                          ("adam", {"lr_scheduler": mx.lr_scheduler.MultiFactorScheduler([3, 4])})]:
        update = mx.optimizer.get_updater(mx.optimizer.create(name, **options))
        for key in (0, "b"):
            update(key, mx.nd.ones((2, 3)), mx.nd.ones((2, 3)))
        yield update.get_states()
        update.optimizer.table = np.arange(3.0)
        yield update.get_states(dump_optimizer=True)
    for protocol in (0, 2, 4):
        yield pickle.dumps({0: None, 1: [1, 2.5, np.float32(1)], "a": (None, np.int64(3))}, protocol)


def _symbols():
    x = mx.sym.var("data")
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.BatchNorm(x, name="bn"), num_hidden=3, name="fc"))
    yield net.tojson().encode()
    yield mx.sym.Concat(*mx.sym.split(x, num_outputs=3), dim=1).tojson().encode()
    yield mx.sym.contrib.foreach(lambda d, s: (d + s, s * 2), x, mx.sym.var("s"))[0].tojson().encode()
    yield mx.sym.RNN(x, mx.sym.var("p"), mx.sym.var("h"), mx.sym.var("c"), state_size=2, num_layers=1,
                     mode="lstm").tojson().encode()


def _onnx():
    x = mx.sym.var("data")
    net = mx.sym.Flatten(mx.sym.Pooling(mx.sym.Activation(mx.sym.Convolution(
        x, kernel=(3, 3), num_filter=2, name="c"), act_type="relu"), kernel=(2, 2), pool_type="max"))
    args = {"c_weight": mx.nd.array(_R.rand(2, 1, 3, 3)), "c_bias": mx.nd.zeros(2)}
    yield _bytes(lambda p: mx.contrib.onnx.export_model(net, args, [(1, 1, 6, 6)], np.float32, p))
    y = mx.sym.transpose(mx.sym.reshape(x, shape=(2, -1))) + 1
    yield _bytes(lambda p: mx.contrib.onnx.export_model(y, {}, [(2, 4)], np.float32, p))


def _npys():
    for array in (np.arange(6, dtype="float32").reshape(2, 3), np.asfortranarray(np.ones((2, 2))), np.int64(3)):
        file = io.BytesIO()
        np.save(file, array)
        yield file.getvalue()


def _npzs():
    for save in (np.savez, np.savez_compressed):
        file = io.BytesIO()
        save(file, a=np.arange(6.0), b=np.ones((2, 2), "int32"))
        yield file.getvalue()


def _images():
    for kind in (".png", ".jpg", ".bmp", ".webp", ".tiff"):
        yield images.cv2().imencode(kind, _picture())[1].tobytes()


def _records():
    def write(path):
        with recordio.MXRecordIO(path, "w") as file:
            for i, label in enumerate([1.0, np.array([1, 2, 3], "float32")]):
                file.write(recordio.pack_img((0, label, i, 0), _picture(), img_fmt=".png"))
            file.write(b"\x0a\x23\xd7\xce" * 2)
    yield _bytes(write)


def _archives():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/b.txt", b"text" * 20)
    yield file.getvalue()
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        entry = tarfile.TarInfo("a/c.txt")
        entry.size = 80
        archive.addfile(entry, io.BytesIO(b"text" * 20))
    yield file.getvalue()


def _block_names():
    net = _net()
    with tempfile.TemporaryDirectory() as folder:
        net.save(os.path.join(folder, "n"))
        with open(os.path.join(folder, "n-model.json"), "rb") as file:
            yield file.read()


_IDX = b"\0\0\x08\x03" + struct.pack(">3I", 2, 2, 3) + bytes(range(12))
SEEDS = {
    "params": _params, "npz": _npzs, "npz_entry": _npys, "states": _states, "symbol": _symbols, "onnx": _onnx,
    "block_names": _block_names, "records": _records, "image": _images, "archive": _archives,
    "handle": lambda: [bytes(mx.nd.array([[1, 2], [3, 4]]).__getstate__()["handle"])],
    "safetensors": lambda: [_bytes(lambda p: mx.nd.save(p + ".safetensors", {
        "a": mx.nd.ones((2, 3)), "b": mx.nd.ones(2, dtype="bfloat16")}) or os.rename(p + ".safetensors", p))],
    "block_params": lambda: [_bytes(_net().save_parameters), _bytes(_net().collect_params().save)],
    "index": lambda: [b"0\t0\n1\t16\n2\t32\n"], "csv": lambda: [b"1,2,3\n4,5,6\n"],
    "detection_label": lambda: [np.array([2, 5, 0, .1, .2, .5, .6, 1, .3, .3, .9, .8], "<f4").tobytes()],
    "libsvm": lambda: [b"1 0:1.5 3:2\n0 2:1 # comment\n"], "mnist": lambda: [_IDX],
    "lists": lambda: [b"0\t1.0\ta.jpg\n1\t2\tb c.jpg\n"], "mnist_gz": lambda: [gzip.compress(_IDX)],
    "mnist_gz_content": lambda: [_IDX], "cifar": lambda: [bytes(3073 * 2)],
    "embedding": lambda: [b"2 3\nhello 1 2 3\nworld 4 5 6.5\n", "zwölf 1 2\n".encode()],
}
# readers of the same format begin from the same files
SAME = {"buffer": "params", "checkpoint_params": "params", "trainer_states": "states", "symbol_block": "symbol",
        "image_records": "records"}


def corpus(reader):
    """The files that fuzzing of a reader starts from."""
    home = os.path.join(CORPUS, SAME.get(reader, reader))
    found = []
    for name in sorted(os.listdir(home)):
        with open(os.path.join(home, name), "rb") as file:
            found.append(file.read())
    return found


if __name__ == "__main__":
    for reader, make in SEEDS.items():
        os.makedirs(os.path.join(CORPUS, reader), exist_ok=True)
        for number, raw in enumerate(make()):
            with open(os.path.join(CORPUS, reader, f"seed{number}"), "wb") as file:
                file.write(raw)
