"""Progress bars, shown in terminals and notebooks if tqdm is installed.

They are written to stderr, so the script's own output does not change; TQDM_DISABLE=1 hides them.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

__all__ = ["noted", "progress"]


_open: list[Any] = []  # the bars that are shown now, the innermost last


class _NoBar:
    """Replaces a bar if the output is not a terminal."""

    def update(self, count: int = 1) -> None:
        """Nothing."""

    def set_postfix_str(self, text: str) -> None:
        """Nothing."""


@contextlib.contextmanager
def progress(description: str, total: int | None = None, unit: str = "", **options: object) -> Iterator[Any]:
    """A scope with a progress bar; returns an object with tqdm's `update(count)` and `set_postfix_str(text)`.

    Args:
        description: description of the work.
        total: number of updates, if known.
        unit: unit of the updates.
        options: further options of tqdm.
    """
    bar = _bar(desc=description, total=total, unit=unit, leave=False, **options)
    _open.append(bar)
    try:
        yield bar
    finally:
        _open.remove(bar)
        if not isinstance(bar, _NoBar):
            bar.close()


def noted(text: str) -> None:
    """Sets the postfix of the innermost progress bar; an empty text removes it.

    Args:
        text: the reason why the bar stands still.
    """
    for bar in _open[-1:]:
        bar.set_postfix_str(text)


def _bar(**options: Any) -> Any:
    if sys.stderr is not None and sys.stderr.isatty() or "ipykernel" in sys.modules:
        with contextlib.suppress(ImportError):
            from tqdm.auto import tqdm  # optional
            return tqdm(**options)
    return _NoBar()
