"""A worker dies in mid-epoch: the others say which and end; the job started again ends where it would have ended."""

import re

import pytest
from launching import ROOT, launch

XLAS_WORDS = r"\] [EF]\d{4} |absl::Status|Terminating process"
SCRIPT = ROOT / "examples" / "distributed" / "train.py"


def _digests(output):
    return re.findall(r"\[(\d)\] worker \1 of 3: .* parameters (\w+)", output)


@pytest.mark.slow
def test_kill_and_restart(tmp_path):
    args = (SCRIPT, "--steps", 30, "--every", 10, "--checkpoints")
    status, output = launch("-n", 3, *args, tmp_path / "undisturbed")
    assert status == 0, output
    expected = _digests(output)
    assert len(expected) == 3 and len({digest for _, digest in expected}) == 1

    status, output = launch("-n", 3, *args, tmp_path / "disturbed", "--die", "2:15")
    assert status == 128 + 9, output
    assert "launch: worker 2 (process" in output and "was killed by SIGKILL" in output
    for rank in (0, 1):
        told = rf"\[{rank}\] mxjax: worker {rank}: worker 2 \(process \d+ on [\d.]+\) has died"
        assert len(re.findall(told, output)) == 1, output
    assert not re.search(XLAS_WORDS, output), output

    status, output = launch("-n", 3, *args, tmp_path / "disturbed", "--die", "2:15")
    assert status == 0, output
    assert output.count("goes on from step 10") == 3
    assert sorted(_digests(output)) == sorted(expected)

    status, output = launch("-n", 3, "--restarts", 3, *args, tmp_path / "by itself", "--die", "0:15")
    assert status == 0, output  # worker 0, which has JAX's service
    for rank in (1, 2):
        assert len(re.findall(rf"\[{rank}\] mxjax: worker {rank}: worker 0 .* has died", output)) == 1, output
    assert not re.search(XLAS_WORDS, output), output
    assert "launch: attempt 1 of 4 has ended with status 137; the job is started again in 1 s" in output
    assert output.count("goes on from step 10") == 3
    assert sorted(_digests(output)) == sorted(expected)
