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
