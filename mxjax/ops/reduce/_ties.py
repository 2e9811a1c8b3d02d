"""The order of equal values that MXNet has on CPUs, where its sorts are not stable.

MXNet sorts positions with C++'s `std::sort`, and with `std::partial_sort` where few of many are wanted. In GNU's
library, with which it is built, these are an introspective sort and a heap of the best. Both do the same with equal
values at each call, so it can be computed here: the parts of an introspective sort all at once, level by level, the
heap step by step.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..common import Array

__all__ = ["LONGEST_STABLE", "introsort", "partial_sort"]

LONGEST_STABLE = 16  # parts of up to this length are sorted by insertion, which keeps the order of equal values
_BLOCK = 1024  # keys that are compared at once with the last one of the heap


# ------------------------------------------------------------ a heap
def partial_sort(keys: Array, count: int) -> Array:
    """Positions (int32) of the `count` smallest keys (int32) of the last axis, in the order of `std::partial_sort`."""
    places = jnp.arange(count, dtype=jnp.int32)
    one = jax.vmap(lambda row: _by_heap(row[:count], places, 0, jnp.int32(count), row)[1])
    return one(keys.reshape(-1, keys.shape[-1])).reshape(*keys.shape[:-1], count)


def _by_heap(keys: Array, ids: Array, start: Any, count: Array, others: Array) -> tuple[Array, Array]:
    """Keys and their positions with `count` of them, from `start` on, sorted; they are the smallest of `others`.

    They become a heap, the largest on top; then each smaller one of the others, from number `count` on, takes the
    place of the top; then the top, again and again, goes behind the rest. In each step one key sinks into a heap.
    """
    half, places, end = count // 2, jnp.arange(_BLOCK, dtype=jnp.int32), others.size

    def step(state: tuple) -> tuple:
        built, at, left, keys, ids = state
        building = built < half
        seeking, taking = ~building & (at < end), ~building & (at >= end)
        block = others[jnp.minimum(at + places, end - 1)]
        smaller = (block < keys[start]) & (at + places < end)
        chosen, seen = jnp.argmax(smaller).astype(jnp.int32), smaller.any()
        hole, last = jnp.where(building, half - 1 - built, 0), start + left - 1
        of_heap = jnp.where(taking, last, start + hole)
        key = jnp.where(seeking & seen, block[chosen], keys[of_heap])
        one = jnp.where(seeking & seen, at + chosen, ids[of_heap])
        emptied = jnp.where(taking, last, start)
        keys, ids = keys.at[emptied].set(keys[start]), ids.at[emptied].set(ids[start])
        limit = jnp.where(taking, left - 1, jnp.where(building | seen, count, 0))
        at = jnp.where(seeking, at + jnp.where(seen, chosen + 1, _BLOCK), at)
        return built + building, at, left - taking, *_sunk(keys, ids, start, hole, limit, key, one)
    state = jnp.int32(0), count, count, keys, ids
    return lax.while_loop(lambda state: (state[0] < half) | (state[1] < end) | (state[2] > 1), step, state)[3:]


def _sunk(keys: Array, ids: Array, start: Any, hole: Array, count: Array, key: Array,
          one: Array) -> tuple[Array, Array]:
    """The heap of `count` places with one key put into the hole or below it."""
    def larger(keys: Array, hole: Array) -> Array:
        """The child with the larger key; the right one of equals."""
        left = 2 * hole + 1
        right = jnp.minimum(left + 1, count - 1)
        return jnp.where(keys[start + right] < keys[start + left], left, right)

    def goes_on(state: tuple) -> Array:
        keys, _, hole = state
        return (2 * hole + 1 < count) & (keys[start + larger(keys, hole)] >= key)

    def down(state: tuple) -> tuple:
        keys, ids, hole = state
        child = larger(keys, hole)
        return keys.at[start + hole].set(keys[start + child]), ids.at[start + hole].set(ids[start + child]), child
    keys, ids, hole = lax.while_loop(goes_on, down, (keys, ids, hole))
    return keys.at[start + hole].set(key), ids.at[start + hole].set(one)


# ------------------------------------------------------------ an introspective sort
def introsort(keys: Array) -> Array:
    """Positions (int32) to which `std::sort` brings the keys (int32) of the last axis before it sorts by insertion.

    A stable sort of the keys at these positions ends it.
    """
    size = keys.shape[-1]
    places = jnp.arange(keys.size, dtype=jnp.int32)
    first = places - places % size
    deepest = 2 * (size.bit_length() - 1)

    def unfinished(state: tuple) -> Array:
        level, _, low, high = state
        return (level < deepest) & (high - low > LONGEST_STABLE).any()

    def parted(state: tuple) -> tuple:
        level, *parts = state
        pairs, low, high = parts
        return level + 1, *_parted(pairs, low, high, places)
    state = 0, jnp.stack([keys.ravel(), places]), first, first + size
    _, pairs, low, high = lax.while_loop(unfinished, parted, state)

    def sort_one(state: tuple) -> tuple:
        keys, ids, long = state
        at = jnp.argmax(long)
        return *_by_heap(keys, ids, low[at], high[at] - low[at], keys[:1]), long & (low != low[at])
    state = *pairs, high - low > LONGEST_STABLE  # the rest was partitioned badly repeatedly
    _, ids, _ = lax.while_loop(lambda state: state[2].any(), sort_one, state)
    return (ids % size).reshape(keys.shape)


def _parted(pairs: Array, low: Array, high: Array, places: Array) -> tuple[Array, Array, Array]:
    """Partitions each long part in two, at the median of three of its keys.

    Each place knows from where (`low`) to where (`high`) its part goes. One walk goes up from the start of a part and
    stops at keys that are not below the median, one goes down and stops at keys that are not above it. As long as the
    walks have not met, the pairs of their stops are swapped.
    """
    long = high - low > LONGEST_STABLE
    one, two, three = low + 1, low + (high - low) // 2, high - 1
    x, y, z = pairs[0, jnp.stack([one, two, three])]
    median = jnp.where(x < y, jnp.where(y < z, two, jnp.where(x < z, three, one)),
                       jnp.where(x < z, one, jnp.where(y < z, three, two)))
    source = jnp.where(places == low, median, jnp.where(places == median, low, places))
    pairs = pairs[:, jnp.where(long, source, places)]

    keys, pivot = pairs[0], pairs[0, low]
    stops = jnp.stack([keys >= pivot, keys <= pivot]) & long & (places > low)
    up, down = passed = jnp.cumsum(stops.astype(jnp.int32), 1)
    # stop number i of either walk goes to the place low + 1 + i
    slots = jnp.where(stops, low + jnp.stack([up - up[low], 1 + down[high - 1] - down]), places.size)
    none = jnp.broadcast_to(jnp.array([[places.size], [-1]], jnp.int32), passed.shape)
    stopped = none.at[jnp.array([[0], [1]]), slots].set(places, mode="drop")

    swapped = stopped[0] < stopped[1]  # the first ones of each part
    source = places.at[jnp.where(swapped, stopped, places.size)].set(stopped[::-1], mode="drop")
    met = ~swapped & ((places == low + 1) | jnp.roll(swapped, 1)) & (places > low)
    ends = jnp.minimum(stopped[0], jnp.where(places == low + 1, high, jnp.roll(stopped[1], 1)))
    cut = places.at[jnp.where(met & long, low, places.size)].set(ends, mode="drop")[low]
    upper = places >= cut
    return pairs[:, source], jnp.where(long & upper, cut, low), jnp.where(long & ~upper, cut, high)
