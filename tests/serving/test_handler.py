"""Files with SageMaker's functions: which of them are used, what they get, mistakes."""

import io
import json

import numpy as np
import pytest

from mxjax.base import MXNetError
from mxjax.serving import Handler, is_handler
from mxjax.serving.handler import UnknownType


def _handler(folder, code):
    path = folder / "inference.py"
    path.write_text(code)
    assert is_handler(str(path))
    handler = Handler(str(path))
    handler.warm()
    return handler


def test_transform_fn_gets_text_and_may_choose_the_type(tmp_path):
    handler = _handler(tmp_path, "def model_fn(model_dir):\n    return model_dir\n"
                       "def transform_fn(model, content, content_type, accept):\n"
                       "    return f'{model} {content!r} {content_type} {accept}', 'text/plain'\n")
    assert handler.transform(b"[1]", "application/json", "text/csv") == (
        f"{tmp_path} '[1]' application/json text/csv".encode(), "text/plain")
    assert handler.transform(b"\x89", "image/png", "a/b")[0] == f"{tmp_path} b'\\x89' image/png a/b".encode()


def test_some_of_the_three_steps(tmp_path):
    handler = _handler(tmp_path, "import mxnet as mx\n"
                       "def model_fn(model_dir):\n    return lambda x: x * 2\n"
                       "def input_fn(content, content_type):\n    return mx.nd.array([float(content)])\n")
    assert json.loads(handler.transform(b"4", "text/csv", "application/json")[0]) == [8]
    content, kind = handler.transform(b"4", "x/y", "application/x-npy")
    assert np.load(io.BytesIO(content)).tolist() == [8] and kind == "application/x-npy"
    with pytest.raises(UnknownType, match="asked for image/png"):
        handler.transform(b"4", "x/y", "image/png")


def test_the_default_steps(tmp_path):
    handler = _handler(tmp_path, "def model_fn(model_dir):\n    return lambda x: x + 1\n")
    stream = io.BytesIO()
    np.save(stream, np.ones((2, 2), "float32"))
    for content, kind in ((b"[[1, 1], [1, 1]]", "application/json"), (b"1,1\n1,1", "text/csv"),
                          (stream.getvalue(), "application/x-npy")):
        assert json.loads(handler.transform(content, kind, "application/json")[0]) == [[2, 2], [2, 2]]
    for content, kind in ((b"[[1], [1, 2]]", "application/json"), (b"a", "text/csv"), (b"", "application/x-npy")):
        with pytest.raises(ValueError, match="not an array"):
            handler.transform(content, kind, "application/json")


def test_a_module_gets_batches_of_the_shape_it_is_bound_to(tmp_path):
    handler = _handler(tmp_path, "import mxnet as mx\n"
                       "def model_fn(model_dir):\n    twice = mx.sym.Variable('data') * 2\n"
                       "    module = mx.mod.Module(twice, label_names=None)\n"
                       "    module.bind([('data', (2, 1, 2))], for_training=False)\n"
                       "    module.init_params()\n    return module\n")
    for rows in (1, 2, 3, 4):
        given = np.arange(2 * rows, dtype="float32").reshape(rows, 2)
        text = "\n".join(",".join(map(str, row)) for row in given)
        for content, kind in ((json.dumps(given[:, None].tolist()), "application/json"), (text, "text/csv")):
            answer = json.loads(handler.transform(content.encode(), kind, "application/json")[0])
            np.testing.assert_array_equal(answer, 2 * given[:, None])


def test_types_with_parameters_and_alternatives(tmp_path):
    handler = _handler(tmp_path, "def model_fn(model_dir):\n    return lambda x: x + 1\n")
    for accept, kind in (("text/html, application/json;q=0.9", "application/json"), ("a/b, */*", "application/json"),
                         ("TEXT/CSV, */*", "text/csv")):
        assert handler.transform(b"[[1]]", "application/json; charset=utf-8", accept)[1] == kind


def test_input_fn_may_ask_for_the_model(tmp_path):
    handler = _handler(tmp_path, "def model_fn(model_dir):\n    return 3\n"
                       "def input_fn(content, content_type, model):\n    return model\n"
                       "def predict_fn(data, model):\n    return data + model\n"
                       "def output_fn(prediction, accept):\n    return str(prediction)\n")
    assert handler.transform(b"", "a/b", "c/d") == (b"6", "c/d")


def test_files_that_are_none(tmp_path):
    with pytest.raises(MXNetError, match="model_fn raised ZeroDivisionError"):
        _handler(tmp_path, "def model_fn(model_dir):\n    1 / 0\n")
    other = tmp_path / "other.py"
    other.write_text("# def model_fn\nclass Model:\n    pass\n")
    assert not is_handler(str(other)) and not is_handler(str(tmp_path / "missing.py"))
    with pytest.raises(MXNetError, match="no function model_fn"):
        Handler(str(other))
