"""`mx.contrib.quantization` (`mx.contrib.quant`): quantization of float32 models to 8-bit integers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import level

if TYPE_CHECKING or level.fix("mxjax.contrib.quantization") == 1:
    from ._quantization import (  # noqa: F401
        _calibrate_quantized_sym,
        _get_optimal_threshold,
        _get_optimal_thresholds,
        _LayerHistogramCollector,
        _LayerOutputMinMaxCollector,
        _quantize_params,
        _quantize_symbol,
        calib_graph,
        combine_histogram,
        quantize_graph,
        quantize_model,
        quantize_model_mkldnn,
        quantize_net,
        quantize_net_v2,
    )

    __all__ = ["calib_graph", "combine_histogram", "quantize_graph", "quantize_model", "quantize_model_mkldnn",
               "quantize_net", "quantize_net_v2"]
else:
    from ._quantization import _calibrate_quantized_sym, _quantize_params, _quantize_symbol  # noqa: F401
    from ._quantization_of_2 import (  # noqa: F401
        CalibrationCollector,
        _LayerHistogramCollector,
        _LayerOutputMinMaxCollector,
        calib_graph,
        quantize_graph,
        quantize_model,
        quantize_model_onednn,
        quantize_net,
    )

    __all__ = ["CalibrationCollector", "calib_graph", "quantize_graph", "quantize_model", "quantize_model_onednn",
               "quantize_net"]
