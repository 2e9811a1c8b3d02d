"""Parameters: initialization now or later, contexts, sharing, files."""

import concurrent.futures
import gc
import threading

import numpy as np
import pytest

import mxjax as mx
from mxjax import gluon


def test_values_and_gradients_on_each_context():
    p = gluon.Parameter("weight", shape=(2, 3), init="ones")
    p.initialize(ctx=[mx.cpu(0), mx.cpu(1)])
    assert p.list_ctx() == [mx.cpu(0), mx.cpu(1)] and len(p.list_grad()) == 2
    assert p.data(mx.cpu(1)).context == mx.cpu(1) and p.data().asnumpy().tolist() == [[1] * 3] * 2
    p.set_data(mx.nd.full((2, 3), 4))
    assert all(d.asnumpy().sum() == 24 for d in p.list_data())
    p.reset_ctx([mx.cpu(2)])
    assert p.list_ctx() == [mx.cpu(2)] and p.data().asnumpy().sum() == 24
    with pytest.raises(RuntimeError, match="only initialized on"):
        p.data(mx.cpu(0))


def test_places_of_contexts():
    """Libraries look a context's number up by its device type's last bit: hosts are odd in MXNet."""
    param = mx.gluon.Parameter("w", shape=(2,))
    assert param._ctx_map is None
    param.initialize(ctx=[mx.cpu(2), mx.cpu(0)])
    assert param._ctx_map == [[], [1, None, 0]]
    assert param.data(mx.cpu_pinned(2)) is param.data(mx.cpu(2))
    for ctx in (mx.cpu(1), mx.cpu(7), mx.gpu(0)):
        with pytest.raises(RuntimeError, match="not initialized on context"):
            param.data(ctx)


def test_initialization_waits_for_the_shape():
    p = gluon.Parameter("weight", shape=(2, 0), allow_deferred_init=True, init=mx.init.Constant(3))
    p.initialize()
    with pytest.raises(gluon.DeferredInitializationError):
        p.data()
    p.shape = (2, 4)
    p._finish_deferred_init()
    assert p.data().asnumpy().tolist() == [[3] * 4] * 2
    with pytest.raises(AssertionError, match="compatible"):
        p.shape = (2, 5)
    with pytest.raises(ValueError, match="shape is not known"):
        gluon.Parameter("other", shape=(0,)).initialize()
    with pytest.raises(RuntimeError, match="not been initialized"):
        gluon.Parameter("other", shape=(1,)).data()


def test_grad_req_may_change_and_dtype_too():
    p = gluon.Parameter("weight", shape=(2,), init="ones", grad_req="null")
    p.initialize()
    with pytest.raises(RuntimeError, match="grad_req='null'"):
        p.grad()
    p.grad_req = "add"
    for _ in range(2):
        with mx.autograd.record():
            y = p.data() * 3
        y.backward()
    assert p.grad().asnumpy().tolist() == [6, 6]
    p.zero_grad()
    assert p.grad().asnumpy().tolist() == [0, 0]
    p.cast("float64")
    assert p.data().dtype == p.grad().dtype == np.float64
    with pytest.raises(AssertionError, match="grad_req"):
        p.grad_req = "sometimes"
    with pytest.raises(AssertionError, match="stype"):
        gluon.Parameter("weight", shape=(2,), stype="dense")


def test_dictionary_makes_shares_and_checks():
    one = gluon.ParameterDict("net_")
    w = one.get("w", shape=(3, 0), dtype="float32")
    assert w.name == "net_w" and one.get("w", shape=(0, 5)) is w and w.shape == (3, 5)
    with pytest.raises(AssertionError, match="shape"):
        one.get("w", shape=(4, 5))
    other = gluon.ParameterDict("net_", shared=one)
    assert other.get("w") is w
    third = gluon.ParameterDict()
    third.update(one)
    with pytest.raises(AssertionError, match="same name"):
        third.update({"net_w": gluon.Parameter("net_w")})
    constant = one.get_constant("c", [[1, 2]])
    assert constant.grad_req == "null" and one.get_constant("c", np.array([[1, 2]])) is constant
    with pytest.raises(AssertionError, match="another value"):
        one.get_constant("c", np.array([[1, 3]]))
    with pytest.raises(KeyError):
        one.get_constant("missing")


def test_files_prefixes_and_dtypes(tmp_path):
    file = str(tmp_path / "p.params")
    one = gluon.ParameterDict("a_")
    one.get("w", shape=(2,), init="ones")
    one.get("v", shape=(1,), init="zeros")
    one.initialize()
    one.save(file, strip_prefix="a_")
    assert sorted(mx.nd.load(file)) == ["v", "w"]
    with pytest.raises(ValueError, match="does not start"):
        one.save(file, strip_prefix="b_")
    two = gluon.ParameterDict("b_")
    two.get("w", shape=(0,), dtype="float64", allow_deferred_init=True)
    with pytest.raises(AssertionError, match="ignore_extra"):
        two.load(file, restore_prefix="b_", cast_dtype=True)
    with pytest.raises(AssertionError, match="cast_dtype"):
        two.load(file, restore_prefix="b_", ignore_extra=True)
    two.load(file, restore_prefix="b_", ignore_extra=True, cast_dtype=True)
    assert two["b_w"].data().dtype == np.float64 and two["b_w"].shape == (2,)
    two.get("u", shape=(1,))
    with pytest.raises(AssertionError, match="is missing"):
        two.load(file, restore_prefix="b_", ignore_extra=True, cast_dtype=True)
    two.load(file, restore_prefix="b_", ignore_extra=True, cast_dtype=True, allow_missing=True, dtype_source="saved")
    assert two["b_w"].data().dtype == np.float32


@pytest.mark.parametrize("stype, call, instead", [
    ("row_sparse", lambda p, rows: p.data(), "row_sparse_data"),
    ("row_sparse", lambda p, rows: p.list_data(), "list_row_sparse_data"),
    ("default", lambda p, rows: p.row_sparse_data(rows), "data"),
    ("default", lambda p, rows: p.list_row_sparse_data(rows), "list_data")])
def test_calls_of_another_storage_type_name_the_right_ones(stype, call, instead):
    p = gluon.Parameter("w", shape=(4, 2), stype=stype, init="ones")
    p.initialize()
    with pytest.raises(RuntimeError, match=rf"is {stype}: use {instead}\(\)$"):
        call(p, mx.nd.array([0]))


def test_row_sparse_parameter_needs_its_own_calls():
    p = gluon.Parameter("w", shape=(4, 2), stype="row_sparse", grad_stype="row_sparse", init="ones")
    p.initialize()
    rows = mx.nd.array([1, 3])
    with pytest.raises(RuntimeError, match=r"use row_sparse_data\(\)$"):
        p.data()
    with pytest.raises(RuntimeError, match="Trainer"):
        p.row_sparse_data(rows)
    trainer = gluon.Trainer([p], "sgd", {"learning_rate": 0.5})
    with mx.autograd.record():
        y = p.row_sparse_data(rows) * 2
    y.backward()
    trainer.step(1)
    assert p._reduce().asnumpy().tolist() == [[1, 1], [0, 0], [1, 1], [0, 0]] or \
        p._reduce().asnumpy().tolist() == [[0, 0]] * 4


class Halved(gluon.Parameter):
    """A parameter of which a block gets half, as weight dropout gives another part each time."""

    def data(self, ctx=None):
        return super().data(ctx) / 2

    def list_grad(self):
        return [grad * 3 for grad in super().list_grad()]


@pytest.mark.parametrize("hybridize", [False, True])
def test_a_subclass_makes_something_of_its_values(hybridize):
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(1, in_units=2, use_bias=False))
    weight = Halved(f"{net[0].prefix}weight", shape=(1, 2), init=mx.init.One())
    net[0]._reg_params["weight"] = net[0].params._params[weight.name] = weight
    net.initialize()
    if hybridize:
        net.hybridize()
    x = mx.nd.array([[1, 2], [3, 4]])
    for _ in range(2):
        np.testing.assert_array_equal(net(x).asnumpy(), [[1.5], [3.5]])
    with mx.autograd.record():
        net(x).backward()
    np.testing.assert_array_equal(weight.grad().asnumpy(), [[2, 3]])
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    step = gluon.TrainStep(net, lambda out, label: (out - label) ** 2, trainer)
    values = np.ones((1, 2))
    for _ in range(4):
        out = x.asnumpy() @ values.T / 2
        step(x, mx.nd.zeros((2, 1)))
        values = values - 0.3 * (2 * out * x.asnumpy() / 2).mean(0)
        np.testing.assert_allclose(gluon.Parameter.data(weight).asnumpy(), values, rtol=1e-5)


def test_rows_of_a_sparse_parameter_need_a_trainer(tmp_path):
    net = gluon.nn.Dense(2, in_units=3)
    net.weight._stype = "row_sparse"
    net.initialize()
    with pytest.raises(RuntimeError, match="no Trainer is created"):
        net.save_parameters(str(tmp_path / "net.params"))


@pytest.mark.parametrize("init", ["ones", mx.init.One()])
def test_verbose_initialization_takes_names_too(init, caplog):
    net = gluon.nn.Dense(2, in_units=3, use_bias=False, prefix="net_")
    with caplog.at_level("INFO"):
        net.initialize(init, verbose=True)
    (message,) = caplog.messages
    assert message.startswith("Initialized net_weight as ") and message.endswith(": 1.0")
    assert net.weight.data().asnumpy().tolist() == [[1] * 3] * 2


@pytest.mark.parametrize("numpy", [False, True])
def test_arrays_have_the_semantics_of_their_beginning(numpy):
    with mx.util.np_array(numpy):
        parameter = gluon.Parameter("w", shape=(2,), init="ones")
        parameter.initialize()
        assert type(parameter.data()) is (mx.np.ndarray if numpy else mx.nd.NDArray)


def test_a_symbol_with_a_constant_fills_a_module():
    constant = gluon.Constant("shift", [5.0, 7.0])
    symbol = mx.sym.broadcast_add(mx.sym.var("data"), constant.var())
    name = symbol.attr_dict()["shift"]["__init__"]
    module = mx.mod.Module(symbol, label_names=None)
    module.bind([("data", (1, 2))], for_training=False)
    module.init_params(mx.init.Xavier())
    assert module.get_params()[0]["shift"].asnumpy().tolist() == [5, 7]
    assert isinstance(mx.init.create(name), mx.init.Initializer)
    del constant, symbol, module
    gc.collect()
    with pytest.raises(ValueError, match="not registered"):
        mx.init.create(name)


@pytest.mark.parametrize("shape", [(2,), (0,)])  # the second one is deferred
def test_files_are_loaded_onto_the_contexts_of_the_parameters(shape, tmp_path):
    def network(ctx):
        net = mx.gluon.nn.Dense(3, in_units=shape[0])
        net.initialize(ctx=ctx)
        return net
    path = str(tmp_path / "net.params")
    saved = network(mx.cpu(0))
    saved(mx.nd.ones((1, 2)))
    saved.save_parameters(path)
    net = network([mx.cpu(0), mx.cpu(1)])
    for others in (mx.cpu(1), [mx.cpu(0)], [mx.cpu(0), mx.cpu(2)]):
        with pytest.raises(AssertionError, match="weight.* on .*: it was previously initialized on"):
            net.load_parameters(path, ctx=others)
    for same in (None, [mx.cpu(1), mx.cpu(0)]):
        net.load_parameters(path, **({} if same is None else {"ctx": same}))
        for ctx in (mx.cpu(0), mx.cpu(1)):
            assert net.weight.data(ctx).context == ctx
            np.testing.assert_array_equal(net.weight.data(ctx).asnumpy(), saved.weight.data().asnumpy())


@pytest.mark.parametrize("hybridized", [False, True])
def test_threads_may_call_a_network_for_the_first_time_together(hybridized):
    """As GluonCV's DataParallelModel does, with a thread per context. MXNet fails in most runs."""
    contexts = [mx.cpu(0), mx.cpu(1)]
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(4), gluon.nn.Dense(3), gluon.nn.Dense(2))
    net.initialize(ctx=contexts)
    if hybridized:
        net.hybridize()
    start = threading.Barrier(len(contexts))

    def gradients(ctx):
        start.wait(timeout=60)
        with mx.autograd.record():
            loss = net(mx.nd.ones((2, 5), ctx=ctx)).square().sum()
        loss.backward()
        return [param.grad(ctx).asnumpy() for param in net.collect_params().values()]

    with concurrent.futures.ThreadPoolExecutor(len(contexts)) as threads:
        first, second = threads.map(gradients, contexts)
    assert all(np.abs(grad).sum() > 0 for grad in first)
    for one, other in zip(first, second, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_an_initializer_that_fails_leaves_the_parameter_uninitialized():
    dense = gluon.nn.Dense(2, bias_initializer=mx.init.Xavier())
    with pytest.raises(ValueError, match="Xavier"):
        dense.initialize()
    with pytest.raises(RuntimeError, match="has not been initialized: "):
        dense.bias.data()


# ------------------------------------------------------------ results of MXNet 1.9.1
def test_gradients_are_set_to_zero_together():
    params = gluon.ParameterDict("a_")
    dense, rows = params.get("w", shape=(2,)), params.get("e", shape=(3, 2), grad_stype="row_sparse")
    params.get("n", shape=(1,), grad_req="null")
    params.initialize(ctx=[mx.cpu(0), mx.cpu(1)])
    for param in (dense, rows):
        for grad in param.list_grad():
            grad[:] = 3
    params.zero_grad()
    for param in (dense, rows):
        assert all(not grad.asnumpy().any() for grad in param.list_grad())
    assert rows.grad().stype == "row_sparse" and not len(rows.grad().indices)


def test_dictionaries_of_parameters():
    params = gluon.ParameterDict("a_")
    params.get("c", shape=(2,))
    assert repr(params) == "a_ (\n  Parameter a_c (shape=(2,), dtype=<class 'numpy.float32'>)\n)"
    assert repr(gluon.ParameterDict()) == "(\n\n)"
    with pytest.raises(AssertionError, match="'a_c' already exists but it is not a constant"):
        params.get_constant("c", mx.nd.ones(2))
    made = params.get_constant("d", mx.nd.ones(2))
    assert params.get_constant("d", mx.nd.ones(2)) is made
    with pytest.warns(UserWarning, match="Constant parameter 'a_d' does not support grad_req"):
        made.grad_req = "write"
    assert made.grad_req == "null"


@pytest.mark.parametrize("call, error, told", [
    (lambda p: p.row_sparse_data(mx.nd.array([0])), RuntimeError, "requires a parameter of storage type row_sparse"),
    (lambda p: p.list_row_sparse_data(mx.nd.array([0])), RuntimeError, r"row_sparse, but Parameter 'w' is default"),
    (lambda p: p.reset_ctx(mx.cpu()), ValueError, "Cannot reset context for Parameter 'w' because it has"),
    (lambda p: p.set_data(mx.nd.ones(2)), AssertionError, "Parameter 'w' has not been initialized"),
    (lambda p: gluon.Parameter("w", shape=(2, 0)).initialize(), ValueError, r"its shape is not known: \(2, 0\)"),
    (lambda p: gluon.Parameter("w", shape=(2, 2), stype="row_sparse").list_row_sparse_data(mx.nd.array([0])),
     RuntimeError, "no Trainer is created with it"),
])
def test_what_parameters_refuse(call, error, told):
    with pytest.raises(error, match=told):
        call(gluon.Parameter("w", shape=(2,)))
