"""Programs that choose the memory layouts of the arrays that they overwrite.

XLA accepts arguments in their current layout, and copies those that it needs in another one. A training step overwrites
parameters and optimizer states, and receives them again in the next step. If it chooses their layouts itself, nothing
is copied (docs/design/0027).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
from jax.experimental.layout import Format, Layout

from .._support.bounded import Bounded, bounded_cache

__all__ = ["CHOOSE", "AutoLayout", "compile_laid", "replaced"]

CHOOSE = frozenset({"tpu"})  # platforms on which this was measured to save copies


def preferred(shape: tuple[int, ...]) -> Any:
    """Returns the layout of overwritten arrays of this shape: XLA chooses."""
    return Layout.AUTO


def replaced(donated: Iterable[int], given: Sequence[Any], made: Sequence[Any]) -> dict[int, int]:
    """Returns which result reuses the memory of each donated argument, by JAX's rule: the first with its shape and
    dtype that has no memory yet."""
    free, result = list(range(len(made))), {}
    for i in sorted(donated):
        for k in free:
            if made[k].shape == given[i].shape and made[k].dtype == given[i].dtype:
                result[i] = k
                free.remove(k)
                break
    return result


class AutoLayout:
    """A function whose overwritten arguments have the layouts that XLA chooses; others are converted.

    Args:
        function: function of arrays that returns a tuple of arrays.
        follows: for each argument whose memory a result takes, which one.
        made: number of results.
        compile: function(lowered program) -> compiled program.
        results: shardings of the results; by default, all are on a single device.
    """

    def __init__(self, function: Callable[..., tuple], follows: dict[int, int], made: int,
                 compile: Callable[[Any], Any], results: Sequence[Any] | None = None) -> None:
        self._function, self._follows, self._made, self._compile = function, follows, made, compile
        self._results, self._place = results, min(follows)
        self._programs: dict[Any, tuple[Callable[..., tuple], dict[int, Format]]] = Bounded(16)  # by devices

    def __call__(self, *args: Any) -> tuple:
        where = args[self._place].sharding
        known = self._programs.get(where)
        if known is None:
            known = self._programs[where] = self._compiled(args)
            return known[0](*_brought(args, known[1]))
        try:
            return known[0](*args)
        except ValueError:  # values with other layouts were written meanwhile; nothing has run
            brought = _brought(args, known[1])
            if brought is args:
                raise
        return known[0](*brought)

    def _compiled(self, args: Sequence[Any]) -> tuple[Callable[..., tuple], dict[int, Format]]:
        """Returns the program for the devices of these arguments, and the formats of the arrays that it overwrites."""
        shardings = [a.sharding if isinstance(a, jax.Array) else None for a in args]
        avals = [jax.ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) if i in self._follows else a
                for i, a in enumerate(args)]
        made = self._results or [shardings[self._place]] * self._made
        return compile_laid(self._follows, shardings, made, lambda i: preferred(args[i].shape), lambda before, after:
                            self._compile(jax.jit(self._function, donate_argnums=tuple(self._follows),
                                                  in_shardings=before, out_shardings=after).trace(*avals).lower()))


def compile_laid(follows: Mapping[int, int], given: Sequence[Any], made: Sequence[Any], layout: Callable[[int], Any],
                 compile: Callable[[tuple, tuple], Any]) -> tuple[Any, dict[int, Format]]:
    """Compiles a program in which each value and its replacement have the same layout.

    Args:
        follows: for each argument whose memory a result takes, which one.
        given, made: shardings of arguments and results.
        layout: function(number of an argument) -> its layout, or that XLA chooses it.
        compile: function(arguments' shardings and formats, those of results) -> compiled program.

    Returns:
        The program, and the formats of the overwritten arrays, except those that it does not read.
    """
    def program(layout: Callable[[int], Any]) -> Any:
        before, after = list(given), list(made)
        for i, k in follows.items():
            before[i], after[k] = Format(layout(i), given[i]), Format(layout(i), made[k])
        return compile(tuple(before), tuple(after))
    result = program(layout)
    formats, results = (jax.tree.leaves(f) for f in (result.input_formats, result.output_formats))
    read = {i: k for i, k in follows.items() if formats[i].layout is not None}
    if any(results[k].layout != formats[i].layout for i, k in read.items()):
        result = program(lambda i: formats[i].layout)  # the results of this call are arguments of the next one
    return result, {i: formats[i] for i in read}


@bounded_cache(64)
def _bringing(formats: tuple[Format, ...]) -> Callable[..., tuple]:
    """Returns a program that converts its arguments to these formats."""
    return jax.jit(lambda *a: a, donate_argnums=tuple(range(len(formats))), out_shardings=formats)


def _brought(args: Sequence[Any], formats: dict[int, Format]) -> Sequence[Any]:
    """Returns the arguments in these layouts; those in other layouts are donated to the conversion."""
    wrong = [i for i, form in formats.items() if args[i].format.layout != form.layout]
    if not wrong:
        return args
    moved = _bringing(tuple([formats[i] for i in wrong]))(*[args[i] for i in wrong])
    results = list(args)
    for i, array in zip(wrong, moved, strict=True):
        results[i] = array
    return results
