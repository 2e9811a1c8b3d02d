"""`HybridBlock` of MXNet 2: `forward` runs on arrays, and is traced to a graph if the block is hybridized.

Layers of the library define `hybrid_forward`; their `forward`, derived from it here, calls
operators on arrays and is traced like any other.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .. import autograd, symbol
from .. import ndarray as nd
from .._support.error_kinds import addressed
from .._support.files import together
from ..array.dense import NDArray
from ..context import Context
from ..eager.array_types import array_classes, wrap
from ..eager.modes import state
from ..eager.promise import Promise
from ..symbol import Symbol
from ..symbol._keys import ArrayScope
from ..symbol._recorder import get_symbol, recording, set_variable
from ..util import is_np_array, np_array, np_shape
from . import _hybrid_block
from ._block import Block
from ._formats import check_np, flatten, kinds, regroup
from ._structural_block import save_arrays
from .parameter import Parameter
from .utils import any_arguments, shape_is_known

if TYPE_CHECKING:
    from ..ops.params import DTypeLike
    from ._types import Nested

__all__ = ["HybridBlock"]

_DEACTIVATED = ("Currently the model has been hybridized. Automatically deactivate the hybridization when {}.")


class HybridBlock(_hybrid_block.HybridBlock):
    """Base of blocks whose `forward` runs on arrays and, after `hybridize()`, as one compiled graph.

    The first call of a hybridized block traces `forward`: operators become nodes of the graph instead of running.
    Python values and the outcomes of Python conditions become constants of it.

    Example:
        >>> class Scale(mx.gluon.HybridBlock):  # doctest: +SKIP
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.scale = mx.gluon.Parameter("scale", shape=(1,), init=mx.init.Constant(3))
        ...     def forward(self, x):
        ...         return x * self.scale.data(x.device)
        >>> block = Scale()  # doctest: +SKIP
        >>> block.initialize()  # doctest: +SKIP
        >>> block.hybridize()  # doctest: +SKIP
        >>> block(mx.np.array([1, 2]))  # doctest: +SKIP
        array([3., 6.])
    """

    _knows_shapes = False  # whether the shapes of its own parameters have been worked out

    def __init__(self, prefix: None = None, params: None = None) -> None:
        super().__init__(prefix=prefix, params=params)
        if _layer_forward(type(self)).__module__.partition(".")[0] != "mxjax":
            raise AssertionError(f"{type(self).__name__}: 'forward' instead of 'hybrid_forward' interface needs to be "
                                 "used starting from Gluon2.0: def forward(self, x) with arrays and mx.np, parameters "
                                 "by self.weight.data(). For hybrid_forward run with MXJAX_API=1")

    def __setattr__(self, name: str, value: object) -> None:
        if isinstance(value, Block) and self.__dict__.get("_active"):
            warnings.warn(_DEACTIVATED.format("changing the children blocks"), stacklevel=2)
            self._active = False
        super().__setattr__(name, value)

    def register_child(self, block: Block, name: str | None = None) -> None:
        """Makes a block a child of this one; the block is no longer hybridized."""
        super().register_child(block, name)
        if self._active:
            warnings.warn(_DEACTIVATED.format("adding new children block"), stacklevel=2)
            self._active = False

    def cast(self, dtype: DTypeLike) -> None:
        """Converts all parameters to another dtype; the block is no longer hybridized."""
        if self._active:
            warnings.warn(_DEACTIVATED.format("cast the block to use another data type"), stacklevel=2)
            self._active = False
        super().cast(dtype)

    def hybridize(  # pyright: ignore[reportIncompatibleMethodOverride]  MXNet 2's arguments
            self, active: bool = True, partition_if_dynamic: bool = True, static_alloc: bool = False,
            static_shape: bool = False, inline_limit: int = 2, forward_bulk_size: int | None = None,
            backward_bulk_size: int | None = None, remat: bool | str | None = None) -> None:
        """Compiles this block and all its children into graphs, or with `active=False` runs them imperatively again.

        Args:
            active: on or off.
            partition_if_dynamic, static_alloc, static_shape, inline_limit, forward_bulk_size, backward_bulk_size:
                MXNet's memory and scheduling options; ignored, because XLA decides.
            remat: reduces the memory of training; see `hybridize` at the MXNet 1.x level of this
                library.
        """
        super().hybridize(active, None, True, static_alloc, static_shape, inline_limit, forward_bulk_size,
                          backward_bulk_size, remat)

    def optimize_for(self, x: Nested, *args: Nested, backend: str | None = None, clear: bool = False,
                     partition_if_dynamic: bool = True, static_alloc: bool = False, static_shape: bool = False,
                     inline_limit: int = 2, forward_bulk_size: int | None = None,
                     backward_bulk_size: int | None = None, **kwargs: Any) -> None:
        """Hybridizes the block and builds its graph immediately, without running it; `backend` may be None.

        The other arguments are those of MXNet 1.x.
        """
        _hybrid_block.HybridBlock.hybridize(self, True, backend, clear, static_alloc, static_shape, inline_limit,
                                            forward_bulk_size, backward_bulk_size, **kwargs)
        self._check_inputs(*kinds([x, *args]))
        self._infer_own_shapes(x, *args)
        self._build_cache(x, *args)
        self._backend, self._backend_opts = None, {}

    # ------------------------------------------------------------ shapes
    def _infer_own_shapes(self, *args: Nested) -> None:
        if not self._knows_shapes:
            self.infer_shape(*args)
            for param in self._reg_params.values():
                param._finish_deferred_init()
            self._knows_shapes = True

    def infer_shape(self, *args: Nested) -> None:
        """Infers the shapes of the block's own parameters from inputs; blocks with unknown shapes define it.

        Raises:
            RuntimeError: a shape is unknown.
        """
        unknown = [param for param in self._reg_params.values() if not shape_is_known(param.shape)]
        if unknown and _layer_forward(type(self)) is not _NO_LAYER:
            self._set_inferred(self._symbolic(args), "infer_shape", "shape", args)
        elif unknown:
            shapes = ", ".join(f"{param.name} ({param.shape})" for param in unknown)
            name = type(self).__name__
            raise RuntimeError(f"{name} has parameters with unknown shape. You need to either specify the shape in "
                               f"__init__ or implement {name}.infer_shape to set the parameter shapes based on the "
                               f"first input. Parameters with unknown shapes are {shapes}")

    def _symbolic(self, args: Sequence[Any]) -> tuple[list[Symbol], Symbol]:
        """The graph of a layer's `hybrid_forward`."""
        flat, form = flatten(args, "input")
        variables = [None if arg is None else symbol.var(f"data{i}").as_np_ndarray() for i, arg in enumerate(flat)]
        params = {name: param.var().as_np_ndarray() for name, param in self._reg_params.items()}
        before, state.recorder = state.recorder, None
        try:
            with ArrayScope(True):
                out = self.hybrid_forward(symbol, *regroup(variables, form), **params)
        finally:
            state.recorder = before
        outputs = flatten(out, "output")[0]
        return [v for v in variables if v is not None], symbol.Group(outputs, type(outputs[0]))

    def _deferred_infer_shape(self, *args: Nested) -> None:
        """Has all blocks in this one work out their shapes: tracing calls each of them, and runs no operator."""
        self.graph_of(args)

    # ------------------------------------------------------------ graphs
    @property
    def _is_graph(self) -> bool:
        """Returns whether calling the block on arrays is running its graph, and nothing else that Python could do."""
        return type(self).__call__ is HybridBlock.__call__ and self._runs_one_graph

    def named_graph(self) -> tuple[list[Symbol], Symbol, dict[str, Parameter]]:
        inputs, out = self._known_graph()
        params = dict(self.collect_params().items())
        return inputs, out.renamed({param.variable_name: name for name, param in reversed(params.items())}), params

    def graph_of(self, inputs: Sequence[Any]) -> tuple[list[Symbol], Symbol]:
        if not self._cached_graph:
            self._infer_own_shapes(*inputs)
        return self._get_graph(*inputs)

    def _shown_name(self, variable: str, param: Parameter) -> str:
        return next((name for name, own in self.collect_params().items() if own is param), variable)

    def _by_variable(self) -> dict[str, Parameter]:
        return {param.variable_name: param for param in self.collect_params().values()}

    def _get_graph(self, *args: Nested) -> tuple[list[Symbol], Symbol]:
        """(input variables, output symbol), made at the first call."""
        if not self._cached_graph:
            flat, self._in_format = flatten(args, "input")
            present = [arg for arg in flat if arg is not None]
            if not present:
                raise ValueError(f"All args are None and we do not support such a case. Received args={args}")
            names = ["data"] if len(present) == 1 else [f"data{i}" for i in range(len(present))]
            variables = [symbol.var(name).as_np_ndarray() if type(array) is array_classes.numpy else symbol.var(name)
                         for name, array in zip(names, present, strict=True)]
            inputs = [_stand_in(array) for array in present]
            set_variable(inputs, variables)
            arrays = iter(inputs)
            traced = regroup([None if arg is None else next(arrays) for arg in flat], self._in_format)
            with autograd.pause(), recording():
                out = Block.__call__(self, *traced)
                results, self._out_format = flatten(out, "output")
            graph = get_symbol([r for r in results if r is not None], type(variables[0]))
            self._cached_graph = variables, graph
        return self._cached_graph

    def export(self, path: str | None, epoch: int = 0,  # type: ignore[override]
               remove_amp_cast: bool = True) -> tuple[Any, Any]:
        """Writes `path-symbol.json` and `path-EPOCH.params`, for `SymbolBlock.imports`.

        Args:
            path: beginning of the file names; None: write nothing.
            epoch: number in the second file's name (4 digits).
            remove_amp_cast: leave out the casts of automatic mixed precision.

        Returns:
            The names of the files (None instead of the second if there are no parameters). Without
            a path, the symbol and its parameters by name.

        Raises:
            RuntimeError: the block has not been hybridized and called.
        """
        if not self._cached_graph:
            raise RuntimeError(addressed(
                "Please first call block.hybridize() and then run forward with this block at least "
                "once before calling export."))
        known = dict(self.collect_params().items())
        structural = {param.variable_name: name for name, param in reversed(known.items())}
        out = self.named_graph()[1]
        auxiliary = set(out.list_auxiliary_states())
        params = {}
        for is_arg, param in self._cached_op_args:
            if not is_arg:
                name = structural.get(param.variable_name, param.variable_name)
                params[f"{'aux' if name in auxiliary else 'arg'}:{name}"] = param
        if path is None:
            return (out.without_amp_casts() if remove_amp_cast else out), {n: p._reduce() for n, p in params.items()}
        files = f"{path}-symbol.json", f"{path}-{epoch:04d}.params"
        with together():
            out.save(files[0], remove_amp_cast=remove_amp_cast)
            if params or not is_np_array():
                save_arrays(files[1], params)
        return files[0], files[1] if params else None

    def reset_device(self, device: Context | Sequence[Context] | None) -> None:
        """Moves all parameters, including those that a backend created, to other devices (None: the current one)."""
        params = {param.variable_name: param for is_arg, param in self._cached_op_args if not is_arg}
        for param in {**params, **self._by_variable()}.values():
            param.reset_device(device)

    # ------------------------------------------------------------ running
    @any_arguments
    def __call__(self, x: Nested, *args: Nested) -> Any:
        """Runs the block: hooks and `forward`, or its compiled graph.

        Raises:
            ValueError: no input is an array, or the inputs of a hybridized block are on several
                devices.
        """
        inputs = (x, *args)
        if not is_np_array() and type(self).__module__.startswith("mxjax."):
            with np_shape(), np_array():  # layers of the library have NumPy's semantics always
                return self(*inputs)
        has_symbol, has_array, contexts = kinds(inputs)
        if has_symbol and ArrayScope.innermost().active:  # a layer within one whose shapes are worked out
            params = {name: param.var().as_np_ndarray() for name, param in self._reg_params.items()}
            return self.hybrid_forward(symbol, *inputs, **params)
        if not has_array:
            raise ValueError("In HybridBlock, there must be one NDArray in the input. Please check the type of the "
                             "args.\n")
        if is_np_array():
            check_np(inputs)
        traced = state.recorder is not None
        if self._active and not traced and len(contexts) > 1:
            raise ValueError("Find multiple devices in the input, After hybridized, the HybridBlock only supports one "
                             f"input device. Find all devices = {contexts}")
        self._infer_own_shapes(*inputs)
        if not self._active or traced:
            return Block.__call__(self, *inputs)
        op = self._cached_op
        if op is not None and len(inputs) == self._flat_inputs and all(isinstance(array, NDArray) for array in inputs):
            return self._call_flat(op, inputs, contexts[0])
        with contexts[0]:
            return self._call_cached_op(*inputs)

    @any_arguments
    def forward(self, x: Nested, *args: Nested) -> Any:
        """Computes the block's outputs from arrays; subclasses define it.

        Args:
            x, args: inputs, arrays.
        """
        if _layer_forward(type(self)) is _NO_LAYER:
            raise NotImplementedError(f"{type(self).__name__} must define forward")
        ctx = kinds((x, *args))[2][0]
        params = {name: param.data(ctx) for name, param in self._reg_params.items()}
        with ctx:
            return self.hybrid_forward(nd, x, *args, **params)


_NO_LAYER = _hybrid_block.HybridBlock.hybrid_forward


def _layer_forward(cls: type) -> Callable[..., Any]:
    """Returns a class's `hybrid_forward` without the wrapper of `use_np`."""
    return inspect.unwrap(cls.hybrid_forward)


def _stand_in(array: NDArray) -> NDArray:
    """Returns an array of the same value, read on demand; it represents an input in a trace."""
    promise = Promise(array.shape, array.chunk.dtype, lambda _: array.read())
    return wrap(promise, array.chunk.ctx, type(array))
