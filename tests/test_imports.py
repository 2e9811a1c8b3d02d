"""What is imported when: any module may be the first, and nobody pays for what others need."""

import os
import subprocess
import sys

import pytest

SLOW = ["cv2", "graphviz", "matplotlib", "onnx", "requests", "scipy.sparse", "urllib.request", "mxjax.ndarray",
        "mxjax.kvstore"]


def _run(script):
    subprocess.run([sys.executable, "-c", script], check=True, timeout=200)


def test_importing_mxjax_imports_little():
    _run(f"""
import sys
import jax
before = set(sys.modules)
import mxjax
assert not set({SLOW}) & (set(sys.modules) - before)
""")


def test_help_and_version_of_the_command_line_load_neither_jax_nor_numpy():
    _run("""
import runpy, sys
for option in "--help", "--version":
    sys.argv = ["mxjax", option]
    try:
        runpy.run_module("mxjax", run_name="__main__")
    except SystemExit as end:
        assert not end.code
    else:
        raise AssertionError("it went on")
assert not {"jax", "jaxlib", "numpy"} & set(sys.modules)
""")


def test_all_names_of_the_package():
    _run("""
from mxjax import *
import mxjax
assert cpu(0) == Context("cpu", 0) and issubclass(MXNetError, RuntimeError) and current_context() == mxjax.cpu()
assert all(hasattr(mxjax, name) for name in mxjax.__all__) and mxjax.context.Context is mxjax.Context
""")


def test_an_operators_function_may_be_asked_for_before_the_module_that_replaces_it():
    _run("""
import mxjax as mx
for module in (mx.nd.np._internal, mx.sym.np._internal):
    assert callable(module.empty_like_fallback)
from mxjax.numpy_op_fallback import register
for module in (mx.nd.np._internal, mx.sym.np._internal):
    assert module.empty_like_fallback.func is module.Custom
""")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_each_of_these_can_be_the_first():
    _run("""
import os, traceback
import jax, numpy  # once for all children
import mxjax
for name in ("callback", "image", "image.functions", "initializer", "io", "io.base", "io.image_record", "lr_scheduler",
             "metric", "model", "monitor", "recordio", "rnn", "visualization"):
    child = os.fork()
    if not child:
        try:
            __import__("mxjax." + name)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, name
""")


def test_graphs_find_storage_types_that_nobody_has_imported():
    _run("""
import mxjax as mx
symbol = mx.sym.dot(mx.sym.var("a", stype="csr"), mx.sym.var("b"))
assert symbol.simple_bind(mx.cpu(), a=(2, 3), b=(3, 4)).arg_dict["a"].stype == "csr"
""")


def test_dictionaries_of_namespaces_have_all_names():
    _run("""
import mxjax as mx
for module in (mx.nd, mx.nd.contrib, mx.nd.linalg, mx.nd.op, mx.sym, mx.sym.contrib, mx.npx, mx.nd.np._internal):
    assert set(dir(module)) <= set(vars(module)), module
assert "box_encode" in mx.nd.contrib.__dict__ and "box_encode" in mx.sym.contrib.__dict__
assert mx.nd.__dict__["dot"] is mx.nd.dot and "nobody" not in vars(mx.nd)
import mxjax.numpy_op_fallback
assert mx.nd.np._internal.resize_fallback.keywords == {"op_type": "resize_fallback"}
""")
