"""The base of all optimizers: registry, learning rates and weight decays by parameter, update counts."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from .. import ndarray as nd
from .._support import settings
from ..array.creation import zeros_later
from ..base import Unfit, WrongKind
from ..kernel.policy import training
from ..util import is_np_array

if TYPE_CHECKING:
    from ..base import Key
    from ..lr_scheduler import LRScheduler
    from ..ndarray import NDArray
    from ..symbol import Symbol

__all__ = ["Optimizer", "register", "create"]

_Class = TypeVar("_Class", bound=type)


def _is_half(weight: NDArray) -> bool:
    """Returns whether a weight has a 16-bit float dtype, which `multi_precision` is for."""
    return np.dtype(weight.dtype).name in ("float16", "bfloat16")


def _is_list(index: object) -> bool:
    return isinstance(index, list | tuple)


def _aggregation_size(default: int) -> int:
    """Returns how many parameters one call may update: `MXNET_OPTIMIZER_AGGREGATION_SIZE`."""
    size = settings.AGGREGATION_SIZE()
    return default if size is None else size


class Optimizer:
    """Base of all optimizers, which update a weight in place from its gradient and state.

    Subclasses define `create_state` and `update`; `register` registers them by name. The gradient
    used is `clip(rescale_grad * grad, ±clip_gradient)`, the learning rate `lr * lr_mult`, the decay
    `wd * wd_mult`.

    Args:
        rescale_grad: factor on every gradient, usually 1 / batch size.
        param_idx2name: the parameters' names by index.
        wd: weight decay. By default it is applied to names ending in "_weight" and "_gamma" only.
        clip_gradient: bound of the rescaled gradient's absolute values; None for no bound.
        learning_rate: learning rate, 0.01 by default; with a schedule, its initial rate.
        lr_scheduler: schedule that gives the rate from the number of updates.
        sym: network whose variables provide `__lr_mult__` and `__wd_mult__`.
        begin_num_update: number of previous updates.
        multi_precision: keep a float32 copy of each 16-bit weight and update that one.
        param_dict: gluon Parameters by index, which provide `lr_mult` and `wd_mult`.

    Example:
        >>> class PlainDescent(Optimizer):
        ...     def update(self, index, weight, grad, state):
        ...         self._update_count(index)
        ...         weight -= self._get_lr(index) * grad
    """

    lr: float
    opt_registry: ClassVar[dict[str, type[Optimizer]]] = {}
    takes_lists = False  # whether `update` takes lists of weights alone, as in MXNet 2

    def __init__(self, rescale_grad: float = 1.0, param_idx2name: dict[int, str] | None = None, wd: float = 0.0,
                 clip_gradient: float | None = None, learning_rate: float | None = None,
                 lr_scheduler: LRScheduler | None = None, sym: Symbol | None = None, begin_num_update: int = 0,
                 multi_precision: bool = False, param_dict: dict[int, Any] | None = None) -> None:
        if param_idx2name is not None and not isinstance(param_idx2name, dict):
            raise WrongKind(f"param_idx2name must be a dict of names by index, got {type(param_idx2name).__name__}")
        if lr_scheduler is None:
            self.lr = 0.01 if learning_rate is None else learning_rate
        else:
            self.lr = learning_rate  # pyright: ignore[reportAttributeAccessIssue]  as in MXNet: the schedule's start or None
            if learning_rate is not None and lr_scheduler.base_lr != learning_rate:
                # printed, as in MXNet: every time, and whatever becomes of warnings
                print("learning rate from ``lr_scheduler`` has been overwritten by ``learning_rate`` in optimizer.")
                lr_scheduler.base_lr = learning_rate
        self.rescale_grad = rescale_grad
        self.lr_scheduler = lr_scheduler
        self.wd = wd
        self.clip_gradient = clip_gradient
        self.multi_precision = multi_precision
        self.aggregate_num = 0  # how many parameters one `update` may get as lists; 0: never a list
        self.begin_num_update = begin_num_update
        self.num_update = begin_num_update
        training.begin()
        self._kinds_of_steps: dict[int, int] = {}  # they decide how many steps NumPy computes (see `Training`)
        self._all_index_update_counts: dict[int, dict[Any, int]] = {0: {}}  # by device, then by parameter
        self._index_update_count = self._all_index_update_counts[0]
        self.idx2name: dict[Any, str] = dict(param_idx2name or {})
        self.sym_info = (sym.attr_dict(), sym.list_arguments()) if sym is not None else ()
        self.param_dict = param_dict or {}
        self.allow_np_array = is_np_array()
        self.lr_mult: dict[Any, float] = {}
        self.wd_mult: dict[Any, float] = {}
        self.set_lr_mult({})
        self.set_wd_mult({})

    @staticmethod
    def register(klass: _Class) -> _Class:
        """Registers an optimizer class for `create` under its lower-case name; a class decorator."""
        if not isinstance(klass, type):
            raise Unfit(f"only a class can be registered as optimizer, got {klass!r}")
        name = klass.__name__.lower()
        old = Optimizer.opt_registry.get(name)
        if old is not None:
            warnings.warn(f"new optimizer {klass.__module__}.{klass.__name__} is overriding existing optimizer "
                          f"{old.__module__}.{old.__name__}", UserWarning, stacklevel=2)
        Optimizer.opt_registry[name] = klass
        return klass

    @staticmethod
    def create_optimizer(name: str, **kwargs: Any) -> Optimizer:
        """Creates an optimizer by its registered name.

        Args:
            name: the name; case does not matter.
            **kwargs: its arguments.

        Raises:
            ValueError: no optimizer has that name.

        Example:
            >>> Optimizer.create_optimizer("sgd", learning_rate=0.1).lr
            0.1
        """
        if name.lower() not in Optimizer.opt_registry:
            raise ValueError(f"cannot find optimizer {name!r}; known: {', '.join(sorted(Optimizer.opt_registry))}")
        return Optimizer.opt_registry[name.lower()](**kwargs)

    # ------------------------------------------------------------------ defined by subclasses
    def create_state(self, index: Key, weight: NDArray) -> Any:
        """Creates the optimizer's state for a parameter: None, an NDArray, or nested tuples of these."""
        return None

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Updates `weight` and `state` in place.

        Args:
            index: the parameter's index. With `aggregate_num` > 0 it may be a list; then all
                arguments are lists.
            weight, grad: NDArrays of equal shape.
            state: result of `create_state` for this parameter.
        """
        raise NotImplementedError(f"{type(self).__name__} must define update")

    # ------------------------------------------------------------------ 16-bit weights
    def create_state_multi_precision(self, index: Key, weight: NDArray) -> Any:
        """Like `create_state`; for a 16-bit weight under `multi_precision`, returns (float32 copy, its state)."""
        if self._uses_master(weight):
            master = weight.astype("float32")
            return master, self.create_state(index, master)
        return self.create_state(index, weight)

    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Like `update`, with a state of `create_state_multi_precision`. Weights in a list must have the same dtype."""
        listed = _is_list(index)
        rows = list(zip(weight, grad, state, strict=True)) if listed else [(weight, grad, state)]
        if not (self.multi_precision and _is_half(rows[0][0])):
            self.update(index, weight, grad, state)
            return
        masters, inner = zip(*(state for _, _, state in rows), strict=True)
        grads = [grad.astype("float32") for _, grad, _ in rows]
        if listed:
            self.update(index, list(masters), grads, list(inner))
        else:
            self.update(index, masters[0], grads[0], inner[0])
        for master, (half, _, _) in zip(masters, rows, strict=True):
            master.copyto(half)

    def _uses_master(self, weight: NDArray) -> bool:
        """Returns whether a weight needs a float32 copy; warns of one that could do with it."""
        if _is_half(weight) and not self.multi_precision:
            warnings.warn("updating 16-bit weights loses accuracy and may slow convergence; "
                          f"consider {type(self).__name__}(multi_precision=True)", UserWarning, stacklevel=4)
        return self.multi_precision and _is_half(weight)

    # ------------------------------------------------------------------ rates
    @property
    def learning_rate(self) -> float:
        """The current learning rate, without multipliers."""
        return self.lr if self.lr_scheduler is None else self.lr_scheduler(self.num_update)

    def set_learning_rate(self, lr: float) -> None:
        """Sets the learning rate.

        Raises:
            UserWarning: the optimizer has a schedule, which determines the learning rate.
        """
        if self.lr_scheduler is not None:
            raise UserWarning("the optimizer has an lr_scheduler, which determines the learning rate; "
                              "set_learning_rate works only without one")
        self.lr = lr

    def set_lr_scale(self, args_lrscale: object) -> None:
        """Removed in favour of `set_lr_mult`; always raises."""
        raise DeprecationWarning("set_lr_scale was replaced by set_lr_mult")

    def _multipliers(self, key: str, own: dict[Any, float]) -> dict[Any, float]:
        """Multipliers from the network's variables, then the given ones."""
        attrs, names = self.sym_info or ({}, ())
        return {**{n: float(attrs[n][key]) for n in names if key in attrs.get(n, ())}, **own}

    def set_lr_mult(self, args_lr_mult: dict[Any, float]) -> None:
        """Sets factors of the learning rate.

        Args:
            args_lr_mult: factors by parameter name or index; 1 for all others.
        """
        self.lr_mult = self._multipliers("__lr_mult__", args_lr_mult)

    _decayed: ClassVar[tuple[str, ...]] = ("_weight", "_gamma")  # endings of names that decay by default

    def set_wd_mult(self, args_wd_mult: dict[Any, float]) -> None:
        """Sets factors of the weight decay.

        Args:
            args_wd_mult: factors by parameter name or index. Of the parameters that are not named,
                weights and gammas get 1, all others 0.
        """
        self.wd_mult = {n: 0.0 for n in self.idx2name.values() if not n.endswith(self._decayed)}
        self.wd_mult.update(self._multipliers("__wd_mult__", args_wd_mult))

    def multiplied(self, value: float, attribute: str, indices: Sequence[Any]) -> list[float]:
        """`value` times each parameter's multiplier; attribute: "lr_mult" or "wd_mult"."""
        params, table, names = self.param_dict, getattr(self, attribute), self.idx2name
        with contextlib.suppress(KeyError):  # the usual case, at C speed
            factors = list(map(attrgetter(attribute), map(params.__getitem__, indices)))
            return [value * 1.0] * len(factors) if factors.count(1.0) == len(factors) else [value * f for f in factors]
        results = []
        for index in indices:
            if index in params:
                results.append(value * getattr(params[index], attribute))
            else:
                results.append(value * table.get(index, table.get(names.get(index), 1.0)))
        return results

    def _get_lrs(self, indices: Sequence[Any]) -> list[float]:
        return self.multiplied(self.learning_rate, "lr_mult", indices)

    def _get_lr(self, index: Key) -> float:
        return self._get_lrs([index])[0]

    def _get_wds(self, indices: Sequence[Any]) -> list[float]:
        return self.multiplied(self.wd, "wd_mult", indices)

    def _get_wd(self, index: Key) -> float:
        return self._get_wds([index])[0]

    # ------------------------------------------------------------------ counts
    def _set_current_context(self, device_id: int) -> None:
        """Count updates for this device from here on."""
        self._index_update_count = self._all_index_update_counts.setdefault(device_id, {})

    def _update_count(self, index: Key | list[Key] | tuple[Key, ...]) -> None:
        """Count an update of a parameter, or of a list of them."""
        counts, most = self._index_update_count, 0
        several = index if isinstance(index, list | tuple) else [index]
        before = set(map(counts.get, several))
        after = dict.fromkeys(several, 1 + (before.pop() or 0)) if len(before) == 1 and None not in before else {}
        if len(after) == len(several) > 0:  # the usual case, at C speed
            counts.update(after)
            most = after[several[0]]
        else:
            for one in several:
                counts[one] = counts.get(one, self.begin_num_update) + 1
                most = max(most, counts[one])
        if most > self.num_update:
            if training.owner != id(self) or training.steps < training.first:
                training.owner = id(self)
                training.update(self.num_update, self.begin_num_update, self._kinds_of_steps)
            self.num_update = most

    def update_counts(self, device_id: int) -> dict[Any, int]:
        """Returns the number of updates on a device, by parameter; not in MXNet."""
        return self._all_index_update_counts.get(device_id, {})

    def resume_training(self, device_id: int | None = None, counts: Mapping[Any, int] | None = None) -> None:
        """Continues training from a loaded optimizer: NumPy computes the remainder of its first steps.

        Args:
            device_id: device on which updates are counted from now on; None: the same as before.
            counts: number of updates of each parameter on this device, in place of all counts.
        """
        if device_id is not None:
            self._all_index_update_counts.clear()
            self._set_current_context(device_id)
            self._index_update_count.update(counts or {})
        training.resume(self.num_update, self.begin_num_update, self._kinds_of_steps)

    # ------------------------------------------------------------------ prepared updates
    # A class that defines `_operator(weight, state) -> (operator, parameters but lr and wd)` says that its update of
    # a weight is one call of that operator, on weight, gradient and `_state_arrays(state)`, with `_rates`.
    if TYPE_CHECKING:
        def _operator(self, weight: NDArray, state: Any) -> tuple[str, dict[str, Any]]: ...

    alike_alone = False  # whether `update` of a list equals updates of each parameter

    def _is_one_call(self, weight: NDArray) -> bool:
        """Returns whether `_operator` defines the update of this weight; a subclass may define another."""
        return "_operator" in vars(type(self)) and not self._uses_master(weight)

    @staticmethod
    def _state_arrays(state: Any) -> tuple:
        """A state as the operator's arguments."""
        return () if state is None else tuple(state) if isinstance(state, list | tuple) else (state,)

    def _rates(self, indices: list[Any]) -> list[float]:
        """Returns the rates for `_operator` of parameters that have just been counted."""
        return self._operator_rates(indices, self._get_lrs(indices), self._get_wds(indices))

    def _operator_rates(self, indices: list[Any], lrs: list[float], wds: list[float]) -> list[float]:
        """Returns the learning rates that the operator takes, then its decays."""
        return lrs + wds

    # ------------------------------------------------------------------ pieces of updates
    def _grad_options(self) -> dict[str, Any]:
        """Returns the options for the gradient of the fused update operators."""
        options = {"rescale_grad": self.rescale_grad}
        if self.clip_gradient:
            options["clip_gradient"] = self.clip_gradient
        return options

    def _clipped(self, grad: NDArray) -> NDArray:
        """Clip an (already rescaled) gradient."""
        return grad if self.clip_gradient is None else nd.clip(grad, -self.clip_gradient, self.clip_gradient)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "param_dict"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = {"_kinds_of_steps": {}, **state, "param_dict": {}}  # MXNet's files have no such kinds


register = Optimizer.register
create = Optimizer.create_optimizer


class _Stepwise(Optimizer):
    """An optimizer defined by the update of one parameter: `_operator`, or `_step` for several operators."""

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        if _is_list(index):
            for one in zip(index, weight, grad, state, strict=True):
                self.update(*one)
            return
        _need_arrays(weight, grad)
        self._update_count(index)
        self._step(index, weight, grad, state, self._get_lr(index), self._get_wd(index),
                   self._index_update_count[index])

    def _step(self, index: Key, weight: NDArray, grad: NDArray, state: Any, lr: float, wd: float, t: int) -> None:
        """Update one parameter for the `t`-th time (from 1)."""
        name, options = self._operator(weight, state)
        getattr(nd, name)(weight, grad, *self._state_arrays(state), out=weight, lr=lr, wd=wd, **options)

    def _operator(self, weight: NDArray, state: Any) -> tuple[str, dict[str, Any]]:
        """The operator that updates a weight, and its parameters but lr and wd; abstract: there is none for all."""
        raise NotImplementedError(f"{type(self).__name__} must define _operator or _step")


def _need_arrays(weight: object, grad: object) -> None:
    if not (isinstance(weight, nd.NDArray) and isinstance(grad, nd.NDArray)):
        raise Unfit(f"update expects NDArrays as weight and gradient, got {type(weight).__name__} and "
                    f"{type(grad).__name__}")


def _zeros(weight: NDArray, stype: str = "default") -> NDArray:
    """A state of zeros like `weight`."""
    if stype == "default":
        array_type = type(weight) if weight.dense else nd.NDArray
        return array_type(zeros_later(weight.shape, weight.context, weight.dtype).chunk)
    return nd.zeros(weight.shape, weight.context, dtype=weight.dtype, stype=stype)
