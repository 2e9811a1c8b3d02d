"""Blocks with internal losses, such as the divergence of a variable's distribution from its prior."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from ..block import HybridBlock
from ..nn.basic_layers import _Stack

__all__ = ["StochasticBlock", "StochasticSequential"]


class StochasticBlock(HybridBlock):
    """A block whose forward pass may add losses; `losses` returns those of the last call.

    Its `forward` or `hybrid_forward` must be decorated with `StochasticBlock.collectLoss`.

    Example:
        >>> class Noisy(mx.gluon.probability.StochasticBlock):
        ...     @mx.gluon.probability.StochasticBlock.collectLoss
        ...     def hybrid_forward(self, F, x):
        ...         self.add_loss((x * x).sum())
        ...         return x + 1
        >>> block = Noisy()
        >>> block(mx.nd.array([1, 2])).asnumpy(), block.losses[0].asscalar()
        (array([2., 3.], dtype=float32), np.float32(5.0))
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._losses: list[Any] = []
        self._losscache: list[Any] = []

    def add_loss(self, loss: object) -> None:
        """Adds a loss during the forward pass."""
        self._losscache.append(loss)

    @staticmethod
    def collectLoss(func: Callable[..., Any]) -> Callable[..., Any]:  # noqa: N802  MXNet's name
        """Decorates the forward pass so that it also returns the losses."""
        @wraps(func)
        def inner(self: StochasticBlock, *args: Any, **kwargs: Any) -> Any:
            self._losscache = []
            out = func(self, *args, **kwargs)
            losses, self._losscache = self._losscache, []
            return out, losses
        inner._collects_losses = True  # type: ignore[attr-defined]
        return inner

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not any(hasattr(getattr(type(self), name), "_collects_losses") for name in ("forward", "hybrid_forward")):
            raise ValueError(f"{type(self).__name__}: decorate the forward pass with StochasticBlock.collectLoss")
        out, self._losses = super().__call__(*args, **kwargs)
        return out

    @property
    def losses(self) -> list[Any]:
        """The losses of the last call."""
        return self._losses


class StochasticSequential(_Stack, StochasticBlock):
    """Runs blocks in sequence; `losses` is a list with the losses of each block that has any."""

    _passes_on = False  # losses, too

    @StochasticBlock.collectLoss
    def forward(self, x: object, *args: object) -> Any:
        """Returns the last block's output."""
        out = self._run_spread(x, *args)
        for block in self._child_blocks():
            if isinstance(block, StochasticBlock):
                self.add_loss(block.losses)
        return out
