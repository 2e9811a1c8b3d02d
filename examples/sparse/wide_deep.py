"""A wide & deep classifier (arXiv:1606.07792) of handwritten digits: a sparse linear model and a small network, summed.

    python examples/sparse/wide_deep.py [--epochs 6]

Wide: what levels two neighbouring pixels have, one-hot in csr rows, times a row_sparse weight of which a batch pulls
only the rows it uses. Deep: an embedding of each pixel's level, with a row_sparse gradient, and dense layers on it.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator

import numpy as np
import pixels

import mxjax as mx

PAIRS = pixels.LEVELS ** 2
WIDTH = 2 * 56 * (PAIRS - 1)


def classifier() -> mx.sym.Symbol:
    """Probabilities of the digits, from csr rows of WIDTH columns and (n, 64) numbers of pixels' levels."""
    wide = mx.sym.sparse.dot(mx.sym.Variable("crossed", stype="csr"),
                             mx.sym.Variable("wide_weight", shape=(WIDTH, 10), stype="row_sparse", init=mx.init.Zero()))
    found = mx.sym.Embedding(mx.sym.Variable("levels"), mx.sym.Variable("embedding_weight"), sparse_grad=True,
                             input_dim=64 * pixels.LEVELS, output_dim=4)
    hidden = mx.sym.Activation(mx.sym.FullyConnected(mx.sym.flatten(found), num_hidden=64), act_type="relu")
    return mx.sym.SoftmaxOutput(wide + mx.sym.FullyConnected(hidden, num_hidden=10), name="softmax")


def crossed(levels: np.ndarray) -> np.ndarray:
    """What levels the pixels of each neighbouring pair have: (n, 112) numbers below PAIRS."""
    image = levels.reshape(-1, 8, 8)
    right = image[:, :, :-1] * pixels.LEVELS + image[:, :, 1:]
    below = image[:, :-1] * pixels.LEVELS + image[:, 1:]
    return np.concatenate([right.reshape(-1, 56), below.reshape(-1, 56)], axis=1)


class Batches:
    """Batches of both kinds of data: csr rows read from a file, and dense numbers.

    Args:
        path: where the file is written.
        rows: (levels, labels).
    """

    def __init__(self, path: str, rows: tuple[np.ndarray, np.ndarray]) -> None:
        levels, labels = rows
        pixels.write_libsvm(path, pixels.one_hot(crossed(levels), PAIRS), labels)
        self.wide = mx.io.LibSVMIter(data_libsvm=path, data_shape=(WIDTH,), batch_size=64, data_name="crossed")
        self.deep = mx.io.NDArrayIter({"levels": np.arange(64) * pixels.LEVELS + levels}, labels, batch_size=64)

    def reset(self) -> None:
        """Back to the first batch."""
        self.wide.reset()
        self.deep.reset()

    def __iter__(self) -> Iterator[mx.io.DataBatch]:
        for wide, deep in zip(self.wide, self.deep):  # noqa: B905  (MXNet's Python does not know strict=)
            yield mx.io.DataBatch([*wide.data, *deep.data], deep.label)


def needed(batch: mx.io.DataBatch) -> dict[str, mx.nd.NDArray]:
    """The rows of the wide weight that a batch uses."""
    return {"wide_weight": batch.data[0].indices}


def main() -> None:
    """Trains; compares the accuracy with a linear model's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    arguments = parser.parse_args()
    mx.random.seed(0)
    sets = pixels.digits()
    baseline = pixels.linear_accuracy(*sets)
    with tempfile.TemporaryDirectory() as folder:
        train, test = [Batches(os.path.join(folder, f"{i}.libsvm"), rows) for i, rows in enumerate(sets)]
        module = mx.mod.Module(classifier(), data_names=["crossed", "levels"])
        module.bind(data_shapes=[*train.wide.provide_data, *train.deep.provide_data],
                    label_shapes=train.deep.provide_label)
        module.init_params(mx.init.Xavier())
        module.init_optimizer(kvstore=mx.kv.create("local"), optimizer="adagrad",
                              optimizer_params={"learning_rate": 0.05})
        reached = pixels.fit(module, train, test, "acc", needed, arguments.epochs)
    print(f"wide & deep {reached:.3f}, linear model {baseline:.3f}")
    if reached < baseline + 0.01:
        raise SystemExit("neither the pairs nor the network helped")


if __name__ == "__main__":
    main()
