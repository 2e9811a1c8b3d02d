"""`python -m mxjax cache [--clear]`: the compiled programs that are kept in files."""

from __future__ import annotations

import argparse

from .. import _program_files

__all__ = ["add_arguments", "main"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("--clear", action="store_true", help="remove them all, of other machines and versions too")
    parser.add_argument("--dir", metavar="FOLDER", help="another folder than MXJAX_CACHE_DIR, or the user's")


def main(given: argparse.Namespace) -> int:
    """Runs the command with its parsed arguments; returns the exit status."""
    if given.clear:
        count, size = _program_files.clear(given.dir)
        print(f"removed {count} programs, {size / 1e6:.1f} MB")
        return 0
    where = _program_files.folder(given.dir)
    found = _program_files.entries(where)
    print(f"{len(found)} programs, {sum(status.st_size for status in found.values()) / 1e6:.1f} MB in {where}")
    return 0
