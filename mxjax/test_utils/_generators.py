"""Statistical tests of random number generators."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np


def gen_buckets_probs_with_ppf(ppf: Callable[[float], float], nbuckets: int) -> tuple[list, list]:
    """Returns buckets of equal probability from the inverse of the cumulative distribution function."""
    edges = [ppf(i / nbuckets) for i in range(nbuckets + 1)]
    return list(zip(edges[:-1], edges[1:], strict=True)), [1.0 / nbuckets] * nbuckets


def mean_check(generator: Callable, mu: float, sigma: float, nsamples: int = 1000000) -> bool:
    """Returns whether the mean of samples is within the central limit theorem's 99.7 % interval."""
    samples = np.array(generator(nsamples))
    return bool(mu - 3 * sigma / np.sqrt(nsamples) < samples.mean() < mu + 3 * sigma / np.sqrt(nsamples))


def var_check(generator: Callable, sigma: float, nsamples: int = 1000000) -> bool:
    """Returns whether the variance of samples is within its expected range."""
    samples = np.array(generator(nsamples))
    spread = 5 * np.sqrt(2 * sigma**4 / (nsamples - 1))
    return bool(sigma**2 - spread < samples.var(ddof=1) < sigma**2 + spread)


def chi_square_check(generator: Callable, buckets: Sequence, probs: Sequence[float],
                     nsamples: int = 1000000) -> tuple[float, np.ndarray, np.ndarray]:
    """Returns (p-value, observed counts, expected counts) of a chi-square test of samples.

    Args:
        generator: function generator(n) that returns n samples.
        buckets: values, or (low, high) pairs.
        probs: their probabilities.
        nsamples: number of samples to draw.
    """
    import scipy.stats as stats
    if not buckets:
        raise AssertionError("there are no buckets")
    samples = np.asarray(generator(nsamples)).reshape(-1)
    expected = np.asarray(probs, np.float64) * nsamples  # SciPy wants the sums to agree to 1e-8
    if isinstance(buckets[0], (list, tuple)):
        edges = np.array([b[0] for b in buckets] + [buckets[-1][1]], dtype=np.float64)
        place = np.searchsorted(edges, samples, side="right") - 1
        observed = np.bincount(place[(place >= 0) & (place < len(buckets))], minlength=len(buckets))
    else:
        observed = np.array([(samples == b).sum() for b in buckets])
    _, p = stats.chisquare(observed, f_exp=expected * (observed.sum() / expected.sum()))
    return p, observed, expected


def verify_generator(generator: Callable, buckets: Sequence, probs: Sequence[float], nsamples: int = 1000000,
                     nrepeat: int = 5, success_rate: float = 0.2, alpha: float = 0.05) -> list[float]:
    """Returns the p-values of repeated chi-square tests.

    Raises:
        AssertionError: fewer than `success_rate` of them exceed `alpha`.
    """
    results = [chi_square_check(generator, buckets, probs, nsamples) for _ in range(nrepeat)]
    passed = sum(p > alpha for p, _, _ in results)
    if passed < nrepeat * success_rate:
        raise AssertionError(f"the generator passed {passed} of {nrepeat} chi-square tests; p-values "
                             f"{[p for p, _, _ in results]}, observed {[o for _, o, _ in results]}, expected "
                             f"{[e for _, _, e in results]}, buckets {buckets}")
    return [p for p, _, _ in results]
