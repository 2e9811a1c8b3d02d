"""`mx.executor_manager`: data-parallel executors as training code from before `Module` uses them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .context import Context
from .io import DataBatch, DataDesc, DataIter
from .module import executor_group
from .module.executor_group import _split_input_slice
from .ndarray import NDArray

if TYPE_CHECKING:
    from .metric import EvalMetric
    from .monitor import Monitor
    from .symbol import Symbol

__all__ = ["DataParallelExecutorGroup", "DataParallelExecutorManager"]


def _check_arguments(symbol: Symbol) -> None:
    """Raises ValueError where two variables have one name."""
    for kind, names in (("argument", symbol.list_arguments()), ("auxiliary param", symbol.list_auxiliary_states())):
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f'Find duplicated {kind} name "{twice}", please make the weight name non-duplicated(using '
                             f"name arguments), {kind}s are {names}")


class DataParallelExecutorGroup:
    """One executor for each device.

    Args:
        sym: the network.
        arg_names: its arguments.
        param_names: those that are parameters.
        ctx: the devices.
        slices: each device's part of a batch.
        train_data: iterator or batch with the inputs' shapes.
        shared_group: group whose parameters and memory are used.

    Raises:
        ValueError: two variables have one name, or a batch has no shapes.
    """

    def __init__(self, sym: Symbol, arg_names: list[str], param_names: list[str], ctx: list[Context],
                 slices: list[slice], train_data: DataIter | DataBatch,
                 shared_group: DataParallelExecutorGroup | None = None) -> None:
        _check_arguments(sym)
        if train_data.provide_data is None or train_data.provide_label is None:
            raise ValueError("a batch with a new bucket must specify its shapes by provide_data and provide_label")
        data, labels = ([desc if isinstance(desc, DataDesc) else DataDesc(*desc) for desc in descs]
                        for descs in (train_data.provide_data, train_data.provide_label))
        self.param_idx = [i for i, name in enumerate(arg_names) if name in param_names]
        self.param_names = [arg_names[i] for i in self.param_idx]
        self.group = group = executor_group.DataParallelExecutorGroup(
            sym, ctx, [part.stop - part.start for part in slices], data, labels, self.param_names, True, False,
            shared_group=None if shared_group is None else shared_group.group)
        self.slices, self.train_execs = slices, group.execs
        self.shared_data_arrays = group.shared_data_arrays
        self.data_names, self.label_names, self.aux_names = group.data_names, group.label_names, group.aux_names
        self.data_arrays = [list(zip(slices, arrays, strict=True)) for arrays in group.data_arrays]
        self.label_arrays = [list(zip(slices, arrays, strict=False)) for arrays in group.label_arrays]
        self.param_arrays, self.aux_arrays = group.param_arrays, group.aux_arrays
        self.grad_arrays = group.grad_arrays or []  # the group is bound for training, so it has them

    def load_data_batch(self, data_batch: DataBatch) -> None:
        """Copies each device's part of a batch to it.

        Raises:
            AssertionError: the batch has another length.
            ValueError: the batch has no data.
        """
        if data_batch.data is None:
            raise ValueError("load_data_batch got a batch without data")
        for source, targets in zip([*data_batch.data, *(data_batch.label or ())],
                                   [*self.data_arrays, *self.label_arrays], strict=False):
            if targets and targets[-1][0].stop != source.shape[0]:
                raise AssertionError(f"Batch size miss match. Expected {targets[-1][0].stop}, got {source.shape[0]}")
            for part, target in targets:
                source[part].copyto(target)

    def forward(self, is_train: bool = False) -> None:
        """Computes the outputs of the loaded batch."""
        for executor in self.train_execs:
            executor.forward(is_train=is_train)

    def backward(self) -> None:
        """Computes the gradients."""
        for executor in self.train_execs:
            executor.backward()

    def update_metric(self, metric: EvalMetric, labels: Sequence[Any], pre_sliced: bool = False) -> None:
        """Counts the outputs; `labels` are the batch's, or (`pre_sliced`) a list for each device."""
        for i, (executor, part) in enumerate(zip(self.train_execs, self.slices, strict=True)):
            metric.update(labels[i] if pre_sliced else [label[part] for label in labels], executor.outputs)


class DataParallelExecutorManager:
    """The executors of a network, or of the networks that `sym_gen` makes for bucket keys.

    Args:
        symbol: the network.
        ctx: the devices.
        train_data: iterator of the training data.
        arg_names, param_names, aux_names: names of the network's arguments, parameters, auxiliary states.
        work_load_list: how much of a batch each device gets, relatively.
        logger: default `logging`.
        sym_gen: function of a bucket key.
    """

    def __init__(self, symbol: Symbol, ctx: list[Context], train_data: DataIter, arg_names: list[str],
                 param_names: list[str], aux_names: list[str], work_load_list: list[float] | None = None,
                 logger: Any = None, sym_gen: Callable[[Any], Symbol] | None = None) -> None:
        (logger or logging).info("Start training with %s", ctx)
        if work_load_list is None:
            work_load_list = [1.0] * len(ctx)
        if not isinstance(work_load_list, list) or len(work_load_list) != len(ctx):
            raise AssertionError(f"Invalid settings for work load: {work_load_list} for {len(ctx)} devices")
        self.slices = _split_input_slice(train_data.batch_size, work_load_list)
        self.arg_names, self.param_names, self.aux_names = arg_names, param_names, aux_names
        self.ctx, self.symbol, self.sym_gen = ctx, symbol, sym_gen
        self.execgrp = DataParallelExecutorGroup(symbol, arg_names, param_names, ctx, self.slices, train_data)
        self.curr_execgrp: DataParallelExecutorGroup | None = None
        if sym_gen is not None:
            self.execgrp_bucket = {train_data.default_bucket_key: self.execgrp}

    def install_monitor(self, monitor: Monitor) -> None:
        """Has a monitor watch all executors.

        Raises:
            NotImplementedError: there are buckets.
        """
        if self.sym_gen is not None:
            raise NotImplementedError("Monitoring is not implemented for bucketing")
        for executor in self.execgrp.train_execs:
            monitor.install(executor)

    def set_params(self, arg_params: dict[str, NDArray], aux_params: dict[str, NDArray]) -> None:
        """Copies parameters and auxiliary states to all devices."""
        self.execgrp.group.set_params(arg_params, aux_params)

    def copy_to(self, arg_params: dict[str, NDArray], aux_params: dict[str, NDArray]) -> None:
        """Copies the means over the devices to the given arrays."""
        self.execgrp.group.get_params(arg_params, aux_params)

    @property
    def param_arrays(self) -> list[list[NDArray]]:
        """For each parameter its arrays, by device."""
        return self.execgrp.param_arrays

    @property
    def grad_arrays(self) -> list[list[NDArray]]:
        """For each parameter its gradients, by device."""
        return self.execgrp.grad_arrays

    @property
    def aux_arrays(self) -> list[list[NDArray]]:
        """For each auxiliary state its arrays, by device."""
        return self.execgrp.aux_arrays

    def load_data_batch(self, data_batch: DataBatch) -> None:
        """Copies a batch to the devices; the executors of its bucket are current from now on."""
        self.curr_execgrp = self.execgrp
        if self.sym_gen is not None:
            key = data_batch.bucket_key
            if key not in self.execgrp_bucket:
                self.execgrp_bucket[key] = DataParallelExecutorGroup(
                    self.sym_gen(key), self.arg_names, self.param_names, self.ctx, self.slices, data_batch,
                    shared_group=self.execgrp)
            self.curr_execgrp = self.execgrp_bucket[key]
        self.curr_execgrp.load_data_batch(data_batch)

    def _loaded(self) -> DataParallelExecutorGroup:
        """Returns the executors of the loaded batch."""
        if self.curr_execgrp is None:
            raise RuntimeError("no batch is loaded: call load_data_batch first")
        return self.curr_execgrp

    def forward(self, is_train: bool = False) -> None:
        """Computes the outputs of the loaded batch."""
        self._loaded().forward(is_train=is_train)

    def backward(self) -> None:
        """Computes the gradients."""
        self._loaded().backward()

    def update_metric(self, metric: EvalMetric, labels: Sequence[Any], pre_sliced: bool = False) -> None:
        """Counts the outputs of the loaded batch."""
        self._loaded().update_metric(metric, labels, pre_sliced)
