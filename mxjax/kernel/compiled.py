"""Compiled functions: `jax.jit` that spends less on programs of few numbers, and on those of convolutions.

Most of the time of a small program's first call is XLA's compilation. So NumPy computes the first calls of one, and
most are never called again. On a CPU, a program of a few hundred numbers is then done in no time without any
optimization, and one of some thousand gains nothing from fusion emitters, which take half of the compilation; nor
does a large one that consists of convolutions. XLA's options say so per program (docs/design/0011).

Programs are kept until they take much memory, there are very many, or the process comes near the number of memory
mappings that Linux allows: beyond it XLA crashes.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import math
import operator
import os
import pathlib
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import jaxpr_as_fun

from .._support.bounded import Bounded, clear_all
from .._xla.capacity import refuse_program, survey
from .._xla.host_memory import give_back
from .._xla.process import forked, starts, when_forked
from .._xla.tracing import EVALUATES, find_top_trace
from ..base import MXNetError
from ..context import default_device
from ..interpret.calls import exact_form, of_arrays
from ..interpret.everything import unknown
from ..interpret.exact import Exact, moved_by_numpy
from ..passes.barriers import BARRIER_OPTIONS, with_barriers
from ..passes.channels_last import with_channels_last
from ..passes.convolutions import with_fast_convolutions
from ..passes.division import with_quotients
from ..passes.epilogues import Derived, Standing, split, with_epilogues
from ..passes.layouts import CHOOSE, Laid, replaced
from ..passes.onednn import available as onednn_available
from ..passes.onednn import in_no_file
from ..passes.precision import with_precision
from ..passes.rewriting import rewritten, without_kernels
from .policy import LOOK_EVERY, MOST_MAPPINGS, MOST_SIGNATURES, VARIED_SHAPES, calls_at_first
from .symbolic_shapes import AnySize

__all__ = ["SOME_OF_ONE", "Compiled", "Reordered", "clear_caches", "kind_of", "options_on"]

_FEW, _SOME, SOME_OF_ONE = 256, 1 << 14, 1 << 17  # elements of all arguments together
_PROGRAM, _OPERATION = 3 << 19, 30 << 10  # bytes of a program, and of each operation in it
_CONVOLVED = 200  # multiplications in convolutions for each result of `exp` and the like: beyond, fusing costs more
_READERS = 4  # of one value in an element-wise loop: XLA makes several loops of it without fusion emitters
_MANY_OPERATIONS = 1000  # of a program whose compilation takes some hundred MB
_NUMBERS = 1 << 12  # bytes of a host's array that is kept on accelerators
_ONE = jax.tree.structure((0,))  # what a call with one result gives
_MADE_OF_FEW, _MADE = 1 << 14, 1 << 16  # elements of all results, what is kept for a backward pass among them

# Products by cuBLAS. XLA would try out tens of kernels of its own for each one, which takes longer to compile (a step
# of BERT in float32, on an H200, over 55 s instead of 9) for steps that are no faster; some shapes it refuses.
_ON_GPUS = {"xla_gpu_enable_triton_gemm": False}


def options_on(platform: str) -> dict[str, Any]:
    """XLA's options for programs on a kind of accelerator."""
    return _ON_GPUS if platform in ("gpu", "cuda", "rocm") else {}


class Compiled:
    """A function compiled after its first calls with each signature.

    Args:
        function: a pure function of arrays.
        most: up to how many elements of all arguments it is compiled without fusion emitters: by default where many
            operators could be fused; SOME_OF_ONE for a single one.
        again: the results are the arguments of the next call, where one has the other's memory: XLA may lay them.
        moves: function(*arrays) -> the only result, where that is arguments' numbers elsewhere, by NumPy.
        any_size: the function nowhere asks whether a size is a certain number, but for 0 and 1 (see `any_size`).
        options: further arguments of `jax.jit`.
    """

    __slots__ = ("_original", "_most", "_again", "_moves", "_options", "_plain", "_rewritten", "_forms", "_calls",
                 "_any_size", "_sizes", "_warm", "_derived", "held", "__weakref__")

    def __init__(self, function: Callable, most: int = _SOME, again: bool = False,
                 moves: Callable[..., np.ndarray] | None = None, any_size: bool = False, **options: Any) -> None:
        self._most, self._again, self._options, self._original = most, again, options, function
        self._moves, self._any_size, self._sizes = moves, any_size, AnySize(function, any_size)
        self._plain: Callable | None = None
        self._rewritten: dict[str | None, Callable] = {}  # by kind of device; JAX traces it once for all its forms
        # by kind of device; in full, less, least, or traced alone
        self._forms: dict[tuple[str | None, int | None], Callable] = {}
        self._calls: dict[tuple, Callable] = {}  # what is called for each signature
        self._derived: dict[tuple, Derived] = {}  # what programs make of weights
        self._warm: dict[tuple, Callable] = {}  # those of them that `deliver` has called
        self.held = 0  # bytes of programs, by estimate
        _room.add(self)

    def __call__(self, *args: Any) -> Any:
        if find_top_trace(None) is not EVALUATES:
            return self._in_transformation(args)
        if _room.short:
            _room.make()
        signature = tuple([_signature(a) if (aval := getattr(a, "aval", None)) is None else aval for a in args])
        if _room.several:
            kind, device = _placed(args)
            if device is not None:
                with jax.default_device(device):
                    return self(*args)
            signature += (kind,)
            args = args if kind else with_numbers_there(args)
        return (self._calls.get(signature) or self._choose(signature, args))(*args)

    def deliver(self, made: list[Any], args: Sequence[Any]) -> None:
        """Calls it and puts the result into `made`, in one call of C: no signal is handled between the two."""
        if find_top_trace(None) is not EVALUATES:
            made.append(self._in_transformation(args))
            return
        if _room.short:
            _room.make()
        signature = tuple([_signature(a) if (aval := getattr(a, "aval", None)) is None else aval for a in args])
        if _room.several:
            kind, device = _placed(args)
            if device is not None:
                with jax.default_device(device):
                    self.deliver(made, args)
                return
            signature += (kind,)
            args = args if kind else with_numbers_there(args)
        call = self._warm.get(signature)
        if call is not None:
            made.extend(itertools.starmap(call, (args,)))
            return
        call = self._calls.get(signature) or self._choose(signature, args)
        with _later_signals():  # JAX's own Python code is between the program and us, the first time
            made.extend(itertools.starmap(call, (args,)))
        if call in self._forms.values() and self._calls.get(signature) is call:
            self._warm[signature] = call

    def _in_transformation(self, args: Sequence[Any]) -> Any:
        """The result in a transformation of JAX (jit, grad, vmap ...), where programs have no options of their own."""
        starts()
        _room.note()
        if self._plain is None:
            self._plain = jax.jit(self._original, **self._options)
        return self._plain(*args)

    def __reduce__(self) -> tuple:
        """Other processes compile for themselves."""
        return functools.partial(Compiled, most=self._most, again=self._again, moves=self._moves,
                                 any_size=self._any_size, **self._options), (self._original,)

    def eval_shape(self, *args: Any) -> Any:
        """Shapes and dtypes of the results for arguments or ShapeDtypeStructs; a call will not trace again."""
        return self._form(self._kind(args), None).eval_shape(*args)

    def forms(self) -> tuple[int, ...]:
        """How many programs there are: compiled in full, without fusion emitters, and without optimization."""
        sizes = [0, 0, 0]
        for (_, level), form in self._forms.items():
            sizes[level or 0] += form._cache_size()
        for call in self._calls.values():
            if isinstance(call, Standing):
                sizes[call.effort] += 1
        return tuple(sizes)

    def signatures(self) -> int:
        """How many signatures it has been called with."""
        return len(self._calls)

    def leave(self) -> tuple:
        """Begins anew in a forked child; gives what is not to be dropped."""
        left = self._calls, self._warm, self._derived, self._plain, self._forms
        self._calls, self._warm, self._derived, self._plain, self._forms, self.held = {}, {}, {}, None, {}, 0
        return left

    def clear(self) -> None:
        """Drops all signatures and programs: they are traced and compiled again when they are called."""
        self._calls.clear()
        self._warm.clear()
        self._sizes.clear()
        self._derived.clear()
        _room.held -= self.held
        self.held = 0
        for form in (self._plain, *self._forms.values()):
            if form is not None:
                form.clear_cache()

    def _kind(self, args: Sequence[Any]) -> str | None:
        kind = kind_of(args)
        return "cpu" if kind == "onednn" and "out_shardings" in self._options else kind

    def _form(self, kind: str | None, level: int | None) -> Callable:
        """level: None: to be traced alone; what XLA's options are costs a program, once. 1 on accelerators: a GPU's."""
        found = self._forms.get((kind, level))
        if found is None:
            if kind not in self._rewritten:
                self._rewritten[kind] = rewritten(self._original, *self._passes(kind), kind=kind)
            options = {} if level is None else (_ON_GPUS if level else {}) if kind is None else _options()[level]
            found = self._forms[kind, level] = jax.jit(
                self._rewritten[kind], **self._options, **({"compiler_options": options} if options else {}))
        return found

    @property
    def _is_one(self) -> bool:
        """Whether it is a single operator."""
        return self._most >= SOME_OF_ONE

    @property
    def _keeps(self) -> bool:
        """Whether it may keep what it makes of weights: it gives nothing away."""
        return not (self._is_one or self._options)

    def _passes(self, kind: str | None) -> Iterator[Callable]:
        yield functools.partial(with_quotients, on_cpu=kind is not None)
        if kind is None:
            yield with_precision
        else:
            yield with_channels_last
            if kind == "onednn" and self._keeps:
                yield with_epilogues
            yield functools.partial(with_fast_convolutions, library=kind == "onednn")
            if not self._is_one:  # which is no long chain
                yield with_barriers
        if "out_shardings" in self._options:
            yield without_kernels

    def _rewrites(self, avals: Sequence[Any]) -> bool:
        """Whether it writes over several arrays where only fusion emitters make loops of vectors, as an update does.

        LLVM does not know that such a loop reads and writes one place at a time, emitters do. They divide to find the
        place in filters of 3 x 3, though, and that costs more than vectors save.
        """
        odd = sum([math.prod(a.shape) for a in avals if len(a.shape) > 2 and any([n & n - 1 for n in a.shape[1:]])])
        return len(self._options.get("donate_argnums", ())) > 1 and \
            2 * odd <= sum([math.prod(a.shape) for a in avals])

    def _choose(self, signature: tuple, args: Sequence[Any], compiled: bool = False) -> Callable:
        """What is called for these arguments; raises MXNetError where the device has no room for what they make.

        compiled: NumPy has computed the first calls.
        """
        if forked():
            return self._without_xla(signature, args)
        starts()
        _room.several = jax.default_backend() != "cpu" or jax.local_device_count("cpu") > 1
        _room.note()
        kind = self._kind(args)
        on_cpu = kind is not None
        given = _elements(args)
        small = on_cpu and given <= self._most
        if on_cpu and not compiled:
            found = None
            nearly = self._sizes.note(args, given) and not self._options
            if small and self._moves:
                found = moved_by_numpy(self._moves, len(args)), _ONE
            elif small or nearly:
                found = self._sizes.find(args, nearly) or (self._sizes.trace(args, kind) if nearly else None)
            if found is not None:
                return self._at_first(signature, *found, calls_at_first(True, given, nearly))
        traced = self._form(kind, None).trace(*args)
        found = survey(traced.jaxpr.jaxpr)
        large = in_no_file(refuse_program, found.called)(traced, found, _at(args)[1])
        size = _PROGRAM + _OPERATION * found.operations
        if not small:
            loops = found.arranged <= _SOME and found.readers <= _READERS and not self._rewrites(traced.jaxpr.in_avals)
            level = int(loops or found.convolved > _CONVOLVED * found.curved if on_cpu else
                        bool(options_on(_at(args)[1].platform)))
        else:
            made = _elements(traced.out_info)
            level = 0 if made > max(self._most, _MADE) else 1 if given > _FEW or made > _MADE_OF_FEW else 2
            exact = exact_form(traced) if level and not compiled else None
            if exact is not None:
                tree = jax.tree.structure(traced.out_info)
                self._sizes.learn(args, exact, tree, kind)
                return self._at_first(signature, exact, tree,
                                      calls_at_first(len(self._calls) >= VARIED_SHAPES, given))
        form = in_no_file(self._form(kind, level), found.called)
        if kind == "onednn" and self._keeps and not large:
            form = self._split(traced, args, form, level, found.called)
        form = self._laid(traced, args) or form
        if large and on_cpu:
            return form
        if found.operations > _MANY_OPERATIONS:
            self._calls[signature] = first = self._trimmed(signature, form, size)
            return first
        self._compiled(signature, form, size)
        return form

    def _without_xla(self, signature: tuple, args: Sequence[Any]) -> Callable:
        """What is called for these arguments in a forked child; raises MXNetError where NumPy cannot compute it."""
        self._sizes.note(args, 0)
        found = (moved_by_numpy(self._moves, len(args), exact=False), _ONE) if self._moves else \
            self._sizes.find(args, nearly=True) or self._sizes.trace(args, "cpu")
        if found is None:
            unknown(*args)
        call = self._calls[signature] = of_arrays(*found, sys.maxsize, unknown, lambda: None)
        return call

    def _at_first(self, signature: tuple, exact: Exact, tree: Any, count: int) -> Callable:
        """What is called for this signature while NumPy computes it."""
        def compiled(*args: Any) -> Any:
            return self._choose(signature, args, compiled=True)(*args)

        def last() -> None:
            self._calls[signature] = compiled
        call = self._calls[signature] = of_arrays(exact, tree, count, compiled, last)
        return call

    def _split(self, traced: Any, args: Sequence[Any], form: Callable, level: int, called: Iterable[str]) -> Callable:
        """The program in two, where something is made of weights alone, which need not be done each time."""
        parts = split(traced.jaxpr)
        if parts is None:
            return form
        efforts = (parts.before, 0), (parts.rest, level)  # the first one turns weights, which emitters do fast
        before, rest = (jax.jit(jaxpr_as_fun(part), compiler_options=_options()[effort] or None)
                        for part, effort in efforts)
        key = parts.places, str(parts.before)  # batches of every size have the same
        derived = self._derived.setdefault(key, Derived(parts.places, before))
        nested, rest = jax.tree.structure(args) != jax.tree.structure((0,) * len(args)), in_no_file(rest, called)
        return Standing(derived, parts.others, rest, jax.tree.structure(traced.out_info), nested, level)

    def _laid(self, traced: Any, args: Sequence[Any]) -> Laid | None:
        """What is called where XLA lays what the program writes over; None where that saves nothing."""
        if not self._again or _at(args)[1].platform not in CHOOSE:
            return None
        made = traced.out_info
        follows = replaced(self._options.get("donate_argnums", ()), args, made)
        return Laid(self._rewritten[self._kind(args)], follows, len(made), lambda lowered: lowered.compile(),
                    self._options.get("out_shardings")) if follows else None

    def _trimmed(self, signature: tuple, form: Callable, size: int) -> Callable:
        """A first call after which the system has the memory again that compiling took: as much as a program's data."""
        def call(*args: Any) -> Any:
            result = form(*args)
            self._compiled(signature, form, size)
            give_back()
            return result
        return call

    def _compiled(self, signature: tuple, form: Callable, size: int) -> None:
        """From now on a program is called for this signature."""
        self._calls[signature] = form
        self.held += size
        _room.note(size)

    def __del__(self) -> None:
        if _room is not None:  # the interpreter is ending
            _room.held -= self.held


class Reordered(Compiled):
    """A function that gives results in arguments' places; which ones, JAX decides by their order: it gives each
    argument's memory to the first result of its shape that has none. In another order each result would be written
    over what others are still computed from, and XLA would copy all of that first.

    Args:
        function: a pure function of arrays; gives a tuple.
        order: its results in the order of the arguments that they replace.
        options: further arguments of `Compiled`.
    """

    __slots__ = ("_function", "_order", "_restored")

    def __init__(self, function: Callable, order: Sequence[int], **options: Any) -> None:
        @functools.wraps(function)
        def ordered(*args: Any) -> tuple:
            return operator.itemgetter(*order)(function(*args))
        super().__init__(ordered, **options)
        self._function, self._order = function, order
        self._restored = operator.itemgetter(*[order.index(i) for i in range(len(order))])

    def __call__(self, *args: Any) -> tuple:
        return self._restored(super().__call__(*args))

    def deliver(self, made: list[Any], args: Sequence[Any]) -> None:
        super().deliver(_Through(self._restored, made), args)

    def __reduce__(self) -> tuple:
        return functools.partial(Reordered, order=self._order, most=self._most, again=self._again,
                                 any_size=self._any_size, **self._options), (self._function,)


class _Through(list):
    """A list whose elements go to another one through a function, in one call of C."""

    def __init__(self, function: Callable[[Any], Any], made: list[Any]) -> None:
        super().__init__()
        self._function, self._made = function, made

    def append(self, one: Any) -> None:
        self.extend((one,))

    def extend(self, several: Iterable[Any]) -> None:
        self._made.extend(map(self._function, several))


def _signature(arg: Any) -> Any:
    """What JAX compiles for where an argument is no array of JAX's: a number, a NumPy array, or a tree."""
    if isinstance(arg, (np.ndarray, np.generic)):
        return arg.shape, arg.dtype
    if isinstance(arg, (float, int)):
        return type(arg)
    leaves, tree = jax.tree.flatten(arg)
    return (tree, *[a.aval if hasattr(a, "aval") else _signature(a) for a in leaves])


def _elements(tree: Any) -> int:
    return sum([math.prod(getattr(leaf, "shape", ())) for leaf in jax.tree.leaves(tree)])


def _at(args: Sequence[Any]) -> tuple[jax.Array | None, jax.Device, bool]:
    """A call's first array (None: it has none), a device that it runs on, and, on CPUs, whether it runs on several."""
    first, device, several = None, None, False
    for leaf in jax.tree.leaves(args):
        if isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer):
            devices = leaf.sharding.device_set
            several = several or len(devices) > 1
            if first is None:
                first, device = leaf, next(iter(devices))
                if device.platform != "cpu":  # where nobody asks for more
                    break
    return first, device or default_device(), several


def _placed(args: Sequence[Any]) -> tuple[str | None, jax.Device | None]:
    """The kind of a call, and where its arrays are, if JAX would move them: those bound to no device go to its default.

    A user may have set that (`jax.default_device`), for own arrays.
    """
    first, device, several = _at(args)
    kind = None if device.platform != "cpu" else "cpu" if several or not onednn_available() else "onednn"
    return kind, None if first is None or first.committed or device == default_device() else device


def with_numbers_there(args: Sequence[Any]) -> Sequence[Any]:
    """A call's arguments, the host's numbers that come again on the accelerator where the others are, and kept there.

    Bringing a factor or a position there takes longer than most operators. A number that comes once, as a step's, does
    not stay: each at a place of its own, XLA would write the graph of the step's launches anew (docs/design/0032).
    """
    places = [i for i, a in enumerate(args) if isinstance(a, (np.ndarray, np.generic, int, float))]
    if not places:
        return args
    first, device, _ = _at(args)
    if first is None or len(first.sharding.device_set) > 1:
        return args
    args, wide = list(args), jax.config.jax_enable_x64
    for i in places:
        number = args[i]
        if not isinstance(number, (np.ndarray, np.generic)):
            key = device, wide, type(number), repr(number)  # 0.0 and -0.0 are equal
        elif number.nbytes <= _NUMBERS:
            key = device, wide, number.dtype, number.shape, number.tobytes()
        else:
            continue
        found = _there.get(key)
        if found is None:
            if key not in _once:
                _once[key] = True
                continue
            found = _there[key] = jax.device_put(number, None if device == default_device() else device)
        args[i] = found
    return args


_once: dict[tuple, bool] = Bounded(1 << 10)
_there: dict[tuple, jax.Array] = Bounded(1 << 10)


def kind_of(args: Sequence[Any]) -> str | None:
    """What programs for a call are traced for (`ops.by_device`).

    XLA divides its own convolutions among several devices, and not those of a library.
    """
    return _placed(args)[0]


@functools.cache
def _options() -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """XLA's options for CPUs' programs of many, some and few numbers; empty where it has none."""
    cpu = jax.local_devices(backend="cpu")[0]
    full = {**BARRIER_OPTIONS, "xla_backend_optimization_level": 1,  # as fast as what LLVM makes of it at level 3
            "xla_cpu_prefer_vector_width": 512,  # two vectors at once where they are of 256 bits: loops of log in half
            "xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"}  # training: 0.3 to 0.7 of the temporaries
    for less in ({"xla_cpu_use_fusion_emitters": False}, {}):  # newer releases know only the other option
        reduced = {**full, **less}
        options = full, reduced, {**reduced, "xla_backend_optimization_level": 0}
        with contextlib.suppress(RuntimeError):
            with jax.default_device(cpu):
                jax.jit(lambda: 0, compiler_options=options[2]).lower().compile()
            return options
    return {}, {}, {}


@contextlib.contextmanager
def _later_signals() -> Iterator[None]:
    """A block after which Ctrl-C takes effect instead of within it; in the main thread, where signals are handled."""
    caught: list[tuple[Any, ...]] = []
    before: Any = None
    if threading.current_thread() is threading.main_thread():
        with contextlib.suppress(ValueError):  # not the main interpreter
            before = signal.getsignal(signal.SIGINT)
            if callable(before):
                signal.signal(signal.SIGINT, lambda *given: caught.append(given))
    try:
        yield
    finally:
        if callable(before):
            signal.signal(signal.SIGINT, before)
            if caught:
                before(*caught[0])


class _Room:
    """Keeps traces and programs from filling the memory, and the process away from Linux's limit of memory mappings.

    A signature takes some ten kilobytes, a program for a CPU 3 to 50 mappings, and memory by the number of its
    operations: XLA does not tell how much, so that is estimated by what was measured.

    short: whether the next call of a compiled function has to make room; several: whether there are more devices than
    one CPU, so that where arrays are decides; held: bytes of all programs; most: how many
    there may be (MXJAX_PROGRAM_MEMORY, in MB; default 1024, or an eighth of the machine's memory where that is less).
    """

    def __init__(self) -> None:
        self.short, self.held, self.most, self.several = False, 0, _most_bytes(), False
        self._all: weakref.WeakSet[Compiled] = weakref.WeakSet()
        self._left: list[tuple] = []  # what a forked child has put away
        self._lock = threading.Lock()
        self._noted, self._limit = 0, math.inf
        with contextlib.suppress(OSError, ValueError):  # no other system has such a limit
            self._limit = int(pathlib.Path("/proc/sys/vm/max_map_count").read_text(encoding="ascii"))

    def add(self, one: Compiled) -> None:
        with self._lock:
            self._all.add(one)

    def note(self, size: int = 0) -> None:
        """Notes a new signature, or a program of about this size; now and then looks at how much there is.

        What others in the process compile takes mappings, too, and is seen at that look.
        """
        self.held += size
        self._noted += 1
        if self.held > self.most or self._noted % LOOK_EVERY == 0 and self._many():
            self.short = True

    def _many(self) -> bool:
        with self._lock:
            signatures = sum(one.signatures() for one in self._all)
        return signatures > MOST_SIGNATURES or self._mappings() > self._limit * MOST_MAPPINGS

    def begin_in_child(self) -> None:
        """Puts away what the parent called: nothing of it can be called here, nor may XLA be asked to drop it."""
        self._lock = threading.Lock()
        self.short = self.several = False
        self._left = [one.leave() for one in list(self._all)]

    def clear(self) -> None:
        """Drops all programs."""
        with self._lock:
            known = list(self._all)
        for one in known:
            one.clear()

    def make(self) -> None:
        """Drops at least half of all programs and signatures: first those of the functions that have most."""
        with self._lock:
            if not self.short:
                return
            self.short = False
            known = list(self._all)
        known.sort(key=lambda one: (-sum(one.forms()), -one.signatures()))
        total = left = sum(one.signatures() for one in known)
        self.held = held = sum(one.held for one in known)
        for one in known:
            if left <= total / 2 and self.held <= held / 2:
                break
            left -= one.signatures()
            one.clear()
        give_back()
        logging.getLogger("mxjax.kernel").info(
            "dropped %d of %d signatures of compiled functions, whose programs took about %d MB: there were very many, "
            "or they took more than MXJAX_PROGRAM_MEMORY = %d MB, or came near the limit of memory mappings "
            "(vm.max_map_count = %s); what is called again is compiled again", total - left, total, held >> 20,
            self.most >> 20, self._limit)

    @staticmethod
    def _mappings() -> int:
        with contextlib.suppress(OSError):
            return pathlib.Path("/proc/self/maps").read_bytes().count(b"\n")
        return 0


def _most_bytes() -> int:
    given = os.environ.get("MXJAX_PROGRAM_MEMORY")
    if given is not None:
        if not given.isdecimal() or int(given) < 1:
            raise MXNetError(f"MXJAX_PROGRAM_MEMORY={given!r}: expected a number of megabytes, 1 or more")
        return int(given) << 20
    with contextlib.suppress(OSError, ValueError, AttributeError):
        return min(1 << 30, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 8)
    return 1 << 30


_room = _Room()
when_forked(_room.begin_in_child)


def clear_caches() -> None:
    """Forgets all compiled programs, and what was prepared for calls; what is called again is prepared again.

    For processes whose code keeps changing, and for measuring. Arrays, graphs and what is recorded stay.
    """
    clear_all()
    _room.clear()
