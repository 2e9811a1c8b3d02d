"""Gluon blocks as pure JAX functions, and as programs in files."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from .._support.files import write_file
from ..base import MXNetError
from ..executor.jax_function import JaxFunction
from ..ndarray import NDArray, from_jax
from ._formats import flatten, regroup

if TYPE_CHECKING:
    from ._hybrid_block import HybridBlock

__all__ = ["block_to_jax", "export_block"]


def block_to_jax(block: HybridBlock,
                 *inputs: Any) -> tuple[Callable[..., Any], dict[str, jax.Array], dict[str, jax.Array]]:
    """Converts a hybridizable block to a pure function and its values.

    Args:
        block: a HybridBlock, initialized.
        inputs: example inputs (NDArrays or JAX arrays). A SymbolBlock, or a block that has run
            hybridized, does not need them.

    Returns:
        (apply, params, aux): `apply(params, aux, *inputs, rng=None, train=False) -> (outputs, new
        aux)`. `params` and `aux` are dictionaries of JAX arrays by parameter name. The outputs have
        the block's structure. `train` must be static under jit. `rng` is a JAX random key, required
        if the block draws random numbers.

    Raises:
        MXNetError: the block has no graph yet and no example inputs were passed, or part of it runs
            on the host.

    Example:
        >>> net = mx.gluon.nn.Dense(2, in_units=3, prefix="dense_")
        >>> net.initialize()
        >>> apply, params, aux = net.to_jax(mx.nd.ones((1, 3)))
        >>> jax.grad(lambda p: apply(p, aux, jnp.ones((4, 3)))[0].sum())(params)["dense_bias"]
        Array([4., 4.], dtype=float32)
    """
    arrays = [from_jax(a) if isinstance(a, jax.Array) else a for a in inputs]
    if not block._cached_graph and not arrays:
        raise MXNetError(f"to_jax: the graph of {block._name} is built from inputs: pass example inputs, "
                         "block.to_jax(x), or hybridize the block and call it first")
    if arrays:
        block.graph_of(arrays)
    variables, out, values = block.named_graph()
    if any(p.waits_for_shape for p in values.values()):
        block._deferred_infer_shape(*arrays)
        for param in values.values():
            param._finish_deferred_init()
    function, form, in_form = JaxFunction(out), block._out_format, block._in_format
    names = [str(v.name) for v in variables]

    def apply(params: dict[str, Any], aux: dict[str, Any], *inputs: Any, rng: jax.Array | None = None,
              train: bool = False) -> tuple[Any, dict[str, jax.Array]]:
        flat, given_form = flatten(inputs, "input", (NDArray, jax.Array, np.ndarray))
        if given_form != in_form:
            raise MXNetError(f"{block._name}: expected inputs grouped as {in_form}, got {given_form}")
        inputs_by_name = dict(zip(names, [a for a in flat if a is not None], strict=True))
        outputs, states = function({**params, **inputs_by_name}, aux, rng, train)
        return regroup(outputs, form), states
    params, aux = ({n: values[n].data().to_jax() for n in wanted if n not in names}
                   for wanted in (function.arg_names, function.aux_names))
    return apply, params, aux


def export_block(block: HybridBlock, path: str | os.PathLike, *inputs: Any, train: bool = False,
                 dynamic_batch: bool = False, platforms: Sequence[str] | None = None) -> str:
    """Exports a block with its parameters as a `jax.export` program, which plain JAX runs without mxjax.

    Args:
        block: a HybridBlock, initialized.
        path: the file.
        inputs: example inputs, for shapes and dtypes.
        train: export the training mode (batch normalization with the batch's statistics, ...).
        dynamic_batch: let the program accept any batch size.
        platforms: platforms to export for, e.g. ("cpu", "cuda"); by default the current one.

    Returns:
        The path.

    Raises:
        MXNetError: see `block_to_jax`; or the graph depends on the batch size.
        ImportError: flatbuffers is missing (the `export` extra).

    Example:
        >>> net = mx.gluon.nn.Dense(2)
        >>> net.initialize()
        >>> mx.interop.export_block(net, "net.jax", mx.nd.ones((1, 3)))  # doctest: +SKIP
        'net.jax'
        >>> program = jax.export.deserialize(open("net.jax", "rb").read())  # doctest: +SKIP
        >>> program.call(jnp.ones((1, 3)))  # doctest: +SKIP
    """
    import jax.export
    apply, params, aux = block_to_jax(block, *inputs)
    specs = [jax.ShapeDtypeStruct(a.shape, jnp.dtype(a.dtype)) for a in inputs]
    if dynamic_batch:
        batch = jax.export.symbolic_shape("batch")
        specs = [jax.ShapeDtypeStruct((*batch, *s.shape[1:]), s.dtype) for s in specs]

    def program(*values: Any) -> Any:
        return apply(params, aux, *values, train=train)[0]
    try:
        exported = jax.export.export(jax.jit(program), platforms=platforms)(*specs)
    except (TypeError, ValueError, jax.errors.JAXTypeError) as error:
        if not dynamic_batch:
            raise
        raise MXNetError(f"export_block: {block._name} cannot be exported for every batch size: "
                         f"{str(error).splitlines()[0]}") from None
    try:
        written = exported.serialize()
    except ImportError as error:
        raise ImportError("export_block needs flatbuffers: pip install 'mxjax[export]'") from error
    write_file(path, bytes(written))
    return os.fspath(path)
