"""Fully connected layers and dropout."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import jax.numpy as jnp
import numpy as np

from ..._random.mersenne import Source
from ...base import MXNetError
from ..common import Array, broadcast, hidden_output, size_of
from ..infer import elementwise, exact, filled
from ..params import Range, Shape
from ..random import _draw
from ..registry import register


def _without(flag: str, *names: str, absent: str = "bias") -> Any:
    """Inputs rule: `names`, and `absent` unless the parameter `flag` is set."""
    return lambda p: [*names] if p[flag] else [*names, absent]


def fully_connected_shape(p: dict[str, Any], x: tuple, *_: Any) -> tuple:
    """The shape of the output (FPartialShape)."""
    return (x[0], p["num_hidden"]) if p["flatten"] else (*x[:-1], p["num_hidden"])


def fully_connected_data(p: dict[str, Any], x: tuple, out: tuple) -> tuple:
    """Returns the data's shape as far as the output's determines it."""
    return (out[0], *x[1:]) if p["flatten"] else (*out[:-1], x[-1])


@register("FullyConnected", aliases=("_npx_fully_connected", "_sparse_FullyConnected"),
          inputs=_without("no_bias", "data", "weight"), infer_shape=filled(
    fully_connected_data,
    weight=lambda p, x: (p["num_hidden"], size_of(x[1:]) if p["flatten"] else x[-1]),
    bias=lambda p, x: (p["num_hidden"],)), FPartialShape=exact(fully_connected_shape))
def fully_connected(data: Array, weight: Array, bias: Array | None = None, *, num_hidden: Annotated[int, Range(1)],
                    no_bias: bool = False, flatten: bool = True) -> Array:
    """data · weightᵀ + bias.

    data: (batch, ...) float, flattened to (batch, features), or mapped along the last axis if `flatten` is False;
    weight: (num_hidden, features); bias: (num_hidden,) -> (batch, num_hidden) or (..., num_hidden).
    """
    if flatten:
        data = data.reshape(data.shape[0], -1)
    if weight.shape != (num_hidden, data.shape[-1]):
        raise MXNetError(f"operator FullyConnected: weight must have the shape {(num_hidden, data.shape[-1])} for data "
                         f"of shape {data.shape}, got {weight.shape}")
    if bias is not None and bias.shape not in ((num_hidden,), (num_hidden, 1)):  # the latter for row_sparse weights
        raise MXNetError(f"operator FullyConnected: bias must have the shape {(num_hidden,)}, got {bias.shape}")
    out = jnp.matmul(data, weight.T)
    return out if bias is None else out + broadcast(bias.reshape(-1), out.shape)


def _keeps(p: float) -> np.float32:
    return np.float32(1) - np.float32(p)


def _kept(source: Source, params: dict[str, Any], inputs: Sequence[Any], train: bool) -> np.ndarray | None:
    """FDraw of Dropout: where values are kept."""
    data, axes, keeps = inputs[0], params["axes"], _keeps(params["p"])
    if keeps >= 1 or not (train or params["mode"] == "always"):
        return None
    shape = [1 if i in axes else n for i, n in enumerate(data.shape)]
    count = math.prod(shape)
    if data.dtype == np.float32:
        return source.parallel_below(count, keeps, not axes).reshape(shape)
    drawn = source.parallel_uniform(count, True).astype(np.float32)
    return (drawn < keeps if axes else drawn <= keeps).reshape(shape)


@register("Dropout", aliases=("_npx_dropout",), infer_shape=elementwise, FResourceRequest=("random",), FDraw=_kept,
          train_when=lambda p: p["p"] > 0 and p["mode"] != "always", **hidden_output("output_mask", "mask"))
def dropout(data: Array, *, p: Annotated[float, Range(0, 1)] = 0.5, mode: Literal["training", "always"] = "training",
            axes: Shape = (), cudnn_off: bool | None = False, output_mask: bool = False, _train: bool = False,
            _key: Any = None) -> Array | tuple[Array, Array]:
    """Sets each value to zero with probability p and multiplies the others by 1 / (1 - p) (JMLR 15, 1929).

    Active in training, or always with mode="always". Along `axes` the mask is shared. `output_mask` also returns the
    factors, which are 0 if dropout is not active.
    """
    if p == 0 or not (_train or mode == "always"):
        return (data, jnp.zeros_like(data)) if output_mask else data
    if p == 1:
        # 0 · 1/0, as in MXNet
        mask = jnp.full_like(data, jnp.nan)
        return (data * mask, mask) if output_mask else data * mask
    shape = tuple([1 if i in axes else n for i, n in enumerate(data.shape)])
    kept = _key.values if isinstance(_key, _draw.Drawn) else _draw.bernoulli(_key, shape, 1 - p)
    mask = kept * jnp.asarray(1 / _keeps(p), data.dtype)
    return (data * mask, jnp.broadcast_to(mask, data.shape)) if output_mask else data * mask
