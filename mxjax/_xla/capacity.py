"""Memory limits of devices: requests that do not fit raise an error before they reach XLA, which
might abort the process.

The sizes of a program's results are known after tracing, those of its temporaries after
compilation.
"""

from __future__ import annotations

import contextlib
import math
import os
import pathlib
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend.core import JaxprEqn, Var

from ..base import MXNetError
from ..context import default_device
from .devices import JaxDevice, before_start
from .host_memory import give_back
from .tracing import aval_of

__all__ = ["ELEMENTWISE", "LOOPS", "Survey", "bytes_of", "capacity", "products", "refuse_program", "refuse_result",
           "survey"]

_HOPELESS = 64  # multiple of the capacity that no fusion can reduce enough
_LOOK = 64 << 20  # bytes up to which the capacity is not checked
_CURVES = frozenset(("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cos", "cosh", "digamma",
                     "erf", "erf_inv", "erfc", "exp", "exp2", "expm1", "lgamma", "log", "log1p", "logistic", "pow",
                     "sin", "sinh", "tan", "tanh"))  # primitives that take a processor many operations
ELEMENTWISE = _CURVES | frozenset("""
    abs add add_any and ceil clamp convert_element_type copy div eq floor ge gt integer_pow is_finite le lt max min mul
    ne neg nextafter not or reduce_precision rem round rsqrt select_n sign sqrt square stop_gradient sub xor
""".split())  # primitives that make each number of one number of each argument
LOOPS = ELEMENTWISE | {"broadcast_in_dim", "iota", "reshape", "squeeze"}  # each number by itself, in memory's order


def bytes_of(shape: Sequence[int], dtype: Any) -> int:
    """Returns the bytes of an array as a Python integer, which cannot overflow."""
    return math.prod(map(int, shape)) * (np.dtype(dtype) if isinstance(dtype, (str, type)) else dtype).itemsize


def capacity(device: JaxDevice | None) -> float:
    """Returns the bytes that are currently available for new arrays on a device: of an
    accelerator's pool, or of the machine's memory.

    On the host this is the available memory that the system reports, within the limits of a
    container. By default for JAX's default device.
    """
    before_start()
    device = device or default_device()
    with contextlib.suppress(jax.errors.JaxRuntimeError, NotImplementedError):
        stats = device.memory_stats()
        if stats and stats.get("bytes_limit"):
            return float(stats["bytes_limit"])
    return math.inf if device.platform != "cpu" else min([math.inf, *_host_limits()])


def _room(size: float, device: JaxDevice | None) -> float:
    """Returns the capacity if it is too small even after caches have been released."""
    most = capacity(device)
    if size > most:
        give_back()
        most = capacity(device)
    return most


def _host_limits() -> Iterator[float]:
    with contextlib.suppress(OSError, ValueError, IndexError):
        text = pathlib.Path("/proc/meminfo").read_text(encoding="ascii")
        yield int(text.partition("MemAvailable:")[2].split()[0]) * 1024
    for limit, used, released in (("memory.max", "memory.current", "inactive_file "),
                                  ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes",
                                   "total_inactive_file ")):
        with contextlib.suppress(OSError, ValueError, IndexError):
            folder = pathlib.Path("/sys/fs/cgroup")
            most = int((folder / limit).read_text(encoding="ascii"))
            stat = (folder / limit).parent / "memory.stat"
            cache = int(stat.read_text(encoding="ascii").partition(released)[2].split()[0])
            yield most - int((folder / used).read_text(encoding="ascii")) + cache
    with contextlib.suppress(OSError, ValueError, AttributeError):
        if sys.platform == "darwin":
            yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def refuse_result(shape: Sequence[int], dtype: Any, what: str = "an array") -> None:
    """Raises MXNetError if an array of this shape does not fit on the host."""
    if not all([isinstance(n, (int, np.integer)) for n in shape]):  # an export for any batch size
        return
    size = bytes_of(shape, dtype)
    if size > _LOOK:
        before_start()
        most = _room(size, jax.local_devices(backend="cpu")[0])
        if size > most:
            described = f"{what} of shape {tuple(shape)} and dtype {np.dtype(dtype).name}"
            raise MXNetError(_memory_message(described, size, most))


class Survey(NamedTuple):
    """Statistics of a traced program: the largest intermediate value; the numbers of operations, of
    multiplications in convolutions and of results of functions such as `exp`; the largest values of
    operations that are not elementwise (sums, products, data movement); the largest number of
    operations that read one elementwise result; and the targets of library calls."""

    shape: tuple[int, ...]
    dtype: str
    largest: int
    operations: int
    convolved: int
    curved: int
    arranged: int
    readers: int
    called: frozenset[str]


def refuse_program(traced: Any, found: Survey, device: JaxDevice | None) -> bool:
    """Raises MXNetError if the results or intermediate values of a traced program do not fit on the device.

    Args:
        traced: result of `jax.jit(f).trace(...)`.
        found: its survey.
        device: device of the program.

    Returns:
        True if they need so much memory that the next call must check again.
    """
    outs = [leaf for leaf in jax.tree.leaves(traced.out_info) if hasattr(leaf, "dtype")]
    made = sum([bytes_of(o.shape, o.dtype) for o in outs])
    shape, dtype, largest = found[:3]
    if max(made, largest) <= _LOOK:
        return False
    most = _room(max(made, largest), device)
    if made > most:
        described = ", ".join([f"{np.dtype(o.dtype).name if o.dtype != jax.dtypes.float0 else 'float0'}"
                               f"{tuple(o.shape)}" for o in outs[:4]]) + ", ..." * (len(outs) > 4)
        raise MXNetError(_memory_message(f"the result {described}", made, most))
    if largest > _HOPELESS * most:
        raise MXNetError(_memory_message(f"an intermediate value {dtype}{tuple(shape)}", largest, most))
    if largest > most / 2:  # XLA may fuse it away, which only the compiled program shows
        memory = traced.lower().compile().memory_analysis()
        needed = made + getattr(memory, "temp_size_in_bytes", 0)
        if needed > most:
            raise MXNetError(_memory_message("the result with its intermediate values", needed, most))
    return made > most / 8


def _memory_message(what: str, size: int, most: float) -> str:
    return (f"out of memory: {what} needs {_readable(size)} ({size} bytes), "
            f"but only {_readable(most)} is available on the device")


def _readable(size: float) -> str:
    units = ["KiB", "MiB", "GiB", "TiB"]
    power = min(max(int(size).bit_length() - 1, 10) // 10, len(units))
    return f"{size / 1024 ** power:.1f} {units[power - 1]}"


def survey(jaxpr: object) -> Survey:
    """Collects the statistics of a program and the programs that it calls."""
    return _survey(jaxpr, False, {})


def _survey(jaxpr: Any, convolves: bool, known: dict[Any, Survey]) -> Survey:
    """`convolves`: part of a convolution; `known`: results for functions so far, since some are called often."""
    shape, dtype, largest, operations, convolved, curved, arranged = (), "", 0, len(jaxpr.eqns), 0, 0, 0
    called: set[str] = set()
    reads = Counter(read for eqn in jaxpr.eqns for read in {v for v in eqn.invars if isinstance(v, Var)}
                    if getattr(read.aval, "shape", ()))
    readers = max([reads[out] for eqn in jaxpr.eqns if eqn.primitive.name not in LOOPS - ELEMENTWISE
                   for out in eqn.outvars], default=0)
    for eqn in jaxpr.eqns:
        for out in eqn.outvars:
            aval = out.aval
            lengths = getattr(aval, "shape", None)
            if lengths:
                size = bytes_of(lengths, aval.dtype)
                if size > largest:
                    shape, dtype, largest = lengths, str(aval.dtype), size
        name = eqn.primitive.name
        if name in _PRODUCTS:
            if convolves or name == "conv_general_dilated" or \
                    name == "ffi_call" and eqn.params["target_name"].endswith("convolution"):
                convolved += _PRODUCTS[name](eqn)
        elif name in _CURVES:
            curved += _count(aval_of(eqn.outvars[0]).shape)
        if name == "ffi_call":
            called.add(eqn.params["target_name"])
        calls = False
        within = convolves or "onvolution" in str(eqn.params.get("name", ""))  # kernels are functions of that name
        for value in eqn.params.values():
            for inner in value if isinstance(value, (tuple, list)) else (value,):
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns"):
                    calls = True
                    key = id(inner), within
                    deeper = known.get(key) or known.setdefault(key, _survey(inner, within, known))
                    operations += deeper.operations
                    convolved += deeper.convolved
                    curved += deeper.curved
                    arranged += deeper.arranged
                    readers = max(readers, deeper.readers)
                    called |= deeper.called
                    if deeper.largest > largest:
                        shape, dtype, largest = deeper[:3]
        if name not in LOOPS and not calls:
            arranged += max([_count(v.aval.shape) for v in (*eqn.invars, *eqn.outvars) if hasattr(v.aval, "shape")],
                            default=0)
    return Survey(shape, dtype, largest, operations, convolved, curved, arranged, readers, frozenset(called))


def products(jaxpr: Any) -> Counter[str]:
    """Returns the multiplications of matrix products and convolutions in a program, by dtype of their operands."""
    result: Counter[str] = Counter()
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        if name in _PRODUCTS and (count := _PRODUCTS[name](eqn)):
            result[str(aval_of(eqn.invars[0]).dtype)] += count
        for value in eqn.params.values():
            for inner in value if isinstance(value, (tuple, list)) else (value,):
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns"):
                    for dtype, count in products(inner).items():
                        result[dtype] += count * (eqn.params["length"] if name == "scan" else 1)
    return result


def _count(shape: Sequence[Any]) -> int:
    return math.prod([n if isinstance(n, int) else 1 for n in shape])  # else: a batch of any size (`jax.export`)


def _convolved(eqn: JaxprEqn) -> int:
    """Multiplications of a convolution: each result's window is as large as a filter."""
    weight, filters = aval_of(eqn.invars[1]).shape, eqn.params["dimension_numbers"].rhs_spec[0]
    return _count(aval_of(eqn.outvars[0]).shape) * _count(weight[:filters] + weight[filters + 1:])


def _multiplied(eqn: JaxprEqn) -> int:
    """Multiplications of a matrix product."""
    data, summed = aval_of(eqn.invars[0]).shape, eqn.params["dimension_numbers"][0][0]
    return _count(aval_of(eqn.outvars[0]).shape) * _count([data[axis] for axis in summed])


def _called(eqn: JaxprEqn) -> int:
    """Returns the multiplications of a convolution by a library (result with channels last) or of its row products."""
    out, name = aval_of(eqn.outvars[0]).shape, eqn.params["target_name"]
    if name.endswith("matmul"):
        return _count(out) * _count(aval_of(eqn.invars[0]).shape[:1])
    if not name.endswith("convolution"):
        return 0
    return _count(out[:-1]) * _count(aval_of(eqn.invars[1]).shape)


_PRODUCTS = {"conv_general_dilated": _convolved, "dot_general": _multiplied, "ffi_call": _called}
