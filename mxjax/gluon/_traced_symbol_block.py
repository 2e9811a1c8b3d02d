"""`SymbolBlock` of MXNet 2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .. import symbol
from ..array.dense import NDArray
from ..context import Context
from ..device import with_device
from ..eager.modes import state
from ..symbol import Symbol
from ..util import is_np_array
from . import _hybrid_block
from ._formats import flatten, regroup
from ._structural_parameter import Parameter
from ._symbol_block import GraphBlock
from ._traced_block import HybridBlock

if TYPE_CHECKING:
    from ._types import Nested

__all__ = ["SymbolBlock"]


class SymbolBlock(GraphBlock, HybridBlock):
    """A symbol as a block.

    Args:
        outputs: symbol, or list of symbols.
        inputs: its variables that are inputs; the other variables become parameters.
        params: existing parameters to use, by name.

    Raises:
        AssertionError: an input is not a variable, or a variable is row_sparse.
        ValueError: the graph does not use one of `params`.

    Example:
        >>> data = mx.sym.var("data")  # doctest: +SKIP
        >>> block = mx.gluon.SymbolBlock(mx.sym.FullyConnected(data, num_hidden=2, name="fc"), data)  # doctest: +SKIP
    """

    @staticmethod
    @with_device
    def imports(symbol_file: str, input_names: str | Sequence[str], param_file: str | None = None,
                ctx: Context | Sequence[Context] | None = None, allow_missing: bool = False,
                ignore_extra: bool = False) -> SymbolBlock:
        """Loads a block from the files of `HybridBlock.export`, of mxjax, MXNet 2 or MXNet 1.x.

        Args:
            symbol_file: the `-symbol.json` file.
            input_names: names of the inputs.
            param_file: the `.params` file; without it, the parameters must be initialized.
            ctx: device of the parameters.
            allow_missing, ignore_extra: see `Block.load_parameters`.
        """
        names = [input_names] if isinstance(input_names, str) else input_names
        # without a file of parameters the inputs are taken for float32, and other types follow from that
        inputs = [symbol.var(name, dtype="float32" if param_file is None else None) for name in names]
        out = symbol.load(symbol_file)
        if is_np_array():
            inputs, out = [variable.as_np_ndarray() for variable in inputs], out.as_np_ndarray()
        block = SymbolBlock(out, inputs)
        if param_file is not None:
            block.load_parameters(param_file, ctx, allow_missing, ignore_extra, cast_dtype=True, dtype_source="saved")
        return block

    def __init__(self, outputs: Symbol | Sequence[Symbol], inputs: Symbol | Sequence[Symbol],
                 params: dict[str, Parameter] | None = None) -> None:
        super().__init__()
        types = self._begin(outputs, inputs)
        unused = (params or {}).keys() - types.keys()
        if unused:
            raise ValueError(f"{unused} params are unused by the model.")
        known = dict(params or {})
        for name, (req, dtype) in types.items():
            param = known.get(name)
            if param is None:
                param = known[name] = Parameter(name, grad_req=req, allow_deferred_init=True, dtype=dtype)
            else:
                param._check_and_setattr(allow_deferred_init=True, dtype=dtype)
            if param._var is None:
                param.own_name = name
        self._reg_params = {**known}

    def _infer_own_shapes(self, *args: Nested) -> None:
        """Leaves shapes to the graph."""

    def infer_shape(self, *args: Nested) -> None:
        """Infers the parameters' shapes from inputs."""
        self._infer_attrs("infer_shape", "shape", *args)

    def _get_graph(self, *args: Nested) -> tuple[list[Symbol], Symbol]:
        return self._cached_graph

    def __call__(self, x: Nested, *args: Nested) -> Any:
        """Calls the hooks and runs the graph on arrays, or composes it with symbols."""
        for hook in self._forward_pre_hooks.values():
            hook(self, (x, *args))
        out = self.forward(x, *args)
        for hook in self._forward_hooks.values():
            hook(self, (x, *args), out)
        return out

    def forward(self, x: Nested, *args: Nested) -> Any:
        """Runs the graph on arrays, or composes it with symbols; during a trace, its nodes join the traced graph."""
        if not isinstance(x, NDArray):
            return self._composed([x, *args])
        if state.recorder is not None:
            return self._traced_call(x, *args)
        with x.context:
            return _hybrid_block.HybridBlock._call_cached_op(self, x, *args)

    def _traced_call(self, *args: Nested) -> Any:
        recorder, state.recorder = state.recorder, None
        try:
            op = self._cached_op
            if op is None:
                op = self._build_cache(*args)
        finally:
            state.recorder = recorder
        present = [a for a in flatten(args, "input")[0] if a is not None]
        arrays = [present[what] if is_arg else what.data() for is_arg, what in self._cached_op_args]
        return regroup(recorder.inline(op, arrays), self._out_format)
