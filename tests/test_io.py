"""Data iterators."""

import logging
import struct

import numpy as np
import pytest

import mxjax as mx
from mxjax import io
from mxjax.base import MXNetError


def rows(batch):
    return batch.data[0].asnumpy().reshape(batch.data[0].shape[0], -1)[:, 0].tolist()


DATA = np.arange(20, dtype=np.float32).reshape(10, 2)


# epochs as (rows, pad) of each batch, as MXNet 1.9.1 gives them
@pytest.mark.parametrize("last, epochs", [
    ("pad", [[([0, 2, 4, 6], 0), ([8, 10, 12, 14], 0), ([16, 18, 0, 2], 2)]] * 2),
    ("discard", [[([0, 2, 4, 6], 0), ([8, 10, 12, 14], 0)]] * 2),
    ("roll_over", [[([0, 2, 4, 6], 0), ([8, 10, 12, 14], 0)],
                   [([16, 18, 0, 2], 2), ([4, 6, 8, 10], 0), ([12, 14, 16, 18], 0)]]),
])
def test_last_batch(last, epochs):
    batches = io.NDArrayIter(DATA, np.arange(10), 4, last_batch_handle=last)
    for epoch in epochs:
        seen = list(batches)
        assert [(rows(batch), batch.pad) for batch in seen] == epoch
        for batch in seen:
            assert (batch.label[0].asnumpy() * 2).tolist() == rows(batch)
        batches.reset()


def test_padding_goes_round_several_times():
    batch = io.NDArrayIter(np.arange(3), batch_size=8).next()
    assert rows(batch) == [0, 1, 2, 0, 1, 2, 0, 1] and batch.pad == 5


def test_shuffle_is_one_order_for_all_arrays():
    np.random.seed(2)
    batches = io.NDArrayIter({"b": DATA, "a": DATA + 1}, np.arange(10), 5, shuffle=True)
    order = batches.idx.tolist()
    seen = [x for batch in batches for x in batch.label[0].asnumpy().tolist()]
    assert seen == order and sorted(seen) == list(range(10))
    batches.reset()
    batch = batches.next()
    np.testing.assert_array_equal(batch.data[0].asnumpy(), batch.data[1].asnumpy() + 1)
    np.testing.assert_array_equal(batch.data[1].asnumpy()[:, 0], 2 * batch.label[0].asnumpy())


def test_descriptions():
    batches = io.NDArrayIter([DATA, DATA], batch_size=4, data_name="x")
    assert [(d.name, d.shape, d.dtype) for d in batches.provide_data] \
        == [("_0_x", (4, 2), np.float32), ("_1_x", (4, 2), np.float32)]
    assert batches.provide_label == []
    assert repr(io.DataDesc("a", (1, 2))) == "DataDesc[a,(1, 2),<class 'numpy.float32'>,NCHW]"
    assert io.DataDesc.get_batch_axis("TNC") == 1 and io.DataDesc.get_batch_axis(None) == 0


def test_batch_axis():
    data = np.arange(24).reshape(2, 6, 2)
    batches = io.NDArrayIter(data, batch_size=4, layout="TNC")
    seen = [batch.data[0].asnumpy() for batch in batches]
    np.testing.assert_array_equal(seen[0], data[:, :4])
    np.testing.assert_array_equal(seen[1], data[:, [4, 5, 0, 1]])
    assert batches.provide_data[0].shape == (2, 4, 2)
    batches.layout = "NTC"
    assert batches.provide_data[0].shape == (4, 6, 2)


def test_an_iterator_gets_other_labels():
    batches = io.NDArrayIter(DATA, batch_size=5)
    batches.label = io._init_data(np.arange(10), allow_empty=True, default_name="svm_label")
    assert [d.name for d in batches.provide_label] == ["svm_label"]
    assert batches.next().label[0].asnumpy().tolist() == [0, 1, 2, 3, 4]
    assert io.io._init_data is io._init_data and not io._has_instance(batches.label, mx.nd.sparse.CSRNDArray)


def test_batches_are_copies():
    data = mx.nd.array(DATA)
    batch = io.NDArrayIter(data, batch_size=5).next()
    batch.data[0][:] = -1
    np.testing.assert_array_equal(data.asnumpy(), DATA)


def test_wrong_arguments():
    with pytest.raises(ValueError, match="softmax_label has 3 samples, but data has 10"):
        io.NDArrayIter(DATA, np.arange(3))
    with pytest.raises(ValueError, match="last_batch_handle"):
        io.NDArrayIter(DATA, last_batch_handle="drop")
    for size in (0, -2):
        with pytest.raises(MXNetError, match=f"batch_size must be 1 or more, got {size}"):
            io.NDArrayIter(DATA, batch_size=size)
    with pytest.raises(TypeError, match="data must be"):
        io.NDArrayIter(3)
    for kind in (TypeError, AssertionError):  # Python's error, and what MXNet asserts
        with pytest.raises(kind, match="label must be a list"):
            io.DataBatch([], label=np.zeros(3))


def test_resize():
    short, long = (io.ResizeIter(io.NDArrayIter(DATA, batch_size=5), n) for n in (1, 5))
    assert [rows(b)[0] for b in short] == [0]
    assert [rows(b)[0] for b in long] == [0, 10, 0, 10, 0]
    long.reset()
    assert rows(long.next())[0] == 0


def test_prefetching_puts_iterators_together():
    ahead = io.PrefetchingIter([io.NDArrayIter(DATA, np.arange(10), 4), io.NDArrayIter(DATA + 1, batch_size=4)],
                               rename_data=[{"data": "x"}, {"data": "y"}])
    assert [d.name for d in ahead.provide_data] == ["x", "y"]
    for _ in range(2):
        seen = [(b.data[0].asnumpy()[0, 0], b.data[1].asnumpy()[0, 0], b.pad) for b in ahead]
        assert seen == [(0, 1, 0), (8, 9, 0), (16, 17, 2)]
        with pytest.raises(StopIteration):
            ahead.next()
        ahead.reset()


def test_prefetching_raises_what_reading_raised():
    class Broken(io.NDArrayIter):
        def next(self):
            raise ZeroDivisionError("broken file")

    ahead = io.PrefetchingIter(Broken(DATA, batch_size=4))
    with pytest.raises(ZeroDivisionError, match="broken file"):
        ahead.next()
    with pytest.raises(ValueError, match="fewer batches"):
        list(io.PrefetchingIter([io.NDArrayIter(DATA, batch_size=5), io.NDArrayIter(DATA[:5], batch_size=5)]))


@pytest.fixture
def csv(tmp_path):
    np.savetxt(tmp_path / "data.csv", DATA, delimiter=",", fmt="%d")
    np.savetxt(tmp_path / "label.csv", np.arange(10), fmt="%d")
    return {"data_csv": str(tmp_path / "data.csv"), "label_csv": str(tmp_path / "label.csv"), "data_shape": (2,),
            "batch_size": 4}


def test_prefetching_keeps_the_descriptions_of_its_iterators():
    class Plain(io.DataIter):
        provide_data, provide_label = [("data", (4, 3))], [("label", (4,))]

        def next(self):
            raise StopIteration

    ahead = io.PrefetchingIter([Plain(4), io.NDArrayIter(DATA, batch_size=4)])
    assert [type(desc) for desc in ahead.provide_data] == [tuple, io.DataDesc]
    assert ahead.provide_label == [("label", (4,))] and type(ahead.provide_label[0]) is tuple
    renamed = io.PrefetchingIter(Plain(4), rename_data=[{"data": "x"}]).provide_data
    assert renamed == [("x", (4, 3))] and type(renamed[0]) is io.DataDesc


# what MXNet 1.9.1 gives: with round_batch an epoch begins behind the rows that filled the one before
@pytest.mark.parametrize("round_batch, epochs", [
    (True, [[([0, 2, 4, 6], 0), ([8, 10, 12, 14], 0), ([16, 18, 0, 2], 2)],
            [([4, 6, 8, 10], 0), ([12, 14, 16, 18], 0)]]),
    (False, [[([0, 2, 4, 6], 0), ([8, 10, 12, 14], 0), ([16, 18, 12, 14], 2)]] * 2),
])
def test_csv(csv, round_batch, epochs):
    batches = io.CSVIter(**csv, round_batch=round_batch)
    assert batches.provide_data == [("data", (4, 2))] and batches.provide_label == [("softmax_label", (4,))]
    for epoch in epochs:
        seen = [(rows(batch), batch.pad, batch.label[0].asnumpy().tolist(), batch.index.tolist()) for batch in batches]
        assert [(data, pad) for data, pad, _, _ in seen] == epoch
        assert all([2 * i for i in index] == [2 * x for x in label] == data for data, _, label, index in seen)
        batches.reset()


def test_a_reset_within_the_prefetched_batches(csv):
    """Recorded from MXNet: the last batch was filled already, so the next epoch begins behind those rows."""
    for taken in (0, 1, 3):
        batches = io.CSVIter(**csv)
        for _ in range(taken):
            batches.next()
        batches.reset()
        assert [(rows(batch), batch.pad) for batch in batches] == [([4, 6, 8, 10], 0), ([12, 14, 16, 18], 0)]
    whole = io.CSVIter(**csv, round_batch=False)
    whole.reset()
    assert rows(whole.next()) == [0, 2, 4, 6]


@pytest.mark.parametrize("taken, first", [(1, 0), (2, 2)])  # recorded from MXNet: 16 batches are prefetched
def test_how_far_ahead_rows_are_read(tmp_path, taken, first):
    np.savetxt(tmp_path / "x.csv", np.arange(70), fmt="%d")
    batches = io.CSVIter(data_csv=str(tmp_path / "x.csv"), data_shape=(1,), batch_size=4)
    for _ in range(taken):
        batches.next()
    batches.reset()
    assert rows(batches.next())[0] == first


def test_csv_forms(csv):
    batch = io.CSVIter(**{**csv, "label_csv": "NULL", "data_shape": (1, 2), "dtype": "int64"}).next()
    assert batch.data[0].shape == (4, 1, 2) and batch.data[0].dtype == np.int64
    assert batch.label[0].asnumpy().tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(("text", "dtype", "rows"), [
    ("1,2,\n3,4,\n", "float32", [[1, 2], [3, 4]]), ("1,2,\r\n3,4\r\n", "int32", [[1, 2], [3, 4]]),
    ("1.000e+00,-2.5\n1.20e+01,4.0\n", "int64", [[1, -2], [12, 4]]),
    ("9007199254740993.0,2\n3,4\n", "int64", [[9007199254740993, 2], [3, 4]]),
    ("\ufeff1,2\n\n3,4", "float32", [[1, 2], [3, 4]])])
def test_csv_as_others_write_it(tmp_path, text, dtype, rows):
    path = tmp_path / "x.csv"
    path.write_text(text, encoding="utf-8")
    batch, = io.CSVIter(data_csv=str(path), data_shape=(2,), batch_size=2, dtype=dtype)
    assert batch.data[0].asnumpy().tolist() == rows and batch.data[0].dtype == np.dtype(dtype)


@pytest.mark.parametrize(("text", "said"), [
    ("1,,2\n", "''.*row 0, column 2"), ("nan,1\n", "'nan'.*int32"), ("1e999999999,1\n", "1e999999999"),
    ("1_0,2\n", "1_0"), ("3e9,1\n", "3e9.*int32"), ("1,2\n3\n", "changed from 2 to 1 at row 2"),
    ("", "it contains no rows")])
def test_csv_that_is_none(tmp_path, text, said):
    path = tmp_path / "x.csv"
    path.write_text(text)
    with pytest.raises(MXNetError, match=f"x.csv: .*{said}"):
        io.CSVIter(data_csv=str(path), data_shape=(2,), batch_size=1, dtype="int32")


def test_csv_mistakes(csv, tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(MXNetError, match="folder: the folder contains no files"):
        io.CSVIter(**{**csv, "data_csv": str(tmp_path / "folder")})
    with pytest.raises(MXNetError, match="nothing.csv"):
        io.CSVIter(**{**csv, "data_csv": str(tmp_path / "nothing.csv")})
    with pytest.raises(MXNetError, match="data.csv.*2 values.*shape"):
        io.CSVIter(**{**csv, "data_shape": (3,)})
    (tmp_path / "bad.csv").write_text("1,2\n3,x\n")
    with pytest.raises(MXNetError, match="bad.csv"):
        io.CSVIter(**{**csv, "data_csv": str(tmp_path / "bad.csv")})
    with pytest.raises(MXNetError, match="cannot be filled"):
        io.CSVIter(**{**csv, "batch_size": 21})


@pytest.fixture
def mnist(tmp_path):
    (tmp_path / "image").write_bytes(struct.pack(">4i", 2051, 10, 3, 2) + bytes(range(60)))
    (tmp_path / "label").write_bytes(struct.pack(">2i", 2049, 10) + bytes(range(10)))
    return {"image": str(tmp_path / "image"), "label": str(tmp_path / "label"), "batch_size": 4, "silent": True}


def test_mnist(mnist):
    batches = io.MNISTIter(**mnist, shuffle=False)
    seen = list(batches)
    assert len(seen) == 2 and seen[0].data[0].shape == (4, 1, 3, 2)
    np.testing.assert_array_equal(seen[1].data[0].asnumpy().ravel() * 256, np.arange(24, 48))
    assert seen[1].label[0].asnumpy().tolist() == [4, 5, 6, 7]
    recorded = {0: [0, 2, 3, 5, 9, 1, 6, 8, 4, 7], 7: [2, 4, 5, 3, 8, 7, 6, 1, 0, 9]}  # with MXNet
    for seed, order in recorded.items():
        batch = io.MNISTIter(**{**mnist, "batch_size": 10}, seed=seed).next()
        assert batch.label[0].asnumpy().tolist() == order
    flat = io.MNISTIter(**{**mnist, "batch_size": 3}, flat=True, shuffle=True, num_parts=3, part_index=1).next()
    assert flat.data[0].shape == (3, 6) and sorted(flat.label[0].asnumpy()) == [3, 4, 5]
    np.testing.assert_array_equal(flat.data[0].asnumpy()[:, 0] * 256, 6 * flat.label[0].asnumpy())


def test_logging_is_left_to_the_script(mnist, monkeypatch):
    """The root logger's first call would configure it, and the script's own `basicConfig` would do nothing."""
    monkeypatch.setattr(logging.root, "handlers", [])
    io.MNISTIter(**{**mnist, "silent": False})
    mx.sym.exp(mx.sym.var("a")).optimize_for("nothing")
    assert not logging.root.handlers


@pytest.mark.parametrize("damage", [lambda b: b[:10], lambda b: b[:-1], lambda b: b"\1" + b[1:]])
def test_mnist_damaged(mnist, damage):
    with open(mnist["image"], "r+b") as file:
        content = damage(file.read())
        file.seek(0)
        file.truncate()
        file.write(content)
    with pytest.raises(MXNetError, match="invalid MNIST file .*image"):
        io.MNISTIter(**mnist)


def test_batches_that_are_not_there():
    assert "data shapes: []" in str(mx.io.DataBatch(None))
    longer = mx.io.ResizeIter(mx.io.NDArrayIter(np.zeros((4, 2)), batch_size=2), 3)
    with pytest.raises(AttributeError, match="ResizeIter has no current batch"):
        longer.getdata()
    longer.next()
    assert longer.getdata()[0].shape == (2, 2)


def test_shuffled_sparse_data_keeps_its_rows():
    dense = np.diag(np.arange(1.0, 7))
    labels = np.arange(1, 7)
    batches = io.NDArrayIter(mx.nd.array(dense).tostype("csr"), labels, 3, shuffle=True, last_batch_handle="discard")
    seen = []
    for batch in batches:
        data, label = batch.data[0], batch.label[0].asnumpy()
        assert data.stype == "csr" and np.array_equal(data.asnumpy().sum(axis=1), label)
        seen += label.tolist()
    assert sorted(seen) == labels.tolist()


def test_own_iterator_of_four_methods():
    class Two(io.DataIter):
        at = -1

        def iter_next(self):
            self.at += 1
            return self.at < 2

        def getdata(self):
            return [mx.nd.full((1,), self.at)]

        def getlabel(self):
            return None

        def getpad(self):
            return 3

        def getindex(self):
            return [self.at]
    iterator = Two()
    assert iterator.batch_size == 0
    assert [(batch.data[0].asscalar(), batch.label, batch.pad, batch.index) for batch in iterator] == \
        [(0, None, 3, [0]), (1, None, 3, [1])]


def batches_of(data):
    return [(batch.data[0].asnumpy()[:, 0].tolist(), batch.pad) for batch in data]


@pytest.mark.parametrize("reset, second", [
    ("hard_reset", [([0, 2], 0), ([4, 6], 0)]), ("reset", [([8, 0], 1), ([2, 4], 0), ([6, 8], 0)])])
def test_what_is_left_of_an_epoch(reset, second):
    """With last_batch_handle="roll_over"; results of MXNet 1.9.1."""
    data = io.NDArrayIter(np.arange(10).reshape(5, 2), np.arange(5), 2, last_batch_handle="roll_over")
    assert batches_of(data) == [([0, 2], 0), ([4, 6], 0)]
    getattr(data, reset)()
    assert batches_of(data) == second


def test_a_hard_reset_shuffles():
    data = io.NDArrayIter(np.arange(64).reshape(64, 1), None, 64, shuffle=True)
    orders = []
    for _ in range(2):
        data.hard_reset()
        orders.append(batches_of(data)[0][0])
    assert orders[0] != orders[1] and sorted(orders[0]) == sorted(orders[1]) == list(range(64))


def test_sparse_and_named_data():
    sparse = mx.nd.ones((4, 2)).tostype("csr")
    with pytest.raises(NotImplementedError, match="only with last_batch_handle='discard'"):
        io.NDArrayIter(sparse, None, 2)
    batch = next(io.NDArrayIter(sparse, None, 2, last_batch_handle="discard"))
    assert batch.data[0].asnumpy().tolist() == [[1, 1], [1, 1]]
    named = io.NDArrayIter({"b": np.ones((4, 2)), "a": np.zeros((4, 1))}, None, 3, last_batch_handle="discard")
    assert [(d.name, d.shape) for d in named.provide_data] == [("a", (3, 1)), ("b", (3, 2))]
    assert [a.shape for a in named.data_list] == [(4, 1), (4, 2)]
    with pytest.raises(AssertionError, match="data: there is no array"):
        io.NDArrayIter([], None, 2)
