"""Data as other libraries have it: frames and series, dicts and named tuples, streams."""

import collections

import numpy as np
import pytest

import mxjax as mx
from mxjax.gluon import data

Point = collections.namedtuple("Point", ["x", "name"])
KINDS = [{}, {"num_workers": 2, "thread_pool": True}, {"num_workers": 2}]


class Numbers:
    """A stream of 0, 1, ...; `fails` is raised at its end."""

    def __init__(self, length, fails=None):
        self.length, self.fails = length, fails

    def __iter__(self):
        yield from range(self.length)
        if self.fails:
            raise self.fails


def rounds(loader):
    return [batch.asnumpy().tolist() for batch in loader]


@pytest.mark.parametrize("options", KINDS)
def test_dicts_named_tuples_and_texts(options):
    samples = [{"ids": [i, i + 1], "text": f"word {i}", "deep": {"x": np.float32(i)}, "raw": b"%d" % i}
               for i in range(3)]
    first, last = data.DataLoader(samples, 2, **options)
    assert list(first) == ["ids", "text", "deep", "raw"] and first["text"] == ["word 0", "word 1"]
    assert first["ids"].asnumpy().tolist() == [[0, 1], [1, 2]] and first["raw"] == [b"0", b"1"]
    assert last["deep"]["x"].asnumpy().tolist() == [2] and last["deep"]["x"].dtype == np.float32
    points, = data.DataLoader([Point(mx.nd.ones(2), "a"), Point(mx.nd.zeros(2), "b")], 2, pin_memory=True, **options)
    assert isinstance(points, Point) and points.name == ["a", "b"]
    assert points.x.asnumpy().tolist() == [[1, 1], [0, 0]] and points.x.context.device_type == "cpu_pinned"


@pytest.mark.parametrize("options", KINDS)
def test_streams(options):
    loader = data.DataLoader(Numbers(5), 2, **options)
    for _ in range(2):
        assert rounds(loader) == [[0, 1], [2, 3], [4]]
    for batch in loader:  # an abandoned round is no part of the next one
        assert batch.asnumpy().tolist() == [0, 1]
        break
    assert rounds(loader) == [[0, 1], [2, 3], [4]]
    assert rounds(data.DataLoader(Numbers(5), 2, last_batch="discard", **options)) == [[0, 1], [2, 3]]
    assert rounds(data.DataLoader(Numbers(4), 2, auto_reload=True, **options)) == [[0, 1], [2, 3]]
    assert rounds(data.DataLoader(Numbers(0), 2, **options)) == []
    with pytest.raises(TypeError, match="number of batches of an iterable data set is unknown"):
        len(loader)


@pytest.mark.parametrize("options", KINDS)
def test_streams_are_resumed(options):
    loader = data.DataLoader(Numbers(7), 2, **options)
    batches = iter(loader)
    for _ in range(2):
        next(batches)
    state = loader.state_dict()
    resumed = data.DataLoader(Numbers(7), 2)
    resumed.load_state_dict(state)
    assert rounds(resumed) == rounds(batches) == [[4, 5], [6]]
    assert rounds(resumed)[0] == [0, 1] and loader.state_dict()["sampler"]["position"] == 0
    with pytest.raises(ValueError, match="batch_size"):
        data.DataLoader(Numbers(7), 3).load_state_dict(state)


@pytest.mark.parametrize("options", KINDS)
def test_a_stream_that_fails_has_not_ended(options):
    batches = iter(data.DataLoader(Numbers(3, KeyError("shard 7")), 2, **options))
    assert next(batches).asnumpy().tolist() == [0, 1]
    with pytest.raises(KeyError, match="shard 7"):
        next(batches)


def test_what_a_stream_cannot_do():
    for wrong in ({"shuffle": True}, {"sampler": data.SequentialSampler(3)}):
        with pytest.raises(ValueError, match="Numbers is an iterable data set, which defines its own order"):
            data.DataLoader(Numbers(3), 2, **wrong)
    with pytest.raises(ValueError, match="last_batch must be 'keep' or 'discard', got 'rollover'"):
        data.DataLoader(Numbers(3), 2, last_batch="rollover")
    with pytest.raises(ValueError, match="batch_size must be specified"):
        data.DataLoader(Numbers(3))
    once = data.DataLoader((i for i in range(3)), 2)
    assert rounds(once) == [[0, 1], [2]]
    with pytest.raises(TypeError, match="generator is an iterator, which can be consumed only once"):
        list(once)


def test_a_class_with_an_idle_getitem_is_a_stream():
    class IterableDataset(Numbers):
        def __getitem__(self, index):
            raise NotImplementedError
    assert rounds(data.DataLoader(IterableDataset(3), 2)) == [[0, 1], [2]]


def frames():
    values = {"b": [1, 2, 3], "a": [0.5, 1.5, 2.5], "text": ["x", "y", "z"]}
    made = []
    for library, make in (("pandas", lambda m: m.DataFrame(values, index=[7, 0, 1])),
                          ("polars", lambda m: m.DataFrame(values)), ("pyarrow", lambda m: m.table(values)),
                          ("pyarrow", lambda m: m.RecordBatch.from_pydict(values))):
        made.append(pytest.param(library, make, id=f"{library}{len(made)}"))
    return made


@pytest.mark.parametrize("library, make", frames())
def test_frames_by_columns(library, make):
    frame = make(pytest.importorskip(library))
    samples = data.ArrayDataset(frame, [9, 8, 7])
    assert len(samples) == 3 and samples[0] == (1, 0.5, "x", 9) and samples[2] == (3, 2.5, "z", 7)
    batch, = data.DataLoader(samples, 3)
    assert batch[0].asnumpy().tolist() == [1, 2, 3] and batch[2] == ["x", "y", "z"] and batch[0].dtype == np.int64
    take = frame.column if library == "pyarrow" else frame.__getitem__
    assert data.ArrayDataset(take("b"))[0] == 1  # by position, whatever an index says
    numbers = frame.select(["b", "a"]) if library != "pandas" else frame[["b", "a"]]
    batches = mx.io.NDArrayIter(numbers, take("a"), batch_size=3)
    assert [(d.name, d.shape) for d in batches.provide_data] == [("a", (3,)), ("b", (3,))]
    assert [d.name for d in batches.provide_label] == ["softmax_label"]
    batch = next(batches)
    assert batch.data[1].asnumpy().tolist() == [1, 2, 3] and batch.data[1].dtype == np.float32
    assert batch.label[0].asnumpy().tolist() == [0.5, 1.5, 2.5]
    with pytest.raises(TypeError, match="text must be"):
        mx.io.NDArrayIter(frame)


def test_missing_numbers_lists_and_names():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    arrow = pytest.importorskip("pyarrow")
    for series in (pandas.Series([1, None], dtype="Int64"), polars.Series([1, None]), arrow.array([1, None]),
                   arrow.chunked_array([[1], [None]])):
        first, second = mx.io.NDArrayIter(series, batch_size=2).data[0][1].asnumpy()
        assert first == 1 and np.isnan(second)
    lists = [[1, 2], [3, 4]]
    for series in (pandas.Series(lists), polars.Series(lists), arrow.array(lists)):
        assert data.ArrayDataset(series)[1].tolist() == [3, 4]
        assert mx.io.NDArrayIter({"x": series}, batch_size=2).provide_data[0].shape == (2, 2)
    with pytest.raises(ValueError, match="several columns have the same name"):
        mx.io.NDArrayIter(pandas.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(TypeError, match="collect"):
        data.ArrayDataset(polars.LazyFrame({"a": [1]}))
    with pytest.raises(ValueError, match="the frame has no columns"):
        data.ArrayDataset(pandas.DataFrame())
