"""Tests of gluon.data.DistributedSampler: parts, orders, rounds."""

import itertools

import numpy as np
import pytest

import mxjax as mx
from mxjax.gluon import data

SIZES = [0, 1, 2, 7, 8, 15, 16, 33]
PARTS = [1, 2, 3, 5, 8]


def parts(length, count, **options):
    return [data.DistributedSampler(length, count, i, **options) for i in range(count)]


@pytest.mark.parametrize("shuffle", [True, False])
def test_parts_take_everything_once(shuffle):
    for length, count in itertools.product(SIZES, PARTS):
        samplers = parts(length, count, shuffle=shuffle)
        for _ in range(2):
            taken = [list(sampler) for sampler in samplers]
            assert sorted(sum(taken, [])) == list(range(length))
            sizes = [len(part) for part in taken]
            assert sizes == [len(sampler) for sampler in samplers] and max(sizes) - min(sizes) <= 1


def test_padded_parts_are_equally_long():
    for length, count in itertools.product(SIZES, PARTS):
        samplers = parts(length, count, last="pad", seed=4)
        taken = [list(sampler) for sampler in samplers]
        assert {len(part) for part in taken} == {-(-length // count)} == {len(sampler) for sampler in samplers}
        found = np.bincount(sum(taken, []), minlength=length)
        assert len(found) == length and (found >= 1).all() and found.sum() - length < count


def test_dropping_leaves_out_less_than_one_of_each():
    for length, count in itertools.product(SIZES, PARTS):
        samplers = parts(length, count, last="drop", seed=4)
        taken = [list(sampler) for sampler in samplers]
        assert {len(part) for part in taken} == {length // count} == {len(sampler) for sampler in samplers}
        assert len(set(sum(taken, []))) == length - length % count


def test_batches_cover_everything_once():
    for length, count, size in itertools.product([7, 16, 33], PARTS, [1, 3, 4]):
        loaders = [data.DataLoader(list(range(length)), size, sampler=one) for one in parts(length, count)]
        seen = [batch.asnumpy().tolist() for loader in loaders for batch in loader]
        assert sorted(sum(seen, [])) == list(range(length)) and len(seen) == sum(map(len, loaders))


def test_orders_follow_from_seed_and_round_alone():
    def rounds(**options):
        sampler = data.DistributedSampler(50, 2, 1, **options)
        found = []
        for i in range(3):
            np.random.seed(i)
            found.append(list(sampler))
        return found
    first = rounds(seed=1)
    assert rounds(seed=1) == first and len({tuple(order) for order in first}) == 3
    assert rounds(seed=2) != first and rounds(seed=1 + (1 << 40)) != first
    state = np.random.get_state()[1].tolist()
    list(data.DistributedSampler(50, 2, 1))
    assert np.random.get_state()[1].tolist() == state
    assert list(data.DistributedSampler(8, 1, 0, seed=3)) == [1, 4, 2, 0, 3, 5, 7, 6]  # the same for ever


def test_rounds_are_counted_or_told():
    sampler = data.DistributedSampler(40, 2, 0)
    rounds = [list(sampler) for _ in range(4)]
    told = data.DistributedSampler(40, 2, 0)
    for number in (2, 0, 3):
        told.set_epoch(number)
        assert list(told) == rounds[number]
    told.set_epoch(1)
    assert [list(told), list(told)] == rounds[1:3]
    half = iter(told)  # abandoned
    next(half)
    told.set_epoch(1)
    assert list(told) == rounds[1]


@pytest.mark.parametrize("workers", [0, 1])
def test_what_was_loaded_ahead_of_another_round_is_dropped(workers):
    sampler, plain = data.DistributedSampler(20, 2, 0), data.DistributedSampler(20, 2, 0)
    rounds = [list(plain) for _ in range(6)]
    loader = data.DataLoader(range(20), 2, sampler=sampler, num_workers=workers, thread_pool=True, auto_reload=True)
    for number in (0, 5, 1, 2):
        sampler.set_epoch(number)
        assert loader.state_dict()["sampler"]["sampler"]["epoch"] == number
        assert sum((batch.asnumpy().tolist() for batch in loader), []) == rounds[number]
    assert sum((batch.asnumpy().tolist() for batch in loader), []) == rounds[3]


def test_place_of_a_process_alone():
    assert sorted(data.DistributedSampler(5)) == [0, 1, 2, 3, 4]


def test_a_job_that_was_not_joined(monkeypatch):
    monkeypatch.setenv("SLURM_PROCID", "1")
    monkeypatch.setenv("SLURM_NTASKS", "4")
    monkeypatch.setenv("SLURM_NNODES", "1")
    with pytest.raises(mx.MXNetError, match=r"SLURM's variables say that this process is one of 4.*mx.kv.join\(\)"):
        data.DistributedSampler(5)
    assert list(data.DistributedSampler(5, 4, 1, shuffle=False)) == [1]


@pytest.mark.parametrize("arguments,words", [
    ((5, 2), "passed together"), ((5, 2, 2), "from 0 to 1, got 2"), ((5, 0, 0), "got 0 of 0"),
    ((-1, 1, 0), "0 or more"), ((5, 1, 0, True, -3), "0 or more"),
    ((5, 1, 0, True, 0, "rollover"), "'keep', 'pad' or 'drop', got 'rollover'")])
def test_bad_arguments(arguments, words):
    with pytest.raises(ValueError, match=words):
        data.DistributedSampler(*arguments)
    with pytest.raises(ValueError, match="epoch must be 0 or more"):
        data.DistributedSampler(5).set_epoch(-1)
