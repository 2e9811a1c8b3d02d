"""CustomOp: operators in arbitrary Python, which the engine runs outside the caller's thread."""

from __future__ import annotations

import contextlib
import itertools
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .. import engine, symbol
from .._support.plain_text import plain_text
from .._support.tracebacks import visible
from ..array.creation import empty
from ..array.dense import _DTYPE_NP_TO_MX, NDArray
from ..array.sparse import empty as empty_stored
from ..base import MXNetError
from ..context import Context
from ..eager.array_types import wrap
from ..eager.host_work import push
from ..eager.modes import Modes, state
from ..eager.tape import Node
from ..ops import registry
from ..ops.infer import known, unify
from ..ops.params import np_dtype
from ..profiler import custom_operator

__all__ = ["CustomOp", "CustomOpProp", "NDArrayOp", "NumpyOp", "PythonOp", "register"]

_PROPS: dict[str, type] = {}


class CustomOp:
    """The computation of a custom operator. Subclasses define `forward` and `backward` on NDArrays."""

    def forward(self, is_train: bool, req: list[str], in_data: list[NDArray], out_data: list[NDArray],
                aux: list[NDArray]) -> None:
        """Computes the outputs: `self.assign(out_data[i], req[i], value)`."""

    def backward(self, req: list[str], out_grad: list[NDArray], in_data: list[NDArray], out_data: list[NDArray],
                 in_grad: list[NDArray], aux: list[NDArray]) -> None:
        """Computes the gradients of the inputs: `self.assign(in_grad[i], req[i], value)`."""

    def assign(self, dst: NDArray, req: str, src: NDArray | float) -> None:
        """Writes or adds `src` to `dst`, according to `req` ("null", "write", "inplace", "add")."""
        if req in ("write", "inplace"):
            dst[:] = src
        elif req == "add":
            dst[:] += src


class CustomOpProp:
    """The properties of a custom operator: its arguments, outputs, shapes, dtypes and state.

    Args:
        need_top_grad: whether the backward pass uses the gradients of the outputs (losses do not).
    """

    def __init__(self, need_top_grad: bool = True) -> None:
        self.need_top_grad_ = need_top_grad

    def list_arguments(self) -> list[str]:
        """Names of the inputs."""
        return ["data"]

    def list_outputs(self) -> list[str]:
        """Names of the outputs."""
        return ["output"]

    def list_auxiliary_states(self) -> list[str]:
        """Names of the auxiliary states."""
        return []

    def infer_shape(self, in_shape: list) -> tuple:
        """Infers (shapes of inputs, of outputs, of auxiliary states) from the known input shapes;
        by default all are equal to the first."""
        return in_shape, (in_shape[0],) * len(self.list_outputs()), ()

    def infer_type(self, in_type: list) -> tuple:
        """Infers (dtypes of inputs, of outputs, of auxiliary states); by default all are equal to the first."""
        return (in_type, [in_type[0]] * len(self.list_outputs()), [in_type[0]] * len(self.list_auxiliary_states()))

    def infer_storage_type(self, in_stype: list[str]) -> tuple:
        """Infers (storage types of inputs, of outputs, of auxiliary states); unless overridden, all
        must be "default"."""
        for stype in in_stype:
            if stype != "default":
                raise MXNetError(f"the default infer_storage_type accepts only dense inputs, got {stype}")
        return (in_stype, ["default"] * len(self.list_outputs()), ["default"] * len(self.list_auxiliary_states()))

    def infer_storage_type_backward(self, ograd_stype: list[str], in_stype: list[str], out_stype: list[str],
                                    igrad_stype: list[str], aux_stype: list[str]) -> tuple:
        """Infers the five lists of storage types of a backward pass; unless overridden, all are "default".

        The lists refer to the arrays that `declare_backward_dependency` names; the type of a
        gradient may be "undefined" on input.
        """
        return tuple(["default"] * len(part) for part in (ograd_stype, in_stype, out_stype, igrad_stype, aux_stype))

    def declare_backward_dependency(self, out_grad: list[int], in_data: list[int], out_data: list[int]) -> list[int]:
        """Returns the ids of the arrays that the backward pass needs."""
        return [*(out_grad if self.need_top_grad_ else []), *in_data, *out_data]

    def create_operator(self, ctx: Context, in_shapes: list, in_dtypes: list) -> CustomOp:
        """Creates the operator for inputs and auxiliary states of these shapes and dtypes, the latter as MXNet's
        numbers (float32: 0).

        An executor creates one and keeps it, as does a block that is hybridized with `static_alloc`. Other calls create
        their own.
        """
        return CustomOp()


def register(reg_name: str) -> Callable[[type], type]:
    """A decorator that registers a CustomOpProp class; the operator is `mx.nd.Custom(..., op_type=reg_name)`.

    Raises:
        MXNetError: the class is not a CustomOpProp.
    """
    def decorate(prop_cls: type) -> type:
        if not (isinstance(prop_cls, type) and issubclass(prop_cls, CustomOpProp)):
            raise MXNetError(f"mx.operator.register expects a subclass of CustomOpProp, got {prop_cls!r}")
        _PROPS[reg_name] = prop_cls
        return prop_cls
    return decorate


class _OperatorName(str):
    """The name of a custom operator, with the property that describes one node or one call of it.

    A property may store in `infer_shape` values for its `create_operator`, so a node keeps one property.
    """

    __slots__ = ("property",)

    property: CustomOpProp


class _Custom(registry.Op):
    """The operator `Custom`: its inputs, outputs and parameters are those of the property class `op_type` names."""

    def parse(self, given: dict[str, Any]) -> dict[str, Any]:
        """Returns the property's arguments as text in a fixed order; `op_type` holds the property they create."""
        given = {k: v for k, v in given.items() if v is not None}
        op_type = _OperatorName(given.pop("op_type", ""))
        if op_type not in _PROPS:
            raise MXNetError(f"Custom: no operator is registered as op_type {op_type!r} (first import the module that "
                             f"registers it; commands have --import); registered: {', '.join(_PROPS) or 'none'}")
        texts = {k: plain_text(v) for k, v in sorted(given.items())}
        op_type.property = _PROPS[op_type](**texts)
        return {"op_type": op_type, **texts}

    def inputs(self, params: dict[str, Any], count: int | None = None) -> list[str]:
        """Arguments, then auxiliary states."""
        prop = _prop(params)
        return [*prop.list_arguments(), *prop.list_auxiliary_states()]


def _prop(params: dict[str, Any]) -> CustomOpProp:
    return params["op_type"].property


def _infer_shape(params: dict[str, Any], ins: list, outs: list) -> None:
    if ins and not known(ins[0]):
        return
    prop = _prop(params)
    count = len(prop.list_arguments())
    shapes = [list(s) if known(s) else [] for s in ins[:count]]
    try:
        result = [list(part) for part in _three(prop.infer_shape(shapes))]
    except Exception as error:
        if all(map(known, ins[:count])):
            raise MXNetError(f"infer_shape of custom operator {params['op_type']}: {error}") from error
        return
    for i, shape in enumerate([*result[0], *result[2]]):
        ins[i] = unify(ins[i], _shape(shape))
    for i, shape in enumerate(result[1]):
        outs[i] = unify(outs[i], _shape(shape))


def _shape(shape: Any) -> tuple[int, ...] | None:
    if shape is None:
        return None
    if isinstance(shape, (int, np.integer)):
        raise MXNetError(f"infer_shape must return shapes (tuples or lists of ints), got {shape!r}")
    return tuple(int(n) for n in shape)


def _three(result: Sequence[Any]) -> tuple:
    """infer_* may leave out the auxiliary states."""
    if len(result) not in (2, 3):
        raise MXNetError(f"infer_shape / infer_type must return 2 or 3 lists, got {len(result)}")
    return tuple(result) if len(result) == 3 else (*result, [])


def _infer_type(params: dict[str, Any], ins: list, outs: list) -> None:
    if ins and ins[0] is None:
        return
    prop = _prop(params)
    count = len(prop.list_arguments())
    dtypes = [np_dtype(t or ins[0]).type for t in ins[:count]]
    result = _three(prop.infer_type(dtypes))
    for i, dtype in enumerate([*result[0], *result[2]]):
        ins[i] = ins[i] or np_dtype(dtype).name
    for i, dtype in enumerate(result[1]):
        outs[i] = outs[i] or np_dtype(dtype).name


class _Made(NamedTuple):
    """An operator, for inputs of which shapes and dtypes it was made, and the shapes and dtypes of its outputs.

    var: orders its calls in the engine, where it is used for several.
    """

    operator: CustomOp
    signature: list[Any]
    specs: list[tuple[Any, np.dtype]]
    var: Any


def _made(params: dict[str, Any], arrays: list[NDArray], ctx: Context, lasting: bool) -> _Made:
    """Returns a new operator for these inputs and auxiliary states."""
    prop = _prop(params)
    shapes: list = [a.shape for a in arrays]
    outs: list = [None] * len(prop.list_outputs())
    _infer_shape(params, shapes, outs)
    types: list = [np_dtype(a.dtype).name for a in arrays]
    out_types: list = [None] * len(outs)
    _infer_type(params, types, out_types)
    with _errors("create_operator", params["op_type"]):
        numbers = [_DTYPE_NP_TO_MX[np_dtype(a.dtype).type] for a in arrays]
        op = prop.create_operator(ctx, [list(a.shape) for a in arrays], numbers)
    return _Made(op, _signature(arrays, ctx), [(s, np_dtype(t)) for s, t in zip(outs, out_types, strict=True)],
                 engine.get().new_variable() if lasting else None)


def _signature(arrays: list[NDArray], ctx: Context) -> list[Any]:
    return [ctx, *[(a.shape, a.dtype) for a in arrays]]


def _call(params: dict[str, Any], arrays: list[NDArray], ctx: Context,
          kept: dict[str, Any] | None = None) -> list[NDArray]:
    """Pushes the forward to the engine; records a node whose backward does the same.

    kept: storage of an executor's node across calls, here its operator. None: this call has its own.
    """
    prop = _prop(params)
    count = len(prop.list_arguments())
    inputs, aux = arrays[:count], arrays[count:]
    if len(aux) != len(prop.list_auxiliary_states()):
        raise MXNetError(f"custom operator {params['op_type']} expects {count} inputs and "
                         f"{len(prop.list_auxiliary_states())} auxiliary states, got {len(arrays)} arrays")
    instance: _Made | None = None if kept is None else kept.get("operator")
    if instance is None or instance.signature != _signature(arrays, ctx):
        instance = _made(params, arrays, ctx, kept is not None)
        if kept is not None:
            kept["operator"] = instance
    op, specs = instance.operator, instance.specs
    train, recording = state.training, state.recording
    stypes = _output_stypes(prop, params, inputs, len(specs))
    if _all_dense(arrays) and set(stypes) <= {"default"}:
        values, results = _pushed(instance, params, arrays, count, ctx, train)
    else:  # stored values have no size before they are computed, so they cannot be queued in the engine
        values, results = [a.detach() for a in inputs], [_blank(*spec, ctx) for spec in zip(stypes, specs, strict=True)]
        with Modes(False, train), custom_operator(params["op_type"]), _errors("forward", params["op_type"]):
            op.forward(is_train=train, req=["write"] * len(results), in_data=values, out_data=results, aux=aux)
    if recording and any(a.entry is not None for a in inputs):
        parents = [a.entry for a in inputs]
        outputs = [r.detach() if not r.dense else _value(r) for r in results]
        pull = _puller(instance, params, ctx, values[:count], outputs, aux, parents)
        node = Node(None, (), parents, specs, ctx, pull)
        for i, result in enumerate(results):
            result.entry = (node, i)
    return results


def _pushed(instance: _Made, params: dict[str, Any], arrays: list[NDArray], count: int, ctx: Context,
            train: bool) -> tuple[list[Any], list[NDArray]]:
    """Has the engine run the forward on `count` dense inputs and auxiliary states: (values of `arrays`, results)."""
    op, specs, array_types = instance.operator, instance.specs, [type(a) for a in arrays]
    values = [_value(a) for a in arrays]

    def forward(buffers: list[Any]) -> list[Any]:
        wrapped = [wrap(b, ctx, k) for b, k in zip(buffers, array_types, strict=True)]
        results = [empty(s, ctx, t) for s, t in specs]
        with custom_operator(params["op_type"]), _errors("forward", params["op_type"]):
            op.forward(is_train=train, req=["write"] * len(results), in_data=wrapped[:count], out_data=results,
                       aux=wrapped[count:])
        return [a.read() for a in [*results, *wrapped[count:]]]
    pending = push(forward, values, specs + [(a.shape, np_dtype(a.dtype)) for a in arrays[count:]], ctx=ctx,
                   name=f"custom operator {params['op_type']}", changes=instance.var)
    for array, value in zip(arrays[count:], pending[len(specs):], strict=True):
        array.write(value)
    return values, [wrap(p, ctx, array_types[0] if array_types else None) for p in pending[:len(specs)]]


# ---------------------------------------------------------------- storage types
def _all_dense(values: Sequence[Any]) -> bool:
    return all(v.dense for v in values if isinstance(v, NDArray))


def _blank(stype: str, spec: tuple[tuple[int, ...], np.dtype], ctx: Context) -> NDArray:
    """An array for a result."""
    return empty(spec[0], ctx, spec[1]) if stype == "default" else empty_stored(stype, spec[0], ctx, spec[1])


def _agreed(op_type: str, method: str, before: Sequence[Sequence[str]], inferred: Sequence[Sequence[str]]) -> None:
    """Raises MXNetError unless a method returned lists as long as it was given, with the same storage types."""
    for had, got in zip(before, inferred, strict=False):
        if len(had) != len(got) or any(a not in (b, "undefined") for a, b in zip(had, got, strict=True)):
            raise MXNetError(f"{method} of custom operator {op_type}: expected storage types {list(had)}, got "
                             f"{list(got)}")


def _output_stypes(prop: CustomOpProp, params: dict[str, Any], inputs: list[NDArray], count: int) -> list[str]:
    """The storage types of the outputs, as the property infers them."""
    op_type, stypes = params["op_type"], [a.stype for a in inputs]
    with _errors("infer_storage_type", op_type):
        ins, outs, _ = _three(prop.infer_storage_type(list(stypes)))
    _agreed(op_type, "infer_storage_type", [stypes, ["undefined"] * count], [ins, outs])
    return list(outs)


def _gradient_stypes(params: dict[str, Any], parents: list[Any], out_grads: list[Any], values: list[Any],
                     outputs: list[Any], aux: list[NDArray]) -> list[str]:
    """The storage types of the inputs' gradients, as the property infers them."""
    prop, op_type, groups = _prop(params), params["op_type"], (out_grads, values, outputs)
    numbers = iter(range(sum(map(len, groups))))
    numbered = [[next(numbers) for _ in group] for group in groups]
    read = set(prop.declare_backward_dependency(*numbered))
    stypes = [[v.stype if isinstance(v, NDArray) else "default" for v, n in zip(group, own, strict=True) if n in read]
             for group, own in zip(groups, numbered, strict=True)]
    stypes += [["default" if p is None else "undefined" if p[0].grad is None else p[0].grad.stype for p in parents],
              [a.stype for a in aux]]
    with _errors("infer_storage_type_backward", op_type):
        inferred = prop.infer_storage_type_backward(*map(list, stypes))
    _agreed(op_type, "infer_storage_type_backward", stypes, inferred)
    return list(inferred[3])


@contextlib.contextmanager
def _errors(method: str, op_type: str) -> Iterator[None]:
    """Turns an error of a user's method into an MXNetError with its place; the original is its cause."""
    try:
        yield
    except MXNetError:
        raise
    except Exception as error:
        raise MXNetError(f"{method} of custom operator {op_type}: {type(error).__name__}: {error}\n"
                         + "".join(traceback.format_tb(visible(error.__traceback__)))) from error


def _value(array: NDArray) -> Any:
    """The array's value, not waited for where the engine is still computing it."""
    return array.chunk.peek() if array.region is None else array.read()


def _puller(instance: _Made, params: dict[str, Any], ctx: Context, values: list[Any], outputs: list[Any],
            aux: list[NDArray], parents: list[Any]) -> Callable[[list, bool], list]:
    op, specs = instance.operator, instance.specs
    reqs = ["null" if p is None else "write" for p in parents]
    in_specs = [(v.shape, np.dtype(v.dtype)) for v in values]

    def pull(slots: list[Any], create_graph: bool) -> list[Any]:
        if create_graph:
            raise MXNetError(f"custom operator {params['op_type']}: its backward is arbitrary code and cannot be "
                             "differentiated again (create_graph=True)")
        out_grads = [empty(shape, ctx, dtype).read() if s is None else s.read() if isinstance(s, NDArray) and s.dense
                     else s for s, (shape, dtype) in zip(slots, specs, strict=True)]
        stypes = _gradient_stypes(params, parents, out_grads, values, outputs, aux)
        if not (_all_dense([*out_grads, *values, *outputs, *aux]) and set(stypes) <= {"default"}):
            out_grad, in_data, out_data = ([v if isinstance(v, NDArray) else wrap(v, ctx) for v in part]
                                           for part in (out_grads, values, outputs))
            grads = [_blank(*spec, ctx) for spec in zip(stypes, in_specs, strict=True)]
            with Modes(False, None), custom_operator("_backward_" + params["op_type"]), \
                    _errors("backward", params["op_type"]):
                op.backward(req=list(reqs), out_grad=out_grad, in_data=in_data, out_data=out_data, in_grad=grads,
                            aux=aux)
            return [g if p is not None else None for g, p in zip(grads, parents, strict=True)]

        def backward(buffers: list[Any]) -> list[Any]:
            wrapped = iter([wrap(b, ctx) for b in buffers])
            wrapped_grads, inputs, outs, states = ([next(wrapped) for _ in part] for part in
                                                   (out_grads, values, outputs, aux))
            grads = [empty(s, ctx, t) for s, t in in_specs]
            with custom_operator("_backward_" + params["op_type"]), _errors("backward", params["op_type"]):
                op.backward(req=list(reqs), out_grad=wrapped_grads, in_data=inputs, out_data=outs, in_grad=grads,
                            aux=states)
            return [a.read() for a in [*grads, *states]]
        results = push(backward, [*out_grads, *values, *outputs, *map(_value, aux)],
                       in_specs + [(a.shape, np_dtype(a.dtype)) for a in aux], ctx=ctx,
                       name=f"backward of custom operator {params['op_type']}", changes=instance.var)
        for array, value in zip(aux, results[len(values):], strict=True):
            array.write(value)
        return [g if p is not None else None for g, p in zip(results, parents, strict=False)]
    return pull


def _no_program(*_: object, **__: Any) -> Any:
    raise MXNetError("a custom operator is Python code run by the engine; it cannot be part of a pure JAX function "
                     "or one XLA program (use mx.operator.from_jax or register_property for that)")


_custom = _Custom("Custom", _no_program)
_custom.eager = True
_custom.variadic = None
_custom.input_names, _custom.params = [], {}
_custom.set_attr("opaque", True)
_custom.set_attr("keeps", True)
_custom.describe("Runs the custom operator registered as `op_type`; further arguments are passed to its property "
                 "class.")
for _key, _attribute in {
        "FListInputNames": _custom.inputs, "FInferShape": _infer_shape, "FInferType": _infer_type, "FHost": _call,
        "FNumOutputs": lambda p: len(_prop(p).list_outputs()), "FListOutputNames": lambda p: _prop(p).list_outputs(),
        "FMutateInputs": lambda p: _prop(p).list_auxiliary_states()}.items():
    _custom.set_attr(_key, _attribute)
registry.add(_custom).add_alias("_npi_Custom")


# ---------------------------------------------------------------- the two oldest forms
class PythonOp:
    """Base of NumpyOp and NDArrayOp: forward and backward as methods of one object.

    Args:
        need_top_grad: whether the backward pass uses the gradients of the outputs.
    """

    _numbers: ClassVar[Any] = itertools.count()
    _as_numpy: ClassVar[bool] = False

    def __init__(self, need_top_grad: bool = True) -> None:
        self.need_top_grad_ = need_top_grad
        self._name: str | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.get_symbol(*args, **kwargs)

    def get_symbol(self, *args: Any, **kwargs: Any) -> Any:
        """Applies the operator to symbols; keyword arguments are inputs by name, and `name`."""
        if self._name is None:
            self._name = f"_python_op{next(self._numbers)}"
            _PROPS[self._name] = _adapted(self)
        return symbol.op.Custom(*args, op_type=self._name, **kwargs)

    def forward(self, in_data: list, out_data: list) -> None:
        """Computes the outputs in place; by default copies the first input."""
        out_data[0][:] = in_data[0]

    def backward(self, out_grad: list, in_data: list, out_data: list, in_grad: list) -> None:
        """Computes the gradients in place; by default ones."""
        in_grad[0][:] = 1.0

    def infer_shape(self, in_shape: list) -> tuple:
        """Infers (shapes of inputs, shapes of outputs); by default all are equal to the first input's."""
        return in_shape, [in_shape[0]]

    def list_outputs(self) -> list[str]:
        """Names of the outputs."""
        return ["output"]

    def list_arguments(self) -> list[str]:
        """Names of the inputs."""
        return ["data"]

    def need_top_grad(self) -> bool:
        """Returns whether the backward pass uses the gradients of the outputs."""
        return self.need_top_grad_


class NumpyOp(PythonOp):
    """An operator whose `forward` and `backward` work on NumPy arrays."""

    _as_numpy = True


class NDArrayOp(PythonOp):
    """An operator whose `forward` and `backward` work on NDArrays."""

    def declare_backward_dependency(self, out_grad: list[int], in_data: list[int], out_data: list[int]) -> list[int]:
        """Returns the ids of the arrays that the backward pass needs."""
        return [*(out_grad if self.need_top_grad() else []), *in_data, *out_data]


def _adapted(python_op: PythonOp) -> type:
    """A property class for an object of the older kind."""
    def run(function: Callable, read: Sequence[list], written: list) -> None:
        if not python_op._as_numpy:
            function(*read, written)
            return
        results = [a.asnumpy() for a in written]
        function(*[[a.asnumpy() for a in part] for part in read], results)
        for target, value in zip(written, results, strict=True):
            target[:] = value

    class Op(CustomOp):
        def forward(self, is_train: bool, req: list, in_data: list, out_data: list, aux: list) -> None:
            run(python_op.forward, [in_data], out_data)

        def backward(self, req: list, out_grad: list, in_data: list, out_data: list, in_grad: list,
                     aux: list) -> None:
            run(python_op.backward, [out_grad, in_data, out_data], in_grad)

    class Prop(CustomOpProp):
        def __init__(self) -> None:
            super().__init__(python_op.need_top_grad())

        def list_arguments(self) -> list[str]:
            return python_op.list_arguments()

        def list_outputs(self) -> list[str]:
            return python_op.list_outputs()

        def infer_shape(self, in_shape: list) -> tuple:
            return (*python_op.infer_shape(in_shape), [])

        def create_operator(self, ctx: Context, in_shapes: list, in_dtypes: list) -> CustomOp:
            return Op()
    return Prop

