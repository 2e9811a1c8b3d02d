"""Arguments of `mx.np` that few programs pass: the results are NumPy's, and the errors MXNet 1.9.1's."""

import math
import pickle

import numpy as np
import pytest

import mxjax as mx

pytestmark = pytest.mark.usefixtures("np_semantics")

SAME = {
    "hamming": lambda np, a, v, i: np.hamming(5), "empty_like": lambda np, a, v, i: np.empty_like(a) * 0,
    "round_": lambda np, a, v, i: np.round(a * 1.23, 1), "around": lambda np, a, v, i: np.around(a * 1.23, 1),
    "clip of a number": lambda np, a, v, i: np.clip(3, 1, 2), "clip above": lambda np, a, v, i: a.clip(max=3),
    "nan_to_num of a number": lambda np, a, v, i: np.nan_to_num(float("nan"), nan=2.0),
    "flatnonzero": lambda np, a, v, i: np.flatnonzero(a > 2),
    "where of numbers": lambda np, a, v, i: np.where(True, 1, 2), "argwhere": lambda np, a, v, i: np.argwhere(a > 2),
    "sort of all": lambda np, a, v, i: np.sort(-a, axis=None), "argsort": lambda np, a, v, i: (-a).argsort(axis=0),
    "unravel_index": lambda np, a, v, i: np.unravel_index(5, (2, 3)),
    "shares_memory": lambda np, a, v, i: [np.shares_memory(a, a + 1), np.may_share_memory(a, a)],
    "delete": lambda np, a, v, i: np.delete(v, slice(0, 2)),
    "insert": lambda np, a, v, i: np.insert(v, slice(0, 2), 9),
    "vstack": lambda np, a, v, i: np.vstack([v, v]), "split": lambda np, a, v, i: np.split(v, (1, 2)),
    "row_stack": lambda np, a, v, i: np.vstack((v, a)), "hsplit": lambda np, a, v, i: np.hsplit(a, 3),
    "pad, reflected": lambda np, a, v, i: np.pad(v, ((2, 1),), "reflect"),
    "pad by pairs": lambda np, a, v, i: np.pad(a, ((1, 0), (0, 1)), mode="symmetric"),
    "pad with the largest": lambda np, a, v, i: np.pad(v, ((1, 2),), mode="maximum"),
    "full_like": lambda np, a, v, i: np.full_like(a, 2),
    "tensordot": lambda np, a, v, i: np.tensordot(a, a, ((0,), (0,))),
    "argmin": lambda np, a, v, i: a.argmin(1), "argmax": lambda np, a, v, i: a.argmax(axis=0),
    "cumsum": lambda np, a, v, i: a.cumsum(0), "prod": lambda np, a, v, i: a.prod(axis=0),
    "take": lambda np, a, v, i: a.take(i, axis=1), "take, wrapped": lambda np, a, v, i: a.take(i + 4, 1, mode="wrap"),
    "repeat": lambda np, a, v, i: a.repeat(2, axis=1), "dot": lambda np, a, v, i: a.dot(v),
    "squeeze": lambda np, a, v, i: np.zeros((1, 3, 1)).squeeze(0).shape, "std": lambda np, a, v, i: a.std(ddof=1),
    "var": lambda np, a, v, i: a.var(axis=0, keepdims=True), "nonzero": lambda np, a, v, i: (a - 2).nonzero(),
    "reshape in C order": lambda np, a, v, i: a.reshape(3, 2, order="C"),
    "matmul": lambda np, a, v, i: a @ v, "rmatmul": lambda np, a, v, i: v.__rmatmul__(a),
    "invert": lambda np, a, v, i: ~i,
    "functions of math": lambda np, a, v, i: np.floor(a * 0.3) + np.ceil(a * 0.3) + np.trunc(a * 0.3),
    "bool of nothing": lambda np, a, v, i: bool(np.array([0.0])), "prod of all": lambda np, a, v, i: np.prod(a),
    "diag": lambda np, a, v, i: np.diag(a, 1), "any": lambda np, a, v, i: np.any(a > 3, axis=0),
    "quantile": lambda np, a, v, i: np.quantile(a, 0.5), "bincount": lambda np, a, v, i: np.bincount(i, minlength=5),
    "bincount of weights": lambda np, a, v, i: np.bincount(i, np.array([1.0, 2.0])),
    "histogram by edges": lambda np, a, v, i: np.histogram(v, bins=np.array([0.0, 2, 4])),
    "histogram of an interval": lambda np, a, v, i: np.histogram(v, bins=2, range=(0, 4)),
    "corrcoef": lambda np, a, v, i: np.corrcoef(a), "histogram2d": lambda np, a, v, i: np.histogram2d(v, v, 2),
    "meshgrid": lambda np, a, v, i: np.meshgrid(v, v, indexing="ij"), "pinv": lambda np, a, v, i: np.linalg.pinv(a),
    "eigvals": lambda np, a, v, i: np.linalg.eigvals(np.eye(2)), "eigh": lambda np, a, v, i: np.linalg.eigh(np.eye(2)),
    "eig": lambda np, a, v, i: np.linalg.eig(np.eye(2)), "norm": lambda np, a, v, i: np.linalg.norm(a, axis=(0, 1)),
    "lstsq": lambda np, a, v, i: np.linalg.lstsq(a, np.array([1.0, 2.0]), rcond=None)[0],
    "genfromtxt": lambda np, a, v, i: np.genfromtxt(["1 2", "3 4"]), "diff": lambda np, a, v, i: np.diff(a, n=2),
    "an array of arrays": lambda np, a, v, i: np.array([v, v]), "list of an array": lambda np, a, v, i: list(v),
    "average": lambda np, a, v, i: a.mean(axis=1, keepdims=True),
    "broadcast_to": lambda np, a, v, i: np.broadcast_to(v, (2, 3)),
    "astype": lambda np, a, v, i: a.astype("int32", order="K", casting="unsafe", subok=True),
}


def plain(value):
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return np.asarray(value.asnumpy() if isinstance(value, mx.nd.NDArray) else value, "float64").tolist()


@pytest.mark.parametrize("name", SAME)
def test_the_results_of_numpy(name):
    source = np.array([[1, 2, 3], [4, 5, 7]], "float32"), np.array([3, 1, 2], "float32"), np.array([1, 0], "int32")
    found = plain(SAME[name](mx.np, *map(mx.np.array, source)) if name != "take" else
                  SAME[name](mx.np, *[mx.np.array(s, dtype=s.dtype) for s in source]))
    expected = plain(SAME[name](np, *source))
    assert str(found).count("[") == str(expected).count("[")
    for one, other in zip(flat(found), flat(expected), strict=True):
        assert one == pytest.approx(other, rel=1e-4, abs=1e-5)


def flat(value):
    return [number for part in value for number in flat(part)] if isinstance(value, list) else [value]


@pytest.mark.parametrize("call, error, told", [
    (lambda np, a, v: np.eye(2, foo=1), TypeError, "eye got unknown arguments: foo"),
    (lambda np, a, v: np.identity("a"), TypeError, "Input 'n' should be an integer"),
    (lambda np, a, v: np.linspace(a, 2), NotImplementedError, "start and stop only support int"),
    (lambda np, a, v: np.linspace(0, 1, 5, axis=1), NotImplementedError, "only support axis 0"),
    (lambda np, a, v: np.indices(3), ValueError, "The dimensions must be sequence of ints"),
    (lambda np, a, v: np.empty_like(a, subok=True), NotImplementedError, "subok"),
    (lambda np, a, v: np.empty_like(a, order="F"), NotImplementedError, "order"),
    (lambda np, a, v: np.clip(a, None, None), ValueError, "must set either max or min"),
    (lambda np, a, v: np.add(a, a, casting="odd"), TypeError, "casting=odd not understood for function 'add'"),
    (lambda np, a, v: np.add(a, a, where=False), NotImplementedError,
     "where=False is not implemented yet for function 'add'"),
    (lambda np, a, v: np.sin(a, dtype="odd"), TypeError, "dtype=odd not understood for function 'sin'"),
    (lambda np, a, v: np.argsort(v, order="a"), NotImplementedError, "order not supported here"),
    (lambda np, a, v: np.unravel_index(5, (2, 3), order="F"), NotImplementedError, "column-major"),
    (lambda np, a, v: np.delete(v, "a"), TypeError, "'obj' can not support type <class 'str'>"),
    (lambda np, a, v: np.insert(v, 1, "a"), TypeError, "'values' can not support type <class 'str'>"),
    (lambda np, a, v: np.vstack(iter([v])), ValueError, "expected iterable for arrays but got <class"),
    (lambda np, a, v: np.split(v, "a"), ValueError, "indices_or_sections must be either int, or tuple"),
    (lambda np, a, v: np.vsplit(v, 2), ValueError, "vsplit only works on arrays of 2 or more dimensions"),
    (lambda np, a, v: np.dsplit(a, 2), ValueError, "dsplit only works on arrays of 3 or more dimensions"),
    (lambda np, a, v: np.pad(v, 1.5), TypeError, "`pad_width` must be a tuple of integral type"),
    (lambda np, a, v: np.pad(v, ((1, 1),), mode="odd"), ValueError, "mode {'odd'} is not supported"),
    (lambda np, a, v: np.pad(v, ((1, 1),), mode="reflect", foo=3), ValueError,
     "unsupported keyword arguments for mode 'reflect'"),
    (lambda np, a, v: np.pad(v, ((1, 1),), mode="reflect", reflect_type="odd"), ValueError,
     "unsupported reflect_type 'odd'"),
    (lambda np, a, v: np.pad(v, ((1, 1),), constant_values="a"), TypeError,
     "unsupported constant_values type: {'str'}"),
    (lambda np, a, v: np.full_like(a, 2, order="F"), NotImplementedError, "order"),
    (lambda np, a, v: np.diff(v, prepend=1), NotImplementedError, "prepend and append options are not supported"),
    (lambda np, a, v: np.tensordot(a, a, axes=((0, 1), (0,))), ValueError, "Axes length mismatch"),
    (lambda np, a, v: np.fill_diagonal(3, 1), TypeError, "fill_diagonal: type <class 'int'> not supported"),
    (lambda np, a, v: a.reshape(3, 2, order="F"), NotImplementedError, "only supports C-order, while received F"),
    (lambda np, a, v: a.reshape(), TypeError, r"takes exactly 1 argument \(0 given\)"),
    (lambda np, a, v: a.reshape(3, 2, foo=1), TypeError, "unexpected keyword argument 'foo'"),
    (lambda np, a, v: a.astype("int32", order="F"), ValueError, "order must be either None or 'K', got 'F'"),
    (lambda np, a, v: a.astype("int32", casting="safe"), ValueError, "casting must be equal to 'unsafe'"),
    (lambda np, a, v: a.astype("int32", subok=False), ValueError, "subok must be equal to True"),
    (lambda np, a, v: a.copy(order="F"), NotImplementedError, "only supports order='C'"),
    (lambda np, a, v: [1, 2, 3][v], TypeError, "only integer scalar arrays can be converted to a scalar index"),
    (lambda np, a, v: a.tostype("csr"), ValueError, "supports only the storage type 'default', got 'csr'"),
    (lambda np, a, v: np.array([[1, 2], [3]]), TypeError, "cannot convert this to an array"),
    (lambda np, a, v: np.bincount(v.astype("int32"), minlength=-1), ValueError,
     "Minlength value should greater than 0"),
    (lambda np, a, v: np.histogram(v, bins=3, weights=v), NotImplementedError, "not supported yet"),
    (lambda np, a, v: np.set_printoptions(foo=2), NotImplementedError,
     "supports only precision and threshold, got foo"),
    (lambda np, a, v: np.meshgrid(v, v, foo=1), TypeError, "unexpected keyword argument 'foo'"),
    (lambda np, a, v: np.meshgrid(v, v, indexing="ab"), ValueError, "Valid values for `indexing` are 'xy' and 'ij'"),
    (lambda np, a, v: np.linalg.pinv(a, hermitian=True), NotImplementedError, "hermitian is not supported yet"),
    (lambda np, a, v: np.linalg.norm(a, axis=1.5), TypeError, "'axis' must be None, an integer or a tuple"),
    (lambda np, a, v: np.random.uniform("a", 1), ValueError, "uniform: low must be an ndarray or a number, got str"),
    (lambda np, a, v: np.random.multinomial(3, a.asnumpy()), ValueError, "numpy ndarray is not supported!"),
    (lambda np, a, v: np.random.multivariate_normal(v, a, check_valid="x"), NotImplementedError, "`check_valid`"),
    (lambda np, a, v: mx.npx.save("x", "abc"), ValueError, "data needs to either be a ndarray"),
    (lambda np, a, v: mx.npx.save("x", [1]), TypeError, "Only accepts dict str->ndarray or list of ndarrays"),
    (lambda np, a, v: a @ 3, TypeError, "type <class 'int'> not supported"),
    (lambda np, a, v: np.arange(None), ValueError, "start and stop cannot be both None"),
    (lambda np, a, v: np.ravel(a, order="F"), NotImplementedError, "order F is not supported"),
    (lambda np, a, v: v.asscalar(), AttributeError, "mxnet.numpy.ndarray object has no attribute asscalar"),
    (lambda np, a, v: np.random.multinomial(3, [[0.5, 0.5]]), ValueError, "object too deep for desired array"),
    (lambda np, a, v: np.percentile(a, 5, overwrite_input=True), NotImplementedError,
     "overwrite_input is not supported"),
    (lambda np, a, v: np.linalg.matrix_transpose(v), ValueError, "requires an array with at least two axes"),
    (lambda np, a, v: mx.sym.var("x").as_np_ndarray()[::0], ValueError, "slice step cannot be zero"),
])
def test_mistakes_are_named(call, error, told):
    with pytest.raises(error, match=told):
        call(mx.np, mx.np.array([[1.0, 2, 3], [4, 5, 7]]), mx.np.array([3.0, 1, 2]))


def test_pythons_functions_of_arrays():
    z, a = mx.np.array(5.5), mx.np.array([[3.0, 1]])
    assert (math.floor(z), math.ceil(z), math.trunc(z), float(z), int(z)) == (5, 6, 5, 5.5, 5)
    assert [1, 2, 3][mx.np.array(1, dtype="int32")] == 2
    with pytest.warns(DeprecationWarning, match="truth value of an empty array is ambiguous"):
        assert not mx.np.zeros((0, 3))
    a.sort()
    assert a.tolist() == [[1, 3]] and a.diag().tolist() == [1] and a.tostype("default").tolist() == [[1, 3]]
    assert a.astype("float32", copy=False) is a and a.copy() is not a
    assert repr(a) == "array([[1., 3.]])"
    assert pickle.loads(pickle.dumps(a)).tolist() == [[1, 3]]
    assert mx.npx.from_dlpack(mx.npx.to_dlpack_for_write(a)).tolist() == [[1, 3]]


def test_numpys_functions_take_these_arrays():
    a = mx.np.array([[3.0, 1]])
    assert type(np.add(a, 1)) is type(np.concatenate([a, a])) is mx.np.ndarray
    out = mx.np.zeros((1, 2))
    assert np.add(a, 1, out=out) is out and out.tolist() == [[4, 2]]
    with pytest.raises(ValueError, match="must have exactly one entry"):
        np.add(a, 1, out=(out, out))
    with pytest.raises(TypeError):
        np.multiply.reduce(a)


def test_print_options():
    try:
        mx.np.set_printoptions(precision=2)
        assert repr(mx.np.array([1.2345])) == "array([1.23])"
    finally:
        mx.np.set_printoptions(precision=8)
    assert repr(mx.np.array([1.2345])) == "array([1.2345])"
