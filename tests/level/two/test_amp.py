"""Mixed precision at level 2, which a process does not leave again."""

import logging

import mxjax as mx

from ...internals import is_hybridized, scaler_of


def test_a_warning_of_blocks_made_before():
    kept = []
    logging.getLogger().addHandler(type("H", (logging.Handler,), {"emit": lambda self, r: kept.append(r.msg)})())
    net = mx.gluon.nn.Dense(1)
    assert not is_hybridized(net)
    mx.amp.init(layout_optimization=True)
    assert any("before AMP" in text for text in kept)


def test_mixed_precision_of_mx_np():
    mx.amp.init("float16")
    x = mx.np.ones((2, 2))
    half = x.astype("float16")
    for wide in (mx.np.exp(half), half.sum(), mx.np.mean(half), mx.np.where(x > 0, x, half), mx.np.dot(x, half),
                 mx.np.concatenate([x, half]), mx.np.stack([half, x])):
        assert wide.dtype == "float32"
    assert mx.np.matmul(x, x).dtype == "float16" and "_npi_matmul" in mx.amp.list_lp16_ops("float16")
    assert "_linalg_gemm2" not in mx.amp.list_fp32_ops("float16")


def test_a_training_with_loss_scaling():
    mx.amp.init("float16")
    net = mx.gluon.nn.Dense(1, in_units=2)
    net.initialize()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    mx.amp.init_trainer(trainer)
    before = net.weight.data().asnumpy()
    with mx.autograd.record():
        with mx.amp.scale_loss(net(mx.np.ones((4, 2))) ** 2, trainer) as scaled:
            mx.autograd.backward(scaled)
    trainer.step(4)
    assert (net.weight.data().asnumpy() != before).all()
    net.weight.grad()[:] = float("inf")
    assert scaler_of(trainer).has_overflow([net.weight, net.bias])
