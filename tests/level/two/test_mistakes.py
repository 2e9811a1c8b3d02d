"""Calls that level 2 refuses: the types of the errors are MXNet 2's, and the texts say what was expected."""

import re

import pytest

import mxjax as mx
from mxjax import gluon, np
from mxjax.gluon import nn, rnn
from mxjax.gluon.contrib.data import vision


def ready(block, hybrid=False):
    block.initialize()
    if hybrid:
        block.hybridize()
    return block


class Odd(gluon.HybridBlock):
    """Returns what it is told to, or the sum of its arguments."""

    def __init__(self, result=None):
        super().__init__()
        self.result = result

    def forward(self, x, y=None):
        return self.result if self.result is not None else x if y is None else x + y


def graph(**options):
    x, weight = mx.sym.var("x", dtype="float32"), mx.sym.var("w", dtype="float32")
    return gluon.SymbolBlock(x * weight, [x], {"w": gluon.Parameter("w", **options)})


def changed():
    net = Odd()
    net.part = nn.Dense(2)
    net.part = gluon.Parameter("part")


MISTAKES = [
    (lambda: gluon.HybridBlock()(np.ones(2)), NotImplementedError, "HybridBlock must define forward"),
    (lambda: ready(Odd(), True)(None, None), ValueError, "there must be one NDArray in the input"),
    (lambda: ready(Odd(3), True)(np.ones(2)), ValueError, "the output of HybridBlock must be a (nested) list"),
    (lambda: ready(Odd(), True)(np.ones(2), 5), ValueError, "the input of HybridBlock must be a (nested) list"),
    (lambda: rnn.RNNCell(2, hidden_size=2), TypeError, "RNNCell got multiple values for 'hidden_size'"),
    (lambda: rnn.RNNCell(*range(20)), TypeError, "arguments at most, got 20"),
    (lambda: changed(), TypeError, "Changing attribute type for part from"),
    (lambda: graph(dtype="float64", allow_deferred_init=True), AssertionError, "'w': desired dtype "),
    (lambda: gluon.SymbolBlock(mx.sym.var("x") * 2, [mx.sym.var("x")], {"w": gluon.Parameter("w")}), ValueError,
     "params are unused by the model"),
    (lambda: ready(rnn.RNN(2))(np.ones((2, 3))), AssertionError, "Input data should be rank-3 tensor"),
    (lambda: gluon.loss.Loss(None, 0)(np.ones(2)), NotImplementedError, "Loss must define forward"),
    (lambda: gluon.loss.L1Loss(weight="a")(np.ones(2), np.ones(2)), AssertionError, "weight must be a number, got str"),
    (lambda: gluon.loss.CTCLoss(layout="CNT"), AssertionError, "Only NTC and TNC layouts for pred are supported"),
    (lambda: gluon.loss.CTCLoss(label_layout="T"), AssertionError, "Only NT and TN layouts for label are supported"),
    (lambda: gluon.loss.LogisticLoss(label_format="odd"), ValueError, "label_format can only be signed or binary"),
    (lambda: np.sum(np.ones(2), where=np.ones(2)), ValueError, "only where=None and where=True are supported"),
    (lambda: np.sort(np.ones(2), odd=1), TypeError, "sort got an unexpected keyword argument 'odd'"),
    (lambda: np.sort(np.ones(2), order="a"), NotImplementedError, "order not supported here"),
    (lambda: np.result_type(3), ValueError, "Inputs of result_type must be ndarrays or dtypes"),
    (lambda: np.linalg.qr(np.ones((2, 2)), "complete"), NotImplementedError, "only mode='reduced' is implemented"),
    (lambda: vision.create_image_augment((3, 8, 8), mean=3), AssertionError,
     "mean must be True or a number for each channel, got 3"),
    (lambda: vision.ImageDataLoader(1, (3, 8, 8), imglist=[], dtype="int8"), AssertionError,
     "int8 label not supported"),
    (lambda: vision.ImageDataLoader(1, (3, 8, 8)), AssertionError, "specify the images by path_imgrec"),
    (lambda: vision.ImageDataLoader(1, (3, 8, 8), imglist=[[0, "a.jpg"]], path_root=".", aug_list=3), ValueError,
     "aug_list must be a Block or a list of them, got int"),
    (lambda: vision.dataloader.BboxLabelTransform()(np.ones((4, 4, 3)), np.array([2.0, 4, 0, 0, 0, 1])), ValueError,
     "a label must have at least 5 numbers per object, got 4"),
    (lambda: gluon.data.vision.transforms.RandomRotation((0, 1), rotate_with_proba=2)(np.ones((2, 2, 3))), ValueError,
     "Probability of rotating the image should be between 0 and 1"),
]


@pytest.mark.parametrize("call, error, told", MISTAKES)
def test_calls_that_level_2_refuses(call, error, told):
    with pytest.raises(error, match=re.escape(told)):
        call()
