"""CTC loss against the sum over all alignments."""

import itertools

import numpy as np
import pytest
import scipy.special as special
from opcall import call, gradients

from mxjax.base import MXNetError

DATA = np.random.default_rng(0).normal(size=(4, 3, 3)).astype("float32")


def _loss(log_p, label, blank):
    """-log of the probability of all paths that collapse to `label`."""
    paths = []
    for path in itertools.product(range(log_p.shape[1]), repeat=len(log_p)):
        collapsed = [c for c, before in zip(path, (None, *path), strict=False) if c != before and c != blank]
        if collapsed == list(label):
            paths.append(sum(log_p[t, c] for t, c in enumerate(path)))
    return -special.logsumexp(paths) if paths else 0.0


@pytest.mark.parametrize("blank_label, blank, labels, padded", [
    ("first", 0, [[1], [2, 2], [1, 2]], [[1, 0], [2, 2], [1, 2]]),
    ("last", 2, [[0, 1], [], [1, 1]], [[0, 1], [-1, -1], [1, 1]])])
def test_sum_over_alignments(blank_label, blank, labels, padded):
    log_p = special.log_softmax(DATA, axis=-1)
    wanted = [_loss(log_p[:, i], labels[i], blank) for i in range(3)]
    np.testing.assert_allclose(call("CTCLoss", DATA, np.float32(padded), blank_label=blank_label), wanted, rtol=1e-5)
    slope = gradients("CTCLoss", DATA, np.float32(padded), blank_label=blank_label)[0]
    np.testing.assert_allclose(slope.sum(-1), 0, atol=1e-5)
    step = np.zeros_like(DATA)
    step[1, 1, 1] = 1e-2
    change = [call("CTCLoss", DATA + s, np.float32(padded), blank_label=blank_label)[1] for s in (step, -step)]
    np.testing.assert_allclose(slope[1, 1, 1], (change[0] - change[1]) / 2e-2, rtol=1e-2, atol=1e-3)


def test_lengths():
    label = np.float32([[1, 2], [1, 2], [2, 2]])
    times, lengths = np.float32([4, 3, 2]), np.float32([2, 1, 2])
    log_p = special.log_softmax(DATA, axis=-1)
    both = call("ctc_loss", DATA, label, times, lengths, use_data_lengths=True, use_label_lengths=True)
    np.testing.assert_allclose(both, [_loss(log_p[:int(t), i], label[i, :int(n)], 0)
                                      for i, (t, n) in enumerate(zip(times, lengths, strict=True))], rtol=1e-5)
    assert both[2] == 0, "2 2 needs three steps"
    only = call("ctc_loss", DATA, label, lengths, use_label_lengths=True)
    np.testing.assert_allclose(only[1], _loss(log_p[:, 1], [1], 0), rtol=1e-5)


def test_labels_longer_than_data():
    with pytest.raises(MXNetError, match="require at least as many steps"):
        call("CTCLoss", DATA, np.ones((3, 5), "float32"))
