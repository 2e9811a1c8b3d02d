"""Modules in sequence."""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..base import Unfit
from ..io import DataDesc
from .base_module import _LEARNING_RATE, _UNIFORM, BaseModule

if TYPE_CHECKING:
    from ..executor._executor import GradReq
    from ..initializer import InitFunction
    from ..io import DataBatch
    from ..kvstore.base import StoreLike
    from ..log import LoggerLike
    from ..metric import EvalMetric
    from ..monitor import Monitor
    from ..ndarray import NDArray
    from ..optimizer.base import Optimizer
    from .base_module import Options, Shapes

__all__ = ["SequentialModule"]


class SequentialModule(BaseModule):
    """A chain of modules: the outputs of each module are the data of the next.

    Args:
        logger: the logger.

    Example:
        >>> chain = SequentialModule()
        >>> chain.add(first).add(second, take_labels=True, auto_wiring=True)  # doctest: +SKIP
    """

    META_TAKE_LABELS = "take_labels"
    META_AUTO_WIRING = "auto_wiring"

    def __init__(self, logger: LoggerLike = logging) -> None:
        super().__init__(logger=logger)
        self._modules: list[BaseModule] = []
        self._metas: list[dict[str, Any]] = []
        self._label_shapes: Any = None

    def add(self, module: BaseModule, **kwargs: Any) -> SequentialModule:
        """Appends a module.

        Args:
            module: the module.
            **kwargs: `take_labels=True` passes it the labels; `auto_wiring=True` renames the
                previous module's outputs to its data names.

        Returns:
            This module.
        """
        unknown = set(kwargs) - {self.META_TAKE_LABELS, self.META_AUTO_WIRING}
        if unknown:
            raise Unfit(f"unknown meta {', '.join(sorted(unknown))}; known: {self.META_TAKE_LABELS}, "
                        f"{self.META_AUTO_WIRING}")
        self._modules.append(module)
        self._metas.append(kwargs)
        self.binded = self.params_initialized = self.optimizer_initialized = False
        return self

    @property
    def data_names(self) -> list[str]:
        return self._modules[0].data_names if self._modules else []

    @property
    def output_names(self) -> list[str]:
        return self._modules[-1].output_names if self._modules else []

    @property
    def data_shapes(self) -> list[DataDesc]:
        self._require("binded")
        return self._modules[0].data_shapes

    @property
    def label_shapes(self) -> Any:
        self._require("binded")
        return self._label_shapes

    @property
    def output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        self._require("binded")
        return self._modules[-1].output_shapes

    def get_params(self) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        self._require("binded", "params_initialized")
        args, auxs = zip(*(module.get_params() for module in self._modules), strict=True)
        return {k: v for arg in args for k, v in arg.items()}, {k: v for aux in auxs for k, v in aux.items()}

    def init_params(self, initializer: InitFunction | None = _UNIFORM, arg_params: dict[str, NDArray] | None = None,
                    aux_params: dict[str, NDArray] | None = None, allow_missing: bool = False,
                    force_init: bool = False, allow_extra: bool = False) -> None:
        if self.params_initialized and not force_init:
            return
        self._require("binded")
        owners: dict[str, int] = {}
        for i, module in enumerate(self._modules):
            module.init_params(initializer, arg_params, aux_params, allow_missing, force_init, allow_extra)
            for name in (name for params in module.get_params() for name in params):
                if owners.setdefault(name, i) != i:
                    raise Unfit(f"modules {owners[name]} and {i} both have a parameter named {name}")
        self.params_initialized = True

    def bind(self, data_shapes: Shapes, label_shapes: Shapes | None = None, for_training: bool = True,
             inputs_need_grad: bool = False, force_rebind: bool = False, shared_module: BaseModule | None = None,
             grad_req: GradReq = "write") -> None:
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            return
        if shared_module is not None:
            raise Unfit("SequentialModule does not support shared_module")
        if not self._modules:
            raise Unfit("SequentialModule is empty; add modules first")
        if inputs_need_grad and not for_training:
            raise Unfit("inputs_need_grad=True requires for_training=True")
        takers = [bool(meta.get(self.META_TAKE_LABELS)) for meta in self._metas]
        self._label_shapes = label_shapes if any(takers) else None
        self.for_training = for_training
        self.inputs_need_grad = inputs_need_grad
        for i, (module, meta, takes_labels) in enumerate(zip(self._modules, self._metas, takers, strict=True)):
            if meta.get(self.META_AUTO_WIRING):
                data_shapes = [(name, desc[1]) for name, desc in zip(module.data_names, data_shapes, strict=True)]
            module.bind(data_shapes=data_shapes, label_shapes=label_shapes if takes_labels else None,
                        for_training=for_training, inputs_need_grad=inputs_need_grad or (for_training and i > 0),
                        force_rebind=force_rebind, grad_req=grad_req)
            data_shapes = module.output_shapes
        self.binded = True

    def init_optimizer(self, kvstore: StoreLike = "local", optimizer: Optimizer | str = "sgd",
                       optimizer_params: Options = _LEARNING_RATE, force_init: bool = False) -> None:
        self._require("binded", "params_initialized")
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring.")
            return
        for module in self._modules:
            module.init_optimizer(kvstore, optimizer, optimizer_params, force_init)
        self.optimizer_initialized = True

    def forward(self, data_batch: DataBatch, is_train: bool | None = None) -> None:
        self._require("binded", "params_initialized")
        data_batch = copy.copy(data_batch)
        for module in self._modules:
            module.forward(data_batch, is_train=is_train)
            if module is not self._modules[-1]:
                data_batch.data = module.get_outputs()
                data_batch.provide_data = [DataDesc(name, x.shape) for name, x in
                                           zip(module.output_names, data_batch.data, strict=True)]

    def backward(self, out_grads: list[NDArray] | None = None) -> None:
        self._require("binded", "params_initialized")
        for module in reversed(self._modules):
            module.backward(out_grads=out_grads)
            if module is not self._modules[0]:
                out_grads = module.get_input_grads()

    def update(self) -> None:
        self._require("binded", "params_initialized", "optimizer_initialized")
        for module in self._modules:
            module.update()

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        self._require("binded", "params_initialized")
        return self._modules[-1].get_outputs(merge_multi_context)

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        self._require("binded", "params_initialized", "inputs_need_grad")
        return self._modules[0].get_input_grads(merge_multi_context)

    def update_metric(self, eval_metric: EvalMetric, labels: Sequence[Any] | None, pre_sliced: bool = False) -> None:
        self._require("binded", "params_initialized")
        for meta, module in zip(self._metas, self._modules, strict=True):
            if meta.get(self.META_TAKE_LABELS):
                module.update_metric(eval_metric, labels, pre_sliced)

    def install_monitor(self, mon: Monitor) -> None:
        self._require("binded")
        for module in self._modules:
            module.install_monitor(mon)
