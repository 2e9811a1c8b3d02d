"""Weights & Biases integration: logging of metrics."""

from __future__ import annotations

from typing import Any

from ..base import MXNetError
from ._metric_logger import MetricLogger

__all__ = ["WandbCallback"]


class WandbCallback(MetricLogger):
    """A callback for `Module.fit`, or a handler for an `Estimator`, that logs metrics to a run.

    The step is logged as a separate value, `step` after the prefix, because a run counts its own
        steps and rejects smaller ones.

    Args:
        run: result of `wandb.init`; by default the run that is current when metrics are logged.
        prefix, how: as in `MetricLogger`.

    Raises:
        MXNetError: wandb is not installed, or there is no run when metrics are logged.

    Example:
        >>> callback = WandbCallback(wandb.init(project="digits"))  # doctest: +SKIP
        >>> module.fit(train, val, eval_end_callback=callback)  # doctest: +SKIP
    """

    def __init__(self, run: Any = None, prefix: str | None = None, **how: Any) -> None:
        super().__init__(prefix, **how)
        try:
            import wandb  # pyright: ignore[reportMissingImports]  an extra
        except ImportError:
            raise MXNetError("WandbCallback needs wandb: pip install 'mxjax[wandb]'") from None
        self._wandb, self._run = wandb, run

    def log(self, values: dict[str, float], step: int) -> None:
        """Logs the metrics' values."""
        run = self._wandb.run if self._run is None else self._run
        if run is None:
            raise MXNetError("WandbCallback: there is no run; call wandb.init first, or pass run=")
        run.log({**values, "step" if self.prefix is None else f"{self.prefix}-step": step})
