"""`python -m mxjax plan MODEL-symbol.json --shape data=64,3,224,224 --on h100`: a model on absent devices."""

from __future__ import annotations

import argparse
import os

import jax

from .._support.progress import progress
from ..base import MXNetError
from ..plan import Plan
from ..symbol import load
from ..symbol._plan import plan_of
from ._model import graph_of

__all__ = ["add_arguments", "main"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("model", metavar="MODEL", help="PREFIX of PREFIX-symbol.json, the file itself, or its folder; "
                        "parameters are not needed")
    parser.add_argument("--shape", action="append", default=[], metavar="NAME=N,N,...",
                        help="shape of an input over all devices, e.g. data=64,3,224,224; repeat for each input")
    parser.add_argument("--on", required=True, metavar="DEVICES",
                        help="h100, h200, a100, l4, h100x8; v5e:1x1 ... v5e:16x16, v6e:2x2 ...")
    parser.add_argument("--train", choices=("sgd", "adam"), help="plan a training step instead of a prediction")
    parser.add_argument("--dtype", default="float32", help="dtype of the inputs and of the computation")
    parser.add_argument("--batch", metavar="N|largest", help="batch size, or the largest that fits on a device")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def main(args: argparse.Namespace) -> int:
    """Runs the command; returns the exit status: 1 where the model does not fit."""
    if not os.environ.get("JAX_PLATFORMS"):  # nothing is computed here, and a device may be in use
        jax.config.update("jax_platforms", "cpu")
    shapes = {}
    for text in args.shape:
        name, result, lengths = text.partition("=")
        try:
            shapes[name] = tuple(int(n) for n in lengths.split(","))
        except ValueError:
            result = ""
        if not result:
            raise MXNetError(f"--shape must be NAME=N,N,..., got {text!r}")
    if args.batch not in (None, "largest") and not args.batch.isdecimal():
        raise MXNetError(f"--batch must be a number or largest, got {args.batch!r}")
    symbol = load(graph_of(args.model))
    with progress("compiled", unit=" batches") as bar:
        def report(plan: Plan) -> None:
            bar.set_postfix_str(f"{plan.batch} {'fits' if plan.fits else 'does not fit'}")
            bar.update()
        result = plan_of(symbol, args.on, shapes, train=args.train, dtype=args.dtype, batch=args.batch, report=report)
    print(result.to_json() if args.json else result)
    return int(not result.fits)
