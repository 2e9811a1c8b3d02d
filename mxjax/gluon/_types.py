"""Types of the inputs of blocks, for signatures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

from ..ndarray import NDArray
from ..symbol import Symbol

__all__ = ["Activation", "Indexed", "Nested", "Size", "Tensor"]

Tensor = TypeVar("Tensor", NDArray, Symbol)  # the inputs of a block are all arrays or all symbols
Nested: TypeAlias = "NDArray | Symbol | Sequence[Nested] | None"  # one argument of a graph
Size: TypeAlias = int | Sequence[int]  # a number for all axes, or one for each
Activation: TypeAlias = str | Callable[..., Any]  # its name, or a block or function


class Indexed(Protocol):
    """Samples by index: a data set, a list or an array."""

    def __len__(self) -> int:
        """Returns the number of samples."""
        ...

    def __getitem__(self, index: Any, /) -> Any:
        """Returns a sample."""
        ...
