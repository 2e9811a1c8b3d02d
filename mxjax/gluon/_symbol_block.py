"""`SymbolBlock`: a symbol as a block, and how it is loaded from files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .. import symbol
from ..base import MXNetError
from ..context import Context
from ..ndarray import NDArray
from ..ops.params import np_dtype
from ..symbol import Symbol
from ..util import is_np_array
from ._formats import flatten, regroup
from ._hybrid_block import HybridBlock
from ._parameter import ParameterDict

if TYPE_CHECKING:
    from ..ops.params import DTypeLike
    from ._types import Nested

__all__ = ["GraphBlock", "SymbolBlock"]


class GraphBlock:
    """Common base of the symbol blocks of both API levels."""

    _traced = False
    _cached_graph: tuple
    _in_format: Any
    _out_format: Any

    def _begin(self, outputs: Symbol | Sequence[Symbol],
               inputs: Symbol | Sequence[Symbol]) -> dict[str, tuple[str, Any]]:
        """Takes the graph; returns (grad_req, dtype) of its parameters by name.

        Raises:
            AssertionError: an input is not a variable, or a variable is row_sparse.
        """
        if isinstance(inputs, Symbol) and len(inputs.list_outputs()) == 1:
            inputs = [inputs]
        if isinstance(outputs, (list, tuple)) and len(outputs) == 1:
            outputs = outputs[0]
        variables, self._in_format = flatten(inputs, "input")
        results, self._out_format = flatten(outputs, "output")
        for variable in variables:
            if len(variable.get_internals().list_outputs()) != 1:
                raise AssertionError(f"Input symbols must be variable, but {variable} is an output of operators")
        out = symbol.Group(results, type(results[0])) if len(results) > 1 else results[0]
        for name, attrs in out.attr_dict().items():
            if attrs.get("__storage_type__") == "1":
                raise AssertionError(f"SymbolBlock doesn't support Parameter {name!r} because its storage type is "
                                     "'row_sparse'.")
        names = {variable.name for variable in variables}
        self._cached_graph = variables, out
        return {name: (req, dtype)
                for result, req in zip(_parameter_types(variables, out), ("write", "null"), strict=True)
                for name, dtype in result.items() if name not in names}

    def __repr__(self) -> str:
        inputs, out = self._cached_graph
        return f"{type(self).__name__}(\n{out} : {len(inputs)} -> {len(out.list_outputs())}\n)"

    def set_values(self, values: Mapping[str, NDArray], ctx: Context | Sequence[Context] | None) -> None:
        """Initializes all parameters with these values, whose dtypes they take; not in MXNet."""
        for name, param in self._by_variable().items():  # type: ignore[attr-defined]
            param._load_init(values[name], ctx, cast_dtype=True, dtype_source="saved")

    def _composed(self, args: Sequence[Any]) -> Any:
        """The graph applied to symbols."""
        if not isinstance(args[0], Symbol):
            raise AssertionError("HybridBlock requires the first argument to forward be either Symbol or NDArray, but "
                                 f"got {type(args[0])}")
        flat, form = flatten(args, "input")
        if form != self._in_format:
            raise AssertionError(f"Invalid input format: expected {self._in_format}, got {form}")
        inputs, out = self._cached_graph
        result = out(**{variable.name: value for variable, value in zip(inputs, flat, strict=True)})
        results = result.singles()
        for one in results:
            one.listed = True  # graphs have one or several outputs, and code for all of them iterates
        return regroup(results, self._out_format)

    def _clear_cached_op(self) -> None:
        graph = getattr(self, "_cached_graph", ())
        super()._clear_cached_op()  # type: ignore[misc]
        self._cached_graph = graph

    def cast(self, dtype: DTypeLike) -> None:
        """Converts all parameters to another dtype; with float16, those of batch normalization stay float32."""
        super().cast(dtype)  # type: ignore[misc]
        if np_dtype(dtype).name != "float16":
            return
        params = self._by_variable()  # type: ignore[attr-defined]
        names = set(self._cached_graph[1].list_inputs())
        for statistic in ("running", "moving"):
            for name in names:
                stem = name.removesuffix(f"{statistic}_var")
                parts = [stem + part for part in (f"{statistic}_mean", f"{statistic}_var", "gamma", "beta")]
                if stem != name and names.issuperset(parts):
                    for part in parts:
                        params[part].cast("float32")


class SymbolBlock(GraphBlock, HybridBlock):
    """A symbol as a block.

    Args:
        outputs: symbol, or list of symbols.
        inputs: its variables that are inputs; the other variables become parameters.
        params: dictionary to take parameters from.

    Raises:
        AssertionError: an input is not a variable, or a variable is row_sparse.

    Example:
        >>> data = mx.sym.var("data")
        >>> block = mx.gluon.SymbolBlock(mx.sym.FullyConnected(data, num_hidden=2, name="fc"), data)
        >>> block.initialize()
        >>> block(mx.nd.ones((3, 4))).shape
        (3, 2)
    """

    @staticmethod
    def imports(symbol_file: str, input_names: str | Sequence[str], param_file: str | None = None,
                ctx: Context | Sequence[Context] | None = None, allow_missing: bool = False,
                ignore_extra: bool = False) -> SymbolBlock:
        """Loads a block from the files of `HybridBlock.export` or `Module.save_checkpoint`, of mxjax or MXNet.

        Args:
            symbol_file: the `-symbol.json` file.
            input_names: names of the inputs.
            param_file: the `.params` file; without it, the parameters must be initialized.
            ctx: context of the parameters.
            allow_missing, ignore_extra: see `ParameterDict.load`.
        """
        names = [input_names] if isinstance(input_names, str) else input_names
        # without a file of parameters the inputs are taken for float32, and other types follow from that
        inputs = [symbol.var(name, dtype="float32" if param_file is None else None) for name in names]
        out = symbol.load(symbol_file)
        block = SymbolBlock(out.as_np_ndarray() if is_np_array() else out, inputs)
        if param_file is not None:
            block.collect_params().load(param_file, ctx, allow_missing, ignore_extra, cast_dtype=True,
                                        dtype_source="saved")
        return block

    def __init__(self, outputs: Symbol | Sequence[Symbol], inputs: Symbol | Sequence[Symbol],
                 params: ParameterDict | None = None) -> None:
        super().__init__(prefix=None, params=None)
        self._prefix, self._params = "", ParameterDict("", params)
        types = self._begin(outputs, inputs)
        for name, (req, dtype) in types.items():
            self.params.get(name, grad_req=req, allow_deferred_init=True, dtype=dtype)
        begin = len(_common_prefix(list(self._params.keys())))
        self._reg_params = {name[begin:]: param for name, param in self._params.items()}

    def forward(self, x: Nested, *args: Nested) -> Any:
        """Runs the graph on arrays, or composes it with symbols."""
        if isinstance(x, NDArray):
            with x.context:
                return self._call_cached_op(x, *args)
        return self._composed([x, *args])

    def reset_ctx(self, ctx: Context | Sequence[Context] | None) -> None:
        """Moves all parameters, including those that a backend created, to other contexts (None: the current one)."""
        params = {param.name: param for is_arg, param in self._cached_op_args if not is_arg}
        for param in {**params, **self.collect_params()._params}.values():
            param.reset_ctx(ctx)


def _common_prefix(names: Sequence[str]) -> str:
    """The longest beginning that all names share."""
    if not names:
        return ""
    low, high = min(names), max(names)
    return low[:next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), len(low))]


def _parameter_types(inputs: Sequence[Symbol], out: Symbol) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the dtypes of arguments and auxiliary states by name, from those of the inputs, else float32."""
    args, aux = out.list_arguments(), out.list_auxiliary_states()
    arg_types = aux_types = None
    known = [variable.infer_type()[0] for variable in inputs]
    if all(known):
        try:
            dtypes = {v.list_inputs()[0]: t[0] for v, t in zip(inputs, known, strict=True)}
            arg_types, _, aux_types = out.infer_type(**dtypes)
        except MXNetError:
            arg_types = aux_types = None
    return (dict(zip(args, arg_types or ["float32"] * len(args), strict=True)),
            dict(zip(aux, aux_types or ["float32"] * len(aux), strict=True)))
