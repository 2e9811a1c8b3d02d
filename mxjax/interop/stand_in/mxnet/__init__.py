"""Makes `import mxnet` import mxjax in every process after `python -m mxjax alias install`."""

import sys

del sys.modules[__name__]  # another module takes this name
try:
    import mxjax.interop
except ModuleNotFoundError as error:
    if error.name != "mxjax":
        raise
    raise ModuleNotFoundError("this mxnet is a stand-in for mxjax, which is not installed: install mxjax, "
                              "or uninstall mxnet", name="mxjax") from None
mxjax.interop.install_mxnet_alias()
import mxnet  # noqa: E402  # pyright: ignore[reportMissingImports]  the importer gets the module that has this name now


def __getattr__(name):
    """Looks up the name in mxjax, because another thread may have received this module while it was being imported."""
    return getattr(mxnet, name)
