"""Features of the CPU."""

from __future__ import annotations

import contextlib
import functools
import os
import pathlib

__all__ = ["multiplies_bytes"]


@functools.cache
def multiplies_bytes() -> bool:
    """Returns whether oneDNN multiplies and adds 8-bit integers exactly, with AVX-512 VNNI.

    Older processors add pairs of products in 16 bits, which saturate. The same happens if the user
    disables the newer instructions in oneDNN.
    """
    if any(os.environ.get(f"{name}_MAX_CPU_ISA") for name in ("ONEDNN", "DNNL")):
        return False
    with contextlib.suppress(OSError, UnicodeDecodeError):
        for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            name, _, flags = line.partition(":")
            if name.strip() == "flags":
                return "avx512_vnni" in flags.split()
    return False
