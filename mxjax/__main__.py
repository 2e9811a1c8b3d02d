"""Apache MXNet's scripts and models on JAX: run, examine, convert and plan them.

Exit status: 0 for success, 1 for findings or failures, 2 for invalid arguments or files.
"""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import sys
from collections.abc import Sequence

from . import libinfo
from ._support import settings

__all__ = ["main"]

_TOOLS = {"doctor": "report what a script or saved graph uses that differs, is missing or would be slow",
          "explain": "explain an error by the code at the end of its message: cause and solution",
          "launch": "run a script in several worker processes, on this machine or on several hosts",
          "convert": "convert a saved model to ONNX, PyTorch or flax source, StableHLO, a JAX program or arrays",
          "serve": "serve saved models over HTTP and gRPC",
          "plan": "predict memory, time and operations of a saved model on accelerators that this host does not have",
          "inspect": "show layers, parameters, operations and memory of a saved model",
          "rec": "convert record files to WebDataset shards, ArrayRecord or a folder of files",
          "im2rec": "create image lists and pack images into record files",
          "alias": "make `import mxnet` import mxjax in a whole environment, or undo this",
          "cache": "show, clear or pack the cache of compiled programs",
          "stubs": "write the type stubs of functions generated from the operator registry"}
_OF_MODELS = {"doctor", "convert", "serve", "plan", "inspect"}  # may need code of the user's, such as operators


# by package: the extra that installs it, and its purpose
_OPTIONAL = {"flax": ("flax", "flax modules as blocks, and back"), "optax": ("optax", "its rules as optimizers"),
             "opencv-python-headless": ("image", "decoding and augmenting pictures"),
             "onnx": ("onnx", "ONNX models"), "graphviz": ("viz", "drawings of networks"),
             "orbax-checkpoint": ("checkpoint", "checkpoints of training steps"),
             "safetensors": ("safetensors", "checking safetensors files"),
             "array-record": ("arrayrecord", "records for grain"), "ray": ("ray", "jobs on Ray clusters")}


class _Formatter(argparse.ArgumentDefaultsHelpFormatter):
    """Shows defaults unless they are None or False."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return super()._get_help_string(action) if action.default not in (None, False, True, "", []) else action.help


def _info() -> None:
    """Prints versions, devices, features and missing packages."""
    import importlib.metadata as metadata

    import jax

    from . import runtime  # JAX starts with it, which the version alone does not need

    def row(name: str, text: str) -> None:
        print(f"{name:24s}{text}")
    row("mxjax", f"{libinfo.__mxjax_version__} (the API of MXNet {libinfo.__version__})")
    row("Python", f"{platform.python_version()} on {platform.platform()}")
    for name in ("jax", "jaxlib", "numpy", "scipy", *_OPTIONAL):
        try:
            row(name, metadata.version(name))
        except metadata.PackageNotFoundError:
            extra, what = _OPTIONAL.get(name, ("", "needed"))
            row(name, f"not installed ({what}): pip install " + (f"'mxjax[{extra}]'" if extra else name))
    row("devices", ", ".join(f"{d.platform}:{d.id} ({d.device_kind})" for d in jax.devices()))
    if all(d.platform == "cpu" for d in jax.devices()):
        row("", "for a GPU: pip install 'mxjax[cuda12]' or 'mxjax[cuda13]'; for a TPU: 'mxjax[tpu]'")
    row("engine", settings.ENGINE_TYPE())
    row("features", ", ".join(f.name for f in runtime.feature_list() if f.enabled))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m mxjax", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", action="version", version=f"mxjax {libinfo.__mxjax_version__} (the API of MXNet "
                        f"{libinfo.__version__})")
    commands = parser.add_subparsers(dest="command_name", required=True)
    run = commands.add_parser("run", help="run a script; its `import mxnet` imports mxjax")
    run.add_argument("--no-cache", action="store_true", help="do not store compiled programs in files")
    run.add_argument("--api", type=int, choices=(1, 2),
                     help="the level of MXNet's API: 1 (MXNet 1.9.1, the default) or 2 (MXNet 2.0)")
    run.add_argument("-m", action="store_true", dest="module", help="SCRIPT is the name of a module, such as pydoc")
    run.add_argument("script")
    run.add_argument("args", nargs=argparse.REMAINDER, help="arguments of the script")
    commands.add_parser("info", help="print versions, devices, features, and what is missing")
    argv = sys.argv[1:] if argv is None else list(argv)
    for name, text in _TOOLS.items():
        tool = commands.add_parser(name, help=text, description=text,
                                   formatter_class=_Formatter)
        if argv[:1] == [name]:
            importlib.import_module(f"mxjax.tools.{name}").add_arguments(tool)
            if name in _OF_MODELS:
                tool.add_argument("--import", action="append", default=[], dest="imported", metavar="MODULE|FILE.py",
                                  help="code to import first, such as custom operators; may be repeated")
    args = parser.parse_args(argv)
    if args.command_name == "info":
        _info()
        return 0
    from .base import MXNetError  # it loads NumPy, which --help and --version do without
    if args.command_name in _TOOLS:
        try:
            if getattr(args, "imported", ()):
                importlib.import_module("mxjax.tools._model").import_code(args.imported)
            return importlib.import_module(f"mxjax.tools.{args.command_name}").main(args)
        except (MXNetError, OSError) as error:
            message = str(error).removeprefix(f"{args.command_name}: ")  # some are raised to callers of the functions
            parser.exit(2, f"{parser.prog} {args.command_name}: {message}\n")
    if not args.module and not os.path.isfile(args.script):
        parser.error(f"there is no script {args.script}")
    if not args.no_cache:
        from ._xla import program_files  # only a script that is run wants them, and JAX, here
        from .runtime import use_cache  # as well
        try:
            os.environ.update(program_files.variables(use_cache()))  # for the processes that it starts
        except MXNetError as error:
            print(f"{parser.prog}: {error}", file=sys.stderr)
    from .interop._alias import check_module, install_mxnet_alias, run_script  # a while: after the options
    install_mxnet_alias(children=True, api=args.api)
    sys.path.insert(0, os.getcwd() if args.module else os.path.dirname(os.path.abspath(args.script)))
    if args.module:
        try:
            check_module(args.script)
        except ImportError as error:  # as Python has it
            parser.exit(1, f"{parser.prog} run: {error}\n")
    run_script(args.script, args.args, args.module)
    return 0


if __name__ == "__main__":
    sys.exit(main())
