"""Seeds, streams per context, resources; the distributions themselves are tested with their operators."""

import threading

import jax
import numpy as np
import pytest

import mxjax as mx
from mxjax.base import MXNetError
from mxjax.resource import Resource, ResourceManager, ResourceRequest


def draw(ctx=None, shape=(5,)):
    return mx.nd.random.uniform(shape=shape, ctx=ctx).asnumpy()


def test_a_seed_repeats_everything():
    runs = []
    for _ in range(2):
        mx.random.seed(42)
        x = mx.nd.random.normal(shape=(3,))
        runs.append([x.asnumpy(), draw(), mx.nd.random.randint(0, 100, shape=(4,)).asnumpy(),
                     mx.nd.shuffle(mx.nd.arange(10)).asnumpy(), draw(mx.cpu(1)),
                     mx.nd.sample_multinomial(mx.nd.ones((9,)) / 9).asnumpy()])
    for first, second in zip(*runs, strict=True):
        np.testing.assert_array_equal(first, second)
    mx.random.seed(43)
    assert (mx.nd.random.normal(shape=(3,)).asnumpy() != runs[0][0]).all()


def test_numbers_go_on():
    mx.random.seed(0)
    draws = [draw(shape=(1000,)) for _ in range(3)]
    assert len({d.tobytes() for d in draws}) == 3
    assert abs(np.corrcoef(draws)[np.triu_indices(3, 1)]).max() < 0.15


def test_cpus_draw_from_one_source():
    """As in MXNet, whatever number they have."""
    mx.random.seed(7)
    together = [draw(mx.cpu(i)) for i in range(3)]
    assert len({d.tobytes() for d in together}) == 3
    mx.random.seed(7)
    for expected in together:
        np.testing.assert_array_equal(draw(mx.cpu(2)), expected)
    mx.random.seed(5, ctx=mx.cpu(3))
    first = draw(mx.cpu(0))
    mx.random.seed(5)
    np.testing.assert_array_equal(draw(mx.cpu(1)), first, err_msg="parallel draws are seeded the same for one context")


def test_graphs_repeat_too():
    net = mx.sym.Dropout(mx.sym.random.uniform(shape=(50,)) + mx.sym.Variable("x"), p=0.5)
    executor = net.bind(mx.cpu(), {"x": mx.nd.zeros((50,))})
    runs = []
    for _ in range(2):
        mx.random.seed(3)
        runs.append([executor.forward(is_train=True)[0].asnumpy() for _ in range(2)])
    np.testing.assert_array_equal(runs[0], runs[1])
    assert (runs[0][0] != runs[0][1]).any()


def test_a_loop_of_draws_compiles_once(compiles):
    for step in range(6):
        if step == 1:
            compiles.clear()
        mx.nd.random.uniform(step, step + 1, shape=(4,)).wait_to_read()
    assert compiles == []


def test_many_threads_draw_at_once():
    """Each has its own numbers, whatever the others do."""
    def draws(number):
        mx.random.seed(number)
        return [draw().tobytes() for _ in range(20)]
    expected, found = {number: draws(number) for number in range(4)}, {}
    threads = [threading.Thread(target=lambda n=n: found.update({n: draws(n)})) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == expected


@pytest.mark.parametrize("seed", [0, -1, 2**31, 2**40 + 1, np.int64(3)])
def test_any_integer_is_a_seed(seed):
    mx.random.seed(seed)
    first = draw()
    mx.random.seed(seed)
    np.testing.assert_array_equal(draw(), first)


def test_wrong_seeds():
    for wrong in ("three", 1.5, None):
        with pytest.raises(ValueError, match="seed_state"):
            mx.random.seed(wrong)
    with pytest.raises(ValueError, match="device type"):
        mx.random.seed(1, ctx="some")
    with pytest.raises(AttributeError, match="no_such"):
        mx.random.no_such


def test_a_device_type_may_be_seeded():
    draws = []
    for ctx in ("cpu", mx.cpu()):
        mx.random.seed(3, ctx=ctx)
        draws.append(mx.nd.random.uniform(shape=(2,)).asnumpy().tolist())
    assert draws[0] == draws[1]


def test_arrays_and_numbers_cannot_be_mixed():
    for call in (lambda: mx.random.uniform(mx.nd.zeros(2), 1), lambda: mx.sym.random.normal(0, mx.sym.var("a")),
                 lambda: mx.nd.random.shuffle([1, 2])):
        with pytest.raises(AssertionError, match="must"):
            call()
    with pytest.raises(ValueError, match="must all be"):
        mx.nd.random.uniform("0", 1)


def test_module_level_functions():
    assert mx.random.uniform(2, 3, shape=(4,)).asnumpy().min() >= 2
    assert mx.random.normal(shape=(2, 2)).shape == (2, 2)


# ------------------------------------------------------------------ resources
def test_resources():
    manager = ResourceManager.get()
    assert manager is ResourceManager.get()
    manager.seed_random(9)
    random = manager.request(mx.cpu(), ResourceRequest("random"))
    keys = [random.get_key() for _ in range(2)]
    assert (jax.random.uniform(keys[0], (3,)) != jax.random.uniform(keys[1], (3,))).all()
    manager.seed_random(9)
    np.testing.assert_array_equal(jax.random.key_data(random.get_key()), jax.random.key_data(keys[0]))
    space = manager.request(None, "temp_space")
    assert isinstance(space, Resource) and space.get_space((2, 3), "float64").dtype == np.float64
    for wrong in (space.get_key, lambda: random.get_space((1,)), lambda: manager.request(None, "money")):
        with pytest.raises(MXNetError):
            wrong()


@pytest.mark.parametrize("draw, moments", [
    (lambda n, **k: mx.nd.random.uniform(2, 4, shape=n, **k), (3, 1 / 3)),
    (lambda n, **k: mx.nd.random.normal(1, 2, shape=n, **k), (1, 4)),
    (lambda n, **k: mx.nd.random.exponential(2, shape=n, **k), (2, 4)),
    (lambda n, **k: mx.np.random.uniform(2, 4, size=n, **k), (3, 1 / 3)),
    (lambda n, **k: mx.np.random.normal(1, 2, size=n, **k), (1, 4))])
def test_calls_on_cpus_compile_nothing(draw, moments, compiles):
    mx.nd.waitall()
    compiles.clear()
    for n in range(1, 4):
        assert draw((n, 3, 5)).shape == (n, 3, 5)
    numbers = draw(100000).asnumpy()
    assert not compiles
    assert numbers.dtype == np.float32 and abs(numbers.mean() - moments[0]) < 5 * (moments[1] / 1e5) ** 0.5
    assert abs(numbers.var() - moments[1]) < 0.05 * moments[1]
    for dtype in ("float16", "float64"):
        assert draw((2, 2), dtype=dtype).dtype == np.dtype(dtype)


def test_what_calls_on_cpus_draw():
    integers = mx.nd.random.randint(-3, 5, shape=5000)
    assert integers.dtype == np.int32 and sorted(set(integers.asnumpy().tolist())) == list(range(-3, 5))
    wide = mx.nd.random.randint(2**40, 2**40 + 3, shape=50, dtype="int64").asnumpy()
    assert wide.dtype == np.int64 and set(wide.tolist()) == {2**40, 2**40 + 1, 2**40 + 2}
    out = mx.nd.zeros((2, 3))
    assert mx.nd.random.uniform(1, 2, out=out) is out and (out.asnumpy() >= 1).all()
    assert mx.nd.random.normal().shape == (1,) and mx.np.random.uniform().shape == ()
    assert type(mx.np.random.normal(size=2)) is mx.np.ndarray
    assert mx.nd.random.uniform(ctx=mx.cpu(1)).context == mx.cpu(1)
    with pytest.raises(MXNetError, match="low <= high"):
        mx.nd.random.uniform(2, 1, shape=3).wait_to_read()
    with mx.autograd.record():
        x = mx.nd.random.normal(shape=3)
        x.attach_grad()
        y = x * mx.nd.random.uniform(shape=3)
    y.backward()
    np.testing.assert_allclose((x.grad * x).asnumpy(), y.asnumpy(), rtol=1e-6)


# distribution; parameters that it takes; parameters that it refuses: as MXNet 1.9.1 does, also at the bounds
BOUNDS = """uniform; 1 1, 0 1; 1 0.5
normal; 0 1; 0 0, 0 -1
gamma; 1 1; 0 1, 1 0, -1 1, 1 -1
exponential; 1; -1
poisson; 0; -1
negative_binomial; 0 0.5, 1 0, 1 1.5; -1 0.5, 1 -0.5
generalized_negative_binomial; 0 1, 1 0; -1 1, 1 -1
randint; 0 1; 1 1, 2 1
binomial; 0 0.5, 3 0, 3 1; -1 0.5, 3 -0.1, 3 1.1
np.uniform; 1 1, 1 0.5;
np.normal; 0 0; 0 -1
np.logistic; 0 0; 0 -1
np.gumbel; 0 0; 0 -1
np.laplace; 0 0, 0 -1;
np.exponential; 0; -1
np.rayleigh; 0; -1
np.weibull; 1; 0, -1
np.pareto; 1; 0, -1
np.power; 1; 0, -1
np.gamma; 1 1; 0 1, 1 0, -1 1, 1 -1
np.randint; 0 1; 1 1, 2 1
np.bernoulli; 0, 1; -0.1, 1.1"""


@pytest.mark.parametrize("line", BOUNDS.splitlines())
def test_bounds_of_parameters(line):
    """Of functions of `mx.np` both as numbers and as arrays."""
    name, *cells = (cell.strip() for cell in line.split(";"))
    taken, refused = ([[int(n) if n.lstrip("-").isdigit() else float(n) for n in row.split()]
                       for row in cell.split(", ") if row] for cell in cells)
    of_numpy = name.startswith("np.")
    function = mx.npx.random.bernoulli if name == "np.bernoulli" else \
        getattr(mx.np.random if of_numpy else mx.nd.random, name.removeprefix("np."))
    as_arrays = of_numpy and name != "np.randint"
    with mx.util.np_shape(of_numpy), mx.util.np_array(of_numpy):
        for parameters in (*taken, *refused):
            forms = [parameters] + [[mx.np.array([float(p)]) for p in parameters]] * as_arrays
            for form in forms:
                if parameters in taken:
                    function(*form, **{"size" if of_numpy else "shape": (2,)}).wait_to_read()
                else:
                    with pytest.raises((MXNetError, ValueError), match=r"must|low"):
                        function(*form, **{"size" if of_numpy else "shape": (2,)}).wait_to_read()
