"""What only a machine with a GPU can show: its memory, its kernels, arrays that go between it and the host."""

import json
import subprocess
import sys
import threading

import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd, gluon
from mxjax.gluon import nn

from .internals import updater_of, values_of

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not mx.context.num_gpus(), reason="JAX sees no GPU")]
GPU, CPU = mx.gpu(0), mx.cpu()
RNG = np.random.default_rng(0)
NUMBERS = RNG.normal(size=(6, 8)).astype("float32")


@pytest.fixture(autouse=True)
def _by_default_on_the_host():
    with CPU:
        yield


class Numbers(gluon.data.Dataset):
    """Rows of which each is its number, made by NDArray, as users' data sets do."""

    def __len__(self):
        return 12

    def __getitem__(self, i):
        return mx.nd.full((3,), i)


def small():
    """Convolution, normalization, pooling, a layer."""
    net = nn.HybridSequential()
    net.add(nn.Conv2D(8, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D(), nn.Flatten(),
            nn.Dense(4))
    return net


def begun(ctx, start):
    """(network with the parameters of `start`, images, labels, trainer)."""
    net = small()
    net.initialize(ctx=ctx)
    images = np.random.default_rng(1).normal(size=(8, 3, 8, 8)).astype("float32")
    x, y = mx.nd.array(images, ctx=ctx), mx.nd.array(np.arange(8) % 4, ctx=ctx)
    net(x)
    for p, value in zip(net.collect_params().values(), start, strict=True):
        p.set_data(mx.nd.array(value, ctx=ctx))
    return net, x, y, gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})


def trained(ctx, hybrid, start, steps=3):
    """Parameters after some steps from `start`."""
    net, x, y, trainer = begun(ctx, start)
    if hybrid:
        net.hybridize()
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    for _ in range(steps):
        with autograd.record():
            value = loss(net(x), y)
        value.backward()
        trainer.step(8)
    return [p.data().asnumpy() for p in net.collect_params().values()]


@pytest.fixture(scope="module")
def start():
    net = small()
    net.initialize(mx.init.Xavier())
    net(mx.nd.zeros((1, 3, 8, 8)))
    return [p.data().asnumpy() for p in net.collect_params().values()]


def test_arrays_are_where_they_are_put():
    a = mx.nd.array(NUMBERS, ctx=GPU)
    assert a.context == GPU and (a + 1).context == GPU and a[2:4].context == GPU and a.T.context == GPU
    assert {d.platform for d in a.to_jax().devices()} <= {"gpu", "cuda", "rocm"}
    for made in (mx.nd.zeros((2,), ctx=GPU), mx.nd.random.normal(shape=(3,), ctx=GPU), mx.nd.arange(4, ctx=GPU),
                 mx.nd.one_hot(mx.nd.array([1], ctx=GPU), 3), mx.np.ones((2,), ctx=GPU), a.astype("float16"),
                 a.as_in_context(CPU).copyto(GPU), mx.nd.zeros_like(a), a > 0,
                 mx.nd.sparse.zeros("csr", (2, 3), ctx=GPU)):
        assert made.context == GPU
    assert mx.nd.array(NUMBERS).context == CPU and (mx.nd.array(NUMBERS) + 1).context == CPU
    assert {d.platform for d in (mx.nd.array(NUMBERS) * 2).to_jax().devices()} == {"cpu"}
    with mx.gpu(0):
        assert mx.nd.ones((2,)).context == GPU
    assert mx.nd.ones((2,)).context == CPU


def test_arrays_of_two_devices_do_not_mix():
    with pytest.raises(mx.MXNetError, match=r"input 0 is on gpu\(0\), input 1 on cpu\(0\)"):
        mx.nd.array(NUMBERS, ctx=GPU) + mx.nd.array(NUMBERS)
    a = mx.nd.array(NUMBERS, ctx=GPU)
    assert a[mx.nd.array([1, 2])].context == GPU
    a[:] = mx.nd.ones((6, 8))
    a[mx.nd.array([1, 2])] = mx.nd.zeros((2, 8))
    assert a.context == GPU and a.asnumpy().sum() == 32
    net = nn.Dense(2, in_units=8)
    net.initialize(ctx=GPU)
    net.hybridize()
    with pytest.raises(mx.MXNetError, match="CachedOp"):
        net(mx.nd.array(NUMBERS))


def test_a_graph_on_both_devices():
    with mx.AttrScope(ctx_group="first"):
        hidden = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=4, name="fc")
    with mx.AttrScope(ctx_group="second"):
        out = mx.sym.sum(mx.sym.Activation(hidden, act_type="tanh") * 2)
    bound = out.simple_bind(CPU, group2ctx={"first": CPU, "second": GPU}, data=(6, 8))
    bound.arg_dict["fc_weight"][:] = 0.1
    bound.arg_dict["data"][:] = mx.nd.array(NUMBERS)
    result = bound.forward(is_train=True)[0]
    assert result.context == GPU
    np.testing.assert_allclose(result.asscalar(), np.tanh(NUMBERS.sum(1) * 0.1).sum() * 8, rtol=1e-4)
    bound.backward(mx.nd.ones(result.shape, ctx=GPU))
    assert bound.grad_dict["fc_weight"].context == CPU and np.abs(bound.grad_dict["fc_weight"].asnumpy()).sum() > 0


def test_a_gpu_that_is_not_there():
    with pytest.raises(mx.MXNetError, match=r"gpu\(77\) is not available"):
        mx.nd.zeros((2,), ctx=mx.gpu(77))
    assert mx.context.num_gpus() >= 1


def test_what_the_memory_holds():
    free, total = mx.context.gpu_memory_info(0)
    held = mx.nd.ones((1 << 26,), ctx=GPU)
    held.wait_to_read()
    less, same = mx.context.gpu_memory_info(0)
    assert same == total and free - less >= 1 << 28
    del held


def test_too_large_an_array_is_an_error_and_the_process_goes_on():
    _, total = mx.context.gpu_memory_info(0)
    with pytest.raises(mx.MXNetError):
        mx.nd.zeros((total // 2,), ctx=GPU).wait_to_read()
    kept = []
    with pytest.raises(mx.MXNetError, match="[Mm]emory"):
        for _ in range(64):
            kept.append(mx.nd.ones((total // 64,), ctx=GPU))  # in float32, 4 times a 64th
            kept[-1].wait_to_read()
    kept.clear()
    assert (mx.nd.ones((4,), ctx=GPU) + 1).asnumpy().tolist() == [2] * 4


def test_quotients_are_as_on_the_host():
    i = np.arange(1, 513, dtype="float32")
    a = mx.nd.array(i, ctx=GPU)
    np.testing.assert_array_equal((a / 41).asnumpy(), i / np.float32(41))
    np.testing.assert_array_equal(mx.nd.broadcast_div(a.reshape((-1, 1)), a.reshape((1, -1))).asnumpy(), i[:, None] / i)


def test_products_are_of_float32():
    a, b = RNG.normal(size=(2, 256, 256)).astype("float32")
    exact = a.astype("float64") @ b.astype("float64")
    for got in (mx.nd.dot(mx.nd.array(a, ctx=GPU), mx.nd.array(b, ctx=GPU)),
                mx.np.matmul(mx.np.array(a, ctx=GPU), mx.np.array(b, ctx=GPU)),
                mx.nd.FullyConnected(mx.nd.array(a, ctx=GPU), mx.nd.array(b.T, ctx=GPU), no_bias=True, num_hidden=256)):
        assert np.abs(got.asnumpy() - exact).max() < 1e-4 * np.abs(exact).max()
    x, w = RNG.normal(size=(2, 16, 12, 12)).astype("float32"), RNG.normal(size=(8, 16, 3, 3)).astype("float32")
    answers = [mx.nd.Convolution(mx.nd.array(x, ctx=c), mx.nd.array(w, ctx=c), kernel=(3, 3), num_filter=8,
                                 no_bias=True).asnumpy() for c in (CPU, GPU)]
    np.testing.assert_allclose(answers[1], answers[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("hybrid", [False, True])
def test_training_gives_what_the_host_gives(start, hybrid):
    for here, there in zip(trained(CPU, hybrid, start), trained(GPU, hybrid, start), strict=True):
        np.testing.assert_allclose(there, here, rtol=1e-3, atol=1e-4)


def test_a_step_as_one_program(start):
    answers = []
    for ctx in (CPU, GPU):
        net, x, y, trainer = begun(ctx, start)
        step = gluon.TrainStep(net, gluon.loss.SoftmaxCrossEntropyLoss(), trainer)
        answers.append([step(x, y).mean().asscalar() for _ in range(4)])
        assert net[0].weight.data().context == ctx
    np.testing.assert_allclose(answers[1], answers[0], rtol=1e-3, atol=1e-4)


def test_a_symbol_bound_to_the_gpu():
    data = mx.sym.var("data")
    out = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.Activation(data, act_type="tanh"), num_hidden=4, name="fc"),
                               name="softmax")
    answers = []
    for ctx in (CPU, GPU):
        module = mx.mod.Module(out, context=ctx)
        module.bind([("data", (6, 8))], [("softmax_label", (6,))])
        module.init_params(mx.init.One())
        module.init_optimizer(optimizer_params={"learning_rate": 0.1})
        batch = mx.io.DataBatch([mx.nd.array(NUMBERS)], [mx.nd.array(np.arange(6) % 4)])
        for _ in range(2):
            module.forward(batch)
            module.backward()
            module.update()
        answers.append([module.get_outputs()[0].asnumpy(), module.get_params()[0]["fc_weight"].asnumpy()])
        assert module.get_outputs()[0].context == ctx
    for here, there in zip(*answers, strict=True):
        np.testing.assert_allclose(there, here, rtol=1e-4, atol=1e-5)


def test_parameters_go_between_devices(tmp_path, start):
    net = small()
    net.initialize(mx.init.Xavier(), ctx=GPU)
    x = mx.nd.array(RNG.normal(size=(2, 3, 8, 8)), ctx=GPU)
    there = net(x).asnumpy()
    net.save_parameters(str(tmp_path / "net.params"))
    assert all(v.context == CPU for v in mx.nd.load(str(tmp_path / "net.params")).values())
    host = small()
    host.load_parameters(str(tmp_path / "net.params"), ctx=CPU)
    np.testing.assert_allclose(host(x.as_in_context(CPU)).asnumpy(), there, rtol=1e-4, atol=1e-5)
    host.collect_params().reset_ctx(GPU)
    np.testing.assert_allclose(host(x).asnumpy(), there, rtol=1e-5, atol=1e-5)
    net.hybridize()
    net(x)
    net.export(str(tmp_path / "net"))
    block = gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"], str(tmp_path / "net-0000.params"),
                                      ctx=GPU)
    np.testing.assert_allclose(block(x).asnumpy(), there, rtol=1e-4, atol=1e-5)


def test_a_batch_on_both_devices(start):
    net = small()
    net.initialize(mx.init.Xavier(), ctx=[CPU, GPU])
    parts = gluon.utils.split_and_load(RNG.normal(size=(8, 3, 8, 8)).astype("float32"), [CPU, GPU])
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    for _ in range(2):
        with autograd.record():
            losses = [net(p).square().sum() for p in parts]
        autograd.backward(losses)
        trainer.step(8)
    for p in net.collect_params().values():
        if p.grad_req != "null":
            np.testing.assert_allclose(p.data(GPU).asnumpy(), p.data(CPU).asnumpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["local", "device", "nccl"])
def test_a_store_over_both_devices(kind):
    store = mx.kv.create(kind)
    store.init("w", mx.nd.zeros((4, 5)))
    outs = [mx.nd.zeros((4, 5), ctx=c) for c in (CPU, GPU)]
    store.push("w", [mx.nd.ones((4, 5), ctx=CPU), mx.nd.ones((4, 5), ctx=GPU) * 2])
    store.pull("w", out=outs)
    assert [o.asnumpy().mean() for o in outs] == [3, 3] and outs[1].context == GPU


def test_random_numbers_start_anew_with_the_seed():
    draws = []
    for _ in range(2):
        mx.random.seed(7)
        draws.append([mx.nd.random.normal(shape=(1000,), ctx=GPU).asnumpy(),
                      mx.nd.random.uniform(shape=(3,), ctx=GPU).asnumpy(),
                      mx.nd.random.randint(0, 9, shape=(5,), ctx=GPU).asnumpy()])
    for one, other in zip(*draws, strict=True):
        assert one.tolist() == other.tolist()
    assert abs(draws[0][0].mean()) < 0.2 and abs(draws[0][0].std() - 1) < 0.2
    assert mx.nd.random.normal(shape=(1000,), ctx=GPU).asnumpy().tolist() != draws[0][0].tolist()


def test_dropout_and_its_gradient():
    x = mx.nd.ones((64, 64), ctx=GPU)
    x.attach_grad()
    with autograd.record():
        y = mx.nd.Dropout(x, p=0.5)
    y.backward()
    assert np.array_equal(y.asnumpy(), x.grad.asnumpy()) and 0.4 < (y.asnumpy() > 0).mean() < 0.6


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("masked", [False, True])
def test_attention_by_the_kernel(dtype, masked):
    """Products, softmax, products in half precision, by cuDNN, against float32 on the host."""
    class Attend(gluon.HybridBlock):
        def hybrid_forward(self, F, q, k, v, mask):
            scores = F.batch_dot(q, k, transpose_b=True) / 8
            if masked:
                scores = F.where(mask, scores, F.ones_like(scores) * -1e4)
            return F.batch_dot(F.softmax(scores), v)
    arrays = [RNG.normal(size=(4, 32, 64)).astype("float32") for _ in range(3)]
    mask = np.broadcast_to(np.tril(np.ones((32, 32), "float32")), (4, 32, 32))
    answers = []
    for ctx, kind in ((CPU, "float32"), (GPU, dtype)):
        net, held = Attend(), [mx.nd.array(a, ctx=ctx).astype(kind) for a in arrays]
        net.hybridize()
        for _ in range(2):
            for a in held:
                a.attach_grad()
            with autograd.record():
                out = net(*held, mx.nd.array(mask, ctx=ctx).astype(kind))
            out.backward()
        answers.append([v.astype("float32").asnumpy() for v in (out, *[a.grad for a in held])])
    for here, there in zip(*answers, strict=True):
        assert np.abs(there - here).max() < (0.01 if dtype == "float16" else 0.05) * np.abs(here).max()


def test_recurrent_layers():
    answers = []
    for ctx in (CPU, GPU):
        mx.random.seed(3)
        net = gluon.rnn.LSTM(16, num_layers=2, bidirectional=True)
        net.initialize(mx.init.One(), ctx=ctx)
        x = mx.nd.array(NUMBERS.reshape(6, 2, 4), ctx=ctx)
        x.attach_grad()
        with autograd.record():
            y = net(x)
        y.backward()
        answers.append([y.asnumpy(), x.grad.asnumpy()])
    for here, there in zip(*answers, strict=True):
        np.testing.assert_allclose(there, here, rtol=1e-3, atol=1e-5)


def test_sparse_arrays():
    dense = NUMBERS * (RNG.random(NUMBERS.shape) < 0.3)
    answers = []
    for ctx in (CPU, GPU):
        a = mx.nd.array(dense, ctx=ctx).tostype("csr")
        b = mx.nd.array(NUMBERS.T, ctx=ctx)
        rows = mx.nd.array(dense, ctx=ctx).tostype("row_sparse")
        assert a.context == ctx and rows.context == ctx
        answers.append([mx.nd.sparse.dot(a, b).asnumpy(), a[1:3].asnumpy(), (rows + rows).asnumpy(),
                        mx.nd.sparse.dot(a, b[:6, :6], transpose_a=True).asnumpy()])
    for here, there in zip(*answers, strict=True):
        np.testing.assert_allclose(there, here, rtol=1e-5, atol=1e-5)


def test_custom_operators_see_arrays_of_the_gpu():
    seen = []

    class Twice(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            seen.append(in_data[0].context)
            self.assign(out_data[0], req[0], in_data[0] * 2)

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            self.assign(in_grad[0], req[0], out_grad[0] * 2)

    @mx.operator.register("twice_on_gpu")
    class TwiceProp(mx.operator.CustomOpProp):
        def create_operator(self, ctx, shapes, dtypes):
            return Twice()
    x = mx.nd.array(NUMBERS, ctx=GPU)
    x.attach_grad()
    with autograd.record():
        y = mx.nd.Custom(x, op_type="twice_on_gpu")
    y.backward()
    assert (x.grad.asnumpy() == 2).all() and y.context == GPU and seen == [GPU]


@pytest.mark.parametrize("workers", [0, 2])
def test_loaders_hand_batches_to_the_gpu(workers):
    loader = gluon.data.DataLoader(Numbers(), 4, num_workers=workers, pin_memory=True)
    sums = [batch.as_in_context(GPU).sum().asscalar() for batch in loader]
    assert sums == [18, 66, 114]


def test_arrays_of_pytorch():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch is built for CPUs, or sees no GPU: it has no array there whose memory could be shared")
    there = torch.arange(6, dtype=torch.float32, device="cuda")
    here = mx.nd.from_dlpack(torch.utils.dlpack.to_dlpack(there))
    assert here.context == GPU and here.asnumpy().tolist() == list(range(6))
    back = torch.utils.dlpack.from_dlpack((here * 2).to_dlpack_for_read())
    assert back.is_cuda and back.tolist() == [0, 2, 4, 6, 8, 10]
    assert torch.from_dlpack(here).is_cuda


def test_a_users_own_jax_code():
    import jax
    import jax.numpy as jnp
    a = mx.nd.array(NUMBERS, ctx=GPU)
    out = jax.jit(lambda x: jnp.tanh(x) @ x.T)(a.to_jax())
    assert mx.nd.from_jax(out).context == GPU


def test_two_threads_on_one_gpu():
    wrong = []

    def work(k):
        a = mx.nd.array(NUMBERS + k, ctx=GPU)
        for _ in range(20):
            a = a * 2 - there * 2 + there
        expected = NUMBERS + k * 2.0 ** 20
        if not np.allclose(a.asnumpy(), expected, rtol=1e-3):
            wrong.append(k)
    there = mx.nd.array(NUMBERS, ctx=GPU)
    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_a_profile_names_the_operators(tmp_path):
    name = str(tmp_path / "profile.json")
    mx.profiler.set_config(profile_all=True, filename=name, aggregate_stats=True)
    mx.profiler.set_state("run")
    mx.nd.dot(mx.nd.ones((64, 64), ctx=GPU), mx.nd.ones((64, 64), ctx=GPU)).wait_to_read()
    mx.profiler.set_state("stop")
    mx.profiler.dump()
    with open(name, encoding="utf-8") as file:
        assert any("dot" in e.get("name", "") for e in json.load(file)["traceEvents"])


def test_a_step_is_planned_in_a_process_that_uses_the_gpu(start):
    net, x, y, trainer = begun(GPU, start)
    step = gluon.TrainStep(net, gluon.loss.SoftmaxCrossEntropyLoss(), trainer)
    planned = json.loads(step.plan(x, y, on="h100").to_json())["memory"]
    trained_ones = [p.data() for p in net.collect_params().values() if p.grad_req != "null"]
    assert planned["parameters"] == sum(a.size * 4 for a in trained_ones)
    assert step(x, y).context == GPU


@pytest.mark.parametrize("dtype", ["float64", "int64", "float16", "int8", "bool"])
def test_numbers_keep_their_dtype_on_the_way(dtype):
    host = mx.nd.array([[0, 1, 1], [1, 0, 1]], ctx=CPU, dtype=dtype)
    there = host.as_in_context(GPU)
    assert (there == 1).astype("float32").sum().asscalar() == 4 and there.dtype == host.dtype
    assert there.as_in_context(CPU).asnumpy().tolist() == host.asnumpy().tolist()
    room = mx.nd.zeros((2, 3), ctx=GPU, dtype=dtype)
    host.copyto(room)
    assert room.astype("float32").asnumpy().sum() == 4


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8"])
def test_large_arrays_keep_their_numbers_on_the_way(dtype):
    """They go in parts from the third time on; what is written over them meanwhile is not what arrives."""
    given = RNG.integers(0, 200, (24, 1000, 1000)).astype(dtype)
    host, room = mx.nd.array(given, ctx=CPU, dtype=dtype), mx.nd.zeros(given.shape, ctx=GPU, dtype=dtype)
    for _ in range(4):
        new, there = mx.nd.array(given, ctx=GPU, dtype=dtype), host.as_in_context(GPU)
        host.copyto(room)
        host += 1
        expected, given = given, given + given.dtype.type(1)
        for array in (new, there, room):
            assert array.context == GPU and array.dtype == given.dtype
            np.testing.assert_array_equal(array.asnumpy(), expected)
    np.testing.assert_array_equal(host.asnumpy(), given)


def test_a_long_backward_pass_becomes_one_program(monkeypatch):
    """Gradients stay the same where it does, and what changes every time goes on call by call."""
    monkeypatch.setattr("mxjax.eager.backward_program.OFTEN", 4)
    weights = [mx.nd.array(RNG.normal(size=(8, 8)) / 3, ctx=GPU) for _ in range(40)]
    for w in weights:
        w.attach_grad()
    found = []
    for turn in range(12):
        with autograd.record():
            h = mx.nd.array(NUMBERS, ctx=GPU)
            for w in weights:
                h = mx.nd.tanh(mx.nd.dot(h, w)) + h
            for _ in range(turn if turn % 4 == 3 else 0):
                h = h * 1
        h.backward()
        found.append([w.grad.asnumpy() for w in weights])
    for grads in found[1:]:
        for grad, first in zip(grads, found[0], strict=True):
            np.testing.assert_allclose(grad, first, rtol=1e-3, atol=1e-3)


def test_a_network_of_doubles_made_on_the_host():
    net = nn.Conv2D(4, 3, in_channels=2)
    net.initialize(ctx=CPU)
    net.cast("float64")
    x = mx.nd.ones((1, 2, 5, 5), ctx=CPU, dtype="float64")
    expected = net(x).asnumpy()
    net.collect_params().reset_ctx(GPU)
    np.testing.assert_allclose(net(x.as_in_context(GPU)).asnumpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("kind, place", [("local", GPU), ("device", GPU), ("local_update_cpu", CPU)])
def test_a_store_updates_where_the_gradients_are(kind, place):
    store, value = mx.kv.create(kind), mx.nd.ones((3, 4), ctx=CPU)
    store.init([0, 1], [value, value])
    store.set_optimizer(mx.optimizer.SGD(learning_rate=0.5, momentum=0.9, rescale_grad=1))
    gradient, out = mx.nd.ones((3, 4), ctx=GPU), [mx.nd.zeros((3, 4), ctx=GPU) for _ in range(2)]
    for _ in range(2):
        store.push([0, 1], [gradient, gradient])
        store.pull([0, 1], out=out)
    assert out[1].asnumpy().tolist() == np.full((3, 4), 1 - 0.5 - 0.95, "f").tolist()
    assert values_of(store)[0].context == place and updater_of(store).states[0].context == place
    here = mx.nd.zeros((3, 4), ctx=CPU)
    store.pull(0, out=here)
    assert here.asnumpy().tolist() == out[0].asnumpy().tolist()


FORKS = """
import os, signal, sys, warnings
import mxjax as mx
warnings.simplefilter("ignore")
there, here = mx.nd.ones((2, 3), ctx=mx.gpu(0)) * 3, mx.nd.ones((2,), ctx=mx.cpu()) * 2
for work in (lambda: (here * 2).asnumpy().tolist(), there.asnumpy, lambda: (there + 1).asnumpy(), lambda: str(there),
             lambda: here.as_in_context(mx.gpu(0))):
    pid = os.fork()
    if not pid:
        signal.alarm(30)
        try:
            print(work(), flush=True)
        except mx.MXNetError as error:
            print(str(error)[:200], flush=True)
        sys.exit(3)
    print(os.waitpid(pid, 0)[1], flush=True)
print((there + 1).asnumpy().sum())
"""


def test_forked_children_compute_on_the_host_and_end():
    done = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, timeout=120)
    assert not done.returncode, done.stderr
    computed, *others, parents = done.stdout.splitlines()
    assert computed == "[4.0, 4.0]" and others[::2] == [str(3 << 8)] * 5 and parents == "24.0"
    assert len(others[1::2]) == 4 and all("forked" in told for told in others[1::2])


def test_memory_of_the_host_is_known_where_the_default_device_is_another():
    before = mx.storage.live_bytes(CPU)
    held = mx.nd.zeros((256, 256), ctx=CPU)
    held.wait_to_read()
    assert mx.storage.live_bytes(CPU) - before >= held.size * 4
