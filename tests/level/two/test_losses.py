"""Losses at level 2; numbers are MXNet 2.0.0b1's where they differ from 1.9.1's."""




def test_losses_that_differ_from_level_1():
    import numpy as np

    import mxjax as mx
    L, A = mx.gluon.loss, mx.np.array
    pred, label = A([[0.3, -1.2, 2.0], [1.5, 0.1, -0.4]]), A([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
    np.testing.assert_allclose(L.KLDivLoss()(pred, label).asnumpy(), [-0.57655, -0.59598], rtol=1e-4)
    np.testing.assert_allclose(L.PoissonNLLLoss()(pred, label).asnumpy(), [2.78004, 1.78906], rtol=1e-4)
    out = L.CosineEmbeddingLoss(margin=0.1)(pred, label, A([1, -1]))
    assert out.shape == (2,)
    np.testing.assert_allclose(out.asnumpy(), [0.51711, 0.74354], rtol=1e-4)
    out = L.TripletLoss()(pred, label, pred * 0.5, A([0.5, 2.0]))
    np.testing.assert_allclose(out.asnumpy(), [2.06375, 2.99], rtol=1e-4)


def test_gradients_shapes_and_errors():
    import numpy as np

    import mxjax as mx
    L = mx.gluon.loss
    x = mx.np.array([1.0, -2.0, 0.5])
    x.attach_grad()
    with mx.autograd.record():
        loss = L.L2Loss()(x, mx.np.zeros((3, 1)), mx.np.array([1.0, 2.0, 4.0]))
    loss.backward()
    assert loss.shape == (3,) and type(loss) is mx.np.ndarray
    np.testing.assert_allclose(x.grad.asnumpy(), [1, -4, 2])
    axis1 = L.L1Loss(batch_axis=1)(mx.np.ones((2, 3)), mx.np.zeros((2, 3)))
    assert axis1.asnumpy().tolist() == [1, 1, 1] and repr(L.L1Loss()) == "L1Loss(batch_axis=0, w=None)"
    for make, kind in ((lambda: L.CTCLoss(layout="XY"), AssertionError),
                       (lambda: L.LogisticLoss(label_format="x"), ValueError),
                       (lambda: L.L1Loss(weight="a")(x, x), AssertionError),
                       (lambda: L.Loss(1.0, 0)(x), NotImplementedError)):
        try:
            make()
        except kind:
            continue
        raise SystemExit(f"no {kind.__name__}")



def test_a_loss_of_ones_own_calls_the_parts():
    import mxjax as mx
    from mxjax.gluon import loss as L

    class Cubed(L.Loss):
        def __init__(self, weight=None, batch_axis=0):
            super().__init__(weight, batch_axis)

        def forward(self, pred, label, sample_weight=None):
            loss = L._apply_weighting(mx.np.abs(label - pred) ** 3, self._weight, sample_weight)
            return L._batch_mean(loss, self._batch_axis), L._batch_sum(loss, self._batch_axis)

    cubed = Cubed(weight=2.0)
    for _ in range(2):
        mean, total = cubed(mx.np.full((2, 3), 2.0), mx.np.zeros((2, 3)), mx.np.array([[1], [3]]))
        assert mean.asnumpy().tolist() == [16, 48] and total.asnumpy().tolist() == [48, 144]
        cubed.hybridize()


def test_binary_cross_entropy_with_a_factor_on_positives():
    import numpy as np

    import mxjax as mx
    scores, label = np.array([[-2.0, 0.5], [1.5, -0.25]]), np.array([[0.0, 1], [1, 0]])
    chance = 1 / (1 + np.exp(-scores))
    for factor, more in ((1, ()), (3, (None, mx.np.array([3.0])))):
        expected = -(label * np.log(chance) * factor + (1 - label) * np.log(1 - chance)).mean(1)
        for given, from_sigmoid in ((scores, False), (chance, True)):
            loss = mx.gluon.loss.SigmoidBCELoss(from_sigmoid=from_sigmoid)
            np.testing.assert_allclose(loss(mx.np.array(given), mx.np.array(label), *more).asnumpy(), expected, 1e-5)
