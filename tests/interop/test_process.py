"""What importing mxjax does to a process (nothing), the `mxnet` alias, and the command line."""

import importlib.metadata
import json
import os
import pathlib
import subprocess
import sys
import zipfile

import pytest

import mxjax

_IMPORT = """
import json, os, sys, threading
import jax
def settings():
    return {n: repr(getattr(jax.config, n)) for n in dir(jax.config) if n.startswith("jax_")}
before, environment, threads = settings(), dict(os.environ), threading.active_count()
import mxjax as mx
for name in ("nd", "sym", "autograd", "mod", "kv", "io", "optimizer", "random", "operator", "interop", "test_utils",
             "engine", "executor", "metric", "init"):
    getattr(mx, name)
dir(mx.nd), mx.nd.FullyConnected, mx.sym.FullyConnected
x = mx.sym.FullyConnected(mx.sym.Variable("x"), num_hidden=3)
from jax._src import xla_bridge
print(json.dumps({"changed": sorted(n for n, v in settings().items() if before.get(n) != v),
                  "environment": os.environ == environment, "threads": threading.active_count() - threads,
                  "backend": xla_bridge.backends_are_initialized(), "cpu": str(mx.cpu(0)) == "cpu(0)"}))
"""


def run(*arguments, **kwargs):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=200, **kwargs)


def test_importing_changes_nothing():
    done = run("-c", _IMPORT)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout) == {"changed": [], "environment": True, "threads": 0, "backend": False,
                                       "cpu": True}


def test_what_scripts_expect_to_be_imported():
    assert run("-c", "import multiprocessing, mxjax; multiprocessing.pool.ThreadPool").returncode == 0


def test_using_changes_nothing():
    done = run("-c", """
import jax
def settings():
    return {n: repr(getattr(jax.config, n)) for n in dir(jax.config) if n.startswith("jax_")}
before = settings()
import mxjax as mx
x = mx.nd.array([1.0], dtype="float64"); x.attach_grad()
with mx.autograd.record():
    y = mx.nd.Dropout(x * 2 + mx.nd.random.uniform(shape=(1,)).astype("float64"))
y.backward(); mx.nd.waitall(); mx.random.seed(0)
assert jax.numpy.asarray(1.5).dtype == "float32"
assert settings() == before
print("good")
""")
    assert done.stdout == "good\n", done.stderr[-3000:]


@pytest.mark.parametrize("level, told", [("NOTSET", False), ("DEBUG", True)])
def test_a_debugging_script_hears_of_jax_if_it_asks(level, told):
    done = run("-c", f"""
import logging
logging.basicConfig(level=logging.DEBUG)
logging.getLogger("jax").setLevel(logging.{level})
import mxjax as mx
mx.nd.dot(mx.nd.ones((9, 9)), mx.nd.ones((9, 9))).wait_to_read()
logging.debug("own words")
""", env={**os.environ, "MXNET_ENFORCE_DETERMINISM": "1"})
    assert done.returncode == 0 and "own words" in done.stderr, done.stderr[-3000:]
    assert ("jax._src" in done.stderr) is told


@pytest.mark.parametrize("level, told", [(None, False), ("DEBUG", True)])
def test_what_jax_tells_of_programs_is_no_part_of_a_scripts_log(tmp_path, level, told):
    script = tmp_path / "script.py"
    script.write_text("""
import logging
import mxnet as mx
logging.getLogger().setLevel(logging.DEBUG)
logging.debug("own words")
mx.nd.dot(mx.nd.ones((9, 9)), mx.nd.ones((9, 9))).wait_to_read()
""")
    done = run("-m", "mxjax", "run", "--no-cache", str(script),
               env={**os.environ, **({"JAX_LOGGING_LEVEL": level} if level else {})})
    assert done.returncode == 0 and "own words" in done.stderr, done.stderr[-3000:]
    assert ("jax._src" in done.stderr) is told


def test_run_a_script_that_says_mxnet(tmp_path):
    (tmp_path / "helper.py").write_text("import mxnet\nzeros = mxnet.nd.zeros\n")
    script = tmp_path / "script.py"
    script.write_text("""
import sys
import mxnet as mx
from mxnet import nd, autograd, gluon
from mxnet.ndarray import NDArray
import mxnet.symbol as sym
from helper import zeros
import mxjax
assert mx is mxjax and isinstance(zeros((2,)), NDArray) and sym is mxjax.symbol and __name__ == "__main__"
try:
    import mxnet.no_such_module
except ModuleNotFoundError as error:
    print(error.name)
print(sys.argv[1:])
""")
    done = run("-m", "mxjax", "run", str(script), "--rate", "3")
    assert done.stdout == "mxnet.no_such_module\n['--rate', '3']\n", done.stderr[-3000:]
    script.write_text("raise SystemExit(7)")
    assert run("-m", "mxjax", "run", str(script)).returncode == 7
    missing = run("-m", "mxjax", "run", str(tmp_path / "nothing.py"))
    assert missing.returncode == 2 and "nothing.py" in missing.stderr


_STARTS_OTHERS = """
import concurrent.futures, importlib.metadata, importlib.util, multiprocessing, pickle, subprocess, sys
import mxnet as mx

def work(n):
    import mxnet
    from mxnet import nd
    import mxnet.gluon.nn as nn
    return float(nd.ones((n,)).sum().asscalar()), mxnet.__version__, nn.Dense.__name__

def told(*arguments, **how):
    done = subprocess.run([sys.executable, *arguments], capture_output=True, **how)
    return done.returncode, (done.stdout or done.stderr[-2000:]).decode().strip()

if __name__ == "__main__":
    for how in ("spawn", "forkserver"):
        with multiprocessing.get_context(how).Pool(1) as pool:
            print(how, pool.map_async(work, [3]).get(100))
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        print(pool.submit(work, 2).result(100))
    print(told("-c", '''
import importlib.metadata, importlib.util, sys
before = [importlib.util.find_spec(name) is not None for name in ("mxnet", "mxnet.nd", "mxnet.nothing")]
import mxnet_predict, mxnet.gluon.nn as nn, mxjax
from mxnet.gluon.data import DataLoader
print(before, sys.modules["mxnet"] is mxjax, mxnet_predict.Predictor.__module__, nn is mxjax.gluon.nn)
print(importlib.metadata.version("mxnet"), importlib.metadata.packages_distributions()["mxnet"])
'''))
    print(told("-c", "import pickle, sys; print(*pickle.load(sys.stdin.buffer), sep=', ')",
               input=pickle.dumps([mx.nd.ones(2).asnumpy(), mx.nd.ones(2).shape, mx.gluon.nn.Dense, mx.sym.var("x")])))
    status, words = told("-m", "mxnet")
    print(status, "cannot be directly executed" in words)
    print(importlib.metadata.version("mxnet"), importlib.util.find_spec("mxnet.gluon") is not None)
"""


@pytest.mark.slow
def test_processes_that_a_script_starts_have_the_alias(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(_STARTS_OTHERS)
    done = run("-m", "mxjax", "run", str(script))
    assert done.stdout.splitlines() == [
        "spawn [(3.0, '1.9.1', 'Dense')]", "forkserver [(3.0, '1.9.1', 'Dense')]", "(2.0, '1.9.1', 'Dense')",
        "(0, \"[True, True, False] True mxjax.predictor True\\n1.9.1 ['mxnet']\")",
        "(0, \"[1. 1.], (2,), <class 'mxjax.gluon.nn.basic_layers.Dense'>, <Symbol x>\")", "1 True", "1.9.1 True"], \
        done.stdout + done.stderr[-3000:]


def test_children_of_a_program_have_the_alias_where_it_says_so():
    for children, expected in (True, 0), (False, 1):
        done = run("-c", f"""
import os, subprocess, sys
import mxjax
mxjax.interop.install_mxnet_alias()
mxjax.interop.install_mxnet_alias(children={children})
mxjax.interop.install_mxnet_alias(children={children})
paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
print(subprocess.run([sys.executable, "-c", "import mxnet"], stderr=subprocess.DEVNULL).returncode,
      sum("for_children" in path for path in paths))
""")
        assert done.stdout == f"{expected} {int(children)}\n", done.stderr[-3000:]


def test_another_python_goes_on_to_its_own_mxnet(tmp_path):
    paths = [str(pathlib.Path(mxjax.__file__).parent / "interop" / "for_children"), str(tmp_path)]
    code = f"import sys; sys.path[:0] = {paths}; import mxnet; print(mxnet.own)"
    done = run("-I", "-S", "-c", code)
    assert done.returncode == 1 and "No module named 'mxnet'" in done.stderr
    (tmp_path / "mxnet.py").write_text("own = 'its own'\n")
    done = run("-I", "-S", "-c", code)
    assert done.stdout == "its own\n", done.stderr


def test_the_version_for_children_is_the_librarys():
    found, = importlib.metadata.distributions(
        name="mxnet", path=[str(pathlib.Path(mxjax.__file__).parent / "interop" / "for_children")])
    assert found.version == mxjax.__version__


@pytest.mark.parametrize("name, words", [
    ("no_such_module", "No module named no_such_module"), ("no.such.module", "No module named no.such.module"),
    ("json", "No module named json.__main__; 'json' is a package and cannot be directly executed"),
    ("mxnet", "No module named mxnet.__main__; 'mxnet' is a package and cannot be directly executed")])
def test_a_module_that_cannot_be_run_is_told_in_a_line(name, words):
    done = run("-m", "mxjax", "run", "--no-cache", "-m", name)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1] == f"python -m mxjax run: {words}" and "Traceback" not in done.stderr


def test_an_error_in_a_module_stays_one(tmp_path):
    (tmp_path / "broken.py").write_text("import no_such_module\n")
    done = run("-m", "mxjax", "run", "--no-cache", "-m", "broken", cwd=tmp_path)
    assert done.returncode == 1 and "Traceback" in done.stderr and "No module named 'no_such_module'" in done.stderr


def test_a_tool_is_named_once():
    done = run("-m", "mxjax", "launch", "-n", "0", "script.py")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("python -m mxjax launch: 0 workers and 0 servers")


@pytest.mark.parametrize("names", [True, False])
def test_pillow_gets_its_names_back(tmp_path, names):
    (tmp_path / "PIL").mkdir()
    (tmp_path / "PIL" / "__init__.py").touch()
    (tmp_path / "PIL" / "Image.py").write_text("LANCZOS, BILINEAR, BICUBIC, LINEAR = 1, 2, 3, 'its own'\n")
    for first in ("import mxjax", "import PIL.Image, mxjax"):
        done = run("-c", f"""
{first}
mxjax.interop.install_mxnet_alias(numpy_names={names})
from PIL import Image
print(getattr(Image, "ANTIALIAS", None), Image.LINEAR, getattr(Image, "CUBIC", None), Image.__spec__.name)
""", env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(pathlib.Path(mxjax.__file__).parents[1])])})
        assert done.stdout == f"{1 if names else None} its own {3 if names else None} PIL.Image\n", done.stderr[-3000:]


def test_pillow_in_a_zip_file_gets_its_names_back(tmp_path):
    with zipfile.ZipFile(tmp_path / "pillow.zip", "w") as file:
        for name, text in (("__init__", ""), ("Image", "LANCZOS = 1"), ("ImageDraw", "LANCZOS = 2")):
            file.writestr(f"PIL/{name}.py", text)
    done = run("-c", """
import mxjax
mxjax.interop.install_mxnet_alias()
from PIL import Image, ImageDraw
print(Image.ANTIALIAS, hasattr(ImageDraw, "ANTIALIAS"))
""", env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path / "pillow.zip"),
                                                      str(pathlib.Path(mxjax.__file__).parents[1])])})
    assert done.stdout == "1 False\n", done.stderr[-3000:]


def test_pydoc_pickle_and_find_spec_know_the_alias(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("""
import importlib.util, pickle, pydoc
print([type(pydoc.locate("mxnet." + name)).__name__ for name in
       ("nd.array", "gluon.nn.Dense", "np.random.uniform", "mod.Module.fit", "nothing", "nd.nothing", "gluon.no.more")])
print([importlib.util.find_spec("mxnet" + name) is not None for name in
       ("", ".gluon.nn", ".onnx.mx2onnx", ".ndarray.numpy.random", ".nothing", ".gluon.nothing")])
import mxnet as mx
import mxnet.nd.contrib
for function in (mx.np.random.uniform, mx.np.ones, mx.sym.np.ones, mx.npx.random.bernoulli, mx.gluon.nn.Dense):
    assert pickle.loads(pickle.dumps(function)) is function
# libraries write this name into files; other processes need not know it
assert f"{mx.Context.__module__}.{mx.Context.__qualname__}" == "mxnet.context.Context"
assert pydoc.locate("mxnet.context.Context") is mx.Context and b"mxnet" not in pickle.dumps(mx.cpu(1))
""")
    done = run("-m", "mxjax", "run", str(script))
    assert done.stdout == ("['function', 'type', 'function', 'function', 'NoneType', 'NoneType', 'NoneType']\n"
                           "[True, True, True, True, False, False]\n"), done.stderr[-3000:]
    told = run("-m", "mxjax", "run", "-m", "pydoc", "mxnet.gluon.nn").stdout
    assert told.startswith("Help on package mxjax.gluon.nn in mxnet.gluon") and "class Dense(" in told


def test_the_alias_does_not_replace_a_real_mxnet():
    done = run("-c", """
import sys, types
sys.modules["mxnet"] = types.ModuleType("mxnet")
import mxjax
try:
    mxjax.interop.install_mxnet_alias()
except RuntimeError as error:
    print(error)
""")
    assert "already imported" in done.stdout, done.stderr[-3000:]


@pytest.mark.parametrize("wanted", [True, False])
def test_the_alias_gives_back_dropped_names(wanted):
    done = run("-c", f"""
import collections, inspect, time
import numpy as np
import mxjax
mxjax.interop.install_mxnet_alias(numpy_names={wanted})
try:
    print(np.int is int, np.float is float, np.asscalar(np.array([3])), np.product([2, 3]), np.in1d([[1, 2]], [2]))
    print(np.fromstring(b"\\1\\2", np.uint8), np.fromstring("1, 2", sep=","), np.math.sqrt(4), np.AxisError.__name__)
    print(isinstance([], collections.Iterable), time.clock() > 0, inspect.getargspec(lambda a, b=1: a)[0])
    print(inspect.getargspec(lambda a, *b, c=1: a), isinstance(inspect.getargspec(lambda: 0).args, list))
except AttributeError:
    print("dropped")
""")
    expected = ("True True 3 6 [False  True]\n[1 2] [1. 2.] 2.0 AxisError\nTrue True ['a', 'b']\n"
                "ArgSpec(args=['a'], varargs='b', keywords=None, defaults=None) True\n" if wanted else
                "dropped\n")
    assert done.stdout == expected, done.stderr[-3000:]


@pytest.mark.parametrize("wanted", [True, False])
def test_the_alias_gives_back_arguments_of_numpy(wanted):
    done = run("-c", f"""
import numpy as np
import mxjax
mxjax.interop.install_mxnet_alias(numpy_names={wanted})
import mxnet as mx
x = np.zeros((2, 3))
for call in (lambda: np.array([1, 2], copy=False), lambda: np.shares_memory(x, np.array(x, copy=False)),
             lambda: np.reshape(x, newshape=(-1,)).shape, lambda: np.vstack(np.ones(2) for _ in range(2)).shape,
             lambda: np.hstack(map(np.array, [[1], [2]])), lambda: np.percentile([1, 2, 3], 60, interpolation="lower"),
             lambda: np.array([[1, 2], [3]]), lambda: np.asarray([[1, 2], [3]]).dtype,
             lambda: np.array([[1, 2], [3]], np.int32), lambda: mx.nd.array([[1, 2], [3]])):
    try:
        print(call())
    except (TypeError, ValueError) as error:
        print(type(error).__name__)
a = mx.np.ones((2, 3))
print([type(y) is mx.np.ndarray for y in (np.reshape(a, (3, 2)), np.vstack([a, a]))], np.reshape([1, 2], (2, 1)).shape)
""")
    lines = done.stdout.splitlines()
    assert lines[-1] == "[True, True] (2, 1)", done.stderr[-3000:]
    if wanted:
        assert lines[:-1] == ["[1 2]", "True", "(6,)", "(2, 2)", "[1 2]", "2", "[list([1, 2]) list([3])]", "object",
                              "ValueError", "TypeError"]
        assert "VisibleDeprecationWarning" in done.stderr
    else:
        assert lines[0] == "ValueError" and lines[1] == "True"


def test_what_importing_mxnet_has_loaded():
    done = run("-c", """
import sys
import mxjax
mxjax.interop.install_mxnet_alias()
import mxnet
for name in ("ndarray", "ndarray.op", "ndarray._internal", "symbol.op"):
    assert sys.modules[f"mxnet.{name}"] is sys.modules[f"mxjax.{name}"], name
print(sys.modules["mxnet.ndarray.op"].exp(mxnet.nd.zeros(1)).asnumpy(), mxnet.nd.__name__, mxnet.sym.__name__)
""")
    assert done.stdout == "[1.] mxnet.ndarray mxnet.symbol\n", done.stderr[-3000:]


def test_names_that_libraries_import():
    done = run("-c", """
import mxjax
mxjax.interop.install_mxnet_alias()
import mxnet as mx
from mxnet.base import NDArrayHandle, SymbolHandle, _as_list
from mxnet.contrib.amp.amp import _amp_initialized
from mxnet.gluon.block import _flatten, _regroup
from mxnet.gluon.data.dataloader import ForkingPickler, _as_in_context, _MultiWorkerIter
from mxnet.executor_manager import _split_input_slice
from mxnet.gluon.loss import _apply_weighting, _reshape_like
from mxnet.gluon.utils import _get_repo_file_url, _get_repo_url, replace_file
from mxnet.image.image import _get_interp_method
from mxnet.module.base_module import BaseModule, _as_list, _check_input_names, _parse_data_desc
from mxnet.ndarray.ndarray import _DTYPE_MX_TO_NP, _DTYPE_NP_TO_MX
stars = {}
for module in ("callback", "gluon.data.vision.transforms", "image", "image.detection", "image.image", "initializer",
               "lr_scheduler", "metric", "model", "rnn"):
    exec(f"from mxnet.{module} import *", stars.setdefault(module, {}))
assert stars["initializer"]["random"] is mx.random and stars["image"]["random"].__name__ == "random"
assert stars["image"]["nd"] is stars["model"]["nd"] is mx.nd and stars["metric"]["numpy"].__name__ == "numpy"
assert stars["initializer"]["Xavier"] is mx.init.Xavier and stars["rnn"]["init"] is mx.init
assert stars["gluon.data.vision.transforms"]["image"] is mx.image and stars["lr_scheduler"]["cos"](0) == 1
print(mx.__version__, mx.libinfo.__version__, _DTYPE_MX_TO_NP[_DTYPE_NP_TO_MX[mx.nd.zeros(1, dtype="int8").dtype]])
""")
    assert done.stdout == "1.9.1 1.9.1 <class 'numpy.int8'>\n", done.stderr[-3000:]


def test_info():
    done = run("-m", "mxjax", "info")
    assert done.returncode == 0, done.stderr[-3000:]
    for word in ("mxjax", "1.9.1", "jax ", "devices", "cpu:0", "ThreadedEnginePerDevice"):
        assert word in done.stdout
