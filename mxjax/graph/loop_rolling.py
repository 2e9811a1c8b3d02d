"""Converts unrolled recurrences to loops: a graph of repeated steps is traced and compiled for one step.

MXNet users unroll recurrent cells for each bucket. XLA takes a quarter of a second for each step and layer, and for a
loop as long as for one step.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .attention import Later, forced
from .node import Entry, Node

__all__ = ["Loop", "Row", "as_rows", "find_loops", "joined", "run_loop"]

_TIMES, _LEAST, _MOST = 5, 4, 1024  # minimum number of repetitions; minimum and maximum number of nodes in one
_ALONE = 20  # total number of nodes if nothing is carried
EFFORT = 32  # number of nodes examined per node of the graph
_FEW_PARTS = 4  # runs of rows, and other values, that are concatenated
_MADE, _BEFORE, _SAME, _EACH = range(4)  # sources of an input

_WEIGHTS = ("weight", "bias", "gamma", "beta")
Place = tuple[int, int]  # a node of a repetition, and the number of its output


class Loop(NamedTuple):
    """Repeated nodes.

    Args:
        start: number of the first one among all operators.
        period: nodes of a repetition.
        times: repetitions.
        links: for each node of one, the sources of its inputs: (_MADE, a place of this repetition), (_BEFORE, number of
            a value carried from the previous repetition), (_SAME, number in `fixed`), (_EACH, number in `each`).
        carried: places whose values the next repetition reads.
        initial: entries that the first repetition reads instead.
        fixed: entries that all repetitions read.
        each: entries of which each repetition reads one.
        gives: places that other nodes read, with the repetitions.
    """

    start: int
    period: int
    times: int
    links: list[list[tuple[int, Any]]]
    carried: list[Place]
    initial: list[Entry]
    fixed: list[Entry]
    each: list[list[Entry]]
    gives: dict[Place, list[int]]


class _Rows:
    """Arrays of the same shape that are, or may be, rows of one array."""

    def __init__(self, count: int, whole: Callable[[], Any], parts: Callable[[], Sequence[Any]]) -> None:
        self.count, self._whole, self._parts = count, whole, parts
        self._known: Sequence[Any] | None = None

    def span(self, begin: int, end: int) -> Any:
        """Returns consecutive ones, stacked along a new first axis."""
        whole = self._whole()
        return whole if end - begin == self.count else whole[begin:end]

    def part(self, number: int) -> Any:
        """Returns one of them, computed together with all others: a separate gradient of each would be as large as the
        whole."""
        if self._known is None:
            self._known = self._parts()
        return self._known[number]


class Row(Later):
    """One of `_Rows`."""

    def __init__(self, rows: _Rows, number: int) -> None:
        self.rows, self.number = rows, number

    def value(self) -> Any:
        return self.rows.part(self.number)


def as_rows(node: Node, inputs: Sequence[Any], results: Sequence[Any]) -> Sequence[Any]:
    """The results of a node that splits an array, so that a loop can use the whole array."""
    count = len(results)
    if node.op.name != "SliceChannel" or count < _TIMES:
        return results
    source = forced(inputs[0])
    axis, shape = node.params["axis"] % source.ndim, list(source.shape)
    shape[axis:axis + 1] = [count] if node.params["squeeze_axis"] else [count, shape[axis] // count]

    def whole() -> Any:
        return jnp.moveaxis(source.reshape(shape), axis, 0)
    rows = _Rows(count, whole, lambda: results)
    return [Row(rows, number) for number in range(count)]


def rows_of(whole: Any, count: int) -> list[Any]:
    """The rows of an array."""
    if isinstance(whole, np.ndarray):  # NumPy computes the program
        return list(whole)
    rows = _Rows(count, functools.partial(_itself, whole), functools.partial(jnp.unstack, whole))
    return [Row(rows, number) for number in range(count)]


def joined(node: Node, inputs: Sequence[Any]) -> Any | None:
    """Returns the result of a node that concatenates rows which a loop has as one array; None for other nodes."""
    axis = _JOINED.get(node.op.name)
    if axis is None or sum(isinstance(x, Row) for x in inputs) < _TIMES:
        return None
    begins = [i for i in range(len(inputs)) if not i or _span(inputs[i - 1:i + 1], (1,)) is None]
    if len(begins) > _FEW_PARTS:
        return None
    parts = [_stacked(inputs[begin:end]) for begin, end in zip(begins, [*begins[1:], len(inputs)], strict=True)]
    if any((part.shape[1:], part.dtype) != (parts[0].shape[1:], parts[0].dtype) for part in parts):
        return None
    whole = jnp.concatenate(parts) if len(parts) > 1 else parts[0]
    if node.op.name in _STACKED:
        return jnp.moveaxis(whole, 0, node.params[axis] % whole.ndim)
    axis = node.params[axis] % (whole.ndim - 1)
    shape = list(whole.shape[1:])
    shape[axis] *= len(inputs)
    return jnp.moveaxis(whole, 0, axis).reshape(shape)


_STACKED = ("stack", "_npi_stack")
_JOINED = {"Concat": "dim", **dict.fromkeys(_STACKED, "axis")}  # the name of the parameter for the axis


def _span(values: Sequence[Any], steps: Sequence[int] = (1, -1)) -> tuple[_Rows, int, int] | None:
    """Returns (rows, number of the first one, 1 or -1) if these values are consecutive rows, in either direction."""
    if not values or not isinstance(values[0], Row):
        return None
    rows, first = values[0].rows, values[0].number
    step = values[1].number - first if len(values) > 1 and isinstance(values[1], Row) else 1
    return (rows, first, step) if step in steps and all(
        isinstance(v, Row) and v.rows is rows and v.number == first + i * step for i, v in enumerate(values)) else None


def find_loops(steps: Sequence[Node], outputs: Sequence[Entry]) -> list[Loop]:
    """Returns the loops among a graph's operators in order.

    Args:
        steps: the operators in topological order.
        outputs: the entries of the results.
    """
    if len(steps) < _TIMES * _LEAST:
        return []
    known: dict[Any, int] = {}
    numbered = np.array([known.setdefault(_kind(node), len(known)) for node in steps])
    place = {id(node): i for i, node in enumerate(steps)}
    free = np.ones(len(steps), bool)
    results = []
    effort, most = EFFORT * len(steps), min(len(steps) // _TIMES, _MOST) + 1
    # short periods first; otherwise several repetitions would form one of a longer period
    for periods, follows in ((range(1, _LEAST), False), (range(_LEAST, most), True), (range(_LEAST, most), False)):
        for period in periods:
            alike = (numbered[period:] == numbered[:-period]) & free[period:] & free[:-period]
            for start, end in _runs(alike, max(period * (_TIMES - 1), _ALONE - period if period < _LEAST else 1)):
                loop, first = None, start
                while loop is None and first < min(start + period, end) and effort > 0:
                    loop = loop_at(steps, place, first, period, (end + period - first) // period)
                    loop = loop if loop is not None and (_follows(loop) if follows else not loop.carried) else None
                    first, effort = first + 1, effort - period
                if loop is not None:
                    free[loop.start:loop.start + loop.period * loop.times] = False
                    results.append(loop)
    for loop in results:
        _note_readers(loop, steps, place, outputs)
    return sorted(results)


def _kind(node: Node) -> Any:
    """Returns the common properties of nodes that may be one node of a loop, including their variables, except data.

    Layers with different weights would have to be stacked in each step, which takes longer than compiling them.
    """
    if node.subgraphs or node.mutated() or node.op.eager or node.op.get_attr("FHost"):
        return id(node)
    own = [id(source) if source.op is None and name != "data" else None
           for (source, _), name in zip(node.inputs, node.input_names(), strict=True)]
    return node.op, repr(node.params), *own


def _runs(alike: np.ndarray, least: int) -> Iterator[tuple[int, int]]:
    """Returns (begin, end) of all runs of true values with at least this length."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], alike, [False]]).astype(np.int8)))
    for begin, end in edges.reshape(-1, 2).tolist():
        if end - begin >= least:
            yield begin, end


def loop_at(steps: Sequence[Node], place: dict[int, int], start: int, period: int, most: int) -> Loop | None:
    """Returns the loop whose first repetition begins at `start`; None if the nodes match, but not their inputs."""
    def sources(turn: int) -> list[list[tuple[int, Any]]]:
        """Returns the sources of the inputs of a repetition; values from before all repetitions are identified by their
        entries."""
        begin = start + turn * period
        rows = []
        for node in steps[begin:begin + period]:
            row: list[tuple[int, Any]] = []
            for source, i in node.inputs:
                at = place.get(id(source), -1)
                if at >= begin:
                    row.append((_MADE, (at - begin, i)))
                elif turn and at >= begin - period:
                    row.append((_BEFORE, (at - begin + period, i)))
                else:
                    row.append((_EACH, (source, i)))
            rows.append(row)
        return rows
    first, pattern = sources(0), sources(1)
    turns = [first, pattern]
    while len(turns) < most and _agree(pattern, following := sources(len(turns)), place, start):
        turns.append(following)
    if len(turns) < _TIMES or not _agree(pattern, first, place, start):
        return None
    links: list[list[tuple[int, Any]]] = []
    carried: dict[tuple[Place, Any], tuple[Place, Entry]] = {}
    fixed: dict[Any, Entry] = {}
    each: dict[Any, list[Entry]] = {}
    for j, row in enumerate(pattern):
        links.append([])
        for k, (origin, value) in enumerate(row):
            entries = [turn[j][k][1] for turn in turns]
            keys = [(id(source), i) for source, i in entries] if origin == _EACH else []
            if len(set(keys)) == 1:
                fixed.setdefault(keys[0], entries[0])
                links[j].append((_SAME, list(fixed).index(keys[0])))
            elif steps[start + j].input_names()[k] in _WEIGHTS:
                return None  # separate values, which operators compute from variables
            elif origin == _MADE:
                links[j].append((_MADE, value))
            elif origin == _BEFORE:
                source, i = entries[0]
                key = value, (id(source), i)
                carried.setdefault(key, (value, entries[0]))
                links[j].append((_BEFORE, list(carried).index(key)))
            else:
                each.setdefault(tuple(keys), entries)
                links[j].append((_EACH, list(each).index(tuple(keys))))
    return Loop(start, period, len(turns), links, [p for p, _ in carried.values()], [e for _, e in carried.values()],
                list(fixed.values()), list(each.values()), {})


def _follows(loop: Loop) -> bool:
    """Returns whether carried values depend on carried values; otherwise the repetitions could begin at another node.
    """
    late: set[int] = set()
    for j, row in enumerate(loop.links):
        if any(origin == _BEFORE or origin == _MADE and value[0] in late for origin, value in row):
            late.add(j)
    return any(j in late for j, _ in loop.carried)


def _agree(pattern: list, other: list, place: dict[int, int], start: int) -> bool:
    """Returns whether another repetition reads according to the pattern; the first one reads other entries for carried
    values.
    """
    for row, result in zip(pattern, other, strict=True):
        for (origin, value), (its, entry) in zip(row, result, strict=True):
            if its == _EACH:
                if origin == _MADE or place.get(id(entry[0]), -1) >= start or origin == _BEFORE and other is pattern:
                    return False
            elif (origin, value) != (its, entry):
                return False
    return True


def _note_readers(loop: Loop, steps: Sequence[Node], place: dict[int, int], outputs: Sequence[Entry]) -> None:
    """Records which values of a loop are read outside."""
    inside = range(loop.start, loop.start + loop.period * loop.times)
    read = [e for i, node in enumerate(steps) if i not in inside for e in node.inputs]
    value = {(place[id(source)], i) for source, i in [*read, *outputs] if place.get(id(source), -1) in inside}
    for number, i in sorted(value):
        turn, node = divmod(number - loop.start, loop.period)
        loop.gives.setdefault((node, i), []).append(turn)


def run_loop(loop: Loop, numbers: Sequence[int], values: dict[tuple[int, int], Any], steps: Sequence[Node],
             kernels: Sequence[Any], extras: Sequence[list[Any]],
             compute: Callable[[int, list[Any], list[Any]], Sequence[Any]]) -> bool:
    """Computes a loop's nodes, and stores the values that other nodes read in `values`.

    Args:
        loop: the loop.
        numbers: numbers of its nodes.
        values: by node and number of the output.
        steps, kernels, extras: of all operators by number; extras: arguments of a kernel after the arrays, of which the
            last may be a random key or drawn numbers.
        compute: function(number, inputs, extras) -> a node's results.

    Returns:
        False if nothing was computed, because the shapes of repetitions differ.
    """
    def given(entries: Sequence[Entry]) -> list[Any]:
        return [forced(values[id(source), i]) for source, i in entries]

    def body(carry: list[Any], rows: tuple[list[Any], list[list[Any]]]) -> tuple[list[Any], list[Any]]:
        each, more = rows
        computed: dict[Place, Any] = {}
        read = {_MADE: computed, _BEFORE: carry, _SAME: fixed, _EACH: each}
        for j, row in enumerate(loop.links):
            kept = extras[numbers[j]]
            results = compute(numbers[j], [read[origin][at] for origin, at in row],
                              [*kept[:len(kept) - len(more[j])], *more[j]])
            computed.update({(j, i): result for i, result in enumerate(results)})
        return [forced(computed[p]) for p in loop.carried], [forced(computed[p]) for p in loop.gives]
    turns = [numbers[j::loop.period] for j in range(loop.period)]
    fixed, initial = given(loop.fixed), given(loop.initial)
    columns = [[values[id(source), i] for source, i in entries] for entries in loop.each]
    drawn = [list(zip(*[_arrays(extras[n]) for n in each], strict=True)) for each in turns]
    if not all(kernels[n] is kernels[each[0]] for each in turns for n in each) or \
            not all(_span(column) is not None or all(_like(forced(x), forced(column[0])) for x in column)
                    for column in [*columns, *sum(drawn, [])]):
        return False
    rows = list(map(_stacked, columns)), [list(map(_stacked, each)) for each in drawn]
    after, _ = jax.eval_shape(body, initial, jax.tree.map(lambda x: x[0], rows))
    if not all(map(_like, after, initial)):
        return False
    if loop.period < _LEAST and not loop.carried:  # more would need memory for all repetitions at once
        last, results = [], jax.vmap(lambda row: body([], row)[1])(rows)
    else:
        last, results = jax.lax.scan(body, initial, rows, length=loop.times)
    for (place, read), result in zip(loop.gives.items(), results, strict=True):
        if read == [loop.times - 1]:
            parts = {read[0]: last[loop.carried.index(place)] if place in loop.carried else result[-1]}
        else:
            parts = rows_of(result, loop.times)
        for turn in read:
            values[id(steps[turns[place[0]][turn]]), place[1]] = parts[turn]
    return True


def _itself(value: object) -> Any:
    return value


def _stacked(column: Sequence[Any]) -> Any:
    span = _span(column)
    if span is None:
        return jnp.stack(list(map(forced, column)))
    rows, first, step = span
    last = first + step * (len(column) - 1)
    return rows.span(first, last + 1) if step == 1 else rows.span(last, first + 1)[::-1]


def _arrays(extras: Sequence[Any]) -> list[Any]:
    """Returns the values that are arrays, or rows of one; numbers come before them."""
    return [x for x in extras if hasattr(x, "shape") or isinstance(x, Row)]


def _like(one: Any, other: Any) -> bool:
    return (one.shape, one.dtype) == (other.shape, other.dtype)
