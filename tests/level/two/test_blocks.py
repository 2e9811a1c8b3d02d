"""Blocks of MXNet 2: names, parameters, files."""

import inspect
import json
import pickle
import warnings

import jax
import numpy as onp
import pytest

import mxjax as mx
from mxjax import gluon, np, npx
from mxjax.gluon import nn, rnn

from ...internals import is_hybridized, replays_of


class Net(gluon.HybridBlock):
    """Layers with shapes that are known at the first call, a parameter and a constant of its own."""

    def __init__(self):
        super().__init__()
        self.body = nn.HybridSequential()
        self.body.add(nn.Dense(8, activation="relu"), nn.BatchNorm(), nn.Dropout(0.5))
        self.out = nn.Dense(4)
        self.weight = gluon.Parameter("weight", shape=(4,), init="ones")
        self.offset = gluon.Constant([[1.0, 2, 3, 4]])

    def forward(self, x):
        return self.out(self.body(x)) * self.weight.data() + self.offset.data() + np.arange(4)


def same(a, b):
    """The values are the same but for rounding: a program may have moved to another backend."""
    onp.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=1e-5, atol=1e-6)


def made(x=None):
    net = Net()
    net.initialize(mx.init.Xavier())
    if x is not None:
        net(x)
    return net


@pytest.fixture
def x():
    return np.random.normal(size=(5, 3))


def test_names_are_structural(x):
    net = made(x)
    assert list(net.collect_params()) == [
        "weight", "offset", "body.0.weight", "body.0.bias", "body.1.gamma", "body.1.beta", "body.1.running_mean",
        "body.1.running_var", "out.weight", "out.bias"]
    assert list(net.collect_params(".*bias")) == ["body.0.bias", "out.bias"]
    assert type(net.collect_params()) is dict and list(net.params) == ["weight", "offset"]
    assert net.out.weight.name == "weight" and net.out.weight.shape == (4, 8)
    assert repr(net.out.bias) == "Parameter (shape=(4,), dtype=float32)"


def test_children_are_called_as_weak_references_are(x):
    net = made()
    assert [child() for child in net._children.values()] == [net.body, net.out]
    assert pickle.loads(pickle.dumps(nn.HybridSequential()))._children == {}


def test_old_members_say_what_to_use():
    net = nn.Dense(2)
    for member in ("prefix", "name", "name_scope", "save_params"):
        with pytest.raises(AttributeError, match="belongs to MXNet 1.x"):
            getattr(net, member)
    with pytest.raises(TypeError, match="have no prefix"):
        nn.Dense(2, prefix="a_")
    net.name = "mine"  # not a name of blocks any more
    assert net.name == "mine"


def test_hybrid_forward_is_refused():
    class Old(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return x
    with pytest.raises(AssertionError, match="needs to be used starting from Gluon2.0"):
        Old()


def test_unknown_shape_without_infer_shape():
    class Unknown(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.w = gluon.Parameter("w", allow_deferred_init=True)

        def forward(self, x):
            return x * self.w.data()
    net = Unknown()
    net.initialize()
    with pytest.raises(RuntimeError, match="implement Unknown.infer_shape"):
        net(np.ones(3))

    class Known(Unknown):
        def infer_shape(self, x):
            self.w.shape = x.shape[1:]
    net = Known()
    net.initialize(mx.init.One())
    net.hybridize()
    assert net(np.ones((2, 3))).sum() == 6


def test_shapes_of_layers_are_checked():
    layer = nn.LayerNorm(in_channels=10)
    layer.initialize()
    with pytest.raises(AssertionError, match="shape"):
        layer(np.ones((2, 11)))


def test_hybridized_is_the_same(x):
    net = made(x)
    before = net(x)
    net.hybridize()
    onp.testing.assert_allclose(net(x).asnumpy(), before.asnumpy(), rtol=1e-6)
    onp.testing.assert_allclose(net(x[:2]).asnumpy(), before[:2].asnumpy(), rtol=1e-6)


def test_parameters_are_shared():
    first, second = nn.Dense(3, in_units=2), nn.Dense(3, in_units=2)
    assert second.share_parameters(first.collect_params()) is second
    assert second.weight is first.weight
    net = nn.HybridSequential()
    net.add(first, nn.Dense(3, in_units=3), second)
    net.initialize()
    assert len(gluon.Trainer(net.collect_params(), "sgd")._params) == 4
    with pytest.warns(UserWarning, match="nothing is not in the current model"):
        first.share_parameters({"nothing": gluon.Parameter("w")})
    with pytest.raises(ValueError, match="type of Dict"):
        first.share_parameters([1])
    first.weight = gluon.Parameter("weight", shape=(3, 2))  # a parameter is assigned anew
    assert first.weight is not second.weight


def test_training_changes_what_it_should(x):
    net = made(x)
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.05})
    losses, constant = [], net.offset.data().asnumpy()
    for _ in range(5):
        with mx.autograd.record():
            loss = (net(x) ** 2).mean()
        loss.backward()
        trainer.step(1)
        losses.append(float(loss))
    assert losses[-1] < losses[0] and abs(net.body[1].running_mean.data()).sum() > 0
    assert (net.offset.data().asnumpy() == constant).all()


def test_gradients_are_those_of_the_blocks_parts(x):
    net = made(x)
    grads = {}
    for hybridized in (False, True):
        net.hybridize(hybridized)
        with mx.autograd.record(train_mode=False):
            loss = (net(x) ** 3).sum()
        loss.backward()
        grads[hybridized] = [p.grad().asnumpy() for p in net.collect_params().values() if p.grad_req != "null"]
    for plain, compiled in zip(grads[False], grads[True], strict=True):
        onp.testing.assert_allclose(plain, compiled, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("semantics", [True, False])
def test_files_of_parameters(x, tmp_path, semantics):
    net, path = made(x), str(tmp_path / "net.params")
    with mx.util.np_array(semantics):
        net.save_parameters(path)
    with onp.load(path) as arrays:  # as MXNet 2 writes its arrays
        assert set(arrays) == set(net.collect_params())
    other = Net()
    other.load_parameters(path)
    same(other(x), net(x))
    values = {name: param.data().asnumpy() for name, param in net.collect_params().items()}
    third = Net()
    third.load_dict(values)
    same(third(x), net(x))
    del values["out.bias"]
    with pytest.raises(AssertionError, match="'out.bias' is missing"):
        Net().load_dict(values)
    with pytest.raises(ValueError, match="'more' loaded from 'param_dict' is not present"):
        Net().load_dict({**values, "more": onp.ones(2)}, allow_missing=True)


def test_export_and_import(x, tmp_path):
    net = made(x)
    with pytest.raises(RuntimeError, match="first call block.hybridize"):
        net.export(str(tmp_path / "net"))
    net.hybridize()
    expected = net(x)
    symbol_file, params_file = net.export(str(tmp_path / "net"), epoch=3)
    assert params_file.endswith("net-0003.params")
    nodes = json.loads(open(symbol_file).read())["nodes"]
    assert {"data", "body.0.weight", "out.bias"} <= {n["name"] for n in nodes if n["op"] == "null"}
    back = gluon.SymbolBlock.imports(symbol_file, ["data"], params_file)
    same(back(x), expected)
    graph, params = net.export(None)
    assert set(graph.list_arguments()) - {"data"} == {n[4:] for n in params if n.startswith("arg:")}

    class Twice(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.inner = back

        def forward(self, x):
            return self.inner(x) * 2
    twice = Twice()
    twice.hybridize()
    same(twice(x), expected * 2)


def test_save_and_load_of_whole_models(x, tmp_path):
    net = made(x)
    net.hybridize()
    expected = net(x)
    net.save(str(tmp_path / "whole"))
    other = Net()
    other.load(str(tmp_path / "whole"))
    same(other(x), expected)


def test_all_parameters_at_once(x):
    net = made(x)
    net.setattr("lr_mult", 0.5)
    assert {p.lr_mult for p in net.collect_params().values()} == {0.5}
    with mx.autograd.record():
        loss = net(x).sum()
    loss.backward()
    net.zero_grad()
    assert all(not abs(p.grad()).sum() for p in net.collect_params().values() if p.grad_req != "null")
    net.reset_device([mx.cpu(0), mx.cpu(1)])
    assert net.out.weight.list_device() == [mx.cpu(0), mx.cpu(1)]
    assert net.out.weight.data(device=mx.cpu(1)).device == mx.cpu(1)
    with pytest.warns(DeprecationWarning):
        net.reset_ctx(mx.cpu())


def test_changed_blocks_are_not_hybridized_any_more(x):
    net = made(x)
    net.hybridize()
    net(x)
    for change in (lambda: setattr(net, "out", nn.Dense(4)), lambda: net.register_child(nn.Dense(2)),
                   lambda: net.cast("float64")):
        net.hybridize()
        with pytest.warns(UserWarning, match="Automatically deactivate"):
            change()
        assert not is_hybridized(net)


def test_lambdas():
    x = np.array([-1.0, 2])
    assert (nn.HybridLambda("tanh")(x) == np.tanh(x)).all()
    assert (nn.Lambda("relu")(x) == npx.relu(x)).all()
    assert (nn.HybridLambda(lambda a: a * 2)(x) == x * 2).all()
    with pytest.raises(mx.MXNetError, match="not found in np/npx"):
        nn.HybridLambda("no_such_function")


@pytest.mark.parametrize("kind, gates", [(gluon.rnn.RNN, 1), (gluon.rnn.GRU, 3), (gluon.rnn.LSTM, 4)])
def test_recurrent_layers_have_one_parameter(kind, gates):
    layer = kind(4, num_layers=2, bidirectional=True)
    layer.initialize(mx.init.Xavier())
    x = np.random.normal(size=(3, 2, 5))
    expected = layer(x)
    assert list(layer.collect_params()) == ["rnn_param"]
    parts = gluon.utils.split_rnn_params(layer.rnn_param.data(), type(layer).__name__.lower().replace(
        "rnn", "rnn_relu"), 2, 5, 4, True)
    assert parts["l0_i2h_weight"].shape == (4 * gates, 5) and parts["r1_i2h_weight"].shape == (4 * gates, 8)
    assert not abs(parts["l1_h2h_bias"]).sum() and abs(parts["l1_h2h_weight"]).sum()
    layer.hybridize()
    onp.testing.assert_allclose(layer(x).asnumpy(), expected.asnumpy(), rtol=1e-5, atol=1e-6)
    states = layer.begin_state(2)
    outputs, after = layer(x, states)
    assert outputs.shape == (3, 2, 8) and [s.shape for s in after] == [(4, 2, 4)] * len(states)


def test_cells_work_out_their_shapes():
    cell = gluon.rnn.HybridSequentialRNNCell()
    cell.add(gluon.rnn.LSTMCell(4))
    cell.add(gluon.rnn.GRUCell(3, input_size=4))
    cell.initialize()
    outputs, states = cell.unroll(3, np.ones((2, 3, 5)), merge_outputs=True)
    assert outputs.shape == (2, 3, 3) and [s.shape for s in states] == [(2, 4), (2, 4), (2, 3)]
    single = gluon.rnn.LSTMCell(4)
    single.infer_shape(0, np.ones((2, 5)), False)
    assert single.i2h_weight.shape == (16, 5)
    stack = gluon.rnn.HybridSequentialRNNCell()
    stack.add(gluon.rnn.LSTMCell(4))
    stack.add(gluon.rnn.GRUCell(4))
    stack.infer_shape(0, np.ones((2, 4)), False)
    assert [stack[i].i2h_weight.shape for i in (0, 1)] == [(16, 4), (12, 4)]


def test_retained_gradients():
    x = np.array([1.0, 2, 3])
    x.attach_grad()
    with mx.autograd.record():
        y = x * 2
        z = y * y
    y.attach_grad()
    z.backward(retain_graph=True)
    assert (y.grad == 2 * y).all() and (x.grad == 8 * x).all()
    y.drop_grad()
    z.backward()
    assert y.grad is None and (x.grad == 8 * x).all()


def test_no_warnings_of_its_own(x):
    net = made()
    net.hybridize()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        net(x)


@pytest.mark.parametrize("make", [
    lambda: rnn.DropoutCell(0.5, axes=(1,)), lambda: rnn.LSTMPCell(4, 3), lambda: rnn.ZoneoutCell(rnn.GRUCell(4), 0.1),
    lambda: rnn.VariationalDropoutCell(rnn.LSTMCell(4), 0.2), lambda: rnn.ResidualCell(rnn.RNNCell(4)),
    lambda: rnn.BidirectionalCell(rnn.LSTMCell(4), rnn.LSTMCell(4)), lambda: rnn.HybridSequentialRNNCell(),
    lambda: rnn.Conv2DLSTMCell((3, 8, 8), 4, 3, 3), lambda: rnn.SequentialRNNCell(),
])
def test_cells_are_made_without_prefixes(make):
    cell = make()
    cell.initialize()
    assert not {"prefix", "params"} & set(inspect.signature(type(cell)).parameters)
    with pytest.raises(TypeError):
        type(cell)(prefix="a_")


def test_a_step_of_a_network_without_shapes_is_one_program():
    net = nn.HybridSequential()
    net.add(nn.Dense(4, activation="relu"), nn.Dense(3))
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1}, kvstore=None)
    step = gluon.TrainStep(net, gluon.loss.SoftmaxCrossEntropyLoss(), trainer)
    x, y = np.random.normal(size=(6, 5)), np.zeros(6)
    losses = [step(x, y) for _ in range(5)]
    assert all(type(one) is np.ndarray for one in losses) and losses[-1].sum() < losses[0].sum()
    assert len(replays_of(step)) == 1  # a step seen twice is one call from then on
    several = step.run(np.stack([x] * 3), np.stack([y] * 3))
    assert type(several) is np.ndarray and several.shape == (3, 6)


def test_parameters_are_sharded_by_their_structural_names():
    net = nn.HybridSequential()
    net.add(nn.Dense(4, in_units=6), nn.Dense(2, in_units=4))
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "adam")
    mesh = jax.make_mesh((1,), ("data",))
    spec = jax.sharding.PartitionSpec
    step = gluon.TrainStep(net, gluon.loss.L2Loss(), trainer, mesh=mesh, sharding={r"^1\.weight": spec("data", None)})
    step(np.ones((4, 6)), np.ones((4, 2)))
    specs = {row.name: row.spec for row in step.shardings()}
    assert specs["1.weight"] == spec("data", None) and specs["0.weight"] == spec() and len(specs) == 4


def test_a_train_step_finds_shapes_of_blocks_that_were_never_called():
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(4), mx.gluon.nn.Dense(2))
    net.initialize()
    step = mx.gluon.TrainStep(net, mx.gluon.loss.L2Loss(), mx.gluon.Trainer(net.collect_params(), "sgd"))
    assert step(mx.np.ones((8, 3)), mx.np.zeros((8, 2))).shape == (8,)
    assert net[0].weight.shape == (4, 3)


def test_cells_of_users_find_the_helpers_of_mxnet():
    from mxjax.gluon.rnn import rnn_cell
    x = np.arange(12).reshape(2, 3, 2)
    steps, axis, batch_size = rnn_cell._format_sequence(3, x, "NTC", False)
    assert (axis, batch_size) == (1, 2) and [step.shape for step in steps] == [(2, 2)] * 3
    assert type(steps[0]) is np.ndarray
    masked = rnn_cell._mask_sequence_variable_length(x, 3, np.array([1, 2]), 1, True)
    assert masked[:, :, 0].tolist() == [[0, 0, 0], [6, 8, 0]]
    (state,) = rnn_cell._get_begin_state(rnn.RNNCell(4), None, x, 2)
    assert type(state) is np.ndarray and state.shape == (2, 4)
    assert rnn_cell._reverse_sequences(steps, 3, np.array([2, 3]))[0].tolist() == [[2, 3], [10, 11]]


def test_optimize_for_needs_no_backend():
    net = nn.Dense(2)
    net.initialize()
    assert net.optimize_for(np.ones((1, 3))) is None and is_hybridized(net) and net.weight.shape == (2, 3)


def test_files_without_parameters_are_value_errors(tmp_path):
    (tmp_path / "bad.npz").write_text("zzzz")
    for name in ("bad.npz", "absent.params"):
        with pytest.raises(ValueError, match=name):
            gluon.nn.Dense(1).load_parameters(str(tmp_path / name))


def test_hooks_get_the_names_of_operators_in_mxnet_2():
    class Block(gluon.HybridBlock):
        def forward(self, x):
            return np.concatenate([x.T, x.T]).sum()

    block, seen = Block(), []
    block.hybridize()
    block.register_op_hook(lambda name, op, array: seen.append(op))
    block(np.ones((2, 2)))
    assert seen == ["_npi_transpose", "_npi_transpose", "Concat", "_npi_sum"]


def test_a_stochastic_sequence_shows_its_blocks_and_has_parts():
    chain = gluon.probability.StochasticSequential()
    chain.add(gluon.nn.Dense(2), gluon.nn.Dense(3))
    assert repr(chain) == ("StochasticSequential(\n  (0): Dense(-1 -> 2, linear)\n  (1): Dense(-1 -> 3, linear)\n)")
    assert len(chain[1:]) == 1 and chain[1:][0] is chain[1]
