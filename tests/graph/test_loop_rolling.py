"""Unrolled recurrences are compiled as loops, and compute what they did."""

from collections import OrderedDict

import jax
import numpy as np
import pytest
from marks import sampled

import mxjax as mx
from mxjax._random.streams import source
from mxjax._xla.capacity import survey
from mxjax.executor.jax_function import JaxFunction
from mxjax.graph import loop_rolling as rolling
from mxjax.graph import lowering
from mxjax.graph.attention import forced

from ..internals import loops_of, lowered

CELLS, BATCH = 5, 3


def loops(symbol):
    """(nodes, repetitions) of each loop in a graph."""
    return [(loop.period, loop.times) for loop in loops_of(lowered(symbol))]


def computed(symbol, train=True, seed=5, **shapes):
    """Outputs and gradients, with weights of a seed."""
    executor = symbol.simple_bind(mx.cpu(), **shapes)
    draw = np.random.default_rng(2)
    for array in executor.arg_arrays:
        array[:] = draw.normal(0, 0.4, array.shape)
    mx.random.seed(seed)
    outputs = executor.forward(is_train=train)
    found = [out.asnumpy() for out in outputs]
    if train:
        executor.backward([mx.nd.array(draw.normal(size=out.shape)) for out in outputs])
        found += [g.asnumpy() for g in executor.grad_arrays if g is not None]
    return found


def check(monkeypatch, symbol, expected, **shapes):
    """Compares with the same graph node by node."""
    assert loops(symbol) == expected
    found = [computed(symbol, train, **shapes) for train in (True, False)]
    monkeypatch.setattr(lowering, "_recent", OrderedDict())
    monkeypatch.setattr(lowering, "find_loops", lambda *_: [])
    assert loops(symbol) == []
    for ours, theirs in zip(found, [computed(symbol, train, **shapes) for train in (True, False)], strict=True):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(one, other, 2e-5, 1e-6)


def unrolled(cell, steps=6, merge=True, layout="NTC"):
    outputs, states = cell.unroll(steps, inputs=mx.sym.Variable("data"), merge_outputs=merge, layout=layout)
    return mx.sym.Group([*([outputs] if merge else outputs), *flat(states)])


def flat(states):
    return [one for part in states for one in (flat(part) if isinstance(part, list) else [part])]


STACKS = {  # nodes and repetitions of what becomes loops, with outputs merged and apart
    "LSTM": (lambda: [mx.rnn.LSTMCell(CELLS, prefix="a_")], [(14, 6)], [(13, 6)]),
    "GRU": (lambda: [mx.rnn.GRUCell(CELLS, prefix="a_")], [(16, 6)], [(15, 6)]),
    "ReLU": (lambda: [mx.rnn.RNNCell(CELLS, activation="relu", prefix="a_")], [(5, 6)], [(4, 6)]),
    "two layers": (lambda: [mx.rnn.LSTMCell(CELLS, prefix="a_"), mx.rnn.GRUCell(CELLS, prefix="b_")],
                   [(29, 6)], [(28, 6)]),
    "residual": (lambda: [mx.rnn.ResidualCell(mx.rnn.LSTMCell(CELLS, prefix="a_")),
                          mx.rnn.ResidualCell(mx.rnn.GRUCell(CELLS, prefix="b_"))], [(30, 5)], [(30, 5)]),
    "dropout": (lambda: [mx.rnn.LSTMCell(CELLS, prefix="a_"), mx.rnn.DropoutCell(0.5),
                         mx.rnn.ZoneoutCell(mx.rnn.GRUCell(CELLS, prefix="b_"), 0.2, 0.3)], [(36, 5)], [(35, 5)]),
    "both directions": (lambda: [mx.rnn.BidirectionalCell(mx.rnn.LSTMCell(CELLS, prefix="a_"),
                                                          mx.rnn.GRUCell(CELLS, prefix="b_"))],
                        [(14, 6), (16, 6)], [(13, 6), (14, 5)]),
}


@pytest.mark.parametrize("merge", sampled([True, False]))
@pytest.mark.parametrize("name", STACKS)
def test_cells(monkeypatch, name, merge):
    make, merged, apart = STACKS[name]
    cell = mx.rnn.SequentialRNNCell()
    for one in make():
        cell.add(one)
    check(monkeypatch, unrolled(cell, merge=merge), merged if merge else apart, data=(BATCH, 6, CELLS))


def drawn(graph, args):
    """What a graph draws for arguments of these shapes in training, one by one."""
    return [draw(source) for draw in graph.drawing(args, True)]


@pytest.mark.parametrize("zoneout", [False, True])
def test_longer_ones_are_no_more_to_compile(zoneout):
    """Also where the first step is another one, as there is nothing before it that could stay, and with numbers that
    are drawn for each step."""
    def operations(steps):
        cell = mx.rnn.SequentialRNNCell()
        for i in range(2):
            layer = mx.rnn.LSTMCell(CELLS, prefix=f"l{i}_")
            cell.add(mx.rnn.ZoneoutCell(layer, 0.2, 0.3) if zoneout else layer)
        symbol = cell.unroll(steps, inputs=mx.sym.Variable("data"), merge_outputs=True)[0]
        args = [jax.ShapeDtypeStruct(shape, "float32") for shape in symbol.infer_shape(data=(BATCH, steps, CELLS))[0]]
        graph = lowered(symbol)
        key = graph.packed(drawn(graph, args)) if zoneout else (np.zeros(2, np.uint32), np.uint32(0))
        slope = jax.grad(lambda *given: graph.call(given, [], key, True)[0][0].sum(), tuple(range(len(args))))
        return survey(jax.jit(slope).trace(*args).jaxpr.jaxpr).operations
    assert operations(24) <= operations(12) + 12 + 24  # the parts of the data, of which nothing is computed


def test_what_a_loop_draws_is_one_array():
    cell = mx.rnn.SequentialRNNCell()
    cell.add(mx.rnn.ZoneoutCell(mx.rnn.LSTMCell(CELLS), 0.2, 0.3))
    cell.add(mx.rnn.DropoutCell(0.5))
    symbol = unrolled(cell, steps=9)
    args = [jax.ShapeDtypeStruct(shape, "float32") for shape in symbol.infer_shape(data=(BATCH, 9, CELLS))[0]]
    graph = lowered(symbol)
    each = drawn(graph, args)
    packed = graph.packed(each)
    assert len(each) == 28 and len(packed) == 7, "three operators of eight repetitions, and four before them"
    for one, other in zip(graph.unpacked(packed), each, strict=True):
        np.testing.assert_array_equal(forced(one), other)
    assert graph.packed(each[:-1]) == tuple(each[:-1]), "where others draw with keys"


def repeated(step, count=8, start="data"):
    x = mx.sym.Variable(start)
    for i in range(count):
        x = step(x, i)
    return x


def test_inputs_of_their_own(monkeypatch):
    """Each step has a variable, as data of old scripts have, and of sequences that are taken apart."""
    weight, bias = mx.sym.Variable("w"), mx.sym.Variable("b")

    def step(x, i):
        new = mx.sym.FullyConnected(mx.sym.Variable(f"t{i}_data"), weight, bias, num_hidden=CELLS)
        return mx.sym.tanh(new + mx.sym.FullyConnected(x, weight, bias, num_hidden=CELLS)) * 0.5
    shapes = {"data": (BATCH, CELLS), **{f"t{i}_data": (BATCH, CELLS) for i in range(8)}}
    check(monkeypatch, repeated(step), [(4, 8)], **shapes)


def test_what_is_read_in_between(monkeypatch):
    """Values of inner steps are outputs, and are read by what follows in another order."""
    def step(x, i):
        hidden.append(mx.sym.FullyConnected(x, weight, bias, num_hidden=CELLS))
        return mx.sym.broadcast_mul(mx.sym.tanh(hidden[-1]), scale) + 1
    hidden, weight, bias, scale = [], *map(mx.sym.Variable, ("w", "b", "scale"))
    x = repeated(step)
    backwards = mx.sym.concat(*hidden[::-1], dim=-1)
    symbol = mx.sym.Group([x, hidden[3], mx.sym.stack(*hidden, axis=-1), mx.sym.concat(*hidden, dim=0), backwards,
                           mx.sym.concat(*hidden, dim=-1), hidden[2] * hidden[6]])
    check(monkeypatch, symbol, [(4, 8)], data=(BATCH, CELLS), scale=(1, CELLS))


def test_what_is_no_loop(monkeypatch):
    def layer(x, i):  # weights of its own
        return mx.sym.Activation(mx.sym.relu(mx.sym.tanh(mx.sym.FullyConnected(x, num_hidden=CELLS, name=f"l{i}"))),
                                 act_type="softsign")

    def normalized(x, i):  # states change
        return mx.sym.BatchNorm(mx.sym.tanh(mx.sym.exp(x * 0.1)), mx.sym.Variable("g"), mx.sym.Variable("b"), name="n")

    def before_last(x, i):  # reads what is two steps back
        past.append(x)
        return mx.sym.tanh(mx.sym.sin(x) + past[max(i - 2, 0)] * 0.5)

    def cast(x, i):  # weights of its own, which an operator makes
        weight = mx.sym.tanh(mx.sym.Variable(f"w{i}", shape=(CELLS, CELLS)))
        return mx.sym.sin(mx.sym.exp(mx.sym.tanh(mx.sym.FullyConnected(x, weight, no_bias=True, num_hidden=CELLS))))
    past = []
    for step in (layer, normalized, before_last, cast):
        check(monkeypatch, repeated(step), [], data=(BATCH, CELLS))
        monkeypatch.undo()


def test_deep_networks_are_not_searched_for_long(monkeypatch):
    def layer(x, i):
        new = mx.sym.FullyConnected(x, num_hidden=CELLS, name=f"l{i}")
        return mx.sym.relu(mx.sym.FullyConnected(mx.sym.tanh(new), num_hidden=CELLS, name=f"m{i}")) + x

    def far_back(x, i):
        past.append(x)
        return mx.sym.tanh(mx.sym.exp(mx.sym.sin(x) + past[i * 7919 % (i + 1)]))
    tried, past, look = [], [], rolling.loop_at
    monkeypatch.setattr(rolling, "loop_at", lambda *given: tried.append(given[3]) or look(*given))
    assert loops(repeated(layer, 100)) == [] and not tried
    loops(repeated(far_back, 300))
    assert 0 < sum(tried) <= rolling.EFFORT * 1200 + 1024


def test_shapes_that_grow(monkeypatch):
    """... are seen when values are there only; it is computed node by node then."""
    def step(x, i):
        return mx.sym.tanh(mx.sym.concat(x, mx.sym.sin(x) * 0.5, dim=1))
    check(monkeypatch, repeated(step, 6), [(4, 5)], data=(BATCH, 2))  # the first one reads a variable


@pytest.mark.parametrize("dropout", [0, 0.5])
def test_a_hybridized_cell(monkeypatch, dropout):
    class Net(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.cell = mx.gluon.rnn.HybridSequentialRNNCell()
                self.cell.add(mx.gluon.rnn.LSTMCell(CELLS, input_size=CELLS))
                if dropout:
                    self.cell.add(mx.gluon.rnn.DropoutCell(dropout))
                self.cell.add(mx.gluon.rnn.GRUCell(CELLS, input_size=CELLS))

        def hybrid_forward(self, F, x):
            return self.cell.unroll(7, x, layout="NTC", merge_outputs=True)[0]

    def result():
        mx.random.seed(4)
        x = mx.nd.array(np.random.default_rng(1).normal(size=(BATCH, 7, CELLS)))
        with mx.autograd.record():
            out = net(x)
        out.backward()
        return [out.asnumpy(), *[p.grad().asnumpy() for p in net.collect_params().values()]]
    net = Net()
    net.initialize(mx.init.Normal(0.5))
    alone = result()
    net.hybridize()
    for found in (result(), result()):
        for one, other in zip(found, alone, strict=True):
            np.testing.assert_allclose(one, other, 2e-5, 1e-6)
    graph = lowered(net(mx.sym.Variable("x")))
    assert loops_of(graph)


def test_buckets_train():
    """A `BucketingModule` of unrolled cells learns to say which word was first."""
    def network(length):
        data, label = mx.sym.Variable("data"), mx.sym.Variable("softmax_label")
        cell = mx.rnn.SequentialRNNCell()
        cell.add(mx.rnn.LSTMCell(12, prefix="l_"))
        words = mx.sym.Embedding(data, input_dim=4, output_dim=6, name="embed")
        _, states = cell.unroll(length, inputs=words, merge_outputs=True)
        out = mx.sym.FullyConnected(states[0], num_hidden=4, name="pred")
        return mx.sym.SoftmaxOutput(out, label, name="softmax"), ("data",), ("softmax_label",)
    draw = np.random.default_rng(5)
    mx.random.seed(3)
    module = mx.mod.BucketingModule(network, default_bucket_key=9)
    module.bind([("data", (16, 9))], [("softmax_label", (16,))])
    module.init_params(mx.init.Xavier())
    module.init_optimizer(optimizer="adam", optimizer_params={"learning_rate": 0.015})
    for step in range(180):
        length = (9, 6, 7)[step % 3]
        words = draw.integers(0, 4, (16, length))
        module.forward_backward(mx.io.DataBatch(
            [mx.nd.array(words)], [mx.nd.array(words[:, 0])], bucket_key=length,
            provide_data=[("data", words.shape)], provide_label=[("softmax_label", (16,))]))
        module.update()
    right = module.get_outputs()[0].asnumpy().argmax(1) == words[:, 0]
    assert right.mean() > 0.9


def test_what_carries_nothing_on_is_computed_at_once(monkeypatch):
    """The last output alone is read: what the cell makes of its inputs comes first, from the last step to the first."""
    for cell, expected in ((mx.rnn.GRUCell(CELLS, prefix="a_"), [(2, 24), (13, 24)]),
                           (mx.rnn.LSTMCell(CELLS, prefix="a_"), [(1, 24), (12, 24)])):
        outputs, _ = cell.unroll(24, inputs=mx.sym.Variable("data") * 2, merge_outputs=False)
        with monkeypatch.context() as patch:
            check(patch, outputs[-1] + 1, expected, data=(BATCH, 24, CELLS))
    graph = lowered(outputs[-1] + 1)
    values = [np.ones(s, "float32") for s in (outputs[-1] + 1).infer_shape(data=(BATCH, 24, CELLS))[0]]
    program = jax.make_jaxpr(lambda *args: graph.call(args, (), (), False)[0])(*values)
    products = [eqn for eqn in program.jaxpr.eqns if "dot_general" in str(eqn)]
    assert len(products) == 2  # one of all inputs, and the loop


@pytest.mark.parametrize("joined", [mx.sym.stack, mx.sym.concat])
def test_steps_that_are_put_together_stay_whole(joined):
    """The program of a loop whose steps are all read has no operation for each of them."""
    def size(steps):
        kept = []

        def step(x, i):
            kept.append(mx.sym.tanh(mx.sym.sin(mx.sym.exp(x * 0.5))))
            return kept[-1]
        x = mx.sym.Variable("data")
        for i in range(steps):
            x = step(x, i)
        function = JaxFunction(joined(*kept))
        return str(jax.make_jaxpr(lambda data: function({"data": data})[0])(np.ones((2, 3), "float32"))).count("\n")
    assert size(40) == size(20)
