"""The processing of a batch by an estimator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .... import autograd
from ....ndarray import NDArray
from ...utils import split_and_load

if TYPE_CHECKING:
    from .estimator import Estimator

__all__ = ["BatchProcessor"]

Parts = list[NDArray]


class BatchProcessor:
    """Trains and evaluates on a batch; subclasses can override both."""

    def _get_data_and_label(self, batch: Sequence[NDArray], ctx: list, batch_axis: int = 0) -> tuple[Parts, Parts]:
        data, label = (split_and_load(batch[i], ctx_list=ctx, batch_axis=batch_axis) for i in (0, 1))
        return data, label

    def evaluate_batch(self, estimator: Estimator, val_batch: Sequence[NDArray],
                       batch_axis: int = 0) -> tuple[Parts, Parts, Parts, Parts]:
        """Evaluates on a batch.

        Args:
            estimator: the Estimator.
            val_batch: (data, label).
            batch_axis: axis along which the batch is split over the contexts.

        Returns:
            Data, labels, predictions and losses, each a list with one array per context.
        """
        data, label = self._get_data_and_label(val_batch, estimator.context, batch_axis)
        pred = [estimator.val_net(x) for x in data]
        loss = [estimator.val_loss(y_hat, y) for y_hat, y in zip(pred, label, strict=True)]
        return data, label, pred, loss

    def fit_batch(self, estimator: Estimator, train_batch: Sequence[NDArray],
                  batch_axis: int = 0) -> tuple[Parts, Parts, Parts, Parts]:
        """Computes the gradients of a batch; arguments and result as in `evaluate_batch`."""
        data, label = self._get_data_and_label(train_batch, estimator.context, batch_axis)
        with autograd.record():
            pred = [estimator.net(x) for x in data]
            loss = [estimator.loss(y_hat, y) for y_hat, y in zip(pred, label, strict=True)]
        for part in loss:
            part.backward()
        return data, label, pred, loss
