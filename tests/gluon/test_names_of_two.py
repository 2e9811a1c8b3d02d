"""Names of MXNet 2 that only add: layers and cells out of contrib, batchify, transforms, lists of images."""

import cv2
import numpy as np
import pytest

import mxjax as mx
from mxjax.gluon import contrib, nn, rnn
from mxjax.gluon.data import batchify, vision
from mxjax.gluon.data.vision import transforms


def test_what_was_contribs():
    """The classes are those of contrib, also under the paths that they had there."""
    for old, new in [(contrib.nn, nn), (contrib.cnn, nn), (contrib.rnn, rnn), (contrib.nn.basic_layers, nn),
                     (contrib.rnn.rnn_cell, rnn)]:
        for name in set(old.__all__) - {"Concurrent", "HybridConcurrent", "SparseEmbedding", "conv_layers"}:
            assert getattr(new, name) is getattr(old, name), name
    assert mx.amp is mx.contrib.amp
    assert mx.gluon.data.IntervalSampler is contrib.data.IntervalSampler


@pytest.mark.parametrize("kind", [nn.Concatenate, nn.HybridConcatenate])
def test_side_by_side(kind):
    net = kind(axis=1)
    net.add(nn.Identity(), nn.SiLU())
    x = np.array([[-1, 0.5]], "float32")
    expected = np.concatenate([x, x / (1 + np.exp(-x))], axis=1)
    np.testing.assert_allclose(net(mx.nd.array(x)).asnumpy(), expected, rtol=1e-6)
    if kind is nn.HybridConcatenate:
        net.hybridize()
        np.testing.assert_allclose(net(mx.nd.array(x)).asnumpy(), expected, rtol=1e-6)


# function, samples, dtype and values of MXNet 2.0.0b1
BATCHES = {
    "stack numbers": (batchify.Stack(), [1.0, 2.5], "float64", [1, 2.5]),
    "stack arrays": (batchify.Stack(), [np.ones(2, "int8"), np.zeros(2, "int8")], "int8", [[1, 1], [0, 0]]),
    "stack NDArrays": (batchify.Stack(), [mx.nd.array([1, 2]), mx.nd.array([3, 4])], "float32", [[1, 2], [3, 4]]),
    "pad": (batchify.Pad(), [[1, 2, 3], [4]], "int64", [[1, 2, 3], [4, 0, 0]]),
    "pad with": (batchify.Pad(val=-1.5, dtype="float16", round_to=4), [[1, 2, 3], [4]], "float16",
                 [[1, 2, 3, -1.5], [4, -1.5, -1.5, -1.5]]),
    "pad axes": (batchify.Pad(), [np.ones((1, 2), "int32"), np.ones((2, 1), "int32")], "int32",
                 [[[1, 1], [0, 0]], [[1, 0], [1, 0]]]),
}


@pytest.mark.parametrize("row", BATCHES.values(), ids=BATCHES)
def test_batches(row):
    fn, samples, dtype, expected = row
    batch = fn(samples)
    assert type(batch) is mx.nd.NDArray and batch.dtype == np.dtype(dtype)
    assert batch.asnumpy().tolist() == expected
    with mx.util.np_array(True):
        assert type(fn([np.ones(1)])) is mx.np.ndarray


def test_parts_of_samples():
    both = batchify.Group(batchify.Stack(), batchify.Pad())([(1, [1, 2]), (2, [3])])
    assert type(both) is tuple and [x.asnumpy().tolist() for x in both] == [[1, 2], [[1, 2], [3, 0]]]
    first, (second, third) = batchify.Stack()([(1, [1, 2]), (2, [3, 4])])
    assert [x.asnumpy().tolist() for x in (first, second, third)] == [[1, 2], [1, 3], [2, 4]]
    assert batchify.Group([batchify.AsList()])([("a",), ("b",)]) == (["a", "b"],)
    assert [x.shape for x in batchify.Append(batch_axis=1)([[1, 2, 3], mx.nd.ones((1,))])] == [(3, 1), (1, 1)]
    assert [x.shape for x in batchify.Append(expand=False)([[1, 2, 3], [1]])] == [(3,), (1,)]


def test_batches_of_processes():
    data = mx.gluon.data.SimpleDataset([([1, 2, 3], 0), ([4], 1)])
    fn = batchify.Group(batchify.Pad(), batchify.Stack())
    for x, y in mx.gluon.data.DataLoader(data, batch_size=2, batchify_fn=fn, num_workers=1):
        assert x.asnumpy().tolist() == [[1, 2, 3], [4, 0, 0]] and y.asnumpy().tolist() == [0, 1]


@pytest.mark.parametrize("call, error, message", [
    (lambda: batchify.Pad()([(1,), (2,)]), NotImplementedError, "Group"),
    (lambda: batchify.Pad()([[1], []]), AssertionError, "empty"),
    (lambda: batchify.Group(3), AssertionError, "a int"),
    (lambda: batchify.Group([batchify.Stack()], batchify.Pad()), AssertionError, "not both"),
    (lambda: batchify.Group(batchify.Stack(), batchify.Pad())([(1,)]), AssertionError, "1 parts, but there are 2"),
    (lambda: transforms.HybridCompose([transforms.Compose([])]), ValueError, "Compose"),
    (lambda: vision.ImageListDataset(imglist=3), ValueError, "int"),
    (lambda: vision.ImageListDataset(imglist=[["a.png"]]), ValueError, "entry 0"),
])
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_pad_warns_once_of_arrays():
    pad = batchify.Pad()
    with pytest.warns(UserWarning, match="slower"):
        pad([mx.nd.array([1, 2]), mx.nd.array([3])])
    pad([mx.nd.array([1, 2]), mx.nd.array([3])])


def test_lists_of_images(tmp_path):
    for i in range(2):
        cv2.imwrite(str(tmp_path / f"{i}.png"), np.full((2, 3, 3), 100 * i, "uint8"))
    (tmp_path / "list").write_text("0\t3\t0.png\n1\t4\t5\t1.png\n")
    listed = vision.ImageListDataset(str(tmp_path), "list")
    written = vision.ImageListDataset(str(tmp_path), [[3, "0.png"], [[4, 5], "1.png"]], flag=0)
    for data in (listed, written):
        assert len(data) == 2 and [data[i][1].asnumpy().tolist() for i in range(2)] == [[3], [4, 5]]
        assert (data[1][0].asnumpy() == 100).all() and data[0][1].dtype == np.float32
    assert listed[0][0].shape == (2, 3, 3) and written[0][0].shape == (2, 3, 1)
