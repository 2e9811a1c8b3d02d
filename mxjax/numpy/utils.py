"""Constants and dtypes of mx.np."""

from __future__ import annotations

import builtins

import numpy as _np
from numpy import (
    dtype,
    e,
    finfo,
    float16,
    float32,
    float64,
    inf,
    int8,
    int16,
    int32,
    int64,
    nan,
    newaxis,
    pi,
    uint8,
    uint16,
    uint32,
    uint64,
)

from .. import level as _level
from ..ops.np.dtypes import promoted as _promoted

__all__ = ["NAN", "NINF", "NZERO", "NaN", "PINF", "PZERO", "bool", "bool_", "boolean_dtypes", "dtype", "e", "finfo",
           "float16", "float32", "float64", "floating_dtypes", "inf", "int16", "int32", "int64", "int8",
           "integer_dtypes", "nan", "newaxis", "numeric_dtypes", "pi", "uint16", "uint32", "uint64", "uint8"]

NAN = NaN = nan
PINF, NINF, PZERO, NZERO = inf, -inf, 0.0, -0.0
bool, bool_ = builtins.bool, _np.bool_
boolean_dtypes = [dtype(bool_)]
integer_dtypes = [dtype(kind) for kind in (int8, int16, int32, int64, uint8, uint16, uint32, uint64)]
floating_dtypes = [dtype(kind) for kind in (float16, float32, float64)]
numeric_dtypes = [*integer_dtypes, *floating_dtypes]
_STR_2_DTYPE_ = {"float16": float16, "float32": float32, "float64": float64, "float": float64, "int8": int8,
                 "int32": int32, "int64": int64, "int": int64, "uint8": uint8, "bool": bool, "bool_": bool_,
                 "None": None}

# ------------------------------------------------------------ differences in MXNet 2
_KINDS = ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
          "bool", "bool_")


_BEFORE = {name: globals()[name] for name in _KINDS}


def _speak(api: int) -> None:
    """Dtypes are NumPy's dtypes at level 2, where they are its classes of numbers at level 1."""
    kinds = {name: _np.dtype(name) for name in _KINDS} if api == 2 else _BEFORE
    globals().update(kinds)
    if api == 2:
        _STR_2_DTYPE_.update(kinds, float=kinds["float64"], int=kinds["int64"])


_level.follow(_speak)
_DTYPE_2_STR_ = {**{_np.dtype(name): name for name in _KINDS[:-1]}, float: "float64", int: "int64",
                 builtins.bool: "bool", None: "None"}
_type_promotion_table = {(a, b): _promoted(a, b) for a in numeric_dtypes + boolean_dtypes
                         for b in numeric_dtypes + boolean_dtypes}
