"""The deprecated `FeedForward` model, checkpoints, and MXNet's helpers for training with kvstores."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

from . import io, metric
from ._checkpoints import _pack_params as _pack_params
from ._checkpoints import _unpack_params as _unpack_params
from ._checkpoints import load_checkpoint, load_params, save_checkpoint
from .callback import BatchEndParam, LogValidationMetricsCallback
from .context import Context, cpu
from .initializer import Uniform
from .kvstore.base import KVStoreBase
from .kvstore.training import _create_kvstore as _create_kvstore
from .kvstore.training import _create_sparse_kvstore as _create_sparse_kvstore
from .kvstore.training import _exchange as _exchange
from .kvstore.training import _initialize_kvstore as _initialize_kvstore
from .kvstore.training import _update_params as _update_params
from .kvstore.training import _update_params_on_kvstore as _update_params_on_kvstore
from .module import BucketingModule, Module
from .module.base_module import _call_all
from .monitor import Monitor
from .ndarray import NDArray, zeros
from .optimizer import Optimizer
from .symbol import Symbol

__all__ = ["BatchEndParam", "FeedForward", "load_checkpoint", "load_params", "save_checkpoint"]


Data: TypeAlias = io.DataIter | NDArray | np.ndarray
Callbacks: TypeAlias = Callable[..., object] | Sequence[Callable[..., object]] | None


class FeedForward:
    """A network that is trained and evaluated on NumPy arrays or iterators. Superseded by
    `mx.mod.Module`, which it uses.

    Args:
        symbol: the network, or a function that creates the network for a bucket key.
        ctx: device or list of devices.
        num_epoch: number of epochs to train.
        epoch_size: batches in an epoch; None: all batches of the iterator.
        optimizer: optimizer or its name.
        initializer: initializer of parameters without given values.
        numpy_batch_size: batch size for plain arrays.
        arg_params, aux_params: parameters and auxiliary states by name.
        allow_extra_params: ignore parameters that the network does not have.
        begin_epoch: number of the first epoch.
        **kwargs: arguments of the optimizer.
    """

    def __init__(self, symbol: Symbol | Callable[[Any], Symbol], ctx: Context | Sequence[Context] | None = None,
                 num_epoch: int | None = None, epoch_size: int | None = None, optimizer: Optimizer | str = "sgd",
                 initializer: Callable[..., object] = Uniform(0.01), numpy_batch_size: int = 128,
                 arg_params: dict[str, NDArray] | None = None, aux_params: dict[str, NDArray] | None = None,
                 allow_extra_params: bool = False, begin_epoch: int = 0, **kwargs: Any) -> None:
        warnings.warn("FeedForward is deprecated; use mx.mod.Module", DeprecationWarning, stacklevel=2)
        self.sym_gen: Callable[[Any], Symbol] | None = None
        self.symbol: Symbol | None = None
        if isinstance(symbol, Symbol) or not callable(symbol):
            self.symbol = symbol
        else:
            self.sym_gen = symbol
        self.ctx = [cpu()] if ctx is None else [ctx] if isinstance(ctx, Context) else list(ctx)
        self.num_epoch = num_epoch
        self.epoch_size = epoch_size
        self.optimizer = optimizer
        self.initializer = initializer
        self.numpy_batch_size = numpy_batch_size
        self.arg_params = arg_params
        self.aux_params = aux_params
        self.allow_extra_params = allow_extra_params
        self.begin_epoch = begin_epoch
        self.kwargs = dict(kwargs)

    def _iterator(self, X: Data, y: NDArray | np.ndarray | None, is_train: bool) -> io.DataIter:  # noqa: N803
        """An iterator over X and y, or X itself if it is one."""
        if isinstance(X, io.DataIter):
            return X
        if not isinstance(X, np.ndarray | NDArray):
            raise TypeError(f"X must be a DataIter, NDArray or numpy.ndarray, got {type(X).__name__}")
        if y is None:
            if is_train:
                raise ValueError("y is required when X is an array")
            y = np.zeros(X.shape[0])
        y = y.asnumpy() if isinstance(y, NDArray) else np.asarray(y)
        y = y.reshape(-1) if y.ndim == 2 and y.shape[1] == 1 else y
        if y.ndim != 1 or len(y) != X.shape[0]:
            raise ValueError(f"y must have shape ({X.shape[0]},) as X has {X.shape[0]} samples, got {y.shape}")
        return io.NDArrayIter(X, y, min(X.shape[0], self.numpy_batch_size), shuffle=is_train,
                              last_batch_handle="roll_over" if is_train else "pad")

    def _eval_iterator(self, eval_data: io.DataIter | tuple | None) -> io.DataIter | None:
        if eval_data is None or isinstance(eval_data, io.DataIter):
            return eval_data
        if not (isinstance(eval_data, tuple | list) and len(eval_data) == 2) or eval_data[0] is None:
            raise TypeError("eval_data must be a DataIter, or a pair of arrays or lists")
        data, label = (np.array(x) if isinstance(x, list) else x for x in eval_data)
        return self._iterator(data, label, is_train=True)

    def _network(self) -> Symbol:
        """Returns the network, or for buckets the one of the last bucket key asked for."""
        if self.symbol is None:
            raise ValueError("FeedForward has no network: its symbol is None")
        return self.symbol

    def _module(self, data: io.DataIter, with_labels: bool) -> BucketingModule | Module:
        data_names = [desc[0] for desc in data.provide_data]
        sym_gen = self.sym_gen
        if sym_gen is not None and (with_labels or self.symbol is None):
            label_names = [desc[0] for desc in data.provide_label or ()]
            return BucketingModule(lambda key: (sym_gen(key), data_names, label_names),
                                   data.default_bucket_key, context=self.ctx)
        symbol = self._network()
        names = symbol.list_arguments()
        labels = [desc for desc in data.provide_label or () if desc[0] in names]
        if with_labels:
            return Module(symbol, data_names, [desc[0] for desc in labels], context=self.ctx)
        # an argument that is neither data nor a parameter is a label, whatever the iterator's name for it
        known = {desc[0]: tuple(desc[1]) for desc in (*data.provide_data, *labels)}
        inputs = zip(names, symbol.infer_shape_partial(**known)[0], strict=True)
        labels = [(name, shape) for name, shape in inputs if name not in (*data_names, *(self.arg_params or ()))]
        module = Module(symbol, data_names, [name for name, _ in labels], context=self.ctx)
        module.bind(data.provide_data, labels or None, for_training=False)
        module.init_params(None, self.arg_params, self.aux_params or {}, force_init=True,
                           allow_extra=self.allow_extra_params)
        return module

    def predict(self, X: Data, num_batch: int | None = None, return_data: bool = False,  # noqa: N803
                reset: bool = True) -> Any:
        """Returns the outputs for X as NumPy arrays.

        Args:
            X: iterator or array.
            num_batch: number of batches; None for all.
            return_data: also return the data and the labels.
            reset: reset the iterator first.

        Returns:
            An array, or a list of arrays if there are several outputs; with `return_data`,
            (outputs, data, label).
        """
        data = self._iterator(X, None, is_train=False)
        columns: list[list[list[np.ndarray]]] = [[], [], []]
        for outputs, _, batch in self._module(data, False).iter_predict(data, num_batch=num_batch, reset=reset):
            real = data.batch_size - (batch.pad or 0)
            columns[0].append([out.asnumpy() for out in outputs])
            if return_data:
                columns[1].append([x[0:real].asnumpy() for x in batch.data or ()])
                columns[2].append([x[0:real].asnumpy() for x in batch.label or ()])
        merged = [[np.concatenate(parts) for parts in zip(*column, strict=True)] for column in columns]
        single = [arrays[0] if len(arrays) == 1 else arrays for arrays in merged]
        return tuple(single) if return_data else single[0]

    def score(self, X: Data, eval_metric: metric.EvalMetric | str | Callable[..., Any] = "acc",  # noqa: N803
              num_batch: int | None = None, batch_end_callback: Callbacks = None,
              reset: bool = True) -> float | list[float]:
        """Evaluates a metric.

        Args:
            X: iterator with labels.
            eval_metric: metric or its name.
            num_batch: number of batches; None for all.
            batch_end_callback: called after each batch.
            reset: reset the iterator first.
        """
        data = self._iterator(X, None, is_train=False)
        results = self._module(data, False).score(data, eval_metric, num_batch, batch_end_callback, reset=reset)
        return results[0][1] if len(results) == 1 else [value for _, value in results]

    def fit(self, X: Data, y: NDArray | np.ndarray | None = None,  # noqa: N803
            eval_data: io.DataIter | tuple | None = None,
            eval_metric: metric.EvalMetric | str | Callable[..., Any] = "acc", epoch_end_callback: Callbacks = None,
            batch_end_callback: Callbacks = None, kvstore: KVStoreBase | str | None = "local",
            logger: logging.Logger | ModuleType | None = None, work_load_list: Sequence[float] | None = None,
            monitor: Monitor | None = None, eval_end_callback: Callbacks = LogValidationMetricsCallback(),
            eval_batch_end_callback: Callbacks = None) -> None:
        """Trains the model.

        Args:
            X: iterator with labels, or array.
            y: labels if X is an array.
            eval_data: iterator or pair of arrays to validate on.
            eval_metric: metric or its name.
            epoch_end_callback, batch_end_callback, eval_end_callback, eval_batch_end_callback: callbacks.
            kvstore: store or its name.
            logger: logger of the training progress; by default `logging`.
            work_load_list: ignored; accepted for compatibility.
            monitor: a Monitor.

        Raises:
            TypeError: `num_epoch` was not passed to the constructor.
        """
        if self.num_epoch is None:
            raise TypeError("fit needs a number of epochs: pass num_epoch to the constructor")
        data, eval_data = self._iterator(X, y, is_train=True), self._eval_iterator(eval_data)
        module = self._module(data, True)
        module.bind(data.provide_data, data.provide_label)
        module.init_params(None, *self._first_values(data))
        if monitor is not None:
            module.install_monitor(monitor)
        module.init_optimizer(kvstore, self.optimizer, tuple(self.kwargs.items()))
        eval_metric = metric.create(eval_metric) if not isinstance(eval_metric, metric.EvalMetric) else eval_metric
        logger = logger or logging
        logger.info("Start training with %s", self.ctx)
        data.reset()
        for epoch in range(self.begin_epoch, self.num_epoch):
            tic = time.time()
            self._train_epoch(module, data, epoch, eval_metric, batch_end_callback, logger, monitor)
            logger.info("Epoch[%d] Time cost=%.3f", epoch, time.time() - tic)
            self.arg_params, self.aux_params = module.get_params()
            _call_all(epoch_end_callback, epoch, self.symbol, self.arg_params, self.aux_params)
            if eval_data:
                self._evaluate_epoch(module, eval_data, epoch, eval_metric, eval_end_callback, eval_batch_end_callback)
        self.arg_params, self.aux_params = module.get_params()

    def _train_epoch(self, module: BucketingModule | Module, train_data: io.DataIter, epoch: int,
                     eval_metric: metric.EvalMetric, batch_end_callback: Callbacks, logger: logging.Logger | ModuleType,
                     monitor: Monitor | None) -> None:
        """Trains for an epoch: `epoch_size` batches, wherever the iterator is, or all that it has.

        The names of local variables are MXNet's, because callbacks read them (`BatchEndParam.locals`).
        """
        eval_metric.reset()
        nbatch = 0
        was_reset = self.epoch_size is None  # otherwise the previous epoch may have taken the last batch
        while self.epoch_size is None or nbatch < self.epoch_size:
            before = nbatch
            for data_batch in train_data:
                if monitor is not None:
                    monitor.tic()
                module.forward_backward(data_batch)
                module.update()
                if monitor is not None:
                    monitor.toc_print()
                module.update_metric(eval_metric, data_batch.label)
                nbatch += 1
                _call_all(batch_end_callback, BatchEndParam(epoch, nbatch, eval_metric, locals()))
                if nbatch == self.epoch_size:
                    return
            if nbatch == before and was_reset:
                raise ValueError("the training iterator has no batches")
            logger.info("Epoch[%d] Resetting Data Iterator", epoch)
            train_data.reset()
            was_reset = True
            if self.epoch_size is None:
                return

    def _evaluate_epoch(self, module: BucketingModule | Module, eval_data: io.DataIter, epoch: int,
                        eval_metric: metric.EvalMetric, end_callback: Callbacks, batch_end_callback: Callbacks) -> None:
        """Evaluates after an epoch, with the metric of the training."""
        eval_metric.reset()
        eval_data.reset()
        count = 0
        for count, eval_batch in enumerate(eval_data, 1):  # noqa: B007 read after the loop
            module.forward(eval_batch, is_train=False)
            module.update_metric(eval_metric, eval_batch.label)
            _call_all(batch_end_callback, BatchEndParam(epoch, count - 1, eval_metric, locals()))
        _call_all(end_callback, BatchEndParam(epoch, count, eval_metric, locals()))
        eval_data.reset()

    def _first_values(self, data: io.DataIter) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        """Returns parameters and auxiliary states to begin with: those that the model has, others drawn.

        Draws are in the order of `list_arguments`, which is MXNet's; `Module` draws in alphabetical order.
        """
        if self.sym_gen is not None:
            self.symbol = self.sym_gen(data.default_bucket_key)
        symbol = self._network()
        inputs = [desc if isinstance(desc, io.DataDesc) else io.DataDesc(*desc)
                  for desc in (*data.provide_data, *(data.provide_label or ()))]
        names = (symbol.list_arguments(), symbol.list_auxiliary_states())
        shapes = symbol.infer_shape(**{desc.name: desc.shape for desc in inputs if desc.name in names[0]})
        types = symbol.infer_type(**{desc.name: desc.dtype for desc in inputs if desc.name in names[0]})
        skipped = {desc.name for desc in inputs}
        results: list[dict[str, NDArray]] = []
        for own, known, place in ((names[0], self.arg_params, 0), (names[1], self.aux_params, 2)):
            values = {}
            for name, shape, dtype in zip(own, shapes[place], types[place], strict=True):
                if name in skipped:
                    continue
                values[name] = zeros(shape, dtype=dtype)
                if known and name in known:
                    values[name][:] = known[name]
                else:
                    self._initialize(name, values[name])
            results.append(values)
        return results[0], results[1]

    def _initialize(self, name: str, value: NDArray) -> None:
        """Gives a parameter its first value by the rules for plain names, which know moving averages."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            self.initializer(name, value)

    def save(self, prefix: str, epoch: int | None = None, remove_amp_cast: bool = True) -> None:
        """Saves a checkpoint like `save_checkpoint`; by default `epoch` is the number of epochs to train.

        Raises:
            ValueError: there is no epoch number, or the model has no parameters yet.
        """
        epoch = self.num_epoch if epoch is None else epoch
        if epoch is None:
            raise ValueError("the epoch is unknown: pass it to save, or num_epoch to the constructor")
        if self.arg_params is None:
            raise ValueError("the model has no parameters to save: fit it, or pass arg_params to the constructor")
        save_checkpoint(prefix, epoch, self.symbol, self.arg_params, self.aux_params or {}, remove_amp_cast)

    @staticmethod
    def load(prefix: str, epoch: int, ctx: Context | Sequence[Context] | None = None, **kwargs: Any) -> FeedForward:
        """Loads a model from a checkpoint; training continues from it."""
        symbol, arg_params, aux_params = load_checkpoint(prefix, epoch)
        return FeedForward(symbol, ctx=ctx, arg_params=arg_params, aux_params=aux_params, begin_epoch=epoch, **kwargs)

    @staticmethod
    def create(symbol: Symbol | Callable[[Any], Symbol], X: Data, y: NDArray | np.ndarray | None = None,  # noqa: N803
               ctx: Context | Sequence[Context] | None = None, num_epoch: int | None = None,
               epoch_size: int | None = None, optimizer: Optimizer | str = "sgd",
               initializer: Callable[..., object] = Uniform(0.01), eval_data: io.DataIter | tuple | None = None,
               eval_metric: metric.EvalMetric | str | Callable[..., Any] = "acc", epoch_end_callback: Callbacks = None,
               batch_end_callback: Callbacks = None, kvstore: KVStoreBase | str | None = "local",
               logger: logging.Logger | ModuleType | None = None, work_load_list: Sequence[float] | None = None,
               eval_end_callback: Callbacks = LogValidationMetricsCallback(), eval_batch_end_callback: Callbacks = None,
               **kwargs: Any) -> FeedForward:
        """Creates and trains a model; arguments as in the constructor and `fit`."""
        model = FeedForward(symbol, ctx, num_epoch, epoch_size, optimizer, initializer, **kwargs)
        model.fit(X, y, eval_data, eval_metric, epoch_end_callback, batch_end_callback, kvstore, logger,
                  work_load_list, None, eval_end_callback, eval_batch_end_callback)
        return model
