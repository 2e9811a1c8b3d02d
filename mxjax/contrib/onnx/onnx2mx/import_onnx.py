"""`GraphProto`: ONNX graphs in memory."""

from __future__ import annotations

from collections.abc import Sequence

from ....context import Context
from ....gluon import SymbolBlock
from ....ndarray import NDArray
from ....onnx._import import described, graph_to_block, graph_to_symbol
from ....symbol import Symbol

__all__ = ["GraphProto"]


class GraphProto:
    """Imports ONNX graphs; `arg_dict`, `aux_dict`, `model_metadata` and `opset_version` belong to the last one."""

    def __init__(self) -> None:
        self.arg_dict: dict[str, NDArray] = {}
        self.aux_dict: dict[str, NDArray] = {}
        self.model_metadata: dict[str, list] = {}
        self.opset_version = 0

    def from_onnx(self, graph: object, opset_version: int) -> tuple[Symbol, dict[str, NDArray], dict[str, NDArray]]:
        """Returns (symbol, arguments, auxiliary states) of an `onnx.GraphProto`; errors as in `import_model`."""
        self.opset_version, self.model_metadata = opset_version, described(graph)
        symbol, self.arg_dict, self.aux_dict = graph_to_symbol(graph, opset_version)
        return symbol, self.arg_dict, self.aux_dict

    def get_graph_metadata(self, graph: object) -> dict[str, list]:
        """Returns inputs and outputs of an `onnx.GraphProto`; see `get_model_metadata`."""
        return described(graph)

    def graph_to_gluon(self, graph: object, ctx: Context | Sequence[Context] | None, opset_version: int) -> SymbolBlock:
        """Converts an `onnx.GraphProto` to a block."""
        return graph_to_block(graph, opset_version, ctx)
