"""mx.np and mx.npx at level 2; what is expected was recorded from MXNet 2.0.0b1."""

import numpy
import pytest

import mxjax as mx
from mxjax import np, npx

from ...internals import graph_of


def test_dtypes_of_two_arrays():
    DTYPES = "bool int8 uint8 int32 int64 float16 float32 float64".split()
    arrays = {d: np.ones(2, dtype=d) for d in DTYPES}
    ADDED = '''
    bool    int8    uint8   int32   int64   float16 float32 float64
    int8    int8    int16   int32   int64   float16 float32 float64
    uint8   int16   uint8   int32   int64   float16 float32 float64
    int32   int32   int32   int32   int64   float16 float32 float64
    int64   int64   int64   int64   int64   float16 float32 float64
    float16 float16 float16 float16 float16 float16 float32 float64
    float32 float32 float32 float32 float32 float32 float32 float64
    float64 float64 float64 float64 float64 float64 float64 float64'''.split()
    pairs = [(a, b) for a in DTYPES for b in DTYPES]
    for (a, b), expected in zip(pairs, ADDED, strict=True):
        assert (arrays[a] + arrays[b]).dtype == expected, (a, b)
        assert np.multiply(arrays[a], arrays[b]).dtype == expected
        assert (arrays[a] < arrays[b]).dtype == "bool"
        assert np.result_type(arrays[a], np.dtype(b)) == expected
        if (a, b) == ("bool", "bool"):
            with pytest.raises(mx.MXNetError):
                (arrays[a] - arrays[b]).asnumpy()
        else:
            assert (arrays[a] - arrays[b]).dtype == expected
    for a, b in (("int8", "int32"), ("bool", "int8")):
        with pytest.raises(mx.MXNetError):  # quotients of different integers, and the larger of them, there are none
            (arrays[a] / arrays[b]).asnumpy()
        with pytest.raises(mx.MXNetError):
            np.maximum(arrays[a], arrays[b]).asnumpy()


def test_dtypes_of_an_array_and_a_number():
    for dtype in "int8 int32 int64".split():
        a = np.ones(2, dtype=dtype)
        assert (a + 2).dtype == (a // 2).dtype == (a * True).dtype == (2 ** a).dtype == dtype
        assert (a + 2.5).dtype == (2.5 - a).dtype == (a // 2.5).dtype == np.maximum(a, 2.5).dtype == "float64"
        assert (a / 2).dtype == (2.5 / a).dtype == "float32"
        assert (a & 2).dtype == (a << 2).dtype == np.lcm(a, 2).dtype == dtype
        assert (a + 2**40).dtype == dtype
        assert (np.array(3, dtype=dtype) < 2.5).item() is False
    flags = np.array([1, 0], dtype="bool")
    assert (flags + 1).dtype == "int64" and (flags + 1.5).dtype == "float64"
    assert (flags == 1.5).asnumpy().tolist() == [True, False]
    for dtype in ("float16", "float32", "float64"):
        assert (np.ones(2, dtype=dtype) + 2.5).dtype == (1 // np.ones(2, dtype=dtype)).dtype == dtype


def test_functions_of_integers_give_floats():
    KINDS = {"bool": "float16", "int8": "float16", "uint8": "float16", "int32": "float32", "int64": "float32"}
    for dtype, expected in KINDS.items():
        a = np.ones(2, dtype=dtype)
        for name in "sqrt cbrt exp expm1 log log2 log10 log1p sin cos tan arcsin arctan sinh degrees fix rint".split():
            assert getattr(np, name)(a).dtype == expected, name
        for name in ("ceil", "floor", "trunc"):
            assert getattr(np, name)(a).dtype == ("float16" if dtype == "bool" else dtype)
    numpy.testing.assert_allclose(np.sqrt(np.array([1, 4, 2], dtype="int32")).asnumpy(), [1, 2, 2 ** 0.5], rtol=1e-6)
    assert np.mean(np.ones(2, dtype="float64")).dtype == np.ones(2, dtype="float16").mean().dtype == "float32"
    assert np.sum(np.ones(2, dtype="bool")).dtype == "int64" and np.sum(np.ones(2, dtype="int8")).dtype == "int8"
    assert np.sum(np.array([100.0, 100, 57]), dtype="int8").item() == 1


def test_default_dtypes():
    assert np.array(numpy.array([1, 2])).dtype == np.array(numpy.array([True])).dtype == "float32"
    assert np.array(numpy.array([1], dtype="int8"), dtype="int8").dtype == "int8"
    assert np.full(2, 1).dtype == "int64" and np.full(2, True).dtype == "bool" and np.full(2, 1.5).dtype == "float32"
    assert np.indices((2, 2)).dtype == "int64" and np.arange(3).dtype == "float32"
    assert isinstance(np.float32, numpy.dtype) and np.bool == numpy.dtype("bool")

    @mx.util.use_np_default_dtype
    def kinds():
        assert npx.is_np_default_dtype()
        made = [np.array([1]), np.zeros(2), np.ones(2), np.eye(2), np.identity(2), np.linspace(0, 1), np.hanning(3),
                np.blackman(3), np.random.uniform(size=2), np.random.normal(size=2), np.random.gamma(1, size=2),
                np.random.rand(2), np.mean(np.ones(2, dtype="int32")), np.ones(2, dtype="int32") / 2,
                2.0 / np.ones(2, dtype="int8"), np.full(2, 1.5)]
        return {str(a.dtype) for a in made}, str(np.arange(3).dtype), str(np.random.exponential(size=2).dtype)
    assert kinds() == ({"float64"}, "int64", "float32")
    assert not npx.is_np_default_dtype()
    npx.set_np(dtype=True)
    assert np.zeros(2).dtype == "float64" and np.array(numpy.array([1, 2])).dtype == "int64"
    with mx.util.np_default_dtype(False):
        assert np.zeros(2).dtype == "float32"
    npx.reset_np()
    assert not (npx.is_np_array() or npx.is_np_shape() or npx.is_np_default_dtype())


def test_the_step_of_linspace_without_its_end():
    made, step = np.linspace(2, 7, 4, endpoint=False, retstep=True)
    assert made.tolist() == [2, 3.25, 4.5, 5.75] and step == 1.25
    assert np.linspace(2, 7, 5, retstep=True)[1] == 1.25


def test_operators_of_python():
    a = np.array([5, -7, 9], dtype="int32")
    assert (a // 2).asnumpy().tolist() == [2, -4, 4] and (20 // np.array([3], dtype="int32")).item() == 6
    assert (a << 1).asnumpy().tolist() == [10, -14, 18] and (a >> 1).asnumpy().tolist() == [2, -4, 4]
    assert (2 << np.array([3], dtype="int8")).item() == 16 and (+a).asnumpy().tolist() == [5, -7, 9]
    same = a
    a //= 2
    a **= 2
    a <<= 1
    a >>= 1
    assert a is same and a.asnumpy().tolist() == [4, 16, 16]
    for wrong in ("a += 2.5", "a += np.ones(3)", "a /= 2", "a += np.ones(3, dtype='int64')"):
        with pytest.raises(mx.MXNetError):
            exec(wrong)
    b = np.ones(3)
    b += a
    assert b.dtype == "float32"
    theirs = numpy.array([1.0, 2, 3])
    for made in (b + theirs, theirs + b, a * theirs, b // theirs):
        assert isinstance(made, np.ndarray) and made.dtype == "float64"
    theirs += np.ones(3)
    assert type(theirs) is numpy.ndarray and theirs.tolist() == [2, 3, 4]
    assert (b + mx.nd.ones((3,))).dtype == "float32"
    for wrong in (None, [1, 2, 3]):
        with pytest.raises(mx.MXNetError):
            b + wrong
    with pytest.raises(mx.MXNetError):
        (-np.ones(2, dtype="bool")).asnumpy()


def test_members_and_arguments():
    import inspect
    a = np.array([[3.0, 1, 2], [0, 5, 4]])
    assert a.__array_namespace__() is np and a.__array_namespace__(api_version="2021.12") is np
    with pytest.raises(ValueError):
        a.__array_namespace__(api_version="2022.12")
    assert a.mT.shape == (3, 2) and np.ones((2, 3, 4)).mT.shape == (2, 4, 3)
    assert a.diagonal().asnumpy().tolist() == [3, 5]
    with pytest.raises(ValueError):
        np.ones(3).mT
    assert a.sort().asnumpy().tolist() == [[1, 2, 3], [0, 4, 5]] and a[0, 0] == 3
    assert np.sort(a, descending=True).asnumpy().tolist() == [[3, 2, 1], [5, 4, 0]]
    assert a.argsort(descending=True).asnumpy().tolist() == [[0, 2, 1], [1, 2, 0]]
    assert np.max(a, 0, None, True).shape == (1, 3) and np.argmax(a, 1, keepdims=True).asnumpy().tolist() == [[0], [1]]
    assert np.std(a, correction=1).item() == np.std(a, ddof=1).item()
    assert np.std(a, ddof=1).item() == pytest.approx(numpy.std(a.asnumpy(), ddof=1), rel=1e-5)
    spd = np.array([[4.0, 2], [2, 3]])
    lower = numpy.linalg.cholesky(spd.asnumpy())
    numpy.testing.assert_allclose(np.linalg.cholesky(spd, upper=True).asnumpy(), lower.T, rtol=1e-5)
    assert np.linalg.eigvalsh(spd, upper=True).shape == np.linalg.eigvalsh(spd, UPLO="L").shape == (2,)
    assert str(inspect.signature(np.zeros)) == "(shape, dtype=None, order='C', device=None)"
    for function in (np.zeros, np.std, np.eye, np.linalg.pinv, np.random.uniform):  # not that of MXNet 1.x behind it
        assert inspect.unwrap(function) is function
    assert np.zeros(2, device=mx.cpu()).shape == np.zeros(2, ctx=mx.cpu()).shape == (2,)
    assert np.random.uniform(device=mx.cpu()).shape == ()
    with pytest.raises(NotImplementedError):
        np.floor_divide(a, a, where=False)
    a.attach_grad()
    with mx.autograd.record():
        y = a * 2
    y.backward()
    assert a.grad.asnumpy().tolist() == [[2, 2, 2], [2, 2, 2]]
    a.drop_grad()
    assert a.grad is None and a.to_device(mx.cpu()) is a

    @mx.util.wrap_data_api_linalg_func
    def given(a, upper=False, rtol=None):
        return upper, rtol
    assert given(a, UPLO="U", tol=2) == (True, 2)
    assert mx.util.dtype_from_number(2) is numpy.int64 and mx.util.dtype_from_number(1e300) is numpy.float64
    with pytest.raises(OverflowError):
        mx.util.dtype_from_number(2**64)


def test_npx_takes_the_arguments_of_mxnet_2():
    x = np.array([[1.0, 2, 3], [4, 5, 6]])
    w, b = np.ones((4, 3)), np.ones(4)
    assert npx.fully_connected(x, w, num_hidden=4).asnumpy().tolist() == [[6] * 4, [15] * 4]
    out = npx.fully_connected(x=x, weight=w, bias=b, num_hidden=4, no_bias=False)
    assert out.asnumpy().tolist() == [[7] * 4, [16] * 4]
    assert npx.pick(x, np.array([0, 1]), -1, "clip").asnumpy().tolist() == [1, 5]
    assert npx.one_hot(np.array([0, 2]), 3).asnumpy().tolist() == [[1, 0, 0], [0, 0, 1]]
    two = npx.softmax(np.zeros((1, 3)), np.array([2], dtype="int32"), use_length=True)
    numpy.testing.assert_allclose(two.asnumpy(), [[0.5, 0.5, 0]])
    for kind, expected in {"mish": [-0.30340153, 1.943959], "log_sigmoid": [-1.3132617, -0.12692809]}.items():
        numpy.testing.assert_allclose(npx.activation(np.array([-1.0, 2]), kind).asnumpy(), expected, rtol=1e-6)


def test_files_of_numpy(tmp_path):
    folder = str(tmp_path)
    npx.save(folder + "/a.npy", np.arange(3))
    assert numpy.load(folder + "/a.npy").tolist() == npx.load(folder + "/a.npy").asnumpy().tolist() == [0, 1, 2]
    npx.savez(folder + "/b.npz", np.ones((2, 0)), weight=np.ones(2, dtype="int8"),
              half=mx.nd.ones(2).astype("bfloat16"))
    found = npx.load(folder + "/b.npz")
    assert {k: (v.shape, str(v.dtype)) for k, v in found.items()} == {
        "weight": ((2,), "int8"), "half": ((2,), "bfloat16"), "arr_0": ((2, 0), "float32")}
    assert numpy.load(folder + "/b.npz")["weight"].tolist() == [1, 1]
    with pytest.raises(ValueError):
        npx.save(folder + "/c.npy", [np.ones(2)])
    with pytest.raises(TypeError):
        npx.savez(folder + "/c.npz", 1)


def test_factors_ranks_and_interpolation_are_operators():
    rng = numpy.random.RandomState(0)
    tall, wide = (np.array(rng.randn(*shape).astype("float32")) for shape in ((4, 3), (2, 3, 5)))
    for a in (tall, wide):
        a.attach_grad()
        with mx.autograd.record():
            q, r = np.linalg.qr(a)
            y = np.matmul(q, r)
        y.backward(a * 2)
        numpy.testing.assert_allclose(y.asnumpy(), a.asnumpy(), atol=1e-5)
        numpy.testing.assert_allclose(a.grad.asnumpy(), 2 * a.asnumpy(), atol=1e-4)  # as Q·R is A
        assert abs(r[..., 1, 0].asnumpy()).max() == 0
    target = np.array(rng.randn(4).astype("float32"))
    for ours, expected in zip(np.linalg.lstsq(tall, target, rcond=None),
                              numpy.linalg.lstsq(tall.asnumpy(), target.asnumpy(), rcond=None), strict=True):
        numpy.testing.assert_allclose(ours.asnumpy(), expected, rtol=1e-5)
    assert np.linalg.matrix_rank(wide).asnumpy().tolist() == [3, 3]
    assert np.linalg.matrix_rank(tall, rtol=10.0) == 0 and np.linalg.matrix_rank(np.zeros(3)) == 0
    with mx.autograd.record():  # the functions of level 1 refuse
        moved = np.rollaxis(tall, 1)
        points = np.interp(np.array([0.5, -1, 9]), np.array([0, 1, 2]), np.array([0, 3, 4]))
    moved.backward(moved * 3)
    numpy.testing.assert_allclose(tall.grad.asnumpy(), 3 * tall.asnumpy())
    assert points.dtype == "float64" and points.asnumpy().tolist() == [1.5, 0, 4]
    assert np.interp(1.5, np.array([0, 1, 2]), np.array([0, 3, 4]), period=2) == 1.5
    for wrong in (lambda: np.interp(tall, np.array([1]), np.array([])), lambda: np.rollaxis(tall, 2),
                  lambda: np.linalg.qr(np.ones(3)), lambda: np.linalg.lstsq(tall, np.ones(3))):
        with pytest.raises(mx.MXNetError):
            wrong()
    with pytest.raises(NotImplementedError):
        np.linalg.qr(tall, mode="r")


def test_factors_and_ranks_in_symbols_and_traced_blocks():
    class Block(mx.gluon.HybridBlock):
        def forward(self, x):
            q, r = np.linalg.qr(x)
            return np.matmul(q, r), np.linalg.matrix_rank(x), np.linalg.lstsq(x, np.ones(4))[0], np.rollaxis(x, 1)

    block, x = Block(), np.array([[1, 2], [3, 4], [5, 6], [7, 9]])
    expected = block(x)
    block.hybridize()
    for ours, plain in zip(block(x), expected, strict=True):
        numpy.testing.assert_allclose(ours.asnumpy(), plain.asnumpy(), rtol=1e-5)
    a = mx.sym.var("a").as_np_ndarray()
    assert mx.sym.np.linalg.matrix_rank(a).eval(a=x)[0] == 2
    assert mx.sym.np.rollaxis(a, 1).eval(a=x)[0].shape == (2, 4)
    lower = np.array([[2, 9], [1, 2]])  # mx.nd.np keeps 1.x's second argument, mx.np has `upper`
    assert mx.nd.np.linalg.eigvalsh(lower, "L").asnumpy().tolist() == [1, 3]
    assert np.linalg.eigvalsh(lower, upper=False).asnumpy().tolist() == [1, 3]


def test_classic_multinomial_counts():
    counts = mx.nd.sample_multinomial(mx.nd.array([6, 2]), mx.nd.array([[0, 1, 0], [1, 0, 0]]))
    assert counts.asnumpy().tolist() == [[0, 6, 0], [2, 0, 0]]


def test_equations_with_integers_are_solved_in_float64():
    whole, half = np.array([[2, 0], [1, 1]], dtype="int32"), np.array([[2, 0], [1, 1]])
    for a, b in ((whole, np.ones(2)), (half, np.ones(2, dtype="int8")), (whole, np.ones(2, dtype="int64"))):
        for solve in (np.linalg.solve, np.linalg.tensorsolve):
            x = solve(a, b)
            assert x.dtype == "float64" and x.asnumpy().tolist() == [0.5, 0.5]
    assert np.linalg.solve(half, np.ones(2)).dtype == "float32"


def test_numbers_are_reduced_like_arrays_of_one_element():
    x = np.array(2.0)
    x.attach_grad()
    for reduce, wanted, slope in ((lambda a: a.sum(axis=0), 2, 1), (lambda a: a.mean(axis=-1), 2, 1),
                                  (lambda a: np.max(a, axis=0, keepdims=True), 2, 1), (npx.softmax, 1, 0),
                                  (lambda a: npx.log_softmax(a, axis=0), 0, 0), (lambda a: np.all(a, axis=0), True, 0)):
        with mx.autograd.record():
            y = reduce(x) * 1
        y.backward()
        assert y.shape == () and y.item() == wanted and x.grad.item() == slope
    with pytest.raises(mx.MXNetError):
        x.sum(axis=1)


def test_the_gradient_of_digamma_is_infinite_at_its_poles():
    for dtype in ("float32", "float16"):
        x = np.array([0, -1, 0.5], dtype=dtype)
        x.attach_grad()
        with mx.autograd.record():
            y = npx.digamma(x)
        y.backward()
        numpy.testing.assert_allclose(x.grad.asnumpy(), [numpy.inf, numpy.inf, 4.934], rtol=1e-3)


def test_gradients_end_at_constant_inputs_in_every_form():
    """As at level 1; MXNet 2.0.0b1 multiplies the zeros by the infinite derivative of np.sqrt."""
    class Block(mx.gluon.HybridBlock):
        def forward(self, x):
            root = np.sqrt(x)
            return npx.stop_gradient(root) + (root > 1) + np.floor(root) + np.where(root, x, x) + np.argmax(root)

    block, x = Block(), np.array([0.0, 4.0])
    x.attach_grad()

    def gradient(function):
        with mx.autograd.record():
            y = function(x)
        y.backward()
        return x.grad.asnumpy().tolist()
    assert gradient(block) == [1, 1]
    block.hybridize()
    assert gradient(block) == [1, 1]
    symbol = mx.sym.load_json(graph_of(block).tojson())
    assert gradient(mx.gluon.SymbolBlock(symbol, mx.sym.var("data"))) == [1, 1]


def test_numbers_and_lists_become_arrays_of_at_least_some_dimensions():
    for function, shapes in ((np.atleast_1d, [(1,), (2,)]), (np.atleast_2d, [(1, 1), (1, 2)]),
                             (np.atleast_3d, [(1, 1, 1), (1, 2, 1)])):
        made = function(3, [1, 2])
        assert [a.shape for a in made] == shapes and {str(a.dtype) for a in made} == {"float32"}
