"""Between mxjax and plain JAX: arrays, graphs, the optimizers of optax, and the `mxnet` alias.

An NDArray is a JAX pytree: `jax.jit`, `jax.grad`, `jax.vmap`, optax and flax take it as it is. Inside such a function
NDArrays hold tracers, and `mx.nd` operators become part of the JAX program. `interop.flax` (imported by itself) turns
flax modules into Gluon blocks and Gluon blocks into flax modules.
"""

from ._alias import install_mxnet_alias, run_script
from ._arrays import from_jax, params_from_jax, params_to_jax, to_jax_array
from ._block import block_to_jax, export_block
from ._graph import JaxFunction, to_jax

__all__ = ["JaxFunction", "block_to_jax", "export_block", "from_jax", "install_mxnet_alias", "params_from_jax",
           "params_to_jax", "run_script", "to_jax", "to_jax_array"]
