"""Public names of MXNet 1.9.1, and the names of classes that its factories take."""

import ast
import functools
import hashlib
import importlib
import json
import pathlib

import pytest

import mxjax as mx
from mxjax import registry
from mxjax.contrib.text import embedding
from mxjax.gluon.contrib.data import text
from mxjax.gluon.data.vision import datasets
from mxjax.gluon.model_zoo import model_store

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


def files_of(*classes):
    """Returns the (name, hash) pairs of data sets."""
    found = [getattr(cls, "_archive", None) for cls in classes]
    for files in [files for cls in classes for files in cls._files.values()]:
        found += [files] if isinstance(files[0], str) else files
    return {tuple(file) for file in found if file}


def test_files_that_are_downloaded_are_those_of_mxnet():
    """Their names and hashes, as digests of those in MXNet's tables."""
    tables = [table for cls in (embedding.GloVe, embedding.FastText)
              for table in (cls.pretrained_archive_name_sha1, cls.pretrained_file_name_sha1)]
    found = [files_of(datasets.MNIST, datasets.FashionMNIST, datasets.CIFAR10, datasets.CIFAR100),
             files_of(text.WikiText2, text.WikiText103), set(model_store._model_sha1.items()),
             {pair for table in tables for pair in table.items()}]
    assert [hashlib.sha256(json.dumps(sorted(pairs)).encode()).hexdigest()[:16] for pairs in found] == [
        "07dd807e8717d962", "7e3a4b84a7703903", "fcb2d7ab39483f57", "14f2e37d4d91099f"]
    assert [cls._namespace for cls in (datasets.MNIST, datasets.FashionMNIST, datasets.CIFAR10, datasets.CIFAR100)] == [
        "mnist", "fashion-mnist", "cifar10", "cifar100"]


@pytest.mark.parametrize("cls", [mx.nd.NDArray, mx.sym.Symbol])
def test_python_operators_have_their_own_names(cls):
    """Tracebacks and profiles show them."""
    other = {"__class__", "__div__", "__rdiv__", "__idiv__", "__nonzero__"}  # Python 2's names, for the same methods
    methods = {name: getattr(cls, name) for name in dir(cls) if name[:2] == "__" and name not in other}
    assert {name: method.__name__ for name, method in methods.items() if hasattr(method, "__name__")} == {
        name: name for name, method in methods.items() if hasattr(method, "__name__")}


def test_modules_that_are_imported_by_name_are_there():
    for path in pathlib.Path(mx.__file__).parent.rglob("*.py"):
        package = ".".join(["mxjax", *path.relative_to(pathlib.Path(mx.__file__).parent).parts[:-1]])
        source = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)) if "import_module" in source else ():
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module") and \
                    isinstance(node.args[0], ast.Constant) and node.args[0].value.startswith((".", "mxjax")):
                name = importlib.util.resolve_name(node.args[0].value, package)
                assert importlib.util.find_spec(name), f"{path}: {name}"
