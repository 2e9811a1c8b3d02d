"""`Plan`: memory and time of a program on devices, printed as a table."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax

from ..base import MXNetError
from ..passes.precision import allows_conversion
from .figures import figures
from .program import compile_for
from .targets import Target, target

__all__ = ["Group", "Plan", "make_plan"]

_USABLE = 0.92  # of a device's memory: the runtime and fragmentation have the rest
_NOTES = {
    "cuda": "kernels of cuDNN and cuBLAS are selected on the device by autotuning; their speed is unknown here",
    "tpu": "bandwidths are from the data sheet; the overlap of copies with computation is unknown here",
}


@dataclass(frozen=True)
class Group:
    """A group of similar arguments of a program.

    Attributes:
        name: "parameters", "optimizer states", "inputs" ...
        arguments: global shapes and dtypes, over all devices.
        kept: whether the program overwrites them with their new values.
        split: whether each of them is split over the devices along its first axis.
        specs: for each argument, the mesh axes over which its axes are split, if the split is more
            complex.
    """

    name: str
    arguments: Sequence[jax.ShapeDtypeStruct]
    kept: bool = False
    split: bool = False
    specs: Sequence[tuple] = ()


@dataclass
class Plan:
    """Memory and time of a program on devices. `str` formats it as a table, `to_json` for other programs.

    Attributes:
        model: description of the computation.
        on: the devices.
        devices: number of devices.
        batch: length of the first input along its first axis, over all devices.
        memory: bytes per device: of each group of arguments, "results", "temporaries", "program",
            "total", "available".
        flops: floating point operations of all devices together.
        moved: bytes that one device's launches read and write.
        launches: number of kernels, library calls and copies that a device starts.
        collectives: {kind: (number, bytes that a device sends)}.
        seconds: time of "compute", "memory" and "network", each by itself, according to the data
            sheet.
        compiled: seconds of the compilation.
        notes: limitations of the estimate.
    """

    model: str
    on: str
    devices: int
    batch: int | None
    memory: dict[str, int]
    flops: float
    moved: int
    launches: int
    collectives: dict[str, tuple[int, int]]
    seconds: dict[str, float]
    compiled: float
    notes: list[str] = field(default_factory=list)

    @property
    def fits(self) -> bool:
        """Returns whether the program fits in a device's memory."""
        return self.memory["total"] <= self.memory["available"]

    @property
    def bound(self) -> str:
        """Returns the bottleneck: "compute", "memory" or "network"."""
        return max(self.seconds, key=self.seconds.__getitem__)

    @property
    def step(self) -> float:
        """Returns a lower bound of the seconds of a step: the time of its bottleneck."""
        return self.seconds[self.bound]

    def to_json(self) -> str:
        """Returns all attributes and derived values as JSON."""
        return json.dumps({**dataclasses.asdict(self), "fits": self.fits, "bound": self.bound, "step": self.step},
                          indent=1)

    def __str__(self) -> str:
        rows = [("model", self.model), ("batch", str(self.batch)), ("", ""),
                ("devices", f"{self.on}, {self.devices} of them" if self.devices > 1 else self.on)]
        rows += [(name, f"{_bytes(size):>12}") for name, size in self.memory.items()
                 if name not in ("total", "available")]
        rows += [("memory per device", f"{_bytes(self.memory['total']):>12} of {_bytes(self.memory['available'])}: "
                  f"{'fits' if self.fits else 'DOES NOT FIT'}"), ("", ""),
                 ("operations", f"{self.flops / 1e12:.4g} T"), ("moved per device", _bytes(self.moved)),
                 ("launches", str(self.launches))]
        rows += [(name, f"{count}, {_bytes(size)}") for name, (count, size) in self.collectives.items()]
        rows += [("", "")] + [(name, f"{1000 * value:10.3f} ms") for name, value in self.seconds.items()]
        rows += [("time per step, at least", f"{1000 * self.step:10.3f} ms, bound by {self.bound}")]
        if self.batch and self.step:
            rows.append(("per second, at most", f"{self.batch / self.step:10.0f} of the batch"))
        width = max(len(name) for name, _ in rows)
        lines = [f"{name:{width}}  {value}".rstrip() for name, value in rows]
        return "\n".join([*lines, "", *(f"note: {note}" for note in self.notes)])


def make_plan(model: str, function: Callable[..., Any], groups: Sequence[Group], on: str, *,
              batch: int | None, x64: bool = False, mesh: Mapping[str, int] | None = None,
              results: Sequence[tuple] = ()) -> Plan:
    """Compiles a function for devices and estimates its memory and time.

    Args:
        model: description of the computation.
        function: pure function of the arguments of all groups in order.
        groups: groups of its arguments.
        on: the devices, see `targets.target`.
        batch: batch size.
        x64: whether to keep 64-bit numbers.
        mesh: lengths of the mesh axes by name; batches are split over the first. By default one
            axis, "data".
        results: for each result the mesh axes over which its axes are split; by default none.

    Raises:
        MXNetError: the devices are unknown, their compiler is missing or rejects the program, or a
            batch cannot be split.
    """
    devices = target(on)
    mesh = dict(mesh or {"data": devices.count})
    if math.prod(mesh.values()) != devices.count:
        raise MXNetError(f"plan: {on} has {devices.count} devices, but the mesh {mesh} has another number")
    first, parts = next(iter(mesh.items()))
    arguments, donate, specs, sizes_here = [], [], [], []
    for group in groups:
        for i, struct in enumerate(group.arguments):
            if group.split and parts > 1 and (not struct.shape or struct.shape[0] % parts):
                raise MXNetError(f"plan: an input of shape {struct.shape} cannot be split over {parts} devices")
            if group.kept:
                donate.append(len(arguments))
            specs.append((first,) if group.split else tuple(group.specs[i]) if group.specs else ())
            arguments.append(struct)
            sizes_here.append(_size(struct) // _parts(specs[-1], mesh))
    result = compile_for(function, arguments, devices, donate=donate, mesh=mesh, specs=specs, results=results,
                          x64=x64, again=bool(donate))
    counts, sizes = figures(result["text"], devices.device.platform == "tpu"), result["memory"]
    memory: dict[str, int] = {}
    every = iter(sizes_here)
    for group in groups:
        if group.arguments:  # groups of one name differ in whether they are given up or split
            memory[group.name] = memory.get(group.name, 0) + sum(next(every) for _ in group.arguments)
    memory |= {"results": max(sizes["output"] - sizes["alias"], 0), "temporaries": sizes["temp"],
               "program": sizes["generated_code"]}
    memory["total"] = sizes["argument"] + sum(memory[n] for n in ("results", "temporaries", "program"))
    memory["available"] = int(devices.device.memory * _USABLE)
    sent = sum(size for _, size in counts["collectives"].values())
    units = work_units(devices, result["products"])
    each = sum(share / devices.device.flops[unit] for unit, share in units.items())
    seconds = {"compute": result["flops"] / devices.count * each,
               "memory": counts["moved"] / devices.device.bandwidth,
               "network": 2 * (devices.count - 1) / devices.count * sent / devices.device.link}
    notes = [f"matrix products in {' and '.join(units)}; {_NOTES[devices.device.platform]}",
             f"data sheet: {devices.device.source}"]
    return Plan(model, on, devices.count, batch, memory,
                result["flops"], counts["moved"], counts["launches"], counts["collectives"], seconds, result["seconds"],
                notes)


def work_units(on: Target, products: Mapping[str, int]) -> dict[str, float]:
    """Returns the shares of multiplications by dtype of the matrix units, as the device computes them."""
    shares: dict[str, float] = {}
    for dtype, count in products.items():
        if "float" in dtype:
            unit = {"cuda": "tf32", "tpu": "bfloat16"}[on.device.platform] if dtype == "float32" and \
                allows_conversion() else dtype if dtype in on.device.flops else "float32"
            shares[unit] = shares.get(unit, 0) + count
    total = sum(shares.values())
    return {unit: count / total for unit, count in shares.items()} if total else {"float32": 1.0}


def _parts(spec: tuple, mesh: Mapping[str, int]) -> int:
    """Into how many parts a value is split."""
    names = [n for names in spec for n in (names if isinstance(names, tuple) else (names,)) if n is not None]
    return math.prod(mesh[n] for n in names)


def _size(struct: jax.ShapeDtypeStruct) -> int:
    return math.prod(struct.shape) * struct.dtype.itemsize


def _bytes(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} GiB"


