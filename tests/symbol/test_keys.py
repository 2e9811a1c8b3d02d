"""Keys, iteration and length of symbols: what a hybridized block gives is what it gives eagerly, or an error."""

import numpy as np
import pytest

import mxjax as mx
from mxjax.base import MXNetError, NotImplementedForSymbol
from mxjax.gluon import HybridBlock
from mxjax.gluon.nn import HybridLambda

X = np.arange(12, dtype="float32").reshape(4, 3)


@pytest.mark.parametrize("key, error", [
    (-1, MXNetError), (slice(-1, None), MXNetError), (1, IndexError), (slice(0, 2), IndexError),
    (slice(1, 3), IndexError), (slice(1, None), TypeError), (slice(None, None, -1), TypeError),
    (slice(2, 1), TypeError), (None, TypeError), (Ellipsis, TypeError), ((slice(None), 0), TypeError),
    ([0, 1], TypeError), (True, TypeError), ("b", ValueError)])
def test_one_output_is_no_array(key, error):
    with pytest.raises(error):
        mx.sym.var("a")[key]


@pytest.mark.parametrize("key", [0, slice(0, 1), slice(None, 1), slice(None, None, 2), slice(None), "a"])
def test_one_output_is_the_first(key):
    assert mx.sym.var("a")[key].list_outputs() == ["a"]
    assert [s.name for s in mx.sym.var("a")] == ["a"] and len(mx.sym.var("a")) == 1


def test_several_outputs_are_a_list():
    parts = mx.sym.split(mx.sym.var("x"), num_outputs=3, name="s")
    assert parts[-1].list_outputs() == parts[2].list_outputs() == ["s_output2"]
    assert parts[::-1].list_outputs() == ["s_output2", "s_output1", "s_output0"]
    assert parts["s_output1"].list_outputs() == ["s_output1"] and len(parts[1:]) == 2
    with pytest.raises(TypeError, match="selects none of the 3"):
        parts[3:]
    with pytest.raises(IndexError):
        parts[3]
    with pytest.raises(NotImplementedForSymbol):
        1 in parts


ROWS = {"first": lambda F, x: x[0] + 0, "last": lambda F, x: x[-1] + 0, "begin": lambda F, x: x[:1] + 0,
        "part": lambda F, x: x[1:3] + 0, "turned": lambda F, x: x[::-1] + 0, "sum": lambda F, x: sum(x),
        "unpacked": lambda F, x: (lambda a, *rest: a + 0)(*x), "len": lambda F, x: x * len(x),
        "zip": lambda F, x: [a + b for a, b in zip(x, x, strict=True)], "in": lambda F, x: x if 1 in x else x + 1,
        "of a result": lambda F, x: F.relu(x)[0] + 0, "list": lambda F, x: list(x), "index": lambda F, x: x[x > 5]}


@pytest.mark.parametrize("name", ROWS)
def test_a_hybridized_block_refuses_rows(name):
    net = HybridLambda(ROWS[name])
    net.hybridize()
    with pytest.raises((MXNetError, IndexError, TypeError), match="hybrid_forward"):
        net(mx.nd.array(X))
    with pytest.raises((MXNetError, IndexError, TypeError), match="hybrid_forward"):
        HybridLambda(ROWS[name])(mx.sym.var("data"))


def test_a_list_of_one_output_is_a_list():
    net = HybridLambda(lambda F, x: F.concat(*[part * 2 for part in F.split(x, num_outputs=1, axis=0)], dim=0))
    net.hybridize()
    np.testing.assert_array_equal(net(mx.nd.array(X)).asnumpy(), X * 2)


def test_symbols_of_inner_blocks_and_after_an_error():
    class Outer(HybridBlock):
        def __init__(self):
            super().__init__()
            self.inner = HybridLambda(lambda F, x: F.split(x, num_outputs=4, axis=0)[-1])

        def hybrid_forward(self, F, x):  # noqa: N803
            return self.inner(x)[0]
    net = Outer()
    net.hybridize()
    with pytest.raises(NotImplementedForSymbol, match=r"\[0\] of "):
        net(mx.nd.array(X))
    assert len(mx.sym.var("a")) == 1  # the scope has ended


def test_results_of_a_graph_are_a_list_of_outputs():
    data = mx.sym.var("data")
    graphs = {1: mx.sym.relu(data), 2: mx.sym.Group([mx.sym.relu(data), data * 2])}

    class Outer(HybridBlock):
        def __init__(self, graph):
            super().__init__()
            self.features = mx.gluon.SymbolBlock(graph, data)

        def hybrid_forward(self, F, x):  # noqa: N803
            out = self.features(x)
            assert len(out) == len(list(out))
            return F.add_n(out[0].sum(), *[one.sum() for one in out])
    for count, graph in graphs.items():
        net = Outer(graph)
        net.hybridize()
        total = np.maximum(X, 0).sum() * 2 + (count == 2) * 2 * X.sum()
        np.testing.assert_allclose(net(mx.nd.array(X)).asnumpy(), [total], rtol=1e-5)


NUMPY = {"part": slice(0, 2), "turned": slice(None, None, -1), "last": -1, "column": (slice(None), 0),
         "corner": (-1, -1), "beyond": slice(0, 100), "whole": (), "None": None, "dots": (Ellipsis, 0), "list": [0, 2],
         "True": True, "float": 1.5, "far": 9, "text": "x"}


@pytest.mark.parametrize("name", NUMPY)
@pytest.mark.usefixtures("np_semantics")
def test_numpy_symbols(name):
    net = HybridLambda(lambda F, x: x[NUMPY[name]] * 1)
    x = mx.np.array(X)
    try:
        expected = net(x).asnumpy()
    except (IndexError, ValueError):
        expected = None
    net.hybridize()
    if expected is None or name in ("None", "dots", "list", "True"):
        with pytest.raises((IndexError, MXNetError)):
            net(x)
    else:
        np.testing.assert_array_equal(net(x).asnumpy(), expected)


@pytest.mark.usefixtures("np_semantics")
@pytest.mark.parametrize("forward, error", [(lambda F, x: x * len(x), TypeError), (lambda F, x: sum(x), TypeError),
                                            (lambda F, x: x[x > 5], IndexError), (lambda F, x: 1 in x, MXNetError)])
def test_numpy_symbols_of_one_output_have_no_rows(forward, error):
    net = HybridLambda(forward)
    net.hybridize()
    with pytest.raises(error):
        net(mx.np.array(X))


def test_graphs_as_blocks_within_a_hybridized_block():
    """As in transfer learning: what a `SymbolBlock` gives is taken apart by the library, not by the user."""
    data = mx.sym.var("data")
    features = mx.gluon.SymbolBlock(mx.sym.relu(data - 5), data)
    both = mx.gluon.SymbolBlock([mx.sym.relu(data - 5), data + 1], data)
    net = HybridLambda(lambda F, x: features(x) + both(x)[0] + both(x)[1])
    net.hybridize()
    np.testing.assert_array_equal(net(mx.nd.array(X)).asnumpy(), 2 * np.maximum(X - 5, 0) + X + 1)
