"""mx.test_utils: finite differences, comparisons, files."""

import gzip
import struct

import numpy as np
import pytest

import mxjax as mx
from mxjax import test_utils as utils
from mxjax.test_utils import check_numeric_gradient, numeric_grad


@pytest.mark.parametrize("function, expected", [
    (utils.default_rtols, {"float16": 1e-2, "float32": 1e-4, "float64": 1e-5, "bfloat16": 1e-2}),
    (utils.default_atols, {"float16": 1e-1, "float32": 1e-3, "float64": 1e-20, "bfloat16": 1e-1}),
    (utils.default_numeric_eps, {"float16": 1 / 64, "float32": 1 / 512, "float64": 1 / 16384})])
def test_tolerances_are_those_of_mxnet(function, expected):
    assert {dtype.name: value for dtype, value in function().items() if value} == expected
    if function is not utils.default_numeric_eps:
        assert {dtype.name for dtype, value in function().items() if not value} == {
            "bool", "int8", "uint8", "int32", "uint32", "int64", "uint64"}


def test_differences_of_arguments_in_any_order_and_dtype() -> None:
    graph = mx.sym.Variable("z") * mx.sym.Variable("a") + mx.sym.cast(mx.sym.Variable("m"), "float64")
    values = {"z": np.array([2.0, 3.0]), "a": np.array([5.0, 7.0]), "m": np.array([1.0, 2.0], "float32")}
    arrays = {k: mx.nd.array(v, dtype=v.dtype) for k, v in values.items()}
    executor = graph.bind(mx.cpu(), {k: v.copy() for k, v in arrays.items()})
    found = numeric_grad(executor, arrays, eps=1e-3, dtype=np.float64)
    for name, expected in (("z", [5, 7]), ("a", [2, 3]), ("m", [1, 1])):
        assert found[name].dtype == np.float64
        np.testing.assert_allclose(found[name], expected, rtol=1e-3 if name == "m" else 1e-9)


def test_a_wrong_gradient_is_noticed() -> None:
    class Wrong(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            self.assign(out_data[0], req[0], in_data[0] * 2)

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            self.assign(in_grad[0], req[0], out_grad[0] * 3)

    @mx.operator.register("test_utils_wrong")
    class WrongProp(mx.operator.CustomOpProp):
        def create_operator(self, ctx, shapes, dtypes):
            return Wrong()

    data = mx.sym.Variable("data")
    for graph in (mx.sym.Custom(data, op_type="test_utils_wrong"), mx.sym.BlockGrad(data)):
        with pytest.raises(AssertionError):
            check_numeric_gradient(graph, [np.ones((2, 2))], rtol=1e-2)


def test_star_import_gives_what_mxnet_programs_use() -> None:
    names: dict = {}
    exec("from mxjax.test_utils import *", names)
    for name in ("assert_almost_equal", "same", "rand_ndarray", "rand_shape_nd", "default_context", "environment",
                 "check_consistency", "verify_generator", "get_mnist_iterator", "download", "compare_optimizer", "mx",
                 "np", "rnd", "os", "use_np", "array", "Symbol"):
        assert name in names, name


def test_generators_are_tested_by_their_frequencies() -> None:
    rng = np.random.default_rng(0)
    buckets = [(-500, -361), (-361, -221), (-221, -81), (-81, 58), (58, 199)]
    probs = [(high - low) / 699 for low, high in buckets]
    mx.test_utils.verify_generator(lambda n: rng.integers(-500, 199, n), buckets, probs, nsamples=100000, nrepeat=10)
    with pytest.raises(AssertionError, match="passed 0 of 3"):
        mx.test_utils.verify_generator(lambda n: rng.integers(-500, 150, n), buckets, probs, nsamples=10000, nrepeat=3)


def test_mnist_iterators_read_the_files_in_data(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    for name in ("train", "t10k"):
        (tmp_path / "data" / f"{name}-images-idx3-ubyte").write_bytes(
            np.array([2051, 4, 28, 28], ">i4").tobytes() + bytes(4 * 28 * 28))
        (tmp_path / "data" / f"{name}-labels-idx1-ubyte").write_bytes(
            np.array([2049, 4], ">i4").tobytes() + bytes([1, 2, 3, 4]))
    train, test = mx.test_utils.get_mnist_iterator(batch_size=2, input_shape=(784,))
    assert train.provide_data[0].shape == (2, 784)
    assert [int(n) for batch in test for n in batch.label[0].asnumpy()] == [1, 2, 3, 4]


def test_tolerances_may_be_numbers_of_numpy():
    a, b = np.float32([1, 2]), np.float32([1.05, 2])
    assert mx.test_utils.get_tols(a, b, np.float32(0.1), np.float64(0.2)) == (np.float32(0.1), 0.2)
    mx.test_utils.assert_almost_equal_with_err(a, b, rtol=np.float32(0.1), atol=np.float32(0.1), etol=0)


def test_same_symbol_structure():
    """As MXNet compares: operators by their numbers, as far as the shorter graph goes, without casts between them."""
    x = mx.sym.var("x")
    plain, cast = mx.sym.exp(x), mx.sym.exp(mx.sym.amp_cast(x, dtype="float16"))
    assert mx.test_utils.same_symbol_structure(plain, cast)
    assert mx.test_utils.same_symbol_structure(plain, mx.sym.sin(plain))
    assert not mx.test_utils.same_symbol_structure(plain, mx.sym.sin(x))


@pytest.mark.parametrize("folder, ending", [(".", ".gz"), ("data", ""), ("data", ".gz")])
def test_mnist_that_is_here_is_not_downloaded(tmp_path, monkeypatch, caplog, folder, ending):
    caplog.set_level("INFO")
    monkeypatch.chdir(tmp_path)
    (tmp_path / folder).mkdir(exist_ok=True)
    for name, content in (("train-images-idx3", struct.pack(">4i", 2051, 2, 28, 28) + bytes([255] * 1568)),
                          ("train-labels-idx1", struct.pack(">2i", 2049, 2) + bytes([3, 4])),
                          ("t10k-images-idx3", struct.pack(">4i", 2051, 1, 28, 28) + bytes(784)),
                          ("t10k-labels-idx1", struct.pack(">2i", 2049, 1) + bytes([5]))):
        content = gzip.compress(content) if ending else content
        (tmp_path / folder / f"{name}-ubyte{ending}").write_bytes(content)
    found = mx.test_utils.get_mnist()
    assert found["train_data"].shape == (2, 1, 28, 28) and (found["train_data"] == 1).all()
    assert found["train_label"].tolist() == [3, 4] and found["test_label"].tolist() == [5]
    assert caplog.text.count("exists, skipping download") == 4


def test_random_arrays_have_the_shapes_and_kinds_asked_for() -> None:
    one = utils.random_arrays((2, 3))
    assert one.shape == (2, 3) and one.dtype == np.float32
    assert [a.shape for a in utils.random_arrays((), (4,))] == [(), (4,)]
    low, = utils.random_uniform_arrays((50,), low=2, high=3, dtype="float64")
    assert low.dtype == np.float64 and 2 <= low.min() < low.max() < 3
    drawn = utils.random_sample(range(20), 5)
    assert len(drawn) == 5 and drawn == sorted(set(drawn))
    assert all(1 <= n <= limit for n, limit in zip(utils.rand_shape_2d(3, 2), (3, 2), strict=True))
    assert all(1 <= n <= limit for n, limit in zip(utils.rand_shape_3d(3, 2, 1), (3, 2, 1), strict=True))
    x, y = utils.rand_coord_2d(2, 4, 7, 8)
    assert 2 <= x < 4 and y == 7


@pytest.mark.parametrize("stype", ["csr", "row_sparse"])
@pytest.mark.parametrize("density", [0, 0.3, 1])
def test_random_sparse_arrays(stype, density) -> None:
    array, parts = utils.rand_sparse_ndarray((20, 10), stype, density=density)
    assert array.stype == stype and array.shape == (20, 10)
    np.testing.assert_array_equal(array.data.asnumpy(), parts[-1 if stype == "csr" else 0])
    filled = (array.asnumpy() != 0).mean()
    assert filled == density if density in (0, 1) else 0 < filled < 0.8
    twos = utils.create_sparse_array((4, 3), stype, data_init=2.0, density=1)
    assert (twos.asnumpy() == 2).all()


def test_rows_that_grow_by_a_power_law() -> None:
    array, _ = utils.rand_sparse_ndarray((6, 8), "csr", density=0.5, distribution="powerlaw")
    counts = (array.asnumpy() != 0).sum(1)
    assert counts.sum() == 24 and counts[:4].tolist() == [1, 2, 4, 8]


def test_matrices_are_what_they_are_called() -> None:
    q = utils.new_orthonormal_matrix_2d(4)
    np.testing.assert_allclose(q @ q.T, np.eye(4), atol=1e-12)
    for matrix in utils.new_sym_matrix_with_real_eigvals_nd((2, 3, 3)):
        np.testing.assert_array_equal(matrix, matrix.T)
    assert np.isreal(np.linalg.eigvals(utils.new_matrix_with_real_eigvals_nd((2, 4, 4)))).all()
    one = utils.get_identity_mat(3)
    assert one.dtype == np.float32 and one.asnumpy().tolist() == np.eye(3).tolist()
    assert utils.get_identity_mat_batch(3).asnumpy().tolist() == [np.eye(3).tolist()] * 2
    assert utils.create_2d_tensor(3, 2).asnumpy().tolist() == [[0, 0], [1, 1], [2, 2]]
    assert utils.create_2d_np_tensor(2, 1).tolist() == [[0], [1]]
    assert utils.create_vector(3).asnumpy().tolist() == [0, 1, 2]


def test_sums_over_axes_and_functions_of_elements() -> None:
    values = np.arange(24.0).reshape(2, 3, 4)
    for axis, keepdims in ((None, False), (1, True), ((0, 2), False), ((0, 2), True)):
        expected = values.sum(axis, keepdims=keepdims)
        np.testing.assert_array_equal(utils.np_reduce(values, axis, keepdims, np.sum), expected)
    np.testing.assert_array_equal(utils.collapse_sum_like(values, (3, 1)), values.sum((0, 2))[:, None])
    assert utils.assign_each(np.array([1, 2]), lambda n: n * n).tolist() == [1, 4]
    assert utils.assign_each2(np.array([1, 2]), np.array([3, 5]), lambda a, b: b - a).tolist() == [2, 3]


def test_comparisons_notice_what_differs() -> None:
    x = mx.nd.ones((2, 2))
    assert utils.same_array(x, x[:]) and not utils.same_array(x, x.copy()) and (x.asnumpy() == 1).all()
    assert utils.almost_equal(np.ones(2), np.ones(2)) and not utils.almost_equal(np.ones(2), np.full(2, 1.1))
    utils.assert_almost_equal_ignore_nan(np.array([1, np.nan]), np.array([1, 2.0]))
    utils.assert_exception(int, ValueError, "x")
    utils.compare_ndarray_tuple((x, None), (x.copy(), None))
    for differs in (lambda: utils.assert_almost_equal_ignore_nan(np.array([1, np.nan]), np.array([3, 2.0])),
                    lambda: utils.assert_exception(int, ValueError, "1"),
                    lambda: utils.compare_ndarray_tuple((x, x), (x, x + 1)),
                    lambda: utils.checkShapes(x, x[0])):
        with pytest.raises(AssertionError):
            differs()
    rng = np.random.default_rng(3)
    assert utils.mean_check(lambda n: rng.normal(1, 2, n), 1, 2, 10000)
    assert not utils.mean_check(lambda n: rng.normal(1.5, 2, n), 1, 2, 10000)
    assert utils.var_check(lambda n: rng.normal(1, 2, n), 2, 10000)
    assert not utils.var_check(lambda n: rng.normal(1, 3, n), 2, 10000)


def test_a_test_is_tried_again() -> None:
    calls = []

    @utils.retry(3)
    def unsteady():
        calls.append(1)
        assert len(calls) == 3
    unsteady()
    assert len(calls) == 3
    calls += [1]
    with pytest.raises(AssertionError):
        unsteady()


def test_one_output_or_a_list() -> None:
    x = mx.sym.var("x")
    ones = np.ones((2, 2), "float32")
    assert utils.simple_forward(x + 1, x=ones).tolist() == [[2, 2], [2, 2]]
    both = utils.simple_forward(mx.sym.Group([x + 1, x * 3]), x=ones)
    assert [out.tolist()[0] for out in both] == [[2, 2], [3, 3]]


def test_models_of_a_list_are_downloaded(tmp_path, capsys, caplog):
    caplog.set_level("INFO")
    contents = {"net.json": "graph", "net-weights": "numbers"}
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
    models = {"net": {"symbol": (tmp_path / "net.json").as_uri(), "params": (tmp_path / "net-weights").as_uri()}}
    prefix, epoch = mx.test_utils.download_model("net", str(tmp_path / "models"), models)
    assert prefix == str(tmp_path / "models" / "net") and epoch == 0
    said = capsys.readouterr().out
    assert said.count("Downloading ") == 2 and all(models["net"][what] in said for what in ("symbol", "params"))
    assert f"downloaded {models['net']['symbol']} into {prefix}-symbol.json successfully" in caplog.text
    found = [(tmp_path / "models" / f"net{end}").read_text() for end in ("-symbol.json", "-0000.params")]
    assert found == list(contents.values())
    assert mx.test_utils.download_model("other", str(tmp_path), models) == (None, 0)


V, W = mx.sym.var("v"), mx.sym.var("w")
EXP, PRODUCT = mx.sym.exp(V, name="e"), mx.sym.broadcast_mul(V, W, name="m")
SETTINGS = [{"ctx": mx.cpu(), "v": (2, 3), "type_dict": {"v": dtype}} for dtype in (np.float32, np.float64)]


def test_consistency_of_dtypes(capsys) -> None:
    found = utils.check_consistency(EXP, SETTINGS)
    assert sorted(found) == ["e_output", "v"] and found["v"].dtype == np.float64
    np.testing.assert_allclose(found["v"], found["e_output"] ** 2)  # the results are their own head gradients
    given = {"v": np.ones((2, 3))}
    found = utils.check_consistency(EXP, SETTINGS, grad_req="null", arg_params=given, use_uniform=True)
    assert sorted(found) == ["e_output"] and np.allclose(found["e_output"], np.e)
    utils.check_consistency(EXP, SETTINGS, arg_params=given, ground_truth={"e_output": found["e_output"],
                                                                            "v": found["e_output"] ** 2})
    for truth in ({"e_output": found["e_output"], "v": found["e_output"]}, ):
        with pytest.raises(AssertionError, match="differ by more than"):
            utils.check_consistency(EXP, SETTINGS, arg_params=given, ground_truth=truth)
    other = [EXP, mx.sym.square(V, name="e")]
    with pytest.raises(AssertionError, match="differ by more than"):
        utils.check_consistency(other, SETTINGS)
    capsys.readouterr()
    utils.check_consistency(other, SETTINGS, raise_on_err=False)
    assert "e_output: " in capsys.readouterr().out
    with pytest.raises(AssertionError, match="different arguments or outputs"):
        utils.check_consistency([EXP, PRODUCT], SETTINGS)


def test_speed(monkeypatch) -> None:
    ticks = iter(range(100))
    monkeypatch.setattr("time.perf_counter", lambda: next(ticks))
    assert utils.check_speed(EXP, v=(2, 3), N=2) == 0.5
    assert utils.check_speed(EXP, location={"v": np.ones((2, 3))}, N=4, typ="forward") == 0.25
    with pytest.raises(ValueError, match="typ can only be 'whole' or 'forward'"):
        utils.check_speed(EXP, v=(2, 3), typ="odd")


@pytest.mark.parametrize("call, error, told", [
    (lambda: utils.check_symbolic_forward(EXP, [np.zeros(2)], [np.ones(2)]), None, None),
    (lambda: utils.check_symbolic_forward(EXP, {"v": np.zeros(2)}, {"e_output": np.ones(2)}), None, None),
    (lambda: utils.check_symbolic_forward(EXP, {"v": np.zeros(2)}, [np.zeros(2)]), AssertionError, "differ by more"),
    (lambda: utils.check_symbolic_forward(EXP, {"w": np.zeros(2)}, [np.zeros(2)]), ValueError, r"arguments? .*\['v'\]"),
    (lambda: utils.check_symbolic_backward(EXP, [np.zeros(2)], [np.ones(2)], [np.ones(2)]), None, None),
    (lambda: utils.check_symbolic_backward(EXP, [np.zeros(2)], {"e_output": np.ones(2)}, {"v": np.ones(2)}),
     None, None),
    (lambda: utils.check_symbolic_backward(EXP, [np.zeros(2)], None, [np.ones(2)]), None, None),
    (lambda: utils.check_symbolic_backward(EXP, [np.zeros(2)], [np.ones(2)], [np.ones(2)], grad_req=["add"]),
     None, None),
    (lambda: utils.check_symbolic_backward(EXP, [np.zeros(2)], [np.ones(2)], [np.zeros(2)]),
     AssertionError, "differ by"),
    (lambda: utils.check_symbolic_backward(PRODUCT, [np.ones(2), np.ones(2) * 3], [np.ones(2)], {"v": np.ones(2) * 3},
                                           grad_req={"v": "write", "w": "null"}), None, None),
    (lambda: utils.check_symbolic_backward(EXP, [np.zeros(2)], [np.ones(2)], [np.zeros(2)], grad_req={"v": "add"}),
     AssertionError, "differ by more"),
    (lambda: check_numeric_gradient(PRODUCT, [np.ones(2), np.ones(2)], grad_nodes=["v"]), None, None),
    (lambda: check_numeric_gradient(PRODUCT, [np.ones(2)] * 2, grad_nodes={"v": "add", "w": "write"}), None, None),
    (lambda: check_numeric_gradient(PRODUCT, [np.ones(2)] * 2, grad_nodes={"v": "null", "w": "write"}), None, None),
    (lambda: check_numeric_gradient(mx.sym.BlockGrad(V) * V, [np.ones(2)]), AssertionError, "differ by more"),
    (lambda: check_numeric_gradient(EXP, [np.ones(2)], dtype=np.int32),
     ValueError, "dtype must be float16, float32 or"),
])
def test_checks_of_symbols(call, error, told) -> None:
    if error is None:
        call()
    else:
        with pytest.raises(error, match=told):
            call()


def test_hybridized_blocks_compute_the_same() -> None:
    def dense(**options):
        net = mx.gluon.nn.HybridSequential(**options)
        with net.name_scope():
            net.add(mx.gluon.nn.Dense(2))
        return net

    class Different(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):  # noqa: N803
            return x * (1 if F is mx.nd else 2)
    x = [mx.nd.ones((2, 3))]
    utils.check_gluon_hybridize_consistency(dense, x)
    utils.check_gluon_hybridize_consistency(dense, x, test_grad=False)
    with pytest.raises(AssertionError, match="differ by more than"):
        utils.check_gluon_hybridize_consistency(dense, x, numpy_func=lambda x: x[:, :2] * 0 + 100)
    with pytest.raises(AssertionError, match="6 of 6 elements differ"):
        utils.check_gluon_hybridize_consistency(Different, x)


def test_optimizers_are_compared() -> None:
    def sgd(rate, **options):
        return mx.optimizer.SGD(learning_rate=rate, **options)
    utils.compare_optimizer(sgd(0.1), sgd(0.1), (2, 3), np.float32)
    utils.compare_optimizer(sgd(0.1, momentum=0.9), sgd(0.1, momentum=0.9), [(2, 3)], np.float32, "row_sparse",
                            "row_sparse")
    with pytest.raises(AssertionError, match="differ by more than"):
        utils.compare_optimizer(sgd(0.1), sgd(0.5), [(2, 3), (4,)], np.float32)
    utils.compare_optimizer_noise_seeded(mx.optimizer.SGLD(learning_rate=0.1), mx.optimizer.SGLD(learning_rate=0.1),
                                         (2, 3), np.float32, 5)


def test_surroundings(monkeypatch, capfd) -> None:
    import os
    monkeypatch.setenv("MXJAX_A", "1")
    monkeypatch.delenv("MXJAX_B", raising=False)
    with utils.environment("MXJAX_A", "2"):
        assert os.environ["MXJAX_A"] == "2"
    with pytest.raises(KeyError), utils.environment({"MXJAX_A": None, "MXJAX_B": "3"}):
        assert "MXJAX_A" not in os.environ and os.environ["MXJAX_B"] == "3"
        raise KeyError
    assert os.environ["MXJAX_A"] == "1" and "MXJAX_B" not in os.environ
    with utils.discard_stderr():
        os.write(2, b"hidden")
    os.write(2, b"shown")
    assert capfd.readouterr().err == "shown"
    data = mx.io.NDArrayIter(np.arange(8).reshape(4, 2), np.zeros(4), 2)
    same = utils.DummyIter(data)
    assert same.next().data[0].asnumpy().tolist() == same.next().data[0].asnumpy().tolist() == [[0, 1], [2, 3]]
    assert (same.batch_size, same.provide_data, iter(same)) == (2, data.provide_data, same)
    monkeypatch.setenv("CD_JOB", "1")
    assert utils.is_cd_run() and utils.is_op_runnable() and not utils.has_tvm_ops()
    monkeypatch.delenv("CD_JOB")
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert not utils.is_cd_run() and utils.is_aarch64_run()
    assert list(utils.list_gpus()) == list(range(mx.context.num_gpus()))
    with pytest.raises(AssertionError, match="n must be positive"):
        utils.retry(0)
    before = utils.default_context()
    utils.set_default_context(mx.cpu(1))
    assert utils.default_context() == mx.cpu(1)
    utils.set_default_context(before)


def test_archives_are_downloaded_once(tmp_path, monkeypatch) -> None:
    import bz2
    import zipfile

    from mxjax.test_utils import _files
    asked = []

    def download(url, fname=None, dirname=None, overwrite=True):
        asked.append((url, overwrite))
        path = tmp_path / (fname or url.rpartition("/")[2])
        if path.suffix == ".zip":
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("inner.txt", "text")
        else:
            path.write_bytes(bz2.compress(b"data"))
    monkeypatch.setattr(_files, "download", download)
    for _ in range(2):
        utils.get_zip_data(str(tmp_path), "https://example.org/a.zip", "a.zip")
        utils.get_bz2_data(str(tmp_path), "b", "https://example.org/b.bz2", "b.bz2")
    assert asked == [("https://example.org/a.zip", False), ("https://example.org/b.bz2", False)]
    assert (tmp_path / "inner.txt").read_text() == "text" and (tmp_path / "b").read_bytes() == b"data"
    assert not (tmp_path / "b.bz2").exists()


def test_buckets_and_frequencies() -> None:
    assert utils.gen_buckets_probs_with_ppf(lambda x: x * 2, 4) == (
        [(0, 0.5), (0.5, 1), (1, 1.5), (1.5, 2)], [0.25] * 4)
    for buckets, draw in (([0, 1], lambda n: np.arange(n) % 2),
                          ([(0, 0.1), (0.2, 0.3)], lambda n: np.arange(n) % 2 / 4)):
        p, observed, expected = utils.chi_square_check(draw, buckets, [0.5, 0.5], nsamples=100)
        assert p == 1 and list(observed) == list(expected) == [50, 50]
    with pytest.raises(AssertionError, match="there are no buckets"):
        utils.chi_square_check(lambda n: np.arange(n), [], [])


def test_elements_that_may_differ() -> None:
    one, other = np.ones(4), np.array([1, 1, 1, 2.0])
    utils.assert_almost_equal_with_err(one, other, etol=0.3)
    with pytest.raises(AssertionError, match="25.000% of the elements of a and b differ, allowed 20.000%"):
        utils.assert_almost_equal_with_err(one, other, etol=0.2)
    with pytest.raises(AssertionError, match="differ by more than"):
        utils.assert_almost_equal_with_err(one, other)
    utils.assert_almost_equal(np.ones(1), np.ones(3))
    assert utils.almost_equal(np.ones(1), np.ones(3))
    for compare in (utils.assert_almost_equal, utils.almost_equal):
        with pytest.raises(AssertionError, match="hape"):
            compare(np.ones(1), np.ones(3), use_broadcast=False)
    with pytest.raises(ValueError, match="could not be broadcast"):
        utils.assert_almost_equal(np.ones(2), np.ones(3))


def test_sparse_arrays_by_their_parts() -> None:
    """Results of MXNet 1.9.1."""
    rows = utils.create_sparse_array((4, 3), "row_sparse", data_init=0.5, rsp_indices=[0, 2])
    assert rows.asnumpy().tolist() == [[0.5] * 3, [0] * 3, [0.5] * 3, [0] * 3]
    assert (utils.create_sparse_array((4, 3), "csr", data_init=0.5, density=1).asnumpy() == 0.5).all()
    assert utils.create_sparse_array_zd((4, 3), "row_sparse", None).asnumpy().any() == 0
    changed = utils.create_sparse_array((4, 3), "row_sparse", rsp_indices=[1, 3], modifier_func=lambda x: 7)
    assert changed.asnumpy()[:, 0].tolist() == [0, 7, 0, 7]
    assert utils.create_2d_tensor(3, 2).asnumpy().tolist() == [[0, 0], [1, 1], [2, 2]]
    assert utils.create_vector(3).asnumpy().tolist() == [0, 1, 2]
    assert utils.rand_ndarray((2, 3), "default").shape == (2, 3) and utils.rand_ndarray((2, 3), "csr").stype == "csr"
    assert len(utils.rand_shape_nd(3, dim=4, allow_zero_size=True)) == 3
    for call, told in ((lambda: utils.rand_sparse_ndarray((3, 2), "odd"), "unknown storage type 'odd'"),
                       (lambda: utils.rand_sparse_ndarray((3, 2), "csr", distribution="odd"), "csr arrays have no dis"),
                       (lambda: utils.rand_sparse_ndarray((3, 2), "row_sparse", distribution="odd"),
                        "row_sparse arrays"),
                       (lambda: utils.create_sparse_array_zd((4, 3), "row_sparse", None, rsp_indices=range(6)),
                        "6 rows")):
        with pytest.raises(AssertionError, match=told):
            call()
    scipy = pytest.importorskip("scipy.sparse")
    matrix = scipy.csr_matrix(np.arange(12).reshape(3, 4))
    before = matrix.toarray()
    mx.random.seed(0)
    utils.shuffle_csr_column_indices(matrix)
    assert (matrix.toarray() == before).all() and matrix.indptr.tolist() == [0, 3, 7, 11]
