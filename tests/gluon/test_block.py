"""Blocks: names, graphs, deferred shapes, hooks, files."""

import json
import threading
from pathlib import Path

import numpy as np
import pytest

import mxjax as mx
from mxjax import gluon
from mxjax.gluon import nn

from ..internals import is_hybridized, states_of

DATA = Path(__file__).parents[1] / "data" / "mxnet"


def _mlp(**kwargs):
    net = nn.HybridSequential(**kwargs)
    with net.name_scope():
        net.add(nn.Dense(4, activation="relu"), nn.BatchNorm(), nn.Dense(2))
    return net


class Branches(gluon.HybridBlock):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.left = nn.Dense(3, in_units=2)
            self.right = nn.Dense(3, in_units=2, params=self.left.params)
            self.shift = self.params.get_constant("shift", [1.0, 2.0, 3.0])

    def hybrid_forward(self, F, x, y, shift):  # noqa: N803
        total = F.broadcast_add(self.left(x) + self.right(y[0]), shift)
        return total, [y[1], total * 2]


def test_names_follow_scopes():
    net = _mlp(prefix="net_")
    assert list(net.collect_params()) == [
        "net_dense0_weight", "net_dense0_bias", "net_batchnorm0_gamma", "net_batchnorm0_beta",
        "net_batchnorm0_running_mean", "net_batchnorm0_running_var", "net_dense1_weight", "net_dense1_bias"]
    assert list(net.collect_params(".*dense.*bias")) == ["net_dense0_bias", "net_dense1_bias"]
    assert (net.name, net[0].prefix, net[0].act.name) == ("net", "net_dense0_", "net_dense0_relu")
    with mx.name.NameManager():
        outside, same = nn.Dense(1), nn.Dense(1)
    assert (outside.prefix, same.prefix) == ("dense0_", "dense1_")
    empty = nn.HybridSequential(prefix="")
    with empty.name_scope():
        assert nn.Dense(1, prefix="mine_").weight.name == "mine_weight"


def test_compiled_is_imperative_in_values_gradients_and_states():
    x, results = mx.nd.array(np.random.RandomState(0).rand(6, 3)), []
    for active in (False, True):
        net = _mlp(prefix="net_")
        net.initialize(mx.init.Constant(0.1))
        net.hybridize(active)
        for _ in range(2):
            with mx.autograd.record():
                loss = (net(x) ** 2).sum()
            loss.backward()
        params = net.collect_params()
        results.append([net(x).asnumpy(), params["net_dense0_weight"].grad().asnumpy(),
                        params["net_batchnorm0_running_mean"].data().asnumpy()])
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    assert abs(results[0][2]).max() > 0


def test_nested_inputs_sharing_and_constants():
    net = Branches()
    net.initialize(mx.init.One())
    x = mx.nd.ones((1, 2))
    plain = net(x, [x, x])
    net.hybridize()
    for _ in range(2):
        total, (passed, double) = net(x, [x, x * 2])
    assert total.asnumpy().tolist() == plain[0].asnumpy().tolist() == [[5, 6, 7]]
    assert double.asnumpy().tolist() == [[10, 12, 14]] and passed.asnumpy().tolist() == [[2, 2]]
    assert len(net._collect_params_with_prefix()) == 5 and len(list(net.collect_params())) == 3
    with pytest.raises(ValueError, match="argument structure"):
        net(x, x)


def test_inputs_that_cannot_be():
    net = nn.Dense(2)
    net.initialize()
    with pytest.raises(ValueError, match="one NDArray or one Symbol"):
        net(3)
    both = Branches()
    both.initialize(ctx=[mx.cpu(0), mx.cpu(1)])
    for block in (net, both):
        block.hybridize()
    with pytest.raises(ValueError, match="multiple contexts"):
        both(mx.nd.ones((1, 2)), [mx.nd.ones((1, 2), ctx=mx.cpu(1)), mx.nd.ones((1, 2))])
    assert net(mx.sym.var("x")).list_arguments() == ["x", net.weight.name, net.bias.name]
    with pytest.raises(ValueError, match="shape cannot be inferred"):
        broken = nn.HybridLambda(lambda F, x: F.dot(x, x))
        deferred = nn.HybridSequential()
        deferred.add(broken, nn.Dense(2))
        deferred.initialize()
        deferred.hybridize()
        deferred(mx.nd.ones((2, 3)))
    with pytest.raises(ValueError, match="must also be HybridBlock"):
        nn.HybridSequential().add(nn.Sequential())


def test_attributes_keep_their_kind():
    net = Branches()
    with pytest.raises(TypeError, match="Changing attribute type"):
        net.left = 3
    with pytest.raises(AssertionError, match="Overriding"):
        net.shift = net.shift
    net.hidden = [nn.Dense(1)]
    with pytest.warns(UserWarning, match="unregistered container"):
        net.collect_params()


def test_hooks_see_inputs_and_outputs():
    net, seen = nn.Dense(2, in_units=1), []
    net.initialize(mx.init.One())
    before = net.register_forward_pre_hook(lambda block, inputs: seen.append(inputs[0].shape))
    with net.register_forward_hook(lambda block, inputs, out: seen.append(out.shape)):
        net(mx.nd.ones((3, 1)))
    before.detach()
    net(mx.nd.ones((3, 1)))
    assert seen == [(3, 1), (3, 2)]
    names = []
    net.hybridize()
    text = mx.base.py_str  # the names are bytes, as in MXNet
    net.register_op_hook(lambda name, operator, array: names.append((text(name), operator, array.shape)), True)
    net(mx.nd.ones((3, 1)))
    step = f"{net.name}_fwd"
    assert names == [(f"{step}_data", b"FullyConnected", (3, 1)), (f"{step}_weight", b"FullyConnected", (2, 1)),
                     (f"{step}_bias", b"FullyConnected", (2,)), (f"{step}_output", b"FullyConnected", (3, 2))]


def test_summary_counts(capsys):
    net = _mlp(prefix="net_")
    net.initialize()
    net.summary(mx.nd.ones((5, 3)))
    text = capsys.readouterr().out
    assert "Dense-3" in text and "(5, 4)" in text
    assert "Total params: 42" in text and "Non-trainable params: 8" in text
    net.hybridize()
    with pytest.raises(AssertionError, match="must not be hybridized"):
        net.summary(mx.nd.ones((5, 3)))


def test_parameter_files_of_both_kinds(tmp_path):
    net, file, x = _mlp(prefix="one_"), str(tmp_path / "net.params"), mx.nd.ones((2, 3))
    net.initialize()
    expected = net(x).asnumpy()
    net.save_parameters(file)
    assert sorted(mx.nd.load(file))[:2] == ["0.bias", "0.weight"]
    other = _mlp(prefix="two_")
    other.load_parameters(file)
    assert other(x).asnumpy().tolist() == expected.tolist()
    net.collect_params().save(file, strip_prefix="one_")  # the older names
    third = _mlp(prefix="three_")
    third.load_parameters(file, ctx=mx.cpu(1))
    assert third(x.as_in_context(mx.cpu(1))).asnumpy().tolist() == expected.tolist()
    mx.nd.save(file, {"0.weight": net[0].weight.data(), "extra.weight": x})
    with pytest.raises(AssertionError, match="is missing"):
        net.load_parameters(file)
    with pytest.raises(ValueError, match="ignore_extra"):
        net.load_parameters(file, allow_missing=True)
    net.load_parameters(file, allow_missing=True, ignore_extra=True)


def test_shared_parameters_are_written_once(tmp_path):
    net, file = Branches(), str(tmp_path / "net.params")
    net.initialize()
    net.save_parameters(file, deduplicate=True)
    assert len(mx.nd.load(file)) == 3
    other = Branches()
    other.load_parameters(file)
    assert other.right.weight.data().asnumpy().tolist() == net.left.weight.data().asnumpy().tolist()


def test_save_and_load_of_whole_models(tmp_path):
    net, x = _mlp(prefix="one_"), mx.nd.ones((2, 3))
    net.initialize()
    net.hybridize()
    expected = net(x).asnumpy()
    net.save(str(tmp_path / "model"))
    other = _mlp(prefix="two_")
    other.load(str(tmp_path / "model"))
    assert is_hybridized(other) and other.name == "one"
    np.testing.assert_allclose(other(x).asnumpy(), expected, rtol=1e-6)
    assert json.loads((tmp_path / "model-model.json").read_text())["hybridsequential0"]["orig_name"] == "one"


def test_export_and_import(tmp_path):
    net, x = _mlp(), mx.nd.ones((2, 3))
    net.initialize()
    with pytest.raises(RuntimeError, match="hybridize"):
        net.export(str(tmp_path / "net"))
    net.hybridize()
    expected = net(x).asnumpy()
    net.export(str(tmp_path / "net"), epoch=7)
    again = gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"], str(tmp_path / "net-0007.params"))
    np.testing.assert_allclose(again(x).asnumpy(), expected, rtol=1e-6)
    kinds = {name[:4] for name in mx.nd.load(str(tmp_path / "net-0007.params"))}
    assert kinds == {"arg:", "aux:"}
    inner = gluon.SymbolBlock(net(mx.sym.var("data")).get_internals()["hybridsequential0_dense0_relu_fwd_output"]
                              if net.name == "hybridsequential0" else net[0](mx.sym.var("data")),
                              mx.sym.var("data"), params=net.collect_params())
    assert inner(x).shape == (2, 4)


def test_block_of_a_real_mxnet_export(tmp_path):
    expected = np.load(DATA / "gluon_resblock_expected.npz")
    net = gluon.SymbolBlock.imports(str(DATA / "gluon_resblock-symbol.json"), "data",
                                    str(DATA / "gluon_resblock-0000.params"))
    np.testing.assert_allclose(net(mx.nd.array(expected["data"])).asnumpy(), expected["out"], rtol=1e-5, atol=1e-6)
    trainer = gluon.Trainer(net.collect_params(), "adam")
    trainer.load_states(str(DATA / "gluon_resblock_adam.states"))
    assert isinstance(trainer.optimizer, mx.optimizer.Adam) and states_of(trainer)


def test_cast_of_an_imported_block_keeps_batch_norm():
    data = mx.sym.var("data")
    out = mx.sym.BatchNorm(mx.sym.FullyConnected(data, num_hidden=2, name="fc"), name="bn")
    net = gluon.SymbolBlock(out, data)
    net.cast("float16")
    dtypes = {name: np.dtype(param.dtype).name for name, param in net.collect_params().items()}
    assert dtypes["fc_weight"] == "float16" and dtypes["bn_gamma"] == dtypes["bn_moving_var"] == "float32"
    with pytest.raises(AssertionError, match="row_sparse"):
        gluon.SymbolBlock(mx.sym.var("w", stype="row_sparse") + data, data)


def test_training_prints_nothing(capfd):
    net, loss = _mlp(), gluon.loss.L2Loss()
    net.initialize()
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd")
    for size in (4, 4, 3):
        with mx.autograd.record():
            value = loss(net(mx.nd.ones((size, 3))), mx.nd.zeros((size, 2)))
        value.backward()
        trainer.step(size)
    net(mx.nd.ones((2, 3))).wait_to_read()
    assert capfd.readouterr() == ("", "")


def test_several_contexts_each_use_their_own_parameters():
    contexts = [mx.cpu(i) for i in range(3)]
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(4, in_units=5, activation="relu"), gluon.nn.Dense(2, in_units=4))
    net.initialize(mx.init.Constant(0.1), ctx=contexts)
    net.hybridize()
    data = [mx.nd.ones((2, 5), ctx=ctx) * (i + 1) for i, ctx in enumerate(contexts)]
    for _ in range(3):
        with mx.autograd.record():
            outs = [net(x) for x in data]
        mx.autograd.backward(outs)
    for i, (ctx, out) in enumerate(zip(contexts, outs, strict=True)):
        assert out.context == ctx
        np.testing.assert_allclose(out.asnumpy(), 0.1 * 4 * 0.5 * (i + 1), rtol=1e-6)
        grad = net[0].weight.grad(ctx)
        assert grad.context == ctx
        np.testing.assert_allclose(grad.asnumpy(), 2 * 2 * 0.1 * (i + 1), rtol=1e-6)


def test_a_name_scope_is_entered_by_two_threads():
    """As in the first call of a network by several: each thread returns to its own outer scope."""
    block, outers = nn.Dense(1, prefix="block_"), [nn.Dense(1, prefix=f"outer{k}_") for k in range(2)]
    inside, left, names = threading.Barrier(2, timeout=60), threading.Event(), {}

    def enter(k):
        with outers[k].name_scope():
            with block.name_scope():
                inside.wait()
                if k:
                    left.wait(60)  # the first to enter leaves first
            left.set()
            names[k] = nn.Dense(1, prefix="own_").prefix, mx.name.current().get(None, "x")
    threads = [threading.Thread(target=enter, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert names == {k: (f"outer{k}_own_", f"outer{k}_x0") for k in range(2)}
