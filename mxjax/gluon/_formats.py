"""Converts nested arguments and results to flat lists and back. A format is 0 for one value, n > 1
for a symbol of n outputs, -1 for None, and a list of formats for a list or tuple."""

from __future__ import annotations

from typing import Any

from ..context import Context
from ..ndarray import NDArray
from ..numpy import ndarray
from ..symbol import Symbol
from ..symbol.numpy import _Symbol

__all__ = ["check_np", "flatten", "kinds", "regroup"]


def flatten(args: object, what: str, leaves: tuple[type, ...] = (NDArray,)) -> tuple[list[Any], Any]:
    """Returns (flat list, format) of NDArrays (or other `leaves`), Symbols, None, and nested lists of them.

    Raises:
        ValueError: it contains something else; the message names `what` ("input" or "output").
    """
    if isinstance(args, leaves):
        return [args], 0
    if isinstance(args, Symbol):
        count = len(args.list_outputs())
        return [args], count if count > 1 else 0
    if args is None:
        return [None], -1
    if not isinstance(args, (list, tuple)):
        raise ValueError(f"When hybridized, the {what} of HybridBlock must be a (nested) list of Symbol or NDArray, "
                         f"but got {args} of type {type(args)}")
    flat, formats = [], []
    for arg in args:
        part, form = flatten(arg, what, leaves)
        flat += part
        formats.append(form)
    return flat, formats


def regroup(flat: object, form: Any) -> Any:
    """Restores the structure that `flatten` described.

    Raises:
        ValueError: the values do not fit the format.
    """
    if not isinstance(flat, (list, tuple)):
        raise ValueError(f"When hybridized, the output of HybridBlock must be (nested) list of Symbol or NDArray, but "
                         f"got {flat} of type {type(flat)}")
    values = list(flat)

    def take(form: Any) -> Any:
        if isinstance(form, list):
            return [take(part) for part in form]
        if form > 0:
            taken, values[:form] = values[:form], []
            return taken
        value = values.pop(0)
        if form == -1 and value is not None:
            raise ValueError(f"a HybridBlock was first called with None for an argument, but now got {value!r} for it")
        return value
    return take(form)


def kinds(args: object) -> tuple[bool, bool, list[Context]]:
    """Returns whether there is a Symbol, whether there is an NDArray, and the NDArrays' contexts in order."""
    if isinstance(args, NDArray):
        return False, True, [args.context]
    if isinstance(args, Symbol):
        return True, False, []
    if not isinstance(args, (list, tuple)):
        return False, False, []
    parts = [kinds(arg) for arg in args]
    contexts = dict.fromkeys(ctx for part in parts for ctx in part[2])
    return any(p[0] for p in parts), any(p[1] for p in parts), list(contexts)


def check_np(out: object) -> None:
    """Raises TypeError where a block's results, nested or not, contain an array or symbol without NumPy's semantics."""
    if isinstance(out, (list, tuple)):
        for part in out:
            check_np(part)
    elif isinstance(out, (NDArray, Symbol)) and not isinstance(out, (ndarray, _Symbol)):
        raise TypeError("under npx.set_np() or use_np, a block must return mx.np.ndarray (in graphs, mx.sym.np "
                        f"symbols), got {type(out).__name__}: convert it with as_np_ndarray()")
