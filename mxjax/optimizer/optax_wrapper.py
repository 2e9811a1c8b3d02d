"""Wraps optax transformations as optimizers."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from .._xla.x64 import x64_mode
from ..eager.array_types import wrap
from ..eager.dispatch import invoke
from ..kernel.kernel import Kernel
from .base import _is_list, register
from .optimizer import Optimizer

if TYPE_CHECKING:
    import optax

    from ..base import Key
    from ..ndarray import NDArray

__all__ = ["Optax"]


@register
class Optax(Optimizer):
    """Updates weights with an optax gradient transformation.

    weight += learning_rate * lr_mult * tx.update(clip(rescale_grad * grad) + wd * weight). The
    transformation receives the parameters of one call as a dict by name, so global norms are those
    of optax. A call contains all parameters of a device, unless a kvstore updates them one at a
    time. States are created one parameter at a time, so masks and labels must be functions of the
    parameters, not fixed trees.

    Args:
        tx: the transformation, including its learning rate (`optax.adamw(1e-3)`).
        learning_rate: factor of its updates, which an `lr_scheduler` may vary.
        **kwargs: as in `Optimizer`.

    Example:
        >>> import optax
        >>> optimizer = Optax(optax.adamw(1e-3))  # Trainer(params, optimizer), module.init_optimizer(optimizer=...)
    """

    def __init__(self, tx: optax.GradientTransformation, learning_rate: float = 1.0, **kwargs: Any) -> None:
        if not (callable(getattr(tx, "init", None)) and callable(getattr(tx, "update", None))):
            raise TypeError(f"tx must be an optax transformation with init and update, got {tx!r}")
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.tx = tx
        self.aggregate_num = sys.maxsize
        self._kernels: dict[Any, Kernel] = {}

    def _key(self, index: Key) -> str:
        return str(self.idx2name.get(index, index))

    def create_state(self, index: Key, weight: NDArray) -> tuple[NDArray, ...]:
        """Returns the leaves of the transformation's state for this parameter."""
        with x64_mode(weight.chunk.x64):
            leaves = jax.tree.leaves(self.tx.init({self._key(index): weight.read()}))
            return tuple(wrap(jnp.atleast_1d(leaf), weight.context) for leaf in leaves)  # files have no shape ()

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        if not _is_list(index):
            index, weight, grad, state = [index], [weight], [grad], [state]
        self._update_count(index)
        names = tuple(map(self._key, index))
        specs = tuple((tuple(w.shape), np.dtype(w.dtype).name) for w in weight)
        clip = self.clip_gradient is not None
        kernel = self._kernels.get((names, specs, clip))
        if kernel is None:
            kernel = self._kernels[names, specs, clip] = _kernel(self.tx, names, specs, clip)
        rates = np.array([self._get_lrs(index), self._get_wds(index)], np.float32)
        bounds = np.array([self.rescale_grad, self.clip_gradient if clip else 0], np.float32)
        leaves = [leaf for one in state for leaf in one]
        invoke(kernel, [*weight, *grad, *leaves], (rates, bounds))


def _kernel(tx: Any, names: tuple[str, ...], specs: tuple[tuple[tuple[int, ...], str], ...],
            clip: bool) -> Kernel:
    """The compiled update of these parameters: weights and states are changed in place.

    The states of the single parameters and the state of all together have the same leaves at the same paths, because
    a parameter's name is part of the path; what belongs to none (step counts) is equal in all.
    """
    params = {name: jax.ShapeDtypeStruct(shape, np.dtype(dtype))
              for name, (shape, dtype) in zip(names, specs, strict=True)}

    def paths(some: tuple[str, ...]) -> tuple[dict[Any, tuple[int, ...]], Any]:
        """Returns the shapes of the state's leaves by path, and its structure."""
        with x64_mode(*params.values()):
            state = jax.eval_shape(tx.init, {name: params[name] for name in some})
        result, structure = jax.tree_util.tree_flatten_with_path(state)
        return {path: leaf.shape for path, leaf in result}, structure

    together, structure = paths(names)
    leaf_paths = [path for name in names for path in paths((name,))[0]]
    count = len(names)

    def update(*args: Any) -> tuple[Any, ...]:
        weights, grads, leaves, (rates, bounds) = args[:count], args[count:2 * count], args[2 * count:-2], args[-2:]
        values_by_path = dict(zip(leaf_paths, leaves, strict=True))
        state = jax.tree.unflatten(structure, [values_by_path[path].reshape(shape) for path, shape in together.items()])
        prepared = []
        for i, (weight, grad) in enumerate(zip(weights, grads, strict=True)):
            grad = grad * bounds[0].astype(grad.dtype)
            if clip:
                grad = jnp.clip(grad, -bounds[1].astype(grad.dtype), bounds[1].astype(grad.dtype))
            prepared.append(grad + rates[1, i].astype(weight.dtype) * weight)
        changes, state = tx.update(dict(zip(names, prepared, strict=True)), state,
                                   dict(zip(names, weights, strict=True)))
        new = dict(zip(together, jax.tree.leaves(state), strict=True))
        return (*((weight + rates[0, i].astype(weight.dtype) * changes[name]).astype(weight.dtype)
                  for i, (name, weight) in enumerate(zip(names, weights, strict=True))),
                *(jnp.atleast_1d(new[path]) for path in leaf_paths))

    inputs = 2 * count + len(leaf_paths)
    mutated = (*range(count), *range(2 * count, inputs))
    return Kernel("Optax", update, inputs, 0, mutated=mutated)
