"""What one would pick instead: MXNet, mxjax, flax, PyTorch and Keras side by side, as a table and as plots.

    make figures [ROUNDS=5] [MXNET_PYTHON=PYTHON] [FURTHER='--seconds 10']
    python benchmarks/figures.py [--rounds 5] [--seconds 5] [--only 'lenet/torch*'] [--fresh]

Each program of `references/` runs under each package in a process of its own, with the same processors; a round is all
of them, and rounds follow each other. benchmarks/figures.json keeps what has been measured: the next start goes on
there, and --rounds 0 only writes the table (between the marks in benchmarks/RESULTS.md) and docs/assets/figures/*.svg.

PyTorch, Keras and flax are installed into .venv-figures/<name>, unless they are there; mxjax is this interpreter's.
MXNet 1.9.1 is the interpreter's that MXNET_PYTHON names (Python 3.8 to 3.10 with mxnet==1.9.1 and numpy<1.24);
without it its column stays empty. TORCH_INDEX names a package index with PyTorch's build for CPUs, the other one takes
gigabytes. `torch.compile` needs a C++ compiler.
"""

from __future__ import annotations

import argparse
import compileall
import fnmatch
import importlib.metadata
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
ENVIRONMENTS = ROOT / ".venv-figures"
JSON, TABLE, PLOTS = HERE / "figures.json", HERE / "RESULTS.md", ROOT / "docs" / "assets" / "figures"
BEGIN, END = "<!-- figures:begin -->", "<!-- figures:end -->"


class Side(NamedTuple):
    """A package: its name, its script, further arguments, its environment in .venv-figures, its colour."""

    name: str
    script: str
    further: tuple[str, ...]
    environment: str
    colour: str  # those of Okabe and Ito, which the colour-blind tell apart


SIDES = {
    "mxnet": Side("MXNet", "mxjax", ("--package", "mxnet"), "", "#777777"),
    "mxjax": Side("mxjax", "mxjax", (), "", "#0072B2"),
    "mxjax-step": Side("mxjax `TrainStep`", "mxjax", ("--step",), "", "#56B4E9"),
    "flax": Side("flax", "flax", (), "flax", "#009E73"),
    "torch": Side("PyTorch", "torch", (), "torch", "#D55E00"),
    "torch-compile": Side("PyTorch `compile`", "torch", ("--compile",), "torch", "#E69F00"),
    "keras": Side("Keras on JAX", "keras", (), "keras", "#CC79A7"),
}
PACKAGES = {"flax": ["flax", "optax"], "torch": ["torch"], "keras": ["keras"]}  # the first says whether it is there
PROGRAMS = {
    "mlp": "MLP, batch 64",
    "lenet": "LeNet, batch 64",
    "resnet18": "ResNet-18, 16 images of 112x112",
    "resnet18-predict": "... its prediction",
    "lstm": "LSTM language model, 35 x 32 words",
    "transformer": "transformer, 8 x 128 words",
}
TITLES = {**PROGRAMS, "resnet18-predict": "ResNet-18, prediction"}
FIGURES = {"first": ("first step", "s", 1), "step": ("step", "ms", 1e3), "memory": ("peak memory", "MB", 1)}
# flax's and Keras's LSTM cells have one bias for each gate, the others two that are added
ONE_BIAS = {("lstm", "flax"): 2048, ("lstm", "keras"): 2048}


# ------------------------------------------------------------ measuring
def interpreters(wanted: set[str]) -> dict[str, str]:
    """{side: its interpreter} of those `wanted` that there are; makes the environments."""
    found = {"mxjax": sys.executable, "mxjax-step": sys.executable}
    if given := os.environ.get("MXNET_PYTHON"):
        found["mxnet"] = given
    elif "mxnet" in wanted:
        print("MXNET_PYTHON names no interpreter with MXNet 1.9.1: its column stays as it is", flush=True)
    for name in {SIDES[side].environment for side in wanted} - {""}:
        folder = ENVIRONMENTS / name
        python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
        look = f"import importlib.metadata as m; m.version({PACKAGES[name][0]!r})"
        if not python.exists() or subprocess.run([python, "-c", look], stderr=subprocess.DEVNULL).returncode:
            print(f"installing {name}", flush=True)
            subprocess.run([sys.executable, "-m", "venv", folder], check=True)
            (ENVIRONMENTS / ".gitignore").write_text("*\n", encoding="utf-8")
            index = os.environ.get("TORCH_INDEX")
            more = ["numpy", *(["--extra-index-url", index] if index else [])] if name == "torch" else \
                [f"jax=={importlib.metadata.version('jax')}"]  # one XLA for all
            subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                            *PACKAGES[name], *more], check=True)
        found |= {side: str(python) for side, its in SIDES.items() if its.environment == name}
    return {side: python for side, python in found.items() if side in wanted}


def busy() -> float | None:
    """Seconds that processors have worked, but for the processes that were started here; None where /proc is not."""
    try:
        with open("/proc/stat", encoding="utf-8") as stat:
            user, nice, system = map(int, stat.readline().split()[1:4])
    except OSError:
        return None
    times = os.times()
    return (user + nice + system) / os.sysconf("SC_CLK_TCK") - times.children_user - times.children_system


def run(python: str, side: str, program: str, seconds: float, threads: int) -> dict[str, Any] | None:
    """A program's figures, or None where it fails; nothing that a package has compiled before is there."""
    ours = ("JAX_", "XLA_", "MXJAX_", "TORCH", "KERAS_", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")
    given = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    one = {k: str(threads) for k in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NPROC", "MXNET_CPU_WORKER_NTHREADS")}
    script = HERE / "references" / f"{SIDES[side].script}_reference.py"
    start, before = time.perf_counter(), busy()
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [python, "-W", "ignore", script, program, *SIDES[side].further, "--seconds", str(seconds)],
            capture_output=True, text=True, cwd=folder,
            env={**given, **one, "JAX_PLATFORMS": "cpu", "TORCHINDUCTOR_CACHE_DIR": folder, "KERAS_HOME": folder})
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        said = done.stderr.strip().splitlines() or ["nothing said"]
        print(f"{program} under {side} failed: {said[-1]}", flush=True)
        return None
    others = {} if before is None else {"others": round((busy() - before) / (time.perf_counter() - start), 2)}
    return {**json.loads(lines[-1]), **others}


def measure(found: dict[str, Any], rounds: int, only: str, out: Path) -> None:
    """Adds to `found` what is missing of so many rounds, and writes it to `out` after each program."""
    compileall.compile_dir(ROOT / "mxjax", quiet=1)  # as pip does with what it installs
    todo = [(i, program, side) for i in range(rounds) for program in PROGRAMS for side in SIDES
            if fnmatch.fnmatch(f"{program}/{side}", only) and (program, side) != ("resnet18-predict", "mxjax-step")
            and len(found["runs"].get(program, {}).get(side, [])) <= i]
    pythons = interpreters({side for *_, side in todo})
    todo = [job for job in todo if job[2] in pythons]
    for done, (i, program, side) in enumerate(todo):
        result = run(pythons[side], side, program, found["settings"]["seconds"], found["settings"]["threads"])
        if result is None:
            continue
        del result["program"]
        found["runs"].setdefault(program, {}).setdefault(side, []).append(result)
        found["date"] = time.strftime("%Y-%m-%d")
        partial = out.with_suffix(".part")
        partial.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        partial.replace(out)
        print(f"{done + 1}/{len(todo)} round {i + 1} {program} {side}: first {result['first']:.2f} s, "
              f"step {1e3 * result['step']:.2f} ms, {result['memory']:.0f} MB; processors busy with other work: "
              f"{result.get('others', '?')}", flush=True)


def opened(path: Path, fresh: bool, settings: dict[str, Any] | None) -> dict[str, Any]:
    """What has been measured so far; settings: those of what is to be measured, None for nothing.

    Raises:
        SystemExit: it was measured otherwise.
    """
    found = json.loads(path.read_text(encoding="utf-8")) if path.exists() and not fresh else None
    if found and settings and found["settings"] != settings:
        raise SystemExit(f"{path.name} was measured with {found['settings']}, not {settings}: --fresh starts anew")
    return found or {"date": "", "machine": f"{platform.system()}, {platform.machine()}, {os.cpu_count()} processors",
                     "settings": settings, "runs": {}}


# ------------------------------------------------------------ showing
def values(found: dict[str, Any], figure: str) -> dict[str, dict[str, float]]:
    """{program: {side: the best of the rounds}}: what else the machine does only ever adds."""
    return {program: {side: min(r[figure] for r in its[side]) for side in SIDES if its.get(side)}
            for program in PROGRAMS if (its := found["runs"].get(program))}


def text(value: float | None, bold: bool = False) -> str:
    """Three digits."""
    if value is None:
        return "-"
    shown = f"{value:.{max(0, 2 - math.floor(math.log10(value)))}f}" if value > 0 else "0"
    return f"**{shown}**" if bold else shown


def odd(found: dict[str, Any]) -> list[str]:
    """Where a package's network is another one: it trains other numbers of parameters, or does not learn."""
    wrong = []
    for program, its in found["runs"].items():
        sizes = {side: r["parameters"] + ONE_BIAS.get((program, side), 0) for side, rs in its.items() for r in rs}
        if len(set(sizes.values())) > 1:
            wrong.append(f"{program}: the numbers of parameters differ: {sizes}")
        wrong += [f"{program}: does not learn under {side}: {r['losses']}" for side, rs in its.items() for r in rs
                  if r["losses"] and not r["losses"][1] < r["losses"][0]]
    return wrong


def table(found: dict[str, Any]) -> str:
    """The Markdown: figures, how they relate to mxjax's, whether the networks are the same."""
    versions = {side: r for its in found["runs"].values() for side, rs in its.items() for r in rs}
    heads = [side.name + (f" {versions[s]['version'].split('+')[0]}" if s in versions and "-" not in s else "")
             for s, side in SIDES.items()]
    lines = [f"| program | figure | {' | '.join(heads)} |", "|---" * (len(heads) + 2) + "|"]
    all_values = {figure: values(found, figure) for figure in (*FIGURES, "import")}
    for program in all_values["first"]:
        for i, (figure, (name, unit, scale)) in enumerate(FIGURES.items()):
            row = {side: value * scale for side, value in all_values[figure][program].items()}
            cells = [text(row.get(side), row.get(side) == min(row.values())) for side in SIDES]
            lines.append(f"| {'' if i else PROGRAMS[program]} | {name}, {unit} | {' | '.join(cells)} |")
    for i, (figure, (name, _, _)) in enumerate(FIGURES.items()):
        cells = []
        for side in SIDES:
            ratios = [row[side] / row["mxjax"] for row in all_values[figure].values() if side in row and "mxjax" in row]
            cells.append(text(math.exp(statistics.fmean(map(math.log, ratios))) if ratios else None))
        lines.append(f"| {'' if i else 'all, as ratios to mxjax'} | {name} | {' | '.join(cells)} |")
    imports = [[row[side] for row in all_values["import"].values() if side in row] for side in SIDES]
    cells = [text(statistics.median(v) if v else None) for v in imports]
    lines.append(f"| importing it | s | {' | '.join(cells)} |")
    return "\n".join([*lines, "", notes(found, versions)])


def notes(found: dict[str, Any], versions: dict[str, Any]) -> str:
    """What is to be known about the table; `versions`: a run of each side."""
    runs = [(program, its, rs) for program, its in found["runs"].items() for rs in its.values()]
    counts = sorted({len(rs) for *_, rs in runs})
    rounds = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    same = {}
    for program, its, _ in runs:
        losses = [r["losses"][1] for rs in its.values() for r in rs if r["losses"]]
        if losses:
            size = max(r["parameters"] for rs in its.values() for r in rs)
            same[program] = f"{PROGRAMS[program].split(',')[0]} {size:,}, {min(losses):.3g} to {max(losses):.3g}"
    jax = sorted({r["jax"] for r in versions.values() if "jax" in r})
    links = [f"[{name}](../docs/assets/figures/{figure}.svg)" for figure, (name, _, _) in FIGURES.items()]
    missing = [side.name for s, side in SIDES.items() if s not in versions]
    settings = found["settings"]
    others = [r["others"] for *_, rs in runs for r in rs if "others" in r]
    noise = f"Other work kept {statistics.fmean(others):.2f} processors busy meanwhile, {max(others):.2f} at most." \
        if others else ""
    if others and statistics.fmean(others) > 0.2:
        noise += (" That is no quiet machine, and it does not treat all alike: OpenMP's threads spin while they wait "
                  "for each other, so PyTorch's steps can take several times as long as alone. Do not compare these.")
    paragraphs = [
        f"`make figures`, {found['date']}; {found['machine']}, {settings['threads']} used; jax {', '.join(jax)}. The "
        f"best of {rounds} rounds; each program ran in a fresh process with nothing compiled before. First step: the "
        "network is made, initialized and compiled and does one step; importing is not in it. Step: the median of a "
        f"process's steps in {settings['seconds']:g} s, each waited for. Peak memory: of the process, without the "
        f"compilers that it starts. The best of a row is bold. {noise}",
        "The networks are the same. Parameters, and the loss after ten steps (weights drawn alike, by each package's "
        f"own random numbers): {'; '.join(same.values())}. flax's and Keras's LSTM cells have 2,048 parameters fewer: "
        "one bias for each gate in place of two.",
        f"As plots: {', '.join(links)}."]
    paragraphs += [f"Not there: {', '.join(missing)}."] if missing else []
    return "\n\n".join(textwrap.fill(p, 120, break_long_words=False, break_on_hyphens=False) for p in paragraphs)


def place(path: Path, body: str) -> None:
    """Writes `body` between the marks of a file.

    Raises:
        ValueError: it has no marks.
    """
    before, begin, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{path.name}: no {BEGIN} ... {END}")
    path.write_text(f"{before}{BEGIN}\n{body}\n{END}{after}", encoding="utf-8")


def plots(found: dict[str, Any], folder: Path) -> list[Path]:
    """Writes an SVG for each figure: a group of bars for each program, with a scale of its own."""
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    with pyplot.rc_context({"svg.hashsalt": "figures", "svg.fonttype": "none", "font.size": 9}):
        for figure, (name, unit, scale) in FIGURES.items():
            groups = values(found, figure)
            columns = min(3, len(groups))
            picture, axes = pyplot.subplots(math.ceil(len(groups) / columns), columns, squeeze=False,
                                            figsize=(3.9 * columns, 2.6 * math.ceil(len(groups) / columns) + 0.4))
            for axis in axes.flat[len(groups):]:
                axis.set_visible(False)
            for i, (axis, (program, row)) in enumerate(zip(axes.flat, groups.items(), strict=False)):
                lengths = [row.get(side, 0) * scale for side in SIDES]
                bars = axis.barh([side.name.replace("`", "") for side in SIDES.values()], lengths,
                                 color=[side.colour for side in SIDES.values()])
                axis.bar_label(bars, [text(v) if v else "" for v in lengths], padding=2)
                axis.set_xlim(0, 1.18 * max(lengths))
                axis.invert_yaxis()
                axis.set_title(TITLES[program], fontsize=10)
                axis.set_xlabel(unit)
                axis.spines[["top", "right"]].set_visible(False)
                if i % columns:
                    axis.set_yticklabels([])
            picture.suptitle(f"{name.capitalize()}, {unit}: shorter is better; each program has its own scale")
            picture.tight_layout()
            written.append(folder / f"{figure}.svg")
            picture.savefig(written[-1], metadata={"Date": None, "Creator": None})
            pyplot.close(picture)
    return written


def main() -> int:
    """Measures what is missing, writes the table and the plots."""
    here = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="how often each program is run under each package")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long a process times its steps")
    parser.add_argument("--threads", type=int, default=len(here), help="processors that each process has")
    parser.add_argument("--only", default="*", help="PROGRAM/PACKAGE, may have * and ?")
    parser.add_argument("--fresh", action="store_true", help="drop what has been measured before")
    given = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, here[:given.threads])  # each process inherits it
    settings = {"threads": given.threads, "seconds": given.seconds} if given.rounds else None
    found = opened(JSON, given.fresh, settings)
    measure(found, given.rounds, given.only, JSON)
    if not found["runs"]:
        raise SystemExit("nothing has been measured")
    place(TABLE, table(found))
    plots(found, PLOTS)
    print(table(found))
    for line in odd(found):
        print(line, file=sys.stderr)
    return bool(odd(found))


if __name__ == "__main__":
    sys.exit(main())
