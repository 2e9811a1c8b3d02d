"""Tests of SVRGModule, DataLoaderIter and the TensorBoard callback."""

import numpy as np
import pytest

import mxjax as mx
from mxjax.contrib.io import DataLoaderIter
from mxjax.contrib.svrg_optimization.svrg_module import SVRGModule

from ..internals import executors_of


def regression():
    data = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=1, name="fc")
    return mx.sym.LinearRegressionOutput(data, mx.sym.Variable("label"), name="out")


def batches():
    x = np.random.RandomState(0).rand(20, 2).astype(np.float32)
    return mx.io.NDArrayIter(x, x @ [1, 2], 5, label_name="label")


def test_corrected_gradients():
    data = batches()
    module = SVRGModule(regression(), label_names=["label"], update_freq=1)
    module.bind(data.provide_data, data.provide_label)
    module.init_params(mx.init.Constant(0.1))
    module.init_optimizer(optimizer_params={"learning_rate": 0.1})
    module.update_full_grads(data)
    data.reset()
    batch = next(data)
    x, y = batch.data[0].asnumpy(), batch.label[0].asnumpy()

    def gradient(w, x, y):
        return ((x @ w - y)[:, None] * x).sum(axis=0)
    old, new = np.full(2, 0.1), np.array([0.5, -0.5])
    module.set_params({"fc_weight": mx.nd.array(new[None]), "fc_bias": mx.nd.array([0])}, {})
    module.forward_backward(batch)
    module.update()
    all_x = data.data[0][1].asnumpy()
    full = gradient(old, all_x, all_x @ [1, 2]) / 4
    found = dict(zip(executors_of(module).param_names, executors_of(module).grad_arrays, strict=True))["fc_weight"][0]
    np.testing.assert_allclose(found.asnumpy()[0], gradient(new, x, y) - gradient(old, x, y) + full, rtol=1e-4)


@pytest.mark.parametrize("options", [{}, {"context": [mx.cpu(0), mx.cpu(1)]}])
def test_fit(options):
    data = batches()
    module = SVRGModule(regression(), label_names=["label"], update_freq=2, **options)
    module.fit(data, eval_metric="mse", num_epoch=40, optimizer_params={"learning_rate": 0.5},
               initializer=mx.init.Zero())
    np.testing.assert_allclose(module.get_params()[0]["fc_weight"].asnumpy(), [[1, 2]], atol=0.15)


def test_fit_resets_the_data_as_often_as_mxnet():
    class Counted(mx.io.NDArrayIter):
        resets = 0

        def reset(self):
            self.resets += 1
            super().reset()
    data = Counted(np.ones((4, 2)), np.ones(4), 2, label_name="label")
    data.resets = 0
    SVRGModule(regression(), label_names=["label"], update_freq=2).fit(data, eval_metric="mse", num_epoch=3)
    assert data.resets == 5  # each reset of a shuffling iterator is another order


def test_reshape():
    """Results of MXNet 1.9.1 for weights of 1, labels of 1 and a batch of 4 after binding for 2."""
    module, x = SVRGModule(regression(), label_names=["label"], update_freq=2), np.arange(12).reshape(4, 3)
    data = mx.io.NDArrayIter(x.astype("float32"), np.ones((4, 1), "float32"), 4, label_name="label")
    for act in (lambda: module.forward(next(data)), module.backward, lambda: module.update_full_grads(data)):
        with pytest.raises(AssertionError, match="SVRGModule: call bind"):
            act()
    module.bind([("data", (2, 3))], [("label", (2, 1))])
    module.init_params(mx.init.One())
    module.init_optimizer()
    module.reshape(data.provide_data, data.provide_label)
    module.update_full_grads(data)
    data.reset()
    module.forward_backward(next(data))
    module.update()
    assert module.get_outputs()[0].asnumpy().tolist() == [[3], [12], [21], [30]]
    np.testing.assert_allclose(module.get_params()[0]["fc_weight"].asnumpy(), [[-1.07, -1.38, -1.69]], rtol=1e-5)


def test_bad_frequencies():
    with pytest.raises(TypeError, match="integer"):
        SVRGModule(regression(), label_names=["label"], update_freq=None)
    with pytest.raises(ValueError, match="positive"):
        SVRGModule(regression(), label_names=["label"], update_freq=0)


def test_loader_as_iterator():
    loader = mx.gluon.data.DataLoader(mx.gluon.data.ArrayDataset(np.arange(6).reshape(3, 2), np.arange(3)), 2)
    batches = DataLoaderIter(loader)
    assert batches.provide_data[0].shape == (2, 2) and batches.batch_size == 2
    for _ in range(2):
        first, second = batches
        assert first.data[0].dtype == np.float32 and first.pad == 0
        assert second.pad == 1 and second.data[0].asnumpy().tolist() == [[4, 5], [0, 0]]
        batches.reset()


def test_metrics_for_tensorboard(monkeypatch):
    written = []

    class SummaryWriter:
        def __init__(self, folder):
            self.folder = folder

        def add_scalar(self, name, value, global_step):
            written.append((self.folder, name, value, global_step))

        def flush(self):
            written.append("flush")
    module = type(mx)("tensorboardX")
    module.SummaryWriter = SummaryWriter
    monkeypatch.setitem(__import__("sys").modules, "tensorboardX", module)
    from mxjax.contrib.tensorboard import LogMetricsCallback
    metric = mx.metric.create("acc")
    metric.update([mx.nd.array([1])], [mx.nd.array([[0, 1]])])
    callback = LogMetricsCallback("logs", prefix="train")
    callback(mx.model.BatchEndParam(2, 5, metric, None))
    callback(mx.model.BatchEndParam(2, 5, None, None))
    assert written == [("logs", "train-accuracy", 1.0, 2), "flush"]


def test_event_files_are_read_while_the_writer_is_open(tmp_path):
    pytest.importorskip("tensorboardX")
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    from mxjax.contrib.tensorboard import LogMetricsCallback
    metric = mx.metric.create("acc")
    metric.update([mx.nd.array([1])], [mx.nd.array([[0, 1]])])
    LogMetricsCallback(str(tmp_path), prefix="train")(mx.model.BatchEndParam(2, 5, metric, None))
    found = events.EventAccumulator(str(tmp_path)).Reload()
    assert [(e.step, e.value) for e in found.Scalars("train-accuracy")] == [(2, 1.0)]


def test_missing_tensorboard_is_named(monkeypatch):
    from mxjax.contrib.tensorboard import LogMetricsCallback
    for name in ("tensorboardX", "mxboard"):
        monkeypatch.setitem(__import__("sys").modules, name, None)
    with pytest.raises(mx.MXNetError, match=r"pip install 'mxjax\[tensorboard\]'"):
        LogMetricsCallback("logs")
