"""Sums and the like along axes."""

from __future__ import annotations

__all__: list[str] = []
