"""`mx.sym.contrib`: functions made of several operators."""

import numpy as np
import pytest

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


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("scale", [0.5, "symbol", 0.0])
def test_adamw_takes_every_option(mixed, scale):
    """As `mx.nd.contrib`, with values for which each option makes a difference."""
    options = {"lr": 0.1, "eta": 0.5, "beta1": 0.8, "beta2": 0.9, "epsilon": 1e-2, "wd": 0.3, "clip_gradient": 1.2}
    name, dtype = ("mp_adamw_update", "float16") if mixed else ("adamw_update", "float32")

    def arrays():
        values = [np.array([v, -2 * v], np.float32) for v in (1.0, 3.0, 0.2, 0.4, 1.0)]
        return [mx.nd.array(np.abs(v) if i == 3 else v, dtype=dtype if i < 2 else "float32")
                for i, v in enumerate(values[:4 + mixed])]
    inputs = [mx.sym.var(n) for n in ("weight", "grad", "mean", "var", "weight32")[:4 + mixed]]
    factor = mx.sym.var("scale") if scale == "symbol" else scale
    graph = getattr(mx.sym.contrib, name)(*inputs, factor, **options)
    number = 0.5 if scale == "symbol" else scale
    given = dict(zip((s.name for s in inputs), arrays(), strict=True))
    given.update({"scale": mx.nd.array([number])} if scale == "symbol" else {})
    states = {n: given.pop(n) for n in graph.list_auxiliary_states()}
    result = graph.bind(mx.cpu(), given, aux_states=states).forward()[0]
    expected = getattr(mx.nd.contrib, name)(*arrays(), mx.nd.array([number]), **options)
    assert result.dtype == expected.dtype
    np.testing.assert_allclose(result.asnumpy(), expected.asnumpy(), rtol=1e-5)


C, V, W = mx.sym.contrib, mx.sym.var("v"), mx.sym.var("w")


@pytest.mark.parametrize("call, error, told", [
    (lambda: C.while_loop(lambda i: i < 3, lambda i: (i, i + 1), V), ValueError, "max_iterations should be specified"),
    (lambda: C.while_loop(lambda i: i < 3, lambda i: (i, i + 1), V, "a"), ValueError, "Cannot convert max_iteration"),
    (lambda: C.while_loop(lambda i: i < 3, lambda i: (i, i + 1), [], 3), ValueError, "at least one element"),
    (lambda: C.while_loop(lambda i: 3, lambda i: (i, i + 1), V, 3), ValueError, "Return of cond must be a Symbol"),
    (lambda: C.while_loop(lambda i: i < 3, lambda i: (i, [i + 1, i]), V, 3), ValueError, "number of loop_vars should"),
    (lambda: C.while_loop(lambda i, j: i < 3, lambda i, j: (i, [i + 1, i]), [V, W], 3), ValueError,
     "The 2-th loop_var doesn't involve into the computation"),
    (lambda: C.cond(mx.sym.Group([V, W]), lambda: V, lambda: W), ValueError, "pred should always be a single output"),
    (lambda: C.cond(V < W, lambda: V, lambda: [V, W]), ValueError, "Number of outputs differs"),
    (lambda: C.cond(3, lambda: V, lambda: W), AssertionError, r"must be \(nested\) list of Symbol, but got 3"),
    (lambda: C.foreach(lambda d, s: (d, 3), V, W), AssertionError, "foreach loop_vars must be"),
    (lambda: C.foreach(lambda d, s: (d, [s, s]), V, W), AssertionError, "have different format"),
    (lambda: C.foreach(lambda d, s: (d + mx.sym.var("x") * mx.sym.var("x"), s), V, W), AssertionError,
     "don't have unique names"),
])
def test_mistakes_in_loops(call, error, told):
    """Errors of MXNet 1.9.1."""
    with pytest.raises(error, match=told):
        call()
