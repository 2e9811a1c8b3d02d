"""Arguments of compiled functions: signatures, devices, and numbers cached on accelerators."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, overload

import jax
import numpy as np
from jax.core import Tracer

from .._support.bounded import Bounded
from .._xla.devices import JaxDevice
from .._xla.tracing import settings
from ..context import default_device
from ..passes.onednn import available as onednn_available

__all__ = ["elements", "kind_of", "located", "placed", "signature_of", "with_numbers_there"]

_NUMBERS = 1 << 12  # bytes of host arrays up to which accelerators cache them


def signature_of(arg: object) -> Any:
    """Returns the signature of an argument that is not a JAX array: a number, a NumPy array, or a tree."""
    if isinstance(arg, (np.ndarray, np.generic)):
        return arg.shape, arg.dtype
    if isinstance(arg, (float, int)):
        return type(arg)
    leaves, tree = jax.tree.flatten(arg)
    return (tree, *[a.aval if hasattr(a, "aval") else signature_of(a) for a in leaves])


def elements(tree: object) -> int:
    return sum([math.prod(getattr(leaf, "shape", ())) for leaf in jax.tree.leaves(tree)])


def located(args: Sequence[Any]) -> tuple[jax.Array | None, JaxDevice, bool]:
    """Returns a call's first array (None if there is none), a device on which it runs, and, on
    CPUs, whether it runs on several. Without arrays, shapes with a sharding determine the device."""
    first, device, several = None, None, False
    for leaf in jax.tree.leaves(args):
        if isinstance(leaf, jax.Array) and not isinstance(leaf, Tracer):
            devices = leaf.sharding.device_set
            several = several or len(devices) > 1
            if first is None:
                first, device = leaf, next(iter(devices))
                if device.platform != "cpu":  # if no more is requested
                    break
        elif device is None and isinstance(leaf, jax.ShapeDtypeStruct) and leaf.sharding is not None:
            device = next(iter(leaf.sharding.device_set))
    return first, device or default_device(), several


def placed(args: Sequence[Any]) -> tuple[str | None, JaxDevice | None]:
    """Returns the target of a call (see `kind_of`), and the devices of its arrays if JAX would move them: uncommitted
    arrays go to the default device.

    A user may have set the default device (`jax.default_device`) for other arrays.
    """
    first, device, several = located(args)
    target = None if device.platform != "cpu" else "cpu" if several or not onednn_available() else "onednn"
    return target, None if first is None or first.committed or device == default_device() else device


@overload
def with_numbers_there(args: tuple[Any, ...]) -> tuple[Any, ...]: ...
@overload
def with_numbers_there(args: Sequence[Any]) -> Sequence[Any]: ...
def with_numbers_there(args: Sequence[Any]) -> Sequence[Any]:
    """Returns a call's arguments, with recurring host numbers replaced by cached copies on the
    accelerator of the others.

    The transfer of a factor or a position takes longer than most operators. Numbers that occur only
    once, such as a step's, are not cached: each would have a different address, and XLA would
    rebuild the graph of the step's launches (docs/design/0032).
    """
    places = [i for i, a in enumerate(args) if isinstance(a, (np.ndarray, np.generic, int, float))]
    if not places:
        return args
    first, device, _ = located(args)
    if first is None or len(first.sharding.device_set) > 1:
        return args
    there, x64 = list(args), settings.jax_enable_x64
    for i in places:
        number = there[i]
        if not isinstance(number, (np.ndarray, np.generic)):
            key = device, x64, type(number), repr(number)  # 0.0 and -0.0 are equal
        elif number.nbytes <= _NUMBERS:
            key = device, x64, number.dtype, number.shape, number.tobytes()
        else:
            continue
        value = _there.get(key)
        if value is None:
            if key not in _once:
                _once[key] = True
                continue
            value = _there[key] = jax.device_put(number, None if device == default_device() else device)
        there[i] = value
    return tuple(there)


_once: dict[tuple, bool] = Bounded(1 << 10)
_there: dict[tuple, jax.Array] = Bounded(1 << 10)


def kind_of(args: Sequence[Any]) -> str | None:
    """Returns the kind of device for which the programs of a call are traced (`ops.by_device`).

    XLA can partition its own convolutions over several devices, but not those of a library.
    """
    return placed(args)[0]
