"""mx.log leaves others' loggers and settings alone."""

import logging
import subprocess
import sys

import pytest

from mxjax import log

_STATE = """
import logging, jax
print(logging.root.manager.disable, sorted(jax.config.values.items(), key=str))
for name in ("", "jax", "jax._src", "jaxlib", "absl"):
    logger = logging.getLogger(name)
    print(name, logger.level, logger.handlers, logger.filters, logger.propagate, logger.disabled)
"""


def _state(imports):
    return subprocess.run([sys.executable, "-c", imports + _STATE], capture_output=True, text=True, check=True,
                          timeout=100).stdout


@pytest.fixture(scope="module")
def untouched():
    return _state("")


@pytest.mark.parametrize("imports", ["import jax, mxjax, mxjax.log", "import mxjax.log, jax"])
def test_importing_changes_no_setting_of_jax_or_of_its_loggers(imports, untouched):
    assert "jax" in untouched and _state(imports) == untouched


@pytest.mark.parametrize("level, head", [
    (logging.CRITICAL, "\x1b[31mC"), (logging.ERROR, "\x1b[31mE"), (logging.WARNING, "\x1b[31mW"),
    (logging.INFO, "\x1b[32mI"), (logging.DEBUG, "\x1b[34mD"), (logging.INFO + 1, "\x1b[32mU")])
def test_lines(level, head):
    """A letter in the colour of the level, time, process and place, as in MXNet."""
    (handler,) = log.get_logger(f"test of level {level}", level=level).handlers
    record = logging.LogRecord("name", level, "file.py", 7, "message of %d", (3,), None, "function")
    record.created, record.process = 0.0, 42
    line = handler.formatter.format(record)
    assert line.startswith(head) and line.endswith(" 42 file.py:function:7]\x1b[0m message of 3")
    assert len(line) == len(f"{head}0101 00:00:00 42 file.py:function:7]\x1b[0m message of 3")
