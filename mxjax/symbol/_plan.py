"""Plans of a graph on devices, for inference or a training step: memory, time and parts."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from ..base import MXNetError
from ..executor.jax_function import JaxFunction
from ..graph.node import topological
from ..ops import registry
from ..ops.params import DTypeLike, np_dtype
from ..plan import Group, Plan, make_plan, target
from ..plan.largest import largest

if TYPE_CHECKING:
    from .symbol import Symbol

__all__ = ["plan_of"]

_UPDATES = {"sgd": ("sgd_mom_update", 1, {"lr": 0.1, "momentum": 0.9, "wd": 1e-4, "lazy_update": False}),
            "adam": ("adam_update", 2, {"lr": 1e-3, "wd": 1e-4, "lazy_update": False})}
_FIRST = 32  # where the search for the largest batch begins


def plan_of(symbol: Symbol, on: str, shapes: Mapping[str, Sequence[int]], *, train: str | None = None,
            dtype: DTypeLike = "float32", types: Mapping[str, Any] | None = None, batch: int | str | None = None,
            report: Callable[[Plan], None] | None = None) -> Plan:
    """See `Symbol.plan`; `types`: of inputs that have another dtype; `report` is called with each plan of a search."""
    if train is not None and train not in _UPDATES:
        raise MXNetError(f"plan: train={train!r} must be one of {', '.join(_UPDATES)}, or None")
    if not shapes:
        raise MXNetError("plan: the shapes of the inputs are missing; pass them, such as data=(32, 3, 224, 224). The "
                         f"graph has {', '.join(symbol.list_arguments()[:8])} ...")
    unknown = [n for n in shapes if n not in symbol.list_arguments()]
    if unknown:
        raise MXNetError(f"plan: the graph has no input {', '.join(unknown)}; its inputs are "
                         f"{', '.join(symbol.list_arguments()[:8])} ...")

    dtypes = {n: np_dtype((types or {}).get(n, dtype)) for n in shapes if n in (types or {}) or not n.endswith("label")}

    def of(length: int | None) -> Plan:
        sized = {n: tuple(s) if length is None else (length, *s[1:]) for n, s in shapes.items()}
        return _plan(symbol, on, sized, dtypes, train, np_dtype(dtype))
    if batch == "largest":
        return largest(of, _FIRST, target(on).count, report)
    return of(int(batch) if batch is not None else None)


def _plan(symbol: Symbol, on: str, shapes: dict[str, tuple[int, ...]], dtypes: dict[str, np.dtype], train: str | None,
          dtype: np.dtype) -> Plan:
    function, structs = JaxFunction(symbol, kernels=True), _structs(symbol, shapes, dtypes, dtype)
    names = {name: [n for n in every if (n in structs["inputs"]) == (name == "inputs")]
             for name, every in (("parameters", function.arg_names), ("inputs", function.arg_names))}
    names["auxiliary states"] = function.aux_names
    rule, width, options = _UPDATES[train] if train else ("", 0, {})
    params, counts = names["parameters"], {}

    def split(arrays: Sequence[Any]) -> dict[str, list[Any]]:
        result, rest = {}, list(arrays)
        for name, count in counts.items():
            result[name], rest = rest[:count], rest[count:]
        return result

    def run(values: Sequence[Any], by_group: dict[str, list[Any]]) -> tuple[list[Any], list[Any]]:
        arguments = dict(zip((*params, *names["inputs"]), (*values, *by_group["inputs"]), strict=True))
        outputs, aux = function(arguments, dict(zip(function.aux_names, by_group["auxiliary states"], strict=True)),
                                None, train is not None)
        return outputs, [aux[n] for n in function.aux_names]

    def predict(*arrays: object) -> Any:
        by_group = split(arrays)
        return run(by_group["parameters"], by_group)[0]

    def step(*arrays: object) -> Any:
        by_group = split(arrays)
        (outputs, aux), back = jax.vjp(lambda values: run(values, by_group), by_group["parameters"])
        gradients = back(([jnp.ones_like(o) for o in outputs], [jnp.zeros_like(a) for a in aux]))[0]
        update, states = registry.get(rule).get_attr("FCompute"), by_group["optimizer states"]
        new, after = [], []
        for i, (value, gradient) in enumerate(zip(by_group["parameters"], gradients, strict=True)):
            results = update(value, gradient, *states[width * i:width * (i + 1)], **options)
            new.append(results[0])
            after += results[1:]
        return new, after, aux, outputs
    groups = [Group("parameters", [structs["parameters"][n] for n in params], kept=bool(train))]
    if train:
        groups.append(Group("optimizer states", [s for s in groups[0].arguments for _ in range(width)], kept=True))
    groups += [Group("auxiliary states", list(structs["auxiliary states"].values()), kept=bool(train)),
               Group("inputs", [structs["inputs"][n] for n in names["inputs"]], split=True)]
    counts.update((g.name, len(g.arguments)) for g in groups)
    first = next(iter(shapes.values()))
    return make_plan(f"{symbol.name or 'a graph'}, {f'training by {train}' if train else 'prediction'} in {dtype.name}",
                     step if train else predict, groups, on, batch=first[0] if first else None)


def _structs(symbol: Symbol, shapes: dict[str, tuple[int, ...]], dtypes: dict[str, np.dtype],
             dtype: np.dtype) -> dict[str, dict[str, Any]]:
    """Returns shapes and dtypes of all arguments: parameters, auxiliary states, and inputs (given ones and labels)."""
    result, _, states = symbol.infer_shape_partial(**shapes)
    args, aux = symbol.list_arguments(), symbol.list_auxiliary_states()
    missing = [n for n, s in zip((*args, *aux), (*(result or ()), *(states or ())), strict=False) if not s or 0 in s]
    if result is None or missing:
        raise MXNetError(f"plan: the shapes of {', '.join(missing[:5]) or 'the arguments'} cannot be inferred from "
                         f"{', '.join(f'{n}={s}' for n, s in shapes.items())}; pass the shapes of all inputs")
    inputs = {n for n in args if n in shapes or n.endswith("label")}
    if dtype != np.float32:  # parameters that were saved as float32 follow it
        symbol = copy.deepcopy(symbol)
        for node in topological(symbol.handle):
            if node.op is None and node.attrs.get("__dtype__") == "0":
                del node.attrs["__dtype__"]
    types, _, more = symbol.infer_type_partial(**dtypes)
    every = {n: jax.ShapeDtypeStruct(s, np_dtype(t) if t is not None else dtype)
             for n, s, t in zip((*args, *aux), (*result, *states), (*types, *more), strict=True)}
    return {"parameters": {n: every[n] for n in args if n not in inputs}, "inputs": {n: every[n] for n in inputs},
            "auxiliary states": {n: every[n] for n in aux}}
