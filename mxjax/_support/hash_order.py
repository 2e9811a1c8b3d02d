"""The order of keys in a hash table of the C++ library. MXNet lists attributes of symbols in this order."""

from __future__ import annotations

from .bounded import bounded_cache

__all__ = ["in_hash_order"]

_FACTOR, _SEED, _MASK = 0xC6A4A7935BD1E995, 0xC70F6907, 2**64 - 1
# numbers of buckets as a table grows, before and after GCC 5
_SIZES = {1: (11, 23, 47, 97, 199, 409, 823), 2: (13, 29, 59, 127, 257, 541, 1109)}


@bounded_cache(4096)
def in_hash_order(keys: tuple[str, ...], api: int) -> list[str]:
    """Returns text keys in the order in which an `std::unordered_map` lists them after their insertion.

    Source: libstdc++. A list links all keys. A key of a new bucket is inserted at the beginning of
    the list, another one at the beginning of its bucket.

    Args:
        keys: different keys in the order of insertion.
        api: level, because MXNet 1.9.1 and 2.0 were compiled with different versions of the library.
    """
    hashes = {key: _hash(key.encode()) for key in keys}
    listed: list[str] = []
    sizes = iter(_SIZES[api])
    size = 0
    for count, key in enumerate(hashes):
        if count >= size:
            size = next(sizes, 0) or 2 * size + 1
            listed = _linked(listed, hashes, size)
        _link(listed, key, hashes, size)
    return listed


def _linked(keys: list[str], hashes: dict[str, int], size: int) -> list[str]:
    """Returns the list of a table of another size, into which the keys are inserted in their order."""
    listed: list[str] = []
    for key in keys:
        _link(listed, key, hashes, size)
    return listed


def _link(listed: list[str], key: str, hashes: dict[str, int], size: int) -> None:
    bucket = hashes[key] % size
    listed.insert(next((i for i, other in enumerate(listed) if hashes[other] % size == bucket), 0), key)


def _hash(text: bytes) -> int:
    """MurmurHash64A (Austin Appleby, 2008)."""
    result = _SEED ^ len(text) * _FACTOR & _MASK
    whole = len(text) & ~7
    for begin in range(0, whole, 8):
        word = _mixed(int.from_bytes(text[begin:begin + 8], "little") * _FACTOR & _MASK) * _FACTOR & _MASK
        result = (result ^ word) * _FACTOR & _MASK
    if whole < len(text):
        result = (result ^ int.from_bytes(text[whole:], "little")) * _FACTOR & _MASK
    return _mixed(_mixed(result) * _FACTOR & _MASK)


def _mixed(value: int) -> int:
    return value ^ value >> 47
