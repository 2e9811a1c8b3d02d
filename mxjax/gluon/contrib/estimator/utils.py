"""Metrics of estimators."""

from __future__ import annotations

from collections.abc import Iterable

from .... import level
from ....metric import CompositeEvalMetric, EvalMetric
from ...loss import Loss, SoftmaxCrossEntropyLoss

if level.fix("mxjax.gluon") == 2:
    from ...metric import Accuracy
    from ...metric import Loss as MetricLoss
else:
    from ....metric import Accuracy
    from ....metric import Loss as MetricLoss

__all__: list[str] = []


def _check_metrics(metrics: EvalMetric | list[EvalMetric] | None) -> list[EvalMetric]:
    """A list of metrics out of one, several, a composite one or None.

    Raises:
        ValueError: there is something else among them.
    """
    if isinstance(metrics, CompositeEvalMetric):
        return [single for metric in metrics.metrics for single in _check_metrics(metric)]
    if isinstance(metrics, EvalMetric):
        return [metrics]
    metrics = metrics or []
    if not all(isinstance(metric, EvalMetric) for metric in metrics):
        raise ValueError(f"metrics must be a Metric or a list of Metric, refer to mxnet.metric.EvalMetric: {metrics}")
    return metrics


def _check_handler_metric_ref(handler: object, known_metrics: Iterable[EvalMetric]) -> None:
    """Raises ValueError if a handler has metrics other than the estimator's, which would not be updated."""
    for name in dir(handler):
        if "metric" not in name:
            continue
        reference = getattr(handler, name)
        for metric in reference if isinstance(reference, list) else [reference] if reference else []:
            if metric not in known_metrics:
                raise ValueError(f"Event handler {type(handler).__name__} refers to a metric instance {metric} outside "
                                 "of the known training and validation metrics. Please use the metrics from "
                                 "estimator.train_metrics and estimator.val_metrics instead.")


def _suggest_metric_for_loss(loss: Loss) -> EvalMetric | None:
    """The metric that goes with a loss."""
    return Accuracy() if isinstance(loss, SoftmaxCrossEntropyLoss) else None


def _metric_of_loss(loss: Loss) -> EvalMetric:
    """The mean of a loss, by the name that the level's MXNet gives it."""
    name = type(loss).__name__ if level.current() == 2 else loss.name.rstrip("1234567890")
    return MetricLoss(name)
