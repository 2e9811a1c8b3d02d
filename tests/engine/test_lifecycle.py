"""What only a process of its own can show: the environment, the exit, the fork."""

import ast
import os
import pathlib
import subprocess
import sys
import textwrap
import time

import pytest

from mxjax import engine
from mxjax.base import MXNetError

ROOT = pathlib.Path(engine.__file__).parents[2]
PROLOGUE = """
import os, sys, threading, time
from mxjax import engine
eng = engine.get()
x = eng.new_variable("x")
"""


def run(code, **environment):
    """Run `code` after the prologue in a fresh interpreter; its return code, output, errors and seconds."""
    start = time.monotonic()
    done = subprocess.run([sys.executable, "-c", PROLOGUE + textwrap.dedent(code)], capture_output=True, text=True,
                          timeout=60, env={**os.environ, "PYTHONPATH": str(ROOT), **environment})
    return done.returncode, done.stdout, done.stderr, time.monotonic() - start


@pytest.mark.parametrize("name", ["ThreadedEnginePerDevice", "ThreadedEngine", "NaiveEngine"])
def test_type_by_environment(monkeypatch, name):
    monkeypatch.setattr(engine, "_engine", None)
    monkeypatch.setenv("MXNET_ENGINE_TYPE", name)
    assert type(engine.get()).__name__ == name
    assert engine.get() is engine.get()


def test_wrong_environment_is_answered_with_what_is_allowed(monkeypatch):
    monkeypatch.setattr(engine, "_engine", None)
    monkeypatch.setenv("MXNET_ENGINE_TYPE", "Bogus")
    with pytest.raises(MXNetError, match="'Bogus': expected one of ThreadedEnginePerDevice, ThreadedEngine, Naive"):
        engine.get()
    monkeypatch.setenv("MXNET_CPU_WORKER_NTHREADS", "none")
    with pytest.raises(MXNetError, match="MXNET_CPU_WORKER_NTHREADS='none': expected a number of threads, 1 or more"):
        engine.ThreadedEngine()


def test_engine_does_not_import_jax():
    for path in pathlib.Path(engine.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.split(".")[0] in ("jax", "jaxlib", "numpy") for name in names), path


@pytest.mark.parametrize("kind", ["ThreadedEnginePerDevice", "NaiveEngine"])
def test_pending_work_is_finished_at_exit(kind):
    code, out, err, _ = run("""
        for i in range(5):
            eng.push(lambda run_ctx, i=i: (time.sleep(0.02), print(i, flush=True)), (), (x,))
        engine.set_bulk_size(100)
        eng.push(lambda run_ctx: print("put off", flush=True), (), (x,))
        """, MXNET_ENGINE_TYPE=kind)
    assert (code, out.split("\n"), err) == (0, ["0", "1", "2", "3", "4", "put off", ""], "")


def test_function_without_end_is_reported_at_exit():
    code, out, err, seconds = run("""
        eng.push(lambda run_ctx: time.sleep(1000), (), (x,), name="sleeper")
        eng.push(lambda run_ctx: None, (x,), name="waiter")
        """, MXJAX_ENGINE_EXIT_TIMEOUT="0.3")
    assert code == 0 and seconds < 30
    assert err == "mxjax engine: abandoned 0.3 s after the end of the program: sleeper, waiter\n"


def test_errors_nobody_waited_for_are_reported_at_exit():
    code, _, err, _ = run("""
        def broken(run_ctx):
            raise ValueError("no such page")
        eng.push(broken, (), (x,))
        """)
    assert code == 0
    assert err == "mxjax engine: errors that were never raised by a wait: broken: ValueError('no such page')\n"


def test_error_in_the_main_thread_keeps_its_exit_status():
    code, out, err, _ = run("""
        eng.push(lambda run_ctx: (time.sleep(0.05), print("done", flush=True)), (), (x,))
        raise SystemExit(3)
        """)
    assert (code, out, err) == (3, "done\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_fork():
    """Work of before is finished first; the child's engine works; the parent's goes on."""
    code, out, err, _ = run("""
        import warnings
        warnings.simplefilter("ignore")
        values = []
        eng.push(lambda run_ctx: (time.sleep(0.05), values.append("before")), (), (x,))
        child = os.fork()
        eng.push(lambda run_ctx: values.append("child" if child == 0 else "parent"), (), (x,))
        eng.wait_for_var(x)
        if child == 0:
            print(values, x.version, flush=True)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        print(values, x.version, flush=True)
        """)
    assert (code, err) == (0, "")
    assert out == "['before', 'child'] 2\n['before', 'parent'] 2\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_fork_with_work_that_does_not_end():
    """Its variables fail in the child instead of blocking it."""
    code, out, err, _ = run("""
        import warnings
        warnings.simplefilter("ignore")
        go, y = threading.Event(), eng.new_variable("y")
        eng.push(lambda run_ctx: go.wait(20), (), (x,), name="slow")
        eng.push(lambda run_ctx: None, (x,), (y,), name="after")
        child = os.fork()
        if child == 0:
            for var in x, y:
                try:
                    eng.wait_for_var(var)
                except Exception as error:
                    print(error, flush=True)
            eng.wait_for_all()
            print(eng.push_sync(lambda run_ctx: "works", (x,), (y,)), flush=True)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        go.set()
        eng.wait_for_all()
        print(x.version, y.version)
        """, MXJAX_ENGINE_EXIT_TIMEOUT="0.2")
    assert (code, err) == (0, "")
    left = "had not finished when this process was forked [mxjax explain forked-process]"
    assert out.split("\n") == [f"engine: slow {left}", f"engine: after {left}", "works", "1 1", ""]
