"""Saved models as functions of NumPy arrays: the forms of a model, metadata, checks, warm-up."""

import textwrap

import numpy as np
import pytest

import mxjax as mx
from mxjax.base import MXNetError
from mxjax.serving import Served, versions_of


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """(prefix of a checkpoint with a softmax, the same as a function)."""
    prefix = str(tmp_path_factory.mktemp("models") / "mlp")
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="fc"), name="softmax")
    random = np.random.default_rng(0)
    weight, bias = random.normal(size=(3, 4)).astype("float32"), random.normal(size=3).astype("float32")
    for epoch, factor in ((1, 1.0), (12, 2.0)):
        mx.model.save_checkpoint(prefix, epoch, net, {"fc_weight": mx.nd.array(weight * factor),
                                                      "fc_bias": mx.nd.array(bias)}, {})

    def expected(x, factor=2.0):
        z = np.exp(x @ (weight * factor).T + bias)
        return z / z.sum(1, keepdims=True)
    return prefix, expected


def test_a_checkpoint_in_each_of_its_forms(saved):
    prefix, expected = saved
    x = np.random.default_rng(1).normal(size=(5, 4)).astype("float32")
    for source, factor in ((f"{prefix}:1", 1.0), (f"{prefix}:12", 2.0), (prefix, 2.0), (f"{prefix}-symbol.json", 2.0)):
        model = Served(source, shapes={"data": (1, 4)})
        assert model.name == "mlp"
        np.testing.assert_allclose(model({"data": x})["softmax_output"], expected(x, factor), rtol=1e-5)
    assert model.inputs == [{"name": "data", "dtype": np.dtype("float32"), "shape": [-1, 4]}]
    assert model.outputs == [{"name": "softmax_output", "dtype": np.dtype("float32"), "shape": [-1, 3]}]
    assert Served(prefix).inputs[0]["shape"] == [-1]


def test_an_exported_block(tmp_path):
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(4, activation="relu"), mx.gluon.nn.Dense(2))
    net.initialize()
    net.hybridize()
    x = mx.nd.random.normal(shape=(3, 4))
    wanted = net(x)
    net.export(str(tmp_path / "block"))
    [output] = Served(str(tmp_path / "block"))({"data": x.asnumpy()}).values()
    np.testing.assert_allclose(output, wanted.asnumpy(), rtol=1e-5)


def test_code_before_and_behind_a_model(saved, tmp_path):
    prefix, expected = saved
    file = tmp_path / "iris.py"
    file.write_text(textwrap.dedent(f"""
        import numpy as np
        class Model:
            source = {prefix!r}
            shapes = {{"data": (1, 4)}}
            def preprocess(self, inputs):
                return {{"data": inputs["data"] / 10}}
            def postprocess(self, outputs):
                return {{"class": outputs["softmax_output"].argmax(1)}}
        """))
    x = np.random.default_rng(2).normal(size=(6, 4)).astype("float32") * 10
    np.testing.assert_array_equal(Served(str(file))({"data": x})["class"], expected(x / 10).argmax(1))
    alone = tmp_path / "alone.py"
    alone.write_text("class Model:\n    shapes = {'x': (1, 2)}\n    def predict(self, inputs):\n"
                     "        return {'y': inputs['x'] + 1}\n")
    model = Served(str(alone))
    assert model.input_names == ["x"] and model({"x": np.zeros((2, 2))})["y"].tolist() == [[1, 1], [1, 1]]


def test_warming_compiles_each_size_once(saved):
    model = Served(saved[0], shapes={"data": (1, 4)})
    model.warm([1, 2])
    model.warm([1, 2])
    assert model.compiled == 2
    model({"data": np.zeros((2, 4), "float32")})
    assert model.compiled == 2
    with pytest.raises(MXNetError, match="--shape data=1"):
        Served(saved[0]).warm([1])


@pytest.mark.parametrize("inputs, message", [
    ({}, "expects the inputs data, got none"),
    ({"data": np.zeros((1, 4)), "extra": np.zeros(1)}, "got data, extra"),
    ({"data": np.zeros((1, 5))}, r"shape \[-1, 4\], got \[1, 5\]"),
    ({"data": np.zeros(4)}, r"shape \[-1, 4\], got \[4\]"),
    ({"data": np.array([["a"] * 4])}, "must have a numeric dtype"),
])
def test_inputs_that_do_not_fit(saved, inputs, message):
    with pytest.raises(ValueError, match=message):
        Served(saved[0], shapes={"data": (1, 4)}).checked(inputs)


def test_inputs_get_the_models_dtype(saved):
    given = {"data": np.arange(4).reshape(1, 4)}
    assert Served(saved[0]).checked(given)["data"].dtype == np.float32
    assert Served(saved[0], dtypes={"data": "float16"}).checked(given)["data"].dtype == np.float16


def test_models_that_are_none(saved, tmp_path):
    with pytest.raises(MXNetError, match="no such model"):
        Served(str(tmp_path / "nothing"))
    with pytest.raises(MXNetError, match="no such model"):
        Served(f"{saved[0]}:99")
    with pytest.raises(MXNetError, match="unknown input image"):
        Served(saved[0], shapes={"image": (1, 4)})
    (tmp_path / "empty.py").write_text("")
    with pytest.raises(MXNetError, match="no class Model"):
        Served(str(tmp_path / "empty.py"))
    (tmp_path / "bare.py").write_text("class Model:\n    pass\n")
    with pytest.raises(MXNetError, match="neither"):
        Served(str(tmp_path / "bare.py"))


def test_versions_are_numbered_folders(saved, tmp_path):
    for version in ("10", "9", "other"):
        (tmp_path / version).mkdir()
    (tmp_path / "9" / "model.py").write_text("")
    assert list(versions_of(str(tmp_path)).items()) == [("9", str(tmp_path / "9" / "model.py")),
                                                       ("10", str(tmp_path / "10"))]
    assert versions_of(saved[0]) == {"": saved[0]}
    (tmp_path / "9" / "more.py").write_text("")
    with pytest.raises(MXNetError, match=r"only one \.py file, it contains model\.py, more\.py"):
        versions_of(str(tmp_path))


def test_shapes_that_other_models_have(saved):
    model = Served(saved[0], shapes={"data": (1, 4), "image": (1, 3)}, shared=True)
    assert model.shapes == {"data": (1, 4)}
