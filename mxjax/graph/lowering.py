"""The only lowering of graphs to pure JAX functions.

`Lowered.call(args, aux, key, train)` computes the outputs and the new auxiliary states. Executor, Gluon's cached
graphs, export and the JAX interop all use it.
"""

from __future__ import annotations

import functools
import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._support.bounded import Bounded
from .._xla.x64 import needs_x64
from ..base import MXNetError
from ..interpret.calls import interpreting
from ..kernel.compiled import Compiled
from ..kernel.kernel import Kernel, never, prepare
from ..ops.params import np_dtype
from ..util import is_np_shape
from . import attention
from .inference import Inference
from .loop_rolling import Loop, Row, as_rows, find_loops, joined, rows_of, run_loop
from .node import Entry, Node, auxiliary, topological

__all__ = ["POLICIES", "Forms", "Lowered", "Touched"]

# policies for values to keep when backward passes recompute: names of jax.checkpoint_policies
POLICIES = ("nothing_saveable", "dots_saveable", "dots_with_no_batch_dims_saveable", "everything_saveable")


class Touched(NamedTuple):
    """The changes of a backward pass through a graph to variables, besides gradients.

    states: auxiliary states, by number, that change in the backward pass of training on CPUs, each with the weight of
    its old value; fixed: variables, by place, that operators on the path set to a number in the forward pass (FFixed):
    MXNet's executors set them only in the backward pass.
    """

    states: dict[int, float]
    fixed: list[tuple[int, float]]


def _none(_: object) -> dict:
    return {}


class _Stretch(NamedTuple):
    """Consecutive steps.

    steps: their numbers; again: name of the policy for values to keep, while backward passes recompute the others, or
    None: everything needed is kept; reads: input entries; gives: entries that are used afterwards; loop: the loop that
    the steps form.
    """

    steps: list[int]
    again: str | None = None
    reads: Sequence[Any] = ()
    gives: Sequence[Any] = ()
    loop: Loop | None = None


class Lowered:
    """A graph prepared for execution.

    args, aux: names of the arguments and auxiliary states, in MXNet's order; cut: whether some operator runs on the
    host (a custom operator, or one whose output shape depends on data), so that the graph cannot be a single XLA
    program;
    checks: whether an operator checks its inputs or outputs, which it cannot do inside a compiled program;
    random: whether an operator draws random numbers; draws_by_value: whether one needs values to draw, on CPUs; modes:
    whether training is a different computation; unsized: whether the shape of some node depends on its surroundings;
    branches: whether `uneven` may be true; touches: whether `touched` may be nonempty.
    """

    def __init__(self, outputs: Sequence[Entry]) -> None:
        self.outputs = list(outputs)
        self.nodes = topological(outputs)
        changed = auxiliary(self.nodes)
        variables = [n for n in self.nodes if n.op is None]
        self.arg_nodes = [n for n in variables if id(n) not in changed]
        self.aux_nodes = [n for n in variables if id(n) in changed]
        self.args, self.aux = [n.name for n in self.arg_nodes], [n.name for n in self.aux_nodes]
        self.steps = [n for n in self.nodes if n.op is not None]
        self.cut = any(n.op.eager or n.op.get_attr("FHost") for n in self.steps)
        self.checks = any(
            n.inputs and n.op.get_attr("FRefuse") and not n.op.get_attr("refuses_calls_alone") or
            n.op.get_attr("eager_when", never)(n.params) for n in self.steps)
        self.random = any(n.op.uses_key for n in self.steps)
        self.draws_by_value = any(n.inputs and n.op.get_attr("draws_by_value") for n in self.steps)
        self.modes = any(n.op.trains(n.params) or n.subgraphs for n in self.steps)  # training is another computation
        self.unsized = any((check := n.op.get_attr("FShapeKnown")) and not check(n.params) for n in self.steps)
        self.branches = any(n.op.get_attr("FUneven") for n in self.steps)
        self._kernels: dict[Any, list[Kernel]] = Bounded(64)
        self._gradients: dict[bool, tuple[set[int], list[Entry]]] = {}
        self._draws: dict[Any, list[Callable | None]] = Bounded(64)
        self._inference: Inference | None = None
        self._forms: Forms | None = None
        self._alone: frozenset[tuple[int, int]] | None = None
        self._last: list[list[tuple[int, int]]] | None = None
        self._parts: list[_Stretch] | None = None
        self._looped: list[_Stretch] | None = None
        self._rolls = False  # whether some of these are loops
        self._grouped: list[list[int]] | None = None
        self.touches = any(n.op.get_attr("FDecay") or n.op.get_attr("FFixed") for n in self.steps)
        self._updated: dict[int, list[Node]] | None = None
        self._touched: dict[tuple, Touched] = Bounded(64)

    @property
    def inference(self) -> Inference:
        """Answers questions about shapes and dtypes."""
        if self._inference is None:
            self._inference = Inference(self.outputs, self.nodes)
        return self._inference

    def updated_in_backward(self) -> dict[int, list[Node]]:
        """Returns the auxiliary states that change in backward passes on CPUs, by number, and the nodes that change
        them."""
        if self._updated is None:
            result: dict[int, list[Node]] = {id(n): [] for n in self.aux_nodes}
            other = set()
            for node in self.steps:
                for i in node.mutated():
                    source = id(node.inputs[i][0])
                    result.get(source, []).append(node)
                    if node.op.get_attr("FDecay") is None:
                        other.add(source)
            self._updated = {k: result[id(n)] for k, n in enumerate(self.aux_nodes) if id(n) not in other}
        return self._updated

    def touched(self, needs_grad: Sequence[bool]) -> Touched:
        """Returns the changes of a backward pass to variables, for the gradients that are requested."""
        key = tuple(needs_grad)
        if key not in self._touched:
            variables = [n for n in self.nodes if n.op is None]
            places = {id(n): i for i, n in enumerate(variables)}
            depends = {id(n) for n, w in zip(variables, needs_grad, strict=False) if w}
            passed = []  # outputs depend on all steps, and these on variables whose gradients are requested
            for node in self.steps:
                if any(id(source) in depends for source, _ in node.inputs):
                    depends.add(id(node))
                    passed.append(node)
            late = {}
            for k, nodes in self.updated_in_backward().items():
                decays = [n.op.get_attr("FDecay")(n.params) for n in nodes if id(n) in depends and
                          n.op.trains(n.params)]
                if decays:
                    late[k] = math.prod(decays)
            fixed = []
            for node in passed:
                numbers = (node.op.get_attr("FFixed") or _none)(node.params)
                sources = dict(zip(node.input_names(), node.inputs, strict=False)) if numbers else {}
                fixed += [(places[id(sources[name][0])], number) for name, number in numbers.items()
                          if sources[name][0].op is None]
            self._touched[key] = Touched(late, fixed)
        return self._touched[key]

    def uneven(self, shapes: dict[str, tuple]) -> bool:
        """Returns whether a condition selects between results of different shapes, for these shapes of the variables.

        Such a graph cannot be a single program.
        """
        if not self.branches:
            return False
        result = self.inference.shapes(shapes)
        return any(rule(n.params, [result[id(source), i] for source, i in n.inputs])
                   for n in self.steps if (rule := n.op.get_attr("FUneven")))

    def kernels(self, train: bool) -> list[Kernel]:
        """A kernel for each operator node."""
        if train not in self._kernels:
            self._kernels[train] = [prepare(n.op, n.params, len(n.inputs), train) for n in self.steps]
        return self._kernels[train]

    def constant(self, train: bool) -> list[int]:
        """Returns the arguments whose gradients are zero, because no operator passes gradients to them."""
        reached = self._reached(train)[0]
        return [i for i, node in enumerate(self.arg_nodes) if id(node) not in reached]

    def _reached(self, train: bool) -> tuple[set[int], list[Entry]]:
        """(ids of the nodes that gradients reach, the results of losses that the outputs' gradients do not reach)."""
        found = self._gradients.get(train)
        if found is None:
            reached: set[int] = {id(node) for node, _ in self.outputs}
            losses: list[Entry] = []
            for node, kernel in reversed(list(zip(self.steps, self.kernels(train), strict=True))):
                if kernel.starts and id(node) not in reached:
                    reached.add(id(node))
                    losses.append((node, 0))
                if id(node) in reached:
                    reached.update([id(n) for i, (n, _) in enumerate(node.inputs) if i not in kernel.constant])
            found = self._gradients[train] = reached, losses
        return found

    def kernels_for(self, args: Sequence[Any], aux: Sequence[Any], train: bool) -> list[Kernel]:
        """Returns `kernels` for values of known shapes: created arrays get the shape that their surroundings
        require."""
        if not self.unsized:
            return self.kernels(train)
        key = train, *[(tuple(v.shape), np.dtype(v.dtype)) for v in (*args, *aux)]
        if key not in self._kernels:
            kernels = list(self.kernels(train))
            shapes = self.shapes_for(args, aux)
            for i, node in enumerate(self.steps):
                if id(node) in shapes:
                    kernels[i] = prepare(node.op, {**node.params, "shape": shapes[id(node)]}, len(node.inputs), train)
            self._kernels[key] = kernels
        return self._kernels[key]

    def shapes_for(self, args: Sequence[Any], aux: Sequence[Any]) -> dict[int, tuple[int, ...]]:
        """Returns the shapes, by id, of the nodes whose shape depends on their surroundings."""
        if not self.unsized:
            return {}
        values = dict(zip(self.args + self.aux, [*args, *aux], strict=True))
        result = self.inference.shapes({name: tuple(v.shape) for name, v in values.items()},
                             {name: np.dtype(v.dtype).name for name, v in values.items()})
        shapes = {}
        for node in self.steps:
            check = node.op.get_attr("FShapeKnown")
            if check and not check(node.params) and "shape" in node.params:
                shape = shapes[id(node)] = result[id(node), 0]
                if shape is None or None in shape:
                    raise MXNetError(f"Error in operator {node.name}: its shape cannot be inferred; the known part is "
                                     f"{shape}")
        return shapes

    def x64(self, values: Sequence[Any], train: bool) -> bool:
        """Returns whether the program needs 64-bit mode for these values."""
        return any(needs_x64(v.dtype) for v in values) or any(k.x64 for k in self.kernels(train))

    def call(self, args: Sequence[Any], aux: Sequence[Any], key: tuple, train: bool,
             forward: bool = False) -> tuple[list, list]:
        """(outputs, new auxiliary states) for values in the order of `args` and `aux`.

        Args:
            args, aux: JAX values.
            key: (key data, counter) for random operators, each of which uses a separate counter; or the numbers that
                `drawing` has drawn, with a separate key and counter for each operator without them.
            train: training mode.
            forward: no gradients will be requested.
        """
        if interpreting():
            return self.pullback(args, aux, key, train, ())[:2]
        values, kernels, extras = self._prepared(args, aux, key, train)

        def do(numbers: Sequence[int], values: dict[tuple[int, int], Any]) -> None:
            for number in numbers:
                self._step(self.steps[number], kernels[number], list(map(attention.forced, extras[number])), values,
                           train)

        def compute(number: int, inputs: list[Any], extras: list[Any]) -> Sequence[Any]:
            return self._results(self.steps[number], kernels[number], extras, inputs, train)
        for stretch in self._rolled():
            if stretch.loop is not None:
                if not run_loop(stretch.loop, stretch.steps, values, self.steps, kernels, extras, compute):
                    do(stretch.steps, values)
            elif stretch.again is None or forward:
                do(stretch.steps, values)
            else:
                values.update(_again(stretch, values, do))
        outputs = [attention.forced(values[id(n), i]) for n, i in self.outputs]
        losses = [] if forward else [values[id(n), i] for n, i in self._reached(train)[1] if (id(n), i) in values]
        return ([_with_losses(output, *losses) for output in outputs] if losses else outputs,
                [values[id(n), 0] for n in self.aux_nodes])

    def _prepared(self, args: Sequence[Any], aux: Sequence[Any], key: tuple,
                  train: bool) -> tuple[dict[tuple[int, int], Any], list[Kernel], list[list[Any]]]:
        """Returns (the values of the variables, the kernel of each step, its further arguments)."""
        values: dict[tuple[int, int], Any] = {}
        for node, value in zip([*self.arg_nodes, *self.aux_nodes], [*args, *aux], strict=True):
            values[id(node), 0] = value
        kernels, extras = self.kernels_for(args, aux, train), []
        draws = sum(kernel.uses_key for kernel in kernels)
        drawn = None if _is_key(key) else iter(self.unpacked(key) if len(key) < draws else key)
        for number, (node, kernel) in enumerate(zip(self.steps, kernels, strict=True)):
            extras.append([node.params[n] for n in kernel.dynamic])
            if kernel.uses_key:
                extras[-1] += [key[0], key[1] + np.uint32(number)] if drawn is None else _next(drawn)
        return values, kernels, extras

    def pullback(self, args: Sequence[Any], aux: Sequence[Any], key: tuple, train: bool,
                 needs_grad: Sequence[bool], once: bool = False,
                 ) -> tuple[list[Any], list[Any], Callable[[Sequence[Any]], list[Any]]]:
        """Computes the graph step by step with NumPy arrays.

        Args:
            args, aux, key, train: as in `call`.
            needs_grad: for each argument, whether its gradient will be requested; empty: none.
            once: the gradients are requested only once, so the arrays of each step are freed after their use.

        Returns:
            The outputs, the new auxiliary states, and function(gradients of the outputs) -> gradients of the arguments;
            None: zero, or no gradient.
        """
        self._stretches()  # it rejects unknown policies
        values, kernels, extras = self._prepared(args, aux, key, train)
        live = {(id(n), 0) for n, w in zip(self.arg_nodes, needs_grad, strict=False) if w}
        tape, losses, starts = [], [], {id(n) for n, _ in self._reached(train)[1]} if live else set()
        for node, kernel, extra, last in zip(self.steps, kernels, extras, self._last_reads(), strict=True):
            entries = [(id(n), i) for n, i in node.inputs]
            inputs = [values[entry] for entry in entries]
            results = self._run(node, kernel, extra, inputs)
            for i in range(kernel.num_outputs):
                values[id(node), i] = results[i]
            for position, value in zip(kernel.mutated, results[kernel.num_outputs:], strict=True):
                values[entries[position]] = value
            if live:
                reached = tuple([entry in live and i not in kernel.constant for i, entry in enumerate(entries)])
                if any(reached):
                    if id(node) in starts:
                        losses.append(((id(node), 0), (results[0].shape, results[0].dtype)))
                    kept = results if kernel.keeps_result else (*inputs, *extra)
                    tape.append((node, kernel, entries, kept, reached))
                    live.update([(id(node), i) for i in range(kernel.num_outputs)
                                 if results[i].dtype.kind not in "biu"])
            for entry in last:
                values.pop(entry, None)
            inputs = results = kept = None  # otherwise they would live until those of the next step exist
        outputs = [(id(n), i) for n, i in self.outputs]

        def pull(out_grads: Sequence[Any]) -> list[Any]:
            totals: dict[tuple[int, int], Any] = {}
            for entry, out_grad in zip(outputs, out_grads, strict=False):
                if out_grad is not None:
                    totals[entry] = totals[entry] + out_grad if entry in totals else out_grad
            totals.update([(entry, np.zeros(*spec)) for entry, spec in losses])
            rest = tape if once else tape.copy()
            while rest:
                node, kernel, entries, operands, reached = rest.pop()
                slots = [totals.pop((id(node), i), None) for i in range(kernel.num_outputs)]
                there = tuple([slot is not None for slot in slots])
                if not any(there):
                    continue
                backward = kernel.vjp((*reached, *(False,) * (len(operands) - len(reached))), there)
                grads = iter(backward.within(*operands, *[slot for slot in slots if slot is not None]))
                for entry, wants in zip(entries, reached, strict=True):
                    if wants:
                        grad = next(grads)
                        totals[entry] = totals[entry] + grad if entry in totals else grad
            return [totals.get((id(n), 0)) for n in self.arg_nodes]
        return [values[entry] for entry in outputs], [values[id(n), 0] for n in self.aux_nodes], pull

    def _step(self, node: Node, kernel: Kernel, extras: list[Any], values: dict[tuple[int, int], Any],
              train: bool) -> None:
        """Computes a node, and adds its results to `values`."""
        results = self._results(node, kernel, extras, [values[id(n), i] for n, i in node.inputs], train)
        for i in range(kernel.num_outputs):
            values[id(node), i] = results[i]
        for position, value in zip(kernel.mutated, results[kernel.num_outputs:], strict=True):
            source = node.inputs[position]
            values[id(source[0]), source[1]] = value

    def _results(self, node: Node, kernel: Kernel, extras: list[Any], inputs: list[Any],
                 train: bool) -> Sequence[Any]:
        whole = joined(node, inputs)
        if whole is not None:
            return [whole]
        inputs = [x.value() if isinstance(x, Row) else x for x in inputs]
        with jax.named_scope(node.name):
            results = attention.step(node, inputs, functools.partial(self._run, node, kernel, extras),
                                     (id(node), 0) in self._read_once(), train)
        return as_rows(node, inputs, results) if self._rolls else results

    def _stretches(self) -> list[_Stretch]:
        """Returns all steps; those that backward passes recompute (MXNet's attribute `force_mirroring`) stage by
        stage."""
        if self._parts is None:
            needed = {(id(n), i) for n, i in [*self.outputs, *((n, 0) for n in self.aux_nodes)]}
            results = []
            for stage, group in reversed(self._stages()):
                reads: dict[Any, None] = {}  # in their order
                produced: dict[Any, None] = {}
                for node in map(self.steps.__getitem__, group):
                    entries = [(id(n), i) for n, i in node.inputs]
                    reads.update(dict.fromkeys(e for e in entries if e not in produced))
                    produced.update(dict.fromkeys((id(node), i) for i in range(node.num_outputs)))
                    produced.update(dict.fromkeys(entries[i] for i in node.mutated()))
                results.append(_Stretch(group, stage[0], list(reads), [e for e in produced if e in needed]))
                needed.update(reads)
            self._parts = results[::-1]
        return self._parts

    def _rolled(self) -> list[_Stretch]:
        """Returns the stretches, with repetitions as loops."""
        if self._looped is None:
            parts = self._stretches()
            self._looped = self._with_loops() if len(parts) == 1 and parts[0].again is None and not self.cut else parts
            self._rolls = any(part.loop is not None for part in self._looped)
        return self._looped

    def _with_loops(self) -> list[_Stretch]:
        """Returns all steps, with repetitions as loops."""
        numbers = range(len(self.steps))
        order = sorted(numbers, key=lambda i: bool(self.steps[i].inputs))  # initial states belong to the first step
        result, done = [], 0
        for loop in find_loops([self.steps[i] for i in order], self.outputs):
            end = loop.start + loop.period * loop.times
            result += [_Stretch(order[done:loop.start]), _Stretch(order[loop.start:end], loop=loop)]
            done = end
        return [*result, _Stretch(order[done:])]

    def _stages(self) -> list[tuple[tuple, list[int]]]:
        """Returns (`_mirrored`, the numbers of consecutive steps) in an order that keeps stages together: steps in
        between that do not depend on the stage (such as a mask that its first reader creates) come before it."""
        states, last = set(map(id, self.aux_nodes)), set()
        results: list[tuple[tuple, list[int]]] = []
        for number, node in enumerate(self.steps):
            stage = (None, None) if self.cut else _mirrored(node)
            sources = {id(n) for n, _ in node.inputs}
            if results and results[-1][0] == stage:
                results[-1][1].append(number)
            elif results and stage[0] is None and not sources & last and not sources & states:
                results.insert(-1, (stage, [number]))
                continue
            else:
                results.append((stage, [number]))
                last = set()
            last.add(id(node))
        return results

    def _last_reads(self) -> list[list[tuple[int, int]]]:
        """Returns for each step the entries that neither a later step nor the caller uses afterwards."""
        if self._last is None:
            needed = {(id(n), i) for n, i in self.outputs} | {(id(n), 0) for n in self.aux_nodes}
            results = []
            for node in reversed(self.steps):
                entries = {(id(n), i) for n, i in node.inputs} | {(id(node), i) for i in range(node.num_outputs)}
                results.append([entry for entry in entries if entry not in needed])
                needed |= entries
            self._last = results[::-1]
        return self._last

    def _read_once(self) -> frozenset[tuple[int, int]]:
        """Returns the entries that exactly one node reads, once."""
        if self._alone is None:
            readers = Counter((id(n), i) for reader in self.steps for n, i in reader.inputs)
            self._alone = frozenset(entry for entry, count in readers.items() if count == 1) - \
                {(id(n), i) for n, i in self.outputs}
        return self._alone

    def drawing(self, values: Sequence[Any], train: bool) -> list[Callable | None]:
        """Returns for each random operator its function(source) -> array or None, on the host; None: there is none.

        Args:
            values: arguments, then auxiliary states, or anything with their shapes and dtypes.
            train: training mode.
        """
        key = train, *[(v.shape, v.dtype) for v in values]
        if key not in self._draws:
            self._draws[key] = self._drawing(values, train)
        return self._draws[key]

    def _drawing(self, values: Sequence[Any], train: bool) -> list[Callable | None]:
        kernels = self.kernels_for(values[:len(self.args)], values[len(self.args):], train)
        names = self.args + self.aux
        dtypes = {n: np.dtype(v.dtype).name for n, v in zip(names, values, strict=True)}
        shapes = self.inference.shapes({n: tuple(v.shape) for n, v in zip(names, values, strict=True)}, dtypes)
        types = self.inference.types(dtypes)
        draws: list[Callable | None] = []
        for node, kernel in zip(self.steps, kernels, strict=True):
            places = [(id(n), i) for n, i in node.inputs]
            unknown = any((shape := shapes[p]) is None or None in shape or types[p] is None for p in places)
            if not kernel.uses_key:
                continue
            if kernel.draw is None or node.inputs and node.op.get_attr("draws_by_value") or unknown:
                draws.append(None)
            else:
                inputs = [jax.ShapeDtypeStruct(shapes[p], np_dtype(types[p])) for p in places]
                params = {**kernel.params, **{n: node.params[n] for n in kernel.dynamic}}  # kernels share their numbers
                draws.append(functools.partial(kernel.draw, values=params, inputs=inputs))
        return draws

    def packed(self, drawn: Sequence[Any]) -> tuple:
        """Returns the draws of `drawing` as `call` takes them.

        Those of a loop's repetitions are the rows of one array; otherwise the program would have an argument for each.
        """
        groups = self._drawn_in_loops()
        if not groups or len(drawn) != sum(n.op.uses_key for n in self.steps) or not all(
                isinstance(drawn[i], np.ndarray) and drawn[i].dtype != np.uint32 and
                (drawn[i].shape, drawn[i].dtype) == (drawn[group[0]].shape, drawn[group[0]].dtype)
                for group in groups for i in group):
            return tuple(drawn)
        whole: list[Any] = list(drawn)
        for group in groups:
            whole[group[0]] = np.stack([drawn[i] for i in group])
            for i in group[1:]:
                whole[i] = None
        return tuple([values for values in whole if values is not None])

    def unpacked(self, key: Sequence[Any]) -> list[Any]:
        """Returns the draws that were passed to `packed`."""
        places: dict[int, Sequence[int]] = {group[0]: group for group in self._drawn_in_loops()}
        others = {i for group in places.values() for i in group[1:]}
        arrays, result = iter(key), {}
        for i in range(sum(n.op.uses_key for n in self.steps)):
            if i in places:
                result.update(zip(places[i], rows_of(next(arrays), len(places[i])), strict=True))
            elif i not in others:
                result[i] = next(arrays)
        return [result[i] for i in sorted(result)]

    def _drawn_in_loops(self) -> list[list[int]]:
        """Returns, for each random operator of a loop, the places of its repetitions among all random operators, in
        order."""
        if self._grouped is None:
            drawing = [number for number, node in enumerate(self.steps) if node.op.uses_key]
            order = {number: i for i, number in enumerate(drawing)}
            turns = [stretch.steps[j::stretch.loop.period] for stretch in self._rolled() if stretch.loop is not None
                     for j in range(stretch.loop.period)] if drawing else []
            self._grouped = [[order[number] for number in each] for each in turns if each[0] in order]
        return self._grouped

    def _run(self, node: Node, kernel: Kernel, extras: list[Any], inputs: list[Any]) -> Sequence[Any]:
        try:
            if interpreting():
                return kernel.within(*inputs, *extras)
            # extras, as numbers, are constants of the program
            return kernel.fn(*inputs, *extras) if extras or kernel.eager or kernel.symbolic else kernel.once(*inputs)
        except MXNetError as error:
            raise MXNetError(f"Error in operator {node.name}: {error}") from None
        except (TypeError, ValueError, IndexError, ZeroDivisionError) as error:
            shapes = ", ".join(f"{np.dtype(v.dtype).name}{tuple(v.shape)}" for v in inputs if hasattr(v, "shape"))
            raise MXNetError(f"Error in operator {node.name} ({node.op.name}) [inputs: {shapes}]: "
                             f"{str(error).splitlines()[0] if str(error) else error!r}") from None

    # ------------------------------------------------------------ compiled forms
    def forward(self, train: bool) -> Callable[..., tuple]:
        """Returns the compiled fn(args, aux, key) -> (outputs, new aux)."""
        train = train and self.modes
        return self._compiled(("forward", train),
                              lambda graph, args, aux, key: graph.call(args, aux, key, train, forward=True))

    def _compiled(self, key: Any, function: Callable, **options: Any) -> Callable:
        forms = self.forms()
        if key not in forms.programs:
            forms.programs[key] = Compiled(lambda *args: function(forms.graph, *args), **options)
        return forms.programs[key]

    def forms(self) -> Forms:
        """Returns the compiled forms, which all graphs of the same structure share."""
        forms = self._forms
        if forms is None:
            structure = self._structure()
            forms = self._forms = _recent.pop(structure, None) or Forms(self)
            if structure is not None:
                _recent[structure] = forms
                if len(_recent) > _MOST_FORMS:
                    _recent.popitem(last=False)
        forms.graph = self
        return forms

    def _structure(self) -> Any:
        """Returns the structure of a graph without names; None if it contains more than plain values."""
        if self.cut or any(n.subgraphs for n in self.steps):
            return None
        place = {id(n): i for i, n in enumerate(self.nodes)}
        rows = []
        for node in self.nodes:
            if not all(map(_is_plain, node.params.values())):
                return None
            description = node.params if node.op else [node.attrs.get(key) for key in ("__shape__", "__dtype__")]
            rows.append((node.op, repr(description), tuple([(place[id(n)], i) for n, i in node.inputs])))
        again = tuple([(stretch.again, *stretch.steps) for stretch in self._stretches() if stretch.again])
        return is_np_shape(), tuple(rows), tuple([(place[id(n)], i) for n, i in self.outputs]), again


class Forms:
    """The compiled functions of graphs with the same structure.

    graph: the graph in use, whose names appear in errors and profiles; arg_places, aux_places: positions of the
    arguments and the auxiliary states among the `count` variables; programs: compiled functions; plans: descriptions of
    recorded runs by the signature of their values.
    """

    __slots__ = ("graph", "arg_places", "aux_places", "count", "programs", "plans")

    def __init__(self, graph: Lowered) -> None:
        variables = [id(n) for n in graph.nodes if n.op is None]
        self.graph, self.count = graph, len(variables)
        self.arg_places = [variables.index(id(n)) for n in graph.arg_nodes]
        self.aux_places = [variables.index(id(n)) for n in graph.aux_nodes]
        self.programs: dict[Any, Any] = Bounded(256)
        self.plans: dict[tuple, Any] = Bounded(256)

    def split(self, values: Sequence[Any]) -> tuple[list[Any], list[Any], tuple]:
        """Returns arguments, auxiliary states and random key from values in the order of the variables."""
        return ([values[i] for i in self.arg_places], [values[i] for i in self.aux_places], tuple(values[self.count:]))


@jax.custom_vjp
def _with_losses(output: Any, *losses: Any) -> Any:
    """Returns the output; with its gradient zeros also reach the losses, which JAX would leave out."""
    return output


_with_losses.defvjp(lambda output, *losses: (output, losses),
                    lambda losses, grad: (grad, *[jnp.zeros_like(loss) for loss in losses]))


def _mirrored(node: Node) -> tuple[str | None, str | None]:
    """Returns (name of the policy for a node's values in a backward pass, or None: all needed ones; the node's
    stage)."""
    if node.attrs.get("__force_mirroring__", "").lower() not in ("1", "true"):
        return None, None
    policy = node.attrs.get("__mirror_policy__", "nothing_saveable")
    if policy not in POLICIES:
        raise MXNetError(f"__mirror_policy__ must be one of {', '.join(POLICIES)}, got {policy!r}")
    return policy, node.attrs.get("__mirror_stage__")


def _again(stretch: _Stretch, values: dict[Any, Any], do: Callable) -> Iterator[tuple[Any, Any]]:
    """Returns the results of a stretch, of which a backward pass keeps only the values of its policy."""
    def function(*operands: object) -> list[Any]:
        inside = dict(zip(stretch.reads, operands, strict=True))
        do(stretch.steps, inside)
        return [attention.forced(inside[entry]) for entry in stretch.gives]
    operands = [attention.forced(values[entry]) for entry in stretch.reads]
    results = jax.checkpoint(function, policy=getattr(jax.checkpoint_policies, str(stretch.again)))(*operands)
    return zip(stretch.gives, results, strict=True)


def _is_key(key: Sequence[Any]) -> bool:
    """Returns whether this is JAX's key and counter; drawn numbers are never uint32."""
    return len(key) == 2 and key[0].dtype == np.uint32


def _next(drawn: Iterator[Any]) -> list[Any]:
    """Returns the source of one operator: drawn numbers, or a key and counter."""
    first = next(drawn)
    return [first, next(drawn)] if not isinstance(first, Row) and first.dtype == np.uint32 else [first]


_MOST_FORMS = 64
_recent: OrderedDict[Any, Forms] = OrderedDict()  # models are often created again: in a search, in tests


def _is_plain(value: object) -> bool:
    return all(map(_is_plain, value)) if isinstance(value, (tuple, list)) else \
        value is None or isinstance(value, (bool, int, float, str))
