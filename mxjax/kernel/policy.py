"""The policy that decides when calls become one program and how long programs are kept.

XLA needs 30 to 200 ms to compile a program, while a single call takes about 10 us. So new
structures first run call by call (`Programs`). On CPUs, NumPy computes the first calls and the
first steps of a training (`Quota`, `Training`). Everything that can be recompiled is in bounded
caches, which `compiled.clear_caches` clears.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any

from .._support import settings
from .._support.bounded import Bounded
from ..interpret.calls import Interpreted, meter

__all__ = ["AHEAD", "CALL_NUMBERS", "FEW_WEIGHTS", "LEAST_CALLS", "LONG", "LOOK_EVERY", "LOOK_SELDOM",
           "MANY_WEIGHTS", "MOST_CALLS", "MOST_CALLS_AT_FIRST", "MOST_CALLS_AWAY", "MOST_KINDS",
           "MOST_MAPPINGS", "MOST_SIGNATURES", "MOST_STEPS", "OFTEN", "SETTLED", "STEADY", "TRIALS",
           "VARIED_ROUNDS", "VARIED_SHAPES", "VARIED_SLICES", "Programs", "Quota", "Training", "Variety",
           "compiles_at_once", "expect_few_calls", "next_round", "quota_of", "same_round", "training"]

TRIALS = 2  # occurrences of a structure of calls before it becomes a program
LEAST_CALLS = 2  # calls that NumPy must complete in the time of a compilation; otherwise XLA computes all
MOST_CALLS_AT_FIRST = 1000  # NumPy calls of a signature; this many cost little compared with the calls to come
SETTLED = 2  # steps of a process after which each has the same work as the next of its kind
MOST_STEPS = 200  # further steps by NumPy for each kind of step
MOST_KINDS = 32  # kinds of steps (batch sizes, buckets) that extend the steps by NumPy
LONG = 2  # steps after which a training is expected to continue
AHEAD = 0.75  # share of the NumPy calls after which compilation starts
VARIED_SHAPES = 4  # shapes of one function after which it is traced with symbolic sizes
VARIED_ROUNDS = 3  # close rounds with new sizes after which more new sizes are expected
SOON = 64  # distance of such rounds: models trained one after another have new sizes, too, but later
MOST_CALLS = 64  # operators in one backward program; with more, their work outweighs the cost of calls
MOST_CALLS_AWAY = 512  # on an accelerator, where a call costs 0.1 ms and its compilation about 50
OFTEN = 256  # occurrences of a pass of more than MOST_CALLS before it becomes a program
STEADY = 8  # consecutive updates of the same weights before they become one large program
FEW_WEIGHTS = 4  # number of weights below which that gains nothing
MANY_WEIGHTS = 16  # number of weights whose joint update takes seconds to compile; they are first updated one by one
CALL_NUMBERS = 1 << 17  # elements of a weight from which the cost of a separate call is negligible
VARIED_CALLS = 4  # factor for NumPy's calls of a prediction at ever new sizes: a program for each rarely pays off
VARIED_SLICES = 16  # slices from which on the start is an argument of a single, slower program
LOOK_EVERY = 64  # new programs between two checks of the total, which take up to 40 ms
LOOK_SELDOM = 1024  # new signatures that NumPy computes, which need little memory and no mappings
MOST_MAPPINGS = 0.5  # share of Linux's limit of memory mappings at which programs are dropped
MOST_SIGNATURES = 1 << 14  # signatures of all compiled functions, about ten kilobytes each


_short_lived = False


def expect_few_calls() -> None:
    """Prefers NumPy, for processes that live only for seconds, where compilation rarely pays off."""
    global _short_lived
    _short_lived = True


def compiles_at_once() -> bool:
    """Returns whether XLA computes all calls, for reproducible bits (MXNET_ENFORCE_DETERMINISM)."""
    return settings.ENFORCE_DETERMINISM()


class Training(threading.local):
    """The progress of a thread's training: NumPy computes its first steps, XLA all later ones.

    The step at which a training switches to XLA must not depend on other work of the process;
    otherwise a resumed training would produce other bits. So it depends only on the optimizer's
    number of updates and on the kinds of its steps, which are saved with the optimizer. Steps are
    of one kind if NumPy has the same work: each batch size or bucket has programs of its own.

    Attributes:
        steps: number of the optimizer's updates, except the latest one.
        first: number of steps that NumPy computes.
        owner: identity of the optimizer, to detect that another one has trained meanwhile.
        settled: number of updates since the training began or was resumed.
        resumed: in the first step after the optimizer was loaded, its number of updates, which are
            assumed to have run the same programs.
    """

    steps = owner = resumed = settled = 0
    first: float = math.inf

    def begin(self) -> None:
        """Starts the training of a new optimizer."""
        self.resume(0, 0, {})

    def resume(self, updates: int, begin: int, kinds: Mapping[int, int]) -> None:
        """Resumes the training of an optimizer; arguments as in `update`."""
        self.steps, self.first, self.owner = max(updates - 1, 0), _first(begin, kinds), 0
        self.resumed, self.settled = updates, 0
        meter.clear()

    def update(self, updates: int, begin: int, kinds: dict[int, int]) -> None:
        """Registers that an optimizer starts its next update.

        Args:
            updates: number of its previous updates.
            begin: this number when it was created.
            kinds: kinds of its steps: their work by NumPy in nanoseconds -> how many such steps take
                as long as compilation. A new kind is added.
        """
        self.steps, self.resumed = updates, 0
        self.settled += 1
        if self.settled > SETTLED and updates <= _first(begin, kinds) and len(kinds) < MOST_KINDS:
            work = round(1000 * meter.cost)
            if work not in kinds and (work or not kinds):
                kinds[work] = min(int(meter.worth / meter.total), MOST_STEPS) if work else 0
        self.first = _first(begin, kinds)
        meter.clear()

    @property
    def young(self) -> bool:
        """Returns whether the training is in its first steps."""
        return self.steps < self.first

    @property
    def ending(self) -> bool:
        """Returns whether the first steps will be over soon, for a training that has run for several steps."""
        return LONG <= self.steps < self.first and self.steps >= min(self.first - 1, AHEAD * self.first)


def _first(begin: int, kinds: Mapping[int, int]) -> float:
    """Returns the number of a training's steps by NumPy; infinity if no step has been measured."""
    if not kinds:
        return math.inf
    return begin + 2 * SETTLED + sum(kinds.values())  # so many have passed when a resumed training measures its first


training = Training()
recording: Callable[[], bool] = lambda: False  # per thread; the tape sets it


class Quota:
    """The number of calls of one signature that NumPy computes.

    In training this is determined for all programs together (`Training`), so calls count only
    within one step.

    Args:
        work: its `calls` is the number of calls that take as long as compilation (None: not known
            yet).
        trains: it is called in training alone.
        varied: new signatures keep appearing, so the policy of training does not apply.
    """

    __slots__ = ("_work", "_trains", "_varied", "_calls", "_step", "_others", "_ended")

    def __init__(self, work: Interpreted, trains: bool, varied: bool) -> None:
        self._work, self._trains, self._varied = work, trains, varied
        self._calls = self._others = 0
        self._step = -1
        self._ended = False

    def __call__(self) -> bool:
        """Counts a call and returns whether NumPy computes it."""
        if self._varied or not (self._trains or recording()):
            self._others += 1
            return self._others <= self._most()
        if self._step != training.steps:
            self._step, self._calls = training.steps, 0
        self._calls += 1
        return self._calls <= self._most() and training.young

    def ending(self) -> bool:
        """Returns whether XLA will take over soon, so that other threads may start to compile; once."""
        if self._step < 0:
            return self._others == max(int(AHEAD * self._most()), LEAST_CALLS)
        if self._ended or not training.ending:
            return False
        self._ended = True
        return True

    def _most(self) -> int:
        worth = self._work.calls
        if worth is None or _short_lived:
            return MOST_CALLS_AT_FIRST
        if self._trains or recording():
            return min(worth, MOST_CALLS_AT_FIRST)
        if self._work.after_loops is not None:
            worth = min(worth, self._work.after_loops)
        if self._varied:
            worth *= VARIED_CALLS
        return min(worth, MOST_CALLS_AT_FIRST)


def quota_of(work: Interpreted, trains: bool, varied: bool) -> Quota | None:
    """Returns the number of calls of a new signature that NumPy computes; None if it computes none.

    Args:
        work, trains, varied: as in `Quota`.
    """
    calls = work.calls
    least = 1 if varied else LEAST_CALLS
    if calls is not None and calls < least or (trains or recording()) and not (training.young or varied):
        return None
    return Quota(work, trains, varied)


class _Rounds(threading.local):
    """The number of times that a thread has looked at results.

    What lies between is a round of its loop, or a step of training.
    """

    count = 0


_rounds = _Rounds()


def next_round() -> None:
    """Registers that this thread probably starts a new round, because it reads numbers or requests gradients."""
    _rounds.count += 1


@contextlib.contextmanager
def same_round() -> Iterator[None]:
    """A block in which reading values does not start a new round, e.g. while a batch is created."""
    before = _rounds.count
    try:
        yield
    finally:
        _rounds.count = before


class Variety:
    """Detects whether a program keeps meeting new sizes: it does if new sizes appeared in several
    rounds in short succession.

    A network meets all its sizes in its first steps. A program that still meets new sizes later,
    each of which would be compiled, would be a hundred times as slow as without a compiler.
    """

    __slots__ = ("_round", "_rounds")

    def __init__(self) -> None:
        self._round, self._rounds = -SOON, 0  # the last round with a new size, and their number

    def note(self) -> bool:
        """Registers a new size; returns whether new sizes keep appearing."""
        now = _rounds.count
        if now != self._round:
            if self._rounds <= VARIED_ROUNDS:
                self._rounds = self._rounds + 1 if abs(now - self._round) <= SOON else 1
            self._round = now
        return self._rounds > VARIED_ROUNDS


class Programs:
    """Programs by structure; each is created when its structure has been seen `trials` times.

    Args:
        most: maximum number of structures.
    """

    def __init__(self, most: int = 512) -> None:
        self.made: dict[Hashable, Any] = Bounded(most)  # structures that have become programs
        self._seen: dict[Hashable, int] = Bounded(most)

    def find(self, structure: Hashable, make: Callable[[], Any], trials: int = TRIALS) -> Any:
        """Returns the program of a structure; None to run it call by call this time.

        Args:
            structure: key that distinguishes programs. Objects that it identifies by id must live
                as long as the program.
            make: function that creates the program.
            trials: number of times that the structure runs call by call.
        """
        program = self.made.get(structure)
        if program is None:
            seen = self._seen.get(structure, training.resumed) + 1
            if seen <= trials:
                self._seen[structure] = seen
                return None
            program = self.made[structure] = make()
            self._seen.pop(structure, None)
        return program
