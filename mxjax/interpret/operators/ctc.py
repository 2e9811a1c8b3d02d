"""Connectionist temporal classification, forward and backward in time (Graves et al., ICML 2006)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..direct import Work, need, numpy_form
from ..program import Array

__all__: list[str] = []

_NEVER = -1e30  # the logarithm of 0, finite as in the operator's formula
_STEP = 1e4  # elements that could be computed in the time of one step's calls


class _Alignments(NamedTuple):
    """The alignments of labels with data.

    Attributes:
        log_p: (time, batch, alphabet) logarithms of the classes' probabilities.
        states: (batch, states) classes: blank, label 0, blank, label 1, ..., blank.
        emitted: (time, batch, states) logarithms of the states' probabilities.
        skips: (batch, states) whether a state may follow the last but one.
        alpha: (time, batch, states) logarithms of the sums over all beginnings.
        times, lengths: (batch,) lengths of data and labels.
        total: (batch,) logarithms of the sums over all alignments.
        possible: (batch,) whether the data are long enough.
    """

    log_p: Array
    states: Array
    emitted: Array
    skips: Array
    alpha: Array
    times: Array
    lengths: Array
    total: Array
    possible: Array


def _delayed(values: Array, by: int) -> Array:
    result = np.full_like(values, _NEVER)
    result[:, by:] = values[:, :values.shape[1] - by]
    return result


def _hastened(values: Array, by: int) -> Array:
    result = np.full_like(values, _NEVER)
    result[:, :values.shape[1] - by] = values[:, by:]
    return result


def _whole(numbers: Array, least: int, most: int) -> Array:
    """Returns numbers as integers within limits; other numbers have no form."""
    need(((numbers >= least) & (numbers <= most)).all())
    return numbers.astype(np.int32)


def _lengths(p: dict[str, Any], label: Array, padding: int, steps: int, rest: Sequence[Array]) -> tuple[Array, Array]:
    given = iter(rest)
    times = _whole(next(given), 1, steps) if p["use_data_lengths"] else np.full(len(label), steps, np.int32)
    if p["use_label_lengths"]:
        return times, _whole(next(given), 0, label.shape[1])
    return times, np.cumprod(label != padding, axis=1).sum(1, dtype=np.int32)


def _alignments(p: dict[str, Any], data: Array, label: Array, *rest: Array) -> _Alignments:
    need(data.ndim == 3 and label.ndim == 2 and data.shape[1] == len(label) and data.dtype in (np.float32, np.float64))
    (steps, batch, alphabet), width = data.shape, label.shape[1]
    need(batch and alphabet and 0 < width <= steps and len(rest) == p["use_data_lengths"] + p["use_label_lengths"])
    blank, padding = (0, 0) if p["blank_label"] == "first" else (alphabet - 1, -1)
    label = _whole(label, -1, alphabet - 1)
    times, lengths = _lengths(p, label, padding, steps, rest)

    states = np.full((batch, 2 * width + 1), blank)
    states[:, 1::2] = np.maximum(label, 0)  # padding is never reached
    same = label[:, 1:] == label[:, :-1]
    skips = np.zeros(states.shape, bool)
    skips[:, 3::2] = ~same
    log_p = np.where((np.arange(steps)[:, None] < times)[..., None], data, 0)
    log_p -= log_p.max(-1, keepdims=True)
    log_p -= np.log(np.exp(log_p).sum(-1, keepdims=True))
    emitted = np.take_along_axis(log_p, states[None], 2)

    alpha = np.empty_like(emitted)
    alpha[0] = np.where(np.arange(states.shape[1]) < 2, emitted[0], _NEVER)
    for t in range(1, steps):
        before = alpha[t - 1]
        following = np.logaddexp(before, _delayed(before, 1))
        following = np.logaddexp(following, np.where(skips, _delayed(before, 2), _NEVER))
        alpha[t] = np.where((t < times)[:, None], following + emitted[t], before)
    rows = np.arange(batch)
    total, other = alpha[-1, rows, 2 * lengths], alpha[-1, rows, np.maximum(2 * lengths - 1, 0)]
    total = np.where(lengths > 0, np.logaddexp(total, other), total)
    repeats = (same & (np.arange(1, width) < lengths[:, None])).sum(1)
    return _Alignments(log_p, states, emitted, skips, alpha, times, lengths, total, lengths + repeats <= times)


def _slope(p: dict[str, Any], out_grads: Sequence[Any], needs_grad: Sequence[bool], data: Array,
           *rest: Array) -> list[Any]:
    """Returns the gradient of the data: each class's probability, less its share in all alignments."""
    need(needs_grad[0] and not any(needs_grad[1:]))
    a = _alignments(p, data, *rest)
    steps, batch, _ = data.shape
    places = np.arange(a.states.shape[1])
    ends = (places == 2 * a.lengths[:, None]) | (places == 2 * a.lengths[:, None] - 1)
    last = np.where(ends, 0, _NEVER).astype(data.dtype)
    grad = np.exp(a.log_p)
    beta = last  # logarithms of the sums over all ends
    allowed = _hastened(a.skips.astype(data.dtype), 2) > 0  # whether a state may be left for the next but one
    for t in range(steps - 1, -1, -1):
        if t < steps - 1:
            now = beta + a.emitted[t + 1]
            before = np.logaddexp(np.logaddexp(now, _hastened(now, 1)), np.where(allowed, _hastened(now, 2), _NEVER))
            beta = np.where((t < a.times - 1)[:, None], before, last)
        share = np.exp(np.minimum(a.alpha[t] + beta - a.total[:, None], 0))
        np.subtract.at(grad[t], (np.arange(batch)[:, None], a.states), share)
    inside = (np.arange(steps)[:, None] < a.times) & a.possible
    return [np.where(inside[..., None], grad * out_grads[0][:, None], 0).astype(data.dtype), *[None] * len(rest)]


def _work(p: dict[str, Any], data: tuple, label: tuple, *rest: tuple) -> Work:
    steps, batch, alphabet = data
    return Work(steps * (_STEP + batch * (10.0 * alphabet + 100.0 * label[-1])), operations=80.0)


@numpy_form("CTCLoss", backward=_slope, work=_work, mixed=True)
def _ctc_loss(p: dict[str, Any], data: Array, label: Array, *rest: Array) -> Any:
    a = _alignments(p, data, label, *rest)
    return np.where(a.possible, -a.total, 0).astype(data.dtype)
