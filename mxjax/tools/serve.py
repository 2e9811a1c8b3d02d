"""`python -m mxjax serve MODEL ...`: saved models behind the Open Inference Protocol V2, over HTTP and gRPC.

A MODEL is `PREFIX:EPOCH`, `PREFIX` (its newest epoch), a `-symbol.json` file, or a `.py` file with a class `Model`.
With `NAME=` before it, it has that name. A model is ready when it is compiled for the batch sizes of `--warm`.
Requests that arrive together share a batch. SIGTERM ends the service after the last answer.
"""

from __future__ import annotations

import argparse
import os
import re

from ..base import MXNetError
from ..context import Context
from ._model import pairs

__all__ = ["add_arguments", "main"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("models", nargs="+", metavar="MODEL", help="[NAME=]PREFIX[:EPOCH], [NAME=]PATH-symbol.json or "
                        "[NAME=]FILE.py")
    parser.add_argument("--shape", action="append", default=[], metavar="NAME=1,N,...",
                        help="shape of an input with a batch of 1, for all models that have it; once for each input")
    parser.add_argument("--dtype", action="append", default=[], metavar="NAME=DTYPE", help="float32 where not given")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at; 0.0.0.0 for all")
    parser.add_argument("--port", type=int, default=8080, help="of HTTP")
    parser.add_argument("--grpc-port", type=int, default=8081, help="of gRPC; 0 for none")
    parser.add_argument("--ctx", default="cpu", help="where models run: cpu, gpu(0), tpu(0)")
    parser.add_argument("--warm", default="1,2,4,8,16,32", metavar="N,N,...",
                        help="batch sizes to compile first, and to fill batches up to; 0 for none")
    parser.add_argument("--max-batch", type=int, default=32, help="most rows of a batch")
    parser.add_argument("--max-delay-ms", type=float, default=2.0, help="how long a request waits for others")
    parser.add_argument("--queue", type=int, default=1024, help="most requests that wait; further ones get status 503")
    parser.add_argument("--timeout", type=float, default=30.0, help="seconds until a request gets status 504")
    parser.add_argument("--max-request-mb", type=float, default=64, help="most megabytes of a request")
    parser.add_argument("--linger", type=float, default=1.0, help="seconds from SIGTERM, when the service says that it "
                        "is not ready, to the end of new connections")
    parser.add_argument("--grace", type=int, default=30, help="seconds that requests get to be answered at the end")


def main(given: argparse.Namespace) -> int:
    """Runs the command with its parsed arguments; returns the exit status."""
    # which changes nothing but when XLA compiles: a warm service must not do so later
    os.environ["MXNET_ENFORCE_DETERMINISM"] = "1"
    from ..serving import Served  # after that: it loads what asks for the variable
    try:
        from ..serving.server import serve  # the extra "serve"
    except ImportError as error:
        raise MXNetError(f"serve needs kserve ({error}): pip install 'mxjax[serve]'") from None
    try:
        warm = [size for size in map(int, given.warm.split(",")) if size > 0]
        shapes = {n: tuple(map(int, text.split(","))) for n, text in pairs("--shape", given.shape).items()}
    except ValueError as error:
        raise MXNetError(f"--warm and --shape are numbers with commas between: {error}") from None
    kind, _, number = given.ctx.partition("(")
    ctx, dtypes, models = Context(kind, int(number.rstrip(")") or 0)), pairs("--dtype", given.dtype), []
    for text in given.models:
        name, source = re.fullmatch(r"(?:([\w.-]+)=)?(.*)", text).groups()
        own = set(Served(source, name).input_names)
        models.append(Served(source, name, ctx, {n: s for n, s in shapes.items() if n in own} or None,
                             {n: t for n, t in dtypes.items() if n in own} or None))
    if len({model.name for model in models}) != len(models):
        raise MXNetError("two models have one name: put NAME= before them")
    serve(models, host=given.host, port=given.port, grpc_port=given.grpc_port or None, warm=warm,
          max_batch=given.max_batch, max_delay=given.max_delay_ms / 1000, queue_size=given.queue, timeout=given.timeout,
          max_bytes=int(given.max_request_mb * (1 << 20)), linger=given.linger, grace=given.grace)
    return 0
