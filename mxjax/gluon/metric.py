"""The metrics of MXNet 2 (`mx.gluon.metric`): other defaults, more class types, means over samples.

Classes that behave alike in both versions are those of `mx.metric`, with the arguments of MXNet 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from .. import metric as _base
from .. import ndarray, registry
from .. import numpy as _np
from ..metric import _far, _numpy, _PairMetric, _picked, check_label_shapes

__all__ = [
    "EvalMetric", "register", "alias", "create", "check_label_shapes", "CompositeEvalMetric", "Accuracy",
    "TopKAccuracy", "predict_with_threshold", "one_hot", "F1", "Fbeta", "BinaryAccuracy", "MCC", "MAE", "MSE",
    "RMSE", "MeanPairwiseDistance", "MeanCosineSimilarity", "CrossEntropy", "Perplexity", "PearsonCorrelation",
    "PCC", "Loss", "Torch", "CustomMetric", "np",
]

_Names = list[str] | None


class EvalMetric(_base.EvalMetric):
    """Base of these metrics, which have a separate registry; arguments as in `mx.metric.EvalMetric`."""


register = registry.get_register_func(EvalMetric, "metric")
alias = registry.get_alias_func(EvalMetric, "metric")
_create = registry.get_create_func(EvalMetric, "metric")


def create(metric: str | dict[str, Any] | EvalMetric | Callable[..., Any] | list[Any], *args: Any,
           **kwargs: Any) -> EvalMetric:
    """Creates a metric from a name or another description.

    Args:
        metric: a name, a configuration (dict or JSON), a metric, a function `feval(label, pred)`, or a list of these.
        *args, **kwargs: arguments of the metric.

    Example:
        >>> create("f1").average, [m.name for m in create(["acc", "fbeta"]).metrics]
        ('micro', ['accuracy', 'fbeta'])
    """
    if callable(metric):
        return CustomMetric(metric, *args, **kwargs)
    if isinstance(metric, list):
        return CompositeEvalMetric([create(one, *args, **kwargs) for one in metric])
    return _create(metric, *args, **kwargs)


@register
@alias("composite")
class CompositeEvalMetric(  # pyright: ignore[reportIncompatibleMethodOverride]  as `mx.metric`'s
        _base.CompositeEvalMetric, EvalMetric):
    """Several metrics as one, whose names and values are lists.

    Args:
        metrics: metrics, or descriptions that `create` accepts.
        name, output_names, label_names: as in `EvalMetric`.
    """

    _create = staticmethod(create)


@register
@alias("acc")
class Accuracy(_base.Accuracy, EvalMetric):
    """Fraction of correct classes; arguments as in `mx.metric.Accuracy`."""


@register
@alias("top_k_accuracy", "top_k_acc")
class TopKAccuracy(_base.TopKAccuracy, EvalMetric):
    """Fraction of labels among the k most likely classes; arguments as in `mx.metric.TopKAccuracy`."""


def predict_with_threshold(pred: Any, threshold: float | ndarray.NDArray | numpy.ndarray = 0.5) -> Any:
    """Returns booleans that are true where predictions exceed a threshold.

    Args:
        pred: array (..., classes).
        threshold: a float, or an array with one threshold per class.

    Raises:
        ValueError: the threshold is neither a float nor an array.
        AssertionError: the number of thresholds differs from the number of classes.
    """
    if not isinstance(threshold, float | ndarray.NDArray | numpy.ndarray):
        raise ValueError(f"threshold must be a float or an array, got {type(threshold).__name__}")
    if not isinstance(threshold, float) and threshold.shape[-1:] != pred.shape[-1:]:
        raise AssertionError(f"expected one threshold per class {pred.shape[-1:]}, got {threshold.shape[-1:]}")
    return pred > (_numpy(threshold) if isinstance(pred, numpy.ndarray) else threshold)


def one_hot(idx: Any, num: int) -> Any:
    """Returns one-hot rows: 1 at an index, 0 elsewhere.

    Args:
        idx: the indices, shape (n,).
        num: length of a row.

    Returns:
        An int32 array (n, num).
    """
    return (_np.arange(num).astype(idx.dtype) == idx[:, None]).astype("int32")


class _Counts:
    """True and false positives and negatives for each class, and scores computed from them."""

    def __init__(self, class_type: str = "binary", threshold: float | ndarray.NDArray | numpy.ndarray = 0.5,
                 beta: float = 1) -> None:
        self.class_type = class_type
        self.threshold = threshold
        self.beta = beta
        self.reset_stats()

    def reset_stats(self) -> None:
        """Resets all counts."""
        self.num_classes: int | None = None
        self.true_positives, self.false_negatives, self.false_positives, self.true_negatives = numpy.zeros((4, 1))

    def update_stats(self, label: Any, pred: Any) -> None:
        """Adds a label and a prediction to the counts; the class type determines their shapes."""
        label, pred = _numpy(label).astype(numpy.int32), _numpy(pred)
        forms = {"binary": self._binary, "multiclass": self._multiclass, "multilabel": self._multilabel}
        if self.class_type not in forms:
            raise ValueError(f"class_type must be one of {', '.join(forms)}, got {self.class_type!r}")
        label, pred = forms[self.class_type](label, pred)
        check_label_shapes(label, pred)
        self.true_positives += ((pred == 1) & (label == 1)).sum(0)
        self.false_positives += ((pred == 1) & (label == 0)).sum(0)
        self.false_negatives += ((pred == 0) & (label == 1)).sum(0)
        self.true_negatives += ((pred == 0) & (label == 0)).sum(0)

    def _of(self, num_classes: int) -> None:
        if self.num_classes is None:
            self.num_classes = num_classes
            self.true_positives, self.false_negatives, self.false_positives, self.true_negatives = \
                numpy.zeros((4, num_classes))
        elif self.num_classes != num_classes:
            raise AssertionError(f"expected predictions of {self.num_classes} classes, as before, got {num_classes}")

    def _binary(self, label: numpy.ndarray, pred: numpy.ndarray) -> tuple[numpy.ndarray, numpy.ndarray]:
        self._of(1)
        if label.size and label.max() > 1:
            raise ValueError(f"labels of two classes must be 0 or 1, got {label.max()}")
        if pred.shape != label.shape:
            if pred.shape[-1] > 2:
                raise ValueError(f"predictions of two classes must have the shape (..., 2) or that of the labels, got "
                                 f"{pred.shape}")
            if pred.shape[-1] == 2:
                pred = pred.reshape(-1, 2)[:, 1]
        return label.reshape(-1, 1), predict_with_threshold(pred, self.threshold).reshape(-1, 1)

    def _multiclass(self, label: numpy.ndarray, pred: numpy.ndarray) -> tuple[numpy.ndarray, numpy.ndarray]:
        num = pred.shape[-1]
        self._of(num)
        if label.size and label.max() >= num:
            raise AssertionError(f"the predictions have {num} classes, but the largest label is {label.max()}")
        classes = numpy.arange(num)
        return label.reshape(-1, 1) == classes, pred.argmax(axis=-1).reshape(-1, 1) == classes

    def _multilabel(self, label: numpy.ndarray, pred: numpy.ndarray) -> tuple[numpy.ndarray, numpy.ndarray]:
        self._of(pred.shape[-1])
        if label.shape != pred.shape:
            raise AssertionError(f"labels of shape {label.shape} must have the shape of the predictions, {pred.shape}")
        return (label.reshape(-1, label.shape[-1]),
                predict_with_threshold(pred, self.threshold).reshape(-1, label.shape[-1]))

    @property
    def total_examples(self) -> int:
        """The number of samples."""
        return int(self.true_positives[0] + self.false_positives[0] + self.false_negatives[0] + self.true_negatives[0])

    @property
    def precision(self) -> numpy.ndarray:
        """Precision of each class."""
        return self.true_positives / numpy.maximum(self.true_positives + self.false_positives, 1e-12)

    @property
    def recall(self) -> numpy.ndarray:
        """Recall of each class."""
        return self.true_positives / numpy.maximum(self.true_positives + self.false_negatives, 1e-12)

    @property
    def fscore(self) -> numpy.ndarray:
        """The F score of each class."""
        weight = self.beta ** 2
        return (1 + weight) * self.precision * self.recall / numpy.maximum(weight * self.precision + self.recall, 1e-12)

    @property
    def micro_precision(self) -> float:
        """The precision of the sums over all classes."""
        hits = self.true_positives.sum()
        return float(hits / (hits + self.false_positives.sum())) if hits else 0.0

    @property
    def micro_recall(self) -> float:
        """The recall of the sums over all classes."""
        hits = self.true_positives.sum()
        return float(hits / (hits + self.false_negatives.sum())) if hits else 0.0

    @property
    def micro_fscore(self) -> float:
        """The F score of the sums over all classes."""
        weight, hits = self.beta ** 2, self.true_positives.sum()
        below = (1 + weight) * hits + weight * self.false_negatives.sum() + self.false_positives.sum()
        return float((1 + weight) * hits / below) if hits else 0.0

    def binary_matthewscc(self) -> float:
        """Matthews correlation coefficient of two classes; the denominator omits sums that are 0."""
        hit, wrong, missed, right = (float(x[0]) for x in (self.true_positives, self.false_positives,
                                                           self.false_negatives, self.true_negatives))
        sums = [x for x in (hit + wrong, hit + missed, right + wrong, right + missed) if x]
        return (hit * right - wrong * missed) / math.sqrt(math.prod(sums))


class _CountMetric(EvalMetric):
    """A metric of all counts together."""

    def __init__(self, counts: _Counts, name: str, output_names: _Names, label_names: _Names, **kwargs: Any) -> None:
        self.metrics = counts
        super().__init__(name, output_names, label_names, **kwargs)

    def update(self, labels: Any, preds: Any) -> None:
        labels, preds = check_label_shapes(labels, preds, wrap=True)
        for label, pred in zip(labels, preds, strict=True):
            self.metrics.update_stats(label, pred)
        self.num_inst = self.metrics.total_examples
        self.sum_metric = self._value() * self.num_inst

    def _value(self) -> Any:
        """Returns the score of the counts, one for each class."""
        raise NotImplementedError(f"{type(self).__name__} must define _value")

    def reset_local(self) -> None:
        self.metrics.reset_stats()
        super().reset_local()


@register
class F1(_CountMetric):
    """Harmonic mean of precision and recall over all samples.

    Args:
        name, output_names, label_names: as in `EvalMetric`.
        class_type: "binary" for labels 0 and 1, predictions (batch, 2) or probabilities of 1; "multiclass" for
            predictions (batch, classes); "multilabel" for labels and predictions (batch, classes).
        threshold: probability from which a class is predicted; unused for "multiclass".
        average: "micro" for the score of the counts of all classes together, "macro" for the mean
            of the classes' scores, None for an array of the scores.

    Example:
        >>> metric = F1(class_type="multiclass", average=None)
        >>> metric.update([mx.nd.array([0, 1])], [mx.nd.array([[0.1, 0.7, 0.2], [0.1, 0.8, 0.1]])])
        >>> [round(score, 3) for score in metric.get()[1].tolist()]
        [0.0, 0.667, 0.0]
    """

    def __init__(self, name: str = "f1", output_names: _Names = None, label_names: _Names = None,
                 class_type: str = "binary", threshold: float | ndarray.NDArray | numpy.ndarray = 0.5,
                 average: str | None = "micro") -> None:
        self.average = average
        super().__init__(_Counts(class_type, threshold), name, output_names, label_names)

    def _value(self) -> Any:
        if self.average == "micro":
            return self.metrics.micro_fscore
        scores = self.metrics.fscore
        return float(scores.mean()) if self.average == "macro" else _np.array(scores, dtype="float64")


@register
class Fbeta(F1):
    """Mean of precision and recall over all samples, with recall weighted beta times as much.

    Args:
        name, output_names, label_names: as in `EvalMetric`.
        class_type, threshold, average: as in `F1`.
        beta: weight of recall.
    """

    def __init__(self, name: str = "fbeta", output_names: _Names = None, label_names: _Names = None,
                 class_type: str = "binary", beta: float = 1, threshold: float | ndarray.NDArray | numpy.ndarray = 0.5,
                 average: str | None = "micro") -> None:
        super().__init__(name, output_names, label_names, class_type, threshold, average)
        self.metrics.beta = beta


@register
class BinaryAccuracy(_PairMetric, EvalMetric):
    """Fraction of predictions on the correct side of a threshold, for labels 0 and 1.

    Args:
        name, output_names, label_names: as in `EvalMetric`.
        threshold: predictions above count as 1.
    """

    def __init__(self, name: str = "binary_accuracy", output_names: _Names = None, label_names: _Names = None,
                 threshold: float | ndarray.NDArray | numpy.ndarray = 0.5) -> None:
        self.threshold = threshold
        super().__init__(name, output_names, label_names)

    def _score(self, label: numpy.ndarray, pred: numpy.ndarray) -> tuple[float, int]:
        label, pred = label.astype(numpy.int32).ravel(), predict_with_threshold(pred, self.threshold).ravel()
        check_label_shapes(label, pred)
        return (pred == label).sum(), len(pred)


@register
class MCC(_CountMetric):
    """Matthews correlation coefficient of all samples, for labels 0 and 1; arguments as in `EvalMetric`."""

    def __init__(self, name: str = "mcc", output_names: _Names = None, label_names: _Names = None) -> None:
        super().__init__(_Counts(), name, output_names, label_names)

    def _value(self) -> float:
        return self.metrics.binary_matthewscc()


class _MeanError(_PairMetric, EvalMetric):
    """The mean over samples of a function of label - prediction."""

    def _score(self, label: numpy.ndarray, pred: numpy.ndarray) -> tuple[float, int]:
        error = self._error(label - pred)
        return error.reshape(len(label), -1).mean(axis=-1).sum(), len(label)

    def _error(self, difference: numpy.ndarray) -> numpy.ndarray:
        return difference ** 2


@register
class MAE(_MeanError):
    """Mean absolute error over samples; arguments as in `EvalMetric`."""

    def __init__(self, name: str = "mae", output_names: _Names = None, label_names: _Names = None) -> None:
        super().__init__(name, output_names, label_names)

    def _error(self, difference: numpy.ndarray) -> numpy.ndarray:
        return numpy.abs(difference)


@register
class MSE(_MeanError):
    """Mean squared error over samples; arguments as in `EvalMetric`."""

    def __init__(self, name: str = "mse", output_names: _Names = None, label_names: _Names = None) -> None:
        super().__init__(name, output_names, label_names)


@register
class RMSE(MSE):
    """Root of the mean squared error over samples; arguments as in `EvalMetric`."""

    def __init__(self, name: str = "rmse", output_names: _Names = None, label_names: _Names = None) -> None:
        super().__init__(name, output_names, label_names)

    def get(self) -> tuple[str, float]:
        return self.name, math.sqrt(super().get()[1])

    def get_global(self) -> tuple[str, float]:
        return self.name, math.sqrt(super().get_global()[1])


@register
class MeanPairwiseDistance(_PairMetric, EvalMetric):
    """Mean over samples of the distance between label and prediction.

    Args:
        name, output_names, label_names: as in `EvalMetric`.
        p: order of the norm (sum of differences^p)^(1/p), without absolute values.
    """

    def __init__(self, name: str = "mpd", output_names: _Names = None, label_names: _Names = None,
                 p: float = 2) -> None:
        super().__init__(name, output_names, label_names)
        self.p = p

    def _score(self, label: numpy.ndarray, pred: numpy.ndarray) -> tuple[float, int]:
        label, pred = (x.reshape(len(x), -1) for x in (label, pred))
        return (((label - pred) ** self.p).sum(axis=-1) ** (1 / self.p)).sum(), len(label)


@register
class MeanCosineSimilarity(_PairMetric, EvalMetric):
    """Mean cosine of the angles between labels and predictions, along their last axis.

    Args:
        name, output_names, label_names: as in `EvalMetric`.
        eps: the smallest denominator.
    """

    def __init__(self, name: str = "cos_sim", output_names: _Names = None, label_names: _Names = None,
                 eps: float = 1e-8) -> None:
        super().__init__(name, output_names, label_names)
        self.eps = eps

    def _score(self, label: numpy.ndarray, pred: numpy.ndarray) -> tuple[float, int]:
        label, pred = numpy.atleast_2d(label), numpy.atleast_2d(pred)
        lengths = numpy.linalg.norm(pred, axis=-1) * numpy.linalg.norm(label, axis=-1)
        return ((label * pred).sum(axis=-1) / numpy.maximum(lengths, self.eps)).sum(), label.size // label.shape[-1]


@register
@alias("ce")
class CrossEntropy(EvalMetric):
    """Mean of -log(probability of the label).

    Args:
        eps: the smallest probability.
        ignore_label: a label to ignore; None: none.
        axis: of the classes.
        from_logits: predictions are logits, before the softmax.
        name, output_names, label_names: as in `EvalMetric`.
    """

    def __init__(self, eps: float = 1e-12, ignore_label: int | None = None, axis: int = -1, from_logits: bool = False,
                 name: str = "cross-entropy", output_names: _Names = None, label_names: _Names = None) -> None:
        super().__init__(name, output_names, label_names, has_global_stats=True)
        self.eps = eps
        self.ignore_label = ignore_label
        self.axis = axis
        self.from_logits = from_logits

    def update(self, labels: Any, preds: Any) -> None:
        labels, preds = check_label_shapes(labels, preds, wrap=True)
        for label, pred in zip(labels, preds, strict=True):
            label = _numpy(label)
            if label.size != pred.size // pred.shape[-1]:
                raise AssertionError(f"{self.name}: labels of shape {label.shape} do not match predictions of shape "
                                     f"{pred.shape}")
            prob = _picked(self._probabilities(pred), label.ravel(), self.axis)
            if self.ignore_label is not None:
                prob = prob[label.ravel() != self.ignore_label]
            self._add(-numpy.log(numpy.maximum(self.eps, prob)).sum(), prob.size)

    def _probabilities(self, pred: Any) -> Any:
        if self.from_logits:
            pred = pred if isinstance(pred, ndarray.NDArray) else ndarray.array(pred)
            pred = ndarray.softmax(pred.as_nd_ndarray(), axis=self.axis)
        return pred if _far(pred) else _numpy(pred)


@register
class Perplexity(CrossEntropy):
    """exp(mean of -log probability of the label); arguments as in `CrossEntropy`."""

    def __init__(self, eps: float = 1e-12, ignore_label: int | None = None, axis: int = -1, from_logits: bool = False,
                 name: str = "perplexity", output_names: _Names = None, label_names: _Names = None) -> None:
        super().__init__(eps, ignore_label, axis, from_logits, name, output_names, label_names)

    def get(self) -> tuple[str, float]:
        return self.name, math.exp(super().get()[1])

    def get_global(self) -> tuple[str, float]:
        return self.name, math.exp(super().get_global()[1])


@register
@alias("pearsonr")
class PearsonCorrelation(_base.PearsonCorrelation, EvalMetric):
    """Pearson's correlation of label and prediction, over all elements of all updates; arguments as in `EvalMetric`."""

    def __init__(self, name: str = "pearsonr", output_names: _Names = None, label_names: _Names = None) -> None:
        super().__init__(name, output_names, label_names, average="micro")

    def get_global(self) -> tuple[str, float]:
        return self.get()


@register
class PCC(_base.PCC, EvalMetric):
    """Matthews correlation coefficient for any number of classes; arguments as in `EvalMetric`."""

    def __init__(self, name: str = "pcc", output_names: _Names = None, label_names: _Names = None) -> None:
        super().__init__(name, output_names, label_names)


@register
class Loss(_base.Loss, EvalMetric):
    """Mean of the predictions, which are losses; arguments as in `EvalMetric`."""


@register
class Torch(_base.Torch, Loss):
    """`Loss` under the name that Torch criteria used; arguments as in `EvalMetric`."""


@register
class CustomMetric(_base.CustomMetric, EvalMetric):
    """Wraps a function as a metric.

    Args:
        feval: `feval(label, pred)` of `mx.np` arrays; returns a value, or (sum, count).
        name: name of the metric; by default the function's.
        allow_extra_outputs: allow more predictions than labels; the first ones are used.
        output_names, label_names: as in `EvalMetric`.
    """

    def __init__(self, feval: Callable[[Any, Any], Any], name: str | None = None, allow_extra_outputs: bool = False,
                 output_names: _Names = None, label_names: _Names = None) -> None:
        super().__init__(feval, name, allow_extra_outputs, output_names, label_names)

    def _arguments(self, *arrays: Any) -> Sequence[Any]:
        return [x.as_np_ndarray() if isinstance(x, ndarray.NDArray) else x for x in arrays]


def np(numpy_feval: Callable[[Any, Any], Any], name: str | None = None,
       allow_extra_outputs: bool = False) -> CustomMetric:
    """Creates a metric from a function of `mx.np` arrays.

    Args:
        numpy_feval: `numpy_feval(label, pred)`; returns a value, or (sum, count).
        name: name of the metric; by default the function's.
        allow_extra_outputs: allow more predictions than labels.
    """
    def feval(label: Any, pred: Any) -> Any:
        return numpy_feval(label, pred)

    feval.__name__ = numpy_feval.__name__
    return CustomMetric(feval, name, allow_extra_outputs)
