"""Compiles every operator for accelerators that are not here: forward and backward in one program.

    python tools/accelerators.py --on h100 --on v5e:1x1 [--only REGEX] [--jobs N] [--out FILE] [--table FILE]

Calls are those of `operator_calls.jsonl`: an operator, shapes and dtypes of its inputs, parameters, whether it trains.
Outcomes go to FILE, a line each, and what is there already is not compiled again. The table says of each operator what
came of its calls. Needs XLA's compilers: `mxjax[cuda12]` for GPUs, `mxjax[plan-tpu]` for TPUs.
"""

import argparse
import collections
import json
import os
import queue
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).parent
CALLS = HERE / "operator_calls.jsonl"
SECONDS = 300  # a program may take to compile


def key(target: str, call: list) -> str:
    """What identifies an outcome."""
    return json.dumps([target, *call])


# ---------------------------------------------------------------- in a process of its own
def prepare(target: str) -> None:
    """Sets the environment; before JAX is imported."""
    os.environ.update(JAX_PLATFORMS="cpu", CUDA_VISIBLE_DEVICES="-1", JAX_SKIP_CUDA_CONSTRAINTS_CHECK="1",
                      TF_CPP_MIN_LOG_LEVEL="2")
    if ":" in target:
        os.environ.update(TPU_ACCELERATOR_TYPE="v5litepod-4" if target.startswith("v5e") else "v6e-4",
                          TPU_WORKER_HOSTNAMES="localhost", TPU_SKIP_MDS_QUERY="1", ALLOW_MULTIPLE_LIBTPU_LOAD="1")


def work(target: str) -> None:
    """Compiles the calls on standard input, a line each; answers with a line each."""
    prepare(target)
    import jax
    from jax.experimental import topologies

    from mxjax.plan import target as device
    found = device(target)
    platform = found.device.platform
    shape = {"topology": found.topology, "target_config": found.device.chip["config"]} if platform == "cuda" else \
        {"topology_name": found.topology}
    place = jax.sharding.SingleDeviceSharding(
        topologies.get_topology_desc(platform=platform, **shape).devices[0])
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


def parsed(op, params: dict, count: int) -> dict:
    """The parameters of a call with `count` inputs, as the operator wants them."""
    given = {k: tuple(v) if isinstance(v, list) else v for k, v in params.items()}
    return op.parse({op.variadic: count, **given} if op.variadic in op.params else given)


def compiled(call: list, platform: str, place) -> dict:
    """What came of compiling a call, with its backward where it has one."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    from mxjax.compile.compiled import PLAIN_PRODUCTS, STUMBLES
    from mxjax.compile.division import with_quotients
    from mxjax.compile.kernel import prepare as kernel_of
    from mxjax.compile.precision import with_precision
    from mxjax.compile.rewriting import rewritten
    from mxjax.ops import registry
    from mxjax.ops.params import WIDE, np_dtype
    name, inputs, params, train = call
    op = registry.get(name)
    values = parsed(op, params, len(inputs))
    if op.get_attr("FHost") is not None:
        return {"host": "it is Python's or OpenCV's work on the host"}
    kernel = kernel_of(op, values, len(inputs), train)
    if kernel.eager:
        return {"host": "its result's shape, or whether it is allowed, depends on values"}
    structs = [jax.ShapeDtypeStruct(tuple(s), np_dtype(t), sharding=place) for s, t in inputs]
    wide = kernel.wide or any(t in WIDE for _, t in inputs)
    extras = [np.asarray(e) for e in kernel.extras(values, wide)]
    keys = [jax.ShapeDtypeStruct((2,), "uint32", sharding=place), jax.ShapeDtypeStruct((), "uint32", sharding=place)] \
        if kernel.uses_key else []
    smooth = [i for i, s in enumerate(structs) if jnp.issubdtype(s.dtype, jnp.floating)]

    def both(*arrays):
        arrays, rest = list(arrays[:len(structs)]), [*extras, *arrays[len(structs):]]

        def forward(*chosen):
            for i, value in zip(smooth, chosen, strict=True):
                arrays[i] = value
            return [o for o in kernel.fn(*arrays, *rest) if jnp.issubdtype(o.dtype, jnp.floating)]
        outputs = kernel.fn(*arrays, *rest)
        heads, back = jax.vjp(forward, *[arrays[i] for i in smooth])
        return outputs, back([jnp.ones_like(h) for h in heads]) if heads else ()
    with jax.enable_x64(wide):
        outcome = {}
        for function in (both, lambda *a: kernel.fn(*a[:len(structs)], *extras, *a[len(structs):])):
            try:
                program = jax.jit(rewritten(function, with_quotients, with_precision)).trace(*structs, *keys)
                lowered = program.lower(lowering_platforms=(platform,))
                try:
                    lowered.compile()
                except jax.errors.JaxRuntimeError as error:
                    if STUMBLES not in str(error):
                        raise
                    lowered.compile(PLAIN_PRODUCTS)  # as the library does
                return {**outcome, "compiled": "forward and backward" if function is both and smooth else "forward"}
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
            self._process = subprocess.Popen([sys.executable, __file__, "--worker", self._target], text=True,
                                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
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
             "Every operator's calls, compiled by XLA's own compilers for devices that were not there: forward and",
             "backward in one program. Made by `make accelerators`; it says nothing of a kernel's speed.", "",
             "| target | operators | compiled | on the host | refused |", "|---|---|---|---|---|"]
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
    lines += ["", "## Refused", ""] + (["| target | operator | inputs | why |", "|---|---|---|---|", *exceptions]
                                       if exceptions else ["Nothing."])
    lines += ["", "## On the host", "", "| operator | why |", "|---|---|"]
    lines += [f"| `{name}` | {why} |" for name, why in sorted(hosts.items())]
    return "\n".join(lines) + "\n"


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
        Path(given.table).write_text(text, encoding="utf-8")
    print(text.split("\n## On the host")[0])
    return 0


if __name__ == "__main__":
    sys.exit(main())
