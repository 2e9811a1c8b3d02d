"""Metrics for TensorBoard."""

from __future__ import annotations

from typing import Any

from ..base import MXNetError

__all__ = ["LogMetricsCallback"]


def _summary_writer(folder: str) -> Any:
    """A writer of event files, of whichever package is there."""
    for package in ("tensorboardX", "mxboard"):
        try:
            return __import__(package).SummaryWriter(folder)
        except ImportError:
            continue
    raise MXNetError("TensorBoard's files need tensorboardX: pip install 'mxjax[tensorboard]'")


class LogMetricsCallback:
    """A callback for `Module.fit` that writes metrics to a TensorBoard event file.

    Args:
        logging_dir: folder of the file.
        prefix: what the metrics' names begin with.

    Raises:
        MXNetError: no package that writes such files is installed.

    Example:
        >>> callback = LogMetricsCallback("logs/train")  # doctest: +SKIP
        >>> model.fit(train, batch_end_callback=[callback])  # doctest: +SKIP
    """

    def __init__(self, logging_dir: str, prefix: str | None = None) -> None:
        self.prefix = prefix
        self.summary_writer = _summary_writer(logging_dir)

    def __call__(self, param: Any) -> None:
        """Writes the metrics' values; `param` is a `BatchEndParam`."""
        if param.eval_metric is None:
            return
        for name, value in param.eval_metric.get_name_value():
            label = name if self.prefix is None else f"{self.prefix}-{name}"
            self.summary_writer.add_scalar(label, value, global_step=param.epoch)
