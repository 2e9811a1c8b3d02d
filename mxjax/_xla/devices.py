"""Settings that must be made before JAX initializes its devices."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
from pathlib import Path
from typing import Any, NoReturn, Protocol

from jax.extend.backend import register_backend_factory

from .host_memory import keep_freed
from .tracing import settings

__all__ = ["JaxDevice", "before_start"]


class JaxDevice(Protocol):
    """A JAX device for type annotations, because type checkers treat `jax.Device` as a variable."""

    id: int
    platform: str
    device_kind: str
    process_index: int

    def memory_stats(self) -> dict[str, Any] | None:
        """Returns the statistics of its allocator; None if there are none."""
        ...


_GOOGLE = "0x1ae0"  # vendor of a device on the PCI bus
_OTHERS = {"0x0042", "0x001f"}  # Google's that are no TPUs: network, disks
_PCI, _NAMES = "/sys/bus/pci/devices", ("/dev/accel*", "/dev/vfio/[0-9]*")


@functools.cache
def before_start() -> None:
    """Configures memory, and skips the TPU compiler on machines without a TPU."""
    keep_freed()
    if not settings.jax_platforms and importlib.util.find_spec("libtpu") and not may_have_tpu():
        with contextlib.suppress(RuntimeError):  # the devices are initialized already
            register_backend_factory("tpu", _no_tpu, priority=300, fail_quietly=True)


def _no_tpu() -> NoReturn:
    """Instead of libtpu, which prints errors about names of hosts where it looks for a TPU in vain.

    Plans for TPUs ask it for its compiler, in processes of their own, and not for devices.
    """
    raise RuntimeError("this host has no TPU; libtpu is only used to compile plans")


def may_have_tpu() -> bool:
    """Returns whether this host may have a TPU, by its devices or environment variables."""
    if "JAX_FORCE_TPU_INIT" in os.environ or any(any(Path("/").glob(name[1:])) for name in _NAMES):
        return True
    with contextlib.suppress(OSError):
        return any((place / "vendor").read_text().strip() == _GOOGLE and
                   (place / "device").read_text().strip() not in _OTHERS for place in Path(_PCI).iterdir())
    return False
