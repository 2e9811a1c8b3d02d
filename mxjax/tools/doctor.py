"""`python -m mxjax doctor script.py|FOLDER|MODEL-symbol.json ...`: what a script or a model will meet here.

Nothing is run. Of scripts every name of MXNet's is looked up; what is missing, differs from MXNet, needs an extra, or
is slow on compiled arrays is listed with its line. Of graphs the operators. The exit status is 1 where something is
missing.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import importlib
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from .._files import reading
from ..base import MXNetError
from ..graph import json_format
from ..graph.node import topological
from ..ops import registry

__all__ = ["Finding", "add_arguments", "examine", "main"]


class Finding(NamedTuple):
    """Something to know. kind: "missing", "differs", "extra" or "slow"; page: where more is said."""

    file: str
    line: int
    kind: str
    text: str
    page: str = ""


# by name of MXNet's, and all that begins with it
_DIFFERS = {
    "rtc.CudaModule": "takes Pallas functions, no CUDA source",
    "library.load": "loads Python files with JAX functions, no compiled libraries",
    "nd.from_numpy": "shares memory until the first write only",
    "contrib.tensorrt": "XLA compiles graphs; there is no TensorRT",
    "contrib.onnx": "writes opset 17",
    "onnx": "writes opset 17",
    "kv.create": "`dist_*` stores need one secret on several machines (MXJAX_CLUSTER_TOKEN_FILE; `launch` brings it), "
                 "and dist_sync has no servers",
    "profiler": "a compiled graph is one event",
    "nd.contrib.quantized_conv": "uint8 data have the range of uint8",
    "random.seed": "on CPUs MXNet's own numbers follow it; on GPUs and TPUs JAX's",
    "optimizer.DCASGD": "works with momentum, where MXNet crashes",
}
_EXTRAS = {  # by name: (module that is needed, extra)
    "viz.plot_network": ("graphviz", "viz"), "visualization.plot_network": ("graphviz", "viz"),
    "image": ("cv2", "image"), "img": ("cv2", "image"), "io.ImageRecordIter": ("cv2", "image"),
    "gluon.data.vision": ("cv2", "image"), "recordio.pack_img": ("cv2", "image"),
    "recordio.unpack_img": ("cv2", "image"), "onnx": ("onnx", "onnx"), "contrib.onnx": ("onnx", "onnx"),
    "contrib.tensorboard": ("tensorboardX", "tensorboard"),
}
_WAITS = ("asnumpy", "asscalar", "wait_to_read", "waitall", "item")
_TRAINS = ("record", "backward", "forward_backward", "step")
_CUSTOM = ("operator.CustomOp", "operator.PythonOp", "operator.NumpyOp")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("paths", nargs="+", metavar="PATH", help="scripts, folders of them, -symbol.json files")
    parser.add_argument("--json", action="store_true", help="print findings as JSON")


def main(given: argparse.Namespace) -> int:
    """Runs the command with its parsed arguments; returns the exit status."""
    paths: list[Path] = []
    for path in map(Path, given.paths):
        paths += sorted(path.rglob("*.py")) if path.is_dir() else [path]
    if not paths:
        raise MXNetError(f"doctor: there are no scripts in {', '.join(given.paths)}")
    found = [finding for path in paths for finding in examine(path)]
    if given.json:
        print(json.dumps([f._asdict() for f in found], indent=1))
    else:
        for f in found:
            print(f"{f.file}:{f.line}: {f.kind}: {f.text}" + (f" ({f.page})" if f.page else ""))
        counts = {kind: sum(f.kind == kind for f in found) for kind in ("missing", "differs", "extra", "slow")}
        print(f"{len(paths)} files: " + ", ".join(f"{count} {kind}" for kind, count in counts.items()))
    return int(any(f.kind == "missing" for f in found))


def examine(path: Path) -> list[Finding]:
    """What is to be known of a file, by line, each thing once.

    Raises:
        MXNetError: the file is neither Python nor a graph.
    """
    with reading(path, "a script or a graph"):
        text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return list(dict.fromkeys(_of_graph(path, text)))
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise MXNetError(f"doctor: {path}:{error.lineno}: {error.msg}; Python 2 is converted by 2to3 first") from None
    script = _Script(str(path))
    script.visit(tree)
    return sorted(dict.fromkeys(script.found), key=lambda f: f.line)


# ---------------------------------------------------------------- scripts
class _Script(ast.NodeVisitor):
    """Looks names up: which of a script's are MXNet's, by what they were imported as."""

    def __init__(self, file: str) -> None:
        self.file, self.found = file, []
        self._names: dict[str, str] = {}  # of the script -> of MXNet
        self._loops: list[ast.AST] = []

    def _add(self, node: ast.AST, kind: str, text: str, page: str = "") -> None:
        self.found.append(Finding(self.file, node.lineno, kind, text, page))

    def visit_Import(self, node: ast.Import) -> None:  # noqa: N802
        for name in node.names:
            top, _, rest = name.name.partition(".")
            if top in ("mxnet", "mxjax"):
                self._names[name.asname or top] = rest if name.asname else ""
                self._look_up(node, rest)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:  # noqa: N802
        top, _, rest = (node.module or "").partition(".")
        if top in ("mxnet", "mxjax") and not node.level:
            for name in node.names:
                if name.name != "*":
                    path = f"{rest}.{name.name}".strip(".")
                    self._names[name.asname or name.name] = path
                    self._look_up(node, path)

    def visit_Attribute(self, node: ast.Attribute) -> None:  # noqa: N802
        path = self._path(node)
        if path is None:
            self.generic_visit(node)
        else:
            self._look_up(node, path)

    def visit_For(self, node: ast.For) -> None:  # noqa: N802
        called = {c.func.attr for c in ast.walk(node) if isinstance(c, ast.Call) and isinstance(c.func, ast.Attribute)}
        inner = any(isinstance(n, (ast.For, ast.While)) for n in ast.walk(node) if n is not node)
        if called & set(_TRAINS) and not inner:
            for call in ast.walk(node):
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in _WAITS:
                    self._add(call, "slow", f"{call.func.attr}() in a training loop waits for the device in every "
                              "step; add up NDArrays, and look at the sum now and then")
        self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:  # noqa: N802
        for base in node.bases:
            path = self._path(base) if isinstance(base, (ast.Attribute, ast.Name)) else None
            if path in _CUSTOM:
                self._add(node, "slow", f"{node.name} runs in Python on the host, and cuts graphs into parts; a JAX "
                          "function is compiled: mx.operator.from_jax")
        self.generic_visit(node)

    def _path(self, node: ast.AST) -> str | None:
        """What a chain of attributes is in MXNet; None where it is none of MXNet's."""
        names = []
        while isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self._names:
            return None
        return ".".join([p for p in (self._names[node.id], *reversed(names)) if p])

    def _look_up(self, node: ast.AST, path: str) -> None:
        whole, holder = "", importlib.import_module("mxjax")
        for name in path.split(".") if path else ():
            value = _attribute(holder, name)
            if value is _NONE:
                near = difflib.get_close_matches(name, [n for n in dir(holder) if n[0] != "_"], 1)
                self._add(node, "missing", f"mx.{whole}{name} is not there" + (
                    f"; did you mean mx.{whole}{near[0]}?" if near else ""), "differences: Not here")
                return
            whole += f"{name}."
            if not hasattr(value, "__path__") and not hasattr(value, "__name__") or isinstance(value, type):
                break  # methods of objects are looked up when they are called
            holder = value
        for name, text in _DIFFERS.items():
            if _within(path, name):
                self._add(node, "differs", f"mx.{name}: {text}", "differences")
        for name, (module, extra) in _EXTRAS.items():
            if _within(path, name) and importlib.util.find_spec(module) is None:
                self._add(node, "extra", f"mx.{name} needs {module}: pip install 'mxjax[{extra}]'", "install")


_NONE = object()


def _attribute(holder: Any, name: str) -> Any:
    try:
        return getattr(holder, name)
    except AttributeError:
        pass
    try:
        return importlib.import_module(f"{holder.__name__}.{name}")
    except (ImportError, AttributeError):
        return _NONE


def _within(path: str, name: str) -> bool:
    return f"{path}.".startswith(f"{name}.")


# ---------------------------------------------------------------- graphs
def _of_graph(path: Path, text: str) -> Iterator[Finding]:
    """Operators that are not there, or run on the host; the line is that of the node's name."""
    try:
        rows = json.loads(text)["nodes"]
        names = [row["op"] for row in rows]
    except (ValueError, KeyError, TypeError):
        raise MXNetError(f"doctor: {path} is no graph of MXNet") from None
    lines = {}
    for number, line in enumerate(text.splitlines(), 1):
        if '"name"' in line:
            lines.setdefault(line.partition('"name"')[2].strip(' :",'), number)
    unknown = {name for name in names if name != "null" and registry.find(name) is None}
    for row in rows:
        if row["op"] in unknown:
            near = difflib.get_close_matches(row["op"], registry.names(), 1)
            yield Finding(str(path), lines.get(row.get("name"), 1), "missing", f"operator {row['op']} is not there" + (
                f"; the nearest name is {near[0]}" if near else ""), "differences: Not here")
    if unknown:
        return
    for node in topological(json_format.loads(text)):
        if node.op is not None and (node.op.eager or node.op.get_attr("FHost")):
            yield Finding(str(path), lines.get(node.name, 1), "slow", f"operator {node.op.name} ({node.name}) runs on "
                          "the host: the graph is compiled in parts", "accelerators")
