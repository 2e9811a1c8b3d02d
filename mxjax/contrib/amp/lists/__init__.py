"""The lists of operators, in MXNet's modules."""

from . import symbol_bf16, symbol_fp16
