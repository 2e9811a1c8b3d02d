"""The command line: `python -m mxjax run script.py`, `python -m mxjax info`."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Sequence

__all__ = ["main"]


def _info() -> None:
    """Prints versions, devices and features."""
    import importlib.metadata as metadata

    import jax

    from . import libinfo, runtime
    print(f"mxjax      {libinfo.__version__} (the API of MXNet {libinfo.__mxnet_version__})")
    print(f"Python     {platform.python_version()} on {platform.platform()}")
    for name in ("jax", "jaxlib", "numpy", "optax", "flax", "opencv-python-headless", "onnx"):
        try:
            print(f"{name:10s} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            print(f"{name:10s} not installed")
    print("devices    " + ", ".join(f"{d.platform}:{d.id} ({d.device_kind})" for d in jax.devices()))
    print(f"engine     {os.environ.get('MXNET_ENGINE_TYPE', 'ThreadedEnginePerDevice')}")
    print("features   " + ", ".join(f.name for f in runtime.feature_list() if f.enabled))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m mxjax", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run a script whose `import mxnet` then means mxjax")
    run.add_argument("script")
    run.add_argument("args", nargs=argparse.REMAINDER, help="arguments of the script")
    commands.add_parser("info", help="print versions, devices and features")
    given = parser.parse_args(argv)
    if given.command == "info":
        _info()
        return 0
    if not os.path.isfile(given.script):
        parser.error(f"there is no script {given.script}")
    from .interop import run_script
    sys.path.insert(0, os.path.dirname(os.path.abspath(given.script)))
    run_script(given.script, given.args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
