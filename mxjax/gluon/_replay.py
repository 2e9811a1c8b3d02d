"""Replay of a training step that has run before: one look-up and one call (docs/design/0019)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter, is_, itemgetter
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.core import Tracer

from ..array.dense import NDArray
from ..eager.array_types import wrap
from ..eager.chunk import Chunk, Retained, exclusive
from ..eager.deferred_call import CallPromise
from ..eager.modes import state
from ..eager.program import run_giving, run_into
from ..eager.promise import Promise, as_buffer
from ..eager.state_updates import set_to
from ..eager.trace import Trace
from ..kernel.kernel import Kernel
from ._formats import flatten, regroup
from ._parameter import Parameter, changes
from .block import HybridBlock
from .trainer import Trainer

if TYPE_CHECKING:
    from ._block import Block

__all__ = ["Loop", "Replay", "Watch"]

_NUMBERS = object()  # a source of a program's arguments besides inputs, chunks, and random keys


def as_graph(block: Block) -> bool:
    """Returns whether calling a block on arrays only runs its graph, without any other Python code."""
    return isinstance(block, HybridBlock) and block._is_graph


class _Draw(int):
    """The source of an argument: which of the values that the graph draws."""


class Watch:
    """Records the sources of a step's values before it runs, so that `replay` can repeat the step."""

    def __init__(self, net: Any, loss: Any, trainer: Trainer, inputs: Sequence[NDArray]) -> None:
        self._blocks = [block for block in (net, loss) if block is not None]
        self._trainer, self._inputs = trainer, inputs
        self._prepared = trainer._updaters[0].prepared
        self._params = list({id(p): p for block in self._blocks for _, p in block._cached_op_args
                             if not isinstance(p, int)}.values())
        arrays = [p._data[0] for p in self._params] + (self._prepared.states if self._prepared is not None else [])
        self._chunks = list(dict.fromkeys(a.chunk for a in arrays))
        self._sources: dict[int, Any] = {id(chunk.read()): chunk for chunk in self._chunks}
        self._sources.update({id(a.read()): i for i, a in enumerate(inputs)})

    @staticmethod
    def possible(net: Any, loss: Any, trainer: Trainer, inputs: Sequence[NDArray]) -> bool:
        """Returns whether a step of these could be replayed: it runs no Python code of the user, on
        one context.
        """
        if not as_graph(net) or not (loss is None or as_graph(loss)) or not trainer._kv_initialized or \
                trainer._kvstore is not None or hasattr(trainer, "_amp_loss_scaler"):
            return False
        updaters, blocks = trainer._updaters, [block for block in (net, loss) if block is not None]
        return len(updaters) == 1 and (prepared := updaters[0].prepared) is not None and prepared.together and \
            all(a.dense and a.region is None and a.entry is None for a in inputs) and \
            sum(block._cached_op.lowered.random for block in blocks) < 2 and \
            all(isinstance(p, int) or _is_one_whole_array(p) for block in blocks for _, p in block._cached_op_args)

    def sources(self, trace: Trace) -> None:
        """Finds the sources of the inputs of the program that the trace is about to run."""
        results: list[Any] = []
        random = next((op for block in self._blocks if (op := block._cached_op).lowered.random), None)
        drawn = {id(value): _Draw(i) for i, value in enumerate(random.drawn)} if random is not None else {}
        for value in trace.values:
            source = self._sources.get(id(value))
            results.append(drawn.get(id(value)) if source is None else source)
        trace.watched = True
        self._found = results + [_NUMBERS] * (len(trace.numbers) == 1)
        self._complete = None not in results and len(trace.numbers) <= 1

    def replay(self, trace: Trace, out: Any) -> Replay | None:
        """Returns a `Replay` of the step; None if a source in it is unknown."""
        ran, trace.ran = trace.ran, None  # else it would keep its own results, and the buffers that they replace
        if not self._complete or ran is None or self._prepared is not self._trainer._updaters[0].prepared:
            return None
        kernel, wanted, free = ran
        flat, form = flatten(out, "output")
        targets: list[Any] = []
        for result in wanted:
            chunk = next((c for c in self._chunks if _promised(c) is result), None)
            place = next((i for i, a in enumerate(flat) if a.region is None and _promised(a.chunk) is result), None)
            targets.append(place if chunk is None else chunk)
        if None in targets or len({t for t in targets if isinstance(t, int)}) != len(flat) or \
                not all(isinstance(self._found[i], Chunk) and self._found[i] in targets for i in free):
            return None
        return Replay(self._blocks, self._trainer, self._prepared, self._params, kernel, self._found, targets, free,
                      trace.x64, form, [type(array) for array in flat])


class Replay:
    """The step for inputs of certain shapes and dtypes; see `Watch`."""

    def __init__(self, blocks: Sequence[HybridBlock], trainer: Trainer, prepared: Any, params: Sequence[Any],
                 kernel: Any, sources: Sequence[Any], targets: Sequence[Any], free: Sequence[int], x64: bool,
                 form: Any, array_types: Sequence[type]) -> None:
        self._blocks, self._ops = blocks, [op for block in blocks if (op := block._cached_op) is not None]
        self.trainer, self.prepared, self.optimizer = trainer, prepared, trainer._optimizer
        self._params = params
        self._data = list(map(_data_of, params))  # each change of a parameter's arrays creates a new list
        self._used = list(dict.fromkeys((*params, *trainer._params)))
        self._reqs = list(map(_req_of, self._used))
        self._mark: object = None  # that of all parameters when these were last compared
        self.kernel, self.sources = kernel, sources
        self.x64, self.form = x64, form
        self.chunks = [t for t in targets if isinstance(t, Chunk)]
        changed, places = frozenset(self.chunks), {s: i for i, s in enumerate(sources) if isinstance(s, Chunk)}
        # source of each argument by position, and target of each result
        self.old = [(i, s) for i, s in enumerate(sources) if isinstance(s, Chunk) and s in changed]
        self.given = [(i, s) for i, s in enumerate(sources) if type(s) is int]
        self._unchanged = [(i, s) for i, s in enumerate(sources)
                           if type(s) is int or isinstance(s, Chunk) and s not in changed]
        self.drawn = [(i, int(s)) for i, s in enumerate(sources) if isinstance(s, _Draw)]
        self.numbers = [i for i, s in enumerate(sources) if s is _NUMBERS]
        freed = frozenset(free)
        self.freed = tuple(sorted(free))
        self.targets = [(t, places[t] if places.get(t) in freed else -1, k) for k, t in enumerate(targets)
                         if isinstance(t, Chunk)]
        self.out = sorted([(t, k, array_types[t]) for k, t in enumerate(targets) if isinstance(t, int)])
        self.fixed = [(param._data[0], number)
                      for block, op in zip(blocks, self._ops, strict=True) for place, number in op.fixed
                      if not isinstance(param := block._cached_op_args[place][1], int)]
        self._changed = changed
        self._prepare_to_retain()
        self.random = next((op for op in self._ops if op.lowered.random), None)
        self.drawing = self.random.drawing if self.random is not None else None
        self.loop: Loop | None = None  # made when it is needed

    def _prepare_to_retain(self) -> None:
        """Determines which results of a run are which arguments of the next one."""
        self._retained = Retained([chunk for chunk, _, _ in self.targets], _picker([k for _, _, k in self.targets]))
        others = [place for place, _ in (*self._unchanged, *self.drawn)] + self.numbers
        self._others = _picker(others)
        where = {chunk: k for k, (chunk, _, _) in enumerate(self.targets)}
        order = {place: where[chunk] for place, chunk in self.old}
        order.update({place: len(where) + k for k, place in enumerate(others)})
        self._ordered = _picker([order[place] for place in range(len(self.sources))])

    def holds(self) -> bool:
        """Returns whether everything is as it was when the step was seen."""
        trainer, updater = self.trainer, self.trainer._updaters[0]
        if state.trace is not None or state.recording or trainer._kvstore is not None or \
                trainer._optimizer is not self.optimizer or updater.prepared is not self.prepared or \
                updater.optimizer is not self.optimizer or hasattr(trainer, "_amp_loss_scaler"):
            return False
        for block, op in zip(self._blocks, self._ops, strict=True):
            if block._cached_op is not op or not block._active or not block._flat_inputs or op.by_steps or \
                    block._forward_hooks or block._forward_pre_hooks:
                return False
        mark = changes.mark
        if mark is not self._mark:
            if not all(map(is_, map(_data_of, self._params), self._data)) or \
                    [*map(_req_of, self._used)] != self._reqs:
                return False
            self._mark = mark
        return self.prepared.current(updater.states)

    def __call__(self, inputs: Sequence[NDArray], batch_size: int) -> tuple[Any, int] | None:
        """Runs the step and returns (the loss, number of steps); None, without any effect, if it has to run in full."""
        if not self.holds():
            return None
        for array, number in self.fixed:
            set_to(array, number)
        row = self._read(inputs)
        if row is None:
            return None
        steps, results = 0, None
        if self._retained.open:
            steps = self.complete(row, inputs, batch_size)
            if not steps:
                return None
            results = self._retained.run(partial(self._run_again, row))
        while results is None:
            for chunk in self.chunks:
                if chunk.buffer is None:
                    chunk.read()
            with exclusive(self.chunks):
                args: list[Any] = [None] * len(self.sources)
                for place, chunk in self.old:
                    args[place] = chunk.stash
                if any([args[place] is None or isinstance(args[place], (Promise, Tracer)) for place, _ in self.old]):
                    if steps:
                        continue  # another thread is changing an array
                    return None
                steps = steps or self.complete(row, inputs, batch_size)
                if not steps:
                    return None
                for place, value in row.items():
                    args[place] = value
                results = run_into(self.kernel, args, self.x64, self.targets, copies=self.freed)
                self._retain(args)
        flat, ctx = [], inputs[0].chunk.ctx
        for _, k, array_type in self.out:
            flat.append(wrap(results[k], ctx, array_type))
        return flat[0] if self.form == 0 else regroup(flat, self.form), steps

    def _read(self, inputs: Sequence[NDArray]) -> dict[int, Any] | None:
        """Returns the arguments that the program does not replace, by their places; None if one is not available."""
        row = {}
        for place, source in self._unchanged:
            chunk = source if isinstance(source, Chunk) else inputs[source].chunk
            value = chunk.buffer
            if value is None:
                value = as_buffer(chunk.pending)
            if value is None or isinstance(value, (Promise, Tracer)) or chunk in self._changed:
                return None
            row[place] = value
        return row

    def _run_again(self, row: dict[int, Any], values: tuple, results: list[tuple]) -> None:
        """Runs the program on the retained results of its last run."""
        run_giving(self.kernel, self._ordered(values + self._others(row)), self.x64, self.freed, results)

    def _retain(self, args: Sequence[Any]) -> None:
        """Lets the program retain the chunks' values until someone uses them."""
        others = {id(value) for value in args}  # a result may be an argument that the program passes on
        for chunk in self.chunks:
            value = chunk.buffer
            if chunk.lent or not isinstance(value, jax.Array) or isinstance(value, Tracer) or id(value) in others:
                return
        if not self.fixed:
            self._retained.retain(self.chunks)

    def complete(self, args: Any, inputs: Sequence[NDArray], batch_size: int) -> int:
        """Adds the numbers and draws of a step to its arguments; returns the number of steps, 0 if the optimizer's
        behaviour has changed."""
        self.trainer._check_and_rescale_grad(self.trainer._scale / batch_size)
        numbers = self.prepared.numbers(self.optimizer, self._mark)
        if numbers is None:
            return 0
        key = self.random.draw(inputs[0].chunk.ctx, self.drawing) if self.random is not None else ()
        for place, number in self.drawn:
            args[place] = key[number]
        for place in self.numbers:
            args[place] = numbers
        return 1


class Loop(Replay):
    """Several consecutive steps of a `Replay` in one program.

    This is faster where the host needs more time per step than the device, as in small networks.
    """

    def __init__(self, replay: Replay) -> None:
        vars(self).update(vars(replay))
        self._step = replay
        places = {chunk: place for place, chunk in replay.old}
        # (argument, result) of each value that a step takes from the one before
        self._carried = [(places[chunk], k) for chunk, _, k in replay.targets if chunk in places]
        self.possible = len(self._carried) == len(replay.targets)
        self._rows = [place for place, _ in (*replay.given, *replay.drawn)] + replay.numbers
        self.targets = [(chunk, place, i) for i, (chunk, place, _) in enumerate(replay.targets)]
        self.out = [(i, len(self.targets) + k, array_type) for k, (i, _, array_type) in enumerate(replay.out)]
        self._prepare_to_retain()
        self.kernel = Kernel("training steps", self._trace, len(replay.sources), len(replay.targets),
                             options={"trains": True})

    def _trace(self, *args: Any) -> tuple:
        def step(carry: tuple, rows: tuple) -> tuple[tuple, tuple]:
            full = list(args)
            for (place, _), value in zip(self._carried, carry, strict=True):
                full[place] = value
            for place, value in zip(self._rows, rows, strict=True):
                full[place] = value
            results = self._step.kernel.fn(*full)
            return tuple([results[k] for _, k in self._carried]), tuple([results[k] for _, k, _ in self._step.out])
        begin = tuple([args[place] for place, _ in self._carried])
        last, outs = jax.lax.scan(step, begin, tuple([args[place] for place in self._rows]))
        return *last, *outs

    def __call__(self, inputs: Sequence[NDArray], batch_size: int) -> tuple[Any, int] | None:
        """Runs one step per row of the inputs.

        Returns:
            (Losses with one row per step, number of completed steps), or None if nothing ran. Fewer
            steps than rows are completed if the optimizer's behaviour changes on the way.
        """
        ctx = inputs[0].chunk.ctx
        return super().__call__([wrap(array.read(), ctx) for array in inputs], batch_size)

    def complete(self, args: list[Any], inputs: Sequence[NDArray], batch_size: int) -> int:
        """Adds the numbers and draws of the steps to their arguments, in the order of steps one by one; returns the
        number of steps."""
        rows, most = list[dict[int, Any]](), len(inputs[0])
        while len(rows) < most and super().complete(row := {}, inputs, batch_size):
            rows.append(row)
        for place in rows[0] if rows else ():
            args[place] = np.stack([row[place] for row in rows])
        for place, _ in self.given if len(rows) < most else ():
            args[place] = args[place][:len(rows)]
        return len(rows)


_data_of, _req_of = attrgetter("_data"), attrgetter("_grad_req")


def _is_one_whole_array(param: Parameter) -> bool:
    """Returns whether programs may read and replace the parameter's only array as it is."""
    arrays = param._data
    return arrays is not None and len(arrays) == 1 and param.as_stored and arrays[0].dense and \
        arrays[0].region is None


def _picker(places: Sequence[int]) -> Callable[[Any], tuple]:
    """Returns a function that returns the items at these places."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda values: tuple([values[place] for place in places])


def _promised(chunk: Chunk) -> Any:
    """The trace's result that a chunk waits for."""
    pending = chunk.pending
    return pending.call if isinstance(pending, CallPromise) else pending
