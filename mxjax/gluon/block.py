"""Blocks: layers and networks, run imperatively or, hybridized, as compiled graphs."""

from ..level import fix
from ._block import _BlockScope  # noqa: F401 (libraries take this and the next two from here)
from ._chosen_block import Block
from ._formats import flatten as _flatten  # noqa: F401
from ._formats import regroup as _regroup  # noqa: F401

if fix("mxjax.gluon") == 2:
    from ._traced_block import HybridBlock
    from ._traced_symbol_block import SymbolBlock
else:
    from ._hybrid_block import HybridBlock  # type: ignore[assignment]
    from ._symbol_block import SymbolBlock  # type: ignore[assignment]

__all__ = ["Block", "HybridBlock", "SymbolBlock"]
for _kind in (Block, HybridBlock, SymbolBlock):
    _kind.__module__ = __name__  # where pickles and users find them
