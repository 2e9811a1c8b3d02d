"""What a user reads when an operator cannot take its inputs."""

import jax
import numpy as np
import pytest

import mxjax as mx
from mxjax.base import MXNetError
from mxjax.kernel import kernel
from mxjax.ops import registry

SOME = {int: 2, float: 0.5, bool: False, str: "x", "shape": (2,), "shapes": ((2,),), "scalar": 0.5, "floats": (0.1,),
        "scalars": (0.1,), "dtype": "float32"}
ODD = {"vectors": [(3,)] * 9, "all sorts": [(2, 3), (5,), (7, 1, 2), (4,), (3, 3), (2,), (3,), (3,), (3,)]}


def _operators():
    names = {op.name: op for op in registry.operators()}
    return [op for name, op in sorted(names.items())
            if op.get_attr("FHost") is None and
            getattr(op.get_attr("FCompute"), "__module__", "").startswith("mxjax.ops") and
            not op.eager and name not in ("_foreach", "_while_loop", "_cond")]


@pytest.mark.parametrize("kind", ODD)
def test_inputs_that_do_not_fit(kind):
    """Every operator either takes them, or raises an MXNetError that says which operator it was."""
    wrong = []
    for op in _operators():
        given = {n: p.choices[0] if p.choices else SOME.get(p.kind, 1) for n, p in op.params.items() if p.required}
        try:
            values = op.parse(given)
            count = 2 if op.variadic else len(op.inputs(values))
            prepared = kernel.prepare(op, values, count, True)
            args = [jax.ShapeDtypeStruct(s, np.float32) for s in ODD[kind][:count]]
            args += [values[name] for name in prepared.dynamic]
            if prepared.uses_key:
                args += [np.array([0, 7], np.uint32), np.uint32(3)]
            prepared.specs(args)
        except MXNetError as error:
            if "operator " not in str(error) and op.name.split("_")[-1] not in str(error):
                wrong.append(f"{op.name}: {error}")
        except Exception as error:  # noqa: B902  whatever else gets out is what this test is about
            wrong.append(f"{op.name}: {type(error).__name__}: {error}")
    assert not wrong, "\n".join(wrong)


def test_weights_of_another_shape():
    x = mx.nd.ones((2, 3, 4, 4))
    with pytest.raises(MXNetError, match=r"Convolution: weight must have the shape \(5, 3, 3, 3\)"):
        mx.nd.Convolution(x, mx.nd.ones((5, 2, 3, 3)), kernel=(3, 3), num_filter=5, no_bias=True)
    with pytest.raises(MXNetError, match=r"FullyConnected: weight must have the shape \(5, 48\)"):
        mx.nd.FullyConnected(x, mx.nd.ones((5, 7)), num_hidden=5, no_bias=True)


def test_products_in_plain_words():
    with pytest.raises(MXNetError, match="batch_dot: the axes that are multiplied and summed have different sizes"):
        mx.nd.batch_dot(mx.nd.ones((2, 3, 4)), mx.nd.ones((2, 3, 4)))


def test_errors_raised_below_get_the_operators_name():
    with pytest.raises(MXNetError, match=r"operator Concat: axis 1 is out of range.*float32\(3,\)"):
        mx.nd.concat(mx.nd.ones((3,)), mx.nd.ones((3,)), dim=1)


def test_a_larger_shape_is_an_error_of_mxnet_and_a_smaller_one_of_python():
    with pytest.raises(MXNetError, match="cannot be reshaped to 20"):
        mx.nd.ones((2, 3)).reshape((4, 5))
    with pytest.raises(ValueError, match="cannot be reshaped to 2"):
        mx.nd.ones((2, 3)).reshape((1, 2))


@pytest.mark.parametrize("name, shapes, params, message", [
    ("ROIPooling", [(1, 1, 4, 4), (1, 5)], {"pooled_size": (2, 2), "spatial_scale": 2}, "spatial_scale must be"),
    ("ROIPooling", [(1, 1, 4, 4), (1, 5)], {"pooled_size": (2, 0), "spatial_scale": 1}, "pooled_size must be"),
    ("Embedding", [(2,), (1, 3)], {"input_dim": 0, "output_dim": 3}, "input_dim must be"),
    ("Pooling", [(1, 1, 4)], {"kernel": (2,), "stride": (0,)}, "stride must be"),
    ("Pooling", [(1, 3)], {"kernel": (1,), "global_pool": True}, "1 to 3 spatial axes"),
    ("Pooling_v1", [(1, 2, 3)], {"kernel": (1,)}, "2 or 3 spatial axes"),
    ("SoftmaxActivation", [(1, 3)], {"mode": "channel"}, "at least 3 axes"),
    ("GridGenerator", [(1, 3, 2, 2)], {"transform_type": "warp"}, r"\(batch, 2, height, width\)"),
    ("ravel_multi_index", [(2, 1, 1)], {"shape": (2, 2)}, "the matrix data"),
])
def test_parameters_and_shapes_that_mxnet_refuses(name, shapes, params, message):
    with pytest.raises(MXNetError, match=message):
        getattr(mx.nd, name)(*map(mx.nd.ones, shapes), **params)


MISTAKES = [
    ("_split_v2", [(2, 4)], {"indices": (0, 3, 1), "axis": 1},
     "indices=(0, 3, 1) must increase and stay within an axis of size 4"),
    ("_split_v2", [(2, 4)], {"indices": (0, 1, 9), "axis": 1},
     "indices=(0, 1, 9) must increase and stay within an axis of size 4"),
    ("SliceChannel", [(2, 5)], {"num_outputs": 2},
     "axis 1 of shape (2, 5) cannot be split into num_outputs=2 pieces of equal size"),
    ("SliceChannel", [(2, 4)], {"num_outputs": 2, "squeeze_axis": True},
     "axis 1 of shape (2, 4) cannot be split into num_outputs=2 pieces of size 1"),
    ("take", [(1, 2), (1,)], {"mode": "raise"}, "indices from 1 to 1 are out of range for an axis of size 1"),
    ("pick", [(3, 2), (2,)], {"axis": 1}, "index has shape (2,), but data without axis 1 (3,)"),
    ("batch_take", [(2, 3), (3,)], {},
     "indices must contain one index for each row of a matrix; got shapes (2, 3) and (3,)"),
    ("SequenceMask", [(3, 2), (3,)], {"use_sequence_length": True},
     "sequence_length must contain one number for each of the 2 sequences, got (3,)"),
    ("SequenceLast", [(3, 2), (3,)], {"use_sequence_length": True},
     "sequence_length must contain one number for each of the 2 sequences, got (3,)"),
    ("SequenceReverse", [(3, 2), (3,)], {"use_sequence_length": True},
     "sequence_length must contain one number for each of the 2 sequences, got (3,)"),
    ("where", [(2,), (3, 2), (3, 2)], {},
     "x (3, 2) and y (3, 2) must have the same shape, and the condition (2,) must have that shape or one number for "
     "each row"),
    ("where", [(3, 2), (3, 2), (3,)], {},
     "x (3, 2) and y (3,) must have the same shape, and the condition (3, 2) must have that shape or one number for "
     "each row"),
    ("gather_nd", [(2, 2), (3, 2)], {},
     "the first axis of indices (3, 2) must have a size from 1 to the 2 dimensions of data"),
    ("_npi_hsplit", [(2, 5)], {"indices": (), "axis": 1, "sections": 2}, "an axis of size 5 cannot be split into 2"),
    ("slice_axis", [(2, 4)], {"axis": 1, "begin": 5, "end": 6},
     "begin=5, end=6 is not a valid range for an axis of size 4"),
    ("slice", [(2, 4)], {"begin": (0, 0), "end": (1, 1), "step": (0, 1)},
     "begin=(0, 0), end=(1, 1) and step=(0, 1) must have the same length, at most 2, and step must not contain 0"),
    ("dot", [(2, 3), (2, 3)], {}, "shapes (2, 3) and (2, 3) do not match with transpose_a=False, transpose_b=False"),
    ("batch_dot", [(2, 3, 4), (3, 4, 5)], {},
     "shapes (2, 3, 4) and (3, 4, 5) must have the same number of dimensions, at least 3, and equal batch dimensions"),
    ("broadcast_to", [(2, 3)], {"shape": (2, 4)},
     "an array of shape (2, 3) cannot be broadcast to (2, 4); the number of dimensions must match, and each "
     "dimension must match or be 1"),
    ("broadcast_axis", [(2, 3)], {"axis": 1, "size": 4}, "axis 1 has size 3; only an axis of size 1 can be broadcast"),
    ("broadcast_like", [(2, 3), (2, 4)], {},
     "an array of shape (2, 3) cannot be broadcast to (2, 4); the number of dimensions must match, and each "
     "dimension must match or be 1"),
    ("elemwise_add", [(2, 3), (3, 2)], {},
     "input 1 has shape (3, 2), but the first input has shape (2, 3); the shapes must match"),
    ("broadcast_add", [(2, 3), (3, 2)], {},
     "shapes (2, 3) and (3, 2) cannot be broadcast together; each pair of dimensions must match or contain a 1"),
    ("tile", [(2,)], {"reps": (-1,)}, "reps=(-1,) must all be >= 1"),
    ("depth_to_space", [(1, 3, 2, 2)], {"block_size": 2},
     "block_size=2 does not divide an array of shape (1, 3, 2, 2) (batch, depth, height, width)"),
    ("space_to_depth", [(1, 3, 3, 2)], {"block_size": 2},
     "block_size=2 does not divide an array of shape (1, 3, 3, 2) (batch, depth, height, width)"),
    ("Pad", [(1, 1, 2, 2)], {"mode": "constant", "pad_width": (1, 1, 0, 0, 0, 0, 0, 0)},
     "pad_width=(1, 1, 0, 0, 0, 0, 0, 0) must be two numbers for each axis, zero for the first two axes, of an array"
     " of 4 or 5 dimensions; got shape (1, 1, 2, 2)"),
    ("Pad", [(1, 1, 2, 2)], {"mode": "reflect", "pad_width": (0, 0, 0, 0, 2, 0, 0, 0)},
     "pad_width=(0, 0, 0, 0, 2, 0, 0, 0) must be smaller than the axes of (1, 1, 2, 2)"),
    ("LayerNorm", [(2, 3), (2,), (3,)], {}, "gamma, beta and statistics must have the shape (3,), got (2,)"),
    ("InstanceNorm", [(2, 3, 4), (2,), (3,)], {}, "gamma, beta and statistics must have the shape (3,), got (2,)"),
    ("GroupNorm", [(2, 3, 4), (1,), (1,)], {"num_groups": 2},
     "data of shape (2, 3, 4) must be (batch, channel, ...) with a number of channels divisible by num_groups=2"),
    ("BatchNorm", [(2, 3), (3,), (3,), (3,), (2,)], {},
     "gamma, beta and statistics must have the shape (3,), got (2,)"),
    ("diag", [(2, 2, 2)], {"axis1": 1, "axis2": 1}, "there is no diagonal k=0 for axes 1 and 1 of (2, 2, 2)"),
    ("Reshape", [(2, 3)], {"shape": (-1, -1)},
     "shape=(-1, -1) does not match an array of shape (2, 3): only one dimension can be -1"),
    ("Reshape", [(2, 3)], {"shape": (-4, -1, -1, 3)},
     "shape=(-4, -1, -1, 3) does not match an array of shape (2, 3): -4 cannot be followed by -1 twice"),
    ("transpose", [(2, 3)], {"axes": (0, 0)}, "axes=(0, 0) is not a permutation of 2 axes"),
    ("SwapAxis", [(2, 3)], {"dim1": 0, "dim2": 5}, "axis 5 is out of range for an array of 2 dimensions"),
    ("topk", [(2, 3)], {"k": 9}, "k=9 is larger than the axis of size 3"),
    ("one_hot", [(2,)], {"depth": -1}, "depth must be 0 or more, got -1"),
    ("reshape_like", [(2, 3), (4,)], {}, "6 elements of shape (2, 3) cannot be reshaped to (4,)"),
    ("slice_like", [(2, 3), (3, 3)], {}, "axis 0 of (3, 3) exceeds that of (2, 3)"),
    ("Crop", [(1, 1, 2, 2)], {"h_w": (3, 3), "num_args": 1}, "the crop of (3, 3) at (0, 0) is not inside (2, 2)"),
    ("UpSampling", [(1, 1, 2, 2)], {"scale": 0, "sample_type": "nearest"}, "parameter scale must be int >= 1, got 0"),
    ("softmax", [(3, 2), (2,)], {"use_length": True},
     "length must have the shape of data (3, 2) without axis 1, got (2,)"),
    ("khatri_rao", [(2, 3), (2, 4)], {},
     "all matrices must have the same number of columns, got shapes (2, 3), (2, 4)"),
    ("CTCLoss", [(3, 2, 4), (3, 2)], {},
     "takes data (time, batch, alphabet) and label (batch, length), got (3, 2, 4) and (3, 2)"),
]


@pytest.mark.parametrize("name, shapes, params, message", MISTAKES)
def test_calls_that_no_form_takes(name, shapes, params, message):
    """NumPy forms leave mistakes to the formulas, whose texts tell what is wrong."""
    function = getattr(mx.nd, name, None) or getattr(mx.nd._internal, name)
    with pytest.raises(MXNetError) as caught:
        function(*map(mx.nd.ones, shapes), **params)
    assert f"{name}: {message}" in str(caught.value) or f"{name} {message}" in str(caught.value)


@pytest.mark.parametrize("name, shapes, params", [
    ("FullyConnected", [(1, 2), (3, 2), (3,)], {"num_hidden": 3, "no_bias": True}),
    ("Deconvolution", [(1, 2, 3), (2, 1, 1), (1,)], {"kernel": (1,), "num_filter": 1}),  # no_bias by default
    ("SequenceLast", [(3, 2), (2,)], {}),
    ("softmax", [(3, 2), (3,)], {"axis": -1}),
    ("LeakyReLU", [(3, 2), (2,)], {}),
])
def test_inputs_that_the_parameters_do_not_ask_for(name, shapes, params):
    """A bias beside no_bias, lengths without use_sequence_length: refused, not ignored."""
    with pytest.raises(MXNetError, match="expects [12] inputs"):
        getattr(mx.nd, name)(*map(mx.nd.ones, shapes), **params)
    names = registry.get(name).input_names[:len(shapes)]
    with pytest.raises(MXNetError, match="has no input"):
        getattr(mx.sym, name)(**{n: mx.sym.var(n) for n in names}, **params)


def test_of_many_inputs_the_first_are_named():
    wrong = [mx.nd.ones((2, i + 1)) for i in range(20)]
    with pytest.raises(mx.MXNetError) as caught:
        mx.nd.concat(*wrong, dim=0)
    told = str(caught.value)
    assert "float32(2, 1), float32(2, 2)" in told and "float32(2, 12) and 8 more]" in told, told


def test_no_array_where_any_number_goes():
    """MXNet refuses it in the call, for symbols when they are composed."""
    open_ended = [op for op in _operators() if op.variadic and op.get_attr("FListInputNames") is None]
    assert {"Concat", "stack", "add_n", "_npi_concatenate"} <= {op.name for op in open_ended}
    for op in open_ended:
        given = {n: p.choices[0] if p.choices else SOME.get(p.kind, 1) for n, p in op.params.items() if p.required}
        given.pop(op.variadic, None)
        for call in (mx.nd, mx.sym):
            with pytest.raises(MXNetError, match=f"operator {op.name}.* at least one array|{op.variadic} must be int"):
                (getattr(call._internal, op.name, None) or getattr(call, op.name))(**given)
    with pytest.raises(AssertionError, match="at least one array"):
        mx.nd.concatenate([])
