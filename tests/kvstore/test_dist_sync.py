"""Synchronous stores over two processes: one job makes all the checks of sync_checks.py."""

import pytest
from launching import checks, launch


@pytest.fixture(scope="module")
def job():
    return launch("-n", 2, "sync_checks.py")


@pytest.mark.parametrize("check", checks("sync_checks.py"))
def test_on_both_workers(job, check):
    _, output = job
    assert all(f"[{rank}] passed {check} (" in output for rank in range(2)), output[-3000:]


def test_the_job_ends_well(job):
    assert job[0] == 0, job[1][-3000:]
