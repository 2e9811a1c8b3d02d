"""The deprecated `mx.contrib.autograd`; results of MXNet 1.9.1."""

import pytest

import mxjax as mx
from mxjax.contrib import autograd


def modes():
    return mx.autograd.is_training(), mx.autograd.is_recording()


def test_sections_restore_what_was_before():
    with autograd.train_section():
        assert modes() == (True, True)
        with autograd.test_section():
            assert modes() == (False, False)
            with autograd.test_section():
                pass
            assert modes() == (False, False)
        assert modes() == (True, True)
    assert modes() == (False, False)
    assert autograd.set_is_training(True) is False and modes() == (True, True)
    assert autograd.set_is_training(False) is True and modes() == (False, False)


@pytest.mark.parametrize("backward, gradient", [
    (lambda y: autograd.compute_gradient([y]), [2, 4]),
    (lambda y: autograd.backward([y], [mx.nd.array([1, 3])]), [2, 12]),
    (lambda y: [autograd.backward((y,), retain_graph=True), autograd.backward([y])], [4, 8])])
def test_backward(backward, gradient):
    x, found = mx.nd.array([1.0, 2]), mx.nd.zeros(2)
    autograd.mark_variables([x], [found], "add")
    with autograd.train_section():
        y = x * x
    with pytest.raises(AssertionError, match="list or tuple"):
        autograd.backward(y)
    backward(y)
    assert found.asnumpy().tolist() == gradient


@pytest.mark.parametrize("argnum, gradients", [
    (None, [[16, 25], [8, 20]]), (0, [[16, 25]]), ([1, 0], [[8, 20], [16, 25]])])
def test_gradients_of_functions(argnum, gradients):
    def loss(x, y):
        """Computes a loss."""
        return x * y * y if argnum is None else [x * y * y]
    x, y = mx.nd.array([1.0, 2]), mx.nd.array([4.0, 5])
    found, value = autograd.grad_and_loss(loss, argnum)(x, y)
    assert [g.asnumpy().tolist() for g in found] == gradients
    assert (value if argnum is None else value[0]).asnumpy().tolist() == [16, 50]
    assert [g.asnumpy().tolist() for g in autograd.grad(loss, argnum)(x, y)] == gradients
    assert autograd.grad(loss).__doc__ == autograd.grad_and_loss(loss).__doc__ == "Computes a loss."
    assert modes() == (False, False)
    with pytest.raises(AssertionError, match="input should be NDArray"):
        autograd.grad(loss)(x, 3)
