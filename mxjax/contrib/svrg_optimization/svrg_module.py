"""A module that trains with variance-reduced gradients."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ... import ndarray as nd
from ... import optimizer as opt
from ...base import Precondition
from ...context import cpu
from ...io import DataBatch, DataIter
from ...kvstore.training import _create_kvstore
from ...module import Module
from ...module.base_module import _UNIFORM
from ...module.executor_group import DataParallelExecutorGroup
from ...ndarray import NDArray
from ...symbol import Symbol
from .svrg_optimizer import _SVRGOptimizer

if TYPE_CHECKING:
    from ...callback import Callbacks
    from ...context import Context
    from ...executor._executor import GradReq
    from ...initializer import InitFunction
    from ...kvstore.base import StoreLike
    from ...log import LoggerLike
    from ...metric import MetricLike
    from ...module.base_module import BaseModule, Groups, Options, RowIds, Shapes
    from ...monitor import Monitor
    from ...optimizer.base import Optimizer

__all__ = ["SVRGModule"]


def _group(module: Module) -> DataParallelExecutorGroup:
    """Returns a module's executors."""
    group = module._exec_group
    if group is None:
        raise Precondition("SVRGModule: call bind first")
    return group


def _gradients(module: Module) -> list[list[NDArray]]:
    """Returns a module's gradients, for each parameter by device."""
    result = _group(module).grad_arrays
    if result is None:
        raise Precondition("SVRGModule: call bind with for_training=True first")
    return result


class SVRGModule(Module):
    """A Module whose gradients are g(w, batch) - g(v, batch) + g(v, all data). Johnson and Zhang, NIPS 2013.

    v are the parameters at the last computation of the gradient over all data, which happens every
    `update_freq` epochs.

    Args:
        symbol, data_names, label_names, logger, context, work_load_list, fixed_param_names, state_names, group2ctxs,
            compression_params: as in `Module`.
        update_freq: number of epochs between computations of the gradient over all data.

    Raises:
        TypeError: `update_freq` is not an int.
        ValueError: it is not positive.
    """

    def __init__(self, symbol: Symbol, data_names: Sequence[str] | None = ("data",),
                 label_names: Sequence[str] | None = ("softmax_label",), logger: LoggerLike = logging,
                 context: Context | list[Context] = cpu(), work_load_list: Sequence[float] | None = None,
                 fixed_param_names: Sequence[str] | None = None, state_names: Sequence[str] | None = None,
                 group2ctxs: Groups = None,
                 compression_params: dict[str, Any] | None = None, update_freq: int | None = None) -> None:
        arguments = (data_names, label_names, logger, context, work_load_list, fixed_param_names, state_names,
                     group2ctxs, compression_params)
        self._mod_aux = Module(symbol, *arguments)
        super().__init__(symbol, *arguments)
        if not isinstance(update_freq, int):
            raise TypeError(f"update_freq in SVRGModule must be an integer to represent the frequency for calculating "
                            f"full gradients, got {update_freq!r}")
        if update_freq <= 0:
            raise ValueError("update_freq in SVRGModule must be a positive integer to represent the frequency for "
                             f"calculating full gradients, got {update_freq}")
        self.update_freq = update_freq
        self._param_dict: list[dict[str, NDArray]] = []  # gradients over all data, for each device
        self._ctx_len = len(self._context)

    def _reset_bind(self) -> None:
        super()._reset_bind()
        self._mod_aux._reset_bind()

    def reshape(self, data_shapes: Shapes, label_shapes: Shapes | None = None) -> None:
        """Like `Module.reshape`."""
        super().reshape(data_shapes, label_shapes=label_shapes)
        self._mod_aux.reshape(data_shapes, label_shapes=label_shapes)

    def bind(self, data_shapes: Shapes, label_shapes: Shapes | None = None, for_training: bool = True,
             inputs_need_grad: bool = False, force_rebind: bool = False, shared_module: BaseModule | None = None,
             grad_req: GradReq = "write") -> None:
        """Like `Module.bind`."""
        arguments = (data_shapes, label_shapes, for_training, inputs_need_grad, force_rebind, shared_module, grad_req)
        super().bind(*arguments)
        if for_training:
            self._mod_aux.bind(*arguments)

    def init_optimizer(self, kvstore: StoreLike = "local", optimizer: Optimizer | str = "sgd",
                       optimizer_params: Options = (("learning_rate", 0.01),), force_init: bool = False) -> None:
        """Like `Module.init_optimizer`."""
        params = self.get_params()[0]
        self._param_dict = [{name: nd.zeros(array.shape, ctx=ctx) for name, array in params.items()}
                            for ctx in self._context]
        combined = self._create_optimizer(optimizer, kvstore, dict(optimizer_params))
        super().init_optimizer(kvstore=kvstore, optimizer=combined, optimizer_params=optimizer_params,
                               force_init=force_init)
        if self._kvstore:
            for name in _group(self).param_names:
                self._kvstore.init(name + "_full", nd.zeros(params[name].shape))

    def _create_optimizer(self, optimizer: Optimizer | str, kvstore: StoreLike,
                          params: dict[str, Any]) -> opt.Optimizer:
        """The optimizer of parameters and full gradients."""
        store, on_store = _create_kvstore(kvstore, self._ctx_len, self.get_params()[0])
        samples = _group(self).batch_size
        if samples is None:
            raise ValueError("SVRGModule needs inputs with a batch axis, N in their layout")
        if store and "dist" in store.type and "_sync" in store.type:
            samples *= store.num_workers
        copies = 1 if on_store else self._ctx_len
        names = _group(self).param_names
        numbered = [name for name in names for _ in range(copies)] + [name + "_full" for name in names]
        return opt.create(_SVRGOptimizer.__name__, default_optimizer=optimizer,
                          **{"rescale_grad": 1.0 / samples, **params, "param_idx2name": dict(enumerate(numbered))})

    def forward(self, data_batch: DataBatch | list[DataBatch], is_train: bool | None = None) -> None:
        """Like `Module.forward`, with both sets of parameters in training."""
        super().forward(data_batch, is_train)
        if is_train:
            self._mod_aux.forward(data_batch, is_train)

    def backward(self, out_grads: list[NDArray] | None = None) -> None:
        """Like `Module.backward`, for both sets of parameters."""
        super().backward(out_grads)
        if self._mod_aux.binded:
            self._mod_aux.backward(out_grads)

    def prepare(self, data_batch: DataBatch, sparse_row_id_fn: RowIds | None = None) -> None:
        """Like `Module.prepare`."""
        super().prepare(data_batch, sparse_row_id_fn=sparse_row_id_fn)
        self._mod_aux.prepare(data_batch, sparse_row_id_fn=sparse_row_id_fn)

    def update(self) -> None:
        """Like `Module.update`, with the variance-reduced gradients."""
        self._update_svrg_gradients()
        super().update()

    def _update_svrg_gradients(self) -> None:
        """Corrects the gradients of this batch."""
        current, special = _gradients(self), _gradients(self._mod_aux)
        for i, name in enumerate(_group(self).param_names):
            for k in range(self._ctx_len):
                self._svrg_grads_update_rule([current[i][k]], [special[i][k]], [self._param_dict[k][name]])

    @staticmethod
    def _svrg_grads_update_rule(current: list[NDArray], special: list[NDArray], full: list[NDArray]) -> list[NDArray]:
        """current - special + full, in place."""
        for grad, at_special, over_all in zip(current, special, full, strict=True):
            grad -= at_special
            grad += over_all
        return current

    def update_full_grads(self, train_data: DataIter) -> None:
        """Stores the current parameters and computes the mean of their gradients over all batches.

        As in MXNet, the sum starts from the previous mean instead of zero.
        """
        names = _group(self).param_names
        self._mod_aux.set_params(*self.get_params())
        train_data.reset()
        batches, pad = 0, 0
        for batch in train_data:
            self._mod_aux.forward(batch, is_train=True)
            self._mod_aux.backward()
            batches, pad = batches + 1, batch.pad or 0
            gradients = _gradients(self._mod_aux)
            for i, name in enumerate(names):
                for k, sums in enumerate(self._param_dict):
                    sums[name] += gradients[i][k]
        count = batches - pad / train_data.batch_size
        for name in names:
            for sums in self._param_dict:
                sums[name] /= count
            if self._kvstore:
                self._average(name)

    def _average(self, name: str) -> None:
        """The mean over devices (and workers' sum) of a full gradient."""
        arrays = [sums[name] for sums in self._param_dict]
        self._kvstore.push(name + "_full", arrays)
        self._kvstore.pull(name + "_full", arrays)
        for array in arrays:
            array /= self._ctx_len

    def fit(self, train_data: DataIter, eval_data: DataIter | None = None, eval_metric: MetricLike = "acc",
            epoch_end_callback: Callbacks = None, batch_end_callback: Callbacks = None, kvstore: StoreLike = "local",
            optimizer: Optimizer | str = "sgd", optimizer_params: Options = (("learning_rate", 0.01),),
            eval_end_callback: Callbacks = None, eval_batch_end_callback: Callbacks = None,
            initializer: InitFunction | None = _UNIFORM, arg_params: dict[str, NDArray] | None = None,
            aux_params: dict[str, NDArray] | None = None, allow_missing: bool = False, force_rebind: bool = False,
            force_init: bool = False, begin_epoch: int = 0, num_epoch: int | None = None,
            validation_metric: MetricLike | None = None, monitor: Monitor | None = None,
            sparse_row_id_fn: RowIds | None = None) -> None:
        """Like `Module.fit`; computes the gradients over all data every `update_freq` epochs."""
        super().fit(train_data, eval_data, eval_metric, epoch_end_callback, batch_end_callback, kvstore, optimizer,
                    optimizer_params, eval_end_callback, eval_batch_end_callback, initializer, arg_params, aux_params,
                    allow_missing, force_rebind, force_init, begin_epoch, num_epoch, validation_metric, monitor,
                    sparse_row_id_fn)

    def _begin_epoch(self, epoch: int, train_data: DataIter) -> None:
        if epoch % self.update_freq == 0:
            self.update_full_grads(train_data)
        train_data.reset()

    def _end_epoch(self, train_data: DataIter) -> None:
        """Leaves the data as they are: every reset shuffles, and `_begin_epoch` has the only one of an epoch."""
