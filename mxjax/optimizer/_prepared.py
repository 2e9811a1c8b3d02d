"""The update of all weights as one prepared call, for optimizers that one operator per weight amounts to."""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
from typing import Any

import numpy as np

from .._bounded import Bounded
from ..array.calling import invoke, overwrite
from ..array.dense import NDArray
from ..compile.kernel import Kernel, as_numbers, prepare
from ..ops import registry
from .base import Optimizer

__all__ = ["PreparedUpdate"]

class PreparedUpdate:
    """The update of certain weights: what it takes is looked up once, then only numbers change.

    Args:
        optimizer: one whose `_operator` says what it does.
        indices, weights, grads, states: the parameters.
    """

    def __init__(self, optimizer: Optimizer, indices: list[Any], weights: list[NDArray], grads: list[NDArray],
                 states: list[Any]) -> None:
        self.indices, self._weights, self._grads, self._states = indices, weights, grads, states
        name, options = optimizer._operator(weights[0], states[0])
        self._form = name, tuple(options)
        self._fixed, self._varied = _parts(name, options)
        self._arrays: list[NDArray] = []
        for weight, grad, state in zip(weights, grads, states, strict=True):
            self._arrays += [weight, grad, *optimizer._state_arrays(state)]
        width = len(self._arrays) // len(weights)
        self._kernel = _kernel(name, options, len(weights), width, self._varied)
        self._wide = any(a._chunk.wide for a in self._arrays)

    @staticmethod
    def possible(optimizer: Optimizer, weights: Sequence[NDArray], grads: Sequence[NDArray],
                 states: Sequence[Any]) -> bool:
        """Whether these weights are updated by the same operator, each by one call."""
        if "_operator" not in vars(type(optimizer)):  # a subclass may do something else
            return False
        for weight, grad, state in zip(weights, grads, states, strict=True):
            arrays = (weight, grad, *optimizer._state_arrays(state))
            if not all(isinstance(a, NDArray) and a._plain for a in arrays) or weight.dtype != weights[0].dtype or \
                    weight._chunk.ctx != weights[0]._chunk.ctx or len(arrays) != len(optimizer._state_arrays(
                        states[0])) + 2:
                return False
        return True

    @property
    def states(self) -> list[NDArray]:
        """All arrays of states."""
        width = len(self._arrays) // len(self._weights)
        return [array for i, array in enumerate(self._arrays) if i % width > 1]

    def current(self, states: dict[Any, Any]) -> bool:
        """Whether these are the states that it changes."""
        return all(map(is_, self._states, map(states.get, self.indices)))

    def fits(self, optimizer: Optimizer, indices: list[Any], weights: list[NDArray], grads: list[NDArray],
             states: dict[Any, Any]) -> bool:
        """Whether it is these parameters' update, with these states."""
        return self.indices == indices and all(map(is_, self._weights, weights)) and \
            all(map(is_, self._grads, grads)) and all(map(is_, self._states, map(states.get, indices)))

    def numbers(self, optimizer: Optimizer) -> np.ndarray | None:
        """Counts an update, and returns the vector of numbers that it takes; None where the optimizer has come to do
        something else: then nothing was done."""
        name, options = optimizer._operator(self._weights[0], self._states[0])
        if (name, tuple(options)) != self._form or \
                len(options) > len(self._varied) and self._fixed != _fixed(options, self._varied):
            return None
        optimizer._update_count(self.indices)
        numbers = optimizer._rates(self.indices)
        for key in self._varied:
            numbers.append(options[key])
        return np.array(numbers, np.float64 if self._wide else np.float32)

    def __call__(self, optimizer: Optimizer) -> bool:
        """Updates the weights; False where the optimizer has come to do something else: then nothing was done."""
        numbers = self.numbers(optimizer)
        if numbers is None:
            return False
        extras = (numbers,)
        if not overwrite(self._kernel, self._arrays, extras, self._weights):
            invoke(self._kernel, self._arrays, extras, self._weights)
        return True


def _parts(name: str, options: dict[str, Any]) -> tuple[tuple, tuple[str, ...]]:
    """(parameters that a program is made for, names of those that are its arguments and that all weights share)."""
    dynamic = registry.get(name).dynamic_names
    varied = tuple([key for key in options if key in dynamic])
    return _fixed(options, varied), varied


def _fixed(options: dict[str, Any], varied: tuple[str, ...]) -> tuple:
    return tuple([item for item in options.items() if item[0] not in varied])


_kernels: dict[tuple, Kernel] = Bounded(256)


def _kernel(name: str, options: dict[str, Any], count: int, width: int, varied: tuple[str, ...]) -> Kernel:
    """fn(weight, gradient, states of each, vector of rates, decays and shared numbers) -> new weights, new states."""
    key = name, _fixed(options, varied), count, width, varied
    found = _kernels.get(key)
    if found is None:
        op = registry.get(name)
        one = prepare(op, op.parse({**options, "lr": 0.1, "wd": 0.1}), width, False)
        one = one.in_place or one  # weights are overwritten

        def fn(*args: Any) -> tuple:
            numbers = as_numbers(args[-1])
            shared = dict(zip(varied, numbers[2 * count:], strict=True))
            weights, states = [], []
            for i in range(count):
                own = {**shared, "lr": numbers[i], "wd": numbers[count + i]}
                results = one.once(*args[i * width:(i + 1) * width], *[own.get(n, one.params[n]) for n in one.dynamic])
                weights.append(results[0])
                states += results[1:]
            return (*weights, *states)
        states = tuple([i * width + place for i in range(count) for place in one.mutated])
        found = _kernels[key] = Kernel(f"{name} of {count}", fn, count * width, count, mutated=states)
    return found
