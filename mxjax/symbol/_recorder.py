"""Deferred compute: calls on arrays become nodes of a graph instead of running, as `forward` of MXNet 2's blocks needs.

Inside `recording()` the results of an operator are promises with the inferred shape and dtype. They are computed on
first access. Each also has an entry, its position in a graph that begins at variables (`set_variable`).
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from .._support.plain_text import plain_text
from .._xla.transfer import moved
from ..array.dense import NDArray
from ..attribute import AttrScope
from ..base import MXNetError, integer_types
from ..context import Context, current_context
from ..eager.array_types import array_classes, wrap
from ..eager.dispatch import invoke
from ..eager.modes import Modes, state
from ..eager.promise import Promise
from ..eager.state_updates import as_outputs
from ..executor import CachedOp
from ..graph.node import Entry, Node, hidden, topological
from ..kernel.kernel import Kernel, prepare
from ..numpy._dispatch import call
from ..ops import registry
from ..ops.params import texts
from ..ops.registry import Op
from ._from_tape import inlined, operators_of
from .symbol import Symbol

__all__ = ["Later", "associate", "clear", "entry_of", "get_symbol", "in_loops", "is_recording", "recording",
           "set_recording", "set_variable"]

# by chunk and view: an array's place in a graph
_entries: weakref.WeakKeyDictionary[Any, dict[Any, Entry]] = weakref.WeakKeyDictionary()
_IN_PLACE = ("Inplace operations (+=, -=, x[:]=, out= etc) are not supported when recording in deferred compute mode, "
             "as in forward of a hybridized block: write y = x + 1, or use np.where, npx.index_update")
_INDEX = "The type of indexing used is not supported in HybridBlock"


_numbers = itertools.count()  # of nodes
in_loops: dict[str, Callable[..., Any]] = {}  # functions that record control flow, by name


class Later:
    """Results of a call that is computed on first access to any of them."""

    def __init__(self, compute: Callable[[], Sequence[NDArray]], specs: Sequence[tuple]) -> None:
        self._compute, self._training = compute, state.training
        self._values: list[Any] | None = None
        self.promises = [Promise(shape, np.dtype(dtype), self._getter(i)) for i, (shape, dtype) in enumerate(specs)]

    def _getter(self, place: int) -> Callable[[Any], Any]:
        def get(_: object) -> Any:
            if self._values is None:
                before, state.recorder = state.recorder, None
                try:
                    with Modes(False, self._training):
                        self._values = [a.read() for a in self._compute()]
                finally:
                    state.recorder = before
                del self._compute
            return self._values[place]
        return get


class Recorder:
    """Takes the calls of a thread; see `State.recorder`."""

    # ------------------------------------------------------------ calls
    def call(self, kernel: Kernel, arrays: Sequence[Any], extras: tuple, out: object, ctx: Context | None) -> Any:
        """Records the call of a kernel; returns its visible results.

        Raises:
            MXNetError: it writes into an array, an argument has no position in the graph, or the kernel is not an
                operator.
        """
        if out is not None:
            raise MXNetError(_IN_PLACE)
        place: Context = arrays[0].chunk.ctx if arrays else ctx or current_context()
        steps = operators_of(kernel, extras)
        if kernel.eager:  # the shape depends on the values
            outputs = self._now(kernel, arrays, extras, place)
        else:
            values = [a.chunk.peek() if a.region is None else a.read() for a in arrays]
            key = _KEY if kernel.uses_key else ()
            whole = as_outputs(kernel) if kernel.mutated else kernel
            later = Later(lambda: _results(invoke(whole, arrays, extras, None, place)),
                           kernel.specs([*values, *extras, *key], True))
            array_type = type(arrays[0]) if arrays else None
            outputs = [wrap(promise, place, array_type) for promise in later.promises[:kernel.num_outputs]]
        inputs = [entry_of(a, kernel.name) for a in arrays]
        for op, params in steps:
            inputs = self._node(op, params, inputs)
        for array, entry in zip(outputs, inputs, strict=False):
            associate(array, entry)
        outputs = outputs[:kernel.num_visible]
        return outputs[0] if len(outputs) == 1 else outputs

    def on_host(self, op: Op, params: dict[str, Any], arrays: Sequence[Any], compute: Callable[[], Any],
                out: object) -> Any:
        """Records an operator that runs on the host, and runs it at once."""
        if out is not None:
            raise MXNetError(_IN_PLACE)
        inputs = [entry_of(a, op.name) for a in arrays]
        results = self._outside(compute)
        for array, entry in zip(_results(results), self._node(op, params, inputs), strict=False):
            associate(array, entry)
        return results

    def inline(self, graph: CachedOp, arrays: Sequence[NDArray]) -> list[NDArray]:
        """Records the nodes of a whole graph; returns its outputs as arrays."""
        later = Later(lambda: graph.results(arrays, None), graph.specs(arrays))
        outputs = [wrap(promise, arrays[0].chunk.ctx, graph.kind) for promise in later.promises]
        entries = inlined(graph.lowered, [entry_of(a, "CachedOp") for a in arrays])
        for array, entry in zip(outputs, entries, strict=True):
            associate(array, entry)
        return outputs

    def loop(self, name: str, run: Callable[..., Any], *args: object) -> Any:
        """Records "foreach", "while_loop" or "cond" with these arguments; `run` computes it at once."""
        return in_loops[name](run, *args)

    def moved(self, array: NDArray, ctx: Context) -> NDArray:
        """Records a copy on another context, which is the identity in a graph."""
        def compute() -> list[NDArray]:
            return [wrap(moved(array.read(), ctx.jax_device), ctx, type(array))]
        copy = wrap(Later(compute, [(array.shape, array.chunk.dtype)]).promises[0], ctx, type(array))
        op = registry.get("_copyto")
        associate(copy, self._node(op, op.parse({}), [entry_of(array, "_copyto")])[0])
        return copy

    def reshaped(self, array: NDArray, shape: Sequence[int], reverse: bool) -> NDArray:
        """Records a classic reshape."""
        op = registry.get("Reshape")
        kernel = prepare(op, op.parse({"shape": tuple(shape), "reverse": reverse}), 1, state.training)
        return self.call(kernel, [array], (), None, None)

    def detached(self, array: NDArray) -> NDArray:
        """Records that no gradient passes this array."""
        op = registry.get("BlockGrad")
        return self.call(prepare(op, op.parse({}), 1, state.training), [array], (), None, None)

    def refuse_change(self) -> None:
        """Raises MXNetError: an array would be written to."""
        raise MXNetError(_IN_PLACE)


    def _now(self, kernel: Kernel, arrays: Sequence[Any], extras: tuple, ctx: Context) -> list[NDArray]:
        return _results(self._outside(lambda: invoke(kernel, arrays, extras, None, ctx)))

    def _outside(self, compute: Callable[[], Any]) -> Any:
        """Returns the result of a function with recording turned off."""
        state.recorder = None
        try:
            return compute()
        finally:
            state.recorder = self

    def _node(self, op: Op, params: dict[str, Any], inputs: Sequence[Entry]) -> list[Entry]:
        attrs = {hidden(k): plain_text(v) for k, v in AttrScope.innermost().get(None).items()}
        attrs.update(texts(op.params, {k: v for k, v in params.items()  # a custom operator has its own parameters
                                       if k not in op.params or v != op.params[k].filled}))
        if op.variadic and op.variadic not in params and not op.get_attr("own_count"):
            attrs[op.variadic] = str(len(inputs))
        node = Node(op, f"node_{next(_numbers)}", attrs, params, inputs)
        node.applied()
        return [(node, i) for i in range(node.num_outputs)]

    # ------------------------------------------------------------ indexing
    def index(self, array: NDArray, key: object) -> NDArray:
        """Returns the elements that a key selects, by operators that do not depend on the array's size.

        Raises:
            TypeError: graphs do not support the key.
            IndexError: there are too many indices.
        """
        array_type, shape = type(array), array.shape
        items = list(key) if isinstance(key, tuple) else [key]
        used = sum(_axes(item) for item in items)
        if used > len(shape):
            raise IndexError(f"too many indices: {used} for an array of {len(shape)} dimensions")
        gaps = [n for n, item in enumerate(items) if item is Ellipsis]
        if len(gaps) > 1:
            raise IndexError("an index can only have a single ellipsis ('...')")
        place = gaps[0] if gaps else len(items)
        items[place:place + 1] = [slice(None)] * (len(shape) - used)
        result = _by_arrays(array.as_np_ndarray(), items) if any(isinstance(i, NDArray) for i in items) else \
            _basic(array.as_np_ndarray(), items)
        if not result.shape and not array.has_scalars():
            result = call("_npi_reshape", [result], newshape=(1,))
        return result if array_type is array_classes.numpy else result.as_nd_ndarray()


_KEY = (np.zeros(2, np.uint32), np.uint32(0))  # stands for a random key and counter where only shapes are asked for


def _results(value: Any) -> list[NDArray]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _axes(item: object) -> int:
    """Returns how many axes an item of a key uses up."""
    if item is None or item is Ellipsis:
        return 0
    if isinstance(item, (list, np.ndarray, bool, np.bool_)):
        raise TypeError(f"{_INDEX}: indexing with {type(item).__name__}; use an mx.np array that is an input or the "
                        "result of an operator")
    if isinstance(item, NDArray):
        return item.ndim if item.dtype == np.bool_ else 1
    if isinstance(item, slice) or isinstance(item, integer_types):
        return 1
    raise TypeError(f"{_INDEX}: {type(item).__name__}")


def _basic(array: Any, items: Sequence[Any]) -> Any:
    """Returns the elements at numbers, slices and new axes; index arrays stand for whole axes here."""
    begin, end, step, shape, new, axis, kept = [], [], [], [], [], 0, 0
    for item in items:
        if item is None:
            new.append(kept)
            kept += 1
            continue
        row, code = (None, None, None), -2
        if isinstance(item, slice):
            if item.step == 0:
                raise ValueError("slice step cannot be zero")
            row = (item.start, item.stop, item.step)
        elif not isinstance(item, NDArray):
            size = array.shape[axis]
            if not -size <= item < size:
                raise IndexError(f"index {item} is out of bounds for axis {axis} with size {size}")
            row, code = (int(item), None if item == -1 else int(item) + 1, 1), -3
        for target, value in zip((begin, end, step), row, strict=True):
            target.append(value)
        shape.append(code)
        axis += 1
        kept += code == -2
    if any(b is not None or e is not None or s is not None for b, e, s in zip(begin, end, step, strict=True)):
        array = call("_npi_slice", [array], begin=begin, end=end, step=step)
    if any(code != -2 for code in shape):
        array = call("_npi_reshape", [array], newshape=(*shape, -4))
    for place in new:
        array = call("expand_dims", [array], axis=place)
    return array


def _by_arrays(array: object, items: list[Any]) -> Any:
    places = [n for n, item in enumerate(items) if isinstance(item, NDArray)]
    arrays = [items[n].as_np_ndarray() for n in places]
    whole = all(isinstance(item, slice) and item == slice(None) for n, item in enumerate(items) if n not in places)
    if len(arrays) == 1 and arrays[0].dtype == np.bool_:
        mask = arrays[0]
        if places != [0] or not whole:
            raise TypeError(f"{_INDEX}: a mask combined with other indices")
        for _ in range(mask.ndim - 1):
            array, mask = (call("_npi_reshape", [a], newshape=(-5, -4)) for a in (array, mask))
        return call("_npi_boolean_mask", [array, mask])
    if any(a.dtype == np.bool_ for a in arrays):
        raise TypeError(f"{_INDEX}: a mask combined with other indices")
    advanced = [n for n, item in enumerate(items) if isinstance(item, (NDArray, *integer_types))]
    if len(arrays) == 1 and advanced[-1] - advanced[0] == len(advanced) - 1:
        axis = sum(not isinstance(item, integer_types) for item in items[:places[0]])
        return call("take", [_basic(array, items), arrays[0]], axis=axis, mode="wrap")
    if whole and places == list(range(len(places))) and len(advanced) == len(places):
        if len({a.shape for a in arrays}) > 1:
            shape = np.broadcast_shapes(*[a.shape for a in arrays])
            arrays = [call("_npi_broadcast_to", [a], shape=shape) for a in arrays]
        return call("gather_nd", [array, call("_npi_stack", arrays, axis=0, num_args=len(arrays))])
    raise TypeError(f"{_INDEX}: index arrays on non-adjacent axes; use np.take, or transpose first")


# ---------------------------------------------------------------- a thread's mode
def is_recording() -> bool:
    """Returns whether the calls of this thread are recorded in graphs."""
    return state.recorder is not None


def set_recording(active: bool) -> bool:
    """Turns deferred compute of this thread on or off; returns the previous state."""
    before = state.recorder is not None
    state.recorder = (state.recorder or Recorder()) if active else None
    return before


@contextmanager
def recording(active: bool = True) -> Iterator[None]:
    """A `with` scope with deferred compute on or off."""
    before = state.recorder
    state.recorder = (before or Recorder()) if active else None
    try:
        yield
    finally:
        state.recorder = before


# ---------------------------------------------------------------- arrays and their places
def associate(array: NDArray, entry: Entry) -> None:
    """Stores the position of an array in a graph."""
    _entries.setdefault(array.chunk, {})[array.region] = entry


def entry_of(array: NDArray, by: str = "get_symbol") -> Entry:
    """Returns the position of an array in a graph.

    Raises:
        MXNetError: it has none, because it was created outside of `recording()`.
    """
    entry = _entries.get(array.chunk, {}).get(array.region)
    if entry is None:
        raise MXNetError(f"{by}: ValueError: All inputs to deferred compute recording must be associated with a "
                         "symbolic variable or be the output of a deferred compute operator, which an array of shape "
                         f"{array.shape} is not. In the forward method of a hybridized block, make it an input, a "
                         "gluon.Constant or a gluon.Parameter of the block, or create it with an operator such as "
                         "np.arange, np.zeros, np.full")
    return entry


def get_symbol(arrays: NDArray | Sequence[NDArray], sym_cls: type = Symbol) -> Any:
    """Returns the graph in which arrays were recorded, as a symbol with an output for each array.

    Args:
        arrays: results of calls inside `recording()`, or variables.
        sym_cls: the class of the symbol.

    Raises:
        MXNetError: an array is not part of a graph.
    """
    return sym_cls([entry_of(a) for a in _results(arrays)])


def set_variable(arrays: NDArray | Sequence[NDArray], variables: Symbol | Sequence[Symbol]) -> None:
    """Makes arrays represent variables, at which graphs begin.

    Args:
        arrays: an NDArray, or several.
        variables: a variable for each.

    Raises:
        MXNetError: a symbol is not a variable, or an array already represents another one.
    """
    arrays = _results(arrays)
    variables = [variables] if isinstance(variables, Symbol) else list(variables)
    for i, (array, variable) in enumerate(zip(arrays, variables, strict=True)):
        outputs = variable.handle
        if len(outputs) != 1 or outputs[0][0].op is not None:
            raise MXNetError(f"set_variable expects variables, got {variable!r} as argument {i}")
        known = _entries.get(array.chunk, {}).get(array.region)
        if known is not None and known[0] is not outputs[0][0]:
            raise MXNetError(f"ValueError: array {i} is already associated with a different variable. You can call "
                             "array.detach() to obtain a copy without the variable")
    for array, variable in zip(arrays, variables, strict=True):
        associate(array, variable.handle[0])


def clear(arrays: NDArray | Sequence[NDArray]) -> None:
    """Discards the graph behind arrays, and the positions of all arrays in it."""
    known = [_entries.get(a.chunk, {}).get(a.region) for a in _results(arrays)]
    roots = [entry for entry in known if entry is not None]
    nodes = set(map(id, topological(roots)))
    for chunk, places in list(_entries.items()):
        for view in [view for view, (node, _) in places.items() if id(node) in nodes]:
            del places[view]
        if not places:
            _entries.pop(chunk, None)
