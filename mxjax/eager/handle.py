"""The base class of arrays: a chunk, or a view of one, and a position on the tape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax

from .chunk import Chunk

if TYPE_CHECKING:
    from ..kernel.kernel import Kernel
    from .tape import Node

__all__ = ["Handle"]


class Handle:
    """The part of an array that operator calls use. `mxjax.array` defines its subclasses.

    Attributes:
        chunk: the storage, which views share.
        region: where a view begins in the chunk, and its shape; None: the array is the whole chunk.
        entry: the position on the tape, i.e. a node and the number of its output; None: not recorded.
        dense: whether the chunk stores all elements, so that programs can read and replace them.
    """

    __slots__ = ("chunk", "region", "entry", "gradient", "_cache", "__weakref__")
    chunk: Chunk
    region: tuple[int, tuple[int, ...]] | None
    entry: tuple[Node, int] | None
    gradient: Any
    _cache: tuple[int, Any]  # the value of a view, and the version of its chunk
    dense = True

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes."""
        region = self.region
        return self.chunk.shape if region is None else region[1]

    def read(self) -> jax.Array:
        """Returns the value as an immutable buffer of this array's shape."""
        raise NotImplementedError

    def write(self, value: Any) -> None:
        """Replaces the value by a buffer or Promise of this array's shape and dtype."""
        raise NotImplementedError

    def at_hand(self) -> Any:
        """Returns the value as a buffer or a value of the host; None if it is pending or being changed."""
        raise NotImplementedError

    def seen_in(self, base: Any, version: int) -> Any:
        """Returns the value as a buffer or a value of the host, given that of the chunk as of a version."""
        raise NotImplementedError

    def update(self, kernel: Kernel, args: list[Any]) -> None:
        """Sets the chunk to kernel(buffer, ...), in place if the buffer has no other owner; args[0] is filled in."""
        raise NotImplementedError
