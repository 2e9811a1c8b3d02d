"""UCI's handwritten digits as sparse data: five levels of brightness, their one-hot columns, files of those."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

LEVELS = 5


def digits() -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """(levels, labels) for training and test: levels (n, 64) of 0 to 4, labels 0 to 9; whole batches of 64."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split
    data = load_digits()
    levels = np.ceil(data.data * (LEVELS - 1) / 16).astype(np.int64)
    x_train, x_test, y_train, y_test = train_test_split(levels, data.target, train_size=21 * 64, test_size=7 * 64,
                                                        random_state=0, stratify=data.target)
    return (x_train, y_train), (x_test, y_test)


def one_hot(numbers: np.ndarray, count: int) -> list[np.ndarray]:
    """Numbers (n, m) below `count`, of which 0 is left out, as columns of n rows of m * (count - 1)."""
    return [np.flatnonzero(row) * (count - 1) + row[row > 0] - 1 for row in numbers]


def write_libsvm(path: str, rows: list[np.ndarray], labels: np.ndarray) -> None:
    """A file in LibSVM's format: a line "label column:1 column:1 ..." for each row."""
    with open(path, "w", encoding="ascii") as file:
        for row, label in zip(rows, labels):  # noqa: B905  (MXNet's Python does not know strict=)
            file.write(" ".join([str(label), *(f"{column}:1" for column in row)]) + "\n")


def linear_accuracy(train: tuple[np.ndarray, np.ndarray], test: tuple[np.ndarray, np.ndarray]) -> float:
    """The baseline: test accuracy of scikit-learn's ridge classifier on the levels' one-hot columns."""
    from sklearn.linear_model import RidgeClassifier
    columns = [(levels[:, :, None] == np.arange(1, LEVELS)).reshape(len(levels), -1) for levels, _ in (train, test)]
    return RidgeClassifier().fit(columns[0], train[1]).score(columns[1], test[1])


def fit(module: Any, train: Any, test: Any, metric: Any, needed: Callable[[Any], dict], epochs: int) -> float:
    """Trains a bound module; returns its test accuracy. needed(batch) -> the rows of its weights that a batch uses."""
    for epoch in range(epochs):
        train.reset()
        for batch in train:
            module.prepare(batch, sparse_row_id_fn=needed)
            module.forward_backward(batch)
            module.update()
        (_, reached), = module.score(test, metric, sparse_row_id_fn=needed)
        print(f"epoch {epoch}: test accuracy {reached:.3f}")
    return reached
