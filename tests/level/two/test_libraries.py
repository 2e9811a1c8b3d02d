"""What libraries written for MXNet 2 do with blocks, operators and data."""

import warnings

import numpy as onp
import pytest

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
