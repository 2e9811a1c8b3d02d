"""`mx.contrib.quantization` with the arguments, collectors and results of MXNet 2."""

from __future__ import annotations

import itertools
import logging
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..context import Context, cpu
from ..gluon import HybridBlock, SymbolBlock
from ..gluon.data import DataLoader
from ..io import DataBatch, DataDesc
from ..ndarray import NDArray
from ..symbol import Symbol
from ..util import is_np_array
from . import _quantization as _one

if TYPE_CHECKING:
    pass

__all__ = ["CalibrationCollector", "calib_graph", "quantize_graph", "quantize_model", "quantize_model_onednn",
           "quantize_net"]

_Params = dict[str, NDArray]
_Table = dict[str, tuple[float, float]]


class CalibrationCollector:
    """Base of collectors of statistics. Override `collect`, and also `post_collect` if the ranges
    are computed at the end.

    Attributes:
        include_layers: names of the outputs to collect; None until `quantize_graph` or `quantize_net` sets them.
        min_max_dict: {name: (minimum, maximum)}.

    Example:
        class Widest(mx.contrib.quantization.CalibrationCollector):
            def collect(self, name, op_name, arr):
                if name in self.include_layers:
                    self.min_max_dict[name] = (arr.min().item(), arr.max().item())
    """

    def __init__(self) -> None:
        self.include_layers: Sequence[str] | None = None
        self.min_max_dict: _Table = {}

    def collect(self, name: str, op_name: str, arr: NDArray) -> None:
        """Collects one output of one batch.

        Args:
            name: name of the output.
            op_name: the operator that computed it.
            arr: its values.
        """
        raise NotImplementedError(f"{type(self).__name__} must define collect(name, op_name, arr)")

    def post_collect(self) -> _Table:
        """Returns the ranges, {name: (minimum, maximum)}, after all batches."""
        return self.min_max_dict


class _LayerHistogramCollector(CalibrationCollector):
    """Histograms of layer outputs, for calib_mode="entropy"."""

    combine_histogram = staticmethod(_one.combine_histogram)
    get_optimal_threshold = staticmethod(_one._get_optimal_threshold)
    get_optimal_thresholds = staticmethod(_one._get_optimal_thresholds)

    def __init__(self, quantized_dtype: str, num_bins: int = 8001, include_layers: Sequence[str] | None = None,
                 logger: logging.Logger | None = None) -> None:
        super().__init__()
        self.quantized_dtype, self.include_layers, self.logger = quantized_dtype, include_layers, logger
        self._histograms = _one._LayerHistogramCollector(num_bins, include_layers, logger)
        self.num_bins, self.hist_dict = num_bins, self._histograms.hist_dict

    def collect(self, name: str, op_name: str, arr: NDArray) -> None:
        """Adds the values to the histogram of the output."""
        self._histograms.collect(name, arr)

    def post_collect(self) -> _Table:
        """Returns the ranges that lose the least information."""
        return self.get_optimal_thresholds(self.hist_dict, self.quantized_dtype, logger=self.logger)


class _LayerOutputMinMaxCollector(CalibrationCollector):
    """Ranges of layer outputs, for calib_mode="naive"."""

    def __init__(self, quantized_dtype: str, include_layers: Sequence[str] | None = None,
                 logger: logging.Logger | None = None) -> None:
        super().__init__()
        self.quantized_dtype, self.include_layers, self.logger = quantized_dtype, include_layers, logger
        self._ranges = _one._LayerOutputMinMaxCollector(quantized_dtype, include_layers, logger)
        self.min_max_dict = self._ranges.min_max_dict

    def collect(self, name: str, op_name: str, arr: NDArray) -> None:
        """Widens the range of the output."""
        self._ranges.collect(name, arr)


def _collector(mode: str | None, dtype: str, layers: Sequence[str], custom: CalibrationCollector | None,
               logger: logging.Logger | None) -> CalibrationCollector | None:
    if not _one.must_calibrate(mode):
        return None
    if mode == "entropy":
        return _LayerHistogramCollector(dtype, include_layers=layers, logger=logger)
    if mode == "naive":
        return _LayerOutputMinMaxCollector(dtype, layers, logger)
    if mode != "custom" or custom is None:
        raise ValueError(f"unknown calibration mode {mode} received, expected `none`, `naive`, `entropy` or `custom` "
                         "(the last one with a LayerOutputCollector)")
    if not isinstance(custom, CalibrationCollector):
        raise ValueError(f"LayerOutputCollector must be a CalibrationCollector, got {type(custom)}")
    if custom.include_layers is None:
        custom.include_layers = layers
    return custom


def _arrays(batch: Any) -> list[NDArray]:
    return list(batch) if isinstance(batch, (list, tuple)) else [batch]


def _loader(data: DataLoader | None, mode: str | None) -> DataLoader:
    if not isinstance(data, DataLoader):
        raise ValueError(f"calib_data must be of DataLoader type when calib_mode={mode}, got {type(data)}")
    return data


def _statistics(sym: Symbol, params: _Params, names: Sequence[str], data: DataLoader, layers: Iterable[str],
                collector: CalibrationCollector, num_calib_batches: int | None, device: Context,
                logger: logging.Logger | None) -> None:
    """Runs batches of a loader through the float graph and gives the outputs of layers to the collector."""
    batches: Iterator[list[NDArray]] = (_arrays(batch) for batch in itertools.islice(data, num_calib_batches))
    first = next(batches, None)
    if first is None:
        raise ValueError("calib_data has no batches")
    inputs = [DataDesc(name, value.shape, value.dtype) for name, value in zip(names, first, strict=False)]
    internals = sym.get_internals()
    known = set(internals.list_outputs())
    operators = {name: _operator(internals[name]) for name in layers if name in known}
    classic = (DataBatch([value.as_nd_ndarray() for value in batch]) for batch in itertools.chain([first], batches))
    _one.collect_outputs(sym, params, classic, inputs, list(operators),
                         lambda name, value: collector.collect(name, operators[name], value), None, device, logger)


def _operator(sym: Symbol) -> str:
    """Returns the name of the operator whose output the symbol is."""
    node = sym.handle[0][0]
    return node.op.name if node.op is not None else "null"


def quantize_model(sym: Symbol, arg_params: _Params, aux_params: _Params, data_names: Sequence[str] = ("data",),
                   device: Context = cpu(), excluded_sym_names: list[str] | None = None,
                   excluded_op_names: list[str] | None = None, calib_mode: str = "entropy",
                   calib_data: DataLoader | None = None, num_calib_batches: int | None = None,
                   quantized_dtype: str = "int8", quantize_mode: str = "smart",
                   quantize_granularity: str = "tensor-wise",
                   logger: logging.Logger | None = None) -> tuple[Symbol, _Params, _Params]:
    """Quantizes a float32 checkpoint to 8-bit integers.

    Args:
        sym: the graph.
        arg_params, aux_params: its parameters and auxiliary states.
        data_names: names of the inputs.
        device: device of the calibration.
        excluded_sym_names, excluded_op_names: nodes and operators that stay in floats.
        calib_mode: "none": compute ranges at each call. "naive": use the smallest and largest
            observed values. "entropy": use thresholds that lose the least information
            (Kullback-Leibler divergence).
        calib_data: batches for calibration.
        num_calib_batches: the largest number of batches to use; None: all.
        quantized_dtype: "int8", "uint8" or "auto" (uint8 if no value is negative).
        quantize_mode: "full": quantize all supported operators; "smart": only those between layers
            that benefit from it.
        quantize_granularity: "tensor-wise" or "channel-wise".
        logger: logger of the progress.

    Returns:
        (symbol, arguments, auxiliary states).

    Raises:
        ValueError: an argument is invalid, or calibration data is missing.

    Example:
        qsym, qargs, auxs = mx.contrib.quant.quantize_model(sym, args, auxs, calib_mode="naive", calib_data=loader)
    """
    warnings.warn("quantize_model is deprecated: use quantize_net with Gluon models", stacklevel=2)
    batches = None
    if _one.must_calibrate(calib_mode):
        if calib_mode not in ("naive", "entropy"):
            raise ValueError(f"unknown calibration mode {calib_mode} received, expected `none`, `naive`, or `entropy`")
        if calib_data is None:
            raise ValueError(f"calib_data must be provided when calib_mode={calib_mode}")
        batches = _loader(calib_data, calib_mode)
    sym = _one.loaded(sym)
    qsym, qargs, auxs, collector, layers = quantize_graph(
        sym, arg_params, aux_params, device, excluded_sym_names, excluded_op_names, calib_mode, quantized_dtype,
        quantize_mode, quantize_granularity, None, logger)
    if batches is None or collector is None:
        return _for_arrays(_one.exact_graph(qsym)), qargs, auxs
    _statistics(sym, {**arg_params, **aux_params}, data_names, batches, layers, collector, num_calib_batches, device,
                logger)
    return calib_graph(qsym, arg_params, auxs, collector, calib_mode, logger)


def quantize_model_onednn(sym: Symbol, arg_params: _Params, aux_params: _Params, data_names: Sequence[str] = ("data",),
                          device: Context = cpu(), excluded_sym_names: list[str] | None = None,
                          excluded_op_names: list[str] | None = None, calib_mode: str = "entropy",
                          calib_data: DataLoader | None = None, num_calib_batches: int | None = None,
                          quantized_dtype: str = "int8", quantize_mode: str = "smart",
                          quantize_granularity: str = "tensor-wise",
                          logger: logging.Logger | None = None) -> tuple[Symbol, _Params, _Params]:
    """Like `quantize_model`, with a separate range for each channel of a layer.

    Raises:
        ValueError: see `quantize_model`; or the device is not a CPU.
    """
    if not isinstance(device, Context) or device.device_type != "cpu":
        raise ValueError(f"quantize_model_onednn only supports a single CPU device, got {device}")
    sym, arg_params, aux_params, excluded = _one.by_channel(_one.loaded(sym), arg_params, aux_params,
                                                            excluded_sym_names, excluded_op_names)
    return quantize_model(sym, arg_params, aux_params, data_names, device, excluded, excluded_op_names, calib_mode,
                          calib_data, num_calib_batches, quantized_dtype, quantize_mode, quantize_granularity, logger)


def _for_arrays(sym: Symbol) -> Symbol:
    return sym.as_np_ndarray() if is_np_array() else sym


def quantize_graph(sym: Symbol, arg_params: _Params, aux_params: _Params, device: Context = cpu(),
                   excluded_sym_names: list[str] | None = None, excluded_op_names: list[str] | None = None,
                   calib_mode: str = "entropy", quantized_dtype: str = "int8", quantize_mode: str = "full",
                   quantize_granularity: str = "tensor-wise",
                   LayerOutputCollector: CalibrationCollector | None = None,  # noqa: N803
                   logger: logging.Logger | None = None
                   ) -> tuple[Symbol, _Params, _Params, CalibrationCollector | None, list[str]]:
    """Quantizes a float32 checkpoint without calibration, and returns a collector for `calib_graph`.

    Args:
        LayerOutputCollector: the collector for calib_mode="custom".
        others: as in `quantize_model`.

    Returns:
        (symbol, arguments, auxiliary states, collector, names of the outputs to calibrate).

    Raises:
        ValueError: an argument is invalid.
    """
    _one.check_arguments(device, quantized_dtype, quantize_granularity, excluded_sym_names=excluded_sym_names,
                         excluded_op_names=excluded_op_names)
    excluded_ops = _one.operators_in_floats(excluded_op_names, _one.must_calibrate(calib_mode))
    qsym, layers = _one._quantize_symbol(_one.loaded(sym), device, excluded_sym_names, excluded_ops, list(arg_params),
                                         quantized_dtype, quantize_mode, quantize_granularity)
    collector = _collector(calib_mode, quantized_dtype, layers, LayerOutputCollector, logger)
    return _for_arrays(qsym), _one._quantize_params(qsym, arg_params, {}), aux_params, collector, layers


def calib_graph(qsym: Symbol, arg_params: _Params, aux_params: _Params, collector: CalibrationCollector,
                calib_mode: str = "entropy",
                logger: logging.Logger | None = None) -> tuple[Symbol, _Params, _Params]:
    """Calibrates a quantized graph with the statistics of its collector.

    Args:
        qsym: symbol from `quantize_graph`.
        arg_params, aux_params: the float model's parameters and auxiliary states.
        collector: collector from `quantize_graph`.
        calib_mode: "naive", "entropy" or "custom".
        logger: logger of the progress.

    Raises:
        ValueError: the calibration mode is "none" or unknown.
    """
    if calib_mode not in ("naive", "entropy", "custom"):
        raise ValueError(f"please set calibration mode to naive, entropy or custom, got {calib_mode}")
    table = collector.post_collect()
    qsym = _one.exact_graph(_one._calibrate_quantized_sym(_one.loaded(qsym), table))
    return _for_arrays(qsym), _one._quantize_params(qsym, arg_params, table), aux_params


def _described(data_shapes: Sequence[Any]) -> list[tuple[tuple[int, ...], Any]]:
    """Returns (shape, dtype) of each input."""
    if not isinstance(data_shapes, list) or not all(isinstance(one, tuple) for one in data_shapes):
        raise ValueError("data_shapes must be either a list of DataDesc or a list of Tuple")
    return [(tuple(one.shape), one.dtype) if isinstance(one, DataDesc) else (one, np.float32) for one in data_shapes]


def quantize_net(network: HybridBlock, quantized_dtype: str = "auto", quantize_mode: str = "full",
                 quantize_granularity: str = "tensor-wise", exclude_layers: list[str] | None = None,
                 exclude_layers_match: list[str] | None = None, exclude_operators: list[str] | None = None,
                 calib_data: DataLoader | None = None, data_shapes: list[Any] | None = None, calib_mode: str = "none",
                 num_calib_batches: int | None = None, device: Context = cpu(),
                 LayerOutputCollector: CalibrationCollector | None = None,  # noqa: N803
                 logger: logging.Logger | None = None) -> SymbolBlock:
    """Quantizes a float32 block to 8-bit integers, with a separate range for each channel of a layer.

    Args:
        network: an initialized HybridBlock; it stays hybridized.
        exclude_layers, exclude_layers_match, exclude_operators: names of nodes, parts of such
            names, and operators that stay in floats.
        calib_data: batches; labels in them are ignored.
        data_shapes: shapes or `DataDesc`s of the inputs, if there is no `calib_data`.
        num_calib_batches: the largest number of batches to use; None for all.
        LayerOutputCollector: the collector for calib_mode="custom".
        others: as in `quantize_model`.

    Raises:
        ValueError: neither data nor shapes are passed, or an argument is invalid.

    Example:
        qnet = mx.contrib.quantization.quantize_net(net, calib_data=loader, calib_mode="naive")
    """
    if device != cpu():
        raise ValueError(f"quantization currently supports only the CPU, got device={device}")
    if data_shapes is None and calib_data is None:
        raise ValueError("at least one of data_shapes or calib_data has to be provided")
    if data_shapes is None:
        specs = [(value.shape, value.dtype) for value in _arrays(next(iter(_loader(calib_data, calib_mode))))]
    else:
        specs = _described(data_shapes)
    names, sym, args, auxs, excluded = _one.float_graph(network, specs, exclude_layers, exclude_layers_match,
                                                        exclude_operators, logger)
    qsym, qargs, auxs, collector, layers = quantize_graph(
        sym, args, auxs, device, excluded, exclude_operators, calib_mode, quantized_dtype, quantize_mode,
        quantize_granularity, LayerOutputCollector, logger)
    if collector is None:
        return _one.block_of(_one.exact_graph(qsym), names, {**qargs, **auxs}, device)
    if calib_data is None:
        raise ValueError(f"calib_data must be provided when calib_mode={calib_mode}")
    _statistics(sym, {**args, **auxs}, names, _loader(calib_data, calib_mode), collector.include_layers or layers,
                collector, num_calib_batches, device, logger)
    qsym, qargs, auxs = calib_graph(qsym, args, auxs, collector, calib_mode, logger)
    return _one.block_of(qsym, names, {**qargs, **auxs}, device)
