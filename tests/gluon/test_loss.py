"""Losses against what MXNet 1.9.1 computes."""

import numpy as np
import pytest

import mxjax as mx
from mxjax.gluon import loss as L  # noqa: N812

P = [[0.3, -1.2, 2.0], [1.5, 0.1, -0.4]]
Y = [[1, 0, 1], [0, 1, 0]]
S = [[1, -1, 1], [-1, 1, -1]]
W = [[0.5], [2.0]]
POS = [[2, 3, 4]]
PROB = (1 / (1 + np.exp(-np.array(P)))).tolist()
SMOOTH = (np.exp(Y) / np.exp(Y).sum(1, keepdims=True)).tolist()

CASES = {
    "L2": (L.L2Loss(), (P, Y, W), [0.24417, 1.07333]),
    "L1": (L.L1Loss(weight=3.0), (P, Y), [2.9, 2.8]),
    "sigmoid": (L.SigmoidBCELoss(), (P, Y), [0.31486, 0.95294]),
    "sigmoid pos_weight": (L.SigmoidBCELoss(), (P, Y, [[1.0]], POS), [0.62657, 1.38254]),
    "from_sigmoid": (L.SigmoidBCELoss(from_sigmoid=True), (PROB, Y, W, POS), [0.31328, 2.76508]),
    "softmax": (L.SoftmaxCELoss(), (P, [2, 1], W), [0.10084, 3.46746]),
    "softmax dense": (L.SoftmaxCELoss(sparse_label=False), (P, Y), [2.10334, 1.73373]),
    "KL": (L.KLDivLoss(from_logits=False), (P, SMOOTH), [0.39942, 0.56766]),
    "huber": (L.HuberLoss(rho=0.8), (P, Y), [0.56875, 0.56667]),
    "hinge": (L.HingeLoss(), (P, S), [0.23333, 1.33333]),
    "squared hinge": (L.SquaredHingeLoss(margin=2), (P, S), [1.17667, 6.14]),
    "logistic": (L.LogisticLoss(), (P, S), [0.31486, 0.95294]),
    "logistic binary": (L.LogisticLoss(label_format="binary"), (P, Y), [0.31486, 0.95294]),
    "triplet": (L.TripletLoss(margin=0.5), (P, Y, S), [1.9, 0.0]),
    "poisson": (L.PoissonNLLLoss(compute_full=True), (P, [[1, 2, 3], [4, 5, 2]]), [2.78218]),
    "poisson rate": (L.PoissonNLLLoss(from_logits=False), (np.abs(P).tolist(), Y), [1.38557]),
    "cosine": (L.CosineEmbeddingLoss(margin=0.1), (P, S, [1, -1]), [[0.1407], [0.0]]),
    "metric learning": (L.SDMLLoss(), (P, S), [3.58914, 2.20728]),
    "CTC": (L.CTCLoss(), (np.sin(np.arange(40)).reshape(2, 5, 4).tolist(), [[0, 1, -1], [2, 2, 1]]),
            [3.7465, 5.63053]),
}


@pytest.mark.parametrize("case", CASES)
def test_values(case):
    loss, inputs, expected = CASES[case]
    found = loss(*[mx.nd.array(i) for i in inputs])
    assert found.shape == np.shape(expected)
    np.testing.assert_allclose(found.asnumpy(), expected, rtol=2e-5, atol=2e-5)


def test_hybridized_and_symbolic():
    loss = L.SoftmaxCELoss()
    loss.hybridize()
    found = loss(mx.nd.array(P), mx.nd.array([2, 1]))
    out = loss(mx.sym.var("pred"), mx.sym.var("label"))
    args = {"pred": mx.nd.array(P), "label": mx.nd.array([2, 1])}
    np.testing.assert_allclose(out.bind(mx.cpu(), args).forward()[0].asnumpy(), found.asnumpy(), rtol=1e-6)


def test_wrong_arguments():
    with pytest.raises(AssertionError, match="weight must be a number"):
        L.L1Loss(weight="much")(mx.nd.array(P), mx.nd.array(Y))
    with pytest.raises(AssertionError, match="layouts"):
        L.CTCLoss(layout="CTN")


def test_ctc_with_lengths_of_labels_alone():
    """An absent input may stand before another; the numbers are MXNet's."""
    found = L.CTCLoss()(mx.nd.ones((2, 20, 4)), mx.nd.array([[1, 0, -1, -1], [2, 1, 1, -1]]), None, mx.nd.array([2, 3]))
    np.testing.assert_allclose(found.asnumpy(), [18.828207, 16.505817], rtol=1e-5)
    with pytest.raises(ValueError, match="label_format"):
        L.LogisticLoss(label_format="octal")
