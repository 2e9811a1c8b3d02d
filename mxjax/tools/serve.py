"""`python -m mxjax serve MODEL ...`: saved models behind the Open Inference Protocol V2, over HTTP and gRPC.

A MODEL is `PREFIX:EPOCH`, `PREFIX` (its newest epoch), a `-symbol.json` file, a folder with one, a folder with numbered
folders of versions, or a `.py` file with a class `Model` or with SageMaker's `model_fn`. With `NAME=` before it, it has
that name. A model is ready when it is compiled for the batch sizes of `--warm`. Requests that arrive together share a
batch. SIGTERM ends the service after the last answer.
"""

from __future__ import annotations

import argparse
import functools
import os
import re
import sys
from collections.abc import Callable
from typing import Any

from ..base import MXNetError
from ..context import Context, cpu
from ._model import pairs

__all__ = ["add_arguments", "limits_of", "main", "models_of", "replicas"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("models", nargs="+", metavar="MODEL", help="[NAME=]PREFIX[:EPOCH], [NAME=]PATH-symbol.json, "
                        "[NAME=]FOLDER or [NAME=]FILE.py")
    parser.add_argument("--shape", action="append", default=[], metavar="NAME=1,N,...",
                        help="shape of an input with a batch of 1, for all models that have it; repeat for each input")
    parser.add_argument("--dtype", action="append", default=[], metavar="NAME=DTYPE",
                        help="dtype of an input; default: float32")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on; 0.0.0.0 for all interfaces")
    parser.add_argument("--port", type=int, default=8080, help="port of HTTP")
    parser.add_argument("--grpc-port", type=int, help="port of gRPC; 0 for none; default: 8081, or none with --on ray, "
                                                      "since Ray's gRPC proxies listen on all addresses")
    parser.add_argument("--ctx", "--device", default="cpu", help="device of the models: cpu, gpu(0), tpu(0)")
    parser.add_argument("--warm", default="1,2,4,8,16,32", metavar="N,N,...",
                        help="batch sizes to compile at startup, and to pad batches to; 0 for none")
    parser.add_argument("--max-batch", type=int, default=32, help="maximum number of rows in a batch")
    parser.add_argument("--max-delay-ms", type=float, default=2.0,
                        help="maximum time in milliseconds that a request waits for others to share its batch")
    parser.add_argument("--queue", type=int, default=1024,
                        help="maximum number of waiting requests; additional requests get status 503")
    parser.add_argument("--timeout", type=float, default=30.0, help="seconds after which a request gets status 504")
    parser.add_argument("--max-request-mb", type=float, default=64, help="maximum size of a request in megabytes")
    parser.add_argument("--linger", type=float, default=1.0, help="seconds after SIGTERM during which the service is "
                                                                  "not ready but still accepts connections")
    parser.add_argument("--grace", type=int, default=30, help="seconds to finish requests at shutdown")
    parser.add_argument("--allow-load", action="store_true", help="allow clients to unload these models and to reload "
                                                                  "them from their files")
    parser.add_argument("--no-cache", action="store_true", help="do not store compiled programs in files")
    parser.add_argument("--on", choices=("here", "ray"), default="here",
                        help="ray: replicas on a Ray cluster, over HTTP")
    parser.add_argument("--address", default="", help="address of the Ray cluster: auto, local or host:port; default: "
                                                      "RAY_ADDRESS, else a new local cluster")
    parser.add_argument("--replicas", default="1", metavar="N|MIN:MAX",
                        help="with --on ray and --manifest: number of processes; MIN:MAX scales with the load")
    parser.add_argument("--manifest", nargs=2, metavar=("IMAGE", "URI"), help="do not serve, but print the manifest "
                                                                              "with which KServe runs this command in "
                                                                              "a container of IMAGE, with the files at "
                                                                              "URI")


def models_of(args: argparse.Namespace, ctx: Context | None = None) -> tuple[list[Any], dict[str, Callable]]:
    """Loads the models that the arguments name.

    Args:
        args: the command's arguments.
        ctx: device of the models instead of that of the arguments.

    Returns:
        The models, of several versions the newest last; and by name, functions that load a model's versions again.

    Raises:
        MXNetError: there is no such model or device, two have one name, or no model has an input that is named.
    """
    # which changes nothing but when XLA compiles: a warm service must not do so later
    os.environ["MXNET_ENFORCE_DETERMINISM"] = "1"
    from ..runtime import use_cache  # after that: it loads what asks for the variable
    from ..serving import Handler, Served, is_handler  # as well
    if not args.no_cache:
        try:
            use_cache()
        except MXNetError as error:
            print(f"serve: {error}", file=sys.stderr)
    shapes = {name: _numbers(f"--shape {name}", text) for name, text in pairs("--shape", args.shape).items()}
    dtypes, asked = pairs("--dtype", args.dtype), _context(args.ctx)
    ctx = ctx or asked
    ctx.jax_device  # noqa: B018  a device that is not there is an error now, also for models that run no graph
    models: list[Any] = []
    loaders: dict[str, Callable] = {}
    names = set()
    for text in args.models:
        named = re.match(r"([\w.-]+)=", text)
        name, source = (named[1], text[named.end():]) if named else (None, text)
        if is_handler(source):
            results = [Handler(source, name)]
        else:
            results = _versions(source, name, ctx, shapes, dtypes)
            loaders[results[0].name] = functools.partial(_versions, source, results[0].name, ctx, shapes, dtypes)
        if results[0].name in names:
            raise MXNetError(f"two models have the name {results[0].name}; put NAME= before each to distinguish them")
        names.add(results[0].name)
        models += results
    handlers = [model.name for model in models if isinstance(model, Handler)]
    if len(handlers) > 1:
        raise MXNetError(f"at most one file with model_fn can be served, got {', '.join(handlers)}")
    there = {n for model in models if isinstance(model, Served) for n in model.input_names}
    unknown = sorted({*shapes, *dtypes} - there)
    if unknown:
        raise MXNetError(f"--shape or --dtype: no model has an input {', '.join(unknown)}; the inputs are "
                         f"{', '.join(sorted(there)) or 'none'}")
    return models, loaders


def _versions(source: str, name: str | None, ctx: Context, shapes: dict[str, tuple[int, ...]],
              dtypes: dict[str, str]) -> list[Any]:
    """Loads all versions of a model."""
    from ..serving import Served, versions_of  # after MXNET_ENFORCE_DETERMINISM
    versions = versions_of(source)
    if "" not in versions:
        name = name or os.path.basename(os.path.abspath(source))
    return [Served(path, name, ctx, shapes, dtypes, version, True) for version, path in versions.items()]


def limits_of(args: argparse.Namespace) -> Any:
    """Returns the `Limits` that the arguments set.

    Raises:
        MXNetError: the extra "serve" is missing, or a number is none.
    """
    try:
        from ..serving.server import Limits  # the extra "serve"
    except ImportError as error:
        raise MXNetError(f"serve requires kserve ({error}): pip install 'mxjax[serve]'") from None
    return Limits(tuple(size for size in _numbers("--warm", args.warm) if size > 0), args.max_batch,
                  args.max_delay_ms / 1000, args.queue, args.timeout, int(args.max_request_mb * (1 << 20)))


def replicas(text: str) -> tuple[int, int]:
    """Returns the least and the greatest number of replicas that N or MIN:MAX means.

    Raises:
        MXNetError: it is neither.
    """
    result = re.fullmatch(r"(\d+)(?::(\d+))?", text)
    low, high = (int(result[1]), int(result[2] or result[1])) if result else (0, 0)
    if not 1 <= low <= high:
        raise MXNetError(f"--replicas must be N or MIN:MAX with 1 <= MIN <= MAX, got {text!r}")
    return low, high


def _numbers(option: str, text: str) -> tuple[int, ...]:
    try:
        return tuple(map(int, text.split(",")))
    except ValueError:
        raise MXNetError(f"{option} must be numbers separated by commas, got {text!r}") from None


def _context(text: str) -> Context:
    result = re.fullmatch(r"(\w+)(?:\((\d+)\))?", text)
    if not result:
        raise MXNetError(f"--ctx must be like cpu or gpu(0), got {text!r}")
    return Context(result[1], int(result[2] or 0))


def main(args: argparse.Namespace) -> int:
    """Runs the command with its parsed arguments; returns the exit status."""
    # for elsewhere they are loaded only to find mistakes, and the device need not be here
    models, loaders = models_of(args, cpu() if args.manifest or args.on == "ray" else None)
    if args.manifest:
        from .serve_manifest import manifest  # which imports this module
        print(manifest(args, models), end="")
        return 0
    if args.on == "here" and args.replicas != "1":
        raise MXNetError("--replicas requires --on ray or --manifest")
    if args.on == "ray" and args.allow_load:
        raise MXNetError("--allow-load requires a single process: with --on ray, a request reaches only one replica")
    limits = limits_of(args)
    if args.on == "ray":
        from .serve_ray import serve_on_ray  # as well
        return serve_on_ray(args, limits)
    from ..serving.server import serve  # the extra "serve"
    grpc_port = 8081 if args.grpc_port is None else args.grpc_port
    serve(models, limits, host=args.host, port=args.port, grpc_port=grpc_port or None, linger=args.linger,
          grace=args.grace, loaders=loaders if args.allow_load else None)
    return 0
