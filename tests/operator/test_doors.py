"""Operators of one's own through `register_op`, SimpleOp, OperatorProperty, and JAX functions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mxjax as mx
from mxjax.base import MXNetError
from mxjax.operator import (
    Input0,
    Input1,
    Operator,
    OperatorProperty,
    OutputGrad,
    OutputValue,
    ResourceRequest,
    assign,
    register_property,
    register_simple_op,
)
from mxjax.ops import registry
from mxjax.ops.infer import elementwise

X = np.array([[0.5, -1.0], [2.0, 3.0]], "float32")


def check_both_ways(name, arrays, wanted, slopes, **params):
    """The operator `name` as mx.nd and mx.sym: value, and the gradient of each input for a head of twos."""
    given = [mx.nd.array(a) for a in arrays]
    for array in given:
        array.attach_grad()
    with mx.autograd.record():
        y = getattr(mx.nd, name)(*given, **params)
    y.backward(mx.nd.full(wanted.shape, 2))
    np.testing.assert_allclose(y.asnumpy(), wanted, rtol=1e-5)
    for array, slope in zip(given, slopes, strict=True):
        np.testing.assert_allclose(array.grad.asnumpy(), 2 * slope, rtol=1e-5)
    symbol = getattr(mx.sym, name)(*[mx.sym.Variable(f"v{i}") for i in range(len(arrays))], **params)
    mx.test_utils.check_symbolic_forward(symbol, list(arrays), [wanted], rtol=1e-5)
    mx.test_utils.check_symbolic_backward(symbol, list(arrays), [np.full_like(wanted, 2)], [2 * s for s in slopes],
                                          rtol=1e-5)
    loaded = mx.sym.load_json(symbol.tojson())
    mx.test_utils.check_symbolic_forward(loaded, list(arrays), [wanted], rtol=1e-5)


# ------------------------------------------------------------------ NNVM
def test_register_op():
    (mx.operator.register_op("test_scaled_product").set_num_inputs(2).set_num_outputs(1)
     .set_attr("FInferShape", elementwise)
     .set_attr("FCompute", lambda lhs, rhs, *, scale: lhs * rhs * scale)
     .set_attr_parser(type("Param", (), {"__annotations__": {"scale": float}, "scale": 1.0})))
    check_both_ways("test_scaled_product", [X, X + 1], X * (X + 1) * 3, [(X + 1) * 3, X * 3], scale=3)
    with pytest.raises(MXNetError, match="already"):
        mx.operator.register_op("test_scaled_product")
    with pytest.raises(MXNetError, match="test_scaled_product.*scale"):
        mx.nd.test_scaled_product(mx.nd.ones(1), mx.nd.ones(1), scale="big")


def test_a_gradient_that_is_not_the_mathematical_one():
    @registry.register("test_reversed", infer_shape=elementwise,
                       FGradient=lambda heads, inputs, outputs: -heads[0] + 0 * outputs[0])
    def reversed_gradient(data):
        return data * 1
    check_both_ways("test_reversed", [X], X, [-np.ones_like(X)])


def test_several_outputs_and_hidden_ones():
    @registry.register("test_parts", num_outputs=3, num_visible=2, output_names=lambda p: ["low", "high", "hidden"])
    def parts(data, *, at: int):
        return data[:at], data[at:], data.sum()
    x = mx.nd.array(np.arange(5))
    low, high = mx.nd.test_parts(x, at=2)
    assert low.shape == (2,) and high.asnumpy().tolist() == [2, 3, 4]
    assert mx.sym.test_parts(mx.sym.Variable("x"), at=2, name="p").list_outputs() == ["p_low", "p_high"]


# ------------------------------------------------------------------ SimpleOp
def hypotenuse(lhs, rhs, env):
    return jnp.sqrt(lhs * lhs + rhs * rhs) * env.scalar


def hypotenuse_gradient(grad: OutputGrad, out: OutputValue, lhs: Input0, rhs: Input1, env):
    return grad * lhs * env.scalar**2 / out, grad * rhs * env.scalar**2 / out


def test_simple_op():
    register_simple_op("test_hypotenuse").set_function(hypotenuse, "kInplaceLhsOut") \
        .set_gradient(hypotenuse_gradient).set_enable_scalar(True)
    wanted = np.hypot(X, X + 1) * 3
    check_both_ways("test_hypotenuse", [X, X + 1], wanted, [9 * X / wanted, 9 * (X + 1) / wanted], scalar=3)
    with pytest.raises(MXNetError, match="already"):
        register_simple_op("test_hypotenuse")


def test_simple_op_with_its_own_shape_keywords_and_random_numbers():
    register_simple_op("test_repeated").set_function(lambda x, env: jnp.repeat(x, int(env.kwargs["times"]), 0)) \
        .set_enable_kwargs(True) \
        .set_shape_function(lambda shape, env: (shape[0] * int(env.kwargs["times"]), *shape[1:]))
    assert mx.nd.test_repeated(mx.nd.array(X), times=3).shape == (6, 2)
    assert mx.sym.test_repeated(mx.sym.Variable("x"), times=3).infer_shape(x=(2, 5))[1] == [(6, 5)]
    register_simple_op("test_noisy").set_function(lambda x, env: x + jax.random.normal(env.resource, x.shape)) \
        .set_resource_request("random")
    draws = [mx.nd.test_noisy(mx.nd.zeros((3,))).asnumpy() for _ in range(2)]
    assert (draws[0] != draws[1]).all()
    mx.random.seed(1)
    first = mx.nd.test_noisy(mx.nd.zeros((3,))).asnumpy()
    mx.random.seed(1)
    np.testing.assert_array_equal(mx.nd.test_noisy(mx.nd.zeros((3,))).asnumpy(), first)


def test_simple_op_mistakes():
    op = register_simple_op("test_wrong_simple")
    for wrong in (lambda: op.set_function(lambda a, b, c, env: a), lambda: op.set_gradient(lambda grad, env: grad),
                  lambda: op.set_function(lambda a, env: a, "kInplaceEverywhere")):
        with pytest.raises(MXNetError, match="test_wrong_simple"):
            wrong()


# ------------------------------------------------------------------ OperatorProperty
class ScaledOp(Operator):
    def forward(self, ctx, in_data, req, out_data, aux_states):
        noise = jax.random.uniform(ctx.requested[0].get_key(), in_data[0].shape) if ctx.is_train else 0
        assign(out_data[0], req[0], mx.nd.broadcast_mul(in_data[0], in_data[1]))
        assign(out_data[1], req[1], in_data[0] + mx.nd.NDArray(jnp.asarray(noise * jnp.ones(in_data[0].shape))))
        assign(aux_states[0], "add", mx.nd.ones((1,)))

    def backward(self, ctx, out_grad, in_data, out_data, req, in_grad, aux_states):
        assert out_data == [None, None] and out_grad[1] is None
        assign(in_grad[0], req[0], mx.nd.broadcast_mul(out_grad[0], in_data[1]))
        assign(in_grad[1], req[1], (out_grad[0] * in_data[0]).sum(axis=0, keepdims=True))


@register_property("test_scaled_property")
class ScaledProp(OperatorProperty):
    def init(self, kwargs):
        if set(kwargs) - {"mode"}:
            raise MXNetError(f"test_scaled_property: unknown {sorted(kwargs)}")

    def list_arguments(self):
        return ["data", "factor"]

    def list_outputs(self):
        return ["scaled", "noisy"]

    def list_auxiliary_states(self):
        return ["count"]

    def num_visible_outputs(self):
        return 1

    def infer_shape(self, in_shape, out_shape, aux_shape):
        in_shape[1] = (1, in_shape[0][1])
        out_shape[:] = [in_shape[0]] * 2
        aux_shape[0] = (1,)
        return True

    def declare_backward_dependency(self, out_grad, in_data, out_data):
        return [out_grad[0], *in_data]

    def forward_resource(self, in_shape):
        return [ResourceRequest("random")]

    def create_operator(self, ctx):
        return ScaledOp()


def test_operator_property():
    data, factor, count = mx.nd.array(X), mx.nd.array([[10, 20]]), mx.nd.zeros((1,))
    for array in (data, factor):
        array.attach_grad()
    with mx.autograd.record():
        y = mx.nd.test_scaled_property(data, factor, count)
    y.backward()
    np.testing.assert_allclose(y.asnumpy(), X * [10, 20])
    np.testing.assert_allclose(data.grad.asnumpy(), [[10, 20]] * 2)
    np.testing.assert_allclose(factor.grad.asnumpy(), X.sum(0, keepdims=True))
    assert count.asscalar() == 1, "auxiliary states are changed"
    symbol = mx.sym.test_scaled_property(mx.sym.Variable("data"), name="s")
    assert symbol.list_arguments() == ["data", "s_factor"] and symbol.list_auxiliary_states() == ["s_count"]
    executor = symbol.simple_bind(mx.cpu(), data=X.shape)
    executor.arg_dict["data"][:] = X
    executor.arg_dict["s_factor"][:] = 3
    for _ in range(2):
        executor.forward(is_train=True)
        executor.backward([mx.nd.ones(X.shape)])
    np.testing.assert_allclose(executor.outputs[0].asnumpy(), 3 * X)
    np.testing.assert_allclose(executor.grad_dict["s_factor"].asnumpy(), X.sum(0, keepdims=True))
    assert executor.aux_dict["s_count"].asscalar() == 2
    with pytest.raises(MXNetError, match="colour"):
        mx.nd.test_scaled_property(data, factor, count, colour="red")
    with pytest.raises(MXNetError, match="register_property"):
        register_property("test_no_property")(int)


# ------------------------------------------------------------------ JAX functions
def test_from_jax():
    @jax.custom_vjp
    def clipped(x, y):
        return x * y
    clipped.defvjp(lambda x, y: (x * y, (x, y)), lambda saved, g: (jnp.clip(g * saved[1], -1, 1), g * saved[0]))
    clipped_op = mx.operator.from_jax(clipped, "test_clipped")
    check_both_ways("test_clipped", [X, X + 1], X * (X + 1), [np.clip(2 * (X + 1), -1, 1) / 2, X])
    assert clipped_op(mx.sym.Variable("a"), mx.sym.Variable("b")).list_arguments() == ["a", "b"]

    def powers(x, *, count: int = 2):
        return x**count
    operator = mx.operator.from_jax(powers, "test_powers")
    assert operator(mx.nd.array([2.0]), count=3).asscalar() == 8


# ------------------------------------------------------------------ the list of operators
def test_listing():
    names = mx.operator.get_all_registered_operators()
    assert {"FullyConnected", "Convolution", "broadcast_add", "Custom"} <= set(names)
    arguments = mx.operator.get_operator_arguments("Activation")
    assert arguments.narg == 2 and arguments.names == ["data", "act_type"] and "relu" in arguments.types[1]


def test_unknown_operators():
    with pytest.raises(AttributeError, match="FullyConected|no_such"):
        mx.nd.FullyConected  # noqa: B018
    with pytest.raises(MXNetError, match="did you mean.*FullyConnected"):
        registry.get("FullyConected")


def test_groups_of_names():
    groups = mx.operator.get_all_registered_operators_grouped()
    assert groups["Reshape"] == ["Reshape", "reshape"] and "exp" in groups["exp"]
    assert sorted(name for names in groups.values() for name in names) == sorted(
        mx.operator.get_all_registered_operators())


def test_properties_refuse_what_they_cannot_do():
    from mxjax.operator import _property
    given = mx.nd.ones(2)
    _property.assign(given, "null", 3)
    _property.assign(given, "add", mx.nd.ones(2))
    _property.assign(given, "add", np.array([1, 2]))
    assert given.asnumpy().tolist() == [3, 4]
    _property.assign(given, "write", 7)
    assert given.asnumpy().tolist() == [7, 7]
    with pytest.raises(MXNetError, match="req must be null, write, inplace or add, got 'odd'"):
        _property.assign(given, "odd", 3)
    with pytest.raises(MXNetError, match="must be 'random' or 'temp_space', got 'odd'"):
        _property.ResourceRequest("odd")
