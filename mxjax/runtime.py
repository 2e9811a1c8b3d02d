"""What this installation can do."""

from __future__ import annotations

import collections
import importlib.util
import os
from typing import ClassVar, NamedTuple

import jax

from . import libinfo
from ._xla import program_files as _program_files
from ._xla.tracing import settings as _settings
from .context import num_gpus

__all__ = ["Feature", "Features", "feature_list", "get_branch", "get_commit_hash", "use_cache"]


class Feature(NamedTuple):
    """A feature's name and whether it is there."""

    name: str
    enabled: bool

    def __repr__(self) -> str:
        return f"{'✔' if self.enabled else '✖'} {self.name}"


_ABSENT = """CUDA_RTC TENSORRT CPU_SSE CPU_SSE2 CPU_SSE3 CPU_SSE4_1 CPU_SSE4_2 CPU_SSE4A CPU_AVX CPU_AVX2 OPENMP SSE
F16C JEMALLOC BLAS_OPEN
BLAS_ATLAS BLAS_MKL BLAS_APPLE MKLDNN CAFFE CXX14 DEBUG TVM_OP""".split()


def feature_list() -> list[Feature]:
    """All of MXNet's features, and JAX and XLA.

    CUDA and its libraries count as there where JAX sees a GPU; libraries of MXNet's own builds are not there, their
    work is XLA's.
    """
    gpu = num_gpus() > 0
    result = {"XLA": True, "JAX": True, "CUDA": gpu, "CUDNN": gpu, "NCCL": gpu, "SIGNAL_HANDLER": False,
              "INT64_TENSOR_SIZE": True, "OPENCV": importlib.util.find_spec("cv2") is not None, "PROFILER": True,
              "LAPACK": True, "DIST_KVSTORE": True}
    result.update(dict.fromkeys(_ABSENT, False))
    return [Feature(name, enabled) for name, enabled in result.items()]


class Features(collections.OrderedDict):
    """The features by name.

    Example:
        >>> mx.runtime.Features().is_enabled("XLA")
        True
    """

    instance: ClassVar[Features | None] = None

    def __new__(cls) -> Features:
        if cls.instance is None:
            cls.instance = super().__new__(cls)
            super().__init__(cls.instance, [(f.name, f) for f in feature_list()])
        return cls.instance

    def __init__(self) -> None:
        """There is one object; `__new__` has filled it."""

    def __repr__(self) -> str:
        return str(list(self.values()))

    def is_enabled(self, feature_name: str) -> bool:
        """Returns whether a feature is there.

        Raises:
            RuntimeError: nothing of that name is known.
        """
        name = feature_name.upper()
        if name not in self:
            raise RuntimeError(f"Feature '{name}' is unknown, known features are: {list(self.keys())}")
        return self[name].enabled


def get_branch() -> str:
    """Returns which line of development this is: mxjax and its version."""
    return f"mxjax-{libinfo.__mxjax_version__}"


def get_commit_hash() -> str:
    """Returns the commit that this was built from: "", an installed package does not know it."""
    return ""


def use_cache(folder: str | os.PathLike[str] | None = None) -> str:
    """Keeps compiled programs in files, where this process and later ones find them instead of compiling again.

    `python -m mxjax run` and `launch` do this by themselves. Call it before anything is computed.

    Args:
        folder: where, at most MXJAX_CACHE_MEMORY megabytes (2048), those used longest ago are dropped; default
            MXJAX_CACHE_DIR, else the user's cache folder. A folder that was set for JAX stays. A file that
            `python -m mxjax cache pack` wrote is unpacked; programs are machine code, so use only what you trust.

    Returns:
        The folder that is used: one for this kind of machine and version of JAX below the one that was asked for.

    Raises:
        MXNetError: the folder cannot be made.

    Example:
        >>> mx.runtime.use_cache()  # doctest: +SKIP
        '/home/me/.cache/mxjax/programs-0f3b5d8a7c1e2946'
    """
    if _settings.jax_compilation_cache_dir and folder is None:
        return _settings.jax_compilation_cache_dir
    result = str(_program_files.prepared(folder))
    jax.config.update("jax_compilation_cache_dir", result)
    for name, value in _program_files.SETTINGS.items():
        jax.config.update(name, value)
    return result
