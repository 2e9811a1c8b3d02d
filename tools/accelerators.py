"""Compiles every operator for accelerators that are not here: forward and backward in one program.

    python tools/accelerators.py --on h100 --on v5e:1x1 [--only REGEX] [--jobs N] [--out FILE] [--table FILE]

Calls are those of `operator_calls.jsonl`: an operator, shapes and dtypes of its inputs, parameters, whether it trains.
Outcomes go to FILE, a line each, and what is there already is not compiled again. The table says of each operator what
came of its calls. Needs XLA's compilers: `mxjax[cuda12]` for GPUs, `mxjax[plan-tpu]` for TPUs.
"""

import argparse
import collections
import importlib.util
import json
import os
import queue
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import topologies

from mxjax import sym
from mxjax._xla.x64 import X64_NAMES
from mxjax.executor.jax_function import JaxFunction
from mxjax.kernel.kernel import prepare
from mxjax.kernel.xla import options_on
from mxjax.ops import registry
from mxjax.ops.params import np_dtype
from mxjax.passes.division import with_quotients
from mxjax.passes.precision import with_precision
from mxjax.passes.rewriting import rewritten
from mxjax.plan import targets as devices

HERE = Path(__file__).parent
CALLS = HERE / "operator_calls.jsonl"
BY_HAND = "<!-- by hand from here on -->"
SECONDS = 300  # a program may take to compile
HOLDING = ("_foreach", "_while_loop", "_cond", "_CachedOp")  # operators that hold graphs


def installed(package: str) -> bool:
    """Whether a compiler's package is there, by its module's name."""
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:
        return False


def key(target: str, call: list) -> str:
    """What identifies an outcome."""
    return json.dumps([target, *call])


# ---------------------------------------------------------------- in a process of its own
def work(target: str) -> None:
    """Compiles the calls on standard input, a line each; answers with a line each."""
    found = devices.target(target)
    platform = found.device.platform
    place = jax.sharding.SingleDeviceSharding(
        topologies.get_topology_desc(platform=platform, **found.description).devices[0])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        started = time.time()
        try:
            outcome = compiled(json.loads(line), platform, place)
        except Exception as error:  # noqa: BLE001
            outcome = {"refused": f"{type(error).__name__}: {error}"[:600]}
        answers.write(json.dumps({**outcome, "seconds": round(time.time() - started, 2)}) + "\n")
        answers.flush()


def arguments(op, params: dict, count: int) -> dict:
    """The parameters of a recorded call with `count` inputs, as a caller gives them."""
    given = {k: tuple(v) if isinstance(v, list) else v for k, v in params.items()}
    return {op.variadic: count, **given} if op.variadic in op.params else given


def graphs() -> dict:
    """A graph for each operator that holds graphs, with the shapes of its inputs."""
    data, state, more = sym.var("data"), sym.var("state"), sym.var("more")
    shapes = {"data": (4, 8), "state": (8,)}
    return {
        "_foreach": (sym.contrib.foreach(lambda x, s: (x * s, x + s), data, state)[0], shapes),
        "_while_loop": (sym.contrib.while_loop(lambda s: s.sum() < 100, lambda s: (s, [s * 2]), [state],
                                               max_iterations=4)[0][0], {"state": (8,)}),
        "_cond": (sym.contrib.cond(more.sum() > 0, lambda: state * 2, lambda: sym.exp(state)),
                  {"more": (2,), "state": (8,)}),
        "_CachedOp": (sym._internal._CachedOp(state, more, subgraph=sym.exp(state) * more),
                      {"state": (8,), "more": (8,)}),
    }


def program_of(call: list) -> tuple:
    """(function of arrays, their shapes and dtypes, shapes and dtypes of keys, whether anything is of 64 bits) of a
    call; or (None, why it runs on the host)."""
    name, inputs, params, train = call
    op = registry.get(name)
    if op.get_attr("FHost") is not None:
        return None, "Python or OpenCV computes it"
    if name in HOLDING:
        graph, shapes = graphs()[name]
        function = JaxFunction(graph)
        return (lambda *arrays: function(dict(zip(function.arg_names, arrays, strict=True)), train=train)[0],
                [jax.ShapeDtypeStruct(shapes[n], "float32") for n in function.arg_names], [], False)
    values = op.parse(arguments(op, params, len(inputs)))
    kernel = prepare(op, values, len(inputs), train)
    if kernel.eager:
        return None, "the shape of its result, or whether the call is valid, depends on values"
    x64 = kernel.x64 or any(t in X64_NAMES for _, t in inputs)
    extras = [np.asarray(e) for e in kernel.extras(values, x64)]
    keys = [jax.ShapeDtypeStruct((2,), "uint32"), jax.ShapeDtypeStruct((), "uint32")] if kernel.uses_key else []
    return (lambda *arrays: kernel.fn(*arrays[:len(inputs)], *extras, *arrays[len(inputs):]),
            [jax.ShapeDtypeStruct(tuple(s), np_dtype(t)) for s, t in inputs], keys, x64)


def compiled(call: list, platform: str, place) -> dict:
    """What came of compiling a call, with its backward where it has one."""
    function, structs, *rest = program_of(call)
    if function is None:
        return {"host": structs}
    keys, x64 = rest
    smooth = [i for i, s in enumerate(structs) if jnp.issubdtype(s.dtype, jnp.floating)]

    def both(*arrays):
        def forward(*chosen):
            given = list(arrays)
            for i, value in zip(smooth, chosen, strict=True):
                given[i] = value
            return [o for o in function(*given) if jnp.issubdtype(o.dtype, jnp.floating)]
        outputs = function(*arrays)
        heads, back = jax.vjp(forward, *[arrays[i] for i in smooth])
        return outputs, back([jnp.ones_like(h) for h in heads]) if heads else ()
    given = [jax.ShapeDtypeStruct(s.shape, s.dtype, sharding=place) for s in (*structs, *keys)]
    with jax.enable_x64(x64):
        outcome = {}
        for each in (both, function):
            try:
                program = jax.jit(rewritten(each, with_quotients, with_precision)).trace(*given)
                program.lower(lowering_platforms=(platform,)).compile(options_on(platform) or None)
                return {**outcome, "compiled": "forward and backward" if each is both and smooth else "forward"}
            except Exception as error:  # noqa: BLE001  the forward alone may still do
                outcome.setdefault("backward refused", f"{type(error).__name__}: {error}"[:600])
        return {"refused": outcome["backward refused"]}


# ---------------------------------------------------------------- the command
class Worker:
    """A process that compiles; started anew where it dies or hangs."""

    def __init__(self, target: str) -> None:
        self._target, self._process = target, None

    def ask(self, call: list) -> dict:
        """The outcome of a call."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, __file__, "--worker", self._target], text=True, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=devices.target(self._target).environment())
            self._lines: queue.Queue = queue.Queue()
            threading.Thread(target=self._read, args=(self._process, self._lines), daemon=True).start()
        try:
            self._process.stdin.write(json.dumps(call) + "\n")
            self._process.stdin.flush()
            line = self._lines.get(timeout=SECONDS)
        except (OSError, queue.Empty):
            line = None
        if line:
            return json.loads(line)
        self.stop()
        return {"refused": "the compiler died, or took too long"}

    @staticmethod
    def _read(process, lines):
        for line in process.stdout:
            lines.put(line)
        lines.put(None)

    def stop(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def run(targets: list, calls: list, known: dict, jobs: int, take) -> None:
    """Compiles what is not known; hands (key, outcome) to `take`."""
    waiting: queue.Queue = queue.Queue()
    for target in targets:
        for call in calls:
            if key(target, call) not in known:
                waiting.put((target, call))
    lock = threading.Lock()

    def serve():
        workers: dict = {}
        while True:
            try:
                target, call = waiting.get_nowait()
            except queue.Empty:
                break
            outcome = workers.setdefault(target, Worker(target)).ask(call)
            with lock:
                take(key(target, call), outcome)
        for worker in workers.values():
            worker.stop()
    threads = [threading.Thread(target=serve) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def table(targets: list, calls: list, known: dict) -> str:
    """What came of the calls, as Markdown."""
    lines = ["# Operators on accelerators", "",
             "XLA's compilers compiled the calls of every operator for devices that the machine does not have, "
             "forward and backward in one",
             "program. `make accelerators` generates this page. It says nothing about the time that they take.", "",
             "## How many operators compile", "",
             "| target | operators | compiled | on the host | do not compile |", "|---|---|---|---|---|"]
    exceptions = []
    for target in targets:
        outcomes = collections.defaultdict(list)
        for call in calls:
            if key(target, call) in known:
                outcomes[call[0]].append((call, known[key(target, call)]))
        host = [n for n, rows in outcomes.items() if all("host" in o for _, o in rows)]
        bad = [n for n, rows in outcomes.items()
               if any({"refused", "backward refused"} & set(o) for _, o in rows)]
        rest = max(len(outcomes) - len(host), 1)
        good = rest - len(bad)
        lines.append(f"| {target} | {len(outcomes)} | {good} ({100 * good / rest:.1f} %) | {len(host)} | {len(bad)} |")
        for name in sorted(bad):
            for call, outcome in outcomes[name]:
                said = outcome.get("refused") or outcome.get("backward refused")
                if said:
                    what = "" if "refused" in outcome else "backward: "
                    exceptions.append(f"| {target} | `{name}` | {call[1]} | {what}{said.splitlines()[0][:160]} |")
    hosts = {call[0]: known[key(t, call)]["host"] for t in targets for call in calls
             if "host" in known.get(key(t, call), ())}
    lines += ["", "## Operators that do not compile", ""]
    lines += ["| target | operator | inputs | why |", "|---|---|---|---|", *exceptions] if exceptions else ["None."]
    lines += ["", "## Operators that run on the host", "", "| operator | why |", "|---|---|"]
    lines += [f"| `{name}` | {why} |" for name, why in sorted(hosts.items())]
    return "\n".join(lines) + "\n"


def write(page: Path, text: str) -> None:
    """Replaces the generated part of a page, and keeps what follows BY_HAND."""
    _, mark, kept = (page.read_text(encoding="utf-8") if page.exists() else "").partition(BY_HAND)
    page.write_text(f"{text.rstrip()}\n\n{mark}{kept}" if mark else text, encoding="utf-8")


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--on", action="append", help="a device: h100, v5e:1x1 ...; default both of these")
    parser.add_argument("--only", default="", help="a regular expression for the operators")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--out", default="accelerators.jsonl", help="outcomes; those that are there are kept")
    parser.add_argument("--table", help="where the table goes")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        work(given.worker)
        return 0
    targets = given.on or ["h100", "v5e:1x1"]
    calls = [json.loads(line) for line in CALLS.read_text(encoding="utf-8").splitlines()]
    hosts = {registry.get(name).name for name in registry.names() if registry.get(name).get_attr("FHost")}
    calls += [[name, [], {}, True] for name in (*HOLDING, *sorted(hosts - {call[0] for call in calls}))]
    calls = [call for call in calls if re.search(given.only, call[0])]
    out, known = Path(given.out), {}
    if out.exists():
        known = {row["key"]: row["outcome"] for row in map(json.loads, out.read_text(encoding="utf-8").splitlines())}
    with out.open("a", encoding="utf-8") as file:
        def take(name, outcome):
            known[name] = outcome
            file.write(json.dumps({"key": name, "outcome": outcome}) + "\n")
            file.flush()
        run(targets, calls, known, given.jobs, take)
    text = table(targets, calls, known)
    if given.table:
        write(Path(given.table), text)
    print(text.split("\n## Operators that run on the host")[0])
    return 0


if __name__ == "__main__":
    sys.exit(main())
