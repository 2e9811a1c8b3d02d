"""The tutorial on custom operators: softmax with its loss in plain NumPy, training a network on handwritten digits.

    python examples/operators/softmax_customop.py

First as CustomOp, then in the oldest form, NumpyOp. Both run in the engine's threads; the network before and after
them is compiled.
"""

from __future__ import annotations

import numpy as np
from checks import check
from sklearn.datasets import load_digits

import mxjax as mx


def softmax(x: np.ndarray) -> np.ndarray:
    """Rows that add up to 1."""
    y = np.exp(x - x.max(axis=1, keepdims=True))
    return y / y.sum(axis=1, keepdims=True)


def softmax_gradient(y: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Gradient of the cross-entropy with respect to what went into the softmax."""
    grad = y.copy()
    grad[np.arange(len(label)), label.astype(int)] -= 1
    return grad


class Softmax(mx.operator.CustomOp):
    """Softmax forwards, gradient of the cross-entropy backwards."""

    def forward(self, is_train: bool, req: list, in_data: list, out_data: list, aux: list) -> None:
        self.assign(out_data[0], req[0], mx.nd.array(softmax(in_data[0].asnumpy())))

    def backward(self, req: list, out_grad: list, in_data: list, out_data: list, in_grad: list, aux: list) -> None:
        grad = softmax_gradient(out_data[0].asnumpy(), in_data[1].asnumpy())
        self.assign(in_grad[0], req[0], mx.nd.array(grad))


@mx.operator.register("tutorial_softmax")
class SoftmaxProp(mx.operator.CustomOpProp):
    """What the library has to know about it."""

    def __init__(self) -> None:
        super().__init__(need_top_grad=False)   # a loss: the gradient starts here

    def list_arguments(self) -> list[str]:
        return ["data", "label"]

    def infer_shape(self, in_shape: list) -> tuple:
        return [in_shape[0], in_shape[0][:1]], [in_shape[0]], []

    def create_operator(self, ctx: mx.Context, shapes: list, dtypes: list) -> mx.operator.CustomOp:
        return Softmax()


class NumpySoftmax(mx.operator.NumpyOp):
    """The same in the oldest form: one object, NumPy arrays in and out."""

    def __init__(self) -> None:
        super().__init__(need_top_grad=False)

    def list_arguments(self) -> list[str]:
        return ["data", "label"]

    def infer_shape(self, in_shape: list) -> tuple:
        return [in_shape[0], in_shape[0][:1]], [in_shape[0]]

    def forward(self, in_data: list, out_data: list) -> None:
        out_data[0][:] = softmax(in_data[0])

    def backward(self, out_grad: list, in_data: list, out_data: list, in_grad: list) -> None:
        in_grad[0][:] = softmax_gradient(out_data[0], in_data[1])


def mlp() -> mx.sym.Symbol:
    """Two layers, without the loss."""
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=64, name="fc1")
    return mx.sym.FullyConnected(mx.sym.Activation(net, act_type="relu"), num_hidden=10, name="fc2")


def train(net: mx.sym.Symbol, epochs: int = 8) -> tuple[float, dict[str, np.ndarray]]:
    """Trains on the digits; returns the accuracy on unseen ones and the parameters."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))  # the last ones were written by other people
    images, labels = (digits.data[order] / 16).astype("float32"), digits.target[order].astype("float32")
    mx.random.seed(1)
    module = mx.mod.Module(net)
    module.fit(mx.io.NDArrayIter(images[:1400], labels[:1400], 50), num_epoch=epochs, initializer=mx.init.Xavier(),
               optimizer_params={"learning_rate": 0.05, "momentum": 0.9})
    accuracy = module.score(mx.io.NDArrayIter(images[1400:], labels[1400:], 50), "acc")[0][1]
    return accuracy, {name: value.asnumpy() for name, value in module.get_params()[0].items()}


def main() -> None:
    x = np.random.default_rng(0).normal(size=(4, 3)).astype("float32")
    data, label = mx.nd.array(x), mx.nd.array([0, 2, 1, 1])
    data.attach_grad()
    with mx.autograd.record():
        y = mx.nd.Custom(data, label, op_type="tutorial_softmax")
    y.backward()
    check("mx.nd.Custom: forward", y, softmax(x))
    check("mx.nd.Custom: gradient", data.grad, softmax_gradient(softmax(x), label.asnumpy()))

    accuracy, params = train(mx.sym.Custom(mlp(), name="softmax", op_type="tutorial_softmax"))
    check(f"CustomOp in a trained network: {accuracy:.1%} of unseen digits right (more than 93 %)",
          accuracy > 0.93, True)
    numpy_op = NumpySoftmax()
    legacy, legacy_params = train(numpy_op(data=mlp(), name="softmax"))
    builtin, builtin_params = train(mx.sym.SoftmaxOutput(mlp(), name="softmax"))
    check("NumpyOp: the same accuracy", legacy, accuracy)
    for name in params:
        check(f"NumpyOp: the same {name}", mx.nd.array(legacy_params[name]), params[name], 1e-4)
        check(f"the built-in SoftmaxOutput: {name}", mx.nd.array(builtin_params[name]), params[name], 1e-2)


if __name__ == "__main__":
    main()
