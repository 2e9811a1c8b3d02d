"""The one registry of operators: a pure function of JAX arrays plus typed parameters, and its attributes.

`mx.nd`, `mx.sym`, `mx.np`, methods, documentation, shape inference, gradients and JSON all come from here.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Self

from .._support.bounded import Bounded
from .._support.providers import of_operators
from ..base import MXNetError
from . import params as _params
from .attributes import table

__all__ = ["Op", "add", "alias", "define", "register", "find", "get", "names", "operators"]

_REGISTRY: dict[str, Op] = {}

Rule = Callable[..., Any]


class Op:
    """An operator and its attributes.

    Made by `register`, or fluently, NNVM's way:

        Op("quadratic").describe("a·x² + b·x + c").set_num_inputs(1).set_attr("FCompute", function)

    Attributes are a dictionary (`set_attr`, `get_attr`) that takes any key. The library's own, declared in
    `mxjax.ops.attributes`, are:
    """

    def __init__(self, name: str, function: Callable[..., Any] | None = None) -> None:
        self.name = name
        self.aliases: list[str] = []
        self.doc = ""
        self.params = {}
        self.input_names: list[str] = []
        self.optional_inputs: set[str] = set()
        self.variadic: str | None = None
        self.uses_train = self.uses_key = self.eager = False
        self.attributes: dict[str, Any] = {}
        self.kernels: dict[Any, Any] = Bounded(1024)
        if function is not None:
            self.set_attr("FCompute", function)

    # ------------------------------------------------------------ attributes
    def set_attr(self, key: str, value: Any) -> Self:
        """Sets any attribute; FCompute<cpu> and FCompute<gpu> are FCompute. Returns self."""
        key = key.partition("<")[0]
        self.attributes[key] = value
        self.kernels.clear()
        if key == "FCompute":
            self._read_signature(value)
        return self

    def get_attr(self, key: str, default: Any = None) -> Any:
        """The attribute's value, or `default`."""
        return self.attributes.get(key.partition("<")[0] if "<" in key else key, default)

    def describe(self, text: str) -> Op:
        """Sets the documentation. Returns self."""
        self.doc = inspect.cleandoc(text)
        return self

    def set_num_inputs(self, number: int | Rule) -> Op:
        """Names the inputs "data" (one) or "arg0", "arg1", ... where they have no names yet. Returns self."""
        if isinstance(number, int) and len(self.input_names) != number:
            self.input_names = ["data"] if number == 1 else [f"arg{i}" for i in range(number)]
            self.optional_inputs = set()
        return self

    def set_num_outputs(self, number: int | Rule) -> Op:
        """An int or a function of the parameters. Returns self."""
        return self.set_attr("FNumOutputs", number)

    def set_attr_parser(self, declaration: Callable[..., Any]) -> Op:
        """Takes the parameters from a function's keyword-only arguments or a class's annotations. Returns self."""
        if inspect.isclass(declaration):
            hints = inspect.get_annotations(declaration, eval_str=True)
            self.params = {k: _params.Param(self.name, k, t, getattr(declaration, k, inspect.Parameter.empty))
                           for k, t in hints.items()}
        else:
            self.params = _params.schema(self.name, declaration)
        return self

    def add_argument(self, name: str, type_info: str = "NDArray-or-Symbol", description: str = "") -> Op:
        """Names the next input (in order of the calls) and documents it. Returns self."""
        named = self.attributes.setdefault("arguments", [])
        named.append((name, type_info, description))
        if "NDArray" in type_info or "Symbol" in type_info:
            position = sum("NDArray" in t or "Symbol" in t for _, t, _ in named) - 1
            self.input_names[position:position + 1] = [name]
        return self

    def add_arguments(self, arguments: Sequence[tuple[str, str, str]] | dict[str, _params.Param]) -> Op:
        """`add_argument` for each. Returns self."""
        for entry in arguments if not isinstance(arguments, dict) else ():
            self.add_argument(*entry)
        return self

    def add_alias(self, *others: str) -> Op:
        """Registers further names. Returns self."""
        for other in others:
            self.aliases.append(other)
            _REGISTRY[other] = self
        return self

    def _read_signature(self, function: Callable[..., Any]) -> None:
        self.doc = self.doc or inspect.getdoc(function) or ""
        signature = inspect.signature(function).parameters
        named = [n for n, kind, _ in self.attributes.get("arguments", ()) if "NDArray" in kind or "Symbol" in kind]
        names = []  # names of `add_argument` precede the function's own
        for name, p in signature.items():
            if p.kind is p.VAR_POSITIONAL:
                self.variadic = self.variadic or "num_args"
                self.attributes["variadic_name"] = name
            elif p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
                names.append(named[len(names)] if len(names) < len(named) else name)
                if p.default is not p.empty:
                    self.optional_inputs.add(names[-1])
        self.input_names = names or self.input_names
        if not self.params:
            self.params = _params.schema(self.name, function)
        self.uses_train, self.uses_key = "_train" in signature, "_key" in signature

    # ------------------------------------------------------------ consequences of parameters
    def trains(self, params: dict[str, Any]) -> bool:
        """Returns whether the operator behaves differently in training."""
        when = self.attributes.get("train_when")
        return self.uses_train and (when is None or when(params))

    def by_rows(self, params: dict[str, Any]) -> bool:
        """Returns whether the operator looks up rows of a table whose gradient may be row_sparse."""
        when = self.attributes.get("rows_when")
        return when is not None and when(params)

    def keeps_result(self, params: dict[str, Any]) -> bool:
        """Returns whether a recorded call keeps its result in place of its only input."""
        when = self.attributes.get("keeps_result_when")
        return when is not None and when(params)

    @property
    def params(self) -> dict[str, _params.Param]:
        """The parameters by name. dynamic_names: those that are arguments of the compiled program."""
        return self._params

    @params.setter
    def params(self, params: dict[str, _params.Param]) -> None:
        self._params, self.dynamic_names = params, frozenset(n for n, p in params.items() if p.dynamic)

    def parse(self, given: dict[str, Any]) -> dict[str, Any]:
        """Converts given values (strings or Python values) to canonical parameter values.

        An operator without parameters ignores all values, as in MXNet.
        """
        if not self.params:
            return {}
        if self.variadic and self.variadic in given and self.variadic not in self.params:
            given = {k: v for k, v in given.items() if k != self.variadic}
        return _params.parse(self.name, self.params, given)

    def require_arrays(self, count: int) -> None:
        """Raises MXNetError if a variadic operator receives no array."""
        if not count and self.variadic and not self.input_names and "FListInputNames" not in self.attributes:
            raise MXNetError(f"operator {self.name} requires at least one array")

    def inputs(self, params: dict[str, Any], count: int | None = None) -> list[str]:
        """Names of the inputs; `count` is their number for a variadic operator."""
        rule = self.attributes.get("FListInputNames")
        if rule is not None:
            return list(rule(params))
        if self.variadic:
            return self.input_names + [f"arg{i}" for i in range(max((count or 0) - len(self.input_names), 0))]
        return self.input_names

    def num_outputs(self, params: dict[str, Any]) -> int:
        """Returns the number of outputs, including internal ones."""
        number: int | Rule = self.attributes.get("FNumOutputs", 1)
        return number if isinstance(number, int) else number(params)

    def num_visible(self, params: dict[str, Any]) -> int:
        """Returns the number of outputs that are visible to users."""
        number: int | Rule | None = self.attributes.get("FNumVisibleOutputs")
        if number is None:
            return self.num_outputs(params)
        return number if isinstance(number, int) else number(params)

    def output_names(self, params: dict[str, Any]) -> list[str]:
        """Names of the outputs: "output", or "output0", "output1", ..."""
        rule = self.attributes.get("FListOutputNames")
        if rule is not None:
            return list(rule(params))
        count = self.num_outputs(params)
        return ["output"] if count == 1 else [f"output{i}" for i in range(count)]

    def mutates(self, params: dict[str, Any]) -> tuple[str, ...]:
        """Names of the inputs the operator changes: auxiliary states in a graph."""
        names: tuple[str, ...] | list[str] | Rule = self.attributes.get("FMutateInputs", ())
        return tuple(names if isinstance(names, (tuple, list)) else names(params))

    def __repr__(self) -> str:
        return f"<operator {self.name}>"


Op.__doc__ = f"{inspect.cleandoc(Op.__doc__ or '')}\n\n{table()}"


def register(name: str, *, aliases: Sequence[str] = (), num_outputs: int | Rule = 1,
             num_visible: int | Rule | None = None, mutates: Sequence[str] | Rule = (), inputs: Rule | None = None,
             output_names: Rule | None = None, infer_shape: Rule | None = None, infer_type: Rule | None = None,
             variadic: str | None = None, eager: bool = False, **attrs: Any) -> Callable[[Callable], Callable]:
    """Registers the decorated function as operator `name` and returns it unchanged.

    The positional arguments of the function are the inputs (default None: optional; `*args`: any number), its annotated
    keyword-only arguments (see `params`) the parameters. Among them, `_train` receives whether the call is in training
    mode, and `_key` a JAX random key. It returns an array, or a tuple of outputs followed by the new values of the
    inputs in `mutates`.

    Args:
        name: MXNet's registered name.
        aliases: further names.
        num_outputs, num_visible: ints or functions of the parameters' dictionary.
        mutates: names of the inputs whose new values follow the outputs.
        inputs: function(params) -> names of the inputs that these parameters require (e.g. no bias).
        output_names: function(params) -> output names.
        infer_shape, infer_type: partial inference rules, see `infer`.
        variadic: the parameter that counts the inputs of an operator with `*args` (default "num_args").
        eager: the output shape depends on data: runs on concrete arrays, outside compiled programs.
        attrs: any other attribute, e.g. FGradient.

    Example:
        @register("quadratic", infer_shape=elementwise)
        def quadratic(data, *, a: Scalar = 0.0, b: Scalar = 0.0, c: Scalar = 0.0):
            return (a * data + b) * data + c
    """
    def decorate(function: Callable) -> Callable:
        op = Op(name)
        op.variadic, op.eager = variadic, eager
        op.set_attr("FCompute", function)
        known = {"FNumOutputs": num_outputs, "FNumVisibleOutputs": num_visible,
                 "FMutateInputs": mutates if callable(mutates) else tuple(mutates) or None,
                 "FListInputNames": inputs, "FListOutputNames": output_names, "FInferShape": infer_shape,
                 "FInferType": infer_type, **attrs}
        for key, value in known.items():
            if value is not None:
                op.set_attr(key, value)
        _REGISTRY[name] = op
        op.add_alias(*aliases)
        return function
    return decorate


def define(name: str) -> Op:
    """Registers an operator without a function yet, to be filled in fluently. Returns it.

    Raises:
        MXNetError: the name is taken.
    """
    if name in _REGISTRY:
        raise MXNetError(f"an operator {name!r} is already registered")
    _REGISTRY[name] = op = Op(name)
    return op


def add(op: Op) -> Op:
    """Registers an operator object, replacing one of the same name. Returns it."""
    _REGISTRY[op.name] = op
    return op


def alias(name: str, *others: str) -> None:
    """Gives a registered operator further names."""
    get(name).add_alias(*others)


def find(name: str, load: bool = True) -> Op | None:
    """The operator with that name or alias, or None; `load` also loads operators that upper layers provide."""
    op = _REGISTRY.get(name)
    if op is None and load:
        _load()
        op = _REGISTRY.get(name)
    return op


def _load() -> None:
    """Loads operators of upper layers: those that run on the host, or are written in Python by users."""
    for provide in of_operators:
        provide()


def get(name: str) -> Op:
    """The operator with that name or alias.

    Raises:
        MXNetError: the operator is unknown; the message suggests similar names.
    """
    op = _REGISTRY.get(name) or find(name)
    if op is None:
        close = difflib.get_close_matches(name, _REGISTRY, 3)
        raise MXNetError(f"there is no operator {name!r}" + (f"; did you mean {', '.join(close)}?" if close else ""))
    return op


def names() -> list[str]:
    """All registered names, aliases included."""
    _load()
    return list(_REGISTRY)


def operators() -> list[Op]:
    """All operators, each once."""
    _load()
    return list(dict.fromkeys(_REGISTRY.values()))
