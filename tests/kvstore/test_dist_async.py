"""Asynchronous stores: one job of two workers and two servers makes all the checks of async_checks.py."""

import pytest
from launching import checks, launch


@pytest.fixture(scope="module")
def job():
    return launch("-n", 2, "-s", 2, "--env", "MXJAX_JOIN_XLA=0", "async_checks.py")


@pytest.mark.parametrize("check", checks("async_checks.py"))
def test_on_both_workers(job, check):
    _, output = job
    assert all(f"[{rank}] passed {check} (" in output for rank in range(2)), output[-3000:]


def test_the_job_ends_well(job):
    assert job[0] == 0, job[1][-3000:]


def test_a_workers_death_is_no_reason_to_end_and_servers_may_be_threads():
    status, output = launch("-n", 2, "--keep-going", "async_death.py")
    assert status == 128 + 9, output
    assert "[0] mxjax: worker 0: worker 1" in output and "the others continue" in output, output
    assert "[0] goes on: 1 dead, value 3.0" in output, output


@pytest.mark.slow
def test_a_worker_that_is_started_again_goes_on():
    status, output = launch("-n", 2, "-s", 1, "--restarts", 1, "async_return.py")
    assert status == 0, output
    assert "launch: worker 1 is started again" in output
    assert "[0] sees 12, returned: False, dead: 0" in output and "[1] sees 12, returned: True, dead: 0" in output
