"""`import mxnet` where `python -m mxjax alias install` has been: it means mxjax, in every process."""

import sys

del sys.modules[__name__]  # another module takes this name
try:
    import mxjax.interop
except ModuleNotFoundError as error:
    if error.name != "mxjax":
        raise
    raise ModuleNotFoundError("this mxnet stands for mxjax, which is not installed here: install it, "
                              "or uninstall mxnet", name="mxjax") from None
mxjax.interop.install_mxnet_alias()
import mxnet  # noqa: E402  # pyright: ignore[reportMissingImports]  whoever asked for it gets what has this name now


def __getattr__(name):
    """Returns what has this name there: another thread may have got this module while it was being imported."""
    return getattr(mxnet, name)
