"""Examples of classes whose docstrings have none: a few lines by kind, run when the site is built."""

import inspect
from collections.abc import Callable
from typing import Any

# arguments where a class does not do without
_ARGUMENTS = {"gluon.nn.DeformableConvolution": "2, kernel_size=3, padding=1",
              "gluon.nn.ModulatedDeformableConvolution": "2, kernel_size=3, padding=1",
              "init.Constant": "0.5", "metric.Perplexity": "ignore_label=None", "metric.TopKAccuracy": "top_k=2",
              "init.LSTMBias": "forget_bias=1.0"}
_NUMBERS = ("MAE", "MSE", "RMSE", "PearsonCorrelation")  # of numbers, not of classes
_INITIALIZED = {"Bilinear": ((1, 1, 4, 4), "weight"), "LSTMBias": ((4,), "weight"),
                "Orthogonal": ((2, 2), "weight")}
_OWN = {
    "gluon.nn.HybridConcatenate": """\
net = mx.gluon.nn.HybridConcatenate(axis=1)
net.add(mx.gluon.nn.Identity(), mx.gluon.nn.HybridLambda("negative"))
print(net(mx.nd.array([[1.0, 2.0]])).asnumpy())""",
    "gluon.loss.Loss": """\
class Distance(mx.gluon.loss.Loss):
    def hybrid_forward(self, F, pred, label):
        return F.abs(pred - label)

print(Distance(1.0, batch_axis=0)(mx.nd.array([1.0, 2.0]), mx.nd.array([1.5, 2.0])).asnumpy())""",
    "gluon.rnn.RecurrentCell": """\
cell = mx.gluon.rnn.RNNCell(2, input_size=3)  # a RecurrentCell
cell.initialize()
outputs, states = cell.unroll(4, mx.nd.ones((1, 4, 3)), layout="NTC", merge_outputs=True)
print(outputs.shape, [state.shape for state in states])""",
    "lr_scheduler.LRScheduler": """\
class Halved(mx.lr_scheduler.LRScheduler):
    def __call__(self, num_update):
        return self.base_lr / 2 ** (num_update // 100)

print([Halved(base_lr=0.1)(n) for n in (0, 100, 200)])""",
    "metric.CompositeEvalMetric": """\
metric = mx.metric.CompositeEvalMetric([mx.metric.Accuracy(), mx.metric.F1()])
metric.update([mx.nd.array([0, 1, 1])], [mx.nd.array([[0.3, 0.7], [0.1, 0.9], [0.2, 0.8]])])
print(metric.get())""",
    "metric.CustomMetric": """\
metric = mx.metric.CustomMetric(lambda label, pred: abs(label - pred).max(), name="worst")
metric.update([mx.nd.array([0, 1])], [mx.nd.array([0.5, 0.75])])
print(metric.get())""",
    "metric.EvalMetric": """\
class Largest(mx.metric.EvalMetric):
    def update(self, labels, preds):
        self.sum_metric = max(self.sum_metric, *(pred.max().asscalar() for pred in preds))
        self.num_inst = 1

metric = Largest("largest")
metric.update([], [mx.nd.array([1.0, 3.0])])
print(metric.get())""",
    "metric.PCC": """\
metric = mx.metric.PCC()
metric.update([mx.nd.array([0, 1, 2])], [mx.nd.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.6, 0.1, 0.3]])])
print(metric.get())""",
    "io.DataBatch": """\
batch = mx.io.DataBatch(data=[mx.nd.ones((2, 3))], label=[mx.nd.zeros((2,))], pad=0)
print(batch.data[0].shape, batch.label[0].shape, batch.pad)""",
    "io.DataIter": """\
class Ones(mx.io.DataIter):
    provide_data, provide_label = [mx.io.DataDesc("data", (2, 3))], []

    def __init__(self):
        super().__init__(batch_size=2)
        self.left = 2

    def next(self):
        if not self.left:
            raise StopIteration
        self.left -= 1
        return mx.io.DataBatch([mx.nd.ones((2, 3))], [], pad=0)

print([batch.data[0].shape for batch in Ones()])""",
    "io.CSVIter": """\
with open("data.csv", "w") as file:
    file.write("1,2\\n3,4\\n5,6\\n7,8\\n")
batches = mx.io.CSVIter(data_csv="data.csv", data_shape=(2,), batch_size=2)
print([batch.data[0].asnumpy().tolist() for batch in batches])""",
    "io.LibSVMIter": """\
with open("data.libsvm", "w") as file:
    file.write("1 0:0.5 2:1.5\\n0 1:2.0\\n")
batches = mx.io.LibSVMIter(data_libsvm="data.libsvm", data_shape=(3,), batch_size=2)
batch = next(iter(batches))
print(batch.data[0].asnumpy().tolist(), batch.label[0].asnumpy().tolist())""",
    "io.ImageRecordIter": """\
import numpy as np

writer = mx.recordio.MXIndexedRecordIO("images.idx", "images.rec", "w")
for i in range(4):
    picture = np.full((32, 32, 3), 60 * i, np.uint8)
    writer.write_idx(i, mx.recordio.pack_img(mx.recordio.IRHeader(0, float(i), i, 0), picture, img_fmt=".jpg"))
writer.close()
batches = mx.io.ImageRecordIter(path_imgrec="images.rec", data_shape=(3, 28, 28), batch_size=2)
print([(batch.data[0].shape, batch.label[0].asnumpy().tolist()) for batch in batches])""",
}


def example(path: str, name: str, value: Any) -> str:
    """Returns code that shows a class or function of a module, "" where there is no kind that it is of."""
    own = _OWN.get(f"{path}.{name}")
    if name.startswith("ImageRecord") and not name.endswith("_v1"):
        own = _OWN["io.ImageRecordIter"].replace("io.ImageRecordIter", f"io.{name}")
    made = _KINDS.get(path)
    if own is not None or made is None or not inspect.isclass(value):
        return own or ""
    return made(name, f"mx.{path}.{name}({_ARGUMENTS.get(f'{path}.{name}', '')})")


def _layer(name: str, call: str) -> str:
    if "Convolution" not in name:
        return ""
    return f"layer = {call}\nlayer.initialize()\nprint(layer(mx.nd.ones((1, 3, 5, 5))).shape)"


def _optimizer(name: str, call: str) -> str:
    if name in ("Optimizer", "Test", "Optax", "Updater"):
        return ""
    call, values = call.replace("()", "(learning_rate=0.1)"), ("[1.0, 2.0]", "[0.5, -0.5]")
    if name == "GroupAdaGrad":  # a learning rate for each row
        values = ("[[1.0], [2.0]]", "[[0.5], [-0.5]]")
    return ("mx.random.seed(0)\n" * (name == "SGLD") +
            f"weight, gradient = mx.nd.array({values[0]}), mx.nd.array({values[1]})\n"
            f"update = mx.optimizer.get_updater({call})\n"
            "for _ in range(2):\n    update(0, gradient, weight)\nprint(weight.asnumpy())")


def _metric(name: str, call: str) -> str:
    if name in ("Loss", "Torch", "Caffe"):
        return f"metric = {call}\nmetric.update(None, [mx.nd.array([0.5, 1.5])])\nprint(metric.get())"
    given = ("[mx.nd.array([1, 2, 3])], [mx.nd.array([1.5, 2, 2.5])]" if name in _NUMBERS else
             "[mx.nd.array([0, 1, 1])], [mx.nd.array([[0.3, 0.7], [0.1, 0.9], [0.2, 0.8]])]")
    return f"metric = {call}\nmetric.update({given})\nprint(metric.get())"


def _initializer(name: str, call: str) -> str:
    if name in ("Initializer", "InitDesc", "Load", "FusedRNN", "RNNFused", "Mixed"):
        return ""
    shape, kind = _INITIALIZED.get(name, ((2, 3), "weight"))
    return (f"mx.random.seed(0)\nvalues = mx.nd.zeros({shape})\n"
            f"{call}(mx.init.InitDesc(\"{kind}\"), values)\nprint(values.asnumpy())")


_KINDS: dict[str, Callable[[str, str], str]] = {
    "gluon.nn": _layer, "optimizer": _optimizer, "metric": _metric, "init": _initializer}
