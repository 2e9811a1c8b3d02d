"""MXNet's random numbers for a seed, to the bit; the numbers and checksums here are what MXNet 1.9.1 gave."""

import json
import subprocess
import sys
import threading
import zlib

import numpy as np
import pytest

import mxjax as mx
from mxjax._random.mersenne import Source, Twisters
from mxjax.ops.random import _host_rejection

DRAWS = {
    "uniform": lambda n, d: mx.nd.random.uniform(-1, 3, shape=(n,), dtype=d),
    "normal": lambda n, d: mx.nd.random.normal(0.5, 2, shape=(n,), dtype=d),
    "exponential": lambda n, d: mx.nd.random.exponential(2.0, shape=(n,), dtype=d),
}
# two draws in a row of 1, 64, 65 and 70000 numbers after seed 42
SUMS = {
    ("uniform", "float16"): [(2890025144, 2887721123), (3550059248, 3310328846), (1589033108, 374943862),
                             (1842227456, 1824106567)],
    ("uniform", "float32"): [(3930049769, 2255066656), (3422980399, 1429432927), (3336288948, 2333656387),
                             (2399136458, 3194563652)],
    ("uniform", "float64"): [(2990375617, 3645273058), (2322038445, 592956840), (171560612, 117266774),
                             (1772869660, 2071863650)],
    ("normal", "float16"): [(1508240176, 765277578), (2017710980, 393543645), (1694891673, 2023355139),
                            (476155995, 1093304128)],
    ("normal", "float32"): [(1077768707, 3630872977), (3418971386, 849921502), (1734271132, 3337595578),
                            (4087968793, 4171209257)],
    ("normal", "float64"): [(2211368876, 1076783201), (1609424171, 1699939775), (1423189397, 4121611166),
                            (2205133201, 1932350288)],
    ("exponential", "float16"): [(1353492593, 2181758129), (3922346002, 3943038357), (3858163407, 3982571502),
                                 (435290530, 3567402733)],
    ("exponential", "float32"): [(690500844, 1903979003), (665639855, 2376824089), (1535104292, 1461144911),
                                 (3057769458, 1758867152)],
    ("exponential", "float64"): [(3159536675, 1475064731), (2866846941, 3854326126), (3078000530, 2933145823),
                                 (3339298130, 3922009056)],
}

BY_VALUE = [
    [-0.636092067, -0.902840853, 1.10815084, 0.122608542, 2.10078621, 1.44182384],
    [1.45297503, 6.18962622, 6.69632912, 3.32730842, 11.938797, 4.06085443],
    [0.0, 6.0, 1.0, 2.0, 3.0, 4.0, 5.0],
    [2.0, 4.0, 6.0],
]


def crc(array):
    return zlib.crc32(np.ascontiguousarray(array.asnumpy()).tobytes())


@pytest.mark.parametrize("name, dtype", SUMS)
def test_draws(name, dtype):
    for count, sums in zip((1, 64, 65, 70000), SUMS[name, dtype], strict=True):
        mx.random.seed(42)
        assert (crc(DRAWS[name](count, dtype)), crc(DRAWS[name](count, dtype))) == sums


def test_many_numbers():
    """So many that other threads help."""
    mx.random.seed(42)
    assert crc(mx.nd.random.gamma(2, 3, shape=(600_000,))) == 475393940
    assert crc(mx.nd.random.poisson(4, shape=(600_000,))) == 2414278598
    assert crc(mx.nd.random.uniform(shape=(5,))) == 1274217399


def test_integers_and_a_negative_seed():
    found = []
    for dtype in ("int32", "int64"):
        for count in (1, 65, 70000):
            mx.random.seed(-3)
            found.append(crc(mx.nd.random.randint(-5, 1000, shape=(count,), dtype=dtype)))
    assert found == [4089331961, 2255083681, 3647067849, 4097977185, 4176103623, 746949298]


def test_seeding_one_context():
    mx.random.seed(7, ctx=mx.cpu())
    np.testing.assert_array_equal(mx.nd.random.uniform(shape=(3,)).asnumpy(),
                                  np.float32([0.42855945229530334, 0.9175162315368652, 0.8079777359962463]))


def test_shapes_of_arrays_and_parameters_in_arrays():
    mx.random.seed(5)
    assert crc(mx.nd.random.normal_like(mx.nd.zeros((3, 4)))) == 251671336
    assert crc(mx.nd.random.uniform(mx.nd.array([0, 10]), mx.nd.array([1, 20]), shape=3)) == 3398557072


def test_a_process_begins_as_if_seeded_with_0():
    code = "import mxjax as mx; print(mx.nd.random.uniform(shape=(3,)).asnumpy().tolist())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[0.54881352186203, 0.5928446054458618, 0.7151893377304077]", done.stderr


@pytest.mark.parametrize("init, expected", [
    (mx.init.Xavier(), 541738069), (mx.init.Normal(0.1), 2708955063), (mx.init.Uniform(0.2), 1317920007),
    (mx.init.MSRAPrelu(), 401722493)], ids=lambda v: type(v).__name__)
def test_initial_weights(init, expected):
    mx.random.seed(3)
    dense = mx.gluon.nn.Dense(30, in_units=40, weight_initializer=init)
    dense.initialize()
    assert crc(dense.weight.data()) == expected


def test_orthogonal_weights():
    mx.random.seed(3)
    dense = mx.gluon.nn.Dense(2, in_units=3, weight_initializer=mx.init.Orthogonal())
    dense.initialize()
    np.testing.assert_allclose(dense.weight.data().asnumpy(), [[-0.58237, -0.89449, -0.92743],
                                                               [1.27715, -0.53553, -0.28547]], atol=2e-5)


@pytest.mark.parametrize("form", ["imperative", "hybridized", "executor"])
@pytest.mark.parametrize("params, sums", [({"p": 0.5}, [1447914573, 2403524401, 1911152497, 75532225]),
                                          ({"p": 0.3, "axes": (0,)},
                                           [1053789447, 2030894568, 2236399303, 1314403297])])
def test_dropout(form, params, sums):
    """Two masks in float32, one in float64, and where the source stands afterwards."""
    x = mx.nd.ones((37, 50))

    def call(data):
        if form == "imperative":
            with mx.autograd.train_mode():
                return mx.nd.Dropout(data, **params)
        if form == "hybridized":
            with mx.autograd.record():
                return net(data)
        executor = mx.sym.Dropout(mx.sym.var("x"), **params).bind(mx.cpu(), {"x": data}, {"x": data.zeros_like()})
        executor.forward(is_train=False)  # draws nothing
        return executor.forward(is_train=True)[0]
    net = mx.gluon.nn.Dropout(params["p"], axes=params.get("axes", ()))
    net.hybridize()
    mx.random.seed(3)
    found = [crc(call(x)), crc(call(x)), crc(call(x.astype("float64")))]
    assert [*found, crc(mx.nd.random.uniform(shape=(5,)))] == sums


@pytest.mark.parametrize("hybridize", [False, True])
def test_draws_within_a_block(hybridize):
    class Net(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return (F.random.randint(0, 1000, shape=(3,)), F.random.uniform(shape=(3,)),
                    F.Dropout(x, p=0.5, mode="always"), F.random.normal_like(x))
    net = Net()
    if hybridize:
        net.hybridize()
    x = mx.nd.ones((37, 50))
    for _ in range(2):
        mx.random.seed(3)
        found = [a.asnumpy().reshape(-1)[:3] for a in net(x)]
        np.testing.assert_array_equal(found[0], [459, 931, 754])
        np.testing.assert_array_equal(found[1], np.float32([0.5336305499076843, 0.30080392956733704,
                                                            0.3305663764476776]))
        np.testing.assert_array_equal(found[2], [2, 2, 2])


def test_graphs_of_one_structure_have_their_own_numbers():
    for low, high in ((0, 1), (2, 3), (5, 9)):
        mx.random.seed(3)
        expected = mx.nd.random.uniform(low, high, shape=(3,)).asnumpy()
        graph = mx.sym.random.uniform(low, high, shape=(3,)) + mx.sym.var("x")
        mx.random.seed(3)
        found = graph.bind(mx.cpu(), {"x": mx.nd.zeros((3,))}).forward()[0].asnumpy()
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("form", ["imperative", "hybridized", "executor"])
def test_draws_that_depend_on_values(form):
    def draws(F, mean):
        return [F.sample_normal(mean, F.ones_like(mean), shape=(2,)), F.sample_gamma(mean, mean, shape=(2,)),
                F.shuffle(F.arange(7)), F.Dropout(mean, p=0.5, mode="always")]

    class Net(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return draws(F, x)
    x = mx.nd.array([1, 2, 3])
    net = Net()
    if form == "hybridized":
        net.hybridize()
    mx.random.seed(3)
    if form == "executor":
        found = mx.sym.Group(draws(mx.sym, mx.sym.var("x"))).bind(mx.cpu(), {"x": x}, {"x": x.zeros_like()}).forward()
    else:
        found = net(x)
    for got, expected in zip(found, BY_VALUE, strict=True):
        np.testing.assert_array_equal(got.asnumpy().reshape(-1), np.float32(expected))


def test_training_steps_that_are_replayed_draw_on():
    """A step seen before draws what the same step in full does, whatever is drawn in between."""
    def losses(fast):
        mx.random.seed(11)
        net = mx.gluon.nn.HybridSequential()
        net.add(mx.gluon.nn.Dense(16, activation="relu", in_units=8), mx.gluon.nn.Dropout(0.5),
                mx.gluon.nn.Dense(2, in_units=16))
        net.initialize(mx.init.Xavier())
        net.hybridize()
        trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
        loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()
        loss.hybridize()
        step = mx.gluon.TrainStep(net, loss, trainer)
        found = []
        for i in range(8):
            x, y = mx.nd.random.uniform(shape=(4, 8)), mx.nd.array([0, 1, 0, 1])
            if i == 5:
                net(mx.nd.ones((3, 8)))  # another shape in between
            if fast:
                value = step(x, y)
            else:
                with mx.autograd.record():
                    value = loss(net(x), y)
                value.backward()
                trainer.step(4)
            found.append(value.asnumpy().mean())
        return found
    np.testing.assert_allclose(losses(True), losses(False), rtol=1e-5)


def test_pieces_do_not_matter():
    """Draws of any size leave off where the next begins, whichever way words are kept."""
    one, other = Source(9), Source(9)
    sizes = [64 * 1024 + 7, 3, 5000, 64, 2_000_000, 65, 1]
    for size in sizes:
        np.testing.assert_array_equal(one.parallel_normal(size), other.parallel_normal(size))
        np.testing.assert_array_equal(one.parallel_below(size, np.float32(0.3)),
                                      other.parallel_uniform(size) <= np.float32(0.3))
        lanes, counts = other.lanes.split(size)
        words = np.concatenate([lane.take(int(n)) for lane, n in zip(lanes, counts, strict=True)])
        np.testing.assert_array_equal(one.parallel(size, 1, np.uint32, lambda w: w[..., 0]), words)
        assert one.drawn == other.drawn
    first = one.twister.take(6000)
    one.twister.give_back(first[10:])
    np.testing.assert_array_equal(one.twister.take(7000)[:5990], first[10:])


@pytest.mark.parametrize("dtype, sums", [
    ("float32", [3513315655, 938146617, 1213339145, 547067488, 1452684170]),
    ("float64", [1947984666, 1554796654, 1753600805, 2925790623, 3785531932]),
])
def test_parameters_that_change_from_number_to_number(dtype, sums):
    i = np.arange(70000)
    shape, chance, scale, rate, spread = (mx.nd.array(values, dtype=dtype) for values in (
        1 + i % 97 / 3.3, 0.05 + i % 19 / 21, 0.2 + i % 7 / 5, i % 31, i % 5 / 4))
    mx.random.seed(4)
    assert sums == [crc(array) for array in (
        mx.nd.sample_negative_binomial(shape, chance, dtype=dtype), mx.nd.sample_gamma(chance, scale, dtype=dtype),
        mx.nd.sample_gamma(shape, scale, dtype=dtype), mx.nd.sample_poisson(rate, dtype=dtype),
        mx.nd.sample_generalized_negative_binomial(rate, spread, dtype=dtype))]


@pytest.mark.parametrize("count", [1, 65, 3000, 70000])
def test_one_at_a_time_or_all_places_at_once_or_guessed(count, monkeypatch):
    """All give the same numbers, whatever the parameters are, and where there is none for some."""
    i = np.arange(count)
    shape, scale = np.where(i % 41 == 7, np.nan, 0.4 + i // 9 % 5).astype(np.float32), np.float32(1 + i // 50 % 3)
    found = []
    for short, guessed in ((0, 0), (10 ** 9, 0), (0, 9000)):
        monkeypatch.setattr(_host_rejection, "_SHORT", short)
        monkeypatch.setattr(_host_rejection, "_GUESSED", (guessed, guessed))
        source = Source(6)
        found.append([_host_rejection.gamma(source, count, np.dtype(np.float32), shape, scale),
                      _host_rejection.poisson(source, count, np.dtype(np.float32), scale * 7),
                      _host_rejection.generalized_negative_binomial(source, count, np.dtype(np.float32), scale * 7,
                                                                    scale - 1),
                      source.parallel_uniform(count)])
    for one, *others in zip(*found, strict=True):
        for other in others:
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("value", [0, -2, 1e-30, 12, 1e6, 1e20, np.inf, -np.inf, np.nan])
def test_parameters_that_cannot_be_guessed(value, monkeypatch):
    parameters = np.where(np.arange(70) % 3, np.float32(value), np.float32(1.5))
    other, found = np.full(70, 0.3, np.float32), []
    for guessed in 0, 10 ** 9:
        monkeypatch.setattr(_host_rejection, "_GUESSED", (guessed, guessed))
        source = Source(6)
        found.append([draw(source, 70, np.dtype(np.float32), *given) for draw, *given in (
            (_host_rejection.gamma, parameters, other), (_host_rejection.gamma, other, parameters),
            (_host_rejection.negative_binomial, np.abs(parameters), other), (_host_rejection.poisson, parameters))])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_each_thread_has_numbers_of_its_own():
    """They begin as if seeded with 0, and seeding reaches the thread alone, as in MXNet."""
    mx.random.seed(42)
    found, before = [], mx.nd.random.uniform(shape=(3,)).asnumpy()

    def work():
        found.append(mx.nd.random.uniform(shape=(3,)).asnumpy())
        mx.random.seed(7)
        found.append(mx.nd.random.uniform(shape=(3,)).asnumpy())
        found.append(mx.nd.random.normal(shape=(600_000,)).asnumpy())  # others help
    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    after = mx.nd.random.uniform(shape=(3,)).asnumpy()
    np.testing.assert_array_equal(before, np.float32([0.8290936350822449, 0.7478349208831787, 0.5581813454627991]))
    np.testing.assert_array_equal(after, np.float32([0.565735399723053, 0.6311214566230774, 0.9964985847473145]))
    for numbers in (f for f in found if len(f) == 3):
        assert numbers[0] in np.float32([0.54881352186203, 0.42855945229530334])
    mx.random.seed(7)
    mx.nd.random.uniform(shape=(3,))
    expected = mx.nd.random.normal(shape=(600_000,)).asnumpy()
    for numbers in (f for f in found if len(f) > 3):
        np.testing.assert_array_equal(numbers, expected)


@pytest.mark.parametrize("ahead, count", [(2490, 20), (0, 3000), (5, 2496)])
def test_words_that_are_given_back_come_again(ahead, count):
    twisters = Twisters(3, 5)
    generators = [np.random.MT19937() for _ in range(3)]
    for i, generator in enumerate(generators):
        generator.state = np.random.RandomState(5 + i).get_state(legacy=False)
    words = [generator.random_raw(8000) for generator in generators]
    one, rows = twisters.one(0), slice(0, 3)
    one.take(ahead)
    taken = one.take(count)
    one.give_back(taken[1:])
    for _ in range(2):  # what several twisters give is given back as a whole, and in part
        found = twisters.take(rows, 100)
        assert found[0].tolist() == words[0][ahead + 1:ahead + 101].tolist()
        assert found[1].tolist() == words[1][:100].tolist()
        twisters.give_back(rows, 100)
    twisters.take(rows, 100)
    twisters.give_back(rows, np.array([30, 0, 100]))
    found = twisters.take(rows, 50)
    for i, begin in enumerate((ahead + 71, 100, 0)):
        assert found[i].tolist() == words[i][begin:begin + 50].tolist()


def test_states_of_twisters_are_saved_again_as_they_were_loaded():
    twisters, again = Twisters(3, 5), Twisters(3, 1)
    twisters.one(0).take(5)
    twisters.one(2).take(3000)
    for count in (0, 700):
        again.load_state_dict(json.loads(json.dumps(twisters.state_dict())))
        assert again.state_dict() == twisters.state_dict() and again.used == twisters.used
        for i in range(3):
            assert again.one(i).take(count).tolist() == twisters.one(i).take(count).tolist()
    assert again.used == twisters.used == 3005 + 3 * 700
