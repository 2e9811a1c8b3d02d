"""Name managers, attribute scopes, loggers."""

import logging
import threading

import pytest

import mxjax as mx
from mxjax.attribute import AttrScope
from mxjax.log import get_logger
from mxjax.name import NameManager, Prefix


def test_names_count_up_per_kind():
    names = NameManager()
    assert [names.get(None, "a"), names.get("", "a"), names.get(None, "b"), names.get("x", "a")] \
        == ["a0", "a1", "b0", "x"]
    assert [Prefix("p_").get(n, "a") for n in (None, "x")] == ["p_a0", "p_x"]


def test_scopes_nest_and_restore():
    outer = NameManager.innermost()
    with Prefix("p_") as prefix, prefix, NameManager() as inner:
        assert NameManager.innermost() is inner
        with prefix:
            assert NameManager.innermost() is prefix
    assert NameManager.innermost() is outer


def test_a_thread_has_its_own():
    seen = []
    with NameManager() as mine, AttrScope(a="1"):
        thread = threading.Thread(
            target=lambda: seen.append((NameManager.innermost(), AttrScope.innermost().get(None))))
        thread.start()
        thread.join()
    assert seen[0][0] is not mine and seen[0][1] == {}


def test_two_threads_may_be_in_one_scope():
    shared, outers = Prefix("shared_"), [Prefix("first_"), Prefix("second_")]
    inside, left, after = threading.Barrier(2, timeout=60), threading.Event(), {}

    def enter(k):
        with outers[k]:
            with shared:
                inside.wait()
                if k:
                    left.wait(60)  # the first thread leaves first
            left.set()
            after[k] = NameManager.innermost()
    threads = [threading.Thread(target=enter, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert after == dict(enumerate(outers))


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
        assert AttrScope.innermost().get(None) == {"x": "1"}
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


@pytest.mark.parametrize("make", [
    lambda ctx: mx.nd.zeros((2,), ctx=ctx), lambda ctx: mx.nd.ones((2,), ctx), lambda ctx: mx.nd.array([1], ctx=ctx),
    lambda ctx: mx.np.array([1], ctx=ctx), lambda ctx: mx.gluon.nn.Dense(1, in_units=1).initialize(ctx=ctx),
    lambda ctx: mx.gluon.nn.Dense(1, in_units=1).initialize(ctx=[ctx]), lambda ctx: mx.nd.ones(1).as_in_context(ctx),
    lambda ctx: mx.sym.var("a").bind(ctx, {"a": mx.nd.ones(1)}), lambda ctx: mx.sym.var("a").simple_bind(ctx, a=(1,)),
    lambda ctx: mx.mod.Module(mx.sym.var("data"), context=ctx), lambda ctx: mx.nd.sparse.zeros("csr", (2, 2), ctx=ctx)])
def test_names_are_no_contexts(make):
    with pytest.raises((mx.MXNetError, TypeError), match=r"context such as mx.cpu\(\).*got 'cpu'"):
        make("cpu")


def test_operators_take_contexts_as_text():
    assert mx.nd.zeros((1,), ctx="cpu(0)").context == mx.nd.random.uniform(shape=(1,), ctx="cpu(0)").context == mx.cpu()


def test_the_default_context_of_old_scripts():
    script = """
before = mx.current_context()
mx.Context._default_ctx.value = mx.cpu(3)
after = mx.Context._default_ctx.value, mx.current_context(), mx.nd.ones(1).context
mx.Context._default_ctx.value = before
"""
    names = {"mx": mx}
    exec(script, names)
    assert names["after"] == (mx.cpu(3),) * 3
    assert mx.current_context() == names["before"]
