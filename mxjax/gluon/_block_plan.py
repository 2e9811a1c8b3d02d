"""Plans of blocks: memory and time on devices that this machine may lack, from the graph and the
inputs' shapes and dtypes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from ..array.creation import zeros_later
from ..array.dense import NDArray
from ..context import current_context
from ..plan import Plan
from ..symbol._plan import plan_of
from ..util import is_np_array

if TYPE_CHECKING:
    from ..ops.params import DTypeLike
    from ._hybrid_block import HybridBlock

__all__ = ["plan_of_block"]


def plan_of_block(block: HybridBlock, inputs: Sequence[Any], on: str, train: str | None, dtype: DTypeLike | None,
                  batch: int | str | None) -> Plan:
    """See `HybridBlock.plan`."""
    arrays = [i if isinstance(i, NDArray) else zeros_later(tuple(getattr(i, "shape", i)), current_context(),
                                                           getattr(i, "dtype", "float32")) for i in inputs]
    variables, out = block.graph_of([array.as_np_ndarray() if is_np_array() else array for array in arrays])
    named = {str(v.name): i for v, i in zip(variables, inputs, strict=True)}
    types = {name: np.dtype(i.dtype) for name, i in named.items() if hasattr(i, "dtype")}
    floats = [t for t in types.values() if jnp.issubdtype(t, jnp.floating)]
    return plan_of(out, on, {name: getattr(i, "shape", i) for name, i in named.items()}, train=train,
                   batch=batch, dtype=dtype or (floats or ["float32"])[0],
                   types={name: t for name, t in types.items() if dtype is None or t not in floats})
