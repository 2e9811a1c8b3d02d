"""`import mxnet_predict`, MXNet's interface for inference only, where the `mxnet` beside this file is found."""

import sys

import mxnet  # noqa: F401  # pyright: ignore[reportMissingImports]  from then on the name below is mxjax's

del sys.modules[__name__]
import mxnet_predict  # noqa: E402, F401  # pyright: ignore[reportMissingImports]
