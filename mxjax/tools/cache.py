"""`python -m mxjax cache [show | clear | pack FILE]`: the compiled programs that are kept in files."""

from __future__ import annotations

import argparse

from .._xla import program_files as _program_files
from ..base import MXNetError

__all__ = ["add_arguments", "main"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("what", nargs="?", choices=("show", "clear", "pack"), default="show",
                        help="clear removes all programs, including those of other machines and versions; pack writes "
                             "the programs of this machine to FILE, which machines of this kind use with "
                             "MXJAX_CACHE_DIR=FILE (programs are machine code: use only files that you trust)")
    parser.add_argument("file", metavar="FILE", nargs="?", help="the output file of pack")
    parser.add_argument("--dir", metavar="FOLDER", help="the cache folder; default: MXJAX_CACHE_DIR or the cache of "
                                                        "the user")


def main(args: argparse.Namespace) -> int:
    """Runs the command with its parsed arguments; returns the exit status."""
    if (args.what == "pack") != (args.file is not None):
        raise MXNetError("cache pack requires the name of the file to write; the other actions take no name")
    if args.what == "clear":
        count, size = _program_files.clear(args.dir)
        print(f"removed {count} programs, {size / 1e6:.1f} MB")
    elif args.what == "pack":
        count, size = _program_files.pack(args.file, args.dir)
        print(f"packed {count} programs, {size / 1e6:.1f} MB, into {args.file}")
    else:
        where = _program_files.folder(args.dir)
        result = _program_files.entries(where)
        print(f"{len(result)} programs, {sum(status.st_size for status in result.values()) / 1e6:.1f} MB in {where}")
    return 0
