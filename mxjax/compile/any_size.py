"""Small programs for arrays of any size: where sizes depend on data, few shapes are met twice.

Tracing takes some milliseconds for each new shape. A function that has been traced for several is traced once more
with symbols in place of the sizes that vary; what NumPy computes by that needs no trace for the next shape.

JAX refuses to decide what depends on a symbol, and then there is no such trace. Only whether two sizes are the same it
answers with no where it does not know: for functions that treat a certain size (other than 0 and 1) by other rules,
this is not.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import jax
from jax import export

from ..ops.by_device import traced_for
from .division import with_quotients
from .numpy_forms import Exact, by_numpy
from .policy import VARIED_SHAPES

__all__ = ["AnySize"]

_MOST = 1 << 17  # a size, and for NumPy's sake the elements of an argument
_NAMES = "abcdefgh"
_TRIALS = 3  # of a trace with symbols for calls of one kind: then others vary, or the function asks for sizes
_KINDS = 64  # of calls that one function is known to have


@functools.cache
def _symbols() -> tuple[Any, ...]:
    """Sizes that may be any. Always the same ones: JAX keeps what it traced, and compares none of two scopes."""
    bounds = [f"{name} {bound}" for name in _NAMES for bound in (">= 2", f"<= {_MOST}")]
    return export.symbolic_shape(", ".join(_NAMES), scope=export.SymbolicScope(bounds))


class _Form(NamedTuple):
    """A traced function of arrays some of whose sizes are symbols.

    sizes: those of all arguments one after the other: a number, or the symbol's name.
    """

    closed: Any
    sizes: tuple[int | str, ...]

    def at(self, sizes: Sequence[int]) -> Exact | None:
        """What NumPy computes for arguments of these sizes; None where they are other ones, or it cannot."""
        values: dict[str, int] = {}
        for expected, size in zip(self.sizes, sizes, strict=True):
            if (values.setdefault(expected, size) if isinstance(expected, str) else expected) != size:
                return None
        known: dict[int, int] = {}  # by identity: expressions are hard to compare

        def number(size: Any) -> Any:
            if not hasattr(size, "_evaluate"):
                return size
            found = known.get(id(size))
            if found is None:
                found = known[id(size)] = int(size._evaluate(values))
            return found
        return by_numpy(self.closed, number)


class _Calls:
    """Calls with arguments that differ in sizes alone; `tree`: what their results are."""

    __slots__ = ("tree", "form", "seen", "trials")

    def __init__(self, tree: Any) -> None:
        self.tree = tree
        self.form: _Form | None = None
        self.seen: list[tuple[int, ...]] = []
        self.trials = 0


class AnySize:
    """Finds what NumPy computes for a function of arrays without tracing it, once it has met several sizes.

    Args:
        function: a pure function of arrays.
    """

    __slots__ = ("_function", "_calls")

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._calls: dict[Hashable, _Calls] = {}

    def find(self, args: Sequence[Any]) -> tuple[Exact, Any] | None:
        """(what NumPy computes for arguments like these, the structure of the results), where that has been learnt."""
        calls = self._calls.get(_kind(args)) if self._calls else None
        exact = calls.form.at(_sizes(args)) if calls is not None and calls.form is not None else None
        return None if exact is None else (exact, calls.tree)

    def clear(self) -> None:
        """Forgets all."""
        self._calls.clear()

    def learn(self, args: Sequence[Any], exact: Exact, tree: Any, kind: str) -> None:
        """Notes a call for which a trace was necessary.

        Args:
            args: its arguments.
            exact: what NumPy computes for them.
            tree: the structure of the results.
            kind: of the device that the function is traced for.
        """
        if len(self._calls) >= _KINDS:
            self._calls.clear()
        calls = self._calls.setdefault(_kind(args), _Calls(tree))
        if calls.trials == _TRIALS:
            return
        calls.seen.append(_sizes(args))
        if len(calls.seen) < VARIED_SHAPES << calls.trials:
            return
        calls.trials += 1
        try:
            form = self._traced(args, list(calls.seen), kind)
            if form is not None and _same(form.at(_sizes(args)), exact, args):
                calls.form = form
        except Exception:  # whatever a formula does that cannot be done, or decided, with a symbol
            return
        finally:
            gc.collect(1)  # errors that JAX catches on its way hold all callers' arguments, in a circle

    def _traced(self, args: Sequence[Any], seen: list[tuple[int, ...]], kind: str) -> _Form | None:
        """The function for arguments with a symbol for sizes that vary, one for all that vary together."""
        columns = list(zip(*seen, strict=True))
        varying = list(dict.fromkeys(column for column in columns if len(set(column)) > 1))
        if not varying or len(varying) > len(_NAMES):
            return None
        symbols = dict(zip(varying, _symbols(), strict=False))
        given = iter([symbols.get(column, column[0]) for column in columns])
        leaves, tree = jax.tree.flatten(args)
        specs = []
        for leaf in leaves:
            if hasattr(leaf, "shape"):
                weak = {"weak_type": leaf.weak_type} if isinstance(leaf, jax.Array) else {}
                leaf = jax.ShapeDtypeStruct([next(given) for _ in leaf.shape], leaf.dtype, **weak)
            specs.append(leaf)
        with traced_for(kind):
            closed = with_quotients(jax.make_jaxpr(self._function)(*jax.tree.unflatten(tree, specs)), on_cpu=True)
        return _Form(closed, tuple([str(symbols[c]) if c in symbols else c[0] for c in columns]))


def _kind(args: Sequence[Any]) -> Hashable:
    """What two calls have in common whose arguments differ in sizes alone; 0 and 1 are sizes of their own."""
    leaves, tree = jax.tree.flatten(args)
    return (tree, jax.config.jax_enable_x64,
            *[(leaf.dtype, getattr(leaf, "weak_type", False), tuple([min(n, 2) for n in leaf.shape]))
              if hasattr(leaf, "shape") else type(leaf) for leaf in leaves])


def _sizes(args: Sequence[Any]) -> tuple[int, ...]:
    return tuple([n for leaf in jax.tree.leaves(args) for n in getattr(leaf, "shape", ())])


def _same(one: Exact | None, other: Exact, args: Sequence[Any]) -> bool:
    """Whether both give the same bits."""
    if one is None:
        return False
    leaves = jax.tree.leaves(args)
    found, expected = one(leaves), other(leaves)
    return found is not None and expected is not None and all([
        f.shape == e.shape and f.dtype == e.dtype and f.tobytes() == e.tobytes()
        for f, e in zip(found, expected, strict=True)])
