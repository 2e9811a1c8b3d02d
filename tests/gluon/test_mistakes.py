"""Calls that `mx.gluon` refuses: the types of the errors are MXNet's, and the texts say what was expected."""

import re

import numpy as np
import pytest

import mxjax as mx
from mxjax import gluon
from mxjax.gluon import contrib, data, nn, rnn
from mxjax.gluon import probability as mgp
from mxjax.gluon.contrib.data import vision
from mxjax.gluon.contrib.estimator import event_handler
from mxjax.gluon.data.vision import transforms
from mxjax.gluon.model_zoo import vision as zoo


def ones(*shape):
    return mx.nd.ones(shape)


def ready(block, *hybrid):
    block.initialize()
    if hybrid:
        block.hybridize()
    return block


def called(block, *args):
    return ready(block, "hybrid")(*args)


class Plus(gluon.HybridBlock):
    """Adds its second argument to the first, if there is one."""

    def hybrid_forward(self, F, x, y=None):
        return x * 2 if y is None else x + y


class Odd(gluon.HybridBlock):
    """Returns a number."""

    def hybrid_forward(self, F, x):
        return 3


def twice(block):
    block(ones(2, 3), None)
    return block(ones(2, 3), ones(2, 3))


def estimator(**options):
    net = ready(nn.Dense(1, in_units=3))
    return contrib.estimator.Estimator(net, **{"loss": gluon.loss.L2Loss(), **options})


def trainer(**options):
    return gluon.Trainer(ready(nn.Dense(1, in_units=3)).collect_params(), "sgd", **options)


SYMBOL = mx.sym.var("x")

BLOCKS = [
    (lambda: gluon.Block()(ones(2)), NotImplementedError, "Block must define forward"),
    (lambda: called(gluon.HybridBlock(), ones(2)), NotImplementedError, "HybridBlock must define hybrid_forward"),
    (lambda: called(Plus(), "a"), ValueError, "there must be one NDArray or one Symbol in the input"),
    (lambda: called(Plus(), ones(2), 5), ValueError,
     "the input of HybridBlock must be a (nested) list of Symbol or NDArray, but got 5 of type <class 'int'>"),
    (lambda: called(Odd(), ones(2)), ValueError, "the output of HybridBlock must be a (nested) list of Symbol"),
    (lambda: twice(ready(Plus(), "hybrid")), ValueError, "The argument structure of HybridBlock does not match"),
    (lambda: Plus()(SYMBOL, ones(2)), ValueError, "we do not support mixed NDArrays and Symbols"),
    (lambda: Plus().optimize_for(ones(2)), ValueError, 'Must specify "backend" to optimize_for'),
    (lambda: nn.Dense(2).export("x"), RuntimeError, "Please first call block.hybridize()"),
    (lambda: nn.HybridSequential().add(nn.Sequential()), ValueError,
     "Children of HybridBlock must also be HybridBlock"),
    (lambda: nn.Dense(2).hybridize(remat="some"), ValueError, "hybridize: remat must be True, False or one of"),
    (lambda: gluon.SymbolBlock(SYMBOL * 2, [SYMBOL * 3]), AssertionError, "Input symbols must be variable"),
    (lambda: gluon.SymbolBlock(SYMBOL * 2, [SYMBOL])(3), AssertionError,
     "the first argument to forward be either Symbol or NDArray, but got <class 'int'>"),
    (lambda: gluon.SymbolBlock(SYMBOL * 2, [SYMBOL])(SYMBOL, SYMBOL), AssertionError, "Invalid input format"),
    (lambda: nn.Lambda("nosuch"), AssertionError, "Function name nosuch is not found in ndarray."),
    (lambda: nn.Lambda(3), ValueError, "Unrecognized function in lambda: 3 of type <class 'int'>"),
    (lambda: nn.HybridLambda("nosuch"), AssertionError, "Function name nosuch is not found in symbol/ndarray."),
    (lambda: nn.HybridLambda(3), ValueError, "Unrecognized function in lambda: 3 of type <class 'int'>"),
    (lambda: nn.LeakyReLU(-0.1), AssertionError, "Slope coefficient for LeakyReLU must be no less than 0, got -0.1"),
    (lambda: nn.Sequential()(ones(2), ones(2)), TypeError, "Sequential expects one input, got 2"),
    (lambda: nn.Conv2D(2, (3, 3, 3)), AssertionError, "must be a number or a list of 2 ints, got (3, 3, 3)"),
    (lambda: nn.Conv2D(2, 3, layout="NCW"), AssertionError, "NCHW"),
    (lambda: nn.MaxPool1D(layout="NCHW"), AssertionError, "supports only the layout"),
    (lambda: nn.ReflectionPad2D((1, 1)), AssertionError, "padding must be one number or 8 numbers, got (1, 1)"),
    (lambda: contrib.nn.PixelShuffle2D((2, 2, 2)), AssertionError, "PixelShuffle2D needs 2 factors, got 3"),
    (lambda: ready(nn.LayerNorm(axis=2))(ones(2, 3)), ValueError,
     "LayerNorm: axis 2 is out of range for an array of 2 dimensions"),
    (lambda: gluon.loss.L1Loss(weight="a")(ones(2), ones(2)), AssertionError, "weight must be a number, got str"),
    (lambda: gluon.loss.CTCLoss(layout="CNT"), AssertionError, "Only NTC and TNC layouts for pred are supported"),
    (lambda: gluon.loss.CTCLoss(label_layout="T"), AssertionError, "Only NT and TN layouts for label are supported"),
    (lambda: gluon.loss.LogisticLoss(label_format="odd"), ValueError, "label_format can only be signed or binary"),
    (lambda: gluon.loss.SDMLLoss()(ones(2, 3), ones(3, 3)), AssertionError, "must have the same shape, got (2, 3)"),
]

CELLS = [
    (lambda: rnn.RecurrentCell().state_info(), NotImplementedError, "RecurrentCell must define state_info"),
    (lambda: rnn.HybridRecurrentCell().hybrid_forward(mx.nd, ones(2)), NotImplementedError,
     "HybridRecurrentCell must define hybrid_forward"),
    (lambda: rnn.ModifierCell(rnn.RNNCell(2)).hybrid_forward(mx.nd, ones(2), []), NotImplementedError,
     "ModifierCell must define hybrid_forward"),
    (lambda: rnn.RNNCell(2).unroll(2, None), AssertionError, "unroll(inputs=None) has been deprecated"),
    (lambda: rnn.RNNCell(2).unroll(2, mx.sym.Group([SYMBOL, SYMBOL * 2])), AssertionError,
     "unroll doesn't allow grouped symbol as input"),
    (lambda: rnn.RNNCell(2).unroll(2, [ones(1, 2)] * 3), AssertionError,
     "unroll: expected a sequence of 2 steps, got 3"),
    (lambda: rnn.BidirectionalCell(rnn.RNNCell(2), rnn.RNNCell(2))(ones(1, 2), []), NotImplementedError,
     "Bidirectional cannot be stepped. Please use unroll"),
    (lambda: rnn.SequentialRNNCell().hybrid_forward(), NotImplementedError, "cannot be hybridized"),
    (lambda: rnn.DropoutCell("a"), AssertionError, "rate must be a number, got 'a'"),
    (lambda: rnn.ZoneoutCell(rnn.BidirectionalCell(rnn.RNNCell(2), rnn.RNNCell(2))), AssertionError,
     "BidirectionalCell doesn't support zoneout since it doesn't support step"),
    (lambda: [rnn.ResidualCell(cell) for cell in [rnn.RNNCell(2)] * 2], AssertionError,
     "One cell cannot be modified twice"),
    (lambda: [rnn.ResidualCell(cell) and cell.begin_state(1) for cell in [rnn.RNNCell(2)]], AssertionError,
     "After applying modifier cells"),
    (lambda: rnn.LSTM(2, layout="CNT"), AssertionError, "layout"),
    (lambda: rnn.LSTM(2, projection_size=1)._unfuse(), AssertionError, "_unfuse does not support projection layer"),
    (lambda: rnn.LSTM(2, state_clip_min=-1.0)._unfuse(), AssertionError, "_unfuse does not support state clipping"),
    (lambda: ready(rnn.RNN(2, input_size=3))(ones(2, 1, 3), [ones(1, 2, 2)]), ValueError,
     "Invalid recurrent state shape. Expecting (1, 1, 2), got (1, 2, 2)."),
    (lambda: contrib.rnn.VariationalDropoutCell(rnn.BidirectionalCell(rnn.RNNCell(2), rnn.RNNCell(2)), drop_states=0.5),
     AssertionError, "bidirectional cells do not support variational state dropout"),
    (lambda: contrib.rnn.Conv1DRNNCell((3, 8), 2, 3, 2), AssertionError, "Only support odd number"),
]

TRAINING = [
    (lambda: gluon.Trainer(3, "sgd"), ValueError, "First argument must be a list or dict of Parameters"),
    (lambda: gluon.Trainer([3], "sgd"), ValueError, "First argument must be a list or dict of Parameters"),
    (lambda: gluon.Trainer([], mx.optimizer.SGD(), {"learning_rate": 1}), AssertionError,
     "optimizer_params must be None if optimizer is an instance of Optimizer"),
    (lambda: trainer(kvstore=mx.kv.create("local"), update_on_kvstore=True).update(1), AssertionError,
     "when parameters are updated on kvstore is not supported"),
    (lambda: gluon.utils.split_data(ones(3), 2), ValueError, "cannot be split evenly into 2 slices along axis 0"),
    (lambda: gluon.utils.split_data(ones(3), 0), ValueError, "num_slice=0: data of shape"),
    (lambda: gluon.utils.split_and_load(ones(3), []), ValueError, "ctx_list is empty"),
    (lambda: gluon.utils.clip_global_norm([], 1), AssertionError, "clip_global_norm: there are no arrays"),
    (lambda: gluon.utils.shape_is_known((2, -2)), AssertionError, "a dimension cannot be less than"),
    (lambda: gluon.utils.split_rnn_params(ones(4), "odd", 1, 1, 1), ValueError, "mode must be one of"),
    (lambda: gluon.utils.split_rnn_params(ones(3), "gru", 1, 1, 1), ValueError, "param has 3 values, expected 12"),
    (lambda: gluon.metric.CrossEntropy().update([ones(3)], [ones(2, 2)]), AssertionError, "do not match predictions"),
    (lambda: estimator(context=3), ValueError, "context must be a Context or a list of Context"),
    (lambda: estimator(context=[mx.tpu(9)]), AssertionError, "tpu(9) is not available"),
    (lambda: estimator(trainer=3), ValueError, "Trainer must be a Gluon Trainer instance"),
    (lambda: estimator(loss=3), ValueError, "loss must be a Loss"),
    (lambda: estimator(train_metrics=[3]), ValueError, "metrics must be a Metric or a list of Metric"),
    (lambda: estimator(batch_processor=3), ValueError, "Customized Batch Processor must contain fit_batch()"),
    (lambda: estimator().fit([], epochs=1), ValueError, "Estimator only support input as Gluon DataLoader"),
    (lambda: estimator().fit(data.DataLoader([1], 1), epochs=1, batches=1), ValueError,
     "Fit only support exactly one type of"),
    (lambda: event_handler.LoggingHandler(log_interval="step"), ValueError, "an integer or string 'epoch'"),
    (lambda: event_handler.CheckpointHandler("x", save_best=True), ValueError, "To save best model only"),
    (lambda: event_handler.EarlyStoppingHandler(3), ValueError, "Please provide one of the metric objects"),
    (lambda: event_handler.EarlyStoppingHandler(mx.metric.CompositeEvalMetric()), ValueError,
     "CompositeEvalMetric is not supported for EarlyStoppingHandler"),
    (lambda: zoo.get_resnet(3, 18), AssertionError, "Invalid resnet version: 3. Options are 1 and 2."),
    (lambda: zoo.get_resnet(1, 19), AssertionError, "Invalid number of layers: 19. Options are [18, 34"),
    (lambda: zoo.ResNetV1(zoo.BasicBlockV1, [1, 1], [4, 4]), AssertionError,
     "2 stages need 3 numbers of channels, got 2"),
    (lambda: zoo.SqueezeNet("1.2"), AssertionError, "Unsupported SqueezeNet version 1.2:1.0 or 1.1 expected"),
]

DATA = [
    (lambda: data.Dataset()[0], NotImplementedError, "Dataset must define __getitem__"),
    (lambda: len(data.Dataset()), NotImplementedError, "Dataset must define __len__"),
    (lambda: iter(data.Sampler()), NotImplementedError, "Sampler must define __iter__"),
    (lambda: len(data.Sampler()), NotImplementedError, "Sampler must define __len__"),
    (lambda: data.SimpleDataset([1]).shard(2, 2), AssertionError, "shard 2 of 2 is out of bounds"),
    (lambda: data.SimpleDataset([1]).sample([0]), TypeError, "sampler must be a gluon.data.Sampler, got list"),
    (lambda: data.ArrayDataset(), AssertionError, "ArrayDataset needs at least one array"),
    (lambda: data.ArrayDataset([1], [1, 2]), AssertionError, "the first one has 1, number 2 has 2"),
    (lambda: data.DataLoader([1]), ValueError, "batch_size must be specified unless batch_sampler is specified"),
    (lambda: data.DataLoader([1], 1, batch_sampler=data.BatchSampler(data.SequentialSampler(1), 1)), ValueError,
     "must not be specified if batch_sampler is"),
    (lambda: data.DataLoader([1], 1, True, data.SequentialSampler(1)), ValueError,
     "shuffle must not be specified if sampler is specified"),
    (lambda: list(data.BatchSampler(data.SequentialSampler(3), 2, "odd")), ValueError, "last_batch"),
    (lambda: transforms.RandomRotation((0, 1), rotate_with_proba=2)(ones(2, 2, 3)), ValueError,
     "Probability of rotating the image should be between 0 and 1"),
    (lambda: vision.transforms.bbox.ImageBboxRandomFlipLeftRight(1)(ones(4, 4, 3), ones(4)), AssertionError,
     "boxes must have the shape (boxes, 4 or more), got (4,)"),
    (lambda: vision.transforms.bbox.ImageBboxCrop((0, 0, 0, 1)), AssertionError, "crop must be (left >= 0, top >= 0"),
    (lambda: vision.transforms.bbox.ImageBboxRandomExpand(1)(ones(4, 4), ones(1, 4)), NotImplementedError,
     "expected an image (height, width, channels), got (4, 4)"),
    (lambda: vision.transforms.bbox.ImageBboxRandomExpand(1, fill=(1, 2))(ones(4, 4, 3), ones(1, 4)), ValueError,
     "fill has 2 numbers for 3 channels"),
    (lambda: vision.transforms.bbox.ImageBboxResize(2, 2)(ones(4, 4), ones(1, 4)), NotImplementedError,
     "expected an image (height, width, channels), got (4, 4)"),
    (lambda: vision.transforms.bbox.utils.bbox_xywh_to_xyxy(np.ones((2, 3))), IndexError,
     "boxes must have 4 columns, got (2, 3)"),
    (lambda: vision.transforms.bbox.utils.bbox_xywh_to_xyxy([1, 2]), IndexError, "a box must have 4 numbers, got 2"),
    (lambda: vision.transforms.bbox.utils.bbox_xywh_to_xyxy(3), TypeError, "a list, a tuple or a NumPy array"),
]

DISTRIBUTIONS = [
    (lambda: mgp.Distribution(0).log_prob(1), NotImplementedError, "Distribution has no log_prob"),
    (lambda: mgp.Distribution(0).cdf(1), NotImplementedError, "Distribution has no cdf"),
    (lambda: mgp.Distribution(0).icdf(1), NotImplementedError, "Distribution has no icdf"),
    (lambda: mgp.Distribution(0).sample(), NotImplementedError, "Distribution cannot be sampled"),
    (lambda: mgp.Distribution(0).enumerate_support(), NotImplementedError, "too many values to enumerate"),
    (lambda: mgp.Distribution(0).mean, NotImplementedError, "Distribution has no mean"),
    (lambda: mgp.Distribution(0).variance, NotImplementedError, "Distribution has no variance"),
    (lambda: mgp.Distribution(0).entropy(), NotImplementedError, "Distribution has no entropy"),
    (lambda: mgp.Distribution.set_default_validate_args(3), ValueError, "expected True or False, got 3"),
    (lambda: mgp.Multinomial(2, prob=mx.np.ones(2), total_count=mx.np.ones(2)), ValueError,
     "Multinomial: total_count must be a number, got a ndarray"),
    (lambda: mgp.Binomial(-1, prob=0.5), ValueError, "n must be a non-negative integer, got -1"),
    (lambda: mgp.Binomial(1.5, prob=0.5), ValueError, "n must be a non-negative integer, got 1.5"),
    (lambda: mgp.Categorical(0, prob=0.5), ValueError, "num_events must be greater than zero, got 0"),
    (lambda: mgp.Bernoulli(), ValueError, "either `prob` or `logit` must be specified, but not both"),
    (lambda: mgp.Bernoulli(0.5, 0.5), ValueError, "either `prob` or `logit` must be specified, but not both"),
    (lambda: mgp.MultivariateNormal(mx.np.ones(2)), ValueError, "requires exactly one of"),
    (lambda: mgp.kl_divergence(mgp.Binomial(2, 0.5), mgp.Binomial(3, 0.5)), NotImplementedError,
     "KL divergence of Binomials with n=2 and n=3 has no closed form"),
    (lambda: mgp.kl_divergence(mgp.Normal(), mgp.Poisson()), NotImplementedError,
     "KL divergence between Normal and Poisson is not implemented"),
    (lambda: mgp.register_kl(mgp.Normal, mgp.Normal)(lambda p, q: 0), ValueError, "is already registered"),
    (lambda: mgp.register_kl(mgp.Normal, mgp.Poisson)(lambda p: 0), TypeError, "must have two arguments"),
    (lambda: mgp.Constraint().check(1), NotImplementedError, "Constraint must define check"),
    (lambda: mgp.constraint.dependent_property(lambda self: 1).check(1), ValueError,
     "Cannot validate a dependent constraint"),
    (lambda: mgp.Cat([mgp.constraint.Real()], lengths=[1, 2]), AssertionError, "one length per constraint (1), got 2"),
    (lambda: mgp.Stack([mgp.constraint.Real()]).check(mx.np.ones(2)), ValueError,
     "one slice per constraint (1), got 2"),
    (lambda: mgp.Stack([3]), AssertionError, "expected constraints, got a int"),
    (lambda: mgp.Transformation().sign, NotImplementedError, "Transformation has no sign"),
    (lambda: mgp.Transformation()(1), NotImplementedError, "Transformation must define _forward_compute"),
    (lambda: mgp.Transformation().inv(1), NotImplementedError, "Transformation has no inverse"),
    (lambda: mgp.Transformation().log_det_jacobian(1, 1), NotImplementedError, "has no log_det_jacobian"),
    (lambda: mgp.Independent(mgp.Distribution(), 1), TypeError, "Distribution has no event_dim"),
    (lambda: mgp.biject_to(mgp.constraint.Boolean()), NotImplementedError, "there is no transformation to Boolean"),
    (lambda: mgp.biject_to.register(3, lambda c: c), TypeError,
     "expected a constraint or a class of constraints, got 3"),
]


@pytest.mark.parametrize("call, error, told", [*BLOCKS, *CELLS, *TRAINING, *DATA, *DISTRIBUTIONS])
def test_calls_that_gluon_refuses(call, error, told):
    with pytest.raises(error, match=re.escape(told)):
        call()
