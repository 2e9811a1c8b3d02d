"""The first minutes on a machine with an accelerator: how fast is it, are the numbers right, and was the plan true.

    python benchmarks/accelerator.py --minutes 8 [--on gpu|tpu|cpu] [--out accelerator.json] [--only REGEX]
        [--golden DIR] [--tests DIR [--plugin NAME]] [--processes N] [--small]

Needs mxjax, JAX for the device, flax, optax and pytest, no network. First what is timed, alone, a process for each
stage, which gets its share of half of the minutes; then what is checked, in N processes at once, until the minutes are
over: every operator beside the host, recorded cases (`--golden`, with their `check.py`), MXNet's own tests (`--tests`,
a folder `tests/python`; `--plugin`: of pytest, that makes `mxnet` importable), and ours. Outcomes go into the JSON file
as soon as there are some; what is there already, and what has passed, is not run again. `--small` makes the networks
small, to try the program itself.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
# seconds of each stage in a visit of 8 minutes; the first are those that a short visit should not miss
STAGES = {"about": 8, "train:resnet50.bfloat16": 20, "flax:resnet50.bfloat16": 20, "train:bert.bfloat16": 20,
          "flax:bert.bfloat16": 20, "eager": 12, "train:lstm": 15, "flax:lstm": 15, "train:resnet50": 20,
          "flax:resnet50": 20, "train:bert": 20, "flax:bert": 20, "kvstore": 8, "loop:resnet50": 18,
          "fit:resnet50": 20, "predict:resnet50": 15, "feed": 15, "train:resnet50.tf32": 20,
          "flax:resnet50.tf32": 20, "pytorch": 20, "plan": 20}
CHECKS = {"operators": 3, "golden": 4, "tests": 4, "suite": 4}  # and how many of 15 processes each gets
LEFT = 0.35  # of the minutes, for the checks: no stage begins later
MARGIN = 45  # seconds that a process may take longer than it was given: for what it compiles


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

    import mxjax as mx
    ctx = context(given.on)
    (mx.nd.ones((2, 3), ctx=ctx) * 2).wait_to_read()
    return {"device": ctx.jax_device.device_kind, "devices": len(jax.devices()), "memory": memory(ctx),
            "processors": os.cpu_count(), **{name: importlib.metadata.version(name) for name in
                                             ("jax", "jaxlib", "numpy", "flax", "optax")}}


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


def _kernels(step: Callable[[], Any], most: int = 30) -> dict[str, Any]:
    """Milliseconds of a step's kernels on an accelerator, those that take longest, and of all; by a profile."""
    import jax
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            step()
        files = list(Path(folder).rglob("*.xplane.pb"))
        spent: dict[str, float] = {}
        for plane in jax.profiler.ProfileData.from_file(str(files[0])).planes if files else ():
            for line in plane.lines if plane.name.startswith("/device:") else ():
                for event in line.events if "XLA" not in line.name or "Ops" in line.name else ():
                    spent[event.name] = spent.get(event.name, 0.0) + event.duration_ns / 1e6
    longest = sorted(spent.items(), key=lambda item: -item[1])
    return {"all": sum(spent.values()), "kinds": len(spent), **{name[:90]: round(ms, 4) for name, ms in longest[:most]}}


def _profiled(step: Callable[[], Any]) -> dict[str, Any]:
    """`_kernels`, or why there are none: it is not what the visit is for."""
    try:
        return _kernels(step)
    except Exception as error:  # noqa: BLE001
        return {"failed": f"{type(error).__name__}: {error}"[:300]}


def eager(given: argparse.Namespace) -> dict[str, Any]:
    """Microseconds of small imperative calls, beside what a call of a compiled function costs."""
    import jax
    import jax.numpy as jnp

    import mxjax as mx
    ctx = context(given.on)
    a, b, big = (mx.nd.ones(s, ctx=ctx) for s in ((64, 64), (64, 64), (1024, 1024)))
    x, y = a.to_jax(), b.to_jax()
    raw = jax.jit(lambda x, y: (x + y,))
    calls = {"a + b": lambda: a + b, "a * 2": lambda: a * 2, "raw jit a + b": lambda: raw(x, y),
             "dot": lambda: mx.nd.dot(a, b), "softmax": lambda: mx.nd.softmax(a), "a += b": lambda: a.__iadd__(b),
             "sum": lambda: a.sum(), "dot 1024": lambda: mx.nd.dot(big, big), "slice": lambda: a[3:9].copy(),
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


def _network(name: str, given: argparse.Namespace) -> tuple[Any, list[Any], Any]:
    """(network, its inputs and labels, the case) of a name with perhaps a dtype: "resnet50.bfloat16"."""
    from _networks import case

    import mxjax as mx
    name, _, dtype = name.partition(".")
    made, ctx = case(name, small=given.small), context(given.on)
    net, dtype = made.net, dtype if dtype == "bfloat16" else "float32"
    net.initialize(mx.init.Xavier(), ctx=ctx)
    net.cast(dtype)
    data = mx.nd.array(made.inputs, ctx=ctx, dtype=dtype if made.inputs.dtype == "float32" else made.inputs.dtype)
    return net, [data, mx.nd.array(made.labels, ctx=ctx, dtype="int32")], made


def _rule(net: Any) -> Any:
    import mxjax as mx
    return mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01, "momentum": 0.9})


def _step(name: str, given: argparse.Namespace) -> tuple[Any, list[Any], Any]:
    """(`TrainStep`, its arguments, the case)."""
    import mxjax as mx
    net, inputs, made = _network(name, given)
    return mx.gluon.TrainStep(net, mx.gluon.loss.SoftmaxCrossEntropyLoss(), _rule(net)), inputs, made


def _flax(made: Any, device: Any, dtype: Any, train: bool) -> tuple[Any, Any, Any, Any]:
    """(module, its variables, inputs, labels) on a device."""
    import jax
    import jax.numpy as jnp
    module = made.module.clone(train=train)
    x, y = (jax.device_put(jnp.asarray(a), device) for a in (made.turned, made.labels))
    x = x.astype(dtype) if x.dtype == jnp.float32 else x
    variables = jax.jit(lambda: module.init(jax.random.key(0), x))()
    return module, jax.tree.map(lambda v: v.astype(dtype), variables), x, y


def _in_precision(name: str) -> Any:
    """A block in which flax's products are what ours are: of float32, but where conversion is allowed (".tf32")."""
    import jax
    return jax.default_matmul_precision("default" if name.endswith(".tf32") else "highest")


def train(given: argparse.Namespace) -> dict[str, Any]:
    """A training step with `TrainStep`; images or tokens a second."""
    name = given.stage.partition(":")[2]
    if name.endswith(".tf32"):
        os.environ["MXNET_CUDA_TENSOR_OP_MATH_ALLOW_CONVERSION"] = "1"
    step, inputs, made = _step(name, given)
    return _trained(given, made, lambda: step(*inputs), lambda value: value.wait_to_read())


def flax(given: argparse.Namespace) -> dict[str, Any]:
    """The same step by hand in flax and optax."""
    import jax
    import optax
    from _networks import case, mean_loss
    name = given.stage.partition(":")[2]
    made, device = case(name.partition(".")[0], small=given.small), context(given.on).jax_device
    with jax.default_device(device), _in_precision(name):
        module, variables, x, y = _flax(made, device, "bfloat16" if name.endswith(".bfloat16") else "float32", True)
        rule, params, stats = optax.sgd(0.01, 0.9), variables["params"], variables.get("batch_stats", {})

        def loss(params: Any, stats: Any) -> tuple:
            out, new = module.apply({"params": params, "batch_stats": stats}, x, mutable=["batch_stats"])
            return mean_loss(out, y), new.get("batch_stats", {})

        def by_hand(params: Any, stats: Any, state: Any) -> tuple:
            (value, stats), grads = jax.value_and_grad(loss, has_aux=True)(params, stats)
            updates, state = rule.update(grads, state, params)
            return optax.apply_updates(params, updates), stats, state, value
        compiled, carry = jax.jit(by_hand, donate_argnums=(0, 1, 2)), [params, stats, rule.init(params)]

        def step() -> Any:
            *carry[:], value = compiled(*carry)
            return value
        return _trained(given, made, step, lambda value: value.block_until_ready())


def _trained(given: argparse.Namespace, made: Any, step: Callable[[], Any], wait: Callable[[Any], Any]
             ) -> dict[str, Any]:
    """What a step costs that is waited for, and one of ten in a row, as in training; and where its time goes."""
    def waited() -> None:
        wait(step())

    def ten() -> None:
        for _ in range(9):
            step()
        waited()
    start = time.perf_counter()
    waited()
    found = {"first step s": time.perf_counter() - start}
    given.note(found)
    best = _best(waited, given.seconds / 10)
    found |= {"step ms": 1e3 * best, "in a row ms": 1e2 * _best(ten, given.seconds / 20),
              f"{made.unit} a second": made.items / best, **memory(context(given.on))}
    given.note(found)
    return {**found, "kernels": _profiled(waited)}


def loop(given: argparse.Namespace) -> dict[str, Any]:
    """A step as scripts have it: record, backward, `Trainer.step`, the network hybridized."""
    import mxjax as mx
    net, (x, y), made = _network(given.stage.partition(":")[2], given)
    net.hybridize()
    trainer, loss = _rule(net), mx.gluon.loss.SoftmaxCrossEntropyLoss()

    def step() -> None:
        with mx.autograd.record():
            value = loss(net(x), y)
        value.backward()
        trainer.step(len(x))
        value.wait_to_read()
    start = time.perf_counter()
    step()
    first, best = time.perf_counter() - start, _best(step, given.seconds / 5)
    return {"first step s": first, "step ms": 1e3 * best, f"{made.unit} a second": made.items / best,
            **memory(context(given.on))}


def fit(given: argparse.Namespace) -> dict[str, Any]:
    """A step of `Module` with a store that it was given, of a batch on the host, as MXNet's scripts have it."""
    import mxjax as mx
    net, _, made = _network(given.stage.partition(":")[2], given)
    data, ctx = mx.nd.array(made.inputs, ctx=mx.cpu()), context(given.on)
    labels = mx.nd.array(made.labels, ctx=mx.cpu())
    module = mx.mod.Module(mx.sym.SoftmaxOutput(net(mx.sym.var("data")), name="softmax"), context=ctx)
    module.bind([("data", data.shape)], [("softmax_label", labels.shape)])
    module.init_params(mx.init.Xavier())
    module.init_optimizer(kvstore=mx.kv.create("device"), optimizer="sgd",
                          optimizer_params={"learning_rate": 0.01, "momentum": 0.9})
    batch, metric = mx.io.DataBatch([data], [labels]), mx.metric.Accuracy()

    def step() -> None:
        module.forward_backward(batch)
        module.update()
        module.update_metric(metric, batch.label)
    start = time.perf_counter()
    step()
    first, best = time.perf_counter() - start, _best(step, given.seconds / 5)
    return {"first step s": first, "step ms": 1e3 * best, f"{made.unit} a second": made.items / best}


def feed(given: argparse.Namespace) -> dict[str, Any]:
    """How batches come in: a large one to the device, whole and in parts; pictures of records, by several threads."""
    import jax
    import numpy as np

    import mxjax as mx
    device, found = context(given.on).jax_device, {}
    rows = 2 if given.small else 128
    batch = np.random.default_rng(0).random((rows, 3, 224, 224), "float32")
    for parts in (1, 4, 16):
        pieces = np.split(batch, parts) if parts <= rows else [batch]
        best = _best(lambda pieces=pieces: jax.block_until_ready([jax.device_put(p, device) for p in pieces]), 0.5)
        found[f"GB/s in {parts}"] = batch.nbytes / best / 1e9
    try:
        import cv2
    except ImportError:
        return found
    with tempfile.TemporaryDirectory() as folder:
        pictures = [cv2.GaussianBlur(np.random.default_rng(i).integers(0, 255, (288, 352, 3), np.uint8), (0, 0), 3)
                    for i in range(16)]
        with mx.recordio.MXRecordIO(f"{folder}/a.rec", "w") as file:
            for i in range(4 * rows if given.small else 4096):
                file.write(mx.recordio.pack_img((0, float(i), i, 0), pictures[i % 16], quality=90))
        for threads in (1, 2, 4, 8, 16):
            batches = mx.io.ImageRecordIter(path_imgrec=f"{folder}/a.rec", data_shape=(3, 224, 224), batch_size=rows,
                                            preprocess_threads=threads, rand_crop=True, rand_mirror=True, mean_r=120)
            for _ in batches:  # where there are many, processes come in
                pass
            batches.reset()
            start = time.perf_counter()
            count = sum(len(one.data[0]) for one in batches)
            found[f"pictures a second, {threads} threads"] = count / (time.perf_counter() - start)
    return found


def predict(given: argparse.Namespace) -> dict[str, Any]:
    """A hybridized network's prediction, and flax's."""
    import jax
    name = given.stage.partition(":")[2]
    net, (x, _), made = _network(name, given)
    net.hybridize()
    ours = _best(lambda: net(x).wait_to_read(), given.seconds / 6)
    device = context(given.on).jax_device
    with jax.default_device(device), _in_precision(name):
        module, variables, x, _ = _flax(made, device, "float32", False)
        compiled = jax.jit(module.apply)
        theirs = _best(lambda: compiled(variables, x).block_until_ready(), given.seconds / 6)
    return {"ms": 1e3 * ours, "flax ms": 1e3 * theirs, "of flax": ours / theirs}


def pytorch(given: argparse.Namespace) -> dict[str, Any]:
    """ResNet-50 of torchvision, a training step, where both are installed."""
    try:
        import torch
        import torchvision
    except ImportError as error:
        return {"skipped": str(error)}
    if not torch.cuda.is_available():
        return {"skipped": "this PyTorch sees no GPU"}
    found: dict[str, Any] = {"torch": torch.__version__}
    batch, size = (2, 64) if given.small else (64, 224)
    for name, dtype, conversion in (("float32", torch.float32, False), ("tf32", torch.float32, True),
                                    ("bfloat16", torch.bfloat16, False)):
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = conversion
        torch.backends.cudnn.benchmark = True
        net = torchvision.models.resnet50().cuda().to(dtype).to(memory_format=torch.channels_last)
        x = torch.randn(batch, 3, size, size, device="cuda", dtype=dtype).to(memory_format=torch.channels_last)
        y = torch.randint(0, 1000, (batch,), device="cuda")
        rule = torch.optim.SGD(net.parameters(), 0.01, 0.9)

        def step(net: Any = net, x: Any = x, y: Any = y, rule: Any = rule) -> None:
            rule.zero_grad()
            torch.nn.functional.cross_entropy(net(x).float(), y).backward()
            rule.step()
            torch.cuda.synchronize()
        best = _best(step, given.seconds / 10)
        found |= {f"{name} step ms": 1e3 * best, f"{name} images a second": batch / best}
        given.note(found)
    return found


def plan(given: argparse.Namespace) -> dict[str, Any]:
    """What `plan` says of the step that `train:resnet50` measures."""
    import mxjax as mx
    step, inputs, _ = _step("resnet50", given)
    kind = context(given.on).jax_device.device_kind.lower()
    on = next((name for name, word in (("h100", "h100"), ("h200", "h200"), ("a100", "a100"), ("l4", "l4"),
                                       ("v5e:1x1", "v5 lite"), ("v6e:1x1", "v6")) if word in kind), "h100")
    try:
        return {"device": kind, "planned for": on, **json.loads(step.plan(*inputs, on=on).to_json())}
    except mx.MXNetError as error:
        return {"device": kind, "planned for": on, "failed": str(error)[:500]}


def kvstore(given: argparse.Namespace) -> dict[str, Any]:
    """Gigabytes a second that the stores read and write to sum two arrays; what is pulled is the sum itself."""
    import mxjax as mx
    ctx, count = context(given.on), 1 << (16 if given.small else 25)
    found = {}
    for name in ("local", "device", "nccl"):
        store = mx.kv.create(name)
        values, out = [mx.nd.ones((count,), ctx=ctx) for _ in range(2)], mx.nd.zeros((count,), ctx=ctx)
        store.init("x", values[0])

        def step(store: Any = store, values: Any = values, out: Any = out) -> None:
            store.push("x", values)
            store.pull("x", out=out)
            out.wait_to_read()
        found[f"{name} GB/s"] = 3 * 4 * count / _best(step, max(given.seconds / 10, 0.2)) / 1e9
    return found


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


def main() -> int:
    """Runs the stages that are not there yet, then the checks; prints what was found."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--on", default="gpu", choices=("gpu", "tpu", "cpu"))
    parser.add_argument("--out", default="accelerator.json")
    parser.add_argument("--golden")
    parser.add_argument("--tests")
    parser.add_argument("--plugin", action="append", default=[])
    parser.add_argument("--processes", type=int, default=max((os.cpu_count() or 2) - 1, 1))
    parser.add_argument("--only", default="", help="a regular expression for the stages and checks")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--stage", help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=60.0, help=argparse.SUPPRESS)
    given = parser.parse_args()
    out = Path(given.out)
    if given.stage:
        sys.path.insert(0, str(HERE))
        given.note = lambda found: out.write_text(json.dumps(found), encoding="utf-8")
        given.note(globals()[given.stage.partition(":")[0]](given))
        return 0
    end = time.time() + 60 * given.minutes
    known = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}

    def save() -> None:
        with tempfile.NamedTemporaryFile("w", dir=out.resolve().parent, delete=False, encoding="utf-8") as file:
            json.dump(known, file, indent=1)
        Path(file.name).replace(out)
    for stage, share in STAGES.items():
        if stage in known and "failed" not in known[stage] or not re.search(given.only, stage):
            continue
        if time.time() > end - 60 * given.minutes * LEFT:
            print(stage, "not reached", flush=True)
            continue
        seconds, start = share * given.minutes / 8, time.time()
        with tempfile.TemporaryDirectory() as folder:
            result = Path(folder, "result.json")
            command = [sys.executable, __file__, *sys.argv[1:], "--stage", stage, "--seconds", str(seconds),
                       "--out", str(result)]
            log, status = "", None
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + MARGIN, check=False)
                log, status = done.stdout + done.stderr, done.returncode
            except subprocess.TimeoutExpired as error:
                log = str(error.stderr or "")
            found = json.loads(result.read_text(encoding="utf-8")) if result.exists() else {}
            known[stage] = found if status == 0 else {**found, "failed": status, "log": log[-1500:]}
        known[stage]["stage s"] = round(time.time() - start, 1)
        save()
        print(stage, json.dumps(known[stage])[:600], flush=True)
        if stage == "about" and status:
            return 1
    for stage, found in known.items():
        theirs = known.get("flax:" + stage.partition(":")[2], {}).get("step ms")
        if stage.startswith("train:") and theirs and "step ms" in found:
            found["of flax"] = found["step ms"] / theirs
            print(stage, f"{found['of flax']:.3f} of flax", flush=True)
    save()
    _checks(given, known, end, save)
    return 0


if __name__ == "__main__":
    sys.exit(main())
