"""Compiled programs in files: found again, never another's, bounded, whole after a kill, for many processes at once."""

import os
import subprocess
import sys
import time
import zipfile
import zlib
from pathlib import Path

import pytest

import mxjax as mx
from mxjax import __main__ as commands
from mxjax._xla import program_files as files

SCRIPT = """
import jax.monitoring
hits = []
jax.monitoring.register_event_listener(lambda event, **_: hits.append(event.rpartition("/")[2]))
import mxnet as mx
net = mx.gluon.nn.HybridSequential()
net.add(mx.gluon.nn.Dense(64, activation="tanh"), mx.gluon.nn.Dense(8))
net.initialize(mx.init.One())
net.hybridize()
x = mx.nd.ones((32, 48))
with mx.autograd.record():
    y = net(x).sum()
y.backward()
print(y.asscalar(), net[0].weight.grad().sum().asscalar(), hits.count("cache_hits"), hits.count("cache_misses"))
"""


@pytest.fixture
def script(tmp_path, monkeypatch):
    monkeypatch.setenv("MXJAX_CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.setenv("MXNET_ENFORCE_DETERMINISM", "1")  # everything is compiled
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    path = tmp_path / "script.py"
    path.write_text("import jax\njax.config.update('jax_persistent_cache_min_compile_time_secs', 0)\n" + SCRIPT)
    return path


def start(script, *options):
    return subprocess.Popen([sys.executable, "-m", "mxjax", "run", *options, str(script)], text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def answer(process):
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    *numbers, hits, misses = out.split()
    return numbers, int(hits), int(misses), err


def test_a_second_process_finds_them(script, capsys):
    first, hits, misses, _ = answer(start(script))
    assert hits == 0 and misses > 0
    again, hits, misses, _ = answer(start(script))
    assert again == first and hits > 0 and misses == 0
    assert commands.main(["cache"]) == 0
    assert f"{len(files.entries(files.folder()))} programs" in capsys.readouterr().out
    untouched, hits, _, _ = answer(start(script, "--no-cache"))
    assert untouched == first and hits == 0
    assert commands.main(["cache", "clear"]) == 0 and not files.entries(files.folder())


CONVOLUTIONS = """
import jax
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_raise_persistent_cache_errors", True)
import mxnet as mx
net = mx.gluon.nn.HybridSequential()
net.add(mx.gluon.nn.Conv2D(16, 3, padding=1), mx.gluon.nn.BatchNorm(), mx.gluon.nn.Activation("relu"),
        mx.gluon.nn.Conv2D(16, 3, padding=1))
net.initialize(mx.init.One())
net.hybridize()
seen, x = [], mx.nd.ones((8, 16, 12, 12))
for bound in (False, True):  # JAX compiles again for arrays that are bound to a device
    if bound:
        x = mx.nd.from_jax(jax.device_put(x.to_jax(), jax.devices()[0]))
    with mx.autograd.record():
        y = net(x).sum()
    y.backward()
    seen += [y.asscalar(), net(x).sum().asscalar(), net[0].weight.grad().sum().asscalar()]
    seen.append(mx.nd.Convolution(x, net[0].weight.data(), no_bias=True, num_filter=16, kernel=(3, 3)).sum().asscalar())
print(*seen, 0, 0)
"""


def test_programs_that_call_a_library_are_not_written(script):
    """XLA cannot write such calls: it reads memory that is not there."""
    script.write_text(CONVOLUTIONS)
    first, *_, err = answer(start(script))
    assert "rror" not in err
    kept = len(files.entries(files.folder()))
    again, *_, err = answer(start(script))
    assert again == first and "rror" not in err and len(files.entries(files.folder())) == kept


def test_what_a_kill_has_left_is_removed(script):
    first, _, count, _ = answer(start(script))
    path = max(files.entries(files.folder()), key=lambda p: p.stat().st_size)
    content = path.read_bytes()
    path.write_bytes(content[:len(content) // 2])
    (files.folder() / "checked.json").write_text("{half")
    again, hits, misses, err = answer(start(script))
    assert again == first and misses == 1 and hits == count - 1 and "rror" not in err
    assert path.read_bytes() != content[:len(content) // 2]


@pytest.mark.slow
def test_processes_that_are_killed_hurt_nobody(script):
    """Some end in the middle of a write, others read meanwhile."""
    victims = [start(script) for _ in range(2)]
    time.sleep(2.5)
    for number, victim in enumerate(victims):
        time.sleep(0.3 * number)
        victim.kill()
        victim.communicate()
    first, *_ = answer(start(script))
    both = [start(script) for _ in range(2)]
    assert [answer(p)[0] for p in both] == [first, first]


def test_the_limit(script, monkeypatch):
    where = files.prepared()
    for number in range(3):
        path = where / f"jit_{number}-cache"
        path.write_bytes(zlib.compress(os.urandom(400_000)))
        os.utime(path, (1e9 + number, 1e9 + number))
    monkeypatch.setenv("MXJAX_CACHE_MEMORY", "1")
    files.prepared()
    assert sorted(p.name for p in files.entries(where)) == ["jit_1-cache", "jit_2-cache"]
    monkeypatch.setenv("MXJAX_CACHE_MEMORY", "much")
    with pytest.raises(mx.MXNetError, match="MXJAX_CACHE_MEMORY='much'"):
        files.prepared()


def test_other_machines_have_other_folders(monkeypatch, tmp_path):
    monkeypatch.setenv("MXJAX_CACHE_DIR", str(tmp_path))
    here = files.folder()
    monkeypatch.setattr(files.platform, "machine", lambda: "another")
    assert files.folder() != here and files.folder().parent == here.parent == tmp_path


@pytest.mark.slow
def test_packed_programs_are_found_where_they_are_named(script, monkeypatch, tmp_path, capsys):
    packed = tmp_path / "model.programs"
    assert commands.main(["cache", "--dir", str(tmp_path / "kept")]) == 0
    with pytest.raises(SystemExit):
        commands.main(["cache", "pack", str(packed)])
    assert "there are no programs" in capsys.readouterr().err and not packed.exists()
    first, _, misses, _ = answer(start(script))
    assert commands.main(["cache", "pack", str(packed)]) == 0
    assert f"packed {misses} programs" in capsys.readouterr().out
    commands.main(["cache", "clear"])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    monkeypatch.setenv("MXJAX_CACHE_DIR", str(packed))
    for _ in range(2):  # it is unpacked once
        again, hits, missed, _ = answer(start(script))
        assert again == first and hits == misses and missed == 0
    assert files.folder().is_relative_to(tmp_path / "user") and packed.exists()


def test_packed_programs_of_another_machine_are_not_used(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    monkeypatch.delenv("MXJAX_CACHE_DIR", raising=False)
    with zipfile.ZipFile(tmp_path / "theirs", "w") as packed:
        packed.writestr("programs-0123456789abcdef/x-cache", b"...")
    with pytest.warns(UserWarning, match="another kind of machine"):
        found = files.prepared(tmp_path / "theirs")
    assert not files.entries(found)
    (tmp_path / "broken").write_bytes((tmp_path / "theirs").read_bytes().replace(b"...", b".!."))
    with pytest.raises(mx.MXNetError, match="broken"):
        files.prepared(tmp_path / "broken")


def test_without_a_folder_scripts_run(script, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("MXJAX_CACHE_DIR", str(tmp_path / "file"))
    _, hits, _, err = answer(start(script))
    assert hits == 0 and "set MXJAX_CACHE_DIR to another directory" in err
    with pytest.raises(mx.MXNetError, match="cannot be cached"):
        mx.runtime.use_cache()


@pytest.mark.slow
def test_workers_get_the_folder(script, tmp_path):
    (tmp_path / "worker.py").write_text("import jax; print(jax.config.jax_compilation_cache_dir)")
    for options, wanted in (([], str(files.folder())), (["--no-cache"], "None")):
        done = subprocess.run([sys.executable, "-m", "mxjax", "launch", "-n", "1", *options, sys.executable,
                               str(Path(tmp_path, "worker.py"))], capture_output=True, text=True, check=True)
        assert wanted in done.stdout


def test_use_cache_leaves_a_folder_of_jax(tmp_path):
    code = ("import jax, mxjax as mx; from mxjax._xla import program_files as files; "
            "jax.config.update('jax_compilation_cache_dir', 'mine'); "
            "print(mx.runtime.use_cache(), mx.runtime.use_cache('other').endswith(files.folder('x').name))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.split() == ["mine", "True"]
