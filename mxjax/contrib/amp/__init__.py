"""`mx.contrib.amp`: mixed precision of symbolic models (`convert_symbol`, `convert_model`)."""

from . import amp, lists
from .amp import (
    convert_model,
    convert_symbol,
    list_conditional_fp32_ops,
    list_fp32_ops,
    list_lp16_ops,
    list_widest_type_cast,
)
