"""Trainer: an optimizer applied to parameters, over one or several devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from .. import kvstore as kvs
from .. import level
from .. import optimizer as opt
from .._support.files import reading, replacing
from ..context import Context
from ..kvstore.training import _create_kvstore, _create_sparse_kvstore, _exchange
from ..ndarray import NDArray
from ._parameter import Parameter, ParameterDict, has_dense_gradient, is_dense

__all__ = ["Trainer"]


class Trainer:
    """Updates parameters with an optimizer after each `backward`.

    Args:
        params: parameters (`net.collect_params()`), as a dictionary or list.
        optimizer: an optimizer or its name.
        optimizer_params: the optimizer's arguments, if `optimizer` is a name.
        kvstore: store that sums gradients over devices and workers, or its name; None: no store.
        compression_params: gradient compression, e.g. {"type": "2bit", "threshold": 0.5}.
        update_on_kvstore: whether the store runs the updates; the default depends on the store.

    Raises:
        ValueError: `params` is neither a dictionary nor a list of parameters.
        AssertionError: the parameters are on different contexts.

    Example:
        >>> net = mx.gluon.nn.Dense(1, in_units=2)
        >>> net.initialize()
        >>> trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
        >>> with mx.autograd.record():
        ...     loss = net(mx.nd.ones((4, 2))).square().mean()
        >>> loss.backward()
        >>> trainer.step(batch_size=1)
    """

    def __init__(self, params: ParameterDict | dict | Sequence[Parameter], optimizer: str | opt.Optimizer,
                 optimizer_params: dict[str, Any] | None = None, kvstore: Any = "device",
                 compression_params: dict[str, Any] | None = None, update_on_kvstore: bool | None = None) -> None:
        if isinstance(params, (dict, ParameterDict)):
            params = [params[name] for name in sorted(params.keys())]
        if not isinstance(params, (list, tuple)):
            raise ValueError(f"First argument must be a list or dict of Parameters, got {type(params)}.")
        wrong = next((param for param in params if not isinstance(param, Parameter)), None)
        if wrong is not None:
            raise ValueError(f"First argument must be a list or dict of Parameters, got list of {type(wrong)}.")
        # parameters that blocks share appear under several names in MXNet 2's dicts
        self._params = list(params) if level.current() == 1 else list(dict.fromkeys(params))
        self._param2idx = {param.variable_name: i for i, param in enumerate(self._params)}
        for param in self._params:
            param._set_trainer(self)
        self._contains_sparse_weight = any(not is_dense(param) for param in self._params)
        self._contains_sparse_grad = any(not has_dense_gradient(param) for param in self._params)
        self._compression_params = compression_params
        self._contexts = self._check_contexts()
        self._init_optimizer(optimizer, optimizer_params or {})
        self._scale = self._optimizer.rescale_grad
        self._kvstore_params = {"kvstore": kvstore, "update_on_kvstore": update_on_kvstore}
        self._kvstore: kvs.KVStoreBase | None = None
        self._reset_kvstore()

    def _check_contexts(self) -> list[Context]:
        """The contexts, the same for all parameters."""
        contexts: list[Context] | None = None
        for param in self._params:
            result = param.list_device()
            if contexts is not None and result != contexts:
                raise AssertionError("All Parameters must be initialized on the same set of contexts, but Parameter "
                                     f"{param.name} is initialized on {result} while previous Parameters are "
                                     f"initialized on {contexts}.")
            contexts = result
        return contexts or []

    def _init_optimizer(self, optimizer: str | opt.Optimizer, optimizer_params: dict[str, Any]) -> None:
        by_index = dict(enumerate(self._params))
        if isinstance(optimizer, opt.Optimizer):
            if optimizer_params:
                raise AssertionError("optimizer_params must be None if optimizer is an instance of Optimizer instead "
                                     "of str")
            self._optimizer = optimizer
            self._optimizer.param_dict = by_index  # the parameters themselves: their lr_mult may change later
        else:
            self._optimizer = opt.create(optimizer, param_dict=by_index, **optimizer_params)
        self._updaters = [opt.get_updater(self._optimizer) for _ in self._contexts]

    # ------------------------------------------------------------ the store
    def _reset_kvstore(self) -> None:
        """Has the store made anew at the next step."""
        if self._kvstore is not None and "dist" in self._kvstore.type:
            raise RuntimeError("Cannot reset distributed KVStore.")
        self._kv_initialized = False
        self._kvstore = None
        self._distributed: bool | None = None
        self._update_on_kvstore: bool | None = None
        self._params_to_init = list(self._params)

    def _init_kvstore(self) -> None:
        """Creates the store and decides where updates run."""
        kvstore, wanted = self._kvstore_params["kvstore"], self._kvstore_params["update_on_kvstore"]
        if self._contains_sparse_weight:  # rows are pulled before they are used: the store has to have the weights
            store, on_store = _create_sparse_kvstore(kvstore)
            if wanted is False:
                raise ValueError("Cannot set update_on_kvstore=False when sparse weights are present.")
        else:
            values = {param.variable_name: param.data(self._contexts[0]) for param in self._params}
            store, on_store = _create_kvstore(kvstore, len(self._contexts), values)
            distributed = store is not None and "dist" in store.type
            must = None
            if self._contains_sparse_grad:
                if store is not None and not isinstance(store, kvs.KVStore):
                    raise ValueError(f"Cannot use {type(store)} for multi-device training with sparse gradients")
                must, on_store = "sparse gradients are present" if distributed else None, distributed
            elif store is not None and distributed and "async" in store.type:
                must, on_store = "training in async mode", True
            if store is not None and must and wanted is False:
                raise ValueError(f"Cannot set update_on_kvstore=False on the {store.type} kvstore: {must}.")
            on_store = on_store if wanted is None else wanted
            if on_store and store is not None and not store.is_capable(kvs.KVStoreBase.OPTIMIZER):
                if wanted:
                    raise ValueError(f"Please set update_on_kvstore=False when training with {type(store)}")
                on_store = False
        if store is not None:
            if self._compression_params:
                store.set_gradient_compression(self._compression_params)
            if on_store:  # before the store has values: with multi_precision it keeps its own copies of them
                store.set_optimizer(self._optimizer)
        self._kvstore, self._update_on_kvstore = store, on_store if store is not None else None
        self._distributed = store is not None and "dist" in store.type
        self._kv_initialized = True

    def _init_params(self) -> None:
        """Gives the store the values of the parameters that have some by now."""
        store = self._kvstore
        if store is None:
            self._params_to_init = []
            return
        waiting = []
        for param in self._params_to_init:
            if param.waits_for_shape:
                waiting.append(param)
                continue
            arrays, index = param._check_and_get(param._data, list), self._param2idx[param.variable_name]
            if is_dense(param):
                store.broadcast(index, arrays[0], arrays)
            else:
                self._sparse_store().init(index, arrays[0])
        self._params_to_init = waiting

    def _prepare(self) -> None:
        if not self._kv_initialized:
            self._init_kvstore()
        if self._params_to_init:
            self._init_params()

    def _sparse_store(self) -> kvs.KVStore:
        """The store where there are sparse parameters or gradients, for which `_init_kvstore` took no other kind."""
        return cast(kvs.KVStore, self._kvstore)

    def _row_sparse_pull(self, parameter: Parameter, out: NDArray, row_id: NDArray, full_idx: bool = False) -> None:
        """Fetches rows of a sparse parameter from the store (`full_idx`: all of them)."""
        self._prepare()
        index, store = self._param2idx[parameter.variable_name], self._sparse_store()
        if full_idx and not self._distributed:
            if row_id.size != out.shape[0]:
                raise AssertionError(f"expected one index per row ({out.shape[0]}), got {row_id.size}")
            store.pull(index, out=out, priority=-index, ignore_sparse=False)
        else:
            store.row_sparse_pull(index, out=out, row_ids=row_id, priority=-index)

    # ------------------------------------------------------------ the optimizer
    @property
    def learning_rate(self) -> float:
        """The optimizer's current learning rate."""
        return self._optimizer.learning_rate

    @property
    def optimizer(self) -> opt.Optimizer:
        """The optimizer."""
        return self._optimizer

    def index_of(self, parameter: Parameter) -> int | None:
        """Returns the key of a parameter in updaters and stores, or None if it is not trained here; not in MXNet."""
        return self._param2idx.get(parameter.variable_name)

    @property
    def contexts(self) -> list[Context]:
        """Contexts of the parameters; not in MXNet."""
        return self._contexts

    @property
    def updates_on_store(self) -> bool:
        """True if a store exists and updates the parameters; not in MXNet."""
        return bool(self._kv_initialized and self._update_on_kvstore)

    def set_learning_rate(self, lr: float) -> None:
        """Sets the learning rate.

        Raises:
            UserWarning: the optimizer has a schedule.
        """
        self._optimizer.set_learning_rate(lr)

    # ------------------------------------------------------------ steps
    def step(self, batch_size: int, ignore_stale_grad: bool = False) -> None:
        """Sums gradients over the devices and updates the parameters; call it after `backward`, outside `record()`.

        Args:
            batch_size: divisor of the gradients.
            ignore_stale_grad: skip parameters whose gradient no backward pass has written since the
                last step.

        Raises:
            UserWarning: there is such a parameter and `ignore_stale_grad` is not set.
        """
        self._check_and_rescale_grad(self._scale / batch_size)
        self._prepare()
        self._allreduce_grads()
        self._update(ignore_stale_grad)

    def _without_updates_on_store(self, what: str) -> None:
        self._prepare()
        if self._kvstore is not None and self._update_on_kvstore:
            raise AssertionError(f"{what}() when parameters are updated on kvstore is not supported. Try setting "
                                 "`update_on_kvstore` to False when creating trainer.")

    def allreduce_grads(self) -> None:
        """Sums gradients over the devices; the first half of `step`. Gradients can then be modified before `update`.

        Raises:
            AssertionError: the store runs the updates.
        """
        self._without_updates_on_store("allreduce_grads")
        self._allreduce_grads()

    def update(self, batch_size: int, ignore_stale_grad: bool = False) -> None:
        """Updates the parameters; the second half of `step`, with the same arguments.

        Raises:
            AssertionError: the store runs the updates.
        """
        self._without_updates_on_store("update")
        self._check_and_rescale_grad(self._scale / batch_size)
        self._update(ignore_stale_grad)

    def _check_and_rescale_grad(self, scale: float) -> None:
        if self._update_on_kvstore and self._distributed and self._kv_initialized and \
                self._optimizer.rescale_grad != scale:
            raise UserWarning("Possible change in the `batch_size` from previous `step` detected. Optimizer gradient "
                              "normalizing factor will not change w.r.t new batch_size when update_on_kvstore=True and "
                              "when distributed kvstore is used.")
        self._optimizer.rescale_grad = scale

    def _allreduce_grads(self) -> None:
        """Exchanges gradients for sums, or, where the store updates, for new values; all dense ones in one call."""
        if self._kvstore is None:
            return
        keys, sent, received = [], [], []
        for i, param in enumerate(self._params):
            if param.grad_req == "null":
                continue
            grads = param.list_grad()
            if not is_dense(param):
                self._sparse_store().push(i, grads, priority=-i)
                continue
            wanted = param.list_data() if self._update_on_kvstore else grads
            if not has_dense_gradient(param):
                self._sparse_store().push(i, grads, priority=-i)
                self._sparse_store().pull(i, wanted, priority=-i, ignore_sparse=bool(self._distributed))
                continue
            keys.append(i)
            sent.append(grads)
            received.append(wanted)
        _exchange(self._kvstore, keys, sent, received)

    def _update(self, ignore_stale_grad: bool = False) -> None:
        """Updates all parameters of a context in one call of its updater."""
        scaler = getattr(self, "_amp_loss_scaler", None)
        if scaler is not None and scaler.has_overflow(self._params):
            return
        indices: list[int] = []
        columns: list[tuple[list[NDArray], list[NDArray]]] = [([], []) for _ in self._updaters]
        partly: list[tuple[int, Parameter]] = []  # those whose gradients are not fresh on all contexts
        updates = self._kvstore is None or not self._update_on_kvstore
        for i, param in enumerate(self._params):
            if param._grad_req == "null":
                continue
            arrays, gradients = param._data, param._grad
            if arrays is None or gradients is None or param.own_arrays:
                arrays, gradients = param.list_data(), param.list_grad()  # or raises the reason why not
            fresh = 0
            for array in arrays:
                if array.entry is not None and array.entry[0].fresh:
                    fresh += 1
            if fresh < len(arrays):
                if not ignore_stale_grad:
                    self._refuse_stale(param)
                if fresh:
                    partly.append((i, param))
                continue
            if updates:
                indices.append(i)
                for place, (grads, weights) in enumerate(columns):
                    grads.append(gradients[place])
                    weights.append(arrays[place])
        if indices:
            for updater, (grads, weights) in zip(self._updaters, columns, strict=True):
                for array in weights:
                    if array.entry is not None:
                        array.entry[0].fresh = False
                updater(indices, grads, weights)

        for i, param in partly if updates else ():
            self._update_fresh(i, param)

    def _refuse_stale(self, param: Parameter) -> None:
        stale = next(array for array in param.list_data() if not array._fresh_grad)
        raise UserWarning(
            f"Gradient of Parameter `{param.name}` on context {stale.context} has not been updated by backward since "
            "last `step`. This could mean a bug in your model that made it only use a subset of the Parameters "
            "(Blocks) for this iteration. If you are intentionally only using a subset, call step with "
            "ignore_stale_grad=True to suppress this warning and skip updating of Parameters with stale gradient")

    def _update_fresh(self, index: int, param: Parameter) -> None:
        """Updates a parameter on the contexts where its gradient is fresh."""
        arrays, grads = param._data, param._grad
        if arrays is None or grads is None or param.own_arrays:
            arrays, grads = param.list_data(), param.list_grad()
        for updater, array, grad in zip(self._updaters, arrays, grads, strict=True):
            if array._fresh_grad:
                array._fresh_grad = False
                updater([index], [grad], [array])

    # ------------------------------------------------------------ files
    def save_states(self, fname: str) -> None:
        """Writes the optimizer and its states (momenta, ...) to a file, which MXNet can also read.

        Attributes of parameters (`lr_mult`, `wd_mult`) are not written. If writing fails, e.g.
        because a learning rate scheduler cannot be pickled, an existing file stays unchanged.
        """
        self._prepare()
        if self._kvstore is not None and self._update_on_kvstore:
            if self._params_to_init:
                raise AssertionError("Cannot save trainer states when some parameters are not yet initialized in "
                                     "kvstore.")
            self._kvstore.save_optimizer_states(fname, dump_optimizer=True)
            return
        with replacing(fname) as file:
            self._updaters[0].write_states(file)

    def load_states(self, fname: str) -> None:
        """Loads the file of `save_states`, of mxjax or MXNet; the parameters keep their `lr_mult` and `wd_mult`.

        Raises:
            MXNetError: the file is corrupt or does not contain optimizer states.
        """
        self._prepare()
        if self._kvstore is not None and self._update_on_kvstore:
            self._kvstore.load_optimizer_states(fname)
            self._optimizer = cast(Any, self._kvstore)._updater.optimizer
        else:
            with reading(fname, "optimizer states"):
                with open(fname, "rb") as file:
                    states = file.read()
                for updater in self._updaters:
                    updater.set_states(states)
                    updater.optimizer = self._updaters[0].optimizer
            self._optimizer = self._updaters[0].optimizer
        self._optimizer.param_dict = dict(enumerate(self._params))
