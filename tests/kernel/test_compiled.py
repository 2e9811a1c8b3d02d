"""Programs of few numbers are compiled with less effort; their results and their use inside JAX do not change."""

import pickle
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mxjax as mx
from mxjax.kernel import arguments, budget, compiled, xla
from mxjax.kernel.compiled import Compiled, Reordered
from mxjax.kernel.kernel import prepare
from mxjax.ops import registry

from ..internals import calls_of, forget_numbers, forms_of, numbers_there

pytestmark = pytest.mark.usefixtures("at_once")

reducing = pytest.mark.skipif(len(set(map(str, xla.by_effort()))) < 3,
                              reason="this JAX has no options to compile with less effort")


@reducing
def test_effort_by_the_number_of_elements():
    program = Compiled(lambda x, more: jnp.tanh(x) + sum(jax.tree.leaves(more)))
    for count, forms in ((10, (0, 0, 1)), (250, (0, 0, 2)), (300, (0, 1, 2)), (20000, (0, 2, 2)), (10, (0, 2, 2))):
        x = np.linspace(-2, 2, count, dtype="float32")
        np.testing.assert_allclose(program(jnp.asarray(x), {"a": [1.0], "b": 2}), np.tanh(x) + 3, rtol=1e-5)
        assert program.forms() == forms
    tree = Compiled(lambda values: values[0].sum() + values[1])  # more than one loop
    assert tree([np.ones(20000, "float32"), 1.0]) == 20001 and tree.forms() == (1, 0, 0)


@reducing
def test_a_program_that_makes_many_numbers_of_few_is_compiled_in_full():
    program = Compiled(lambda x: jnp.broadcast_to(x, (300, 300)))
    assert program(jnp.ones(1)).shape == (300, 300)
    assert program.forms() == (1, 0, 0)


@reducing
@pytest.mark.parametrize("activation, forms", [("relu", (0, 1, 0)), ("tanh", (1, 0, 0))])
def test_programs_of_convolutions_are_compiled_without_emitters(activation, forms):
    op = registry.get("Convolution")
    given = {"kernel": (3, 3), "pad": (1, 1), "num_filter": 16, "no_bias": True}
    convolve = prepare(op, op.parse(given), 2, True).once

    def function(x, weight):
        for _ in range(2):  # 144 multiplications for each result
            x = getattr(jax.nn, activation)(convolve(x, weight)[0])
        return x
    program = Compiled(function)
    x, weight = np.ones((2, 16, 32, 32), "float32"), np.full((16, 16, 3, 3), 0.01, "float32")
    np.testing.assert_allclose(program(x, weight), jax.jit(function)(x, weight), rtol=1e-5)
    assert program.forms() == forms
    gradient = Compiled(jax.grad(lambda x, weight: function(x, weight).sum(), argnums=1))
    np.testing.assert_allclose(gradient(x, weight), jax.jit(gradient)(x, weight), rtol=1e-4)
    assert gradient.forms() == (0, 1, 0)  # three times as many


@reducing
@pytest.mark.parametrize("shape, given, forms", [
    ((512, 512), (0, 2), (1, 0, 0)), ((256, 256, 2, 2), (0, 2), (1, 0, 0)),  # LLVM would make no loops of vectors
    ((256, 256, 3, 3), (0, 2), (0, 1, 0)), ((512, 512), (0,), (0, 1, 0))])
def test_programs_that_write_over_several_arrays_keep_emitters(shape, given, forms):
    def update(weight, grad, state):
        state = 0.9 * state - 0.1 * grad
        return weight + state, state
    program, arrays = Compiled(update, donate_argnums=given), [np.full(shape, n, "float32") for n in (1, 2, 3)]
    weight, state = program(*[jnp.asarray(a) for a in arrays])
    np.testing.assert_allclose(state, np.full(shape, 2.5), rtol=1e-6)
    np.testing.assert_allclose(weight, np.full(shape, 3.5), rtol=1e-6)
    assert program.forms() == forms


@reducing
@pytest.mark.parametrize("readers, forms", [(3, (0, 1, 0)), (7, (1, 0, 0))])
def test_loops_in_which_one_value_is_read_often_keep_emitters(readers, forms):
    """XLA would make several loops of such a one."""
    def polynomial(x):
        s, total = x / (x + 2), 0
        for power in range(readers):
            total = total * s + power
        return total
    program = Compiled(polynomial)
    x = np.linspace(0, 1, 1 << 18, dtype="float32")
    np.testing.assert_allclose(program(x), polynomial(x), rtol=1e-5, atol=1e-6)
    assert program.forms() == forms


@reducing
def test_programs_of_other_products_keep_emitters():
    program = Compiled(lambda x: jnp.maximum(x @ x, 0))
    program(jnp.ones((256, 256)))
    assert program.forms() == (1, 0, 0)


def _mixed(a, b, c):
    return c + 1, a * 2, b - a


def test_results_in_arguments_places():
    """They are those of the function, in its order, however the program has them."""
    given = [np.full((40, 50), i, "float32") for i in range(1, 4)]
    program = Reordered(_mixed, (1, 2, 0), donate_argnums=(0, 1, 2))
    for call in (program, pickle.loads(pickle.dumps(program)), jax.jit(lambda *args: program(*args))):
        for _ in range(3):  # NumPy computes the first ones
            for one, expected in zip(call(*[jnp.array(x) for x in given]), _mixed(*given), strict=True):
                np.testing.assert_array_equal(one, expected)
    made = []
    program.deliver(made, [jnp.array(x) for x in given])
    np.testing.assert_array_equal(made[0], _mixed(*given))


def test_inside_transformations():
    program = Compiled(lambda x: x * x)
    x = jnp.arange(3.0)
    assert program(x).tolist() == [0, 1, 4]
    assert jax.jit(lambda x: program(x) + program(jnp.ones(3)))(x).tolist() == [1, 2, 5]
    assert jax.grad(lambda x: program(x).sum())(x).tolist() == [0, 2, 4]
    assert jax.vmap(program)(x).tolist() == jax.vmap(jax.jit(program))(x).tolist() == [0, 1, 4]
    assert jax.vmap(jax.grad(program))(x).tolist() == jax.grad(lambda x: jax.vmap(program)(x).sum())(x).tolist()
    assert jax.lax.scan(lambda s, x: (s + program(x), program(s)), 0.0, x)[1].tolist() == [0, 0, 1]
    assert jax.eval_shape(program, x).shape == (3,)
    assert jax.jvp(program, (x,), (x,))[1].tolist() == [0, 2, 8]
    assert program(x).tolist() == program(x).tolist() == [0, 1, 4]


@pytest.mark.parametrize("transform", [jax.jit, jax.vmap, lambda f: jax.grad(lambda x: f(x).sum()),
                                       lambda f: lambda x: jax.lax.scan(lambda s, x: (s, f(x)), 0, x),
                                       lambda f: lambda x: jax.eval_shape(f, x), jax.make_jaxpr])
def test_constants_inside_transformations(transform):
    program, kept = Compiled(lambda x: x * x), np.ones(2, "float32")
    for _ in range(5):  # its program is known for them
        assert program(kept).tolist() == [1, 1]

    def function(x):
        made = []
        program.deliver(made, (kept,))
        return x + (program(kept) + made[0]).sum() * x
    before = program.forms()
    transform(function)(jnp.arange(3.0))
    assert program.forms() == before and program(kept).tolist() == [1, 1]


def test_what_is_only_traced_need_not_fit_the_device():
    assert jax.eval_shape(Compiled(jnp.exp), jax.ShapeDtypeStruct((1 << 50,), "float32")).shape == (1 << 50,)


def test_numbers_among_the_arguments_of_a_part_that_xla_computes():
    sort = Compiled(lambda x, factor: jax.lax.sort(jnp.fft.fft(x).real * factor))  # NumPy has no form of it
    for factor in (2.0, np.float32(2), np.full((), 2, "float32")):
        np.testing.assert_array_equal(sort.within(np.ones(4, "float32"), factor), [0, 0, 0, 8])


def test_mistakes_pass_through():
    def refuse(x):
        raise ValueError("no such thing")
    with pytest.raises(ValueError, match="no such thing"):
        Compiled(refuse)(jnp.ones(2))
    called = []

    def refuse_options(x):
        called.append(x)
        raise ValueError("compiler_options are another matter")
    for call in (Compiled(refuse_options), lambda x: Compiled(refuse_options).deliver([], (x,))):
        called.clear()
        with pytest.raises(ValueError, match="another matter"):
            call(jnp.ones(2))
        assert len(called) == 1
    with pytest.raises(mx.MXNetError, match="operator dot"):
        mx.nd.dot(mx.nd.ones((2, 3)), mx.nd.ones((2, 3)))


def _states(steps, call=lambda f: f):
    """A chain of sums and products with two readers at each step, as the cell states of a recurrent network."""
    def chain(state, weight):
        step = call(lambda state: state * weight + weight * 0.3)
        outputs = []
        for _ in range(steps):
            state = step(state)
            outputs.append((state * 2) @ weight)
        return outputs, {"state": state}
    return chain


@pytest.mark.parametrize("call", [lambda f: f, jax.jit], ids=["flat", "calls"])
def test_chains_with_many_readers_are_computed_once(call):
    x = jnp.full((4, 4), 0.1)
    program = Compiled(_states(48, call), most=1)
    outputs, state = program(x, x)
    expected, last = _states(48)(x, x)
    for got, want in zip([*outputs, state["state"]], [*expected, last["state"]], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)
    cpu = jax.device_put(x, jax.local_devices(backend="cpu")[0])
    kind = arguments.kind_of((cpu,))
    products = program.xla.form(kind, 0).lower(cpu, cpu).compile().as_text().count(" multiply(")
    assert products < 48 * 15  # 48 * 48 without barriers
    barriers = ["optimization_barrier" in str(program.xla.form(of, 0).trace(x, x).jaxpr) for of in (kind, None)]
    assert barriers == [True, False]  # programs for other devices are left as they are


def test_where_arrays_are_decides(monkeypatch):
    """On a host with an accelerator a program of CPU arrays is a CPU's, whatever device JAX prefers."""
    program, x = Compiled(_states(48), most=1), jnp.full((4, 4), 0.1)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    cpu = jax.device_put(x, jax.local_devices(backend="cpu")[0])
    program(cpu, cpu)
    monkeypatch.setattr(compiled.budget, "several", True)
    program(cpu, cpu)
    kind = arguments.kind_of((cpu,))
    assert kind is not None and {of for of, _ in forms_of(program)} == {kind}
    assert [key[-1] for key in calls_of(program)] == [cpu.aval, kind]


def test_loops_of_few_numbers_have_barriers():
    """XLA would make one kernel of such a loop, and has no code for a barrier in it."""
    def normalized(x):
        body = lambda i, c: jax.lax.optimization_barrier(c / c.sum(1, keepdims=True)) + 1  # noqa: E731
        return jax.lax.fori_loop(0, 5, body, x)

    for rows in (3, 300):
        x = jnp.asarray(np.random.default_rng(0).uniform(1, 2, (rows, 2)), np.float32)
        expected = np.asarray(x)
        for _ in range(5):
            expected = expected / expected.sum(1, keepdims=True) + 1
        program = Compiled(normalized)
        for _ in range(2):
            np.testing.assert_allclose(program(x), expected, rtol=1e-6)
        for level in range(3):  # of all that it may be compiled at
            np.testing.assert_allclose(program.xla.form("cpu", level)(x), expected, rtol=1e-6)


def test_programs_with_barriers_are_differentiated():
    @jax.custom_vjp
    def doubled(x):
        return x

    doubled.defvjp(lambda x: (x, None), lambda _, g: (2 * g,))
    chain = _states(24)
    program = Compiled(lambda x, w: doubled(chain(x, w)[1]["state"]), most=1)
    x, w = jnp.full((4, 4), 0.1), jnp.full((4, 4), 0.5)
    plain = jax.grad(lambda x: chain(x, w)[1]["state"].sum())(x)
    np.testing.assert_allclose(jax.grad(lambda x: program(x, w).sum())(x), 2 * plain, rtol=1e-5)
    np.testing.assert_allclose(jax.grad(lambda x: jax.jit(program)(x, w).sum())(x), 2 * plain, rtol=1e-5)


def test_importing_registers_nothing_in_jax():
    script = """if True:
        from jax._src import monitoring
        listeners = [getattr(monitoring, name) for name in dir(monitoring) if name.startswith("get_event")]
        before = [list(listener()) for listener in listeners]
        import mxjax as mx
        mx.nd.ones(3) + 1
        assert listeners and [list(listener()) for listener in listeners] == before
    """
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.fixture
def room(monkeypatch):
    """The keeper of mappings alone with functions made in the test, 100 mappings and a look at each program."""
    room = budget.ProgramBudget()
    monkeypatch.setattr(compiled, "budget", room)
    monkeypatch.setattr(budget, "LOOK_EVERY", 1)
    monkeypatch.setattr(room, "_limit", 1000)
    monkeypatch.setattr(room, "_mappings", lambda: 100)
    return room


def test_programs_are_dropped_before_memory_mappings_run_out(room, monkeypatch, caplog, compiles):
    many, one = Compiled(lambda x: jnp.cos(x) + 1), Compiled(lambda x: jnp.cos(x) * 2)
    x = [jnp.zeros(n) for n in range(6)]
    one(x[3])
    for n in range(1, 5):
        assert many(x[n]).tolist() == [2] * n
    assert not room.short
    monkeypatch.setattr(room, "_mappings", lambda: 501)
    many(x[4])
    assert not room.short  # nothing is new
    many(x[5])
    assert room.short and sum(many.forms()) == 5
    caplog.set_level("INFO", "mxjax.kernel")
    compiles.clear()
    assert one(x[3]).tolist() == [2] * 3 and not compiles and not room.short
    assert "dropped 5 of 6 signatures" in caplog.text
    assert sum(many.forms()) == 0 and sum(one.forms()) == 1
    assert many(x[1]).tolist() == [2] and compiles


def test_mappings_are_looked_at_now_and_then(room, monkeypatch):
    looks = []
    monkeypatch.setattr(budget, "LOOK_EVERY", 10)
    monkeypatch.setattr(room, "_mappings", lambda: looks.append(None) or 0)
    program = Compiled(jnp.cos)
    for _ in range(40):
        room.note()
    assert len(looks) == 4
    for n in range(1, 6):  # each is a new signature, and a program
        program(jnp.zeros(n))
    assert len(looks) == 5
    for _ in range(10):
        jax.vmap(program)(jnp.zeros(3))
    assert len(looks) == 6 and not room.short


def test_room_is_made_while_other_threads_make_functions(room):
    made = [[], []]
    threads = [threading.Thread(target=lambda kept: kept.extend(Compiled(abs) for _ in range(3000)), args=(kept,))
               for kept in made]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        room.short = True
        room.make()
    assert len(room.functions) == 6000


def test_many_signatures_are_dropped_though_nothing_is_compiled(room, monkeypatch):
    monkeypatch.setattr(budget, "MOST_SIGNATURES", 4)
    monkeypatch.setattr(budget, "LOOK_SELDOM", 1)
    program = Compiled(lambda x: -x)
    for n in range(1, 30):
        assert program(jax.device_put(np.ones(n, "float32"))).tolist() == [-1] * n
        assert 0 < program.signatures() <= 8


def test_products_on_gpus_are_of_cublas(monkeypatch):
    assert xla.options_on("gpu") == xla.options_on("cuda") == {"xla_gpu_enable_triton_gemm": False}
    assert not xla.options_on("tpu") and not xla.options_on("cpu")
    x, asked = jnp.ones((2, 2)), []
    device = next(iter(x.devices()))
    monkeypatch.setattr(arguments, "placed", lambda args: (None, None))
    monkeypatch.setattr(xla, "options_on", lambda platform: asked.append(platform) or {"some": "options"})
    program = Compiled(lambda x: x @ x)
    np.testing.assert_allclose(program(x), 2 * np.ones((2, 2)))
    assert asked == [device.platform] and list(calls_of(program).values()) == [forms_of(program)[None, 1]]


def test_what_cuda_graphs_hold(monkeypatch):
    monkeypatch.setenv("MXJAX_CUDA_GRAPHS", "off")
    assert xla.options_on("gpu")["xla_gpu_enable_command_buffer"] == "" and not xla.options_on("tpu")
    held = []
    for choice in ("convolutions", "all"):
        monkeypatch.setenv("MXJAX_CUDA_GRAPHS", choice)
        held.append(set(xla.options_on("cuda")["xla_gpu_enable_command_buffer"].split(",")))
    assert "CONVOLUTION" in held[0] and held[1] - held[0] == {"WHILE"}
    monkeypatch.setenv("MXJAX_CUDA_GRAPHS", "some")
    with pytest.raises(mx.MXNetError, match="MXJAX_CUDA_GRAPHS='some': expected one of off, xla, convolutions, all"):
        xla.options_on("gpu")


def test_numbers_stay_on_accelerators(monkeypatch):
    """The CPU stands for one."""
    for module in (arguments, compiled):
        monkeypatch.setattr(module, "placed", lambda args: (None, None))
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(compiled.budget, "several", True)
    forget_numbers()
    x, program, made = jnp.ones((2, 2)), Compiled(lambda x, a, b, c: (x * a + b, c)), []
    for a, b, c in ((2, 0.5, np.float32(3)), (2, 0.5, np.float32(3)), (2.0, -0.0, np.arange(3, dtype=np.int8)),
                    (2, 0.0, np.zeros((1000, 1000), np.float32))):
        wanted = jax.jit(lambda x, a, b, c: (x * a + b, c))(x, a, b, c)
        for got in (program(x, a, b, c), (program.deliver(made, [x, a, b, c]), made.pop())[1]):
            for one, other in zip(got, wanted, strict=True):
                assert one.dtype == other.dtype and one.weak_type == other.weak_type and (one == other).all()
    assert len(numbers_there()) == 7  # 2, 0.5, 3, 2.0, -0.0, the three, 0.0; nothing large
    monkeypatch.setattr(jax, "device_put", None)  # nothing is brought again
    program(x, 2, 0.5, np.float32(3))
    for step in range(100, 103):  # but what comes once is not
        program(x, step, 0.5, np.float32(3))
    assert len(numbers_there()) == 7


def _traced(net, *inputs):
    """The programs that a recorded forward and its backward are, as they are compiled."""
    found = []
    whole = xla.survey

    def survey(jaxpr):
        found.append(str(jaxpr))
        return whole(jaxpr)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(xla, "survey", survey)
        with mx.autograd.record():
            out = net(*inputs)
        out.backward()
        out.wait_to_read()
    return found


# the arrays are on a CPU: that decides, not what else is there (another number of filters is another program)
@pytest.mark.parametrize("default, filters", [("cpu", 8), ("gpu", 9)])
def test_programs_for_cpus_have_no_forms_for_other_devices(monkeypatch, default, filters):
    monkeypatch.setattr(jax, "default_backend", lambda: default)
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Conv2D(filters, 1, in_channels=3), mx.gluon.nn.BatchNorm(in_channels=filters),
            mx.gluon.nn.MaxPool2D())
    net.initialize()
    net.hybridize()
    programs = _traced(net, mx.nd.ones((2, 3, 8, 8)))
    assert programs and not any("platform_index" in text or "cond[" in text for text in programs)
    assert "platform_index" in str(jax.make_jaxpr(  # in a user's program, which may be for any device, all are there
        lambda *given: mx.nd.Convolution(*map(mx.interop.from_jax, given), kernel=(1, 1), num_filter=8, no_bias=True)
        .read())(jnp.ones((2, 3, 8, 8)), jnp.ones((8, 3, 1, 1))))


@pytest.mark.parametrize("default, filters", [("cpu", 7), ("gpu", 6)])
def test_layers_of_one_signature_are_traced_once(monkeypatch, default, filters):
    monkeypatch.setattr(jax, "default_backend", lambda: default)
    count = []
    for name in ("as_product", "correlate"):  # where oneDNN convolves it is not a product
        form = getattr(mx.ops.nn.convolution, name)
        monkeypatch.setattr(mx.ops.nn.convolution, name, lambda *args, form=form: count.append(1) or form(*args))
    net = mx.gluon.nn.HybridSequential()
    for _ in range(5):
        net.add(mx.gluon.nn.Conv2D(filters, 3, padding=1, in_channels=filters),
                mx.gluon.nn.BatchNorm(in_channels=filters))
    net.initialize()
    net.hybridize()
    _traced(net, mx.nd.ones((1, filters, 5, 5)))
    assert len(count) == 1


def test_contexts_stay_the_same_objects_when_caches_are_cleared():
    before = mx.cpu(0), mx.cpu(1)
    compiled.clear_caches()
    assert mx.cpu(0) is before[0] is mx.current_context() and mx.cpu(1) is before[1]
