"""Graphs as pure JAX functions."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from ..array.dense import NDArray
from ..base import MXNetError
from ..ops.nn.flash import plainly

__all__ = ["JaxFunction"]


class JaxFunction:
    """A graph as `f(args, aux, rng, train) -> (outputs, new_aux)`, pure: for jit, grad, vmap, shard_map.

    Args:
        symbol: any graph without host code.
        kernels: whether to use device-specific kernels (attention), which XLA cannot partition.

    Attributes:
        arg_names, aux_names, output_names: keys of the dictionaries, and names of the outputs in order.

    Example:
        >>> import jax
        >>> f = (mx.sym.var("x") * 2).to_jax()
        >>> outputs, aux = jax.jit(f, static_argnames="train")({"x": jax.numpy.ones(3)}, {})
        >>> outputs
        [Array([2., 2., 2.], dtype=float32)]
    """

    def __init__(self, symbol: Any, *, kernels: bool = False) -> None:
        self._graph, self.output_names, self._kernels = symbol.lowered(), symbol.list_outputs(), kernels
        if self._graph.cut:
            host = [n.name for n in self._graph.steps if n.op.eager or n.op.get_attr("FHost")]
            raise MXNetError(f"to_jax: {', '.join(host)} runs on the host or has an output shape that depends on data; "
                             "such a graph is not a pure JAX function")
        self.arg_names, self.aux_names = list(self._graph.args), list(self._graph.aux)

    def __call__(self, args: Mapping[str, Any], aux: Mapping[str, Any] | None = None, rng: jax.Array | None = None,
                 train: bool = False) -> tuple[list[jax.Array], dict[str, jax.Array]]:
        """Runs the graph.

        Args:
            args: arrays (or NDArrays) of all arguments by name.
            aux: arrays of the auxiliary states by name.
            rng: a JAX random key; required if the graph draws random numbers in this mode.
            train: training mode (static under jit).

        Returns:
            (list of outputs, dictionary of the new auxiliary states).

        Raises:
            MXNetError: an array or the key is missing.
        """
        aux = aux or {}
        for what, names, arrays in (("args", self.arg_names, args), ("aux", self.aux_names, aux)):
            missing = [n for n in names if n not in arrays]
            if missing:
                raise MXNetError(f"{what} lacks {', '.join(missing)}")
        key = self._key(rng)
        with contextlib.nullcontext() if self._kernels else plainly():
            outputs, states = self._graph.call([_value(args[n]) for n in self.arg_names],
                                               [_value(aux[n]) for n in self.aux_names], key, train)
        return outputs, dict(zip(self.aux_names, states, strict=True))

    def _key(self, rng: jax.Array | None) -> tuple:
        if not self._graph.random:
            return ()
        if rng is None:  # operators that do not draw in this mode never read it
            return jnp.zeros(2, jnp.uint32), jnp.uint32(0)
        data = jax.random.key_data(rng) if jnp.issubdtype(rng.dtype, jax.dtypes.prng_key) else rng
        return data, jnp.uint32(0)


def _value(array: object) -> Any:
    return array.to_jax() if isinstance(array, NDArray) else jnp.asarray(array)
