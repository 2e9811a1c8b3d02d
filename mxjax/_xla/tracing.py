"""Whether JAX computes what it is given, or traces it for a transformation (jit, grad, vmap ...); its settings."""

from __future__ import annotations

from typing import Any

import jax
from jax.extend.core import find_top_trace

__all__ = ["EVALUATES", "find_top_trace", "settings"]

settings: Any = jax.config  # whose types do not list the settings

with jax.ensure_compile_time_eval():
    EVALUATES = find_top_trace(None)  # outside of all transformations, `find_top_trace(None)` is this
