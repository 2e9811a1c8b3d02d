"""Array files: what MXNet wrote is read; what is written is read again; damaged files give one kind of error."""

import io
import os
import pathlib
import struct
import sys
import tracemalloc

import numpy as np
import pytest

import mxjax as mx
from mxjax.array import file_format
from mxjax.base import MXNetError

MXNET = pathlib.Path(__file__).parent.parent / "data" / "mxnet"


# ------------------------------------------------------------------ files of MXNet
def test_every_dtype_and_storage_type():
    wanted = np.load(MXNET / "dtypes_named_expected.npz")
    arrays = mx.nd.load(str(MXNET / "dtypes_named.params"))
    assert list(arrays) == wanted.files
    for name, array in arrays.items():
        assert array.dtype == wanted[name].dtype
        assert array.stype == (name if name in ("csr", "row_sparse") else "default")
        np.testing.assert_array_equal(array.asnumpy(), wanted[name])


def test_a_list():
    first, second = mx.nd.load(str(MXNET / "list.params"))
    assert first.shape == (3, 4) and first.dtype == np.float32
    np.testing.assert_allclose(first.asnumpy()[0, :3], [1.7640524, 0.4001572, 0.978738])
    assert second.asnumpy().tolist() == [[-4, -3, -1], [8, 6, -5]] and second.dtype == np.int64


def test_numpy_shapes():
    path = str(MXNET / "np_shapes.params")
    with mx.util.np_shape():
        arrays = mx.nd.load(path)
    assert {n: a.shape for n, a in arrays.items()} == {"scalar": (), "empty": (0, 3), "b": (2,)}
    assert arrays["scalar"].asnumpy() == 2.5 and arrays["b"].asnumpy().tolist() == [1, 0]
    with pytest.raises(MXNetError, match="np_shape"):
        mx.nd.load(path)


def test_the_oldest_format():
    arrays = mx.nd.load(str(MXNET / "legacy_ndarray.v0"))
    assert len(arrays) == 6
    for array in arrays:
        np.testing.assert_array_equal(array.asnumpy(), np.arange(128))


def test_a_model_that_mxnet_trained():
    symbol, args, aux = mx.model.load_checkpoint(str(MXNET / "bilstm_lm"), 0)
    wanted = np.load(MXNET / "bilstm_lm_expected.npz")
    net = symbol.get_internals()["pred_output"]
    executor = net.simple_bind(mx.cpu(), grad_req="null", data=wanted["data"].shape)
    executor.copy_params_from(args, aux, allow_extra_params=True)
    out = executor.forward(data=mx.nd.array(wanted["data"]))[0].asnumpy()
    if abs(wanted["out"].sum(1) - 1).max() < 1e-3:
        out = np.exp(out) / np.exp(out).sum(1, keepdims=True)
    np.testing.assert_allclose(out, wanted["out"], rtol=1e-4, atol=1e-5)


# ------------------------------------------------------------------ round trips
def arrays():
    rng = np.random.default_rng(0)
    made = {dtype: mx.nd.array(rng.integers(0, 100, (2, 3)), dtype=dtype) for dtype in
            ("float16", "float32", "float64", "bfloat16", "int8", "uint8", "int32", "int64", "bool")}
    made["csr"] = mx.nd.array([[0, 2, 0], [1, 0, 0]]).tostype("csr")
    made["row_sparse"] = mx.nd.array([[0, 0], [1, 0], [0, 0]]).tostype("row_sparse")
    made["a view"] = mx.nd.arange(12).reshape((4, 3))[1:3]
    made["naïve name"] = mx.nd.ones((1, 1, 1, 2))
    return made


@pytest.mark.parametrize("form", ["dict", "list", "one"])
def test_round_trip(tmp_path, form):
    made, path = arrays(), str(tmp_path / "x.params")
    mx.nd.save(path, made if form == "dict" else list(made.values()) if form == "list" else made["float64"])
    loaded = mx.nd.load(path)
    if form == "one":
        made, loaded = {"float64": made["float64"]}, {"float64": loaded[0]}
    elif form == "list":
        loaded = dict(zip(made, loaded, strict=True))
    assert list(loaded) == list(made)
    for name, array in made.items():
        assert loaded[name].dtype == array.dtype and loaded[name].stype == array.stype
        np.testing.assert_array_equal(loaded[name].asnumpy(), array.asnumpy())
    assert [p.name for p in tmp_path.iterdir()] == ["x.params"], "nothing temporary is left"


def test_what_mxnet_wrote_comes_out_byte_for_byte(tmp_path):
    for name in ("dtypes_named.params", "list.params", "bilstm_lm-0000.params"):
        mx.nd.save(str(tmp_path / name), mx.nd.load(str(MXNET / name)))
        assert (tmp_path / name).read_bytes() == (MXNET / name).read_bytes()


@pytest.mark.parametrize("most", [None, 1 << 20, 4097])
def test_a_large_file_in_parts(tmp_path, monkeypatch, most):
    """Two threads read it; the system may give less than was asked for, and 1000 buffers a call at most."""
    rng = np.random.RandomState(0)
    shapes = [(0,), (3, 5), (1 << 19,), (0, 4), *[(7,)] * 1100, (3, 1 << 18), (1,), (0,)] if most != 4097 else \
        [(2, 2), (0,), (1 << 18,), (5,)]
    given = {f"{i}": mx.nd.array(rng.randn(*shape), dtype="float64") for i, shape in enumerate(shapes)}
    given["sparse"] = mx.nd.sparse.csr_matrix(rng.rand(700, 900) * (rng.rand(700, 900) > 0.9))
    given["last"] = mx.nd.array(rng.randn(1 << 20))
    path = str(tmp_path / "large.params")
    mx.nd.save(path, given)
    assert os.path.getsize(path) > file_format.LARGE or most == 4097
    monkeypatch.setattr(file_format, "LARGE", min(file_format.LARGE, os.path.getsize(path) // 2))
    if most is not None:
        preadv = os.preadv

        def a_little(fd, buffers, offset):
            part, left = [], most
            for buffer in map(memoryview, buffers):
                part.append(buffer[:left])
                left -= len(part[-1])
            return preadv(fd, part, offset)
        monkeypatch.setattr(os, "preadv", a_little)
    found = mx.nd.load(path)
    assert list(found) == list(given)
    for name, array in given.items():
        assert found[name].stype == array.stype and found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name].asnumpy(), array.asnumpy())
    monkeypatch.setattr(os, "preadv", lambda *_: 0)
    with pytest.raises(mx.MXNetError, match="large.params.*was truncated while it was read at offset"):
        mx.nd.load(path)


@pytest.mark.parametrize("values", [np.array(["words"]), np.array([{}], object), np.array(["2026-01-01"], "M8[D]"),
                                    np.array([({},)], [("field", object)])])
def test_what_numpy_writes_and_arrays_cannot_hold(tmp_path, values):
    path = str(tmp_path / "a.npy")
    np.save(path, values)
    with pytest.raises(MXNetError, match="arrays of dtype .* are not supported"):
        mx.nd.load(path)


def test_from_a_buffer():
    raw = (MXNET / "list.params").read_bytes()
    assert [a.shape for a in mx.nd.load_frombuffer(raw)] == [(3, 4), (2, 3)]
    with pytest.raises(TypeError):
        mx.nd.load_frombuffer(12)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "uint8", "int8", "int32", "int64", "bool"])
@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1,), (2, 3)])
def test_every_shape_and_dtype_in_every_format(tmp_path, shape, dtype):
    kind = np.dtype(dtype)
    values = np.zeros(shape, dtype)
    if values.size and kind.kind in "iu":  # the ends of the integers' range
        values.flat[0], values.flat[-1] = np.iinfo(kind).min, np.iinfo(kind).max
    elif values.size:
        values.flat[0] = 1
    with mx.util.np_shape(True), mx.util.np_array(True):
        array = mx.np.array(values, dtype=dtype)
        for name in ("x.npz", "x.params"):
            path = str(tmp_path / name)
            if name.endswith("npz"):
                mx.npx.savez(path, a=array)
            else:
                mx.npx.save(path, {"a": array})
            again = mx.npx.load(path)["a"]
            assert again.dtype == dtype and again.shape == shape, name
            np.testing.assert_array_equal(again.asnumpy(), values)


@pytest.mark.parametrize("values", [np.float16(3), np.zeros((2, 0), "i8"), np.arange(6.).reshape(2, 3).T])
def test_an_array_of_numpy(tmp_path, values):
    path = str(tmp_path / "a.npy")
    np.save(path, values)
    with mx.util.np_shape(True):
        (loaded,) = mx.nd.load(path)
    assert loaded.dtype == values.dtype and loaded.shape == values.shape
    np.testing.assert_array_equal(loaded.asnumpy(), values)


def test_npz(tmp_path):
    path = str(tmp_path / "x.npz")
    np.savez(path, a=np.arange(3), b=np.ones((2, 2), "float16"))
    loaded = mx.nd.load(path)
    assert loaded["a"].dtype == np.int64 and loaded["b"].dtype == np.float16
    np.testing.assert_array_equal(loaded["a"].asnumpy(), np.arange(3))


def test_npz_of_numbers_empty_arrays_and_columns(tmp_path):
    given = {"number": np.float32(2.5), "empty": np.zeros((0, 3), "int8"), "columns": np.asfortranarray(np.eye(2, 3))}
    np.savez(tmp_path / "x.npz", **given)
    with mx.util.np_shape():
        loaded = mx.nd.load(str(tmp_path / "x.npz"))
    for name, value in given.items():
        assert loaded[name].shape == value.shape and loaded[name].dtype == value.dtype
        assert loaded[name].asnumpy().tolist() == value.tolist()


def test_a_failed_save_leaves_the_old_file(tmp_path):
    path = tmp_path / "x.params"
    mx.nd.save(str(path), [mx.nd.ones(2)])
    before = path.read_bytes()
    with pytest.raises((TypeError, ValueError, MXNetError)):
        mx.nd.save(str(path), [mx.nd.ones(2), "no array"])
    assert path.read_bytes() == before and len(list(tmp_path.iterdir())) == 1


def test_missing_file():
    with pytest.raises((MXNetError, OSError), match="nowhere"):
        mx.nd.load("nowhere.params")


# ------------------------------------------------------------------ damaged files
SOURCES = ["dtypes_named.params", "list.params", "np_shapes.params"]
WORDS = [0, 1, 2, 0x7FFFFFFF, 0xFFFFFFFF, 0x112, 0xF993FAC8, 0xF993FAC9, 0xF993FACA]
NUMBERS = [2**63 - 1, 2**62, 2**40, 2**32, 2**31, 10**6, 0xFFFFFFFFFFFFFFFF]


def mutated(raw, rng):
    """The bytes with one to four changes: a byte, a word, a number, a piece cut out or doubled, the end cut off."""
    data = bytearray(raw)
    for _ in range(rng.integers(1, 5)):
        place = int(rng.integers(0, max(len(data), 1)))
        kind = rng.integers(6)
        if kind == 0 and data:
            data[place] = int(rng.integers(256))
        elif kind == 1:
            data[place:place + 4] = struct.pack("<I", int(rng.choice(WORDS)))
        elif kind == 2:
            place &= ~7
            data[place:place + 8] = struct.pack("<Q", NUMBERS[rng.integers(len(NUMBERS))])
        elif kind == 3:
            del data[place:place + int(rng.integers(1, 40))]
        elif kind == 4:
            data[place:place] = data[place:place + int(rng.integers(1, 40))]
        else:
            del data[place:]
    return bytes(data)


@pytest.mark.parametrize("name", SOURCES)
def test_damaged_files_give_mxnet_errors(name):
    raw, rng = (MXNET / name).read_bytes(), np.random.default_rng(len(name))
    failures, most = 0, 0
    damaged = [raw[:n] for n in range(0, len(raw), 3)] + [mutated(raw, rng) for _ in range(1000)]
    tracemalloc.start()
    try:
        for data in damaged:
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            try:
                with mx.util.np_shape(name == "np_shapes.params"):
                    mx.nd.load_frombuffer(data)
            except MXNetError as error:
                failures += 1
                assert "offset" in str(error)
            most = max(most, tracemalloc.get_traced_memory()[1] - before)
    finally:
        tracemalloc.stop()
    assert failures > 500
    assert most < 64 * len(raw) + (1 << 20)


def test_damaged_file_names_itself_and_the_place(tmp_path):
    path = tmp_path / "broken.params"
    path.write_bytes((MXNET / "list.params").read_bytes()[:100])
    with pytest.raises(MXNetError, match=r"broken\.params.*offset \d+"):
        mx.nd.load(str(path))
    path.write_bytes(b"")
    with pytest.raises(MXNetError, match="offset 0"):
        mx.nd.load(str(path))


def test_sizes_that_no_file_can_hold():
    """A header that promises 2**40 arrays, or an array of 2**62 elements, is refused before anything is allocated."""
    many = struct.pack("<QQQ", 0x112, 0, 2**40)
    huge = struct.pack("<QQQIii2qiii", 0x112, 0, 1, 0xF993FAC9, 0, 2, 2**31, 2**31, 1, 0, 0)
    product = struct.pack("<QQQIii4qiii", 0x112, 0, 1, 0xF993FAC9, 0, 4, 2**32, 2**32, 2**32, 2**32, 1, 0, 0)
    for raw in (many, huge, product):
        with pytest.raises(MXNetError, match="offset"):
            mx.nd.load_frombuffer(raw)


def test_damaged_pickles_and_npz(tmp_path):
    whole = file_format.dumps(mx.nd.ones((2, 2)))
    for n in range(len(whole)):
        with pytest.raises(MXNetError):
            file_format.loads(whole[:n])
    file = io.BytesIO()
    np.savez(file, a=np.arange(30))
    raw, rng, path = file.getvalue(), np.random.default_rng(5), tmp_path / "x.npz"
    for _ in range(100):
        path.write_bytes(b"PK\x03\x04" + mutated(raw, rng)[4:])
        try:
            mx.nd.load(str(path))
        except MXNetError:
            pass


@pytest.mark.parametrize("dtype", list(file_format.CODES))
def test_safetensors(tmp_path, dtype):
    pytest.importorskip("safetensors")
    path = str(tmp_path / "x.safetensors")
    arrays = {"w": mx.nd.array([[1, 0, 3]]).astype(dtype), "a": mx.nd.arange(4)}
    mx.nd.save(path, arrays)
    found = mx.nd.load(path)
    assert list(found) == ["a", "w"] and found["w"].dtype == arrays["w"].dtype and found["w"].shape == (1, 3)
    np.testing.assert_array_equal(found["w"].asnumpy(), arrays["w"].asnumpy())


def test_what_safetensors_cannot_hold(tmp_path, monkeypatch):
    pytest.importorskip("safetensors")
    path = str(tmp_path / "x.safetensors")
    with pytest.raises(mx.MXNetError, match="must have names; save a dict"):
        mx.nd.save(path, [mx.nd.ones(2)])
    with pytest.raises(mx.MXNetError, match="w is sparse"):
        mx.nd.save(path, {"w": mx.nd.ones((2, 2)).tostype("csr")})
    assert not os.listdir(tmp_path)
    with open(path, "wb") as file:
        text = b'{"x":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]}}'
        file.write(len(text).to_bytes(8, "little") + text + b"x")
    with pytest.raises(mx.MXNetError, match=r"x\.safetensors: array 'x' has dtype F8_E4M3"):
        mx.nd.load(path)
    monkeypatch.setitem(sys.modules, "safetensors.numpy", None)
    with pytest.raises(mx.MXNetError, match=r"pip install 'mxjax\[safetensors\]'"):
        mx.nd.load(path)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_dtypes_that_files_do_not_have(tmp_path, dtype):
    path = str(tmp_path / "x.params")
    with pytest.raises(mx.MXNetError, match=f"not support dtype {dtype}, only bfloat16, bool.*imaginary parts"):
        mx.nd.save(path, {"a": mx.nd.zeros((2,), dtype=dtype)})
    assert not (tmp_path / "x.params").exists()
