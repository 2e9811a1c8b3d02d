"""Data parallelism: one executor per device, with each batch split among them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import ndarray as nd
from ..base import Precondition, Unfit
from ..context import Context
from ..io import DataDesc
from ..io.base import described
from ..ndarray import NDArray

if TYPE_CHECKING:
    from ..executor._executor import GradReq
    from ..io import DataBatch
    from ..log import LoggerLike
    from ..metric import EvalMetric
    from ..monitor import Monitor
    from ..symbol import Symbol
    from .base_module import Groups, Shapes

__all__ = ["DataParallelExecutorGroup"]


def _split_input_slice(batch_size: int, work_load_list: Sequence[float]) -> list[slice]:
    """The part of a batch for each device, in proportion to its work load.

    Raises:
        ValueError: a device would get nothing.
    """
    total = sum(work_load_list)
    sizes = [round(load * batch_size / total) for load in work_load_list]
    sizes[-1] += max(0, batch_size - sum(sizes))
    slices, end = [], 0
    for size in sizes:
        begin, end = end, min(end + size, batch_size)
        if begin >= end:
            raise ValueError(f"a batch of {batch_size} is too small to be split among {len(sizes)} devices with work "
                             f"loads {list(work_load_list)}")
        slices.append(slice(begin, end))
    return slices


def _shapes(descs: list[DataDesc]) -> dict[str, tuple[int, ...]]:
    return {desc.name: tuple(desc.shape) for desc in descs}


def _along(axis: int, part: slice) -> tuple[slice, ...]:
    """The index that takes a slice of one axis."""
    return (*[slice(None)] * axis, part)


def _merge_multi_context(outputs: list[list[NDArray]], axes: Sequence[int]) -> list[NDArray]:
    """The devices' arrays put together along the batch axis; the first device's where there is no such axis."""
    return [parts[0] if axis < 0 or len(parts) == 1 else
            nd.concat(*(part.as_in_context(parts[0].context) for part in parts), dim=axis)
            for parts, axis in zip(outputs, axes, strict=True)]


def _prepare_group2ctxs(group2ctxs: Groups,
                        count: int) -> list[dict[str, Context] | None]:
    """For each of the devices a dict: context by context group.

    Args:
        group2ctxs: None, such a list, or a dict whose values are contexts or lists of them (of length 1 or `count`).
        count: number of devices.
    """
    if group2ctxs is None:
        return [None] * count
    if isinstance(group2ctxs, list):
        if len(group2ctxs) != count:
            raise Unfit(f"group2ctxs has {len(group2ctxs)} entries for {count} devices")
        return group2ctxs
    if not isinstance(group2ctxs, dict):
        raise Unfit("group2ctxs must be a dict of contexts (or lists of them) by group, or a list of dicts, got "
                    f"{type(group2ctxs).__name__}")
    columns = {}
    for group, ctxs in group2ctxs.items():
        ctxs = [ctxs] if isinstance(ctxs, Context) else list(ctxs)
        if len(ctxs) not in (1, count):
            raise ValueError(f"group2ctxs[{group!r}] has {len(ctxs)} contexts; expected 1 or {count}")
        columns[group] = ctxs * count if len(ctxs) == 1 else ctxs
    return [{group: ctxs[i] for group, ctxs in columns.items()} for i in range(count)]


class DataParallelExecutorGroup:
    """Executors of one network on several devices, each of which processes a part of every batch.

    Args:
        symbol: the network.
        contexts: the devices.
        workload: relative size of each device's part of a batch.
        data_shapes, label_shapes: descriptions of data and labels (None for no labels).
        param_names: the arguments that are parameters.
        for_training: whether `backward` will be called.
        inputs_need_grad: whether to compute gradients with respect to the data.
        shared_group: group to share parameters and memory with.
        logger: the logger.
        fixed_param_names: parameters without gradient.
        grad_req: "write", "add" or "null"; for all arguments, a list, or a dict by name.
        state_names: inputs that keep their values from batch to batch.
        group2ctxs: contexts of the network's context groups.
    """

    def __init__(self, symbol: Symbol, contexts: list[Context], workload: Sequence[float], data_shapes: Shapes,
                 label_shapes: Shapes | None, param_names: list[str], for_training: bool, inputs_need_grad: bool,
                 shared_group: DataParallelExecutorGroup | None = None, logger: LoggerLike = logging,
                 fixed_param_names: list[str] | None = None, grad_req: GradReq = "write",
                 state_names: list[str] | None = None,
                 group2ctxs: Groups = None) -> None:
        self.symbol = symbol
        self.arg_names = symbol.list_arguments()
        self.aux_names = symbol.list_auxiliary_states()
        self.output_names = symbol.list_outputs()
        self.num_outputs = len(self.output_names)
        self.output_layouts = [DataDesc.get_batch_axis(output.attr("__layout__")) for output in symbol]
        self.contexts = contexts
        self.workload = workload
        self.param_names = param_names
        self.fixed_param_names = fixed_param_names or []
        self.state_names = state_names or []
        self.for_training = for_training
        self.inputs_need_grad = inputs_need_grad
        self.logger = logger
        self.group2ctxs = _prepare_group2ctxs(group2ctxs, len(contexts))
        data = described(data_shapes)
        labels = None if label_shapes is None else described(label_shapes)
        self.grad_req = self._grad_requests(grad_req if for_training else "null", [d.name for d in data])
        self.shared_data_arrays = [{} for _ in contexts] if shared_group is None else shared_group.shared_data_arrays
        self.execs: list[Any] = []
        self._default_execs: list[Any] | None = None
        self.bind_exec(data, labels, shared_group)

    def _grad_requests(self, grad_req: GradReq, data_names: list[str]) -> dict[str, str]:
        """Returns `grad_req` for each argument."""
        if isinstance(grad_req, list | tuple):
            if len(grad_req) != len(self.arg_names):
                raise Unfit(f"grad_req has {len(grad_req)} entries, but the network has {len(self.arg_names)} "
                            f"arguments")
            return dict(zip(self.arg_names, grad_req, strict=True))
        if not isinstance(grad_req, str | dict):
            raise ValueError(f"grad_req must be a string, list or dict, got {grad_req!r}")
        wanted = grad_req if isinstance(grad_req, str) else "write"
        wanting = set(self.param_names) - set(self.fixed_param_names) | (set(data_names) if self.inputs_need_grad
                                                                         else set())
        requests = {name: wanted if name in wanting else "null" for name in self.arg_names}
        return {**requests, **grad_req} if isinstance(grad_req, dict) else requests

    # ------------------------------------------------------------------ binding
    def decide_slices(self, data_shapes: list[DataDesc]) -> list[int]:
        """Determines the batch size and the devices' parts of a batch; returns the inputs' batch axes.

        Raises:
            ValueError: the inputs' batch sizes differ.
        """
        axes = [DataDesc.get_batch_axis(desc.layout) for desc in data_shapes]
        for desc, axis in zip(data_shapes, axes, strict=True):
            if axis == -1:
                continue
            size = desc.shape[axis]
            if self.batch_size not in (None, size):
                raise Unfit(f"all inputs must have the same batch size: {desc.name} has shape {desc.shape}, "
                            f"but others have batch size {self.batch_size}")
            if self.batch_size is None:
                self.batch_size = size
                self.slices = _split_input_slice(size, self.workload)
        return axes

    def bind_exec(self, data_shapes: list[DataDesc], label_shapes: list[DataDesc] | None,
                  shared_group: DataParallelExecutorGroup | None = None, reshape: bool = False) -> None:
        """Creates the executors, or with `reshape` changes their input shapes."""
        self.batch_size: int | None = None
        self.slices: list[slice] = [slice(i, i + 1) for i in range(len(self.contexts))]
        self.data_layouts = self.decide_slices(data_shapes)
        self.label_layouts = self.decide_slices(label_shapes or [])
        for i in range(len(self.contexts)):
            inputs = self._sliced(data_shapes, self.data_layouts, i)
            inputs += self._sliced(label_shapes or [], self.label_layouts, i)
            inputs = [desc for desc in inputs if desc.name in self.arg_names]
            if reshape and self._default_execs is not None:
                self.execs[i] = self._default_execs[i].reshape(allow_up_sizing=True, **_shapes(inputs))
            else:
                self.execs.append(self._bind_ith(i, inputs, shared_group))
        self.data_shapes = data_shapes
        self.label_shapes = label_shapes
        self.data_names = [desc.name for desc in data_shapes]
        self.label_names = [desc.name for desc in label_shapes or []]
        self._collect_arrays()

    def _sliced(self, descs: list[DataDesc], axes: list[int], i: int) -> list[DataDesc]:
        """The inputs of the i-th device."""
        part = self.slices[i].stop - self.slices[i].start
        return [DataDesc(d.name, tuple(part if n == axis else size for n, size in enumerate(d.shape)), d.dtype,
                         d.layout) for d, axis in zip(descs, axes, strict=True)]

    def _bind_ith(self, i: int, inputs: list[DataDesc], shared_group: DataParallelExecutorGroup | None) -> Any:
        attrs = self.symbol.attr_dict()
        types = {desc.name: desc.dtype for desc in inputs if attrs.get(desc.name, {}).get("__dtype__", "-1") == "-1"}
        return self.symbol.simple_bind(
            ctx=self.contexts[i], grad_req=self.grad_req, type_dict=types, shared_arg_names=self.param_names,
            shared_exec=None if shared_group is None else shared_group.execs[i], group2ctx=self.group2ctxs[i],
            shared_buffer=self.shared_data_arrays[i], **_shapes(inputs))

    def _collect_arrays(self) -> None:
        tables = {kind: [getattr(executor, kind) for executor in self.execs]
                  for kind in ("arg_dict", "grad_dict", "aux_dict")}

        def by_device(names: list[str], kind: str) -> list[list[NDArray]]:
            return [[table[name] for table in tables[kind]] for name in names]

        used = set(self.arg_names)
        params = [name for name in self.arg_names if name in set(self.param_names)]
        self.data_arrays = by_device(self.data_names, "arg_dict")
        self.label_arrays = [by_device([name], "arg_dict")[0] if name in used else [] for name in self.label_names]
        self.state_arrays = by_device(self.state_names, "arg_dict")
        self.param_arrays = by_device(params, "arg_dict")
        self.grad_arrays = by_device(params, "grad_dict") if self.for_training else None
        self.aux_arrays = by_device(self.aux_names, "aux_dict")
        self.input_grad_arrays = by_device(self.data_names, "grad_dict") if self.inputs_need_grad else None

    @property
    def _total_exec_bytes(self) -> int:
        """Bytes of all arrays bound to the executors."""
        arrays = [array for executor in self.execs
                  for array in (*executor.arg_arrays, *executor.grad_arrays, *executor.aux_arrays)]
        return sum(array.size * np.dtype(array.dtype).itemsize for array in arrays if array is not None)

    def reshape(self, data_shapes: list[DataDesc], label_shapes: list[DataDesc] | None) -> None:
        """Changes the executors' input shapes and keeps the parameters."""
        if (data_shapes, label_shapes) == (self.data_shapes, self.label_shapes):
            return
        if self._default_execs is None:
            self._default_execs = list(self.execs)
        self.bind_exec(data_shapes, label_shapes, reshape=True)

    # ------------------------------------------------------------------ parameters and states
    def set_params(self, arg_params: dict[str, NDArray], aux_params: dict[str, NDArray],
                   allow_extra: bool = False) -> None:
        """Copies parameters and auxiliary states to all devices."""
        for executor in self.execs:
            executor.copy_params_from(arg_params, aux_params, allow_extra_params=allow_extra)

    def get_params(self, arg_params: dict[str, NDArray], aux_params: dict[str, NDArray]) -> None:
        """Copies the mean over the devices into the given arrays."""
        for names, blocks, params in ((self.param_names, self.param_arrays, arg_params),
                                      (self.aux_names, self.aux_arrays, aux_params)):
            for name, block in zip(names, blocks, strict=True):
                target = params[name]
                mean = block[0]
                if len(block) > 1:
                    copies = [array.copyto(target.context) for array in block]
                    mean = sum(copies[1:], copies[0]) / len(block)
                mean.astype(target.dtype, copy=False).copyto(target)

    def get_states(self, merge_multi_context: bool = True) -> list[list[NDArray]]:
        """Returns the state inputs by device."""
        if merge_multi_context:
            raise Unfit("get_states cannot merge devices; pass merge_multi_context=False")
        return self.state_arrays

    def set_states(self, states: Sequence[NDArray | Sequence[NDArray]] | None = None,
                   value: float | None = None) -> None:
        """Sets the state inputs to arrays (each one whole or a list by device), or all of them to one number."""
        if (states is None) == (value is None):
            raise Unfit("set_states needs either states or value")
        if states is None:
            for arrays in self.state_arrays:
                for array in arrays:
                    array[:] = value
        else:
            self._load(states, self.state_arrays, [0] * len(self.state_arrays))

    # ------------------------------------------------------------------ computation
    def _load(self, sources: Sequence[Any], targets: list[list[NDArray]], axes: Sequence[int]) -> None:
        """Copy inputs, each an array to be split or a list by device, to the devices."""
        for source, arrays, axis in zip(sources, targets, axes, strict=False):
            for i, target in enumerate(arrays):
                if isinstance(source, list | tuple):
                    source[i].copyto(target)
                elif axis < 0 or len(arrays) == 1:
                    source.copyto(target)
                else:
                    source[_along(axis, self.slices[i])].copyto(target)

    def forward(self, data_batch: DataBatch | list[DataBatch], is_train: bool | None = None) -> None:
        """Computes the outputs of a batch, or of a list of batches, one per device."""
        batches = data_batch if isinstance(data_batch, list) else None
        for kind, targets, axes in (("data", self.data_arrays, self.data_layouts),
                                    ("label", self.label_arrays, self.label_layouts)):
            if kind == "label" and not targets:
                continue
            if batches is not None:
                columns = [getattr(batch, kind) or () for batch in batches]
                sources = [list(parts) for parts in zip(*columns, strict=True)]
            else:
                sources = getattr(data_batch, kind) or ()
            self._load(sources, targets, axes)
        for executor in self.execs:
            executor.forward(is_train=self.for_training if is_train is None else is_train)

    def get_output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """Returns names and shapes of the merged outputs."""
        known = {desc.name: desc.shape for desc in (*self.data_shapes, *(self.label_shapes or ()))}
        known.update({name: arrays[0].shape for name, arrays in zip(self.state_names, self.state_arrays, strict=True)})
        _, shapes, _ = self.symbol.infer_shape(**{name: shape for name, shape in known.items()
                                                  if name in self.arg_names})
        return list(zip(self.output_names, shapes, strict=True))

    def get_outputs(self, merge_multi_context: bool = True, begin: int = 0, end: int | None = None) -> list[Any]:
        """Returns the outputs `begin` to `end`; unmerged, one list per output with an array per device."""
        chosen = range(self.num_outputs)[begin:end]
        outputs = [[executor.outputs[i] for executor in self.execs] for i in chosen]
        return _merge_multi_context(outputs, self.output_layouts[begin:end]) if merge_multi_context else outputs

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """Returns the gradients with respect to the data; unmerged, one list per input with an array per device."""
        grads = self.input_grad_arrays
        if grads is None:
            raise Precondition("gradients of the inputs require bind(inputs_need_grad=True)")
        return _merge_multi_context(grads, self.data_layouts) if merge_multi_context else grads

    def backward(self, out_grads: list[NDArray] | None = None) -> None:
        """Computes gradients. `out_grads` are those with respect to the merged outputs; losses do not need them."""
        if isinstance(out_grads, NDArray):
            out_grads = [out_grads]
        for i, (executor, part) in enumerate(zip(self.execs, self.slices, strict=True)):
            grads = []
            for grad, axis in zip(out_grads or (), self.output_layouts, strict=False):
                whole = axis < 0 or len(self.execs) == 1
                grads.append((grad if whole else grad[_along(axis, part)]).as_in_context(self.contexts[i]))
            executor.backward(out_grads=grads or None)

    def update_metric(self, eval_metric: EvalMetric, labels: Any, pre_sliced: bool) -> None:
        """Updates a metric with the last outputs and the labels of the batch or (`pre_sliced`) of each device."""
        for i, (executor, part) in enumerate(zip(self.execs, self.slices, strict=True)):
            if pre_sliced:
                mine = labels[i]
            else:
                mine = [label if axis < 0 or len(self.execs) == 1 else label[_along(axis, part)]
                        for label, axis in zip(labels, self.label_layouts, strict=False)]
            eval_metric.update_dict(dict(zip(self.label_names, mine, strict=False)),
                                    dict(zip(self.output_names, executor.outputs, strict=True)))

    def install_monitor(self, mon: Monitor) -> None:
        """Installs a Monitor on the executors."""
        for executor in self.execs:
            mon.install(executor)
