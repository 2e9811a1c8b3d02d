"""The losses of MXNet 2: on `mx.np` arrays, one value per example."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .. import numpy as np
from .. import numpy_extension as npx
from ..base import numeric_types
from .block import HybridBlock
from .utils import any_arguments

if TYPE_CHECKING:
    from ..numpy import ndarray

__all__ = ["CTCLoss", "CosineEmbeddingLoss", "HingeLoss", "HuberLoss", "KLDivLoss", "L1Loss", "L2Loss", "LogisticLoss",
           "Loss", "PoissonNLLLoss", "SDMLLoss", "SigmoidBCELoss", "SigmoidBinaryCrossEntropyLoss", "SoftmaxCELoss",
           "SoftmaxCrossEntropyLoss", "SquaredHingeLoss", "TripletLoss"]


# the parts of a loss have MXNet's names, because losses of users call them
def _apply_weighting(loss: ndarray, weight: float | None = None, sample_weight: ndarray | None = None) -> Any:
    """Returns the loss times an array of weights (broadcast) and a number."""
    if sample_weight is not None:
        loss = loss * sample_weight
    if weight is not None:
        if not isinstance(weight, numeric_types):
            raise AssertionError(f"weight must be a number, got {type(weight).__name__}")
        loss = loss * weight
    return loss


def _others(loss: ndarray, batch_axis: int) -> tuple[int, ...]:
    """Returns all axes but the batch's."""
    return tuple(axis for axis in range(loss.ndim) if axis != batch_axis % loss.ndim)


def _batch_mean(loss: ndarray, batch_axis: int) -> Any:
    """Returns the mean of each example."""
    return np.mean(loss, axis=_others(loss, batch_axis))


def _batch_sum(loss: ndarray, batch_axis: int) -> Any:
    """Returns the sum of each example."""
    return np.sum(loss, axis=_others(loss, batch_axis))


class Loss(HybridBlock):
    """Base of the losses.

    Args:
        weight: factor of the loss; None: 1.
        batch_axis: axis of the examples.
    """

    def __init__(self, weight: float | None, batch_axis: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._weight, self._batch_axis = weight, batch_axis

    def __repr__(self) -> str:
        return f"{type(self).__name__}(batch_axis={self._batch_axis}, w={self._weight})"

    @any_arguments
    def forward(self, x: Any, *args: Any) -> Any:
        """Computes the loss of each example; subclasses define it."""
        raise NotImplementedError(f"{type(self).__name__} must define forward")

    def _mean(self, loss: ndarray, sample_weight: ndarray | None) -> Any:
        """Weighted, and averaged over all axes but the batch's."""
        return _batch_mean(_apply_weighting(loss, self._weight, sample_weight), self._batch_axis)


class L2Loss(Loss):
    """weight / 2 · (label - pred)², averaged over each example.

    Args:
        weight, batch_axis: see `Loss`.

    Inputs: pred, label with as many values, optionally sample_weight that broadcasts to them.
        Output: (batch,).
    """

    def __init__(self, weight: float = 1.0, batch_axis: int = 0, **kwargs: Any) -> None:
        super().__init__(weight, batch_axis, **kwargs)

    def forward(self, pred: ndarray, label: ndarray, sample_weight: ndarray | None = None) -> Any:
        weight = 1.0 if self._weight is None else self._weight
        loss = _apply_weighting(np.square(npx.reshape_like(label, pred) - pred), weight / 2, sample_weight)
        return _batch_mean(loss, self._batch_axis)


class L1Loss(Loss):
    """weight · |label - pred|, averaged over each example; inputs as in `L2Loss`.

    Args:
        weight, batch_axis: see `Loss`.
    """

    def __init__(self, weight: float | None = None, batch_axis: int = 0, **kwargs: Any) -> None:
        super().__init__(weight, batch_axis, **kwargs)

    def forward(self, pred: ndarray, label: ndarray, sample_weight: ndarray | None = None) -> Any:
        return self._mean(np.abs(npx.reshape_like(label, pred) - pred), sample_weight)


def _softplus_of_minus_abs(x: ndarray) -> Any:
    """Returns log(1 + exp(-|x|)), which never overflows."""
    return npx.activation(-np.abs(x), act_type="softrelu")


class SigmoidBinaryCrossEntropyLoss(Loss):
    """-label · log(p) - (1 - label) · log(1 - p), averaged over each example; p = sigmoid(pred).

    Args:
        from_sigmoid: pred is already p.
        weight, batch_axis: see `Loss`.

    Inputs: as in `L2Loss`, and optionally pos_weight, a factor on the first term that broadcasts to label.
    """

    def __init__(self, from_sigmoid: bool = False, weight: float | None = None, batch_axis: int = 0,
                 **kwargs: Any) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._from_sigmoid = from_sigmoid

    def forward(self, pred: ndarray, label: ndarray, sample_weight: ndarray | None = None,
                pos_weight: ndarray | None = None) -> Any:
        label = npx.reshape_like(label, pred)
        if self._from_sigmoid:
            positive = np.log(pred + 1e-12) * label
            if pos_weight is not None:
                positive = positive * pos_weight
            loss = -(positive + np.log(1.0 - pred + 1e-12) * (1.0 - label))
        elif pos_weight is None:
            loss = npx.relu(pred) - pred * label + _softplus_of_minus_abs(pred)
        else:
            log_weight = 1 + (pos_weight - 1) * label
            loss = pred - pred * label + log_weight * (_softplus_of_minus_abs(pred) + npx.relu(-pred))
        return self._mean(loss, sample_weight)


SigmoidBCELoss = SigmoidBinaryCrossEntropyLoss


class SoftmaxCrossEntropyLoss(Loss):
    """-log softmax(pred)[label], averaged over each example.

    Args:
        axis: the classes' axis.
        sparse_label: label contains class indices and has pred's shape without `axis`; otherwise it
            contains probabilities and has pred's shape.
        from_logits: pred is already log softmax.
        weight, batch_axis: see `Loss`.

    Inputs: pred, label, optionally sample_weight. Output: (batch,).
    """

    def __init__(self, axis: int = -1, sparse_label: bool = True, from_logits: bool = False,
                 weight: float | None = None, batch_axis: int = 0, **kwargs: Any) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._axis, self._sparse_label, self._from_logits = axis, sparse_label, from_logits

    def forward(self, pred: ndarray, label: ndarray, sample_weight: ndarray | None = None) -> Any:
        if not self._from_logits:
            pred = npx.log_softmax(pred, axis=self._axis)
        if self._sparse_label:
            loss = -npx.pick(pred, label, axis=self._axis, keepdims=True)
        else:
            loss = -np.sum(pred * npx.reshape_like(label, pred), axis=self._axis, keepdims=True)
        return self._mean(loss, sample_weight)


SoftmaxCELoss = SoftmaxCrossEntropyLoss


class KLDivLoss(Loss):
    """Kullback-Leibler divergence: label · (log(label) - pred), averaged over each example.

    Args:
        from_logits: pred is already log softmax.
        axis: the classes' axis.
        weight, batch_axis: see `Loss`.

    Inputs: pred, label (probabilities) of the same shape, optionally sample_weight.
    """

    def __init__(self, from_logits: bool = True, axis: int = -1, weight: float | None = None, batch_axis: int = 0,
                 **kwargs: Any) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._from_logits, self._axis = from_logits, axis

    def forward(self, pred: ndarray, label: ndarray, sample_weight: ndarray | None = None) -> Any:
        if not self._from_logits:
            pred = npx.log_softmax(pred, axis=self._axis)
        return self._mean(label * (np.log(label + 1e-12) - pred), sample_weight)


class CTCLoss(Loss):
    """Connectionist temporal classification. Graves et al., ICML 2006.

    Args:
        layout: order of pred's axes, "NTC" or "TNC": batch, time, classes (the last class is the blank).
        label_layout: order of label's axes, "NT" or "TN"; labels are padded with -1.
        weight: see `Loss`.

    Inputs: pred (not normalized), label, optionally pred_lengths and label_lengths, (batch,) each, and sample_weight.

    Raises:
        AssertionError: unknown layout.
    """

    def __init__(self, layout: str = "NTC", label_layout: str = "NT", weight: float | None = None,
                 **kwargs: Any) -> None:
        for value, allowed, what in ((layout, ("NTC", "TNC"), "pred"), (label_layout, ("NT", "TN"), "label")):
            if value not in allowed:
                raise AssertionError(f"Only {' and '.join(allowed)} layouts for {what} are supported. Got: {value}")
        super().__init__(weight, label_layout.find("N"), **kwargs)
        self._layout, self._label_layout = layout, label_layout

    def forward(self, pred: ndarray, label: ndarray, pred_lengths: ndarray | None = None,
                label_lengths: ndarray | None = None, sample_weight: ndarray | None = None) -> Any:
        if self._layout == "NTC":
            pred = np.swapaxes(pred, 0, 1)
        if self._batch_axis == 1:
            label = np.swapaxes(label, 0, 1)
        lengths: dict[str, Any] = {name: value for name, value in
                                   (("data_lengths", pred_lengths), ("label_lengths", label_lengths))
                                   if value is not None}
        loss = npx.ctc_loss(pred, label, **lengths, use_data_lengths=pred_lengths is not None,
                            use_label_lengths=label_lengths is not None, blank_label="last")
        return _apply_weighting(loss, self._weight, sample_weight)


class HuberLoss(Loss):
    """(label - pred)² / (2 · rho) near zero, |label - pred| - rho / 2 beyond rho, averaged over each example.

    Args:
        rho: |label - pred| at which the loss becomes linear.
        weight, batch_axis: see `Loss`.

    Inputs: as in `L2Loss`.
    """

    def __init__(self, rho: float = 1, weight: float | None = None, batch_axis: int = 0, **kwargs: Any) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._rho = rho

    def forward(self, pred: ndarray, label: ndarray, sample_weight: ndarray | None = None) -> Any:
        error = np.abs(npx.reshape_like(label, pred) - pred)
        loss = np.where(error > self._rho, error - 0.5 * self._rho, (0.5 / self._rho) * np.square(error))
        return self._mean(loss, sample_weight)


class HingeLoss(Loss):
    """max(0, margin - pred · label), averaged over each example; label is -1 or 1.

    Args:
        margin: value that pred · label should exceed.
        weight, batch_axis: see `Loss`.

    Inputs: as in `L2Loss`.
    """

    def __init__(self, margin: float = 1, weight: float | None = None, batch_axis: int = 0, **kwargs: Any) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def _hinge(self, pred: ndarray, label: ndarray) -> Any:
        return npx.relu(self._margin - pred * npx.reshape_like(label, pred))

    def forward(self, pred: ndarray, label: ndarray, sample_weight: ndarray | None = None) -> Any:
        return self._mean(self._hinge(pred, label), sample_weight)


class SquaredHingeLoss(HingeLoss):
    """max(0, margin - pred · label)², averaged over each example; arguments and inputs as in `HingeLoss`."""

    def _hinge(self, pred: ndarray, label: ndarray) -> Any:
        return np.square(super()._hinge(pred, label))


class LogisticLoss(Loss):
    """log(1 + exp(-pred · label)), averaged over each example.

    Args:
        weight, batch_axis: see `Loss`.
        label_format: labels are -1 or 1 ("signed"), or 0 or 1 ("binary").

    Inputs: as in `L2Loss`.

    Raises:
        ValueError: the format is neither.
    """

    def __init__(self, weight: float | None = None, batch_axis: int = 0, label_format: str = "signed",
                 **kwargs: Any) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        if label_format not in ("signed", "binary"):
            raise ValueError(f"label_format can only be signed or binary, received {label_format}.")
        self._label_format = label_format

    def forward(self, pred: ndarray, label: ndarray, sample_weight: ndarray | None = None) -> Any:
        label = npx.reshape_like(label, pred)
        if self._label_format == "signed":
            label = (label + 1.0) / 2.0
        return self._mean(npx.relu(pred) - pred * label + _softplus_of_minus_abs(pred), sample_weight)


class TripletLoss(Loss):
    """max(0, |pred - positive|² - |pred - negative|² + margin), summed over each example.

    Args:
        margin: how much closer the positive example should be.
        weight, batch_axis: see `Loss`.

    Inputs: pred, positive and negative with as many values each, optionally sample_weight. Output:
        (batch,).
    """

    def __init__(self, margin: float = 1, weight: float | None = None, batch_axis: int = 0, **kwargs: Any) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def forward(self, pred: ndarray, positive: ndarray, negative: ndarray, sample_weight: ndarray | None = None) -> Any:
        near, far = (np.square(npx.reshape_like(other, pred) - pred) for other in (positive, negative))
        loss = npx.relu(_batch_sum(near - far, self._batch_axis) + self._margin)
        return _apply_weighting(loss, self._weight, sample_weight)


class PoissonNLLLoss(Loss):
    """Negative log likelihood of counts under a Poisson distribution, averaged over each example.

    Args:
        weight, batch_axis: see `Loss`.
        from_logits: pred is the logarithm of the rate; otherwise the rate.
        compute_full: add Stirling's approximation of log(target!) where target > 1.

    Inputs: pred, target with as many values, optionally sample_weight. Output: (batch,).
    """

    def __init__(self, weight: float | None = None, from_logits: bool = True, batch_axis: int = 0,
                 compute_full: bool = False, **kwargs: Any) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._from_logits, self._compute_full = from_logits, compute_full

    def forward(self, pred: ndarray, target: ndarray, sample_weight: ndarray | None = None,
                epsilon: float = 1e-08) -> Any:
        target = npx.reshape_like(target, pred)
        loss = np.exp(pred) - target * pred if self._from_logits else pred - target * np.log(pred + epsilon)
        if self._compute_full:
            stirling = target * np.log(target) - target + 0.5 * np.log(2 * target * math.pi)
            loss = loss + stirling * (target > 1)
        return self._mean(loss, sample_weight)


class CosineEmbeddingLoss(Loss):
    """1 - cos(input1, input2) where label is 1, otherwise max(0, cos(input1, input2) - margin).

    Args:
        weight, batch_axis: see `Loss`.
        margin: cosine below which dissimilar inputs have no loss.

    Inputs: input1, input2 (batch, length), label (batch,), optionally sample_weight. Output: (batch,).
    """

    def __init__(self, weight: float | None = None, batch_axis: int = 0, margin: float = 0, **kwargs: Any) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def forward(self, input1: ndarray, input2: ndarray, label: ndarray, sample_weight: ndarray | None = None) -> Any:
        cosine = self._cosine_similarity(npx.reshape_like(input1, input2), input2)
        unlike = np.clip(cosine - self._margin, 0, 1 - self._margin)
        return self._mean(np.where(npx.reshape_like(label, cosine) == 1, 1 - cosine, unlike), sample_weight)

    @staticmethod
    def _cosine_similarity(x: ndarray, y: ndarray, axis: int = -1) -> Any:
        norms = [npx.norm(v, axis=axis).reshape((-1, 1)) for v in (x, y)]
        product = np.sum(x * y, axis=axis).reshape((-1, 1))
        return product / np.maximum(norms[0] * norms[1], 1e-12)


class SDMLLoss(Loss):
    """Smoothed deep metric learning loss: rows of x1 and x2 with the same index are pairs, all others are not.

    Bonadiman, Kumar and Mittal, "Large Scale Question Paraphrase Retrieval with Smoothed Deep Metric Learning", 2019,
    arXiv:1905.12786.

    Args:
        smoothing_parameter: probability assigned to the other rows.
        weight, batch_axis: see `Loss`.

    Inputs: x1, x2 (batch, length). Output: (batch,).
    """

    def __init__(self, smoothing_parameter: float = 0.3, weight: float = 1.0, batch_axis: int = 0,
                 **kwargs: Any) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self.kl_loss = KLDivLoss(from_logits=True)
        self.smoothing_parameter = smoothing_parameter

    def forward(self, x1: ndarray, x2: ndarray) -> Any:
        size = x1.shape[0]
        distances = np.sum(np.square(np.expand_dims(x1, 1) - np.expand_dims(x2, 0)), axis=2)
        pairs = np.eye(size, ctx=distances.ctx)
        labels = pairs * (1 - self.smoothing_parameter) + (1 - pairs) * self.smoothing_parameter / (size - 1)
        return self.kl_loss(npx.log_softmax(-distances, axis=1), labels)
