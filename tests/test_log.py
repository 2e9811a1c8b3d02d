"""mx.log leaves others' loggers and settings alone."""

import subprocess
import sys

import pytest

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
