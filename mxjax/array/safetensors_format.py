"""Files of safetensors, which other frameworks read: a header and named arrays, without executable content."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base import MXNetError
from ..ops.params import DTYPES

__all__ = ["dumps", "loads"]

_DTYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32",
           "I16": "int16", "I8": "int8", "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8",
           "BOOL": "bool"}


def _package() -> Any:
    try:
        import safetensors.numpy
        return safetensors
    except ImportError:
        raise MXNetError("safetensors files require the package safetensors: pip install "
                         "'mxjax[safetensors]'") from None


def dumps(arrays: list[Any], names: list[str], target: str) -> bytes:
    """Returns named dense arrays as the content of a file.

    Raises:
        MXNetError: arrays without names, sparse arrays, or the package is missing.
    """
    package = _package()
    if len(names) != len(arrays):
        raise MXNetError(f"{target}: arrays in a safetensors file must have names; save a dict")
    sparse = [name for name, array in zip(names, arrays, strict=True) if array.stype != "default"]
    if sparse:
        raise MXNetError(f"{target}: {sparse[0]} is sparse, but safetensors files store only dense arrays; use "
                         "tostype('default')")
    return package.numpy.save({name: np.ascontiguousarray(array.asnumpy()).reshape(array.shape)
                               for name, array in zip(names, arrays, strict=True)})


def loads(raw: bytes, source: str) -> dict[str, np.ndarray]:
    """Returns the arrays of a file in the order of their names.

    Raises:
        MXNetError: the file contains dtypes that MXNet lacks, or the package is missing.
    """
    known = {dtype.name: dtype for dtype in DTYPES.values()}
    result = {}
    for name, entry in sorted(_package().deserialize(raw), key=lambda pair: pair[0]):
        if entry["dtype"] not in _DTYPES:
            raise MXNetError(f"{source}: array {name!r} has dtype {entry['dtype']}, which MXNet does not support")
        result[name] = np.frombuffer(entry["data"], known[_DTYPES[entry["dtype"]]]).reshape(entry["shape"])
    return result
