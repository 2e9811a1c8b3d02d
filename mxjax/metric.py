"""Metrics, which evaluate predictions and accumulate results over batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeGuard

import numpy

from . import ndarray as ndarray  # libraries take it from here
from . import registry
from .base import MXNetError, Unfit, numeric_types

__all__ = [
    "EvalMetric", "register", "alias", "create", "check_label_shapes", "CompositeEvalMetric", "Accuracy",
    "TopKAccuracy", "F1", "MCC", "Perplexity", "MAE", "MSE", "RMSE", "CrossEntropy", "NegativeLogLikelihood",
    "PearsonCorrelation", "PCC", "Loss", "Torch", "Caffe", "CustomMetric", "np",
]


Array: TypeAlias = ndarray.NDArray | numpy.ndarray
Arrays: TypeAlias = Array | Sequence[Array]


def check_label_shapes(labels: Any, preds: Any, wrap: bool = False, shape: bool = False) -> tuple[Any, Any]:
    """Checks that labels and predictions match.

    Args:
        labels, preds: arrays or lists of arrays.
        wrap: return single arrays as lists of one.
        shape: compare the arrays' shapes rather than the lengths.

    Returns:
        Both, wrapped if `wrap` is set.

    Raises:
        ValueError: they do not match.
    """
    sizes = [x.shape if shape else len(x) for x in (labels, preds)]
    if sizes[0] != sizes[1]:
        what = "shape" if shape else "number"
        raise ValueError(f"{what} of labels {sizes[0]} does not match {what} of predictions {sizes[1]}")
    if wrap:
        labels, preds = ([x] if hasattr(x, "shape") else x for x in (labels, preds))
    return labels, preds


def _need_scores(name: str, pred: numpy.ndarray, what: str) -> None:
    """Raises AxisError, which is a ValueError, unless predictions have a second axis: a score for each class."""
    if pred.ndim < 2:
        raise numpy.exceptions.AxisError(f"{name}: predictions must have the shape {what}, got {pred.shape}")


def _numpy(array: Any) -> numpy.ndarray:
    return array.asnumpy() if hasattr(array, "asnumpy") else numpy.asarray(array)


def _far(array: object) -> TypeGuard[ndarray.NDArray]:
    """Returns whether an array is on an accelerator: less is to be brought from there than all of it."""
    return isinstance(array, ndarray.NDArray) and array.context.memory != "cpu"


def _near(array: object) -> Any:
    """A NumPy array, unless the array is far: then itself, to be made less first."""
    return array if _far(array) else _numpy(array)


def _ratio(total: float, count: float) -> float:
    return total / count if count else float("nan")


class EvalMetric:
    """Base of all metrics: a sum and a count, since `reset` (global) and since `reset_local` (local).

    Subclasses define `update`, which calls `self._add(total, count)`.

    Args:
        name: name of the metric in logs.
        output_names: names of the predictions that `update_dict` uses; None: all.
        label_names: the same for labels.
        **kwargs: the subclass's arguments, which `get_config` returns; `has_global_stats` sets
            whether `get_global` differs from `get`.
    """

    def __init__(self, name: str, output_names: list[str] | None = None, label_names: list[str] | None = None,
                 **kwargs: Any) -> None:
        self.name = str(name)
        self.output_names = output_names
        self.label_names = label_names
        self._has_global_stats = kwargs.pop("has_global_stats", False)
        self._kwargs = kwargs
        self.reset()

    def __str__(self) -> str:
        return f"EvalMetric: {dict(self.get_name_value())}"

    def get_config(self) -> dict[str, Any]:
        """Returns class name and arguments, from which `create` makes an equal metric, also as JSON."""
        return {**self._kwargs, "metric": type(self).__name__, "name": self.name, "output_names": self.output_names,
                "label_names": self.label_names}

    def update_dict(self, label: dict[str, Any], pred: dict[str, Any]) -> None:
        """Like `update`, with arrays by name, selected by `label_names` and `output_names`."""
        labels, preds = (list(arrays.values()) if names is None else [arrays[name] for name in names]
                         for arrays, names in ((label, self.label_names), (pred, self.output_names)))
        self.update(labels, preds)

    def update(self, labels: Arrays, preds: Arrays) -> None:
        """Adds a batch.

        Args:
            labels: list of arrays.
            preds: list of arrays, one per label.
        """
        raise NotImplementedError(f"{type(self).__name__} must define update")

    def _add(self, total: float, count: int) -> None:
        total = float(total)
        self.sum_metric += total
        self.num_inst += count
        self.global_sum_metric += total
        self.global_num_inst += count

    def reset(self) -> None:
        """Resets all statistics."""
        self.global_num_inst = 0
        self.global_sum_metric = 0.0
        self.reset_local()

    def reset_local(self) -> None:
        """Resets the local statistics, which `get` returns, but not the global ones."""
        self.num_inst = 0
        self.sum_metric = 0.0

    def get(self) -> tuple[Any, Any]:
        """Returns (name, value) since the last reset of any kind; NaN before the first update."""
        return self.name, _ratio(self.sum_metric, self.num_inst)

    def get_global(self) -> tuple[Any, Any]:
        """Returns (name, value) since the last `reset`."""
        if not self._has_global_stats:
            return self.get()
        return self.name, _ratio(self.global_sum_metric, self.global_num_inst)

    def get_name_value(self) -> list[tuple[str, float]]:
        """Returns the result of `get` as a list of pairs."""
        return _pairs(self.get())

    def get_global_name_value(self) -> list[tuple[str, float]]:
        """Returns the result of `get_global` as a list of pairs."""
        return _pairs(self.get_global())


def _as_list(x: object) -> list[Any]:
    return x if isinstance(x, list) else [x]


def _pairs(name_value: tuple[Any, Any]) -> list[tuple[str, float]]:
    names, values = map(_as_list, name_value)
    return list(zip(names, values, strict=True))


register = registry.get_register_func(EvalMetric, "metric")
alias = registry.get_alias_func(EvalMetric, "metric")
_create = registry.get_create_func(EvalMetric, "metric")
MetricLike: TypeAlias = EvalMetric | str | dict[str, Any] | Callable[..., Any] | list[Any]  # argument of `create`


def create(metric: MetricLike, *args: Any, **kwargs: Any) -> EvalMetric:
    """Creates a metric from a name or another description.

    Args:
        metric: a name, a configuration (dict or JSON), a metric, a function `feval(label, pred)`, or a list of these.
        *args, **kwargs: arguments of the metric.

    Example:
        >>> create("acc").name, [m.name for m in create(["acc", "f1"]).metrics]
        ('accuracy', ['accuracy', 'f1'])
    """
    if callable(metric):
        return CustomMetric(metric, *args, **kwargs)
    if isinstance(metric, list):
        return CompositeEvalMetric([create(one, *args, **kwargs) for one in metric])
    return _create(metric, *args, **kwargs)


@register
@alias("composite")
class CompositeEvalMetric(EvalMetric):
    """Several metrics as one, whose names and values are lists.

    Args:
        metrics: metrics, or descriptions that `create` accepts.
        name, output_names, label_names: as in `EvalMetric`.
    """

    def __init__(self, metrics: Sequence[Any] | None = None, name: str = "composite",
                 output_names: list[str] | None = None, label_names: list[str] | None = None) -> None:
        self.metrics: list[EvalMetric] = []
        super().__init__(name, output_names, label_names, has_global_stats=True)
        self.metrics = [self._create(metric) for metric in metrics or ()]

    _create = staticmethod(create)

    def add(self, metric: MetricLike) -> None:
        """Adds a metric, or a description that `create` accepts."""
        self.metrics.append(self._create(metric))

    def get_metric(self, index: int) -> EvalMetric:
        """Returns the metric at an index.

        Raises:
            ValueError: the index is out of range.
        """
        try:
            return self.metrics[index]
        except IndexError:
            raise ValueError(f"metric index {index} is out of range: there are {len(self.metrics)} metrics") from None

    def update_dict(  # pyright: ignore[reportIncompatibleMethodOverride]  MXNet's names of the arguments
            self, labels: dict[str, Any], preds: dict[str, Any]) -> None:
        labels, preds = ({key: x for key, x in arrays.items() if names is None or key in names}
                         for arrays, names in ((labels, self.label_names), (preds, self.output_names)))
        for metric in self.metrics:
            metric.update_dict(labels, preds)

    def update(self, labels: Arrays, preds: Arrays) -> None:
        for metric in self.metrics:
            metric.update(labels, preds)

    def reset(self) -> None:
        for metric in self.metrics:
            metric.reset()

    def reset_local(self) -> None:
        for metric in self.metrics:
            metric.reset_local()

    def get(self) -> tuple[list[str], list[float]]:
        return _flattened(metric.get() for metric in self.metrics)

    def get_global(self) -> tuple[list[str], list[float]]:
        return _flattened(metric.get_global() for metric in self.metrics)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "metrics": [metric.get_config() for metric in self.metrics]}


def _flattened(results: Any) -> tuple[list[str], list[float]]:
    names, values = [], []
    for name, value in results:
        names += [name] if isinstance(name, str) else name
        values += [value] if isinstance(value, numeric_types) else value
    return names, values


class _PairMetric(EvalMetric):
    """A metric of single label and prediction arrays: `_score` returns sum and count of a pair."""

    def __init__(self, name: str, output_names: list[str] | None, label_names: list[str] | None,
                 **kwargs: Any) -> None:
        super().__init__(name, output_names, label_names, has_global_stats=True, **kwargs)

    def update(self, labels: Arrays, preds: Arrays) -> None:
        labels, preds = check_label_shapes(labels, preds, wrap=True)
        for label, pred in zip(labels, preds, strict=True):
            self._add(*self._score(_numpy(label), _numpy(pred)))

    def _score(self, label: numpy.ndarray, pred: numpy.ndarray) -> tuple[float, int]:
        """(total, count) of a pair."""
        raise NotImplementedError


@register
@alias("acc")
class Accuracy(_PairMetric):
    """Fraction of correct classes.

    Args:
        axis: of the classes in predictions that have more dimensions than labels.
        name, output_names, label_names: as in `EvalMetric`.

    Example:
        >>> metric = Accuracy()
        >>> metric.update([numpy.array([0, 1, 1])], [numpy.array([[0.7, 0.3], [0, 1], [0.6, 0.4]])])
        >>> round(float(metric.get()[1]), 3)
        0.667
    """

    def __init__(self, axis: int = 1, name: str = "accuracy", output_names: list[str] | None = None,
                 label_names: list[str] | None = None) -> None:
        super().__init__(name, output_names, label_names, axis=axis)
        self.axis = axis

    def update(self, labels: Arrays, preds: Arrays) -> None:
        labels, preds = check_label_shapes(labels, preds, wrap=True)
        for label, pred in zip(labels, preds, strict=True):
            label, pred = _numpy(label), _near(pred)
            if pred.shape != label.shape:
                if not -pred.ndim <= self.axis < pred.ndim:
                    raise MXNetError(f"{self.name}: labels have the shape {label.shape}, so predictions need the axis "
                                     f"{self.axis} of the classes, but their shape is {pred.shape}")
                pred = pred.argmax(axis=self.axis)
            label, pred = (_numpy(array).astype(numpy.int32).ravel() for array in (label, pred))
            check_label_shapes(label, pred)
            self._add((pred == label).sum(), len(pred))


@register
@alias("top_k_accuracy", "top_k_acc")
class TopKAccuracy(_PairMetric):
    """Fraction of labels among the k most likely classes.

    Args:
        top_k: k, at least 2.
        name, output_names, label_names: as in `EvalMetric`; "_k" is appended to the name.
    """

    def __init__(self, top_k: int = 1, name: str = "top_k_accuracy", output_names: list[str] | None = None,
                 label_names: list[str] | None = None) -> None:
        if top_k <= 1:
            raise AssertionError(f"top_k must be greater than 1, got {top_k}; use Accuracy")
        super().__init__(name, output_names, label_names, top_k=top_k)
        self.top_k = top_k
        self.name += f"_{top_k}"

    def _score(self, label: numpy.ndarray, pred: numpy.ndarray) -> tuple[float, int]:
        if pred.ndim > 2:
            raise Unfit(f"{self.name}: predictions must have at most 2 dimensions, got shape {pred.shape}")
        check_label_shapes(label, pred)
        label = label.astype(numpy.int32).ravel()
        order = numpy.argpartition(pred.astype(numpy.float32), -min(self.top_k, pred.shape[-1]))
        hits = order[:, -self.top_k:] == label[:, None] if pred.ndim == 2 else order == label
        return hits.sum(), len(pred)


def _share(part: float, whole: float) -> float:
    return float(part / whole) if whole else 0.0


def _rate(formula: Callable[[numpy.ndarray], float]) -> tuple[property, property]:
    """Returns two properties: the formula's value for the local counts, and for all counts."""
    return property(lambda self: formula(self.table)), property(lambda self: formula(self.global_table))


def _count_at(label: int, pred: int) -> tuple[property, property]:
    return _rate(lambda table: int(table[label, pred]))


class _BinaryClassificationMetrics:
    """Counts [label, prediction] of classes 0 and 1, shape (2, 2), and the rates that follow from them.

    It has MXNet's name, because subclasses of `F1` read the rates of its attribute `metrics`. The names that begin with
    "global" are of the counts that a local reset keeps.
    """

    def __init__(self) -> None:
        self.reset_stats()

    def reset_stats(self) -> None:
        """Sets all counts to 0."""
        self.local_reset_stats()
        self.global_table = numpy.zeros((2, 2))

    def local_reset_stats(self) -> None:
        """Sets the local counts to 0."""
        self.table = numpy.zeros((2, 2))

    def update_binary_stats(self, label: Array, pred: Array) -> None:
        """Counts the samples of a batch.

        Args:
            label: classes 0 and 1, (batch,).
            pred: a score for each class, (batch, 2).

        Raises:
            ValueError: there are other classes.
        """
        labels, scores = _numpy(label), _numpy(pred)
        check_label_shapes(labels, scores)
        labels, predicted = labels.astype(numpy.int32).ravel(), scores.argmax(axis=1)
        if len(numpy.unique(labels)) > 2:
            raise ValueError(f"{type(self).__name__} requires two classes, got the labels "
                             f"{numpy.unique(labels)}")
        counts = numpy.zeros((2, 2))
        numpy.add.at(counts, ((labels == 1).astype(int), (predicted == 1).astype(int)), 1)
        self.table, self.global_table = self.table + counts, self.global_table + counts

    true_negatives, global_true_negatives = _count_at(0, 0)
    false_positives, global_false_positives = _count_at(0, 1)
    false_negatives, global_false_negatives = _count_at(1, 0)
    true_positives, global_true_positives = _count_at(1, 1)
    total_examples, global_total_examples = _rate(lambda table: int(table.sum()))
    precision, global_precision = _rate(lambda table: _share(table[1, 1], table[:, 1].sum()))
    recall, global_recall = _rate(lambda table: _share(table[1, 1], table[1].sum()))
    fscore, global_fscore = _rate(lambda table: _share(2 * table[1, 1], table[1].sum() + table[:, 1].sum()))

    def matthewscc(self, use_global: bool = False) -> float:
        """Returns Matthews' correlation coefficient; sums that are 0 are left out of its denominator."""
        table = self.global_table if use_global else self.table
        sums = numpy.concatenate([table.sum(axis=0), table.sum(axis=1)])
        determinant = table[0, 0] * table[1, 1] - table[0, 1] * table[1, 0]
        return float(determinant / math.sqrt(numpy.prod(sums[sums != 0])))


class _BinaryMetric(EvalMetric):
    """A metric of the counts of true and predicted classes 0 and 1.

    `average` selects the value of `get`: "macro" the mean of the updates' values, else the value of all samples.
    """

    def __init__(self, name: str, output_names: list[str] | None, label_names: list[str] | None,
                 average: str) -> None:
        self._average, self._metrics = average, _BinaryClassificationMetrics()
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def _value(self, use_global: bool) -> float:
        """The value for the counts since the last local reset, or for all."""
        raise NotImplementedError

    def update(self, labels: Arrays, preds: Arrays) -> None:
        labels, preds = check_label_shapes(labels, preds, wrap=True)
        counts = self._metrics
        for label, pred in zip(labels, preds, strict=True):
            scores = _numpy(pred)
            _need_scores(self.name, scores, "(batch, 2), one score per class")
            counts.update_binary_stats(label, scores)
        if self._average == "macro":
            self._add(self._value(False), 1)
            counts.reset_stats()
            return
        self.num_inst, self.global_num_inst = counts.total_examples, counts.global_total_examples
        self.sum_metric = self._value(False) * self.num_inst
        self.global_sum_metric = self._value(True) * self.global_num_inst

    def reset(self) -> None:
        self._metrics.reset_stats()
        super().reset()

    def reset_local(self) -> None:
        self._metrics.local_reset_stats()
        super().reset_local()


@register
class F1(_BinaryMetric):
    """Harmonic mean of precision and recall, for labels 0 and 1 and predictions (batch, 2).

    Args:
        name, output_names, label_names: as in `EvalMetric`.
        average: "macro" for the mean of the updates' scores, "micro" for the score of all samples together.
    """

    def __init__(self, name: str = "f1", output_names: list[str] | None = None,
                 label_names: list[str] | None = None, average: str = "macro") -> None:
        super().__init__(name, output_names, label_names, average)
        self.average = average
        self.metrics = self._metrics

    def _value(self, use_global: bool) -> float:
        return self._metrics.global_fscore if use_global else self._metrics.fscore


@register
class MCC(_BinaryMetric):
    """Matthews correlation coefficient, for labels 0 and 1 and predictions (batch, 2).

    Args:
        name, output_names, label_names: as in `EvalMetric`.
        average: "macro" for the mean of the updates' scores, "micro" for the score of all samples together.

    Source:
        Matthews, 1975. The denominator omits sums that are 0.
    """

    def __init__(self, name: str = "mcc", output_names: list[str] | None = None,
                 label_names: list[str] | None = None, average: str = "macro") -> None:
        super().__init__(name, output_names, label_names, average)

    def _value(self, use_global: bool) -> float:
        return self._metrics.matthewscc(use_global)


def _picked(pred: Array, label: numpy.ndarray, axis: int) -> numpy.ndarray:
    """The labels' probabilities; where a label is out of range, the nearest one's, as `pick` has them."""
    if _far(pred) and axis in (-1, pred.ndim - 1):
        places = ndarray.array(label, ctx=pred.context)
        return ndarray.pick(pred.as_nd_ndarray().reshape((-1, pred.shape[-1])), places).asnumpy()
    pred = numpy.moveaxis(_numpy(pred), axis, -1)  # another axis than the last may be far still
    classes = label.astype(numpy.int64).clip(0, pred.shape[-1] - 1)
    return pred.reshape(-1, pred.shape[-1])[numpy.arange(label.size), classes]


@register
class Perplexity(EvalMetric):
    """exp(mean of -log probability of the label).

    Args:
        ignore_label: a label to ignore; None: none.
        axis: of the classes.
        name, output_names, label_names: as in `EvalMetric`.
    """

    def __init__(self, ignore_label: int | None, axis: int = -1, name: str = "perplexity",
                 output_names: list[str] | None = None, label_names: list[str] | None = None) -> None:
        super().__init__(name, output_names, label_names, has_global_stats=True, ignore_label=ignore_label)
        self.ignore_label = ignore_label
        self.axis = axis

    def update(self, labels: Arrays, preds: Arrays) -> None:
        check_label_shapes(labels, preds)
        for label, pred in zip(labels, preds, strict=True):
            label, pred = _numpy(label), _near(pred)
            if label.size != pred.size // pred.shape[-1]:
                raise Unfit(f"{self.name}: labels of shape {label.shape} do not match predictions of shape "
                                 f"{pred.shape}")
            prob = _picked(pred, label.ravel(), self.axis)
            counted = numpy.ones(label.size, bool) if self.ignore_label is None else label.ravel() != self.ignore_label
            loss = -numpy.log(numpy.maximum(1e-10, prob[counted])).sum()
            self._add(loss, int(counted.sum()))

    def get(self) -> tuple[str, float]:
        return self.name, math.exp(super().get()[1])

    def get_global(self) -> tuple[str, float]:
        return self.name, math.exp(super().get_global()[1])


class _ErrorMetric(_PairMetric):
    """The mean of a function of label - prediction, averaged over updates."""

    def _score(self, label: numpy.ndarray, pred: numpy.ndarray) -> tuple[float, int]:
        label, pred = (x.reshape(-1, 1) if x.ndim == 1 else x for x in (label, pred))
        return self._mean_error(label - pred), 1

    def _mean_error(self, error: numpy.ndarray) -> float:
        raise NotImplementedError


@register
class MAE(_ErrorMetric):
    """Mean absolute error, averaged over updates; arguments as in `EvalMetric`."""

    def __init__(self, name: str = "mae", output_names: list[str] | None = None,
                 label_names: list[str] | None = None) -> None:
        super().__init__(name, output_names, label_names)

    def _mean_error(self, error: numpy.ndarray) -> float:
        return numpy.abs(error).mean()


@register
class MSE(_ErrorMetric):
    """Mean squared error, averaged over updates; arguments as in `EvalMetric`."""

    def __init__(self, name: str = "mse", output_names: list[str] | None = None,
                 label_names: list[str] | None = None) -> None:
        super().__init__(name, output_names, label_names)

    def _mean_error(self, error: numpy.ndarray) -> float:
        return (error ** 2).mean()


@register
class RMSE(_ErrorMetric):
    """Root of the mean squared error, averaged over updates; arguments as in `EvalMetric`."""

    def __init__(self, name: str = "rmse", output_names: list[str] | None = None,
                 label_names: list[str] | None = None) -> None:
        super().__init__(name, output_names, label_names)

    def _mean_error(self, error: numpy.ndarray) -> float:
        return numpy.sqrt((error ** 2).mean())


class _LogLoss(_PairMetric):
    """Mean of -log(probability of the label + eps), for predictions (batch, classes)."""

    def __init__(self, eps: float, name: str, output_names: list[str] | None, label_names: list[str] | None) -> None:
        super().__init__(name, output_names, label_names, eps=eps)
        self.eps = eps

    def _score(self, label: numpy.ndarray, pred: numpy.ndarray) -> tuple[float, int]:
        label = label.ravel()
        if len(label) != len(pred):
            raise Unfit(f"{self.name}: {len(label)} labels do not match predictions of shape {pred.shape}")
        _need_scores(self.name, pred, "(batch, classes), one probability per class")
        if len(label) and not -pred.shape[1] <= label.min() <= label.max() < pred.shape[1]:
            raise IndexError(f"{self.name}: the labels range from {label.min()} to {label.max()}, but the predictions "
                             f"have {pred.shape[1]} classes")
        prob = pred[numpy.arange(len(label)), label.astype(numpy.int64)]
        return -numpy.log(prob + self.eps).sum(), len(label)


@register
@alias("ce")
class CrossEntropy(_LogLoss):
    """Mean of -log(probability of the label).

    Args:
        eps: added to the probability.
        name, output_names, label_names: as in `EvalMetric`.
    """

    def __init__(self, eps: float = 1e-12, name: str = "cross-entropy", output_names: list[str] | None = None,
                 label_names: list[str] | None = None) -> None:
        super().__init__(eps, name, output_names, label_names)


@register
@alias("nll_loss")
class NegativeLogLikelihood(_LogLoss):
    """Mean of -log(probability of the label): the same as `CrossEntropy`.

    Args:
        eps: added to the probability.
        name, output_names, label_names: as in `EvalMetric`.
    """

    def __init__(self, eps: float = 1e-12, name: str = "nll-loss", output_names: list[str] | None = None,
                 label_names: list[str] | None = None) -> None:
        super().__init__(eps, name, output_names, label_names)


@register
@alias("pearsonr")
class PearsonCorrelation(EvalMetric):
    """Pearson's correlation of label and prediction, over all their elements.

    Args:
        name, output_names, label_names: as in `EvalMetric`.
        average: "macro" for the mean of the updates' correlations, "micro" for that of all elements together
            (by Welford's running sums, which reset only with `reset`).
    """

    def __init__(self, name: str = "pearsonr", output_names: list[str] | None = None,
                 label_names: list[str] | None = None, average: str = "macro") -> None:
        self.average = average
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def reset_micro(self) -> None:
        """Resets the running sums."""
        self._label_nums, self._mean_l, self._sse_l = 0, 0.0, 0.0
        self._pred_nums, self._mean_p, self._sse_p = 0, 0.0, 0.0
        self._conv = 0.0

    def reset(self) -> None:
        super().reset()
        self.reset_micro()

    def update_variance(self, new_values: numpy.ndarray, *aggregate: float) -> tuple[float, float, float]:
        """Adds new values to (count, mean, sum of squared deviations).

        Args:
            new_values: 1-d.
            *aggregate: the previous three numbers.
        """
        count, mean, sse = aggregate
        count += len(new_values)
        before = new_values - mean
        mean += numpy.sum(before / count)
        return count, mean, sse + numpy.sum(before * (new_values - mean))

    def update_cov(self, label: numpy.ndarray, pred: numpy.ndarray) -> None:
        """Adds products of deviations; call it between the updates of the two means."""
        self._conv += numpy.sum((label - self._mean_l) * (pred - self._mean_p))

    def update(self, labels: Arrays, preds: Arrays) -> None:
        labels, preds = check_label_shapes(labels, preds, wrap=True)
        for label, pred in zip(labels, preds, strict=True):
            check_label_shapes(label, pred, shape=True)
            label, pred = (_numpy(x).ravel().astype(numpy.float64) for x in (label, pred))
            if self.average == "macro":
                self._add(numpy.corrcoef(pred, label)[0, 1], 1)
                continue
            self._add(0.0, 1)
            self._label_nums, self._mean_l, self._sse_l = self.update_variance(label, self._label_nums, self._mean_l,
                                                                               self._sse_l)
            self.update_cov(label, pred)
            self._pred_nums, self._mean_p, self._sse_p = self.update_variance(pred, self._pred_nums, self._mean_p,
                                                                              self._sse_p)

    def get(self) -> tuple[str, float]:
        if self.average == "macro" or not self.num_inst:
            return super().get()
        return self.name, float(self._conv / numpy.sqrt(self._sse_p * self._sse_l))


@register
class PCC(EvalMetric):
    """Matthews correlation coefficient for any number of classes: the discrete form of Pearson's.

    Args:
        name, output_names, label_names, has_global_stats: as in `EvalMetric`.

    Source:
        Gorodkin, Comparing two K-category assignments by a K-category correlation coefficient, 2004.
    """

    def __init__(self, name: str = "pcc", output_names: list[str] | None = None,
                 label_names: list[str] | None = None, has_global_stats: bool = True) -> None:
        self.k = 2
        super().__init__(name, output_names, label_names, has_global_stats=has_global_stats)

    def _calc_mcc(self, table: numpy.ndarray) -> float:
        total, preds, labels = table.sum(), table.sum(axis=1), table.sum(axis=0)
        spread_p, spread_l = (numpy.sum(x * (total - x)) for x in (preds, labels))
        if spread_p == 0 or spread_l == 0:
            return float("nan")
        return float(numpy.sum(table.diagonal() * total - preds * labels) / (spread_p * spread_l) ** 0.5)

    def update(self, labels: Arrays, preds: Arrays) -> None:
        labels, preds = check_label_shapes(labels, preds, wrap=True)
        for label, pred in zip(labels, preds, strict=True):
            label, pred = _numpy(label).astype(numpy.int32), _numpy(pred)
            if pred.shape != label.shape:
                check_label_shapes(label, pred)
                _need_scores(self.name, pred, "(batch, classes) or that of the labels")
                pred = pred.argmax(axis=1)
            pred = pred.astype(numpy.int32)
            grown = max(self.k, int(pred.max()) + 1, int(label.max()) + 1) - self.k
            if grown:
                self.lcm, self.gcm = (numpy.pad(table, (0, grown)) for table in (self.lcm, self.gcm))
                self.k += grown
            for table in (self.lcm, self.gcm):
                numpy.add.at(table, (pred.ravel(), label.ravel()), 1)
        self.num_inst += 1
        self.global_num_inst += 1

    @property
    def sum_metric(self) -> float:
        """Returns the local value times the number of updates."""
        return self._calc_mcc(self.lcm) * self.num_inst

    @property
    def global_sum_metric(self) -> float:
        """Returns the global value times the number of updates."""
        return self._calc_mcc(self.gcm) * self.global_num_inst

    def reset(self) -> None:
        self.global_num_inst = 0
        self.gcm = numpy.zeros((self.k, self.k))
        self.reset_local()

    def reset_local(self) -> None:
        self.num_inst = 0
        self.lcm = numpy.zeros((self.k, self.k))


@register
class Loss(EvalMetric):
    """Mean of the predictions, which are losses; arguments as in `EvalMetric`."""

    def __init__(self, name: str = "loss", output_names: list[str] | None = None,
                 label_names: list[str] | None = None) -> None:
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def update(self, labels: object, preds: Arrays) -> None:
        for pred in [preds] if hasattr(preds, "shape") else preds:
            pred = _near(pred)
            self._add(_numpy(pred.sum()).item(), pred.size)


@register
class Torch(Loss):
    """`Loss` under the name that Torch criteria used; arguments as in `EvalMetric`."""

    def __init__(self, name: str = "torch", output_names: list[str] | None = None,
                 label_names: list[str] | None = None) -> None:
        super().__init__(name, output_names, label_names)


@register
class Caffe(Loss):
    """`Loss` under the name that Caffe criteria used; arguments as in `EvalMetric`."""

    def __init__(self, name: str = "caffe", output_names: list[str] | None = None,
                 label_names: list[str] | None = None) -> None:
        super().__init__(name, output_names, label_names)


@register
class CustomMetric(EvalMetric):
    """Wraps a function as a metric.

    Args:
        feval: `feval(label, pred)` of NumPy arrays; returns a value, or (sum, count).
        name: name of the metric; by default the function's.
        allow_extra_outputs: allow more predictions than labels; the first ones are used.
        output_names, label_names: as in `EvalMetric`.
    """

    def __init__(self, feval: Callable[[numpy.ndarray, numpy.ndarray], Any], name: str | None = None,
                 allow_extra_outputs: bool = False, output_names: list[str] | None = None,
                 label_names: list[str] | None = None) -> None:
        if name is None:
            name = feval.__name__
            name = f"custom({name})" if "<" in name else name
        super().__init__(name, output_names, label_names, has_global_stats=True, feval=feval,
                         allow_extra_outputs=allow_extra_outputs)
        self._feval = feval
        self._allow_extra_outputs = allow_extra_outputs

    def update(self, labels: Arrays, preds: Arrays) -> None:
        if not self._allow_extra_outputs:
            labels, preds = check_label_shapes(labels, preds, wrap=True)
        for label, pred in zip(labels, preds, strict=False):
            result = self._feval(*self._arguments(label, pred))
            self._add(*(result if isinstance(result, tuple) else (result, 1)))

    def _arguments(self, *arrays: Array) -> Sequence[Any]:
        """Label and prediction as the function gets them."""
        return [_numpy(x) for x in arrays]

    def get_config(self) -> dict[str, Any]:
        """Not supported, because functions cannot be serialized."""
        raise NotImplementedError("CustomMetric cannot be serialized")


def np(numpy_feval: Callable[[numpy.ndarray, numpy.ndarray], Any], name: str | None = None,
       allow_extra_outputs: bool = False) -> CustomMetric:
    """Creates a metric from a function of NumPy arrays.

    Args:
        numpy_feval: `numpy_feval(label, pred)`; returns a value, or (sum, count).
        name: name of the metric; by default the function's.
        allow_extra_outputs: allow more predictions than labels.

    Example:
        >>> metric = mx.metric.np(lambda label, pred: float((label == pred).mean()), name="equal")
        >>> metric.update([np.ones(2)], [np.ones(2)])
        >>> metric.get()
        ('equal', 1.0)
    """
    def feval(label: numpy.ndarray, pred: numpy.ndarray) -> Any:
        return numpy_feval(label, pred)

    feval.__name__ = numpy_feval.__name__
    return CustomMetric(feval, name, allow_extra_outputs)
