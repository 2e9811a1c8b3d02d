"""What libraries written for MXNet 2 do with blocks, operators and data."""

import warnings

import numpy as onp
import pytest

import mxjax as mx
from mxjax import autograd, gluon, np, npx
from mxjax.gluon import nn
from mxjax.gluon.data.vision import transforms


# ---------------------------------------------------------------- blocks
def test_a_block_may_have_an_attribute_called_name():
    class Named(gluon.HybridBlock):
        def __init__(self, name):
            super().__init__()
            self._name = name

        def forward(self, x):
            return x + 1

    block = Named("ce")
    block.hybridize()
    assert block._name == "ce" and block(np.zeros(2)).tolist() == [1, 1]
    assert nn.Dense(2)._name == "dense"


def test_every_name_that_dir_lists_can_be_read():
    class Own(nn.Dense):
        name = "own"

    for block in (nn.Dense(2), Own(2)):
        assert not {"prefix", "name_scope", "load_params"} & set(dir(block))
        for name in dir(block):
            getattr(block, name)
    assert "name" in dir(Own(2)) and "name" not in dir(nn.Dense(2))


class Two(gluon.HybridBlock):
    """Two outputs from one or two inputs."""

    def forward(self, x, y=None):
        return [x + 1, x if y is None else y * 10]


@pytest.mark.parametrize("kind", [nn.Sequential, nn.HybridSequential])
@pytest.mark.parametrize("hybridize", [False, True])
def test_sequences_pass_all_outputs_on(kind, hybridize):
    def net():
        net = kind()
        net.add(Two(), Two())
        if hybridize:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                net.hybridize()
        return net
    x = np.ones(1)
    assert [float(a) for a in net()(x)] == [3, 10]
    assert [float(a) for a in net()(x, x)] == [3, 100]


# ---------------------------------------------------------------- operators in traces
@pytest.mark.parametrize("transform, shape", [
    (transforms.Resize(8), (3, 8, 8)), (transforms.CenterCrop(4), (3, 4, 4)), (transforms.RandomCrop(4), (3, 4, 4)),
    (transforms.RandomResizedCrop(5), (3, 5, 5)), (transforms.CropResize(1, 1, 3, 3, (6, 6)), (3, 6, 6)),
    (transforms.Cast("float32"), (3, 9, 7))])
def test_transforms_that_run_on_the_host_are_traced_with_others(transform, shape):
    both = transforms.Compose([transform, transforms.ToTensor()])
    x = np.array(onp.arange(9 * 7 * 3).reshape(9, 7, 3), dtype="uint8")
    for _ in range(2):
        y = both(x)
        assert y.shape == shape and y.dtype == onp.float32
    plain = transforms.ToTensor()(transform(x)[0] if isinstance(transform, transforms.Cast) else transform(x))
    if "Random" not in type(transform).__name__:
        onp.testing.assert_allclose(y.asnumpy(), plain.asnumpy(), rtol=1e-6)


def test_a_mask_does_not_say_which_dtype_scores_have():
    class Attention(gluon.HybridBlock):
        def forward(self, query, key, mask):
            scores = npx.batch_dot(query, key, transpose_b=True)
            weights = npx.masked_softmax(scores, mask.astype(bool), axis=-1, temperature=2.0)
            return npx.batch_dot(npx.dropout(weights, p=0.1), key)

    x, mask = np.random.normal(size=(2, 3, 4)), np.array(onp.tril(onp.ones((2, 3, 3))), dtype="int32")
    block = Attention()
    expected = block(x, x, mask)
    block.hybridize()
    onp.testing.assert_allclose(block(x, x, mask).asnumpy(), expected.asnumpy(), rtol=1e-5)
    with autograd.record():  # dropout's numbers are drawn by the graph's shapes
        assert block(x, x, mask).shape == (2, 3, 4)


class Widest(mx.contrib.quantization.CalibrationCollector):
    """The range of all values seen."""

    def __init__(self):
        super().__init__()
        self.operators = set()

    def collect(self, name, op_name, arr):
        self.operators.add(op_name)
        low, high = self.min_max_dict.get(name, (0, 0))
        self.min_max_dict[name] = min(low, arr.min().asscalar()), max(high, arr.max().asscalar())


def test_quantization_with_arguments_of_2():
    quantization = mx.contrib.quantization
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(8, activation="relu"), mx.gluon.nn.Dense(5))
    net.initialize()
    x = mx.np.random.normal(size=(12, 6))
    want = net(x).asnumpy()
    loader = mx.gluon.data.DataLoader(mx.gluon.data.ArrayDataset(x, mx.np.zeros(12)), batch_size=4)
    widest = Widest()
    for mode, further in (("none", {}), ("naive", {"num_calib_batches": 2}), ("entropy", {}),
                          ("custom", {"LayerOutputCollector": widest})):
        quantized = quantization.quantize_net(net, calib_mode=mode, calib_data=loader, device=mx.cpu(), **further)
        assert abs(quantized(x).asnumpy() - want).max() < 0.05 * abs(want).max(), mode
    assert widest.include_layers and "Activation" in widest.operators
    assert isinstance(quantization.quantize_net(net, data_shapes=[(1, 6)])(x), mx.np.ndarray)
    for wrong, message in (({}, "at least one of"), ({"calib_data": [x], "calib_mode": "naive"}, "DataLoader type"),
                           ({"calib_data": loader, "calib_mode": "customize"}, "unknown calibration mode"),
                           ({"data_shapes": "data"}, "list of Tuple")):
        with pytest.raises(ValueError, match=message):
            quantization.quantize_net(net, **wrong)


def test_quantized_checkpoint():
    data = mx.sym.var("data").as_np_ndarray()
    sym = mx.sym.npx.fully_connected(data, mx.sym.var("w").as_np_ndarray(), num_hidden=3, no_bias=True)
    args = {"w": mx.np.random.normal(size=(3, 4))}
    loader = mx.gluon.data.DataLoader(mx.np.ones((6, 4)), batch_size=2)
    with pytest.warns(UserWarning, match="deprecated"):
        qsym, qargs, _ = mx.contrib.quantization.quantize_model(sym, args, {}, calib_mode="naive", calib_data=loader,
                                                                num_calib_batches=1, quantize_mode="full")
    assert onp.dtype(qargs["w_quantize"].dtype) == "int8" and isinstance(qsym, type(sym))


# ---------------------------------------------------------------- flax
def test_flax_modules_are_blocks():
    flax = pytest.importorskip("flax.linen", reason="turns modules of flax into blocks: pip install 'mxjax[flax]'")
    from mxjax.interop.flax import FlaxBlock
    block = FlaxBlock(flax.Dense(3), np.ones((1, 4)))
    with autograd.record():
        out = block(np.ones((2, 4)))
    out.backward()
    assert type(out) is np.ndarray and sorted(block.collect_params()) == ["bias", "kernel"]
    assert (block.collect_params()["bias"].grad() == 2).all()
