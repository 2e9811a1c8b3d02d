"""The stages of `accelerator.py`: what is timed, each in a process of its own.

A stage is a function of the arguments of the command and gives a JSON value. Its name may be followed by what it is
about: "train:resnet18.bfloat16.8" is a training step of ResNet-18 in bfloat16 with 8 images.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def context(on: str) -> Any:
    """The context of a device type."""
    import mxjax as mx
    return getattr(mx, on)(0)


def memory(ctx: Any) -> dict[str, int]:
    """What the device's allocator tells, if anything."""
    stats = ctx.jax_device.memory_stats() or {}
    return {name: stats[name] for name in ("peak_bytes_in_use", "bytes_limit") if name in stats}


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


def _about(given: argparse.Namespace) -> str:
    """The part of a stage's name behind the colon."""
    return given.stage.partition(":")[2]


def _case(about: str, given: argparse.Namespace) -> tuple[Any, str]:
    """(the case, its dtype) of "resnet18", "resnet18.bfloat16", "resnet18.float32.8": of eight images."""
    from _networks import case
    name, *more = about.split(".")
    made = case(name, small=given.small)
    count = next((int(word) for word in more if word.isdecimal()), made.inputs.shape[0])
    items = made.items * min(count, len(made.inputs)) // len(made.inputs)
    made = made._replace(inputs=made.inputs[:count], labels=made.labels[:count], items=items)
    return made, "bfloat16" if "bfloat16" in more else "float32"


def _network(about: str, given: argparse.Namespace) -> tuple[Any, list[Any], Any]:
    """(network, its inputs and labels, the case)."""
    import mxjax as mx
    (made, dtype), ctx = _case(about, given), context(given.on)
    net = made.net
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
    name = _about(given)
    if name.endswith(".tf32"):
        os.environ["MXNET_CUDA_TENSOR_OP_MATH_ALLOW_CONVERSION"] = "1"
    step, inputs, made = _step(name, given)
    return _trained(given, made, lambda: step(*inputs), lambda value: value.wait_to_read())


def flax(given: argparse.Namespace) -> dict[str, Any]:
    """The same step by hand in flax and optax."""
    import jax
    import optax
    from _networks import mean_loss
    name = _about(given)
    (made, dtype), device = _case(name, given), context(given.on).jax_device
    with jax.default_device(device), _in_precision(name):
        module, variables, x, y = _flax(made, device, dtype, True)
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
    return _by_hand(given, True)


def imperative(given: argparse.Namespace) -> dict[str, Any]:
    """The same step, the network not hybridized."""
    return _by_hand(given, False)


def _scripted(given: argparse.Namespace, hybridized: bool) -> tuple[Callable[[], Any], Any]:
    """(a step as scripts have it, the case)."""
    import mxjax as mx
    net, (x, y), made = _network(_about(given), given)
    if hybridized:
        net.hybridize()
    trainer, loss = _rule(net), mx.gluon.loss.SoftmaxCrossEntropyLoss()
    mx.nd.waitall()

    def step() -> Any:
        with mx.autograd.record():
            value = loss(net(x), y)
        value.backward()
        trainer.step(len(x))
        return value
    return step, made


def _by_hand(given: argparse.Namespace, hybridized: bool) -> dict[str, Any]:
    import mxjax as mx
    step, made = _scripted(given, hybridized)

    def waited() -> None:
        step()
        mx.nd.waitall()

    def ten() -> None:
        for _ in range(10):
            step()
        mx.nd.waitall()
    start = time.perf_counter()
    waited()
    found = {"first step s": time.perf_counter() - start}
    given.note(found)
    if not hybridized and not given.small:  # the backward pass becomes one program when it has come back often enough
        end = time.perf_counter() + given.seconds / 3
        while time.perf_counter() < end:
            ten()
    best = _best(waited, given.seconds / 6)
    return {**found, "step ms": 1e3 * best, "in a row ms": 1e2 * _best(ten, given.seconds / 10),
            f"{made.unit} a second": made.items / best, **memory(context(given.on))}


def once(given: argparse.Namespace) -> dict[str, Any]:
    """One imperative step of a new process, which `first` asks for."""
    import mxjax as mx
    step, _ = _scripted(given, False)
    start = time.perf_counter()
    step()
    mx.nd.waitall()
    return {"s": time.perf_counter() - start}


def first(given: argparse.Namespace) -> dict[str, Any]:
    """Seconds of the first imperative step: nothing compiled yet, all of it in the cache, and without other threads."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        ways = {"new s": {"MXJAX_CACHE_DIR": f"{folder}/a"}, "cached s": {"MXJAX_CACHE_DIR": f"{folder}/a"},
                "one by one s": {"MXJAX_CACHE_DIR": f"{folder}/b", "MXNET_ENGINE_TYPE": "NaiveEngine"}}
        for name, settings in ways.items():
            result = Path(folder, "result.json")
            command = [sys.executable, str(HERE / "accelerator.py"), "--stage", f"once:{_about(given)}", "--on",
                       given.on, "--out", str(result), *(["--small"] if given.small else [])]
            subprocess.run(command, env={**os.environ, **settings}, check=True, capture_output=True)
            found[name] = json.loads(result.read_text(encoding="utf-8"))["s"]
            given.note(found)
    return found


def graphs(given: argparse.Namespace) -> dict[str, Any]:
    """A `TrainStep` with another choice of what CUDA graphs hold: "graphs:bert.bfloat16.off"."""
    about, _, os.environ["MXJAX_CUDA_GRAPHS"] = _about(given).rpartition(".")
    step, inputs, made = _step(about, given)
    return _trained(given, made, lambda: step(*inputs), lambda value: value.wait_to_read())


def rows(given: argparse.Namespace) -> dict[str, Any]:
    """`TrainStep.run`: ten steps by one call, beside ten calls in a row."""
    import mxjax as mx
    step, inputs, made = _step(_about(given), given)
    many, count = [mx.nd.stack(*[array] * 10, axis=0) for array in inputs], 10
    for _ in range(3):
        step.run(*many).wait_to_read()

    def ten() -> None:
        for _ in range(count):
            value = step(*inputs)
        value.wait_to_read()
    start = time.perf_counter()
    step.run(*many).wait_to_read()
    found = {"by one call, a step ms": 1e3 * min((time.perf_counter() - start) / count, _best(
        lambda: step.run(*many).wait_to_read(), given.seconds / 6) / count)}
    given.note(found)
    found["call by call ms"] = 1e3 * _best(ten, given.seconds / 6) / count
    return {**found, f"{made.unit} a second": made.items / found["by one call, a step ms"] * 1e3}


def host(given: argparse.Namespace) -> dict[str, Any]:
    """Milliseconds of Python for a training step of 644 arrays: `TrainStep`, and `jax.jit` of flax's pytrees."""
    import jax
    import jax.numpy as jnp
    import optax
    from flax import linen

    import mxjax as mx
    layers, ctx = 4 if given.small else 161, context(given.on)
    net = mx.gluon.nn.HybridSequential()
    net.add(*[mx.gluon.nn.Dense(8, in_units=8) for _ in range(layers)])
    net.initialize(mx.init.Xavier(), ctx=ctx)
    step = mx.gluon.TrainStep(net, mx.gluon.loss.L2Loss(), _rule(net))
    x, y = mx.nd.ones((2, 8), ctx=ctx), mx.nd.ones((2, 8), ctx=ctx)
    found: dict[str, Any] = {"arrays": 4 * layers}
    found |= {f"mxjax {k}": v for k, v in _asked(lambda: step(x, y), lambda out: out.wait_to_read(), given).items()}
    given.note(found)
    with jax.default_device(ctx.jax_device), _in_precision(""):
        module = linen.Sequential([linen.Dense(8) for _ in range(layers)])
        a, b, rule = jnp.ones((2, 8)), jnp.ones((2, 8)), optax.sgd(0.01, 0.9)
        params = jax.jit(lambda: module.init(jax.random.key(0), a))()
        carry = [params, rule.init(params)]

        def by_hand(params: Any, state: Any, a: Any, b: Any) -> tuple:
            value, grads = jax.value_and_grad(lambda p: ((module.apply(p, a) - b) ** 2).mean())(params)
            updates, state = rule.update(grads, state, params)
            return optax.apply_updates(params, updates), state, value
        compiled = jax.jit(by_hand, donate_argnums=(0, 1))

        def theirs() -> Any:
            *carry[:], value = compiled(*carry, a, b)
            return value
        found |= {f"flax {k}": v for k, v in _asked(theirs, lambda v: v.block_until_ready(), given).items()}
    return found


def _asked(step: Callable[[], Any], wait: Callable[[Any], Any], given: argparse.Namespace) -> dict[str, float]:
    """Milliseconds that a call takes until it returns, the median of many, and with the wait for it, the best."""
    for _ in range(0 if given.small else 60):  # first steps are other programs
        wait(step())
    waited = _best(lambda: wait(step()), given.seconds / 10)
    times, end = [], time.perf_counter() + given.seconds / 10
    while time.perf_counter() < end or not times:
        start = time.perf_counter()
        out = step()
        times.append(time.perf_counter() - start)
        wait(out)
    return {"call ms": 1e3 * sorted(times)[len(times) // 2], "waited ms": 1e3 * waited}


def int8(given: argparse.Namespace) -> dict[str, Any]:
    """A prediction in float32, bfloat16 and 8-bit integers, hybridized."""
    import mxjax as mx
    net, (x, _), made = _network(_about(given), given)
    ctx, found = context(given.on), {}
    net.hybridize()
    found["float32 ms"] = 1e3 * _best(lambda: net(x).wait_to_read(), given.seconds / 8)
    given.note(found)
    quantized = mx.contrib.quant.quantize_net_v2(net, "auto", calib_data=[x], calib_mode="naive", ctx=ctx)
    quantized.hybridize()
    found["int8 ms"] = 1e3 * _best(lambda: quantized(x).wait_to_read(), given.seconds / 8)
    given.note(found)
    low = mx.contrib.amp.convert_hybrid_block(net, "bfloat16", ctx=ctx)
    low.hybridize()
    found["AMP bfloat16 ms"] = 1e3 * _best(lambda: low(x).wait_to_read(), given.seconds / 8)
    return {**found, "int8 of float32": found["int8 ms"] / found["float32 ms"], f"{made.unit} a second in int8":
            made.items / found["int8 ms"] * 1e3}


def fit(given: argparse.Namespace) -> dict[str, Any]:
    """A step of `Module` with a store that it was given, of a batch on the host, as MXNet's scripts have it."""
    import mxjax as mx
    net, _, made = _network(_about(given), given)
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
    name = _about(given)
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
    """Training steps of torchvision's networks, not compiled, where both are installed."""
    try:
        import torch
        import torchvision
    except ImportError as error:
        return {"skipped": str(error)}
    if not torch.cuda.is_available():
        return {"skipped": "this PyTorch sees no GPU"}
    found: dict[str, Any] = {"torch": torch.__version__}
    torch.backends.cudnn.benchmark = True
    for network, count, name in (("resnet18", 8, "float32"), ("resnet50", 64, "bfloat16"), ("resnet50", 64, "float32"),
                                 ("resnet50", 64, "tf32")):
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
        dtype = torch.bfloat16 if name == "bfloat16" else torch.float32
        batch, size = (2, 64) if given.small else (count, 224)
        net = getattr(torchvision.models, network)().cuda().to(dtype).to(memory_format=torch.channels_last)
        x = torch.randn(batch, 3, size, size, device="cuda", dtype=dtype).to(memory_format=torch.channels_last)
        y = torch.randint(0, 1000, (batch,), device="cuda")
        rule = torch.optim.SGD(net.parameters(), 0.01, 0.9)

        def step(net: Any = net, x: Any = x, y: Any = y, rule: Any = rule) -> None:
            rule.zero_grad()
            torch.nn.functional.cross_entropy(net(x).float(), y).backward()
            rule.step()
            torch.cuda.synchronize()
        best = _best(step, given.seconds / 12)
        found |= {f"{network}.{name}.{batch} step ms": 1e3 * best, f"{network}.{name}.{batch} images a second":
                  batch / best}
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
