"""Symbols as JSON: reads every version of MXNet's format, and writes that of the API level (1.9.1 or 2.0)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from .. import level
from ..base import MXNetError
from ..ops import registry
from ..ops.names_of_2 import READ, WRITTEN, WRITTEN_PARAMETERS
from ..ops.params import shape_of
from ..util import is_np_shape
from . import fused as _  # noqa: F401  its operators are in files
from .control_flow import bind, holds_graphs
from .lowering import Lowered
from .node import HIDDEN, MOST, Entry, Node, check_counts, hidden, set_input_attributes, topological

__all__ = ["dumps", "loads"]

VERSIONS = {1: 10901, 2: 20000}
# numbers of outputs in files where MXNet has more: masks, means, workspaces for its backward pass
_SAVED_OUTPUTS = {
    "BatchNorm": 3, "BatchNorm_v1": 3, "_contrib_SyncBatchNorm": 3, "_contrib_BatchNormWithReLU": 4, "LayerNorm": 3,
    "GroupNorm": 3, "InstanceNorm": 3, "L2Normalization": 2, "LRN": 2, "Dropout": 2, "CTCLoss": 2, "ROIPooling": 2,
    "BilinearSampler": 2, "GridGenerator": 2, "SpatialTransformer": 3, "Correlation": 3, "sort": 2, "_linalg_det": 3,
    "_linalg_slogdet": 4, "_npi_det": 3, "_npi_slogdet": 4, "_npi_norm": 4, "_npi_std": 2, "_npi_var": 2,
    **dict.fromkeys([f"_npi_{name}" for name in ("normal", "normal_n", "gumbel", "logistic", "laplace", "exponential",
                                                 "rayleigh", "weibull", "pareto")], 2)}
_DEEPEST = 32


def dumps(outputs: Sequence[Entry], remove_amp_cast: bool = True) -> str:
    """Returns the JSON text of a graph.

    Args:
        outputs: the graph's outputs.
        remove_amp_cast: omit the casts that automatic mixed precision inserted between operators.
    """
    graph = _rows(outputs, remove_amp_cast)
    graph["attrs"] = {**({"is_np_shape": ["int", 1]} if is_np_shape() else {}),
                      "mxnet_version": ["int", VERSIONS[level.current()]]}
    return _text(graph)


_ONE_LINE = 10  # longer lists have one value per line
_ESCAPES = str.maketrans({'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def _text(value: object, indent: str = "") -> str:
    """Returns JSON formatted byte for byte as by MXNet, because some converters read the files by lines."""
    if isinstance(value, str):
        return f'"{value.translate(_ESCAPES)}"'
    if not isinstance(value, (dict, list)):
        return json.dumps(value)
    inner = indent + "  "
    if isinstance(value, dict):
        begin, end = "{}"
        parts = [f'"{key}": {_text(item, inner)}' for key, item in value.items()]
        by_lines = len(parts) > 1
    else:
        begin, end = "[]"
        parts = [_text(item, inner) for item in value]
        by_lines = len(parts) > _ONE_LINE or any(isinstance(item, dict) for item in value)
    if not by_lines:
        return begin + ", ".join(parts) + end
    return begin + "\n" + ", \n".join(inner + part for part in parts) + "\n" + indent + end


def _saved_outputs(node: Node) -> int:
    """Returns the number of outputs of a node in MXNet's files."""
    if node.op is None:
        return 1
    if node.op.name == "Pooling":
        return 2 if node.params["pool_type"] == "max" else 1
    return _SAVED_OUTPUTS.get(node.op.name, node.num_outputs)


def _rows(outputs: Sequence[Entry], remove_amp_cast: bool, with_versions: bool = True) -> dict[str, Any]:
    """Returns a graph as JSON values, without the attributes that only the outermost graph has."""
    replaced: dict[tuple[int, int], Entry] = {}

    def final(entry: Entry) -> Entry:
        while (id(entry[0]), entry[1]) in replaced:
            entry = replaced[id(entry[0]), entry[1]]
        return entry
    nodes = topological(outputs)
    if remove_amp_cast:
        for node in nodes:
            if node.op is not None and node.op.name in ("amp_cast", "amp_multicast"):
                replaced.update({(id(node), i): entry for i, entry in enumerate(node.inputs)})
        heads = {id(n) for n, _ in outputs}  # a cast without readers remains: it is a result of the graph
        nodes = [n for n in nodes if (id(n), 0) not in replaced or id(n) in heads]
    number = {id(n): i for i, n in enumerate(nodes)}
    rows, pointers = [], [0]
    renamed = WRITTEN if level.current() == 2 else {}
    counted: Counter[int] = Counter()  # by number of a variable: how often previous operators change it
    for node in nodes:
        name: str = "null" if node.op is None else node.op.name
        row: dict[str, Any] = {"op": renamed.get(name, name), "name": node.name}
        attrs = {k: v for k, v in sorted(node.attrs.items())}
        written = WRITTEN_PARAMETERS.get(name) if renamed else None
        if written is not None:
            attrs = {k: v for k, v in attrs.items() if k not in written and k not in written.values()}
            attrs.update({new: str(node.params[old]) for old, new in written.items()})
        if attrs:
            row["attrs"] = attrs
        inputs = [(number[id(n)], i) for n, i in map(final, node.inputs)]
        counted.update({inputs[i][0] for i in node.mutated()})
        versions = [counted[n] for n, i in inputs]
        if not with_versions:
            versions = [0] * len(inputs)
        elif node.versions is not None and len(node.versions) == len(inputs):
            versions = node.versions
        row["inputs"] = [[n, i, version] for (n, i), version in zip(inputs, versions, strict=True)]
        if node.subgraphs:
            fused = name.startswith("_sg_")  # MXNet's fusion creates its graphs without versions
            row["subgraphs"] = [_rows(s.outputs, remove_amp_cast, not fused) for s in node.subgraphs]
        rows.append(row)
        pointers.append(pointers[-1] + _saved_outputs(node))
    return {"nodes": rows, "arg_nodes": [i for i, n in enumerate(nodes) if n.op is None], "node_row_ptr": pointers,
            "heads": [[number[id(n)], i, 0] for n, i in outputs]}


def loads(text: str, source: str = "JSON") -> list[Entry]:
    """Returns the outputs of the graph in a JSON text.

    Raises:
        MXNetError: the text is not a valid graph; the message names the node.
    """
    try:
        graph = json.loads(text, strict=False)  # MXNet does not escape control characters in strings
    except Exception as error:
        raise MXNetError(f"{source}: not a symbol: {error}") from error
    return _graph(graph, source, _Room(len(text)))


class _Room:
    """Limits the number of outputs of all nodes by the length of the file."""

    def __init__(self, size: int) -> None:
        self.left = size + MOST

    def take(self, node: Node) -> None:
        """Counts a node's outputs."""
        self.left -= node.num_outputs
        if self.left < 0:
            raise MXNetError(f"operator {node.op.name} ({node.name}): its {node.num_outputs} outputs are more than the "
                             "file can use")


def _graph(graph: object, source: str, room: _Room, depth: int = 0) -> list[Entry]:
    if depth > _DEEPEST:
        raise MXNetError(f"{source}: subgraphs are nested more than {_DEEPEST} levels deep")
    if not isinstance(graph, dict) or not all(isinstance(graph.get(k), list) for k in ("nodes", "heads")):
        raise MXNetError(f"{source}: not a symbol: it must contain the lists 'nodes' and 'heads'")
    version = _saved_version(graph)
    legacy_shapes = is_np_shape() and "is_np_shape" not in (graph.get("attrs") or {})
    nodes: list[Node] = []
    for number, row in enumerate(graph["nodes"]):
        try:
            nodes.append(_node(row, nodes, version, source, graph.get("attrs"), room, depth))
            room.take(nodes[-1])
            if legacy_shapes and "__shape__" in nodes[-1].attrs:  # 0 meant unknown in the file; here -1 does
                shape = shape_of(nodes[-1].attrs["__shape__"])
                nodes[-1].attrs["__shape__"] = str(tuple(-1 if n == 0 else n for n in shape))
        except MXNetError as error:
            if str(error).startswith(source):
                raise
            raise MXNetError(f"{source}: node {number}: {error}") from error
        except Exception as error:
            raise MXNetError(f"{source}: node {number} is damaged: {type(error).__name__}: {error}") from error
    try:
        heads = [_entry(h, nodes) for h in graph["heads"]]
    except Exception as error:
        raise MXNetError(f"{source}: the list of heads is damaged: {error}") from error
    if not heads:
        raise MXNetError(f"{source}: the graph has no outputs")
    return heads


def _saved_version(graph: dict) -> int:
    try:
        return int(graph["attrs"]["mxnet_version"][1])
    except (KeyError, TypeError, IndexError, ValueError):
        return 800


def _entry(reference: object, nodes: list[Node]) -> Entry:
    if not isinstance(reference, list) or not reference:
        raise ValueError(f"{str(reference)[:60]} is not a reference to a node")
    node, output = reference[0], reference[1] if len(reference) > 1 else 0
    if isinstance(node, bool) or not isinstance(node, int) or not isinstance(output, int) \
            or not 0 <= node < len(nodes):
        raise ValueError(f"reference {str(reference)[:60]} to a node that does not precede it")
    if output >= nodes[node].num_outputs and nodes[node].op is not None:
        shown = nodes[node].op.get_attr("FHiddenOutputs")  # the text of the attributes remains that of the file
        nodes[node].params |= {shown: True} if shown else {}
    if not 0 <= output < nodes[node].num_outputs:
        raise ValueError(f"reference {reference}: node {nodes[node].name} has {nodes[node].num_outputs} outputs")
    return nodes[node], output


def _node(row: dict, nodes: list[Node], version: int, source: str, graph_attrs: object, room: _Room,
          depth: int) -> Node:
    name, op_name = str(row["name"]), str(row["op"])
    attrs: dict[str, str] = {}
    for part in ("param", "attr", "attrs"):
        for key, value in (row.get(part) or {}).items():
            if not isinstance(value, str):
                raise ValueError(f"attribute {key} is {str(value)[:60]}, expected text")
            attrs[key] = value
    inputs = [_entry(r, nodes) for r in row["inputs"]]
    attrs, for_inputs = _upgraded(attrs) if version < VERSIONS[1] else (attrs, {})
    if op_name == "null":
        return Node(None, name, {**attrs, **{f"{k}": v for k, v in for_inputs.items()}})
    op = registry.find(READ.get(op_name, op_name) if version >= VERSIONS[2] else op_name)
    if op is None:
        raise MXNetError(f"{source}: node {name}: there is no operator {op_name!r}")
    if version < 905 and op.name in ("argmin", "argmax") and attrs.get("axis") == "-1":
        del attrs["axis"]
    subgraphs = []
    if row.get("subgraphs") or holds_graphs(op):
        subgraphs = [Lowered(_graph({**g, "attrs": graph_attrs}, f"{source}: node {name}", room, depth + 1))
                     for g in row.get("subgraphs") or ()]
        op = bind(op, subgraphs)
    own = None if op.name == "Custom" else {*op.params, op.variadic}  # a custom operator accepts any inputs
    params = op.parse({k: v for k, v in attrs.items() if own is None and not k.startswith("__") or k in (own or ())})
    check_counts(op, params)
    names = op.inputs(params, len(inputs))
    if not op.variadic and version < 900:
        for missing in names[len(inputs):]:
            inputs.append((Node(None, f"{name}_{missing}", dict(attrs)), 0))
    if version < 904:
        for (source_node, _), wanted in zip(inputs, names, strict=False):
            if source_node.op is None:
                set_input_attributes(source_node, op, wanted)
    if not op.variadic and len(inputs) != len(names) and len(inputs) not in (
            len(names) - sum(n in op.optional_inputs for n in names), *range(len(names))):
        raise MXNetError(f"{source}: node {name}: operator {op.name} takes {len(names)} inputs, got {len(inputs)}")
    if subgraphs:
        _check_graphs(op, params, len(inputs))
    for key, value in for_inputs.items():
        suffix = next(h for h in HIDDEN if key.endswith(h))
        place = names.index(key[:-len(suffix) - 1]) if key[:-len(suffix) - 1] in names else None
        if place is not None and place < len(inputs) and inputs[place][0].op is None:
            inputs[place][0].attrs[hidden(suffix)] = value
        else:
            attrs[key] = value
    node = Node(op, name, attrs, params, inputs, subgraphs)
    node.versions = [_version(r) for r in row["inputs"]] + [0] * (len(inputs) - len(row["inputs"]))
    return node


def _version(reference: list) -> int:
    """Returns the third number of a reference to a node: how often operators have changed the variable before."""
    version = reference[2] if len(reference) > 2 else 0
    if isinstance(version, bool) or not isinstance(version, int) or version < 0:
        raise ValueError(f"reference {str(reference)[:60]}: the version must be a number from 0")
    return version


def _check_graphs(op: Any, params: dict[str, Any], count: int) -> None:
    """Raises ValueError if a control flow operator passes its graphs other inputs than they have, or has other
    outputs."""
    for graph, feed in zip(op.graphs, op.feeds(params), strict=True):
        if len(feed) != len(graph.names) or any(not 0 <= i < count for i in feed):
            raise ValueError(f"a subgraph of it has {len(graph.names)} inputs and gets {str(list(feed))[:60]} of "
                             f"{count}")
    outputs = len(op.graphs[-1].lowered.outputs)
    if op.given(params) != outputs:
        raise ValueError(f"it requests {op.given(params)} outputs, but its subgraph has {outputs}")


def _upgraded(attrs: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Converts old files: hidden keys get underscores, and keys such as `weight_lr_mult` are moved to an input."""
    own, others = {}, {}
    for key, value in attrs.items():
        if any(key != h and key.endswith("_" + h) and not key.startswith("__") for h in HIDDEN):
            others[key] = value
        else:
            own[hidden(key)] = value
    return own, others
