"""The stand-in for `mxnet` in an environment: who finds it there, and what is installed, refused and removed."""

import argparse
import base64
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile

import pytest

import mxjax as mx
from mxjax.tools import alias

ROOT = pathlib.Path(mx.__file__).parents[1]
GOOD = ["1.9.1", True, "Dense"]

# what a program of MXNet's time does in a process
WORK = """
def work(number):
    import mxnet as mx
    from mxnet import nd
    import mxnet.gluon.nn as nn
    import mxjax
    return mx.__version__, mx is mxjax and isinstance(nd.zeros((number,)), mx.nd.NDArray), nn.Dense.__name__
"""

SCRIPT = """
import importlib.metadata, importlib.util, json, multiprocessing, pickle, subprocess, sys

answers = {}

def in_pool(kind):
    with multiprocessing.get_context(kind).Pool(1) as pool:
        return pool.map_async(work, [2]).get(100)[0]

class Numbers:
    def __len__(self):
        return 2
    def __getitem__(self, index):
        return str(work(2))

def by_loader():
    from mxnet.gluon.data import DataLoader
    return eval(list(DataLoader(Numbers(), 1, batchify_fn=list, num_workers=1, thread_pool=False))[0][0])

def by_loky():
    from joblib.externals import loky
    return loky.get_reusable_executor(max_workers=1).submit(work, 2).result(100)

def by_dask():
    import dask.distributed
    with dask.distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster, \\
            dask.distributed.Client(cluster) as client:
        return client.submit(work, 2).result(100)

def by_ray():
    import ray
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    try:
        return ray.get(ray.remote(work).remote(2), timeout=100)
    finally:
        ray.shutdown()

def by_notebook():
    import nbclient, nbformat
    code = MODULE + "\\nprint(work(2))"
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    nbclient.NotebookClient(book, timeout=100, kernel_name="python3").execute()
    return eval(book.cells[0].outputs[0]["text"])

def by_command(*command):
    return eval(subprocess.run([sys.executable, *command], capture_output=True, text=True, check=True).stdout)

def elsewhere():
    import mxnet as mx
    data = pickle.dumps([mx.gluon.nn.Dense, mx.sym.var("x")]).replace(b"mxjax", b"mxnet")  # as MXNet has pickled it
    code = "import pickle, sys; block, x = pickle.load(sys.stdin.buffer); " \\
        "print((sys.modules['mxnet'].__version__, x.name == 'x', block.__name__))"
    done = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True, check=True)
    return eval(done.stdout)

def specs():
    names = ["mxnet", "mxnet.nd", "mxnet.gluon.nn", "mxnet.nothing", "mxnet_predict"]
    return by_command("-c", f"import importlib.util; "
                      f"print([importlib.util.find_spec(name) is not None for name in {names}])")

def metadata():
    return by_command("-c", "import importlib.metadata as m; print([m.version('mxnet'), "
                      "m.packages_distributions()['mxnet'], m.packages_distributions()['mxnet_predict']])")

WAYS = {"spawn": lambda: in_pool("spawn"), "forkserver": lambda: in_pool("forkserver"), "loky": by_loky,
        "dask": by_dask, "ray": by_ray, "nbclient": by_notebook,
        "subprocess": lambda: by_command(sys.argv[1]), "-c": lambda: by_command("-c", MODULE + "\\nprint(work(2))"),
        "-m": lambda: by_command("-m", "some_module"), "unpickling": elsewhere, "find_spec": specs,
        "metadata": metadata, "loader": by_loader, "fork": lambda: in_pool("fork"), "script": lambda: work(2)}

if __name__ == "__main__":
    for name in sys.argv[2:]:  # the script itself has no mxnet before its children had it
        answers[name] = WAYS[name]()
    print("ANSWERS", json.dumps(answers))
"""

# by situation: the library it needs, and the answer
SITUATIONS = {
    "spawn": (None, GOOD), "forkserver": (None, GOOD), "loky": ("joblib", GOOD), "dask": ("distributed", GOOD),
    "ray": ("ray", GOOD), "nbclient": ("nbclient", GOOD), "subprocess": (None, GOOD),
    "-c": (None, GOOD), "-m": (None, GOOD), "unpickling": (None, GOOD),
    "find_spec": (None, [True, True, True, False, True]),
    "metadata": (None, [alias.VERSION, ["mxnet"], ["mxnet"]]), "loader": (None, GOOD), "fork": (None, GOOD),
    "script": (None, GOOD)}


def is_here(library):
    return library is None or importlib.util.find_spec(library) is not None


def new_environment(folder):
    """The Python of a new environment that has all of this one's, and its folder of modules."""
    venv.EnvBuilder(symlinks=os.name != "nt").create(folder)
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    done = call(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", folder=folder)
    modules = pathlib.Path(done.stdout.strip())
    paths = [str(ROOT), *(path for path in sys.path if pathlib.Path(path).name == "site-packages")]
    (modules / "others.pth").write_text("\n".join(paths) + "\n")
    return python, modules


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """The Python of an environment that has all of this one's, and the stand-in."""
    folder = tmp_path_factory.mktemp("environment")
    python, modules = new_environment(folder)
    done = call(python, "-m", "mxjax", "alias", "install", folder=folder)
    assert done.returncode == 0 and str(modules) in done.stdout, done.stderr
    return python


def call(python, *arguments, folder):
    """A process without this one's paths."""
    surroundings = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run([python, *map(str, arguments)], capture_output=True, text=True, timeout=250, cwd=folder,
                          env=surroundings)


def answers_in(environment, folder, situations):
    """What a script answers in these situations."""
    module = folder / "some_module.py"
    module.write_text(WORK + "if __name__ == '__main__':\n    print(work(2))\n")
    script = folder / "script.py"
    script.write_text(f"MODULE = {WORK!r}\n{WORK}\n{SCRIPT}")
    done = call(environment, script, module, *situations, folder=folder)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    line, = [line for line in done.stdout.splitlines() if line.startswith("ANSWERS ")]
    return json.loads(line.removeprefix("ANSWERS "))


@pytest.fixture(scope="module")
def answers(environment, tmp_path_factory):
    return answers_in(environment, tmp_path_factory.mktemp("situations"),
                      [name for name, (library, _) in SITUATIONS.items() if is_here(library)])


@pytest.mark.parametrize("situation", SITUATIONS)
def test_every_process_of_the_environment_finds_it(answers, situation):
    library, expected = SITUATIONS[situation]
    if not is_here(library):
        pytest.skip(f"{library} is not installed")
    assert answers[situation] == expected


@pytest.mark.parametrize("workers", [None, 1])
def test_pytest_and_its_workers_find_it(environment, tmp_path, workers):
    if workers:
        pytest.importorskip("xdist")
    (tmp_path / "test_old.py").write_text(f"{WORK}\ndef test_work():\n    assert work(2) == {tuple(GOOD)}\n")
    done = call(environment, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(["-n", workers] if workers else []),
                "test_old.py", folder=tmp_path)
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr


THREADS = """
import sys, threading
sys.setswitchinterval(1e-6)
names, start = [], threading.Barrier(8)

def work(number):
    start.wait()
    import mxnet
    from mxnet import nd
    import mxnet.gluon.nn
    names.append((mxnet.__version__, mxnet.gluon.nn.Dense.__name__, nd.__name__))

threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(set(names), len(names))
"""


def test_threads_that_import_it_at_once(environment, tmp_path):
    done = call(environment, "-c", THREADS, folder=tmp_path)
    assert done.stdout == "{('1.9.1', 'Dense', 'mxnet.ndarray')} 8\n", done.stdout + done.stderr[-3000:]


MODULES_AT_ONCE = """
import sys, threading, importlib
sys.setswitchinterval(1e-6)
names = ["mxnet.gluon.nn", "mxnet.symbol", "mxnet", "mxnet.ndarray", "mxnet.io", "mxnet.module", "mxnet.metric"]
found, start = [], threading.Barrier(len(names))

def work(name):
    start.wait()
    found.append(importlib.import_module(name).__name__)

threads = [threading.Thread(target=work, args=(name,)) for name in names]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(found))
"""


@pytest.mark.slow
def test_threads_whose_first_import_is_a_module_of_it(environment, tmp_path):
    for _ in range(3):  # without a finder some of them met an empty package, in about every fifth process
        done = call(environment, "-c", MODULES_AT_ONCE, folder=tmp_path)
        assert done.stdout == "7\n", done.stdout + done.stderr[-3000:]


def test_nothing_is_loaded_before_it_is_imported(environment, tmp_path):
    code = "import importlib.util, sys; print(importlib.util.find_spec('mxnet').origin, 'mxjax' in sys.modules)"
    done = call(environment, "-c", code, folder=tmp_path)
    assert done.stdout.endswith("__init__.py False\n"), done.stdout + done.stderr[-3000:]
    (tmp_path / "mxnet.py").write_text("mine = 1")  # what comes first in the path is found first
    assert call(environment, "-c", "import mxnet; print(mxnet.mine)", folder=tmp_path).stdout == "1\n"


def test_its_version_is_what_libraries_ask_for():
    specifiers = pytest.importorskip("packaging.specifiers")
    for wanted in ("==1.9.1", ">=1.6", ">=1.7,<2", "~=1.9"):
        assert alias.VERSION in specifiers.SpecifierSet(wanted)


def test_the_list_of_files_is_right_and_removal_leaves_nothing(tmp_path):
    (tmp_path / "other.py").write_text("")
    for _ in range(2):
        one = alias.install(tmp_path)
    assert (one.name, one.version, one.folder, one.ours) == ("mxnet", alias.VERSION, tmp_path.resolve(), True)
    found, = importlib.metadata.distributions(name="mxnet", path=[str(tmp_path)])
    listed = {file.as_posix() for file in found.files}
    assert listed | {"other.py"} == {p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_file()}
    for file in found.files:
        content = (tmp_path / file).read_bytes()
        if file.hash:
            assert file.size == len(content)
            assert base64.urlsafe_b64decode(file.hash.value + "=") == hashlib.sha256(content).digest()
    assert [file.name for file in found.files if not file.hash] == ["RECORD"]
    compiled = pathlib.Path(importlib.util.cache_from_source(str(tmp_path / "mxnet" / "__init__.py")))
    compiled.parent.mkdir()
    compiled.write_bytes(b"")
    assert [gone.version for gone in alias.remove(tmp_path)] == [alias.VERSION]
    assert os.listdir(tmp_path) == ["other.py"]
    assert alias.remove(tmp_path) == []


def test_an_older_stand_in_is_replaced_and_one_without_its_list_removed(tmp_path, monkeypatch):
    new = alias.VERSION
    with monkeypatch.context() as old:
        old.setitem(alias.VERSIONS, 1, "1.9.1+mxjax.0")
        old.setitem(alias.DIST_INFO, 1, "mxnet-1.9.1+mxjax.0.dist-info")
        assert alias.install(tmp_path).version == "1.9.1+mxjax.0"
    assert alias.main(arguments("status", "--target", str(tmp_path))) == 1
    assert alias.install(tmp_path).version == new
    assert sorted(os.listdir(tmp_path)) == [
        "_mxnet_finder.pth", "_mxnet_finder.py", "mxnet", f"mxnet-{new}.dist-info", "mxnet_predict.py"]
    (tmp_path / f"mxnet-{new}.dist-info" / "RECORD").unlink()
    assert len(alias.remove(tmp_path)) == 1 and os.listdir(tmp_path) == []


def another(folder, name="mxnet", record=True):
    """A distribution that has the name."""
    (folder / "mxnet" / "deep").mkdir(parents=True)
    (folder / "mxnet" / "__init__.py").write_text("own = 1\n")
    (folder / "mxnet" / "deep" / "lib.so").write_text("")
    info = folder / f"{name.replace('-', '_')}-1.9.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.9.1\n")
    if record:
        (info / "RECORD").write_text("mxnet/__init__.py,,\nmxnet/deep/lib.so,,\n../kept.txt,,\n"
                                     f"{info.name}/METADATA,,\n{info.name}/RECORD,,\n")
    (folder.parent / "kept.txt").write_text("of somebody else")


def arguments(*words):
    parser = argparse.ArgumentParser()
    alias.add_arguments(parser)
    return parser.parse_args(words)


@pytest.mark.parametrize("name", ["mxnet", "mxnet-cu112"])
def test_another_mxnet_stays_unless_one_insists(tmp_path, capsys, name):
    folder = tmp_path / "site"
    another(folder, name)
    before = sorted(folder.rglob("*"))
    with pytest.raises(mx.MXNetError, match=f"{name} 1.9.1 in .*site is installed and does not belong .*--force"):
        alias.install(folder)
    assert alias.main(arguments("remove", "--target", str(folder))) == 0
    assert alias.main(arguments("status", "--target", str(folder))) == 1
    printed = capsys.readouterr().out
    assert "the stand-in is not in" in printed and f"{name} 1.9.1 in" in printed and "not mxjax" in printed
    assert sorted(folder.rglob("*")) == before
    assert alias.install(folder, force=True).ours
    assert [one.ours for one in alias.installed(folder)] == [True]
    assert sorted(os.listdir(folder / "mxnet")) == ["__init__.py"]
    assert (tmp_path / "kept.txt").read_text() == "of somebody else"
    assert alias.main(arguments("status", "--target", str(folder))) == 0


def test_what_cannot_be_removed_is_refused_even_then(tmp_path):
    another(tmp_path / "site", record=False)
    with pytest.raises(mx.MXNetError, match="has no list of its files; remove it with the tool that installed it"):
        alias.install(tmp_path / "site", force=True)
    bare = tmp_path / "bare"
    (bare / "mxnet").mkdir(parents=True)
    (bare / "mxnet" / "own.py").write_text("")
    with pytest.raises(mx.MXNetError, match="mxnet does not belong to any distribution; move it away first"):
        alias.install(bare, force=True)
    assert os.listdir(bare) == ["mxnet"]


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(mx.MXNetError, match="cannot change .*file.*--target FOLDER with FOLDER in PYTHONPATH"):
        alias.install(tmp_path / "file" / "site")
    closed = tmp_path / "closed"
    closed.mkdir()
    closed.chmod(0o555)
    done = call(sys.executable, "-c", f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
import mxjax as mx, mxjax.tools.alias as alias
alias.installed({str(closed)!r})
if hasattr(os, "geteuid") and os.geteuid() == 0:
    os.chmod({str(tmp_path)!r}, 0o755)
    os.seteuid(65534)
try:
    alias.install({str(closed)!r})
except mx.MXNetError as error:
    print(error)
""", folder=tmp_path)
    assert "cannot change" in done.stdout and "Permission denied" in done.stdout, done.stdout + done.stderr
    assert os.listdir(closed) == []


def test_a_python_that_its_system_manages_is_left_alone(tmp_path, monkeypatch):
    (tmp_path / "EXTERNALLY-MANAGED").write_text("")
    modules = tmp_path / "modules"
    monkeypatch.setattr(sysconfig, "get_path", lambda name, *scheme: str(tmp_path if name == "stdlib" else modules))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path))
    monkeypatch.setattr(sys, "path", [str(modules)])
    with pytest.raises(mx.MXNetError, match="managed by the operating system.*virtual environment"):
        alias.install()
    assert not modules.exists()
    assert alias.install(force=True).folder == modules


def test_a_failure_leaves_what_was_there(tmp_path, monkeypatch):
    folder = tmp_path / "site"
    another(folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    real = alias.write_file

    def fails(path, content):
        if path.name == "__init__.py":
            raise OSError(28, "No space left on device")
        real(path, content)
    monkeypatch.setattr(alias, "write_file", fails)
    with pytest.raises(mx.MXNetError, match="No space left on device"):
        alias.install(folder, force=True)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_options_that_do_not_fit():
    with pytest.raises(mx.MXNetError, match="alias remove does not accept --force"):
        alias.main(arguments("remove", "--force"))


def test_without_mxjax_it_says_what_is_missing(tmp_path):
    alias.install(tmp_path)
    done = call(sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = [{str(tmp_path)!r}]; import mxnet",
                folder=tmp_path)
    assert done.stderr.splitlines()[-1] == "ModuleNotFoundError: this mxnet is a stand-in for mxjax, which is not " \
        "installed: install mxjax, or uninstall mxnet"


@pytest.mark.slow
def test_the_wheel_has_the_same_files_and_is_found(tmp_path):
    pytest.importorskip("setuptools", minversion="77")
    source = ROOT / "packaging" / "mxnet"
    if not source.exists():
        pytest.skip("the package is used without its repository")
    copy = tmp_path / "copy"
    shutil.copytree(source, copy)
    done = call(sys.executable, "-c", "from setuptools.build_meta import build_wheel; print(build_wheel('.'))",
                folder=copy)
    assert done.returncode == 0, done.stderr
    found, = importlib.metadata.distributions(name="mxnet", path=[str(copy / done.stdout.split()[-1])])
    assert found.version == alias.VERSION
    alias.install(tmp_path / "site")
    python, modules = new_environment(tmp_path / "environment")
    with zipfile.ZipFile(copy / done.stdout.split()[-1]) as wheel:
        names = [name for name in wheel.namelist() if ".dist-info/" not in name]
        assert sorted(names) == ["_mxnet_finder.pth", "_mxnet_finder.py", "mxnet/__init__.py", "mxnet_predict.py"]
        for name in names:
            assert wheel.read(name) == (tmp_path / "site" / name).read_bytes()
        wheel.extractall(modules)
    # the situations that need what is loaded at the start of a process
    some = ["-m", "unpickling", "find_spec", "metadata"]
    assert answers_in(python, tmp_path, some) == {name: SITUATIONS[name][1] for name in some}


def test_a_stand_in_for_mxnet_2(tmp_path):
    code = "import mxnet, importlib.metadata as m; print(mxnet.__version__, m.version('mxnet'), hasattr(mxnet, 'mod'))"

    def told(**environment):
        path = os.pathsep.join([str(tmp_path / "site"), str(ROOT)])
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path,
                              env={**os.environ, "MXJAX_API": "", "PYTHONPATH": path, **environment})
        return done.stdout.split()

    found = alias.install(tmp_path / "site", api=2)
    assert found.version == alias.VERSIONS[2] == "2.0.0+mxjax.1" and found.ours
    assert told() == ["2.0.0", "2.0.0+mxjax.1", "False"]
    assert told(MXJAX_API="1") == ["1.9.1", "2.0.0+mxjax.1", "True"]
    assert alias.install(tmp_path / "site", api=1).version == "1.9.1+mxjax.1"  # in its place
    assert told() == ["1.9.1", "1.9.1+mxjax.1", "True"] and len(alias.installed(tmp_path / "site")) == 1
    alias.remove(tmp_path / "site")
    assert not list((tmp_path / "site").iterdir())
