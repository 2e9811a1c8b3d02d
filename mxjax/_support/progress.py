"""Bars that show how far something is, where somebody looks: at a terminal or in a notebook, with tqdm installed.

They go to the standard error stream, so what a script prints and logs stays as it is; TQDM_DISABLE=1 hides them.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

__all__ = ["noted", "progress"]


_open: list[Any] = []  # the bars that are shown now, the innermost last


class _Nothing:
    """Stands for a bar where nobody looks."""

    def update(self, count: int = 1) -> None:
        """Nothing."""

    def set_postfix_str(self, text: str) -> None:
        """Nothing."""


@contextlib.contextmanager
def progress(description: str, total: int | None = None, unit: str = "", **options: object) -> Iterator[Any]:
    """A scope with a bar; gives an object with tqdm's `update(count)` and `set_postfix_str(text)`.

    Args:
        description: what is going on.
        total: how many updates there will be, if that is known.
        unit: of what.
        options: more of tqdm's.
    """
    bar = _bar(desc=description, total=total, unit=unit, leave=False, **options)
    _open.append(bar)
    try:
        yield bar
    finally:
        _open.remove(bar)
        if not isinstance(bar, _Nothing):
            bar.close()


def noted(text: str) -> None:
    """Writes a text behind the innermost bar that is open; an empty one takes it away.

    Args:
        text: the reason why the bar does not move.
    """
    for bar in _open[-1:]:
        bar.set_postfix_str(text)


def _bar(**options: Any) -> Any:
    if sys.stderr is not None and sys.stderr.isatty() or "ipykernel" in sys.modules:
        with contextlib.suppress(ImportError):
            from tqdm.auto import tqdm  # optional
            return tqdm(**options)
    return _Nothing()
