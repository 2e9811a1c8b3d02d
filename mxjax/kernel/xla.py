"""The compiling backend: XLA, with preceding passes and an optimization effort that depends on a program's size.

Compilation dominates a small program's first call. On a CPU, a program on a few hundred numbers is
fast even without optimization. One on a few thousand numbers does not benefit from fusion emitters,
which take half of the compilation time; nor does a large one that consists of convolutions. XLA's
options are therefore set per program (docs/design/0011).
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
from jax.extend.core import jaxpr_as_fun

from .._support.settings import CUDA_GRAPHS
from .._support.signals import later_signals
from .._xla.capacity import refuse_program, survey
from ..interpret.cost import cost_of
from ..interpret.program import as_it_is
from ..passes import Pass
from ..passes.barriers import BARRIER_OPTIONS, FEW
from ..passes.epilogues import SplitProgram, WeightCache, split
from ..passes.layouts import CHOOSE, AutoLayout, replaced
from ..passes.onednn import in_no_file
from ..passes.rewriting import rewritten
from .arguments import elements, located

__all__ = ["Compilation", "XlaBackend", "options_on"]

_SOME = 1 << 14  # elements of all arguments together
_PROGRAM, _OPERATION = 3 << 19, 30 << 10  # bytes of a program, and per operation in it
_CONVOLVED = 200  # multiplications in convolutions per result of `exp` etc. above which fusion costs more
_READERS = 4  # readers of a value in an element-wise loop, which XLA splits without fusion emitters
_LOOPS = 1000.0  # microseconds of NumPy in loops of unknown length, from which vectorized loops pay off
_MANY_OPERATIONS = 1000  # operations of a program whose compilation takes some hundred MB
_MADE_OF_FEW, _MADE = 1 << 14, 1 << 16  # elements of all results, including values for a backward pass

# Products by cuBLAS. XLA would try tens of its kernels for each product, which takes longer to compile (a step of
# BERT in float32 on an H200: over 55 s instead of 9) without faster steps, and fails for some shapes.
_ON_GPUS = {"xla_gpu_enable_triton_gemm": False}
# CUDA graphs by MXJAX_CUDA_GRAPHS (docs/design/0038). XLA's choice leaves out convolutions, since not each one can be
# captured, and loops, whose iterations it would write out one by one.
_CAPTURED = "FUSION,CUBLAS,CUBLASLT,CUDNN,CUSTOM_CALL,CONDITIONAL,DYNAMIC_SLICE_FUSION,CONVOLUTION"
_GRAPHS: dict[str, dict[str, Any]] = {
    "off": {"xla_gpu_enable_command_buffer": ""}, "xla": {},
    "convolutions": {"xla_gpu_enable_command_buffer": _CAPTURED},
    "all": {"xla_gpu_enable_command_buffer": f"{_CAPTURED},WHILE", "xla_gpu_command_buffer_unroll_loops": True}}


def options_on(platform: str) -> dict[str, Any]:
    """Returns XLA's options for programs on a kind of accelerator."""
    return _on_gpus() if platform in ("gpu", "cuda", "rocm") else {}


def _on_gpus() -> dict[str, Any]:
    return {**_ON_GPUS, **_GRAPHS[CUDA_GRAPHS()]}


class Compilation(NamedTuple):
    """A program that XLA compiles at its first call.

    call: the executable; size: its estimated size in bytes; kept: whether it is cached (False if a
    second program would not fit in memory with its arguments); operations: number of operations;
    long: whether compilation takes so much time and memory that the time is logged and the memory
    released afterwards; ahead: function that returns the compiling function, which another thread
    may call earlier; None: it is compiled differently.
    """

    call: Callable[..., Any]
    size: int
    kept: bool
    operations: int
    long: bool
    ahead: Callable[[], Callable[[], object]] | None


class XlaBackend:
    """Compiles a function for its signatures and kinds of devices.

    Args:
        function: a pure function of arrays.
        passes: function that maps a kind of device to the passes over its programs before XLA.
        limit: number of elements of all arguments up to which it is compiled without fusion
            emitters.
        keeps: it may cache values that depend only on weights, because it donates no arguments.
        again: results that reuse an argument's memory are arguments of the next call, so XLA
            chooses their layouts.
        options: further arguments of `jax.jit`.
    """

    __slots__ = ("function", "limit", "_passes", "_keeps", "_again", "_options", "_plain", "_rewritten", "_forms",
                 "_derived")

    def __init__(self, function: Callable, passes: Callable[[str | None], Sequence[Pass]], limit: int, keeps: bool,
                 again: bool, options: dict[str, Any]) -> None:
        self.function, self.limit = function, limit
        self._passes, self._keeps, self._again, self._options = passes, keeps, again, options
        self._plain: Any = None
        self._rewritten: dict[str | None, Callable] = {}  # by kind of device; JAX traces it once for all its forms
        # by kind of device and level of effort; None: only traced
        self._forms: dict[tuple[str | None, int | None], Any] = {}
        self._derived: dict[tuple, WeightCache] = {}  # values that programs compute from weights

    def plain(self) -> Any:
        """Returns the function for transformations of JAX (jit, grad, vmap ...), in which programs have no options."""
        if self._plain is None:
            self._plain = jax.jit(self.function, **self._options)
        return self._plain

    def form(self, target: str | None, level: int | None) -> Any:
        """Returns the jitted function for a kind of device.

        level: level of reduced effort: 0 full, 1 without fusion emitters, 2 least; on accelerators
            1 uses the options for GPUs. None: only for tracing. Determining XLA's options costs one
            compilation.
        """
        cached = self._forms.get((target, level))
        if cached is None:
            if target not in self._rewritten:
                self._rewritten[target] = rewritten(self.function, *self._passes(target), target=target)
            options = {} if level is None else (_on_gpus() if level else {}) if target is None else by_effort()[level]
            arguments: dict[str, Any] = {**self._options, **({"compiler_options": options} if options else {})}
            cached = self._forms[target, level] = jax.jit(self._rewritten[target], **arguments)
        return cached

    def owns(self, call: Callable) -> bool:
        """Returns whether an executable is one of the jitted functions itself."""
        return call in self._forms.values()

    def programs(self) -> list[int]:
        """Returns the number of programs by level of reduced effort, except split ones."""
        sizes = [0, 0, 0]
        for (_, level), form in self._forms.items():
            sizes[level or 0] += form._cache_size()
        return sizes

    def level(self, traced: Any, args: Sequence[Any]) -> int:
        """Returns the level of reduced effort for a program with small arguments; 0 if its results are large, or its
        loops compute much."""
        count = elements(traced.out_info)
        if count > max(self.limit, _MADE) or cost_of(traced.jaxpr, as_it_is).loops > _LOOPS:
            return 0
        return 1 if elements(args) > FEW or count > _MADE_OF_FEW else 2

    def executable(self, traced: Any, args: Sequence[Any], target: str | None, small: bool) -> Compilation:
        """Returns the executable of a trace.

        Args:
            traced: the trace, of `form(target, None)`.
            args: arguments of the signature.
            target: kind of the device.
            small: whether the arguments are small.

        Raises:
            MXNetError: the results do not fit in the device's memory.
        """
        device = located(args)[1]
        counts = survey(traced.jaxpr.jaxpr)
        large = in_no_file(refuse_program, counts.called)(traced, counts, device)
        if small:
            level = self.level(traced, args)
        elif target is None:
            level = int(bool(options_on(device.platform)))
        else:
            loops = counts.arranged <= _SOME and counts.readers <= _READERS and \
                not self._rewrites(traced.jaxpr.in_avals)
            level = int(loops or counts.convolved > _CONVOLVED * counts.curved)
        form = self.form(target, level)
        call: Callable[..., Any] = in_no_file(form, counts.called)
        lower: Callable[[], Sequence[Any]] = lambda: [form.lower(*args)]
        if target == "onednn" and self._keeps and not large:
            program = self._split(traced, args, level, counts.called)
            call, lower = (program, functools.partial(program.lower, args)) if program is not None else (call, lower)
        laid_out = self._with_own_layouts(traced, args, target)

        def ahead() -> Callable[[], object]:
            lowered = lower()
            return in_no_file(lambda: [part.compile() for part in lowered], counts.called)
        return Compilation(laid_out or call, _PROGRAM + _OPERATION * counts.operations,
                           not (large and target is not None), counts.operations, counts.operations > _MANY_OPERATIONS,
                           ahead if laid_out is None else None)

    def leave(self) -> tuple:
        """Resets the backend in a forked child; returns objects that must not be deleted there."""
        left = self._plain, self._forms, self._derived
        self._plain, self._forms, self._derived = None, {}, {}
        return left

    def clear(self) -> None:
        """Drops all programs."""
        self._derived.clear()
        for form in (self._plain, *self._forms.values()):
            if form is not None:
                form.clear_cache()

    def _rewrites(self, avals: Sequence[Any]) -> bool:
        """Returns whether it overwrites several arrays, as an update, so that only fusion emitters vectorize its loops.

        LLVM does not know that such a loop reads and writes one position at a time; emitters do. However, they use
        divisions to index filters of 3 x 3, which cost more than vectors save.
        """
        odd = sum([math.prod(a.shape) for a in avals if len(a.shape) > 2 and any([n & n - 1 for n in a.shape[1:]])])
        return len(self._options.get("donate_argnums", ())) > 1 and \
            2 * odd <= sum([math.prod(a.shape) for a in avals])

    def _split(self, traced: Any, args: Sequence[Any], level: int, called: Iterable[str]) -> SplitProgram | None:
        """Returns the program in two parts; None unless one of them depends only on weights."""
        parts = split(traced.jaxpr)
        if parts is None:
            return None
        efforts = (parts.before, 0), (parts.rest, level)  # emitters transpose weights fast
        before, rest = (jax.jit(jaxpr_as_fun(part), compiler_options=by_effort()[effort] or None)
                        for part, effort in efforts)
        key = parts.places, str(parts.before)  # batches of all sizes share it
        derived = self._derived.setdefault(key, WeightCache(parts.places, before))
        nested = jax.tree.structure(args) != jax.tree.structure((0,) * len(args))
        return SplitProgram(derived, parts, rest, called, jax.tree.structure(traced.out_info), nested, level)

    def _with_own_layouts(self, traced: Any, args: Sequence[Any], target: str | None) -> AutoLayout | None:
        """Returns the program with layouts that XLA chooses for overwritten arguments; None if that saves nothing."""
        if not self._again or located(args)[1].platform not in CHOOSE:
            return None
        outputs = traced.out_info
        follows = replaced(self._options.get("donate_argnums", ()), args, outputs)
        return AutoLayout(self._rewritten[target], follows, len(outputs), lambda lowered: lowered.compile(),
                    self._options.get("out_shardings")) if follows else None


@functools.cache
def by_effort() -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Returns XLA's options for programs on CPUs with many, some and few numbers; empty if it has none."""
    cpu = jax.local_devices(backend="cpu")[0]
    full = {**BARRIER_OPTIONS, "xla_backend_optimization_level": 1,  # as fast as level 3
            "xla_cpu_prefer_vector_width": 512,  # two vectors of 256 bits at once: loops of log take half the time
            "xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"}  # training: 0.3 to 0.7 of the temporaries
    for less in ({"xla_cpu_use_fusion_emitters": False}, {}):  # newer releases have only the other option
        reduced = {**full, **less}
        options = full, reduced, {**reduced, "xla_backend_optimization_level": 0}
        with contextlib.suppress(RuntimeError):
            # the first program imports modules of JAX that cannot be imported again after Ctrl-C
            with jax.default_device(cpu), later_signals():
                jax.jit(lambda: 0, compiler_options=options[2]).lower().compile()
            return options
    return {}, {}, {}
