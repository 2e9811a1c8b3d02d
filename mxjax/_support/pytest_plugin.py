"""Removes the library's own frames from pytest's reports; `--full-trace` and `-p no:mxjax` show them."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from .tracebacks import shortened


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Generator[None, Any, Any]:
    """Reports a failed test with its own lines; a debugger opened afterwards has all frames."""
    whole = call.excinfo
    if whole is None or item.config.getoption("fulltrace"):
        return (yield)
    with shortened(whole.value) as hidden:
        if hidden:
            call.excinfo = pytest.ExceptionInfo.from_exception(whole.value)
        try:
            return (yield)
        finally:
            call.excinfo = whole
