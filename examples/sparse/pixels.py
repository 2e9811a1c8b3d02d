"""UCI's handwritten digits as sparse data: each pixel's brightness in five levels, those above the lowest one-hot."""

from __future__ import annotations

import numpy as np

LEVELS = 5
COLUMNS = 64 * (LEVELS - 1)  # of the one-hot rows


def digits() -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """(levels, labels) for training and test: levels (n, 64) of 0 to 4, labels 0 to 9."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split
    data = load_digits()
    levels = np.ceil(data.data * (LEVELS - 1) / 16).astype(np.int64)
    x_train, x_test, y_train, y_test = train_test_split(levels, data.target, test_size=0.25, random_state=0,
                                                        stratify=data.target)
    return (x_train, y_train), (x_test, y_test)


def columns(levels: np.ndarray) -> list[np.ndarray]:
    """The numbers of the columns that are 1, for each row of levels."""
    return [np.flatnonzero(row) * (LEVELS - 1) + row[row > 0] - 1 for row in levels]


def write_libsvm(path: str, rows: list[np.ndarray], labels: np.ndarray) -> None:
    """A file in LibSVM's format: a line "label column:1 column:1 ..." for each row."""
    with open(path, "w", encoding="ascii") as file:
        for row, label in zip(rows, labels):  # noqa: B905  (runs under MXNet's older Pythons, too)
            file.write(" ".join([str(label), *(f"{column}:1" for column in row)]) + "\n")


def linear_accuracy(train: tuple[np.ndarray, np.ndarray], test: tuple[np.ndarray, np.ndarray]) -> float:
    """The baseline: test accuracy of scikit-learn's logistic regression on the same one-hot columns."""
    from sklearn.linear_model import LogisticRegression
    one_hot = [(levels[:, :, None] == np.arange(1, LEVELS)).reshape(len(levels), -1) for levels, _ in (train, test)]
    return LogisticRegression(max_iter=1000).fit(one_hot[0], train[1]).score(one_hot[1], test[1])
