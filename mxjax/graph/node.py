"""The graph: nodes, and walks over them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..base import MXNetError
from ..ops.registry import Op
from ..util import is_np_shape

__all__ = ["HIDDEN", "MOST", "Entry", "Node", "check_counts", "complete", "hidden", "topological"]

Entry = tuple["Node", int]

# attributes that the library uses; they are stored as __name__ and also found without the underscores
HIDDEN = ("ctx_group", "lr_mult", "wd_mult", "force_mirroring", "mirror_stage")

# operators of MXNet's first interface, whose gradients have the names of the inputs
_LEGACY = frozenset("""BatchNorm_v1 BilinearSampler Convolution_v1 Correlation Crop GridGenerator
IdentityAttachKLSparseReg InstanceNorm L2Normalization MakeLoss Pad Pooling_v1 ROIPooling SVMOutput SequenceLast
SequenceMask SequenceReverse SliceChannel SpatialTransformer SwapAxis _contrib_DeformableConvolution
_contrib_DeformablePSROIPooling _contrib_MultiBoxDetection _contrib_MultiBoxPrior _contrib_MultiBoxTarget
_contrib_MultiProposal _contrib_PSROIPooling _contrib_Proposal _contrib_SyncBatchNorm""".split())

# operators of one input that MXNet registers a name for
_NAMED_DATA = _LEGACY | frozenset("""Dropout LRN LeakyReLU Pooling depth_to_space diag im2col log_softmax moments
repeat softmax softmin space_to_depth split_v2 squeeze tile _contrib_quantize_v2 _contrib_quadratic _image_normalize
_image_to_tensor""".split())


# parameters for numbers of inputs, outputs or layers, all of which are listed eventually
MOST = 1 << 16
_COUNTS = frozenset(["num_args", "num_arrays", "num_layers", "num_out_data", "num_outputs", "num_tensors",
                     "num_weights", "sections"])


def check_counts(op: Op, params: dict[str, Any]) -> None:
    """Raises MXNetError if a parameter specifies an unreasonable number of inputs or outputs."""
    for name in _COUNTS & params.keys():
        if isinstance(params[name], int) and params[name] > MOST:
            raise MXNetError(f"operator {op.name}: {name} must be at most {MOST}, got {params[name]}")


def hidden(key: str) -> str:
    """Returns the key under which an attribute is stored."""
    return f"__{key}__" if key in HIDDEN else key


class Node:
    """A variable (op None) or an operator applied to entries (node, output number) of others.

    attrs: attributes as text, including the operator's parameters as passed by the user; params: canonical parameters;
    subgraphs: inner symbols (control flow); changes: for a variable, how often an operator that changes it was applied
    to it; versions: this number for each input when the operator was applied, or from the file; None if unknown.
    """

    __slots__ = ("op", "name", "attrs", "params", "inputs", "subgraphs", "changes", "versions")

    def __init__(self, op: Op | None, name: str, attrs: dict[str, str], params: dict[str, Any] | None = None,
                 inputs: Iterable[Entry] = (), subgraphs: list[Any] | None = None) -> None:
        if params and op is not None:
            check_counts(op, params)
        self.op: Any = op  # callers that read an operator's attributes know that the node is not a variable
        self.name, self.attrs = name, attrs
        self.params, self.inputs, self.subgraphs = params or {}, list(inputs), subgraphs or []
        self.changes: int = 0
        self.versions: list[int] | None = None

    def copied(self, inputs: Iterable[Entry] = ()) -> Node:
        """Returns a copy with other inputs."""
        result = Node(self.op, self.name, dict(self.attrs), dict(self.params), inputs, self.subgraphs)
        result.changes, result.versions = self.changes, self.versions
        return result

    def applied(self) -> None:
        """Records the versions of the variables that it reads, and increments those that it changes."""
        for i in self.mutated():
            self.inputs[i][0].changes += 1
        self.versions = [n.changes for n, _ in self.inputs]

    @property
    def num_outputs(self) -> int:
        """Returns the number of outputs, including internal ones."""
        return 1 if self.op is None else self.op.num_outputs(self.params)

    @property
    def num_visible(self) -> int:
        """Returns the number of outputs that `Symbol` shows."""
        return 1 if self.op is None else self.op.num_visible(self.params)

    def input_names(self) -> list[str]:
        """Returns the names of the inputs in order."""
        return self.op.inputs(self.params, len(self.inputs))[:len(self.inputs)]

    def seen_names(self) -> list[str]:
        """Returns the names of the inputs for monitors: MXNet calls the single input of most operators "input0"."""
        names = self.input_names()
        return ["input0"] if names == ["data"] and self.op.name not in _NAMED_DATA else names

    def gradient_names(self) -> list[str]:
        """Returns the names of the gradients of the inputs for monitors; states have none."""
        states = set(self.mutated())
        inputs = [name for i, name in enumerate(self.input_names()) if i not in states]
        if self.op.name in _LEGACY:
            return [f"{self.name}_backward_{name}" for name in inputs]
        numbers = [""] if len(inputs) == 1 else range(len(inputs))
        return [f"{self.name}_backward_output{number}" for number in numbers]

    def mutated(self) -> list[int]:
        """Returns the positions of the inputs that are states, which the operator changes."""
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
    """Returns all nodes that the entries depend on, in the order of a depth-first walk, each after its inputs."""
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
    """Returns whether a shape in the user's notation has no unknown length: 0, or -1 under NumPy semantics."""
    if is_np_shape():
        return shape is not None and -1 not in shape
    return shape is not None and shape != () and 0 not in shape


def set_input_attributes(variable: Node, op: Op, name: str) -> None:
    """Adds the attributes to a variable that an operator requires of its input `name`, such as its initializer."""
    for key, value in op.get_attr("FSetInputVarAttrOnCompose", {}).get(name, {}).items():
        variable.attrs.setdefault(key, value)
