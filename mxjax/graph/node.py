"""The graph: nodes, and walks over them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..base import MXNetError
from ..ops.registry import Op
from ..util import is_np_shape

__all__ = ["HIDDEN", "MOST", "Entry", "Node", "check_counts", "complete", "hidden", "topological"]

Entry = tuple["Node", int]

# attributes with a meaning for the library; they are kept under __name__ and also found without the underscores
HIDDEN = ("ctx_group", "lr_mult", "wd_mult", "force_mirroring", "mirror_stage")

# operators of one input that MXNet registers a name for
_NAMED_DATA = frozenset("""Dropout LRN Pooling depth_to_space diag im2col log_softmax moments repeat softmax softmin
space_to_depth split_v2 squeeze tile _contrib_quantize_v2 _contrib_quadratic _image_normalize
_image_to_tensor""".split())


# parameters that say how many inputs, outputs or layers there are, all of which are listed sooner or later
MOST = 1 << 16
_COUNTS = frozenset(["num_args", "num_arrays", "num_layers", "num_out_data", "num_outputs", "num_tensors",
                     "num_weights", "sections"])


def check_counts(op: Op, params: dict[str, Any]) -> None:
    """Raises MXNetError where a parameter asks for absurdly many inputs or outputs."""
    for name in _COUNTS & params.keys():
        if isinstance(params[name], int) and params[name] > MOST:
            raise MXNetError(f"operator {op.name}: {name} must be at most {MOST}, got {params[name]}")


def hidden(key: str) -> str:
    """The key under which an attribute is kept."""
    return f"__{key}__" if key in HIDDEN else key


class Node:
    """A variable (op None) or an operator applied to entries (node, output number) of others.

    attrs: attributes as text, the operator's parameters as the user gave them included; params: the parameters,
    canonical; subgraphs: symbols inside (control flow); changes: of a variable, how often an operator that changes it
    was applied to it; versions: that number of each input as it was when the operator was applied, or as the file says,
    None where neither is known.
    """

    __slots__ = ("op", "name", "attrs", "params", "inputs", "subgraphs", "changes", "versions")

    def __init__(self, op: Op | None, name: str, attrs: dict[str, str], params: dict[str, Any] | None = None,
                 inputs: Iterable[Entry] = (), subgraphs: list[Any] | None = None) -> None:
        if params and op is not None:
            check_counts(op, params)
        self.op: Any = op  # who looks at an operator's attributes knows that the node is none of the variables
        self.name, self.attrs = name, attrs
        self.params, self.inputs, self.subgraphs = params or {}, list(inputs), subgraphs or []
        self.changes: int = 0
        self.versions: list[int] | None = None

    def copied(self, inputs: Iterable[Entry] = ()) -> Node:
        """Returns a copy with other inputs."""
        made = Node(self.op, self.name, dict(self.attrs), dict(self.params), inputs, self.subgraphs)
        made.changes, made.versions = self.changes, self.versions
        return made

    def applied(self) -> None:
        """Notes the versions of the variables that it reads; it makes new ones of those that it changes."""
        for i in self.mutated():
            self.inputs[i][0].changes += 1
        self.versions = [n.changes for n, _ in self.inputs]

    @property
    def num_outputs(self) -> int:
        """Returns how many outputs there are, internal ones included."""
        return 1 if self.op is None else self.op.num_outputs(self.params)

    @property
    def num_visible(self) -> int:
        """Returns how many outputs `Symbol` shows."""
        return 1 if self.op is None else self.op.num_visible(self.params)

    def input_names(self) -> list[str]:
        """Names of the inputs, in order."""
        return self.op.inputs(self.params, len(self.inputs))[:len(self.inputs)]

    def seen_names(self) -> list[str]:
        """Names under which monitors see the inputs: MXNet names the one input of most operators just "input0"."""
        names = self.input_names()
        return ["input0"] if names == ["data"] and self.op.name not in _NAMED_DATA else names

    def mutated(self) -> list[int]:
        """Positions of the inputs that are states, which the operator changes."""
        changed = () if self.op is None else self.op.mutates(self.params)
        if self.op is None or not changed:
            return []
        names, others = self.input_names(), self.op.get_attr("arguments_changed", ())
        changed = [n for n in changed if n not in others]
        return [names.index(n) for n in changed if n in names]

    def output_names(self) -> list[str]:
        """Full names of the outputs."""
        if self.op is None:
            return [self.name]
        return [f"{self.name}_{n}" for n in self.op.output_names(self.params)]


def topological(entries: Iterable[Entry]) -> list[Node]:
    """All nodes behind the entries, each after its inputs, in the order of a depth-first walk."""
    order: list[Node] = []
    seen: set[int] = set()
    for root, _ in entries:
        stack = [(root, 0)] if id(root) not in seen else []
        seen.add(id(root))
        while stack:
            node, position = stack.pop()
            if position < len(node.inputs):
                stack.append((node, position + 1))
                child = node.inputs[position][0]
                if id(child) not in seen:
                    seen.add(id(child))
                    stack.append((child, 0))
            else:
                order.append(node)
    return order


def auxiliary(nodes: Iterable[Node]) -> set[int]:
    """Ids of the variables that operators change: the auxiliary states."""
    return {id(n.inputs[i][0]) for n in nodes for i in n.mutated() if n.inputs[i][0].op is None}


def complete(shape: tuple | None) -> bool:
    """Returns whether a shape, as users write them, has no unknown length: 0, or under NumPy semantics -1."""
    if is_np_shape():
        return shape is not None and -1 not in shape
    return shape is not None and shape != () and 0 not in shape


def set_input_attributes(variable: Node, op: Op, name: str) -> None:
    """Gives a variable the attributes that an operator asks of its input `name`, such as how it is initialized."""
    for key, value in op.get_attr("FSetInputVarAttrOnCompose", {}).get(name, {}).items():
        variable.attrs.setdefault(key, value)
