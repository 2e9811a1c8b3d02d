"""Interleaved attention products against separate projections."""

import numpy as np
import pytest
from opcall import call

from mxjax.base import MXNetError

RNG = np.random.default_rng(0)
TIME, SOURCE, BATCH, HEADS, SIZE = 3, 4, 2, 2, 5


def _scores(q, k):
    return np.stack([q[:, n, h] @ k[:, n, h].T / SIZE ** 0.5 for n in range(BATCH) for h in range(HEADS)])


def _weighted(attention, v):
    out = [attention[n * HEADS + h] @ v[:, n, h] for n in range(BATCH) for h in range(HEADS)]
    return np.stack(out).reshape(BATCH, HEADS, -1, SIZE).transpose(2, 0, 1, 3).reshape(-1, BATCH, HEADS * SIZE)


def test_self_attention():
    x = RNG.normal(size=(TIME, BATCH, HEADS, 3, SIZE)).astype("float32")
    flat = x.reshape(TIME, BATCH, -1)
    scores = call("_contrib_interleaved_matmul_selfatt_qk", flat, heads=HEADS)
    np.testing.assert_allclose(scores, _scores(x[..., 0, :], x[..., 1, :]), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(call("_contrib_interleaved_matmul_selfatt_valatt", flat, scores, heads=HEADS),
                               _weighted(scores, x[..., 2, :]), rtol=1e-5, atol=1e-5)
    with pytest.raises(MXNetError, match="7 heads"):
        call("_contrib_interleaved_matmul_selfatt_qk", flat, heads=7)


def test_encoder_decoder_attention():
    q = RNG.normal(size=(TIME, BATCH, HEADS, SIZE)).astype("float32")
    kv = RNG.normal(size=(SOURCE, BATCH, HEADS, 2, SIZE)).astype("float32")
    flat = kv.reshape(SOURCE, BATCH, -1)
    scores = call("_contrib_interleaved_matmul_encdec_qk", q.reshape(TIME, BATCH, -1), flat, heads=HEADS)
    np.testing.assert_allclose(scores, _scores(q, kv[..., 0, :]), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(call("_contrib_interleaved_matmul_encdec_valatt", flat, scores, heads=HEADS),
                               _weighted(scores, kv[..., 1, :]), rtol=1e-5, atol=1e-5)
