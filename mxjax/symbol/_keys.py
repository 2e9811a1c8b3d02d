"""Keys of symbols: `symbol[0]`, `symbol["fc_output"]`, `symbol[1:3]`, and keys that only arrays accept."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import numpy as np

from ..attribute import _Scope
from ..base import MXNetError, NotImplementedForSymbol
from ..graph.node import Entry

_CURE = ("write F.slice_axis(x, axis=0, begin=0, end=1), F.slice, F.take or F.reverse (F.split gives the rows one by "
         "one), or do not hybridize()")
_ONE = f"A Symbol of one output cannot be sliced as an NDArray: in hybrid_forward {_CURE}"
_COUNTS = frozenset(["num_outputs", "sections"])  # parameters that determine the number of outputs


class ArrayScope(_Scope):
    """A scope in which symbols stand for arrays, as in `hybrid_forward`.

    Outside of the scope, `symbol[0]` is the first output and `len(symbol)` the number of outputs. For an array the same
    code refers to rows, so in this scope a symbol with one output raises an error.
    """

    def __init__(self, active: bool = False) -> None:
        self.active = active


def positions(outputs: list[Entry], names: list[str], key: object, listed: bool = False) -> list[int]:
    """Returns the indices of the outputs that a key selects.

    Args:
        outputs: the symbol's outputs.
        names: their names; only used for a string.
        key: an int, a slice, or the name of an output or of its node.
        listed: the symbol is a list of outputs, even with one output.

    Raises:
        IndexError: there is no such output.
        MXNetError: an index is negative and the symbol has one output; only arrays are sliced like this.
        NotImplementedForSymbol: the symbol stands for an array, so the key would select a row.
        TypeError: the key is of another type, or a slice is empty.
        ValueError: no output has the name, or several have.
    """
    if isinstance(key, str):
        return [_named(outputs, names, key)]
    if isinstance(key, slice):
        chosen = _sliced(outputs, key)
        if not chosen:
            raise TypeError(f"Expected a list of symbols as input: [{_shown(key)}] selects none of the {len(outputs)} "
                            f"outputs. {_ONE}")
    elif isinstance(key, (int, np.integer)) and not isinstance(key, bool):
        chosen = [_checked(len(outputs), int(key))]
    else:
        raise TypeError(f"Symbol only support integer index to fetch i-th output, got {key!r}. {_ONE}")
    if len(outputs) == 1 and not listed:
        refuse_as_array(outputs, f"[{_shown(key)}]")
    return chosen


def refuse_as_array(outputs: list[Entry], construct: str) -> None:
    """Raises NotImplementedForSymbol if the symbol has one output, an array with an unknown number of rows."""
    if len(outputs) != 1 or not ArrayScope.innermost().active:
        return
    node = outputs[0][0]
    if node.op is None or _COUNTS.isdisjoint(node.params) or node.num_visible > 1:  # F.split(x, 1) is a list of one
        raise NotImplementedForSymbol(f"{construct} of {node.name}", None, hint=_CURE)


def _checked(count: int, number: int) -> int:
    if number < 0 and count == 1:
        raise MXNetError(f"Symbol only accept nonnegative index, got {number}. {_ONE}")
    if not -count <= number < count:
        raise IndexError(f"Index: {number} is outside of the range [0, {count}). {_ONE}")
    return number % count


def _sliced(outputs: list[Entry], key: slice) -> list[int]:
    """Returns the numbers that a slice chooses: of several outputs as of a list, else as MXNet counts them."""
    count = len(outputs)
    if count != 1:
        return list(range(count))[key]
    begin, end, step = (default if value is None else value
                        for value, default in zip((key.start, key.stop, key.step), (0, 1, 1), strict=True))
    numbers: Iterable[int] = range(begin, end, step)
    return [_checked(1, number) for number in islice(numbers, 2)]  # a second one is already out of range


def _named(outputs: list[Entry], names: list[str], key: str) -> int:
    matches = [i for i, name in enumerate(names) if name == key]
    if not matches:
        matches = [i for i, (node, _) in enumerate(outputs) if node.name == key][:1]
    if not matches:
        raise ValueError(f"Cannot find output that matches name {key!r}; outputs: {', '.join(names)}")
    if len(matches) > 1:
        raise ValueError(f"There are multiple outputs with name {key!r}")
    return matches[0]


def _shown(key: object) -> str:
    if not isinstance(key, slice):
        return str(key)
    parts = (key.start, key.stop) if key.step is None else (key.start, key.stop, key.step)
    return ":".join("" if part is None else str(part) for part in parts)
