"""Programs that write over their arguments: the one place that gives buffers away and puts results in their place.

JAX's buffers never change, so a change of an array is a program that returns the new value. Where nobody else holds the
old buffer, the program may use its memory (donation). `run_into` does all of that: it notes in each chunk where its
value is meanwhile, finds out which buffers have no other owner, runs the program, and points the chunks to the results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from sys import getrefcount
from typing import Any

from jax.core import Tracer

from ..kernel.ahead import Later
from ..kernel.kernel import Kernel, run
from .chunk import ALONE, Chunk
from .host_work import push_kernel
from .promise import apart

__all__ = ["Target", "run_giving", "run_into"]

Target = tuple[Chunk, int, int]  # a chunk, the argument that is its value (-1: none is), the result that replaces it


def _known_to_fit(kernel: Kernel, args: list[Any], results: tuple) -> tuple:
    """The `finish` of a program whose results all have the shapes and dtypes of what they replace."""
    return results


def run_into(kernel: Kernel, args: list[Any], wide: bool, targets: Sequence[Target],
             finish: Callable[..., Any] = _known_to_fit, rest: tuple = (), always: bool = False,
             copies: tuple[int, ...] = (), later: bool = False) -> Any:
    """Runs a kernel some of whose results replace the values of chunks, in their memory where nobody else has it.

    Ctrl-C comes before the program or after the chunks have their new values, or the chunks know where these are.

    Args:
        kernel: the program.
        args: all arguments. For donation the list must hold the only reference to a buffer.
        wide: run in 64-bit mode.
        targets: what is replaced. The caller has locked these chunks (`exclusive`).
        finish: function(kernel, args, results, *rest): writes results that do not have the shapes and dtypes of the
            values that they replace. Without it they are known to have them.
        rest: further arguments of `finish`.
        always: `finish` writes all results.
        copies: the places in `targets`, ascending, where the memory of all these arguments is to be used; what others
            hold is copied first, so that calls share one program.
        later: an argument waits for a program that is being compiled, and so does this one. With a `finish`, a program
            that has to be compiled itself is waited for in the same way.

    Returns:
        What `finish` returns, or the results of the kernel.

    Raises:
        MXNetError: the arguments do not fit the operator.
    """
    made: list[tuple] = []
    outcome: Any = None
    if copies:
        for chunk, place, index in targets:
            if place >= 0:
                chunk.stash = args, place, made, index
                if chunk.lent or getrefcount(args[place]) != ALONE:
                    args[place] = apart(args[place])
        places, given, shared = copies, [], []
    else:
        given, shared = [], []
        for chunk, place, index in targets:
            if place >= 0:
                chunk.stash = args, place, made, index
                if getrefcount(args[place]) == ALONE and not chunk.lent and \
                        not isinstance(args[place], Tracer):
                    given.append(place)
                else:
                    shared.append(place)
        if len(given) > 1:
            given.sort()
        places = tuple(given)
    program = (kernel.donors.get(places) or kernel.donating(places)) if places else None
    try:
        if not later:
            run(kernel, args, wide, program, made, finish is not _known_to_fit)
    except Later:
        later = True
    finally:
        if made:
            outcome = results = made[0]
            fit = not always
            for chunk, place, index in targets if fit and finish is not _known_to_fit else ():
                old, new = args[place] if place >= 0 else chunk.stash, results[index]
                if new.shape != old.shape or new.dtype != old.dtype:
                    fit = False
            if not fit:
                outcome = finish(kernel, args, results, *rest)
            elif isinstance(results[0], Tracer):  # all are, then
                for chunk, _, index in targets:
                    chunk.write(results[index])
            else:
                for chunk, _, index in targets:
                    chunk.buffer, chunk.pending = results[index], None
                    chunk.version += 1
    if later:
        program = kernel.donating(tuple(sorted(given + shared))) if given or shared else None
        promises = push_kernel(kernel, args, wide, targets[0][0].ctx, None, True, program, shared)
        for _, place, index in targets:
            promises[index].before = args[place] if place >= 0 else None
        return finish(kernel, args, promises, *rest)
    return outcome


def run_giving(kernel: Kernel, args: list[Any], wide: bool, places: Sequence[int], made: list[tuple]) -> None:
    """Runs a kernel that may write over the memory of the arguments at these places; `made` gets its results."""
    run(kernel, args, wide, kernel.donating(tuple(places)) if places else None, made)
