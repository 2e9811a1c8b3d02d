"""SimpleOp: a unary or binary function and its gradient, with annotated arguments.

The annotations of the gradient function declare the values that it needs; no other values are kept
for the backward pass:

    OutputGrad   gradient of the output            Input0, Input1   the inputs
    OutputValue  the output itself
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .._support.plain_text import plain_text
from ..base import MXNetError
from ..ops import registry
from ..ops.infer import elementwise, known, unify
from ..ops.params import Param, Scalar

if TYPE_CHECKING:
    import jax

__all__ = ["EnvArguments", "Input0", "Input1", "OutputGrad", "OutputValue", "SimpleOp", "register_simple_op"]


class OutputGrad:
    """Annotation: this argument is the gradient of the output."""


class OutputValue:
    """Annotation: this argument is the output."""


class Input0:
    """Annotation: this argument is the first input."""


class Input1:
    """Annotation: this argument is the second input."""


class EnvArguments:
    """The arguments of a SimpleOp's functions besides arrays.

    Attributes:
        scalar: scalar argument of the operator (`set_enable_scalar`).
        kwargs: keyword arguments as text (`set_enable_kwargs`).
        resource: a JAX random key if "random" was requested, otherwise None.
    """

    __slots__ = ("scalar", "kwargs", "resource")

    def __init__(self, scalar: Any = None, kwargs: dict[str, str] | None = None, resource: Any = None) -> None:
        self.scalar, self.kwargs, self.resource = scalar, kwargs or {}, resource


_KINDS = {"OutputGrad": OutputGrad, "OutputValue": OutputValue, "Input0": Input0, "Input1": Input1}


class SimpleOp(registry.Op):
    """The registry entry of a SimpleOp; every method returns it.

    Example:
        def forward(x, env):
            square = env.scalar**2
            return jnp.where(jnp.abs(x) < 1 / square, 0.5 * square * x * x, jnp.abs(x) - 0.5 / square)

        def backward(grad: OutputGrad, x: Input0, env):
            return grad * jnp.clip(env.scalar**2 * x, -1, 1)

        mx.operator.register_simple_op("my_smooth_l1").set_function(forward).set_gradient(backward) \\
            .set_enable_scalar(True)
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._free_kwargs = False
        self.set_attr("FInferShape", elementwise)

    def set_function(self, function: Callable[..., Any], inplace: str = "kNoInplace") -> SimpleOp:
        """Sets the forward pass: function(x, env) or function(lhs, rhs, env) of JAX arrays.

        Args:
            inplace: "kNoInplace", "kInplaceInOut" (unary), "kInplaceLhsOut" or "kInplaceRhsOut"
                (binary): the input that may share memory with the output.
        """
        count = len([p for p in inspect.signature(function).parameters.values()
                     if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]) - 1
        if count not in (1, 2):
            raise MXNetError(f"SimpleOp {self.name}: a function must accept (x, env) or (lhs, rhs, env)")
        sharing = {"kNoInplace": [], "kInplaceInOut": [(0, 0)], "kInplaceLhsOut": [(0, 0)], "kInplaceRhsOut": [(1, 0)]}
        if inplace not in sharing:
            raise MXNetError(f"SimpleOp {self.name}: inplace must be one of {', '.join(sharing)}, got {inplace!r}")
        self.input_names = ["data"] if count == 1 else ["lhs", "rhs"]
        self.set_attr("FInplaceOption", sharing[inplace])

        def compute(*inputs: jax.Array, _key: jax.Array | None = None, **params: Any) -> Any:
            return function(*inputs, self._env(params, _key))
        self.attributes["FCompute"] = compute  # not set_attr: inputs and parameters are declared, not in its signature
        self.kernels.clear()
        return self

    def _env(self, params: dict[str, Any], key: jax.Array | None = None) -> EnvArguments:
        return EnvArguments(params.get("scalar"), dict(params.get("kwargs") or ()), key)

    def set_gradient(self, function: Callable[..., Any], inplace: str = "kNoInplace") -> SimpleOp:
        """Sets the backward pass: function of arguments annotated OutputGrad, OutputValue, Input0, Input1, and env.

        The function returns the gradient of the input, or a pair for a binary operator.
        """
        parameters = list(inspect.signature(function).parameters.values())[:-1]
        annotations = [_KINDS.get(p.annotation, p.annotation) if isinstance(p.annotation, str) else p.annotation
                       for p in parameters]
        unknown = [p.name for p, k in zip(parameters, annotations, strict=True) if k not in _KINDS.values()]
        if unknown or not annotations or annotations[0] is not OutputGrad:
            raise MXNetError(f"SimpleOp {self.name}: arguments of a gradient must be annotated OutputGrad (first), "
                             f"OutputValue, Input0 or Input1, followed by env; got {inspect.signature(function)}")

        def gradient(out_grads: tuple, inputs: tuple, outputs: tuple, _key: jax.Array | None = None,
                     **params: Any) -> Any:
            result = {OutputGrad: out_grads[0], OutputValue: outputs[0], Input0: inputs[0], Input1: inputs[-1]}
            return function(*[result[k] for k in annotations], self._env(params, _key))
        return self.set_attr("FGradient", gradient)

    def set_enable_scalar(self, enable: bool, type_mask: str = "kArrayBeforeScalar") -> SimpleOp:
        """Sets whether the operator accepts a number, `scalar`, after its arrays."""
        if enable:
            self.params = {**self.params, "scalar": Param(self.name, "scalar", Scalar, inspect.Parameter.empty)}
        return self

    def set_enable_kwargs(self, enable: bool) -> SimpleOp:
        """Sets whether the operator accepts arbitrary keyword arguments, which its functions find in `env.kwargs`."""
        self._free_kwargs = enable
        return self

    def set_shape_function(self, function: Callable[..., Any]) -> SimpleOp:
        """Sets the function of the output's shape: function(shape, env), or function(lhs shape, rhs
        shape, env) -> (out, lhs, rhs)."""
        def rule(params: dict[str, Any], ins: list, outs: list) -> None:
            env = self._env(params)
            if len(self.input_names) == 1:
                if known(ins[0]):
                    outs[0] = unify(outs[0], tuple(function(ins[0], env)))
            elif any(map(known, ins)):
                result = function(*ins, env)
                outs[0] = unify(outs[0], tuple(result[0]))
                ins[:] = [unify(i, None if r is None else tuple(r)) for i, r in zip(ins, result[1:], strict=True)]
        return self.set_attr("FInferShape", rule)

    def set_resource_request(self, request: str) -> SimpleOp:
        """Requests "random" (a key in `env.resource`) or "temp_space" (which XLA allocates itself)."""
        self.uses_key = request == "random"
        return self.set_attr("FResourceRequest", (request,))

    def parse(self, given: dict[str, Any]) -> dict[str, Any]:
        """Returns canonical parameters; arbitrary keyword arguments stay text."""
        if not self._free_kwargs:
            return super().parse(given)
        free = tuple(sorted((k, plain_text(v)) for k, v in given.items() if k not in self.params))
        values = super().parse({k: v for k, v in given.items() if k in self.params})
        return {**values, "kwargs": free}


def register_simple_op(name: str) -> SimpleOp:
    """Registers a new SimpleOp, which fluent calls describe.

    Raises:
        MXNetError: the name is taken.
    """
    if registry.find(name) is not None:
        raise MXNetError(f"operator {name!r} already exists")
    op = SimpleOp(name)
    registry.add(op)
    return op

