"""The first minutes on a machine with an accelerator: how fast is it, are the numbers right, and was the plan true.

    python benchmarks/accelerator.py --minutes 9 [--on gpu|tpu|cpu] [--out accelerator.json] [--only REGEX]
        [--golden DIR] [--tests DIR [--plugin NAME]] [--processes N] [--tiny]

Needs mxjax, JAX for the device, flax, optax and pytest, no network. First what is timed (`_stages.py`), alone, a
process for each stage, which gets its share of the minutes and is killed where it takes much longer; then what is
checked, in N processes at once, until the minutes are over: every operator beside the host, recorded cases
(`--golden`, with their `check.py`), MXNet's own tests (`--tests`, a folder `tests/python`; `--plugin`: of pytest, that
makes `mxnet` importable), and ours. The JSON file is replaced after each stage: what is in it, and what has passed, is
not run again by the next call, so a run that was killed goes on. A page beside it (`.md`) has the figures. `--tiny`
makes the networks small, to try the program itself.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
# seconds of each stage in a visit of 9 minutes, in the order of their value: a short visit has the first ones
STAGES = {
    "about": 8, "train:resnet50.bfloat16": 18, "flax:resnet50.bfloat16": 18,
    "graphs:resnet50.bfloat16.off": 14, "graphs:resnet50.bfloat16.convolutions": 14, "host": 15,
    "first:resnet18": 30, "imperative:resnet18.float32.8": 15, "loop:resnet18.float32.8": 8,
    "train:resnet18.float32.8": 8, "graphs:resnet18.float32.8.convolutions": 8, "flax:resnet18.float32.8": 8,
    "pytorch": 20, "train:bert.bfloat16": 18, "flax:bert.bfloat16": 18, "graphs:bert.bfloat16.off": 14,
    "train:lstm": 12, "flax:lstm": 12, "graphs:lstm.all": 12, "rows:lstm": 10, "rows:resnet18.float32.8": 10,
    "int8:resnet50": 20, "first:resnet50": 45, "train:bert": 15, "flax:bert": 15, "train:resnet50": 15,
    "flax:resnet50": 15, "imperative:resnet50": 20, "eager": 12, "kvstore": 8, "loop:resnet50": 15,
    "fit:resnet50": 15, "predict:resnet50": 15, "feed": 15, "train:resnet50.tf32": 15, "flax:resnet50.tf32": 15,
    "plan": 20}
CHECKS = {"operators": 3, "golden": 4, "tests": 4, "suite": 4}  # and how many of 15 processes each gets
LEFT = 0.15  # of the minutes, for the checks: no stage begins later
MARGIN = 45  # seconds that a process may take longer than it was given: for what it compiles


# ---------------------------------------------------------------- the command
def _checks(given: argparse.Namespace, known: dict[str, Any], end: float, save: Callable[[], None]) -> None:
    """Runs all checks at once until the time is over; what came of each goes into `known`."""
    def there(folder: str | None) -> str | None:
        return folder and os.path.abspath(folder)
    folders = {"golden": [there(given.golden)], "tests": [there(given.tests), *given.plugin]}
    chosen = {name: share for name, share in CHECKS.items()
              if re.search(given.only, name) and folders.get(name, [""])[0] is not None}
    if not chosen:
        return
    environment = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false", "OMP_NUM_THREADS": "2",
                   "OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    with tempfile.TemporaryDirectory() as folder:
        passed = Path(folder, "passed.json")
        passed.write_text(json.dumps({n: known.get(n, {}).get("passed", []) for n in chosen}), encoding="utf-8")
        running = []
        for name, share in chosen.items():
            count = max(1, round(share * given.processes / sum(chosen.values())))
            for part in range(count):
                out, log = Path(folder, f"{name}.{part}"), open(Path(folder, f"{name}.{part}.log"), "w")  # noqa: SIM115
                command = [sys.executable, str(HERE / "_on_device.py"), name, f"{part}/{count}", str(end - time.time()),
                           given.on, str(passed), str(out), *folders.get(name, [])]
                running.append((name, out, log, subprocess.Popen(command, env=environment, stdout=log, stderr=log)))
        for name, out, log, process in running:
            try:
                status = process.wait(max(end + MARGIN / 2 - time.time(), 0.1))
            except subprocess.TimeoutExpired:
                process.kill()
                status = process.wait()
            log.close()
            result = known.setdefault(name, {"passed": [], "wrong": {}, "ended": []})
            lines = out.read_text(encoding="utf-8").splitlines() if out.exists() else []
            for line in lines:
                question, why, _ = json.loads(line)
                if why:
                    result["wrong"][question] = why
                else:
                    result["passed"].append(question)
                    result["wrong"].pop(question, None)
            if status not in (0, 1):
                result["ended"].append([status, Path(log.name).read_text(errors="replace")[-600:]])
            save()
    for name in chosen:
        found = known[name]
        print(name, len(found["passed"]), "passed,", len(found["wrong"]), "wrong", *found["ended"][:1], flush=True)


def page(known: dict[str, Any]) -> str:
    """What was found, in Markdown: steps beside flax's, then each stage's figures."""
    lines = ["# An accelerator's first minutes", "", ", ".join(
        f"{name} {value}" for name, value in known.get("about", {}).items() if not isinstance(value, dict)), "",
        "| training step | ms | flax, ms | ratio | in a row, ms | flax, ms | ratio |", "|---" * 7 + "|"]
    for stage, found in known.items():
        kind, _, about = stage.partition(":")
        theirs = known.get(f"flax:{about.rpartition('.')[0] if kind == 'graphs' else about}", {})
        if kind not in ("flax", "predict") and "step ms" in found:
            cells = [_cell(found.get(name), theirs.get(name)) for name in ("step ms", "in a row ms")]
            lines.append(f"| {stage} | {' | '.join(cells)} |")
    for stage, found in known.items():
        lines += ["", f"## {stage}", ""]
        lines += [f"- {name}: {value:.4g}" if isinstance(value, float) else f"- {name}: {value}"
                  for name, value in found.items() if name not in ("kernels", "passed", "log")]
        lines += [f"- passed: {len(found['passed'])}"] if "passed" in found else []
    return "\n".join(lines) + "\n"


def _cell(ours: float | None, theirs: float | None) -> str:
    return " | ".join(f"{value:.3g}" if value else "-" for value in (ours, theirs, ours and theirs and ours / theirs))


def run_stage(stage: str, seconds: float, result: Path) -> tuple[int | None, str]:
    """Runs a stage in a process; returns its exit status, None where it took too long, and what it printed."""
    command = [sys.executable, __file__, *sys.argv[1:], "--stage", stage, "--seconds", str(seconds), "--out",
               str(result)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                               start_new_session=True)
    try:
        log, _ = process.communicate(timeout=seconds + MARGIN)
        return process.returncode, log
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)  # with the processes that it started
        log, _ = process.communicate()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        return None, log


def main() -> int:
    """Runs the stages that are not there yet, then the checks; prints what was found and writes a page of it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--on", default="gpu", choices=("gpu", "tpu", "cpu"))
    parser.add_argument("--out", default="accelerator.json")
    parser.add_argument("--golden")
    parser.add_argument("--tests")
    parser.add_argument("--plugin", action="append", default=[])
    parser.add_argument("--processes", type=int, default=max((os.cpu_count() or 2) - 1, 1))
    parser.add_argument("--only", default="", help="a regular expression for the stages and checks")
    parser.add_argument("--small", "--tiny", action="store_true")
    parser.add_argument("--stage", help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=60.0, help=argparse.SUPPRESS)
    given = parser.parse_args()
    out = Path(given.out)
    if given.stage:
        sys.path.insert(0, str(HERE))
        import _stages
        given.note = lambda found: _write(out, found)
        given.note(getattr(_stages, given.stage.partition(":")[0])(given))
        return 0
    end = time.time() + 60 * given.minutes
    known = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
    for stage, share in STAGES.items():
        if stage in known and "failed" not in known[stage] or not re.search(given.only, stage):
            continue
        if time.time() > end - 60 * given.minutes * LEFT:
            print(stage, "not reached", flush=True)
            continue
        start = time.time()
        with tempfile.TemporaryDirectory() as folder:
            result = Path(folder, "result.json")
            status, log = run_stage(stage, share * given.minutes / 9, result)
            found = json.loads(result.read_text(encoding="utf-8")) if result.exists() else {}
        known[stage] = found if status == 0 else {**found, "failed": "it took too long" if status is None else status,
                                                   "log": log[-1500:]}
        known[stage]["stage s"] = round(time.time() - start, 1)
        _write(out, known)
        print(stage, json.dumps(known[stage])[:600], flush=True)
        if stage == "about" and status:
            return 1
    _checks(given, known, end, lambda: _write(out, known))
    out.with_suffix(".md").write_text(page(known), encoding="utf-8")
    print(page(known).partition("\n## ")[0])
    return 0


def _write(path: Path, value: dict[str, Any]) -> None:
    """Replaces a JSON file: a run that is killed leaves a whole one."""
    with tempfile.NamedTemporaryFile("w", dir=path.resolve().parent, delete=False, encoding="utf-8") as file:
        json.dump(value, file, indent=1)
    Path(file.name).replace(path)


if __name__ == "__main__":
    sys.exit(main())
