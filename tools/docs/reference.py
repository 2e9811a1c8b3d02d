"""Pages of the API reference, made from the live modules: operators exist at run time only.

A family (`mx.nd`, `mx.np` ...) has a page for each function, a module one page with a heading for each name.
"""

import functools
import importlib
import inspect
import os
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import docstrings

import examples
import mxjax as mx
from mxjax._namespace import _PREFIXES
from mxjax.base import _Null
from mxjax.ops import registry
from mxjax.tools import counterparts

ROOT = Path(mx.__file__).parent.parent

# families: a page for each name; (path, what is said of it)
FAMILIES = {
    "nd": "Functions of arrays, and the arrays themselves.",
    "nd.contrib": "Operators for detection, attention, quantization and others, and loops with arrays.",
    "nd.linalg": "Linear algebra on batches of matrices.",
    "nd.random": "Draws from distributions.",
    "nd.image": "Operators on images: (height, width, channels), or batches of them.",
    "np": "NumPy's functions on arrays that record gradients and run on devices.",
    "np.random": "NumPy's distributions.",
    "np.linalg": "NumPy's linear algebra.",
    "npx": "What NumPy has not: neural networks, devices, switches.",
    "npx.image": "Operators on images, for `mx.np` arrays.",
}
# modules: one page each; by groups
MODULES = {
    "Symbols and graphs": {
        "sym": "Graphs: variables, operators on them, binding.",
        "sym.contrib": "Loops, detection and others in graphs.",
        "sym.linalg": "Linear algebra in graphs.",
        "sym.random": "Draws in graphs.",
        "sym.image": "Operators on images in graphs.",
        "sym.sparse": "Operators for sparse arrays in graphs.",
        "executor": "Graphs bound to arrays.",
        "viz": "Graphs as pictures and tables.",
        "attribute": "Attributes of graph nodes by scopes.",
        "name": "Names of graph nodes by scopes.",
    },
    "Gluon": {
        "gluon": "Blocks, parameters, the trainer and the compiled training step.",
        "gluon.nn": "Layers.",
        "gluon.rnn": "Recurrent layers and cells.",
        "gluon.loss": "Losses.",
        "gluon.data": "Data sets, samplers, loaders.",
        "gluon.data.vision": "Data sets of images.",
        "gluon.data.vision.transforms": "Transformations of images.",
        "gluon.model_zoo.vision": "Networks for images, with MXNet's pretrained weights.",
        "gluon.utils": "Helpers: splitting and loading, clipping, downloads.",
        "gluon.contrib.nn": "More layers.",
        "gluon.contrib.rnn": "More recurrent cells.",
        "gluon.contrib.cnn": "Deformable convolution.",
        "gluon.contrib.data": "More data sets and samplers.",
        "gluon.contrib.estimator": "Training loops with event handlers.",
    },
    "Training": {
        "autograd": "Recording and gradients.",
        "mod": "Modules: networks of symbols with their parameters and a training loop.",
        "model": "Checkpoints, and the oldest training loop.",
        "optimizer": "Optimizers.",
        "lr_scheduler": "Learning rates as functions of the number of updates.",
        "metric": "Metrics.",
        "init": "Initializers.",
        "callback": "Callbacks of training loops.",
        "monitor": "Statistics of what flows through a graph.",
        "kv": "Stores that sum gradients over devices and machines.",
        "contrib.amp": "Automatic mixed precision.",
        "contrib.quantization": "8-bit integers.",
        "contrib.svrg_optimization.svrg_module": "Stochastic variance-reduced gradients.",
        "rnn": "Recurrent cells of symbols, with iterators of buckets.",
    },
    "Data": {
        "io": "Data iterators.",
        "image": "Reading and augmenting images.",
        "recordio": "Record files.",
        "contrib.text": "Vocabularies and embeddings.",
        "contrib.io": "Loaders as iterators.",
    },
    "Other": {
        "nd.sparse": "Sparse arrays and functions of them.",
        "random": "The seed, and the oldest names of distributions.",
        "context": "Devices.",
        "engine": "The dependency engine and bulk scopes.",
        "operator": "Operators of your own in Python.",
        "library": "Operators and backends from files.",
        "rtc": "Kernels of your own for accelerators.",
        "profiler": "What takes how long.",
        "runtime": "Features of this installation.",
        "util": "Switches for NumPy semantics, environment variables.",
        "storage": "Memory in use.",
        "onnx": "ONNX both ways.",
        "contrib.onnx": "The same by MXNet's older names, and blocks of ONNX files.",
        "interop": "JAX, flax, optax, StableHLO, and the name `mxnet`.",
        "plan": "What a program needs on devices that are not here.",
        "predictor": "Prediction from a checkpoint, as MXNet's C interface has it.",
        "contrib.tensorboard": "Metrics for TensorBoard.",
        "log": "Loggers.",
        "error": "Kinds of errors.",
        "base": "The error that all others derive from, and types of arguments.",
        "registry": "Factories: classes by name.",
        "libinfo": "Versions.",
        "misc": "The oldest learning-rate schedules.",
        "resource": "Random numbers and memory for operators of one's own.",
        "executor_manager": "The oldest data-parallel training.",
        "contrib.autograd": "The oldest names of autograd.",
        "kvstore_server": "What processes of the role `server` do.",
        "test_utils": "Helpers for tests.",
    },
}
# those of them that have a page for each name, too
PAGED = ("gluon", "gluon.nn", "gluon.rnn", "gluon.loss", "gluon.data", "optimizer", "lr_scheduler", "metric", "init",
         "autograd", "mod", "io")
_GROUPS = {"elementwise": "Element by element", "nn": "Neural networks", "shape": "Shapes, indexing and joining",
           "reduce": "Reductions and sorting", "linalg": "Linear algebra", "random": "Random numbers",
           "training": "Optimizer updates and losses", "vision": "Images and detection", "quantized": "Quantization"}
_ERRORS = ("A shape, a dtype or a parameter that does not fit raises `mx.MXNetError` (a `RuntimeError`) at the call; "
           "the message names the operator, the parameter and what was given.")
_SYMBOLS = ("What these do with symbols is what the functions of the same names do with arrays; instead of `out` they "
            "take `name` and `attr`.")


def _summary(value: Any) -> str:
    """What a name is, in a sentence, for tables."""
    return docstrings.escape(docstrings.first_sentence(value.__doc__ or ""))


def module(path: str) -> ModuleType:
    """The module that users know as mx.<path>."""
    found: Any = mx
    for part in path.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            found = importlib.import_module(f"{found.__name__}.{part}")
    return found


def public(where: ModuleType) -> Iterator[tuple[str, Any]]:
    """Names of a module and what they are; no modules, nothing of other packages."""
    listed = getattr(where, "__all__", None)
    for name in sorted(set(listed if listed is not None else dir(where)), key=lambda n: (n.lower(), n)):
        if name.startswith("_"):
            continue
        value = getattr(where, name, None)
        if inspect.ismodule(value) or value is None and name != "newaxis":
            continue
        if getattr(value, "__module__", "") == "mxjax._namespace":
            continue  # what modules are made with
        home = getattr(value, "__module__", None) if inspect.isclass(value) or inspect.isroutine(value) else ""
        if home == "" or listed is not None or (home or "").startswith("mxjax"):
            if home == "" and not isinstance(value, str | int | float | tuple | list | dict | type(None)) or \
                    type(value).__module__ == "__future__":
                continue
            yield name, value


def operator(path: str, name: str, value: Any) -> registry.Op | None:
    """The operator behind a generated function of a family."""
    if not getattr(value, "__signature__", None) or inspect.isclass(value):
        return None
    spelled = {"np": "numpy", "npx": "numpy_extension", "npx.image": "numpy_extension.image"}.get(
        path, path.partition(".")[2])
    found = registry.find(_PREFIXES.get(spelled, "") + name)
    return found or (registry.find(name) if spelled == "sparse" else None)


def signature(name: str, value: Any, op: registry.Op | None, *, method: bool = False) -> str:
    """A call as it is written, with defaults and without types."""
    try:
        listed = list(inspect.signature(value).parameters.values())
    except (TypeError, ValueError):
        return f"{name}(...)"
    words, star, optional = [], False, False
    for p in listed[1:] if method and listed and listed[0].name in ("self", "cls") else listed:
        required = p.default is p.empty or op is not None and (
            op.params[p.name].required if p.name in op.params else
            p.name in op.input_names and p.name not in op.optional_inputs)
        # MXNet has required parameters behind optional ones: by keyword, as everybody passes them
        by_keyword = p.kind is p.KEYWORD_ONLY or optional and required and p.kind is p.POSITIONAL_OR_KEYWORD
        if by_keyword and not star:
            words.append("*")
        star = star or by_keyword or p.kind is p.VAR_POSITIONAL
        optional = optional or not required
        word = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "") + p.name
        if p.default is _Null and op is not None and p.name in op.params:
            parameter = op.params[p.name]
            word += "" if parameter.required else f"={parameter.default!r}"
        elif p.default is not p.empty and not (op is not None and p.name in op.input_names and
                                               p.name not in op.optional_inputs):
            word += f"={'None' if p.default is _Null else docstrings.default(p.default)}"
        words.append(word)
    text = f"{name}({', '.join(words)})"
    if len(text) > 84:
        lines, line = [], "    "
        for i, word in enumerate(words):
            word += "," if i < len(words) - 1 else ")"
            if len(line) + len(word) > 84:
                lines.append(line.rstrip())
                line = "    "
            line += word + " "
        text = f"{name}(\n" + "\n".join([*lines, line.rstrip()])
    return text


def types(value: Any) -> dict[str, tuple[str, str]]:
    """(type, default) of parameters by name, from annotations."""
    try:
        listed = inspect.signature(value).parameters
    except (TypeError, ValueError):
        return {}
    found = {}
    for p in listed.values():
        kind = p.annotation if isinstance(p.annotation, str) else getattr(p.annotation, "__name__", str(p.annotation))
        kind = "" if p.annotation is p.empty or kind == "Any" else re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", kind)
        default = "" if p.default is p.empty else "None" if p.default is _Null else docstrings.default(p.default)
        found[p.name] = (f"`{kind}`" if kind else "", default)
    return found


def source(value: Any) -> str:
    """Where something is defined: "`mxjax/io/io.py`, line 12"; "" where that is not known."""
    place = _place(value)
    return f"`{place[0]}`, line {place[1]}" if place else ""


@functools.cache
def _place(value: Any) -> tuple[str, int] | None:
    try:
        value = inspect.unwrap(value)
        file = Path(inspect.getsourcefile(value) or "")
        return file.relative_to(ROOT).as_posix(), inspect.getsourcelines(value)[1]
    except (TypeError, OSError, ValueError):
        return None


def _code(value: Any) -> list[str]:
    """The source of an operator's function, folded away."""
    try:
        text = inspect.cleandoc("\n" + inspect.getsource(inspect.unwrap(value)))
    except (TypeError, OSError, ValueError):
        return []
    if text.count("\n") > 80:
        return []
    return ['<details class="source" markdown="1" data-search-exclude><summary>The source</summary>', "", "```python",
            *text.splitlines(), "```", "", "</details>", ""]


def _about(where: ModuleType) -> list[str]:
    """What a module's docstring says behind its first line."""
    lines: list[str] = []
    for text in re.split(r"\n\s*\n", inspect.cleandoc(where.__doc__ or ""))[1:]:
        if not re.search(r"\b_\w*\*?\.py", text):  # of its files
            lines += docstrings.paragraph(text)
    return lines


def _relative(page: str | None, folder: str) -> str:
    """A page as a link from a folder."""
    path, _, anchor = (page or "").partition("#")
    return os.path.relpath(path, folder) + (f"#{anchor}" if anchor else "")


def _index(path: str) -> str:
    """The page of a family or module."""
    return f"api/{path.replace('.', '/')}/index.md" if path in FAMILIES or path in PAGED else f"api/{path}.md"


def _key(full: str) -> str:
    """What related names have in common: the first counterpart in JAX, and in PyTorch by its last part."""
    found = counterparts.find(full.removeprefix("mx."))
    if found is None or "(" in found.jax or not found.jax:
        return ""
    return found.jax.split(",")[0]


class Reference:
    """All pages: {path below the site: Markdown}, and what the navigation has of them."""

    def __init__(self) -> None:
        self.pages: dict[str, str] = {}
        self.where: dict[Any, tuple[str, str]] = {}  # key of a thing -> (full name, page#anchor)
        self.names: dict[str, str] = {}  # full name -> page#anchor
        self.count = 0
        self.examples: dict[str, str] = {}  # code by full name
        self.methods: dict[str, str] = {}  # of classes, with their pages and anchors
        self._plan()
        for path, said in FAMILIES.items():
            self._family(path, said)
        for group in MODULES.values():
            for path, said in group.items():
                (self._family if path in PAGED else self._module)(path, said)
        self._index()

    # ------------------------------------------------------------ what is where
    def _plan(self) -> None:
        """Decides on which page each thing is described; elsewhere there are links."""
        self._units: dict[str, list[tuple[str, list[str], Any, registry.Op | None]]] = {}
        for path in (*FAMILIES, *PAGED):
            self._units[path] = self._grouped(path)
            for name, aliases, value, op in self._units[path]:
                page = f"api/{path.replace('.', '/')}/{name}.md"
                self._settle(value, op, path, f"mx.{path}.{name}", page)
                for alias in (name, *aliases):
                    self.names.setdefault(f"mx.{path}.{alias}", page)
        for path in PAGED:
            for name, value in public(module(path)):
                self.names.setdefault(f"mx.{path}.{name}", self._of(value, path, name) or _index(path))
        for group in MODULES.values():
            for path in [path for path in group if path not in PAGED]:
                for name, value in public(module(path)):
                    full = f"mx.{path}.{name}"
                    self._settle(value, None, path, full, f"api/{path}.md#{full}")
                    page = f"api/{path}.md" + (f"#{full}" if callable(value) else "")
                    self.names.setdefault(full, self._of(value, path, name) or page)

    def _settle(self, value: Any, op: registry.Op | None, path: str, full: str, page: str) -> None:
        if op is not None and path.startswith("nd"):
            self.where.setdefault(op, (full, page))
        if inspect.isclass(value) or inspect.isroutine(value):
            self.where.setdefault(value, (full, page))

    def _of(self, value: Any, path: str, name: str) -> str | None:
        """The page that describes a thing which the module has from elsewhere."""
        if path.startswith(("sym", "nd.sparse")):
            op = operator(path, name, value)
            if op is not None and op in self.where:
                return self.where[op][1]
        if inspect.isclass(value) or inspect.isroutine(value):
            found = self.where.get(value)
            if found and found[0] != f"mx.{path}.{name}":
                return found[1]
        return None

    def _grouped(self, path: str) -> list[tuple[str, list[str], Any, registry.Op | None]]:
        """A family's things, each with its other names."""
        found: dict[Any, list[tuple[str, Any]]] = {}
        for name, value in public(module(path)):
            if not (inspect.isclass(value) or callable(value)):
                continue
            op = operator(path, name, value)
            if op is None and value in self.where and (path in PAGED or not inspect.isclass(value)):
                continue
            found.setdefault(op or value, []).append((name, value))
        units = []
        for key, members in found.items():
            names = [n for n, _ in members]
            op = key if isinstance(key, registry.Op) else None
            chosen = min(names, key=lambda n: (n != getattr(op, "name", None) and n != getattr(key, "__name__", ""),
                                               not n.islower(), n))
            if any(n.islower() and n == chosen.lower() for n in names):
                chosen = chosen.lower()
            units.append((chosen, [n for n in names if n != chosen], dict(members)[chosen], op))
        return units

    # ------------------------------------------------------------ families
    def _family(self, path: str, said: str) -> None:
        folder = f"api/{path.replace('.', '/')}"
        groups: dict[str, list[str]] = {}
        taken: set[str] = set()
        for name, aliases, value, op in self._units[path]:
            if name.lower() in taken:
                raise RuntimeError(f"mx.{path} has two names that differ by case only: {name}")
            taken.add(name.lower())
            self.count += 1 + len(aliases)
            self.pages[f"{folder}/{name}.md"] = self._function(path, name, aliases, value, op)
            also = "".join(f", `{a}`" for a in aliases)
            groups.setdefault(self._group(path, value, op), []).append(
                f"| [`{name}`]({name}.md){also} | {_summary(value)} |")
        lines = [f"# mx.{path}", "", said, "", *(_about(module(path)) if path in PAGED else [])]
        for group in sorted(groups, key=lambda g: (g != "Arrays", g)):
            lines += [*([f"## {group}", ""] if len(groups) > 1 else []), "| name | what it does |", "|---|---|",
                      *groups[group], ""]
        elsewhere = [(n, v) for n, v in public(module(path)) if path in PAGED and callable(v) and n.lower() not in taken
                     and self._of(v, path, n) and not any(n in also for _, also, _, _ in self._units[path])]
        if elsewhere:
            lines += ["## Described elsewhere", "", "| name | what it does |", "|---|---|",
                      *(f"| [`{n}`]({_relative(self._of(v, path, n), folder)}) | {_summary(v)} |"
                        for n, v in elsewhere), ""]
        constants = [(n, v) for n, v in public(module(path)) if not callable(v)]
        if constants:
            lines += ["## Constants", "", "| name | value |", "|---|---|",
                      *(f"| `{n}` | `{docstrings.default(v)}` |" for n, v in constants), ""]
            self.count += len(constants)
        self.pages[f"{folder}/index.md"] = "\n".join(lines)

    @staticmethod
    def _group(path: str, value: Any, op: registry.Op | None) -> str:
        if path != "nd":
            return "Classes" if inspect.isclass(value) else "Functions"
        if op is None:
            return "Arrays"
        home = getattr(inspect.unwrap(op.get_attr("FCompute", value)), "__module__", "").split(".")
        return _GROUPS.get(home[2] if len(home) > 2 and home[1] == "ops" else "", "Others")

    def _function(self, path: str, name: str, aliases: list[str], value: Any, op: registry.Op | None) -> str:
        full = f"mx.{path}.{name}"
        # of names that begin alike the shortest comes first
        boost = (4 if path == "nd" else 2) * (1 + min(4, (8 / len(name)) ** 2))
        lines = ["---", f"title: {full}", "search:", f"  boost: {boost:.1f}", "---", "", f"# {full}", "",
                 f'<p class="up" markdown="span" data-search-exclude>in [mx.{path}](index.md)</p>', ""]
        folder = f"api/{path.replace('.', '/')}"
        if inspect.isclass(value):
            lines += self._class(full, value, level=2)
        else:
            lines += ["```python", signature(full, value, op), "```", "",
                      *docstrings.render(value.__doc__ or "", types(value) if op is None else {}, name=name)]
            if op is not None and not docstrings.parse(value.__doc__ or "").raises:
                lines += ["## Errors", "", _ERRORS, ""]
            if not docstrings.parse(value.__doc__ or "").examples:
                lines += self._example(path, name, value)
        facts = self._facts(path, name, aliases, value, op, folder)
        if facts:
            lines += ["## See also", "", *(f"- {fact}" for fact in facts), ""]
        made = op.get_attr("FCompute") if op is not None else value
        place = source(made)
        if place:
            lines += ["## Source", "", place + ".", "", *(_code(made) if op is not None else [])]
        return "\n".join(lines)

    def _example(self, path: str, name: str, value: Any) -> list[str]:
        """An example made for a class; what it prints is put in when the site is built."""
        code = examples.example(path, name, value)
        if not code:
            return []
        self.examples[f"mx.{path}.{name}"] = code
        return ["## Example", "", f"<!-- example mx.{path}.{name} -->", ""]

    def _facts(self, path: str, name: str, aliases: list[str], value: Any, op: registry.Op | None,
               folder: str) -> list[str]:
        """Other names, the same in other places, what is related, what replaces it elsewhere."""
        full, facts = f"mx.{path}.{name}", []
        if aliases:
            facts.append("Other names: " + ", ".join(f"`mx.{path}.{a}`" for a in aliases))
        facts += self._relatives(path, name, op)
        related = [n for n in self._related.get(_key(full), ()) if self.names[n] != self.names[full]]
        if 0 < len(related) <= 6:
            facts.append("Related: " + ", ".join(f"[`{n}`]({_relative(self.names[n], folder)})" for n in related))
        found = counterparts.find(full.removeprefix("mx."))
        if found:
            note = f" ({docstrings.escape(found.note)})" if found.note else ""
            told = [f"{text if text.startswith('(') else f'`{text}`'} in {name}"
                    for name, text in (("JAX", found.jax), ("PyTorch", found.torch)) if text]
            facts.append(f"Counterparts: {', '.join(told)}{note}; more in [the map]({_relative('map.md', folder)})")
        return facts

    @functools.cached_property
    def _related(self) -> dict[str, list[str]]:
        """Names with pages by what replaces them: Dense and FullyConnected are both flax' Linear."""
        found: dict[str, list[str]] = {}
        for full, page in self.names.items():
            if "#" not in page and full.startswith(("mx.nd.", "mx.np", "mx.gluon.")):
                pages = {self.names[n] for n in found.get(_key(full), ())}
                if page not in pages and not page.endswith("index.md"):
                    found.setdefault(_key(full), []).append(full)
        found.pop("", None)
        return found

    def _relatives(self, path: str, name: str, op: registry.Op | None) -> list[str]:
        """The same thing as a symbol, a method, in NumPy's flavour."""
        found = []
        if path.startswith("nd"):
            symbols = module(path.replace("nd", "sym", 1)) if path != "nd.sparse" else None
            if symbols is not None and op is not None and hasattr(symbols, name):
                found.append(f"For symbols: `mx.{path.replace('nd', 'sym', 1)}.{name}`")
            if path == "nd" and op is not None and inspect.isroutine(getattr(mx.nd.NDArray, name, None)):
                found.append(f"As a method: `NDArray.{name}`")
        return found

    # ------------------------------------------------------------ modules
    def _module(self, path: str, said: str) -> None:
        """A module as one page."""
        rare = re.search("contrib|model_zoo|test_utils|executor_manager|misc", path)
        boost = 0.5 if rare else 4 if path.startswith("gluon") else 2
        here = ["---", "search:", f"  boost: {boost}", "---", "", f"# mx.{path}", "", said, ""]
        elsewhere: list[str] = []
        where = module(path)
        here += _about(where)
        constants = []
        for name, value in public(where):
            self.count += 1
            full = f"mx.{path}.{name}"
            other = self._of(value, path, name)
            if other:
                elsewhere.append(f"| [`{name}`]({other.removeprefix('api/')}) | {_summary(value)} |")
            elif inspect.isclass(value):
                here += [f"## {full} {{ #{full} }}", "", *self._class(full, value, level=3)]
            elif callable(value):
                op = operator(path, name, value)
                here += [f"## {full} {{ #{full} }}", "", "```python", signature(full, value, op), "```", "",
                         *docstrings.render(value.__doc__ or "", types(value) if op is None else {}, level=3)]
                place = source(op.get_attr("FCompute") if op is not None else value)
                here += [f"Source: {place}.", ""] if place else []
            else:
                constants.append(f"| `{name}` | `{docstrings.default(value)}` |")
        if constants:
            here += ["## Constants", "", "| name | value |", "|---|---|", *constants, ""]
        if elsewhere:
            here += ["## Described elsewhere", "", *([_SYMBOLS, ""] if path.startswith("sym") else []),
                     "| name | what it does |", "|---|---|", *elsewhere, ""]
        self.pages[f"api/{path}.md"] = "\n".join(here)

    def _class(self, full: str, value: type, level: int) -> list[str]:
        """A class: how it is made, its documentation, its own methods and properties; level 2: it has a page."""
        short = full.rpartition(".")[2]
        lines = ["```python", f"class {signature(full, value, None)}", "```", ""]
        bases = [b.__name__ for b in value.__bases__ if b is not object and not b.__name__.startswith("_")]
        if bases:
            lines += ["Derived from " + ", ".join(f"`{b}`" for b in bases) + ".", ""]
        doc = value.__dict__.get("__doc__") or ""
        lines += docstrings.render(doc, types(value), level=0 if level == 2 else 1, name=short)
        if level == 2:
            path = full.removeprefix("mx.").rpartition(".")[0]
            lines += [] if docstrings.parse(doc).examples else self._example(path, short, value)
        else:
            place = source(value)
            lines += [f"Source: {place}.", ""] if place else []
        members: dict[str, Any] = {}
        for owner in value.__mro__:
            if owner is value or owner.__name__.startswith("_") and owner.__module__.startswith("mxjax"):
                for name, member in vars(owner).items():
                    if not name.startswith("_") or name == "__call__":
                        members.setdefault(name, member)
        brief = []
        for name in sorted(members):
            member = members[name]
            called = getattr(member, "__func__", member)
            called = getattr(called, "func", called) if isinstance(called, functools.cached_property) else called
            said = getattr(called.fget if isinstance(called, property) else called, "__doc__", None)
            if not said or isinstance(called, int | str | tuple | dict | list | float | type):
                continue
            anchor = f"{full}.{name.strip('_')}"
            if isinstance(called, property | functools.cached_property) or not callable(called):
                brief.append(f"| `{name}` | {docstrings.escape(said)} |")
                continue
            if name in ("forward", "hybrid_forward") and "\n" not in said.strip():
                brief.append(f"| `{signature(name, called, None, method=True)}` | {docstrings.escape(said)} |")
                continue
            fluent = re.fullmatch(r".*mx\.(?:nd|np|npx|sym)\.\w+.*", said.strip()) and "\n" not in said.strip()
            if fluent or getattr(called, "__doc__", "") and called.__qualname__.split(".")[0] == "NDArray" and \
                    "\n" not in said.strip() and called.__code__.co_name == "call":
                brief.append(f"| `{name}()` | {docstrings.escape(said)} |")
                continue
            if value in self.where:
                self.methods[anchor] = f"{self.where[value][1].partition('#')[0]}#{anchor}"
            lines += [f"{'#' * level} {docstrings.escape(f'{short}.{name}')} {{ #{anchor} }}", "", "```python",
                      signature(short.lower() if name == "__call__" else name, called, None,
                                method=not isinstance(member, staticmethod)), "```", "",
                      *docstrings.render(said, types(called), level=level)]
        if brief:
            lines += ["**In short**", "", "| name | what it is |", "|---|---|", *brief, ""]
        return lines

    # ------------------------------------------------------------ the first page, the navigation
    def _index(self) -> None:
        lines = ["# API reference", "", "`mx` is `mxjax`, or `mxnet` under the alias. The pages are made from the "
                 f"modules themselves when the site is built: {self.count} names. Operators, layers, losses, "
                 "optimizers, metrics and iterators have a page each; the search finds them by name.", "",
                 "## Functions, a page each", "", "| module | what it has |", "|---|---|"]
        lines += [f"| [`mx.{p}`]({p.replace('.', '/')}/index.md) | {said} |" for p, said in FAMILIES.items()]
        for group, members in MODULES.items():
            lines += ["", f"## {group}", "", "| module | what it has |", "|---|---|",
                      *(f"| [`mx.{p}`]({_index(p).removeprefix('api/')}) | {said} |" for p, said in members.items())]
        lines += ["", "## Of the package itself", "", "| name | what it is |", "|---|---|"]
        for name in ("Context", "cpu", "gpu", "tpu", "cpu_pinned", "current_context", "gpu_memory_info", "num_gpus",
                     "num_tpus", "MXNetError", "AttrScope", "clear_caches"):
            said = _summary(getattr(mx, name))
            found = self.where.get(getattr(mx, name))
            shown = f"[`mx.{name}`]({found[1].removeprefix('api/')})" if found else f"`mx.{name}`"
            lines.append(f"| {shown} | {said} |")
        self.pages["api/index.md"] = "\n".join([*lines, ""])

    def navigation(self) -> list[Any]:
        """The part of the navigation for these pages."""
        families = [{f"mx.{p}": f"api/{p.replace('.', '/')}/index.md"} for p in FAMILIES]
        return ["api/index.md", {"Functions": families},
                *({group: [{f"mx.{p}": _index(p)} for p in members]} for group, members in MODULES.items())]
