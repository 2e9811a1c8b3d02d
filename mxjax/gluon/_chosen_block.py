"""The `Block` class of the MXNet API level that this process uses."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from ..level import current, fix

if TYPE_CHECKING or fix("mxjax.gluon") == 1:  # checkers see level 1, the default
    from ._block import Block
else:
    from ._structural_block import Block  # type: ignore[assignment]

__all__ = ["Block", "named", "scope_of"]


def named(prefix: str | None) -> dict[str, Any]:
    """Returns the block arguments that set `prefix`, at the level where blocks have prefixes."""
    return {"prefix": prefix} if current() == 1 else {}


def scope_of(block: Block) -> AbstractContextManager[Any]:
    """Returns the name scope of a block; at the level where blocks have no prefixes, one that changes nothing."""
    return block._scope
