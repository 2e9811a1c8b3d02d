"""Programs that other threads compile while calls go on."""

import os
import threading

import jax
import numpy as np
import pytest

import mxjax as mx
from mxjax.context import default_device
from mxjax.eager.host_work import HostPromise
from mxjax.kernel import ahead, compiled, policy
from mxjax.kernel.arguments import kind_of, located
from mxjax.kernel.xla import XlaBackend
from mxjax.passes import onednn

from ..internals import chunk_of

R = np.random.RandomState(0)


@pytest.fixture
def begun(monkeypatch):
    """The number of programs that other threads were asked to compile, as the length of a list."""
    names, begin = [], ahead.Ahead.begin

    def noted(self, args, name, lower):
        names.append(name)
        return begin(self, args, name, lower)
    monkeypatch.setattr(ahead.Ahead, "begin", noted)
    return names


def trained(size, steps=3, hold=None):
    """Losses and weights of an imperative network's first steps; the sizes make its programs new ones."""
    mx.random.seed(1)
    net, loss = mx.gluon.nn.Sequential(), mx.gluon.loss.L2Loss()
    net.add(mx.gluon.nn.Dense(size, activation="relu", in_units=5), mx.gluon.nn.Dense(3, in_units=size))
    net.initialize(mx.init.Xavier())
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
    data = mx.nd.array(np.random.RandomState(1).randn(4, 5))
    losses = []
    for _ in range(steps):
        with mx.autograd.record():
            value = loss(net(data), mx.nd.ones((4, 3)))
        value.backward()
        if hold is not None:
            hold.append(chunk_of(net[0].weight.data()).peek())
        trainer.step(4)
        losses.append(value)
    return [v.asnumpy() for v in losses], [p.data().asnumpy() for p in net.collect_params().values()]


def test_the_numbers_are_those_of_programs_compiled_one_by_one(at_once, begun, monkeypatch):
    losses, weights = trained(17)
    assert len(begun) > 8
    monkeypatch.setattr(compiled, "may_wait", lambda: False)
    compiled.clear_caches()
    count = len(begun)
    for one, other in zip(trained(17), (losses, weights), strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)
    assert len(begun) == count


def test_what_is_held_keeps_its_value_though_an_update_may_write_over_it(at_once):
    held = []
    trained(19, 2, held)
    first, second = (np.asarray(v.get() if isinstance(v, HostPromise) else v) for v in held)
    assert first.shape == second.shape == (19, 5) and np.abs(first - second).max() > 0


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="programs are compiled one after the other")
def test_programs_are_compiled_at_the_same_time(at_once, monkeypatch):
    both, executable = threading.Barrier(2), XlaBackend.executable

    def slow(self, *args):
        made = executable(self, *args)

        def lower():
            compiles = made.ahead()

            def compile_it():
                both.wait(60)
                return compiles()
            return compile_it
        return made._replace(ahead=lower)
    monkeypatch.setattr(XlaBackend, "executable", slow)
    x = mx.nd.array(R.randn(3, 23))
    result = mx.nd.sinh(mx.nd.cosh(x))  # neither program is there
    np.testing.assert_allclose(result.asnumpy(), np.sinh(np.cosh(x.asnumpy())), rtol=1e-5)
    assert not both.broken


def test_who_fails_in_another_thread_compiles_in_the_call(at_once, monkeypatch):
    executable = XlaBackend.executable

    def failing(self, *args):
        def lower():
            def compile_it():
                raise RuntimeError("no")
            return compile_it
        return executable(self, *args)._replace(ahead=lower)
    monkeypatch.setattr(XlaBackend, "executable", failing)
    x = mx.nd.array(R.rand(3, 29))
    np.testing.assert_allclose(mx.nd.arctan(x).asnumpy(), np.arctan(x.asnumpy()), rtol=1e-5)


def test_shapes_that_never_come_again_are_forgotten():
    one = ahead.Ahead()
    for size in range(300):
        one.begin([np.empty((size, 3), "float32")], "nothing", lambda: (None, lambda: None))
    mx.nd.waitall()
    assert len(one.programs) <= 64 and not ahead.compiling()


def test_mistakes_are_told_at_the_call(at_once):
    with pytest.raises(mx.MXNetError, match="dot"):
        mx.nd.dot(mx.nd.ones((2, 31)), mx.nd.ones((30, 2)))


def test_settings_of_a_thread_hold_for_its_programs(at_once, begun):
    import jax
    with jax.default_matmul_precision("highest"):  # other threads do not have it
        mx.nd.dot(mx.nd.ones((2, 37)), mx.nd.ones((37, 2))).wait_to_read()
    assert not begun


def test_a_training_that_moves_to_xla_compiles_before_it_does(room, begun, monkeypatch):
    compiled.clear_caches()
    losses, weights = trained(41, 220)  # at most 200 steps are NumPy's
    assert len(begun) > 4
    monkeypatch.setattr(compiled, "may_wait", lambda: False)
    compiled.clear_caches()
    count = len(begun)
    for one, other in zip(trained(41, 220), (losses, weights), strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)
    assert len(begun) == count


def test_all_sizes_of_a_training_are_compiled_before_it_needs_them(room, monkeypatch):
    begun, begin = [], ahead.Ahead.begin

    def noted(self, args, name, lower):
        begun.append({a.shape for a in args if hasattr(a, "shape")})
        return begin(self, args, name, lower)
    monkeypatch.setattr(ahead.Ahead, "begin", noted)
    monkeypatch.setattr(policy, "MOST_STEPS", 30)
    compiled.clear_caches()
    policy.training.begin()
    net, loss = mx.gluon.nn.HybridSequential(), mx.gluon.loss.L2Loss()
    net.add(mx.gluon.nn.Dense(47, activation="relu", in_units=5), mx.gluon.nn.Dense(3, in_units=47))
    net.initialize()
    net.hybridize()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    for step in range(3 * policy.MOST_STEPS + 30):  # NumPy has at most that many of each size
        size = 6 + step % 3
        with mx.autograd.record():
            value = loss(net(mx.nd.ones((size, 5))), mx.nd.ones((size, 3)))
        value.backward()
        trainer.step(size)
    value.wait_to_read()
    assert all(any((size, 5) in shapes for shapes in begun) for size in (6, 7, 8))
    assert len(begun) < 30  # each once, not in each of the steps


def test_an_update_that_fails_leaves_the_weight(at_once, monkeypatch):
    executable = XlaBackend.executable

    def without_memory(self, *args):
        made = executable(self, *args)

        def call(*args):
            raise RuntimeError("RESOURCE_EXHAUSTED: out of memory")
        return made._replace(call=call)
    weight, gradient = mx.nd.array(R.rand(3, 43)), mx.nd.ones((3, 43))
    before = weight.asnumpy()
    monkeypatch.setattr(XlaBackend, "executable", without_memory)
    mx.nd.sgd_update(weight, gradient, lr=0.1, out=weight)
    with pytest.raises(RuntimeError, match="RESOURCE_EXHAUSTED"):
        weight.wait_to_read()
    np.testing.assert_array_equal(weight.asnumpy(), before)
    mx.nd.sgd_update(weight, gradient[:, :1] + gradient, lr=0.1, out=weight)  # after something that fails, too
    with pytest.raises(RuntimeError, match="RESOURCE_EXHAUSTED"):
        mx.nd.waitall()
    np.testing.assert_array_equal(weight.asnumpy(), before)


@pytest.mark.skipif(not onednn.available(), reason="programs are split for oneDNN's convolutions alone")
def test_both_parts_of_a_prediction_are_compiled_before_its_calls_need_them(compilers, monkeypatch):
    monkeypatch.setattr(policy, "MOST_CALLS_AT_FIRST", 8)
    x, weight = mx.nd.array(R.randn(3, 4, 9, 9)), mx.nd.array(R.randn(6, 4, 3, 3), ctx=mx.cpu())
    out = mx.sym.Convolution(mx.sym.var("x"), mx.sym.var("w"), kernel=(3, 3), num_filter=6, no_bias=True)
    network = mx.nd.CachedOp(mx.sym.relu(out + 1))
    results = [network(x, weight).asnumpy() for _ in range(12)]
    assert len(compilers) == 2 and threading.current_thread() not in compilers
    np.testing.assert_allclose(results, [results[0]] * 12, rtol=1e-4, atol=1e-5)


def test_shapes_tell_the_device_for_which_a_program_is_compiled():
    class Device:
        platform = "cuda"

    class Sharding(jax.sharding.SingleDeviceSharding):
        device_set = {Device}  # noqa: RUF012
    cpu = jax.local_devices(backend="cpu")[0]
    shape = jax.ShapeDtypeStruct((2, 3), np.float32, sharding=Sharding(cpu))
    assert located([1.0, shape])[1] is Device and kind_of([shape]) is None
    assert located([shape, jax.device_put(np.ones(2), cpu)])[1] == cpu
    assert located([jax.ShapeDtypeStruct((2, 3), np.float32)])[1] == default_device()
