"""A factorization machine (Rendle 2010) on sparse rows: is a handwritten digit odd?

    python examples/sparse/factorization_machine.py [--epochs 10] [--factors 16]

Each row of a LibSVM file lists the pixels' levels. A linear model of them adds up evidence pixel by pixel; the
factorization machine also weighs pairs of them, by products of the rows of a factor matrix. A batch needs only those
rows of the weights whose columns it has: they are pulled from the kvstore before the batch, get a row_sparse
gradient, and are the only ones that the optimizer touches.
"""

from __future__ import annotations

import argparse
import os
import tempfile

import numpy as np
import pixels

import mxjax as mx

WIDTH = 64 * (pixels.LEVELS - 1)


def machine(factors: int) -> mx.sym.Symbol:
    """P(odd) = sigmoid(b + x w + (|x V|^2 - x^2 |V|^2) / 2), with x csr of WIDTH columns; w and V row_sparse."""
    x = mx.sym.Variable("data", stype="csr")
    w = mx.sym.Variable("w_weight", shape=(WIDTH, 1), stype="row_sparse")
    v = mx.sym.Variable("v_weight", shape=(WIDTH, factors), stype="row_sparse", init=mx.init.Normal(0.05))
    bias = mx.sym.Variable("bias", shape=(1,), init=mx.init.Zero())
    linear = mx.sym.broadcast_add(mx.sym.sparse.dot(x, w), bias)
    of_sums = mx.sym.sum(mx.sym.square(mx.sym.sparse.dot(x, v)), axis=1, keepdims=True)
    of_squares = mx.sym.sparse.dot(mx.sym.square(x), mx.sym._internal._square_sum(v, axis=1, keepdims=True))
    return mx.sym.LogisticRegressionOutput(linear + 0.5 * (of_sums - of_squares), mx.sym.Variable("label"))


def batches(path: str, rows: tuple[np.ndarray, np.ndarray]) -> mx.io.DataIter:
    """csr batches of (levels, labels), by way of a file."""
    pixels.write_libsvm(path, pixels.one_hot(rows[0], pixels.LEVELS), rows[1])
    return mx.io.LibSVMIter(data_libsvm=path, data_shape=(WIDTH,), batch_size=64, label_name="label")


def needed(batch: mx.io.DataBatch) -> dict[str, mx.nd.NDArray]:
    """The rows of the weights that a batch uses."""
    return {name: batch.data[0].indices for name in ("w_weight", "v_weight")}


def main() -> None:
    """Trains; compares the accuracy with a linear model's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--factors", type=int, default=16)
    arguments = parser.parse_args()
    mx.random.seed(0)
    sets = [(levels, labels % 2) for levels, labels in pixels.digits()]
    baseline = pixels.linear_accuracy(*sets)
    metric = mx.metric.np(lambda label, said: np.mean((said[:, 0] > 0.5) == label), name="accuracy")
    with tempfile.TemporaryDirectory() as folder:
        train, test = [batches(os.path.join(folder, f"{i}.libsvm"), rows) for i, rows in enumerate(sets)]
        module = mx.mod.Module(machine(arguments.factors), data_names=["data"], label_names=["label"])
        module.bind(data_shapes=train.provide_data, label_shapes=train.provide_label)
        module.init_params(mx.init.Normal(0.01))
        module.init_optimizer(kvstore=mx.kv.create("local"), optimizer="adam",
                              optimizer_params={"learning_rate": 0.02})
        reached = pixels.fit(module, train, test, metric, needed, arguments.epochs)
    print(f"factorization machine {reached:.3f}, linear model {baseline:.3f}")
    if reached < baseline + 0.01:
        raise SystemExit("pairs of pixels did not help")


if __name__ == "__main__":
    main()
