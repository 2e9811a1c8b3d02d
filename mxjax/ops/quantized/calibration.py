"""Calibration: the threshold at which a histogram loses least information when values beyond it are cut off."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...base import MXNetError
from ..common import Array
from ..registry import register
from .conversion import need, types

_LEAST = np.float32(0.0001)  # value of an empty bin before normalization
_AT_ONCE = 64  # thresholds whose levels are computed together: more would take memory, fewer would take time


@register("_contrib_calibrate_entropy", num_outputs=2, output_names=lambda p: ["threshold", "divergence"], eager=True,
          FPartialShape=lambda p, *_: (1,),
          infer_type=types("float32", "calibrate_entropy", {"hist": "float32"}, hist=("float32",),
                           hist_edges=("float32",)))
def calibrate_entropy(hist: Array, hist_edges: Array, *,
                      num_quantized_bins: int = 255) -> tuple[np.ndarray, np.ndarray]:
    """The threshold at which cutting off a histogram loses least information (Kullback-Leibler divergence).

    hist: (bins,) counts, symmetric around zero; hist_edges: (bins + 1,) edges of the bins -> threshold (1,),
    divergence (1,).
    """
    need("calibrate_entropy", ("float32",), hist=hist, hist_edges=hist_edges)
    bins = len(hist)
    if len(hist_edges) != bins + 1:
        raise MXNetError(f"operator calibrate_entropy: {bins} bins must have {bins + 1} edges, got {len(hist_edges)}")
    if not 0 < num_quantized_bins <= bins:
        raise MXNetError(f"operator calibrate_entropy: num_quantized_bins={num_quantized_bins} must be from 1 to the "
                         f"number of bins, {bins}")
    with np.errstate(all="ignore"):
        result = np.fromiter(_divergences(np.asarray(hist), num_quantized_bins), np.float32)
    if np.isnan(result).any():
        raise MXNetError("operator calibrate_entropy: hist must contain nonnegative integer counts; some counts are "
                         "smaller than the share that empty bins receive")
    best = int(np.argmin(result))
    edge = min(bins // 2 + num_quantized_bins // 2 + best + 1, bins)
    return np.asarray(hist_edges)[edge:edge + 1], result[best:best + 1]


def _divergences(hist: np.ndarray, levels: int) -> Iterator[np.float32]:
    """The divergence for each number of bins on either side of the middle one, from levels // 2 on.

    All sums go in float32 from the first bin to the last, as MXNet's do: thresholds next to each other lose so nearly
    the same that the roundings decide between them.
    """
    bins, middle = len(hist), len(hist) // 2
    empty = hist == 0
    whole = np.floor(hist).astype(np.int64)
    totals, filled, marked = (np.append(0, np.cumsum(v)) for v in (whole, whole != 0, ~empty))
    counts = np.append(0.0, np.cumsum(hist, dtype=np.float64))
    steps = np.arange(levels + 1)
    p, q, absent = np.empty(bins, np.float32), np.empty(bins, np.float32), np.empty(bins, bool)
    for first in range(levels // 2, middle + 1, _AT_ONCE):
        halves = np.arange(first, min(first + _AT_ONCE, middle + 1))
        starts, stops = middle - halves, np.minimum(middle + halves + 1, bins)
        widths = (stops - starts) // levels
        bounds = starts[:, None] + widths[:, None] * steps
        bounds[:, -1] = stops
        there = np.diff(marked[bounds])  # bins with something, by level
        bounds[:, 0] += 1  # values that are cut off count for the first bin in p only
        means = np.diff(totals[bounds]).astype(np.float32)
        means /= np.maximum(np.diff(filled[bounds]), 1).astype(np.float32)
        for start, stop, width, mean, present in zip(starts, stops, widths, means, there, strict=True):
            n = stop - start
            fine, coarse, none = p[:n], q[:n], absent[:n]
            fine[:], none[:] = hist[start:stop], empty[start:stop]
            fine[0], fine[-1] = counts[start + 1], counts[bins] - counts[stop - 1]
            for level, end in ((0, 0), (-1, -1)):
                present[level] += none[end]
                none[end] = fine[end] == 0
                present[level] -= none[end]
            taken, taken_coarse = (_taken(n, some) for some in (present.sum(), present[mean != 0].sum()))
            if taken is None or taken_coarse is None:
                yield np.float32(np.inf)
                continue
            mean = np.where(mean == 0, _LEAST, mean - taken_coarse)
            coarse[:levels * width].reshape(levels, width)[:] = mean[:, None]
            coarse[levels * width:] = mean[-1]
            fine -= taken
            fine[none] = coarse[none] = _LEAST
            fine /= np.add.accumulate(fine)[-1]
            coarse /= np.add.accumulate(coarse)[-1]
            np.log(np.divide(fine, coarse, out=coarse), out=coarse)
            coarse *= fine
            yield np.add.accumulate(coarse)[-1]


def _taken(bins: int, some: int) -> np.float32 | None:
    """Returns the share that each bin with counts gives to empty ones; None if they have not enough."""
    if some == 0:
        return None
    taken = _LEAST * np.float32(bins - some) / np.float32(some)
    return taken if taken < 1 else None
