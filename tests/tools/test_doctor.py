"""`mxjax doctor`: what scripts and graphs will meet here."""

import json
import re
from pathlib import Path

import pytest

import mxjax as mx
from mxjax import __main__ as commands
from mxjax.tools import doctor

SCRIPT = '''import mxnet as mx
from mxnet import nd, gluon as g
from mxnet.gluon import nn
import numpy as np

net = nn.Dense(3)
trainer = g.Trainer(net.collect_params(), "sgd")
total = 0
for x in data:
    with mx.autograd.record():
        loss = net(x)
    loss.backward()
    trainer.step(1)
    total += loss.mean().asscalar()
for row in np.arange(3):
    print(nd.ones(3).asnumpy())
mx.nd.softmaxx(total)
mx.th.something()


class Square(mx.operator.CustomOp):
    pass


kernel = mx.rtc.CudaModule("source")
print(mx.nd.NDArray.whatever, mx.__version__, np.softmaxx)
'''


def test_a_script(tmp_path, capsys):
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    found = {(f.kind, f.line): f.text for f in doctor.examine(path)}
    assert "asscalar() in a training loop" in found.pop(("slow", 14))
    assert "mx.nd.softmaxx is not there; did you mean mx.nd.softmax?" in found.pop(("missing", 17))
    assert "mx.th is not there" in found.pop(("missing", 18))
    assert "Square runs in Python on the host" in found.pop(("slow", 21))
    assert "Pallas" in found.pop(("raises", 25))
    assert not found
    assert commands.main(["doctor", str(path)]) == 1
    assert f"{path}:17: missing:" in capsys.readouterr().out
    assert commands.main(["doctor", "--json", str(tmp_path)]) == 1
    assert len(json.loads(capsys.readouterr().out)) == 5


def test_scripts_that_need_an_extra(tmp_path, monkeypatch):
    path = tmp_path / "draw.py"
    path.write_text("import mxnet\nmxnet.viz.plot_network(net)\n")
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: None)
    found, = doctor.examine(path)
    assert found.kind == "extra" and "mxjax[viz]" in found.text and found.line == 2


def test_a_good_script_and_a_good_graph(tmp_path, capsys):
    path = tmp_path / "good.py"
    path.write_text("import mxjax as mx\nfrom mxjax.gluon import nn, model_zoo\nprint(mx.nd.ones(3), mx.sym.np.ones)\n"
                    "mx.contrib.amp.init()\nmx.gluon.contrib.nn.SyncBatchNorm()\nmodel_zoo.vision.resnet18_v1()\n")
    mx.sym.exp(mx.sym.Variable("data")).save(str(tmp_path / "net-symbol.json"))
    assert commands.main(["doctor", str(path), str(tmp_path / "net-symbol.json")]) == 0
    assert "2 files: 0 missing, 0 differs, 0 extra, 0 slow" in capsys.readouterr().out


def test_graphs(tmp_path):
    graph = mx.sym.contrib.boolean_mask(mx.sym.Variable("data"), mx.sym.Variable("mask"), name="chosen")
    path = tmp_path / "net-symbol.json"
    graph.save(str(path))
    found, = doctor.examine(path)
    assert found.kind == "slow" and "_contrib_boolean_mask (chosen)" in found.text and found.line > 1
    path.write_text(path.read_text().replace("_contrib_boolean_mask", "_contrib_boolean_masc"))
    found, = doctor.examine(path)
    assert found.kind == "missing" and "nearest name is _contrib_boolean_mask" in found.text


@pytest.mark.parametrize(("name", "text", "said"), [
    ("net.json", "[1]", "not an MXNet graph"), ("none.py", None, "none.py"), ("old.ipynb", "[1]", "is not a notebook"),
    ("other.ipynb", '{"cells": [{"source": "1"}]}', "is not a notebook")])
def test_what_is_neither(tmp_path, capsys, name, text, said):
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(SystemExit) as stopped:
        commands.main(["doctor", str(tmp_path / name)])
    assert stopped.value.code == 2 and said in capsys.readouterr().err


OLD = '''import mxnet as mx
from mxnet.gluon import (nn,
    softmaxloss)
text = "mx.nd.notthis"
print "x", `text`
try:
    mx.nd.softmaxx(1)  # mx.nd.neither
except Exception, error:
    raise error, "x"
kernel = mx . rtc . CudaModule(text)
'''


def test_python_2_is_searched_and_the_other_files_too(tmp_path, capsys):
    (tmp_path / "a.py").write_text(OLD)
    (tmp_path / "b.py").write_text("import mxnet as mx\nmx.nd.reluu(1)\n")
    found = {(f.kind, f.line): f.text for f in doctor.examine(tmp_path / "a.py")}
    assert "mx.gluon.softmaxloss is not there" in found.pop(("missing", 2))
    assert "2to3" in found.pop(("raises", 5))
    assert "did you mean mx.nd.softmax?" in found.pop(("missing", 7))
    assert "Pallas" in found.pop(("raises", 10))
    assert not found
    assert commands.main(["doctor", str(tmp_path)]) == 1
    assert f"{tmp_path}/b.py:2: missing:" in capsys.readouterr().out


def test_a_file_that_is_none_among_others(tmp_path, capsys):
    (tmp_path / "a-symbol.json").write_text("[1]")
    (tmp_path / "b.py").write_bytes("import mxnet as mx\nx = 'ä'\nmx.nd.reluu(1)\n".encode("latin-1"))
    assert commands.main(["doctor", *map(str, sorted(tmp_path.iterdir()))]) == 2
    told = capsys.readouterr().out
    assert "a-symbol.json:1: unread: " in told and "b.py:3: missing: mx.nd.reluu" in told and "1 unread" in told


def test_notebooks(tmp_path, capsys):
    first = ["%matplotlib inline\n", "!pip install x\n", "import mxnet as mx\n", "mx.nd.ones?\n", "mx.nd.softmaxx(1)"]
    cells = [("markdown", "mx.nd.nothing"), ("code", first),
             ("code", "%%bash\necho mx.nd.no"), ("code", "%%time\nif True:\n    !ls\nmx.nd.relux(2)"),
             ("code", "print 'x'\nmx.nd.expp(2)")]
    new = {"nbformat": 4, "cells": [{"cell_type": kind, "source": source} for kind, source in cells]}
    old = {"nbformat": 3, "worksheets": [{"cells": [{"cell_type": kind, "input": source} for kind, source in cells]}]}
    for name, book in (("new.ipynb", new), ("old.ipynb", old)):
        path = tmp_path / name
        path.write_text(json.dumps(book))
        assert [(f.file, f.line, f.kind) for f in doctor.examine(path)] == [
            (f"{path}:cell 2", 5, "missing"), (f"{path}:cell 4", 4, "missing"), (f"{path}:cell 5", 1, "raises"),
            (f"{path}:cell 5", 2, "missing")]
    (tmp_path / ".ipynb_checkpoints").mkdir()
    (tmp_path / ".ipynb_checkpoints" / "new-checkpoint.ipynb").write_text("{}")
    assert commands.main(["doctor", str(tmp_path)]) == 1
    assert "2 files: 6 missing, 0 differs, 0 extra, 0 slow, 2 raises" in capsys.readouterr().out


def test_loops_over_growing_shapes(tmp_path):
    path = tmp_path / "grow.py"
    path.write_text('''import mxnet as mx
from mxnet import nd
for length in range(10):
    print(mx.nd.ones((2, length + 1)).sum().asscalar())
n = 1
while n < 5:
    y = nd.zeros(shape=(n, 2))
    n += 1
out = nd.ones((1, 2))
for i, row in enumerate(rows):
    out = nd.concat(out, nd.ones((1, 2)), dim=0)
for i in range(5):
    m = i * 2
    nd.random.uniform(shape=(m, 3))
    nd.array([i]), nd.ones((2, 3)) * i, nd.zeros((2, row)), nd.concat(row, out, dim=0)
for size in (32, 64):
    nd.ones((size, 2))
for i, row in enumerate(rows):
    nd.zeros((i, 2))
    nd.zeros((row, 2))
for x, y in range(pairs):
    nd.zeros((x, 2))
''')
    assert [(f.line, f.kind) for f in doctor.examine(path)] == [(line, "slow") for line in (4, 7, 11, 14, 19)]


@pytest.mark.parametrize(("call", "status"), [
    ("mx.rtc.CudaModule(source)", 1), ("mx.library.load('plugin.so')", 1), ("mx.library.load('plugin.py')", 0),
    ("mx.kv.create('horovod')", 1), ("mx.kv.create('dist_sync')", 0), ("mx.nd.from_numpy(x)", 0)])
def test_what_raises_counts(tmp_path, call, status):
    (tmp_path / "x.py").write_text(f"import mxnet as mx\n{call}\n")
    assert commands.main(["doctor", str(tmp_path / "x.py")]) == status


def test_environment_variables_that_are_named_exist():
    texts = [*doctor.DIFFERS.values(), *doctor.RAISES.values()]
    names = {name for text in texts for name in re.findall(r"MXJAX_\w+", text)}
    used = "".join(p.read_text() for p in Path(mx.__file__).parent.rglob("*.py") if p.name != "doctor.py")
    assert names and all(f'"{name}"' in used for name in names)


def test_the_command_line_tells_all_commands(capsys):
    with pytest.raises(SystemExit) as stopped:
        commands.main(["--help"])
    told = capsys.readouterr().out
    assert stopped.value.code == 0
    assert all(f"    {name} " in told or f"    {name}\n" in told for name in (
        "run", "launch", "info", "doctor", "plan", "convert", "inspect", "rec", "im2rec", "stubs"))
    with pytest.raises(SystemExit):
        commands.main(["--version"])
    assert "API of MXNet 1.9.1" in capsys.readouterr().out
    assert commands.main(["info"]) == 0
    told = capsys.readouterr().out
    assert "devices" in told and "cuda12" in told and "features" in told
