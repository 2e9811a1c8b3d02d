"""OperatorProperty and Operator, MXNet's legacy interface for operators, traced into the compiled program.

An `OperatorProperty` describes the operator and creates an `Operator`, whose `forward` and
`backward` receive NDArrays and write their results with `assign`. The NDArrays contain tracers
while the program is compiled, so any `mx.nd` function, and any JAX function of `array.to_jax()`,
can be used, but values cannot be read.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from .._support.plain_text import plain_text
from ..array.dense import NDArray
from ..base import MXNetError
from ..context import Context, current_context
from ..eager.array_types import wrap
from ..eager.modes import state
from ..ops import registry
from ..ops.infer import known, unify
from ..ops.params import np_dtype

if TYPE_CHECKING:
    from ..ops.params import DTypeLike

__all__ = ["OpContext", "Operator", "OperatorProperty", "ResourceRequest", "assign", "register_property"]


def assign(dst: NDArray, req: str, src: NDArray | float) -> None:
    """Writes or adds `src` (NDArray or JAX array) to `dst`, according to `req` ("null", "write", "inplace", "add")."""
    if req == "null":
        return
    if req not in ("write", "inplace", "add"):
        raise MXNetError(f"req must be null, write, inplace or add, got {req!r}")
    value = src if isinstance(src, NDArray) else wrap(jnp.asarray(src, dst.chunk.dtype), dst.context)
    dst[:] = dst + value if req == "add" else value


class ResourceRequest:
    """A resource that an operator requests: `ResourceRequest("random")` or `ResourceRequest("temp_space")`."""

    __slots__ = ("kind",)

    def __init__(self, kind: str) -> None:
        if kind not in ("random", "temp_space"):
            raise MXNetError(f"a resource must be 'random' or 'temp_space', got {kind!r}")
        self.kind = kind


class _Granted:
    """A granted resource: a random key, or scratch arrays."""

    def __init__(self, request: ResourceRequest, key: jax.Array | None) -> None:
        self.kind, self._key = request.kind, key

    def get_key(self) -> jax.Array:
        """Returns a JAX random key (kind "random")."""
        if self._key is None:
            raise MXNetError(f"a {self.kind} resource has no random key")
        return self._key

    def get_space(self, shape: Sequence[int], dtype: DTypeLike = "float32") -> NDArray:
        """Returns a scratch array; XLA decides whether it needs memory."""
        return wrap(jnp.zeros(tuple(shape), np_dtype(dtype)), current_context())


class OpContext:
    """The context of a call.

    Attributes:
        is_train: training mode.
        ctx: the context.
        requested: granted resources, in the order of the requests.
    """

    __slots__ = ("is_train", "ctx", "requested")

    def __init__(self, is_train: bool, ctx: Context, requested: list[_Granted]) -> None:
        self.is_train, self.ctx, self.requested = is_train, ctx, requested


class Operator:
    """The computation of an operator."""

    def forward(self, ctx: OpContext, in_data: list[NDArray], req: list[str], out_data: list[NDArray],
                aux_states: list[NDArray]) -> None:
        """Computes the outputs with `assign`; it may also write auxiliary states."""
        raise NotImplementedError

    def backward(self, ctx: OpContext, out_grad: list[NDArray | None], in_data: list[NDArray | None],
                 out_data: list[NDArray | None], req: list[str], in_grad: list[NDArray],
                 aux_states: list[NDArray]) -> None:
        """Computes the gradients with `assign`; arrays that were not declared as dependencies are None."""
        raise NotImplementedError


class OperatorProperty:
    """The description of an operator. Subclasses define at least `infer_shape` and `create_operator`."""

    def init(self, kwargs: dict[str, str]) -> None:
        """Sets the parameters, given as text."""

    def get_params(self) -> dict[str, str]:
        """Returns the parameters as text."""
        return {}

    def list_arguments(self) -> list[str]:
        """Names of the inputs."""
        return ["data"]

    def list_outputs(self) -> list[str]:
        """Names of the outputs."""
        return ["output"]

    def list_auxiliary_states(self) -> list[str]:
        """Names of the auxiliary states."""
        return []

    def num_outputs(self) -> int:
        """Returns the number of outputs."""
        return len(self.list_outputs())

    def num_visible_outputs(self) -> int:
        """Returns the number of outputs that users see."""
        return self.num_outputs()

    def infer_shape(self, in_shape: list, out_shape: list, aux_shape: list) -> bool:
        """Fills in unknown (None) shapes in the three lists; returns whether all are known."""
        raise NotImplementedError

    def infer_type(self, in_type: list, out_type: list, aux_type: list) -> bool:
        """Like `infer_shape`, for names of dtypes; by default all are equal to the first input's."""
        if not in_type or in_type[0] is None:
            return False
        for part in (in_type, out_type, aux_type):
            part[:] = [t or in_type[0] for t in part]
        return True

    def declare_backward_dependency(self, out_grad: list[int], in_data: list[int], out_data: list[int]) -> list[int]:
        """Returns the ids of the arrays that `backward` needs; the others are not kept."""
        return [*out_grad, *in_data, *out_data]

    def forward_inplace_option(self, in_data: list[int], out_data: list[int]) -> list[tuple[int, int]]:
        """Pairs (input, output) that may share memory."""
        return []

    def backward_inplace_option(self, out_grad: list[int], in_data: list[int], out_data: list[int],
                                in_grad: list[int]) -> list[tuple[int, int]]:
        """Pairs (array, gradient) that may share memory; XLA determines them itself."""
        return []

    def forward_resource(self, in_shape: list) -> list[ResourceRequest]:
        """Resources `forward` needs."""
        return []

    def backward_resource(self, in_shape: list) -> list[ResourceRequest]:
        """Resources `backward` needs."""
        return []

    def create_operator(self, ctx: Context) -> Operator:
        """Creates the operator."""
        raise NotImplementedError

    def copy(self) -> OperatorProperty:
        """Returns an independent copy."""
        return copy.deepcopy(self)

    def type_string(self) -> str:
        """The operator's name."""
        return type(self).__name__


class _PropertyOp(registry.Op):
    """A registry entry that asks a property class."""

    def __init__(self, name: str, cls: type) -> None:
        super().__init__(name)
        self._cls = cls
        self._ready: dict[tuple, OperatorProperty] = {}
        self.doc = cls.__doc__ or ""
        self.input_names = []
        self.uses_train = self.uses_key = True
        rules = {"FCompute": self._compute, "FGradient": self._gradient, "FInferShape": self._infer_shape,
                 "FInferType": self._infer_type, "FListInputNames": self.inputs,
                 "FNumOutputs": lambda p: self._prop(p).num_outputs(),
                 "FNumVisibleOutputs": lambda p: self._prop(p).num_visible_outputs(),
                 "FListOutputNames": lambda p: self._prop(p).list_outputs(),
                 "FMutateInputs": lambda p: self._prop(p).list_auxiliary_states()}
        self.attributes.update(rules)

    def _prop(self, params: dict[str, Any]) -> OperatorProperty:
        key = params["kwargs"]
        if key not in self._ready:
            prop = self._cls()
            prop.init(dict(key))
            self._ready[key] = prop
        return self._ready[key]

    def parse(self, given: dict[str, Any]) -> dict[str, Any]:
        """Returns parameters as text; the property's `init` checks them."""
        params = {"kwargs": tuple(sorted((k, plain_text(v)) for k, v in given.items() if v is not None))}
        try:
            self._prop(params)
        except (ValueError, KeyError, TypeError) as error:
            raise MXNetError(f"operator {self.name}: {type(error).__name__}: {error}") from error
        return params

    def inputs(self, params: dict[str, Any], count: int | None = None) -> list[str]:
        """Arguments, then auxiliary states."""
        prop = self._prop(params)
        return [*prop.list_arguments(), *prop.list_auxiliary_states()]

    def _infer(self, method: str, params: dict[str, Any], ins: list, outs: list, merge: Callable) -> None:
        prop = self._prop(params)
        count = len(prop.list_arguments())
        parts = [list(ins[:count]), list(outs), list(ins[count:])]
        getattr(prop, method)(*parts)
        ins[:] = [merge(a, b) for a, b in zip(ins, parts[0] + parts[2], strict=True)]
        outs[:] = [merge(a, b) for a, b in zip(outs, parts[1], strict=True)]

    def _infer_shape(self, params: dict[str, Any], ins: list, outs: list) -> None:
        if ins and known(ins[0]) or outs and known(outs[0]):
            self._infer("infer_shape", params, ins, outs, lambda a, b: unify(a, None if b is None else tuple(b)))

    def _infer_type(self, params: dict[str, Any], ins: list, outs: list) -> None:
        self._infer("infer_type", params, ins, outs, lambda a, b: a or (None if b is None else np_dtype(b).name))

    def _specs(self, params: dict[str, Any], arrays: Sequence[Any]) -> list[tuple[tuple, Any]]:
        prop = self._prop(params)
        count = prop.num_outputs()
        shapes, types = [tuple(a.shape) for a in arrays], [np.dtype(a.dtype).name for a in arrays]
        outs: list = [None] * count
        out_types: list = [None] * count
        self._infer_shape(params, shapes, outs)
        self._infer_type(params, types, out_types)
        if not all(map(known, outs)):
            raise MXNetError(f"operator {self.name}: infer_shape leaves an output unknown for inputs {shapes}")
        return list(zip(outs, map(np_dtype, out_types), strict=True))

    def _context(self, prop: OperatorProperty, requests: list[ResourceRequest], train: bool, key: Any) -> OpContext:
        granted = [_Granted(r, jax.random.fold_in(key, i) if r.kind == "random" else None)
                   for i, r in enumerate(requests)]
        return OpContext(train, current_context(), granted)

    def _compute(self, *arrays: jax.Array, _train: bool = False, _key: jax.Array | None = None, **params: Any) -> tuple:
        prop = self._prop(params)
        count, ctx = len(prop.list_arguments()), current_context()
        wrapped = [wrap(a, ctx) for a in arrays]
        results = [wrap(jnp.zeros(s, t), ctx) for s, t in self._specs(params, arrays)]
        context = self._context(prop, prop.forward_resource([a.shape for a in arrays[:count]]), _train, _key)
        with _plain():
            prop.create_operator(ctx).forward(context, wrapped[:count], ["write"] * len(results), results,
                                              wrapped[count:])
        return tuple(a.read() for a in [*results, *wrapped[count:]])

    def _gradient(self, out_grads: tuple, inputs: tuple, outputs: tuple, _train: bool = False,
                  _key: jax.Array | None = None, **params: Any) -> tuple:
        prop = self._prop(params)
        count, visible, ctx = len(prop.list_arguments()), prop.num_outputs(), current_context()
        numbers = iter(range(2 * visible + count))
        groups = [[next(numbers) for _ in range(n)] for n in (visible, count, visible)]
        needed = set(prop.declare_backward_dependency(*groups))
        arrays = out_grads[:visible], inputs[:count], outputs[:visible]
        parts = [[wrap(v, ctx) if n in needed else None for n, v in zip(group, values, strict=True)]
                 for group, values in zip(groups, arrays, strict=True)]
        grads = [wrap(jnp.zeros(i.shape, i.dtype), ctx) for i in inputs[:count]]
        aux = [wrap(v, ctx) for v in inputs[count:]]
        context = self._context(prop, prop.backward_resource([i.shape for i in inputs[:count]]), True, _key)
        with _plain():
            prop.create_operator(ctx).backward(context, parts[0], parts[1], parts[2], ["write"] * count, grads, aux)
        return tuple(g.read() for g in grads)


class _plain:  # noqa: N801
    """Runs the body as plain calls: not recorded, not deferred."""

    def __enter__(self) -> None:
        self._before = state.recording, state.training, state.trace
        state.recording, state.trace = False, None

    def __exit__(self, *exc: object) -> None:
        state.recording, state.training, state.trace = self._before


def register_property(name: str) -> Callable[[type], type]:
    """A decorator that registers an OperatorProperty class as operator `name` of `mx.nd` and `mx.sym`.

    Raises:
        MXNetError: the class is not an OperatorProperty.
    """
    def decorate(cls: type) -> type:
        if not (isinstance(cls, type) and issubclass(cls, OperatorProperty)):
            raise MXNetError(f"register_property expects a subclass of OperatorProperty, got {cls!r}")
        registry.add(_PropertyOp(name, cls))
        return cls
    return decorate
