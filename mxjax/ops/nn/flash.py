"""Attention by a kernel that never holds all scores (arXiv:2205.14135), on devices that have one.

cuDNN's on NVIDIA GPUs, the one of JAX's Pallas library on TPUs; both for half precision, whose sums they keep in
float32. Anything else, and every other device, computes `plain`.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from ..by_device import by_device
from ..common import Array, by_own_rules

__all__ = ["CALLS", "HALVES", "KERNELS", "Parts", "attend", "plainly"]

HALVES = (jnp.bfloat16, np.float16)  # the dtypes that they are for
# cuDNN's calls, which JAX exports only on request, since other releases may not support them
CALLS = [f"__cudnn$fmha{bias}Softmax{way}" for bias in ("", "ScaleBias") for way in ("", "Backward")]
_WIDEST, _OF = 128, 8  # numbers of a head on every GPU that has the kernel: up to so many, a multiple of so many
_BLOCK = 128  # of the TPU's kernel
_LONG = 1024  # it keeps 256 numbers of float32 for each query: as much as that many weights of half precision


class Parts(NamedTuple):
    """The parts of an attention.

    query, key, value: (batch, time, heads, size); scale: of the scores; bias: added to them after that, of the queries'
    dtype; mask: which scores count; both broadcastable to (batch, heads, time of queries, time of keys), None: nothing,
    all; emptied: a query that attends to nothing gets 0, else the mean of all values.
    """

    query: Array
    key: Array
    value: Array
    scale: float
    bias: Array | None = None
    mask: Array | None = None
    emptied: bool = False


def attend(plain: Callable[[], Array], parts: Parts, give: Callable[[Array], Array]) -> Array:
    """Attention, by the device's kernel where it has one for these parts.

    Args:
        plain: computes the result step by step.
        parts: arguments of the kernels.
        give: converts the result of a kernel, (batch, time, heads, size), to that of the operator.
    """
    def by(kernel: Callable) -> Callable[[], Array]:
        def branch() -> Array:
            query, key, value, scale, bias, mask, emptied = parts
            run, alive = functools.partial(kernel, scale=scale), None
            if mask is not None:
                batch, time, heads, _ = query.shape
                alive = jnp.broadcast_to(jnp.any(mask, -1), (batch, heads, time)).swapaxes(1, 2)[..., None]
                query = jnp.where(alive, query, 0)  # whose scores don't count has no gradient
                low = jnp.asarray(jnp.finfo(query.dtype).min / 2, query.dtype)
                bias = jnp.where(mask, jnp.zeros((), query.dtype) if bias is None else bias, low)
            out: Any = run(query, key, value, None) if bias is None else _biased(run, query, key, value, bias)
            return give(jnp.where(cast(Array, alive), out, 0) if emptied else out)
        return branch
    fitting = () if getattr(_local, "plainly", False) else KERNELS.items()
    kernels = {name: by(kernel) for name, (fits, kernel) in fitting if fits(parts)}
    return by_device(**kernels, default=plain) if kernels else plain()


_local = threading.local()


@contextlib.contextmanager
def plainly() -> Iterator[None]:
    """A block that traces no kernels: for functions that leave the library, which may be divided among devices.

    XLA divides operators; a kernel for TPUs has to be divided by hand.
    """
    before, _local.plainly = getattr(_local, "plainly", False), True
    try:
        yield
    finally:
        _local.plainly = before


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _biased(run: Callable[..., Array], query: Array, key: Array, value: Array, bias: Array) -> Array:
    """`run` with the gradient of a bias, which its own gradient leaves out; XLA drops it if it is not read."""
    return run(query, key, value, bias)


def _biased_forward(run: Callable[..., Array], query: Array, key: Array, value: Array, bias: Array) -> tuple:
    out, pull = jax.vjp(lambda *parts: run(*parts, bias), query, key, value)
    return out, (pull, query, key, value, bias, out)


@by_own_rules
def _biased_backward(run: Any, kept: tuple, head: Array) -> tuple:
    pull, query, key, value, bias, out = kept
    product = functools.partial(jnp.einsum, preferred_element_type=jnp.float32)
    scores = product("bthd,bshd->bhts", query, key) * run.keywords["scale"] + bias
    slopes = product("bthd,bshd->bhts", head, value) - product("bthd,bthd->bht", head, out)[..., None]
    change = jax.nn.softmax(scores, axis=-1) * slopes
    shared = tuple(i for i, n in enumerate(bias.shape) if n == 1)
    return *pull(head), jnp.sum(change, axis=shared, keepdims=True).astype(bias.dtype)


_biased.defvjp(_biased_forward, _biased_backward)


# ------------------------------------------------------------ kernels
def _sized(parts: Parts) -> bool:
    query, key, value = parts[:3]
    if not all(isinstance(n, int) for n in (*query.shape, *key.shape)):
        return False  # of an export for any batch
    return query.dtype in HALVES and query.dtype == key.dtype == value.dtype and \
        query.shape[-1] == value.shape[-1] and query.shape[-1] % _OF == 0 and \
        (parts.bias is None or parts.bias.dtype == query.dtype)


def _fits_gpu(parts: Parts) -> bool:
    lengths = parts.query.shape[1], parts.key.shape[1]
    return _sized(parts) and parts.query.shape[-1] <= _WIDEST and min(lengths) > 1 and \
        (parts.bias is None and parts.mask is None or not any(n % 2 for n in lengths)) and _has_cudnn()


@functools.cache
def _has_cudnn() -> bool:
    """Returns whether there is cuDNN, and no GPU older than its kernels for attention (Ampere)."""
    def run(x: Array) -> Array:
        return jax.nn.dot_product_attention(x, x, x, implementation="cudnn")
    try:
        jax.eval_shape(run, jax.ShapeDtypeStruct((1, 2, 1, _OF), jnp.bfloat16))
    except (RuntimeError, NotImplementedError, ValueError):
        return False
    try:
        devices: Sequence[Any] = jax.local_devices(backend="cuda")
    except RuntimeError:
        return True  # it is for a device that is not here
    return all(float(d.compute_capability) >= 8 for d in devices)


def _on_gpu(query: Array, key: Array, value: Array, bias: Array | None, *, scale: float) -> Array:
    if bias is not None:  # one for all of a batch or of the heads, or one for each
        counts = [n if length != 1 else 1 for n, length in zip((query.shape[0], query.shape[2]), bias.shape[:2],
                                                               strict=True)]
        bias = jnp.broadcast_to(bias, (*counts, query.shape[1], key.shape[1]))
    return jax.nn.dot_product_attention(query, key, value, bias, scale=scale, implementation="cudnn")


def _fits_tpu(parts: Parts) -> bool:
    lengths = parts.query.shape[1], parts.key.shape[1]
    return _sized(parts) and parts.query.dtype == jnp.bfloat16 and not any(n % _BLOCK for n in lengths) and \
        lengths[1] >= _LONG


def _on_tpu(query: Array, key: Array, value: Array, bias: Array | None, *, scale: float) -> Array:
    from jax.experimental.pallas.ops.tpu.flash_attention import flash_attention  # slow to import, for few programs
    query, key, value = (jnp.swapaxes(part, 1, 2) for part in (query, key, value))
    if bias is not None:
        bias = jnp.broadcast_to(bias, (*query.shape[:3], key.shape[2]))
    return jnp.swapaxes(flash_attention(query, key, value, bias, sm_scale=scale), 1, 2)


KERNELS = {"cuda": (_fits_gpu, _on_gpu), "tpu": (_fits_tpu, _on_tpu)}
