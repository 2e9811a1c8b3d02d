"""A module of several networks with shared parameters, one per kind of batch."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from .. import ndarray as nd
from .._checkpoints import load_params
from .._support.files import reading, together
from ..base import MXNetError, Unfit
from ..context import Context, cpu
from ..name import NameManager
from ..symbol import Symbol, load
from .base_module import _LEARNING_RATE, _UNIFORM, BaseModule, _check_input_names
from .module import Module

if TYPE_CHECKING:
    from ..executor._executor import GradReq
    from ..initializer import InitFunction
    from ..io import DataBatch, DataDesc
    from ..kvstore.base import StoreLike
    from ..log import LoggerLike
    from ..metric import EvalMetric
    from ..monitor import Monitor
    from ..ndarray import NDArray
    from ..optimizer.base import Optimizer
    from .base_module import Groups, Options, RowIds, Shapes

__all__ = ["BucketingModule"]


class BucketingModule(BaseModule):
    """A module per bucket key (such as a sequence length). The modules are created on demand and
    share their parameters.

    Args:
        sym_gen: function that maps a key to (network, data names, label names).
        default_bucket_key: key of the largest network, whose parameters the others use.
        logger, context, work_load_list, fixed_param_names, state_names, group2ctxs, compression_params: as in
            `Module`.
    """

    _curr_module: Module  # from `bind` on, which methods ask for first; None until then

    def __init__(self, sym_gen: Callable[[Any], tuple[Symbol, Sequence[str], Sequence[str]]],
                 default_bucket_key: Hashable | None = None, logger: LoggerLike = logging,
                 context: Context | list[Context] = cpu(), work_load_list: Sequence[float] | None = None,
                 fixed_param_names: Sequence[str] | None = None, state_names: Sequence[str] | None = None,
                 group2ctxs: Groups = None,
                 compression_params: dict[str, Any] | None = None) -> None:
        super().__init__(logger=logger)
        if default_bucket_key is None:
            raise Unfit("BucketingModule requires default_bucket_key, the key of the largest network")
        self._default_bucket_key = default_bucket_key
        self._sym_gen = sym_gen
        self.options = {"logger": logger, "context": context, "work_load_list": work_load_list,
                         "fixed_param_names": fixed_param_names, "state_names": state_names,
                         "group2ctxs": group2ctxs, "compression_params": compression_params}
        symbol, data_names, label_names = self._call_sym_gen(default_bucket_key)
        for names, kind in ((data_names, "data"), (label_names, "label"), (state_names, "state"),
                            (fixed_param_names, "fixed_param")):
            _check_input_names(symbol, names or (), kind, throw=kind != "label")
        self._params_dirty = False
        self._monitor: Any = None
        self._grad_req: Any = None
        self._reset_bind()

    def _reset_bind(self) -> None:
        self.binded = False
        self._buckets: dict[Any, Module] = {}
        self._curr_module = None  # pyright: ignore[reportAttributeAccessIssue]
        self._curr_bucket_key: Any = None

    def _call_sym_gen(self, key: Hashable) -> tuple[Symbol, Sequence[str], Sequence[str]]:
        with NameManager():  # so that the networks' generated names are equal
            return self._sym_gen(key)

    def _new_module(self, key: Hashable) -> Module:
        return Module(*self._call_sym_gen(key), **self.options)

    # ------------------------------------------------------------------ checkpoints
    def save_checkpoint(self, prefix: str, epoch: int, remove_amp_cast: bool = False) -> None:
        """Saves the network of each bucket (`prefix-KEY-symbol.json`), the keys, and the parameters.

        The files are replaced only after all are written completely, the parameters last.

        Args:
            prefix, epoch, remove_amp_cast: as in `mx.model.save_checkpoint`.
        """
        if not self._buckets:
            raise MXNetError("BucketingModule: there is no bucket to save; call bind first")
        with together():
            for key in self._buckets:
                symbol, _, _ = self._call_sym_gen(key)
                symbol.save(f"{prefix}-{key}-symbol.json", remove_amp_cast=remove_amp_cast)
            nd.save(f"{prefix}.buckets", nd.array(list(self._buckets), dtype=np.int32))
            self.save_params(f"{prefix}-{epoch:04d}.params")

    @staticmethod
    def load(prefix: str, epoch: int, sym_gen: Callable[[Any], Any] | None = None,
             default_bucket_key: Hashable | None = None, **kwargs: Any) -> BucketingModule:
        """Loads a module that `save_checkpoint` saved; its keys must be numbers.

        Args:
            prefix, epoch: as in `save_checkpoint`.
            sym_gen, default_bucket_key, **kwargs: as in the constructor.
        """
        with reading(f"{prefix}.buckets", "the keys of buckets"):
            keys = nd.load(f"{prefix}.buckets")[0].asnumpy().astype(np.int32).tolist()
        symbols = {key: load(f"{prefix}-{key}-symbol.json") for key in keys}
        arg_params, aux_params = load_params(prefix, epoch)
        return BucketingModule.load_dict(symbols, sym_gen, default_bucket_key, arg_params, aux_params, **kwargs)

    @staticmethod
    def load_dict(sym_dict: dict[Any, Symbol] | None = None, sym_gen: Callable[[Any], Any] | None = None,
                  default_bucket_key: Hashable | None = None, arg_params: dict[str, NDArray] | None = None,
                  aux_params: dict[str, NDArray] | None = None, **kwargs: Any) -> BucketingModule:
        """Creates a module from networks and parameters.

        Args:
            sym_dict: networks by bucket key.
            arg_params, aux_params: parameters and auxiliary states by name.
            sym_gen, default_bucket_key, **kwargs: as in the constructor.
        """
        required = {"sym_dict": sym_dict, "sym_gen": sym_gen, "default_bucket_key": default_bucket_key,
                 "arg_params": arg_params, "aux_params": aux_params}
        if sym_dict is None or sym_gen is None or arg_params is None or aux_params is None or None in required.values():
            missing = next(name for name, value in required.items() if value is None)
            raise ValueError(f"loading a BucketingModule requires {missing}")
        module = BucketingModule(sym_gen, default_bucket_key, **kwargs)
        for key, symbol in sym_dict.items():
            _, data_names, label_names = module._call_sym_gen(key)
            module._buckets[key] = Module(symbol, data_names, label_names, **module.options)
        if default_bucket_key not in module._buckets:
            raise ValueError(f"default_bucket_key {default_bucket_key!r} is not among the loaded {list(sym_dict)}")
        module._curr_module = default = module._buckets[default_bucket_key]
        default._arg_params, default._aux_params = arg_params, aux_params
        default.params_initialized = module.params_initialized = True
        return module

    # ------------------------------------------------------------------ properties
    @property
    def data_names(self) -> list[str]:
        return self._curr_module.data_names if self.binded else list(self._call_sym_gen(self._default_bucket_key)[1])

    @property
    def output_names(self) -> list[str]:
        if self.binded:
            return self._curr_module.output_names
        return self._call_sym_gen(self._default_bucket_key)[0].list_outputs()

    @property
    def data_shapes(self) -> list[DataDesc]:
        self._require("binded")
        return self._curr_module.data_shapes

    @property
    def label_shapes(self) -> list[DataDesc] | None:
        self._require("binded")
        return self._curr_module.label_shapes

    @property
    def output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        self._require("binded")
        return self._curr_module.output_shapes

    @property
    def symbol(self) -> Symbol:
        """The network of the current bucket."""
        self._require("binded")
        return cast(Symbol, self._curr_module.symbol)

    # ------------------------------------------------------------------ parameters
    def get_params(self) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        self._require("params_initialized")
        self._curr_module._params_dirty = self._params_dirty
        params = self._curr_module.get_params()
        self._params_dirty = False
        return params

    def init_params(self, initializer: InitFunction | None = _UNIFORM, arg_params: dict[str, NDArray] | None = None,
                    aux_params: dict[str, NDArray] | None = None, allow_missing: bool = False,
                    force_init: bool = False, allow_extra: bool = False) -> None:
        if self.params_initialized and not force_init:
            return
        self._require("binded")
        self._curr_module.init_params(initializer, arg_params, aux_params, allow_missing, force_init, allow_extra)
        self._params_dirty = False
        self.params_initialized = True

    def set_params(self, arg_params: dict[str, NDArray], aux_params: dict[str, NDArray], allow_missing: bool = False,
                   force_init: bool = True, allow_extra: bool = False) -> None:
        if not allow_missing:
            super().set_params(arg_params, aux_params, allow_missing, force_init, allow_extra)
            return
        if self.params_initialized and not force_init:
            warnings.warn("the parameters are initialized already; set_params does nothing without force_init=True",
                          UserWarning, stacklevel=2)
            return
        self._require("binded")
        self._curr_module.set_params(arg_params, aux_params, allow_missing, force_init, allow_extra)
        self._params_dirty = True
        self.params_initialized = True

    def get_states(self, merge_multi_context: bool = True) -> list[Any]:
        self._require("binded", "params_initialized")
        return self._curr_module.get_states(merge_multi_context)

    def set_states(self, states: Sequence[NDArray | Sequence[NDArray]] | None = None,
                   value: float | None = None) -> None:
        self._require("binded", "params_initialized")
        self._curr_module.set_states(states, value)

    # ------------------------------------------------------------------ binding
    def bind(self, data_shapes: Shapes, label_shapes: Shapes | None = None, for_training: bool = True,
             inputs_need_grad: bool = False, force_rebind: bool = False, shared_module: BaseModule | None = None,
             grad_req: GradReq = "write") -> None:
        if shared_module is not None:
            raise Unfit("BucketingModule does not support shared_module")
        params = self.get_params() if self.params_initialized else None
        if force_rebind:
            self._reset_bind()
        if self.binded:
            self.logger.warning("Already bound, ignoring bind()")
            return
        self.for_training = for_training
        self.inputs_need_grad = inputs_need_grad
        self._grad_req = grad_req
        key = self._default_bucket_key
        module = self._buckets.get(key) or self._new_module(key)
        module.bind(data_shapes, label_shapes, for_training, inputs_need_grad, grad_req=grad_req)
        self._buckets[key] = self._curr_module = module
        self._curr_bucket_key = key
        self.binded = True
        if params is not None:
            self.set_params(*params)

    def switch_bucket(self, bucket_key: Hashable, data_shapes: Any,
                      label_shapes: Shapes | None = None) -> None:
        """Makes the module of a bucket the current one.

        Args:
            bucket_key: its key.
            data_shapes, label_shapes: as in `bind`; used if the bucket is not bound yet.
        """
        self._require("binded")
        module = self._buckets.get(bucket_key)
        if module is None:
            module = self._buckets[bucket_key] = self._new_module(bucket_key)
        if not module.binded:
            module.bind(data_shapes, label_shapes, self.for_training, self.inputs_need_grad,
                        shared_module=self._buckets[self._default_bucket_key], grad_req=self._grad_req)
            if self._monitor is not None:
                module.install_monitor(self._monitor)
        self._curr_module, self._curr_bucket_key = module, bucket_key

    def init_optimizer(self, kvstore: StoreLike = "local", optimizer: Optimizer | str = "sgd",
                       optimizer_params: Options = _LEARNING_RATE, force_init: bool = False) -> None:
        self._require("binded", "params_initialized")
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring.")
            return
        self._curr_module.init_optimizer(kvstore, optimizer, optimizer_params, force_init)
        for module in self._buckets.values():
            if module is not self._curr_module:
                module.borrow_optimizer(self._curr_module)
        self.optimizer_initialized = True

    # ------------------------------------------------------------------ computation
    def prepare(self, data_batch: DataBatch, sparse_row_id_fn: RowIds | None = None) -> None:
        self._require("binded", "params_initialized")
        key = self._curr_bucket_key
        self.switch_bucket(data_batch.bucket_key, data_batch.provide_data, data_batch.provide_label)
        self._curr_module.prepare(data_batch, sparse_row_id_fn=sparse_row_id_fn)
        self.switch_bucket(key, None)

    def forward(self, data_batch: DataBatch, is_train: bool | None = None) -> None:
        self._require("binded", "params_initialized")
        self.switch_bucket(data_batch.bucket_key, data_batch.provide_data, data_batch.provide_label)
        self._curr_module.forward(data_batch, is_train)

    def backward(self, out_grads: list[NDArray] | None = None) -> None:
        self._require("binded", "params_initialized")
        self._curr_module.backward(out_grads)

    def update(self) -> None:
        self._require("binded", "params_initialized", "optimizer_initialized")
        self._params_dirty = True
        self._curr_module.update()

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        self._require("binded", "params_initialized")
        return self._curr_module.get_outputs(merge_multi_context)

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        self._require("binded", "params_initialized", "inputs_need_grad")
        return self._curr_module.get_input_grads(merge_multi_context)

    def update_metric(self, eval_metric: EvalMetric, labels: Sequence[Any] | None, pre_sliced: bool = False) -> None:
        self._require("binded", "params_initialized")
        self._curr_module.update_metric(eval_metric, labels, pre_sliced)

    def install_monitor(self, mon: Monitor) -> None:
        self._require("binded")
        self._monitor = mon
        for module in self._buckets.values():
            module.install_monitor(mon)
