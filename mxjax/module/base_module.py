"""The base of all modules: training loop, evaluation, prediction, parameter files."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from .. import metric
from .. import ndarray as nd
from .._checkpoints import _pack_params, _unpack_params
from .._support.progress import progress
from ..base import Precondition, Unfit, _as_list
from ..callback import BatchEndParam
from ..context import Context
from ..initializer import Uniform
from ..io import DataBatch, DataDesc, DataIter
from ..io.base import described

if TYPE_CHECKING:
    from ..callback import Callbacks
    from ..executor._executor import GradReq
    from ..initializer import InitFunction
    from ..kvstore.base import StoreLike
    from ..log import LoggerLike
    from ..metric import MetricLike
    from ..monitor import Monitor
    from ..ndarray import NDArray
    from ..optimizer.base import Optimizer
    from ..symbol import Symbol

__all__ = ["BaseModule"]

Shapes: TypeAlias = Iterable[DataDesc | tuple[Any, ...]]  # descriptions, or tuples of their parts
RowIds: TypeAlias = Callable[[DataBatch], "dict[str, NDArray]"]  # a batch's numbers of rows, by parameter
Groups: TypeAlias = list[dict[str, Context] | None] | dict[str, Context | list[Context]] | None  # contexts by group
Options: TypeAlias = Mapping[str, Any] | Iterable[tuple[str, Any]]

_UNIFORM = Uniform(0.01)
_LEARNING_RATE = (("learning_rate", 0.01),)


def _check_input_names(symbol: Symbol, names: Sequence[str], typename: str, throw: bool) -> None:
    """Raise or warn if the network lacks one of the inputs."""
    args = symbol.list_arguments()
    for name in names:
        if name not in args:
            others = [arg for arg in args if not arg.endswith(("_weight", "_bias", "_gamma", "_beta"))]
            message = (f"{typename}_names={list(names)}, but the network has no input {name!r}. Did you mean one of "
                       f"{', '.join(others)}?")
            if throw:
                raise ValueError(message)
            warnings.warn(message, UserWarning, stacklevel=4)


def _parse_data_desc(data_names: Sequence[str], label_names: Sequence[str], data_shapes: Shapes,
                     label_shapes: Shapes | None) -> tuple[list[DataDesc], list[DataDesc] | None]:
    """Descriptions of data and labels, checked against the names a module was made with.

    Raises:
        ValueError: the data's names differ. If the labels' do, that is a warning.
    """
    data = described(data_shapes)
    labels = None if label_shapes is None else described(label_shapes)
    for kind, names, descs in (("data", data_names, data), ("label", label_names, labels or ())):
        found = [desc.name for desc in descs]
        if sorted(names) != sorted(found):
            message = f"{kind}_shapes are for {found}, but {kind}_names={list(names)}"
            if kind == "data":
                raise ValueError(message)
            warnings.warn(message, UserWarning, stacklevel=3)
    return data, labels


def _call_all(callbacks: Callbacks, *args: Any) -> None:
    """Call a callback, each of a list of them, or none."""
    for callback in _as_list(() if callbacks is None else callbacks):
        callback(*args)


def _first(batches: Iterator[DataBatch]) -> DataBatch:
    """Returns the first of an epoch's batches.

    Raises:
        ValueError: there are none.
    """
    for batch in batches:
        return batch
    raise ValueError("train_data has no batches")


class BaseModule:
    """Base of all modules, which run forward and backward passes and update their parameters.

    Bind a module to shapes (`bind`), initialize its parameters (`init_params`) and optimizer
    (`init_optimizer`), and call `forward`, `backward` and `update` for each batch. `fit` does all
    of this.

    Args:
        logger: the logger.
    """

    _total_exec_bytes = 0

    def __init__(self, logger: LoggerLike = logging) -> None:
        self.logger = logger
        self.binded = False
        self.for_training = False
        self.inputs_need_grad = False
        self.params_initialized = False
        self.optimizer_initialized = False
        self._symbol: Symbol | None = None

    def _require(self, *conditions: str) -> None:
        """Raise unless the module is that far; conditions: names of its flags."""
        how = {"binded": "bind", "params_initialized": "init_params", "optimizer_initialized": "init_optimizer",
               "inputs_need_grad": "bind with inputs_need_grad=True", "for_training": "bind with for_training=True"}
        for condition in conditions:
            if not getattr(self, condition):
                raise Precondition(f"{type(self).__name__}: call {how[condition]} first")

    # ------------------------------------------------------------------ whole loops
    def forward_backward(self, data_batch: DataBatch) -> None:
        """Runs `forward` in training mode, then `backward`."""
        self.forward(data_batch, is_train=True)
        self.backward()

    def _update_metric_by(self, eval_metric: metric.EvalMetric, batch: DataBatch | list[DataBatch]) -> None:
        """Count in a batch, or one for each device."""
        if isinstance(batch, list):
            self.update_metric(eval_metric, [one.label for one in batch], pre_sliced=True)
        else:
            self.update_metric(eval_metric, batch.label)

    def _evaluated(self, eval_data: DataIter, num_batch: int | None, reset: bool,
                   sparse_row_id_fn: RowIds | None) -> Iterator[tuple[int, Any]]:
        """Batches, after the forward pass of each."""
        self._require("binded", "params_initialized")
        if reset:
            eval_data.reset()
        for nbatch, batch in enumerate(eval_data):
            if nbatch == num_batch:
                return
            self.prepare(batch, sparse_row_id_fn=sparse_row_id_fn)
            self.forward(batch, is_train=False)
            yield nbatch, batch

    def score(self, eval_data: DataIter, eval_metric: MetricLike, num_batch: int | None = None,
              batch_end_callback: Callbacks = None, score_end_callback: Callbacks = None,
              reset: bool = True, epoch: int = 0, sparse_row_id_fn: RowIds | None = None) -> list[tuple[str, float]]:
        """Evaluates the module on a data set.

        Args:
            eval_data: iterator with labels.
            eval_metric: metric, or a description that `mx.metric.create` accepts.
            num_batch: number of batches; None for all.
            batch_end_callback, score_end_callback: called with a BatchEndParam after each batch and at the end.
            reset: reset the iterator first.
            epoch: epoch number for the callbacks.
            sparse_row_id_fn: for `prepare`.

        Returns:
            Names and values of the metric.
        """
        eval_metric = metric.create(eval_metric) if not isinstance(eval_metric, metric.EvalMetric) else eval_metric
        eval_metric.reset()
        actual_num_batch = 0  # MXNet's name, for callbacks
        for nbatch, eval_batch in self._evaluated(eval_data, num_batch, reset, sparse_row_id_fn):
            self._update_metric_by(eval_metric, eval_batch)
            if batch_end_callback is not None:
                _call_all(batch_end_callback, BatchEndParam(epoch, nbatch, eval_metric, locals()))
            actual_num_batch += 1
        if score_end_callback:
            _call_all(score_end_callback, BatchEndParam(epoch, actual_num_batch, eval_metric, locals()))
        return eval_metric.get_name_value()

    def iter_predict(self, eval_data: DataIter, num_batch: int | None = None, reset: bool = True,
                     sparse_row_id_fn: RowIds | None = None) -> Iterator[tuple[list[NDArray], int, DataBatch]]:
        """Yields (outputs, index of the batch, batch) without padding; arguments as in `score`."""
        for nbatch, batch in self._evaluated(eval_data, num_batch, reset, sparse_row_id_fn):
            yield [out[0:out.shape[0] - (batch.pad or 0)] for out in self.get_outputs()], nbatch, batch

    def predict(self, eval_data: DataIter | NDArray | np.ndarray, num_batch: int | None = None,
                merge_batches: bool = True, reset: bool = True, always_output_list: bool = False,
                sparse_row_id_fn: RowIds | None = None) -> Any:
        """Returns the outputs for an iterator or an array.

        Args:
            eval_data: iterator, NDArray or numpy.ndarray (one batch).
            num_batch: number of batches; None for all.
            merge_batches: concatenate the batches.
            reset: reset the iterator first.
            always_output_list: return a list even if there is only one output.
            sparse_row_id_fn: for `prepare`.

        Returns:
            The merged output or list of outputs; without `merge_batches`, a list with a list of
            outputs per batch.
        """
        self._require("binded", "params_initialized")
        if isinstance(eval_data, nd.NDArray | np.ndarray):
            self.forward(DataBatch([nd.array(eval_data) if isinstance(eval_data, np.ndarray) else eval_data]))
            return self.get_outputs()[0]
        if not isinstance(eval_data, DataIter):
            raise ValueError(f"eval_data must be a DataIter or an array, got {type(eval_data).__name__}")
        batches = [[out.copy() for out in outputs] for outputs, _, _ in
                   self.iter_predict(eval_data, num_batch, reset, sparse_row_id_fn)]
        if not batches or not merge_batches:
            return batches
        if len({len(outputs) for outputs in batches}) > 1:
            raise ValueError("batches cannot be merged because their numbers of outputs differ (bucketing?)")
        merged = [nd.concatenate(list(outputs)) for outputs in zip(*batches, strict=True)]
        return merged[0] if len(merged) == 1 and not always_output_list else merged

    def fit(self, train_data: DataIter, eval_data: DataIter | None = None, eval_metric: MetricLike = "acc",
            epoch_end_callback: Callbacks = None, batch_end_callback: Callbacks = None, kvstore: StoreLike = "local",
            optimizer: Optimizer | str = "sgd", optimizer_params: Options = _LEARNING_RATE,
            eval_end_callback: Callbacks = None, eval_batch_end_callback: Callbacks = None,
            initializer: InitFunction | None = _UNIFORM, arg_params: dict[str, NDArray] | None = None,
            aux_params: dict[str, NDArray] | None = None, allow_missing: bool = False, force_rebind: bool = False,
            force_init: bool = False, begin_epoch: int = 0, num_epoch: int | None = None,
            validation_metric: MetricLike | None = None, monitor: Monitor | None = None,
            sparse_row_id_fn: RowIds | None = None) -> None:
        """Binds, initializes and trains the module.

        Args:
            train_data: iterator to train on.
            eval_data: iterator to validate on after each epoch.
            eval_metric: training metric, or a description that `mx.metric.create` accepts.
            epoch_end_callback: called with (epoch, symbol, arg_params, aux_params).
            batch_end_callback: called with a BatchEndParam.
            kvstore, optimizer, optimizer_params: as in `init_optimizer`.
            eval_end_callback, eval_batch_end_callback: as `score_end_callback` and `batch_end_callback` of `score`.
            initializer, arg_params, aux_params, allow_missing, force_init: as in `init_params`.
            force_rebind: bind again even if already bound.
            begin_epoch, num_epoch: first epoch, and end of the range of epochs (exclusive).
            validation_metric: metric for `eval_data`; the same by default.
            monitor: a Monitor to install.
            sparse_row_id_fn: for `prepare`.
        """
        if num_epoch is None:
            raise Unfit("fit requires num_epoch, the number of epochs")
        self.bind(data_shapes=train_data.provide_data, label_shapes=train_data.provide_label, for_training=True,
                  force_rebind=force_rebind)
        if monitor is not None:
            self.install_monitor(monitor)
        self.init_params(initializer=initializer, arg_params=arg_params, aux_params=aux_params,
                         allow_missing=allow_missing, force_init=force_init)
        self.init_optimizer(kvstore=kvstore, optimizer=optimizer, optimizer_params=optimizer_params)
        validation_metric = eval_metric if validation_metric is None else validation_metric
        eval_metric = metric.create(eval_metric) if not isinstance(eval_metric, metric.EvalMetric) else eval_metric
        for epoch in range(begin_epoch, num_epoch):
            tic = time.time()
            eval_metric.reset()
            self._begin_epoch(epoch, train_data)
            data_iter = iter(train_data)  # MXNet's names, because callbacks read them (`BatchEndParam.locals`)
            next_data_batch = _first(data_iter)
            nbatch, results = 0, []
            with progress(f"epoch {epoch}", unit="batch") as bar:
                while next_data_batch is not None:
                    data_batch = next_data_batch
                    if monitor is not None:
                        monitor.tic()
                    self.forward_backward(data_batch)
                    self.update()
                    self._update_metric_by(eval_metric, data_batch)
                    next_data_batch = next(data_iter, None)  # only now: an iterator may reuse its batch's memory
                    end_of_batch = next_data_batch is None
                    if next_data_batch is not None:
                        self.prepare(next_data_batch, sparse_row_id_fn=sparse_row_id_fn)
                    if end_of_batch:
                        results = eval_metric.get_global_name_value()  # before a callback resets the metric
                    if monitor is not None:
                        monitor.toc_print()
                    if batch_end_callback is not None:
                        _call_all(batch_end_callback, BatchEndParam(epoch, nbatch, eval_metric, locals()))
                    nbatch += 1
                    bar.update()
            for name, value in results:
                self.logger.info("Epoch[%d] Train-%s=%f", epoch, name, value)
            self.logger.info("Epoch[%d] Time cost=%.3f", epoch, time.time() - tic)

            arg_params, aux_params = self.get_params()  # devices agree on auxiliary states from here on
            self.set_params(arg_params, aux_params)
            _call_all(epoch_end_callback, epoch, self.symbol, arg_params, aux_params)
            if eval_data is not None:
                for name, value in self.score(eval_data, validation_metric, score_end_callback=eval_end_callback,
                                              batch_end_callback=eval_batch_end_callback, epoch=epoch):
                    self.logger.info("Epoch[%d] Validation-%s=%f", epoch, name, value)
            self._end_epoch(train_data)

    def _begin_epoch(self, epoch: int, train_data: DataIter) -> None:
        """Called by `fit` when an epoch begins; for subclasses."""

    def _end_epoch(self, train_data: DataIter) -> None:
        """Called by `fit` when an epoch ends; resets the data for the next one."""
        train_data.reset()

    # ------------------------------------------------------------------ properties
    @property
    def data_names(self) -> list[str]:
        """Names of the data inputs."""
        raise NotImplementedError

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs."""
        raise NotImplementedError

    @property
    def data_shapes(self) -> list[DataDesc]:
        """Descriptions of the data inputs."""
        raise NotImplementedError

    @property
    def label_shapes(self) -> list[DataDesc] | None:
        """Descriptions of the labels; None if there are none."""
        raise NotImplementedError

    @property
    def output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """Names and shapes of the outputs."""
        raise NotImplementedError

    @property
    def symbol(self) -> Symbol | None:
        """The network; None for modules without one."""
        return self._symbol

    # ------------------------------------------------------------------ parameters
    def get_params(self) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        """Returns parameters and auxiliary states by name."""
        raise NotImplementedError

    def init_params(self, initializer: InitFunction | None = _UNIFORM, arg_params: dict[str, NDArray] | None = None,
                    aux_params: dict[str, NDArray] | None = None, allow_missing: bool = False,
                    force_init: bool = False, allow_extra: bool = False) -> None:
        """Initializes parameters and auxiliary states.

        Args:
            initializer: initializer of those without a value in `arg_params` or `aux_params`.
            arg_params, aux_params: values by name.
            allow_missing: initialize parameters that are not in `arg_params` or `aux_params`;
                otherwise raise.
            force_init: initialize again even if already initialized.
            allow_extra: ignore values without a parameter in the network; otherwise raise.
        """
        raise NotImplementedError

    def set_params(self, arg_params: dict[str, NDArray], aux_params: dict[str, NDArray], allow_missing: bool = False,
                   force_init: bool = True, allow_extra: bool = False) -> None:
        """Sets parameters and auxiliary states; arguments as in `init_params`."""
        self.init_params(initializer=None, arg_params=arg_params, aux_params=aux_params, allow_missing=allow_missing,
                         force_init=force_init, allow_extra=allow_extra)

    def save_params(self, fname: str) -> None:
        """Saves parameters and auxiliary states to a file."""
        nd.save(fname, _pack_params(*self.get_params()))

    def load_params(self, fname: str) -> None:
        """Loads parameters and auxiliary states from a file.

        Raises:
            ValueError: the file contains something else.
        """
        self.set_params(*_unpack_params(nd.load(fname), fname))

    def get_states(self, merge_multi_context: bool = True) -> list[Any]:
        """Returns the values of the state inputs by device; state inputs keep their values from batch to batch."""
        self._require("binded", "params_initialized")
        if merge_multi_context:
            raise Unfit("get_states cannot merge devices; pass merge_multi_context=False")
        return []

    def set_states(self, states: Sequence[NDArray | Sequence[NDArray]] | None = None,
                   value: float | None = None) -> None:
        """Sets the state inputs to the given values, or all of them to one number."""
        self._require("binded", "params_initialized")
        if states or value:
            raise Unfit(f"{type(self).__name__} has no states")

    # ------------------------------------------------------------------ computation
    def install_monitor(self, mon: Monitor) -> None:
        """Installs a Monitor on the executors."""
        raise NotImplementedError

    def prepare(self, data_batch: DataBatch, sparse_row_id_fn: RowIds | None = None) -> None:
        """Prepares the module for a batch; called before the batch is used.

        Args:
            data_batch: the batch.
            sparse_row_id_fn: function that maps a batch to the row indices to pull, by row-sparse
                parameter.
        """
        if sparse_row_id_fn is not None:
            warnings.warn("sparse_row_id_fn is not used by this module", UserWarning, stacklevel=2)

    def forward(self, data_batch: DataBatch, is_train: bool | None = None) -> None:
        """Computes the outputs.

        Args:
            data_batch: data and optionally labels.
            is_train: training mode; by default as in `bind`.
        """
        raise NotImplementedError

    def backward(self, out_grads: list[NDArray] | None = None) -> None:
        """Computes gradients.

        Args:
            out_grads: gradients with respect to the outputs; not needed if the outputs are losses.
        """
        raise NotImplementedError

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        """Returns the outputs of the last `forward`; unmerged, one list per output with an array per device."""
        raise NotImplementedError

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """Returns the gradients with respect to the data; unmerged, one list per input with an array per device."""
        raise NotImplementedError

    def update(self) -> None:
        """Updates the parameters with the gradients of the last `backward`."""
        raise NotImplementedError

    def update_metric(self, eval_metric: metric.EvalMetric, labels: Sequence[Any] | None,
                      pre_sliced: bool = False) -> None:
        """Updates a metric with the last outputs.

        Args:
            eval_metric: the metric.
            labels: list of arrays; with `pre_sliced`, one such list per device.
            pre_sliced: whether the labels are already split by device.
        """
        raise NotImplementedError

    def bind(self, data_shapes: Shapes, label_shapes: Shapes | None = None, for_training: bool = True,
             inputs_need_grad: bool = False, force_rebind: bool = False, shared_module: BaseModule | None = None,
             grad_req: GradReq = "write") -> None:
        """Creates the executors for the given shapes.

        Args:
            data_shapes: descriptions of the data, or pairs of name and shape.
            label_shapes: the same for labels.
            for_training: whether `backward` will be called.
            inputs_need_grad: whether to compute gradients with respect to the data.
            force_rebind: bind again even if already bound.
            shared_module: module to share parameters (and memory) with.
            grad_req: "write", "add" or "null"; for all arguments, a list, or a dict by name.
        """
        raise NotImplementedError

    def init_optimizer(self, kvstore: StoreLike = "local", optimizer: Optimizer | str = "sgd",
                       optimizer_params: Options = _LEARNING_RATE, force_init: bool = False) -> None:
        """Sets the optimizer.

        Args:
            kvstore: store, its name, or None; not used for a single device.
            optimizer: optimizer or its name.
            optimizer_params: its arguments, if `optimizer` is a name. `rescale_grad` is 1 / batch
                size by default.
            force_init: replace an existing optimizer.
        """
        raise NotImplementedError
