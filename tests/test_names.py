"""Public names of MXNet 1.9.1, and the names of classes that its factories take."""

import functools
import importlib
import json
import pathlib

import pytest

import mxjax as mx
from mxjax import registry

# {module: its public names}
NAMES = json.loads((pathlib.Path(__file__).parents[1] / "tools/docs/names.json").read_text())["1.9.1"]
# helpers of MXNet's own, backward operators, and what SciPy's absence tells there
ABSENT = set("""model.SKLEARN_INSTALLED nd.get_indexing_dispatch_code nd.get_oshape_of_gather_nd_op
    nd.indexing_key_expand_implicit_axes nd.sparse.gs_retain""".split()) | {
    f"{module}.contrib.backward_{name}" for module in ("nd", "sym")
    for name in ("gradientmultiplier", "hawkesll", "index_copy", "quadratic")}
FACTORIES = {
    "init.Initializer": """
        bilinear=Bilinear constant=Constant fusedrnn=FusedRNN lstmbias=LSTMBias msraprelu=MSRAPrelu normal=Normal
        one=One ones=One orthogonal=Orthogonal uniform=Uniform xavier=Xavier zero=Zero zeros=Zero""",
    "metric.EvalMetric": """
        acc=Accuracy accuracy=Accuracy caffe=Caffe ce=CrossEntropy composite=CompositeEvalMetric
        compositeevalmetric=CompositeEvalMetric crossentropy=CrossEntropy custommetric=CustomMetric f1=F1 loss=Loss
        mae=MAE mcc=MCC mse=MSE negativeloglikelihood=NegativeLogLikelihood nll_loss=NegativeLogLikelihood pcc=PCC
        pearsoncorrelation=PearsonCorrelation pearsonr=PearsonCorrelation perplexity=Perplexity rmse=RMSE
        top_k_acc=TopKAccuracy top_k_accuracy=TopKAccuracy topkaccuracy=TopKAccuracy torch=Torch""",
    "optimizer.Optimizer": """
        adadelta=AdaDelta adagrad=AdaGrad adam=Adam adamax=Adamax ccsgd=ccSGD dcasgd=DCASGD ftml=FTML ftrl=Ftrl
        groupadagrad=GroupAdaGrad lamb=LAMB lars=LARS lbsgd=LBSGD nadam=Nadam nag=NAG rmsprop=RMSProp sgd=SGD
        sgld=SGLD signum=Signum test=Test""",
}


def module_of(path):
    """Returns a module by the name that users write: "nd.contrib"."""
    found = mx
    for part in path.split(".") if path else ():
        found = getattr(found, part, None) or importlib.import_module(f"{found.__name__}.{part}")
    return found


def test_public_names():
    lacking = {f"{path}.{name}" for path, names in NAMES.items() for name in names.split()
               if not hasattr(module_of(path), name)}
    assert lacking == ABSENT


@pytest.mark.parametrize("base", FACTORIES)
def test_names_of_classes(base):
    """Each name is that of MXNet's class."""
    owner = functools.reduce(getattr, base.split("."), mx)
    classes = getattr(owner, "opt_registry", None) or registry.get_registry(owner)
    expected = dict(pair.split("=") for pair in FACTORIES[base].split())
    assert {name: classes[name].__name__ for name in expected} == expected
