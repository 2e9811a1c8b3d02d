"""`python -m mxjax doctor script.py|notebook.ipynb|FOLDER|MODEL-symbol.json ...`: checks scripts before they run.

Nothing is run. Of scripts and of notebooks' cells every name of MXNet's is looked up; what is missing, raises, differs
from MXNet, needs an extra, or is slow on compiled arrays is listed with its line, and where a script is for another
level of MXNet's API. Of graphs the operators. The exit status is 1 where something is missing or raises, and 2 where a
file cannot be read. With `--map` the names of MXNet that scripts use are listed with what replaces them in JAX and
PyTorch; the exit status is then 0.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import importlib
import importlib.util
import json
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from .._support.files import reading
from ..base import MXNetError
from ..graph import json_format
from ..graph.node import topological
from ..ops import registry
from . import counterparts
from ._script_level import Signs
from ._sources import cells, decoded, names_in, scripts_in

__all__ = ["Finding", "Use", "add_arguments", "examine", "main", "uses"]


_Placed = ast.stmt | ast.expr  # nodes with a line


class Finding(NamedTuple):
    """A finding.

    kind: "missing", "raises", "differs", "extra", "slow", "level" of a script of the other MXNet, or "unread" of a file
    that is none; page: page of the documentation.
    """

    file: str
    line: int
    kind: str
    text: str
    page: str = ""


class Use(NamedTuple):
    """A name of MXNet's in a script, without "mx.", and its counterpart; methods begin with a point."""

    file: str
    line: int
    name: str
    jax: str = ""
    torch: str = ""
    note: str = ""


# by name of MXNet's, and all that begins with it
RAISES = {
    "rtc.CudaModule": "takes Pallas functions, no CUDA source",
    "library.load": "loads Python files with JAX functions, no compiled libraries",
}
DIFFERS = {
    "nd.from_numpy": "shares memory until the first write only",
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
_KINDS = ("missing", "differs", "extra", "slow", "raises", "level", "unread")
_STOPS = ("missing", "raises", "extra", "level")
_ARRAYS = ("nd", "ndarray", "np", "numpy", "npx", "numpy_extension", "random", "sym", "symbol")
_MADE = ("ones", "zeros", "full", "empty", "arange", "eye", "linspace", "identity")  # the first argument is a size
_SIZED = ("shape", "size", "begin", "end", "reps", "repeats", "depth", "k", "num", "stop", "N", "pad_width")
_JOINS = ("concat", "concatenate", "stack", "append", "vstack", "hstack", "Concat")
_CUSTOM = ("operator.CustomOp", "operator.PythonOp", "operator.NumpyOp")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("paths", nargs="+", metavar="PATH",
                        help="scripts, notebooks, folders of them, -symbol.json files")
    parser.add_argument("--json", action="store_true", help="print findings as JSON")
    parser.add_argument("--map", action="store_true",
                        help="list the names of MXNet that scripts use, with their counterparts in JAX and PyTorch")


def main(args: argparse.Namespace) -> int:
    """Runs the command with its parsed arguments; returns the exit status."""
    paths: list[Path] = []
    for path in map(Path, args.paths):
        paths += scripts_in(path) if path.is_dir() else [path]
    if not paths:
        raise MXNetError(f"doctor: there are no scripts in {', '.join(args.paths)}")
    if args.map:
        return _map(paths, args.json)
    results: list[Finding] = []
    for path in paths:
        try:
            results += examine(path)
        except MXNetError as error:
            if len(paths) == 1:
                raise
            results.append(Finding(str(path), 1, "unread", str(error)))
    if args.json:
        print(json.dumps([f._asdict() for f in results], indent=1))
    else:
        for f in results:
            print(f"{f.file}:{f.line}: {f.kind}: {f.text}" + (f" ({f.page})" if f.page else ""))
        counts = {kind: sum(f.kind == kind for f in results) for kind in _KINDS}
        print(f"{len(paths)} files: " + ", ".join(f"{n} {kind}" for kind, n in counts.items()
                                                  if n or kind not in ("level", "unread")))
    if any(f.kind == "unread" for f in results):
        return 2
    return int(any(f.kind in _STOPS for f in results))


def _map(paths: list[Path], as_json: bool) -> int:
    """Prints the names that scripts use with their counterparts."""
    results = [use for path in paths for use in uses(path)]
    if as_json:
        print(json.dumps([use._asdict() for use in results], indent=1))
        return 0
    for use in results:
        name = use.name if use.name.startswith(".") else f"mx.{use.name}"
        text = f"{use.jax or '-'} | {use.torch or '-'}" + (f" ({use.note})" if use.note else "")
        print(f"{use.file}:{use.line}: {name} -> {text}" if use.jax or use.torch else
              f"{use.file}:{use.line}: {name} -> no counterpart is known")
    known = sum(bool(use.jax or use.torch) for use in results)
    print(f"{len(paths)} files: {len(results)} uses, {known} with a counterpart (JAX | PyTorch)")
    return 0


def uses(path: Path) -> list[Use]:
    """Returns the names of MXNet that a script or notebook uses, by line, with their counterparts.

    Raises:
        MXNetError: the file is no script or notebook.
    """
    return [Use(file, line, name, *(counterparts.find(name) or ()))
            for file, line, name in sorted(dict.fromkeys(_read(path).used), key=lambda u: u[:2])]


def _read(path: Path) -> _Script:
    """A script or notebook, looked through."""
    with reading(path, "a script"):
        text = decoded(path.read_bytes())
    script = _Script(str(path))
    if path.suffix == ".ipynb":
        for number, cell in cells(path, text):
            script.file = f"{path}:cell {number}"
            script.examine(cell)
            script.tell_level()
    else:
        script.examine(text)
        script.tell_level()
    return script


def examine(path: Path) -> list[Finding]:
    """Returns the findings in a file, by line, each once; in a notebook, by cell.

    Raises:
        MXNetError: the file is no script, notebook or graph.
    """
    if path.suffix == ".json":
        with reading(path, "a graph"):
            text = decoded(path.read_bytes())
        return list(dict.fromkeys(_of_graph(path, text)))
    results = list(dict.fromkeys(_read(path).found))
    return results if path.suffix == ".ipynb" else sorted(results, key=lambda f: f.line)


# ---------------------------------------------------------------- scripts
class _Script(ast.NodeVisitor):
    """Finds the names of MXNet in a script, by its imports."""

    def __init__(self, file: str) -> None:
        self.file, self.found = file, []
        self.used: list[tuple[str, int, str]] = []  # (file, line, name): all that are MXNet's
        self._names: dict[str, str] = {}  # of the script -> of MXNet
        self._loops: list[ast.AST] = []
        self._signs = Signs()

    def examine(self, text: str) -> None:
        """Adds the findings of a text; one that Python 3 does not parse is also searched for names."""
        try:
            self.visit(ast.parse(text))
        except (SyntaxError, ValueError) as error:  # ValueError: null bytes
            line = getattr(error, "lineno", None) or 1
            self.found.append(Finding(self.file, line, "raises", f"Python 3 does not parse it: {error.args[0]}; 2to3 "
                                      "converts Python 2"))
            self._search(text)

    def tell_level(self) -> None:
        """Adds that the script speaks the other level of MXNet's API, where it does."""
        sign = self._signs.advice()
        if sign is not None:
            self.found.append(Finding(self.file, sign.line, "level", sign.text, "mxnet-2"))

    def _search(self, text: str) -> None:
        """Imports and names in a text that has no tree."""
        for node in names_in(text):
            self.visit(node)

    def _add(self, node: _Placed, kind: str, text: str, page: str = "") -> None:
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
            self._use(node, path)

    def visit_Name(self, node: ast.Name) -> None:  # noqa: N802
        path = self._path(node)
        if path:
            self._use(node, path)

    def _use(self, node: _Placed, path: str) -> None:
        """Notes a name; of `nd.NDArray.shape` the class, of a module nothing."""
        parts = path.split(".")
        holder = importlib.import_module("mxjax")
        for i, part in enumerate(parts):
            holder = _attribute(holder, part)
            if isinstance(holder, type):
                parts = parts[:i + 1]
                break
        if not isinstance(holder, types.ModuleType):
            self.used.append((self.file, node.lineno, ".".join(parts)))

    def visit_For(self, node: ast.For) -> None:  # noqa: N802
        called = {c.func.attr for c in ast.walk(node) if isinstance(c, ast.Call) and isinstance(c.func, ast.Attribute)}
        inner = any(isinstance(n, (ast.For, ast.While)) for n in ast.walk(node) if n is not node)
        if called & set(_TRAINS) and not inner:
            for call in ast.walk(node):
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in _WAITS:
                    self._add(call, "slow", f"{call.func.attr}() in a training loop waits for the device in every "
                              "step; add up NDArrays, and look at the sum now and then")
        self._growing(node)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:  # noqa: N802
        self._growing(node)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:  # noqa: N802
        path, first = self._path(node.func), node.args[0] if node.args else None
        self._signs.call(node, path)
        if path is None and isinstance(node.func, ast.Attribute) and f".{node.func.attr}" in counterparts.table():
            self.used.append((self.file, node.lineno, f".{node.func.attr}"))
        text = first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None
        if path == "library.load" and text is not None and text.endswith(".py"):
            return
        if path in ("kv.create", "kvstore.create") and text in ("horovod", "byteps"):
            self._add(node, "raises", f"mx.{path}({text!r}): there is no such store; dist_sync sums over processes",
                      "several-machines")
        self.generic_visit(node)

    def _growing(self, loop: ast.For | ast.While) -> None:
        """Arrays whose shape is another one in every round of a loop."""
        counted = _counters(loop)

        def depends(part: ast.AST | None) -> bool:
            return part is not None and any(isinstance(n, ast.Name) and n.id in counted for n in ast.walk(part))
        arrays = set()
        for node in [n for statement in loop.body for n in ast.walk(statement)]:
            if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
                continue
            path = self._path(node.value.func)
            if path and path.split(".")[0] in _ARRAYS:
                arrays |= {n.id for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name)}
        for node in [n for statement in loop.body for n in ast.walk(statement)]:
            if not isinstance(node, ast.Call):
                continue
            path = self._path(node.func)
            name = (path or "").rpartition(".")[2]
            if not path or path.split(".")[0] not in _ARRAYS:
                continue
            sizes = [k.value for k in node.keywords if k.arg in _SIZED]
            sizes += [a for a in node.args if isinstance(a, ast.Tuple)] + (node.args[:1] if name in _MADE else [])
            if any(map(depends, sizes)):
                self._add(node, "slow", f"mx.{path} of another shape in every round: each new shape is compiled; pad "
                          "to a few lengths", "differences: Limits")
            elif name in _JOINS and _feeds_itself(loop, node, arrays):
                self._add(node, "slow", f"an array that mx.{path} makes longer in every round: each new shape is "
                          "compiled; collect a list and join it once", "differences: Limits")

    def visit_ClassDef(self, node: ast.ClassDef) -> None:  # noqa: N802
        self._signs.block(node, [self._path(base) for base in node.bases])
        for base in node.bases:
            path = self._path(base) if isinstance(base, (ast.Attribute, ast.Name)) else None
            if path in _CUSTOM:
                self._add(node, "slow", f"{node.name} runs in Python on the host, and cuts graphs into parts; a JAX "
                          "function is compiled: mx.operator.from_jax")
        self.generic_visit(node)

    def _path(self, node: ast.AST) -> str | None:
        """Returns MXNet's name of a chain of attributes; None where it is none of MXNet's."""
        names = []
        while isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self._names:
            return None
        return ".".join([p for p in (self._names[node.id], *reversed(names)) if p])

    def _look_up(self, node: _Placed, path: str) -> None:
        self._signs.name(path, node.lineno)
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
        for kind, table in (("raises", RAISES), ("differs", DIFFERS)):
            for name, text in table.items():
                if _within(path, name):
                    self._add(node, kind, f"mx.{name}: {text}", "differences")
        for name, (module, extra) in _EXTRAS.items():
            if _within(path, name) and importlib.util.find_spec(module) is None:
                self._add(node, "extra", f"mx.{name} needs {module}: pip install 'mxjax[{extra}]'", "install")


_NONE = object()


def _counters(loop: ast.For | ast.While) -> set[str]:
    """Names that have another number in every round: of a loop over numbers, and made of such."""
    names: set[str] = set()
    if isinstance(loop, ast.For) and isinstance(loop.iter, ast.Call) and isinstance(loop.iter.func, ast.Name):
        target = loop.target
        if loop.iter.func.id == "enumerate" and isinstance(target, ast.Tuple):
            target = target.elts[0]
        if loop.iter.func.id in ("range", "xrange", "enumerate") and isinstance(target, ast.Name):
            names.add(target.id)
    for node in [n for statement in loop.body for n in ast.walk(statement)]:
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and isinstance(loop, ast.While) and \
                isinstance(node.value, ast.Constant):
            names.add(node.target.id)
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name) and \
                _only_numbers(node.value) and any(isinstance(n, ast.Name) and n.id in names
                                                  for n in ast.walk(node.value)):
            names.add(node.targets[0].id)
    return names


def _only_numbers(value: ast.AST) -> bool:
    """Returns whether an expression is arithmetic of names and constants."""
    allowed = (ast.BinOp, ast.UnaryOp, ast.Name, ast.Constant, ast.operator, ast.unaryop, ast.Load)
    return all(isinstance(n, allowed) for n in ast.walk(value))


def _feeds_itself(loop: ast.AST, call: ast.Call, arrays: set[str]) -> bool:
    """Returns whether a loop assigns a call's result to a name that the call takes."""
    taken = {n.id for n in ast.walk(call) if isinstance(n, ast.Name)}
    return any(isinstance(n, ast.Assign) and n.value is call and taken & arrays & {
        t.id for t in n.targets if isinstance(t, ast.Name)} for n in ast.walk(loop))


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
        raise MXNetError(f"doctor: {path} is not an MXNet graph") from None
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
