"""mx.npx, the scopes, files, and Gluon with ndarrays."""

import numpy as onp
import pytest

import mxjax as mx
from mxjax import autograd, gluon, np, npx


@pytest.mark.parametrize("shape, codes, reverse, expected", [
    ((2, 3, 8), (-2, -2, 2, -1), False, (2, 3, 2, 4)), ((8, 3, 3, 3), (-2, -2, -4), False, (8, 3, 3, 3)),
    ((8, 3, 4), (-5, -4), False, (24, 4)), ((8, 12), (-6, 2, -1, -4), False, (2, 4, 12)),
    ((1, 8, 3), (-3, -1), False, (24,)), ((8, 3, 2, 5), (-1, -5), True, (24, 10)),
])
def test_reshape_codes(shape, codes, reverse, expected):
    assert npx.reshape(np.zeros(shape), codes, reverse).shape == expected


def test_reshape_codes_that_do_not_fit():
    for codes, words in (((-3, -1), "-3 only drops"), ((-1, -1), "only one dimension"), ((-7,), "-7 has no meaning"),
                         ((5, -1), "reshape"), ((-6, 2, 2, -4), "2 cannot be split into 2 times 2"),
                         ((-6, -1, -1, -4), "-1 twice"), ((-2, -6, 2), "two numbers"), ((-2, -5), "too few")):
        with pytest.raises(mx.MXNetError, match=words):
            npx.reshape(np.zeros((2, 3)), codes)


def test_operators():
    x = np.array([[-1.0, 2.0]])
    assert npx.relu(x).tolist() == [[0, 2]] and type(npx.softmax(x)) is np.ndarray
    assert npx.one_hot(np.array([1, 0]), 2).tolist() == [[0, 1], [1, 0]] and npx.pick(x, np.array([1])).tolist() == [2]
    y = mx.np.array([1.0, 0.0])
    y.attach_grad()
    with mx.autograd.record():
        npx.nonzero(y).backward()
    assert y.grad.tolist() == [0, 0]
    assert npx.topk(x).tolist() == [[1]] and npx.nonzero(x > 0).tolist() == [[0, 1]]
    assert npx.shape_array(x).tolist() == [1, 2] and npx.batch_flatten(np.zeros((2, 3, 4))).shape == (2, 12)
    assert bool(npx.constraint_check(x < 3, "too large"))
    with pytest.raises(ValueError, match="too large"):
        npx.constraint_check(x < 0, "too large")


def test_files_need_numpy_semantics(tmp_path, np_semantics):
    path = str(tmp_path / "a.params")
    npx.save(path, {"a": np.arange(3), "b": np.array(1.5), "c": np.zeros((0, 2))})
    back = npx.load(path)
    assert {k: v.shape for k, v in back.items()} == {"a": (3,), "b": (), "c": (0, 2)} and type(back["b"]) is np.ndarray
    npx.save(path, [np.ones(2)])
    assert npx.load(path)[0].tolist() == [1, 1]
    with mx.util.np_array(False), pytest.raises(ValueError, match="set_np"):
        npx.load(path)


def test_inference_with_empty_arrays_and_unknown_sizes(np_semantics):
    x, y = (mx.sym.var(n).as_np_ndarray() for n in "xy")
    assert mx.sym.np.dot(x, y).infer_shape(x=(0, 3), y=(3, 2))[1] == [(0, 2)]
    assert (x + y).infer_shape_partial(x=(-1, 3), y=(1, 3))[1] == [(-1, 3)]
    assert mx.sym.np.sum(x).infer_shape(x=(2, 3))[1] == [()]
    assert mx.sym.np.dot(x, y).infer_shape(x=(4, 3), y=(-1, 2))[0] == [(4, 3), (3, 2)]


def test_symbols_are_sliced_like_arrays(np_semantics):
    x, value = mx.sym.var("x").as_np_ndarray(), onp.arange(24, dtype="float32").reshape(2, 3, 4)
    for key in (0, -1, slice(1, None), (0, slice(None), 2), (slice(None), slice(None, None, 2)), (1, -1, -1)):
        got = x[key].bind(mx.cpu(), {"x": np.array(value)}).forward()[0]
        onp.testing.assert_array_equal(got.asnumpy(), value[key])
    assert type(x.as_nd_ndarray()) is mx.sym.Symbol and x.as_nd_ndarray().as_np_ndarray().name == "x"
    with pytest.raises(IndexError):
        x[None]


@mx.util.use_np
class Net(gluon.HybridBlock):
    """A network in terms of F.np and F.npx, with a layer whose input size is worked out."""

    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.first = gluon.nn.Dense(8, activation="relu")
            self.weight = self.params.get("weight", shape=(8, 1), init=mx.init.Normal(0.3))

    def hybrid_forward(self, F, x, weight):
        return F.np.squeeze(F.np.dot(F.npx.relu(self.first(x)), weight), axis=1)


@pytest.mark.parametrize("hybridize", [False, True])
def test_training_with_ndarrays(hybridize, tmp_path, np_semantics):
    mx.random.seed(1)
    net = Net()
    net.initialize()
    if hybridize:
        net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.05})
    x = np.random.normal(size=(64, 3))
    y = np.sum(x, axis=1) * 0.5
    loss_of, losses = gluon.loss.L2Loss(), []
    for _ in range(40):
        with autograd.record():
            loss = loss_of(net(x), y).mean()
        loss.backward()
        trainer.step(1)
        losses.append(float(loss))
    assert type(loss) is np.ndarray and loss.shape == () and losses[-1] < 0.2 * losses[0]
    for parameter in net.collect_params().values():
        assert type(parameter.data()) is np.ndarray and type(parameter.grad()) is np.ndarray
    net.save_parameters(str(tmp_path / "net.params"))
    other = Net()
    other.load_parameters(str(tmp_path / "net.params"))
    onp.testing.assert_allclose(other(x).asnumpy(), net(x).asnumpy(), rtol=1e-5, atol=1e-6)


def test_exported_graphs_come_back(tmp_path, np_semantics):
    net = Net()
    net.initialize()
    net.hybridize()
    x = np.random.normal(size=(4, 3))
    expected = net(x).asnumpy()
    net.export(str(tmp_path / "net"))
    block = gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"], str(tmp_path / "net-0000.params"))
    onp.testing.assert_allclose(block(x).asnumpy(), expected, rtol=1e-5, atol=1e-6)


def test_scopes_are_of_one_thread_and_nest():
    assert not npx.is_np_array()
    with mx.util.np_array(True):
        assert npx.is_np_array()
        with mx.util.np_array(False):
            assert not npx.is_np_array()
    with pytest.raises(ValueError):
        npx.set_np(shape=False, array=True)


def test_use_np_covers_inherited_methods():
    class Base:
        def inherited(self):
            return npx.is_np_array()

        @staticmethod
        def static():
            return npx.is_np_array()

    @mx.util.use_np
    class Derived(Base):
        @property
        def own(self):
            return npx.is_np_array()
    assert Derived().inherited() and Derived().own and not Base().inherited() and not Derived().static()


@pytest.mark.parametrize("hybrid", [False, True])
def test_a_violated_constraint_is_a_value_error(hybrid):
    class Block(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):  # noqa: N803
            return F.npx.constraint_check(x > 0, "not positive")
    block = Block()
    if hybrid:
        block.hybridize()
    assert block(np.ones(2))
    with pytest.raises(ValueError, match="not positive"):
        block(np.zeros(2))
    with pytest.raises(ValueError, match="Constraint violated"):
        npx.constraint_check(np.zeros(2))


def test_blocks_must_return_numpy_arrays(np_semantics):
    class Classic(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return x, [x.as_nd_ndarray()]
    net = Classic()
    for _ in range(2):
        with pytest.raises(TypeError, match="as_np_ndarray"):
            net(np.ones(2))
        net.hybridize()


def test_graphs_of_classic_symbols_return_classic_arrays():
    call = mx.nd.CachedOp(mx.sym.var("x") * 2)
    assert type(call(np.ones(2))) is mx.nd.NDArray


def test_npx_image_has_the_names_of_mx_image():
    names = dir(mx.npx.image)
    assert {"ImageIter", "ImageDetIter", "CreateAugmenter", "imresize", "random_crop", "to_tensor", "det"} <= {*names}
    assert mx.npx.image.imresize is mx.image.imresize and mx.npx.image.CreateAugmenter is mx.image.CreateAugmenter
    assert mx.npx.image.to_tensor is not getattr(mx.image, "to_tensor", None)
    with pytest.raises(AttributeError, match="no attribute 'nosuchname'"):
        mx.npx.image.nosuchname
    scope = {}
    exec("from mxjax.numpy_extension.image import *", scope)
    assert scope["ImageIter"] is mx.image.ImageIter and callable(scope["resize"])
