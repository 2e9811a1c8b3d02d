"""Callbacks for `fit` and `score`: progress, metrics, checkpoints."""

from __future__ import annotations

import itertools
import logging
import math
import time
from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ._checkpoints import save_checkpoint
from .ndarray import NDArray
from .symbol import Symbol

if TYPE_CHECKING:
    from .ndarray import NDArray
    from .symbol import Symbol

__all__ = ["module_checkpoint", "do_checkpoint", "step_checkpoint", "log_train_metric", "Speedometer", "ProgressBar",
           "LogValidationMetricsCallback"]

Callbacks: TypeAlias = Callable[..., Any] | Sequence[Callable[..., Any]] | None


class Savable(Protocol):
    """A module that can save itself."""

    def save_checkpoint(self, prefix: str, epoch: int, save_optimizer_states: bool = False) -> None:
        """Saves the module after an epoch."""
        ...


BatchEndParam = namedtuple("BatchEndParams", ["epoch", "nbatch", "eval_metric", "locals"])
BatchEndParam.__doc__ = """Arguments of callbacks: epoch, index of the batch, metric, locals of the caller."""


def module_checkpoint(mod: Savable, prefix: str, period: int = 1,
                      save_optimizer_states: bool = False) -> Callable[..., None]:
    """Creates an epoch-end callback that saves a module's checkpoint.

    Args:
        mod: the module.
        prefix: files are `prefix-symbol.json`, `prefix-0001.params`, ...
        period: epochs between two checkpoints.
        save_optimizer_states: also save the optimizer's states, as `prefix-0001.states`.
    """
    period = max(1, int(period))

    def callback(iter_no: int, sym: object = None, arg: object = None, aux: object = None) -> None:
        if (iter_no + 1) % period == 0:
            mod.save_checkpoint(prefix, iter_no + 1, save_optimizer_states)

    return callback


def do_checkpoint(prefix: str, period: int = 1) -> Callable[..., None]:
    """Creates an epoch-end callback that saves the symbol and parameters it receives.

    Args:
        prefix: files are `prefix-symbol.json`, `prefix-0001.params`, ...
        period: epochs between two checkpoints.

    Example:
        >>> save = do_checkpoint("model", period=10)  # module.fit(..., epoch_end_callback=save)
    """
    period = max(1, int(period))

    def callback(iter_no: int, sym: Symbol | None, arg: dict[str, NDArray], aux: dict[str, NDArray]) -> None:
        if (iter_no + 1) % period == 0:
            save_checkpoint(prefix, iter_no + 1, sym, arg, aux)

    return callback


def step_checkpoint(step: Any, directory: str, period: int = 1, keep: int | None = None,
                    data: Any = None) -> Callable[..., None]:
    """Creates a batch-end callback that saves a training step's checkpoint in the background.

    Args:
        step: a `gluon.TrainStep`.
        directory, keep, data: as in its `save`.
        period: batches between two checkpoints.

    Example:
        >>> save = step_checkpoint(step, "checkpoints", period=100, keep=3)  # doctest: +SKIP
    """
    period, batches = max(1, int(period)), itertools.count(1)

    def callback(param: BatchEndParam | None = None) -> None:
        if next(batches) % period == 0:
            step.save(directory, data=data, keep=keep)

    return callback


def log_train_metric(period: int, auto_reset: bool = False) -> Callable[[BatchEndParam], None]:
    """Creates a batch-end callback that logs the training metric.

    Args:
        period: batches between two lines.
        auto_reset: reset the metric after each line.
    """
    def callback(param: BatchEndParam) -> None:
        if param.nbatch % period == 0 and param.eval_metric is not None:
            for name, value in param.eval_metric.get_name_value():
                logging.info("Iter[%d] Batch[%d] Train-%s=%f", param.epoch, param.nbatch, name, value)
            if auto_reset:
                param.eval_metric.reset_local()

    return callback


class Speedometer:
    """A batch-end callback that logs samples per second and the metric.

    Args:
        batch_size: samples in a batch.
        frequent: batches between two lines.
        auto_reset: reset the metric after each line, so that each line covers only its own batches.

    Example:
        >>> meter = Speedometer(batch_size=64, frequent=100)  # module.fit(..., batch_end_callback=meter)
    """

    def __init__(self, batch_size: int, frequent: int = 50, auto_reset: bool = True) -> None:
        self.batch_size = batch_size
        self.frequent = frequent
        self.auto_reset = auto_reset
        self.init = False
        self.tic = 0.0
        self.last_count = 0

    def __call__(self, param: BatchEndParam) -> None:
        count = param.nbatch
        started, self.last_count = self.init and count >= self.last_count, count
        self.init = True
        if started and count % self.frequent:
            return
        if started:
            speed = self.frequent * self.batch_size / max(time.time() - self.tic, 1e-9)
            if param.eval_metric is None:
                logging.info("Iter[%d] Batch [%d]\tSpeed: %.2f samples/sec", param.epoch, count, speed)
            else:
                values = "".join(f"\t{name}={value:f}" for name, value in param.eval_metric.get_name_value())
                first = count - self.frequent if self.auto_reset else 0
                if self.auto_reset:
                    param.eval_metric.reset_local()
                logging.info("Epoch[%d] Batch [%d-%d]\tSpeed: %.2f samples/sec%s", param.epoch, first, count, speed,
                             values)
        self.tic = time.time()


class ProgressBar:
    """A batch-end callback that logs a bar of the epoch's progress.

    Args:
        total: batches in an epoch.
        length: characters of the bar.
    """

    def __init__(self, total: int, length: int = 80) -> None:
        self.bar_len = length
        self.total = total

    def __call__(self, param: BatchEndParam) -> None:
        done = param.nbatch / self.total
        filled = round(self.bar_len * done)
        logging.info("[%s] %s%%\r", "=" * filled + "-" * (self.bar_len - filled), math.ceil(100 * done))


class LogValidationMetricsCallback:
    """An evaluation-end callback that logs the validation metric."""

    def __call__(self, param: BatchEndParam) -> None:
        for name, value in param.eval_metric.get_name_value() if param.eval_metric else ():
            logging.info("Epoch[%d] Validation-%s=%f", param.epoch, name, value)
