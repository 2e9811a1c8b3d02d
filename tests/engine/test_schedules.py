"""Random schedules against a serial model, and hunts for lost wake-ups."""

import queue
import random
import threading

import pytest

from mxjax import engine

VARIABLES, PUSHERS, PUSHES = 30, 4, 20_000


class Failed(Exception):
    """Carries the number of the function that failed."""


class Model:
    """What a schedule does if every function runs when it is pushed."""

    def __init__(self):
        self.values = [0] * VARIABLES
        self.failed = [None] * VARIABLES
        self.versions = [0] * VARIABLES

    def push(self, number, const, mutate, fails):
        inherited = next((self.failed[v] for v in const + mutate if self.failed[v] is not None), None)
        for v in mutate:
            self.versions[v] += 1
        if inherited is None and not fails:
            self.values = updated(self.values, number, const, mutate)
        else:
            for v in mutate:
                self.failed[v] = number if inherited is None else inherited

    def clear(self, number):
        self.failed = [None if kept == number else kept for kept in self.failed]


def updated(values, number, const, mutate):
    values = list(values)
    seen = hash((number, *(values[v] for v in const), *(values[v] for v in mutate)))
    for v in mutate:
        values[v] = hash((seen, v))
    return values


@pytest.mark.parametrize("seed", [0, 1])
def test_random_schedules_against_a_serial_model(threaded, restless, seed):
    """Pushes of all kinds from several threads, a part of them failing; every value, version and error is compared."""
    eng, model, values = threaded, Model(), [0] * VARIABLES
    variables = [eng.new_variable(f"v{i}") for i in range(VARIABLES)]
    ticket, numbers, finisher = threading.Lock(), iter(range(PUSHES)), queue.SimpleQueue()

    def job(number, const, mutate, fails):
        def run(run_ctx):
            if fails:
                raise Failed(number)
            seen = hash((number, *(values[v] for v in const), *(values[v] for v in mutate)))
            for v in mutate:
                values[v] = hash((seen, v))
        return run

    def later(run):
        def start(run_ctx, on_complete):
            finisher.put((run, run_ctx, on_complete))
        return start

    def finish():
        while (entry := finisher.get()) is not None:
            run, run_ctx, on_complete = entry
            try:
                run(run_ctx)
            except Failed as error:
                on_complete(error)
            else:
                on_complete()

    def pusher(index):
        rng = random.Random(1000 * seed + index)
        while True:
            with engine.bulk(rng.choice((0, 0, 3, 10))):
                for _ in range(rng.randrange(1, 30)):
                    if not push_one(rng):
                        return

    def push_one(rng):
        with ticket:    # the order of pushes must be known, the rest is free
            number = next(numbers, None)
            if number is None:
                return False
            chosen = rng.sample(range(VARIABLES), rng.randrange(1, 6))
            cut = rng.randrange(len(chosen))
            const, mutate, fails = chosen[:cut], chosen[cut:], rng.random() < 0.002
            model.push(number, const, mutate, fails)
            arguments = [variables[v] for v in const], [variables[v] for v in mutate]
            where = {"ctx": rng.choice((None, "a", "b")), "priority": rng.choice((0, 0, 7))}
            run, kind = job(number, const, mutate, fails), rng.random()
            if kind < 0.6:
                eng.push(run, *arguments, lane=rng.choice(("compute", "compute", "io")), **where)
            elif kind < 0.8:
                eng.push_operator(eng.new_operator(run, *arguments), **where)
            else:
                eng.push_async(later(run), *arguments, **where)
            if rng.random() < 0.005:
                try:
                    eng.wait_for_all()
                except Failed:
                    assert any(kept is not None for kept in model.failed)
                else:
                    assert all(kept is None for kept in model.failed)
                model.failed = [None] * VARIABLES
            return True

    finishing = threading.Thread(target=finish)
    finishing.start()
    errors = []

    def guarded(index):
        try:
            pusher(index)
        except BaseException as error:
            errors.append(error)

    pushers = [threading.Thread(target=guarded, args=(index,)) for index in range(PUSHERS)]
    for thread in pushers:
        thread.start()
    for thread in pushers:
        thread.join()
    assert not errors
    assert eng.stop(timeout=60) == []    # all has run, so that clearing an error is as serial as in the model
    finisher.put(None)
    finishing.join()
    for v, var in enumerate(variables):
        raised = None
        try:
            eng.wait_for_var(var)
        except Failed as error:
            raised = error.args[0]
        assert raised == model.failed[v]
        if raised is not None:
            model.clear(raised)
    assert values == model.values
    assert [var.version for var in variables] == model.versions
    assert not any(var.busy or var.pending_write for var in variables)


def test_unserialised_pushers_keep_their_own_order_and_exclude_each_other(eng, restless):
    variables = [eng.new_variable() for _ in range(12)]
    writers, readers, last = [0] * 12, [0] * 12, {}
    guard, broken = threading.Lock(), []

    def job(thread, number, const, mutate):
        def run(run_ctx):
            with guard:
                for v in mutate:
                    if writers[v] or readers[v] or last.get((thread, v), -1) > number:
                        broken.append((thread, number, v))
                    writers[v] += 1
                    last[thread, v] = number
                for v in const:
                    if writers[v]:
                        broken.append((thread, number, v))
                    readers[v] += 1
            with guard:
                for v in mutate:
                    writers[v] -= 1
                for v in const:
                    readers[v] -= 1
        return run

    def pusher(thread):
        rng = random.Random(thread)
        for number in range(1500):
            chosen = rng.sample(range(12), rng.randrange(1, 5))
            cut = rng.randrange(len(chosen))
            const, mutate = chosen[:cut], chosen[cut:]
            eng.push(job(thread, number, const, mutate), [variables[v] for v in const],
                     [variables[v] for v in mutate], ctx=thread)

    threads = [threading.Thread(target=pusher, args=(index,)) for index in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    eng.wait_for_all()
    assert not broken
    assert sum(var.version for var in variables) > 6 * 1500
    assert not any(var.busy for var in variables)


def test_no_lost_wake_up(eng, restless):
    """1000 short rounds in each of several threads, with every way of waiting."""
    shared, errors = eng.new_variable(), []

    def rounds(index):
        own, rng, count = eng.new_variable(), random.Random(index), 0
        ran = []
        try:
            for _ in range(1000):
                for _ in range(rng.randrange(1, 4)):
                    eng.push(ran.append, (shared,), (own,), ctx=rng.randrange(2))
                    count += 1
                kind = rng.randrange(4)
                if kind == 0:
                    eng.push_sync(lambda run_ctx: None, (own,), (shared,))
                elif kind == 1:
                    eng.wait_for_all()
                else:
                    eng.wait_for_var(own)
                if len(ran) != count:
                    errors.append((len(ran), count))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=rounds, args=(index,), daemon=True) for index in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a wait did not end"
    assert not errors


def test_no_lost_wake_up_inside_functions(threaded, restless):
    """Workers that wait for work of the same pool, again and again."""
    variables = [threaded.new_variable() for _ in range(6)]
    ran = []

    def outer(run_ctx, rng):
        inner = threaded.new_variable()
        for _ in range(3):
            threaded.push(ran.append, (), (inner,))
        threaded.wait_for_var(inner)

    rng = random.Random(5)
    for _ in range(1000):
        threaded.push(lambda run_ctx: outer(run_ctx, rng), (), (rng.choice(variables),))
    threaded.wait_for_all()
    assert len(ran) == 3000


def test_model_of_errors_is_not_vacuous():
    model = Model()
    model.push(0, [], [0, 1], False)
    model.push(1, [0], [2], True)
    model.push(2, [2], [3], False)
    assert model.failed[:4] == [None, None, 1, 1] and model.versions[:4] == [1, 1, 1, 1]
    model.clear(1)
    assert model.failed == [None] * VARIABLES
