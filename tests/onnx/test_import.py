"""Import of ONNX files of others: what onnxruntime, or MXNet itself, computes."""

import io
import os
import zipfile

import numpy as np
import pytest

import mxjax as mx

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

helper, FLOAT, INT = onnx.helper, onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
GRAPHS = os.path.join(os.path.dirname(__file__), "..", "data", "mxnet", "onnx_graphs.zip")
RNG = np.random.RandomState(0)


def model(nodes, shapes, outputs, constants=(), opset=13):
    """A model of nodes (operator, inputs, outputs, attributes); `outputs` is {name: (dtype, dimensions)}."""
    graph = helper.make_graph(
        [helper.make_node(kind, old.split(","), new.split(","), **attrs) for kind, old, new, attrs in nodes], "g",
        [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in shapes.items()],
        [helper.make_tensor_value_info(name, kind, [None] * ndim) for name, (kind, ndim) in outputs.items()],
        [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in dict(constants).items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=7)


def agree(made, path, *feeds):
    """The model as a symbol and as a block gives what onnxruntime gives."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    onnx.save(made, path)
    out, args, auxs = mx.contrib.onnx.import_model(path)
    block = mx.contrib.onnx.import_to_gluon(path, mx.cpu())
    for feed in feeds:
        wanted = session.run(None, feed)
        given = {k: mx.nd.array(v, dtype=v.dtype) for k, v in feed.items()}
        whole = {**given, **args}
        bound = out.bind(mx.cpu(), {k: whole[k] for k in out.list_arguments()}, aux_states=auxs)
        called = block(*given.values())
        for results in (bound.forward(), called if isinstance(called, (list, tuple)) else [called]):
            for got, want in zip(results, wanted, strict=True):
                assert got.shape == want.shape
                np.testing.assert_allclose(got.asnumpy(), want, rtol=1e-4, atol=1e-6)


def data(*shape):
    return {"x": RNG.rand(*shape).astype("float32")}


@pytest.mark.parametrize("opset", [9, 11, 13, 17])
def test_slices_that_end_beyond_the_axis(tmp_path, opset):
    for begins, ends, axes in (([1], [10], [1]), ([-9], [2], [2]), ([0, 1], [99, 2], [0, 2]), ([1], [2**63 - 1], [1])):
        for shape in ([2, 3, 4], ["n", 3, 4]):
            lists = dict(zip(("b", "e", "a"), (np.array(n) for n in (begins, ends, axes)), strict=True))
            node = ("Slice", "x", "y", {"starts": begins, "ends": ends, "axes": axes}) if opset < 10 else \
                ("Slice", "x,b,e,a", "y", {})
            agree(model([node], {"x": shape}, {"y": (FLOAT, 3)}, lists if opset > 9 else {}, opset),
                  str(tmp_path / "m.onnx"), data(2, 3, 4))


@pytest.mark.parametrize("opset", [9, 12, 13])
def test_softmax_over_all_axes_from_one_on(tmp_path, opset):
    """Before opset 13 the axes from `axis` on are one."""
    for kind in ("Softmax", "LogSoftmax"):
        for axis, shape in ((1, (2, 3, 4)), (0, (2, 3)), (2, (2, 2, 3, 2)), (None, (2, 2, 3, 2)), (1, ("n", 3, 4))):
            attrs = {} if axis is None else {"axis": axis}
            numbers = [2 if n == "n" else n for n in shape]
            agree(model([(kind, "x", "y", attrs)], {"x": shape}, {"y": (FLOAT, len(shape))}, opset=opset),
                  str(tmp_path / "m.onnx"), data(*numbers))


VIEW = [("Shape", "x", "s", {}), ("Gather", "s,zero", "n", {}), ("Unsqueeze", "n,first", "nu", {}),
        ("Concat", "nu,rest", "t", {"axis": 0}), ("Reshape", "x,t", "y", {})]
NUMBERS = {"zero": np.array(0), "one": np.array(1), "first": np.array([0]), "rest": np.array([-1])}


def test_reshape_by_a_computed_shape(tmp_path):
    """`view(x.size(0), -1)` and its kin, for any batch."""
    path = str(tmp_path / "m.onnx")
    for shape in (["n", 3, 4], [None, None, 4], [2, 3, 4]):
        agree(model(VIEW, {"x": shape}, {"y": (FLOAT, 2)}, NUMBERS), path, data(2, 3, 4),
              *([] if shape[0] == 2 else [data(5, 3, 4)]))
    heads = [("Shape", "x", "s", {}), ("Gather", "s,zero", "n", {}), ("Gather", "s,one", "t", {}),
             ("Unsqueeze", "n,first", "nu", {}), ("Unsqueeze", "t,first", "tu", {}),
             ("Concat", "nu,tu,two,rest", "q", {"axis": 0}), ("Reshape", "x,q", "z", {}),
             ("Mul", "n,t", "nt", {}), ("Unsqueeze", "nt,first", "ntu", {}), ("Concat", "ntu,six", "f", {"axis": 0}),
             ("Reshape", "x,f", "flat", {})]
    agree(model(heads, {"x": ["n", "t", 6]}, {"z": (FLOAT, 4), "flat": (FLOAT, 2)},
                {**NUMBERS, "two": np.array([2]), "six": np.array([6])}), path, data(2, 5, 6), data(3, 4, 6))
    halves = [("Shape", "x", "s", {}), ("Slice", "s,first,two", "a", {}), ("Gather", "s,two", "c", {}),
              ("Div", "c,two", "h", {}), ("Concat", "a,two,h", "t", {"axis": 0}), ("Reshape", "x,t", "y", {})]
    agree(model(halves, {"x": ["n", "t", "c"]}, {"y": (FLOAT, 4)}, {**NUMBERS, "two": np.array([2])}), path,
          data(2, 3, 4), data(1, 2, 6))
    made = model([("Shape", "x", "s", {}), ("Gather", "s,order", "t", {}), ("Reshape", "x,t", "y", {})],
                 {"x": ["n", "t", 6]}, {"y": (FLOAT, 3)}, {"order": np.array([1, 0, 2])})
    onnx.save(made, path)
    with pytest.raises(mx.MXNetError, match="Reshape.*more than one dynamic size"):
        mx.contrib.onnx.import_model(path)


def test_other_computed_shapes(tmp_path):
    path = str(tmp_path / "m.onnx")
    filled = [("Shape", "x", "s", {}), ("Expand", "w,s", "e", {}), ("Add", "x,e", "y", {})]
    agree(model(filled, {"x": ["n", 3]}, {"y": (FLOAT, 2)}, {"w": RNG.rand(1, 3).astype("float32")}), path,
          data(2, 3), data(4, 3))
    two = onnx.numpy_helper.from_array(np.array([2], "float32"))
    agree(model([("Shape", "x", "s", {}), ("ConstantOfShape", "s", "e", {"value": two}), ("Add", "x,e", "y", {})],
                {"x": ["n", 3]}, {"y": (FLOAT, 2)}), path, data(2, 3), data(4, 3))
    agree(model([("Shape", "x", "s", {}), ("Gather", "s,zero", "n", {}), ("Range", "zero,n,one", "r", {}),
                 ("Cast", "r", "y", {"to": FLOAT})], {"x": ["n", 3]}, {"y": (FLOAT, 1)}, NUMBERS), path,
          data(2, 3), data(4, 3))
    agree(model([("Shape", "x", "s", {}), ("Gather", "s,first", "n", {}), ("Slice", "x,first,n,first", "y", {})],
                {"x": ["n", 3]}, {"y": (FLOAT, 2)}, NUMBERS), path, data(2, 3), data(4, 3))
    state = [("Shape", "x", "s", {}), ("Slice", "s,a,b", "n", {}), ("Concat", "a,n,h", "q", {"axis": 0}),
             ("ConstantOfShape", "q", "h0", {}), ("LSTM", "x,w,r,bias,,h0,h0", "y,hn,cn", {"hidden_size": 3})]
    table = {"a": np.array([1]), "b": np.array([2]), "h": np.array([3])} | {
        k: RNG.randn(*s).astype("float32") for k, s in (("w", (1, 12, 4)), ("r", (1, 12, 3)), ("bias", (1, 24)))}
    agree(model(state, {"x": ["t", "n", 4]}, {"y": (FLOAT, 4)}, table), path, data(5, 2, 4), data(3, 1, 4))


def test_results_that_are_shapes_still_take_the_input(tmp_path):
    path = str(tmp_path / "m.onnx")
    for shape in ([2, 3], ["n", 3]):
        agree(model([("Shape", "x", "y", {})], {"x": shape}, {"y": (INT, 1)}), path, data(2, 3))
    agree(model([("Shape", "x", "s", {}), ("Slice", "s,a,b", "n", {}), ("Concat", "n,b", "y", {"axis": 0}),
                 ("Relu", "x", "z", {})], {"x": [2, 3]}, {"y": (INT, 1), "z": (FLOAT, 2)},
                {"a": np.array([0]), "b": np.array([1])}), path, data(2, 3))


def test_files_that_ask_for_too_much(tmp_path):
    path = str(tmp_path / "m.onnx")
    huge = np.array([1 << 40])
    for nodes in ([("Expand", "first,n", "s", {})], [("Tile", "first,n", "s", {})],
                  [("ConstantOfShape", "n", "s", {})], [("Pad", "first,pads", "s", {})]):
        onnx.save(model([*nodes, ("Reshape", "x,s", "y", {})], {"x": [2]}, {"y": (FLOAT, 1)},
                        {"n": huge, "first": np.array([0]), "pads": np.array([0, 1 << 40])}), path)
        with pytest.raises(mx.MXNetError, match="constants of"):
            mx.contrib.onnx.import_model(path)


@pytest.mark.parametrize("name", sorted({n.partition(".")[0] for n in zipfile.ZipFile(GRAPHS).namelist()}))
def test_graphs_that_mxnet_exported(tmp_path, name):
    """Files and results of MXNet 1.9.1 itself, whose converters compute most shapes in the graph."""
    with zipfile.ZipFile(GRAPHS) as files:
        path = files.extract(f"{name}.onnx", tmp_path)
        values = dict(np.load(io.BytesIO(files.read(f"{name}.npz"))))
    out, args, auxs = mx.contrib.onnx.import_model(path)
    given = {k.removeprefix("in_"): mx.nd.array(v, dtype=v.dtype) for k, v in values.items() if k.startswith("in_")}
    whole = {**given, **args}
    found = out.bind(mx.cpu(), {k: whole[k] for k in out.list_arguments()}, aux_states=auxs).forward()
    wanted = [values[k] for k in sorted(values) if k.startswith("out_")]
    for got, want in zip(found, wanted, strict=True):
        assert got.shape == want.shape
        np.testing.assert_allclose(got.asnumpy(), want, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("center", [0, 1])
@pytest.mark.parametrize("most, overlap, least", [(3, 0.4, 0.3), (50, 0.0, 0.6), (5, 0.6, None)])
def test_non_maximum_suppression(tmp_path, center, most, overlap, least):
    """Of two images and three classes; corners come in any order."""
    rng = np.random.RandomState(2)
    boxes = rng.rand(2, 12, 4).astype("float32")
    if center:
        boxes[..., 2:] *= 0.4
    scores = rng.permutation(72).reshape(2, 3, 12).astype("float32") / 72
    constants = {"m": np.array([most], "int64"), "o": np.array([overlap], "float32")}
    if least is not None:
        constants["l"] = np.array([least], "float32")
    node = ("NonMaxSuppression", "b,s,m,o" + ",l" * (least is not None), "y", {"center_point_box": center})
    made = model([node], {"b": [2, 12, 4], "s": [2, 3, 12]}, {"y": (INT, 2)}, constants)
    agree(made, str(tmp_path / "nms.onnx"), {"b": boxes, "s": scores})


def test_non_maximum_suppression_of_no_boxes_is_refused(tmp_path):
    path = str(tmp_path / "nms.onnx")
    onnx.save(model([("NonMaxSuppression", "b,s", "y", {})], {"b": [1, 4, 4], "s": [1, 1, 4]}, {"y": (INT, 2)}), path)
    with pytest.raises(mx.MXNetError, match="max_output_boxes_per_class"):
        mx.contrib.onnx.import_model(path)
