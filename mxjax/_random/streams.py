"""Random numbers: MXNet's own source for CPUs, and a stream of JAX's keys for each context."""

from __future__ import annotations

import threading
from typing import Any

import jax
import numpy as np

from .._xla.process import when_forked
from ..context import Context, takes_device
from .mersenne import Source

__all__ = ["host_generator", "jax_key", "load_state_dict", "next_key", "on_host", "seed", "source", "state",
           "state_dict"]

_lock = threading.Lock()
_streams: dict[Context, list[Any]] = {}
_base_seed = 0  # as MXNet begins

source = Source(_base_seed)  # the stream of all CPU contexts, in each thread


@when_forked
def _begin_in_child() -> None:
    global _lock
    _lock = threading.Lock()


@takes_device
def seed(seed_state: int, ctx: Context | str = "all") -> None:
    """Seeds the random number generators. A process begins as if it had seeded all with 0.

    On CPUs the numbers that follow are MXNet's, to the bit (docs/design/0021); each thread has its own there, and seeds
    its own.

    Args:
        seed_state: any int; equal seeds give equal numbers.
        ctx: a context, or its device type, whose generator alone is seeded (and that of the CPUs, as in MXNet), or
            "all". Seeded alone, any context gives the same numbers for the same seed; seeded together, each has a
            stream of its own.

    Raises:
        ValueError: `seed_state` is no int.
    """
    global _base_seed
    if not isinstance(seed_state, (int, np.integer)):
        raise ValueError(f"seed_state must be an int, got {seed_state!r}")
    with _lock:
        if ctx == "all":
            _base_seed = int(seed_state)
            _streams.clear()
        else:
            _streams[Context(ctx)] = [_key_data(int(seed_state), 0), 0]
        source.seed(int(seed_state), alone=ctx != "all")


def on_host(ctx: Context) -> bool:
    """Returns whether random numbers of a context come from MXNet's source."""
    return ctx.device_type not in ("gpu", "tpu")


def next_key(ctx: Context, count: int = 1) -> tuple[np.ndarray, np.uint32]:
    """Key data and counter of the next random operator call on `ctx`; the operator folds the counter in.

    `count` reserves that many counters, for a graph with several random operators.
    """
    with _lock:
        stream = _streams.get(ctx)
        if stream is None:
            stream = _streams[ctx] = [_key_data(_base_seed, ctx.device_id), 0]
        first = stream[1] + 1
        stream[1] += count
        return stream[0], np.uint32(first & 0xFFFFFFFF)


def state(ctx: Context) -> tuple:
    """Returns the state that the next numbers on `ctx` follow from; reading it uses no numbers up."""
    with _lock:
        key, count = _streams.get(ctx) or (_key_data(_base_seed, ctx.device_id), 0)
        return key.tolist(), count, source.drawn


def state_dict() -> dict[str, Any]:
    """Returns the state of all contexts' numbers, of CPUs in this thread, as JSON can store it."""
    with _lock:
        streams = [[ctx.device_type, ctx.device_id, key.tolist(), count] for ctx, (key, count) in _streams.items()]
        return {"seed": _base_seed, "streams": streams, "source": source.state_dict()}


def load_state_dict(state: dict[str, Any]) -> None:
    """Goes to where `state_dict` was called.

    Raises:
        ValueError: the state is damaged; nothing has been changed.
    """
    global _base_seed
    try:
        number, streams = int(state["seed"]), {}
        for kind, place, key, count in state["streams"]:
            words = np.array(key, np.uint32)
            if words.shape != (2,) or int(count) < 0:
                raise ValueError("a key must have two words")
            streams[Context(kind, place)] = [words, int(count)]
        inner = state["source"]
        with _lock:
            source.load_state_dict(inner)
            _base_seed = number
            _streams.clear()
            _streams.update(streams)
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise ValueError(f"the random number state is corrupt: {error}") from error


def _key_data(number: int, stream: int) -> np.ndarray:
    """Two words out of a seed of any size and a stream's number (mixed by NumPy's SeedSequence)."""
    return np.random.SeedSequence([number & (2**64 - 1), stream]).generate_state(2, np.uint32)


def jax_key(ctx: Context) -> jax.Array:
    """A fresh JAX random key from a context's stream, for use in JAX code."""
    data, counter = next_key(ctx)
    key = jax.random.wrap_key_data(data)  # pyright: ignore[reportArgumentType]  it takes NumPy's arrays, too
    return jax.random.fold_in(key, counter)


def host_generator(ctx: Context) -> np.random.Generator:
    """Returns a NumPy generator seeded from the context's stream, for work on the host."""
    data, counter = next_key(ctx)
    return np.random.default_rng([*data.tolist(), int(counter)])
