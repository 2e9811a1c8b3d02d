"""Lists of operators for float16; see `_tables`."""

from .. import _tables

FP16_FUNCS = _tables.spelled(_tables.table("float16", "low"))
FP16_FP32_FUNCS = _tables.spelled(_tables.table("float16", "both"))
FP32_FUNCS = _tables.spelled(_tables.table("float16", "fp32"))
CONDITIONAL_FP32_FUNCS = list(_tables.CONDITIONAL)
WIDEST_TYPE_CASTS = _tables.spelled(_tables.table("float16", "widest"))
LOSS_OUTPUT_FUNCTIONS = list(_tables.LOSSES)
