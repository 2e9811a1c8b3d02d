"""Callbacks that forward metrics to other services, for `Module.fit` and for estimators."""

from __future__ import annotations

import abc
import itertools
from typing import TYPE_CHECKING, Any

from ..base import MXNetError
from ..gluon.contrib.estimator.event_handler import EpochEnd, TrainBegin

if TYPE_CHECKING:
    from ..gluon.contrib.estimator.estimator import Estimator

__all__ = ["MetricLogger"]


class MetricLogger(TrainBegin, EpochEnd, abc.ABC):
    """Base of callbacks that forward metrics. Subclasses define `log`.

    In `Module.fit` and `score`, use it as a `batch_end_callback` or an `eval_end_callback`. In an
    `Estimator` it is an event handler that forwards the training and validation metrics after each
    epoch.

    Args:
        prefix: prefix of the metrics' names, followed by a dash.
        period: in `fit`, forward metrics at each n-th call, with the number of calls as the step.
            By default at each call, with the epoch as the step.
        priority: order among an estimator's handlers; by default after validation.
    """

    def __init__(self, prefix: str | None = None, period: int | None = None, priority: float = 1000) -> None:
        if period is not None and period < 1:
            raise MXNetError(f"{type(self).__name__}: period must be 1 or more, got {period}")
        self.prefix, self.period, self.priority = prefix, period, priority
        self._calls, self._epochs = itertools.count(1), itertools.count()

    @abc.abstractmethod
    def log(self, values: dict[str, float], step: int) -> None:
        """Forwards metrics.

        Args:
            values: values by metric name.
            step: the epoch, or the number of calls.
        """

    def __call__(self, param: Any) -> None:
        """Forwards the metric of a `BatchEndParam`."""
        call = next(self._calls)
        if param.eval_metric is None or self.period is not None and call % self.period:
            return
        self._hand_on(param.eval_metric.get_name_value(), param.epoch if self.period is None else call)

    def train_begin(self, estimator: Estimator, *args: object, **kwargs: Any) -> None:
        """Resets the count of epochs."""
        self._epochs = itertools.count()

    def epoch_end(self, estimator: Estimator, *args: object, **kwargs: Any) -> bool:
        """Forwards the estimator's metrics."""
        pairs = [pair for metric in [*estimator.train_metrics, *estimator.val_metrics]
                 if getattr(metric, "num_inst", 1) for pair in metric.get_name_value()]  # others were not asked for
        self._hand_on(pairs, next(self._epochs))
        return False

    def _hand_on(self, pairs: list[tuple[str, float]], step: int) -> None:
        begin = "" if self.prefix is None else f"{self.prefix}-"
        self.log({begin + name: float(value) for name, value in pairs}, step)
