"""Jobs that other launchers start."""

import contextlib
import random
import re
import shutil
import socket
import subprocess
import sys

import pytest
from launching import HERE, ROOT, environment
from marks import sampled

from mxjax.kvstore import cluster
from mxjax.kvstore.wire import free_port


def _run(home, variables, *args):
    """(exit status, output) of two workers started by another launcher, whose variables for a rank a function gives."""
    workers = [subprocess.Popen(
        [sys.executable, str(HERE / "slurm_job.py"), *args], text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, env=environment(XDG_CONFIG_HOME=str(home), MXJAX_FAILURE_GRACE="2",
                                                  **variables(rank))) for rank in range(2)]
    outputs = [worker.communicate(timeout=250)[0] for worker in workers]
    return [(worker.returncode, output) for worker, output in zip(workers, outputs, strict=True)]


def _slurm(home, *args):
    port = free_port()
    return _run(home, lambda rank: {"SLURM_PROCID": str(rank), "SLURM_NTASKS": "2",
                                    "MXJAX_COORDINATOR": f"127.0.0.1:{port}"}, *args)


def _job_number():
    """A job's number that stands for a free port, where worker 0 then listens."""
    while True:
        number = random.randrange(20000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", 20000 + number))
            return str(number)


def _by_srun(rank, number):
    return {"SLURM_JOB_ID": number, "SLURM_PROCID": str(rank), "SLURM_NTASKS": "2", "SLURM_STEP_NUM_NODES": "1",
            "SLURM_NNODES": "1", "SLURM_STEP_NODELIST": "node7", "SLURM_JOB_NODELIST": "node7"}


def _by_mpirun(rank, number):
    return {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
            "OMPI_COMM_WORLD_LOCAL_RANK": str(rank), "OMPI_MCA_ess_base_jobid": number, "PMIX_RANK": str(rank)}


def _by_mpirun_in_slurm(rank, number):
    """The batch script's own place is inherited by all."""
    return {**_by_srun(0, "1"), **_by_mpirun(rank, number)}


def _in_pods(rank, number):
    """As examples/cluster/jobset-cpu.yaml has them; the coordinator's name is what JobSet's annotation says."""
    return {"JOB_COMPLETION_INDEX": str(rank), "MXJAX_NUM_WORKERS": "2", "MXJAX_JOIN": "1",
            "MXJAX_COORDINATOR": f"localhost:{20000 + int(number)}", "KUBERNETES_SERVICE_HOST": "10.96.0.1",
            "MXJAX_CLUSTER_TOKEN": "0123456789abcdef"}


@pytest.mark.parametrize("variables", sampled([_by_srun, _by_mpirun, _in_pods, _by_mpirun_in_slurm]))
def test_two_processes_find_each_other(tmp_path, variables):
    number = _job_number()
    for rank, (status, output) in enumerate(_run(tmp_path, lambda rank: variables(rank, number))):
        assert status == 0 and f"worker {rank} of 2 has [3.0, 3.0, 3.0]" in output, output


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="no mpirun here")
def test_by_mpirun_itself(tmp_path):
    env = environment(PYTHON=sys.executable, MPIRUN_OPTIONS="--oversubscribe --allow-run-as-root",
                      XDG_CONFIG_HOME=str(tmp_path))
    if "(Open MPI)" not in subprocess.run(["mpirun", "--version"], capture_output=True, text=True).stdout:
        pytest.skip("another MPI's mpirun, whose options differ")
    done = subprocess.run([ROOT / "examples/cluster/mpi.sh", "2", HERE / "slurm_job.py"], capture_output=True,
                          text=True, env=env, timeout=250)
    assert done.returncode == 0, done.stdout + done.stderr
    for rank in range(2):
        assert f"worker {rank} of 2 has [3.0, 3.0, 3.0]" in done.stdout


def test_a_pods_name_comes_late(monkeypatch):
    """Kubernetes knows worker 0's only once that pod runs; elsewhere an unknown name is a mistake, told at once."""
    asked = []

    def resolve(*args):
        asked.append(args)
        if len(asked) < 3:
            raise socket.gaierror("not known")
    monkeypatch.setattr(cluster.socket, "getaddrinfo", resolve)
    monkeypatch.setattr(cluster.time, "sleep", lambda seconds: None)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    cluster.await_name("train-workers-0-0.train", 60)
    assert not asked
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    cluster.await_name("train-workers-0-0.train", 60)
    assert len(asked) == 3


def test_workers_join_at_their_first_store(tmp_path):
    """Nobody gives them a secret: on one machine they agree on one in a file of the user's."""
    for rank, (status, output) in enumerate(_slurm(tmp_path)):
        assert status == 0 and f"worker {rank} of 2 has [3.0, 3.0, 3.0]" in output, output
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "mxjax").iterdir()] == [0o600]


def test_joining_after_the_first_array_is_explained(tmp_path):
    for status, output in _slurm(tmp_path, "late"):
        assert status != 0 and "JAX must not have initialized its devices" in output, output


def test_the_death_of_worker_0_is_told_in_one_message(tmp_path):
    """It runs the scheduler and JAX's coordination service; nothing of XLA's own comes in between."""
    (_, _), (status, output) = _slurm(tmp_path, "die")
    assert status == 1, output
    assert output.count("mxjax: worker 1: worker 0, which runs the scheduler, is lost") == 1, output
    assert not re.search(r"^[EF]\d{4} |absl::Status|coordination_service", output, re.MULTILINE), output
