"""A module of one network."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .. import ndarray as nd
from .. import optimizer as opt
from .._checkpoints import load_checkpoint
from .._support.files import reading, together, write_file
from ..base import Precondition, Unfit, WrongKind
from ..context import Context, chosen, cpu
from ..initializer import InitDesc
from ..io import DataDesc
from ..kvstore.training import _create_kvstore, _initialize_kvstore, _update_params, _update_params_on_kvstore
from .base_module import _LEARNING_RATE, _UNIFORM, BaseModule, _check_input_names, _parse_data_desc
from .executor_group import DataParallelExecutorGroup

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
    from ..symbol import Symbol
    from .base_module import Groups, Options, RowIds, Shapes

__all__ = ["Module"]


class Module(BaseModule):
    """A network with its parameters, on one or more devices.

    Args:
        symbol: the network.
        data_names, label_names: names of its inputs; None: none.
        logger: the logger.
        context: device, or list of devices among which every batch is split.
        work_load_list: relative size of each device's part of a batch; equal by default.
        fixed_param_names: parameters that are not trained.
        state_names: inputs that keep their values from batch to batch.
        group2ctxs: contexts of the network's context groups.
        compression_params: gradient compression of the kvstore.

    Example:
        >>> import mxjax as mx
        >>> net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2)
        >>> module = Module(net, label_names=None)
        >>> module.bind([("data", (4, 3))])
        >>> module.init_params(mx.init.One())
        >>> module.predict(mx.nd.ones((4, 3))).shape
        (4, 2)
    """

    # set when the flags are, which methods check first; None until then, as in MXNet
    _symbol: Symbol
    _arg_params: dict[str, NDArray]
    _aux_params: dict[str, NDArray]
    _updater: opt.Updater  # where the store does not update
    _exec_group: DataParallelExecutorGroup
    _data_shapes: list[DataDesc]

    def __init__(self, symbol: Symbol, data_names: Sequence[str] | None = ("data",),
                 label_names: Sequence[str] | None = ("softmax_label",), logger: LoggerLike = logging,
                 context: Context | list[Context] = cpu(), work_load_list: Sequence[float] | None = None,
                 fixed_param_names: Sequence[str] | None = None, state_names: Sequence[str] | None = None,
                 group2ctxs: Groups = None,
                 compression_params: dict[str, Any] | None = None) -> None:
        super().__init__(logger=logger)
        self._context = [chosen(c) for c in context] if isinstance(context, (list, tuple)) else [chosen(context)]
        self._work_load_list = [1] * len(self._context) if work_load_list is None else list(work_load_list)
        if len(self._work_load_list) != len(self._context):
            raise Unfit(f"work_load_list has {len(self._work_load_list)} entries for {len(self._context)} devices")
        self._group2ctxs = group2ctxs
        self._symbol = symbol  # pyright: ignore[reportIncompatibleVariableOverride]  a Module always has one
        self._data_names = list(data_names or ())
        self._label_names = list(label_names or ())
        self._state_names = list(state_names or ())
        self._fixed_param_names = list(fixed_param_names or ())
        for names, kind in ((self._data_names, "data"), (self._label_names, "label"), (self._state_names, "state"),
                            (self._fixed_param_names, "fixed_param")):
            _check_input_names(symbol, names, kind, throw=kind != "label")
        inputs = {*self._data_names, *self._label_names, *self._state_names}
        self._param_names = [name for name in symbol.list_arguments() if name not in inputs]
        self._aux_names = symbol.list_auxiliary_states()
        self._output_names = symbol.list_outputs()
        self._arg_params = self._aux_params = None  # pyright: ignore[reportAttributeAccessIssue]
        self._params_dirty = False  # the devices have newer parameters than _arg_params
        self._compression_params = compression_params
        self._optimizer: opt.Optimizer | None = None
        self._kvstore: Any = None
        self._update_on_kvstore = False
        self._updater = None  # pyright: ignore[reportAttributeAccessIssue]
        self._preload_opt_states: str | None = None
        self._grad_req: Any = None
        self._reset_bind()

    def _reset_bind(self) -> None:
        self.binded = False
        self._exec_group = self._data_shapes = None  # pyright: ignore[reportAttributeAccessIssue]
        self._label_shapes: list[DataDesc] | None = None

    # ------------------------------------------------------------------ checkpoints
    @staticmethod
    def load(prefix: str, epoch: int, load_optimizer_states: bool = False, **kwargs: Any) -> Module:
        """Loads a module from a checkpoint of mxjax or MXNet.

        Args:
            prefix, epoch: as in `mx.model.load_checkpoint`.
            load_optimizer_states: also load `prefix-EPOCH.states` when the optimizer is
                initialized.
            **kwargs: arguments of the constructor.
        """
        symbol, arg_params, aux_params = load_checkpoint(prefix, epoch)
        module = Module(symbol, **kwargs)
        module._arg_params, module._aux_params = arg_params, aux_params
        module.params_initialized = True
        if load_optimizer_states:
            module._preload_opt_states = f"{prefix}-{epoch:04d}.states"
        return module

    def save_checkpoint(self, prefix: str, epoch: int, save_optimizer_states: bool = False,
                        remove_amp_cast: bool = True) -> None:
        """Saves network and parameters like `mx.model.save_checkpoint`, and optionally the optimizer's states.

        The files are replaced only after all are written completely, the parameters last.
        """
        name = f"{prefix}-{epoch:04d}"
        with together():
            self._symbol.save(f"{prefix}-symbol.json", remove_amp_cast=remove_amp_cast)
            if save_optimizer_states:
                self.save_optimizer_states(f"{name}.states")
            self.save_params(f"{name}.params")
        logging.info('Saved checkpoint to "%s.params"', name)
        if save_optimizer_states:
            logging.info('Saved optimizer state to "%s.states"', name)

    def save_optimizer_states(self, fname: str) -> None:
        """Saves the optimizer's states in MXNet's format."""
        self._require("optimizer_initialized")
        if self._update_on_kvstore:
            self._kvstore.save_optimizer_states(fname)
        else:
            write_file(fname, self._updater.get_states())

    def load_optimizer_states(self, fname: str) -> None:
        """Loads saved optimizer states."""
        self._require("optimizer_initialized")
        if self._update_on_kvstore:
            self._kvstore.load_optimizer_states(fname)
        else:
            with reading(fname, "optimizer states"), open(fname, "rb") as file:
                self._updater.set_states(file.read())

    # ------------------------------------------------------------------ properties
    @property
    def data_names(self) -> list[str]:
        return self._data_names

    @property
    def label_names(self) -> list[str]:
        """Names of the labels."""
        return self._label_names

    @property
    def output_names(self) -> list[str]:
        return self._output_names

    @property
    def data_shapes(self) -> list[DataDesc]:
        self._require("binded")
        return self._data_shapes

    @property
    def label_shapes(self) -> list[DataDesc] | None:
        self._require("binded")
        return self._label_shapes

    @property
    def output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        self._require("binded")
        return self._exec_group.get_output_shapes()

    @property
    def _total_exec_bytes(self) -> int:
        return 0 if self._exec_group is None else self._exec_group._total_exec_bytes

    # ------------------------------------------------------------------ parameters
    def get_params(self) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        self._require("params_initialized")
        if self._params_dirty:
            self._sync_params_from_devices()
        return self._arg_params, self._aux_params

    def _sync_params_from_devices(self) -> None:
        self._exec_group.get_params(self._arg_params, self._aux_params)
        if self._update_on_kvstore:
            for name, array in sorted(self._arg_params.items()):
                if array.stype == "row_sparse":  # the devices may have only some rows
                    rows = nd.arange(0, array.shape[0], dtype="int64")
                    self._kvstore.row_sparse_pull(name, array, row_ids=rows)
        self._params_dirty = False

    def init_params(self, initializer: InitFunction | None = _UNIFORM, arg_params: dict[str, NDArray] | None = None,
                    aux_params: dict[str, NDArray] | None = None, allow_missing: bool = False,
                    force_init: bool = False, allow_extra: bool = False) -> None:
        if self.params_initialized and not force_init:
            warnings.warn("the parameters are initialized already; init_params does nothing without force_init=True",
                          UserWarning, stacklevel=2)
            return
        self._require("binded")
        attrs = self._symbol.attr_dict()
        for params, source in ((self._arg_params, arg_params), (self._aux_params, aux_params)):
            for name, array in sorted(params.items()):
                if source is not None and name in source:
                    if source[name] is not array:
                        source[name].copyto(array)
                elif source is not None and not allow_missing:
                    raise RuntimeError(f"{name} is not among the given parameters; pass allow_missing=True to "
                                       "initialize missing ones")
                elif initializer is not None:
                    initializer(InitDesc(name, attrs.get(name)), array)
                elif source is None:
                    raise ValueError(f"{name} has neither a value nor an initializer")
        self.params_initialized = True
        self._params_dirty = False
        self._exec_group.set_params(self._arg_params, self._aux_params)

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
        self._exec_group.set_params(arg_params, aux_params, allow_extra=allow_extra)
        self._params_dirty = True
        self.params_initialized = True

    # ------------------------------------------------------------------ binding
    def bind(self, data_shapes: Shapes, label_shapes: Shapes | None = None, for_training: bool = True,
             inputs_need_grad: bool = False, force_rebind: bool = False, shared_module: BaseModule | None = None,
             grad_req: GradReq = "write") -> None:
        if force_rebind:
            if self.binded and self.params_initialized:
                self.get_params()  # copies the values of the old executors
            self._reset_bind()
        if self.binded:
            self.logger.warning("Already bound, ignoring bind()")
            return
        if inputs_need_grad and not for_training:
            raise Unfit("inputs_need_grad=True requires for_training=True")
        shared_group = None
        if shared_module is not None:
            if not (isinstance(shared_module, Module) and shared_module.binded and shared_module.params_initialized):
                raise Unfit("shared_module must be a bound Module with initialized parameters")
            shared_group = shared_module._exec_group
            if len(shared_group.execs) < len(self._context):
                raise ValueError(f"shared_module has {len(shared_group.execs)} devices, but this module has "
                                 f"{len(self._context)}")
        self.for_training = for_training
        self.inputs_need_grad = inputs_need_grad
        self._grad_req = grad_req
        self._data_shapes, self._label_shapes = _parse_data_desc(self._data_names, self._label_names, data_shapes,
                                                                 label_shapes)
        self._exec_group = group = DataParallelExecutorGroup(
            self._symbol, self._context, self._work_load_list, self._data_shapes, self._label_shapes,
            self._param_names, for_training, inputs_need_grad, shared_group, self.logger, self._fixed_param_names,
            grad_req, self._state_names, self._group2ctxs)
        self.binded = True
        if isinstance(shared_module, Module):
            self.params_initialized = True
            self._arg_params, self._aux_params = shared_module._arg_params, shared_module._aux_params
            if shared_module.optimizer_initialized:
                self.borrow_optimizer(shared_module)
        elif self.params_initialized:
            group.set_params(self._arg_params, self._aux_params)
        else:
            self._arg_params, self._aux_params = (
                {name: nd.zeros(block[0].shape, dtype=block[0].dtype, stype=block[0].stype)
                 for name, block in zip(names, blocks, strict=True)}
                for names, blocks in ((self._param_names, group.param_arrays), (self._aux_names, group.aux_arrays)))

    def reshape(self, data_shapes: Shapes, label_shapes: Shapes | None = None) -> None:
        """Changes the shapes of the inputs and keeps the parameters."""
        self._require("binded")
        self._data_shapes, self._label_shapes = _parse_data_desc(self._data_names, self._label_names, data_shapes,
                                                                 label_shapes)
        self._exec_group.reshape(self._data_shapes, self._label_shapes)

    # ------------------------------------------------------------------ optimizer
    def init_optimizer(self, kvstore: StoreLike = "local", optimizer: Optimizer | str = "sgd",
                       optimizer_params: Options = _LEARNING_RATE, force_init: bool = False) -> None:
        self._require("binded", "params_initialized")
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring...")
            return
        if self._params_dirty:
            self._sync_params_from_devices()
        store, on_store = _create_kvstore(kvstore, len(self._context), self._arg_params)
        names = self._exec_group.param_names
        samples = self._exec_group.batch_size
        if samples is None:
            raise ValueError("init_optimizer: gradients are divided by the batch size, but no input's layout has an N")
        if store and "dist" in store.type and "_sync" in store.type:
            samples *= store.num_workers
        copies = 1 if on_store else len(self._context)  # an updater has a state for each device's copy
        idx2name = {i * copies + k: name for i, name in enumerate(names) for k in range(copies)}
        if isinstance(optimizer, str):
            optimizer = opt.create(optimizer, sym=self._symbol, param_idx2name=idx2name,
                                   **{"rescale_grad": 1.0 / samples, **dict(optimizer_params)})
        elif not isinstance(optimizer, opt.Optimizer):
            raise WrongKind(f"optimizer must be an Optimizer or the name of one, got {type(optimizer).__name__}")
        else:
            if optimizer.rescale_grad != 1.0 / samples:
                warnings.warn(f"the optimizer has rescale_grad={optimizer.rescale_grad}, not 1/batch size = "
                              f"{1.0 / samples}; is this intended?", UserWarning, stacklevel=2)
            if not optimizer.idx2name:
                optimizer.idx2name = idx2name
        self._optimizer, self._kvstore, self._update_on_kvstore = optimizer, store, on_store
        self._updater = None if on_store else opt.get_updater(optimizer)  # pyright: ignore[reportAttributeAccessIssue]
        if store:
            if self._compression_params:
                store.set_gradient_compression(self._compression_params)
            if on_store:
                store.set_optimizer(optimizer)
            _initialize_kvstore(store, self._exec_group.param_arrays, self._arg_params, names, on_store)
        self.optimizer_initialized = True
        if self._preload_opt_states is not None:
            self.load_optimizer_states(self._preload_opt_states)
            self._preload_opt_states = None

    def borrow_optimizer(self, shared_module: Module) -> None:
        """Uses another module's optimizer with its states."""
        shared_module._require("optimizer_initialized")
        for name in ("_optimizer", "_kvstore", "_update_on_kvstore", "_updater"):
            setattr(self, name, getattr(shared_module, name))
        self.optimizer_initialized = True

    # ------------------------------------------------------------------ computation
    def prepare(self, data_batch: DataBatch, sparse_row_id_fn: RowIds | None = None) -> None:
        self._require("binded")
        if sparse_row_id_fn is None:
            return
        if not self._update_on_kvstore:
            warnings.warn("the kvstore does not update the parameters; sparse_row_id_fn is not needed", UserWarning,
                          stacklevel=2)
            return
        for name, rows in sparse_row_id_fn(data_batch).items():
            index = self._exec_group.param_names.index(name)
            arrays = self._exec_group.param_arrays[index]
            if arrays[0].stype == "row_sparse":
                self._kvstore.row_sparse_pull(name, arrays, row_ids=rows, priority=-index)
            else:
                warnings.warn(f"{name} is not row_sparse; its rows need not be pulled", UserWarning, stacklevel=2)

    def forward(self, data_batch: DataBatch | list[DataBatch], is_train: bool | None = None) -> None:
        if not (self.binded and self.params_initialized):
            self._require("binded", "params_initialized")
        batches = data_batch if isinstance(data_batch, list) else [data_batch]
        if not batches:
            raise ValueError("forward got an empty list of batches")
        shapes = []
        data = batches[0].data
        if data is None:
            raise ValueError("forward got a batch without data")
        for array in data:
            shapes.append(tuple(array.shape))
        for batch in batches[1:]:
            if [tuple(array.shape) for array in batch.data or ()] != shapes:
                raise ValueError("the batches of a list must have equal shapes")
        if len(batches) > 1:
            shapes = [(len(batches) * shape[0], *shape[1:]) for shape in shapes]
        known = []
        for desc in self._data_shapes:
            known.append(tuple(desc.shape))
        if shapes != known:
            self._reshape_for(batches[0], shapes)
        self._exec_group.forward(data_batch, is_train)

    def _reshape_for(self, batch: DataBatch, shapes: list[tuple[int, ...]]) -> None:
        """Reshape to a batch's shapes, which it may describe itself."""
        data = getattr(batch, "provide_data", None) or [
            DataDesc(desc.name, shape, desc.dtype, desc.layout)
            for desc, shape in zip(self._data_shapes, shapes, strict=True)]
        label, labels = getattr(batch, "provide_label", None), getattr(batch, "label", None)
        if not label and labels:
            label = [DataDesc(desc.name, array.shape, desc.dtype, desc.layout)
                     for desc, array in zip(self._label_shapes or (), labels, strict=False)]
        self.reshape(data, label or None)

    def backward(self, out_grads: list[NDArray] | None = None) -> None:
        if not (self.binded and self.params_initialized and self.for_training):
            self._require("binded", "params_initialized", "for_training")
        self._exec_group.backward(out_grads)

    def update(self) -> None:
        if not (self.binded and self.params_initialized and self.optimizer_initialized):
            self._require("binded", "params_initialized", "optimizer_initialized")
        self._params_dirty = True
        group, gradients = self._exec_group, self._exec_group.grad_arrays
        if gradients is None:
            raise Precondition(f"{type(self).__name__}: call bind with for_training=True first")
        if self._update_on_kvstore:
            _update_params_on_kvstore(group.param_arrays, gradients, self._kvstore, group.param_names)
        elif self._kvstore is None and len(self._context) == 1:
            indices, grads, params = [], [], []
            for i, (param, grad) in enumerate(zip(group.param_arrays, gradients, strict=True)):
                if grad[0] is not None:
                    indices.append(i)
                    grads.append(grad[0])
                    params.append(param[0])
            if indices:
                self._updater(indices, grads, params)
        else:
            _update_params(group.param_arrays, gradients, self._updater, len(self._context), self._kvstore,
                           group.param_names)

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        self._require("binded", "params_initialized")
        return self._exec_group.get_outputs(merge_multi_context)

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        self._require("binded", "params_initialized", "inputs_need_grad")
        return self._exec_group.get_input_grads(merge_multi_context)

    def get_states(self, merge_multi_context: bool = True) -> list[Any]:
        self._require("binded", "params_initialized")
        return self._exec_group.get_states(merge_multi_context)

    def set_states(self, states: Sequence[NDArray | Sequence[NDArray]] | None = None,
                   value: float | None = None) -> None:
        self._require("binded", "params_initialized")
        self._exec_group.set_states(states, value)

    def update_metric(self, eval_metric: EvalMetric, labels: Sequence[Any] | None, pre_sliced: bool = False) -> None:
        self._exec_group.update_metric(eval_metric, labels, pre_sliced)

    def install_monitor(self, mon: Monitor) -> None:
        self._require("binded")
        self._exec_group.install_monitor(mon)
