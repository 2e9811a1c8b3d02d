"""Programs that overwrite their arguments: the only module that donates buffers and replaces them by results.

JAX's buffers are immutable, so a change of an array is a program that returns the new value. If
nothing else refers to the old buffer, the program may reuse its memory (donation). `run_into`
implements this: it records in each chunk where its value is meanwhile, determines which buffers
have no other owner, runs the program, and assigns the results to the chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from sys import getrefcount
from typing import Any

from jax.core import Tracer

from ..kernel.ahead import Later
from ..kernel.kernel import Kernel, run
from .chunk import ALONE, Chunk
from .host_work import HostPromise, push_kernel
from .promise import HostValue, apart, as_buffer

__all__ = ["Target", "run_giving", "run_into"]

Target = tuple[Chunk, int, int]  # a chunk, the argument that is its value (-1: none is), the result that replaces it


def _known_to_fit(kernel: Kernel, args: list[Any], results: tuple) -> tuple:
    """The `finish` of a program whose results all have the shapes and dtypes of what they replace."""
    return results


def _with_known_buffers(args: list[Any], all_of_them: bool) -> None:
    """Replaces values of the host that have a buffer by it, because other arrays may have the same buffer; or all
    values of the host."""
    for place in range(len(args)):
        if type(args[place]) is HostValue and (all_of_them or args[place].value is not None):
            args[place] = args[place].get()


def run_into(kernel: Kernel, args: list[Any], x64: bool, targets: Sequence[Target],
             finish: Callable[..., Any] = _known_to_fit, rest: tuple = (), always: bool = False,
             copies: tuple[int, ...] = (), later: bool = False) -> Any:
    """Runs a kernel whose results replace the values of chunks, in their memory if it is not shared.

    Ctrl-C takes effect before the program or after the chunks have their new values, or the chunks
    know where these are.

    Args:
        kernel: the program.
        args: all arguments. For donation, the list must contain the only reference to a buffer.
        x64: run in 64-bit mode.
        targets: chunks to replace. The caller must have locked them (`exclusive`).
        finish: function(kernel, args, results, *rest) that writes results whose shapes and dtypes
            differ from the values that they replace. Without it, they must be equal.
        rest: further arguments of `finish`.
        always: let `finish` write all results.
        copies: ascending positions in `targets` of arguments whose memory must be reused; shared
            buffers are copied first, so that all calls use the same program.
        later: an argument waits for a program that is being compiled, so this call waits, too. With
            a `finish`, it also waits in this way if its own program must be compiled.

    Returns:
        The result of `finish`, or the results of the kernel.

    Raises:
        MXNetError: the arguments do not fit the operator.
    """
    delivered: list[tuple] = []
    outcome: Any = None
    if HostValue in map(type, args):
        _with_known_buffers(args, all_of_them=bool(copies))
    if copies:
        for chunk, place, index in targets:
            if place >= 0:
                chunk.stash = args, place, delivered, index
                if chunk.lent or getrefcount(args[place]) != ALONE:
                    args[place] = apart(args[place])
        places, donated, shared = copies, [], []
    else:
        donated, shared = [], []
        for chunk, place, index in targets:
            if place >= 0:
                chunk.stash = args, place, delivered, index
                if getrefcount(args[place]) == ALONE and not chunk.lent and \
                        not isinstance(args[place], Tracer):
                    donated.append(place)
                else:
                    shared.append(place)
        if len(donated) > 1:
            donated.sort()
        places = tuple(donated)
    program = (kernel.donors.get(places) or kernel.donating(places)) if places else None
    try:
        if not later:
            run(kernel, args, x64, program, delivered, finish is not _known_to_fit, True)
    except Later:
        later = True
    finally:
        if delivered:
            outcome = results = delivered[0]
            fit = not always
            for chunk, place, index in targets if fit and finish is not _known_to_fit else ():
                old, new = args[place] if place >= 0 else chunk.stash, results[index]
                if new.shape != old.shape or new.dtype != old.dtype:
                    fit = False
            if not fit:
                outcome = finish(kernel, args, results, *rest)
            elif isinstance(results[0], Tracer):  # then all are copied
                for chunk, _, index in targets:
                    chunk.write(results[index])
            else:
                host = type(results[0]) is HostValue  # then all are
                for chunk, _, index in targets:
                    value = results[index]
                    chunk.buffer, chunk.pending = (None, value) if host else (value, None)
                    chunk.version += 1
    if later:
        return finish(kernel, args, _pushed(kernel, args, x64, targets, donated, shared), *rest)
    return outcome


def _pushed(kernel: Kernel, args: list[Any], x64: bool, targets: Sequence[Target], donated: list[int],
            shared: list[int]) -> list[HostPromise]:
    """Returns promises of the results of a program that is still being compiled, or waits for another one."""
    program = kernel.donating(tuple(sorted(donated + shared))) if donated or shared else None
    promises = push_kernel(kernel, args, x64, targets[0][0].ctx, None, True, program, shared)
    for _, place, index in targets:
        promises[index].before = as_buffer(args[place]) if place >= 0 else None
    return promises


def run_giving(kernel: Kernel, args: Sequence[Any], x64: bool, places: Sequence[int], delivered: list[tuple]) -> None:
    """Runs a kernel that may overwrite the memory of the arguments at these positions.

    `delivered` receives its results.
    """
    places = tuple(places)
    run(kernel, args, x64, (kernel.donors.get(places) or kernel.donating(places)) if places else None, delivered)
