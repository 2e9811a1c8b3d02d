"""MXNet 2's composed transforms."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..... import numpy as np
from ....block import HybridBlock
from ....nn import HybridSequential, Sequential

if TYPE_CHECKING:
    from .....ndarray import NDArray
    from .....ops.params import DTypeLike

__all__ = ["Cast", "HybridRandomApply", "RandomApply"]


class Cast(HybridBlock):
    """Converts arrays to another dtype and returns them as a tuple.

    Args:
        dtype: the dtype.
    """

    def __init__(self, dtype: DTypeLike = "float32") -> None:
        super().__init__()
        self._dtype = dtype

    def forward(self, *args: NDArray) -> tuple:
        return tuple(x.astype(self._dtype) for x in args)


class RandomApply(Sequential):
    """Applies transforms with a given probability.

    Args:
        transforms: the transforms.
        p: the probability.
    """

    def __init__(self, transforms: Callable, p: float = 0.5) -> None:
        super().__init__()
        self.transforms = transforms
        self.p = p

    def forward(self, x: NDArray, *args: object) -> Any:
        if self.p < random.random():
            return x
        changed = self.transforms(x)
        return (changed, *args) if args else changed


class HybridRandomApply(HybridSequential):
    """Applies a hybrid transform with a given probability; the random draw is part of the graph.

    Args:
        transforms: a HybridBlock.
        p: the probability.
    """

    def __init__(self, transforms: HybridBlock, p: float = 0.5) -> None:
        super().__init__()
        if not isinstance(transforms, HybridBlock):
            raise AssertionError(f"HybridRandomApply expects a HybridBlock, got {type(transforms).__name__}")
        self.transforms = transforms
        self.p = p

    def forward(self, x: NDArray, *args: object) -> Any:
        changed = self.transforms(x)
        return np.where(self.p < np.random.uniform(size=(1,)), x.astype(changed.dtype), changed)
