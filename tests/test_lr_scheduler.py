"""Learning-rate schedules, against MXNet 1.9.1's values."""

import math

import pytest

import mxjax as mx
from mxjax import misc
from mxjax.lr_scheduler import CosineScheduler, FactorScheduler, LRScheduler, MultiFactorScheduler, PolyScheduler


@pytest.mark.parametrize("schedule, expected", [
    (FactorScheduler(10, 0.5, base_lr=1.0), {0: 1, 10: 1, 11: 0.5, 21: 0.25, 100: 2 ** -9}),
    (FactorScheduler(1, 0.1, stop_factor_lr=1e-3, base_lr=1.0), {50: 1e-3}),
    (MultiFactorScheduler([5, 8], 0.1, base_lr=1.0), {5: 1, 6: 0.1, 8: 0.1, 9: 0.01, 99: 0.01}),
    (PolyScheduler(100, 2.0, pwr=2, final_lr=1.0), {0: 2, 50: 1.25, 100: 1, 200: 1}),
    (CosineScheduler(100, 2.0, final_lr=1.0), {0: 2, 50: 1.5, 100: 1, 200: 1}),
    (CosineScheduler(30, 1.0, warmup_steps=10, warmup_begin_lr=0.5), {0: 0.5, 5: 0.75, 10: 1, 20: 0.5, 30: 0}),
    (PolyScheduler(30, 1.0, 1, warmup_steps=10, warmup_begin_lr=0.2, warmup_mode="constant"), {9: 0.2, 10: 1, 20: 0.5}),
])
def test_values(schedule, expected):
    for update in range(max(expected) + 1):
        rate = schedule(update)
        if update in expected:
            assert math.isclose(rate, expected[update], rel_tol=1e-9, abs_tol=1e-12), update


@pytest.mark.parametrize("make", [
    lambda: LRScheduler(warmup_steps=-1), lambda: LRScheduler(0.1, 3, 0.2), lambda: LRScheduler(warmup_mode="steep"),
    lambda: FactorScheduler(0), lambda: FactorScheduler(3, 1.5), lambda: MultiFactorScheduler([5, 5]),
    lambda: MultiFactorScheduler([0, 5]), lambda: MultiFactorScheduler([]), lambda: PolyScheduler(0),
    lambda: CosineScheduler(2.5), lambda: LRScheduler().get_warmup_lr(0),
])
def test_arguments_out_of_range(make):
    with pytest.raises((ValueError, AssertionError)):
        make()


def test_own_schedule():
    class Half(LRScheduler):
        def __call__(self, num_update):
            return self.base_lr / 2

    assert Half(1.0)(3) == 0.5
    with pytest.raises(NotImplementedError):
        LRScheduler()(3)


def test_the_old_schedule_has_no_memory():
    schedule = misc.FactorScheduler(step=10)
    assert [round(schedule(n), 6) for n in (25, 5, 10)] == [1e-4, 1e-2, 1e-3]
    with pytest.raises(ValueError, match="factor must be below 1"):
        misc.FactorScheduler(step=1, factor=1)


def test_changes_are_logged_in_mxnets_words(caplog):
    caplog.set_level("INFO")
    FactorScheduler(2, 0.1, stop_factor_lr=5e-3, base_lr=0.1)(5)
    MultiFactorScheduler([2], 0.5, base_lr=1.0)(3)
    assert [record.getMessage() for record in caplog.records] == [
        "Update[5]: Change learning rate to 1.00000e-02",
        "Update[5]: now learning rate arrived at 5.00000e-03, will not change in the future",
        "Update[3]: Change learning rate to 5.00000e-01"]


def test_an_optimizers_rate_overwrites_the_schedules(capsys):
    schedule = FactorScheduler(2, 0.1, base_lr=0.5)
    for kwargs, rate, told in (({}, 0.5, 0), ({"learning_rate": 0.5}, 0.5, 0), ({"learning_rate": 0.1}, 0.1, 1)):
        mx.optimizer.SGD(lr_scheduler=schedule, **kwargs)
        assert schedule.base_lr == rate
        assert capsys.readouterr().out.count("has been overwritten by ``learning_rate``") == told


def test_a_schedule_of_no_updates_is_a_value_error():
    for schedule in (mx.lr_scheduler.PolyScheduler, mx.lr_scheduler.CosineScheduler):
        with pytest.raises(ValueError, match="at least 1"):
            schedule(0)
        with pytest.raises(AssertionError, match="integer"):
            schedule(1.5)
