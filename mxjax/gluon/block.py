"""Blocks: layers and networks, run imperatively or, hybridized, as compiled graphs."""

from ._block import Block, _BlockScope  # noqa: F401 (libraries take this and the next two from here)
from ._formats import flatten as _flatten  # noqa: F401
from ._formats import regroup as _regroup  # noqa: F401
from ._hybrid_block import HybridBlock
from ._symbol_block import SymbolBlock

__all__ = ["Block", "HybridBlock", "SymbolBlock"]
for _kind in (Block, HybridBlock, SymbolBlock):
    _kind.__module__ = __name__  # where pickles and users find them
