"""The largest batch that fits in a device's memory."""

from __future__ import annotations

from collections.abc import Callable

from ..base import MXNetError
from .estimate import Plan

__all__ = ["largest"]

_TRIES = 8  # compilations


def largest(plan: Callable[[int], Plan], first: int, unit: int, report: Callable[[Plan], None] | None = None) -> Plan:
    """Finds the plan of the largest batch that fits, to within about 2 %. Memory grows nearly linearly with the batch.

    Args:
        plan: function that plans a batch size.
        first: batch size to start with.
        unit: batch sizes are multiples of this number.
        report: function that is called with each plan.

    Raises:
        MXNetError: not even a batch of one unit fits.
    """
    known: dict[int, Plan] = {}

    def ask(batch: int) -> Plan:
        if batch not in known:
            known[batch] = plan(batch)
            if report is not None:
                report(known[batch])
        return known[batch]
    ask(max(first // unit, 1) * unit)
    ask(2 * max(first // unit, 1) * unit)
    while len(known) < _TRIES:
        fit = max((b for b, p in known.items() if p.fits), default=0)
        no = min((b for b, p in known.items() if not p.fits), default=None)
        if no is not None and (no - fit <= unit or fit and no / fit < 1.02):
            break
        ask(_guess(known, fit, no, unit))
    fit = max((b for b, p in known.items() if p.fits), default=0)
    if not fit:
        raise MXNetError(f"plan: not even a batch of {min(known)} fits:\n{known[min(known)]}")
    return known[fit]


def _guess(known: dict[int, Plan], fit: int, no: int | None, unit: int) -> int:
    """Returns where the line through the two nearest plans meets the memory, within the known bounds."""
    near = sorted(known, key=lambda b: abs(known[b].memory["total"] - known[b].memory["available"]))[:2]
    (a, x), (b, y) = ((n, known[n].memory["total"]) for n in near)
    slope = max((y - x) / (b - a), 1e-9)
    guess = int(a + (known[a].memory["available"] - x) / slope) // unit * unit
    low, high = fit + unit, 64 * max(known) if no is None else no - unit
    return min(max(guess, low), high)
