"""The data of these examples: real, small, and there without a download."""

from __future__ import annotations

import numpy as np


def digits() -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """(images, labels) for training and test: UCI's handwritten digits, images (n, 1, 8, 8) float32 in [0, 1]."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split
    data = load_digits()
    images = (data.images / 16.0).astype(np.float32)[:, None]
    x_train, x_test, y_train, y_test = train_test_split(images, data.target.astype(np.float32), test_size=0.25,
                                                        random_state=0, stratify=data.target)
    return (x_train, y_train), (x_test, y_test)


def english() -> list[str]:
    """The words of Python's language reference, which every Python brings along."""
    import re
    from pydoc_data.topics import topics
    text = "\n".join(topics[name] for name in sorted(topics))
    return re.findall(r"[a-z]+|[.,:;()]", text.lower())
