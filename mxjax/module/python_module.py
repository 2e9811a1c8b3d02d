"""Modules with computations written in Python."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .. import ndarray as nd
from ..base import Precondition, Unfit
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

__all__ = ["PythonModule", "PythonLossModule"]


class PythonModule(BaseModule):
    """Base of modules in Python without parameters.

    Subclasses define `_compute_output_shapes`, `forward`, `backward`, `get_outputs` and
    `get_input_grads`.

    Args:
        data_names, label_names, output_names: names of inputs (no labels: None) and outputs.
        logger: the logger.
    """

    def __init__(self, data_names: Sequence[str], label_names: Sequence[str] | None, output_names: Sequence[str],
                 logger: LoggerLike = logging) -> None:
        super().__init__(logger=logger)
        self._data_names = list(data_names)
        self._label_names = None if label_names is None else list(label_names)
        self._output_names = list(output_names)
        self._data_shapes: Any = None
        self._label_shapes: Any = None
        self._output_shapes: Any = None

    @property
    def data_names(self) -> list[str]:
        return self._data_names

    @property
    def output_names(self) -> list[str]:
        return self._output_names

    @property
    def data_shapes(self) -> Any:
        return self._data_shapes

    @property
    def label_shapes(self) -> Any:
        return self._label_shapes

    @property
    def output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        return self._output_shapes

    def get_params(self) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        """Returns two empty dicts, because there are no parameters."""
        return {}, {}

    def init_params(self, initializer: InitFunction | None = _UNIFORM, arg_params: dict[str, NDArray] | None = None,
                    aux_params: dict[str, NDArray] | None = None, allow_missing: bool = False,
                    force_init: bool = False, allow_extra: bool = False) -> None:
        """Does nothing, because there are no parameters."""
        self.params_initialized = True

    def init_optimizer(self, kvstore: StoreLike = "local", optimizer: Optimizer | str = "sgd",
                       optimizer_params: Options = _LEARNING_RATE, force_init: bool = False) -> None:
        """Does nothing, because there are no parameters."""
        self.optimizer_initialized = True

    def update(self) -> None:
        """Does nothing, because there are no parameters."""

    def update_metric(self, eval_metric: EvalMetric, labels: Any, pre_sliced: bool = False) -> None:
        if self._label_shapes is None:
            return
        if pre_sliced:
            raise RuntimeError("a PythonModule runs on one device; it does not accept labels by device")
        eval_metric.update(labels, self.get_outputs())

    def bind(self, data_shapes: Shapes, label_shapes: Shapes | None = None, for_training: bool = True,
             inputs_need_grad: bool = False, force_rebind: bool = False, shared_module: BaseModule | None = None,
             grad_req: GradReq = "write") -> None:
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            return
        if grad_req != "write":
            raise Unfit(f"a PythonModule only writes gradients, got grad_req={grad_req!r}")
        for kind, names, shapes in (("data", self._data_names, data_shapes), ("label", self._label_names,
                                                                              label_shapes)):
            if shapes is not None and [desc[0] for desc in shapes] != names:
                raise Unfit(f"{kind}_shapes are for {[desc[0] for desc in shapes]}, but {kind}_names are {names}")
        self.for_training = for_training
        self.inputs_need_grad = inputs_need_grad
        self._data_shapes = data_shapes
        self._label_shapes = label_shapes
        self._output_shapes = self._compute_output_shapes()
        self.binded = True

    def _compute_output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """Names and shapes of the outputs, from those of the inputs."""
        raise NotImplementedError


class PythonLossModule(PythonModule):
    """A loss in Python, whose output is its data and whose gradient is a function of data and label.

    Args:
        name: prefix of the output's name.
        data_names, label_names: lists of one name each.
        logger: the logger.
        grad_func: function of (scores, labels) that returns the gradient with respect to the
            scores, as an NDArray or numpy.ndarray.
    """

    def __init__(self, name: str = "pyloss", data_names: Sequence[str] = ("data",),
                 label_names: Sequence[str] = ("softmax_label",), logger: LoggerLike = logging,
                 grad_func: Callable[[NDArray, NDArray], Any] | None = None) -> None:
        super().__init__(data_names, label_names, [f"{name}_output"], logger=logger)
        if len(data_names) != 1 or len(label_names) != 1:
            raise Unfit(f"a loss must have one data and one label input, got {data_names} and {label_names}")
        if grad_func is not None and not callable(grad_func):
            raise Unfit(f"grad_func must be a function, got {grad_func!r}")
        self._name = name
        self._grad_func = grad_func
        self._scores: NDArray | None = None
        self._labels: NDArray | None = None
        self._scores_grad: NDArray | None = None

    def _compute_output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        return [(f"{self._name}_output", self._data_shapes[0][1])]

    def forward(self, data_batch: DataBatch, is_train: bool | None = None) -> None:
        if not data_batch.data:
            raise ValueError(f"{type(self).__name__}.forward got a batch without data")
        self._scores = data_batch.data[0]
        if self.for_training if is_train is None else is_train:
            if not data_batch.label:
                raise ValueError(f"{type(self).__name__}.forward got a batch without a label")
            self._labels = data_batch.label[0]

    def get_outputs(self, merge_multi_context: bool = True) -> list[NDArray]:
        if self._scores is None:
            raise Precondition(f"{type(self).__name__}: call forward first")
        return [self._scores]

    def backward(self, out_grads: list[NDArray] | None = None) -> None:
        if out_grads is not None:
            raise Unfit("a loss does not accept out_grads")
        self._require("for_training")
        self._backward_impl()

    def _backward_impl(self) -> None:
        """Compute `_scores_grad` from `_scores` and `_labels`; for subclasses without a `grad_func`."""
        if self._grad_func is None:
            raise NotImplementedError(f"{type(self).__name__} needs a grad_func or its own _backward_impl")
        if self._scores is None or self._labels is None:
            raise Precondition(f"{type(self).__name__}: call forward with is_train=True first")
        grad = self._grad_func(self._scores, self._labels)
        self._scores_grad = grad if isinstance(grad, nd.NDArray) else nd.array(grad)

    def get_input_grads(self, merge_multi_context: bool = True) -> list[NDArray]:
        if self._scores_grad is None:
            raise Precondition(f"{type(self).__name__}: call backward first")
        return [self._scores_grad]

    def install_monitor(self, mon: Monitor) -> None:
        """Raises NotImplementedError, because a loss in Python has no executor."""
        raise NotImplementedError(f"{type(self).__name__} has no executor to monitor")
