"""When calls become one program, and how long programs are kept: all that decides so stands here.

A program costs XLA 30 to 200 ms, a call by itself some 10 us. So what is seen for the first times runs call by call
(`Programs`), a new signature of a small function is computed by NumPy (`first_calls`), and everything that can be
compiled again lies in memories of bounded size, which `compiled.clear_caches` empties.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Hashable, Iterator
from typing import Any

from .._support.bounded import Bounded

__all__ = ["CALL_NUMBERS", "FEW_CALLS", "FEW_NUMBERS", "FEW_WEIGHTS", "FIRST_CALLS", "LOOK_EVERY",
           "MANY_WEIGHTS", "MOST_CALLS", "MOST_CALLS_AWAY", "MOST_MAPPINGS", "MOST_SIGNATURES", "OFTEN", "STEADY",
           "TRIALS", "VARIED_CALLS", "VARIED_ROUNDS", "VARIED_SHAPES", "VARIED_SLICES", "Programs", "Variety",
           "calls_at_first", "expect_few_calls", "next_round", "same_round"]

TRIALS = 2  # how often a structure of calls is seen before it becomes a program
FIRST_CALLS = 2  # of a new signature, by NumPy where it can: the next one is compiled
VARIED_SHAPES = 4  # of one function, after which it is expected to meet more, few of them often
VARIED_CALLS = 32  # of each of those by NumPy: they cost 0.1 ms more than compiled ones, compiling 20
VARIED_ROUNDS = 3  # of a program with new sizes, one soon after the other: then it will meet ever new ones
SOON = 64  # rounds: models that are trained one after the other have new sizes, too, but later
FEW_CALLS = 1000  # NumPy computes at first in processes that do not live long,
FEW_NUMBERS = 1 << 22  # of arguments of as many elements together: beyond, compiling is the shorter work
MOST_CALLS = 64  # of operators one by one, in one backward program: beyond, their own work outweighs what calls cost
MOST_CALLS_AWAY = 512  # on an accelerator, which waits for what calls cost: 0.1 ms each, where compiling takes some 50
OFTEN = 256  # how often such a pass, of more than MOST_CALLS, is seen before it becomes a program
STEADY = 8  # updates of the same weights in a row, before all of them become one program: that is a large one
FEW_WEIGHTS = 4  # for which that would gain nothing
MANY_WEIGHTS = 16  # whose update as one program takes seconds to compile: first, each goes STEADY times by itself
CALL_NUMBERS = 1 << 17  # of a weight that is updated, beyond which its call by itself takes nothing to speak of
VARIED_SLICES = 16  # different slices, from which on where one begins is an argument of its program: slower, but one
LOOK_EVERY = 64  # new signatures and programs, between two looks at how much there is of them: up to 40 ms
MOST_MAPPINGS = 0.5  # share of the memory mappings that Linux allows a process, before programs are dropped
MOST_SIGNATURES = 1 << 14  # of all compiled functions, which take some ten kilobytes each


_short_lived = False


def calls_at_first(varied: bool, elements: int, nearly: bool = False, worth: int = FEW_CALLS) -> int:
    """Returns how many calls of a new signature NumPy computes.

    Args:
        varied: more signatures of the function are expected, few of them often.
        elements: of all arguments of a call.
        nearly: the last bits are not XLA's; so that two runs seldom differ, it goes on until a program would have paid.
        worth: how many calls by NumPy take as long as compiling the program (`interpret.cost`).
    """
    most = max(min(FEW_CALLS, FEW_NUMBERS // max(elements, 1)), 1)
    calls = min(VARIED_CALLS, most) if varied else FIRST_CALLS
    calls = max(calls, most) if _short_lived or nearly else calls
    return max(min(calls, worth), FIRST_CALLS)


def expect_few_calls() -> None:
    """In processes that live for seconds a program seldom earns what it costs: NumPy computes what it can."""
    global _short_lived
    _short_lived = True


class _Rounds(threading.local):
    """The number of times that a thread has looked at results.

    What lies between is a round of its loop, or a step of training.
    """

    count = 0


_rounds = _Rounds()


def next_round() -> None:
    """Notes that this thread goes back to its first operator, it seems: it reads numbers, or asks for gradients."""
    _rounds.count += 1


@contextlib.contextmanager
def same_round() -> Iterator[None]:
    """A block in which what is looked at counts for nothing: one round's batch is made there, say."""
    before = _rounds.count
    try:
        yield
    finally:
        _rounds.count = before


class Variety:
    """The judgement whether a program meets ever new sizes: it does once it has met some in several rounds, one soon
    after the other.

    A network meets all its sizes in its first steps. What still meets new ones after some, each time to be compiled,
    would be a hundred times as slow as without a compiler.
    """

    __slots__ = ("_round", "_rounds")

    def __init__(self) -> None:
        self._round, self._rounds = -SOON, 0  # the last one with a new size, and how many there were

    def note(self, elements: int) -> bool:
        """Notes a new size, of so many elements in all; whether NumPy may compute it but for the last bits."""
        now = _rounds.count
        if now != self._round:
            if self._rounds <= VARIED_ROUNDS:
                self._rounds = self._rounds + 1 if abs(now - self._round) <= SOON else 1
            self._round = now
        return self._rounds > VARIED_ROUNDS and elements <= FEW_NUMBERS and \
            os.environ.get("MXNET_ENFORCE_DETERMINISM", "0") in ("", "0", "false", "False")


class Programs:
    """Programs by structure; each is made when its structure has been seen `trials` times.

    Args:
        most: how many structures are known at a time.
    """

    def __init__(self, most: int = 512) -> None:
        self.made: dict[Hashable, Any] = Bounded(most)  # those that are programs by now
        self._seen: dict[Hashable, int] = Bounded(most)

    def find(self, structure: Hashable, make: Callable[[], Any], trials: int = TRIALS) -> Any:
        """The program of a structure; None where it is to run call by call this time.

        Args:
            structure: what tells programs apart. What it names by identity must live as long as the program.
            make: makes the program.
            trials: how often the structure runs call by call.
        """
        program = self.made.get(structure)
        if program is None:
            seen = self._seen.get(structure, 0) + 1
            if seen <= trials:
                self._seen[structure] = seen
                return None
            program = self.made[structure] = make()
            self._seen.pop(structure, None)
        return program
