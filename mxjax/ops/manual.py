"""What operators' documentation says beside their docstrings: what parameters mean, and examples.

`examples.txt` has an example for each operator, `tools/doctests.py` runs them and writes what they print.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

__all__ = ["EXAMPLES", "examples", "meaning"]

EXAMPLES = Path(__file__).with_name("examples.txt")

# by parameter, where it means the same everywhere; by "operator parameter", where it doesn't
_MEANINGS = {
    "axis": "the axis along which it is done",
    "keepdims": "whether reduced axes stay, with length 1",
    "shape": "of the result",
    "softmax temperature": "what the data is divided by first",
}


def meaning(operator: str, parameter: str) -> str:
    """What a parameter of an operator means; "" where nothing is written of it."""
    return _MEANINGS.get(f"{operator} {parameter}") or _MEANINGS.get(parameter, "")


def examples(operator: str) -> str:
    """An operator's examples as a doctest; "" where there is none."""
    return _sections().get(operator, "")


@functools.cache
def _sections() -> dict[str, str]:
    parts = re.split(r"^\[(\w+)\]\n", EXAMPLES.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {name: text.strip("\n") for name, text in zip(parts[1::2], parts[2::2], strict=True)}
