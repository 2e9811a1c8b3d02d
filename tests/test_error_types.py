"""The types of errors that scripts catch, beside MXNet's."""

import numpy as np
import pytest

import mxjax as mx


def _ended():
    batches = mx.io.NDArrayIter(np.ones((2, 1)))
    list(batches)
    return batches


def _row_of_a_sparse_array():
    mx.nd.sparse.row_sparse_array(([[1, 2.0]], [1]), shape=(3, 2))[1] = mx.nd.ones((1, 2))


@pytest.mark.parametrize("kind, call", [
    (AssertionError, lambda: mx.init.Load({"arg:a": mx.nd.ones(2)})("b", mx.nd.ones(2))),
    (AssertionError, lambda: mx.init.Load({"arg:a": mx.nd.ones(2)})("a", mx.nd.ones(3))),
    (AssertionError, lambda: mx.optimizer.contrib.GroupAdaGrad().create_state(0, mx.nd.ones(2))),
    (TypeError, lambda: mx.sym.var("a") + np.ones(2)),
    (TypeError, lambda: np.ones(2) + mx.sym.var("a")),
    (TypeError, lambda: mx.sym.var("a") + "x"),
    (TypeError, _row_of_a_sparse_array),
    (mx.MXNetError, lambda: mx.nd.zeros(2, foo=1)),
    (mx.MXNetError, lambda: mx.nd.load("nowhere")),
    (ValueError, lambda: mx.optimizer.create("foo")),
    (AssertionError, lambda: mx.metric.create("foo")),
    (KeyError, lambda: mx.Context("foo")),
    (TypeError, lambda: mx.cpu("1")),
    (TypeError, lambda: mx.nd.ones(4).reshape((2.0, 2))),
    (TypeError, lambda: mx.nd.ones(4).reshape("a")),
    (AssertionError, lambda: mx.nd.ones(4).reshape(shape=None)),
    (mx.MXNetError, lambda: mx.nd.ones(4).reshape((-1, -1))),
    (mx.MXNetError, lambda: mx.nd.cast_storage(mx.nd.ones((2, 2)).tostype("csr"), "row_sparse")),
    (ValueError, lambda: mx.nd.ones((2, 2)).tostype("csr").tostype("row_sparse")),
    (TypeError, lambda: mx.gluon.nn.BatchNorm(fuse_relu=True)),
    (AssertionError, lambda: mx.mod.Module(mx.sym.var("data") * 2, label_names=None).forward(None)),
    (AssertionError, lambda: mx.rnn.LSTMCell(3).unroll(2, mx.sym.Group([mx.sym.var("a"), mx.sym.var("b")]))),
    (AssertionError, lambda: mx.rnn.LSTMCell(3).unroll(2, None)),
    (AssertionError, lambda: mx.rnn.ZoneoutCell(mx.rnn.LSTMCell(3), 0.1).base_cell.begin_state()),
    (AssertionError, lambda: mx.rnn.FusedRNNCell(3).unroll(2, mx.sym.var("a"), layout="NCT")),
    (AssertionError, lambda: mx.rnn.DropoutCell("a")),
    (AssertionError, lambda: mx.mod.SequentialModule().bind([("data", (2, 3))])),
    (AssertionError, lambda: mx.mod.PythonLossModule(grad_func=3)),
    (AssertionError, lambda: mx.mod.PythonModule(["a"], ["b"], ["c"]).bind([("x", (2,))])),
    (AssertionError, lambda: mx.io.PrefetchingIter([])),
    (AssertionError, lambda: _ended().getdata()),
    (AssertionError, lambda: mx.image.DetRandomPadAug(pad_val="a")),
    (AssertionError, lambda: mx.image.DetRandomCropAug(area_range="a")),
    (AssertionError, lambda: mx.optimizer.SGD().update(0, 3, mx.nd.ones(1), None)),
    (AssertionError, lambda: mx.optimizer.Adam().update(0, mx.nd.ones(1), 3, None)),
    (AssertionError, lambda: mx.optimizer.register(3)),
    (AssertionError, lambda: mx.init.Load(3)),
    (AssertionError, lambda: mx.lr_scheduler.CosineScheduler(3, warmup_steps=1.5)),
    (AssertionError, lambda: mx.metric.CrossEntropy().update([mx.nd.ones(2)], [mx.nd.ones((3, 2))])),
    (AssertionError, lambda: mx.metric.Perplexity(0).update([mx.nd.ones(2)], [mx.nd.ones((3, 2))])),
    (mx.MXNetError, lambda: mx.metric.Accuracy().update([mx.nd.ones(2)], [mx.nd.ones(3)])),
    (AssertionError, lambda: mx.autograd.mark_variables(mx.nd.ones(2), 3)),
    (AssertionError, lambda: mx.autograd.get_symbol(3)),
    (AssertionError, lambda: mx.kv.create("local").init([1, "a"], [mx.nd.ones(1)] * 2)),
    (AssertionError, lambda: mx.nd.concat(mx.nd.ones(2), np.ones(2))),
    (AssertionError, lambda: mx.nd.stack(mx.nd.ones(2), None)),
    (AssertionError, lambda: mx.nd.add_n(mx.nd.ones(2), 3)),
    (AssertionError, lambda: mx.np.concatenate([mx.np.ones(2), np.ones(2)])),
    (TypeError, lambda: mx.np.concatenate([mx.np.ones(2), 3])),
    (TypeError, lambda: mx.sym.var("a").bind(3, {})),
    (TypeError, lambda: (mx.sym.var("a") + mx.sym.var("b")).eval(b=3)),
])
def test_kinds(kind, call):
    with pytest.raises(kind):
        call()


def test_numpy_numbers_and_symbols():
    a = mx.sym.var("a")
    for product in (np.float32(2) * a, a * np.float32(2), np.int64(2) * a):
        assert product.eval(a=mx.nd.array([3]))[0].asscalar() == 6
