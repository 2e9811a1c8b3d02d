"""Threads that change the same arrays: what is left is what some order of their statements leaves."""

import random
import sys
import threading

import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd

from ..internals import updater_of

THREADS = 8


@pytest.fixture(autouse=True)
def often():
    """Threads take turns every few instructions."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(*jobs, seconds=120):
    """Runs jobs in threads at once; the errors they end in."""
    errors, gate = [], threading.Barrier(len(jobs))

    def run(job):
        try:
            gate.wait()
            job()
        except BaseException as error:
            errors.append(error)
    threads = [threading.Thread(target=run, args=(job,), daemon=True) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds)
    return errors + [TimeoutError("a thread hangs")] * sum(t.is_alive() for t in threads)


def settle(tally, errors, same, what):
    for error in errors:
        tally.count("hang" if isinstance(error, TimeoutError) else "crash", f"{what}: {type(error).__name__}: {error}")
    if not errors:
        tally.count("ok" if same else "differs", what)


# ------------------------------------------------------------ statements that commute: one result, whatever the order
def _add_scalar(s, k):
    s["a"] += k


def _add_array(s, k):
    s["a"] += s["fixed"][k]


def _row(s, k):
    s["a"][k] += 1


def _row_view(s, k):
    view = s["a"][k]
    view += 2


def _rows(s, k):
    view = s["a"][0:2]
    view += k


def _out(s, k):
    mx.nd.broadcast_add(s["a"], s["fixed"][k], out=s["a"])


def _op_out_view(s, k):
    mx.nd._internal._plus_scalar(s["a"][k], scalar=1.0, out=s["a"][k])


def _flat(s, k):
    flat = s["a"].reshape((-1,))
    flat += k


def _sgd(s, k):
    mx.nd.sgd_update(s["a"], s["fixed"][k], lr=1.0, wd=0.0, out=s["a"])


def _fetch(s, k):
    value = s["a"].asnumpy()
    assert value.shape == (8, 4) and np.isfinite(value).all()


def _copy(s, k):
    s["a"].copyto(s["seen"])
    (s["seen"] * 2).asnumpy()


def _bulk(s, k):
    with mx.engine.bulk(4):
        s["a"] += k
        s["a"] += 1
        s["a"] -= 1


def _gradient(s, k):
    x = mx.nd.ones((8, 4))
    x.attach_grad()
    with autograd.record():
        y = (s["a"] * 0 + x * k).sum()
    y.backward()
    s["a"] += x.grad


def _lazy(s, k):
    x = mx.nd.ones((8, 4))
    x.attach_grad()
    with autograd.record():
        y = s["net"](x)
    s["a"] += y.detach() * 0 + k


def _momentum(s, k):
    mx.nd.sgd_mom_update(s["w"], s["fixed"][k], s["m"], lr=1.0, momentum=1.0, wd=0.0, out=s["w"])


def _batch_norm(s, k):
    with autograd.train_mode():
        mx.nd.BatchNorm(s["batch"], s["one"], s["one"], s["mean"], s["var"], momentum=0.5, fix_gamma=False)


def _sparse_gradient(s, k):
    rows = mx.nd.sparse.row_sparse_array((np.ones((1, 4), np.float32), [k]), shape=(8, 4))
    s["rows"] += rows


def _sparse_update(s, k):
    grad = mx.nd.sparse.row_sparse_array((np.ones((1, 4), np.float32), [k]), shape=(8, 4))
    mx.nd.sgd_update(s["a"], grad, lr=1.0, wd=0.0, lazy_update=True, out=s["a"])


def _wide(s, k):
    s["long"] += k


STATEMENTS = [_add_scalar, _add_array, _row, _row_view, _rows, _out, _op_out_view, _flat, _sgd, _fetch, _copy,
              _bulk, _gradient, _lazy, _momentum, _batch_norm, _sparse_gradient, _sparse_update, _wide]


def _world():
    net = mx.gluon.nn.Dense(4, in_units=4, use_bias=False)
    net.initialize(mx.init.One())
    net.hybridize()
    return {"a": mx.nd.zeros((8, 4)), "seen": mx.nd.zeros((8, 4)), "net": net,
            "fixed": [mx.nd.full((8, 4), i) for i in range(THREADS)],
            "w": mx.nd.zeros((8, 4)), "m": mx.nd.zeros((8, 4)), "batch": mx.nd.array(np.arange(8.0).reshape(4, 2)),
            "one": mx.nd.ones((2,)), "mean": mx.nd.zeros((2,)), "var": mx.nd.zeros((2,)),
            "rows": mx.nd.zeros((8, 4)).tostype("row_sparse"), "long": mx.nd.zeros((5,), dtype="int64")}


def _values(world):
    return {name: world[name].asnumpy() for name in ("a", "m", "mean", "var", "rows", "long")}


def test_statements_that_commute(tally, effort):
    """Random programs of 8 threads beside the same statements by one thread."""
    draw = random.Random(7)
    for schedule in range(effort(25, 700)):
        chosen = draw.sample(STATEMENTS, draw.randint(1, 5))
        programs = [[draw.choice(chosen) for _ in range(draw.randint(2, 12))] for _ in range(THREADS)]
        shared, alone = _world(), _world()

        def run(world, k):
            for statement in programs[k]:  # noqa: B023
                statement(world, k)
        errors = together(*[lambda k=k: run(shared, k) for k in range(THREADS)])  # noqa: B023
        for k in range(THREADS):
            run(alone, k)
        same = True
        if not errors:
            got, expected = _values(shared), _values(alone)
            same = all(np.allclose(got[n], expected[n], rtol=1e-5) for n in got)
        settle(tally, errors, same, f"schedule {schedule}: {[s.__name__ for s in chosen]}")


def test_rows_of_their_own(tally, effort):
    """Each thread works on a row of one array, in every way there is; the others' rows are none of its business."""
    for schedule in range(effort(6, 100)):
        array, expected = mx.nd.zeros((THREADS, 6)), np.zeros((THREADS, 6), np.float32)

        def job(k):
            draw, mine = random.Random(schedule * 100 + k), expected[k]  # noqa: B023
            view = array[k]  # noqa: B023
            for _ in range(30):
                way, number = draw.randrange(7), draw.randrange(1, 5)
                if way == 0:
                    view += number
                    mine += number
                elif way == 1:
                    array[k] = number  # noqa: B023
                    mine[:] = number
                elif way == 2:
                    array[k, 1:4] = number  # noqa: B023
                    mine[1:4] = number
                elif way == 3:
                    array[k:k + 1] *= 2  # noqa: B023
                    mine *= 2
                    mine %= 1000
                    array[k:k + 1] %= 1000  # noqa: B023
                elif way == 4:
                    array[k][:] = mx.nd.arange(6)  # noqa: B023
                    mine[:] = np.arange(6)
                elif way == 5:
                    mx.nd.ones((6,)).copyto(view)
                    mine[:] = 1
                else:
                    array[[k], [number]] = 7  # noqa: B023
                    mine[number] = 7
                assert (view.asnumpy() == mine).all(), "a row is not what its thread made it"
        errors = together(*[lambda k=k: job(k) for k in range(THREADS)])
        settle(tally, errors, errors or (array.asnumpy() == expected).all(), f"rows, schedule {schedule}")


def test_reads_see_a_whole_value(tally, effort):
    """Writers fill an array with one number at a time, in place and anew; readers never see two."""
    array, done = mx.nd.zeros((64, 64)), threading.Event()

    def writer(k):
        for i in range(effort(40, 400)):
            if i % 3 == 0:
                array[:] = k
            elif i % 3 == 1:
                array.__iadd__(1)
            else:
                mx.nd.full((64, 64), k).copyto(array)

    def reader(k):
        view = array[8:16] if k % 2 else array
        while not done.is_set():
            value = view.asnumpy() if k % 3 else (view * 1).asnumpy()
            tally.count("ok" if (value == value[0, 0]).all() else "differs", "a torn value")

    def writers():
        try:
            for error in together(*[lambda k=k: writer(k) for k in range(4)]):
                tally.count("crash", repr(error))
        finally:
            done.set()
    for error in together(writers, *[lambda k=k: reader(k) for k in range(4)]):
        tally.count("crash", repr(error))


def test_some_order_explains_what_is_left(tally, effort):
    """Two threads, `a += b` and `b += a` (and other pairs): only what one after the other leaves."""
    def swap(a, b):
        a[:] = b

    def plus(a, b):
        a += b

    def out(a, b):
        mx.nd.broadcast_add(a, b, out=a)

    def view(a, b):
        part = a[0:2]
        part += b[0:2]

    def indexed(a, b):
        a[0, 1:3] = b[1, 1:3]
    for trial in range(effort(60, 3000)):
        first, second = random.Random(trial).choices([swap, plus, out, view, indexed], k=2)
        allowed = []
        for order in (1, -1):
            a, b = mx.nd.full((3, 4), 1), mx.nd.full((3, 4), 2)
            for step in ((first, a, b), (second, b, a))[::order]:
                step[0](*step[1:])
            allowed.append((a.asnumpy(), b.asnumpy()))
        a, b = mx.nd.full((3, 4), 1), mx.nd.full((3, 4), 2)
        errors = together(lambda: first(a, b), lambda: second(b, a))  # noqa: B023
        got = (a.asnumpy(), b.asnumpy())
        same = any((got[0] == x).all() and (got[1] == y).all() for x, y in allowed)
        settle(tally, errors, same, f"{first.__name__} and {second.__name__}: {got[0][0]}, {got[1][0]}")


@pytest.mark.slow
def test_two_ways_of_writing_are_one_after_the_other(tally, effort):
    """`a += b` beside `broadcast_add(b, a, out=b)`: their ways through the library differ."""
    for _ in range(effort(1500, 20000)):
        a, b = mx.nd.full((3, 4), 1), mx.nd.full((3, 4), 2)

        def first(a=a, b=b):
            a += b
        errors = together(first, lambda: mx.nd.broadcast_add(b, a, out=b))  # noqa: B023
        got = a[0, 0].asscalar(), b[0, 0].asscalar()
        settle(tally, errors, got in ((3, 5), (4, 3)), f"{got}")


def test_lazy_values_are_computed_once_for_all_who_look(tally, effort):
    """A recorded call of a hybridized network, an executor, a segment: 8 threads look at what has not run yet."""
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(4, in_units=4), mx.gluon.nn.BatchNorm(in_channels=4))
    net.initialize()
    net.hybridize()
    x, w = mx.nd.ones((2, 4)), mx.nd.ones((3, 4))
    w.attach_grad()
    executor = (mx.sym.FullyConnected(mx.sym.var("x"), mx.sym.var("w"), num_hidden=3, no_bias=True) * 2).bind(
        mx.cpu(), {"x": x, "w": w}, {"w": mx.nd.zeros((3, 4))})
    for trial in range(effort(8, 150)):
        with autograd.record():
            y = net(x + 0)
        outputs = executor.forward(is_train=True)
        with mx.engine.bulk(100):
            z = x * 3 + 1
            found = [[] for _ in range(THREADS)]

            def look(k):
                found[k] += [v.asnumpy() for v in (y, outputs[0], z)]  # noqa: B023
            errors = together(*[lambda k=k: look(k) for k in range(THREADS)])
        same = bool(errors) or all((a == b).all() for row in found for a, b in zip(row, found[0], strict=True))
        settle(tally, errors, same and (found[0][2] == 4).all(), f"trial {trial}")
        y.backward()
        executor.backward(mx.nd.ones((2, 3)))


def test_gradients_add_up(tally, effort):
    """grad_req="add": each backward of each thread counts once."""
    for trial in range(effort(3, 40)):
        w = mx.nd.ones((3,))
        w.attach_grad("add")

        def job(k):
            for _ in range(10):
                with autograd.record():
                    loss = (w * (k + 1)).sum()  # noqa: B023
                loss.backward()
        errors = together(*[lambda k=k: job(k) for k in range(THREADS)])
        settle(tally, errors, (w.grad.asnumpy() == 10 * sum(range(1, THREADS + 1))).all(), f"trial {trial}")


def test_trainers_of_one_network(tally, effort):
    """Threads that each take steps with a trainer of their own: every update counts."""
    for fused in (False, True):
        net = mx.gluon.nn.Dense(1, in_units=2, use_bias=False)
        net.initialize(mx.init.Zero())
        net.hybridize()
        steps = effort(5, 40)
        trainers = [mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1.0}, kvstore=None)
                    for _ in range(THREADS)]
        weight = net.weight.data()

        def job(k):
            for _ in range(steps):  # noqa: B023
                updater_of(trainers[k]).prepare([0], [weight])  # noqa: B023
                grad = mx.nd.ones((1, 2))
                updater_of(trainers[k])(0, grad, weight)  # noqa: B023
        errors = together(*[lambda k=k: job(k) for k in range(THREADS)])
        settle(tally, errors, (weight.asnumpy() == -steps * THREADS).all(), f"fused {fused}: {weight.asnumpy()}")
