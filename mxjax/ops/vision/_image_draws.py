"""Draws of random operators on images on CPUs, equal to MXNet's to the bit (FDraw)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._random.mersenne import Source, order

__all__ = ["FACTORS", "draw"]

FACTORS = ("brightness", "contrast", "saturation", "hue")  # in the order of MXNet's random_color_jitter


def _factor(source: Source, low: float, high: float) -> np.float32:
    first, last = np.float32(low), np.float32(high)
    return source.uniform(1)[0] * (last - first) + first


def _jitter(source: Source, params: dict[str, Any]) -> np.ndarray:
    """(the order of the changes that are asked for, the factor of each)."""
    used = [name for name in FACTORS if params[name] > 0]
    turns, factors = [], np.empty(len(used), np.float32)
    for number in order(source.twister, len(FACTORS)):
        name = FACTORS[number]
        if name in used:
            turns.append(used.index(name))
            factors[turns[-1]] = (name != "hue") + _factor(source, -params[name], params[name])
    return np.array([turns, factors], np.float32)


def draw(name: str) -> Any:
    """FDraw of `_image_<name>`; None if it draws nothing."""
    def drawn(source: Source, params: dict[str, Any], inputs: Sequence[Any], train: bool) -> Any:
        if name.startswith("random_flip"):
            return source.uniform(1, True)[0] < 1 - params.get("p", 0.5)
        if name == "random_lighting":
            return source.normal(3) * np.float32(params["alpha_std"])
        if name == "random_color_jitter":
            return _jitter(source, params)
        return _factor(source, params["min_factor"], params["max_factor"])
    return drawn if name.startswith("random_") else None
