"""Name managers, attribute scopes, loggers."""

import logging
import threading

import pytest

from mxjax.attribute import AttrScope
from mxjax.log import get_logger
from mxjax.name import NameManager, Prefix


def current(kind):
    return kind._current.value


def test_names_count_up_per_kind():
    names = NameManager()
    assert [names.get(None, "a"), names.get("", "a"), names.get(None, "b"), names.get("x", "a")] \
        == ["a0", "a1", "b0", "x"]
    assert [Prefix("p_").get(n, "a") for n in (None, "x")] == ["p_a0", "p_x"]


def test_scopes_nest_and_restore():
    outer = current(NameManager)
    with Prefix("p_") as prefix, prefix, NameManager() as inner:
        assert current(NameManager) is inner
        with prefix:
            assert current(NameManager) is prefix
    assert current(NameManager) is outer


def test_a_thread_has_its_own():
    seen = []
    with NameManager() as mine, AttrScope(a="1"):
        thread = threading.Thread(target=lambda: seen.append((current(NameManager), current(AttrScope).get(None))))
        thread.start()
        thread.join()
    assert seen[0][0] is not mine and seen[0][1] == {}


def test_attributes_add_up():
    with AttrScope(a="1", b="2"), AttrScope(b="3") as scope:
        assert scope.get(None) == {"a": "1", "b": "3"}
        assert scope.get({"a": "9"}) == {"a": "9", "b": "3"}
    with scope:
        assert scope.get(None) == {"b": "3"}, "used again elsewhere it forgets the outer scope"
    with pytest.raises(ValueError, match="'a' must be a string"):
        AttrScope(a=1)


def test_current_is_deprecated_but_works():
    with pytest.warns(DeprecationWarning):
        before = AttrScope.current
    try:
        AttrScope.current = AttrScope(x="1")
        assert current(AttrScope).get(None) == {"x": "1"}
    finally:
        AttrScope.current = before


def test_logger(tmp_path, capsys):
    logger = get_logger("test_scopes.file", str(tmp_path / "log"), level=logging.INFO)
    assert get_logger("test_scopes.file") is logger and len(logger.handlers) == 1
    logger.info("hello")
    assert (tmp_path / "log").read_text() == "hello\n"
    get_logger("test_scopes.err", level=logging.INFO).warning("careful")
    shown = capsys.readouterr().err
    assert shown.startswith("\x1b[31mW") and shown.endswith("careful\n") and "test_scopes.py" in shown
