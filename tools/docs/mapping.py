"""The map: every public name of MXNet 1.9.1 and 2, its page here, and what replaces it elsewhere.

    python tools/docs/mapping.py 1.9.1=INVENTORY.json 2.0.0b1=INVENTORY.json   # writes names.json again
    MXJAX_API=2 python tools/docs/mapping.py                                   # prints which of them are here
"""

import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

NAMES = Path(__file__).with_name("names.json")  # {version: {module: its public names}}
_LONG = {"ndarray": "nd", "symbol": "sym", "numpy": "np", "numpy_extension": "npx", "initializer": "init",
         "module": "mod", "kvstore": "kv", "visualization": "viz"}
# where MXNet 2 has what stood elsewhere in 1.9.1
_MOVED = {"metric": "gluon.metric", "contrib.amp": "amp", "contrib.onnx": "onnx", "context": "device",
          "gluon.contrib.nn": "gluon.nn", "gluon.contrib.rnn": "gluon.rnn", "gluon.contrib.cnn": "gluon.nn"}
_ONLY_2 = ("amp", "device", "gluon.metric", "gluon.probability", "npx.random", "gluon.data.batchify")


def short(module: str) -> str:
    """A module by the name that users write: "nd.contrib" for "mx.ndarray.contrib"."""
    first, _, rest = module.removeprefix("mx").removeprefix(".").partition(".")
    return ".".join(p for p in (_LONG.get(first, first), rest) if p)


def names() -> dict[str, dict[str, list[str]]]:
    """Returns the committed inventory: {version: {module: names}}."""
    return {version: {module: text.split() for module, text in modules.items()}
            for version, modules in json.loads(NAMES.read_text(encoding="utf-8")).items()}


def flat() -> list[set[str]]:
    """Returns the names of each version, with their modules and without "mx."."""
    return [{f"{module}.{name}".strip(".") for module, listed in modules.items() for name in listed}
            for modules in names().values()]


def present() -> set[str]:
    """Returns the names that are here at one level or the other; each level has a process of its own."""
    found: set[str] = set()
    for level in "12":
        done = subprocess.run([sys.executable, __file__], cwd=os.path.dirname(__file__), check=True, text=True,
                              stdout=subprocess.PIPE, env={**os.environ, "MXJAX_API": level, "JAX_PLATFORMS": "cpu"})
        found |= set(json.loads(done.stdout))
    return found


def _here(name: str) -> bool:
    """Returns whether mxjax has a name at this process's level."""
    holder: Any = importlib.import_module("mxjax")
    for part in name.split("."):
        try:
            holder = getattr(holder, part)
        except AttributeError:
            try:
                holder = importlib.import_module(f"{holder.__name__}.{part}")
            except (ImportError, AttributeError):
                return False
    return True


def rows(pages: Mapping[str, str], here: set[str], differing: Iterable[str], find: Any) -> list[list[str]]:
    """Returns the table.

    Args:
        pages: page of the reference by full name, such as "mx.nd.softmax".
        here: the names that mxjax has.
        differing: last parts of names that the page of differences speaks of.
        find: function(name) -> its counterpart or None.

    Returns:
        For each name: in MXNet 1.9.1, in MXNet 2, page, "differs" or "not here", JAX, PyTorch, note. Symbols' names
        stand with those of arrays.
    """
    old, new = flat()
    told, found = set(differing), []
    for name in sorted(old | new, key=lambda n: (n.lower(), n)):
        module, _, last = name.rpartition(".")
        if module.split(".")[0] == "sym" and name.replace("sym", "nd", 1) in old | new:
            continue
        if name in new and name not in old and _came_from(name) in old:
            continue  # stands in the row of its old name
        later = name if name in new else next((n for n in (_moved(name),) if n in new), "")
        page = next((pages[f"mx.{n}"] for n in (name, later) if f"mx.{n}" in pages), "")
        state = "not here" if name not in here and later not in here else "differs" if last in told else ""
        found.append([f"mx.{name}" if name in old else "", f"mx.{later}" if later else "", page.replace(".md", ".html"),
                      state, *(find(name) or ("", "", ""))])
    return found


def searched(pages: Mapping[str, str], table: list[list[str]]) -> list[list[str]]:
    """Returns the names that the search knows, each with its page: aliases, MXNet's, and PyTorch's of layers."""
    found = {name: page.replace(".md", ".html") for name, page in pages.items()}
    for old, new, page, _, _, torch, _ in table:
        for name in (old, new):
            if name and page:
                found.setdefault(name, page)
        if page.startswith(("api/gluon", "api/optimizer", "api/metric")) and re.fullmatch(r"torch[\w.]+", torch):
            found.setdefault(torch, page)
    return sorted(map(list, found.items()))


def _moved(name: str) -> str:
    for before, after in _MOVED.items():
        if name.startswith(f"{before}."):
            return after + name[len(before):]
    return name


def _came_from(name: str) -> str:
    for before, after in _MOVED.items():
        if name.startswith(f"{after}.") and not before.startswith("gluon.contrib"):
            return before + name[len(after):]
    return ""


# words that the page of differences uses without a function of that name being meant
_COMMON = {"mean", "data", "dtype", "out", "name", "shape", "seed", "register", "backward", "record", "pad", "init",
           "pick", "ones", "zeros", "cpu", "reshape", "gamma", "indices", "np", "Symbol"}


def mentioned(text: str) -> set[str]:
    """Returns the last parts of names that stand as code in a page: "clip" for `mx.nd.clip(x)`."""
    spans = re.findall(r"`([A-Za-z_][\w.]*)(?:\([^`]*\))?`", text)
    return {span.rpartition(".")[2] for span in spans} - _COMMON


def inventory(given: dict[str, Path], kept: set[str]) -> dict[str, dict[str, str]]:
    """Returns the names of inventories, those of `kept` modules, as the committed file has them."""
    found: dict[str, dict[str, str]] = {}
    for version, path in given.items():
        modules = json.loads(path.read_text(encoding="utf-8"))["modules"]
        found[version] = {
            short(module): " ".join(sorted(n for n, what in value["names"].items() if what.get("kind") != "module"
                                           and not n.startswith("_")))
            for module, value in modules.items() if short(module) in kept}
    return found


def main() -> int:
    """Writes names.json from the inventories of the command line; without any prints the names that are here."""
    if len(sys.argv) == 1:
        print(json.dumps(sorted(filter(_here, set().union(*flat())))))
        return 0
    import reference  # imports MXNet's names at level 1

    kept = {"", *_ONLY_2, *reference.FAMILIES, *(path for group in reference.MODULES.values() for path in group)}
    given = dict(argument.split("=", 1) for argument in sys.argv[1:])
    made = inventory({version: Path(path) for version, path in given.items()}, kept - {"base", "libinfo"})
    NAMES.write_text(json.dumps(made, indent=0, sort_keys=True) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
