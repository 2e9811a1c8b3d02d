"""Optimizers at level 2; numbers are MXNet 2.0.0b1's."""

import numpy as np
import pytest

import mxjax as mx

O = mx.optimizer


def test_five_steps_of_each_optimizer():
    options = {"SGD": {"momentum": 0.9}, "LARS": {"momentum": 0.9}, "DCASGD": {"momentum": 0.5},
               "RMSProp": {"centered": True}}
    wanted = {
        "SGD": [-0.07765, -0.67909, 1.55963], "NAG": [-0.22702, -0.5961, 1.41499], "LARS": [0.49827, -0.99904, 1.99871],
        "DCASGD": [0.14584, -0.80313, 1.70543], "Signum": [0.45, -0.95, 1.95], "Adam": [0.495, -0.995, 1.99504],
        "Adamax": [0.49, -0.98999, 1.99192], "Nadam": [0.49595, -0.99595, 1.99522],
        "AdaGrad": [0.46773, -0.96776, 1.96115], "AdaDelta": [0.48358, -0.98359, 1.97796],
        "RMSProp": [0.46548, -0.96549, 1.9608], "FTML": [0.49243, -0.99243, 1.99093],
        "Ftrl": [0.02079, -0.06883, -0.07167], "LAMB": [0.49321, -0.99289, 1.99455],
        "LANS": [0.4933, -0.99304, 1.99434],
        "AdamW": [0.49495, -0.99489, 1.99643], "AdaBelief": [0.4939, -0.99394, 1.99399]}
    for name, want in wanted.items():
        for fused in (False, True):
            if fused and name in ("DCASGD", "Adamax", "Nadam", "AdaDelta"):
                continue
            optimizer = getattr(O, name)(wd=0.1, clip_gradient=0.4, rescale_grad=0.5, use_fused_step=fused,
                                         **options.get(name, {}))
            update, weight = O.get_updater(optimizer), mx.nd.array([0.5, -1.0, 2.0])
            for k in range(5):
                update([0], [mx.nd.array([1.0, -0.3, 0.2 * k])], [weight])
            np.testing.assert_allclose(weight.asnumpy(), want, atol=2e-5, err_msg=f"{name} {fused}")


def test_defaults_and_where_they_are():
    for name, rate in {"SGD": 0.1, "NAG": 0.1, "DCASGD": 0.1, "SGLD": 0.1, "LARS": 0.1, "AdaDelta": 1.0, "FTML": 0.0025,
                       "Adam": 0.001, "Ftrl": 0.1}.items():
        assert O.create(name).learning_rate == rate, name
    assert O.NAG().momentum == 0.9 and not O.SGD().lazy_update
    assert O.SGD().aggregate_num == 1 and O.LAMB().aggregate_num == 4
    assert O.sgd.SGD is O.SGD is O.optimizer.SGD and O.contrib.GroupAdaGrad is O.create("groupadagrad").__class__
    from mxjax.optimizer.adamW import AdamW
    assert AdamW is O.AdamW
    assert not hasattr(O, "LBSGD")
    for make, kind in ((lambda: O.RMSProp(gamma1=0.9), DeprecationWarning), (lambda: O.SGD(foo=1), TypeError),
                       (lambda: O.SGD(lazy_update=True, use_fused_step=False), AssertionError),
                       (lambda: O.LAMB(aggregate_num=46), AssertionError)):
        try:
            make()
        except kind:
            continue
        raise SystemExit(f"no {kind.__name__}")


def test_ones_own_optimizer_defines_step_and_gets_classic_arrays_in_lists():
    seen = []


    @O.register
    class Mine(O.Optimizer):
        def step(self, indices, weights, grads, states):
            seen.append((list(indices), type(weights[0]), len(weights)))
            for index, weight, grad in zip(indices, weights, grads, strict=True):
                self._update_count(index)
                weight[:] -= self._get_lr(index) * mx.nd.clip(grad, -1, 1)


    net = mx.gluon.nn.Dense(1, in_units=2)
    net.initialize(mx.init.One())
    trainer = mx.gluon.Trainer(net.collect_params(), "mine", {"learning_rate": 0.5})
    with mx.autograd.record():
        loss = net(mx.np.array([[1.0, 2.0]]))
    loss.backward()
    trainer.step(1)
    np.testing.assert_allclose(net.weight.data().asnumpy(), [[0.5, 0.5]])
    assert [row[1:] for row in seen] == [(mx.nd.NDArray, 1)] * 2
    try:
        O.SGD().update(0, mx.nd.ones(2), mx.nd.ones(2), None)
    except TypeError as error:
        assert "lists" in str(error)


@pytest.mark.filterwarnings("ignore:updating 16-bit weights")
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("precise", [False, True])
def test_which_weights_have_copies(fused, dtype, precise):
    """Those of float16, with `multi_precision`: small steps are lost without a copy."""
    optimizer = O.SGD(learning_rate=1e-4, multi_precision=precise, use_fused_step=fused)
    weight, grad = mx.nd.ones((2, 2), dtype=dtype), mx.nd.ones((2, 2), dtype=dtype)
    state = optimizer.create_state_multi_precision(0, weight)
    assert isinstance(state, tuple) == (precise and dtype == "float16")
    for _ in range(10):
        optimizer.update_multi_precision([0], [weight], [grad], [state])
    expected = 1 if dtype == "float16" and not precise else 0.999
    assert np.dtype(weight.dtype) == dtype
    assert np.allclose(weight.asnumpy(), expected, atol=5e-4 if dtype == "float16" else 1e-6)


def test_float16_with_a_copy_sparse_gradients_and_files():
    from mxjax.test_utils import compare_optimizer
    for name in ("SGD", "NAG", "Adam", "LAMB", "AdamW"):
        made = [getattr(O, name)(multi_precision=True, use_fused_step=fused) for fused in (False, True)]
        compare_optimizer(*made, [(3, 4), (5,)], "float16", rtol=1e-2, atol=1e-3)
    optimizer = O.SGD(momentum=0.9, multi_precision=True)
    master, momentum = optimizer.create_state_multi_precision(0, mx.nd.ones(2, dtype="float16"))
    assert master.asnumpy().tolist() == [1, 1] and momentum.asnumpy().tolist() == [0, 0]

    weight, grad = mx.nd.ones((3, 2)), mx.nd.array([[1, 1], [0, 0], [2, 2]]).tostype("row_sparse")
    update = O.get_updater(O.AdaGrad(learning_rate=0.1))
    update([0], [grad], [weight])
    np.testing.assert_allclose(weight.asnumpy(), [[0.9, 0.9], [1, 1], [0.9, 0.9]], rtol=1e-5)

    first = O.get_updater(O.Adam(learning_rate=0.1))
    first([0], [mx.nd.ones(2)], [mx.nd.ones(2)])
    text = first.get_states(dump_optimizer=True)
    assert b"mxnet.optimizer.adam\n" in text
    again = O.get_updater(O.SGD())
    again.set_states(text)
    assert type(again.optimizer) is O.Adam and again.optimizer.num_update == 1



def _moved(optimizer):
    weight = mx.nd.array([1.0, 2.0])
    O.get_updater(optimizer)([0], [mx.nd.ones(2)], [weight])
    return weight.asnumpy()


def test_a_subclass_may_define_its_rates_one_at_a_time():
    at_once = ("SGD", "LAMB", "AdamW", "AdaBelief")  # the fused steps of MXNet 2 that do not call `_get_lr`
    for name in ("NAG", "Adam", "Signum", "RMSProp", "Ftrl", "FTML", *at_once):
        plain = getattr(O, name)
        one = type("One", (plain,), {"_get_lr": lambda self, index: 0.5})
        all_ = type("All", (plain,), {"_get_lrs": lambda self, indices: [0.5] * len(indices)})
        for fused in (False, True):
            slow, fast = (_moved(plain(learning_rate=lr, use_fused_step=fused)) for lr in (0.1, 0.5))
            got = _moved(one(learning_rate=0.1, use_fused_step=fused))
            np.testing.assert_array_equal(got, slow if fused and name in at_once else fast, name)
            np.testing.assert_array_equal(_moved(all_(learning_rate=0.1, use_fused_step=fused)), fast, name)
            assert (slow != fast).all()


def test_options_of_steps_that_are_not_fused():
    """Two steps."""
    for name, options, wanted in (
            ("SGLD", {}, [-0.1445, 0.9172, 1.5622]),
            ("Signum", {"momentum": 0, "wd_lh": 0.1}, [0.4434, 0.4891, 0.5347]),
            ("Signum", {"momentum": 0.9, "wd_lh": 0.1}, [0.444, 0.2911, 0.5361]),
            ("LANS", {"lower_bound": 0.5, "upper_bound": 2}, [0.449, 0.499, 0.549]),
            ("LAMB", {"lower_bound": 0.5, "upper_bound": 2}, [0.449, 0.499, 0.549]),
            ("LARS", {}, [0.2502, 0.5, 0.7498]),
            ("RMSProp", {"clip_weights": 0.5}, [0.5, 0.0695, 0.1486]),
            ("RMSProp", {"clip_weights": 0.5, "centered": True}, [0.5, -0.2459, -0.1967]),
            ("GroupAdaGrad", {"wd": 0}, [0.482, 0.5, 0.518]), ("AdaBelief", {}, [0.4724, 0.469, 0.5275]),
            ("AdaGrad", {}, [0.4395, 0.3376, 0.5607]), ("Test", {"wd": 0}, [0.4, 0.5, 0.6])):
        mx.random.seed(1)
        fused = {} if name in ("SGLD", "Test") else {"use_fused_step": False}
        optimizer = getattr(O, name)(**{"learning_rate": 0.1, "wd": 0.01, **fused, **options})
        weight = mx.nd.array(np.arange(1, 7).reshape(2, 3) / 4)
        state = optimizer.create_state_multi_precision(0, weight)
        for factor in (0.5, 1):
            gradient = mx.nd.array((np.arange(6).reshape(2, 3) % 3 - 1) * factor)
            optimizer.update_multi_precision([0], [weight], [gradient], [state])
        np.testing.assert_allclose(weight.asnumpy()[0], wanted, atol=2e-4, err_msg=f"{name} {options}")
    for name in ("SGD", "Adam"):
        with pytest.raises(AssertionError, match="lazy_update requires use_fused_step=True"):
            getattr(O, name)(lazy_update=True, use_fused_step=False)
