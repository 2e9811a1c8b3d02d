"""`Block` of the level of MXNet's API that this process speaks."""

from __future__ import annotations

from ..level import current, fix

if fix("mxjax.gluon") == 2:
    from ._structural_block import Block
else:
    from ._block import Block  # type: ignore[assignment]

__all__ = ["Block", "named"]


def named(prefix: str | None) -> dict[str, str | None]:
    """Returns the arguments of a block whose parameters' names begin with `prefix`, where blocks have prefixes."""
    return {"prefix": prefix} if current() == 1 else {}
