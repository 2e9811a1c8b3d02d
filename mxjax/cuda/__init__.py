"""`mx.cuda`: CUDA's profiler, started and stopped by a program, and named ranges for it."""

from __future__ import annotations

import ctypes
import ctypes.util
import functools

from ..base import MXNetError, check_call
from . import nvtx

__all__ = ["check_call", "cuda_profiler_start", "cuda_profiler_stop", "nvtx"]


def cuda_profiler_start() -> None:
    """Has CUDA's profiler, started as `nsys profile -c cudaProfilerApi`, record from now on.

    Raises:
        MXNetError: there is no CUDA runtime here, or it refuses.
    """
    _call("cudaProfilerStart")


def cuda_profiler_stop() -> None:
    """Ends what `cuda_profiler_start` has begun.

    Raises:
        MXNetError: there is no CUDA runtime here, or it refuses.
    """
    _call("cudaProfilerStop")


@functools.cache
def _runtime() -> ctypes.CDLL | None:
    """CUDA's runtime: the one that this process has loaded, or the system's."""
    for name in ("libcudart.so.13", "libcudart.so.12", ctypes.util.find_library("cudart")):
        try:
            return ctypes.CDLL(name) if name else None
        except OSError:
            continue
    return None


def _call(name: str) -> None:
    runtime = _runtime()
    if runtime is None:
        raise MXNetError(f"{name}: there is no CUDA runtime (libcudart) here; mx.profiler needs none")
    status = getattr(runtime, name)()
    if status:
        raise MXNetError(f"{name}: CUDA's error {status}")
