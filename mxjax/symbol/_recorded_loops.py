"""Control flow in deferred compute: bodies that work on arrays become graphs of one node.

A body is called once, on placeholders for its arguments; it may use outer arrays. The loop itself runs on first access
to a result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .._support.loop_values import flatten, regroup
from ..array.dense import NDArray
from ..base import MXNetError
from ..eager.array_types import wrap
from ..eager.promise import Promise
from . import contrib
from ._recorder import Later, associate, entry_of, in_loops
from .symbol import Symbol

__all__: list[str] = []


def _symbol(array: NDArray) -> Symbol:
    return Symbol([entry_of(array, "control flow")])


def _symbols(arrays: Any) -> Any:
    """Returns the graphs of arrays, in the same nested lists."""
    if isinstance(arrays, (list, tuple)):
        return [_symbols(a) for a in arrays]
    return None if arrays is None else _symbol(arrays)


def _unknown(_: object) -> Any:
    raise MXNetError("the value of a loop variable was accessed while its body is traced, which happens only once")


class _Body:
    """A function of arrays as a function of symbols.

    Args:
        function: function of arrays in the structure of the loop's arguments.
        like: for each of the symbols that it is called with an array and how many leading axes it lacks.
    """

    def __init__(self, function: Callable[..., Any], like: Sequence[tuple[NDArray, int]]) -> None:
        self._function, self._like = function, like
        self.results: list[NDArray] = []

    def __call__(self, *args: Any) -> Any:
        like = iter(self._like)

        def array(symbol: Any) -> Any:
            if isinstance(symbol, list):
                return [array(s) for s in symbol]
            source, cut = next(like)
            output = wrap(Promise(source.shape[cut:], source.chunk.dtype, _unknown), source.chunk.ctx, type(source))
            associate(output, symbol.handle[0])
            return output
        output = self._function(*[array(arg) for arg in args])
        self.results = _leaves(output)
        return tuple(_symbols(part) for part in output) if isinstance(output, tuple) else _symbols(output)


def _leaves(value: Any) -> list[NDArray]:
    if isinstance(value, (list, tuple)):
        return [leaf for v in value for leaf in _leaves(v)]
    return [] if value is None else [value]


def _later(run: Callable[[], Any], specs: Sequence[tuple], like: NDArray, symbols: object) -> Any:
    """Returns arrays for symbols, in the same nested lists, whose values `run` computes."""
    flat, form = flatten(symbols, Symbol, "results")
    arrays = [wrap(promise, like.chunk.ctx, type(like)) for promise in Later(lambda: _leaves(run()), specs).promises]
    for array, symbol in zip(arrays, flat, strict=True):
        associate(array, symbol.handle[0])
    return regroup(arrays, form)


def foreach(run: Callable[..., Any], body: Callable[..., Any], data: object, init_states: object) -> tuple[Any, Any]:
    """Records a loop over axis 0; arguments as in `npx.foreach`, which is `run`."""
    flat, states = flatten(data, NDArray, "foreach input")[0], flatten(init_states, NDArray, "foreach states")[0]
    function = _Body(body, [*((a, 1) for a in flat), *((a, 0) for a in states)])
    outs, new = contrib.foreach(function, _symbols(data), _symbols(init_states))
    count = len(function.results) - len(states)
    specs = [((flat[0].shape[0], *a.shape), a.chunk.dtype) for a in function.results[:count]]
    specs += [(a.shape, a.chunk.dtype) for a in function.results[count:]]
    outs, new = _later(lambda: run(body, data, init_states), specs, flat[0], (outs, new))
    return outs, new


def while_loop(run: Callable[..., Any], cond: Callable[..., Any], func: Callable[..., Any], loop_vars: object,
               max_iterations: int | None = None) -> tuple[Any, Any]:
    """Records a loop with a condition; arguments as in `npx.while_loop`, which is `run`."""
    flat = flatten(loop_vars, NDArray, "while loop_vars")[0]
    test, body = (_Body(f, [(a, 0) for a in flat]) for f in (cond, func))
    outs, new = contrib.while_loop(test, body, _symbols(loop_vars), max_iterations)
    count = len(body.results) - len(flat)
    specs = [((max_iterations, *a.shape), a.chunk.dtype) for a in body.results[:count]]
    specs += [(a.shape, a.chunk.dtype) for a in body.results[count:]]
    outs, new = _later(lambda: run(cond, func, loop_vars, max_iterations), specs, flat[0], (outs, new))
    return outs, new


def cond(run: Callable[..., Any], pred: Callable[..., Any], then_func: Callable[..., Any],
         else_func: Callable[..., Any], inputs: Sequence[NDArray], name: str = "cond") -> Any:
    """Records a choice between two graphs; arguments as in `npx.cond`, which is `run`."""
    then, otherwise = (_Body(lambda f=f: f(*inputs), ()) for f in (then_func, else_func))
    symbols = contrib.cond(_symbol(pred(*inputs)), then, otherwise, name)
    specs = [(a.shape, a.chunk.dtype) for a in then.results]
    return _later(lambda: run(pred, then_func, else_func, inputs), specs, then.results[0], symbols)


in_loops.update(foreach=foreach, while_loop=while_loop, cond=cond)
