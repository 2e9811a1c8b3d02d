"""mx.error: which class an error's text stands for."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import jax
import pytest

import mxjax as mx
from mxjax import _c_functions, base


@pytest.fixture(autouse=True)
def restored():
    before = dict(base.error_types)
    yield
    base.error_types.clear()
    base.error_types.update(before)


def raised(text):
    """What MXNet makes of the text of an error."""
    message, name = base.c2pyerror(text)
    return base.error_types.get(name, mx.MXNetError)(message)


@pytest.mark.parametrize("register", [mx.error.register, mx.error.register_error, base.register_error])
def test_registered_classes_are_found_by_their_names(register):
    assert type(raised("Mine: no such column")) is mx.MXNetError

    @register
    class Mine(mx.MXNetError):
        pass

    @register("Named")
    class Other(Exception):
        pass
    assert register("Third", Other) is Other and register(func_name="Fourth", cls=Other) is Other
    assert type(raised("Mine: no such column")) is Mine and "no such column" in str(raised("Mine: no such column"))
    assert {type(raised(f"{name}: x")) for name in ("Named", "Third", "Fourth")} == {Other}
    assert type(raised("Other: x")) is mx.MXNetError


def test_what_is_registered_from_the_start():
    for kind in (ValueError, TypeError, AttributeError, IndexError, NotImplementedError, mx.error.InternalError,
                 mx.MXNetError):
        assert type(raised(f"{kind.__name__}: x")) is kind
    assert issubclass(mx.error.InternalError, mx.MXNetError)
    assert type(raised("no name")) is type(raised("a b: c")) is mx.MXNetError


def test_the_text_of_the_last_error_has_the_name(monkeypatch):
    @mx.error.register("Seeding")
    class Unseedable(mx.MXNetError):
        pass

    class Special(Unseedable):
        pass

    class Quiet(Exception):
        pass
    for own, name, kind in ((Unseedable, "Seeding", Unseedable), (Special, "Seeding", Unseedable),
                            (IndexError, "IndexError", IndexError), (mx.MXNetError, "MXNetError", mx.MXNetError),
                            (Quiet, "Quiet", mx.MXNetError)):
        def fail(seed, own=own):
            raise own("no")
        monkeypatch.setattr(_c_functions, "seed_streams", fail)
        assert base._LIB.MXRandomSeed(5) == -1
        text = base._LIB.MXGetLastError()
        assert text == f"{name}: no".encode() and type(raised(base.py_str(text))) is kind
        with pytest.raises(own):
            base.check_call(-1)


def test_without_an_error_there_is_a_text_too():
    with ThreadPoolExecutor(1) as pool:  # errors are each thread's own
        assert b"no C call has failed" in pool.submit(base._LIB.MXGetLastError).result()


def test_a_mistake_within_a_compiled_function_has_no_word_of_jax():
    def wrong(x):
        raise mx.MXNetError("the user's mistake")
    with pytest.raises(mx.MXNetError, match="mistake") as told:
        jax.jit(wrong)(1.0)
    assert not getattr(told.value, "__notes__", [])
    told.value.add_note("beside it")
    assert told.value.__notes__ == ["beside it"]


def _module():
    return mx.mod.Module(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2), label_names=None)


@pytest.mark.parametrize("call, kinds, words", [
    (lambda path: mx.nd.load(path), (FileNotFoundError, mx.MXNetError), "No such file.*missing"),
    (lambda path: mx.sym.load(path), (FileNotFoundError, mx.MXNetError), "No such file.*missing"),
    (lambda path: mx.gluon.nn.Dense(2).load_parameters(path), (FileNotFoundError, mx.MXNetError), "missing"),
    (lambda path: mx.mod.Module.load(path, 0), (FileNotFoundError, mx.MXNetError), "missing-symbol.json"),
    (lambda path: _module().get_outputs(), (AssertionError, mx.MXNetError), "call bind first"),
    (lambda path: mx.autograd.backward([mx.nd.ones(1)], [mx.nd.ones(1)] * 2), (AssertionError, mx.MXNetError), "2 h"),
    (lambda path: mx.Context("tau"), (KeyError, mx.MXNetError), "^unknown device type 'tau'; known: cpu"),
    (lambda path: mx.nd.ones(1).attach_grad("some"), (KeyError, mx.MXNetError), "^grad_req must be one of"),
    (lambda path: mx.sym.var("a").simple_bind(mx.cpu(), "some", a=(1,)), (RuntimeError, ValueError), "^grad_req must"),
    (lambda path: mx.metric.create("none"), (AssertionError, ValueError), "'none' is not registered"),
    (lambda path: mx.recordio.MXRecordIO(path, "w").read(), (AssertionError, mx.MXNetError), "for writing only"),
    (lambda path: float(mx.nd.ones((2,))), (TypeError,), "2 elements"),
    (lambda path: mx.nd.random.shuffle(5), (TypeError,), "must be an NDArray"),
    (lambda path: mx.nd.relu("a"), (TypeError, AssertionError), "must be an NDArray"),
    (lambda path: mx.sym.relu(3), (TypeError, AssertionError), "must be a Symbol"),
    (lambda path: mx.sym.relu(data=mx.nd.ones(2)), (TypeError, AssertionError), "data must be a Symbol, got NDArray"),
    (lambda path: mx.sym.FullyConnected(mx.sym.var("x"), weight=[mx.sym.var("w")], num_hidden=1),
     (TypeError, AssertionError), "weight must be a Symbol, got list"),
    (lambda path: mx.sym.concat(mx.sym.var("x"), mx.nd.ones(2)), (TypeError, AssertionError), "must be Symbols")])
def test_errors_are_of_mxnets_kind_and_of_pythons(call, kinds, words, tmp_path):
    for kind in kinds:
        with pytest.raises(kind, match=words):
            call(str(tmp_path / "missing"))


def test_a_missing_file_is_told_across_processes(tmp_path):
    with pytest.raises(mx.MXNetError) as caught:
        mx.nd.load(str(tmp_path / "missing"))
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is type(caught.value) and again.filename == str(tmp_path / "missing") and again.errno == 2
