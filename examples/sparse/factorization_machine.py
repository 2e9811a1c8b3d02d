"""A factorization machine (Rendle 2010) on sparse rows: is a handwritten digit odd?

    python examples/sparse/factorization_machine.py [--epochs 10] [--factors 16] [--optimizer adam]

Each row of a LibSVM file lists the pixels' levels. A linear model of them adds up evidence pixel by pixel; the
factorization machine also weighs pairs of them, by products of the rows of a factor matrix. A batch needs only those
rows of the weights whose columns it has: they are pulled from the kvstore before the batch, get a row_sparse
gradient, and are the only ones that the optimizer touches.
"""

from __future__ import annotations

import argparse
import os
import tempfile

import pixels

import mxjax as mx


def machine(width: int, factors: int) -> mx.sym.Symbol:
    """P(odd) = sigmoid(b + x w + (|x V|^2 - x^2 |V|^2) / 2), with x csr of `width` columns; w and V row_sparse."""
    x = mx.sym.Variable("data", stype="csr")
    w = mx.sym.Variable("w_weight", shape=(width, 1), stype="row_sparse")
    v = mx.sym.Variable("v_weight", shape=(width, factors), stype="row_sparse", init=mx.init.Normal(0.05))
    bias = mx.sym.Variable("bias", shape=(1,), init=mx.init.Zero())
    linear = mx.sym.broadcast_add(mx.sym.sparse.dot(x, w), bias)
    of_sums = mx.sym.sum(mx.sym.square(mx.sym.sparse.dot(x, v)), axis=1, keepdims=True)
    of_squares = mx.sym.sparse.dot(mx.sym.square(x), mx.sym._internal._square_sum(v, axis=1, keepdims=True))
    return mx.sym.LogisticRegressionOutput(linear + 0.5 * (of_sums - of_squares), mx.sym.Variable("label"))


def batches(path: str, size: int) -> mx.io.DataIter:
    """The file's rows as csr batches."""
    return mx.io.LibSVMIter(data_libsvm=path, data_shape=(pixels.COLUMNS,), batch_size=size, label_name="label")


def needed(batch: mx.io.DataBatch) -> dict[str, mx.nd.NDArray]:
    """The rows of the weights that a batch uses."""
    return {name: batch.data[0].indices for name in ("w_weight", "v_weight")}


def accuracy(module: mx.mod.Module, data: mx.io.DataIter) -> float:
    """How often the answer that is thought likelier is right."""
    right = total = 0
    data.reset()
    for batch in data:
        module.prepare(batch, sparse_row_id_fn=needed)
        module.forward(batch, is_train=False)
        count = batch.label[0].shape[0] - batch.pad
        said = module.get_outputs()[0].asnumpy()[:count, 0] > 0.5
        right, total = right + (said == (batch.label[0].asnumpy()[:count] == 1)).sum(), total + count
    return right / total


def main() -> None:
    """Trains; compares the accuracy with a linear model's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--factors", type=int, default=16)
    parser.add_argument("--optimizer", default="adam", choices=["adam", "adagrad", "ftrl", "sgd"])
    arguments = parser.parse_args()
    mx.random.seed(0)
    sets = [(levels, labels % 2) for levels, labels in pixels.digits()]
    baseline = pixels.linear_accuracy(*sets)
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, name) for name in ("train.libsvm", "test.libsvm")]
        for path, (levels, labels) in zip(paths, sets):  # noqa: B905
            pixels.write_libsvm(path, pixels.columns(levels), labels)
        train, test = batches(paths[0], 64), batches(paths[1], 64)
        module = mx.mod.Module(machine(pixels.COLUMNS, arguments.factors), data_names=["data"], label_names=["label"])
        module.bind(data_shapes=train.provide_data, label_shapes=train.provide_label)
        module.init_params(mx.init.Normal(0.01))
        module.init_optimizer(kvstore=mx.kv.create("local"), optimizer=arguments.optimizer,
                              optimizer_params={"learning_rate": 0.02, "rescale_grad": 1 / 64})
        for epoch in range(arguments.epochs):
            train.reset()
            for batch in train:
                module.prepare(batch, sparse_row_id_fn=needed)
                module.forward_backward(batch)
                module.update()
            print(f"epoch {epoch}: test accuracy {accuracy(module, test):.3f}")
    reached = accuracy(module, test)
    print(f"factorization machine {reached:.3f}, linear model {baseline:.3f}")
    if reached < baseline + 0.03:
        raise SystemExit("pairs of pixels did not help")


if __name__ == "__main__":
    main()
