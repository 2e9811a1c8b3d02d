"""Plans for devices that are not here: what is asked for, what programs say, and that planning changes nothing."""

import json

import accelerators
import jax
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import mxjax as mx
from mxjax import __main__ as commands
from mxjax._xla.capacity import products
from mxjax.base import MXNetError
from mxjax.gluon import _plan
from mxjax.plan import DEVICES, Plan, estimate, target
from mxjax.plan.figures import figures
from mxjax.plan.largest import largest
from mxjax.symbol import _plan as graph_plans

from .internals import begin, has_values, states_of, trainer_of

COMPILERS = {"v5e:2x2": "libtpu", "h100": "jax_plugins.xla_cuda12"}


def _fake(total, batch=8, available=1000):
    return Plan("m", "h100", 1, batch, {"total": total, "available": available}, 1e12, 10, 3, {},
                {"compute": 0.5, "memory": 0.25, "network": 0.0}, 1.0, ["n"])


@pytest.mark.parametrize("on, count, topology", [
    ("h100", 1, "1x1x1"), ("a100x4", 4, "1x1x4"), ("l4", 1, "1x1x1"), ("v5e:4x4", 16, "v5e:4x4"),
    ("v5e:1x1", 1, "v5e:2x2"), ("v6e:2x2", 4, "v6e:2x2")])
def test_targets(on, count, topology):
    found = target(on)
    assert (found.count, found.topology) == (count, topology)


@pytest.mark.parametrize("on", ["", "k80", "h100x0", "h100:2x2", "v5ex4", "v5e:0x2", "v5e:", "H100"])
def test_unknown_devices(on):
    with pytest.raises(MXNetError, match="h100, h200, a100, l4, v5e, v6e"):
        target(on)


def test_every_device_has_figures_and_a_source():
    for device in DEVICES.values():
        assert device.source and device.memory > 1 << 33 and device.bandwidth > 1e11
        assert device.flops["bfloat16"] > 1e14


def test_what_the_text_of_a_program_says():
    told = figures("""HloModule m
%fused (p: f32[4,8], q: bf16[8]) -> f32[4,8] {
  %p = f32[4,8]{1,0} parameter(0)
  %q = bf16[8]{0} parameter(1)
  ROOT %x = f32[4,8]{1,0} custom(%p, %q)
}

ENTRY %main (a: f32[4,8], b: bf16[8]) -> (f32[4,8]) {
  %a = f32[4,8]{1,0} parameter(0)
  %b = bf16[8]{0} parameter(1)
  %c = f32[4,8]{1,0} fusion(%a, %b), kind=kLoop, calls=%fused
  %s = f32[4,8]{1,0} all-reduce-start(%c), replica_groups={{0,1}}, to_apply=%add
  %d = f32[4,8]{1,0} all-reduce-done(%s)
  ROOT %t = (f32[4,8]{1,0}) tuple(%d)
}
""")
    assert told["launches"] == 2 and told["kinds"] == {"fusion": 1, "all-reduce-start": 1}
    assert told["moved"] == (128 + 16 + 128) + 2 * 128
    assert told["collectives"] == {"all-reduce": (1, 128)}


def test_loops_count_as_often_as_they_run_and_parts_of_arrays_as_parts():
    text = """HloModule m
%fused (p: f32[10,8], i: s32[], w: f32[8,8]) -> f32[10,8] {
  %p = f32[10,8]{1,0} parameter(0)
  %i = s32[] parameter(1)
  %w = f32[8,8]{1,0} parameter(2)
  %row = f32[1,8]{1,0} dynamic-slice(%p, %i), dynamic_slice_sizes={1,8}
  %new = f32[1,8]{1,0} dot(%row, %w)
  ROOT %put = f32[10,8]{1,0} dynamic-update-slice(%p, %new, %i)
}

%body (t: (s32[], f32[10,8], f32[8,8])) -> (s32[], f32[10,8], f32[8,8]) {
  %t = (s32[], f32[10,8]{1,0}, f32[8,8]{1,0}) parameter(0)
  %i = s32[] get-tuple-element(%t), index=0
  %a = f32[10,8]{1,0} get-tuple-element(%t), index=1
  %w = f32[8,8]{1,0:S(1)} get-tuple-element(%t), index=2
  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
  %f = f32[10,8]{1,0} fusion(%a, %i, %w), kind=kLoop, calls=%fused
  ROOT %r = (s32[], f32[10,8]{1,0}, f32[8,8]{1,0}) tuple(%next, %f, %w)
}

%cond (t: (s32[], f32[10,8], f32[8,8])) -> pred[] {
  %t = (s32[], f32[10,8]{1,0}, f32[8,8]{1,0}) parameter(0)
  %i = s32[] get-tuple-element(%t), index=0
  %n = s32[] constant(10)
  ROOT %lt = pred[] compare(%i, %n), direction=LT
}

ENTRY %main (t: (s32[], f32[10,8], f32[8,8])) -> (s32[], f32[10,8], f32[8,8]) {
  %t = (s32[], f32[10,8]{1,0}, f32[8,8]{1,0}) parameter(0)
  ROOT %l = (s32[], f32[10,8]{1,0}, f32[8,8]{1,0}) while(%t), condition=%cond, body=%body
}
"""
    told = figures(text)
    assert told["launches"] == 10 and told["kinds"] == {"fusion": 10}
    row, number, weight = 32, 4, 256
    assert told["moved"] == 10 * (row + number + weight + row)
    assert figures(text, on_chip=True)["moved"] == 10 * (row + number + row)
    kind = "((f32[10,8]{1,0}, s32[], f32[8,8]{1,0:S(1)}), f32[10,8]{1,0}, u32[])"  # others run beside it
    beside = text.replace("%f = f32[10,8]{1,0} fusion(%a, %i, %w)", f"%s = {kind} fusion-start(%a, %i, %w)").replace(
        "  ROOT %r", "  %f = f32[10,8]{1,0} fusion-done(%s)\n  ROOT %r")
    assert beside != text and figures(beside) == told
    known = text.replace("body=%body", 'body=%body, backend_config={"known_trip_count":{"n":"7"}}')
    assert figures(known)["launches"] == 7


def test_what_is_fetched_in_the_background_counts_as_what_is_read_and_written():
    def moved(*lines):
        text = "\n  ".join(("HloModule m\nENTRY %main (a: f32[64,8]) -> f32[64,8] {",
                           "%a = f32[64,8]{1,0:T(8,128)} parameter(0)", *lines))
        return figures(f"{text}\n}}\n", on_chip=True)["moved"]
    part = "(f32[64,8]{1,0:T(8,128)}), f32[16,8]{1,0:T(8,128)S(1)}, s32[]{:S(2)}"
    assert moved(f"%s = ({part}) slice-start(%a), slice={{[0:16], [0:8]}}") == 16 * 8 * 4
    assert moved(f"%s = ({part.replace('S(1)', '')}) slice-start(%a), slice={{[0:16], [0:8]}}") == 2 * 16 * 8 * 4
    near = "%n = f32[64,8]{1,0:T(8,128)S(1)} copy(%a)"  # reads what there is of it once
    assert moved(near) == 64 * 8 * 4
    assert moved(near, "%s = f32[16,8]{1,0:T(8,128)S(1)} slice(%n), slice={[0:16], [0:8]}") == 64 * 8 * 4
    assert moved(near, "%s = f32[16,8]{1,0:T(8,128)} slice(%n), slice={[0:16], [0:8]}") == (64 + 16) * 8 * 4


def test_what_a_library_is_given_for_itself_is_no_traffic():
    def moved(kind, *takes):
        takes = [f"%t{i} = f32[] get-tuple-element(%c), index={i}" for i in takes]
        text = "\n  ".join(("HloModule m\nENTRY %main (a: f32[64,8]) -> f32[] {", "%a = f32[64,8]{1,0} parameter(0)",
                           f"%c = ({kind}) custom-call(%a), custom_call_target=\"x\"", *takes,
                           "ROOT %r = f32[] add(%t0)"))
        return figures(f"{text}\n}}\n")["moved"]
    read = 64 * 8 * 4
    assert moved("f32[8]{0}, s8[4194304]{0}", 0) == moved("f32[8]{0}, u8[9]{0}", 0) == read + 32
    assert moved("f32[8]{0}, s8[100]{0}", 0, 1) == read + 132, "a result of small integers"
    assert moved("f32[8]{0}, f32[4]{0}", 0) == read + 48, "written, if for nobody"


def test_the_largest_batch():
    asked = []

    def plan(batch):
        asked.append(batch)
        return _fake(100 + 3 * batch, batch)
    found = largest(plan, 32, 4)
    assert found.batch == 300 and len(asked) <= 8 and all(b % 4 == 0 for b in asked)
    assert largest(lambda b: _fake(10 * b, b), 4096, 1).batch == 100
    asked.clear()
    assert largest(lambda b: asked.append(b) or _fake(1, b), 3, 3).batch == max(asked) == 6 * 64 ** 6
    with pytest.raises(MXNetError, match="not even"):
        largest(lambda b: _fake(2000, b), 32, 1)


def test_a_plan_says_what_it_knows():
    plan = _fake(1200)
    assert not plan.fits and plan.bound == "compute" and plan.step == 0.5
    assert "DOES NOT FIT" in str(plan) and "16 of the batch" in str(plan) and "note: n" in str(plan)
    assert json.loads(plan.to_json())["fits"] is False


def test_what_is_missing_is_named():
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="fc")
    with pytest.raises(MXNetError, match="the shapes of the inputs are missing"):
        net.plan("h100")
    with pytest.raises(MXNetError, match="no input x"):
        net.plan("h100", x=(2, 3))
    with pytest.raises(MXNetError, match="the shapes of data, fc_weight cannot be inferred"):
        net.plan("h100", fc_bias=(3,))
    with pytest.raises(MXNetError, match="train='lion' must be one of sgd, adam"):
        net.plan("h100", train="lion", data=(2, 3))
    with pytest.raises(MXNetError, match="cannot be split over 4 devices"):
        net.plan("v5e:2x2", data=(2, 3))


@pytest.mark.parametrize("on", COMPILERS)
def test_the_extra_is_named_where_there_is_no_compiler(on):
    """This test or the next runs for each device: its compiler is a package of gigabytes, not in the test extra."""
    if accelerators.installed(COMPILERS[on]):
        pytest.skip("the compiler is here")
    with pytest.raises(MXNetError, match="there is no compiler.*pip install 'mxjax"):
        mx.sym.exp(mx.sym.var("data")).plan(on, data=(4, 3))


@pytest.mark.parametrize("on", COMPILERS)
def test_compiled(on):
    if not accelerators.installed(COMPILERS[on]):
        pytest.skip("XLA's compiler for this device is a package of gigabytes: pip install 'mxjax[cuda12,plan-tpu]'")
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=8, name="fc"), name="softmax")
    plan = net.plan(on, train="adam", data=(64, 256))
    assert plan.fits and plan.memory["parameters"] == 4 * (8 * 256 + 8)
    assert plan.memory["optimizer states"] == 2 * plan.memory["parameters"]
    assert plan.flops >= 2 * 2 * 64 * 256 * 8 and plan.launches > 0
    assert ("all-reduce" in plan.collectives) == (plan.devices > 1)


@pytest.mark.parametrize(("on", "call"), [("h100", "__cudnn$fmhaSoftmaxBackward"), ("v5e:1x1", "tpu_custom_call")])
def test_attention_is_the_devices_kernel(on, call, monkeypatch):
    """A network in half precision, trained: both ways; over several devices what XLA divides."""
    if not accelerators.installed(COMPILERS.get(on, "libtpu")):
        pytest.skip("XLA's compiler for this device is a package of gigabytes: pip install 'mxjax[cuda12,plan-tpu]'")

    class Attention(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.parts = mx.gluon.nn.Dense(3 * 64, flatten=False)

        def hybrid_forward(self, F, x):
            q, k, v = F.split(self.parts(x), 3, axis=2)
            return F.batch_dot(F.softmax(F.batch_dot(F.contrib.div_sqrt_dim(q), k, transpose_b=True)), v)
    texts, compile_for = [], estimate.compile_for
    monkeypatch.setattr(estimate, "compile_for", lambda *given, **more: texts.append(
        compile_for(*given, **more)) or texts[-1])
    net = Attention()
    for devices in (on, {"h100": "h100x2"}.get(on, "v5e:2x2")):
        net.plan((4, 1024, 64), on=devices, train="sgd", dtype="bfloat16")
    assert call in texts[0]["text"] and call not in texts[1]["text"]
    assert texts[0]["memory"]["temp"] < 4 * 1024 * 1024 * 2  # less than the weights


def test_a_blocks_arrays_tell_their_dtypes(monkeypatch):
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Embedding(10, 8), mx.gluon.rnn.LSTM(8))
    net.initialize()
    net.cast("bfloat16")
    for given in ({}, {"dtype": "bfloat16"}):
        (_, _, groups, _), _ = _asked(monkeypatch, graph_plans, lambda g=given: net.plan(
            mx.nd.zeros((3, 2), dtype="int32"), on="l4", **g))
        kinds = {g.name: {str(a.dtype) for a in g.arguments} for g in groups}
        assert kinds["inputs"] == {"int32"} and kinds["parameters"] == {"bfloat16"}


def _asked(monkeypatch, module, run):
    """What a plan asks to be compiled."""
    asked = []
    monkeypatch.setattr(module, "make_plan", lambda *given, **more: asked.append((given, more)))
    run()
    return asked[0]


@pytest.fixture
def step():
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(5, activation="relu"), mx.gluon.nn.BatchNorm(), mx.gluon.nn.Dense(3))
    net.initialize(mx.init.Xavier())
    trainer = mx.gluon.Trainer(net.collect_params(), "adam", {
        "learning_rate": 0.1, "lr_scheduler": mx.lr_scheduler.FactorScheduler(1, 0.5)})
    return mx.gluon.TrainStep(net, mx.gluon.loss.L2Loss(), trainer)


@pytest.mark.parametrize("done", [0, 2])
def test_a_planned_step_is_the_step_and_changes_nothing(step, monkeypatch, done):
    rng = np.random.default_rng(0)
    data, label = mx.nd.array(rng.normal(size=(4, 6))), mx.nd.array(rng.normal(size=(4, 3)))
    for _ in range(done):
        step(data, label)
    (_, program, groups, _), more = _asked(monkeypatch, _plan, lambda: step.plan(data, label, on="h100"))
    assert trainer_of(step).optimizer.num_update == done and more["batch"] == 4
    kinds = {g.name: g for g in groups}
    assert kinds["inputs"].split and sorted(s.shape for s in kinds["inputs"].arguments) == [(4, 3), (4, 6)]
    assert kinds["parameters"].kept and kinds["optimizer states"].kept and kinds["auxiliary states"].kept
    sizes = sum(int(np.prod(s.shape)) for s in kinds["parameters"].arguments)
    params = step.net.collect_params()
    assert sizes == sum(int(np.prod(p.shape)) for p in params.values() if p.grad_req != "null")
    assert done or not states_of(trainer_of(step)) and not has_values(step.net[0].weight)
    begin(step, data, label)
    made = jax.eval_shape(program, *[s for g in groups for s in g.arguments])
    assert sorted(m.shape for m in made if m.shape == (4,)) == [(4,)]  # the loss
    before = {name: p.data().asnumpy() for name, p in params.items()}
    loss = step(data, label).asnumpy()
    assert trainer_of(step).optimizer.num_update == done + 1
    assert any((before[name] != p.data().asnumpy()).any() for name, p in params.items())
    assert np.isfinite(loss).all() and all(p.data().context == mx.cpu() for p in params.values())


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "lars"])
def test_a_step_of_parameters_of_two_dtypes(optimizer, monkeypatch):
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(5, in_units=6), mx.gluon.nn.BatchNorm(in_channels=5))
    net.initialize()
    net.cast("bfloat16")
    step = mx.gluon.TrainStep(net, mx.gluon.loss.L2Loss(), mx.gluon.Trainer(net.collect_params(), optimizer, {
        "multi_precision": True}))
    data, label = mx.nd.ones((4, 6), dtype="bfloat16"), mx.nd.ones((4, 5), dtype="bfloat16")
    (_, _, groups, _), _ = _asked(monkeypatch, _plan, lambda: step.plan(data, label, on="v5e:1x1"))
    assert {str(s.dtype) for g in groups if g.name == "parameters" for s in g.arguments} == {"bfloat16", "float32"}
    assert np.isfinite(step(data, label).astype("float32").asnumpy()).all()
    with pytest.raises(mx.MXNetError, match=r"tpu\(0\) is not available"):
        mx.nd.ones((2,), ctx=mx.tpu())


def test_a_step_that_looks_at_values_cannot_be_planned():
    net = mx.gluon.nn.Dense(5, in_units=6)
    net.initialize()
    step = mx.gluon.TrainStep(net, lambda out, label: out * (1 + float(out.mean().asscalar() > 0)) - label,
                              mx.gluon.Trainer(net.collect_params(), "sgd"))
    before = net.weight.data().asnumpy()
    with pytest.raises(mx.MXNetError, match="reads a value"):
        step.plan(mx.nd.ones((4, 6)), mx.nd.ones((4, 5)), on="v5e:1x1")
    assert (net.weight.data().asnumpy() == before).all() and trainer_of(step).optimizer.num_update == 0
    step(mx.nd.ones((4, 6)), mx.nd.ones((4, 5)))
    assert (net.weight.data().asnumpy() != before).any()


def test_blocks_take_shapes_or_arrays(monkeypatch):
    net = mx.gluon.nn.Dense(3)
    net.initialize()
    module = graph_plans
    for given in ((4, 6), mx.nd.ones((4, 6))):
        (name, program, groups, on), _ = _asked(monkeypatch, module, lambda g=given: net.plan(g, on="l4"))
        assert on == "l4" and "prediction in float32" in name
        arrays = [np.ones(s.shape, s.dtype) for g in groups for s in g.arguments]
        np.testing.assert_allclose(program(*arrays)[0], np.full((4, 3), 7))


def test_training_of_a_graph(monkeypatch):
    module = graph_plans
    net = mx.sym.LinearRegressionOutput(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=1, name="fc"), name="lin")
    (name, program, groups, _), _ = _asked(
        monkeypatch, module, lambda: net.plan("h100", train="sgd", dtype="float16", data=(2, 3)))
    assert "training by sgd in float16" in name
    assert [g.name for g in groups] == ["parameters", "optimizer states", "auxiliary states", "inputs"]
    assert all(s.dtype == np.float16 for g in groups[:2] for s in g.arguments)
    arrays = [np.ones(s.shape, s.dtype) for g in groups for s in g.arguments]
    (weight, bias), states, _, _ = program(*arrays)
    # the gradient of (4 - 1): 3 for the bias and each weight, from two rows
    np.testing.assert_allclose(states[0], 0.9 - 0.1 * (6 + 1e-4) * np.ones((1, 3)), rtol=2e-3)
    np.testing.assert_allclose(weight, 1 + np.asarray(states[0]), rtol=2e-3)
    assert bias.shape == (1,)


def test_parameters_follow_the_dtype_that_is_asked_for(monkeypatch):
    module = graph_plans
    net = mx.sym.FullyConnected(mx.sym.var("data"), mx.sym.var("w", dtype="float32"), num_hidden=3, no_bias=True)
    (_, _, groups, _), _ = _asked(monkeypatch, module, lambda: net.plan("h100", dtype="bfloat16", data=(2, 4)))
    assert {str(s.dtype) for g in groups for s in g.arguments} == {"bfloat16"}
    assert net.attr_dict()["w"]["__dtype__"] == "0"


def test_the_command(tmp_path, monkeypatch, capsys):
    mx.sym.exp(mx.sym.var("data"), name="e").save(str(tmp_path / "m-symbol.json"))
    given = ["plan", str(tmp_path / "m-symbol.json"), "--on", "h100"]
    for wrong, said in ((["--shape", "data"], "NAME=N,N"), (["--shape", "data=2,x"], "NAME=N,N"),
                        (["--shape", "data=2", "--batch", "many"], "a number or largest"), ([], "are missing")):
        with pytest.raises(SystemExit) as ended:
            commands.main([*given, *wrong])
        assert ended.value.code == 2 and said in capsys.readouterr().err
    module = graph_plans
    monkeypatch.setattr(module, "make_plan", lambda *_, **more: _fake(100 * more["batch"], more["batch"]))
    assert commands.main([*given, "--shape", "data=4,2"]) == 0
    assert "fits" in capsys.readouterr().out
    assert commands.main([*given, "--shape", "data=40,2"]) == 1
    capsys.readouterr()
    assert commands.main([*given, "--shape", "data=4,2", "--batch", "largest", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["batch"] == 10


def test_units_follow_the_multiplications(monkeypatch):
    def product(x, w):
        low = (x.astype("bfloat16") @ w.astype("bfloat16")).astype("float32")
        return jax.lax.scan(lambda carry, _: (carry @ w, None), low, length=3)[0]
    x, w = jax.ShapeDtypeStruct((4, 8), "float32"), jax.ShapeDtypeStruct((8, 8), "float32")
    found = products(jax.make_jaxpr(product)(x, w).jaxpr)
    assert found == {"bfloat16": 4 * 8 * 8, "float32": 3 * 4 * 8 * 8}
    for on in ("h100", "v5e:1x1"):
        assert estimate.work_units(target(on), found) == {"bfloat16": 0.25, "float32": 0.75}
        assert estimate.work_units(target(on), {}) == estimate.work_units(target(on), {"int8": 3}) == {"float32": 1}
    monkeypatch.setenv("MXNET_CUDA_TENSOR_OP_MATH_ALLOW_CONVERSION", "1")
    assert estimate.work_units(target("h100"), found) == {"bfloat16": 0.25, "tf32": 0.75}
    assert estimate.work_units(target("v5e:1x1"), found) == {"bfloat16": 1}


def test_parts_of_a_planned_step(monkeypatch):
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(64, activation="relu", prefix="up_"), mx.gluon.nn.Dense(32, prefix="down_"))
    net.initialize()
    step = mx.gluon.TrainStep(net, mx.gluon.loss.L2Loss(), mx.gluon.Trainer(net.collect_params(), "adam"))
    (_, program, groups, _), more = _asked(monkeypatch, _plan, lambda: step.plan(
        mx.nd.ones((16, 48)), mx.nd.ones((16, 32)), on="v5e:2x2", mesh={"data": 2, "model": 2},
        sharding={"up_weight": P("model", "data"), "bias": P()}))
    kinds = {g.name: dict(zip([s.shape for s in g.arguments], g.specs, strict=True)) for g in groups}
    assert kinds["parameters"] == {(64, 48): ("model", "data"), (64,): (), (32, 64): (None, "data"), (32,): ()}
    assert kinds["optimizer states"][64, 48] == ("model", "data") and more["mesh"] == {"data": 2, "model": 2}
    assert sorted(more["results"], key=str) == sorted(
        [*kinds["parameters"].values()] + [s for g in groups if g.name == "optimizer states" for s in g.specs] + [()],
        key=str)
    constrained = str(jax.make_jaxpr(program)(*[s for g in groups for s in g.arguments]))
    assert constrained.count("sharding_constraint") >= 3  # both weights forward, the later one backward
    assert "optimization_barrier" in constrained and not has_values(net[0].weight)


def test_a_step_of_a_network_that_can_only_be_run(monkeypatch):
    class Net(mx.gluon.Block):
        def __init__(self):
            super().__init__()
            self.dense = mx.gluon.nn.Dense(3)

        def forward(self, x):
            return self.dense(x) * 2
    net = Net()
    net.initialize()
    step = mx.gluon.TrainStep(net, mx.gluon.loss.L2Loss(), mx.gluon.Trainer(net.collect_params(), "adam"))
    (_, _, groups, _), _ = _asked(monkeypatch, _plan, lambda: step.plan(
        mx.nd.ones((4, 6)), mx.nd.ones((4, 3)), on="v5e:2x2", sharding="fsdp"))
    kinds = {g.name: sorted(s.shape for s in g.arguments) for g in groups}
    assert kinds["parameters"] == [(3,), (3, 6)] and kinds["optimizer states"] == [(3,), (3,), (3, 6), (3, 6)]


@pytest.mark.parametrize("mesh, what", [({"data": 3}, "has another number"), ({"data": 4}, "cannot be split")])
def test_meshes_that_do_not_fit(mesh, what):
    net = mx.gluon.nn.Dense(4, in_units=3)
    net.initialize()
    step = mx.gluon.TrainStep(net, mx.gluon.loss.L2Loss(), mx.gluon.Trainer(net.collect_params(), "sgd"))
    with pytest.raises(mx.MXNetError, match=what):
        step.plan(mx.nd.ones((6, 3)), mx.nd.ones((6, 4)), on="v5e:2x2", mesh=mesh)
