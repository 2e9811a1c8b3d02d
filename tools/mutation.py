"""Changes single lines of the package at random and tells which changes no test notices.

    python tools/mutation.py --sample 120 --seed 1 [--rooms io kvstore] [--out mutants.json] [--covered folder]

The sources are copied to a temporary folder and changed there. Each mutant is run against the tests that run its line,
where --covered names what `covered.py` wrote, else against those that are nearest to its file, up to the first failure.
Results are kept in the file of --out: a run that was interrupted goes on, and --again tries survivors another time,
such as those of the nearest tests with --covered.
"""

import argparse
import ast
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
# Tests of each file or folder of the package, the nearest first; a file's own `test_NAME.py` comes before them.
TESTS = {
    "__init__.py": ["test_imports.py", "test_surprises.py", "level"],
    "_random": ["random", "ops/test_random_on_host.py", "numpy/test_random_on_host.py", "ops/test_draw.py"],
    "_support": ["support", "test_recordio.py", "image", "array/test_files.py", "test_c_api.py"],
    "_xla": ["xla", "test_traffic.py", "kernel"],
    "array": ["array", "interop/test_arrays.py", "numpy/test_array.py", "test_surprises.py"],
    "autograd": ["autograd"],
    "contrib": ["contrib", "ops/test_quantized.py"],
    "eager": ["eager", "array", "autograd"],
    "engine": ["engine"],
    "executor": ["executor", "symbol"],
    "gluon": ["gluon/test_block.py", "gluon/test_layers.py", "gluon/test_trainer.py", "gluon/test_contrib.py",
              "gluon/test_names_of_two.py"],
    "gluon/data": ["gluon/test_data.py", "gluon/test_data_vision.py", "gluon/test_data_sources.py", "data"],
    "gluon/loss.py": ["gluon/test_loss.py", "gluon/test_probability.py"],
    "gluon/_np_loss.py": ["gluon/test_loss.py", "gluon/test_names_of_two.py"],
    "gluon/probability": ["gluon/test_probability.py"],
    "gluon/metric.py": ["gluon/test_metric.py", "test_metric.py"],
    "gluon/rnn": ["gluon/test_rnn_cells.py", "gluon/test_layers.py", "test_rnn.py"],
    "graph": ["graph/test_infer.py", "graph/test_subgraph.py", "symbol", "executor", "graph"],
    "image": ["image", "test_io.py", "data/test_resume.py"],
    "initializer.py": ["test_initializer.py", "gluon/test_parameter.py"],
    "interop": ["interop"],
    "interpret": ["interpret"],
    "io": ["test_io.py", "io", "data/test_resume.py", "data/test_parts.py"],
    "kernel": ["kernel", "interpret/test_rules.py", "ops/test_elemwise.py", "executor/test_cached_op.py"],
    "kvstore": ["kvstore/test_environment.py", "kvstore/test_secret.py", "kvstore/test_cluster.py", "test_kvstore.py",
                "kvstore/test_waiting.py", "kvstore/test_dist_async.py", "kvstore/test_dist_sync.py",
                "kvstore/test_failure.py"],
    "metric.py": ["test_metric.py", "gluon/test_metric.py"],
    "module": ["test_module.py", "test_callback.py"],
    "numpy": ["numpy"],
    "onnx": ["onnx"],
    "operator": ["operator"],
    "ops/linalg": ["ops/test_linalg.py", "ops/test_matrix.py", "ops"],
    "ops/nn": ["ops/test_nn.py", "ops/test_norm.py", "ops/test_fused_rnn.py", "gluon/test_layers.py", "ops"],
    "ops/np": ["numpy", "ops/test_linalg.py", "ops/test_indexing.py", "ops/test_elemwise.py"],
    "ops/reduce": ["ops/test_reduce.py", "ops/test_indexing.py", "ops"],
    "ops/shape": ["ops/test_matrix.py", "ops/test_indexing.py", "ops"],
    "ops/training": ["ops/test_optimizer_op.py", "test_optimizer.py"],
    "ops/vision": ["ops/test_spatial.py", "ops/test_detection.py", "ops/test_image.py", "ops/test_resize.py"],
    "ops": ["ops"],
    "optimizer": ["test_optimizer.py", "ops/test_optimizer_op.py", "gluon/test_trainer.py", "test_defaults.py"],
    "passes": ["passes"],
    "recordio.py": ["test_recordio.py", "test_io.py", "tools/test_rec.py"],
    "rnn": ["test_rnn.py"],
    "serving": ["serving"],
    "symbol": ["symbol", "numpy/test_symbols_with_numbers.py", "executor/test_executor.py"],
    "test_utils": ["test_test_utils.py", "ops/test_sparse.py", "array/test_sparse.py"],
    "tools": ["tools"],
    "tools/serve_ray.py": ["serving/test_serve_ray.py", "serving/test_serve_tool.py"],
    "tools/source": ["tools/test_convert_source.py"],
    "workers": ["gluon/test_data.py", "io"],
}

# of what an import defines: names, parameters, defaults
TABLES = ["tests/test_defaults.py", "tests/test_names.py", "tests/ops/test_attributes.py",
          "tests/ops/test_operators.py", "tests/test_options.py"]

OPERATORS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitAnd,
}
CONSTANTS = {bool: lambda value: not value, int: lambda value: value + 1, float: lambda value: value * 2 + 1,
             str: lambda value: value + "?"}
PLACES = (ast.Attribute, ast.Subscript)  # an assignment to a name is missed by whatever uses the name
MOST_TESTS = 60  # of those that run a line
LEVEL_2 = "tests/level/two/"  # tests that run in a process of MXNet 2's level
STATEMENTS = (ast.Expr, ast.AugAssign, ast.Raise, ast.Delete, ast.Break, ast.Continue)


class Mutant(NamedTuple):
    """One change of one file: the bytes from `start` to `end` become `after`."""

    file: str
    line: int
    start: int
    end: int
    before: str
    after: str

    @property
    def key(self) -> str:
        return f"{self.file}:{self.line}: {self.before} -> {self.after} at {self.start}"


def mutants(file: str, source: str) -> Iterator[Mutant]:
    """Yields all mutants of a module: `file` is its path in the package."""
    starts = [0, *itertools.accumulate(len(line.encode()) for line in source.splitlines(keepends=True))]
    content = source.encode()

    def place(node):
        return (starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset)

    tree = ast.parse(source)
    defaults = {id(value) for node in ast.walk(tree) if isinstance(node, ast.arguments)
                for value in (*node.defaults, *node.kw_defaults)}
    for node in _nodes(tree):
        start, end = place(node)
        for after in _changes(node):
            before = content[start:end].decode()
            if id(node) in defaults:
                before += " (default)"
            yield Mutant(file, node.lineno, start, end, " ".join(before.split()), after)


def _nodes(node) -> Iterator[ast.AST]:
    """Nodes whose change can change what a program does; texts of errors, types and documentation are left out."""
    if isinstance(node, (ast.expr, ast.stmt)):
        yield node
    if isinstance(node, (ast.Raise, ast.JoinedStr, ast.Import, ast.ImportFrom)):
        return
    if isinstance(node, ast.keyword) and node.arg == "help":
        return
    skipped = {"annotation", "returns"} if not isinstance(node, ast.Call) or not _is_message(node) else {"args"}
    words = isinstance(node, (ast.Compare, ast.Attribute))  # of a condition or a method: these are read by the program
    if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in ("__all__", "__slots__"):
        return
    if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
        return
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and name not in skipped and (words or not _is_documentation(child)):
                yield from _nodes(child)


def _is_message(call: ast.Call) -> bool:
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    return name.endswith(("Error", "Warning")) or name in ("warn", "warning", "TypeVar", "cast")


def _is_documentation(node) -> bool:
    """Tells strings that only readers see: docstrings, and constants of several words that are no template."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and "{" not in node.value and \
        " " in node.value.strip() and any(map(str.isalnum, node.value))


def _changes(node) -> Iterator[str]:
    """Sources that may stand instead of a node."""
    if isinstance(node, ast.Compare):
        for at, operator in enumerate(node.ops):
            ops = [*node.ops[:at], OPERATORS[type(operator)](), *node.ops[at + 1:]]
            yield _written(ast.Compare(node.left, ops, node.comparators))
    elif isinstance(node, ast.BoolOp):
        yield _written(ast.BoolOp(OPERATORS[type(node.op)](), node.values))
    elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        if not isinstance(node.left, ast.JoinedStr) and not isinstance(getattr(node.left, "value", None), str):
            yield _written(ast.BinOp(node.left, OPERATORS[type(node.op)](), node.right))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        yield _written(node.operand)
    elif isinstance(node, ast.Constant) and type(node.value) in CONSTANTS:
        yield repr(CONSTANTS[type(node.value)](node.value))
    elif isinstance(node, ast.Return) and node.value and getattr(node.value, "value", node) is not None:
        yield "return None"
    elif isinstance(node, STATEMENTS) or (isinstance(node, ast.Assign) and isinstance(node.targets[0], PLACES)):
        yield "pass"


def _written(node) -> str:
    return f"({ast.unparse(node)})"


def chosen(root: Path, rooms: list[str], count: int, seed: int) -> list[Mutant]:
    """Draws among all mutants of the rooms, which are paths in the package (none: of the package)."""
    found = []
    for room in rooms or [""]:
        path = root / "mxjax" / room
        files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
        found += [(file.relative_to(root / "mxjax").as_posix(), file.read_text(encoding="utf-8")) for file in files]
    every = [mutant for file, source in dict(found).items() for mutant in mutants(file, source)]
    return random.Random(seed).sample(every, min(count, len(every)))


def nearest(root: Path, file: str) -> list[str]:
    """Returns the tests of a file of the package, the nearest first."""
    path = Path(file)
    own = [f"tests/{folder}/test_{path.stem.strip('_')}.py" for folder in (path.parent.as_posix(), ".")]
    rooms = [place.as_posix() for place in (path, *path.parents)]
    table = next((TESTS[room] for room in rooms if room in TESTS), [])
    found = [os.path.normpath(test) for test in (*own, *(f"tests/{test}" for test in table)) if (root / test).exists()]
    return list(dict.fromkeys(found)) or ["tests"]


def read_covered(folder: Path) -> dict[str, dict[int, list]]:
    """Returns the (number of lines run, test) pairs of every line of every file, from all of a run's processes."""
    covered: dict[str, dict[int, list]] = {}
    for path in folder.glob("*.json"):
        for file, lines in json.loads(path.read_text(encoding="utf-8")).items():
            for line, tests in lines.items():
                covered.setdefault(file, {}).setdefault(int(line), []).extend(tests)
    return covered


def covering(lines: dict[int, list], source: str, line: int) -> list[str]:
    """Returns the tests that run a line or, if none does, the smallest piece of code around it that some do.

    Those that run the fewest lines besides come first; there are at most `MOST_TESTS`.
    """
    pieces = [(node.lineno, node.end_lineno) for node in ast.walk(ast.parse(source))
              if isinstance(node, ast.stmt) and node.lineno <= line <= node.end_lineno]
    for first, last in ((line, line), *sorted(pieces, key=lambda piece: piece[1] - piece[0]), (1, sys.maxsize)):
        sizes = {test: size for at, tests in lines.items() if first <= at <= last for size, test in tests}
        if sizes:
            return sorted(sizes, key=sizes.__getitem__)[:MOST_TESTS]
    return []


def tests_of(root: Path, mutant: Mutant, lines: dict[int, list]) -> list[str]:
    """Returns the tests of a mutant, given those of its file's lines.

    Lines that no test runs may run with the import, so the tests of tables come before those around them.
    """
    source = (root / "mxjax" / mutant.file).read_text(encoding="utf-8")
    found = covering(lines, source, mutant.line) or nearest(root, mutant.file)
    tables = [] if mutant.line in lines else [test for test in TABLES if (root / test).exists()]
    return [*tables, *(test for test in found if test not in tables)]


def run(root: Path, tests: list[str], limit: float) -> tuple[str, str]:
    """Runs tests in a copy of the tree: ("passed", "failed" or "timed out", the test that failed)."""
    outcome = "passed", ""
    for level in ("1", "2"):  # a process has one level of the API
        own = [test for test in tests if test.startswith(LEVEL_2) == (level == "2")]
        if own and outcome[0] == "passed":
            outcome = _run(root, own, limit, {"MXJAX_API": level} if level == "2" else {})
    return outcome


def _run(root: Path, tests: list[str], limit: float, more: dict[str, str]) -> tuple[str, str]:
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=no", "-rfE"]
    environment = {**os.environ, "PYTHONPATH": str(root), "PYTHONPYCACHEPREFIX": str(root / "bytecode"),
                   **more}
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen([*command, *tests], cwd=root, env=environment, start_new_session=True,
                                   stdout=output, stderr=subprocess.STDOUT)
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            return "timed out", ""
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)  # with the processes that tests began
            except ProcessLookupError:
                pass
            process.wait()
        output.seek(0)
        told = [line.rstrip().split(" - ")[0] for line in output if line.startswith(("FAILED ", "ERROR "))]
    return ("failed" if status else "passed"), (told[0].split(" ", 1)[1] if told else "")


def tried(root: Path, mutant: Mutant, tests: list[str], limit: float, number: int) -> tuple[str, str]:
    """Runs the tests with a mutant in place and puts the file back."""
    path = root / "mxjax" / mutant.file
    original, status = path.read_bytes(), path.stat()
    path.write_bytes(original[:mutant.start] + mutant.after.encode() + original[mutant.end:])
    os.utime(path, (number, number))  # compiled files are found by time and size, and mutants may share both
    try:
        outcome, test = run(root, tests, limit)
    finally:
        path.write_bytes(original)
        os.utime(path, (status.st_atime, status.st_mtime))
    return {"passed": "survived", "failed": "killed"}.get(outcome, outcome), test


def main(given: list[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=120, help="how many mutants are drawn")
    parser.add_argument("--seed", type=int, default=0, help="the same seed draws the same mutants of the same sources")
    parser.add_argument("--rooms", nargs="*", default=[], help="folders and files of the package; all without it")
    parser.add_argument("--limit", type=float, default=300, help="seconds that the tests of a mutant may take")
    parser.add_argument("--again", action="store_true", help="try those that were not killed another time")
    parser.add_argument("--covered", type=Path, help="a folder of `covered.py`: the tests of each line")
    parser.add_argument("--out", type=Path, default=Path("mutants.json"), help="the results, as JSON")
    asked = parser.parse_args(given)
    results = json.loads(asked.out.read_text(encoding="utf-8")) if asked.out.exists() else {}
    covered = read_covered(asked.covered) if asked.covered else {}
    counts: Counter = Counter()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "tree"
        shutil.copytree(root, copy, ignore=shutil.ignore_patterns(".*", "__pycache__", "site", "build", "dist"))
        for number, mutant in enumerate(chosen(copy, asked.rooms, asked.sample, asked.seed), 1):
            known = results.get(mutant.key)
            if known is None or (asked.again and known["outcome"] != "killed"):
                tests = tests_of(copy, mutant, covered.get(mutant.file, {}))
                outcome, test = tried(copy, mutant, tests, asked.limit, number)
                results[mutant.key] = known = {"outcome": outcome, "test": test}
                asked.out.write_text(json.dumps(results, indent=1), encoding="utf-8")
            counts[known["outcome"]] += 1
            print(f"{known['outcome']:9} {mutant.key} {known['test']}", flush=True)
        killers = sorted({known["test"] for known in results.values()} - {""})
        outcome, test = run(copy, killers, 3600) if killers else ("passed", "")
        if outcome != "passed":
            print(f"{test} fails without a mutant, too: what it killed may have survived")
    print(", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())), f"of {counts.total()};",
          f"killed: {100 * counts['killed'] / max(counts.total(), 1):.0f} %")
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the copy is removed, and tests that run are ended
    sys.exit(main())
