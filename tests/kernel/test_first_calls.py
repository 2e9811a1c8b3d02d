"""NumPy computes the first calls of a signature, and XLA those that come often."""

import contextlib
import gc
import os
import pickle
import subprocess
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mxjax as mx
from mxjax.interpret import cost
from mxjax.kernel import policy, xla
from mxjax.kernel.compiled import SOME_OF_ONE, Compiled

from ..internals import first_steps_of, rounds_begun

pytestmark = pytest.mark.usefixtures("room")
by_cpu = pytest.mark.skipif(xla.by_effort()[0] == xla.by_effort()[2], reason="everything is compiled in full")
CPU = jax.local_devices(backend="cpu")[0]
rng = np.random.default_rng(7)


@pytest.fixture
def count(compiles, monkeypatch):
    """`compiles`, where NumPy computes first calls."""
    xla.by_effort()  # which compiles something, once
    compiles.clear()
    monkeypatch.setenv("MXNET_ENFORCE_DETERMINISM", "0")
    return compiles


@pytest.fixture
def few(monkeypatch):
    """NumPy computes four calls."""
    monkeypatch.setattr(policy, "MOST_CALLS_AT_FIRST", 4)


# ------------------------------------------------------------ one signature
@by_cpu
def test_a_signature_is_compiled_when_it_has_come_often(count, few):
    program = Compiled(lambda x, more: {"sum": x + more[0], "rest": more})
    for size in (3, 4):
        count.clear()
        x = np.arange(size, dtype="float32")
        for call in range(8):
            result = program(jax.device_put(x), [x, 2])
            assert len(count) == (call >= 4)
            np.testing.assert_array_equal(result["sum"], 2 * x)
            np.testing.assert_array_equal(result["rest"][0], x)
            assert np.asarray(result["rest"][1]) == 2 and isinstance(result["sum"], jax.Array)
    assert sum(program.forms()) == 2
    program.clear()
    program(jax.device_put(x), [x, 2])
    assert sum(program.forms()) == 0


def test_predictions_at_ever_new_sizes_stay_longer():
    work = SimpleNamespace(calls=5, after_loops=None)  # their time is that of the compilation

    def calls(varied):
        quota = policy.quota_of(work, False, varied)
        return sum([quota() for _ in range(100)])
    assert (calls(False), calls(True)) == (5, 5 * policy.VARIED_CALLS)
    with mx.autograd.record():
        assert calls(True) == 5


@by_cpu
def test_what_takes_long_by_numpy_is_compiled_at_once(count):
    program = Compiled(lambda x: jnp.exp(x @ x))
    program(jax.device_put(np.ones((900, 900), "float32"), CPU))
    assert len(count) == 1


@by_cpu
def test_loops_count_as_long_as_they_were(count):
    """16 iterations are assumed before the first call; a training, which may be resumed, keeps to that."""
    def looped(steps, record=False):
        def function(limit):
            begin = jnp.float32(0), jnp.ones(20000)
            return jax.lax.while_loop(lambda c: c[0] < limit, lambda c: (c[0] + 1, jnp.sin(c[1])), begin)[1][:3]
        program = Compiled(function)
        count.clear()
        with mx.autograd.record() if record else contextlib.nullcontext():
            results = [program(jax.device_put(np.float32(steps), CPU)) for _ in range(6)]
        np.testing.assert_allclose(results[0], results[-1], rtol=1e-6)
        return len(count)
    assert looped(2) == 0
    assert looped(400) == 1
    policy.training.begin()
    assert looped(400, record=True) == 0


@by_cpu
def test_loops_over_much_are_compiled_with_all_effort():
    def form(size):
        program = Compiled(lambda x: jax.lax.while_loop(
            lambda c: c[0] < 3000, lambda c: (c[0] + 1, jnp.sin(c[1])), (x, jnp.ones(size)))[1][:3])
        program(np.float32(0))  # too long for NumPy
        return [level for level, number in enumerate(program.forms()) if number]
    assert (form(3), form(60000)) == ([2], [0])


@by_cpu
def test_a_refused_call_is_compiled(count):
    program = Compiled(lambda x: jax.lax.while_loop(lambda c: c < 5000, lambda c: c + 1, x))
    assert program(np.float32(4998)).tolist() == 5000 and not count
    assert program(np.float32(0)).tolist() == 5000 and len(count) == 1


def test_results_are_nobody_elses_memory():
    x = jnp.arange(6.0)
    program = Compiled(lambda x: (x, x.reshape(2, 3), jnp.broadcast_to(x, (2, 6))))
    results = program(x)
    assert len({r.unsafe_buffer_pointer() for r in (x, *results)}) == 4


def test_arguments_that_may_be_overwritten_are_not():
    program = Compiled(lambda x, y: x + y, donate_argnums=0)
    x = jax.device_put(np.ones(3, "float32"), CPU)
    assert program(x, x).tolist() == [2] * 3 and x.tolist() == [1] * 3


def test_wide_results_of_a_narrow_call():
    for _ in range(4):
        doubled = mx.nd.array([0, 1, 3], dtype="bool") * 2
        assert doubled.dtype == np.int64 and doubled.asnumpy().tolist() == [0, 2, 2]


def test_arrays_on_another_device_and_in_transformations():
    device = jax.devices()[-1]
    program = Compiled(lambda x: x + x)
    x = jax.device_put(np.ones(3, "float32"), device)
    assert program(x).devices() == {device}
    assert jax.jit(program)(jnp.ones(5)).tolist() == jax.vmap(program)(jnp.ones(5)).tolist() == [2] * 5
    assert program(jnp.ones(5)).tolist() == [2] * 5


def test_mistakes_have_the_message_of_the_operator():
    with pytest.raises(mx.MXNetError, match="FullyConnected"):
        mx.nd.FullyConnected(mx.nd.ones((2, 3)), mx.nd.ones((4, 5)), no_bias=True, num_hidden=4).wait_to_read()


DETERMINED = """
import jax, jax.monitoring, numpy as np, mxjax as mx
seen = []
jax.monitoring.register_event_duration_secs_listener(lambda event, *_, **__: seen.append(event))
mx.nd.exp(mx.nd.array(np.ones(7))).mean().asscalar()
print(any(event.endswith("backend_compile_duration") for event in seen))
"""


@by_cpu
@pytest.mark.parametrize("flag", ["0", "1"])
def test_enforced_determinism_compiles_all(flag):
    done = subprocess.run([sys.executable, "-c", DETERMINED], capture_output=True, text=True, check=True, env={
        **os.environ, "MXNET_ENFORCE_DETERMINISM": flag})
    assert done.stdout.split() == [str(flag == "1")]


# ------------------------------------------------------------ programs of several kernels
def network(hybridize):
    mx.random.seed(1)
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Conv2D(4, 3, activation="relu"), mx.gluon.nn.BatchNorm(), mx.gluon.nn.Dropout(0.3),
            mx.gluon.nn.Dense(5, activation="tanh"), mx.gluon.nn.Dense(3))
    net.initialize(mx.init.Xavier())
    net(mx.nd.ones((1, 2, 6, 6)))
    mx.random.seed(2)
    if hybridize:
        net.hybridize()
    return net


def trained(hybridize, steps, trainer=None, net=None):
    """The weights after some steps of training, and the trainer."""
    net = net or network(hybridize)
    trainer = trainer or mx.gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
    loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    x = mx.nd.array(rng_of(3).uniform(-1, 1, (4, 2, 6, 6)))
    for step in range(steps):
        with mx.autograd.record():
            value = loss(net(x), mx.nd.array([0, 1, 2, step % 3]))
        value.backward()
        trainer.step(4)
    return [p.data().asnumpy() for p in net.collect_params().values()], trainer, net


def rng_of(seed):
    return np.random.default_rng(seed)


def test_a_hybridized_network_has_the_bits_of_its_layers():
    ones, others = (trained(hybridize, 3)[0] for hybridize in (False, True))
    for one, other in zip(ones, others, strict=True):
        np.testing.assert_allclose(one, other, 1e-4, 1e-6)


@by_cpu
def test_a_training_compiles_nothing_in_its_first_steps(count):
    trained(True, 2)
    assert not count


@by_cpu
def test_a_training_moves_to_xla_as_a_whole(count, monkeypatch):
    monkeypatch.setattr(policy, "MOST_STEPS", 1)
    monkeypatch.setattr(policy, "LONG", 5)  # nothing is compiled ahead
    _, trainer, net = trained(True, 5)
    assert first_steps_of(trainer.optimizer) == 2 * policy.SETTLED + 1 == 5 and not count
    trained(True, 3, trainer, net)
    assert count


@by_cpu
def test_each_batch_size_has_steps_by_numpy(count, monkeypatch):
    """As many as pay for its own programs; more kinds than `MOST_KINDS` are no reason to wait longer."""
    monkeypatch.setattr(policy, "MOST_STEPS", 4)
    monkeypatch.setattr(policy, "MOST_KINDS", 3)
    monkeypatch.setattr(policy, "LONG", 99)  # nothing is compiled ahead
    net = mx.gluon.nn.Dense(3, in_units=19)
    net.initialize()
    trainer, most = mx.gluon.Trainer(net.collect_params(), "sgd"), 2 * policy.SETTLED + 3 * 4

    def train(steps):
        for step in steps:
            with mx.autograd.record():
                loss = (net(mx.nd.ones((2 + step % 4, 19))) ** 2).sum()
            loss.backward()
            trainer.step(1)
    train(range(most))
    assert first_steps_of(trainer.optimizer) == most == policy.training.first and not count
    train(range(most, most + 3))
    assert count


@by_cpu
def test_operators_that_cost_more_than_their_compilation_are_compiled_alone(count, monkeypatch):
    monkeypatch.setattr(cost, "_CALL", 1e6)
    # sizes that no other test has: their programs would be there
    x, weight = rng_of(5).random((3, 13), "float32"), rng_of(6).random((11, 13), "float32")
    graph = mx.sym.Activation(mx.sym.FullyConnected(mx.sym.var("x"), mx.sym.var("w"), no_bias=True, num_hidden=11),
                              act_type="tanh")
    executor = graph.bind(mx.cpu(), {"x": mx.nd.array(x), "w": mx.nd.array(weight)})
    result = executor.forward()[0].asnumpy()
    assert len(count) == 2  # and the graph itself is not compiled
    np.testing.assert_allclose(result, np.tanh(x @ weight.T), 1e-5)


def test_the_step_at_which_a_training_moves_is_saved(monkeypatch, tmp_path):
    monkeypatch.setattr(policy, "MOST_STEPS", 7)
    _, trainer, _ = trained(False, policy.SETTLED + 1)
    decided = first_steps_of(trainer.optimizer)
    assert decided == 2 * policy.SETTLED + 7 == policy.training.first
    trainer.save_states(str(tmp_path / "states"))
    mx.optimizer.SGD()  # another training begins
    assert policy.training.first == float("inf")
    trainer.load_states(str(tmp_path / "states"))
    assert first_steps_of(trainer.optimizer) == decided == policy.training.first
    assert first_steps_of(pickle.loads(pickle.dumps(trainer.optimizer))) == decided


@by_cpu
def test_what_is_called_between_steps_counts_for_itself(count, few):
    program = Compiled(lambda x: x + x)
    trained(False, 1)
    count.clear()
    for _ in range(3):
        program(jnp.ones(3))
        trained(False, 1)
    assert sum(program.forms()) == 0
    for _ in range(2):
        program(jnp.ones(3))
    assert sum(program.forms()) == 1


# ------------------------------------------------------------ sizes that vary
def noting(function):
    """A function compiled for any size, and the shapes of the first arguments that it is traced for."""
    shapes = []

    def noted(*args):
        shapes.append(args[0].shape)
        return function(*args)
    return Compiled(noted, most=SOME_OF_ONE, any_size=True), shapes


@by_cpu
def test_sizes_that_vary_together_and_apart():
    program, shapes = noting(lambda x, y: {"rows": jnp.concatenate([x, y]), "turned": [x.T, y[::-1]]})
    for rows, more, columns in [(4, 4, 3), (5, 2, 3), (6, 8, 3), (7, 3, 3), (9, 9, 3), (2, 7, 3),  # any rows by now
                                (8, 2, 5), (8, 3, 6), (8, 2, 7), (8, 7, 8), (5, 4, 9), (6, 4, 3),  # any columns
                                (1, 3, 4), (0, 3, 4), (2, 1, 4)]:
        x, y = np.arange(rows * columns, dtype="float32").reshape(rows, columns), np.ones((more, columns), "float32")
        got = program(jax.device_put(x, CPU), jax.device_put(y, CPU))
        np.testing.assert_array_equal(got["rows"], np.concatenate([x, y]))
        np.testing.assert_array_equal(got["turned"][0], x.T)
        assert got["turned"][1].shape == y.shape
    assert [s for s in shapes if all(isinstance(n, int) for n in s)] == [
        (4, 3), (5, 3), (6, 3), (7, 3), (8, 5), (8, 6), (1, 4), (0, 4), (2, 4)]
    with pytest.raises(TypeError):  # as without what was learnt
        program(jnp.ones((3, 4)), jnp.ones((3, 5)))


@by_cpu
@pytest.mark.parametrize("function", [
    lambda x: x[:3] if x.shape[0] > 5 else x[:2], lambda x: x.reshape(-1, 2), lambda x: x * float(x.shape[0]),
    lambda x: jnp.squeeze(x)])
def test_what_asks_for_sizes_is_traced_for_each(function):
    program, shapes = noting(function)
    for count in (4, 6, 8, 10, 12, 14):
        x = np.arange(count, dtype="float32")
        np.testing.assert_allclose(program(jax.device_put(x, CPU)), jax.jit(function)(x), rtol=1e-6)
    assert [s for s in shapes if isinstance(s[0], int)] == [(n,) for n in (4, 6, 8, 10, 12, 14)]


@pytest.mark.parametrize("function", [lambda x: x + x, lambda x: x[:3] if x.shape[0] > 5 else x[:2]])
def test_learning_holds_no_arguments(function):
    program, _ = noting(function)
    gc.disable()
    try:
        for count in range(4, 13):
            x = jnp.ones(count)
            held = weakref.ref(x)
            program(x)
            del x
            assert held() is None
    finally:
        gc.enable()


def test_a_users_formula_may_ask_for_a_size():
    @mx.operator.from_jax
    def special_size(x):
        return x * (2 if x.shape[0] == 9 else 3)
    for count in (3, 4, 5, 6, 7, 8, 9, 10):
        assert special_size(mx.nd.ones((count,))).asnumpy().tolist() == [2 if count == 9 else 3] * count


def test_sizes_are_learnt_by_several_threads():
    program, _ = noting(lambda x, y: [x + y, x.T])

    def work(first):
        for rows in range(first, first + 40):
            x = np.full((rows, 3), rows, "float32")
            total, turned = program(jax.device_put(x, CPU), jax.device_put(x, CPU))
            np.testing.assert_array_equal(total, 2 * x)
            np.testing.assert_array_equal(turned, x.T)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, [2, 3, 20, 30]))



def test_a_loop_whose_sizes_depend_on_data_compiles_nothing(count):
    starts = np.random.default_rng(3).permutation(60).astype("float32")
    left, kept = mx.np.array(np.stack([starts, starts + 4], 1)), []
    while left.shape[0] > 1:  # intervals: those that overlap with the first by more than two are dropped
        first, rest = left[0], left[1:]
        overlap = mx.np.minimum(first[1], rest[:, 1]) - mx.np.maximum(first[0], rest[:, 0])
        kept.append(first.asnumpy()[0])
        left = rest[mx.np.nonzero(overlap <= 2)[0]]
        if len(kept) == 6:
            count.clear()
    assert len(kept) > 12 and min(np.diff(np.sort(kept))) >= 2
    assert not count


def test_batches_that_a_loader_makes_are_one_round():
    class Samples(mx.gluon.data.Dataset):
        def __len__(self):
            return 6

        def __getitem__(self, index):
            return mx.nd.array([index]).asnumpy()
    before = rounds_begun()
    assert [batch.shape for batch in mx.gluon.data.DataLoader(Samples(), 3)] == [(3, 1)] * 2
    assert rounds_begun() == before


@by_cpu
def test_sequences_of_ever_new_lengths_in_an_old_training(count, monkeypatch):
    monkeypatch.setattr(policy, "MOST_STEPS", 0)
    w = mx.nd.array(rng.normal(size=(4, 3)))
    w.attach_grad()
    optimizer = mx.optimizer.SGD()
    for step, length in enumerate(range(3, 24)):
        x, y = rng.normal(size=(length, 4)).astype("float32"), rng.integers(0, 3, length)
        with mx.autograd.record():
            loss = -mx.nd.pick(mx.nd.log_softmax(mx.nd.dot(mx.nd.array(x), w)), mx.nd.array(y)).mean()
        loss.backward()
        scores = x @ w.asnumpy()
        share = np.exp(scores - scores.max(1, keepdims=True))
        share /= share.sum(1, keepdims=True)
        np.testing.assert_allclose(loss.asscalar(), -np.log(share[np.arange(length), y]).mean(), 1e-5)
        np.testing.assert_allclose(w.grad.asnumpy(), x.T @ (share - np.eye(3)[y]) / length, 1e-4, 1e-6)
        optimizer.update(0, w, w.grad, None)
        if step == 8:
            count.clear()
    assert not count


def test_results_of_ever_new_sizes_compile_nothing(count):
    for size in (5, 6, 7):
        numbers = mx.np.arange(size)
        assert [each.shape for each in mx.np.unique(numbers % 3, return_counts=True)] == [(3,), (3,)]
        assert mx.np.nonzero(numbers)[0].shape == (size - 1,)
        assert mx.np.bincount(numbers.astype("int32")).shape == (size,)
        mx.nd.arange(size).sum().asscalar()
    assert not count


FORKED = """
import os
import numpy as np
import mxjax as mx
from mxjax.interpret import cost
x = mx.nd.array(np.ones((32, 256, 64, 64), "f"))
w = mx.nd.array(np.ones((256, 256, 1, 1), "f"))
child = os.fork()
if child:
    raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
for _ in range(4):
    mx.nd.Convolution(x, w, no_bias=True, kernel=(1, 1), num_filter=256).wait_to_read()
os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_much_work_in_a_forked_child_is_warned_of_once():
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, check=True)
    assert done.stderr.count("with spawn") == done.stderr.count("RuntimeWarning") == 1
