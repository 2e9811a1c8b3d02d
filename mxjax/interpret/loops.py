"""Forms of primitives that contain programs: loops, branches, reductions by a function."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.extend.core import ClosedJaxpr, JaxprEqn

from .program import Array, Unknown, need

__all__ = ["LOOPS", "iterations", "while_loop"]


class _Iterations(threading.local):
    """Number of iterations that loops of unknown length have had in this thread."""

    count = 0


iterations = _Iterations()


def _scan(params: dict, within: Callable, eqn: JaxprEqn) -> Callable:
    body, length, inner = within(params["jaxpr"]), params["length"], params["jaxpr"].jaxpr
    # releases of JAX differ in the parameters for the carry: carried values have the same number of axes inside and
    # outside
    carried = _alike(inner.outvars, eqn.outvars)
    consts = _alike(inner.invars, eqn.invars) - carried
    need(not (not length))
    order = range(length - 1, -1, -1) if params["reverse"] else range(length)

    def scan(*xs: Array) -> list[Any]:
        fixed, carry, rows = xs[:consts], list(xs[consts:consts + carried]), xs[consts + carried:]
        stacked: list[list[Any]] = [[None] * length for _ in eqn.outvars[carried:]]
        for i in order:
            outs = body([*fixed, *carry, *[x[i] for x in rows]])
            carry = outs[:carried]
            for column, value in zip(stacked, outs[carried:], strict=True):
                column[i] = value
        return [*carry, *map(np.stack, stacked)]
    return scan


def _alike(inner: Sequence[Any], outer: Sequence[Any]) -> int:
    return sum(len(v.aval.shape) == len(w.aval.shape) for v, w in zip(inner, outer, strict=True))


def while_loop(params: dict, within: Callable, eqn: JaxprEqn, most: int | None = None) -> Callable:
    """`lax.while_loop` with at most this number of steps (None: any)."""
    goes_on, body = within(params["cond_jaxpr"]), within(params["body_jaxpr"])
    first, second = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]

    def loop(*xs: Array) -> list[Any]:
        values = list(xs[second:])
        for _ in itertools.count() if most is None else range(most):
            going = goes_on([*xs[:first], *values])[0]
            if not going.any():
                return values
            iterations.count += 1
            results = body([*xs[first:second], *values])
            values = results if going.all() else [  # several loops at once: finished ones do not change
                np.where(going.reshape(going.shape + (1,) * (new.ndim - going.ndim)), new, old)
                for new, old in zip(results, values, strict=True)]
        raise Unknown  # XLA is faster for long loops
    return loop


def _cond(params: dict, within: Callable, eqn: JaxprEqn) -> Callable:
    branches = [within(branch) for branch in params["branches"]]
    return lambda which, *xs: branches[min(max(int(which), 0), len(branches) - 1)](xs)


def _reduce(params: dict, within: Callable, eqn: JaxprEqn) -> Callable:
    """Reduces by a function of two elements."""
    body, axes = within(params["jaxpr"]), tuple(params["dimensions"])

    def reduce(*xs: Array) -> list[Any]:
        arrays, totals = xs[:len(xs) // 2], list(xs[len(xs) // 2:])
        rows = [np.moveaxis(x, axes, range(len(axes))) for x in arrays]
        rows = [r.reshape(-1, *r.shape[len(axes):]) for r in rows]
        for i in range(len(rows[0])):
            totals = body([*totals, *[r[i] for r in rows]])
        return [np.broadcast_to(t, r.shape[1:]) for t, r in zip(totals, rows, strict=True)]
    return reduce


def _remat(params: dict, within: Callable, eqn: JaxprEqn) -> Callable:
    inner = within(ClosedJaxpr(params["jaxpr"], ()))
    return lambda *xs: inner(xs)


def _linear_solve(params: dict, within: Callable, eqn: JaxprEqn) -> Callable:
    counts, solve = params["const_lengths"], within(params["jaxprs"].solve)
    first = counts.matvec + counts.vecmat
    return lambda *xs: solve([*xs[first:first + counts.solve], *xs[first + counts.solve + counts.transpose_solve:]])


LOOPS: dict[str, Callable[[dict, Callable, Any], Callable]] = {
    "scan": _scan, "while": while_loop, "cond": _cond, "reduce": _reduce, "remat2": _remat, "remat": _remat,
    "checkpoint": _remat, "custom_linear_solve": _linear_solve,
}
