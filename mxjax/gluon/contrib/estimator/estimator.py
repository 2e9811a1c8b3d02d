"""The estimator: a training loop with event handlers."""

from __future__ import annotations

import copy
import functools
import logging
import sys
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...._support.progress import progress
from ....context import Context, cpu, gpu, num_gpus
from ....device import with_device
from ....metric import EvalMetric
from ...block import Block
from ...data import DataLoader
from ...loss import Loss
from ...trainer import Trainer
from .batch_processor import BatchProcessor
from .event_handler import (
    BatchBegin,
    BatchEnd,
    EpochBegin,
    EpochEnd,
    EventHandler,
    GradientUpdateHandler,
    LoggingHandler,
    MetricHandler,
    StoppingHandler,
    TrainBegin,
    TrainEnd,
    ValidationHandler,
    _check_event_handlers,
)
from .utils import _check_handler_metric_ref, _check_metrics, _metric_of_loss, _suggest_metric_for_loss

if TYPE_CHECKING:
    from ....initializer import InitializerLike

__all__ = ["Estimator"]


class Estimator:
    """Trains and evaluates a network.

    Args:
        net: the network.
        loss: its loss.
        train_metrics: training metrics; by default those that suit the loss, and the loss itself.
        val_metrics: validation metrics; by default the same as for training.
        initializer: initializer of the network if it is not initialized yet.
        trainer: the trainer; by default stochastic gradient descent with learning rate 0.001.
        context: a context or a list of contexts; by default the first GPU, otherwise the CPU.
        val_net: network to validate with; default `net`.
        val_loss: loss to validate with; default `loss`.
        batch_processor: processes the batches; by default a `BatchProcessor`.

    Raises:
        ValueError: an argument has the wrong type.
        AssertionError: a context is not available.

    Example:
        >>> estimator = Estimator(net, mx.gluon.loss.L2Loss(), trainer=trainer)  # doctest: +SKIP
        >>> estimator.fit(loader, epochs=3)  # doctest: +SKIP
    """

    logger: Any = None  # a `logging.Logger`, once an estimator is made

    @functools.partial(with_device, old="context")
    def __init__(self, net: Block, loss: Loss, train_metrics: EvalMetric | list[EvalMetric] | None = None,
                 val_metrics: EvalMetric | list[EvalMetric] | None = None, initializer: InitializerLike = None,
                 trainer: Trainer | None = None, context: Context | Sequence[Context] | None = None,
                 val_net: Block | None = None, val_loss: Loss | None = None,
                 batch_processor: BatchProcessor | None = None) -> None:
        self.net, self.loss = net, self._check_loss(loss)
        self._train_metrics, self._val_metrics = _check_metrics(train_metrics), _check_metrics(val_metrics)
        self._name_metrics()
        self.val_loss = self.loss if val_loss is None else self._check_loss(val_loss)
        self.val_net = net if val_net is None else val_net
        self.logger = logging.Logger(name="Estimator", level=logging.INFO)
        self.logger.addHandler(logging.StreamHandler(sys.stdout))
        self.context = self._check_context(context)
        self._initialize(initializer)
        self.trainer = self._check_trainer(trainer)
        self.batch_processor = self._check_batch_processor(batch_processor)
        self.max_epoch: int | None = None
        self.max_batch: int | None = None
        self.batch_axis = 0

    @property
    def device(self) -> list[Context]:
        """The contexts, under their name in MXNet 2."""
        return self.context

    @device.setter
    def device(self, device: list[Context]) -> None:
        self.context = device

    @staticmethod
    def _check_loss(loss: object) -> Loss:
        if not isinstance(loss, Loss):
            raise ValueError(f"loss must be a Loss, refer to gluon.loss.Loss:{loss}")
        return loss

    @staticmethod
    def _check_context(context: Context | Sequence[Context] | None) -> list[Context]:
        gpus = [gpu(i) for i in range(num_gpus())]
        if not context:
            if len(gpus) > 1:
                warnings.warn("You have multiple GPUs, gpu(0) will be used by default. To utilize all your GPUs, "
                              "specify context as a list of gpus, e.g. context=[mx.gpu(0), mx.gpu(1)]", stacklevel=3)
            return gpus[:1] or [cpu()]
        contexts = [context] if isinstance(context, Context) else context
        if not (isinstance(contexts, list) and all(isinstance(one, Context) for one in contexts)):
            raise ValueError("context must be a Context or a list of Context, for example mx.cpu() or [mx.gpu(0), "
                             f"mx.gpu(1)], refer to mxnet.Context:{context}")
        for one in contexts:
            if one not in gpus and not one.device_type.startswith("cpu"):
                raise AssertionError(f"{one} is not available, please make sure your context is in one of: mx.cpu(), "
                                     f"{', '.join(map(str, gpus))}")
        return contexts

    @staticmethod
    def _check_batch_processor(batch_processor: object) -> Any:
        if batch_processor is None:
            return BatchProcessor()
        if not all(callable(getattr(batch_processor, name, None)) for name in ("fit_batch", "evaluate_batch")):
            raise ValueError("Customized Batch Processor must contain fit_batch() and evaluate_batch() methods")
        return batch_processor

    def _check_trainer(self, trainer: object) -> Trainer:
        if not trainer:
            warnings.warn("No trainer specified, default SGD optimizer with learning rate 0.001 is used.",
                          stacklevel=3)
            return Trainer(self.net.collect_params(), "sgd", {"learning_rate": 0.001})
        if not isinstance(trainer, Trainer):
            raise ValueError(f"Trainer must be a Gluon Trainer instance, refer to gluon.Trainer:{trainer}")
        return trainer

    def _initialize(self, initializer: InitializerLike) -> None:
        if not self._is_initialized():
            if initializer:
                self.net.initialize(initializer, self.context)
            else:
                self.net.initialize(ctx=self.context)
        elif initializer:
            warnings.warn("Network already fully initialized, skipping initialization. You don't need to pass "
                          "initializer if you already initialized your net. You can use "
                          "net.initialize(init=your_initializer, force_reinit=True) to force re-initialize.",
                          stacklevel=3)

    def _is_initialized(self) -> bool:
        try:
            for param in self.net.collect_params().values():
                param.list_device()
        except RuntimeError:
            return False
        return True

    def _name_metrics(self) -> None:
        """Adds default metrics, and marks the metrics' names as training or validation."""
        if not self._train_metrics:
            suggested = _suggest_metric_for_loss(self.loss)
            self._train_metrics = [suggested] if suggested else []
            self._train_metrics.append(_metric_of_loss(self.loss))
        for metric in self._train_metrics:
            metric.name = "training " + metric.name
        if not self._val_metrics:
            self._val_metrics = [copy.deepcopy(metric) for metric in self._train_metrics]
        for metric in self._val_metrics:
            metric.name = metric.name.replace("training", "validation") if "training" in metric.name else \
                "validation " + metric.name

    @property
    def train_metrics(self) -> list[EvalMetric]:
        """The training metrics."""
        return self._train_metrics

    @property
    def val_metrics(self) -> list[EvalMetric]:
        """The validation metrics."""
        return self._val_metrics

    def evaluate(self, val_data: DataLoader, batch_axis: int = 0,
                 event_handlers: EventHandler | Sequence[EventHandler] | None = None) -> None:
        """Evaluates on a data set; the results are in `val_metrics`.

        Args:
            val_data: DataLoader that yields (data, label).
            batch_axis: axis along which a batch is split over the contexts.
            event_handlers: handlers; a MetricHandler and a LoggingHandler are added if missing.

        Raises:
            ValueError: `val_data` is not a DataLoader.
        """
        self._check_loader(val_data)
        for metric in self.val_metrics:
            metric.reset()
        handlers = self._prepare_default_validation_handlers(event_handlers)
        _, epoch_begin, batch_begin, batch_end, epoch_end, _ = self._categorize_handlers(handlers)
        for handler in epoch_begin:
            handler.epoch_begin(self)
        for batch in val_data:
            for handler in batch_begin:
                handler.batch_begin(self, batch=batch)
            _, label, pred, loss = self.batch_processor.evaluate_batch(self, batch, batch_axis)
            for handler in batch_end:
                handler.batch_end(self, batch=batch, pred=pred, label=label, loss=loss)
        for handler in epoch_end:
            handler.epoch_end(self)

    def fit(self, train_data: DataLoader, val_data: DataLoader | None = None, epochs: int | None = None,
            event_handlers: EventHandler | Sequence[EventHandler] | None = None, batches: int | None = None,
            batch_axis: int = 0) -> None:
        """Trains for a number of epochs or of batches.

        Args:
            train_data, val_data: DataLoaders that yield (data, label).
            epochs, batches: number of epochs or of batches; specify one of them.
            event_handlers: handlers; those for stopping, updating, metrics, validation and logging
                are added if missing.
            batch_axis: axis along which a batch is split over the contexts.

        Raises:
            ValueError: `train_data` is not a DataLoader, or not exactly one of `epochs` and
                `batches` is specified.
        """
        self._check_loader(train_data)
        if (not epochs) == (not batches):
            raise ValueError("Fit only support exactly one type of iteration, train by number of epochs or number of "
                             "batches. Please specify one and only one of: epochs or batches.")
        self.max_epoch, self.max_batch, self.batch_axis = epochs, batches, batch_axis
        handlers = self._prepare_default_handlers(val_data, event_handlers)
        train_begin, epoch_begin, batch_begin, batch_end, epoch_end, train_end = self._categorize_handlers(handlers)
        for handler in train_begin:
            handler.train_begin(self)
        stop = False
        while not stop:
            for handler in epoch_begin:
                handler.epoch_begin(self)
            with progress("fit", len(train_data), "batch") as bar:
                for batch in train_data:
                    for handler in batch_begin:
                        handler.batch_begin(self, batch=batch)
                    _, label, pred, loss = self.batch_processor.fit_batch(self, batch, batch_axis)
                    bar.update()
                    answers = [handler.batch_end(self, batch=batch, pred=pred, label=label, loss=loss)
                               for handler in batch_end]
                    if any(answers):
                        break
            stop = any([handler.epoch_end(self) for handler in epoch_end])
        for handler in train_end:
            handler.train_end(self)

    @staticmethod
    def _check_loader(data: object) -> None:
        if not isinstance(data, DataLoader):
            raise ValueError("Estimator only support input as Gluon DataLoader. Alternatively, you can transform your "
                             "DataIter or any NDArray into Gluon DataLoader. Refer to gluon.data.DataLoader")

    def _prepare_default_handlers(self, val_data: DataLoader | None,
                                  event_handlers: EventHandler | Sequence[EventHandler] | None) -> list[EventHandler]:
        """The handlers of training, with those that are missing, in the order of their priorities."""
        defaults = [(None, lambda: StoppingHandler(self.max_epoch, self.max_batch)),
                    (GradientUpdateHandler, GradientUpdateHandler),
                    (MetricHandler, lambda: MetricHandler(metrics=self.train_metrics)),
                    (LoggingHandler, lambda: LoggingHandler(metrics=self.train_metrics))]
        if val_data:
            defaults.insert(3, (ValidationHandler, lambda: ValidationHandler(val_data, self.evaluate)))
        return self._complete(event_handlers, defaults, self.train_metrics + self.val_metrics)

    def _prepare_default_validation_handlers(
            self, event_handlers: EventHandler | Sequence[EventHandler] | None) -> list[EventHandler]:
        """The handlers of validation, likewise."""
        defaults = [(MetricHandler, lambda: MetricHandler(metrics=self.val_metrics)),
                    (LoggingHandler, lambda: LoggingHandler(metrics=self.val_metrics))]
        return self._complete(event_handlers, defaults, self.val_metrics)

    @staticmethod
    def _complete(event_handlers: EventHandler | Sequence[EventHandler] | None, defaults: Sequence[tuple],
                  known: list[EvalMetric]) -> list[EventHandler]:
        handlers = list(_check_event_handlers(event_handlers))
        added = [make() for cls, make in defaults
                 if cls is None or not any(isinstance(handler, cls) for handler in handlers)]
        if handlers and added:
            for handler in handlers + added:
                _check_handler_metric_ref(handler, known)
        return sorted(handlers + added, key=lambda handler: getattr(handler, "priority", 0))

    @staticmethod
    def _categorize_handlers(event_handlers: list[EventHandler]) -> tuple[list[Any], ...]:
        """The handlers of each event."""
        events = (TrainBegin, EpochBegin, BatchBegin, BatchEnd, EpochEnd, TrainEnd)
        return tuple([handler for handler in event_handlers if isinstance(handler, event)] for event in events)
