"""`mx.onnx`: export of models to ONNX files and import from them (import also as `mx.contrib.onnx`).

`_export.py` walks a graph and asks a converter for each node; converters register themselves in the `_to_*.py`
files, one line for a simple operator. `_import.py` goes the other way with the importers of the `_from_*.py` files.
"""

import sys as _sys

from ._export import export_model, get_operator_support
from ._import import get_model_metadata, import_model, import_to_gluon

mx2onnx = _sys.modules[__name__]  # where MXNet keeps them
