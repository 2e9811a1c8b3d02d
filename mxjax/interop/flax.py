"""Conversions between flax modules and Gluon blocks. Requires the `flax` extra."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

try:
    import flax.linen as linen
    from flax import nnx, traverse_util
except ImportError as error:
    raise ImportError("mxjax.interop.flax needs flax: pip install 'mxjax[flax]'") from error

from .. import autograd
from .._random.streams import next_key
from ..base import MXNetError
from ..context import current_context
from ..eager.dispatch import invoke
from ..gluon import Block, HybridBlock
from ..gluon._jax_function import block_to_jax
from ..initializer import Constant
from ..kernel.kernel import Kernel
from ..ndarray import NDArray

if TYPE_CHECKING:
    from ..gluon._parameter import ParameterDict
    from ..initializer import InitDesc

__all__ = ["FlaxBlock", "LinenModule", "to_linen", "to_nnx"]

Options = Callable[[bool], Mapping[str, Any]]


class FlaxBlock(Block):
    """Wraps a flax module (linen or nnx) as a Gluon block, which can be recorded, trained, saved
    and loaded like any other.

    The module's parameters become Gluon parameters named after their path in the module
    ("flaxblock0_Dense_0.kernel"). Its other state (batch statistics, ...) becomes parameters
    without gradients, which are updated in training mode. Random numbers (dropout) come from
    `mx.random`.

    Args:
        module: a linen module, or an nnx module with its values.
        inputs: example inputs (NDArrays, or anything with shape and dtype), for a linen module's initialization.
        options: keyword arguments of the module's call in training mode (True) and otherwise
            (False); by default none. nnx modules are always switched to `train()` or `eval()` mode.
        prefix, params: see `Block`.

    Raises:
        TypeError: `module` is not a flax module.

    Example:
        >>> import flax.linen as nn
        >>> block = FlaxBlock(nn.Dense(3), mx.nd.ones((1, 4)))
        >>> with mx.autograd.record():
        ...     y = block(mx.nd.ones((2, 4)))
        >>> y.backward()
        >>> [param.grad().shape for param in block.collect_params(".*kernel").values()]
        [(4, 3)]
    """

    def __init__(self, module: linen.Module | nnx.Module, *inputs: Any, options: Options | None = None,
                 prefix: str | None = None, params: ParameterDict | None = None) -> None:
        super().__init__(prefix, params)
        self._options = options or (lambda train: {})
        if isinstance(module, nnx.Module):
            self._split, values = _nnx_parts(module)
        elif isinstance(module, linen.Module):
            self._split, values = _linen_parts(module, inputs, self._options)
        else:
            raise TypeError(f"FlaxBlock expects a flax.linen.Module or a flax.nnx.Module, got {type(module).__name__}")
        self._trained = [name for name, (_, trained) in values.items() if trained]
        self._states = [name for name, (_, trained) in values.items() if not trained]
        for name, (value, trained) in values.items():
            value = np.asarray(value)
            self._reg_params[name] = self._make_parameter(name, shape=value.shape, dtype=value.dtype,
                                                          init=_Given(value), grad_req="write" if trained else "null")
        self._kernels: dict[tuple[bool, int], Kernel] = {}
        self._form: Any = None
        self.initialize()

    def _kernel(self, train: bool, count: int, args: Sequence[Any]) -> Kernel:
        """The module's call as a kernel: fn(*parameters, *states, *inputs, key, counter)."""
        key = (train, count)
        if key not in self._kernels:
            number, states = len(self._trained), len(self._states)

            def fn(*values: Any) -> tuple:
                params = dict(zip(self._trained, values[:number], strict=True))
                state = dict(zip(self._states, values[number:number + states], strict=True))
                rng = jax.random.fold_in(jax.random.wrap_key_data(values[-2]), values[-1])
                out, state = self._split(params, state, values[number + states:-2], rng, train, self._options(train))
                flat, self._form = jax.tree.flatten(out)
                return (*flat, *(state[name] for name in self._states))
            name, arrays = type(self).__name__, number + states + count
            result = Kernel(name, fn, arrays, 0).specs(args)
            self._kernels[key] = Kernel(name, fn, arrays, len(result))
        return self._kernels[key]

    def forward(self, *inputs: NDArray) -> Any:
        """Calls the module.

        Args:
            inputs: the module's inputs, NDArrays on one context.

        Returns:
            The result of the module, with NDArrays instead of arrays.
        """
        ctx, train = inputs[0].context, autograd.is_training()
        params = [self._reg_params[n].data(ctx) for n in (*self._trained, *self._states)]
        key = next_key(ctx)
        arrays = [*params, *inputs]
        kernel = self._kernels.get((train, len(inputs))) or self._kernel(
            train, len(inputs), [*[a.read() for a in arrays], *key])
        results = invoke(kernel, arrays, key)
        results = results if isinstance(results, list) else [results]
        visible = len(results) - len(self._states)
        if train:
            with autograd.pause():
                for param, value in zip(params[len(self._trained):], results[visible:], strict=True):
                    param.take_result(value.detach())
        return jax.tree.unflatten(self._form, results[:visible])

    def variables(self) -> dict[str, jax.Array]:
        """Returns the current values of parameters and other state by name."""
        return {name: param.data().to_jax() for name, param in self._reg_params.items()}


class _Given(Constant):
    """Initializes a parameter with the value that flax gave it."""

    def _init_weight(self, name: str, arr: NDArray) -> None:
        arr[:] = self.value

    _init_default = _init_weight

    def init_weight(self, name: str, arr: NDArray) -> None:
        """Fills the parameter regardless of its name."""
        arr[:] = self.value

    def __call__(self, desc: InitDesc | str, arr: NDArray) -> None:
        arr[:] = self.value


def _linen_parts(module: linen.Module, inputs: tuple, options: Options) -> tuple[Callable, dict[str, tuple]]:
    if not inputs:
        raise MXNetError("FlaxBlock: a linen module is initialized from example inputs: FlaxBlock(module, x)")
    examples = [jnp.zeros(x.shape, jnp.dtype(x.dtype)) for x in inputs]
    seed, count = next_key(inputs[0].context) if isinstance(inputs[0], NDArray) else next_key(current_context())
    rng = jax.random.fold_in(jax.random.wrap_key_data(jnp.asarray(seed)), count)
    keys: dict[str, Any] = dict(zip(("params", "dropout"), jax.random.split(rng), strict=True))
    result = traverse_util.flatten_dict(module.init(keys, *examples, **options(False)), sep=".")
    mutable = sorted({name.split(".")[0] for name in result} - {"params"})
    # parameters go without "params.", other collections keep their name
    names = {name.removeprefix("params."): name for name in result}

    def call(params: dict, state: dict, values: tuple, rng: jax.Array, train: bool,
             kwargs: Mapping) -> tuple[Any, dict]:
        variables = traverse_util.unflatten_dict({names[n]: v for n, v in {**params, **state}.items()}, sep=".")
        rngs = {"dropout": rng}
        if not (train and mutable):
            return module.apply(variables, *values, rngs=rngs, **kwargs), state
        out, changed = module.apply(variables, *values, rngs=rngs, mutable=mutable, **kwargs)
        return out, {**state, **traverse_util.flatten_dict(changed, sep=".")}
    return call, {short: (result[name], name.startswith("params.")) for short, name in names.items()}


def _nnx_parts(module: nnx.Module) -> tuple[Callable, dict[str, tuple]]:
    graph, params, rngs, state = nnx.split(module, nnx.Param, nnx.RngState, ...)

    def flat(tree: Any) -> dict[str, Any]:
        return {".".join(map(str, path)): value for path, value in nnx.to_flat_state(tree)}

    def filled(tree: Any, values: dict[str, Any]) -> Any:
        return nnx.from_flat_state([(path, value.replace(values[".".join(map(str, path))]))
                                    for path, value in nnx.to_flat_state(tree)])

    def drawn(rng: jax.Array) -> Any:
        """Returns the random streams, reset from a key."""
        streams = [(path, value.replace(jax.random.fold_in(rng, i) if jnp.issubdtype(
            value.get_value().dtype, jax.dtypes.prng_key) else jnp.zeros_like(value.get_value())))
            for i, (path, value) in enumerate(nnx.to_flat_state(rngs))]
        return nnx.from_flat_state(streams)

    def call(arrays: dict, states: dict, values: tuple, rng: jax.Array, train: bool,
             kwargs: Mapping) -> tuple[Any, dict]:
        model = nnx.merge(graph, filled(params, arrays), drawn(rng), filled(state, states))
        model.train() if train else model.eval()
        out = model(*values, **kwargs)
        changed = flat(nnx.split(model, nnx.Param, nnx.RngState, ...)[3])
        return out, {name: changed[name].get_value() for name in states}
    values = {name: (v.get_value(), True) for name, v in flat(params).items()}
    return call, {**values, **{name: (v.get_value(), False) for name, v in flat(state).items()}}


class LinenModule(linen.Module):
    """A Gluon block as a linen module, created by `to_linen`.

    The collection "params" contains its parameters and "batch_stats" its auxiliary states, which
    change if `train` is set and the collection is mutable. Random numbers come from the stream
    "dropout".
    """

    function: Callable[..., Any]
    initial: Any

    @linen.compact
    def __call__(self, *inputs: Any, train: bool = False) -> Any:
        """Runs the block on JAX arrays."""
        values, states = self.initial
        params = {name: self.param(name, lambda _, n=name: values[n]) for name in values}
        aux = {name: self.variable("batch_stats", name, lambda n=name: states[n]) for name in states}
        rng = self.make_rng("dropout") if self.has_rng("dropout") else None
        out, changed = self.function(params, {n: v.value for n, v in aux.items()}, *inputs, rng=rng, train=train)
        if train and not self.is_initializing() and self.is_mutable_collection("batch_stats"):
            for name, variable in aux.items():
                variable.value = changed[name]
        return out


class _Values:
    """Arrays as a module's attribute: equal only to itself, so that flax can hash it."""

    def __init__(self, *groups: dict[str, jax.Array]) -> None:
        self._groups = groups

    def __iter__(self) -> Any:
        return iter(self._groups)


def to_linen(block: HybridBlock, *inputs: Any) -> LinenModule:
    """Converts a Gluon block to a linen module that is initialized with the block's values.

    Args:
        block: initialized and hybridizable.
        inputs: example inputs; see `mx.interop.block_to_jax`.

    Returns:
        The module: `variables = module.init(key, x)`, `module.apply(variables, x, train=False)`.

    Raises:
        MXNetError: see `mx.interop.block_to_jax`.

    Example:
        >>> net = mx.gluon.nn.Dense(2, in_units=3)
        >>> net.initialize()
        >>> net.hybridize()
        >>> module = to_linen(net, mx.nd.ones((1, 3)))
        >>> variables = module.init(jax.random.key(0), jnp.ones((1, 3)))
        >>> module.apply(variables, jnp.ones((5, 3))).shape
        (5, 2)
    """
    apply, params, aux = block_to_jax(block, *inputs)
    return LinenModule(apply, _Values(params, aux))


def to_nnx(block: HybridBlock, *inputs: Any) -> nnx.Module:
    """Converts a Gluon block to an nnx module with the block's values.

    Args:
        block: initialized and hybridizable.
        inputs: example inputs; needed to build the module.

    Raises:
        MXNetError: example inputs are missing; see also `mx.interop.block_to_jax`.
    """
    if not inputs:
        raise MXNetError("to_nnx: an nnx module is built from example inputs: to_nnx(block, x)")
    values = [a.to_jax() if isinstance(a, NDArray) else a for a in inputs]
    module = nnx.bridge.ToNNX(to_linen(block, *inputs), rngs=nnx.Rngs(0))
    module.lazy_init(*values)
    return module


