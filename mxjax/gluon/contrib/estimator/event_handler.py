"""Event handlers, which an estimator calls when training, an epoch or a batch begins or ends."""

from __future__ import annotations

import os
import re
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...._support.files import together
from ....metric import CompositeEvalMetric, EvalMetric
from ....metric import Loss as MetricLoss
from .utils import _check_metrics

if TYPE_CHECKING:
    from ...train_step import TrainStep
    from .estimator import Estimator

__all__ = ["BatchBegin", "BatchEnd", "CheckpointHandler", "EarlyStoppingHandler", "EpochBegin", "EpochEnd",
           "GradientUpdateHandler", "LoggingHandler", "MetricHandler", "StoppingHandler", "TrainBegin", "TrainEnd",
           "ValidationHandler"]


class EventHandler:
    """Base of all handlers."""


def _check_event_handlers(handlers: EventHandler | Sequence[EventHandler] | None) -> Sequence[EventHandler]:
    """A list of handlers out of one, several or None.

    Raises:
        ValueError: there is something else among them.
    """
    handlers = [handlers] if isinstance(handlers, EventHandler) else handlers or []
    if not all(isinstance(handler, EventHandler) for handler in handlers):
        raise ValueError(f"handlers must be an EventHandler or a list of EventHandler, got: {handlers}")
    return handlers


class TrainBegin(EventHandler):
    """Base of handlers for the beginning of training."""

    def train_begin(self, estimator: Estimator, *args: object, **kwargs: Any) -> None:
        """Called when training begins."""


class TrainEnd(EventHandler):
    """Base of handlers for the end of training."""

    def train_end(self, estimator: Estimator, *args: object, **kwargs: Any) -> None:
        """Called when training has ended."""


class EpochBegin(EventHandler):
    """Base of handlers for the beginning of an epoch."""

    def epoch_begin(self, estimator: Estimator, *args: object, **kwargs: Any) -> None:
        """Called when an epoch begins."""


class EpochEnd(EventHandler):
    """Base of handlers for the end of an epoch."""

    def epoch_end(self, estimator: Estimator, *args: object, **kwargs: Any) -> bool:
        """Called when an epoch has ended; true ends training."""
        return False


class BatchBegin(EventHandler):
    """Base of handlers for the beginning of a batch."""

    def batch_begin(self, estimator: Estimator, *args: object, **kwargs: Any) -> None:
        """Called when a batch begins; keyword `batch`."""


class BatchEnd(EventHandler):
    """Base of handlers for the end of a batch."""

    def batch_end(self, estimator: Estimator, *args: object, **kwargs: Any) -> bool:
        """Called when a batch has ended; keywords `batch`, `pred`, `label`, `loss`; true ends the epoch."""
        return False


class StoppingHandler(TrainBegin, BatchEnd, EpochEnd):
    """Ends training after a number of epochs or batches.

    Args:
        max_epoch, max_batch: number of epochs or batches; the estimator's own numbers replace them
            when training begins.
    """

    def __init__(self, max_epoch: int | None = None, max_batch: int | None = None) -> None:
        self.max_epoch, self.max_batch = max_epoch, max_batch
        self.current_batch = self.current_epoch = 0
        self.stop_training = False

    def train_begin(self, estimator: Estimator, *args: object, **kwargs: Any) -> None:
        """Starts to count."""
        self.max_epoch, self.max_batch = estimator.max_epoch, estimator.max_batch
        self.current_batch = self.current_epoch = 0

    def batch_end(self, estimator: Estimator, *args: object, **kwargs: Any) -> bool:
        """Returns whether this was the last batch."""
        self.current_batch += 1
        self.stop_training |= self.current_batch == self.max_batch
        return self.stop_training

    def epoch_end(self, estimator: Estimator, *args: object, **kwargs: Any) -> bool:
        """Returns whether this was the last epoch."""
        self.current_epoch += 1
        self.stop_training |= self.current_epoch == self.max_epoch
        return self.stop_training


class MetricHandler(EpochBegin, BatchEnd):
    """Updates metrics after each batch.

    Args:
        metrics: the metrics. Those of class `metric.Loss` are updated with the loss, others with
            labels and predictions.
        priority: handlers with smaller numbers come first.
    """

    def __init__(self, metrics: EvalMetric | list[EvalMetric] | None, priority: float = -1000) -> None:
        self.metrics = _check_metrics(metrics)
        self.priority = priority

    def epoch_begin(self, estimator: Estimator, *args: object, **kwargs: Any) -> None:
        """Resets the metrics."""
        for metric in self.metrics:
            metric.reset()

    def batch_end(self, estimator: Estimator, *args: object, **kwargs: Any) -> bool:
        """Updates the metrics."""
        for metric in self.metrics:
            if isinstance(metric, MetricLoss):
                metric.update(0, kwargs["loss"])
            else:
                metric.update(kwargs["label"], kwargs["pred"])
        return False


class ValidationHandler(TrainBegin, BatchEnd, EpochEnd):
    """Validates at regular intervals of epochs or batches.

    Args:
        val_data: the data.
        eval_fn: function(val_data=, batch_axis=, event_handlers=), such as `Estimator.evaluate`.
        epoch_period, batch_period: number of epochs or batches between validations; None: never.
        priority: handlers with smaller numbers come first.
        event_handlers: handlers for `eval_fn`.
    """

    def __init__(self, val_data: Iterable[Any], eval_fn: Callable, epoch_period: int | None = 1,
                 batch_period: int | None = None, priority: float = -1000,
                 event_handlers: EventHandler | Sequence[EventHandler] | None = None) -> None:
        self.val_data, self.eval_fn, self.event_handlers = val_data, eval_fn, event_handlers
        self.epoch_period, self.batch_period, self.priority = epoch_period, batch_period, priority
        self.current_batch = self.current_epoch = 0

    def train_begin(self, estimator: Estimator, *args: object, **kwargs: Any) -> None:
        """Starts to count."""
        self.current_batch = self.current_epoch = 0

    def batch_end(self, estimator: Estimator, *args: object, **kwargs: Any) -> bool:
        """Validates where it is time."""
        self.current_batch += 1
        self._validate(estimator, self.current_batch, self.batch_period)
        return False

    def epoch_end(self, estimator: Estimator, *args: object, **kwargs: Any) -> bool:
        """Validates where it is time."""
        self.current_epoch += 1
        self._validate(estimator, self.current_epoch, self.epoch_period)
        return False

    def _validate(self, estimator: Estimator, count: int, period: int | None) -> None:
        if period and count % period == 0:
            self.eval_fn(val_data=self.val_data, batch_axis=estimator.batch_axis, event_handlers=self.event_handlers)


class LoggingHandler(TrainBegin, TrainEnd, EpochBegin, EpochEnd, BatchBegin, BatchEnd):
    """Logs progress and metrics to the estimator's logger.

    Args:
        log_interval: "epoch", or a number of batches.
        metrics: the metrics to log.
        priority: handlers with smaller numbers come first.

    Raises:
        ValueError: `log_interval` is neither "epoch" nor an integer.
    """

    def __init__(self, log_interval: int | str = "epoch", metrics: EvalMetric | list[EvalMetric] | None = None,
                 priority: float = np.inf) -> None:
        if not isinstance(log_interval, int) and log_interval != "epoch":
            raise ValueError("log_interval must be either an integer or string 'epoch'")
        self.metrics = _check_metrics(metrics)
        self.log_interval, self.priority = log_interval, priority
        self._start()

    def _start(self) -> None:
        self.batch_index = self.current_epoch = self.processed_samples = 0
        self.log_interval_time = 0.0
        self.train_start = self.epoch_start = self.batch_start = time.time()

    def _values(self) -> str:
        return ", ".join("{}: {:.4f}".format(*metric.get()) for metric in self.metrics)

    def train_begin(self, estimator: Estimator, *args: object, **kwargs: Any) -> None:
        """Logs the optimizer and the length of training."""
        self._start()
        trainer = estimator.trainer
        estimator.logger.info("Training begin: using optimizer %s with current learning rate %.4f ",
                              type(trainer.optimizer).__name__, trainer.learning_rate)
        if estimator.max_epoch:
            estimator.logger.info("Train for %d epochs.", estimator.max_epoch)
        else:
            estimator.logger.info("Train for %d batches.", estimator.max_batch)

    def train_end(self, estimator: Estimator, *args: object, **kwargs: Any) -> None:
        """Logs time and metrics."""
        self._tell(estimator, f"Train finished using total {int(time.time() - self.train_start)}s with "
                              f"{self.current_epoch} epochs. ")

    def _tell(self, estimator: Any, text: str) -> None:
        """Logs a text and the metrics, if there are any."""
        estimator.logger.info(f"{text}{self._values()}".rstrip(", "))

    def batch_begin(self, estimator: Estimator, *args: object, **kwargs: Any) -> None:
        """Records the time."""
        self.batch_start = time.time()

    def batch_end(self, estimator: Estimator, *args: object, **kwargs: Any) -> bool:
        """Logs time and metrics, every `log_interval` batches."""
        if isinstance(self.log_interval, int):
            self.log_interval_time += time.time() - self.batch_start
            self.processed_samples += kwargs["batch"][0].shape[0]
            if self.batch_index % self.log_interval == 0:
                self._tell(estimator, f"[Epoch {self.current_epoch}][Batch {self.batch_index}][Samples "
                                      f"{self.processed_samples}] time/interval: {self.log_interval_time:.3f}s ")
                self.log_interval_time = 0.0
        self.batch_index += 1
        return False

    def epoch_begin(self, estimator: Estimator, *args: object, **kwargs: Any) -> None:
        """Logs the learning rate."""
        self.epoch_start = time.time()
        if any("training" in metric.name for metric in self.metrics):
            estimator.logger.info("[Epoch %d] Begin, current learning rate: %.4f", self.current_epoch,
                                  estimator.trainer.learning_rate)
        else:
            estimator.logger.info("Validation Begin")

    def epoch_end(self, estimator: Estimator, *args: object, **kwargs: Any) -> bool:
        """Logs time and metrics."""
        self._tell(estimator, f"[Epoch {self.current_epoch}] Finished in {time.time() - self.epoch_start:.3f}s, ")
        self.current_epoch += 1
        self.batch_index = 0
        return False


def _better(mode: str, monitor: EvalMetric, handler: str) -> Callable[[Any, Any], Any]:
    """Returns the comparison for an improved metric: `numpy.greater` or `numpy.less`.

    "auto" takes greater values of metrics with "acc" or "f1" in their names, smaller ones of others.
    """
    if mode not in ("auto", "min", "max"):
        warnings.warn(f"{handler} mode {mode} is unknown, fallback to auto mode: greater is better for f1 and "
                      "accuracy, less otherwise", RuntimeWarning, stacklevel=4)
        mode = "auto"
    if mode == "auto":
        name = str(monitor.get()[0]).lower()
        mode = "max" if "acc" in name or "f1" in name else "min"
        warnings.warn(f"{handler} takes {'greater' if mode == 'max' else 'smaller'} values of {name} as better; set "
                      "mode='min' or mode='max' explicitly", stacklevel=4)
    return np.greater if mode == "max" else np.less


def _worst(better: Callable) -> float:
    return np.inf if better is np.less else -np.inf


def _monitored(monitor: EvalMetric) -> tuple[str, float]:
    """Name and value of a metric; warns where it has none yet."""
    name, value = monitor.get()
    if np.isnan(value):
        warnings.warn(f"{name} is not updated, make sure you pass one of the metric objects estimator.train_metrics "
                      "and estimator.val_metrics as monitor.", RuntimeWarning, stacklevel=3)
    return name, value


class CheckpointHandler(TrainBegin, BatchEnd, EpochEnd, TrainEnd):
    """Saves parameters and the trainer's states; after the first batch also the graph of a hybridized network.

    The files are PREFIX-symbol.json, PREFIX-epochEbatchB.params and .states, and PREFIX-best.params
    and .states. With a `TrainStep`, the directories PREFIX and PREFIX-best of its checkpoints
    replace the parameters and states.

    Args:
        model_dir: directory; created if it does not exist.
        model_prefix: prefix of the file names.
        monitor: metric that decides whether the network has improved.
        verbose: 1: log each checkpoint.
        save_best: also save the best parameters.
        mode: whether "max" or "min" of the metric is best; "auto": by its name.
        epoch_period, batch_period: number of epochs or batches between checkpoints; None: never.
        max_checkpoints: number of checkpoints to keep; older ones are removed.
        resume_from_checkpoint: load the newest checkpoint when training begins, and train for the
            remaining epochs or batches.
        step: a `gluon.TrainStep` of the network and trainer. The handler then uses its `save` and
            `restore`, which write shards in the background and include all state needed to resume
            exactly.

    Raises:
        ValueError: `save_best` is set without a metric to monitor.
    """

    def __init__(self, model_dir: str, model_prefix: str = "model", monitor: EvalMetric | None = None,
                 verbose: int = 0, save_best: bool = False, mode: str = "auto", epoch_period: int | None = 1,
                 batch_period: int | None = None, max_checkpoints: int = 5,
                 resume_from_checkpoint: bool = False, step: TrainStep | None = None) -> None:
        self.monitor, self.verbose, self.save_best, self.step = monitor, verbose, save_best, step
        if save_best and not isinstance(monitor, EvalMetric):
            raise ValueError("To save best model only, please provide one of the metric objects from "
                             "estimator.train_metrics and estimator.val_metrics as monitor.")
        os.makedirs(model_dir, exist_ok=True)
        self.model_dir, self.model_prefix = model_dir, model_prefix
        self.epoch_period, self.batch_period = epoch_period, batch_period
        self.current_batch = self.current_epoch = 0
        self.trained_epoch = self.trained_batch = -1
        self.max_checkpoints, self.resume_from_checkpoint = max_checkpoints, resume_from_checkpoint
        self.saved_checkpoints: list[str] = []
        if save_best and monitor is not None:
            self.monitor_op = _better(mode, monitor, "CheckpointHandler")
            self.best = _worst(self.monitor_op)

    def train_begin(self, estimator: Estimator, *args: object, **kwargs: Any) -> None:
        """Resets the counters; loads the newest checkpoint when resuming.

        Raises:
            AssertionError: on resume, checkpoints count epochs and training counts batches, or vice
                versa.
            ValueError: there is nothing left to train.
        """
        self.current_epoch = self.current_batch = 0
        if self.save_best:
            self.best = _worst(self.monitor_op)
        if not self.resume_from_checkpoint:
            return
        by_batch = bool(estimator.max_batch)
        if bool(self.batch_period) != by_batch or bool(self.epoch_period) == by_batch:
            raise AssertionError("To use resume from checkpoint, you must only specify the same type of period you "
                                 "used for training. For example, if you are training based on number of epochs, you "
                                 "must save only based on epochs, and set batch_period to None.")
        self._resume(estimator, "max_batch" if by_batch else "max_epoch")

    def batch_end(self, estimator: Estimator, *args: object, **kwargs: Any) -> bool:
        """Saves where it is time."""
        if self.current_batch == 0:
            self._save_symbol(estimator)
        if self.batch_period and (self.current_batch + 1) % self.batch_period == 0:
            self._save_checkpoint(estimator)
        self.current_batch += 1
        return False

    def epoch_end(self, estimator: Estimator, *args: object, **kwargs: Any) -> bool:
        """Saves where it is time."""
        if self.epoch_period and (self.current_epoch + 1) % self.epoch_period == 0:
            self._save_checkpoint(estimator)
        self.current_epoch += 1
        return False

    def train_end(self, estimator: Estimator, *args: object, **kwargs: Any) -> None:
        """Waits for the checkpoint that a step still writes."""
        if self.step is not None:
            self.step.wait()

    def state_dict(self) -> dict[str, int]:
        """Returns epoch and batch of the checkpoint that is being saved."""
        return {"epoch": self._saved[0], "batch": self._saved[1]}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Restores epoch and batch as the training progress."""
        self.trained_epoch, self.trained_batch = state["epoch"], state["batch"]

    def _path(self, name: str) -> str:
        return os.path.join(self.model_dir, name)

    def _save_checkpoint(self, estimator: Estimator) -> None:
        epoch, batch = self.current_epoch, self.current_batch
        if self.resume_from_checkpoint:
            epoch += self.trained_epoch + 1
            batch += self.trained_batch + (0 if estimator.max_epoch else 1)
        name = f"{self.model_prefix}-epoch{epoch}batch{batch}"
        self._saved = epoch, batch
        if self.step is None:
            self._save(estimator, name)
            self.saved_checkpoints.append(name)
        else:
            self.step.save(self._path(self.model_prefix), data=self, keep=self.max_checkpoints)
        self._log(estimator, f"trained total {self.current_batch + 1} batches, saving model at {self.model_dir} with "
                             f"prefix: {name}")
        while len(self.saved_checkpoints) > self.max_checkpoints:
            oldest = self.saved_checkpoints.pop(0)
            for ending in (".params", ".states"):
                if os.path.exists(self._path(oldest + ending)):
                    os.remove(self._path(oldest + ending))
        if self.save_best and self.monitor is not None:
            self._save_best(estimator, self.monitor)

    def _save_best(self, estimator: Estimator, monitor: EvalMetric) -> None:
        name, value = _monitored(monitor)
        if np.isnan(value):
            return
        if not self.monitor_op(value, self.best):
            self._log(estimator, f"{name} did not improve from {self.best:.5f}, skipping updating best model")
            return
        prefix = self.model_prefix + "-best"
        self._save(estimator, prefix)
        self._log(estimator, f"{name} improved from {self.best:.5f} to {value:.5f}, updating best model at "
                             f"{self.model_dir} with prefix: {prefix}")
        self.best = value

    def _log(self, estimator: Estimator, message: str) -> None:
        if self.verbose > 0:
            estimator.logger.info("[Epoch %d] CheckpointHandler: %s", self.current_epoch, message)

    def _save(self, estimator: Estimator, name: str) -> None:
        if self.step is not None:
            self.step.save(self._path(name), data=self, keep=1)
            return
        with together():
            estimator.trainer.save_states(self._path(name + ".states"))
            estimator.net.save_parameters(self._path(name + ".params"))  # last: training is resumed where they are

    def _save_symbol(self, estimator: Estimator) -> None:
        path = self._path(self.model_prefix + "-symbol.json")
        graph = getattr(estimator.net, "_cached_graph", None)
        if graph:
            graph[1].save(path)
        else:
            estimator.logger.info("Model architecture(symbol file) is not saved, please use HybridBlock to construct "
                                  "your model, and call net.hybridize() before passing to Estimator in order to save "
                                  "model architecture as %s.", path)

    def _found(self) -> list[tuple[int, int]]:
        """(epoch, batch) of all checkpoints in the folder, ascending; of a step's the last, which is restored."""
        if self.step is not None:
            there = self.step.restore(self._path(self.model_prefix), data=self, missing=-1) >= 0
            return [(self.trained_epoch, self.trained_batch)] if there else []
        pattern = re.compile(re.escape(self.model_prefix) + r"-epoch(\d+)batch(\d+)\.params")
        matches = (pattern.fullmatch(name) for name in os.listdir(self.model_dir))
        return sorted((int(match[1]), int(match[2])) for match in matches if match)

    def _resume(self, estimator: Estimator, limit: str) -> None:
        """Loads the newest checkpoint and subtracts its epochs or batches from the estimator's `limit`."""
        unit_name = limit.removeprefix("max_")
        unit = "epochs" if unit_name == "epoch" else "batches"
        target = getattr(estimator, limit)
        result = self._found()
        if self.step is None:
            self.saved_checkpoints = [f"{self.model_prefix}-epoch{epoch}batch{batch}" for epoch, batch in result]
        if not result:
            estimator.logger.info("CheckpointHandler: No checkpoint found, training from scratch for %d %s", target,
                                  unit)
            return
        self.trained_epoch, self.trained_batch = result[-1]
        done = result[-1][unit_name == "batch"] + 1
        if done >= target:
            raise ValueError(f"Found checkpoint with maximum number of {unit_name} {target} reached, please specify "
                             "resume_from_checkpoint=False (default value) if you want to train from scratch.")
        if self.step is None:
            name = self._path(self.saved_checkpoints[-1])
            if not os.path.exists(name + ".states"):
                raise AssertionError(f"Failed to load checkpoint, {name}.states does not exist")
            estimator.net.load_parameters(name + ".params", ctx=estimator.context)
            estimator.trainer.load_states(name + ".states")
        setattr(estimator, limit, target - done)
        estimator.logger.warning("CheckpointHandler: Checkpoint resumed from epoch %d batch %d, continue to train for "
                                 "%d %s", self.trained_epoch, self.trained_batch, target - done, unit)


class EarlyStoppingHandler(TrainBegin, EpochEnd, TrainEnd):
    """Stops training when a metric has stopped improving.

    Args:
        monitor: the metric.
        min_delta: the smallest change that counts.
        patience: number of epochs to wait for an improvement.
        mode: whether "max" or "min" of the metric is best; "auto": by its name.
        baseline: initial value of the metric to improve on.

    Raises:
        ValueError: `monitor` is not a single metric.
    """

    def __init__(self, monitor: EvalMetric, min_delta: float = 0, patience: int = 0, mode: str = "auto",
                 baseline: float | None = None) -> None:
        if not isinstance(monitor, EvalMetric):
            raise ValueError("Please provide one of the metric objects from estimator.train_metrics and "
                             "estimator.val_metrics as monitor.")
        if isinstance(monitor, CompositeEvalMetric):
            raise ValueError("CompositeEvalMetric is not supported for EarlyStoppingHandler, please specify a simple "
                             "metric instead.")
        self.monitor, self.baseline, self.patience = monitor, baseline, patience
        self.monitor_op = _better(mode, monitor, "EarlyStoppingHandler")
        self.min_delta = min_delta if self.monitor_op is np.greater else -min_delta
        self.wait = self.stopped_epoch = self.current_epoch = 0
        self.stop_training = False

    def train_begin(self, estimator: Estimator, *args: object, **kwargs: Any) -> None:
        """Starts to count."""
        self.wait = self.stopped_epoch = self.current_epoch = 0
        self.stop_training = False
        self.best = _worst(self.monitor_op) if self.baseline is None else self.baseline

    def epoch_end(self, estimator: Estimator, *args: object, **kwargs: Any) -> bool:
        """Returns whether the metric has not improved for too long."""
        _, value = _monitored(self.monitor)
        if self.monitor_op(value - self.min_delta, self.best):
            self.best, self.wait = value, 0
        elif not np.isnan(value):
            self.wait += 1
            if self.wait >= self.patience:
                self.stopped_epoch = self.current_epoch
                self.stop_training = True
        self.current_epoch += 1
        return self.stop_training

    def train_end(self, estimator: Estimator, *args: object, **kwargs: Any) -> None:
        """Logs the end."""
        if self.stopped_epoch > 0:
            estimator.logger.info("[Epoch %d] EarlyStoppingHandler: early stopping due to %s not improving",
                                  self.stopped_epoch, self.monitor.get()[0])


class GradientUpdateHandler(BatchEnd):
    """Updates the parameters after each batch.

    Args:
        priority: handlers with smaller numbers come first.
    """

    def __init__(self, priority: float = -2000) -> None:
        self.priority = priority

    def batch_end(self, estimator: Estimator, *args: object, **kwargs: Any) -> bool:
        """Runs one step of the trainer."""
        loss = kwargs["loss"]
        losses = loss if isinstance(loss, list) else [loss]
        estimator.trainer.step(sum(part.shape[0] for part in losses))
        return False
