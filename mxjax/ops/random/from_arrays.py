"""Random arrays whose parameters are arrays, and the densities of the distributions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import gammaln

from ..._random.streams import source
from ...base import MXNetError
from ..common import Array, gives
from ..infer import same_inputs, tied
from ..params import DType, Shape, np_dtype
from ..registry import register
from . import _host_choices, on_host
from ._distributions import DISTRIBUTIONS, Distribution, declared, float_or, sample
from ._draw import Drawn
from .from_numbers import RANDOM


# ------------------------------------------------------------ samples
def _register_sample(name: str, distribution: Distribution) -> None:
    def draw(*parameters: Array, shape: Shape, dtype: str | None, _key: Array) -> Array:
        first, extra = parameters[0], (1,) * len(shape)
        if any(p.shape != first.shape for p in parameters):
            raise MXNetError(f"operator _sample_{name}: all parameters must have the same shape, got "
                             f"{', '.join(str(p.shape) for p in parameters)}")
        if 0 in shape:
            raise MXNetError(f"operator _sample_{name}: shape={shape} must not have a length of 0")
        if isinstance(_key, Drawn):
            return _key.values
        return sample(distribution, _key, first.shape + shape, float_or(dtype),
                      *(p.reshape(p.shape + extra) for p in parameters))

    declared(draw, distribution.arrays, {"shape": (Shape, ()), "dtype": (DType | None, None)},
             f"Draws samples of this shape from {distribution.doc}, for each element of the parameters.\n\n"
             f"{', '.join(distribution.arrays)}: arrays of equal shape -> their shape + `shape`; float32 by default.")
    register(f"_sample_{name}", aliases=(f"sample_{name}",), infer_shape=same_inputs,
             infer_type=tied(gives(lambda p: p["dtype"] or "float32")),
             FPartialShape=lambda p, x, *_: x + p["shape"], draws_by_value=True,
             FDraw=on_host.by_arrays(on_host.VECTORS[name]) if name in on_host.VECTORS else None, **RANDOM)(draw)


for _name, _distribution in DISTRIBUTIONS.items():
    _register_sample(_name, _distribution)


def _multinomial_types(params: dict[str, Any], ins: list, outs: list) -> None:
    outs[:] = [t or default for t, default in zip(outs, [params["dtype"], ins[0]], strict=False)]


@register("_sample_multinomial", aliases=("sample_multinomial", "_sample_categorical", "sample_categorical"),
          num_outputs=lambda p: 1 + p["get_prob"],
          infer_type=_multinomial_types, FDraw=_host_choices.multinomial, draws_by_value=True, **RANDOM)
def sample_multinomial(data: Array, *, shape: Shape = (), get_prob: bool = False, dtype: DType = "int32",
                       _key: Any = None) -> Any:
    """Draws classes according to the probabilities in the last axis.

    data: (..., classes) -> (...) + shape, in `dtype`. With `get_prob` the log-probabilities of the drawn classes are a
    second output, which is differentiable (REINFORCE).
    """
    if dtype not in ("float16", "float32", "float64", "int32", "uint8"):
        raise MXNetError(f"operator _sample_multinomial: dtype must be a float, int32 or uint8, got {dtype}")
    rows = data.reshape(-1, data.shape[-1])
    count = int(np.prod(shape))
    if isinstance(_key, Drawn):
        drawn = _key.values
    else:
        chances = jnp.log(lax.stop_gradient(rows))[:, None]
        drawn = jax.random.categorical(_key, chances, shape=(rows.shape[0], count))
    out_shape = (data.shape[:-1] + shape) or (1,)
    classes = drawn.reshape(out_shape).astype(np_dtype(dtype))
    if not get_prob:
        return classes
    return classes, jnp.log(jnp.take_along_axis(rows, drawn, 1)).reshape(out_shape)


@register("_npx__random_multinomial", infer_type=gives(lambda p: p["dtype"]),
          FPartialShape=lambda p, n, chances: n + p["shape"] + chances[-1:], **RANDOM)
def random_multinomial(n: Array, p: Array, *, shape: Shape = (), dtype: DType = "int32", _key: Any = None) -> Array:
    """Draws the numbers of occurrences of each class in `n` draws with probabilities `p` (multinomial of MXNet 2).

    n: any shape; p: that shape + (classes,) -> that shape + `shape` + (classes,).
    """
    if p.ndim == 0 or p.shape[:-1] != n.shape:
        raise MXNetError(f"operator multinomial: p must have the shape of n, {n.shape}, and one additional dimension; "
                         f"got shape {p.shape}")
    extra = (1,) * len(shape)
    counts, chances = n.reshape(n.shape + extra), p.reshape(n.shape + extra + p.shape[-1:])
    counts = jnp.broadcast_to(counts, n.shape + shape).astype(jnp.float32)
    chances = jnp.broadcast_to(chances, counts.shape + p.shape[-1:]).astype(jnp.float32)
    return jax.random.multinomial(_key, counts, lax.stop_gradient(chances)).astype(np_dtype(dtype))


@register("_sample_unique_zipfian", num_outputs=2, eager=True, infer_type=gives("int64"), x64=True, **RANDOM)
def sample_unique_zipfian(*, range_max: int, shape: Shape | None = None,
                          _key: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """Draws distinct classes in each row, approximately with P(c) = log((c + 1.5) / (c + 0.5)) / log(range_max).

    They come from MXNet's CPU generator, independent of the context. shape: (batch, samples), at most range_max samples
    -> classes of this shape and the number of tries (batch,), int64.
    """
    if shape is None or len(shape) != 2 or shape[1] > range_max:
        raise MXNetError(f"operator _sample_unique_zipfian: shape={shape} must be (batch, samples) with at most "
                         f"range_max={range_max} samples")
    rows, tries = _host_choices.unique_zipfian(source, range_max, *shape)
    return rows, tries


# ------------------------------------------------------------ densities
def _negative_binomial(x: Array, k: Array, p: Array) -> Array:
    return gammaln(x + k) - gammaln(x + 1) - gammaln(k) + k * jnp.log(p) + x * jnp.log(1 - p)


def _dirichlet(x: Array, alpha: Array) -> Array:
    return (jnp.sum((alpha - 1) * jnp.log(x), -1) + gammaln(jnp.sum(alpha, -1)) - jnp.sum(gammaln(alpha), -1))


# name: (logarithm of the density, names of the parameters)
_DENSITIES: dict[str, tuple[Callable[..., Array], tuple[str, ...]]] = {
    "uniform": (lambda x, low, high: jnp.broadcast_to(-jnp.log(high - low), x.shape), ("low", "high")),
    "normal": (lambda x, mu, sigma: -0.5 * ((x - mu) / sigma) ** 2 - jnp.log(sigma) - 0.5 * np.log(2 * np.pi),
               ("mu", "sigma")),
    "gamma": (lambda x, a, b: a * jnp.log(b) + (a - 1) * jnp.log(x) - b * x - gammaln(a), ("alpha", "beta")),
    "exponential": (lambda x, lam: jnp.log(lam) - lam * x, ("lam",)),
    "poisson": (lambda x, lam: x * jnp.log(lam) - gammaln(x + 1) - lam, ("lam",)),
    "negative_binomial": (_negative_binomial, ("k", "p")),
    "generalized_negative_binomial": (
        lambda x, mu, alpha: _negative_binomial(x, 1 / alpha, 1 / (mu * alpha + 1)), ("mu", "alpha")),
    "dirichlet": (_dirichlet, ("alpha",)),
}
_DISCRETE = ("poisson", "negative_binomial", "generalized_negative_binomial")


def _register_density(name: str, log_density: Callable[..., Array], names: tuple[str, ...]) -> None:
    core = 1 if name == "dirichlet" else 0  # a sample of the Dirichlet distribution is a vector

    def density(sample: Array, *parameters: Array, is_log: bool, _key: Any = None) -> Array:
        batch = parameters[0].ndim - core
        if any(p.shape[:batch] != sample.shape[:batch] or p.shape[batch:] != sample.shape[sample.ndim - core:]
               for p in parameters) or sample.ndim < batch + core:
            raise MXNetError(f"operator _random_pdf_{name}: the shape of sample {sample.shape} must begin with that of "
                             f"the parameters, {', '.join(str(p.shape) for p in parameters)}")
        ones = (1,) * (sample.ndim - core - batch)
        spread = (p.reshape(p.shape[:batch] + ones + p.shape[batch:]) for p in parameters)
        values = lax.stop_gradient(sample) if name in _DISCRETE else sample
        wide = jnp.promote_types(sample.dtype, jnp.float32)
        values = [a.astype(wide) for a in (values, *spread)]
        if name == "uniform" and not is_log:  # which may be negative in MXNet, where high < low
            return jnp.broadcast_to(1 / (values[2] - values[1]), sample.shape).astype(sample.dtype)
        log = log_density(*values)
        log = log.reshape(1) if not log.ndim else log  # of one vector
        return (log if is_log else jnp.exp(log)).astype(sample.dtype)

    declared(density, ("sample", *names), {"is_log": (bool, False)},
             f"Density of the {name.replace('_', ' ')} distribution (its logarithm with is_log) at the samples.\n\n"
             "sample: the shape of the parameters + any further axes: the samples for each of them.")
    register(f"_random_pdf_{name}", aliases=(f"random_pdf_{name}",),
             FPartialShape=lambda p, x, *_: x[:len(x) - core])(density)


for _name, (_log_density, _names) in _DENSITIES.items():
    _register_density(_name, _log_density, _names)
