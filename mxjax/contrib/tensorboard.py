"""TensorBoard integration: logging of metrics."""

from __future__ import annotations

from typing import Any

from ..base import MXNetError
from ._metric_logger import MetricLogger

__all__ = ["LogMetricsCallback"]


def _summary_writer(folder: str) -> Any:
    """A writer of event files, of whichever package is there."""
    for package in ("tensorboardX", "mxboard"):
        try:
            return __import__(package).SummaryWriter(folder)
        except ImportError:
            continue
    raise MXNetError("TensorBoard event files need tensorboardX: pip install 'mxjax[tensorboard]'")


class LogMetricsCallback(MetricLogger):
    """A callback for `Module.fit`, or a handler for an `Estimator`, that writes metrics to a TensorBoard event file.

    Args:
        logging_dir: directory of the file.
        prefix, how: as in `MetricLogger`.

    Raises:
        MXNetError: no package that writes event files is installed.

    Example:
        >>> callback = LogMetricsCallback("logs/train")  # doctest: +SKIP
        >>> model.fit(train, batch_end_callback=[callback])  # doctest: +SKIP
    """

    def __init__(self, logging_dir: str, prefix: str | None = None, **how: Any) -> None:
        super().__init__(prefix, **how)
        self.summary_writer = _summary_writer(logging_dir)

    def log(self, values: dict[str, float], step: int) -> None:
        """Writes the metrics' values."""
        for name, value in values.items():
            self.summary_writer.add_scalar(name, value, global_step=step)
        if hasattr(self.summary_writer, "flush"):
            self.summary_writer.flush()  # else a reader sees nothing for two minutes
