"""`import mxnet_predict`, MXNet's inference-only interface, for processes that find the `mxnet` next to this file."""

import sys

import mxnet  # noqa: F401  # pyright: ignore[reportMissingImports]  from then on the name below is mxjax's

del sys.modules[__name__]
import mxnet_predict  # noqa: E402, F401  # pyright: ignore[reportMissingImports]
