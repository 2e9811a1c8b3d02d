"""Version of mxjax, and the MXNet version whose API it provides."""

__version__ = "0.1.0"
__mxnet_version__ = "1.9.1"
