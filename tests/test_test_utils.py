"""mx.test_utils: finite differences, comparisons, files."""

import gzip
import struct

import numpy as np
import pytest

import mxjax as mx
from mxjax.test_utils import check_numeric_gradient, numeric_grad


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
def test_mnist_that_is_here_is_not_downloaded(tmp_path, monkeypatch, folder, ending):
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
