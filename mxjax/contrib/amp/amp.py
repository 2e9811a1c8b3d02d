"""Automatic mixed precision: 16 bits where they are fast and safe, float32 elsewhere."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import level
from ...array.file_format import CODES
from ...base import Unfit
from ...context import Context, gpu
from ...device import with_device
from ...gluon import Block, HybridBlock, SymbolBlock, Trainer
from ...graph.inference import infer_types
from ...graph.node import topological
from ...module import BucketingModule
from ...ndarray import NDArray
from ...ops.params import dtype_name, np_dtype
from ...optimizer import Optimizer
from ...symbol import Symbol
from . import _tables
from . import lists as lists
from ._policy import Policy, convert, in_their_dtypes, install
from .loss_scaler import LossScaler

if TYPE_CHECKING:
    from ...ops.params import DTypeLike

__all__ = ["convert_bucketing_module", "convert_hybrid_block", "convert_model", "convert_symbol", "init",
           "init_trainer", "list_conditional_fp32_ops", "list_fp32_ops", "list_loss_output_functions",
           "list_lp16_fp32_ops", "list_lp16_ops", "list_lp16_use_fp32_params", "list_widest_type_cast", "scale_loss",
           "unscale"]

bfloat16 = np_dtype("bfloat16")
float_types_gpu, float_types_cpu = (np.float16, np.float32), (bfloat16, np.float32)
_Conditional = Sequence[tuple[str, str, list[str]]]
_state: dict[str, Any] = {"scaler": None, "used": False}


def __getattr__(name: str) -> Any:
    if name == "_amp_initialized":  # libraries ask for it
        return _state["scaler"] is not None
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# ---------------------------------------------------------------- lists
def list_lp16_ops(target_dtype: str) -> list[str]:
    """Returns the operators that run in the 16-bit dtype."""
    return _tables.spelled(_tables.table(target_dtype, "low"))


def list_fp32_ops(target_dtype: str) -> list[str]:
    """Returns the operators that run in float32."""
    return _tables.spelled(_tables.table(target_dtype, "fp32"))


def list_lp16_fp32_ops(target_dtype: str) -> list[str]:
    """Returns the operators that run in the dtype of their inputs."""
    return _tables.spelled(_tables.table(target_dtype, "both"))


def list_conditional_fp32_ops(target_dtype: str) -> list[tuple[str, str, list[str]]]:
    """Returns the operators that run in float32 for some values of a parameter: (operator, parameter, values)."""
    return list(_tables.CONDITIONAL)


def list_widest_type_cast(target_dtype: str) -> list[str]:
    """Returns the operators that run in the widest dtype of their inputs."""
    return _tables.spelled(_tables.table(target_dtype, "widest"))


def list_loss_output_functions(target_dtype: str) -> list[str]:
    """Returns the operators that compute the gradient of a loss themselves."""
    return list(_tables.LOSSES)


def list_lp16_use_fp32_params(target_dtype: str) -> dict[str, list[str]] | None:
    """Returns the inputs that stay float32 with bfloat16, by operator; None with float16."""
    return dict(_tables.FP32_INPUTS) if dtype_name(target_dtype) == "bfloat16" else None


def _policy(target_dtype: DTypeLike, low: Sequence[str] | None, fp32: Sequence[str] | None,
            conditional: _Conditional | None) -> Policy:
    """The default lists, or those given instead.

    Raises:
        AssertionError: unknown dtype, or an operator in two lists.
    """
    target = _tables.target_name(target_dtype)
    chosen = {"target_dtype_ops": _tables.table(target, "low") if low is None else low,
              "fp32_ops": _tables.table(target, "fp32") if fp32 is None else fp32,
              "conditional_fp32_ops": [op for op, _, _ in _tables.CONDITIONAL] if conditional is None
              else [entry[0] for entry in conditional]}
    names = list(chosen)
    for place, name in enumerate(names):
        for other in names[place + 1:]:
            common = set(chosen[name]) & set(chosen[other])
            if common:
                raise AssertionError(f"Ops cannot be in two or more lists: {', '.join(sorted(common))} in {name} and "
                                     f"{other}")
    return Policy(target, chosen["target_dtype_ops"], chosen["fp32_ops"],
                  _tables.CONDITIONAL if conditional is None else conditional, _tables.table(target, "widest"))


# ---------------------------------------------------------------- training
def warn_if_model_exists() -> None:
    """Logs a warning if a caller's variable contains a block that was created before `init`."""
    frame = inspect.currentframe()
    while frame is not None:
        for name, value in frame.f_locals.items():
            if isinstance(value, Block):
                logging.warning("Block %s created in [%s:%d] before AMP init.", name, frame.f_code.co_filename,
                                frame.f_lineno)
                return
        frame = frame.f_back


def init(target_dtype: str = "float16", target_precision_ops: Sequence[str] | None = None,
         conditional_fp32_ops: _Conditional | None = None, fp32_ops: Sequence[str] | None = None,
         layout_optimization: bool = False) -> None:
    """Makes operators cast their inputs according to lists. Call it before creating models.

    Args:
        target_dtype: "float16" or "bfloat16".
        target_precision_ops, fp32_ops: operators for that dtype and for float32, instead of the default ones.
        conditional_fp32_ops: (operator, parameter, values): float32 for these values.
        layout_optimization: ignored, because XLA chooses layouts; accepted for compatibility with
            MXNet 2.

    Raises:
        AssertionError: unknown dtype, or an operator in two lists.

    Example:
        amp.init()
        trainer = gluon.Trainer(net.collect_params(), "sgd")
        amp.init_trainer(trainer)
        with autograd.record():
            loss = objective(net(data), label)
            with amp.scale_loss(loss, trainer) as scaled:
                autograd.backward(scaled)
        trainer.step(batch_size)
    """
    if _state["scaler"] is not None:
        return
    policy = _policy(target_dtype, target_precision_ops, fp32_ops, conditional_fp32_ops)
    logging.info("Using AMP")
    if level.current() == 2:
        warn_if_model_exists()
    _state["scaler"] = LossScaler()
    install(policy, _state["scaler"])


def _trainer(trainer: object) -> Trainer:
    if isinstance(trainer, Trainer):
        return trainer
    if isinstance(trainer, Optimizer):
        raise TypeError("AMP is currently only compatible with Gluon Trainer")
    raise TypeError(f"optimizer_or_trainer should be a Gluon Trainer or an optimizer, instead is {type(trainer)}")


def init_trainer(optimizer_or_trainer: Trainer) -> None:
    """Enables dynamic loss scaling in a trainer: it skips steps with overflowing gradients.

    Raises:
        AssertionError: `init` has not been called.
        TypeError: it is not a Trainer.
    """
    if _state["scaler"] is None:
        raise AssertionError("AMP not initialized, did you forget to call amp.init()?")
    trainer = _trainer(optimizer_or_trainer)
    # attributes of AMP that Trainer does not use, as in MXNet
    trainer._amp_loss_scaler = (  # pyright: ignore[reportAttributeAccessIssue]
        LossScaler() if _state["used"] else _state["scaler"])
    trainer._amp_original_scale = trainer._scale  # pyright: ignore[reportAttributeAccessIssue]
    _state["used"] = True


@contextmanager
def scale_loss(loss: NDArray | Sequence[NDArray], optimizer_or_trainer: Trainer) -> Iterator[Any]:
    """Multiplies the loss, or list of losses, by the loss scale; the trainer divides the gradients by it.

    Raises:
        AssertionError: `init_trainer` has not been called.
    """
    scaler = getattr(optimizer_or_trainer, "_amp_loss_scaler", None)
    if scaler is None:
        raise AssertionError("Loss scaler is not initialized, did you forget to call amp.init_trainer()?")
    original = optimizer_or_trainer._amp_original_scale  # pyright: ignore[reportAttributeAccessIssue]  see above
    optimizer_or_trainer._scale = original / scaler.loss_scale
    if isinstance(loss, (list, tuple)):
        yield [part * scaler.loss_scale for part in loss]
    else:
        yield loss * scaler.loss_scale


def unscale(optimizer_or_trainer: Trainer) -> None:
    """Divides the gradients by the loss scale immediately, e.g. before clipping.

    Raises:
        TypeError: it is not a Trainer.
    """
    trainer = _trainer(optimizer_or_trainer)
    for param in trainer._params:
        for grad in param.list_grad() if param.grad_req != "null" else ():
            grad[:] = grad * trainer._scale
    trainer._scale = 1.0


# ---------------------------------------------------------------- trained models
def convert_symbol(sym: Symbol, target_dtype: str = "float16", target_dtype_ops: Sequence[str] | None = None,
                   fp32_ops: Sequence[str] | None = None, conditional_fp32_ops: _Conditional | None = None,
                   excluded_sym_names: Sequence[str] | None = None, data_names: Sequence[str] | None = None,
                   cast_optional_params: bool = False) -> Symbol:
    """Converts a float32 graph to mixed precision for inference; its outputs are float32.

    Args:
        sym: the graph.
        target_dtype: "float16" or "bfloat16".
        target_dtype_ops, fp32_ops, conditional_fp32_ops: lists of operators instead of the default ones.
        excluded_sym_names: nodes that stay in float32.
        data_names: names of the inputs, which are float32; by default those without a declared
            dtype. All others are parameters, and are converted to the dtype in which they are used.
        cast_optional_params: convert parameters that are only used in 16 bits to that dtype.

    Raises:
        AssertionError: unknown dtype, an operator in two lists, or one in none of the default
            lists.
        Unfit: an excluded name is not in the graph (an AssertionError and an MXNetError).
    """
    policy = _policy(target_dtype, target_dtype_ops, fp32_ops, conditional_fp32_ops)
    strange = {*(target_dtype_ops or ()), *(fp32_ops or ()), *[op for op, _, _ in conditional_fp32_ops or ()]} - {
        *list_lp16_ops(policy.target), *list_fp32_ops(policy.target), *list_lp16_fp32_ops(policy.target),
        *[op for op, _, _ in _tables.CONDITIONAL]}
    if strange:
        raise AssertionError("Can only choose ops from one of the lists list_lp16_ops, list_fp32_ops, "
                             f"list_lp16_fp32_ops, list_conditional_fp32_ops; {', '.join(sorted(strange))} is in none")
    excluded = set(excluded_sym_names or ())
    unknown = excluded - {n.name for n in topological(sym.handle)}
    if unknown:
        raise Unfit(f"excluded_sym_names: there is no node {', '.join(sorted(unknown))}")
    if data_names is None:
        attrs = sym.attr_dict()
        data_names = [name for name in sym.list_inputs() if "__dtype__" not in attrs.get(name, {})]
    result = Symbol(convert(sym.handle, policy, excluded, data_names if cast_optional_params else None))
    types = infer_types(result.handle, dict.fromkeys(data_names, "float32"), hints=False)
    if cast_optional_params:
        in_their_dtypes(result.handle, policy.target, types)
    inputs = [node for node in topological(result.handle) if node.op is None]
    params = [node for node in inputs if node.name not in data_names]
    for node in params or [node for node in inputs if "__dtype__" in node.attrs]:
        node.attrs["__dtype__"] = str(CODES[types[id(node), 0] or "float32"])
    return result


def _in_dtypes(symbol: Symbol, params: dict[str, NDArray]) -> dict[str, NDArray]:
    """Parameters in the dtypes that a converted graph gives them."""
    codes = {code: name for name, code in CODES.items()}
    attrs = symbol.attr_dict()

    def dtype(name: str) -> str | None:
        code = int(attrs.get(name, {}).get("__dtype__", "-1"))
        return codes.get(code)
    return {name: value.astype(dtype(name)) if dtype(name) else value.copy() for name, value in params.items()}


def convert_model(sym: Symbol, arg_params: dict[str, NDArray], aux_params: dict[str, NDArray],
                  target_dtype: str = "float16", target_dtype_ops: Sequence[str] | None = None,
                  fp32_ops: Sequence[str] | None = None, conditional_fp32_ops: _Conditional | None = None,
                  excluded_sym_names: Sequence[str] | None = None,
                  cast_optional_params: bool = False) -> tuple[Symbol, dict[str, NDArray], dict[str, NDArray]]:
    """Converts a checkpoint to mixed precision; arguments and errors as in `convert_symbol`.

    Returns:
        (symbol, arguments, auxiliary states).
    """
    if not isinstance(sym, Symbol):
        raise AssertionError(f"First argument to convert_model should be Symbol, got {type(sym)}")
    names = [n for n in sym.list_inputs() if n not in arg_params and n not in aux_params]
    converted = convert_symbol(sym, target_dtype, target_dtype_ops, fp32_ops, conditional_fp32_ops, excluded_sym_names,
                               names, cast_optional_params)
    return converted, _in_dtypes(converted, arg_params), _in_dtypes(converted, aux_params)


@with_device
def convert_hybrid_block(block: HybridBlock, target_dtype: str = "float16",
                         target_dtype_ops: Sequence[str] | None = None, fp32_ops: Sequence[str] | None = None,
                         conditional_fp32_ops: _Conditional | None = None,
                         excluded_sym_names: Sequence[str] | None = None, ctx: Context = gpu(0),
                         cast_optional_params: bool = False) -> SymbolBlock:
    """Converts a block to mixed precision for inference; further arguments as in `convert_symbol`.

    Args:
        block: a block that has been hybridized and called.
        ctx: context of the new block's parameters.

    Raises:
        AssertionError: `block` is not a HybridBlock.
        RuntimeError: it has not been hybridized and called.
    """
    if not isinstance(block, HybridBlock):
        raise AssertionError(f"block input should be a HybridBlock, got {type(block)}")
    if not block._cached_graph:
        raise RuntimeError("Please first call block.hybridize() and then run forward with this block at least once "
                           "before calling convert_hybrid_block.")
    inputs, sym, params = block.named_graph()
    converted = convert_symbol(sym, target_dtype, target_dtype_ops, fp32_ops, conditional_fp32_ops, excluded_sym_names,
                               [variable.list_outputs()[0] for variable in inputs], cast_optional_params)
    values = _in_dtypes(converted, {name: param._reduce() for name, param in params.items()})
    result = SymbolBlock(converted.as_np_ndarray() if sym.numpy_semantics else converted, inputs)
    result.set_values(values, ctx)
    return result


def convert_bucketing_module(bucketing_mod: BucketingModule, target_dtype: str = "float16",
                             target_dtype_ops: Sequence[str] | None = None, fp32_ops: Sequence[str] | None = None,
                             conditional_fp32_ops: _Conditional | None = None,
                             excluded_sym_names: Sequence[str] | None = None,
                             cast_optional_params: bool = False) -> BucketingModule:
    """Converts a bucketing module to mixed precision; further arguments as in `convert_symbol`.

    Raises:
        AssertionError: it is not a BucketingModule, or has no buckets or parameters.
    """
    if not isinstance(bucketing_mod, BucketingModule) or not bucketing_mod._buckets or \
            not bucketing_mod.params_initialized:
        raise AssertionError("convert_bucketing_module needs a BucketingModule with buckets and parameters")
    args, auxs = bucketing_mod.get_params()
    symbols: dict[Any, Symbol] = {}
    new_args, new_auxs = args, auxs
    for key, module in bucketing_mod._buckets.items():
        if module.symbol is None:
            raise AssertionError(f"convert_bucketing_module: the module of bucket {key!r} has no graph")
        symbols[key], new_args, new_auxs = convert_model(
            module.symbol, args, auxs, target_dtype, target_dtype_ops, fp32_ops, conditional_fp32_ops,
            excluded_sym_names, cast_optional_params)
    return BucketingModule.load_dict(
        symbols, sym_gen=bucketing_mod._sym_gen, arg_params=new_args, aux_params=new_auxs,
        default_bucket_key=bucketing_mod._default_bucket_key, logger=bucketing_mod.logger,
        context=bucketing_mod.options["context"])
