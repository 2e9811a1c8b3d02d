"""Segments nest: `bulk` inside custom operators, losses and training steps; and what `clear_caches` empties."""

import numpy as np
import pytest

import mxjax as mx
from mxjax.eager.modes import Collecting, state
from mxjax.eager.trace import Trace

X = np.arange(6, dtype="f").reshape(2, 3)


class _Doubled(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        with mx.engine.bulk(10):
            value = in_data[0]
            for _ in range(5):
                value = value + 1
            self.assign(out_data[0], req[0], (value - 5) * 2)

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        with mx.engine.bulk(10):
            self.assign(in_grad[0], req[0], out_grad[0] * 2)


@mx.operator.register("doubled_in_bulk")
class _DoubledProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, in_shapes, in_dtypes):
        return _Doubled()


@pytest.mark.timeout(60)
def test_a_custom_operator_that_uses_bulk_within_bulk():
    with mx.engine.bulk(20):
        a = mx.nd.array(X)
        b = a + 1
        c = mx.nd.Custom(b, op_type="doubled_in_bulk")
        d = c * 3
        e = mx.nd.Custom(d, op_type="doubled_in_bulk") + b
        np.testing.assert_array_equal(e.asnumpy(), (X + 1) * 12 + X + 1)
    assert state.trace is None


@pytest.mark.timeout(60)
def test_gradients_through_it():
    a = mx.nd.array(X)
    a.attach_grad()
    with mx.engine.bulk(20):
        with mx.autograd.record():
            out = (mx.nd.Custom(a * 2, op_type="doubled_in_bulk") * 3).sum()
        out.backward()
        np.testing.assert_array_equal(a.grad.asnumpy(), np.full_like(X, 12))


def _step(bulk):
    net = mx.gluon.nn.Dense(3, in_units=3)
    net.initialize(mx.init.Constant(0.1))
    kept = []

    def loss(out, label):
        if bulk:
            with mx.engine.bulk(4):
                difference = out - label
            kept.append(state.trace)
            return difference.square().mean()
        return (out - label).square().mean()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
    step = mx.gluon.TrainStep(net, loss, trainer)
    losses = [step(mx.nd.array(X), mx.nd.array(X[::-1])).asnumpy() for _ in range(4)]
    return losses, net.weight.data().asnumpy(), kept


def test_bulk_in_a_loss_leaves_the_step_one_program():
    losses, weight, kept = _step(True)
    plain_losses, plain_weight, _ = _step(False)
    assert all(isinstance(trace, Trace) and trace.size == 1 << 30 for trace in kept) and len(kept) == 4
    np.testing.assert_allclose(losses, plain_losses, rtol=1e-6)
    np.testing.assert_allclose(weight, plain_weight, rtol=1e-6)
    assert state.trace is None and not state.scopes


def test_bulk_that_begins_within_a_scope_goes_on_after_it():
    before = mx.engine.set_bulk_size(0)
    try:
        with Collecting(Trace(100)) as outer:
            assert state.trace is outer
            mx.engine.set_bulk_size(7)
            assert state.trace is outer
            with Collecting(None):
                assert state.trace is None
            assert state.trace is outer
        assert state.trace.size == 7
        mx.engine.set_bulk_size(0)
        assert state.trace is None
    finally:
        mx.engine.set_bulk_size(before)


def test_clear_caches_empties_what_can_be_made_again(compiles):
    def work():
        x = mx.nd.array(np.ones((37, 41), "f"))
        x.attach_grad()
        with mx.autograd.record():
            y = (x * 2 + 1).sum()
        y.backward()
        with mx.engine.bulk(8):
            z = x + 1
            z = z * 3
        return y.asscalar(), z.asnumpy()[0, 0], x.grad.asnumpy()[0, 0]
    first = [work() for _ in range(5)][-1]
    mx.nd.waitall()
    compiles.clear()
    assert work() == first and compiles == []
    mx.clear_caches()
    assert [work() for _ in range(5)][-1] == first
    assert compiles, "what was compiled is compiled again"
