"""Sparse arrays: operators that keep to what is stored give the dense numbers and MXNet's storage types."""

import operator
import pickle

import numpy as np
import pytest

import mxjax as mx
from mxjax.array import sparse_operators

from ..internals import address_of, inputs_of, runs_of

R = np.random.RandomState(0)
A = (R.rand(6, 5) < 0.3) * R.randn(6, 5).astype("float32")
B = (R.rand(6, 5) < 0.4) * R.randn(6, 5).astype("float32")
ROWS = np.where(np.isin(np.arange(6), [1, 4])[:, None], R.randn(6, 5), 0).astype("float32")
OTHER = np.where(np.isin(np.arange(6), [0, 4])[:, None], R.randn(6, 5), 0).astype("float32")
DENSE = R.randn(5, 3).astype("float32")


def sparse(value, stype):
    return mx.nd.array(value).tostype(stype)


@pytest.mark.parametrize("stype, value", [("csr", A), ("row_sparse", ROWS)])
@pytest.mark.parametrize("name", ["abs", "sign", "square", "sqrt", "tanh", "relu", "negative", "expm1"])
def test_zero_stays_zero(name, stype, value):
    value = np.abs(value) if name == "sqrt" else value
    array = sparse(value, stype)
    found = getattr(mx.nd.sparse, name)(array)
    assert found.stype == stype and found.data.shape == array.data.shape
    np.testing.assert_allclose(found.asnumpy(), getattr(mx.nd, name)(mx.nd.array(value)).asnumpy(), rtol=1e-6)


def test_arithmetic():
    a, b, rows, other = sparse(A, "csr"), sparse(B, "csr"), sparse(ROWS, "row_sparse"), sparse(OTHER, "row_sparse")
    for found, expected, stype in [
            (a + b, A + B, "csr"), (a - b, A - B, "csr"), (a * b, A * B, "csr"), (a * 2, A * 2, "csr"),
            (rows / 4, ROWS / 4, "row_sparse"), (rows + other, ROWS + OTHER, "row_sparse"),
            (rows - other, ROWS - OTHER, "row_sparse"), (rows * other, ROWS * OTHER, "row_sparse"),
            (a + 1, A + 1, "default"), (a + mx.nd.array(B), A + B, "default"),
            (mx.nd.broadcast_mul(a, mx.nd.array(B[:1])), A * B[:1], "csr"),
            (mx.nd.add_n(rows, other, rows), ROWS * 2 + OTHER, "row_sparse"),
            (mx.nd.clip(rows, -1, 1), ROWS.clip(-1, 1), "row_sparse"),
            (mx.nd._internal._maximum(rows, other), np.maximum(ROWS, OTHER), "row_sparse"),
            (mx.nd._internal._minimum(a, b), np.minimum(A, B), "csr"),
            (mx.nd._internal._hypot(a, b), np.hypot(A, B), "csr"),
            (mx.nd._internal._hypot(rows, other), np.hypot(ROWS, OTHER), "row_sparse"),
            (mx.nd._internal._scatter_plus_scalar(a, scalar=2), np.where(A, A + 2, 0), "csr"),
            (mx.nd._internal._scatter_elemwise_div(rows, mx.nd.array(B + 2)), ROWS / (B + 2), "row_sparse"),
            (mx.nd.zeros_like(rows), ROWS * 0, "row_sparse")]:
        assert found.stype == stype
        np.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-6, atol=1e-7)
    assert (rows * other).indices.asnumpy().tolist() == [4]


def test_products():
    a, d = sparse(A, "csr"), mx.nd.array(DENSE)
    tall = mx.nd.array(R.randn(6, 2))
    for found, expected, stype in [
            (mx.nd.dot(a, d), A @ DENSE, "default"),
            (mx.nd.dot(a, tall, transpose_a=True), A.T @ tall.asnumpy(), "row_sparse"),
            (mx.nd.dot(a, tall, transpose_a=True, forward_stype="default"), A.T @ tall.asnumpy(), "default"),
            (mx.nd.dot(a, sparse(DENSE, "row_sparse")), A @ DENSE, "default"),
            (mx.nd.dot(tall.T, a), tall.asnumpy().T @ A, "csr"),
            (mx.nd.dot(d.T, a, transpose_b=True), DENSE.T @ A.T, "csr"),
            (mx.nd.dot(a, mx.nd.array(DENSE[:, 0])), A @ DENSE[:, 0], "default")]:
        assert found.stype == stype
        np.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("asked", ["csr", "row_sparse"])
@pytest.mark.parametrize("stypes", [("default", "default"), ("csr", "default"), ("default", "csr"),
                                    ("row_sparse", "default")])
def test_a_product_is_stored_as_asked(stypes, asked):
    a, b = (mx.nd.array(v).tostype(stype) for v, stype in zip((A, DENSE), stypes, strict=True))
    assert mx.nd.dot(a, b, forward_stype=asked).stype == asked
    for array in (a, b):
        array.attach_grad()
    with mx.autograd.record():
        product = mx.nd.dot(a, b, forward_stype=asked)
    product.backward()
    assert product.stype == asked and (a.grad.stype, b.grad.stype) == stypes
    np.testing.assert_allclose(product.asnumpy(), A @ DENSE, rtol=1e-5, atol=1e-6)
    ones = np.ones((A.shape[0], DENSE.shape[1]))
    np.testing.assert_allclose(a.grad.asnumpy(), ones @ DENSE.T, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(b.grad.asnumpy(), A.T @ ones, rtol=1e-5, atol=1e-6)


def test_a_product_in_a_graph_is_stored_as_asked():
    a, b = mx.sym.var("a"), mx.sym.var("b")
    arrays = {"a": mx.nd.array(A), "b": mx.nd.array(DENSE)}
    doubled = mx.sym.dot(a, b, forward_stype="csr") * 2
    found = doubled.bind(mx.cpu(), arrays).forward()[0]
    assert found.stype == "csr"
    np.testing.assert_allclose(found.asnumpy(), 2 * A @ DENSE, rtol=1e-5, atol=1e-6)
    out = mx.nd.zeros(found.shape)
    assert mx.nd.dot(*arrays.values(), forward_stype="csr", out=out) is out and out.stype == "default"
    assert mx.nd.dot(*arrays.values(), forward_stype="csr").stype == "csr"


def test_rows_of_csr_arrays():
    """Their stored values alone: the whole array, which here would take 8 TB, is never dense."""
    dense = R.randn(12, 9).astype("float32") * (R.rand(12, 9) < 0.3)
    array = mx.nd.array(dense).tostype("csr")
    for key in (slice(3, 9), slice(None, 12), slice(10, None), slice(-4, -1), slice(9, 9), slice(9, 3), slice(8, 99),
                0, 7, -1, -12):
        found = array[key]
        assert found.stype == "csr"
        np.testing.assert_array_equal(found.asnumpy(), dense[key] if isinstance(key, slice) else dense[[key]])
    for key in (12, -13):
        with pytest.raises(IndexError, match="with 12 rows"):
            array[key]
    assert [row.shape for row in array] == [(1, 9)] * 12
    large = mx.nd.sparse.csr_matrix(([1.0, 2.0], [5, 7], [0, 1, *[1] * 1_999_998, 2]), shape=(2_000_000, 1_000_000))
    assert large[1_999_999:].indices.asnumpy().tolist() == [7] and large[0:2].data.asnumpy().tolist() == [1]


def test_reductions_slices_and_stacks():
    a, rows = sparse(A, "csr"), sparse(ROWS, "row_sparse")
    for found, expected in [
            (mx.nd.sum(a, axis=0), A.sum(0)), (mx.nd.sum(a, axis=1, keepdims=True), A.sum(1, keepdims=True)),
            (mx.nd.mean(a), A.mean()), (mx.nd.norm(rows), np.linalg.norm(ROWS)), (a[2:5], A[2:5]), (a[-1], A[-1:]),
            (mx.nd.slice(a, begin=(1, 1), end=(5, 4)), A[1:5, 1:4]),
            (mx.nd.concat(a, a[:2], dim=0), np.concatenate([A, A[:2]])),
            (mx.nd._internal._square_sum(rows, axis=1, keepdims=True), (ROWS ** 2).sum(1, keepdims=True))]:
        np.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-5, atol=1e-6)


def test_gradients_have_the_rows_that_were_used():
    table = mx.nd.array(R.randn(10, 3))
    table.attach_grad(stype="row_sparse")
    ids = mx.nd.array([[1, 7], [7, 2]])
    with mx.autograd.record():
        picked = mx.nd.Embedding(ids, table, input_dim=10, output_dim=3, sparse_grad=True)
        loss = (picked * picked).sum()
    loss.backward()
    assert table.grad.stype == "row_sparse" and table.grad.indices.asnumpy().tolist() == [1, 2, 7]
    expected = np.zeros((10, 3), "float32")
    np.add.at(expected, [1, 7, 7, 2], 2 * table.asnumpy()[[1, 7, 7, 2]])
    np.testing.assert_allclose(table.grad.asnumpy(), expected, rtol=1e-5)
    for _ in range(4):  # a backward pass that comes again and again is compiled, if it has no sparse gradients
        with mx.autograd.record():
            picked = mx.nd.Embedding(ids, table, input_dim=10, output_dim=3, sparse_grad=True)
        picked.backward(mx.nd.zeros(picked.shape))
        assert table.grad.indices.asnumpy().tolist() == [1, 2, 7]
    weight = mx.nd.array(DENSE)
    for stype in ("default", "row_sparse"):
        weight.attach_grad(stype=stype)
        with mx.autograd.record():
            loss = mx.nd.dot(sparse(A, "csr"), weight).sum()
        loss.backward()
        assert weight.grad.stype == stype
        np.testing.assert_allclose(weight.grad.asnumpy(), A.T @ np.ones((6, 3)), rtol=1e-5, atol=1e-6)
        stored = weight.tostype(stype)
        stored.attach_grad()
        with mx.autograd.record():
            product = mx.nd.dot(sparse(A, "csr"), stored)
        alone, = mx.autograd.grad(product, [stored])
        assert alone.stype == stype  # as the array is stored, where no gradient array says so
        np.testing.assert_array_equal(alone.asnumpy(), weight.grad.asnumpy())


@pytest.mark.parametrize("stype, name, options", [
    *[(stype, *rest) for stype in ("default", "row_sparse") for rest in [
        ("sgd", {"momentum": 0.9, "wd": 0.01}), ("sgd", {"wd": 0.01}), ("adam", {"wd": 0.01}), ("adagrad", {}),
        ("adagrad", {"wd": 0.01}), ("groupadagrad", {})]], ("row_sparse", "ftrl", {})])
def test_lazy_updates_leave_other_rows_alone(stype, name, options):
    start = R.randn(6, 5).astype("float32")
    weight, dense = mx.nd.array(start).tostype(stype), mx.nd.array(start)
    updates = [mx.optimizer.get_updater(mx.optimizer.create(name, learning_rate=0.1, **options)) for _ in range(2)]
    for _ in range(3):
        updates[0](0, sparse(ROWS, "row_sparse"), weight)
        updates[1](0, mx.nd.array(ROWS), dense)
    assert weight.stype == stype
    found = weight.asnumpy()
    np.testing.assert_array_equal(found[[0, 2, 3, 5]], start[[0, 2, 3, 5]])
    np.testing.assert_allclose(found[[1, 4]], dense.asnumpy()[[1, 4]], rtol=1e-4, atol=1e-6)


WEIGHT = np.arange(1, 9, dtype="float32").reshape(4, 2)


def changed_rows(dtype="float32"):
    return mx.nd.sparse.row_sparse_array((np.array([[.5, 1], [2, -1]], dtype), [1, 3]), shape=(4, 2), dtype=dtype)


def test_where_mxnet_has_no_lazy_update_all_rows_change():
    """MXNet's numbers: dense weights under ftrl, weights of 16 bits, weights and states stored differently."""
    update = mx.optimizer.get_updater(mx.optimizer.Ftrl(learning_rate=0.1))
    weight = mx.nd.array(WEIGHT)
    for _ in range(2):
        update(0, changed_rows(), weight)
    np.testing.assert_allclose(weight.asnumpy(), [[0, 0], [0.9367, 1.9081], [0, 0], [4.5474, 4.0909]], atol=1e-4)
    update = mx.optimizer.get_updater(mx.optimizer.SGD(learning_rate=0.1, momentum=0.9, multi_precision=True, wd=0.1))
    weight = mx.nd.array(WEIGHT, dtype="float16")
    for _ in range(2):
        update(0, changed_rows("float16"), weight)
    np.testing.assert_allclose(weight.asnumpy(), [[0.9712, 1.9424], [2.7695, 3.5957], [4.8555, 5.8281],
                                                  [6.2188, 8.0547]], atol=1e-4)
    weight, mom = mx.nd.array(WEIGHT), (mx.nd.ones((4, 2)) / 4).tostype("row_sparse")
    found = mx.nd.sgd_mom_update(weight, changed_rows(), mom, lr=0.1)
    np.testing.assert_allclose(found.asnumpy(), [[1, 2], [2.95, 3.9], [5, 6], [6.8, 8.1]], rtol=1e-6)
    np.testing.assert_allclose(mom.asnumpy(), [[0, 0], [-0.05, -0.1], [0, 0], [-0.2, 0.1]], atol=1e-7)
    np.testing.assert_array_equal(weight.asnumpy(), WEIGHT)


@pytest.mark.parametrize("stype", ["default", "row_sparse"])
@pytest.mark.parametrize("name, states", [("sgd_update", 0), ("sgd_mom_update", 1), ("adam_update", 2)])
def test_a_lazy_update_changes_its_weight_or_nothing(name, states, stype):
    weight = mx.nd.array(WEIGHT).tostype(stype)
    arrays = [weight, changed_rows(), *[mx.nd.ones((4, 2)).tostype(stype) for _ in range(states)]]
    for out in (None, mx.nd.ones((4, 2)).tostype(stype)):
        with pytest.raises(mx.MXNetError, match="out must be the weight"):
            getattr(mx.nd, name)(*arrays, lr=0.1, out=out)
    for array, before in zip((weight, *arrays[2:]), (WEIGHT, 1, 1), strict=False):
        assert (array.asnumpy() == before).all()
    out = mx.nd.ones((4, 2)).tostype("default" if stype == "row_sparse" else "row_sparse")
    getattr(mx.nd, name)(*arrays, lr=0.1, out=out)  # no lazy form for these
    assert (weight.asnumpy() == WEIGHT).all() and not (out.asnumpy() == 1).all()


def test_programs_are_few_for_many_numbers_of_rows(compiles):
    weight = mx.nd.array(R.randn(64, 4))
    update = mx.optimizer.get_updater(mx.optimizer.SGD(learning_rate=0.1, momentum=0.9))

    def gradient(count):
        return mx.nd.sparse.row_sparse_array((np.ones((count, 4), "float32"), np.arange(count)), shape=(64, 4))
    for count in (3, 5):
        update(0, gradient(count), weight)
    place = address_of(weight)
    before = len(compiles)
    for count in range(1, 16):
        update(0, gradient(count), weight)
    assert len(compiles) == before
    assert address_of(weight) == place  # rows are written where they are


def test_other_operators_work_on_the_dense_value():
    a = sparse(A, "csr")
    for found, expected in [(mx.nd.exp(a), np.exp(A)), (mx.nd.max(a, axis=1), A.max(1)), (a.T, A.T)]:
        assert found.stype == "default"
        np.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-5)


def test_executors_with_sparse_arguments_stay_sparse():
    x, w = mx.sym.var("x", stype="csr"), mx.sym.var("w", stype="row_sparse")
    executor = mx.sym.dot(x, w).simple_bind(mx.cpu(), x=(3, 50), w=(50, 2), grad_req={"x": "null", "w": "write"})
    matrix = np.zeros((3, 50), "float32")
    matrix[0, 7], matrix[2, 31] = 2, 3
    executor.arg_dict["x"][:] = mx.nd.array(matrix).tostype("csr")
    executor.arg_dict["w"][:] = mx.nd.ones((50, 2)).tostype("row_sparse")
    np.testing.assert_allclose(executor.forward(is_train=True)[0].asnumpy(), matrix @ np.ones((50, 2)))
    for _ in range(2):
        executor.backward([mx.nd.ones((3, 2))])
        gradient = executor.grad_dict["w"]
        assert gradient.stype == "row_sparse" and gradient.indices.asnumpy().tolist() == [7, 31]
        np.testing.assert_allclose(gradient.data.asnumpy(), [[2, 2], [3, 3]])


def test_dense_computation_is_logged_once(caplog, monkeypatch):
    a = sparse(A, "csr")
    monkeypatch.setenv("MXNET_STORAGE_FALLBACK_LOG_VERBOSE", "0")
    mx.nd.cosh(a)
    assert not caplog.records
    monkeypatch.delenv("MXNET_STORAGE_FALLBACK_LOG_VERBOSE")
    for _ in range(2):
        mx.nd.abs(a)
        mx.nd.cosh(a)
    record, = caplog.records
    assert record.name == "mxjax" and "cosh" in record.message and "['csr']" in record.message


@pytest.mark.parametrize("stype", ["row_sparse", "default"])
def test_results_stay_sparse_while_recording(stype):
    rows = sparse(ROWS, "row_sparse")
    rows.attach_grad(stype=stype)
    with mx.autograd.record():
        square, sum_ = mx.nd.square(rows), rows * 2 + rows
    assert square.stype == sum_.stype == "row_sparse"
    mx.autograd.backward([square, sum_])
    assert rows.grad.stype == stype
    np.testing.assert_allclose(rows.grad.asnumpy(), 2 * ROWS + 3, rtol=1e-6)


def test_batch_norm_with_fixed_gamma_refuses_sparse_inputs():
    with pytest.raises(mx.MXNetError, match="fix_gamma"):
        mx.nd.BatchNorm(sparse(ROWS, "row_sparse"), *[mx.nd.ones(5)] * 4, fix_gamma=True)


@pytest.mark.parametrize("turned", [False, True])
def test_gradients_of_both_storages_add_up(turned):
    x, w = mx.nd.array(np.eye(3)).tostype("row_sparse"), mx.nd.ones((3, 3))
    x.attach_grad()
    w.attach_grad()
    with mx.autograd.record():
        sparse, dense = x * w, x + w
        total = dense + sparse if turned else sparse + dense
    total.backward()
    assert x.grad.stype == "row_sparse"
    np.testing.assert_array_equal(x.grad.asnumpy(), np.full((3, 3), 2))
    np.testing.assert_array_equal(w.grad.asnumpy(), 1 + np.eye(3))


def test_gradients_of_products_with_row_sparse_factors_need_no_dense_values(monkeypatch):
    v = np.where(np.isin(np.arange(5), [0, 2, 3])[:, None], DENSE, 0)
    dense = [mx.nd.array(A), mx.nd.array(v)]
    stored = [mx.nd.array(A).tostype("csr"), mx.nd.array(v).tostype("row_sparse")]
    for array in (dense[1], stored[1]):
        array.attach_grad()

    def total(x, table, squares):
        with mx.autograd.record():
            result = mx.nd.dot(x, table) * 3 + mx.nd.dot(mx.nd.square(x), squares(table))
        result.backward()
        return result.asnumpy()
    expected = total(*dense, lambda t: mx.nd.sum(t * t, axis=1, keepdims=True))
    with monkeypatch.context() as context:
        for kind in (mx.nd.sparse.CSRNDArray, mx.nd.sparse.RowSparseNDArray):
            context.setattr(kind, "_to_dense", lambda self: pytest.fail("a dense value was made"))
        found = total(*stored, lambda t: mx.nd._internal._square_sum(t, axis=1, keepdims=True))
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert stored[1].grad.stype == "row_sparse"
    np.testing.assert_allclose(stored[1].grad.asnumpy(), dense[1].grad.asnumpy(), rtol=1e-5)


@pytest.mark.parametrize("axis, keepdims", [(0, False), (1, False), (1, True)])
def test_gradient_of_summed_squares(axis, keepdims):
    rows = sparse(ROWS, "row_sparse")
    rows.attach_grad()
    with mx.autograd.record():
        found = mx.nd._internal._square_sum(rows, axis=axis, keepdims=keepdims)
    head = R.randn(*found.shape).astype("float32")
    found.backward(mx.nd.array(head))
    np.testing.assert_allclose(found.asnumpy(), (ROWS ** 2).sum(axis, keepdims=keepdims), rtol=1e-5)
    np.testing.assert_allclose(rows.grad.asnumpy(), 2 * ROWS * (head if keepdims else np.expand_dims(head, axis)),
                               rtol=1e-5)


@pytest.mark.parametrize("stype", ["csr", "row_sparse"])
@pytest.mark.parametrize("on_device", [False, True])
def test_copies_have_values_of_their_own(stype, on_device):
    array, target = sparse(ROWS, stype), mx.nd.sparse.zeros(stype, ROWS.shape)
    if on_device:
        array.data.wait_to_read()
    copies = [array.copy(), array.copyto(mx.cpu()), array.copyto(target)]
    for copy in copies:
        copy.data[:] = 7
        np.testing.assert_array_equal(copy.asnumpy(), ROWS, "what `data` returns is a copy, too")
        copy[:] = mx.nd.sparse.zeros(stype, ROWS.shape)
        assert not copy.asnumpy().any()
    np.testing.assert_array_equal(array.asnumpy(), ROWS)
    array.asnumpy()[:] = 5
    np.testing.assert_array_equal(array.asnumpy(), ROWS)


def test_what_the_host_does_compiles_nothing(compiles):
    store = mx.kv.create("local")
    store.init("table", mx.nd.ones((64, 4)).tostype("row_sparse"))
    before = None
    for count in range(1, 12):
        rows = mx.nd.sparse.row_sparse_array((np.ones((count, 4), "float32"), np.arange(count)), shape=(64, 4))
        x = mx.nd.sparse.csr_matrix((np.ones(count, "float32"), np.arange(count), [0, count]), shape=(1, 64))
        pulled = mx.nd.sparse.zeros("row_sparse", (64, 4))
        store.row_sparse_pull("table", out=pulled, row_ids=x.indices)
        np.testing.assert_array_equal(pulled.data.asnumpy(), np.ones((count, 4)))
        np.testing.assert_array_equal((rows + pulled).copy().retain(mx.nd.array([0])).asnumpy()[0], np.full(4, 2))
        np.testing.assert_array_equal(mx.nd.dot(x, pulled).asnumpy(), np.full((1, 4), count))
        np.testing.assert_array_equal(mx.nd.square(rows).asnumpy(), rows.asnumpy())
        before = len(compiles) if count == 3 else before  # what has one shape is compiled at its third call
    assert len(compiles) == before


def test_unsorted_columns_are_sorted_in_a_copy():
    array = mx.nd.sparse.csr_matrix(([1.0, 2, 3], [2, 0, 1], [0, 2, 3]), shape=(2, 3))
    found = sparse_operators.from_scipy(sparse_operators.as_scipy(array), array)
    assert found.indices.asnumpy().tolist() == [0, 2, 1] and found.data.asnumpy().tolist() == [2, 1, 3]
    assert array.indices.asnumpy().tolist() == [2, 0, 1] and array.data.asnumpy().tolist() == [1, 2, 3]


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("look", [False, True])
def test_graphs_with_lookups_have_gradients_by_rows(tied, look):
    x, table = mx.sym.var("x"), mx.sym.var("table")
    rows = mx.sym.BatchNorm(mx.sym.Embedding(x, table, input_dim=10, output_dim=3, sparse_grad=True), axis=-1,
                            name="norm")
    call = mx.nd.CachedOp(mx.sym.dot(rows, mx.sym.transpose(table)) if tied else mx.sym.tanh(rows))
    value = R.randn(10, 3).astype("float32")
    ids = mx.nd.array([[1, 7], [7, 2]])
    found = {}
    for stype in ("row_sparse", "default"):
        weight, others = mx.nd.array(value), [mx.nd.ones(3), mx.nd.zeros(3), mx.nd.zeros(3), mx.nd.ones(3)]
        weight.attach_grad(stype=stype)
        others[0].attach_grad()
        for _ in range(2):
            with mx.autograd.record():
                out = call(ids, weight, *others)
                if look:  # the forward runs by itself
                    out.wait_to_read()
                loss = (out ** 2).sum()
            loss.backward()
            assert weight.grad.stype == stype
        found[stype] = [a.asnumpy() for a in (loss, weight.grad, others[0].grad, *others)]
        if stype == "row_sparse" and not tied:
            assert weight.grad.indices.asnumpy().tolist() == [1, 2, 7]
            runs = runs_of(call)
            programs = [run.__self__ for run in runs if hasattr(run, "__self__")]
            assert len(programs) == 1 and "table" not in inputs_of(programs[0])  # no program makes a dense gradient
    for one, other in zip(*found.values(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    assert (found["default"][5] != 0).all()  # the moving mean: updated by both


def test_graphs_of_sparse_arrays_stay_sparse():
    x = mx.sym.var("x")
    call = mx.nd.CachedOp(mx.sym.square(x) * 2)
    for stype, value in (("csr", A), ("row_sparse", ROWS)):
        found = call(sparse(value, stype))
        assert found.stype == stype
        np.testing.assert_allclose(found.asnumpy(), 2 * value ** 2, rtol=1e-6)
    with pytest.raises(ValueError, match="csr"):
        sparse(A, "csr").as_np_ndarray()


def test_functions_of_users_come_after_the_compiled_walk():
    class Double(mx.autograd.Function):
        def forward(self, x):
            return 2 * x

        def backward(self, head):
            return 2 * head
    call = mx.nd.CachedOp(mx.sym.tanh(mx.sym.var("x")) * 3)
    x = mx.nd.array([0.1, -0.4])
    x.attach_grad()
    with mx.autograd.record():
        out = call(Double()(x)) + x
    out.backward()
    np.testing.assert_allclose(x.grad.asnumpy(), 6 / np.cosh(2 * x.asnumpy()) ** 2 + 1, rtol=1e-5)


@pytest.mark.parametrize("name, asks", [("contrib.SparseEmbedding", {}), ("Embedding", {"sparse_grad": True}),
                                        ("Embedding", {})])
def test_lookups_in_tables_that_are_sparse_themselves(name, asks, caplog):
    value = np.zeros((10, 3), "float32")
    value[[1, 2, 7]] = R.randn(3, 3)
    x, table = mx.nd.array([[1, 7], [7, 4]]), mx.nd.array(value).tostype("row_sparse")
    function = operator.attrgetter(name)
    for stype in ("row_sparse", "default"):
        table.attach_grad(stype=stype)
        caplog.clear()
        with mx.autograd.record():
            picked = function(mx.nd)(x, table, input_dim=10, output_dim=3, **asks)
        x[:] = 0  # what was looked up counts, not what the array holds by then
        picked.backward()
        x[:] = np.array([[1, 7], [7, 4]])
        assert "fallback" not in caplog.text
        np.testing.assert_array_equal(picked.asnumpy(), value[[[1, 7], [7, 4]]])
        assert table.grad.stype == stype
        np.testing.assert_array_equal(table.grad.asnumpy()[:, 0], [0, 1, 0, 0, 1, 0, 0, 2, 0, 0])
    with pytest.raises(mx.MXNetError, match="weight must have shape"):
        function(mx.nd)(x, table, input_dim=9, output_dim=3, **asks)
    out = function(mx.sym)(mx.sym.var("x"), mx.sym.var("table"), input_dim=10, output_dim=3, **asks)
    executor = out.simple_bind(mx.cpu(), x=(2, 2), grad_req={"x": "null", "table": "write"})
    executor.forward(is_train=True, x=x, table=mx.nd.array(value))
    executor.backward(mx.nd.ones((2, 2, 3)))
    assert executor.grad_dict["table"].stype == ("row_sparse" if name != "Embedding" or asks else "default")
    np.testing.assert_array_equal(executor.grad_dict["table"].asnumpy()[:, 0], [0, 1, 0, 0, 1, 0, 0, 2, 0, 0])


def test_hypot_of_unsorted_columns():
    array = mx.nd.sparse.csr_matrix(([3.0, 5, 8], [2, 0, 1], [0, 2, 3]), shape=(2, 3))
    found = mx.nd._internal._hypot(array, array)
    np.testing.assert_allclose(found.asnumpy(), array.asnumpy() * 2 ** 0.5, rtol=1e-6)


@pytest.mark.parametrize("data, indices, indptr, told", [
    ([1, 2], [0, 10 ** 8], [0, 1, 2], "column index 100000000 is out of bounds; the size is 3"),
    ([1, 2], [0, -1], [0, 1, 2], "column index -1"),
    ([1, 2], [0, 1], [1, 1, 2], "got 3 values from 1 to 2"),
    ([1, 2], [0, 1], [0, 1, 3], "got 3 values from 0 to 3"),
    ([1, 2], [0, 1], [0, 1, 1], "got 3 values from 0 to 1"),
    ([1, 2], [0, 1], [0, 3, 2], "at row 1 it goes from 3 to 2"),
    ([1, 2], [0, 1], [0, -9, 2], "at row 0 it goes from 0 to -9"),
])
def test_csr_is_checked_when_it_is_made(data, indices, indptr, told):
    with pytest.raises(mx.MXNetError, match=told):
        mx.nd.sparse.csr_matrix((data, indices, indptr), shape=(2, 3))
    with pytest.raises(mx.MXNetError, match=told):
        mx.nd.sparse.csr_matrix((mx.nd.array(data), mx.nd.array(indices, dtype="int64"),
                                 mx.nd.array(indptr, dtype="int64")), shape=(2, 3))


@pytest.mark.parametrize("indices, told", [
    ([-1, 1], "row index -1 is out of bounds; the size is 3"), ([1, 3], "row index 3"),
    ([1, 1], "row indices must be in ascending order, got 1 after 1")])
def test_row_sparse_is_checked_when_it_is_made(indices, told):
    with pytest.raises(mx.MXNetError, match=told):
        mx.nd.sparse.row_sparse_array(([[1, 2], [3, 4]], indices), shape=(3, 2))


def test_columns_in_any_order_within_a_row():
    array = mx.nd.sparse.csr_matrix(([1, 2, 3], [2, 0, 1], [0, 2, 3]), shape=(2, 3))
    assert array.asnumpy().tolist() == [[2, 0, 1], [0, 3, 0]]
    assert (array + array).asnumpy().tolist() == [[4, 0, 2], [0, 6, 0]]
    array.check_format(full_check=False)
    with pytest.raises(mx.MXNetError, match="must be in ascending order within each row"):
        array.check_format()


def test_columns_that_come_twice_in_a_row():
    """As hashed features have them: MXNet's `dot` adds them, its dense array has the last one."""
    array = mx.nd.sparse.csr_matrix(([1, 2, 4, 8], [1, 1, 3, 0], [0, 3, 4]), shape=(2, 4))
    assert array.asnumpy().tolist() == [[0, 2, 0, 4], [8, 0, 0, 0]] and array.indices.asnumpy().tolist() == [1, 1, 3, 0]
    weight = mx.nd.array(np.arange(1, 9).reshape(4, 2))
    weight.attach_grad(stype="row_sparse")
    with mx.autograd.record():
        out = mx.nd.sparse.dot(array, weight)
    out.backward()
    assert out.asnumpy().tolist() == [[37, 44], [8, 16]]
    assert weight.grad.asnumpy().tolist() == [[8, 8], [3, 3], [0, 0], [4, 4]]
    assert mx.nd.sparse.sum(array, axis=1).asnumpy().tolist() == [7, 8]
    assert (array + array).asnumpy().tolist() == [[0, 6, 0, 8], [16, 0, 0, 0]]
    with pytest.raises(mx.MXNetError, match="must be in ascending order within each row"):
        array.check_format()


@pytest.mark.parametrize("make", [np.array, mx.nd.array])
def test_rows_in_any_order(make):
    array = mx.nd.sparse.row_sparse_array((make([[1, 2], [3, 4], [5, 6]]), make([3, 0, 2])), shape=(4, 2))
    assert array.asnumpy().tolist() == [[3, 4], [0, 0], [5, 6], [1, 2]]
    assert array.retain(mx.nd.array([0, 3])).asnumpy().tolist() == [[3, 4], [0, 0], [0, 0], [1, 2]]
    array.check_format()


def test_index_arrays_are_copies():
    array = mx.nd.sparse.csr_matrix(([1, 2], [0, 1], [0, 1, 2]), shape=(2, 3))
    array.indices[:], array.indptr[:] = 10 ** 6, 5
    assert array.asnumpy().tolist() == [[1, 0, 0], [0, 2, 0]] and array.indptr.asnumpy().tolist() == [0, 1, 2]
    rows = mx.nd.sparse.row_sparse_array(([[1, 2]], [1]), shape=(3, 2))
    rows.indices[:] = -1
    assert rows.asnumpy().tolist() == [[0, 0], [1, 2], [0, 0]]


def test_damaged_files_of_sparse_arrays(tmp_path):
    path = str(tmp_path / "x.params")
    good = mx.nd.sparse.csr_matrix(([1, 2], [300, 700], [0, 1, 2]), shape=(2, 999))
    mx.nd.save(path, [good, mx.nd.sparse.row_sparse_array(([[1, 2]], [1]), shape=(3, 2))])
    raw = open(path, "rb").read()
    columns = raw.index(np.array([300, 700], "<i8").tobytes())
    for place, new in [(columns + 8, 10 ** 8), (columns, -1), (len(raw) - 16, -1)]:  # the last: before the names
        open(path, "wb").write(raw[:place] + np.array([new], "<i8").tobytes() + raw[place + 8:])
        with pytest.raises(mx.MXNetError, match=r"x\.params: .*out of bounds.* at offset"):
            mx.nd.load(path)


@pytest.mark.parametrize("stype", ["csr", "row_sparse"])
def test_16_bit_floats(stype):
    dense = mx.nd.array([[1, 0], [0, 2]], dtype="float16")
    sparse = dense.tostype(stype)
    assert sparse.dtype == np.float16 and (sparse * 2).stype == mx.nd.contrib.round_ste(sparse).stype == stype
    np.testing.assert_array_equal(sparse.tostype("default").asnumpy(), dense.asnumpy())
    np.testing.assert_array_equal((sparse + sparse).asnumpy(), 2 * dense.asnumpy())
    np.testing.assert_array_equal(mx.nd._internal._mod_scalar(sparse, scalar=2).asnumpy(), [[1, 0], [0, 0]])


@pytest.mark.parametrize("stype, other", [("csr", "row_sparse"), ("row_sparse", "csr")])
def test_what_is_written_over_keeps_its_dtype_and_shape(stype, other):
    dense = mx.nd.array([[0, 1.5], [0, 0], [2, 3]])
    given = dense.tostype(stype)
    for write in (given.copyto, lambda target: target.__setitem__(slice(None), given),
                  lambda target: mx.nd.elemwise_add(given, mx.nd.sparse.zeros(stype, (3, 2)), out=target)):
        target = mx.nd.sparse.zeros(stype, (3, 2), dtype="float16")
        write(target)
        assert target.stype == stype and target.dtype is target.data.dtype is np.float16
        np.testing.assert_array_equal(target.asnumpy(), dense.asnumpy().astype(np.float16))
    for shape in ((4, 2), (3, 3)):
        target = mx.nd.sparse.zeros(stype, shape)
        with pytest.raises(mx.MXNetError, match=r"shapes \(3, 2\) and .* differ"):
            target[:] = given
        assert target.shape == shape and not target.asnumpy().any()
    with pytest.raises(TypeError, match=f"destination NDArray stype {other}"):
        given.copyto(mx.nd.sparse.zeros(other, (3, 2)))


def stored(array):
    return array.indices.asnumpy().tolist(), array.data.asnumpy().tolist()


@pytest.mark.parametrize("wanted, rows", [([0, 2], [[0, 0], [3, 4]]), ([0, 3], [[0, 0], [0, 0]]), ([7], [[0, 0]]),
                                          ([2, 1], [[3, 4], [1, 2]]), ([1, 1], [[1, 2], [1, 2]])])
def test_retain_gives_the_rows_that_were_asked_for(wanted, rows):
    array = mx.nd.array([[0, 0], [1, 2], [3, 4], [0, 0]]).tostype("row_sparse")
    assert stored(mx.nd.sparse.retain(array, mx.nd.array(wanted))) == (wanted, rows)
    graph = mx.sym.sparse.retain(mx.sym.var("a", stype="row_sparse"), mx.sym.var("i"))
    result = graph.bind(mx.cpu(), {"a": array, "i": mx.nd.array(wanted, dtype="int64")}).forward()[0]
    assert stored(result) == (wanted, rows)


def test_retain_of_nothing_and_beyond_the_array():
    nothing = mx.nd.sparse.zeros("row_sparse", (4, 2))
    assert stored(mx.nd.sparse.retain(nothing, mx.nd.array([1]))) == ([], [])
    full = mx.nd.ones((4, 2)).tostype("row_sparse")
    with pytest.raises(mx.MXNetError, match="row index 7 is out of bounds"):
        mx.nd.sparse.retain(full, mx.nd.array([7])).asnumpy()


def test_operators_read_rows_in_any_order(tmp_path):
    dense = np.array([[0, 0], [1, 2], [3, 4], [0, 0]], np.float32)
    array = mx.nd.array(dense).tostype("row_sparse")
    several = mx.nd.sparse.retain(array, mx.nd.array([3, 2, 2, 0]))
    value = dense * [[0], [0], [1], [1]]
    np.testing.assert_array_equal(several.asnumpy(), value)
    for result in (several + array, mx.nd.add_n(several, array)):
        assert result.stype == "row_sparse"
        np.testing.assert_array_equal(result.asnumpy(), value + dense)
    np.testing.assert_array_equal((several * array).asnumpy(), value * dense)
    mx.nd.save(str(tmp_path / "a"), [several])
    np.testing.assert_array_equal(mx.nd.load(str(tmp_path / "a"))[0].asnumpy(), value)
    again = mx.nd.sparse.retain(several, mx.nd.array([2, 1]))
    assert stored(again) == ([2, 1], [[3, 4], [0, 0]])


def test_gradient_of_retain_has_each_row_once():
    array = mx.nd.array([[0, 0], [1, 2], [3, 4], [0, 0]]).tostype("row_sparse")
    array.attach_grad()
    with mx.autograd.record():
        total = (mx.nd.sparse.retain(array, mx.nd.array([2, 0])).tostype("default") * 2).sum()
    total.backward()
    np.testing.assert_array_equal(array.grad.asnumpy(), [[2, 2], [0, 0], [2, 2], [0, 0]])


def test_lazy_updates_take_rows_of_zeros_too():
    """Momentum and weight decay move the rows that a gradient has, also where it is zero."""
    weight, moment = mx.nd.ones((4, 2)).tostype("row_sparse"), mx.nd.zeros((4, 2)).tostype("row_sparse")
    array = mx.nd.array([[0, 0], [1, 2], [3, 4], [0, 0]]).tostype("row_sparse")
    mx.nd.sparse.sgd_mom_update(weight, mx.nd.sparse.retain(array, mx.nd.array([0, 2])), moment, out=weight, lr=0.1,
                                momentum=0.9, wd=0.1)
    np.testing.assert_allclose(weight.asnumpy(), [[0.99, 0.99], [1, 1], [0.69, 0.59], [1, 1]], rtol=1e-6)


@pytest.mark.parametrize("value, rows", [(0, [0, 1, 2, 3]), (1.5, [0, 1, 2, 3]), (np.zeros((4, 2)), [])])
def test_a_number_is_assigned_to_every_row(value, rows):
    array = mx.nd.sparse.zeros("row_sparse", (4, 2))
    array[:] = value
    assert array.indices.asnumpy().tolist() == rows


def test_rows_of_a_parameter_of_zeros():
    parameter = mx.gluon.Parameter("w", shape=(4, 2), stype="row_sparse", grad_stype="row_sparse")
    parameter.initialize(mx.init.Zero())
    mx.gluon.Trainer([parameter], "sgd")
    assert stored(parameter.row_sparse_data(mx.nd.array([3, 1, 3]))) == ([1, 3], [[0, 0], [0, 0]])


def test_sparse_arrays_of_different_dtypes_are_refused():
    rows = mx.nd.sparse.row_sparse_array((np.ones((1, 2)), [1]), shape=(4, 2))
    weight = mx.nd.ones((4, 2)).tostype("row_sparse")
    with pytest.raises(mx.MXNetError, match="weight float32, grad float64"):
        mx.nd.sparse.sgd_update(weight, rows, out=weight, lr=0.1)
    with pytest.raises(mx.MXNetError, match="the same dtype, got lhs float64, rhs float32"):
        mx.nd.sparse.elemwise_add(rows, weight)


def test_a_length_of_numpys():
    assert mx.nd.sparse.zeros("row_sparse", np.int64(3)).shape == (3,)


@pytest.mark.parametrize(("make", "value", "error"), [
    (mx.nd.sparse.csr_matrix, 2, ValueError), (mx.nd.sparse.csr_matrix, [1, 2], ValueError),
    (mx.nd.sparse.row_sparse_array, 0.5, mx.MXNetError), (mx.nd.sparse.row_sparse_array, (2,), ValueError)])
def test_values_that_are_no_rows(make, value, error):
    with pytest.raises(error, match="dimension"):
        make(value)


def test_conversions_that_mxnet_refuses():
    matrix = mx.nd.ones((1, 1)).tostype("csr")
    with pytest.raises(ValueError, match="csr array cannot be cast to row_sparse"):
        matrix.tostype("row_sparse")
    with pytest.raises(NotImplementedError, match="asscalar"):
        matrix.asscalar()
    with pytest.raises(TypeError, match=r"int\(\) of a CSRNDArray"):
        int(matrix)


M = np.array([[0, 1, 0], [2, 0, 3], [0, 0, 0]], "float32")


def parts(array):
    """Returns (storage type, shape, dtype, the stored arrays as lists)."""
    index = [array.indices, array.indptr] if array.stype == "csr" else [array.indices]
    return array.stype, array.shape, np.dtype(array.dtype).name, [p.asnumpy().tolist() for p in (array.data, *index)]


@pytest.mark.parametrize("arg, options, dtype, shape, stored", [
    ((2, 3), {}, "float32", (2, 3), [[], [], [0, 0, 0]]),
    (([1, 2, 3], ([0, 1, 1], [2, 0, 1])), {}, "int64", (2, 3), [[1, 2, 3], [2, 0, 1], [0, 1, 3]]),
    (([1.0, 2, 3], ([1, 0, 1], [2, 0, 2])), {"shape": (3, 4)}, "float64", (3, 4), [[2, 4], [0, 2], [0, 1, 2, 2]]),
    ((mx.nd.array([1, 2]), (mx.nd.array([1, 0]), mx.nd.array([2, 0]))), {"dtype": "int32"}, "int32", (2, 3),
     [[2, 1], [0, 2], [0, 1, 2]]),
    (([1, 2], [0, 1], [0, 1, 2]), {}, "float32", (2, 2), [[1, 2], [0, 1], [0, 1, 2]]),
    (([], [], [0, 0]), {"shape": (1, 3)}, "float32", (1, 3), [[], [], [0, 0]]),
    (mx.nd.array(M).tostype("csr"), {"dtype": "float64"}, "float64", (3, 3), [[1, 2, 3], [1, 0, 2], [0, 1, 3, 3]]),
    (M.tolist(), {}, "float32", (3, 3), [[1, 2, 3], [1, 0, 2], [0, 1, 3, 3]]),
])
def test_csr_arrays_of_all_forms(arg, options, dtype, shape, stored):
    """Results of MXNet 1.9.1."""
    made = mx.nd.sparse.csr_matrix(arg, **options)
    assert parts(made) == ("csr", shape, dtype, stored)
    assert parts(pickle.loads(pickle.dumps(made))) == parts(made) == parts(mx.nd.sparse.array(made))
    assert parts(mx.nd.sparse.array(made.asscipy()))[2:] == parts(made)[2:]


@pytest.mark.parametrize("arg, options, dtype, shape, stored", [
    ((2, 3), {"dtype": "int32"}, "int32", (2, 3), [[], []]), ((2, 3, 4), {}, "float32", (2, 3, 4), [[], []]),
    (([[1, 2], [3, 4]], [1, 4]), {}, "float32", (5, 2), [[[1, 2], [3, 4]], [1, 4]]),
    (([[1, 2], [3, 4]], [1, 4]), {"shape": (6, 2), "dtype": "int32"}, "int32", (6, 2), [[[1, 2], [3, 4]], [1, 4]]),
    (mx.nd.array(M).tostype("row_sparse"), {}, "float32", (3, 3), [[[0, 1, 0], [2, 0, 3]], [0, 1]]),
    (M.astype("float64"), {}, "float64", (3, 3), [[[0, 1, 0], [2, 0, 3]], [0, 1]]),
])
def test_row_sparse_arrays_of_all_forms(arg, options, dtype, shape, stored):
    """Results of MXNet 1.9.1."""
    made = mx.nd.sparse.row_sparse_array(arg, **options)
    assert parts(made) == ("row_sparse", shape, dtype, stored)
    assert parts(pickle.loads(pickle.dumps(made))) == parts(made) == parts(mx.nd.sparse.array(made))


@pytest.mark.parametrize("call, error, told", [
    (lambda s, csr, rows: s.csr_matrix((2, 3), shape=(2, 4)), ValueError, r"shape \(2, 4\) does not match .*\(2, 3\)"),
    (lambda s, csr, rows: s.csr_matrix((1, 2, 3, 4)), ValueError, r"expects \(data, indices, indptr\).*got 4 parts"),
    (lambda s, csr, rows: s.csr_matrix(([1, 2, 3], [0, 1]), shape=(2, 3)), ValueError, "got 2 parts"),
    (lambda s, csr, rows: s.csr_matrix(([], [], [0, 0])), ValueError, "shape is required"),
    (lambda s, csr, rows: s.csr_matrix(rows), ValueError, "cannot convert a row_sparse array to csr"),
    (lambda s, csr, rows: s.csr_matrix(M, shape=(3, 4)), ValueError, r"shape \(3, 4\) does not match"),
    (lambda s, csr, rows: s.csr_matrix(([1], [0], [0, 1, 1, 1]), shape=(2, 2)), ValueError, "indptr must contain 3"),
    (lambda s, csr, rows: s.row_sparse_array(([], [])), ValueError, "shape is required"),
    (lambda s, csr, rows: s.row_sparse_array(csr), ValueError, "cannot convert a csr array to row_sparse"),
    (lambda s, csr, rows: s.row_sparse_array(([[1, 2]], [1, 4])), ValueError, "got 2 row indices"),
    (lambda s, csr, rows: s.row_sparse_array(([[1, 2]], [1]), shape=(6, 3)), ValueError, r"rows of shape \(3,\)"),
    (lambda s, csr, rows: s.array(M), ValueError, "source_array must be a sparse NDArray"),
    (lambda s, csr, rows: s.zeros("odd", (2, 3)), ValueError, "unknown storage type 'odd'"),
    (lambda s, csr, rows: s.retain(csr, mx.nd.array([0])), mx.MXNetError, "retain expects a row_sparse array"),
    (lambda s, csr, rows: s.cast_storage(rows, "odd"), mx.MXNetError, "row_sparse array cannot be cast to odd"),
    (lambda s, csr, rows: s.cast_storage(mx.nd.ones(2), "odd"), mx.MXNetError, "unknown storage type 'odd'"),
    (lambda s, csr, rows: s.cast_storage(mx.nd.ones(2), "csr"), mx.MXNetError, r"as csr, got shape \(2,\)"),
    (lambda s, csr, rows: s.cast_storage(stype="csr"), mx.MXNetError, "expects an array"),
    (lambda s, csr, rows: csr.reshape((9,)), mx.base.NotSupportedForSparseNDArray, "reshape with arguments"),
    (lambda s, csr, rows: csr[0:2:2], ValueError, "csr array cannot be indexed with slice"),
    (lambda s, csr, rows: csr[1, 2], ValueError, r"csr array cannot be indexed with \(1, 2\)"),
    (lambda s, csr, rows: rows[0], Exception, "row_sparse array cannot be indexed with 0"),
    (lambda s, csr, rows: csr[5], IndexError, "row 5 is out of range for a csr array with 3 rows"),
    (lambda s, csr, rows: csr.copyto(rows), TypeError, "stype row_sparse for csr"),
    (lambda s, csr, rows: csr.copyto(3), TypeError, "copyto expects an NDArray or a context"),
    (lambda s, csr, rows: csr.copyto(s.zeros("csr", (2, 3))), mx.MXNetError, r"\(3, 3\) and \(2, 3\) differ"),
    (lambda s, csr, rows: mx.nd.take(csr, mx.nd.array([5]), mode="raise"), mx.MXNetError, "out of range"),
])
def test_mistakes_are_named(call, error, told):
    with pytest.raises(error, match=told):
        call(mx.nd.sparse, mx.nd.array(M).tostype("csr"), mx.nd.array(M).tostype("row_sparse"))


WIDE = M + 1
OPERATORS = {
    "take": (lambda c, r, d: mx.nd.take(c, mx.nd.array([1, 5, -1])), "csr", M[[1, 2, 0]]),
    "take, wrapped": (lambda c, r, d: mx.nd.take(c, mx.nd.array([4, -1]), mode="wrap"), "csr", M[[1, 2]]),
    "take of columns": (lambda c, r, d: mx.nd.take(c, mx.nd.array([1]), axis=1), "default", M[:, [1]]),
    "take, checked": (lambda c, r, d: mx.nd.take(c, mx.nd.array([2, 0]), mode="raise"), "default", M[[2, 0]]),
    "product by a vector's rows": (lambda c, r, d: mx.nd.dot(c, d, transpose_b=True), "default", M @ WIDE.T),
    "division": (lambda c, r, d: mx.nd._internal._scatter_elemwise_div(c, d), "default", M / WIDE),
    "division of rows": (lambda c, r, d: mx.nd._internal._scatter_elemwise_div(r, d), "row_sparse", M / WIDE),
    "quadratic": (lambda c, r, d: mx.nd.contrib.quadratic(c, a=2, b=3, c=0), "csr", 2 * M * M + 3 * M),
    "quadratic with c": (lambda c, r, d: mx.nd.contrib.quadratic(c, a=2, b=3, c=1), "default", 2 * M * M + 3 * M + 1),
    "quadratic of rows": (lambda c, r, d: mx.nd.contrib.quadratic(r, a=2, b=3), "default", 2 * M * M + 3 * M),
    "zeros_like": (lambda c, r, d: mx.nd.zeros_like(r), "row_sparse", 0 * M),
    "sum of two storages": (lambda c, r, d: mx.nd.elemwise_add(c, r), "default", 2 * M),
    "products of stored values": (lambda c, r, d: mx.nd.elemwise_mul(c, d), "csr", M * WIDE),
    "product of two storages": (lambda c, r, d: mx.nd.elemwise_mul(c, r), "default", M * M),
    "broadcast_mul of rows": (lambda c, r, d: mx.nd.broadcast_mul(r, d), "default", M * WIDE),
    "broadcast_mul of two": (lambda c, r, d: mx.nd.broadcast_mul(c, c), "default", M * M),
    "broadcast_div": (lambda c, r, d: mx.nd.broadcast_div(c, mx.nd.array([[1], [2], [4]])), "csr", M / [[1], [2], [4]]),
    "add_n of rows": (lambda c, r, d: mx.nd.add_n(r, r, r), "row_sparse", 3 * M),
    "add_n of csr": (lambda c, r, d: mx.nd.add_n(c, c), "default", 2 * M),
    "norm": (lambda c, r, d: mx.nd.norm(r), "default", np.array([14**0.5], "float32")),
    "norms": (lambda c, r, d: mx.nd.norm(c, axis=0), "default", np.array([2, 1, 3])),
    "slice with steps": (lambda c, r, d: mx.nd.slice(c, (0,), (3,), (2,)), "default", M[::2]),
    "slice": (lambda c, r, d: mx.nd.slice(c, (0, 1), (2, 3)), "csr", M[:2, 1:3]),
    "squares": (lambda c, r, d: mx.nd._internal._square_sum(r), "default", np.array(14)),
    "sums of rows": (lambda c, r, d: mx.nd.sum(c, axis=0, exclude=True), "default", M.sum(1)),
    "embedding": (lambda c, r, d: mx.nd.Embedding(mx.nd.array([1, 0]), c, input_dim=3, output_dim=3), "default",
                  M[[1, 0]]),
    "clip": (lambda c, r, d: mx.nd.clip(c, -1, 2), "csr", M.clip(-1, 2)),
    "clip away from zero": (lambda c, r, d: mx.nd.clip(c, 1, 2), "default", M.clip(1, 2)),
    "a product with a vector": (lambda c, r, d: mx.nd.dot(c, mx.nd.array([1, 2, 3])), "default", M @ [1, 2, 3]),
    "a number for all": (lambda c, r, d: (c.__setitem__(slice(None), 3), c)[1], "csr", np.full((3, 3), 3)),
    "a dense array": (lambda c, r, d: r.copyto(mx.nd.zeros((3, 3))), "default", M),
    "no storage": (lambda c, r, d: mx.nd.sparse.zeros("default", (2, 3)), "default", np.zeros((2, 3))),
    "product kept dense": (lambda c, r, d: mx.nd.dot(d, c, forward_stype="default"), "default", WIDE @ M),
    "product": (lambda c, r, d: mx.nd.dot(d, c), "csr", WIDE @ M),
    "transposed product": (lambda c, r, d: mx.nd.dot(d, c, transpose_a=True), "default", WIDE.T @ M),
    "product of a cube": (lambda c, r, d: mx.nd.dot(mx.nd.ones((2, 2, 3)), c), "default", [[M.sum(0)] * 2] * 2),
    "embedding of all rows": (lambda c, r, d: mx.nd.Embedding(mx.nd.array([2, 0]), d.tostype("row_sparse"), input_dim=3,
                                                              output_dim=3), "default", WIDE[[2, 0]]),
    "many stored values": (lambda c, r, d: mx.nd.square(mx.nd.full((300, 300), 3).tostype("csr"))[:1], "csr",
                           np.full((1, 300), 9)),
    "a value retained in out": (lambda c, r, d: mx.nd.sparse.retain(r, mx.nd.array([1]),
                                                                    out=mx.nd.sparse.zeros("row_sparse", (3, 3))),
                                "row_sparse", M * [[0], [1], [0]]),
    "empty": (lambda c, r, d: mx.nd.sparse.empty("csr", (2, 3)), "csr", np.zeros((2, 3))),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_what_is_computed_sparse_and_what_is_not(name):
    """Storage types and numbers are those of MXNet 1.9.1, where it does not raise."""
    call, stype, wanted = OPERATORS[name]
    found = call(mx.nd.array(M).tostype("csr"), mx.nd.array(M).tostype("row_sparse"), mx.nd.array(WIDE))
    assert found.stype == stype
    value = found.asnumpy()
    np.testing.assert_allclose(np.nan_to_num(value), np.broadcast_to(wanted, value.shape), rtol=1e-6)
    assert value.size == np.size(wanted)


def test_shown_and_awaited():
    matrix, rows = mx.nd.array(M).tostype("csr"), mx.nd.array(M).tostype("row_sparse")
    assert repr(matrix) == "\n<CSRNDArray 3x3 @cpu(0)>" and str(rows) == "\n<RowSparseNDArray 3x3 @cpu(0)>"
    assert (matrix._num_aux, rows._num_aux) == (2, 1) and rows[:] is rows
    assert matrix.wait_to_read() is rows.wait_to_read() is None


@pytest.mark.parametrize("rows", [[0, 2], [2, 0], [2, 2], [2, 0, 2]])
def test_sums_of_single_rows(rows):
    found = mx.nd.add_n(*[mx.nd.sparse.row_sparse_array(([[1, 2]], [i]), shape=(4, 2)) for i in rows])
    assert found.indices.asnumpy().tolist() == sorted(set(rows))
    assert found.asnumpy().tolist() == [[rows.count(i), 2 * rows.count(i)] for i in range(4)]


def test_gradient_of_a_product_with_a_transposed_csr_array():
    """Results of MXNet 1.9.1."""
    x = mx.nd.array([[1, 2], [3, 4], [5, 6]])
    x.attach_grad()
    with mx.autograd.record():
        product = mx.nd.sparse.dot(sparse(M, "csr"), x, transpose_a=True)
    product.backward()
    assert product.stype == "row_sparse" and product.asnumpy().tolist() == [[6, 8], [1, 2], [9, 12]]
    assert x.grad.asnumpy().tolist() == [[1, 1], [5, 5], [0, 0]]


@pytest.mark.parametrize("stype", ["csr", "row_sparse"])
def test_a_single_sparse_array_is_no_npz(tmp_path, stype):
    from mxjax.array import file_format
    with pytest.raises(mx.MXNetError, match=f"single array in .npz must be dense, got storage type {stype}"):
        file_format.write_numpy(str(tmp_path / "x.npz"), sparse(M, stype))
    np.savez(tmp_path / "y.npz", **{"a/format": np.array(b"csr"), "a/data": np.ones(1)})
    with pytest.raises(mx.MXNetError, match="a: the csr array lacks indices and indptr and shape"):
        mx.nd.load(str(tmp_path / "y.npz"))
    assert not (tmp_path / "x.npz").exists()
