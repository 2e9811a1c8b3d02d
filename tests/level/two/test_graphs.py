"""Hybridized blocks: operators that run on the host, integer inputs, operators that NumPy's interpreter lacks."""

import math

import numpy as onp
import pytest

import mxjax as mx
from mxjax import autograd, np, npx


class Function(mx.gluon.HybridBlock):
    """A function as a hybridized block."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.hybridize()

    def forward(self, *args):
        return self.function(*args)


def test_transforms_of_images_are_traced():
    transforms = mx.gluon.data.vision.transforms
    image = np.array(onp.arange(20 * 30 * 3).reshape(20, 30, 3) % 256, dtype="uint8")
    net = transforms.HybridCompose([transforms.Resize((24, 16)), transforms.CenterCrop(10), transforms.ToTensor()])
    expected = npx.image.to_tensor(transforms.CenterCrop(10)(npx.image.resize(image, (24, 16))))
    onp.testing.assert_allclose(net(image).asnumpy(), expected.asnumpy())
    assert transforms.HybridCompose([transforms.RandomCrop(16, pad=2)])(image).shape == (16, 16, 3)


@pytest.mark.parametrize("make", [lambda f: f, Function])
def test_gradients_of_integers_that_stay_integers_are_zero(make):
    net = make(lambda a, ind, val: npx.index_add(a * 2, ind, val))
    a, val, ind = np.ones((4, 3)), np.ones(3), np.array([[0, 2, 0], [1, 1, 2]], dtype="int32")
    for x in (a, val, ind):
        x.attach_grad()
    with autograd.record():
        out = net(a, ind, val)
    out.backward()
    assert (a.grad.asnumpy() == 2).all() and (val.grad.asnumpy() == 1).all()
    assert ind.grad.dtype == onp.int32 and not ind.grad.asnumpy().any()


def test_bits_of_comparisons_in_a_record():
    x = np.array([0.25, 3.0])
    x.attach_grad()
    with autograd.record():
        out = x * ((x > 0) & (x < 1))
    out.backward()
    assert x.grad.asnumpy().tolist() == [1, 0]


def test_eigenvalues_within_a_graph():
    matrix = onp.array([[2.0, 0.5], [0.5, 1.0]])
    net = Function(lambda a: np.linalg.eigvalsh(a * 2) + 1)
    expected = onp.linalg.eigvalsh(matrix * 2) + 1
    for _ in range(3):
        onp.testing.assert_allclose(net(np.array(matrix)).asnumpy(), expected, rtol=1e-5)


def test_entropy_of_normal_vectors_is_of_the_covariance():
    distribution = mx.gluon.probability.MultivariateNormal(np.zeros((2, 3)), cov=np.eye(3) * 4)
    entropy = distribution.entropy()
    assert entropy.shape == ()
    onp.testing.assert_allclose(entropy.item(), 1.5 * (1 + math.log(2 * math.pi)) + 3 * math.log(2), rtol=1e-6)


def test_static_methods_are_methods_under_use_np():
    @mx.util.use_np
    class Net:
        @staticmethod
        def number(self, x):
            return x + 1
    assert Net().number(1) == 2


class Pair(mx.gluon.HybridBlock):
    def forward(self, x, y):
        return x + y, x - y


@pytest.mark.parametrize("kind", [mx.gluon.nn.Sequential, mx.gluon.nn.HybridSequential])
@pytest.mark.parametrize("hybridize", [False, True])
def test_blocks_in_turn_pass_several_arrays_on(kind, hybridize):
    net = kind()
    net.add(Pair(), Pair())
    if hybridize:
        net.hybridize()
    first, second = net(np.array([3.0]), np.array([1.0]))
    assert (first.item(), second.item()) == (6, 2)
    net = kind()
    net.add(mx.gluon.nn.Identity())
    assert net(np.array([3.0])).item() == 3


def test_sparse_arrays_in_archives(tmp_path):
    dense = onp.array([[0, 1, 0], [2, 0, 3]], "float32")
    arrays = {"a": mx.nd.array(dense).tostype("csr"), "b": mx.nd.array(dense).tostype("row_sparse"), "c": np.ones(2)}
    npx.savez(tmp_path / "saved.npz", **arrays)
    found = mx.nd.load(tmp_path / "saved.npz")
    assert [found[name].stype for name in "abc"] == ["csr", "row_sparse", "default"]
    assert all((found[name].asnumpy() == arrays[name].asnumpy()).all() for name in "abc")


def test_sparse_arrays_of_scipy(tmp_path):
    sparse = pytest.importorskip("scipy.sparse")
    dense = onp.array([[0, 1, 0], [2, 0, 3]], "float32")
    sparse.save_npz(tmp_path / "matrix.npz", sparse.csr_matrix(dense))
    assert (mx.nd.load(tmp_path / "matrix.npz")[""].asnumpy() == dense).all()
    sparse.save_npz(tmp_path / "columns.npz", sparse.csc_matrix(dense))
    with pytest.raises(mx.MXNetError, match="csc"):
        mx.nd.load(tmp_path / "columns.npz")
    npx.savez(tmp_path / "own.npz", mx.nd.array(dense).tostype("csr"))
    with onp.load(tmp_path / "own.npz") as parts:
        assert parts["arr_0/format"] == b"csr" and parts["arr_0/shape"].tolist() == [2, 3]


def test_counts_of_classes():
    n, p = [100, 3], [[0.25, 0.75, 0], [0, 1, 0]]
    for draw, array in ((npx.random.multinomial, np.array), (mx.nd.random.multinomial, mx.nd.array),
                        (mx.random.multinomial, mx.nd.array)):
        counts = draw(array(n), array(p), shape=(40,)).asnumpy()
        assert counts.shape == (2, 40, 3) and counts.dtype == onp.float32
        assert (counts.sum(-1) == [[100], [3]]).all() and (counts[1, :, 1] == 3).all()
        assert 20 < counts[0, :, 0].mean() < 30
    with pytest.raises(mx.MXNetError, match="p must have the shape of n"):
        mx.nd.random.multinomial(mx.nd.array([1]), mx.nd.array([0.5, 0.5]))


def test_draws_in_graphs_are_read_again():
    n, p = mx.sym.var("n"), mx.sym.var("p")
    graph = mx.sym.Group([mx.sym.random.multinomial(n, p, shape=2), mx.sym.random.binomial(n, mx.sym.var("q")),
                          mx.sym.random.categorical(p, get_prob=False)])
    text = graph.tojson()
    assert "_sample_categorical" in text and "_sample_multinomial\"" not in text
    values = {"n": mx.nd.array([5, 7]), "p": mx.nd.array([[0, 1], [1, 0]]), "q": mx.nd.array([0, 1])}
    for symbol in (graph, mx.sym.load_json(text), mx.sym.load_json(text.replace("_npx__random", "_sample"))):
        counts, successes, classes = symbol._bind(mx.cpu(), values).forward()
        assert counts.asnumpy().tolist() == [[[0, 5]] * 2, [[7, 0]] * 2]
        assert successes.asnumpy().tolist() == [0, 7] and classes.asnumpy().tolist() == [1, 0]


def test_quantized_shapes():
    data, low, high = mx.nd.ones((2, 3), dtype="int8"), mx.nd.array([-1]), mx.nd.array([1])
    out, *ranges = mx.nd.contrib.quantized_reshape(data, low, high, shape=(0, -4, 3, 1))
    assert out.shape == (2, 3, 1) and out.dtype == onp.int8 and [r.asscalar() for r in ranges] == [-1, 1]
    assert mx.nd.quantized_transpose(data, low, high, axes=(1, 0))[0].shape == (3, 2)


def test_densities_of_vectors_of_other_lengths_are_refused():
    with pytest.raises(mx.MXNetError, match="shape of sample"):
        mx.nd.random_pdf_dirichlet(mx.nd.ones((4, 2)), mx.nd.ones(3))


class Square(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], in_data[0] ** 2)

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], 2 * in_data[0] * out_grad[0])


@mx.operator.register("square_in_graphs")
class SquareProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes):
        return Square()


def test_custom_operators_are_traced():
    net = Function(lambda x: mx.nd.Custom((x * 1).as_nd_ndarray(), op_type="square_in_graphs").as_np_ndarray() + 1)
    x = np.array([1.0, 2.0])
    x.attach_grad()
    for _ in range(2):
        with autograd.record():
            out = net(x)
        out.backward()
        assert out.asnumpy().tolist() == [2, 5] and x.grad.asnumpy().tolist() == [2, 4]


def test_executors_of_numpys_symbols_have_numpys_arrays():
    a = mx.sym.var("a")
    for symbol, kind in ((a * 2, mx.nd.NDArray), (a.as_np_ndarray() * 2, np.ndarray)):
        executor = symbol._bind(mx.cpu(), {"a": np.ones(2)}, {"a": np.zeros(2)})
        out, = executor.forward(is_train=True)
        executor.backward([np.full(2, 3.0)])
        assert type(out) is type(executor.outputs[0]) is kind and out.asnumpy().tolist() == [2, 2]
        assert executor.grad_dict["a"].asnumpy().tolist() == [6, 6]
        assert executor.forward()[0] is out


def test_a_group_shows_its_symbols():
    both = mx.sym.Group([mx.sym.var("a").as_np_ndarray() + 1, mx.sym.var("b").as_np_ndarray()]).as_np_ndarray()
    assert repr(both) == f"<_Symbol group [{both[0]!r}, <_Symbol b>]>"
