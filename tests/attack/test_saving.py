"""Saving never destroys the good file: kills, faults, full disks, several savers at once, traps in the folder."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import mxjax as mx
from mxjax import gluon

from ..internals import updater_of

KINDS = 15
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="POSIX processes, links and modes")


def attacked(tmp_path, attack, amount, tally):
    """Counts what a process finds that saves all kinds of files; returns how many kills came during a write."""
    program = Path(__file__).with_name("savers.py")
    done = subprocess.run([sys.executable, program, tmp_path / "files", attack, str(amount)],
                          capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == KINDS
    for kind, counts, notes, _ in found:
        for outcome, count in counts.items():
            for i in range(count):
                tally.count(outcome, f"{kind}: {notes[i % len(notes)] if notes else ''}")
    return sum(row[3] for row in found)


@pytest.mark.slow
def test_kills_at_random_moments(tmp_path, tally, effort):
    kills = effort(6, 200)
    interrupted = attacked(tmp_path, "kills", kills, tally)
    assert sum(tally.counts.values()) == KINDS * kills and interrupted > KINDS * kills / 10


def test_every_call_of_the_system_fails_once(tmp_path, tally, effort):
    attacked(tmp_path, "faults", effort(4, 1), tally)


def test_two_writers_of_one_file(tmp_path, tally, effort):
    attacked(tmp_path, "two writers", effort(0.1, 5), tally)


def test_a_limit_on_the_size_of_files(tmp_path, tally):
    attacked(tmp_path, "small files", 1, tally)
    assert tally.counts["refused"] == KINDS


def test_a_full_disk(tmp_path, tally):
    attacked(tmp_path, "full disk", 1, tally)
    if not tally.counts:
        pytest.skip("no disk can be mounted here")
    assert tally.counts["refused"] == KINDS


def _savers():
    """Name -> function that saves to a path."""
    net = gluon.nn.Dense(2, in_units=3)
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"momentum": 0.9}, update_on_kvstore=False)
    return {"params": lambda path: mx.nd.save(path, mx.nd.ones(3)), "symbol": mx.sym.var("a").save,
            "parameters": net.save_parameters, "trainer": trainer.save_states}


def test_traps_links_and_modes(tmp_path, tally):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    for name, save in _savers().items():
        path = tmp_path / name
        for ending in (".part", ".tmp", ".mxjax-tmp", "~"):
            Path(f"{path}{ending}").symlink_to(victim)
        save(str(path))
        path.chmod(0o640)
        save(str(path))
        tally.count("ok" if stat.S_IMODE(path.stat().st_mode) == 0o640 else "differs", f"{name}: the mode")
        link = tmp_path / f"{name}-latest"
        link.symlink_to(path)
        save(str(link))
        tally.count("ok" if link.is_symlink() and link.resolve() == path else "differs", f"{name}: the link")
        tally.count("ok" if victim.read_text() == "precious" else "differs", f"{name}: followed a planted link")
        try:
            save(str(tmp_path / "nowhere" / name))
        except mx.MXNetError as error:  # as MXNet, which writes these in C++
            tally.count("refused" if name != "trainer" and "nowhere" in str(error) else "differs", f"{name}: {error}")
        except OSError as error:
            right = name == "trainer" and "nowhere" in error.filename
            tally.count("refused" if right else "differs", f"{name}: {error}")


def test_states_that_cannot_be_pickled(tmp_path, tally):
    path = str(tmp_path / "x.states")
    net = gluon.nn.Dense(2, in_units=3)
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"momentum": 0.9}, update_on_kvstore=False)
    trainer.save_states(path)
    before = Path(path).read_bytes()
    store = mx.kv.create()
    store.set_optimizer(mx.optimizer.SGD())
    for saver, save in ((trainer, trainer.save_states), (store, lambda p: store.save_optimizer_states(p, True))):
        optimizer = updater_of(saver).optimizer
        optimizer.lr_scheduler = lambda updates: 0.1
        with pytest.raises(Exception, match="lambda"):
            save(path)
        tally.count("ok" if Path(path).read_bytes() == before and os.listdir(tmp_path) == ["x.states"] else "differs",
                    type(saver).__name__)
