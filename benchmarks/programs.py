"""What XLA makes of a training step and of a prediction, for an accelerator that need not be here, beside flax's.

    python benchmarks/programs.py [--on h100] [--only REGEX] [--dtype float32 bfloat16] [--out programs.json] [--table]

launches: kernels, library calls and copies that are started; moved: bytes that they read and write; temporaries:
memory beside arguments and results. They say nothing of a kernel's own speed. The step is a `TrainStep`, the
prediction a hybridized block's, flax's are jitted functions; both have the same precision of products. Images come
channels first to mxjax, channels last to flax; the ratio behind a comma is to flax's program that gets them channels
first, too, and turns them. What the JSON file has is not done again; --table prints it and compiles nothing. Needs
flax and the compiler of the device (mxjax[cuda12], mxjax[plan-tpu]).
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from _networks import Case, case, mean_loss

import mxjax as mx
from mxjax.plan import Plan
from mxjax.plan.figures import figures
from mxjax.plan.program import compile_for
from mxjax.plan.targets import target

NETWORKS = ("resnet18", "resnet50", "mobilenet", "lstm", "bert", "ssd")
FIGURES = ("launches", "moved", "temporaries")


def planned(given: Case, train: bool, dtype: str, on: str) -> Plan:
    """The plan of mxjax's program."""
    net = given.net
    net.initialize(mx.init.Xavier())
    net.cast(dtype)
    data = mx.nd.array(given.inputs, dtype=dtype if given.inputs.dtype == np.float32 else "int32")
    if train:
        trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01, "momentum": 0.9})
        step = mx.gluon.TrainStep(net, mx.gluon.loss.SoftmaxCrossEntropyLoss(), trainer)
        return step.plan(data, mx.nd.array(given.labels, dtype="int32"), on=on)
    return net.plan(data, on=on, dtype=dtype)


def ours(given: Case, train: bool, dtype: str, on: str) -> dict[str, Any]:
    """mxjax's program."""
    plan = planned(given, train, dtype, on)
    return {"launches": plan.launches, "moved": plan.moved, "temporaries": plan.memory["temporaries"],
            "seconds": plan.compiled}


def flax(given: Case, train: bool, dtype: str, on: str, turns: bool = False) -> dict[str, Any]:
    """flax's program; `turns`: of images that it gets channels first."""
    module, rule = given.module.clone(train=train), optax.sgd(0.01, 0.9)
    kind = dtype if given.inputs.dtype == np.float32 else "int32"
    x, y = jax.ShapeDtypeStruct(given.turned.shape, kind), jax.ShapeDtypeStruct(given.labels.shape, "int32")
    variables = jax.eval_shape(lambda: module.init(jax.random.key(0), jnp.zeros(x.shape, x.dtype)))
    variables = jax.tree_util.tree_map_with_path(  # batch normalization's stay float32, as mxjax's do
        lambda path, v: v if "BatchNorm" in jax.tree_util.keystr(path) else jax.ShapeDtypeStruct(v.shape, dtype),
        variables)
    params, stats = variables["params"], variables.get("batch_stats", {})

    def lying(x: Any) -> Any:
        return jnp.moveaxis(x, 1, -1) if turns else x

    def step(params: Any, stats: Any, state: Any, x: Any, y: Any) -> tuple:
        def loss(params: Any) -> tuple:
            out, new = module.apply({"params": params, "batch_stats": stats}, lying(x), mutable=["batch_stats"])
            return mean_loss(out, y), new.get("batch_stats", {})
        (value, new), grads = jax.value_and_grad(loss, has_aux=True)(params)
        updates, state = rule.update(grads, state, params)
        return optax.apply_updates(params, updates), new, state, value

    def predict(params: Any, stats: Any, x: Any) -> Any:
        return module.apply({"params": params, "batch_stats": stats}, lying(x))
    given_up = (params, stats, jax.eval_shape(rule.init, params)) if train else ()
    x = jax.ShapeDtypeStruct(given.inputs.shape, kind) if turns else x
    arguments = (*given_up, x, y) if train else (params, stats, x)
    leaves, tree = jax.tree.flatten(arguments)

    def flat(*leaves: Any) -> list[Any]:
        return jax.tree.leaves((step if train else predict)(*jax.tree.unflatten(tree, leaves)))
    found = compile_for(flat, leaves, target(on), donate=range(len(jax.tree.leaves(given_up))), options={})
    told = figures(found["text"], target(on).device.platform == "tpu")
    return {"launches": told["launches"], "moved": told["moved"], "temporaries": found["memory"]["temp"],
            "seconds": found["seconds"]}


def table(known: dict[str, Any]) -> str:
    """Of ratios, mxjax to flax."""
    lines = ["| program | launches | moved | temporaries |", "|---" * 4 + "|"]
    for name, (one, other, *same) in known.items():
        lines.append(f"| {name} | " + " | ".join(
            f"{one[f] / max(other[f], 1):.2f}" + (f" ({one[f]} / {other[f]})" if f == "launches" else
                                                  f" ({one[f] / 1e6:.0f} / {other[f] / 1e6:.0f} MB)")
            + "".join(f", {one[f] / max(s[f], 1):.2f}" for s in same) for f in FIGURES) + " |")
    return "\n".join(lines)


def main() -> int:
    """Compiles what is missing, and prints ratios."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--on", default="h100")
    parser.add_argument("--only", default="", help="a regular expression for resnet18.train, bert.predict ...")
    parser.add_argument("--dtype", nargs="*", default=["float32", "bfloat16"])
    parser.add_argument("--out", default="programs.json")
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    out = Path(given.out)
    known = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
    for network in () if given.table else NETWORKS:
        for mode in ("train", "predict"):
            for dtype in given.dtype:
                name = f"{network}.{mode}.{dtype}@{given.on}"
                if not re.search(given.only, name):
                    continue
                example = case(network)
                makers = [ours, flax] + [partial(flax, turns=True)] * (example.turned.shape != example.inputs.shape)
                done = known.get(name, [])
                if len(done) == len(makers):
                    continue
                start = time.time()
                known[name] = done + [make(case(network), mode == "train", dtype, given.on)
                                      for make in makers[len(done):]]
                print(table({name: known[name]}).splitlines()[-1], f"{time.time() - start:.0f} s", flush=True)
                out.write_text(json.dumps(known, indent=1), encoding="utf-8")
    if given.table:
        print(table(known))
    return 0


if __name__ == "__main__":
    sys.exit(main())
