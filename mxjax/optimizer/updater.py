"""An optimizer together with the states of all parameters, and the file format of those states."""

from __future__ import annotations

import io
import pickle
import pickletools
import struct
import sys
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import lr_scheduler
from .. import ndarray as nd
from ..base import MXNetError
from ..context import Context
from ..ndarray import NDArray, _format
from ..ndarray._segment import deferred
from .base import Optimizer, _is_list

__all__ = ["Updater", "get_updater"]


_TRIALS = 8  # calls with the same weights before they become one program
_FEW = 4  # weights for which that would gain nothing


class Updater:
    """Updates weights by index, making each one's state at its first update.

    Args:
        optimizer: what updates.

    Example:
        >>> import mxjax as mx
        >>> update = Updater(mx.optimizer.SGD(learning_rate=0.5))
        >>> weight = mx.nd.ones((2,))
        >>> update(0, mx.nd.ones((2,)), weight)
        >>> weight.asnumpy().tolist()
        [0.5, 0.5]
    """

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self.states: dict[Any, Any] = {}
        self.states_synced: dict[Any, bool] = {}  # whether a loaded state is on its weight's context already
        self._repeated: tuple[Any, int] = (None, 0)  # the last call's weights, and how often in a row they came

    @property
    def aggregate_updates(self) -> bool:
        """Whether the optimizer takes several parameters at a time."""
        return self.optimizer.aggregate_num > 0

    def __call__(self, index: Any, grad: NDArray | list[NDArray], weight: NDArray | list[NDArray]) -> None:
        """Update one weight, or a list of them on one context.

        Args:
            index: the parameter's index or name, or a list.
            grad, weight: array or list of arrays.
        """
        if not _is_list(index):
            index, grad, weight = [index], [grad], [weight]
        index = [key.decode() if isinstance(key, bytes) else key for key in index]
        self._prepare(index, weight)
        rows = [(key, w, g, self.states[key]) for key, w, g in zip(index, weight, grad, strict=True)]
        if not rows:
            return
        self.optimizer._set_current_context(rows[0][1].context.device_id)
        before, times = self._repeated
        self._repeated = index, times + 1 if index == before else 0
        if len(rows) >= _FEW and self._repeated[1] >= _TRIALS and all(row[1]._plain and row[2]._plain for row in rows):
            with deferred():  # this goes on for long: one program for all weights is worth being compiled
                self._update(rows)
        else:
            self._update(rows)

    def _update(self, rows: list[tuple]) -> None:
        size = self.optimizer.aggregate_num
        if size <= 0:
            for row in rows:
                self.optimizer.update_multi_precision(*row)
            return
        by_dtype = defaultdict(list)
        for row in rows:
            by_dtype[np.dtype(row[1].dtype)].append(row)
        for group in by_dtype.values():
            for start in range(0, len(group), size):
                columns = zip(*group[start:start + size], strict=True)
                self.optimizer.update_multi_precision(*map(list, columns))

    def _prepare(self, indices: list[Any], weights: list[NDArray]) -> None:
        """Makes the states that weights have not got yet, and brings loaded ones to their contexts."""
        for key, weight in zip(indices, weights, strict=True):
            if key not in self.states:
                self.states[key] = self.optimizer.create_state_multi_precision(key, weight)
            elif not self.states_synced[key]:
                self.states[key] = self.sync_state_context(self.states[key], weight.context)
            self.states_synced[key] = True

    def sync_state_context(self, state: Any, context: Context) -> Any:
        """A state with its arrays on a context.

        Args:
            state: array or a nest of tuples and lists of them.
            context: where to.
        """
        if isinstance(state, NDArray):
            return state.as_in_context(context)
        if isinstance(state, tuple | list):
            return type(state)(self.sync_state_context(part, context) for part in state)
        return state

    def get_states(self, dump_optimizer: bool = False) -> bytes:
        """All states in MXNet's format (its Updater reads it), with the optimizer itself if asked for."""
        return _dump((self.states, self.optimizer) if dump_optimizer else self.states)

    def set_states(self, states: bytes) -> None:
        """Take over what `get_states` returned, here or in MXNet.

        Raises:
            MXNetError: the bytes are damaged, or hold other things than optimizer states.
        """
        loaded = _load(states)
        if isinstance(loaded, tuple) and len(loaded) == 2:
            loaded, optimizer = loaded
            if not isinstance(optimizer, Optimizer):
                raise MXNetError(f"optimizer states: expected an optimizer beside them, got {type(optimizer).__name__}")
            self.optimizer = optimizer
        if not isinstance(loaded, dict):
            raise MXNetError(f"optimizer states: expected a dict by parameter, got {type(loaded).__name__}")
        self.states = loaded
        self.states_synced = dict.fromkeys(loaded, False)


def get_updater(optimizer: Optimizer) -> Updater:
    """An `Updater` of the optimizer: a function `update(index, grad, weight)`."""
    return Updater(optimizer)


# -------------------------------------------------------------------- MXNet's file format: a pickle of its classes
_LIST_HEAD, _NO_NAMES = struct.pack("<QQQ", 0x112, 0, 1), struct.pack("<Q", 0)  # around one array in a .params file


class _Pickler(pickle.Pickler):
    """Writes arrays as MXNet does: class, (None,), {"handle": the array as in a .params file}."""

    def reducer_override(self, value: Any) -> Any:
        if not isinstance(value, NDArray):
            return NotImplemented
        array = value.as_nd_ndarray() if value.stype == "default" else value
        file = io.BytesIO()
        _format._write(file, [array], [], False)
        return type(array), (None,), {"handle": bytearray(file.getvalue()[len(_LIST_HEAD):-len(_NO_NAMES)])}


def _dump(content: Any) -> bytes:
    """Pickle, with our classes under the names MXNet knows them by.

    Protocol 3 is the newest in which class names stand as plain text of their own, without length or memo.
    """
    file = io.BytesIO()
    try:
        _Pickler(file, protocol=3).dump(content)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise MXNetError(f"optimizer states cannot be written: {error}") from error
    raw = file.getvalue()
    parts, end = [], 0
    for code, argument, position in pickletools.genops(raw):
        if code.name == "GLOBAL" and argument.startswith("mxjax."):
            module, name = argument.split(" ")
            parts += [raw[end:position], f"c{_mxnet_module(module)}\n{name}\n".encode()]
            end = position + len(f"c{module}\n{name}\n".encode())
    return b"".join([*parts, raw[end:]])


def _mxnet_module(module: str) -> str:
    """Where MXNet keeps what is in `module` here."""
    if module.startswith("mxjax.optimizer.") and module != "mxjax.optimizer.contrib":
        return "mxnet.optimizer.optimizer"
    return "mxnet" + module.removeprefix("mxjax")


class _Stored:
    """What an array is while a file is being read."""

    def __init__(self, handle: None = None) -> None:
        self.array: NDArray | None = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        if state["handle"] is not None:
            self.array = nd.load_frombuffer(_LIST_HEAD + bytes(state["handle"]) + _NO_NAMES)[0]


def _revived(value: Any) -> Any:
    """A read value with the arrays in place of what held them."""
    if isinstance(value, _Stored):
        return value.array
    if isinstance(value, dict):
        for key in value:
            value[key] = _revived(value[key])
    elif isinstance(value, list | tuple):
        return type(value)(map(_revived, value))
    elif isinstance(value, Optimizer):
        _revived(vars(value))
    return value


def _bytearray(content: bytes = b"") -> bytearray:
    """`bytearray`, but not of a size: a few bytes of a file must not ask for gigabytes."""
    if not isinstance(content, bytes):
        raise MXNetError(f"optimizer states: a bytearray of {type(content).__name__}")
    return bytearray(content)


_NUMPY = {"dtype": np.dtype, "scalar": np.float64(0).__reduce__()[0]}
_PLAIN: dict[tuple[str, str], Callable[..., Any]] = {
    ("builtins", "bytearray"): _bytearray, ("__builtin__", "bytearray"): _bytearray,
    ("collections", "OrderedDict"): OrderedDict,
}


class _Unpickler(pickle.Unpickler):
    """Admits arrays, optimizers, schedules and NumPy scalars; imports nothing and calls nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        package, _, path = module.partition(".")
        if (module, name) in _PLAIN:
            return _PLAIN[module, name]
        if package == "numpy" and name in _NUMPY:
            return _NUMPY[name]
        if package in ("mxnet", "mxjax"):
            if path.startswith("ndarray") and name in ("NDArray", "RowSparseNDArray", "CSRNDArray"):
                return _Stored
            if path.startswith("optimizer") and name.lower() in Optimizer.opt_registry:
                return Optimizer.opt_registry[name.lower()]
            if path == "lr_scheduler" and name in lr_scheduler.__all__:
                return getattr(lr_scheduler, name)
        found = getattr(sys.modules.get(module), name, None)
        if isinstance(found, type) and issubclass(found, Optimizer | lr_scheduler.LRScheduler):
            return found  # the user's own, from a module already there
        raise MXNetError(f"optimizer states: {module}.{name} is not admitted in them")


def _load(raw: bytes) -> Any:
    try:
        return _revived(_Unpickler(io.BytesIO(raw), encoding="latin1").load())
    except MXNetError:
        raise
    except Exception as error:  # damaged pickles raise anything
        raise MXNetError(f"optimizer states cannot be read ({len(raw)} bytes): {type(error).__name__}: "
                         f"{error}") from error
