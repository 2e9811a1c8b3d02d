"""`Parameter` of MXNet 2: its name is its kind ("weight"), and its variable in graphs has a unique name."""

from __future__ import annotations

import uuid
import warnings
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .. import ndarray as nd
from .. import symbol
from ..context import Context
from ..device import with_device
from ..eager.modes import state
from ..ndarray import NDArray
from ..ops.params import np_dtype
from ..symbol import Symbol
from ..symbol._recorder import associate, recording
from ..util import is_np_array
from . import _parameter

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ..initializer import InitializerLike
    from .trainer import Trainer

__all__ = ["Constant", "Parameter"]


class Parameter(_parameter.Parameter, own_arrays=False):
    """A parameter of a block, with one array and one gradient per device.

    Args:
        name: the kind of parameter ("weight", "bias" ...), which selects the default
            initialization.
        grad_req, shape, dtype, lr_mult, wd_mult, init, allow_deferred_init, differentiable, stype, grad_stype: as in
            MXNet 1.x.

    Example:
        >>> weight = mx.gluon.Parameter("weight", shape=(3, 2), init=mx.init.One())
        >>> weight.initialize()
        >>> weight.data().sum().asnumpy().item()
        6.0
    """

    def __init__(self, name: str = "weight", *args: Any, **kwargs: Any) -> None:
        self._uuid = str(uuid.uuid4())
        super().__init__(name, *args, **kwargs)

    def __repr__(self) -> str:
        return f"{type(self).__name__} (shape={self.shape}, dtype={self.dtype})"

    @property
    def variable_name(self) -> str:
        """Name of the variable in graphs, which no other parameter has; not in MXNet."""
        return self.own_name or f"{self._uuid.replace('-', '_')}_{self.name}"

    def _rename(self, unique: str) -> None:
        """Takes another unique identifier, as in a file."""
        self._uuid, self._var = unique, None

    def var(self) -> Symbol:
        """Returns the symbol of this parameter in graphs."""
        if self._var is None:
            self._var = symbol.var(self.variable_name, shape=self.shape, dtype=self.dtype, lr_mult=self.lr_mult,
                                   wd_mult=self.wd_mult, init=self.init, stype=self._stype)
        return self._var.as_np_ndarray() if is_np_array() else self._var

    def _set_trainer(self, trainer: Trainer | None) -> None:
        super()._set_trainer(trainer)
        if trainer is not None:
            self._trainer = weakref.ref(trainer)  # type: ignore[assignment]

    def _its_trainer(self) -> Trainer | None:
        return self._trainer and self._trainer()  # type: ignore[operator]

    def _finish_deferred_init(self) -> None:
        with recording(False):
            super()._finish_deferred_init()

    def _recorded(self, array: NDArray) -> NDArray:
        """An array of this parameter, which stands for its variable where `forward` is traced."""
        if state.recorder is not None:
            associate(array, self.var().handle[0])
        return array

    @with_device
    def data(self, ctx: Context | None = None) -> NDArray:
        """Returns the array on a device; see MXNet 1.x."""
        return self._recorded(super().data(ctx))

    def list_data(self) -> list[NDArray]:
        """Returns the arrays on all devices, in the order of `list_device`."""
        return [self._recorded(array) for array in super().list_data()]

    @with_device
    def grad(self, ctx: Context | None = None) -> NDArray:
        """Returns the gradient on a device."""
        return super().grad(ctx)

    @with_device
    def initialize(self, init: InitializerLike = None, ctx: Context | Sequence[Context] | None = None,
                   default_init: InitializerLike = _parameter.DEFAULT_INIT, force_reinit: bool = False) -> None:
        """Creates the value and gradient arrays; if the shape is unknown, defers that to the first forward pass."""
        super().initialize(init, ctx, default_init, force_reinit)

    def list_ctx(self) -> list[Context]:
        """Deprecated name of `list_device`."""
        warnings.warn("Parameter.list_ctx has been renamed to Parameter.list_device", DeprecationWarning, stacklevel=2)
        return self.list_device()

    def reset_device(self, device: Context | Sequence[Context] | None) -> None:
        """Moves the parameter to other devices (None: the current one)."""
        super().reset_ctx(device)

    def reset_ctx(self, ctx: Context | Sequence[Context] | None) -> None:
        """Deprecated name of `reset_device`."""
        warnings.warn("Parameter.reset_ctx has been renamed to Parameter.reset_device", DeprecationWarning,
                      stacklevel=2)
        self.reset_device(ctx)

    def _check_and_setattr(self, **kwargs: Any) -> None:
        """Sets attributes that are not known yet; those that are must agree.

        Raises:
            AssertionError: one does not.
        """
        for key, wanted in kwargs.items():
            existing = getattr(self, key, None)
            if existing is None:
                setattr(self, key, wanted)
            elif wanted is not None and (np_dtype(wanted) != np_dtype(existing) if key == "dtype" else
                                         wanted != existing):
                raise AssertionError(f"Parameter '{self.name}': desired {key} {wanted!r}, stored {existing!r}")


class Constant(_parameter.ConstantValue, Parameter):
    """A parameter that only `set_data` changes, never autograd or a Trainer.

    Args:
        value: an array, or anything that `mx.np.array` accepts.

    Example:
        >>> mx.gluon.Constant([[1, 2], [3, 4]]).shape  # doctest: +SKIP
        (2, 2)
    """

    def __init__(self, value: ArrayLike) -> None:
        array = value if isinstance(value, NDArray) else nd.array(value)
        if array is not value and is_np_array():
            array = array.as_np_ndarray()
        self._begin("const", array)
