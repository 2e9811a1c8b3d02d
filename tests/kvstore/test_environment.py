"""Jobs that other launchers start."""

import subprocess
import sys

from launching import HERE, environment

from mxjax.kvstore.wire import free_port


def _slurm(*args):
    """(exit status, output) of two workers started as SLURM does, without `mxjax launch`."""
    port = free_port()
    workers = [subprocess.Popen(
        [sys.executable, str(HERE / "slurm_job.py"), *args], text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment(SLURM_PROCID=str(rank), SLURM_NTASKS="2", MXJAX_COORDINATOR=f"127.0.0.1:{port}",
                        MXJAX_FAILURE_GRACE="2")) for rank in range(2)]
    outputs = [worker.communicate(timeout=250)[0] for worker in workers]
    return [(worker.returncode, output) for worker, output in zip(workers, outputs, strict=True)]


def test_workers_join_at_their_first_store():
    for rank, (status, output) in enumerate(_slurm()):
        assert status == 0 and f"worker {rank} of 2 has [3.0, 3.0, 3.0]" in output, output


def test_joining_after_the_first_array_is_explained():
    for status, output in _slurm("late"):
        assert status != 0 and "JAX must not have started its devices" in output, output
