"""`import mxnet_predict`, MXNet's interface for inference only, in processes that such a script has started."""

import sys

import mxnet  # noqa: F401  from then on the name below is mxjax's

del sys.modules[__name__]
import mxnet_predict  # noqa: E402, F401
