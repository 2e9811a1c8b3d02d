"""The table of environment variables."""

import pathlib
import re

import pytest

import mxjax
from mxjax._support import settings
from mxjax.base import MXNetError

ROOT = pathlib.Path(mxjax.__file__).parent


@pytest.mark.parametrize("setting, text, value", [
    (settings.ENFORCE_DETERMINISM, "1", True), (settings.ENFORCE_DETERMINISM, "0", False),
    (settings.MKLDNN_ENABLED, "", True), (settings.TRACEBACK_FILTERING, "off", False),
    (settings.BIGARRAY_BOUND, "12", 12), (settings.JOIN_TIMEOUT, "0.5", 0.5), (settings.HOME, "/data", "/data")])
def test_values(setting, text, value, monkeypatch):
    monkeypatch.delenv(setting.name, raising=False)
    assert setting() == setting.default
    monkeypatch.setenv(setting.name, text)
    assert setting() == value and type(setting()) is type(value)


@pytest.mark.parametrize("setting, text, expected", [
    (settings.BIGARRAY_BOUND, "many", "a number of values"),
    (settings.CPU_WORKERS, "0", "a number of threads, 1 or more"),
    (settings.JOIN_TIMEOUT, "soon", "a number of seconds, 0 or more"),
    (settings.JOIN_TIMEOUT, "-1", "a number of seconds"),
    (settings.JOIN_TIMEOUT, "nan", "a number of seconds"), (settings.UNPACK_LIMIT, "1e9", "a number of bytes")])
def test_a_text_that_is_no_value(setting, text, expected, monkeypatch):
    monkeypatch.setenv(setting.name, text)
    with pytest.raises(MXNetError, match=f"{setting.name}='{text}': expected {expected}"):
        setting()


def test_every_variable_is_in_the_table():
    """Others than the table's are not read, but for those that must be known before it can be loaded."""
    read = re.compile(r"""(?:environ(?:\.get\(|\[)|getenv\()\s*["']((?:MXNET|MXJAX)_[A-Z_]+)["'](?!\]\s*=[^=])""")
    others = {(path.name, name) for path in ROOT.rglob("*.py") for name in read.findall(path.read_text("utf-8"))}
    assert others == {("level.py", "MXJAX_API"), ("base.py", "MXNET_HOME"), ("alias.py", "MXJAX_API")}
    assert all(setting.meaning and setting.shown for setting in settings.TABLE.values())
