"""`python -m mxjax launch`: processes, their output, failures, interruption, hosts."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from unittest.mock import MagicMock, call

import pytest

import mxjax as mx
from mxjax.tools import launch_ray
from mxjax.tools.launch import hosts_of, launch

ROOT = str(Path(mx.__file__).parents[1])


def _shell(text):
    return ["sh", "-c", text]


def test_workers_know_their_place_and_output_is_prefixed(capfd):
    text = "echo $DMLC_ROLE $DMLC_WORKER_ID of $DMLC_NUM_WORKER at $DMLC_PS_ROOT_URI: $COLOUR; echo oops >&2"
    assert launch(_shell(text), 2, env=["COLOUR=blue"]) == 0
    lines = sorted(capfd.readouterr().out.splitlines())
    assert lines == ["[0] oops", "[0] worker 0 of 2 at 127.0.0.1: blue", "[1] oops",
                     "[1] worker 1 of 2 at 127.0.0.1: blue"]


def test_the_first_failure_is_the_status_and_the_others_are_ended(capfd):
    begun = time.monotonic()
    assert launch(_shell('[ $DMLC_WORKER_ID = 1 ] && exit 7; sleep 60'), 3, grace=0.5) == 7
    assert time.monotonic() - begun < 30
    errors = capfd.readouterr().err
    assert "launch: worker 1 (process" in errors and "failed with status 7" in errors
    assert "ending worker 0, worker 2: the others had failed" in errors


def test_the_time_limit(capfd):
    assert launch(_shell("sleep 60"), 1, timeout=0.5) == 124
    assert "ending worker 0: 0.5 s are over" in capfd.readouterr().err


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="cores cannot be chosen here")
def test_cores_for_each_worker(capfd):
    show = "import os; print(len(os.sched_getaffinity(0)))"
    assert launch(["sh", "-c", f"sleep 0.5; {sys.executable} -c '{show}'"], 2, cpus=1) == 0
    assert sorted(capfd.readouterr().out.splitlines()) == ["[0] 1", "[1] 1"]


def test_an_interruption_leaves_nobody_behind(tmp_path):
    script = f"echo $$ > {tmp_path}/$DMLC_WORKER_ID; sleep 100"
    popen = subprocess.Popen([sys.executable, "-m", "mxjax", "launch", "-n", "2", "sh", "-c", script],
                             env=dict(os.environ, PYTHONPATH=ROOT), stderr=subprocess.PIPE, text=True)
    while len(list(tmp_path.iterdir())) < 2 or not all(p.read_text().strip() for p in tmp_path.iterdir()):
        assert popen.poll() is None
        time.sleep(0.05)
    popen.send_signal(signal.SIGINT)
    errors = popen.communicate(timeout=30)[1]
    assert popen.returncode == 130 and "interrupted" in errors
    for path in tmp_path.iterdir():
        with pytest.raises(ProcessLookupError):
            os.kill(int(path.read_text()), 0)


def _gone(pid, seconds=10):
    """Whether a process ends in this time; one that nobody has asked for its status has."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.05)
    return False


def test_the_whole_job_is_started_again(tmp_path, capfd):
    """As often as it takes; each attempt is a job of its own."""
    script = f"""cd {tmp_path}; echo x >> $DMLC_WORKER_ID
        if [ $DMLC_WORKER_ID = 0 ]; then while [ ! -e done ]; do sleep 0.1; done; exit; fi
        echo $MXJAX_CLUSTER_TOKEN >> tokens
        case $(wc -l < 1) in 1) sleep 0.5; exit 3;; 2) sleep 0.5; kill -KILL $$;; *) touch done;; esac"""
    begun = time.monotonic()
    assert launch(_shell(script), 2, restarts=3, grace=0.2) == 0
    assert time.monotonic() - begun > 3  # it has waited, the second time for longer
    errors = capfd.readouterr().err
    for text in ("failed with status 3", "attempt 1 of 4 has ended with status 3; the job is started again in 1 s",
                 "was killed by SIGKILL", "attempt 2 of 4 has ended with status 137; the job is started again in 2 s",
                 "launch: attempt 3 of 4"):
        assert text in errors, errors
    assert "attempt 3 of 4 has ended" not in errors
    assert [len((tmp_path / name).read_text().split()) for name in "01"] == [3, 3]
    assert len(set((tmp_path / "tokens").read_text().split())) == 3


def test_the_last_attempts_status_is_the_jobs(tmp_path, capfd):
    count = f"echo x >> {tmp_path}/n; exit $((10 + $(wc -l < {tmp_path}/n)))"
    assert launch(_shell(count), 1, restarts=1) == 12
    assert "attempt 2 of 2 has ended with status 12; it was the last" in capfd.readouterr().err


def test_the_time_limit_is_that_of_all_attempts(capfd):
    begun = time.monotonic()
    assert launch(_shell("exit 5"), 1, restarts=50, timeout=4) == 5
    assert time.monotonic() - begun < 15
    errors = capfd.readouterr().err
    assert "attempt 2 of 51" in errors and "has ended with status 5; there is no time for another" in errors


def test_an_interruption_ends_the_wait_for_another_attempt():
    popen = subprocess.Popen([sys.executable, "-m", "mxjax", "launch", "-n", "1", "--restarts", "9", "false"],
                             env=dict(os.environ, PYTHONPATH=ROOT), stderr=subprocess.PIPE, text=True)
    for line in popen.stderr:
        if "attempt 3 of 10 has ended" in line:  # the pause is 4 s
            break
    popen.send_signal(signal.SIGTERM)
    assert popen.wait(30) == 130
    rest = popen.stderr.read()
    assert "interrupted" in rest and "attempt 4 of 10" not in rest
    popen.stderr.close()


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="no /proc here")
@pytest.mark.parametrize("end", ["exit 0", "exit 4", "kill -KILL $$"])
def test_what_a_worker_has_started_ends_with_it(tmp_path, end):
    launch(_shell(f"sleep 300 & echo $! > {tmp_path}/child; {end}"), 1)
    assert _gone(int((tmp_path / "child").read_text()))


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="no /proc here")
def test_who_does_not_want_to_end_is_ended(tmp_path, capfd):
    stubborn = f"(trap '' TERM; echo $(exec sh -c 'echo $PPID') > {tmp_path}/child; while :; do sleep 1; done) & wait"
    assert launch(_shell(stubborn), 1, timeout=1) == 124
    assert _gone(int((tmp_path / "child").read_text()))


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_job_whose_output_cannot_be_written_goes_on(tmp_path):
    script = f"seq 100000; touch {tmp_path}/done"
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-m", "mxjax", "launch", "-n", "1", "sh", "-c", script], timeout=100,
                              env=dict(os.environ, PYTHONPATH=ROOT), stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0 and (tmp_path / "done").exists(), done.stderr
    assert done.stderr.count("the output cannot be written any more (No space left on device)") == 1


def test_without_ray(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(mx.MXNetError, match=r"pip install 'mxjax\[ray\]'"):
        launch(["true"], 1, on="ray")


def test_hosts_are_reached_by_ssh(tmp_path, capfd):
    (tmp_path / "hosts").write_text("# two machines\nuser@127.0.0.1 slots=2\n127.0.0.1:1\n")
    assert hosts_of(str(tmp_path / "hosts")) == ["user@127.0.0.1"] * 2 + ["127.0.0.1"]
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/sh\nhost=$1; shift; echo "reached $host"; exec env -i sh -c "$*"\n')
    ssh.chmod(0o755)
    os.environ["MXNET_PASSED_ON"] = "a b"
    try:
        assert launch(_shell('echo "$DMLC_WORKER_ID $MXNET_PASSED_ON $PWD"'), 3, hostfile=str(tmp_path / "hosts"),
                      ssh=str(ssh)) == 0
    finally:
        del os.environ["MXNET_PASSED_ON"]
    lines = sorted(capfd.readouterr().out.splitlines())
    assert lines == sorted([f"[{i}] {i} a b {os.getcwd()}" for i in range(3)] + [
        "[0] reached user@127.0.0.1", "[1] reached user@127.0.0.1", "[2] reached 127.0.0.1"])


def test_a_job_on_hosts_is_started_again(tmp_path, capfd):
    (tmp_path / "hosts").write_text("127.0.0.1 slots=2\n")
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/sh\nshift; exec env -i sh -c "$*"\n')
    ssh.chmod(0o755)
    script = f"""cd {tmp_path}; echo $MXJAX_CLUSTER_TOKEN >> tokens; echo x >> $DMLC_WORKER_ID
        [ $DMLC_WORKER_ID$(wc -l < $DMLC_WORKER_ID) = 11 ] && kill -KILL $$; echo done"""
    assert launch(_shell(script), 2, hostfile=str(tmp_path / "hosts"), ssh=str(ssh), restarts=1) == 0
    shown = capfd.readouterr()
    assert sorted(shown.out.splitlines()) == ["[0] done", "[0] done", "[1] done"]
    assert "attempt 1 of 2 has ended with status 137" in shown.err
    assert len(set((tmp_path / "tokens").read_text().split())) == 2


_SSH = """#!{python}
import os, pty, sys
with open("{log}", "a") as log:  # what any user of the machine could see
    log.write("\\0".join([*sys.argv, *map("=".join, os.environ.items())]))
for name in ("DMLC_ROLE", "MXJAX_CLUSTER_TOKEN"):
    assert name not in os.environ
pty.spawn(["sh", "-c", sys.argv[-1]])  # with a terminal, as by -tt, which shows what it reads unless told otherwise
"""


def test_the_secret_reaches_other_hosts_unseen(tmp_path, capfd, monkeypatch):
    monkeypatch.setenv("MXJAX_CLUSTER_TOKEN", "of another job, for whoever starts this one")
    (tmp_path / "hosts").write_text("127.0.0.1 slots=2\n")
    ssh, log = tmp_path / "ssh", tmp_path / "log"
    ssh.write_text(_SSH.format(python=sys.executable, log=log))
    ssh.chmod(0o755)
    write = f'umask 077; printf %s "$MXJAX_CLUSTER_TOKEN" > {tmp_path}/token$DMLC_WORKER_ID; echo done'
    assert launch(_shell(write), 2, hostfile=str(tmp_path / "hosts"), ssh=str(ssh)) == 0
    tokens = {(tmp_path / f"token{i}").read_text() for i in range(2)}
    shown = capfd.readouterr().out
    assert len(tokens) == 1 and sorted(shown.splitlines()) == ["[0] done", "[1] done"]
    token = tokens.pop()
    assert len(token) == 64 and token not in log.read_text() + shown
    assert "of another job" not in log.read_text()


def test_a_secret_for_other_launchers(tmp_path, monkeypatch, capsys):
    from mxjax.__main__ import main
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert main(["launch", "--make-token"]) == 0
    path = tmp_path / "mxjax" / "cluster-token"
    assert str(path) in capsys.readouterr().out and path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700 and len(path.read_text().strip()) == 64
    with pytest.raises(SystemExit):
        main(["launch", "--make-token"])
    assert "already exists" in capsys.readouterr().err


@pytest.mark.slow
def test_a_server_or_scheduler_script_serves_and_ends(tmp_path):
    """As under MXNet's own launcher: the same script in all roles; only workers get past the import."""
    script = tmp_path / "script.py"
    script.write_text("import mxjax as mx\nprint('worker here')\n")
    env = {k: v for k, v in os.environ.items() if not k.startswith(("DMLC_", "MXJAX_"))}
    env |= {"PYTHONPATH": ROOT, "XDG_CONFIG_HOME": str(tmp_path), "DMLC_PS_ROOT_URI": "127.0.0.1",
            "DMLC_NUM_WORKER": "1", "DMLC_NUM_SERVER": "1"}
    from mxjax.kvstore.wire import free_port
    env["DMLC_PS_ROOT_PORT"] = str(free_port())
    started = {role: subprocess.Popen([sys.executable, str(script)], env=dict(env, DMLC_ROLE=role), text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
               for role in ("scheduler", "server", "worker")}
    outputs = {role: popen.communicate(timeout=100)[0] for role, popen in started.items()}
    assert [popen.returncode for popen in started.values()] == [0, 0, 0], outputs
    assert "worker here" in outputs["worker"] and outputs["server"] == outputs["scheduler"] == ""


def test_wrong_arguments(tmp_path):
    (tmp_path / "hosts").write_text("# nobody\n")
    for kwargs, message in (({"workers": 0}, "at least one worker"),
                            ({"hostfile": str(tmp_path / "hosts")}, "no hosts"),
                            ({"hostfile": "/none"}, "No such file"), ({"restarts": -1}, "expected 0 or more"),
                            ({"hostfile": "/none", "on": "ray"}, "a host file requires ssh"),
                            ({"address": "auto"}, "--address requires --on ray")):
        with pytest.raises(mx.MXNetError, match=message):
            launch(["true"], **{"workers": 1, **kwargs})
    with pytest.raises(mx.MXNetError, match="script or program nothing-like-this not found"):
        launch(["nothing-like-this"], 1)


def test_places_on_ray_are_given_back_where_ray_has_gone(monkeypatch):
    """Whoever is started again or done has its actor ended, and a cluster that is no more is no error."""
    ray, ended, gone = MagicMock(), threading.Event(), RuntimeError("the cluster has gone")
    ray.get.side_effect = lambda asked: ended.wait(60)  # the process runs meanwhile
    ray.kill.side_effect = ray.util.remove_placement_group.side_effect = gone
    monkeypatch.setattr(launch_ray, "find_ray", lambda owner: ray)
    cluster = launch_ray.OnRay("local", [("worker", 0)])
    cluster.prepare([("worker", 0)], lambda: False)
    held = cluster.start("worker", 0, None, {}, ["true"])
    held.signal(signal.SIGKILL)
    actor = cluster.actor("worker", 0)  # all are one here
    assert ray.kill.call_args_list == [call(actor)]
    for _ in range(2):  # the second time there is none left
        cluster.clear()
        assert ray.kill.call_args_list == [call(actor)] * 2 and ray.util.remove_placement_group.call_count == 1
    ended.set()
    held.finish()
