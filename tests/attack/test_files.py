"""Files made to hurt: each is refused by an error that names it, soon and without taking memory."""

import gzip
import io
import json
import os
import pickle
import struct
import time
import tracemalloc
import zipfile

import numpy as np
import pytest

import mxjax as mx
from mxjax._support import files as _files
from mxjax.test_utils import _files as test_utils_files
from mxjax.tools import im2rec

MXNetError = mx.MXNetError


def refused(tally, what, read, match="", seconds=5.0, megabytes=64):
    """Counts whether `read()` raises an MXNetError soon, and without taking memory on the way."""
    began = time.perf_counter()
    tracemalloc.start()
    try:
        read()
        outcome, told = "differs", "it was read"
    except MXNetError as error:
        outcome, told = ("refused" if match in str(error) else "differs"), str(error)
    except Exception as error:
        outcome, told = "crash", f"{type(error).__name__}: {error}"
    finally:
        peak = tracemalloc.get_traced_memory()[1] / 2**20
        tracemalloc.stop()
    took = time.perf_counter() - began
    if took > seconds:
        outcome, told = "hang", f"{took:.0f} s"
    elif peak > megabytes:
        outcome, told = "crash", f"{peak:.0f} MB"
    tally.count(outcome, f"{what}: {told[:200]}")


# ----------------------------------------------------------------------------------------------------- optimizer states
def _set_states(raw):
    mx.optimizer.get_updater(mx.optimizer.SGD()).set_states(raw)


_DTYPE = b"cnumpy\ndtype\nU\x02%s\x89\x88\x87R"  # numpy.dtype(<two letters>, False, True)
_DTYPE_STATE = b"(K\x03U\x01%sNNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK%ctb"
_SCALAR = b"\x80\x02}K\x00cnumpy.core.multiarray\nscalar\n%sU\x08AAAAAAAA\x86Rs."


STATES = [
    ("an object's address", _SCALAR % (_DTYPE % b"O8"), "dtype 'O8'"),
    ("a dtype turned into objects", _SCALAR % (_DTYPE % b"f8" + _DTYPE_STATE % (b"|", 63)), "not one of plain numbers"),
    ("a dtype with fields", _SCALAR % (_DTYPE % b"V8" + _DTYPE_STATE % (b"|", 0)), "dtype 'V8'"),
    ("a number that is too short", _SCALAR.replace(b"U\x08AAAAAAAA", b"U\x01A") % (
        _DTYPE % b"f8" + _DTYPE_STATE % (b"<", 0)), "do not match its dtype"),
    ("a big-endian number", _SCALAR % (_DTYPE % b"f8" + _DTYPE_STATE % (b">", 0)), "little-endian"),
    ("a memo of a billion places", b"\x80\x03}r\xff\xff\xff\x7fr\xff\xff\xff\xfe0.", ""),
    ("a bytearray of a size", b"\x80\x03cbuiltins\nbytearray\nJ\xff\xff\xff\x7f\x85R.", "created from int"),
    ("a length beyond the end", b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.", ""),
    ("an integer of a megabyte", b"\x80\x03}K\x00\x8b" + struct.pack("<i", 1 << 20) + b"\x7f" * (1 << 20) + b"s.",
     "an integer of"),
    ("100,000 lists in each other", b"\x80\x03}K\x00" + b"]" * 100000 + b"a" * 99999 + b"s.", "nested more than 100"),
    ("100,000 tuples in each other", b"\x80\x03}K\x00N" + b"\x85" * 100000 + b"s.", "nested more than 100"),
    ("2^60 values by sharing", b"\x80\x03}K\x00Nq\x000" + b"h\x00h\x00\x86q\x000" * 60 + b"h\x00s.",
     "share references"),
    ("2^60 values by doubling", b"\x80\x03}K\x00N" + b"2\x86" * 60 + b"s.", "DUP is not allowed"),
    ("a list in itself", b"\x80\x03}K\x00]q\x00h\x00as.", "contains itself"),
    ("more than can be counted", b"\x80\x03}" + b"N0" * (3 << 20) + b".", "instructions"),
    ("a class as a value", b"\x80\x03}K\x00cmxnet.optimizer.optimizer\nSGD\ns.", "is used in place of a value"),
    ("an optimizer without attributes", b"\x80\x03}cmxnet.optimizer.optimizer\nSGD\n)\x81}b\x86.", "has no attribute"),
    ("an array without content", b"\x80\x03}K\x00cmxnet.ndarray.ndarray\nNDArray\nN\x85Rs.", "in place of a value"),
    ("keys that collide", b"\x80\x03}(" + b"".join(
        b"\x8a\x0c" + ((2 ** 61 - 1) * k).to_bytes(12, "little") + b"N" for k in range(1, 9)) + b"u.",
     "neither a name"),
    ("a function", pickle.dumps({0: print}, 2), "__builtin__.print is not allowed"),
    ("a class of the library", b"\x80\x03}K\x00cmxjax.recordio\nMXRecordIO\nX\x01\x00\x00\x00x\x85Rs.", "not allowed"),
    ("text as a state", pickle.dumps({0: ("x",)}, 2), "type str"),
    ("nothing", b"", ""), ("one byte", b"\x80", ""), ("no end", b"\x80\x03}", ""),
]


def test_states_made_to_hurt(tally):
    for what, raw, match in STATES:
        refused(tally, what, lambda raw=raw: _set_states(raw), match, seconds=30)


def test_attributes_of_the_wrong_type(tally):
    update = mx.optimizer.get_updater(mx.optimizer.Adam())
    for name, value in [("lr", "fast"), ("idx2name", 5), ("lr_scheduler", 1), ("_all_index_update_counts", [1]),
                        ("beta1", mx.nd.ones(3)), ("sym_info", "x")]:
        before = getattr(update.optimizer, name)
        setattr(update.optimizer, name, value)
        raw = update.get_states(dump_optimizer=True)
        setattr(update.optimizer, name, before)
        refused(tally, name, lambda raw=raw: _set_states(raw), repr(name))


def test_states_hold_plain_numbers_and_arrays(tally):
    """NumPy's numbers become Python's; arrays in hyperparameters come back; nothing of NumPy is named without them."""
    schedule = mx.lr_scheduler.MultiFactorScheduler([np.int64(3), 5], base_lr=np.float32(0.5))
    update = mx.optimizer.get_updater(mx.optimizer.Adam(np.float32(0.5), np.float64(0.25), lr_scheduler=schedule))
    update(0, mx.nd.ones((2, 3)), mx.nd.ones((2, 3)))
    assert b"numpy" not in update.get_states(dump_optimizer=True)
    update.optimizer.table = np.arange(6.0).reshape(2, 3).T
    again = mx.optimizer.get_updater(mx.optimizer.SGD())
    raw = update.get_states(dump_optimizer=True)
    assert b"numpy._core" not in raw  # which older NumPy has not got
    again.set_states(raw)
    found = again.optimizer
    assert (found.beta1, found.lr_scheduler.base_lr, found.lr_scheduler.step) == (0.25, 0.5, [3, 5])
    assert type(found.beta1) is float and np.array_equal(found.table, update.optimizer.table)
    assert again.states[0][1].asnumpy().tolist() == update.states[0][1].asnumpy().tolist()
    tally.count("ok")


def test_states_of_mxnet_with_numpys_numbers(tally):
    """Other protocols, and numbers as NumPy pickles them."""
    for protocol in range(6):
        file = io.BytesIO()
        pickle.Pickler(file, protocol).dump({0: None, "lr": np.float32(0.5), 2: [np.int64(7), np.bool_(True)]})
        update = mx.optimizer.get_updater(mx.optimizer.SGD())
        update.set_states(file.getvalue())
        tally.count("ok" if update.states == {0: None, "lr": 0.5, 2: [7, True]} else "differs", str(update.states))


# ------------------------------------------------------------------------------------------------------------- symbols
def _graph(*rows, heads=None, **more):
    """JSON of a graph: rows (operator, attributes, inputs)."""
    nodes = [{"op": op, "name": f"n{i}", "attrs": attrs, "inputs": [[j, 0, 0] for j in inputs], **more}
             for i, (op, attrs, inputs) in enumerate(rows)]
    return json.dumps({"nodes": nodes, "arg_nodes": [], "heads": heads or [[len(rows) - 1, 0, 0]],
                       "attrs": {"mxnet_version": ["int", 10901]}})


def _nested(depth):
    graph = {"nodes": [{"op": "null", "name": "x", "inputs": []}], "heads": [[0, 0, 0]]}
    for _ in range(depth):
        graph = {"nodes": [{"op": "null", "name": "x", "inputs": []},
                           {"op": "_foreach", "name": "f", "inputs": [[0, 0, 0]], "subgraphs": [graph], "attrs": {
                               "num_args": "2", "num_outputs": "1", "num_out_data": "1", "in_data_locs": "(0,)"}}],
                 "heads": [[1, 0, 0]]}
    return json.dumps(graph)


_X, _MANY = ("null", {}, []), str(10 ** 8)
SYMBOLS = [
    ("outputs", _graph(_X, ("SliceChannel", {"num_outputs": _MANY}, [0])), "num_outputs must be at most"),
    ("sections", _graph(_X, ("_split_v2", {"sections": _MANY, "indices": "()"}, [0])), "sections must be at most"),
    ("weights", _graph(_X, ("multi_sgd_update", {"num_weights": _MANY, "lrs": "(1,)", "wds": "(0,)"}, [0])),
     "num_weights must be at most"),
    ("tensors", _graph(_X, ("_multi_lamb_update", {"num_tensors": _MANY, "learning_rates": "(1,)", "wds": "(0,)",
                                                   "step_count": "(1,)"}, [0])), "num_tensors must be at most"),
    ("arguments", _graph(_X, ("UpSampling", {"num_args": _MANY, "scale": "2", "sample_type": "nearest"}, [0])),
     "num_args must be at most"),
    ("layers", _graph(_X, ("RNN", {"num_layers": _MANY, "state_size": "1", "mode": "lstm"}, [0])),
     "num_layers must be at most"),
    ("many with many outputs", _graph(_X, *[("SliceChannel", {"num_outputs": "65000"}, [0])] * 200), "file can use"),
    ("a cycle", _graph(("relu", {}, [1]), ("relu", {}, [0])), "node 0 is damaged"),
    ("itself", _graph(("relu", {}, [0])), "node 0 is damaged"),
    ("an output that is not there", _graph(_X, heads=[[0, 7, 0]]), "list of heads"),
    ("a head that is not there", _graph(_X, heads=[[5, 0, 0]]), "list of heads"),
    ("no list", json.dumps({"nodes": {}, "heads": []}), "lists 'nodes' and 'heads'"),
    ("a node that is text", json.dumps({"nodes": ["x"], "heads": [[0, 0, 0]]}), "node 0 is damaged"),
    ("attributes that are a list", _graph(("relu", [1], [])), "node 0 is damaged"),
    ("an attribute that is no text", _graph(("null", {"__shape__": [1, 2]}, [])), "expected text"),
    ("inputs that are text", json.dumps({"nodes": [{"op": "relu", "name": "a", "inputs": "00"}], "heads": [[0, 0]]}),
     "node 0 is damaged"),
    ("deep lists", '{"nodes":' + "[" * 100000 + "]" * 100000 + ', "heads": []}', "not a symbol"),
    ("deep graphs", _nested(60), "more than 32 levels deep"),
    ("a deep parameter", _graph(_X, ("transpose", {"axes": "(" * 9000 + ")" * 9000}, [0])), "node 1"),
    ("an unknown operator", _graph(("nonsense", {}, [])), "no operator 'nonsense'"),
    ("no JSON", "{", "not a symbol"), ("a number", "1" * 5000, "not a symbol"), ("nothing", "", "not a symbol"),
]


def test_symbols_made_to_hurt(tally, tmp_path):
    path = str(tmp_path / "bad-symbol.json")
    for what, text, match in SYMBOLS:
        refused(tally, what, lambda text=text: mx.sym.load_json(text), match)
        with open(path, "w") as file:
            file.write(text)
        refused(tally, what, lambda: mx.sym.load(path), "bad-symbol.json")
        refused(tally, what, lambda: mx.gluon.SymbolBlock.imports(path, ["n0"]), "bad-symbol.json")
    with open(path, "wb") as file:
        file.write(b'{"nodes": "\xff\xfe"}')
    refused(tally, "no UTF-8", lambda: mx.sym.load(path), "bad-symbol.json")
    for make in (lambda x: mx.sym.split(x, num_outputs=10 ** 8), lambda x: mx.sym.split_v2(x, 10 ** 8)):
        refused(tally, "written in a program", lambda make=make: make(mx.sym.var("x")), "100000000")


def test_graphs_as_large_as_their_files_are_read(tally):
    symbol = mx.sym.split(mx.sym.var("x"), num_outputs=2000)
    for _ in range(40):
        symbol = mx.sym.split(symbol[7], num_outputs=2000)
    tally.count("ok" if len(mx.sym.load_json(symbol.tojson()).list_outputs()) == 2000 else "differs")
    chain = mx.sym.var("x")
    for _ in range(5000):
        chain = -chain
    tally.count("ok" if len(mx.sym.load_json(chain.tojson()).get_internals().list_outputs()) == 5001 else "differs")


# ------------------------------------------------------------------------------------------------------------- arrays
def _npz(content, packed=zipfile.ZIP_DEFLATED, name="a.npy"):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", packed) as archive:
        archive.writestr(name, content)
    return file.getvalue()


def _npy(header, content=b""):
    header = header.encode().ljust(118) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + content


_HEADER = "{'descr': '<f4', 'fortran_order': False, 'shape': %s, }"
_OFFSETS = b'{"x":{"dtype":"F32","shape":[1073741824],"data_offsets":[0,4294967296]}}'
ARRAYS = [
    ("a bomb", _npz(bytes(3 << 30 >> 3)), "MXJAX_UNPACK_LIMIT"),
    ("a shape beyond the entry", _npz(_npy(_HEADER % "(10000000000,)")), "remain"),
    ("a shape beyond the file", _npy(_HEADER % "(10000000000,)"), "remain"),
    ("a shape that overflows", _npy(_HEADER % "(4611686018427387904, 8)"), "remain"),
    ("a negative shape", _npy(_HEADER % "(-1, -4)", bytes(16)), "remain"),
    ("dimensions without end", _npy(_HEADER % ("(" + "0," * 80 + ")")), ""),
    ("a header that is no Python", _npy("{'descr': (((("), ""), ("a deep header", _npy("(" * 110), ""),
    ("a header of objects", _npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", bytes(8)), "dtype object"),
    ("a pickle", _npz(pickle.dumps([1])), "a.npy"), ("another version", _npz(b"\x93NUMPY\x09\x00"), "version"),
    ("an unknown packing", _npz(b"x").replace(b"\x08\x00", b"\x63\x00"), ""), ("half an archive", _npz(b"x")[:50], ""),
    ("a safetensors header beyond the end", b"\xff\xff\xff\xff\xff\xff\xff\x7f{}", "safetensors"),
    ("offsets beyond the end", struct.pack("<Q", len(_OFFSETS)) + _OFFSETS, "safetensors"),
    ("a number of arrays", struct.pack("<QQQ", 0x112, 0, 1 << 62), "bytes, but only 0 remain"),
    ("a name without end", struct.pack("<QQQIiiQQ", 0x112, 0, 1, 0xF993FAC9, 0, -1, 1, 1 << 62), "remain"),
    ("nothing", b"", "remain"),
]


def test_arrays_made_to_hurt(tally, tmp_path):
    path = str(tmp_path / "bad.npz")
    for what, raw, match in ARRAYS:
        with open(path, "wb") as file:
            file.write(raw)
        refused(tally, what, lambda: mx.nd.load(path), match)
        refused(tally, what, lambda: mx.nd.load(path), "bad.npz")


def test_what_unpacks_to_much_is_read_where_it_is_trusted(tally, tmp_path, monkeypatch):
    path = str(tmp_path / "zeros.npz")
    np.savez_compressed(path, a=np.zeros(1 << 20))
    tally.count("ok" if mx.nd.load(path)["a"].shape == (1 << 20,) else "differs")
    monkeypatch.setenv("MXJAX_UNPACK_LIMIT", "1000")
    refused(tally, "a low limit", lambda: mx.nd.load(path), "MXJAX_UNPACK_LIMIT")


# -------------------------------------------------------------------------------------- pictures, texts, packed files
def _png(width, height, length=13):
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", length, b"IHDR", width, height) + b"\x08\2\0\0\0" + bytes(40)


def test_pictures_made_to_hurt(tally, tmp_path):
    pytest.importorskip("cv2")
    path, jpeg = tmp_path / "bad.png", b"\xff\xd8\xff\xe0\0\4ab\xff\xc0\0\x11\x08\xff\xff\xff\xff\3" + bytes(40)
    for what, raw in [("a PNG of a billion pixels", _png(32000, 32000)), ("a long part", _png(5, 5, 0xFF000000)),
                      ("a JPEG", jpeg), ("a bitmap", b"BM" + bytes(16) + struct.pack("<ii", 30000, 30000) + bytes(40)),
                      ("WebP", b"RIFF\0\0\0\0WEBPVP8X" + bytes(8) + b"\xff\x3f\0\xff\x3f\0" + bytes(40))]:
        refused(tally, what, lambda raw=raw: mx.image.imdecode(raw), "MXJAX_UNPACK_LIMIT")
        path.write_bytes(raw)
        refused(tally, what, lambda: mx.image.imread(path), "bad.png")
        record = mx.recordio.pack((0, 1.0, 0, 0), raw)
        refused(tally, what, lambda record=record: mx.recordio.unpack_img(record), "MXJAX_UNPACK_LIMIT")
    refused(tally, "none", lambda: mx.image.imdecode(b"none"), "Invalid image")


def test_texts_that_are_none(tally, tmp_path):
    path = tmp_path / "bad.txt"
    path.write_bytes(b"\xff\xfe\x00\x81 1 2\n")
    for read in (lambda: mx.contrib.text.embedding.CustomEmbedding(str(path)),
                 lambda: mx.image.ImageIter(1, (3, 8, 8), path_imglist=str(path), path_root="."),
                 lambda: mx.io.LibSVMIter(data_libsvm=str(path), data_shape=(3,), batch_size=1),
                 lambda: mx.io.CSVIter(data_csv=str(path), data_shape=(3,), batch_size=1),
                 lambda: list(im2rec.read_list(str(path))), lambda: mx.sym.load(path)):
        refused(tally, "no UTF-8", read, "bad.txt")
    path.write_text("no tab\n")
    refused(tally, "no tabs", lambda: mx.image.ImageIter(1, (3, 8, 8), path_imglist=str(path), path_root="."), "line 1")
    packed = tmp_path / "rows.csv.gz"
    packed.write_bytes(gzip.compress(b"1,2,3\n"))
    refused(tally, "packed rows", lambda: mx.io.CSVIter(data_csv=str(packed), data_shape=(3,), batch_size=1),
            "compressed")


def test_states_name_their_file(tally, tmp_path):
    path = tmp_path / "bad.states"
    path.write_bytes(b"\x80\x03cos\nsystem\nX\x02\x00\x00\x00ls\x85R.")
    net = mx.gluon.nn.Dense(2, in_units=3)
    net.initialize()
    store = mx.kv.create("local")
    store.set_optimizer(mx.optimizer.SGD())
    for read in (lambda: mx.gluon.Trainer(net.collect_params(), "sgd", kvstore=None).load_states(str(path)),
                 lambda: store.load_optimizer_states(str(path))):
        refused(tally, "states", read, "bad.states: optimizer states: os.system is not allowed")


def test_models_of_nonsense(tally, tmp_path):
    pytest.importorskip("onnx")
    prefix = str(tmp_path / "m")
    mx.nd.save(prefix + "-0001.params", [mx.nd.ones(2)])
    net = mx.gluon.nn.Dense(2, in_units=3)
    for content in (b"[]", b"{}", b"{", b"\xff", b'{"dense0": 5}', b'{"dense0": {"orig_name": "a", "children": []}}'):
        with open(prefix + "-model.json", "wb") as file:
            file.write(content)
        refused(tally, "names", lambda: net.load(prefix), "m-model.json")
    refused(tally, "no names", lambda: net.load_parameters(prefix + "-0001.params"), "without names")
    for content in (b"", b"\xff" * 9, b"nonsense"):
        with open(prefix + ".onnx", "wb") as file:
            file.write(content)
        refused(tally, "ONNX", lambda: mx.contrib.onnx.import_model(prefix + ".onnx"), "m.onnx")


def test_constants_of_onnx_are_bounded(tally, tmp_path):
    onnx = pytest.importorskip("onnx")
    shape = onnx.numpy_helper.from_array(np.array([1 << 20, 1 << 20]), "shape")
    limits = [onnx.numpy_helper.from_array(np.array(n), name) for n, name in ((0, "a"), (1 << 40, "b"), (1, "c"))]
    for node in (onnx.helper.make_node("ConstantOfShape", ["shape"], ["y"]),
                 onnx.helper.make_node("Range", ["a", "b", "c"], ["y"])):
        out = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
        graph = onnx.helper.make_graph([node], "g", [], [out], [shape, *limits])
        path = str(tmp_path / "big.onnx")
        onnx.save(onnx.helper.make_model(graph), path)
        refused(tally, node.op_type, lambda path=path: mx.contrib.onnx.import_model(path), "big.onnx: ONNX operator")


def test_packed_files_made_to_hurt(tally, tmp_path):
    path, zeros = str(tmp_path / "bad.gz"), bytes(300 << 20)
    with open(path, "wb") as file:
        file.write(gzip.compress(zeros, 1))
    with gzip.open(path) as stream:
        refused(tally, "a bomb", lambda: _files.read_packed(stream, 1000, path), "MXJAX_UNPACK_LIMIT", megabytes=600)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", zeros)
    refused(tally, "an archive", lambda: _files.unpack(path, tmp_path), "MXJAX_UNPACK_LIMIT")
    tally.count("ok" if sorted(os.listdir(tmp_path)) == ["bad.gz"] else "differs", "something was left")
    with open(path, "r+b") as file:
        file.truncate(100)
    refused(tally, "half an archive", lambda: _files.unpack(path, tmp_path), "bad.gz")
    with open(path, "wb") as file:
        file.write(gzip.compress(bytes(1000))[:-12])
    refused(tally, "cut off", lambda: test_utils_files.idx(path), "bad.gz")
