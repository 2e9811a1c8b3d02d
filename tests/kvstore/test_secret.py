"""Where a job's secret comes from, and which files are not trusted with one."""

import os
import threading

import pytest

import mxjax as mx
from mxjax.kvstore import secret


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A home of the test's own, and nothing in the environment."""
    for name in ("MXJAX_CLUSTER_TOKEN", "MXJAX_CLUSTER_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


def test_the_environment_comes_first(home, monkeypatch):
    file = home / "secret"
    file.write_text("  a secret in a file\n")
    file.chmod(0o600)
    monkeypatch.setenv("MXJAX_CLUSTER_TOKEN_FILE", str(file))
    assert secret.find(local=False) == b"a secret in a file"
    monkeypatch.setenv("MXJAX_CLUSTER_TOKEN", "a secret in a variable")
    assert secret.find(local=False) == b"a secret in a variable"


def test_several_machines_need_one_that_is_given():
    with pytest.raises(mx.MXNetError) as caught:
        secret.find(local=False)
    for cure in ("python -m mxjax launch", "--make-token", "MXJAX_CLUSTER_TOKEN_FILE", "MXJAX_CLUSTER_TOKEN to",
                 secret.path()):
        assert cure in str(caught.value)
    secret.make()
    assert secret.find(local=False) == secret.find(local=True)


def test_processes_of_one_machine_agree_on_one():
    """Whoever is first makes it; the others never see half of it."""
    found, gate = [], threading.Barrier(8)

    def look():
        gate.wait()
        found.append(secret.find(local=True))
    threads = [threading.Thread(target=look) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len(set(found)) == 1 and len(found[0]) == 64
    assert os.listdir(os.path.dirname(secret.path())) == ["cluster-token"]


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o606, 0o660])
def test_files_that_others_may_use_are_refused(home, mode):
    path = secret.make()
    os.chmod(path, mode)
    with pytest.raises(mx.MXNetError, match=f"users other than its owner can access it .mode {mode:04o}"):
        secret.find(local=True)


def test_other_files_are_refused(home, monkeypatch):
    os.mkfifo(home / "pipe", 0o600)
    (home / "short").touch(0o600)
    (home / "short").write_text("guess me")
    (home / "theirs").touch(0o600)
    for name, message in (("none", "No such file"), ("pipe", "not a file"),
                          ("short", "16 to 4096 characters, this one has 8")):
        monkeypatch.setenv("MXJAX_CLUSTER_TOKEN_FILE", str(home / name))
        with pytest.raises(mx.MXNetError, match=message):
            secret.find(local=True)
    monkeypatch.setenv("MXJAX_CLUSTER_TOKEN_FILE", str(home / "theirs"))
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    with pytest.raises(mx.MXNetError, match=r"belongs to user \d+, not to this one \(4711\)"):
        secret.find(local=True)
    monkeypatch.setenv("MXJAX_CLUSTER_TOKEN", "guess me")
    with pytest.raises(mx.MXNetError, match="MXJAX_CLUSTER_TOKEN: a secret must have 16"):
        secret.find(local=True)
