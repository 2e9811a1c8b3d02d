"""Interoperability with plain JAX: arrays, graphs, optax optimizers, and the `mxnet` alias.

An NDArray is a JAX pytree: `jax.jit`, `jax.grad`, `jax.vmap`, optax and flax accept it directly.
Inside such a function NDArrays contain tracers, and `mx.nd` operators become part of the JAX
program. `interop.flax`, which must be imported separately, converts flax modules to Gluon blocks
and vice versa.
"""

from typing import TYPE_CHECKING, Any

from ._alias import install_mxnet_alias, run_script
from ._arrays import from_jax, params_from_jax, params_to_jax, to_jax_array
from ._graph import JaxFunction, to_jax

if TYPE_CHECKING:
    from ..gluon._jax_function import block_to_jax, export_block

__all__ = ["JaxFunction", "block_to_jax", "export_block", "from_jax", "install_mxnet_alias", "params_from_jax",
           "params_to_jax", "run_script", "to_jax", "to_jax_array"]


def __getattr__(name: str) -> Any:
    if name in ("block_to_jax", "export_block"):
        from ..gluon import _jax_function  # gluon takes 0.15 s to import, scripts that use graphs alone need it not
        return getattr(_jax_function, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
