"""The first minutes on a machine with an accelerator: are the numbers right, how fast is it, and was the plan true.

    python benchmarks/accelerator.py --minutes 8 [--on gpu|tpu|cpu] [--out accelerator.json]
        [--golden DIR] [--tests DIR] [--only REGEX] [--small]

Needs mxjax, JAX for the device and flax, no network. Each stage is a process of its own with a share of the minutes;
its outcome goes into the JSON file at once, and a stage that is there already is not run again. DIRs are optional:
recorded operator cases with their `check.py`, and MXNet's own tests (`tests/python`). `--small` makes the networks
small, to try the program itself.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
CALLS = HERE.parent / "tools" / "operator_calls.jsonl"
TOLERANCE = {"float64": 1e-6, "float32": 2e-4, "float16": 2e-2, "bfloat16": 1e-1}
# seconds of each stage out of 480; the first are those that a short visit should not miss
STAGES = {"about": 30, "operators": 110, "eager": 25, "train:resnet50": 60, "train:resnet50.bfloat16": 45,
          "train:bert": 60, "train:lstm": 40, "plan": 40, "kvstore": 20, "golden": 40, "tests": 40}


def context(on: str) -> Any:
    """The context of a device type."""
    import mxjax as mx
    return getattr(mx, on)(0)


def memory(ctx: Any) -> dict[str, int]:
    """What the device's allocator tells, if anything."""
    stats = ctx.jax_device.memory_stats() or {}
    return {name: stats[name] for name in ("peak_bytes_in_use", "bytes_limit") if name in stats}


# ---------------------------------------------------------------- stages
def about(given: argparse.Namespace) -> dict[str, Any]:
    """What there is."""
    import importlib.metadata

    import jax
    ctx = context(given.on)
    return {"device": ctx.jax_device.device_kind, "devices": len(jax.devices()), "memory": memory(ctx),
            **{name: importlib.metadata.version(name) for name in ("jax", "jaxlib", "numpy")}}


def operators(given: argparse.Namespace) -> dict[str, Any]:
    """Every operator's recorded calls on the device beside the CPU: results and gradients."""
    import numpy as np

    import mxjax as mx
    from mxjax.array.calling import call
    from mxjax.ops import registry
    sys.path.insert(0, str(CALLS.parent))
    from accelerators import arguments
    ctx, end = context(given.on), time.time() + given.seconds - 10
    agreed, wrong, failed, alike = 0, [], [], 0
    for line in CALLS.read_text(encoding="utf-8").splitlines():
        if time.time() > end:
            break
        name, inputs, params, train = json.loads(line)
        op = registry.get(name)
        if op.uses_key or op.get_attr("FDraw") or not inputs:
            continue
        rng = np.random.default_rng(0)
        arrays = [rng.uniform(0.1, 0.9, s).astype(t) if "float" in t else rng.integers(0, 2, s).astype(t)
                  for s, t in inputs]
        params = arguments(op, {k: v for k, v in params.items() if k != "ctx"}, len(inputs))
        answers = []
        for where in (mx.cpu(), ctx):
            try:
                held = [mx.nd.array(a, ctx=where, dtype=a.dtype) for a in arrays]
                for a in held:
                    if "float" in str(a.dtype):
                        a.attach_grad()
                with mx.autograd.record(train_mode=train):
                    out = call(op, held, dict(params))
                    out = out if isinstance(out, list) else [out]
                try:
                    mx.autograd.backward([o for o in out if o._entry is not None])
                except mx.MXNetError:
                    pass  # nothing to be walked back from
                answers.append([v.asnumpy() for v in [*out, *[a.grad for a in held if a.grad is not None]]])
            except Exception as error:  # noqa: BLE001
                answers.append(f"{type(error).__name__}: {error}"[:300])
        host, device = answers
        if isinstance(host, str):
            alike += isinstance(device, str)
            continue
        if isinstance(device, str):
            failed.append([name, inputs, device])
        elif bad := _worst(host, device):
            wrong.append([name, inputs, bad])
        else:
            agreed += 1
    return {"agreed": agreed, "refused on both": alike, "wrong": wrong, "failed": failed}


def _worst(wanted: list, got: list) -> str:
    """Where two answers differ by more than their dtype allows; "" where they don't."""
    import numpy as np
    for i, (a, b) in enumerate(zip(wanted, got, strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{i}: {a.dtype}{a.shape} is {b.dtype}{b.shape}"
        limit = TOLERANCE.get(str(a.dtype), 0)
        a, b = a.astype("float64"), b.astype("float64")
        off = np.abs(a - b) - limit * (np.abs(a) + np.abs(a).max(initial=0) + 1e-6)
        if (np.isnan(a) != np.isnan(b)).any() or (off[np.isfinite(off)] > 0).any():
            return f"{i}: differs by {np.nanmax(np.abs(a - b)):.3g} of {np.nanmax(np.abs(a)):.3g}"
    return ""


def _best(step: Callable[[], Any], seconds: float, inner: int = 1) -> float:
    """Seconds of a step, the best."""
    for _ in range(3):
        step()
    best, end = math.inf, time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(inner):
            step()
        best = min(best, (time.perf_counter() - start) / inner)
    return best


def eager(given: argparse.Namespace) -> dict[str, Any]:
    """Microseconds of small imperative calls, beside what a call of a compiled function costs."""
    import jax
    import jax.numpy as jnp

    import mxjax as mx
    ctx = context(given.on)
    a, b, big = (mx.nd.ones(s, ctx=ctx) for s in ((64, 64), (64, 64), (1024, 1024)))
    x, y = a.to_jax(), b.to_jax()
    raw = jax.jit(lambda x, y: (x + y,))
    calls = {"a + b": lambda: a + b, "raw jit a + b": lambda: raw(x, y), "dot": lambda: mx.nd.dot(a, b),
             "softmax": lambda: mx.nd.softmax(a), "a += b": lambda: a.__iadd__(b), "sum": lambda: a.sum(),
             "dot 1024": lambda: mx.nd.dot(big, big), "slice": lambda: a[3:9].copy(),
             "asnumpy": lambda: a.asnumpy(), "array": lambda: mx.nd.array([1.0, 2.0], ctx=ctx)}
    each = max((given.seconds - 12) / len(calls) / 2, 0.1)
    found = {}
    for name, function in calls.items():
        def step(function: Callable = function) -> None:
            for _ in range(100):
                function()
            mx.nd.waitall()
        found[name] = 1e4 * _best(step, each)
    found["jnp waits"] = 1e6 * _best(lambda: jnp.add(x, y).block_until_ready(), each)
    return {"microseconds": found}


def _gluon(name: str, given: argparse.Namespace) -> tuple[Any, list[Any], Any]:
    """(TrainStep, its inputs, the case) of a network and perhaps a dtype: "resnet50.bfloat16"."""
    from _networks import case

    import mxjax as mx
    name, _, dtype = name.partition(".")
    made, ctx = case(name, small=given.small), context(given.on)
    net, dtype = made.net, dtype or "float32"
    net.initialize(mx.init.Xavier(), ctx=ctx)
    net.cast(dtype)
    data = mx.nd.array(made.inputs, ctx=ctx, dtype=dtype if made.inputs.dtype == "float32" else made.inputs.dtype)
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01, "momentum": 0.9})
    step = mx.gluon.TrainStep(net, mx.gluon.loss.SoftmaxCrossEntropyLoss(), trainer)
    return step, [data, mx.nd.array(made.labels, ctx=ctx, dtype="int32")], made


def train(given: argparse.Namespace) -> dict[str, Any]:
    """A training step with `TrainStep` and by hand in flax, in turns; images or tokens a second."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    import optax
    from _networks import mean_loss
    name = given.stage.partition(":")[2]
    step, inputs, made = _gluon(name, given)
    module, items, what = made.module, made.items, made.unit
    start = time.perf_counter()
    step(*inputs).wait_to_read()
    first = time.perf_counter() - start
    peak = memory(context(given.on))
    device, dtype = context(given.on).jax_device, inputs[0].dtype if name.partition(".")[2] else np.float32
    x, y = (jax.device_put(jnp.asarray(a), device) for a in (made.turned, made.labels))
    x = x.astype(dtype) if x.dtype == jnp.float32 else x
    rule = optax.sgd(0.01, 0.9)
    variables = jax.tree.map(lambda v: v.astype(dtype), jax.jit(lambda: module.init(jax.random.key(0), x))())
    params, stats = variables["params"], variables.get("batch_stats", {})

    def loss(params: Any, stats: Any) -> tuple:
        out, new = module.apply({"params": params, "batch_stats": stats}, x, mutable=["batch_stats"])
        return mean_loss(out, y), new.get("batch_stats", {})

    def by_hand(params: Any, stats: Any, state: Any) -> tuple:
        (value, stats), grads = jax.value_and_grad(loss, has_aux=True)(params, stats)
        updates, state = rule.update(grads, state, params)
        return optax.apply_updates(params, updates), stats, state, value
    with jax.default_device(device):
        compiled, carry = jax.jit(by_hand, donate_argnums=(0, 1, 2)), [params, stats, rule.init(params)]

        def flax() -> None:
            *carry[:], value = compiled(*carry)
            value.block_until_ready()
        each = max((given.seconds - 35) / 2, 1.0)
        ours, theirs = _best(lambda: step(*inputs).wait_to_read(), each), _best(flax, each)
    return {"first step s": first, "step ms": 1e3 * ours, "flax step ms": 1e3 * theirs, "of flax": ours / theirs,
            f"{what} a second": items / ours, f"flax {what} a second": items / theirs, **peak}


def plan(given: argparse.Namespace) -> dict[str, Any]:
    """What `plan` says of the step that `train:resnet50` measures."""
    import mxjax as mx
    step, inputs, _ = _gluon("resnet50", given)
    kind = context(given.on).jax_device.device_kind.lower()
    on = next((name for name, word in (("h100", "h100"), ("h100", "h200"), ("a100", "a100"), ("l4", "l4"),
                                       ("v5e:1x1", "v5 lite"), ("v6e:1x1", "v6")) if word in kind), "h100")
    try:
        return {"device": kind, "planned for": on, **json.loads(step.plan(*inputs, on=on).to_json())}
    except mx.MXNetError as error:
        return {"device": kind, "planned for": on, "failed": str(error)[:500]}


def kvstore(given: argparse.Namespace) -> dict[str, Any]:
    """Gigabytes a second through the stores."""
    import mxjax as mx
    ctx, count = context(given.on), 1 << (16 if given.small else 25)
    found = {}
    for name in ("local", "device", "nccl"):
        store = mx.kv.create(name)
        value, out = mx.nd.ones((count,), ctx=ctx), mx.nd.zeros((count,), ctx=ctx)
        store.init("x", value)

        def step(store: Any = store, value: Any = value, out: Any = out) -> None:
            store.push("x", value)
            store.pull("x", out=out)
            out.wait_to_read()
        found[f"{name} GB/s"] = 2 * 4 * count / _best(step, max(given.seconds / 10, 0.2)) / 1e9
    return found


def golden(given: argparse.Namespace) -> dict[str, Any]:
    """Recorded cases on the device, where they are to be had."""
    if not given.golden:
        return {"skipped": "no --golden DIR"}
    script = (f"import mxjax as mx, runpy, sys; mx.Context.default_ctx = mx.{given.on}(0); "
              f"sys.argv = ['check.py', '--package', 'mxjax']; runpy.run_path({str(Path(given.golden, 'check.py'))!r}, "
              "run_name='__main__')")
    return _told([sys.executable, "-c", script], given.golden, given.seconds)


def tests(given: argparse.Namespace) -> dict[str, Any]:
    """MXNet's own tests with this device as the default context, where they are to be had."""
    if not given.tests:
        return {"skipped": "no --tests DIR"}
    script = (f"import mxjax as mx, runpy, sys; mx.Context.default_ctx = mx.{given.on}(0); "
              "from mxjax.interop import install_mxnet_alias; install_mxnet_alias(); import pytest; "
              "sys.exit(pytest.main(['-q', '-x', '--no-header', 'unittest/test_ndarray.py', 'unittest/test_loss.py']))")
    return _told([sys.executable, "-c", script], given.tests, given.seconds)


def _told(command: list[str], folder: str, seconds: float) -> dict[str, Any]:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired as error:
        return {"timed out": True, "tail": str(error.stdout or "")[-1500:]}
    return {"status": done.returncode, "tail": (done.stdout + done.stderr)[-1500:]}


# ---------------------------------------------------------------- the command
def main() -> int:
    """Runs the stages that are not there yet; prints what was found."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--on", default="gpu", choices=("gpu", "tpu", "cpu"))
    parser.add_argument("--out", default="accelerator.json")
    parser.add_argument("--golden")
    parser.add_argument("--tests")
    parser.add_argument("--only", default="", help="a regular expression for the stages")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--stage", help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=60.0, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.stage:
        sys.path.insert(0, str(HERE))
        found = globals()[given.stage.partition(":")[0]](given)
        Path(given.out).write_text(json.dumps(found), encoding="utf-8")
        return 0
    out = Path(given.out)
    known = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
    for stage, share in STAGES.items():
        if stage in known and "failed" not in known[stage] or not re.search(given.only, stage):
            continue
        seconds, start = share * given.minutes / 8, time.time()
        with tempfile.TemporaryDirectory() as folder:
            result = Path(folder, "result.json")
            command = [sys.executable, __file__, *sys.argv[1:], "--stage", stage, "--seconds", str(seconds),
                       "--out", str(result)]
            ended = _told(command, ".", 2 * seconds + 60)
            known[stage] = json.loads(result.read_text(encoding="utf-8")) if result.exists() else \
                {"failed": ended}
        known[stage]["stage s"] = round(time.time() - start, 1)
        with tempfile.NamedTemporaryFile("w", dir=out.resolve().parent, delete=False, encoding="utf-8") as file:
            json.dump(known, file, indent=1)
        Path(file.name).replace(out)
        print(stage, json.dumps(known[stage])[:600], flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
