"""Features of this installation."""

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
    """A feature's name and whether it is available."""

    name: str
    enabled: bool

    def __repr__(self) -> str:
        return f"{'✔' if self.enabled else '✖'} {self.name}"


_ABSENT = """CUDA_RTC TENSORRT CPU_SSE CPU_SSE2 CPU_SSE3 CPU_SSE4_1 CPU_SSE4_2 CPU_SSE4A CPU_AVX CPU_AVX2 OPENMP SSE
F16C JEMALLOC BLAS_OPEN
BLAS_ATLAS BLAS_MKL BLAS_APPLE MKLDNN CAFFE CXX14 DEBUG TVM_OP""".split()


def feature_list() -> list[Feature]:
    """Returns all of MXNet's features, and JAX and XLA.

    CUDA and its libraries count as available if JAX sees a GPU. Libraries of MXNet's own builds are
    not available; XLA replaces them.
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
        """Does nothing: there is only one object, which `__new__` initializes."""

    def __repr__(self) -> str:
        return str(list(self.values()))

    def is_enabled(self, feature_name: str) -> bool:
        """Returns whether a feature is available.

        Raises:
            RuntimeError: unknown feature.
        """
        name = feature_name.upper()
        if name not in self:
            raise RuntimeError(f"Feature '{name}' is unknown, known features are: {list(self.keys())}")
        return self[name].enabled


def get_branch() -> str:
    """Returns the branch: mxjax and its version."""
    return f"mxjax-{libinfo.__mxjax_version__}"


def get_commit_hash() -> str:
    """Returns "", because an installed package does not know its commit."""
    return ""


def use_cache(folder: str | os.PathLike[str] | None = None) -> str:
    """Caches compiled programs in files, so that this process and later ones need not compile them again.

    `python -m mxjax run` and `launch` do this automatically. Call it before any computation.

    Args:
        folder: the directory; by default MXJAX_CACHE_DIR, otherwise the user's cache directory. It
            is limited to MXJAX_CACHE_MEMORY megabytes (2048); the least recently used programs are
            removed. A directory that was configured for JAX takes precedence. A file of `python -m
            mxjax cache pack` is unpacked; programs are machine code, so use only files you trust.

    Returns:
        The directory in use: a subdirectory of the requested one, for this kind of machine and
            version of JAX.

    Raises:
        MXNetError: the directory cannot be created.

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
