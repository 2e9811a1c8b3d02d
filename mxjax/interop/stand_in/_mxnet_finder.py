"""Finds the `mxnet` next to this file; `_mxnet_finder.pth` makes every Python of the environment import it on startup.

That package replaces itself during its import, and threads that import `mxnet.x` meanwhile would
find its directory empty. With this finder `mxnet` is mxjax from the beginning. mxjax is not loaded
before its first import.
"""

import importlib.machinery
import os
import sys

_ITS_FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mxnet", "__init__.py")


class _Loader:
    def create_module(self, spec):
        import mxjax.interop
        mxjax.interop.install_mxnet_alias()
        result = next(filter(None, (f.find_spec("mxnet", None) for f in sys.meta_path if f is not _Finder)))
        if result.loader is None:
            raise ImportError("mxnet was found, but its loader was not", name="mxnet")
        self._loader = result.loader
        return self._loader.create_module(result)

    def exec_module(self, module):
        self._loader.exec_module(module)


class _Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        """Finds `mxnet` if the search would reach the package next to this file and mxjax is installed."""
        result = importlib.machinery.PathFinder.find_spec(name, path) if name == "mxnet" else None
        if result is None or result.origin != _ITS_FILE or importlib.machinery.PathFinder.find_spec("mxjax") is None:
            return None  # without mxjax, the package's error names the installation
        # no subclass of importlib.abc.Loader: that import would slow the start of every Python
        result.loader = _Loader()  # pyright: ignore[reportAttributeAccessIssue]
        return result


sys.meta_path.insert(0, _Finder)
