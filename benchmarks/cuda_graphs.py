"""How many of a program's launches are in CUDA graphs, compiled for a GPU that need not be here.

    python benchmarks/cuda_graphs.py [--on h100] [--only REGEX] [--dtype bfloat16] [--graphs off xla convolutions all]
        [--out cuda_graphs.json] [--table]

Each program of `programs.py` is compiled for each value of MXJAX_CUDA_GRAPHS: training steps (`TrainStep`),
predictions, the backward pass of a recorded network, and an optimizer's update of all parameters. XLA writes down what
a program starts (`xla_dump_to`); that is counted. Iterations of a loop count once. A GPU's time is not known here.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import programs
from _networks import case

import mxjax as mx
from mxjax.executor.jax_function import JaxFunction
from mxjax.kernel.xla import options_on
from mxjax.ops import registry
from mxjax.plan import estimate
from mxjax.plan.program import compile_for
from mxjax.plan.targets import target
from mxjax.symbol._plan import _structs

HOLDERS = frozenset("kCommandBuffer kWhile kConditional kDynamicSliceFusion kSequential kAsyncStart kAsyncDone".split())
LINE = re.compile(r"( *)\d+: (k\w+)")


def counts(text: str) -> dict[str, Any]:
    """What XLA starts, from its list after all passes: launches, those in graphs, graphs, loops outside, and what is
    left outside by kind."""
    launches = held = graphs = loops = 0
    left: collections.Counter[str] = collections.Counter()
    around: list[tuple[int, str]] = []
    for indent, kind in ((len(m[1]), m[2]) for m in map(LINE.match, text.splitlines()) if m):
        while around and around[-1][0] >= indent:
            around.pop()
        inside = any(outer == "kCommandBuffer" for _, outer in around)
        around.append((indent, kind))
        graphs += kind == "kCommandBuffer"
        loops += kind == "kWhile" and not inside
        if kind not in HOLDERS:
            launches += 1
            held += inside
            left[kind] += not inside
    return {"launches": launches, "in graphs": held, "graphs": graphs, "loops": loops, "left": dict(+left)}


def started(make: Callable[[], object]) -> dict[str, Any]:
    """The counts of the program that `make` compiles by `compile_for`."""
    with tempfile.TemporaryDirectory() as folder:
        def dumping(*given: Any, **more: Any) -> dict[str, Any]:
            dumped = {"xla_dump_to": folder, "xla_dump_hlo_as_text": True, "xla_dump_hlo_pass_re": "^$"}
            return compile_for(*given, **{**more, "options": {**options_on("cuda"), **dumped}})
        estimate.compile_for = programs.compile_for = globals()["_compile"] = dumping
        try:
            make()
        finally:
            estimate.compile_for = programs.compile_for = globals()["_compile"] = compile_for
        lists = list(Path(folder).glob("*thunk_sequence_after_thunk_passes.txt")) or \
            list(Path(folder).glob("*thunk_sequence.txt"))  # without graphs there is no such pass
        return counts(max(lists, key=lambda file: file.stat().st_size).read_text(encoding="utf-8"))


_compile = compile_for


def backward(name: str, dtype: str, on: str) -> None:
    """The backward pass of a recorded network: gradients of its parameters."""
    made = case(name)
    symbol = made.net(mx.sym.var("data"))
    kind = np.dtype(jnp.bfloat16 if dtype == "bfloat16" else dtype)
    kinds = {"data": kind} if made.inputs.dtype == np.float32 else {"data": np.dtype("int32")}
    structs = _structs(symbol, {"data": made.inputs.shape}, kinds, kind)
    function, names = JaxFunction(symbol, kernels=True), list(structs["parameters"])
    head = jax.eval_shape(lambda *a: _outputs(function, structs, names, a), *_flat(structs))[0]

    def gradients(gradient: Any, *arrays: Any) -> Any:
        count = len(names)
        _, back = jax.vjp(lambda *values: _outputs(function, structs, names, (*values, *arrays[count:])),
                          *arrays[:count])
        return back([gradient])
    _compile(gradients, [head, *_flat(structs)], target(on))


def _flat(structs: dict[str, dict[str, Any]]) -> list[Any]:
    return [s for kind in ("parameters", "inputs", "auxiliary states") for s in structs[kind].values()]


def _outputs(function: Any, structs: dict[str, dict[str, Any]], names: list[str], arrays: Any) -> Any:
    values = dict(zip((*names, *structs["inputs"], *structs["auxiliary states"]), arrays, strict=True))
    states = {name: values.pop(name) for name in structs["auxiliary states"]}
    return function(values, states, None, True)[0]


def update(name: str, dtype: str, on: str) -> None:
    """SGD with momentum of all parameters."""
    made = case(name)
    kinds = {"data": np.dtype("float32" if made.inputs.dtype == np.float32 else "int32")}
    structs = _structs(made.net(mx.sym.var("data")), {"data": made.inputs.shape}, kinds, np.dtype("float32"))
    one = registry.get("sgd_mom_update").get_attr("FCompute")

    def all_of_them(*arrays: Any) -> list[Any]:
        return [v for i in range(0, len(arrays), 3) for v in one(*arrays[i:i + 3], lr=0.1, momentum=0.9, wd=1e-4,
                                                                 lazy_update=False)]
    arrays = [jax.ShapeDtypeStruct(s.shape, dtype) for s in structs["parameters"].values() for _ in range(3)]
    _compile(all_of_them, arrays, target(on), donate=[i for i in range(len(arrays)) if i % 3 != 1])


def program(name: str, mode: str, dtype: str, on: str) -> Callable[[], object]:
    """Compiles one of them."""
    if mode in ("backward", "update"):
        return lambda: globals()[mode](name, dtype, on)
    return lambda: programs.ours(case(name), mode == "train", dtype, on)


def table(known: dict[str, dict[str, Any]], choices: list[str]) -> str:
    """Launches, and for each choice those in graphs and what the host starts; loops' iterations count once."""
    lines = ["| program | launches | " + " | ".join(f"`{c}`: in graphs, started" for c in choices) + " |",
             "|---" * (2 + len(choices)) + "|"]
    for name, found in known.items():
        cells = [f"{f['in graphs']}, {f['launches'] - f['in graphs'] + f['graphs']}" if f else "-"
                 for f in (found.get(c) for c in choices)]
        lines.append(f"| {name} | {next(iter(found.values()))['launches']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> int:
    """Compiles what is missing, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--on", default="h100")
    parser.add_argument("--only", default="", help="a regular expression for resnet18.train.bfloat16 ...")
    parser.add_argument("--dtype", nargs="*", default=["bfloat16"])
    parser.add_argument("--graphs", nargs="*", default=["xla", "convolutions", "all"])
    parser.add_argument("--out", default="cuda_graphs.json")
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    out = Path(given.out)
    known = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
    for name in () if given.table else programs.NETWORKS:
        for mode in ("train", "predict", "backward", "update"):
            for dtype in given.dtype:
                key = f"{name}.{mode}.{dtype}@{given.on}"
                for choice in given.graphs if re.search(given.only, key) else ():
                    if choice not in known.setdefault(key, {}):
                        os.environ["MXJAX_CUDA_GRAPHS"] = choice
                        known[key][choice] = started(program(name, mode, dtype, given.on))
                        print(key, choice, json.dumps(known[key][choice]), flush=True)
                        out.write_text(json.dumps(known, indent=1), encoding="utf-8")
    print(table({key: found for key, found in known.items() if found}, given.graphs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
