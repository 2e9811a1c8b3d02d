"""`mxjax doctor`: what scripts and graphs will meet here."""

import json

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
    assert "Pallas" in found.pop(("differs", 25))
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
    ("old.py", "print 'x'", "2to3"), ("net.json", "[1]", "is no graph"), ("none.py", None, "none.py")])
def test_what_is_neither(tmp_path, capsys, name, text, said):
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(SystemExit) as stopped:
        commands.main(["doctor", str(tmp_path / name)])
    assert stopped.value.code == 2 and said in capsys.readouterr().err


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
