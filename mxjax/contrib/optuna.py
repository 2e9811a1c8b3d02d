"""Optuna integration: pruning of trials by their metrics."""

from __future__ import annotations

from typing import Any

from ..base import MXNetError
from ._metric_logger import MetricLogger

__all__ = ["PruningCallback"]


class PruningCallback(MetricLogger):
    """A callback for `Module.fit` (`eval_end_callback`), or a handler for an `Estimator`, that reports to a trial.

    Args:
        trial: the trial of the objective.
        monitor: the metric's name, e.g. "accuracy", in an estimator "validation accuracy".
        how: as in `MetricLogger`.

    Raises:
        MXNetError: optuna is not installed, or there is no metric of that name.
        optuna.TrialPruned: the study's pruner stops the trial.

    Example:
        >>> module.fit(train, val, eval_end_callback=PruningCallback(trial, "accuracy"))  # doctest: +SKIP
    """

    def __init__(self, trial: Any, monitor: str, **how: Any) -> None:
        super().__init__(**how)
        try:
            import optuna  # an extra
        except ImportError:
            raise MXNetError("PruningCallback needs optuna: pip install 'mxjax[optuna]'") from None
        self._optuna, self._trial, self._monitor = optuna, trial, monitor

    def log(self, values: dict[str, float], step: int) -> None:
        """Reports the metric, and stops the trial if the pruner requests it."""
        if self._monitor not in values:
            raise MXNetError(f"PruningCallback: there is no metric {self._monitor!r}; known: "
                             f"{', '.join(sorted(values))}")
        self._trial.report(values[self._monitor], step)
        if self._trial.should_prune():
            raise self._optuna.TrialPruned(f"{self._monitor} was {values[self._monitor]} at step {step}")
