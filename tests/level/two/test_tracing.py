"""`forward` of hybridized blocks, traced by deferred compute: what may be in it, and what comes of it."""

import numpy as onp
import pytest

import mxjax as mx
from mxjax import _deferred_compute as dc
from mxjax import gluon, np, npx

from ...internals import graph_of


class Block(gluon.HybridBlock):
    """A function of the block and its inputs as `forward`."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.w = gluon.Parameter("weight", shape=(3,), init="ones")

    def forward(self, *args):
        return self.function(self, *args)


X = np.arange(12.0).reshape(4, 3)
ROWS = np.array([2, 0], dtype="int32")
MASK = np.array([True, False, True, True])
SAME = {
    "made inside": (lambda s, x: x + np.arange(3) + np.ones((1, 3)), X),
    "numbers": (lambda s, x: 2 - x * onp.float32(3) + len(x), X),
    "parameter": (lambda s, x: x * s.w.data() / 2, X),
    "row": (lambda s, x: x[1] + x[-1], X),
    "column": (lambda s, x: x[:, 1] - x[..., -1], X),
    "element": (lambda s, x: x[1, 2], X),
    "steps": (lambda s, x: x[::-1, ::2], X),
    "new axes": (lambda s, x: x[:, None, 1:, None], X),
    "rows by an array": (lambda s, x, i: x[i] * 1, X, ROWS),
    "columns by an array": (lambda s, x, i: x[1:, i], X, ROWS),
    "a row and columns": (lambda s, x, i: x[1, i], X, ROWS),
    "pairs": (lambda s, x, i: x[i, i], X, ROWS),
    "rows by a mask": (lambda s, x, m: x[m] + 1, X, MASK),
    "elements by a mask": (lambda s, x: x[x > 4], X),
    "nonzero": (lambda s, x: np.nonzero(x)[0], X),
    "split": (lambda s, x: np.split(x, 2)[1], X),
    "rows one by one": (lambda s, x: sum(row for row in x), X),
    "shapes": (lambda s, x: x.reshape(-1, 2).T.reshape(x.shape[1], -1), X),
    "types": (lambda s, x: x.astype("int32") + 1, X),
    "classic": (lambda s, x: mx.nd.relu(x.as_nd_ndarray() - 3).reshape((3, -1)).as_np_ndarray(), X),
    "copies": (lambda s, x: x.copy().detach() + x.to_device(mx.cpu(0)), X),
    "several": (lambda s, x: (x, x + 1, [x * 2, x]), X),
    "the input": (lambda s, x: x, X),
    "one twice": (lambda s, x, y: x + 2 * y, X, X),
    "draws": (lambda s, x: x + np.random.normal(0, 1, size=(3,)), X),
    "value": (lambda s, x: x * float(x.sum()), X),
    "einsum": (lambda s, x: np.einsum("ij,kj->ik", x, x), X),
    "operators": (lambda s, x: npx.layer_norm(npx.softmax(x), s.w.data(), np.zeros(3)), X),
}


def flat(value):
    return [leaf for v in value for leaf in flat(v)] if isinstance(value, (list, tuple)) else [value]


@pytest.mark.parametrize("case", SAME)
def test_hybridized_is_the_same(case):
    function, *inputs = SAME[case]
    block = Block(function)
    block.initialize()
    mx.random.seed(3)
    expected = flat(block(*inputs))
    block.hybridize()
    mx.random.seed(3)  # a trace draws nothing
    found = flat(block(*inputs))
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape and type(one) is type(other)
        onp.testing.assert_allclose(one.asnumpy(), other.asnumpy(), rtol=1e-6)


@pytest.mark.parametrize("case", ["row", "column", "steps", "new axes", "rows by an array", "rows one by one"])
def test_graphs_do_not_depend_on_lengths(case):
    function, *inputs = SAME[case]
    block = Block(function)
    block.initialize()
    block.hybridize()
    block(*inputs)
    wide = np.arange(24.0).reshape(4, 6)
    rest = inputs[1:]
    plain = Block(function)
    assert (block(wide, *rest) == plain(wide, *rest)).all()


@pytest.mark.parametrize("function, error, text", [
    (lambda s, x: x + np.array([1.0, 2, 3]), mx.MXNetError, "All inputs to deferred compute recording must be"),
    (lambda s, x: x[[0, 2]], TypeError, "type of indexing used is not supported in HybridBlock"),
    (lambda s, x: x[onp.array([0, 2])], TypeError, "not supported in HybridBlock"),
    (lambda s, x: x[:, ROWS * 1][0, :, 5, 6], IndexError, "too many indices"),
])
def test_errors(function, error, text):
    block = Block(function)
    block.hybridize()
    with pytest.raises((error, mx.MXNetError), match=text if error is not IndexError else "All inputs|too many"):
        block(X)


def in_place(s, x):
    y = x * 1
    y += 1
    return y


def assigned(s, x):
    y = np.zeros((4, 3))
    y[0] = x[0]
    return y


@pytest.mark.parametrize("function", [in_place, assigned, lambda s, x: np.add(x, x, out=x * 1)])
def test_changes_are_refused(function):
    block = Block(function)
    block.hybridize()
    with pytest.raises(mx.MXNetError, match="Inplace operations"):
        block(X)
    assert (X == np.arange(12.0).reshape(4, 3)).all()


def scanned(s, x):
    weight = s.w.data() * 2
    outs, states = npx.foreach(lambda row, state: (row * weight + state[0], [state[0] + row]), x, [np.zeros(3)])
    return outs, states[0]


def repeated(s, x):
    outs, values = npx.while_loop(lambda i, a: i < 3, lambda i, a: (a + i, [i + 1, a * s.w.data() * 2]),
                                  [np.zeros(1), x], max_iterations=5)
    return outs, values[1]


def measured(s, x):
    """The body reads the shape of a loop variable, but no batch size."""
    outs, values = npx.while_loop(lambda i, a: i < 2, lambda i, a: (a * a.ndim, [i + 1, a + a.shape[1] * s.w.data()]),
                                  [np.zeros(1), x], max_iterations=2)
    return outs, values[1]


def chosen(s, x):
    return npx.cond(lambda a: a.sum() > 0, lambda a: a * s.w.data(), lambda a: -a, [x])


@pytest.mark.parametrize("function, operator", [(scanned, "_foreach"), (repeated, "_while_loop"),
                                                (measured, "_while_loop"), (chosen, "_cond")])
def test_loops_are_nodes(function, operator):
    block = Block(function)
    block.initialize()
    expected = flat(block(X))
    block.hybridize()
    for one, other in zip(flat(block(X)), expected, strict=True):
        onp.testing.assert_allclose(one.asnumpy(), other.asnumpy(), rtol=1e-6)
    assert operator in graph_of(block).tojson()
    for one, other in zip(flat(block(-X[:2])), flat(Block.forward(block, -X[:2])), strict=True):
        onp.testing.assert_allclose(one.asnumpy(), other.asnumpy(), rtol=1e-6)
    with mx.autograd.record():
        loss = flat(block(X))[0].sum()
    loss.backward()
    assert abs(block.w.grad()).sum() > 0


def test_batch_norm_keeps_its_statistics_in_a_trace():
    layer = mx.gluon.nn.BatchNorm(in_channels=3)
    layer.initialize()
    layer.hybridize()
    layer(X)
    assert not abs(layer.running_mean.data()).sum()
    with mx.autograd.record():
        layer(X).sum().backward()
    onp.testing.assert_allclose(layer.running_mean.data().asnumpy(), X.asnumpy().mean(0) * 0.1, rtol=1e-5)


def test_none_and_optional_inputs():
    block = Block(lambda s, x, mask=None: x if mask is None else x * mask)
    block.hybridize()
    assert (block(X) == X).all()
    with pytest.raises(ValueError, match="argument structure"):
        block(X, X)
    block = Block(lambda s, x, y: x)
    block.hybridize()
    with pytest.warns(UserWarning, match="1-th input to HybridBlock is not used"):
        block(X, X)
    with pytest.raises(ValueError, match="must be one NDArray"):
        block(1)


def test_scopes():
    assert not dc.is_deferred_compute()
    with dc.context():
        assert dc.is_deferred_compute()
        with dc.context(False):
            assert not dc.is_deferred_compute()
        assert dc.is_deferred_compute()
    assert dc.set_deferred_compute(True) is False and dc.set_deferred_compute(False) is True


def test_symbols_of_arrays():
    a = np.arange(10.0)
    variable = mx.sym.var("a").as_np_ndarray()
    dc.set_variable(a, variable)
    with dc.context():
        b = a * 2 + np.ones(10)
    graph = dc.get_symbol([b, a], sym_cls=mx.sym.np._Symbol)
    assert graph.list_inputs() == ["a"] and len(graph.list_outputs()) == 2
    assert (graph._bind(mx.cpu(), {"a": a}).forward()[0] == b).all()
    with pytest.raises(mx.MXNetError, match="already associated with a different variable"):
        dc.set_variable(a, mx.sym.var("b"))
    dc.clear(b)
    with pytest.raises(mx.MXNetError, match="get_symbol"):
        dc.get_symbol(b)
    dc.set_variable(a, mx.sym.var("b"))
    with pytest.raises(mx.MXNetError, match="expects variables"):
        dc.set_variable(a, mx.sym.var("b") + 1)


def test_threads_trace_apart():
    import threading
    blocks = [Block(lambda s, x, i=i: x * i + np.arange(3)) for i in range(8)]
    found, failures = {}, []

    def work(i):
        try:
            blocks[i].hybridize()
            found[i] = blocks[i](X).asnumpy()
        except Exception as error:
            failures.append(error)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not failures
    for i, value in found.items():
        onp.testing.assert_allclose(value, X.asnumpy() * i + onp.arange(3))
