"""What a call's inputs are cast to, in a graph (`convert`), while one is composed, and imperatively (`install`)."""

from __future__ import annotations

import functools
import importlib
import logging
from collections.abc import Callable, Collection, Sequence
from typing import Any

from ..._method_names import METHODS
from ...graph.node import Entry, Node
from ...graph.rewriting import copied, made, rewrite
from ...ndarray import NDArray, amp_cast
from ...ops import registry
from ...symbol import symbol as _symbol
from . import _tables

__all__ = ["Policy", "convert", "install", "uninstall"]

_FLOATS = {"float16", "bfloat16", "float32"}
_OPERATORS = {"add": "broadcast_add", "sub": "broadcast_sub", "mul": "broadcast_mul", "truediv": "broadcast_div",
              "mod": "broadcast_mod", "pow": "broadcast_power", "radd": "broadcast_add", "rsub": "broadcast_sub",
              "rmul": "broadcast_mul", "rtruediv": "broadcast_div", "gt": "broadcast_greater",
              "ge": "broadcast_greater_equal", "lt": "broadcast_lesser", "le": "broadcast_lesser_equal"}


class Policy:
    """Lists of operators for a 16-bit dtype."""

    def __init__(self, target: str, low: Collection[str], fp32: Collection[str],
                 conditional: Sequence[tuple[str, str, list[str]]], widest: Collection[str]) -> None:
        self.target = target
        self.conditional = [(name, p, values) for op, p, values in conditional for name in _tables.canonical([op])]
        self.low, self.fp32 = _tables.canonical(low), _tables.canonical(fp32)
        self.widest = _tables.canonical(widest) - self.low - self.fp32

    def wanted(self, op: registry.Op, params: dict[str, Any]) -> str | None:
        """A dtype, "widest", or None for what takes what comes."""
        if any(op.name == name and str(params.get(p)) in values for name, p, values in self.conditional):
            return "float32"
        if op.name in self.low:
            return self.target
        return "float32" if op.name in self.fp32 else "widest" if op.name in self.widest else None

    def listed(self) -> set[str]:
        """All operators that the policy says something of."""
        return self.low | self.fp32 | self.widest | {name for name, _, _ in self.conditional}


# ---------------------------------------------------------------- a whole graph
def convert(outputs: Sequence[Entry], policy: Policy, excluded: Collection[str]) -> list[Entry]:
    """A float32 graph with casts, only where the dtype changes; excluded nodes run in float32."""
    low: set[tuple[int, int]] = set()  # entries of the new graph that are of the 16-bit dtype
    casts: dict[tuple[int, int, str], Entry] = {}

    def cast(entry: Entry, dtype: str) -> Entry:
        key = id(entry[0]), entry[1]
        if (key in low) == (dtype == policy.target):
            return entry
        if (*key, dtype) not in casts:
            name = f"{entry[0].output_names()[entry[1]]}_amp_cast_{dtype}"
            casts[*key, dtype] = found = made("amp_cast", name, [entry], dtype=dtype), 0
            if dtype == policy.target:
                low.add((id(found[0]), 0))
        return casts[*key, dtype]

    def rule(node: Node, inputs: list[Entry]) -> list[Entry] | None:
        if node.op is None:
            return None
        dtype = "float32" if node.name in excluded else policy.wanted(node.op, node.params)
        kinds = [(id(n), i) in low for n, i in inputs]
        if dtype == "widest":
            dtype = policy.target if all(kinds) else "float32"
        if dtype is not None:
            states = set(node.mutated())
            inputs = [e if k in states else cast(e, dtype) for k, e in enumerate(inputs)]
        twin = copied(node, inputs)
        entries = [(twin, i) for i in range(node.num_outputs)]
        fixed = node.params.get("dtype") if "dtype" in node.op.params else None
        if dtype == policy.target or dtype is None and fixed in (None, policy.target) and (
                kinds[:1] == [True] or fixed == policy.target):
            low.update((id(twin), i) for i in range(node.num_outputs))
        return entries
    return rewrite(outputs, rule)


# ---------------------------------------------------------------- symbols as they are composed, arrays as they come
_installed: list[tuple[Any, str, Any]] = []


def _composed(policy: Policy) -> Callable[[Node], None]:
    """Puts casts before a new node, as it is composed: always, for its inputs' dtypes are not known yet."""
    def before(node: Node) -> None:
        dtype, states = policy.wanted(node.op, node.params), set(node.mutated())
        if dtype == "widest":
            if len(node.inputs) > 1:
                widest = made("amp_multicast", f"{node.name}_amp_multicast", node.inputs, num_outputs=len(node.inputs))
                node.inputs = [(widest, i) for i in range(len(node.inputs))]
        elif dtype is not None:
            node.inputs = [e if k in states else
                           (made("amp_cast", f"{e[0].output_names()[e[1]]}_amp_cast_{dtype}", [e], dtype=dtype), 0)
                           for k, e in enumerate(node.inputs)]
    return before


def _wrapped(function: Callable[..., Any], op: registry.Op, policy: Policy) -> Callable[..., Any]:
    """The imperative function with casts of its arrays."""
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        dtype = policy.wanted(op, kwargs)
        arrays = [a for a in (*args, *kwargs.values()) if isinstance(a, NDArray)]
        kinds = {a.dtype.__name__ if isinstance(a.dtype, type) else str(a.dtype) for a in arrays} & _FLOATS
        if dtype == "widest":
            dtype = "float32" if "float32" in kinds else policy.target
        if dtype is None or not kinds - {dtype}:
            return function(*args, **kwargs)
        states = op.mutates({}) if not callable(op.get_attr("FMutateInputs", ())) else ()
        kept = {"out", *states}

        def cast(value: Any, name: str = "") -> Any:
            return amp_cast(value, dtype=dtype) if isinstance(value, NDArray) and name not in kept else value
        names = [*op.input_names, *[""] * len(args)]
        return function(*map(cast, args, names), **{k: cast(v, k) for k, v in kwargs.items()})
    return call


def _replace(owner: Any, name: str, value: Any) -> None:
    _installed.append((owner, name, getattr(owner, name)))
    setattr(owner, name, value)


def install(policy: Policy, scaler: Any) -> None:
    """Has `mx.nd`, arrays' methods and operators, and new symbols follow the policy."""
    nd = {end: importlib.import_module(f"mxjax.ndarray{end}")
          for end in ("", ".op", ".contrib", ".linalg", "._internal")}
    places = {"": [nd[""], nd[".op"]], "_contrib_": [nd[".contrib"]], "_linalg_": [nd[".linalg"]]}
    for canonical in policy.listed():
        op = registry.find(canonical)
        for name in (op.name, *op.aliases) if op is not None and op.get_attr("FHost") is None else ():
            prefix = next((p for p in ("_contrib_", "_linalg_") if name.startswith(p)), "")
            owners = places[prefix] if prefix or not name.startswith("_") else [nd["._internal"]]
            for owner in owners:
                function = getattr(owner, name[len(prefix):], None)
                if callable(function):
                    _replace(owner, name[len(prefix):], _wrapped(function, op, policy))
    methods = {**METHODS, **{f"__{k}__": v for k, v in _OPERATORS.items()}}
    for method, name in methods.items():
        op = registry.find(name)
        if op is not None and op.name in policy.listed() and hasattr(NDArray, method):
            _replace(NDArray, method, _wrapped(getattr(NDArray, method), op, policy))
    _install_losses(scaler)
    _symbol._on_compose = _composed(policy)


def _install_losses(scaler: Any) -> None:
    """Loss outputs scale their own gradient; in graphs they cannot."""
    for kind in ("ndarray", "symbol"):
        module = importlib.import_module(f"mxjax.{kind}")
        for name in _tables.LOSSES:
            def call(*args: Any, _function: Any = getattr(module, name), _kind: str = kind, **kwargs: Any) -> Any:
                if _kind == "ndarray":
                    kwargs["grad_scale"] = kwargs.get("grad_scale", 1.0) * scaler.loss_scale
                else:
                    logging.warning("%s does not support dynamic loss scaling in symbolic and hybridized execution.",
                                    _function.__name__)
                return _function(*args, **kwargs)
            _replace(module, name, functools.wraps(getattr(module, name))(call))


def uninstall() -> None:
    """Undoes `install`."""
    while _installed:
        owner, name, original = _installed.pop()
        setattr(owner, name, original)
    _symbol._on_compose = None
