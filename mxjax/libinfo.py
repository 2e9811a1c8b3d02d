"""The MXNet version whose API this is, which scripts and libraries ask `__version__` for, and that of mxjax itself."""

__version__ = "1.9.1"
__mxjax_version__ = "0.1.0"
