"""Compiled functions: `jax.jit` that spends less on programs of few numbers.

Most of the time of a small program's first call is XLA's compilation. On a CPU a program of a few hundred numbers is
done in no time without any optimization, and one of some thousand gains nothing from fusion emitters, which take half
of the compilation. XLA's options say so per program (docs/design/0011).

Programs are kept until the process comes near the number of memory mappings that Linux allows: beyond it XLA crashes.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import math
import pathlib
import threading
import weakref
from collections.abc import Callable
from typing import Any

import jax

from ._barriers import BARRIER_OPTIONS, bounded

__all__ = ["SOME_OF_ONE", "Compiled"]

_FEW, _SOME, SOME_OF_ONE = 256, 1 << 14, 1 << 17  # elements of all arguments together
_MADE_OF_FEW, _MADE = 1 << 14, 1 << 16  # elements of all results, what is kept for a backward pass among them


class Compiled:
    """A function compiled on its first call for each signature.

    Args:
        function: a pure function of arrays.
        most: up to how many elements of all arguments it is compiled without fusion emitters: by default where many
            operators could be fused; SOME_OF_ONE for a single one.
        options: further arguments of `jax.jit`.
    """

    __slots__ = ("_original", "_function", "_most", "_options", "_plain", "_full", "_some", "_few", "__weakref__")

    def __init__(self, function: Callable, most: int = _SOME, **options: Any) -> None:
        self._most, self._options, self._original = most, options, function
        self._function = bounded(function) if most < SOME_OF_ONE else function  # one operator is no long chain
        self._plain = self._full = self._some = self._few = None  # made when asked for; full where results grow
        _room.add(self)

    def __call__(self, *args: Any) -> Any:
        if _room.short:
            _room.make()
        try:
            return self._form(args)(*args)
        except ValueError as error:
            if "compiler_options" in str(error):  # within a transformation of JAX, which knows none
                if self._plain is None:
                    self._plain = jax.jit(self._original, **self._options)
                return self._plain(*args)
            raise

    def eval_shape(self, *args: Any) -> Any:
        """Shapes and dtypes of the results for arguments or ShapeDtypeStructs; a call will not trace again."""
        return self._form(args).eval_shape(*args)

    def _form(self, args: tuple) -> Callable:
        total, most = 0, self._most
        for arg in args:
            aval = getattr(arg, "aval", None)
            total += _count(arg, most) if aval is None else math.prod(aval.shape)
            if total > most:
                return self._full or self._make_full()
        return (self._few if total <= _FEW else self._some) or self._reduce(total <= _FEW, args)

    def forms(self) -> tuple[int, int, int]:
        """How many programs there are: in full, for some numbers, for few."""
        full = self._full
        reduced = [0 if form is None or form is full else form._cache_size() for form in (self._some, self._few)]
        return full._cache_size() if full else 0, *reduced

    def clear(self) -> None:
        """Drops all programs: they are compiled again when they are called."""
        for form in (self._plain, self._full, self._some, self._few):
            if form is not None:
                form.clear_cache()

    def _make_full(self) -> Callable:
        if self._full is None:
            self._full = self._with(_options()[0])
        return self._full

    def _with(self, options: dict[str, Any]) -> Callable:
        return jax.jit(self._function, compiler_options=options, **self._options) if options else \
            jax.jit(self._function, **self._options)

    def _reduce(self, few: bool, args: tuple) -> Callable:
        full, some, least = _options()
        if full == (least if few else some):
            call = self._make_full()
        else:
            call = self._with(least if few else some)
            made = sum(math.prod(result.shape) for result in jax.tree.leaves(call.eval_shape(*args)))
            if made > max(self._most, _MADE):
                call = self._make_full()
            elif few and made > _MADE_OF_FEW:
                call = self._with(some)
        if few:
            self._few = call
        else:
            self._some = call
        return call


def _count(arg: Any, most: int) -> int:
    """Elements of an argument that is no array of JAX's: a number, a NumPy array, or a tree of arrays."""
    if hasattr(arg, "shape"):
        return math.prod(arg.shape)
    total = 0
    for leaf in jax.tree.leaves(arg):
        total += math.prod(getattr(leaf, "shape", ()))
        if total > most:
            break
    return total


@functools.cache
def _options() -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """XLA's options for programs of many, some and few numbers; empty where it has none, or is not for CPUs alone."""
    if jax.default_backend() != "cpu":
        return {}, {}, {}
    full = {**BARRIER_OPTIONS, "xla_backend_optimization_level": 1}  # as fast as what LLVM makes of it at level 3
    for less in ({"xla_cpu_use_fusion_emitters": False}, {}):  # newer releases know only the other option
        reduced = {**full, **less}
        options = full, reduced, {**reduced, "xla_backend_optimization_level": 0}
        with contextlib.suppress(RuntimeError):
            jax.jit(lambda: 0, compiler_options=options[2]).lower().compile()
            return options
    return {}, {}, {}


class _Room:
    """Keeps the process away from Linux's limit of memory mappings, of which each program for a CPU takes 3 to 50.

    short: whether the next call of a compiled function has to make room.
    """

    _EVERY, _SHARE = 128, 0.5  # how often to look, in compilations; share of the limit that may be used

    def __init__(self) -> None:
        self.short = False
        self._all: weakref.WeakSet[Compiled] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._compiled, self._limit = 0, math.inf
        with contextlib.suppress(OSError, ValueError):  # no other system has such a limit
            self._limit = int(pathlib.Path("/proc/sys/vm/max_map_count").read_text(encoding="ascii"))
            jax.monitoring.register_event_duration_secs_listener(self.listen)

    def add(self, one: Compiled) -> None:
        with self._lock:
            self._all.add(one)

    def listen(self, event: str, _: float, **__: Any) -> None:
        """Looks at the mappings now and then; JAX calls it with the name of what took time."""
        if event.endswith("backend_compile_duration"):
            self._compiled += 1
            if self._compiled % self._EVERY == 0:
                self.short = self._mappings() > self._limit * self._SHARE

    def make(self) -> None:
        """Drops at least half of all programs: first those of the functions that have most, for many shapes."""
        with self._lock:
            if not self.short:
                return
            self.short = False
            known = list(self._all)
        sizes = sorted(((sum(one.forms()), one) for one in known), key=lambda pair: -pair[0])
        total = left = sum(size for size, _ in sizes)
        for size, one in sizes:
            if left <= total / 2:
                break
            one.clear()
            left -= size
        logging.getLogger("mxjax").info(
            "dropped %d of %d compiled programs, near the limit of memory mappings (vm.max_map_count = %s); what "
            "is called again is compiled again", total - left, total, self._limit)

    @staticmethod
    def _mappings() -> int:
        with contextlib.suppress(OSError):
            return pathlib.Path("/proc/self/maps").read_bytes().count(b"\n")
        return 0


_room = _Room()
