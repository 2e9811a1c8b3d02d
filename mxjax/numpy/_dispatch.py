"""How a function of mx.np becomes a call: on arrays at once, on symbols as a node; both from one definition.

Functions with array arguments derive their namespace from these (`call`). Functions that create arrays without such an
argument accept the namespace first; `bound` fixes it for a namespace.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, TypeGuard

import numpy as np

from ..base import MXNetError, WrongKind, numeric_types
from ..context import Context, as_context, takes_device
from ..eager.call_cache import CachedCall, prepared
from ..eager.dispatch import call as call_operator
from ..eager.dispatch import check_inputs, invoke
from ..eager.modes import state
from ..kernel.kernel import prepare
from ..ops import registry
from ..ops.params import DTypeLike, ShapeLike

__all__ = ["IMPERATIVE", "SYMBOLIC", "ArrayOrSymbol", "Axes", "Namespace", "Operand", "bound", "call", "is_array",
           "is_number"]


class ArrayOrSymbol(Protocol):
    """The attributes of an `ndarray` or a symbol of `mx.sym.np` that functions of both namespaces use, for types."""

    @property
    def ndim(self) -> int: ...

    @property
    def shape(self) -> Any: ...

    @property
    def size(self) -> Any: ...

    @property
    def dtype(self) -> Any: ...

    def reshape(self, *shape: ShapeLike) -> Any: ...

    def astype(self, dtype: DTypeLike) -> Any: ...


Operand: TypeAlias = ArrayOrSymbol | float | np.generic  # an argument of a function that takes numbers, too
Outputs: TypeAlias = ArrayOrSymbol | Sequence[ArrayOrSymbol] | None  # targets of results
Axes: TypeAlias = int | Sequence[int] | None  # one axis, several, or all


class NoArray(MXNetError, WrongKind):
    """An operand is neither an array nor a number.

    MXNet 1.9.1 raises TypeError or AssertionError, depending on the function; MXNet 2 raises its own error.
    """


class Namespace:
    """The arrays that a namespace of functions works on: `ndarray`s or `_Symbol`s; `home` is its name."""

    home: str

    def is_array(self, value: object) -> bool:
        """Returns whether a value is one of its arrays."""
        raise NotImplementedError

    def call(self, name: str, inputs: Sequence[Any], params: dict[str, Any], out: Outputs = None,
             ctx: Context | str | None = None) -> Any:
        """Calls an operator.

        Raises:
            TypeError: an input is not one of its arrays.
        """
        raise NotImplementedError

    def own(self, value: Any) -> Any:
        """A result of any namespace, or a list of them, in this one."""
        return [self.own(v) for v in value] if isinstance(value, list) else value.as_np_ndarray()

    def maker(self, make: Callable[[registry.Op, str], Callable]) -> Callable[[registry.Op, str], Callable]:
        """`make(operator, name)` of a front end, for functions whose results are of this namespace."""
        def owned(op: registry.Op, name: str) -> Callable:
            function = make(op, name)

            @functools.wraps(function)
            def call(*args: Any, **kwargs: Any) -> Any:
                return self.own(function(*args, **kwargs))
            return call
        return owned

    def check(self, name: str, inputs: Sequence[Any]) -> None:
        """Raises TypeError unless all inputs are its arrays."""
        for value in inputs:
            if not self.is_array(value):
                other = getattr(value, "as_np_ndarray", None) and "; its as_np_ndarray() is one of mx.np's"
                raise NoArray(f"{name}: type {type(value)} not supported{other or ''}")


class _Imperative(Namespace):
    """Calls operators on `mx.np.ndarray`s."""

    home = "mxjax.numpy"

    def __init__(self) -> None:
        self.kind: Any = None  # mx.np.ndarray; `taken`: further accepted types; both set where they are defined
        self.taken: Any = ()

    def is_array(self, value: object) -> bool:
        return isinstance(value, self.taken)

    def own_inputs(self, name: str, inputs: Sequence[Any]) -> Sequence[Any]:
        """The inputs as `ndarray`s; MXNet 2 takes classic arrays, too."""
        for value in inputs:
            if not isinstance(value, self.kind):
                self.check(name, inputs)
                return [v.as_np_ndarray() for v in inputs]
        return inputs

    def call(self, name: str, inputs: Sequence[Any], params: dict[str, Any], out: Outputs = None,
             ctx: Context | str | None = None) -> Any:
        try:
            key = (name, len(inputs), state.training, *params.items())
            value = prepared.get(key) if inputs else None
        except TypeError:  # an unhashable parameter, such as a list
            key = value = None
        inputs = self.own_inputs(name, inputs)
        if out is not None:
            self.check("out", out if isinstance(out, (list, tuple)) else [out])
        if value is not None:
            return invoke(value[0], inputs, value[1], out)
        op = registry.get(name)
        params = {k: v for k, v in params.items() if v is not None}
        if not inputs:
            made = call_operator(op, inputs, params, out, as_context(ctx))
            return made if out is not None else self.own(made)
        if key is not None and not op.eager and op.dynamic_names.isdisjoint(params) \
                and op.get_attr("FHost") is None and op.get_attr("eager_when") is None:
            values = op.parse(params)
            check_inputs(op, values, len(inputs))
            kernel = prepare(op, values, len(inputs), state.training)
            value = prepared[key] = CachedCall(kernel, tuple(values[n] for n in kernel.dynamic))
            return invoke(value[0], inputs, value[1], out)
        return call_operator(op, inputs, params, out)


class _Symbolic(Namespace):
    """Makes nodes of `mx.sym.np._Symbol`s."""

    home = "mxjax.symbol.numpy"

    def __init__(self) -> None:
        self.kind: Any = ()  # Symbol, and the function that creates a node, set where they are defined
        self.apply: Callable[..., Any]

    def is_array(self, value: object) -> bool:
        return isinstance(value, self.kind)

    def call(self, name: str, inputs: Sequence[Any], params: dict[str, Any], out: Outputs = None,
             ctx: Context | str | None = None) -> Any:
        self.check(name, inputs)
        params = {k: v for k, v in params.items() if v is not None}
        if ctx is not None and "ctx" in registry.get(name).params:
            params["ctx"] = str(ctx)
        hint = name.split("_", 2)[2]
        if name.endswith("_fallback"):  # custom operators in MXNet, which may read the graph
            name, params = "Custom", {"op_type": hint, **params}
        made = self.apply(name, hint, inputs, params)
        made = made.as_np_ndarray()
        return made if made.num_outputs == 1 else list(made)


IMPERATIVE, SYMBOLIC = _Imperative(), _Symbolic()


def namespace_of(inputs: Sequence[Any]) -> Namespace:
    """The namespace of the first array; imperative if there is no array."""
    for value in inputs:
        if IMPERATIVE.is_array(value):
            return IMPERATIVE
        if value is not None and not isinstance(value, numeric_types) and SYMBOLIC.is_array(value):
            return SYMBOLIC
    return IMPERATIVE


def call(name: str, inputs: Sequence[Any], out: Any = None, **params: Any) -> Any:
    """Calls an operator on arrays or symbols; parameters that are None keep their defaults."""
    return namespace_of(inputs).call(name, inputs, params, out)


def is_array(value: object) -> bool:
    """Returns whether a value is an `ndarray` or a symbol."""
    return IMPERATIVE.is_array(value) or SYMBOLIC.is_array(value)


def is_number(value: object) -> TypeGuard[Any]:  # Python's and NumPy's numbers have no class in common
    """Returns whether a value is a Python or NumPy number."""
    return isinstance(value, numeric_types)


@functools.cache
def bound(namespace: Namespace, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function(namespace, ...)` as a function of the rest; the same one each time."""
    @functools.wraps(function)
    def fixed(*args: Any, **kwargs: Any) -> Any:
        if "device" in kwargs:
            return with_device(namespace, *args, **kwargs)
        return function(namespace, *args, **kwargs)
    signature = inspect.signature(function)
    with_device = takes_device(function) if "ctx" in signature.parameters else function
    shown = signature.replace(parameters=list(signature.parameters.values())[1:])
    fixed.__signature__ = shown  # pyright: ignore[reportAttributeAccessIssue]  for `inspect`
    del fixed.__wrapped__
    # where pickle finds it: not the private file that defines it
    fixed.__module__ = function.__module__.replace("._create", "").replace("._random", ".random").replace(
        "mxjax.numpy", namespace.home)
    return fixed
