"""Checkpoints, the link between training and kvstores, and the old `FeedForward` model."""

from __future__ import annotations

import logging
import math
import os
import warnings
from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import io
from . import ndarray as nd
from ._files import together
from .callback import LogValidationMetricsCallback
from .context import Context, cpu
from .initializer import Uniform

if TYPE_CHECKING:
    from .ndarray import NDArray
    from .symbol import Symbol

__all__ = ["BatchEndParam", "FeedForward", "load_checkpoint", "load_params", "save_checkpoint"]

BatchEndParam = namedtuple("BatchEndParams", ["epoch", "nbatch", "eval_metric", "locals"])
BatchEndParam.__doc__ = """What callbacks get: epoch, number of the batch in it, metric, the caller's locals."""


# -------------------------------------------------------------------- checkpoints
def _pack_params(arg_params: dict[str, NDArray], aux_params: dict[str, NDArray]) -> dict[str, NDArray]:
    """Parameters under the names they have in files."""
    return {f"{kind}:{name}": array.as_in_context(cpu()) for kind, params in (("arg", arg_params), ("aux", aux_params))
            for name, array in params.items()}


def _unpack_params(loaded: dict[str, NDArray], fname: str) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
    """Parameters and auxiliary states of a loaded file.

    Raises:
        ValueError: a name that begins neither with "arg:" nor with "aux:".
    """
    params: dict[str, dict[str, NDArray]] = {"arg": {}, "aux": {}}
    if not loaded:
        logging.warning("parameter file %s is empty", fname)
        return params["arg"], params["aux"]
    if not isinstance(loaded, dict):
        raise ValueError(f"invalid parameter file {fname}: its arrays have no names")
    for full_name, array in loaded.items():
        kind, _, name = full_name.partition(":")
        if kind not in params:
            raise ValueError(f"invalid parameter file {fname}: name {full_name!r} begins neither with arg: nor aux:")
        params[kind][name] = array
    return params["arg"], params["aux"]


def save_checkpoint(prefix: str, epoch: int, symbol: Symbol | None, arg_params: dict[str, NDArray],
                    aux_params: dict[str, NDArray], remove_amp_cast: bool = True) -> None:
    """Save a network and its parameters as `prefix-symbol.json` and `prefix-EPOCH.params` (4 digits).

    Both are on the disk before one is replaced, so that a failure changes neither; the parameters appear last, at once
    after the network.

    Args:
        prefix: beginning of the files' names.
        epoch: number of the epoch.
        symbol: the network; None saves parameters only.
        arg_params, aux_params: parameters and auxiliary states by name.
        remove_amp_cast: leave out the casts that automatic mixed precision put in.
    """
    name = f"{prefix}-{epoch:04d}.params"
    with together():
        if symbol is not None:
            symbol.save(f"{prefix}-symbol.json", remove_amp_cast=remove_amp_cast)
        nd.save(name, _pack_params(arg_params, aux_params))
    logging.info('Saved checkpoint to "%s"', name)


def load_params(prefix: str, epoch: int) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
    """Parameters and auxiliary states of `prefix-EPOCH.params`, by name."""
    name = f"{prefix}-{epoch:04d}.params"
    return _unpack_params(nd.load(name), name)


def load_checkpoint(prefix: str, epoch: int) -> tuple[Symbol, dict[str, NDArray], dict[str, NDArray]]:
    """What `save_checkpoint` saved, here or in MXNet: (symbol, arg_params, aux_params)."""
    from . import symbol
    return symbol.load(f"{prefix}-symbol.json"), *load_params(prefix, epoch)


# -------------------------------------------------------------------- kvstores
def _create_kvstore(kvstore: Any, num_device: int, arg_params: dict[str, NDArray]) -> tuple[Any, bool]:
    """The store to train with, and whether it does the updates.

    Args:
        kvstore: a store, the name of one, or None.
        num_device: number of devices; one needs no store unless it is a distributed one.
        arg_params: parameters, whose sizes decide where "local" updates.
    """
    if kvstore is None or (isinstance(kvstore, str) and num_device == 1 and "dist" not in kvstore):
        return None, False
    from . import kvstore as kvs
    on_store = bool(int(os.environ.get("MXNET_UPDATE_ON_KVSTORE", "1")))
    if isinstance(kvstore, str):
        if kvstore == "local" and max((math.prod(p.shape) for p in arg_params.values()), default=0) > 2 ** 24:
            on_store = False
        kvstore = kvs.create(kvstore)
    elif not isinstance(kvstore, kvs.KVStoreBase):
        raise TypeError(f"kvstore must be a KVStore, its name or None, got {type(kvstore).__name__}")
    return kvstore, on_store and kvstore.is_capable(kvs.KVStoreBase.OPTIMIZER)


def _create_sparse_kvstore(kvstore: Any) -> tuple[Any, bool]:
    """The store for row-sparse parameters, which it must update itself."""
    from . import kvstore as kvs
    if isinstance(kvstore, str):
        kvstore = kvs.create(kvstore)
    elif not isinstance(kvstore, kvs.KVStore):
        raise TypeError(f"row_sparse parameters need a KVStore or its name, got {kvstore!r}")
    if not kvstore.is_capable(kvs.KVStoreBase.OPTIMIZER):
        raise ValueError(f"row_sparse parameters need a store that can run the optimizer; {kvstore.type} cannot")
    return kvstore, True


def _initialize_kvstore(kvstore: Any, param_arrays: list[list[NDArray]], arg_params: dict[str, NDArray],
                        param_names: list[str], update_on_kvstore: bool) -> None:
    """Give the store its first values and, where it updates, the devices what it holds then."""
    for name, arrays in zip(param_names, param_arrays, strict=True):
        if update_on_kvstore and arg_params[name].stype == "default":
            kvstore.broadcast(name, arg_params[name], out=arrays)
        else:
            kvstore.init(name, arg_params[name])


def _exchange(kvstore: Any, names: list[str], sent: list[list[NDArray]], received: list[list[NDArray]]) -> None:
    """Push values and pull what the store makes of them; all dense keys in one call where the store can do that."""
    from . import kvstore as kvs
    dense, sparse = [], []
    for i, row in enumerate(zip(names, sent, received, strict=True)):
        (dense if row[1][0].stype == row[2][0].stype == "default" else sparse).append((row, -i))
    if dense and isinstance(kvstore, kvs.KVStore):
        keys, values, outs = map(list, zip(*(row for row, _ in dense), strict=True))
        kvstore.pushpull(keys, values, out=outs)
    else:
        for (name, values, outs), priority in dense:
            kvstore.pushpull(name, values, out=outs, priority=priority)
    for (name, values, outs), priority in sparse:
        kvstore.push(name, values, priority=priority)
        kvstore.pull(name, out=outs, priority=priority)


def _with_gradient(*columns: Sequence[Any]) -> list[list[Any]]:
    """The columns (the last one: gradients) without the rows whose gradient is None."""
    rows = [row for row in zip(*columns, strict=True) if row[-1][0] is not None]
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in columns]


def _update_params_on_kvstore(param_arrays: list[list[NDArray]], grad_arrays: list[list[NDArray]], kvstore: Any,
                              param_names: list[str]) -> None:
    """Push gradients, pull the parameters that the store has updated."""
    names, params, grads = _with_gradient(param_names, param_arrays, grad_arrays)
    _exchange(kvstore, names, grads, params)


def _update_params(param_arrays: list[list[NDArray]], grad_arrays: list[list[NDArray]], updater: Callable[..., None],
                   num_device: int, kvstore: Any = None, param_names: list[str] | None = None) -> None:
    """Sum gradients over the devices by the store if there is one, then update: one call per device."""
    if param_names is None:
        param_names = [str(i) for i in range(len(param_arrays))]
    indices, names, params, grads = _with_gradient(range(len(param_arrays)), param_names, param_arrays, grad_arrays)
    if kvstore:
        _exchange(kvstore, names, grads, grads)
    for k in range(num_device if indices else 0):
        updater([i * num_device + k for i in indices], [grad[k] for grad in grads], [param[k] for param in params])


# -------------------------------------------------------------------- FeedForward
class FeedForward:
    """A network trained and used by NumPy arrays or iterators; superseded by `mx.mod.Module`, which it uses.

    Args:
        symbol: the network, or a function that makes one for a bucket key.
        ctx: device or list of devices.
        num_epoch: epochs to train.
        epoch_size: batches in an epoch; None for what the iterator has.
        optimizer: optimizer or its name.
        initializer: of parameters that are not given.
        numpy_batch_size: batch size for plain arrays.
        arg_params, aux_params: parameters and auxiliary states by name.
        allow_extra_params: ignore parameters that the network does not have.
        begin_epoch: number of the first epoch.
        **kwargs: arguments of the optimizer.
    """

    def __init__(self, symbol: Any, ctx: Any = None, num_epoch: int | None = None, epoch_size: int | None = None,
                 optimizer: Any = "sgd", initializer: Any = Uniform(0.01), numpy_batch_size: int = 128,
                 arg_params: dict[str, NDArray] | None = None, aux_params: dict[str, NDArray] | None = None,
                 allow_extra_params: bool = False, begin_epoch: int = 0, **kwargs: Any) -> None:
        warnings.warn("FeedForward is deprecated; use mx.mod.Module", DeprecationWarning, stacklevel=2)
        self.sym_gen = symbol if callable(symbol) and not hasattr(symbol, "list_arguments") else None
        self.symbol = None if self.sym_gen else symbol
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

    def _iterator(self, X: Any, y: Any, is_train: bool) -> io.DataIter:  # noqa: N803
        """An iterator over X and y, or X itself if it is one."""
        if isinstance(X, io.DataIter):
            return X
        if not isinstance(X, np.ndarray | nd.NDArray):
            raise TypeError(f"X must be a DataIter, NDArray or numpy.ndarray, got {type(X).__name__}")
        if y is None:
            if is_train:
                raise ValueError("y must be given when X is an array")
            y = np.zeros(X.shape[0])
        y = y.asnumpy() if isinstance(y, nd.NDArray) else np.asarray(y)
        y = y.reshape(-1) if y.ndim == 2 and y.shape[1] == 1 else y
        if y.ndim != 1 or len(y) != X.shape[0]:
            raise ValueError(f"y must have shape ({X.shape[0]},) as X has {X.shape[0]} samples, got {y.shape}")
        return io.NDArrayIter(X, y, min(X.shape[0], self.numpy_batch_size), shuffle=is_train,
                              last_batch_handle="roll_over" if is_train else "pad")

    def _eval_iterator(self, eval_data: Any) -> io.DataIter | None:
        if eval_data is None or isinstance(eval_data, io.DataIter):
            return eval_data
        if not (isinstance(eval_data, tuple | list) and len(eval_data) == 2) or eval_data[0] is None:
            raise TypeError("eval_data must be a DataIter, or a pair of arrays or lists")
        data, label = (np.array(x) if isinstance(x, list) else x for x in eval_data)
        return self._iterator(data, label, is_train=True)

    def _module(self, data: io.DataIter, with_labels: bool) -> Any:
        from .module import BucketingModule, Module
        data_names = [desc[0] for desc in data.provide_data]
        label_names = [desc[0] for desc in data.provide_label or ()]
        if self.sym_gen is not None:
            return BucketingModule(lambda key: (self.sym_gen(key), data_names, label_names),
                                   data.default_bucket_key, context=self.ctx)
        label_names = [name for name in label_names if name in self.symbol.list_arguments()]
        module = Module(self.symbol, data_names, label_names, context=self.ctx)
        labels = [desc for desc in data.provide_label or () if desc[0] in label_names]
        if not with_labels:
            module.bind(data.provide_data, labels or None, for_training=False)
            module.set_params(self.arg_params, self.aux_params or {}, allow_extra=self.allow_extra_params)
        return module

    def predict(self, X: Any, num_batch: int | None = None, return_data: bool = False,  # noqa: N803
                reset: bool = True) -> Any:
        """Outputs for X as NumPy arrays.

        Args:
            X: iterator or array.
            num_batch: number of batches; None for all.
            return_data: also return the data and the labels.
            reset: reset the iterator first.

        Returns:
            An array, or a list of them if there are several outputs; with `return_data` (outputs, data, label).
        """
        data = self._iterator(X, None, is_train=False)
        columns: list[list[list[np.ndarray]]] = [[], [], []]
        for outputs, _, batch in self._module(data, False).iter_predict(data, num_batch=num_batch, reset=reset):
            real = data.batch_size - (batch.pad or 0)
            columns[0].append([out.asnumpy() for out in outputs])
            if return_data:
                columns[1].append([x[0:real].asnumpy() for x in batch.data])
                columns[2].append([x[0:real].asnumpy() for x in batch.label])
        merged = [[np.concatenate(parts) for parts in zip(*column, strict=True)] for column in columns]
        single = [arrays[0] if len(arrays) == 1 else arrays for arrays in merged]
        return tuple(single) if return_data else single[0]

    def score(self, X: Any, eval_metric: Any = "acc", num_batch: int | None = None,  # noqa: N803
              batch_end_callback: Any = None, reset: bool = True) -> float:
        """The value of a metric.

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

    def fit(self, X: Any, y: Any = None, eval_data: Any = None, eval_metric: Any = "acc",  # noqa: N803
            epoch_end_callback: Any = None, batch_end_callback: Any = None, kvstore: Any = "local",
            logger: Any = None, work_load_list: Any = None, monitor: Any = None,
            eval_end_callback: Any = LogValidationMetricsCallback(), eval_batch_end_callback: Any = None) -> None:
        """Train.

        Args:
            X: iterator with labels, or array.
            y: labels where X is an array.
            eval_data: iterator or pair of arrays to validate on.
            eval_metric: metric or its name.
            epoch_end_callback, batch_end_callback, eval_end_callback, eval_batch_end_callback: callbacks.
            kvstore: store or its name.
            logger, work_load_list: kept for MXNet's sake.
            monitor: a Monitor.
        """
        data = self._iterator(X, y, is_train=True)
        if self.epoch_size is not None:
            data = io.ResizeIter(data, self.epoch_size, reset_internal=False)
        module = self._module(data, True)
        arg_params, aux_params = self.arg_params, self.aux_params
        if self.allow_extra_params and self.symbol is not None:
            arg_params, aux_params = ({k: v for k, v in params.items() if k in names} if params else params
                                      for params, names in ((arg_params, self.symbol.list_arguments()),
                                                            (aux_params, self.symbol.list_auxiliary_states())))
        module.fit(data, self._eval_iterator(eval_data), eval_metric, epoch_end_callback, batch_end_callback, kvstore,
                   self.optimizer, tuple(self.kwargs.items()), eval_end_callback, eval_batch_end_callback,
                   self.initializer, arg_params, aux_params, allow_missing=True, begin_epoch=self.begin_epoch,
                   num_epoch=self.num_epoch, monitor=monitor)
        self.symbol = module.symbol
        self.arg_params, self.aux_params = module.get_params()

    def save(self, prefix: str, epoch: int | None = None, remove_amp_cast: bool = True) -> None:
        """Save as `save_checkpoint` does; `epoch` is the number of epochs to train by default."""
        epoch = self.num_epoch if epoch is None else epoch
        if epoch is None:
            raise ValueError("which epoch? Neither save nor the constructor was given a number")
        save_checkpoint(prefix, epoch, self.symbol, self.arg_params, self.aux_params, remove_amp_cast)

    @staticmethod
    def load(prefix: str, epoch: int, ctx: Any = None, **kwargs: Any) -> FeedForward:
        """A model from a checkpoint; training it goes on from there."""
        symbol, arg_params, aux_params = load_checkpoint(prefix, epoch)
        return FeedForward(symbol, ctx=ctx, arg_params=arg_params, aux_params=aux_params, begin_epoch=epoch, **kwargs)

    @staticmethod
    def create(symbol: Any, X: Any, y: Any = None, ctx: Any = None, num_epoch: int | None = None,  # noqa: N803
               epoch_size: int | None = None, optimizer: Any = "sgd", initializer: Any = Uniform(0.01),
               eval_data: Any = None, eval_metric: Any = "acc", epoch_end_callback: Any = None,
               batch_end_callback: Any = None, kvstore: Any = "local", logger: Any = None,
               work_load_list: Any = None, eval_end_callback: Any = LogValidationMetricsCallback(),
               eval_batch_end_callback: Any = None, **kwargs: Any) -> FeedForward:
        """A model, trained; arguments as in the constructor and `fit`."""
        model = FeedForward(symbol, ctx, num_epoch, epoch_size, optimizer, initializer, **kwargs)
        model.fit(X, y, eval_data, eval_metric, epoch_end_callback, batch_end_callback, kvstore, logger,
                  work_load_list, None, eval_end_callback, eval_batch_end_callback)
        return model
