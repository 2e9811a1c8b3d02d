"""An optimizer together with the states of all parameters, and the file format of those states."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import IO, TYPE_CHECKING, Any, overload

import numpy as np

from ..base import MXNetError
from ..context import Context
from ..eager.modes import state as thread
from ..eager.trace import deferred
from ..kernel.policy import CALL_NUMBERS, FEW_WEIGHTS, MANY_WEIGHTS, STEADY
from ..ndarray import NDArray
from ._prepared import PreparedUpdate
from ._states import dump as _dump
from ._states import load as _load
from ._states import write as _write
from .base import Optimizer, _is_list

if TYPE_CHECKING:
    from ..base import Key

__all__ = ["Updater", "get_updater"]


class Updater:
    """Updates weights by index, and creates a weight's state at its first update.

    Args:
        optimizer: the optimizer.

    Raises:
        AttributeError: it is no Optimizer.

    Example:
        >>> import mxjax as mx
        >>> update = Updater(mx.optimizer.SGD(learning_rate=0.5))
        >>> weight = mx.nd.ones((2,))
        >>> update(0, mx.nd.ones((2,)), weight)
        >>> weight.asnumpy().tolist()
        [0.5, 0.5]
    """

    def __init__(self, optimizer: Optimizer) -> None:
        if not isinstance(optimizer, Optimizer):
            raise AttributeError(f"expected an Optimizer, got {optimizer!r}; mx.optimizer.create makes one from a name")
        self.optimizer = optimizer
        self.states: dict[Any, Any] = {}
        self.states_synced: dict[Any, bool] = {}  # whether a loaded state is on its weight's context already
        self.repeated: tuple[Any, int] = (None, 0)  # the last call's weights, and how often in a row they came
        self.prepared: PreparedUpdate | None = None  # the update of these

    @property
    def aggregate_updates(self) -> bool:
        """Returns whether the optimizer updates several parameters at a time."""
        return self.optimizer.aggregate_num > self.optimizer.takes_lists

    @overload
    def __call__(self, index: list[Any], grad: list[NDArray], weight: list[NDArray]) -> None: ...

    @overload
    def __call__(self, index: Key, grad: NDArray, weight: NDArray) -> None: ...

    def __call__(self, index: Any, grad: Any, weight: Any) -> None:
        """Updates one weight, or a list of weights on one context.

        Args:
            index: the parameter's index or name, or a list.
            grad, weight: array or list of arrays.
        """
        optimizer, prepared = self.optimizer, self.prepared
        if prepared is not None and type(index) is list:
            if prepared.fits(index, weight, grad, self.states) and \
                    (thread.trace is None or prepared.together):
                optimizer._set_current_context(weight[0].chunk.ctx.device_id)
                if prepared(optimizer):
                    return
            self.prepared = None
        listed = _is_list(index)
        if not listed:
            index, grad, weight = [index], [grad], [weight]
        index = [key.decode() if isinstance(key, bytes) else key for key in index]
        self.prepare(index, weight)
        rows = [(key, w, g, self.states[key]) for key, w, g in zip(index, weight, grad, strict=True)]
        if not rows:
            return
        optimizer._set_current_context(rows[0][1].context.device_id)
        before, times = self.repeated
        if before is None:  # it may be loaded
            times = min([optimizer._index_update_count.get(key, 0) for key in index])
        else:
            times = times + 1 if index == before else 0
        self.repeated = index, times
        whole = thread.trace is not None and thread.trace.whole  # it is compiled now, and must stay as it is
        steady = (whole or times >= STEADY) and len(rows) >= FEW_WEIGHTS
        separately = max(0, self._separately(rows) - times)
        size = 1 if separately and optimizer.alike_alone else optimizer.aggregate_num
        if steady or listed and (separately or self.aggregate_updates):
            columns = list(weight), list(grad), [row[3] for row in rows]
            if PreparedUpdate.possible(optimizer, *columns):
                self.prepared = PreparedUpdate(optimizer, index, *columns, separately)
                if self.prepared(optimizer):
                    return
        if steady and size <= optimizer.takes_lists and all(row[1].dense and row[2].dense for row in rows):
            with deferred():  # this goes on for long: one program for all weights is worth being compiled
                self._update(rows, size)
        else:
            self._update(rows, size)

    @staticmethod
    def _separately(rows: list[tuple]) -> float:
        """Returns the number of updates of these weights one by one, before they are one program, which takes long to
        compile.

        Always, where weights are so large that calls take no time; never on an accelerator, whose launches do, and in
        what becomes a larger program.
        """
        on_cpu = rows[0][1].context.device_type.startswith("cpu")
        if not on_cpu or len(rows) < MANY_WEIGHTS or thread.trace is not None:
            return 0
        large = sum([row[1].size for row in rows]) >= CALL_NUMBERS * len(rows)
        return math.inf if large else STEADY * len(rows)

    def _update(self, rows: list[tuple], size: int) -> None:
        """Updates weights; `size`: as many at a time, where that is not 0."""
        if self.optimizer.takes_lists:
            rows = [(key, _classic(weight), _classic(grad), state) for key, weight, grad, state in rows]
            size = max(1, min(size, len(rows)))
        if size <= 0:
            for row in rows:
                self.optimizer.update_multi_precision(*row)
            return
        by_dtype = defaultdict(list)
        for row in rows:
            by_dtype[np.dtype(row[1].dtype)].append(row)
        for group in by_dtype.values():
            for start in range(0, len(group), size):
                keys, weights, grads, states = zip(*group[start:start + size], strict=True)
                if self.optimizer.takes_lists:
                    keys, weights, grads = list(keys), list(weights), list(grads)  # tuples in 1.9.1
                self.optimizer.update_multi_precision(keys, weights, grads, list(states))

    def prepare(self, indices: list[Any], weights: list[NDArray]) -> None:
        """Makes the states that weights have not got yet, and brings loaded ones to their contexts."""
        for key, weight in zip(indices, weights, strict=True):
            if key not in self.states:
                known = _classic(weight) if self.optimizer.takes_lists else weight
                self.states[key] = self.optimizer.create_state_multi_precision(key, known)
            elif not self.states_synced[key]:
                self.states[key] = self.sync_state_context(self.states[key], weight.context)
            self.states_synced[key] = True

    def sync_state_context(self, state: object, context: Context) -> Any:
        """Copies the arrays of a state to a context.

        Args:
            state: an array, or nested tuples and lists of arrays.
            context: the context.
        """
        if isinstance(state, NDArray):
            return state.as_in_context(context)
        if isinstance(state, tuple | list):
            return type(state)(self.sync_state_context(part, context) for part in state)
        return state

    def get_states(self, dump_optimizer: bool = False) -> bytes:
        """Returns all states in MXNet's format, which its Updater reads; with `dump_optimizer` also the optimizer."""
        return _dump((self.states, self.optimizer) if dump_optimizer else self.states)

    def write_states(self, file: IO[bytes]) -> None:
        """Writes the result of `get_states(dump_optimizer=True)` to an open file, one array after another."""
        _write((self.states, self.optimizer), file)

    def set_states(self, states: bytes) -> None:
        """Loads the result of `get_states`, of mxjax or MXNet.

        Raises:
            MXNetError: the bytes are corrupt or contain something other than optimizer states.
        """
        loaded, optimizer = _load(states), None
        if isinstance(loaded, tuple) and len(loaded) == 2:
            loaded, optimizer = loaded
            if not isinstance(optimizer, Optimizer):
                raise MXNetError(f"optimizer states: expected states and an optimizer, got {type(optimizer).__name__}")
        if not isinstance(loaded, dict):
            raise MXNetError(f"optimizer states: expected a dict by parameter, got {type(loaded).__name__}")
        for key, state in loaded.items():
            _check_state(key, state)
        if optimizer is not None:
            self.optimizer = optimizer
            optimizer.resume_training()
        self.prepared, self.repeated = None, (None, 0)
        self.states = loaded
        self.states_synced = dict.fromkeys(loaded, False)


def _classic(array: NDArray) -> NDArray:
    """An array as MXNet 2 hands it to optimizers: of class `mx.nd.NDArray`."""
    return array.as_nd_ndarray() if array.stype == "default" else array


def get_updater(optimizer: Optimizer) -> Updater:
    """Returns an `Updater` of the optimizer, a function `update(index, grad, weight)`."""
    return Updater(optimizer)


def _check_state(key: Key, state: object) -> None:
    """Refuses a value that is not the state of a parameter."""
    parts = state if isinstance(state, list | tuple) else state.values() if isinstance(state, dict) else ()
    for part in parts:
        _check_state(key, part)
    if not (state is None or isinstance(state, NDArray | bool | int | float | list | tuple | dict)):
        raise MXNetError(f"optimizer states: parameter {key!r} has one of type {type(state).__name__}, expected arrays")
