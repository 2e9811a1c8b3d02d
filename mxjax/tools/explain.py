"""`python -m mxjax explain CODE`: cause and solution of an error, by the code at the end of its message.

Without a code it lists all kinds; a text that is no code is taken for a message, whose kind it finds.
"""

from __future__ import annotations

import argparse
import difflib
import re
from pathlib import Path

from .._support.error_kinds import CODES, kind_of
from ..base import MXNetError

__all__ = ["add_arguments", "main", "sections"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("code", nargs="?", help="the code of an error, such as shape-mismatch, or the whole message")


def main(args: argparse.Namespace) -> int:
    """Prints a section, or the list of all; returns the exit status."""
    result = sections()
    if args.code is None:
        for code, text in result.items():
            print(f"{code:26s}{_cause(text)}")
        return 0
    code = args.code.strip("[] ").removeprefix("mxjax explain ")
    if code not in result:
        code = kind_of(args.code)
    if code not in result:
        near = difflib.get_close_matches(args.code, CODES, 1)
        raise MXNetError(f"explain: unknown error code {args.code!r}" + (
            f"; did you mean {near[0]}?" if near else "; `mxjax explain` lists all"))
    print(f"{code}\n\n{result[code]}")
    return 0


def sections() -> dict[str, str]:
    """Returns the text of each kind of errors, as the page of the documentation has it."""
    page = Path(__file__).with_name("errors.md").read_text(encoding="utf-8")
    parts = re.split(r"^#{2,3} (.*)\n", page, flags=re.MULTILINE)
    return {code: text.strip() for code, text in zip(parts[1::2], parts[2::2], strict=True) if "**Cause.**" in text}


def _cause(text: str) -> str:
    """The first sentence of a section."""
    return re.split(r"[.:;](?:\s|$)", text.removeprefix("**Cause.** ").replace("\n", " "), maxsplit=1)[0]
