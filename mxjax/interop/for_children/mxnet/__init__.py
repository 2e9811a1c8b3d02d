"""Makes `import mxnet` import mxjax in the processes that a script of `python -m mxjax run` starts.

A Python without mxjax (e.g. an environment with MXNet itself, also of Python 2) continues its
search.
"""

import os
import sys

_own = sys.modules.pop(__name__)  # another module takes this name; Python 2 clears an unreferenced module
_is_here = False
if sys.version_info >= (3, 11):
    import importlib.util
    _is_here = importlib.util.find_spec("mxjax") is not None
if _is_here:
    import mxjax.interop
    mxjax.interop.install_mxnet_alias()
else:
    _folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != _folder]
import mxnet  # noqa: E402  # pyright: ignore[reportMissingImports]  the importer gets the module that has this name now


def __getattr__(name):
    """Looks up the name in mxjax, because another thread may have received this module while it was being imported."""
    return getattr(mxnet, name)
