"""What reads files, as functions of a file's bytes: each returns, or raises one of the errors in `refusals(name)`."""

import functools
import gzip
import io
import logging
import os
import tempfile
import warnings
import zipfile

import numpy as np

import mxjax as mx
from mxjax import recordio
from mxjax._support import files as _files
from mxjax.contrib import text
from mxjax.gluon.data.vision import datasets
from mxjax.io import image_record
from mxjax.test_utils import _files as test_files
from mxjax.tools import im2rec
from tests.internals import read_mnist

READERS = {}
_OWN = {  # MXNet's types where a file is sound, but not what was asked for
    "embedding": (ValueError, AssertionError), "onnx": (NotImplementedError,),
    "block_params": (AssertionError, ValueError), "block_names": (AssertionError,),
    "checkpoint_params": (ValueError,)}
warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)


def refusals(name):
    """The errors by which a reader may refuse a file."""
    return (mx.MXNetError, *_OWN.get(name, ()))


@functools.cache
def folder():
    """Where the files are; it goes with the process."""
    kept = tempfile.TemporaryDirectory(prefix="fuzz")
    folder.kept = kept
    return kept.name


def _file(name, raw):
    path = os.path.join(folder(), name)
    with open(path, "wb") as file:
        file.write(raw)
    return path


def _reader(function):
    READERS[function.__name__] = function
    return function


# -------------------------------------------------------------------------------------------------------------- arrays
@_reader
def params(raw):
    found = mx.nd.load(_file("x.params", raw))
    for array in found.values() if isinstance(found, dict) else found:
        if array.size < 1 << 20:
            array.asnumpy()


@_reader
def buffer(raw):
    mx.predictor.load_ndarray_file(raw)


@_reader
def handle(raw):
    array = mx.nd.NDArray.__new__(mx.nd.NDArray)
    array.__setstate__({"handle": raw})


@_reader
def npz(raw):
    mx.nd.load(_file("x.npz", raw))


@_reader
def npz_entry(raw):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.npy", raw)
    mx.nd.load(_file("x.npz", file.getvalue()))


@_reader
def safetensors(raw):
    mx.nd.load(_file("x.safetensors", raw))


@_reader
def block_params(raw):
    _net().load_parameters(_file("net.params", raw))


@_reader
def checkpoint_params(raw):
    mx.model.load_params(_file("net-0001.params", raw)[:-len("-0001.params")], 1)


@functools.cache
def _net():
    net = mx.gluon.nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(mx.gluon.nn.Dense(2, in_units=3), mx.gluon.nn.Dense(1, in_units=2))
    net.initialize()
    return net


# -------------------------------------------------------------------------------------------------------------- models
@_reader
def states(raw):
    update = mx.optimizer.get_updater(mx.optimizer.SGD())
    update.set_states(raw)
    update.get_states(dump_optimizer=True)


@_reader
def trainer_states(raw):
    trainer = mx.gluon.Trainer(_net().collect_params(), "adam", kvstore=None)
    trainer.load_states(_file("x.states", raw))


@_reader
def symbol(raw):
    found = mx.sym.load(_file("x-symbol.json", raw))
    found.list_arguments(), found.list_outputs(), found.get_internals().list_outputs(), found.tojson()


@_reader
def symbol_block(raw):
    mx.gluon.SymbolBlock.imports(_file("x-symbol.json", raw), ["data"])


@_reader
def block_names(raw):
    path = _file("net-model.json", raw)
    _net().save_parameters(os.path.join(folder(), "net-model.params"))
    net = mx.gluon.nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(mx.gluon.nn.Dense(2, in_units=3), mx.gluon.nn.Dense(1, in_units=2))
    net.load(path[:-len("-model.json")])


@_reader
def onnx(raw):
    path = _file("x.onnx", raw)
    mx.contrib.onnx.get_model_metadata(path)
    mx.contrib.onnx.import_model(path)


# -------------------------------------------------------------------------------------------------------------- records
@_reader
def records(raw):
    with recordio.MXRecordIO(_file("x.rec", raw), "r") as file:
        while (record := file.read()) is not None:
            recordio.unpack(record)


@_reader
def index(raw):
    with recordio.MXRecordIO(os.path.join(folder(), "i.rec"), "w") as file:
        for i in range(3):
            file.write(b"record %d" % i)
    with recordio.MXIndexedRecordIO(_file("i.idx", raw), os.path.join(folder(), "i.rec"), "r") as file:
        for key in file.keys:
            file.read_idx(key)


@_reader
def image_records(raw):
    iterator = mx.io.ImageRecordIter(path_imgrec=_file("y.rec", raw), data_shape=(3, 8, 8), batch_size=2, verbose=False,
                                     preprocess_threads=1)
    for batch in iterator:
        batch.data[0].wait_to_read()


@_reader
def detection_label(raw):
    iterator = mx.image.ImageDetIter.__new__(mx.image.ImageDetIter)
    iterator._parse_label(np.frombuffer(raw[:len(raw) // 4 * 4], "<f4"))


@_reader
def image(raw):
    mx.image.imdecode(raw)
    mx.image.imdecode(raw, flag=0)


# ------------------------------------------------------------------------------------------------------------ iterators
def _all(iterator):
    for batch in iterator:
        batch.data[0].asnumpy()


@_reader
def csv(raw):
    _all(mx.io.CSVIter(data_csv=_file("x.csv", raw), data_shape=(3,), batch_size=1))


@_reader
def libsvm(raw):
    _all(mx.io.LibSVMIter(data_libsvm=_file("x.libsvm", raw), data_shape=(10,), batch_size=1))


@_reader
def mnist(raw):
    labels = _file("labels", b"\0\0\x08\x01\0\0\0\x02\x05\x06")
    _all(mx.io.MNISTIter(image=_file("images", raw), label=labels, batch_size=1, silent=True))


@_reader
def lists(raw):
    path = _file("x.lst", raw)
    errors = []
    for read in (lambda: mx.image.ImageIter(1, (3, 8, 8), path_imglist=path, path_root=folder()),
                 lambda: image_record.read_labels(path, 1), lambda: list(im2rec.read_list(path))):
        try:
            read()
        except mx.MXNetError as error:
            errors.append(error)
    if errors:
        raise errors[0]


# ------------------------------------------------------------------------------------------------------- data and texts
@_reader
def mnist_gz(raw):
    _gluon_mnist(raw)


@_reader
def mnist_gz_content(raw):
    _gluon_mnist(gzip.compress(raw, 1))


def _gluon_mnist(raw):
    path = _file("images.gz", raw)
    download = datasets.download
    datasets.download = lambda *args, **kwargs: path
    try:
        read_mnist(folder(), "images.gz")
    finally:
        datasets.download = download
    test_files.idx(path)


@_reader
def cifar(raw):
    datasets.CIFAR10._read_batch(datasets.CIFAR10.__new__(datasets.CIFAR10), _file("x.bin", raw))


@_reader
def archive(raw):
    _files.unpack(_file("x.archive", raw), os.path.join(folder(), "unpacked"))


@_reader
def embedding(raw):
    text.embedding.CustomEmbedding(_file("x.txt", raw))
