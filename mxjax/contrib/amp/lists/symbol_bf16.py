"""Lists of operators for bfloat16; see `_tables`."""

from .. import _tables

BF16_FUNCS = _tables.spelled(_tables.table("bfloat16", "low"))
BF16_FP32_FUNCS = _tables.spelled(_tables.table("bfloat16", "both"))
FP32_FUNCS = _tables.spelled(_tables.table("bfloat16", "fp32"))
CONDITIONAL_FP32_FUNCS = list(_tables.CONDITIONAL)
WIDEST_TYPE_CASTS = _tables.spelled(_tables.table("bfloat16", "widest"))
LOSS_OUTPUT_FUNCTIONS = list(_tables.LOSSES)
BF16_USE_FP32_PARAMS = dict(_tables.FP32_INPUTS)
