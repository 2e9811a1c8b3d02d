"""The functions of mx.np against NumPy, for arrays and for symbols."""

import jax
import numpy as onp
import pytest
from jax.test_util import check_grads

import mxjax as mx
from mxjax import np
from mxjax.base import MXNetError
from mxjax.numpy import fallback
from mxjax.ops import registry

A = onp.array([[0.5, -1.5, 2.0], [3.5, -0.25, 1.0]], "float32")
B = onp.array([[2.0, 0.5, -1.0], [1.5, 2.5, 3.0]], "float32")
V = onp.array([0.5, 1.5, 2.5], "float32")
I = onp.array([[3, 1, 2], [4, 0, 5]], "int32")  # noqa: E741
SQUARE = onp.array([[4.0, 1.0], [2.0, 3.0]], "float32")

# name, positional arguments (arrays are NumPy's), keyword arguments
CALLS = [
    *[(name, (A,), {}) for name in """abs absolute fabs negative sign square cbrt exp expm1 sin cos tan arctan sinh cosh
      tanh arcsinh degrees rad2deg radians deg2rad ceil floor trunc fix isnan isinf isposinf isneginf isfinite
      logical_not sum prod mean std var max min amax amin all any argmax argmin cumsum ravel transpose flip flipud
      fliplr rot90 copy atleast_3d diff ediff1d trace tril diag sort argsort unique zeros_like ones_like
      nan_to_num""".split()],
    *[(name, (onp.abs(A),), {}) for name in ("sqrt", "log", "log2", "log10", "log1p", "reciprocal")],
    *[(name, (A / 4,), {}) for name in ("arcsin", "arccos", "arctanh")], ("arccosh", (onp.abs(A) + 1,), {}),
    *[(name, (A, B), {}) for name in """add subtract multiply divide true_divide mod remainder maximum minimum arctan2
      hypot copysign equal not_equal greater greater_equal less less_equal""".split()],
    *[(name, (A, 2.0), {}) for name in "add subtract multiply divide mod power maximum arctan2 copysign less".split()],
    *[(name, (2.0, A), {}) for name in "subtract divide mod power arctan2 copysign greater".split()],
    ("power", (onp.abs(A), B), {}), ("ldexp", (A, 2), {}), ("lcm", (I, I[:1]), {}), ("bitwise_and", (I, 3), {}),
    ("bitwise_or", (I, I[::-1]), {}), ("bitwise_xor", (I, 5), {}), ("bitwise_not", (I,), {}), ("invert", (I,), {}),
    ("add", (2, 3), {}), ("sin", (1.0,), {}),
    *[(name, (A,), {"axis": 1}) for name in "sum prod mean std var max min all any argmax argmin cumsum sort".split()],
    *[(name, (A,), {"axis": (0, 1), "keepdims": True}) for name in "sum prod mean max min all".split()],
    ("sum", (A,), {"axis": ()}), ("std", (A,), {"ddof": 1}), ("around", (A,), {"decimals": 1}), ("round", (A * 3,), {}),
    ("clip", (A, -1, 2), {}), ("clip", (A, None, 2), {}), ("average", (A,), {"weights": B, "axis": 1}),
    ("percentile", (A, 30), {}), ("quantile", (A, V / 3), {"axis": 1}), ("bincount", (I.ravel(),), {"minlength": 8}),
    ("histogram", (A,), {"bins": 4, "range": (-2, 4)}),
    ("reshape", (A, (3, -1)), {}), ("transpose", (A, (1, 0)), {}), ("swapaxes", (A, 0, 1), {}),
    ("moveaxis", (A[None], 0, -1), {}), ("expand_dims", (A, 1), {}), ("squeeze", (A[None],), {"axis": 0}),
    ("roll", (A, (1, 2)), {"axis": (0, 1)}), ("roll", (A, 1), {}), ("broadcast_to", (V, (2, 3)), {}),
    ("repeat", (A, 2), {"axis": 1}), ("tile", (A, (2, 1, 2)), {}), ("resize", (A, (4, 2)), {}),
    ("pad", (A, ((1, 0), (0, 2))), {"mode": "constant", "constant_values": 3}),
    ("pad", (A, ((1, 1), (1, 1))), {"mode": "reflect"}), ("diagflat", (V,), {"k": 1}),
    ("diagonal", (A[None],), {"axis1": 1, "axis2": 2}), ("diff", (A,), {"n": 2}),
    ("concatenate", ([A, B],), {"axis": 1}), ("concatenate", ([A, B],), {"axis": None}), ("append", (A, B), {}),
    ("stack", ([A, B],), {"axis": 1}), ("vstack", ([A, B],), {}), ("hstack", ([A, B],), {}), ("dstack", ([A, B],), {}),
    ("column_stack", ([V, V],), {}), ("split", (A, 3), {"axis": 1}), ("split", (A, (1, 2)), {"axis": 1}),
    ("array_split", (V, 2), {}), ("hsplit", (A, [1]), {}), ("vsplit", (A, 2), {}), ("dsplit", (A[None], 3), {}),
    ("dot", (A, V), {}), ("matmul", (A, B.T), {}), ("inner", (A, B), {}), ("outer", (V, V), {}), ("vdot", (A, B), {}),
    ("tensordot", (A, B), {"axes": ([0, 1], [0, 1])}), ("einsum", ("ij,kj->ik", A, B), {}), ("polyval", (V, A), {}),
    ("where", (A > 0, A, B), {}), ("where", (A > 0, A, 0.0), {}), ("where", (A > 0, 1.0, B), {}),
    ("where", (A > 0,), {}), ("nonzero", (A > 0,), {}), ("take", (A, onp.array([0, 2])), {"axis": 1}),
    ("take", (A, onp.array([1, 5])), {}), ("unique", (I.ravel(),), {"return_counts": True, "return_inverse": True}),
    ("unravel_index", (I.ravel(), (2, 3)), {}), ("diag_indices_from", (SQUARE,), {}), ("delete", (A, 1), {"axis": 1}),
    ("delete", (A, slice(0, 2)), {"axis": 1}), ("insert", (A, 1, V[:2]), {"axis": 1}), ("insert", (A, 2, 9.0), {}),
    ("insert", (V, onp.array([0, 2]), V[:2]), {}), ("meshgrid", (V, V), {}), ("broadcast_arrays", (A, V), {}),
    ("full_like", (A, 3), {}), ("shape", (A,), {}), ("cov", (A,), {}), ("isin", (A, V), {}),
    ("linalg.norm", (A,), {}), ("linalg.norm", (A,), {"axis": 1}), ("linalg.norm", (A, 2), {}),
    ("linalg.norm", (A, onp.inf), {"keepdims": True}), ("linalg.norm", (A, -1), {"axis": (1, 0)}),
    ("linalg.norm", (A,), {"ord": "nuc"}),
    ("linalg.norm", (A,), {"ord": 1, "axis": (0, 1)}), ("linalg.det", (SQUARE,), {}), ("linalg.inv", (SQUARE,), {}),
    ("linalg.slogdet", (SQUARE,), {}), ("linalg.solve", (SQUARE, V[:2]), {}), ("linalg.pinv", (A,), {}),
    ("linalg.eigvalsh", (SQUARE,), {}), ("linalg.cholesky", (SQUARE @ SQUARE.T,), {}),
    ("linalg.tensorinv", (onp.eye(4, dtype="float32").reshape(4, 2, 2),), {"ind": 1}),
    ("linalg.tensorsolve", (SQUARE, V[:2]), {}), ("linalg.qr", (SQUARE,), {}),
]


def function(name, module):
    for part in name.split("."):
        module = getattr(module, part)
    return module


def given(value, convert):
    if isinstance(value, onp.ndarray):
        return convert(value)
    arrays = isinstance(value, list) and isinstance(value[0], onp.ndarray)
    return [given(v, convert) for v in value] if arrays else value


def check(got, expected, name):
    if isinstance(expected, (list, tuple)):
        for g, e in zip(got, expected, strict=True):
            check(g, e, name)
        return
    values = got.asnumpy() if isinstance(got, mx.nd.NDArray) else got
    assert onp.shape(values) == onp.shape(expected), name
    onp.testing.assert_allclose(values, expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name, args, kwargs", CALLS, ids=[f"{i}-{c[0]}" for i, c in enumerate(CALLS)])
def test_like_numpy(name, args, kwargs):
    expected = function(name, onp)(*args, **kwargs)
    got = function(name, np)(*[given(a, np.array) for a in args], **{k: given(v, np.array) for k, v in kwargs.items()})
    check(got, expected, name)


SYMBOLIC = [c for c in CALLS if c[0] in """sin abs isnan sum mean std max argmax cumsum add power less bitwise_or clip
reshape transpose squeeze roll broadcast_to tile pad diag concatenate stack split hsplit dot matmul tensordot einsum
where take full_like linalg.norm linalg.det linalg.slogdet resize unravel_index""".split() and len(c[1]) and
            not isinstance(c[1][0], (float, int)) and len(c[1]) + (c[0] != "where") > 1]


@pytest.mark.parametrize("name, args, kwargs", SYMBOLIC, ids=[f"{i}-{c[0]}" for i, c in enumerate(SYMBOLIC)])
def test_symbols_give_the_same(name, args, kwargs, np_semantics):
    bindings = {}

    def variable(value):
        bindings[f"x{len(bindings)}"] = np.array(value)
        return mx.sym.var(f"x{len(bindings) - 1}").as_np_ndarray()
    node = function(name, mx.sym.np)(*[given(a, variable) for a in args], **{k: given(v, variable)
                                                                            for k, v in kwargs.items()})
    symbols = list(node) if isinstance(node, (list, tuple)) else [node]
    assert all(type(s) is mx.sym.np._Symbol for s in symbols)
    group = mx.sym.Group(symbols)
    outputs = mx.sym.load_json(group.tojson()).bind(mx.cpu(), bindings).forward()
    expected = function(name, onp)(*args, **kwargs)
    check(outputs if isinstance(expected, (list, tuple)) else outputs[0], expected, name)
    shapes = group.infer_shape(**{k: v.shape for k, v in bindings.items()})[1]
    assert shapes == [o.shape for o in outputs]


@pytest.mark.parametrize("name, count, params", [
    ("_npi_power", 2, {}), ("_npi_arctan2", 2, {}), ("_npi_hypot", 2, {}), ("_npi_copysign", 2, {}),
    ("_npi_true_divide_scalar", 1, {"scalar": 3.0}), ("_npi_rpower_scalar", 1, {"scalar": 2.0}),
    ("_np_prod", 1, {"axis": (1,)}), ("_npi_mean", 1, {}), ("_np_max", 1, {"axis": (0,)}),
    ("_npi_average", 2, {"axis": (1,)}), ("_npi_norm", 1, {"flag": -2}), ("_npi_diff", 1, {"n": 2}),
    ("_npi_pad", 1, {"pad_width": ((1, 1), (2, 0)), "mode": "symmetric"}), ("_npi_tensordot_int_axes", 2, {"axes": 2}),
    ("_npi_einsum", 2, {"subscripts": "ij,kj->ik"}), ("_npi_concatenate", 2, {"axis": None}),
])
def test_gradients(name, count, params):
    op = registry.get(name)
    values = op.parse(params)
    inputs = [onp.abs(A) + 0.5, onp.abs(B)][:count]
    first = lambda *x: jax.tree.leaves(op.get_attr("FCompute")(*x, **values))[0]  # noqa: E731
    check_grads(first, inputs, 1, modes="rev", atol=3e-2, rtol=3e-2)


def test_what_mxnet_does_not_differentiate_has_gradient_zero():
    for op in (np.std, np.var, lambda a: np.percentile(a, 40)):
        a = np.array(A)
        a.attach_grad()
        with mx.autograd.record():
            loss = op(a)
        loss.backward()
        assert not a.grad.asnumpy().any()


@pytest.mark.parametrize("call, error", [
    (lambda: np.sum(np.ones((2, 2)), axis=5), mx.MXNetError),
    (lambda: np.dot(np.ones((2, 3)), np.ones(2)), mx.MXNetError),
    (lambda: np.split(np.ones(3), 2), ValueError),
    (lambda: np.take(np.ones(3), np.array([7]), mode="no"), NotImplementedError),
    (lambda: np.zeros((2,), order="F"), NotImplementedError),
    (lambda: np.sin([1, 2]), TypeError),
    (lambda: np.sin(np.ones(2), where=False), NotImplementedError),
    (lambda: np.sin(np.ones(2), foo=1), TypeError),
    (lambda: np.isnan(np.ones(2), out=np.ones(2)), TypeError),
    (lambda: np.reshape(np.ones(4), (3,)), mx.MXNetError),
    (lambda: np.linalg.inv(np.ones((2, 3))), mx.MXNetError),
    (lambda: np.concatenate([np.ones(2), np.ones(2, dtype="int32")]), mx.MXNetError),
    (lambda: np.arange(1, step=0), ZeroDivisionError),
    (lambda: np.add(np.ones((2, 3)), np.ones((2,))), mx.MXNetError),
    (lambda: np.identity(-1), ValueError),
    (lambda: np.tensordot(np.ones(2), np.ones(2), axes=(1, 2, 3)), ValueError),
    (lambda: np.clip(np.ones(2), None, None), ValueError),
    (lambda: np.percentile(np.ones(2), 101).tolist(), ValueError),
    (lambda: np.percentile(np.ones(2), np.array([50, -1])).tolist(), ValueError),
])
def test_errors(call, error):
    with pytest.raises(error):
        call()


def test_makers():
    assert np.zeros((2, 0)).shape == (2, 0) and np.arange(5).dtype == "float32" and np.arange(3, 0).shape == (0,)
    assert np.full((2,), 16800001, dtype="int32").tolist() == [16800001] * 2
    assert np.full((2,), True).dtype == bool and np.full((2,), np.ones(2) * 3).tolist() == [3, 3]
    assert np.eye(2, 3, 1).tolist() == [[0, 1, 0], [0, 0, 1]] and np.identity(2).shape == (2, 2)
    assert np.indices((2, 2)).dtype == "int32" and np.linspace(0, 1, 5).tolist() == [0, 0.25, 0.5, 0.75, 1]
    onp.testing.assert_allclose(np.hanning(5).asnumpy(), onp.hanning(5), atol=1e-6)
    onp.testing.assert_allclose(np.logspace(0, 2, 3).asnumpy(), [1, 10, 100], rtol=1e-5)
    assert np.ones((2,), ctx=mx.cpu(1)).context == mx.cpu(1)
    for of in (np, mx.nd):  # MXNet's numbers: fractions are dropped, not rounded down
        assert of.linspace(-2, 2, 9, dtype="int32").asnumpy().tolist() == [-2, -1, -1, 0, 0, 0, 1, 1, 2]
    assert np.linspace(-2.5, 2.5, 6, dtype="uint8").tolist() == [254, 255, 0, 0, 1, 2]


def test_percentiles_as_mxnet_computes_them():
    """Of two elements as near, "nearest" is the upper one; places are whole where they should be."""
    def of(count, q, how):
        return np.percentile(np.arange(count), q, interpolation=how).tolist()
    assert of(4, 50, "nearest") == 2 and of(6, np.array([10, 30, 50, 70, 90]), "nearest") == [1, 2, 3, 4, 5]
    assert np.quantile(np.arange(4), 0.5, interpolation="nearest").item() == 2
    assert of(6, np.array([20, 40, 60, 80]), "lower") == of(6, np.array([20, 40, 60, 80]), "midpoint") == [1, 2, 3, 4]
    found = np.percentile(np.arange(24).reshape(2, 3, 4), np.array([30, 70]), axis=(0, 2), keepdims=True)
    onp.testing.assert_allclose(found.asnumpy().reshape(2, 3), [[2.1, 6.1, 10.1], [12.9, 16.9, 20.9]], rtol=1e-6)
    assert found.shape == (2, 1, 3, 1)


def test_booleans_are_numbers_when_they_are_divided():
    a, b = np.array([[True, False]]), np.array([[True], [False]])
    onp.testing.assert_array_equal((a / b).asnumpy(), [[1, 0], [onp.inf, onp.nan]])


@pytest.mark.parametrize("dtype, name, wanted", [("int32", "sum", 3), ("int8", "prod", 0), ("int32", "mean", 0),
                                                 ("float16", "sum", 3)])
def test_a_result_of_another_dtype_is_rounded_once(dtype, name, wanted):
    found = getattr(np, name)(np.array([0.6004] * 5), dtype=dtype)
    assert found.dtype == dtype and found.item() == onp.dtype(dtype).type(3.002 if wanted == 3 else wanted)
    assert np.mean(np.array([100] * 4, dtype="int8"), dtype="int8") == -28  # but integers stay what they are


def test_running_sums_of_halves_are_rounded_one_after_the_other():
    halves = onp.linspace(-1, 1, 24, dtype="float16").reshape(2, 12)
    for axis in (None, 1):
        assert (np.cumsum(np.array(halves), axis).asnumpy() == onp.cumsum(halves, axis)).all()


def test_the_diagonal_of_a_symbol_is_one_symbol():
    found = mx.nd.CachedOp(mx.sym.np.diag_indices_from(mx.sym.var("x").as_np_ndarray()))(np.ones((3, 3, 3)))
    assert found.tolist() == [[0, 1, 2]] * 3


def test_positions_in_an_array_that_delete_passes_over():
    assert np.delete(np.arange(4), np.array([-1, 1, 9], dtype="int64")).tolist() == [0, 2, 3]


def test_decomposition_of_nothing():
    assert [part.shape for part in np.linalg.svd(np.zeros((3, 0, 4)))] == [(3, 0, 0), (3, 0), (3, 0, 4)]


def test_norms_of_matrices_in_the_last_two_axes():
    cube = np.arange(24).reshape(2, 3, 4)
    onp.testing.assert_allclose(np.linalg.norm(cube, 1).asnumpy(), [21, 57])


def test_the_mean_of_float64_has_its_gradient_in_float64():
    x = np.ones(3, dtype="float64")
    x.attach_grad()
    with mx.autograd.record():
        y = np.mean(x, dtype="float32")
    y.backward()
    assert (x.grad.asnumpy() == 1 / 3).all()


def test_transpose_refuses_an_axis_named_twice():
    with pytest.raises(ValueError, match="repeated axis"):
        np.array(A).transpose((0, 0))


def test_arguments_in_the_order_of_mxnets_code():
    """`keepdims` and `initial` before `out`; `out` where MXNet's signatures do not show it."""
    a = np.array([[1.0, 2], [3, 4]])
    assert np.prod(a, 0, None, True).tolist() == [[3, 8]] and np.max(a, 0, True, None).tolist() == [[3, 4]]
    for name in ("prod", "max", "min", "amax", "amin"):
        with pytest.raises(mx.base.MXNetError, match="initial"):
            getattr(np, name)(a, initial=2.0)
    out = np.zeros((2, 2))
    assert np.transpose(a, out=out) is out and out.tolist() == [[1, 3], [2, 4]]
    assert np.roll(a, 1, axis=0, out=out) is out and out.tolist() == [[3, 4], [1, 2]]
    assert np.moveaxis(a, 0, 1, out=out) is out and np.repeat(a, 1, 0, out=out) is out and out.tolist() == a.tolist()
    assert np.diagonal(a, out=out[0]).tolist() == np.diag(a, out=out[1]).tolist() == [1, 4]
    assert out.tolist() == [[1, 4], [1, 4]]


def test_spread_of_too_few_values():
    """Recorded from MXNet: a divisor of 0, or a negative one taken for 2^64 less something."""
    for count, ddof, wanted in [(1, 1, onp.nan), (1, 2, 0), (2, 2, onp.inf), (2, 3, 2.7105054e-20), (3, 1, 1)]:
        a = np.arange(count) + 2.5
        onp.testing.assert_allclose(np.var(a, ddof=ddof).item(), wanted, rtol=1e-6)
        onp.testing.assert_allclose(np.std(a, ddof=ddof).item(), wanted ** 0.5, rtol=1e-6)


def test_what_stays_the_same_shape_is_another_array():
    a = np.ones((2, 1))
    a.attach_grad()
    same, _ = np.broadcast_arrays(a, np.ones(1))
    assert same is not a and same.grad is None


def test_repeated_not_at_all():
    """MXNet forgets the other axes."""
    for axis in (None, 0, 1):
        assert np.repeat(np.ones((2, 3)), 0, axis).shape == (0,)


def test_eigenvalues_on_devices_that_have_none():
    """On TPUs the host computes them."""
    import jax.numpy as jnp

    from mxjax.ops.np import linalg
    matrices = jnp.asarray(onp.random.default_rng(0).normal(size=(2, 3, 3)).astype("float32"))
    for own, host in zip(linalg.eig_by_xla(matrices), linalg.eig_on_host(matrices), strict=True):
        onp.testing.assert_allclose(own, host, rtol=1e-4, atol=1e-5)


def test_cholesky_reads_one_triangle():
    for one in (mx.np.linalg.cholesky(mx.np.array([[4, 99], [2, 5]])),
                mx.nd.linalg.potrf(mx.nd.array([[4, 99], [2, 5]])),
                mx.nd.linalg.potrf(mx.nd.array([[4, 2], [99, 5]]), lower=False).T):
        onp.testing.assert_array_equal(one.asnumpy(), [[2, 0], [1, 2]])


def test_positions_out_of_range_are_refused():
    with pytest.raises(mx.MXNetError, match=r"index 9 is out of range for shape \(2, 3\)"):
        mx.np.unravel_index(mx.np.array([1, 9], dtype="int32"), (2, 3))[0].asnumpy()


def test_several_results_go_where_they_are_wanted():
    quotient, rest = mx.np.zeros(2), mx.np.zeros(2)
    assert mx.np.divmod(mx.np.array([7, -7]), 3, out=(quotient, rest))[1] is rest
    onp.testing.assert_array_equal(quotient.asnumpy(), [2, -3])
    onp.testing.assert_array_equal(rest.asnumpy(), [1, 2])


def test_random_integers_are_integers():
    with pytest.raises(mx.MXNetError, match="int32 or int64"):
        mx.np.random.randint(0, 5, size=(2,), dtype="float32")


def test_integers_that_float32_does_not_have():
    """Numbers beside integer arrays keep their last digit: in calls, hybridized, and in graphs of files."""
    big, ints = 16800001, np.array([16800003, 2], dtype="int32")
    assert np.where(ints > 3, big, ints).tolist() == [big, 2]
    assert np.where(ints > 3, ints, big).tolist() == [16800003, big]
    assert np.insert(ints, 1, big).tolist() == [16800003, big, 2]
    assert np.ediff1d(ints, to_end=big)[-1] == big
    assert (ints + float(big)).tolist() == [33600004, 16800003]
    x, data = mx.sym.var("x"), mx.nd.array([7, 2], dtype="int32")
    for symbol, expected in ((mx.sym._internal._slice_assign_scalar(x, scalar=big, begin=(0,), end=(1,)), [big, 2]),
                             (x + big, [big + 7, big + 2]),
                             (mx.sym._internal._maximum_scalar(x, scalar=float(big)), [big, big]),
                             (mx.sym.full((2,), big, dtype="int32"), [big, big])):
        for graph in (symbol, mx.sym.load_json(symbol.tojson())):
            found = graph.bind(mx.cpu(), {"x": data} if graph.list_arguments() else {}).forward()[0]
            assert found.asnumpy().tolist() == expected
    for number in (2.0, float(big)):  # the second call is the one that is prepared
        found = mx.nd._internal._plus_scalar(data, scalar=number)
        assert found.asnumpy().tolist() == [number + 7, number + 2]


def test_dot_of_integers_is_matmul():
    a, b = np.array([[1, 2], [3, 4]], dtype="int32"), np.array([[1, 0], [2, 1]], dtype="int32")
    assert np.dot(a, b).tolist() == np.matmul(a, b).tolist() == [[5, 2], [11, 4]]


def test_functions_of_numpy_have_texts_of_their_own():
    for name in fallback.__all__:
        assert "NumPy's `" not in (getattr(mx.np, name).__doc__ or "NumPy's `").split("\n")[0], name


@pytest.mark.parametrize("arguments", [
    (1,), (3,), (0,), (-2,), (0.5,), (0, 1, 0.1), (0, 0.3, 0.1), (1, 1), (5, 2), (2, 5, -1), (5, 2, -1), (5, 2, -2),
    (1, 0, -0.25), (-1, 1), (2, 3, 4)])
def test_arange_has_as_many_values_as_numpys(arguments):
    expected = onp.arange(*arguments)
    for made in (np.arange(*arguments), mx.sym.np.arange(*arguments).as_nd_ndarray().eval()[0]):
        assert made.shape == expected.shape
        onp.testing.assert_allclose(made.asnumpy(), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("width", [(1, 2), ((1, 2),)])
def test_one_pair_of_widths_pads_all_axes(width):
    for array in (V, A):
        assert np.pad(np.array(array), width, mode="reflect").tolist() == onp.pad(array, width, mode="reflect").tolist()
        padded = np.pad(np.array(array), width, mode="constant", constant_values=5)
        assert padded.tolist() == onp.pad(array, width, constant_values=5).tolist()
    with pytest.raises(MXNetError, match="a pair of sizes for each axis"):
        np.pad(np.array(A), ((1, 2), (0, 1), (1, 1)))


def test_running_sums_of_booleans_count():
    """Also as the operator, whose dtype for graphs is MXNet's."""
    found = mx.nd.cumsum(mx.nd.array([1, 0, 1], dtype="bool"))
    assert found.asnumpy().tolist() == [1, 1, 2]
    assert mx.sym.np.cumsum(mx.sym.var("x").as_np_ndarray()).infer_type(x="bool")[1] == [onp.int64]
