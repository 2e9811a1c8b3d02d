"""`mx.sym.contrib`: functions made of several operators."""

import numpy as np

import mxjax as mx


def test_rand_zipfian():
    graph = mx.sym.Group(mx.sym.contrib.rand_zipfian(mx.sym.var("t"), 2000, 100))
    drawn, expected, of_drawn = (o.asnumpy() for o in graph.eval(t=mx.nd.array([0, 3])))
    assert drawn.dtype == np.int64 and drawn.min() == 0 and drawn.max() < 100
    np.testing.assert_allclose(expected, np.log([2, 5 / 4]) / np.log(101) * 2000)
    np.testing.assert_allclose(of_drawn[:3], np.log((drawn[:3] + 2) / (drawn[:3] + 1)) / np.log(101) * 2000)
    assert abs((drawn == 0).sum() - expected[0]) < 120


def test_adamw_update():
    names = ["weight", "grad", "mean", "var"]
    graph = mx.sym.contrib.adamw_update(*map(mx.sym.var, names), 1.0, lr=0.1, eta=0.5, name="step")
    assert graph.list_arguments() == names[:2] and graph.list_auxiliary_states() == names[2:]
    arrays = [mx.nd.ones(2), mx.nd.full(2, 3)]
    states = [mx.nd.zeros(2), mx.nd.zeros(2)]
    out = graph.bind(mx.cpu(), arrays, aux_states=states).forward()[0].asnumpy()
    wanted = mx.nd.contrib.adamw_update(*arrays, mx.nd.zeros(2), mx.nd.zeros(2), 1.0, lr=0.1, eta=0.5)
    np.testing.assert_allclose(out, wanted.asnumpy())
