"""Networks as text tables and as drawings (`mx.viz`)."""

from __future__ import annotations

import json
import math
import re
import warnings
from typing import TYPE_CHECKING, Any

from .symbol import Symbol

if TYPE_CHECKING:  # not everybody has it
    from graphviz import Digraph

__all__ = ["print_summary", "plot_network"]


class _Graph:
    """The nodes of a network as its JSON has them, with shapes and dtypes by output where they are known."""

    def __init__(self, symbol: Symbol, shape: dict[str, tuple[int, ...]] | None = None,
                 dtype: dict[str, Any] | None = None) -> None:
        if not isinstance(symbol, Symbol):
            raise TypeError(f"symbol must be a Symbol, got {type(symbol).__name__}")
        self.nodes = json.loads(symbol.tojson())["nodes"]
        internals = symbol.get_internals()
        names = internals.list_outputs()
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.types: dict[str, Any] = {}
        if shape is not None:
            _, shapes, _ = internals.infer_shape(**shape)
            if shapes is None:
                raise ValueError("the given shapes are not enough to infer all others")
            self.shapes = dict(zip(names, shapes, strict=True))
        if dtype is not None:
            _, types, _ = internals.infer_type(**dtype)
            if types is None:
                raise ValueError("the given dtypes are not enough to infer all others")
            self.types = dict(zip(names, types, strict=True))

    def lookup(self, table: dict[str, Any], node: dict[str, Any], output: int = 0) -> Any:
        """The entry of a node's output; None where there is none."""
        name = node["name"]
        keys = (name,) if node["op"] == "null" else (f"{name}_output", f"{name}_output{output}")
        return next((table[key] for key in keys if key in table), None)

    def inputs(self, node: dict[str, Any]) -> list[dict[str, Any]]:
        """The nodes that feed a node."""
        return [self.nodes[item[0]] for item in node["inputs"]]


def print_summary(symbol: Symbol, shape: dict[str, tuple[int, ...]] | None = None, line_length: int = 120,
                  positions: list[float] = [0.44, 0.64, 0.74, 1.0]) -> None:  # noqa: B006  MXNet's signature
    """Prints a table of a network's layers: output shape without batch, number of parameters, previous layers.

    Args:
        symbol: the network.
        shape: shapes of the inputs by name; without it no output shapes are known, and only those parameters count
            that the layers' own settings determine: biases, embeddings.
        line_length: characters in a line.
        positions: where the columns end, in characters or as shares of a line.

    Raises:
        ValueError: `shape` is not enough.
    """
    graph = _Graph(symbol, shape)
    ends = [int(line_length * p) for p in positions] if positions[-1] <= 1 else [int(p) for p in positions]
    first = graph.nodes[0]

    def row(*fields: Any) -> None:
        line = ""
        for field, end in zip(fields, ends, strict=True):
            line = (line + str(field))[:end].ljust(end)
        print(line)

    def is_parameter(node: dict[str, Any]) -> bool:
        return node["op"] == "null" and node is not first and node["name"] not in (shape or ())

    states = set(symbol.list_auxiliary_states())
    labels = {name for name in symbol.list_arguments() if name.endswith("label")}
    shown = [node for node in graph.nodes if node["op"] != "null" or node is first]
    total = 0
    print("_" * line_length)
    row("Layer (type)", "Output Shape", "Param #", "Previous Layer")
    print("=" * line_length)
    for node in shown:
        feeding = graph.inputs(node)
        params = [graph.lookup(graph.shapes, one) for one in feeding
                  if is_parameter(one) and one["name"] not in states | labels]
        count = sum(math.prod(one) for one in params if one is not None)
        count = _count_from_settings(node) if shape is None else count
        total += count
        previous = [one["name"] for one in feeding if one["op"] != "null" or one is first]
        size = graph.lookup(graph.shapes, node) or ()
        row(f"{node['name']}({node['op']})", "x".join(map(str, size[1:])), count, previous[0] if previous else "")
        for name in previous[1:]:
            row("", "", "", name)
        print(("=" if node is shown[-1] else "_") * line_length)
    print(f"Total params: {total}")
    print("_" * line_length)


def _count_from_settings(node: dict[str, Any]) -> int:
    """Returns the number of parameters of a layer that do not depend on shapes of inputs."""
    attrs, size = node.get("attrs", {}), {"Convolution": "num_filter", "FullyConnected": "num_hidden"}
    if node["op"] == "Embedding":
        return int(attrs["input_dim"]) * int(attrs["output_dim"])
    return int(attrs[size[node["op"]]]) if node["op"] in size and attrs.get("no_bias", "False") != "True" else 0


_COLOURS = {"null": "#8dd3c7", "Convolution": "#fb8072", "FullyConnected": "#fb8072", "Activation": "#ffffb3",
            "LeakyReLU": "#ffffb3", "BatchNorm": "#bebada", "Pooling": "#80b1d3", "Concat": "#fdb462",
            "Flatten": "#fdb462", "Reshape": "#fdb462", "Softmax": "#b3de69"}
_WEIGHT_ENDINGS = tuple(f"{mark}{name}" for mark in "_."  # "dense0_weight", and "0.weight" of MXNet 2
                        for name in ("weight", "bias", "beta", "gamma", "moving_var", "moving_mean", "running_var",
                                     "running_mean"))


def _label(node: dict[str, Any]) -> str:
    """Returns the text in a node's box."""
    attrs = node.get("attrs", {})

    def sizes(name: str, default: str) -> str:
        return "x".join(re.findall(r"\d+", attrs[name])) if name in attrs else default

    op = node["op"]
    if op == "Convolution":
        return f"Convolution\n{sizes('kernel', '[]')}/{sizes('stride', '1')}, {attrs['num_filter']}"
    if op == "FullyConnected":
        return f"FullyConnected\n{attrs['num_hidden']}"
    if op == "Activation":
        return f"Activation\n{attrs['act_type']}"
    if op == "LeakyReLU":
        return f"LeakyReLU\n{attrs.get('act_type', 'Leaky')}"
    if op == "Pooling":
        return f"Pooling\n{attrs.get('pool_type', 'max')}, {sizes('kernel', '[]')}/{sizes('stride', '1')}"
    return attrs["op_type"] if op == "Custom" else node["name"]


def plot_network(symbol: Symbol, title: str = "plot", save_format: str = "pdf",
                 shape: dict[str, tuple[int, ...]] | None = None, dtype: dict[str, Any] | None = None,
                 node_attrs: dict[str, str] = {}, hide_weights: bool = True) -> Digraph:  # noqa: B006
    """Draw a network.

    Args:
        symbol: the network.
        title: name of the drawing and of the file that its `render()` writes.
        save_format: format of that file.
        shape: shapes of the inputs by name; edges are then labelled with shapes.
        dtype: dtypes of the inputs by name; edges are then labelled with dtypes.
        node_attrs: graphviz attributes of the boxes.
        hide_weights: leave out the parameters' variables.

    Returns:
        The drawing, a `graphviz.Digraph`.

    Raises:
        ImportError: graphviz is not installed.
        ValueError: `shape` or `dtype` is not enough.
    """
    try:
        from graphviz import Digraph
    except ImportError:
        raise ImportError("plot_network needs graphviz: pip install 'mxjax[viz]'") from None
    graph = _Graph(symbol, shape, dtype)
    names = [node["name"] for node in graph.nodes]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        warnings.warn("There are multiple variables with the same name in your graph, so the drawing may have "
                      f"cycles. Repeated names: {', '.join(repeated)}", RuntimeWarning, stacklevel=2)
    style = {"shape": "box", "fixedsize": "true", "width": "1.3", "height": "0.8034", "style": "filled", **node_attrs}
    drawing = Digraph(name=title, format=save_format)
    hidden = set()
    for node in graph.nodes:
        variable = node["op"] == "null"
        if variable and hide_weights and node["name"].endswith(_WEIGHT_ENDINGS):
            hidden.add(node["name"])
            continue
        look = {**style, "fillcolor": _COLOURS.get(node["op"], "#fccde5")}
        drawing.node(name=node["name"], label=_label(node), **(look | {"shape": "oval"} if variable else look))
    for node in graph.nodes:
        for source, output in ((graph.nodes[item[0]], item[1]) for item in node["inputs"]):
            if source["name"] in hidden:
                continue
            size, kind = (graph.lookup(table, source, output) for table in (graph.shapes, graph.types))
            label = "x".join(map(str, size[1:])) if size else ""
            label += f"({kind.__name__})" if kind else ""
            drawing.edge(tail_name=node["name"], head_name=source["name"], dir="back", arrowtail="open", label=label)
    return drawing
