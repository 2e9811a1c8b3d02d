"""Point processes: the likelihood of Hawkes processes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from ..common import Array
from ..infer import typed
from ..registry import register


@register("_contrib_hawkesll", num_outputs=2, output_names=lambda p: ["output", "out_state"],
          infer_type=typed(marks="int32"))
def hawkesll(lda: Array, alpha: Array, beta: Array, state: Array, lags: Array, marks: Array, valid_length: Array,
             max_time: Array) -> tuple[Array, Array]:
    """Log likelihood of univariate Hawkes processes with exponential decay, of K kinds (marks) side by side.

    The intensity of kind k is lda[k] + alpha[k] beta[k] Σ exp(-beta[k] (t - tᵢ)) over earlier points of that kind.

    Args:
        lda: (N, K) background intensities.
        alpha, beta: (K,) branching ratios and decays.
        state: (N, K) contribution of earlier points, Σ exp(-beta (t - tᵢ)).
        lags: (N, T) times since the previous point.
        marks: (N, T) kinds, int32.
        valid_length: (N,) numbers of points.
        max_time: (N,) lengths of the observation.

    Returns:
        Log likelihoods (N,), and the final states (N, K). Only the likelihoods have gradients (with respect to lda,
        alpha, beta).
    """
    state, lags, valid_length, max_time = lax.stop_gradient((state, lags, valid_length, max_time))
    kinds = jnp.arange(lda.shape[1])

    def of_one(lda: Array, state: Array, lags: Array, marks: Array, length: Array, end: Array) -> tuple[Array, Array]:
        def step(carry: tuple, point: tuple) -> tuple:
            total, now, last, state = carry
            number, lag, mark = point
            mine = (kinds == mark) & (number < length)
            now = jnp.where(number < length, now + lag, now)
            gained, decay = gain(now - last, state)
            total += jnp.where(mine, jnp.log(jnp.where(mine, lda + alpha * beta * state * decay, 1)) - gained, 0).sum()
            return (total, now, jnp.where(mine, now, last), jnp.where(mine, 1 + state * decay, state)), None

        def gain(passed: Array, state: Array) -> tuple[Array, Array]:
            """The integral of the intensities over the time passed, and the decay in that time."""
            decay = jnp.exp(-beta * passed)
            return lda * passed + alpha * state * (1 - decay), decay
        start = jnp.zeros((), lda.dtype), jnp.zeros((), lda.dtype), jnp.zeros_like(state), state
        (total, _, last, state), _ = lax.scan(step, start, (jnp.arange(len(lags)), lags, marks))
        gained, decay = gain(end - last, state)
        return total - gained.sum(), decay * state
    likelihood, state = jax.vmap(of_one)(lda, state, lags, marks, valid_length, max_time)
    return likelihood, lax.stop_gradient(state)
