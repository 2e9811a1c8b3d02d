"""Linear algebra operators."""

import numpy as np
import pytest
from opcall import call, gradients

import mxjax as mx
from mxjax.base import MXNetError

RNG = np.random.default_rng(7)
A, B = RNG.normal(size=(2, 3, 3)).astype("float32"), RNG.normal(size=(2, 3, 3)).astype("float32")
POSITIVE = A @ A.swapaxes(1, 2) + 3 * np.eye(3, dtype="float32")
LOWER = np.tril(POSITIVE)


def close(got, expected):
    np.testing.assert_allclose(got, expected, rtol=2e-4, atol=2e-5)


def test_products():
    both = call("_linalg_gemm", A, B, POSITIVE, transpose_b=True, alpha=2, beta=3)
    close(both, 2 * A @ B.swapaxes(1, 2) + 3 * POSITIVE)
    close(call("_linalg_gemm2", A, B, transpose_a=True, alpha=-1), -A.swapaxes(1, 2) @ B)
    rows_first = call("_linalg_gemm2", A.swapaxes(0, 1), B.swapaxes(0, 1), axis=0)
    close(rows_first, (A @ B).swapaxes(0, 1))
    close(call("_linalg_syrk", A, transpose=True, alpha=2), 2 * A.swapaxes(1, 2) @ A)
    close(call("_linalg_trmm", A, B, rightside=True, transpose=True), B @ np.tril(A).swapaxes(1, 2))


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("rightside", [False, True])
def test_triangular_solve(transpose, rightside):
    x = call("_linalg_trsm", LOWER, B, transpose=transpose, rightside=rightside, alpha=2)
    close(call("_linalg_trmm", LOWER, x, transpose=transpose, rightside=rightside), 2 * B)


def test_cholesky():
    factor = call("_linalg_potrf", POSITIVE)
    close(factor, np.linalg.cholesky(POSITIVE))
    close(call("_linalg_potrf", POSITIVE, lower=False), factor.swapaxes(1, 2))
    close(call("_linalg_potri", factor), np.linalg.inv(POSITIVE))
    close(call("_linalg_sumlogdiag", factor), np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(-1))
    close(gradients("_linalg_sumlogdiag", factor)[0], np.stack([np.diag(1 / np.diag(f)) for f in factor]))


def test_determinants_and_inverse():
    close(call("_linalg_inverse", POSITIVE), np.linalg.inv(POSITIVE))
    close(call("_linalg_det", A), np.linalg.det(A))
    assert call("_linalg_det", A[0]).shape == (1,)
    sign, log = call("_linalg_slogdet", A)
    close(sign * np.exp(log), np.linalg.det(A))


def test_factorizations():
    q, l = call("_linalg_gelqf", A[:, :2])
    close(l @ q, A[:, :2])
    close(q @ q.swapaxes(1, 2), np.stack([np.eye(2)] * 2))
    u, values = call("_linalg_syevd", POSITIVE)
    close(u.swapaxes(1, 2) @ (values[..., None] * u), POSITIVE)
    largest = np.take_along_axis(u, np.abs(u).argmax(-1)[..., None], -1)
    assert (np.diff(values) >= 0).all() and (largest > 0).all()


def test_diagonals_and_triangles():
    close(call("_linalg_extractdiag", A, offset=1), np.diagonal(A, 1, 1, 2))
    vector = np.array([1, 2, 3], "float32")
    close(call("_linalg_makediag", vector, offset=-1), np.diag(vector, -1))
    square = np.arange(1, 10, dtype="float32").reshape(3, 3)
    for params, expected in [({}, [1, 4, 5, 7, 8, 9]), ({"lower": False}, [1, 2, 5, 3, 6, 9]),
                             ({"offset": 1}, [2, 3, 6]), ({"offset": -1, "lower": False}, [4, 7, 8])]:
        packed = call("_linalg_extracttrian", square, **params)
        assert packed.tolist() == expected
        back = call("_linalg_maketrian", packed, **params)
        assert call("_linalg_extracttrian", back, **params).tolist() == expected
        assert np.count_nonzero(back) == len(expected)


@pytest.mark.parametrize("name, arrays, params, message", [
    ("potrf", (A[:, :2],), {}, "square"), ("gelqf", (A[:, :, :2],), {}, "rows"),
    ("gemm2", (A, B.astype("float64")), {}, "the same dtype"), ("gemm2", (A, B[:1]), {}, "batch"),
    ("gemm", (A, B, POSITIVE[:1]), {"transpose_b": True}, "C must have the shape"),
    ("extractdiag", (A,), {"offset": 3}, "offset"), ("maketrian", (A[0, :, :2],), {}, "triangle")])
def test_mistakes_are_named(name, arrays, params, message):
    with pytest.raises(MXNetError, match=message):
        call(f"_linalg_{name}", *arrays, **params)


@pytest.mark.parametrize("operator", [mx.nd.linalg.potrf, mx.nd.linalg.inverse, mx.np.linalg.cholesky])
def test_matrices_without_an_answer_are_refused_where_the_result_is_looked_at(operator):
    array = (mx.np if operator is mx.np.linalg.cholesky else mx.nd).array
    answer = operator(array(np.zeros((2, 2), "float32"))) * 2
    with pytest.raises(MXNetError, match="matrix is"):
        answer.asnumpy()
    assert np.isnan(operator(array(np.full((2, 2), np.nan, "float32"))).asnumpy()).any()


def test_graphs_refuse_too():
    graph = mx.sym.linalg.potrf(mx.sym.Variable("a")) * 2
    executor = graph.bind(mx.cpu(), {"a": mx.nd.zeros((2, 2))}, {"a": mx.nd.zeros((2, 2))})
    executor.forward(is_train=True)
    with pytest.raises(MXNetError, match="potrf"):
        executor.outputs[0].asnumpy()
    executor.forward(is_train=True, a=mx.nd.array([[4, 0], [0, 1]]))
    executor.backward([mx.nd.ones((2, 2))])
    np.testing.assert_allclose(executor.outputs[0].asnumpy(), [[4, 0], [0, 2]])
    np.testing.assert_allclose(np.diag(executor.grad_dict["a"].asnumpy()), [0.5, 1])


def test_the_gradient_of_a_singular_matrix_is_zero():
    x = mx.nd.array([[[1, 2], [2, 4]], [[2, 1], [0, 3]]])
    for value, function in ((x, mx.nd.linalg.slogdet), (x.as_np_ndarray(), mx.np.linalg.slogdet)):
        value.attach_grad()
        with mx.autograd.record():
            logarithm = function(value)[1]
        logarithm.backward()
        expected = np.array([np.zeros((2, 2)), np.linalg.inv([[2, 1], [0, 3]]).T])
        np.testing.assert_allclose(value.grad.asnumpy(), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name, inputs, outputs", [
    ("gemm", ["mk", "kn", "mn"], ["mn"]), ("gemm2", ["mk", "kn"], ["mn"]), ("syrk", ["mk"], ["mm"]),
    ("trmm", ["mm", "mk"], ["mk"]), ("trsm", ["mm", "mk"], ["mk"]), ("potrf", ["mm"], ["mm"]),
    ("potri", ["mm"], ["mm"]),
    ("sumlogdiag", ["mm"], [""]), ("inverse", ["mm"], ["mm"]), ("det", ["mm"], [""]), ("slogdet", ["mm"], ["", ""]),
    ("gelqf", ["km"], ["km", "kk"]), ("syevd", ["mm"], ["mm", "m"]), ("extractdiag", ["mm"], ["m"]),
    ("makediag", ["m"], ["mm"]), ("extracttrian", ["mm"], ["t"]), ("maketrian", ["t"], ["mm"])])
def test_shapes_of_batches(name, inputs, outputs):
    """Matrices behind two axes: sizes m = 4, k = 3, n = 5, t = 10 (a triangle of 4 rows)."""
    sizes = {"m": 4, "k": 3, "n": 5, "t": 10}
    symbol = getattr(mx.sym.linalg, name)(*map(mx.sym.var, "abc"[:len(inputs)]))
    taken, found = [[(6, 7, *map(sizes.get, word)) for word in words] for words in (inputs, outputs)]
    assert symbol.infer_shape(**dict(zip("abc", taken, strict=False)))[1] == found
