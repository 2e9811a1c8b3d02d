"""Places: shapes, slices, look-ups."""

from __future__ import annotations

__all__: list[str] = []
