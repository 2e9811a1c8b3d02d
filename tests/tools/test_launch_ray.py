"""`python -m mxjax launch --on ray`: on a cluster that is there, and on one of its own."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ray = pytest.importorskip("ray")

ROOT = Path(__file__).parents[2]
TRAIN = ROOT / "examples" / "distributed" / "train.py"


def _environment(**more):
    own = {k: v for k, v in os.environ.items() if not k.startswith(("DMLC_", "MXJAX_", "RAY_ADDRESS"))}
    path = os.pathsep.join(filter(None, [str(ROOT), own.get("PYTHONPATH")]))
    return own | {"PYTHONPATH": path, "JAX_PLATFORMS": "cpu", "RAY_USAGE_STATS_ENABLED": "0", **more}


@pytest.fixture(scope="module")
def cluster():
    """The address of a cluster of three CPUs."""
    before = dict(os.environ)
    os.environ.update(_environment())
    context = ray.init(address="local", num_cpus=3, include_dashboard=False, object_store_memory=80 << 20,
                       log_to_driver=False, logging_level="error")
    yield context.address_info["gcs_address"]
    ray.shutdown()
    os.environ.clear()
    os.environ.update(before)


def _start(*args, **more):
    return subprocess.Popen([sys.executable, "-m", "mxjax", "launch", *map(str, args)], env=_environment(), text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)


def _launch(*args, timeout=250):
    """(exit status, standard output, errors) of `mxjax launch` with these arguments."""
    popen = _start(*args)
    output, errors = popen.communicate(timeout=timeout)
    return popen.returncode, output, errors


def _numbers(folder, count, popen):
    """The numbers of processes that write them to files of a folder, once they are all there."""
    end = time.monotonic() + 60
    while len(files := [p for p in folder.iterdir() if p.read_text().strip()]) < count:
        assert popen.poll() is None and time.monotonic() < end, popen.communicate()
        time.sleep(0.05)
    return {path.name: int(path.read_text()) for path in files}


def _gone(numbers, seconds=15):
    """Whether all these processes end in this time."""
    end = time.monotonic() + seconds
    left = set(numbers)
    while left and time.monotonic() < end:
        for number in set(left):
            try:
                state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
            except (FileNotFoundError, ProcessLookupError):
                state = "Z"
            if state == "Z":
                left.discard(number)
        time.sleep(0.05)
    return not left


def _digests(output):
    return sorted(re.findall(r"^\[(\d)\] worker \1 of 2: .* parameters (\w+)$", output, re.MULTILINE))


def test_output_places_and_variables(cluster):
    show = "echo $DMLC_WORKER_ID of $DMLC_NUM_WORKER at $DMLC_PS_ROOT_URI $COLOUR $PWD; echo oops >&2"
    status, output, errors = _launch("--on", "ray", "--address", cluster, "-n", 2, "--env", "COLOUR=blue", "sh", "-c",
                                     show)
    assert status == 0, errors
    assert sorted(output.splitlines()) == ["[0] 0 of 2 at 127.0.0.1 blue " + os.getcwd(), "[0] oops",
                                           "[1] 1 of 2 at 127.0.0.1 blue " + os.getcwd(), "[1] oops"]


def test_a_failure_ends_the_job(cluster):
    status, _, errors = _launch("--on", "ray", "--address", cluster, "-n", 3, "--grace", 0.5, "sh", "-c",
                                "[ $DMLC_WORKER_ID = 1 ] && exit 7; sleep 100")
    assert status == 7, errors
    assert re.search(r"launch: worker 1 \(process \d+ on [\d.]+\) failed with status 7", errors)
    assert "launch: ending worker 0, worker 2: the others had failed" in errors


def test_resources_are_rays(cluster):
    """Two CPUs for each of two workers are more than there are; the job waits, and says for what."""
    status, _, errors = _launch("--on", "ray", "--address", cluster, "-n", 2, "--cpus-per-worker", 2, "--timeout", 8,
                                "true")
    assert status == 124 and "waiting for Ray to give CPU 4; the cluster has CPU 3 in all" in errors, errors
    assert "8 s are over" in errors
    status, output, errors = _launch("--on", "ray", "--address", cluster, "-n", 1, "--cpus-per-worker", 3, "echo", "ok")
    assert (status, output) == (0, "[0] ok\n"), errors  # what the other job asked for is free again


def test_a_killed_worker_and_a_job_that_goes_on_by_itself(cluster, tmp_path):
    """The same parameters, bit for bit, as undisturbed and on this machine without Ray."""
    args = (TRAIN, "--steps", 30, "--every", 10, "--checkpoints")
    status, output, errors = _launch("-n", 2, *args, tmp_path / "undisturbed")
    assert status == 0, errors
    expected = _digests(output)
    assert len(expected) == 2 and len({digest for _, digest in expected}) == 1
    status, output, errors = _launch("--on", "ray", "--address", cluster, "-n", 2, "--restarts", 3, *args,
                                     tmp_path / "disturbed", "--die", "1:15")
    assert status == 0 and _digests(output) == expected, output + errors
    assert output.count("goes on from step 10") == 2
    assert re.search(r"launch: worker 1 \(process \d+ on [\d.]+\) was killed by SIGKILL", errors)
    assert "attempt 1 of 4 has ended with status 137; the job is started again in 1 s" in errors


def test_an_actor_that_dies_takes_its_process_along(cluster, tmp_path):
    """As when Ray runs out of memory; what the process has started goes too. The next attempt has a new actor."""
    script = (f"[ -e {tmp_path}/actor ] && exit 0; sleep 300 & echo $! > {tmp_path}/child; echo $$ > {tmp_path}/worker;"
              f" echo $PPID > {tmp_path}/actor; wait")
    popen = _start("--on", "ray", "--address", cluster, "-n", 1, "--restarts", 1, "sh", "-c", script)
    numbers = _numbers(tmp_path, 3, popen)
    os.kill(numbers["actor"], signal.SIGKILL)
    _, errors = popen.communicate(timeout=100)
    assert popen.returncode == 0 and "is lost to Ray: " in errors, errors
    assert "attempt 1 of 2 has ended with status 1" in errors
    assert _gone(numbers.values())


def test_a_worker_alone_comes_back(cluster, tmp_path):
    """With --keep-going only who has failed is started again."""
    script = f"echo x >> {tmp_path}/$DMLC_WORKER_ID; [ $DMLC_WORKER_ID$(wc -l < {tmp_path}/1) = 11 ] && exit 3; sleep 3"
    status, _, errors = _launch("--on", "ray", "--address", cluster, "-n", 2, "--restarts", 1, "--keep-going", "sh",
                                "-c", script)
    assert status == 0 and "worker 1 is started again" in errors and "attempt" not in errors, errors
    assert [len((tmp_path / name).read_text().split()) for name in "01"] == [1, 2]


def test_a_machine_that_dies(cluster, tmp_path):
    """Nodes of Ray for machines: one dies in mid-epoch, and the job goes on with another in its place."""
    from ray.cluster_utils import Cluster
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "object_store_memory": 80 << 20})
    try:
        first = nodes.add_node(num_cpus=1, object_store_memory=80 << 20)
        nodes.add_node(num_cpus=1, object_store_memory=80 << 20)
        args = (TRAIN, "--steps", 3000, "--every", 500, "--checkpoints")
        status, output, errors = _launch("-n", 2, *args, tmp_path / "undisturbed")
        assert status == 0, errors
        expected = _digests(output)
        popen = _start("--on", "ray", "--address", nodes.address, "-n", 2, "--restarts", 3, *args,
                       tmp_path / "disturbed")
        while not (tmp_path / "disturbed" / "latest.json").exists():
            assert popen.poll() is None, popen.communicate()
            time.sleep(0.05)
        nodes.remove_node(first, allow_graceful=False)
        nodes.add_node(num_cpus=1, object_store_memory=80 << 20)
        output, errors = popen.communicate(timeout=200)
        assert popen.returncode == 0 and _digests(output) == expected, output + errors
        assert "is lost to Ray: " in errors and output.count("goes on from step ") == 2
    finally:
        nodes.shutdown()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_launcher_that_is_ended_leaves_nobody_behind(cluster, tmp_path, number):
    script = f"sleep 300 & echo $! > {tmp_path}/child$DMLC_WORKER_ID; echo $$ > {tmp_path}/$DMLC_WORKER_ID; wait"
    popen = _start("--on", "ray", "--address", cluster, "-n", 2, "sh", "-c", script)
    numbers = _numbers(tmp_path, 4, popen)
    popen.send_signal(number)
    _, errors = popen.communicate(timeout=60)
    assert popen.returncode == (130 if number == signal.SIGTERM else -number), errors
    assert _gone(numbers.values(), 30)


def test_ctrl_c_ends_a_cluster_of_its_own(tmp_path):
    """The terminal's signal reaches all processes of the group, Ray's too."""
    script = f"echo $$ > {tmp_path}/$DMLC_WORKER_ID; echo $PPID > {tmp_path}/actor$DMLC_WORKER_ID; sleep 300"
    popen = _start("--on", "ray", "-n", 2, "sh", "-c", script, start_new_session=True)
    numbers = _numbers(tmp_path, 4, popen)
    session = [int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit() and _session(p.name) == popen.pid]
    assert len(session) > 4  # Ray's own are among them
    os.killpg(popen.pid, signal.SIGINT)
    _, errors = popen.communicate(timeout=60)
    assert popen.returncode == 130 and errors.count("interrupted, ending all workers") == 1, errors
    assert "Traceback" not in errors
    assert _gone({*numbers.values(), *session})


def _session(number):
    try:
        return os.getsid(int(number))
    except ProcessLookupError:
        return 0


def test_addresses_that_lead_nowhere():
    status, _, errors = _launch("--on", "ray", "--address", "ray://127.0.0.1:10001", "-n", 1, "true")
    assert status == 2 and "ray job submit" in errors
    status, _, errors = _launch("--on", "ray", "--address", "127.0.0.1:1", "-n", 1, "true")
    assert status == 2 and "no Ray cluster at 127.0.0.1:1" in errors
