"""Blocks: layers and networks, run imperatively or, hybridized, as compiled graphs."""

import contextlib
import contextvars
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..level import fix
from ..name import Prefix
from ._block import _BlockScope  # noqa: F401 (libraries take this and the next two from here)
from ._chosen_block import Block
from ._formats import flatten as _flatten  # noqa: F401
from ._formats import regroup as _regroup  # noqa: F401

if TYPE_CHECKING or fix("mxjax.gluon") == 1:  # checkers see level 1, the default
    from ._hybrid_block import HybridBlock
    from ._symbol_block import SymbolBlock
else:
    from ._traced_block import HybridBlock  # type: ignore[assignment]
    from ._traced_symbol_block import SymbolBlock  # type: ignore[assignment]

__all__ = ["Block", "HybridBlock", "SymbolBlock"]


@contextlib.contextmanager
def _block_scope(block: object) -> Iterator[None]:
    """A scope in which symbols' names begin with the kind of a block, as in MXNet 2."""
    with Prefix(f"{_prefix.get()}{type(block).__name__.lower()}_") as names:
        token = _prefix.set(names._prefix)
        try:
            yield
        finally:
            _prefix.reset(token)


_prefix: contextvars.ContextVar[str] = contextvars.ContextVar("prefix", default="")
for _kind in (Block, HybridBlock, SymbolBlock):
    _kind.__module__ = __name__  # where pickles and users find them
