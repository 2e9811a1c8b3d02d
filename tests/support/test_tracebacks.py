import sys
import threading
import traceback

import pytest

import mxjax as mx
from mxjax._support import tracebacks
from mxjax.gluon import nn


def _wrong_convolution():
    return mx.nd.Convolution(mx.nd.zeros((1, 3, 8, 8)), mx.nd.zeros((4, 5, 3, 3)), kernel=(3, 3), num_filter=4,
                             no_bias=True)


class _Calling(mx.gluon.Block):
    def forward(self, x):
        return x.reshape((5, 5))


class _Raising(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        raise ValueError("from the operator")


@mx.operator.register("test_tracebacks_raising")
class _RaisingProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes):
        return _Raising()


def _custom():
    mx.nd.Custom(mx.nd.ones((2,)), op_type="test_tracebacks_raising").asnumpy()


def _nested():
    net = nn.Sequential()
    net.add(_Calling())
    net(mx.nd.ones((2, 3)))


def _module():
    weight = mx.sym.Variable("w", shape=(4, 5, 3, 3))
    net = mx.sym.Convolution(mx.sym.Variable("data"), weight, kernel=(3, 3), num_filter=4, no_bias=True)
    mx.mod.Module(net, label_names=None).bind([("data", (1, 3, 8, 8))])


def _hybrid():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3, in_channels=5), nn.Dense(2))
    net.initialize()
    net.hybridize()
    net(mx.nd.zeros((1, 3, 8, 8)))


def _error(function):
    try:
        function()
    except Exception as error:
        return error


def _names(trace):
    return [frame.name for frame in traceback.extract_tb(trace)]


@pytest.mark.parametrize("function, names", [
    (_wrong_convolution, ["_wrong_convolution"]),
    (lambda: mx.nd.ones((2, 3))[5], ["<lambda>"]),
    (lambda: mx.nd.load("/nowhere.params"), ["<lambda>"]),
    (lambda: mx.nd.dot(mx.nd.ones((2, 2)), mx.nd.ones((2, 2), dtype="int32")), ["<lambda>"]),
    (_module, ["_module"]), (_hybrid, ["_hybrid"]), (_custom, ["_custom"]),
    (_nested, ["_nested", "forward"])])
def test_only_frames_of_the_caller_are_shown(function, names):
    error = _error(function)
    whole = error.__traceback__
    with tracebacks.shortened(error) as hidden:
        assert _names(error.__traceback__) == ["_error", *names] and hidden > 2
        assert all("mxjax/" not in line.split(" in ")[0].replace("/tests/", "") for line in
                   traceback.format_exception(error) if line.startswith("  File"))
    assert error.__traceback__ is whole  # whoever has caught it keeps all


def test_a_custom_operators_own_frame_stays():
    error = _error(_custom)
    with tracebacks.shortened(error):
        assert _names(error.__cause__.__traceback__) == ["forward"]
    assert "_custom.py" not in str(error) and "in forward" in str(error)


def test_errors_of_others_are_left_alone(monkeypatch):
    error = _error(lambda: int("x"))
    with tracebacks.shortened(error) as hidden:
        assert not hidden and _names(error.__traceback__) == ["_error", "<lambda>"]
    error = _error(_wrong_convolution)
    inside = error.__traceback__.tb_next.tb_next  # never left the library
    error.__traceback__ = inside
    with tracebacks.shortened(error) as hidden:
        assert not hidden and error.__traceback__ is inside
    monkeypatch.setenv("MXJAX_TRACEBACK_FILTERING", "off")
    error = _error(_wrong_convolution)
    with tracebacks.shortened(error) as hidden:
        assert not hidden and len(_names(error.__traceback__)) > 5


def test_groups_and_circles_of_errors():
    first, second = _error(_wrong_convolution), _error(_nested)
    first.__context__, second.__context__ = second, first
    group = ExceptionGroup("several", [first, second])
    with tracebacks.shortened(group):
        assert _names(first.__traceback__) == ["_error", "_wrong_convolution"]
        assert _names(second.__traceback__) == ["_error", "_nested", "forward"]


def test_uncaught_errors_of_scripts_and_threads(monkeypatch, capsys):
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    monkeypatch.setattr(threading, "excepthook", threading.__excepthook__)
    tracebacks.install()
    hook = sys.excepthook
    tracebacks.install()
    assert sys.excepthook is hook  # once
    error = _error(_wrong_convolution)
    sys.excepthook(type(error), error, error.__traceback__)
    told = capsys.readouterr().err
    assert "frames of mxjax are hidden; MXJAX_TRACEBACK_FILTERING=off" in told.splitlines()[0]
    assert told.count("  File") == 2 and told.splitlines()[-1].startswith("mxjax.base.MXNetError: operator Convolution")
    thread = threading.Thread(target=_wrong_convolution)
    thread.start()
    thread.join()
    assert capsys.readouterr().err.count("  File") == 1


def test_ipython(monkeypatch, capsys):
    ipython = pytest.importorskip("IPython.core.interactiveshell")
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    shell = ipython.InteractiveShell.instance()
    try:
        tracebacks.install()
        shell.run_cell("import mxjax as mx\nmx.nd.ones((2, 3))[5]", store_history=False)
        told = capsys.readouterr()
        assert "line 2" in told.out and "indexing.py" not in told.out and "are hidden" in told.err
    finally:
        ipython.InteractiveShell.clear_instance()


@pytest.mark.slow
def test_pytest(tmp_path, capsys):
    (tmp_path / "test_one.py").write_text(
        "import mxjax as mx\ndef test_it():\n    mx.nd.ones((2, 3))[5]\n")
    arguments = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:mxjax", "-p",
                 "mxjax._support.pytest_plugin", "-c", str(tmp_path / "none.ini"), "--rootdir", str(tmp_path),
                 str(tmp_path / "test_one.py")]
    (tmp_path / "none.ini").write_text("[pytest]\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTEST_ADDOPTS", raising=False)
        assert pytest.main(arguments) == 1
        told = capsys.readouterr().out
        assert "indexing.py" not in told and "test_one.py:3: IndexError" in told
        assert pytest.main([*arguments, "--full-trace"]) == 1
        assert "indexing.py" in capsys.readouterr().out
