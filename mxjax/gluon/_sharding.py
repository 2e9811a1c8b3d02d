"""Sharding of a network's parameters and optimizer states over the devices of a mesh."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec

from ..eager.mesh_trace import place, plain
from ..ndarray import NDArray
from ._parameter import is_dense

if TYPE_CHECKING:
    from .parameter import Parameter
    from .trainer import Trainer

__all__ = ["Sharding", "Shardings"]

_SMALL = 1 << 10  # numbers; smaller parameters are on every device


class _Row(NamedTuple):
    name: str
    shape: tuple[int, ...]
    dtype: str
    spec: PartitionSpec
    bytes: int  # on each device


class Shardings(list):
    """One row (name, shape, dtype, spec, bytes per device) per parameter; `str` formats it as a table."""

    def __str__(self) -> str:
        rows = [("parameter", "shape", "dtype", "split", "MB per device")]
        rows += [(r.name, str(r.shape), r.dtype, _axes_text(r.spec), f"{r.bytes / 1e6:.3f}") for r in self]
        rows.append(("all", "", "", "", f"{sum(r.bytes for r in self) / 1e6:.3f}"))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ("  ".join(f"{cell:<{n}}" for cell, n in zip(row, widths, strict=True)) for row in rows)
        return "\n".join(map(str.rstrip, lines))


def _axes_text(spec: PartitionSpec) -> str:
    return " x ".join("-" if names is None else str(names) for names in spec) if any(spec) else "on every device"


class Sharding:
    """A rule that assigns a sharding to each parameter.

    Args:
        mesh: the devices.
        rule: "replicated", "fsdp", or {regular expression: PartitionSpec}. The first expression
            that is found in a parameter's name decides; parameters without one are sharded as with
            "fsdp". A parameter's own `sharding` takes precedence.
        axis: the mesh axis over which batches, and with "fsdp" also parameters, are split.
        blocks: the network and the loss, which provide the parameters' names.

    Raises:
        TypeError, ValueError: the rule is invalid.
    """

    def __init__(self, mesh: Mesh | AbstractMesh, rule: str | Mapping[str, Any], axis: str,
                 blocks: Sequence[Any] = ()) -> None:
        if not (rule in ("replicated", "fsdp") if isinstance(rule, str) else isinstance(rule, Mapping)):
            raise ValueError(f'TrainStep: sharding must be "replicated", "fsdp" or {{regular expression: '
                             f'PartitionSpec}}, got {rule!r}')
        self._mesh, self.rule, self.axis = plain(mesh), rule, axis
        self._rules = [(re.compile(k), v) for k, v in rule.items()] if isinstance(rule, Mapping) else []
        self._known: dict[tuple, NamedSharding] = {}
        self._blocks = [block for block in blocks if hasattr(block, "collect_params")]
        self._names: dict[str, str] = {}

    def name_of(self, param: Parameter) -> str:
        """Returns the name that a parameter has in `collect_params()` of its network."""
        if param.variable_name not in self._names:
            for block in self._blocks:
                self._names.update({p.variable_name: name for name, p in block.collect_params().items()})
        return self._names.setdefault(param.variable_name, param.name)

    def of(self, param: Parameter) -> NamedSharding:
        """Returns the sharding of a parameter.

        Raises:
            ValueError: the rule does not fit the parameter's shape.
        """
        key = param.variable_name, param.shape, param.sharding
        cached = self._known.get(key)
        if cached is None:
            cached = self._known[key] = NamedSharding(self._mesh, self._spec(param))
        return cached

    def _spec(self, param: Parameter) -> PartitionSpec:
        sharding = param.sharding
        if sharding is None:
            sharding = next((spec for pattern, spec in self._rules if pattern.search(self.name_of(param))), None)
        if sharding is not None:
            return self._checked(param, sharding)
        parts = self._mesh.shape[self.axis]
        if self.rule == "replicated" or not is_dense(param) or parts == 1:
            return PartitionSpec()
        shape = param.known_shape()
        fitting = [i for i, n in enumerate(shape) if n % parts == 0] if math.prod(shape) >= _SMALL else []
        if not fitting:
            return PartitionSpec()
        longest = max(fitting, key=lambda i: shape[i])
        return PartitionSpec(*[self.axis if i == longest else None for i in range(longest + 1)])

    def _checked(self, param: Parameter, entries: Any) -> PartitionSpec:
        spec = entries if isinstance(entries, PartitionSpec) else PartitionSpec(*entries)
        shape = param.known_shape()
        problem = (f"the sharding {spec} of parameter {self.name_of(param)!r} does not fit its shape {shape} and "
                f"the mesh {dict(self._mesh.shape)}: ")
        if len(spec) > len(shape):
            raise ValueError(f"{problem}the spec has more entries than the shape has axes")
        seen: set[str] = set()
        for length, names in zip(shape, spec, strict=False):
            parts = 1
            for name in names if isinstance(names, tuple) else (names,):
                if name is None:
                    continue
                if name not in self._mesh.shape:
                    raise ValueError(f"{problem}the mesh has no axis {name!r}")
                if name in seen:
                    raise ValueError(f"{problem}{name!r} occurs twice")
                seen.add(name)
                parts *= self._mesh.shape[name]
            if length % parts:
                raise ValueError(f"{problem}{length} cannot be divided by {parts}")
        return spec

    def split(self, params: Sequence[Parameter]) -> list[Parameter]:
        """Returns the arrays that are split over devices."""
        return [param for param in params if not self.of(param).is_fully_replicated]

    def place(self, trainer: Trainer, params: Sequence[Parameter]) -> None:
        """Moves parameters and their states to their shardings."""
        for chunk, sharding in self.lying(trainer, params):
            place(chunk, sharding)

    def lying(self, trainer: Trainer, params: Sequence[Parameter]) -> Iterator[tuple[Any, NamedSharding]]:
        """Returns the sharded chunks and their shardings."""
        updater = trainer._updaters[0]
        for param in self.split(params):
            sharding = self.of(param)
            yield param.all_arrays()[0].chunk, sharding
            key = trainer.index_of(param)
            if key is not None:
                for state in arrays(updater.states.get(key)):
                    if state.shape == param.shape:
                        yield state.chunk, sharding

    def table(self, params: Sequence[Parameter]) -> Shardings:
        """See `TrainStep.shardings`."""
        rows = Shardings()
        for param in params:
            sharding, shape = self.of(param), tuple(param.known_shape())
            size = math.prod(sharding.shard_shape(shape)) * np.dtype(param.data().dtype).itemsize
            rows.append(_Row(self.name_of(param), shape, np.dtype(param.dtype).name, sharding.spec, size))
        return rows


def arrays(state: Any) -> list[NDArray]:
    """Yields the arrays in an optimizer's state."""
    if isinstance(state, list | tuple):
        return [array for part in state for array in arrays(part)]
    return [state] if isinstance(state, NDArray) else []
