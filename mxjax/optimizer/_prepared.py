"""The update of all weights as one prepared call, for optimizers that run one operator per weight."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from operator import is_
from typing import Any, NamedTuple

import numpy as np

from ..array.dense import NDArray
from ..eager.compose import Call, composed
from ..eager.dispatch import invoke, overwrite
from ..kernel.kernel import Kernel, as_numbers, prepare
from ..kernel.policy import Programs
from ..ops import registry
from .base import Optimizer

__all__ = ["PreparedUpdate"]


class PreparedUpdate:
    """The update of a fixed set of weights. Its arguments are looked up once; afterwards only the numbers change.

    Args:
        optimizer: an optimizer that defines `_operator`.
        indices, weights, grads, states: the parameters.
        separately: number of updates that run weight by weight, with one program per shape, before
            one program updates all weights.
    """

    def __init__(self, optimizer: Optimizer, indices: list[Any], weights: list[NDArray], grads: list[NDArray],
                 states: list[Any], separately: float = 0) -> None:
        self.indices, self._weights, self._grads, self._states = indices, weights, grads, states
        self._arrays: list[NDArray] = []
        self.states: list[NDArray] = []
        self._different, which = _updates(optimizer, weights, states)
        for weight, grad, state in zip(weights, grads, states, strict=True):
            own = optimizer._state_arrays(state)
            self._arrays += [weight, grad, *own]
            self.states += own
        self._firsts = [which.index(i) for i in range(len(self._different))]
        self._varied = self._different[0].varied
        structure = tuple(self._different), tuple(which)
        self._kernel = _programs.find(structure, lambda: _together(*structure), 0)
        # whether rates follow from the optimizer's rate and decay and the multipliers alone; else from counts, too
        self._by_rates = all(_is_usual(optimizer, name) for name in ("_get_lrs", "_get_wds"))
        self._without_counts = _is_usual(optimizer, "_operator_rates")
        self._known: tuple[Any, list[float], list[float]] = None, [], []  # inputs of the rates, rates, decays
        self._vector: tuple[Any, np.ndarray | None] = None, None  # inputs of the last vector, and the vector
        self._x64 = any(a.chunk.x64 for a in self._arrays)
        self._separately, self._ones = separately, list[tuple[Kernel, dict[str, Any], list[NDArray], NDArray]]()
        if separately:
            kernels = [_one(update, pack=True) for update in self._different]
            for update, weight, grad, state in zip(which, weights, grads, states, strict=True):
                self._ones.append((*kernels[update], [weight, grad, *optimizer._state_arrays(state)], weight))

    @property
    def together(self) -> bool:
        """Returns whether one program now updates all weights."""
        return not self._separately

    @staticmethod
    def possible(optimizer: Optimizer, weights: Sequence[NDArray], grads: Sequence[NDArray],
                 states: Sequence[Any]) -> bool:
        """Returns whether one operator call updates each of these weights and the calls share their numbers.
        """
        for weight, grad, state in zip(weights, grads, states, strict=True):
            if not optimizer._is_one_call(weight):
                return False
            arrays = (weight, grad, *optimizer._state_arrays(state))
            if not all(isinstance(a, NDArray) and a.dense for a in arrays) or \
                    weight.chunk.ctx != weights[0].chunk.ctx:
                return False
        return len({update.varied for update in _updates(optimizer, weights, states)[0]}) == 1

    def current(self, states: dict[Any, Any]) -> bool:
        """Returns whether these are the states that this update changes."""
        return all(map(is_, self._states, map(states.get, self.indices)))

    def fits(self, indices: list[Any], weights: list[NDArray], grads: list[NDArray], states: dict[Any, Any]) -> bool:
        """Returns whether this is the update of these parameters with these states."""
        return self.indices == indices and all(map(is_, self._weights, weights)) and \
            all(map(is_, self._grads, grads)) and self.current(states)

    def numbers(self, optimizer: Optimizer, mark: object = None) -> np.ndarray | None:
        """Counts an update and returns the vector of its numbers, which must not be changed.

        Args:
            optimizer: the optimizer of this update.
            mark: another object whenever a parameter's multiplier changes; None: they may have.

        Returns:
            The vector; None, without any effect, if the optimizer's behaviour has changed.
        """
        options: dict[str, Any] = {}
        for update, first in zip(self._different, self._firsts, strict=True):
            name, options = optimizer._operator(self._weights[first], self._states[first])
            if (name, tuple(options)) != (update.name, update.names) or \
                    len(options) > len(self._varied) and update.fixed != _fixed(options, self._varied):
                return None
        optimizer._update_count(self.indices)
        source: Any = object()
        if mark is None or not self._by_rates or len(optimizer.param_dict) < len(self.indices):
            lrs, wds = optimizer._get_lrs(self.indices), optimizer._get_wds(self.indices)
        else:
            rate = optimizer.learning_rate  # asked once: a schedule of the user's may count
            source = mark, float(rate), float(optimizer.wd)
            if self._known[0] != source:
                self._known = (source, optimizer.multiplied(rate, "lr_mult", self.indices),
                               optimizer.multiplied(optimizer.wd, "wd_mult", self.indices))
            lrs, wds = [*self._known[1]], self._known[2]
        shared = list(map(float, map(options.__getitem__, self._varied)))
        source = (source, *shared)
        if self._without_counts and self._vector[0] == source:
            return self._vector[1]
        # the operators' numbers are C floats, also for float64 weights
        vector = np.array(optimizer._operator_rates(self.indices, lrs, wds) + shared, np.float32)
        vector = vector.astype(np.float64) if self._x64 else vector
        self._vector = source, vector
        return vector

    def __call__(self, optimizer: Optimizer) -> bool:
        """Updates the weights. Returns False, without any effect, if the optimizer's behaviour has changed."""
        numbers = self.numbers(optimizer)
        if numbers is None:
            return False
        if self._separately:
            self._separately -= 1
            self._one_by_one(numbers.tolist())
            return True
        self._ones.clear()
        extras = (numbers,)
        if not overwrite(self._kernel, self._arrays, extras, self._weights):
            invoke(self._kernel, self._arrays, extras, self._weights)
        return True

    def _one_by_one(self, numbers: list[float]) -> None:
        count = len(self._ones)
        shared = dict(zip(self._varied, numbers[2 * count:], strict=True))
        for rate, decay, (kernel, params, arrays, weight) in zip(numbers, numbers[count:], self._ones, strict=False):
            extras = kernel.extras({**params, **shared, "lr": rate, "wd": decay}, self._x64)
            if not overwrite(kernel, arrays, extras, (weight,)):
                invoke(kernel, arrays, extras, weight)


def _is_usual(optimizer: Optimizer, name: str) -> bool:
    """Returns whether an optimizer's method is the one of `Optimizer`."""
    return getattr(type(optimizer), name) is getattr(Optimizer, name)


class _Update(NamedTuple):
    """The operator that updates a weight, with its fixed parameters."""

    name: str  # of the operator
    names: tuple[str, ...]  # of its parameters
    fixed: tuple  # those that a program is made for, with their values
    varied: tuple[str, ...]  # those that are a program's arguments, which all weights share
    width: int  # how many arrays the operator takes


def _updates(optimizer: Optimizer, weights: Sequence[NDArray],
             states: Sequence[Any]) -> tuple[list[_Update], list[int]]:
    """Returns the different updates, and for each weight the number of its update."""
    updates: dict[_Update, int] = {}
    which = []
    for weight, state in zip(weights, states, strict=True):
        name, options = optimizer._operator(weight, state)
        dynamic = registry.get(name).dynamic_names
        varied = tuple([key for key in options if key in dynamic])
        update = _Update(name, tuple(options), _fixed(options, varied), varied, 2 + len(optimizer._state_arrays(state)))
        which.append(updates.setdefault(update, len(updates)))
    return list(updates), which


def _fixed(options: dict[str, Any], varied: tuple[str, ...]) -> tuple:
    return tuple([item for item in options.items() if item[0] not in varied])


def _one(update: _Update, pack: bool = False) -> tuple[Kernel, dict[str, Any]]:
    """(The update of one weight, in its place, all its parameters); pack: numbers are given as one vector.

    The kernel may have been made for other numbers.
    """
    op = registry.get(update.name)
    params = {**dict(update.fixed), **dict.fromkeys((*update.varied, "lr", "wd"), 0.5)}  # any numbers: arguments
    params = op.parse({name: params[name] for name in op.params if name in params})
    one = prepare(op, params, update.width, False, pack=pack)
    return one.in_place or one, params


_programs = Programs(256)


def _together(updates: Sequence[_Update], which: Sequence[int]) -> Kernel:
    """fn(weight, gradient, states of each, vector of rates, decays and shared numbers) -> new weights, new states."""
    ones, count = [_one(update) for update in updates], len(which)
    starts = [0, *itertools.accumulate(updates[i].width for i in which)]
    rates = starts[-1]  # the first place after the arrays
    shared = {name: rates + 2 * count + k for k, name in enumerate(updates[0].varied)}
    calls, states, mutated = list[Call](), list[tuple[int, int]](), list[int]()
    for i, number in enumerate(which):
        one, params = ones[number]
        constants = {name: float(params[name]) for name in one.dynamic}
        places = {**constants, **shared, "lr": rates + i, "wd": rates + count + i}
        calls.append((one.within, (*range(starts[i], starts[i + 1]), *[places[name] for name in one.dynamic])))
        states += [(i, 1 + k) for k in range(len(one.mutated))]
        mutated += [starts[i] + place for place in one.mutated]
    fn = composed(calls, [*[(i, 0) for i in range(count)], *states])
    return Kernel(f"{updates[0].name} of {count}", lambda *args: fn(*args[:-1], *as_numbers(args[-1])), starts[-1],
                  count, mutated=tuple(mutated), parts=True, options={"trains": True}, like=(*starts[:-1], *mutated))
