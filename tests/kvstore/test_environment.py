"""Jobs that other launchers start."""

import re
import subprocess
import sys

from launching import HERE, environment

from mxjax.kvstore.wire import free_port


def _slurm(home, *args):
    """(exit status, output) of two workers started as SLURM does, without `mxjax launch`."""
    port = free_port()
    workers = [subprocess.Popen(
        [sys.executable, str(HERE / "slurm_job.py"), *args], text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment(SLURM_PROCID=str(rank), SLURM_NTASKS="2", MXJAX_COORDINATOR=f"127.0.0.1:{port}",
                        XDG_CONFIG_HOME=str(home), MXJAX_FAILURE_GRACE="2")) for rank in range(2)]
    outputs = [worker.communicate(timeout=250)[0] for worker in workers]
    return [(worker.returncode, output) for worker, output in zip(workers, outputs, strict=True)]


def test_workers_join_at_their_first_store(tmp_path):
    """Nobody gives them a secret: on one machine they agree on one in a file of the user's."""
    for rank, (status, output) in enumerate(_slurm(tmp_path)):
        assert status == 0 and f"worker {rank} of 2 has [3.0, 3.0, 3.0]" in output, output
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "mxjax").iterdir()] == [0o600]


def test_joining_after_the_first_array_is_explained(tmp_path):
    for status, output in _slurm(tmp_path, "late"):
        assert status != 0 and "JAX must not have started its devices" in output, output


def test_the_death_of_worker_0_is_told_in_one_message(tmp_path):
    """It runs the scheduler and JAX's coordination service; nothing of XLA's own comes in between."""
    (_, _), (status, output) = _slurm(tmp_path, "die")
    assert status == 1, output
    assert output.count("mxjax: worker 1: worker 0, which runs the scheduler, is lost") == 1, output
    assert not re.search(r"^[EF]\d{4} |absl::Status|coordination_service", output, re.MULTILINE), output
