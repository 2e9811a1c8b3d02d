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
