"""Small damage of many kinds: bits, lengths, numbers, cuts, and pieces of other files."""

import re

_SIZES = [0, 1, 2, 7, 8, 127, 128, 255, 256, 1 << 15, (1 << 16) - 1, 10 ** 6, 10 ** 8, (1 << 31) - 1, 1 << 31,
          (1 << 32) - 1, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
_TEXTS = [b"-1", b"0", b"1e400", b"nan", b"100000000", b"99999999999999999999", b'""', b"[]", b"{}", b"null", b"(",
          b"[" * 50]
_NUMBER = re.compile(rb"-?\d+")


def _flip(raw, rng, other):
    place = rng.randrange(len(raw))
    raw[place] ^= 1 << rng.randrange(8)


def _byte(raw, rng, other):
    raw[rng.randrange(len(raw))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))


def _cut(raw, rng, other):
    del raw[rng.randrange(len(raw)):]


def _remove(raw, rng, other):
    place = rng.randrange(len(raw))
    del raw[place:place + rng.randrange(1, 17)]


def _repeat(raw, rng, other):
    place = rng.randrange(len(raw))
    raw[place:place] = raw[place:place + rng.randrange(1, 33)] * rng.choice((1, 2, 50))


def _splice(raw, rng, other):
    place, start = rng.randrange(len(raw)), rng.randrange(len(other)) if other else 0
    raw[place:place + rng.randrange(33)] = other[start:start + rng.randrange(65)]


def _length(raw, rng, other):
    width, order = rng.choice((1, 2, 4, 8)), rng.choice(("little", "big"))
    place = rng.randrange(len(raw))
    old = int.from_bytes(raw[place:place + width], order)
    new = rng.choice((rng.choice(_SIZES), old + rng.choice((-1, 1)), old * 2)) % (1 << 8 * width)
    raw[place:place + width] = new.to_bytes(width, order)


def _number(raw, rng, other):
    found = list(_NUMBER.finditer(raw))
    if found:
        one = rng.choice(found)
        raw[one.start():one.end()] = rng.choice((rng.choice(_TEXTS), str(rng.choice(_SIZES)).encode()))


def _swap(raw, rng, other):
    first, second = sorted((rng.randrange(len(raw)), rng.randrange(len(raw))))
    length = min(rng.randrange(1, 17), second - first)
    raw[first:first + length], raw[second:second + length] = raw[second:second + length], raw[first:first + length]


_WAYS = (_flip, _byte, _cut, _remove, _repeat, _splice, _length, _length, _number, _number, _swap)


def mutated(seeds, rng, most=1 << 16):
    """One of the files with one to eight damages."""
    raw, other = bytearray(rng.choice(seeds)), rng.choice(seeds)
    for _ in range(rng.choice((1, 1, 2, 3, 5, 8))):
        if not raw:
            break
        rng.choice(_WAYS)(raw, rng, other)
    return bytes(raw[:most])
