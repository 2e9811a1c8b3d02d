"""A long wait for the compiler says so."""

import logging
import threading

import jax.numpy as jnp
import numpy as np
import pytest

from mxjax._support import progress, waiting
from mxjax.kernel.compiled import Compiled


class Heard(logging.Handler):
    """Keeps what a logger is told, and says when."""

    def __init__(self):
        super().__init__()
        self.lines, self.event = [], threading.Event()

    def emit(self, record):
        self.lines.append((record.levelname, record.getMessage()))
        self.event.set()


@pytest.fixture
def heard():
    handler, logger = Heard(), logging.getLogger("mxjax.kernel")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


def test_a_long_block_is_told_of_once_while_it_runs(heard, monkeypatch):
    monkeypatch.setattr(waiting, "_PATIENCE", 0)
    with waiting.telling("mxjax.kernel", "waits for %s", "this"):
        assert heard.event.wait(60)
    assert heard.lines == [("WARNING", "waits for this")]


def test_an_open_bar_says_why_it_stands_still(heard, monkeypatch):
    monkeypatch.setattr(waiting, "_PATIENCE", 0)
    texts, shown = [], threading.Event()

    class Bar:
        def set_postfix_str(self, text):
            texts.append(text)
            if text == "compiling":  # a wait of another test may end here, too
                shown.set()

        def close(self):
            pass
    monkeypatch.setattr(progress, "_bar", lambda **options: Bar())
    with progress.progress("fit"):
        with waiting.telling("mxjax.kernel", "waits", doing="compiling"):
            assert shown.wait(60)
        said = [*texts]
        assert said[-1] == ""
    heard.event.clear()
    with waiting.telling("mxjax.kernel", "waits", doing="compiling"):  # no bar is open
        assert heard.event.wait(60)
    assert texts == said


def test_nothing_is_said_of_a_short_block_and_of_one_that_fails(heard, monkeypatch):
    monkeypatch.setattr(waiting, "_PATIENCE", 1000)
    before = set(threading.enumerate())
    with waiting.telling("mxjax.kernel", "waits"):
        timer, = set(threading.enumerate()) - before
    timer.join(60)
    with pytest.raises(KeyError), waiting.telling("mxjax.kernel", "waits"):
        timer, = set(threading.enumerate()) - before
        raise KeyError
    timer.join(60)
    assert heard.lines == [] and not timer.is_alive()


@pytest.mark.usefixtures("at_once")
def test_a_large_program_is_named_at_its_first_call_only(heard, monkeypatch):
    monkeypatch.setattr(waiting, "_PATIENCE", 0)

    def many(x):
        for i in range(150):
            x = x + jnp.float32(i)
        return x
    few, large = Compiled(lambda x: x + 1), Compiled(many)
    for _ in range(3):
        few(jnp.ones(3))
        result = large(jnp.ones(3))
    assert heard.event.wait(60)
    np.testing.assert_allclose(result, 1 + 150 * 149 / 2, rtol=1e-5)
    (level, line), = heard.lines
    assert level == "WARNING" and line.startswith("XLA compiles a program of 1") and "(many)" in line
