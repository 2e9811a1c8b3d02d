"""Providers: functions of upper layers that lower layers call, and that are loaded on first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["of_images", "of_library", "of_operators", "of_storages"]

of_operators: list[Callable[[], object]] = []  # called when an operator is looked for that is not there, or all are
of_storages: list[Callable[[], object]] = []  # called when a storage type is asked for that is not there
of_library: list[Callable[[], Any]] = []  # the last one gives `mx.base._LIB`
of_images: list[Callable[[], Any]] = []  # the last one returns the module `mx.image`, for the names of `mx.npx.image`
