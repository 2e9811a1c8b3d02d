"""Quantization of float32 models to 8-bit integers: `mx.contrib.quantization` with the arguments of MXNet 1.9.1.

The graph pass is in `mxjax/graph/quantizing.py`. This module contains calibration, parameters and
the functions for models and blocks.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base import py_str
from ..context import Context, cpu
from ..gluon import HybridBlock, SymbolBlock
from ..graph import quantizing as _pass
from ..io import DataBatch, DataDesc, DataIter
from ..io.base import described
from ..ndarray import NDArray, array, zeros
from ..ndarray import contrib as _nd
from ..ops.quantized.conversion import quantized_weight
from ..symbol import Group, Symbol, var
from ..symbol import load as _load_symbol
from ..util import is_np_array

if TYPE_CHECKING:
    from ..log import LoggerLike

__all__ = ["calib_graph", "combine_histogram", "quantize_graph", "quantize_model", "quantize_model_mkldnn",
           "quantize_net", "quantize_net_v2"]

_Params = dict[str, NDArray]
_Table = dict[str, tuple[float, float]]
_GRANULARITIES = ("tensor-wise", "channel-wise")
_DTYPES = ("int8", "uint8", "auto")


# ---------------------------------------------------------------- statistics of layers
def combine_histogram(old_hist: tuple, arr: np.ndarray, new_min: float, new_max: float, new_th: float) -> tuple:
    """Adds values to a histogram and extends it on both sides if values are outside.

    Args:
        old_hist: (counts, edges, minimum, maximum, largest absolute value).
        arr: the values.
        new_min, new_max, new_th: their minimum, maximum and largest absolute value.

    Returns:
        A tuple like `old_hist`.
    """
    counts, edges, low, high, reach = old_hist
    low, high = min(low, new_min), max(high, new_max)
    if new_th <= reach:
        return counts + np.histogram(arr, len(counts), (-reach, reach))[0], edges, low, high, reach
    step = 2 * reach / len(counts)
    more = int((new_th - reach) // step + 1)  # bins on each side
    reach += more * step
    wider, edges = np.histogram(arr, len(counts) + 2 * more, (-reach, reach))
    wider[more:-more] += counts
    return wider, edges, low, high, reach


class _Collector:
    """Takes `collect(name, array)` of layer outputs, of those in `include_layer` (None: of all)."""

    def __init__(self, include_layer: Sequence[str] | None, logger: LoggerLike | None) -> None:
        self.include_layer, self.logger = None if include_layer is None else set(include_layer), logger

    def collect(self, name: bytes | str, arr: NDArray) -> None:
        """Collects the values of one output of one batch."""
        name = py_str(name)
        if self.include_layer is None or name in self.include_layer:
            values = arr.asnumpy()
            if self.logger:
                self.logger.debug("Collecting layer %s of shape %s", name, values.shape)
            self._add(name, values)

    def _add(self, name: str, values: np.ndarray) -> None:
        raise NotImplementedError


class _LayerHistogramCollector(_Collector):
    """Histograms of layer outputs, for calib_mode="entropy": `hist_dict`."""

    def __init__(self, num_bins: int = 8001, include_layer: Sequence[str] | None = None,
                 logger: LoggerLike | None = None) -> None:
        super().__init__(include_layer, logger)
        self.num_bins, self.hist_dict = num_bins, {}

    def _add(self, name: str, values: np.ndarray) -> None:
        low, high = values.min(), values.max()
        reach = max(abs(low), abs(high))
        if name in self.hist_dict:
            self.hist_dict[name] = combine_histogram(self.hist_dict[name], values, low, high, reach)
        else:
            self.hist_dict[name] = (*np.histogram(values, self.num_bins, (-reach, reach)), low, high, reach)


class _LayerOutputMinMaxCollector(_Collector):
    """Ranges of layer outputs, for calib_mode="naive": `min_max_dict`."""

    def __init__(self, quantized_dtype: str, include_layer: Sequence[str] | None = None,
                 logger: LoggerLike | None = None) -> None:
        super().__init__(include_layer, logger)
        self.quantized_dtype, self.min_max_dict = quantized_dtype, {}

    def _add(self, name: str, values: np.ndarray) -> None:
        low, high = self.min_max_dict.get(name, (np.inf, -np.inf))
        self.min_max_dict[name] = min(low, values.min()), max(high, values.max())


def _get_optimal_threshold(hist_data: tuple, quantized_dtype: str, num_quantized_bins: int = 255) -> tuple:
    """(minimum, maximum, threshold (1,), divergence (1,)) of the threshold that loses least information."""
    counts, edges, low, high, _ = hist_data
    if low >= 0 and quantized_dtype in ("auto", "uint8"):
        num_quantized_bins = num_quantized_bins * 2 + 1  # all levels are for one half of the histogram
    result = _nd.calibrate_entropy(array(counts), array(edges), num_quantized_bins=num_quantized_bins)
    return low, high, *(part.asnumpy() for part in result)


def _loss(histogram: tuple, edge: float, positive: bool) -> float:
    """The squared error of the values of a histogram, as 8-bit integers of a range that ends at `edge`."""
    counts, edges = np.asarray(histogram[0], np.float64), np.asarray(histogram[1], np.float64)
    beyond = np.maximum(np.abs(edges[1:] + edges[:-1]) / 2 - edge, 0)
    step = edge / (255.5 if positive else 127.5)
    return float((counts * np.where(beyond > 0, beyond**2, step**2 / 12)).sum())


def _get_optimal_thresholds(hist_dict: dict[str, tuple], quantized_dtype: str, num_quantized_bins: int = 255,
                            logger: LoggerLike | None = None) -> _Table:
    """The range of each output from its histogram; empties `hist_dict`.

    It is cut off at the optimal threshold, unless that adds more squared error than the smaller steps save.
    """
    table = {}
    for name in list(hist_dict):
        histogram = hist_dict.pop(name)
        low, high, threshold, divergence = _get_optimal_threshold(histogram, quantized_dtype, num_quantized_bins)
        positive = low >= 0 and quantized_dtype in ("auto", "uint8")
        cut, whole = float(threshold[0]), float(max(abs(low), abs(high)))
        edge = cut if _loss(histogram, cut, positive) <= _loss(histogram, whole, positive) else whole
        table[name] = (0.0 if positive else -edge, edge)
        if logger:
            logger.debug("layer=%s, min_val=%f, max_val=%f, th=%f, divergence=%f", name, low, high, edge,
                         divergence[0])
    return table


def must_calibrate(mode: str | None) -> bool:
    """Returns whether a calibration mode needs data."""
    return mode is not None and mode != "none"


def _collector(mode: str, dtype: str, layers: Sequence[str], custom: Any, logger: LoggerLike | None) -> Any:
    """Returns the collector of statistics for a calibration mode; None for no calibration."""
    if not must_calibrate(mode):
        return None
    if mode == "entropy":
        return _LayerHistogramCollector(include_layer=layers, logger=logger)
    if mode == "naive":
        return _LayerOutputMinMaxCollector(dtype, layers, logger)
    if mode == "customize" and custom is not None:
        return custom
    raise ValueError(f"unknown calibration mode {mode} received, expected `none`, `naive`, `entropy` or `customize` "
                     "(the last one with a LayerOutputCollector)")


def _table(collector: Any, mode: str, dtype: str, logger: LoggerLike | None) -> _Table:
    """Returns the ranges from a collector's values."""
    if mode == "entropy":
        return _get_optimal_thresholds(collector.hist_dict, dtype, logger=logger)
    return collector.min_max_dict


def collect_outputs(sym: Symbol, params: _Params, data: Iterable[DataBatch], inputs: Sequence[DataDesc],
                    layers: Iterable[str], collect: Callable[[str, NDArray], None], limit: int | None, ctx: Context,
                    logger: LoggerLike | None) -> None:
    """Runs batches through the float graph and gives the outputs of layers to `collect`."""
    internals = sym.get_internals()
    known = set(internals.list_outputs())
    names = [name for name in layers if name in known]
    if not names:
        return
    part = Group([internals[name] for name in names])
    wanted = set(part.list_inputs())
    shapes: dict[str, Any] = {d.name: tuple(d.shape) for d in inputs if d.name in wanted}
    bound = part.simple_bind(ctx, grad_req="null", **shapes)
    bound.copy_params_from({k: v for k, v in params.items() if k in bound.arg_dict},
                           {k: v for k, v in params.items() if k in bound.aux_dict})
    examples = batches = 0
    for batch in data:
        if not batch.data:
            raise ValueError("a calibration batch has no data")
        values = {d.name: value for d, value in zip(inputs, batch.data, strict=False) if d.name in wanted}
        for name, value in zip(names, bound.forward(False, **values), strict=True):
            collect(name, value)
        batches, examples = batches + 1, examples + batch.data[0].shape[0]
        if limit is not None and examples >= limit:
            break
    if not batches:
        raise ValueError("calib_data has no batches")
    if logger:
        logger.info("Collected layer statistics of %d batches, %d examples", batches, examples)


# ---------------------------------------------------------------- graphs and parameters
def _quantize_symbol(sym: Symbol, ctx: Context, excluded_symbols: Sequence[str] | None = None,
                     excluded_operators: Sequence[str] | None = None, offline_params: Sequence[str] | None = None,
                     quantized_dtype: str = "int8", quantize_mode: str = "smart",
                     quantize_granularity: str = "tensor-wise") -> tuple[Symbol, list[str]]:
    """(quantized symbol, names of the outputs to be calibrated)."""
    outputs, layers = _pass.quantize(sym.handle, excluded_names=excluded_symbols or (),
                                     excluded_ops=excluded_operators or (), offline=offline_params or (),
                                     dtype=quantized_dtype, mode=quantize_mode)
    return Symbol(outputs), layers


def _quantize_params(qsym: Symbol, params: _Params, th_dict: _Table) -> _Params:
    """The arguments of a quantized symbol: those that became integers with their ranges, the others as they were."""
    result: _Params = {}
    for name in qsym.list_arguments():
        original = name.removesuffix("_quantize")
        if name in params:
            result[name] = params[name]
        elif original != name and original in params:
            for end, part in zip(("", "_min", "_max"), quantized_weight(params[original].asnumpy()), strict=True):
                result[name + end] = array(part, params[original].context, part.dtype)
        else:
            for place, end in enumerate(("_min", "_max")):
                if name.endswith(end) and name.removesuffix(end) in th_dict:
                    result[name] = array([th_dict[name.removesuffix(end)][place]])
    return result


def _calibrate_quantized_sym(qsym: Symbol, th_dict: _Table | None) -> Symbol:
    """The quantized symbol with ranges: {float output: (minimum, maximum)}."""
    return Symbol(_pass.calibrate(qsym.handle, th_dict)) if th_dict else qsym


def exact_graph(qsym: Symbol) -> Symbol:
    """The quantized symbol, with nothing left to calibrate, with layers at the scale of their inputs."""
    return Symbol(_pass.exact(qsym.handle))


def operators_in_floats(names: Sequence[str] | None, calibrates: bool) -> list[str]:
    """Operators that stay in floats: normalizations need a calibrated range."""
    return [*(names or ()), *(() if calibrates else ("BatchNorm",))]


def check_arguments(ctx: object, dtype: str, granularity: str, **lists: Any) -> None:
    """Raises ValueError for an invalid context, dtype or granularity, or names that are not a list."""
    if not isinstance(ctx, Context):
        raise ValueError(f"currently only supports single ctx, while received {ctx}")
    for name, value in lists.items():
        if value is not None and not isinstance(value, list):
            raise ValueError(f"{name} must be a list of names to exclude from quantization, while received type "
                             f"{type(value)}")
    if dtype not in _DTYPES:
        raise ValueError(f"unknown quantized_dtype {dtype} received, expected `int8`, `uint8` or `auto`")
    if granularity not in _GRANULARITIES:
        raise ValueError(f"unknown quantize_granularity {granularity} received, expected `tensor-wise` or "
                         "`channel-wise`.")


def loaded(sym: Symbol | str) -> Symbol:
    """Returns the symbol, loaded if it is the name of a file."""
    return _load_symbol(sym) if isinstance(sym, (str, os.PathLike)) else sym


def quantize_model(sym: Symbol, arg_params: _Params, aux_params: _Params, data_names: Sequence[str] = ("data",),
                   label_names: Sequence[str] = ("softmax_label",), ctx: Context = cpu(),
                   excluded_sym_names: list[str] | None = None, excluded_op_names: list[str] | None = None,
                   calib_mode: str = "entropy", calib_data: DataIter | None = None,
                   num_calib_examples: int | None = None, quantized_dtype: str = "int8", quantize_mode: str = "smart",
                   quantize_granularity: str = "tensor-wise",
                   logger: LoggerLike | None = None) -> tuple[Symbol, _Params, _Params]:
    """Quantizes a float32 checkpoint to 8-bit integers.

    Args:
        sym: the graph, or its file.
        arg_params, aux_params: its parameters and auxiliary states.
        data_names, label_names: names of the inputs.
        ctx: context of the calibration.
        excluded_sym_names, excluded_op_names: nodes and operators that stay in floats.
        calib_mode: "none": compute ranges at each call. "naive": use the smallest and largest
            observed values. "entropy": use thresholds that lose the least information
            (Kullback-Leibler divergence).
        calib_data: batches for calibration.
        num_calib_examples: largest number of examples to use.
        quantized_dtype: "int8", "uint8" or "auto" (uint8 if no value is negative).
        quantize_mode: "full": quantize all supported operators; "smart": only those between layers
            that benefit from it.
        quantize_granularity: "tensor-wise"; "channel-wise" is treated as "tensor-wise", as in MXNet
            without oneDNN.
        logger: logger of the progress.

    Returns:
        (symbol, arguments, auxiliary states).

    Raises:
        ValueError: an argument is invalid, or calibration data is missing.

    Example:
        qsym, qargs, auxs = mx.contrib.quant.quantize_model(sym, args, auxs, calib_mode="naive", calib_data=batches)
    """
    check_arguments(ctx, quantized_dtype, quantize_granularity, excluded_sym_names=excluded_sym_names,
                    excluded_op_names=excluded_op_names)
    calibrates = must_calibrate(calib_mode)
    if calibrates and not isinstance(calib_data, DataIter):
        raise ValueError(f"calib_data must be provided as a DataIter when calib_mode={calib_mode}, got "
                         f"{type(calib_data)}")
    sym = loaded(sym)
    qsym, layers = _quantize_symbol(sym, ctx, excluded_sym_names, operators_in_floats(excluded_op_names, calibrates),
                                    list(arg_params), quantized_dtype, quantize_mode, quantize_granularity)
    table: _Table = {}
    if calibrates and isinstance(calib_data, DataIter):  # others are refused above
        collector = _collector(calib_mode, quantized_dtype, layers, None, logger)
        collect_outputs(sym, {**arg_params, **aux_params}, calib_data, described(calib_data.provide_data), layers,
                        collector.collect, num_calib_examples, ctx, logger)
        table = _table(collector, calib_mode, quantized_dtype, logger)
        qsym = _calibrate_quantized_sym(qsym, table)
    qsym = exact_graph(qsym)
    return qsym, _quantize_params(qsym, arg_params, table), aux_params


def quantize_model_mkldnn(sym: Symbol, arg_params: _Params, aux_params: _Params, data_names: Sequence[str] = ("data",),
                          label_names: Sequence[str] = ("softmax_label",), ctx: Context = cpu(),
                          excluded_sym_names: list[str] | None = None, excluded_op_names: list[str] | None = None,
                          calib_mode: str = "entropy", calib_data: DataIter | None = None,
                          num_calib_examples: int | None = None, quantized_dtype: str = "int8",
                          quantize_mode: str = "smart", quantize_granularity: str = "tensor-wise",
                          logger: LoggerLike | None = None) -> tuple[Symbol, _Params, _Params]:
    """Like `quantize_model`, with a separate range for each channel of a layer.

    Bias, batch normalization, activation and sum after such a layer are computed in floats.

    Raises:
        ValueError: see `quantize_model`; or the context is not a CPU.
    """
    if not isinstance(ctx, Context) or ctx.device_type != "cpu":
        raise ValueError(f"quantize_model_mkldnn only supports a single CPU context, got {ctx}")
    sym, arg_params, aux_params, excluded = by_channel(loaded(sym), arg_params, aux_params, excluded_sym_names,
                                                       excluded_op_names)
    return quantize_model(sym, arg_params, aux_params, data_names, label_names, ctx, excluded, excluded_op_names,
                          calib_mode, calib_data, num_calib_examples, quantized_dtype, quantize_mode,
                          quantize_granularity, logger)


def by_channel(sym: Symbol, args: _Params, auxs: _Params, excluded: list[str] | None,
               excluded_ops: list[str] | None) -> tuple[Symbol, _Params, _Params, list[str]]:
    """(symbol, arguments, auxiliary states, names of nodes that stay in floats) with a range for each channel."""
    params = {**args, **auxs}
    arrays = {name: value.asnumpy() for name, value in params.items()}  # NumPy's formulas need no compiler
    outputs, quantized, excluded = _pass.by_channel(sym.handle, arrays, excluded or (), excluded_ops or ())
    values = {name: params[name] if value is arrays.get(name) else array(value, cpu(), value.dtype)
              for name, value in quantized.items()}
    return (Symbol(outputs), {k: v for k, v in values.items() if k not in auxs},
            {k: v for k, v in values.items() if k in auxs}, excluded)


def quantize_graph(sym: Symbol, arg_params: _Params, aux_params: _Params, ctx: Context = cpu(),
                   excluded_sym_names: list[str] | None = None, excluded_op_names: list[str] | None = None,
                   calib_mode: str = "entropy", quantized_dtype: str = "int8", quantize_mode: str = "full",
                   quantize_granularity: str = "tensor-wise", LayerOutputCollector: Any = None,  # noqa: N803
                   logger: LoggerLike | None = None) -> tuple[Symbol, _Params, _Params, Any]:
    """Quantizes a float32 checkpoint without calibration, and returns a collector of statistics for `calib_graph`.

    Args:
        LayerOutputCollector: for calib_mode="customize", an object with `collect(name, array)` and
            the final result `min_max_dict`.
        others: as in `quantize_model`.

    Returns:
        (symbol, arguments, auxiliary states, collector). Pass `collector.collect` to
        `set_monitor_callback(..., monitor_all=True)` of the float model, run the model, and call
        `calib_graph`.

    Raises:
        ValueError: an argument is invalid, or the calibration mode is unknown.
    """
    check_arguments(ctx, quantized_dtype, quantize_granularity, excluded_sym_names=excluded_sym_names,
                    excluded_op_names=excluded_op_names)
    excluded_ops = operators_in_floats(excluded_op_names, must_calibrate(calib_mode))
    qsym, layers = _quantize_symbol(loaded(sym), ctx, excluded_sym_names, excluded_ops, list(arg_params),
                                    quantized_dtype, quantize_mode, quantize_granularity)
    collector = _collector(calib_mode, quantized_dtype, layers, LayerOutputCollector, logger)
    return qsym, _quantize_params(qsym, arg_params, {}), aux_params, collector


def calib_graph(qsym: Symbol, arg_params: _Params, aux_params: _Params, collector: Any, calib_mode: str = "entropy",
                quantized_dtype: str = "int8", logger: LoggerLike | None = logging) -> tuple[Symbol, _Params, _Params]:
    """Calibrates a graph of `quantize_graph` with the statistics of its collector.

    Args:
        qsym: the quantized symbol.
        arg_params, aux_params: the float model's parameters and auxiliary states.
        collector, calib_mode, quantized_dtype: as in `quantize_graph`.
        logger: logger of the progress.

    Raises:
        ValueError: the calibration mode is "none" or unknown.
    """
    if calib_mode not in ("naive", "entropy", "customize"):
        raise ValueError(f"please set calibration mode to naive, entropy or customize, got {calib_mode}")
    table = _table(collector, calib_mode, quantized_dtype, logger)
    qsym = exact_graph(_calibrate_quantized_sym(loaded(qsym), table))
    return qsym, _quantize_params(qsym, arg_params, table), aux_params


# ---------------------------------------------------------------- Gluon
def _batches(data: Any) -> Iterable[DataBatch]:
    """Batches of a DataIter, or of anything that yields arrays or lists of arrays."""
    if isinstance(data, DataIter):
        return data
    try:
        batches = iter(data)
    except TypeError as error:
        raise TypeError(f"calib_data is not a valid iterator. {error}") from None
    return (DataBatch(list(b) if isinstance(b, (list, tuple)) else [b]) for b in batches)


def _first(data: Iterable[Any] | None) -> list[tuple[tuple[int, ...], Any]]:
    """Shapes and dtypes of the arrays in a batch, labels perhaps included."""
    if isinstance(data, DataIter):
        return [(tuple(d.shape), d.dtype) for d in described(data.provide_data)]
    return [(a.shape, a.dtype) for a in next(iter(_batches(data))).data or ()]


def _traced(network: HybridBlock, specs: list[tuple[tuple[int, ...], Any]]) -> tuple[list[str], Symbol]:
    """Returns (input names, graph) of a block for inputs of these shapes; superfluous inputs are left out."""
    network.hybridize()
    for count in range(len(specs), 0, -1):
        try:
            inputs = [zeros(shape, dtype=dtype) for shape, dtype in specs[:count]]
            network(*[array.as_np_ndarray() if is_np_array() else array for array in inputs])
            break
        except TypeError:
            if count == 1:
                raise
    inputs, out, _ = network.named_graph()
    return [variable.list_outputs()[0] for variable in inputs], out


def quantize_net_v2(network: HybridBlock, quantized_dtype: str = "auto", quantize_mode: str = "full",  # noqa: N803
                    quantize_granularity: str = "tensor-wise", exclude_layers: list[str] | None = None,
                    exclude_layers_match: list[str] | None = None, exclude_operators: list[str] | None = None,
                    calib_data: Iterable[Any] | None = None, data_shapes: Sequence[DataDesc] | None = None,
                    calib_mode: str = "none", num_calib_examples: int | None = None, ctx: Context = cpu(),
                    LayerOutputCollector: Any = None, logger: LoggerLike | None = None) -> SymbolBlock:
    """Quantizes a float32 block to 8-bit integers, with a separate range for each channel of a layer.

    Bias, batch normalization, activation and sum after such a layer are computed in floats.

    Args:
        network: an initialized HybridBlock; it stays hybridized.
        exclude_layers, exclude_layers_match, exclude_operators: names of nodes, parts of such
            names, and operators that stay in floats.
        calib_data: DataIter, DataLoader or iterable of batches; labels in them are ignored.
        data_shapes: descriptions of the inputs, if there is no `calib_data`.
        LayerOutputCollector: see `quantize_graph`.
        others: as in `quantize_model`.

    Returns:
        A SymbolBlock.

    Raises:
        ValueError: neither data nor shapes are passed, or an argument is invalid.

    Example:
        qnet = mx.contrib.quant.quantize_net_v2(net, calib_data=loader, calib_mode="naive")
    """
    calibrates = must_calibrate(calib_mode)
    if calibrates and calib_data is None:
        raise ValueError(f"calib_data must be provided when calib_mode={calib_mode}")
    if not data_shapes and calib_data is None:
        raise ValueError("data_shapes required")
    specs = [(tuple(d.shape), getattr(d, "dtype", np.float32)) for d in data_shapes] if data_shapes \
        else _first(calib_data)
    names, sym, args, auxs, excluded = float_graph(network, specs, exclude_layers, exclude_layers_match,
                                                   exclude_operators, logger)
    qsym, qargs, auxs, collector = quantize_graph(
        sym, args, auxs, ctx, excluded, exclude_operators, calib_mode, quantized_dtype, quantize_mode,
        quantize_granularity, LayerOutputCollector, logger)
    if calibrates:
        inputs = [DataDesc(name, shape, dtype) for name, (shape, dtype) in zip(names, specs, strict=False)]
        layers = collector.include_layer if getattr(collector, "include_layer", None) else \
            _quantize_symbol(sym, ctx, excluded, exclude_operators, list(args), quantized_dtype, quantize_mode)[1]
        collect_outputs(sym, {**args, **auxs}, _batches(calib_data), inputs, sorted(layers), collector.collect,
                        num_calib_examples, ctx, logger)
        qsym, qargs, auxs = calib_graph(qsym, args, auxs, collector, calib_mode, quantized_dtype, logger)
    else:
        qsym = exact_graph(qsym)
    return block_of(qsym, names, {**qargs, **auxs}, ctx)


def float_graph(network: HybridBlock, specs: list[tuple[tuple[int, ...], Any]], exclude_layers: list[str] | None,
                exclude_layers_match: list[str] | None, exclude_operators: list[str] | None,
                logger: LoggerLike | None) -> tuple[list[str], Symbol, _Params, _Params, list[str]]:
    """Returns (input names, graph, arguments, auxiliary states, excluded nodes), a range for each channel."""
    names, sym = _traced(network, specs)
    both = sym.list_arguments(), sym.list_auxiliary_states()
    params = {name: p._reduce() for name, p in network.named_graph()[2].items()}
    args, auxs = ({k: params[k] for k in own if k in params} for own in both)
    excluded = list(exclude_layers or ())
    excluded += [name for name in (layer.name for layer in sym.get_internals())
                 if name is not None and any(match in name for match in exclude_layers_match or ())]
    if logger:
        logger.info("These layers have been excluded %s", excluded)
    return names, *by_channel(sym, args, auxs, excluded, exclude_operators)


def block_of(sym: Symbol, names: Sequence[str], params: _Params, ctx: Context) -> SymbolBlock:
    """A SymbolBlock with these parameters."""
    block = SymbolBlock(sym.as_np_ndarray() if is_np_array() else sym, [var(name) for name in names])
    block.set_values(params, ctx)
    return block


def quantize_net(network: HybridBlock, quantized_dtype: str = "auto", quantize_mode: str = "full",
                 exclude_layers: list[str] | None = None, exclude_layers_match: list[str] | None = None,
                 exclude_operators: list[str] | None = None, calib_data: Iterable[Any] | None = None,
                 data_shapes: Sequence[DataDesc] | None = None, calib_mode: str = "none",
                 num_calib_examples: int | None = None, ctx: Context = cpu(),
                 logger: LoggerLike | None = None) -> SymbolBlock:
    """`quantize_net_v2` under its first name, without custom collectors."""
    warnings.warn("quantize_net is deprecated in favour of quantize_net_v2", stacklevel=2)
    return quantize_net_v2(network, quantized_dtype, quantize_mode, "tensor-wise", exclude_layers,
                           exclude_layers_match, exclude_operators, calib_data, data_shapes, calib_mode,
                           num_calib_examples, ctx, None, logger)
