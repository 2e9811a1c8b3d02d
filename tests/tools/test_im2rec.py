"""`python -m mxjax im2rec`: lists, record files, damaged pictures, interrupted runs."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import mxjax as mx
from mxjax.__main__ import main
from mxjax.tools import im2rec

cv2 = pytest.importorskip("cv2")


@pytest.fixture
def pictures(tmp_path):
    root = tmp_path / "pictures"
    for i, (name, size) in enumerate({"a/0.png": (8, 12), "a/1.png": (12, 8), "b/2.png": (6, 6), "b/3.PNG": (7, 9),
                                      "b/notes.txt": None}.items()):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if size is None:
            path.write_text("no picture")
        else:
            cv2.imwrite(str(path), np.full((*size, 3), 20 * i + 10, np.uint8))
    return root


def _run(*args):
    assert main(["im2rec", *map(str, args)]) == 0


def _records(prefix):
    reader = mx.recordio.MXIndexedRecordIO(f"{prefix}.idx", f"{prefix}.rec", "r")
    return {key: mx.recordio.unpack_img(reader.read_idx(key)) for key in reader.keys}


def test_lists_of_folders(pictures, tmp_path, capsys):
    prefix = tmp_path / "set"
    _run("--list", "--recursive", "--no-shuffle", prefix, pictures)
    assert (tmp_path / "set.lst").read_text().splitlines() == [
        "0\t0.000000\ta/0.png", "1\t0.000000\ta/1.png", "2\t1.000000\tb/2.png", "3\t1.000000\tb/3.PNG"]
    assert "a 0\nb 1\n" in capsys.readouterr().out
    _run("--list", "--recursive", "--train-ratio", 0.5, "--test-ratio", 0.25, tmp_path / "part", pictures)
    parts = {name: (tmp_path / f"part_{name}.lst").read_text().splitlines() for name in ("train", "test", "val")}
    assert {name: len(lines) for name, lines in parts.items()} == {"train": 2, "test": 1, "val": 1}
    assert sorted(sum(parts.values(), [])) == (tmp_path / "set.lst").read_text().splitlines()
    _run("--list", "--recursive", "--chunks", 2, tmp_path / "chunk", pictures)
    assert [len((tmp_path / f"chunk_{i}.lst").read_text().splitlines()) for i in range(2)] == [2, 2]


def test_pictures_are_packed_in_order_with_options(pictures, tmp_path):
    prefix = tmp_path / "set"
    _run("--list", "--recursive", "--no-shuffle", prefix, pictures)
    _run("--resize", 4, "--encoding", ".png", "--quality", 3, prefix, pictures)
    records = _records(prefix)
    assert [(key, header.label, header.id) for key, (header, _) in records.items()] == [
        (0, 0, 0), (1, 0, 1), (2, 1, 2), (3, 1, 3)]
    assert [picture.shape for _, picture in records.values()] == [(4, 6, 3), (6, 4, 3), (4, 4, 3), (4, 5, 3)]
    assert [picture[0, 0, 0] for _, picture in records.values()] == [10, 30, 50, 70]
    _run("--center-crop", "--color", 0, "--encoding", ".png", "--quality", 1, prefix, pictures)
    reader = mx.recordio.MXIndexedRecordIO(f"{prefix}.idx", f"{prefix}.rec", "r")
    assert mx.recordio.unpack_img(reader.read_idx(0), iscolor=-1)[1].shape == (8, 8)


def test_several_labels_and_files_as_they_are(pictures, tmp_path):
    (tmp_path / "many.lst").write_text("7\t1.5\t2.5\ta/0.png\n")
    _run("--pack-label", "--pass-through", tmp_path / "many", pictures)
    reader = mx.recordio.MXIndexedRecordIO(str(tmp_path / "many.idx"), str(tmp_path / "many.rec"), "r")
    header, content = mx.recordio.unpack(reader.read_idx(7))
    assert header.label.tolist() == [1.5, 2.5] and content == (pictures / "a/0.png").read_bytes()


def test_processes_give_the_same_file(pictures, tmp_path):
    for name, processes in (("one", 1), ("two", 2)):
        _run("--list", "--recursive", tmp_path / name, pictures)
        _run("--num-thread", processes, tmp_path / name, pictures)
    for ending in ("rec", "idx"):
        assert (tmp_path / f"one.{ending}").read_bytes() == (tmp_path / f"two.{ending}").read_bytes()


def test_damaged_pictures_and_lines_are_reported_and_left_out(pictures, tmp_path, capsys):
    (pictures / "a/0.png").write_bytes((pictures / "a/0.png").read_bytes()[:20])
    (tmp_path / "bad.lst").write_text("0\t0\ta/0.png\n1\t0\tnone.png\nx\t0\ta/1.png\n2\ta/1.png\n3\t1\tb/2.png\n")
    _run(tmp_path / "bad", pictures)
    output = capsys.readouterr()
    assert "a/0.png is left out: it is no picture, or damaged" in output.err
    assert "none.png is left out: there is no such file" in output.err
    assert "bad.lst, line 3:" in output.err and "line 4: expected at least 3 fields" in output.err
    assert "1 pictures, 2 left out" in output.out
    assert list(_records(tmp_path / "bad")) == [3]
    assert [line.split("\t")[0] for line in (tmp_path / "bad.bad").read_text().splitlines()] == ["0", "1"]


def test_an_interrupted_run_goes_on(pictures, tmp_path):
    prefix = str(tmp_path / "set")
    _run("--list", "--recursive", prefix, pictures)
    _run(prefix, pictures)
    whole = {ending: (tmp_path / f"set.{ending}").read_bytes() for ending in ("rec", "idx")}
    first = whole["idx"].splitlines(keepends=True)
    position = int(first[2].split()[1])
    options = {"root": str(pictures), "resize": 0, "center_crop": False, "quality": 95, "color": 1, "encoding": ".jpg",
               "pass_through": False, "pack_label": False}
    state = {"done": 2, "rec": position, "idx": len(first[0] + first[1]), "bad": [], "options": options, "count": 4}
    (tmp_path / "set.im2rec").write_text(json.dumps(state))
    (tmp_path / "set.rec").write_bytes(whole["rec"][:position + 5])  # cut off in the middle of a record
    _run("--resume", prefix, pictures)
    assert {ending: (tmp_path / f"set.{ending}").read_bytes() for ending in ("rec", "idx")} == whole
    assert not (tmp_path / "set.im2rec").exists()
    (tmp_path / "set.im2rec").write_text(json.dumps(state))
    with pytest.raises(mx.MXNetError, match="have changed"):
        im2rec.pack(prefix + ".lst", str(pictures), resize=3, resume=True)


def test_wrong_arguments_are_explained(pictures, tmp_path, capsys):
    for args, message in ((["--list", tmp_path / "x", tmp_path / "none"], "does not exist"),
                          (["--list", tmp_path / "x", pictures], "no images with these"),
                          (["--list", "--recursive", "--train-ratio", "0.9", "--test-ratio", "0.2", tmp_path / "x",
                            pictures], "sum is at most 1"),
                          ([tmp_path / "x", pictures], "there is no list")):
        with pytest.raises(SystemExit):
            main(["im2rec", *map(str, args)])
        assert message in capsys.readouterr().err


def test_progress_in_logs(pictures, tmp_path, capsys, monkeypatch):
    """At a terminal one line changes; a log gets a line for each tenth at most."""
    told = im2rec.Progress("x", 0, 1000)
    for done in range(1, 1001):
        told.show(done)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 10 and lines[0].startswith("x: 100 of 1000 pictures, ") and "\r" not in lines[0]
    monkeypatch.setattr(im2rec.sys.stderr, "isatty", lambda: True)
    told = im2rec.Progress("x", 0, 2)
    told.show(1), told.show(2)
    text = capsys.readouterr().err
    assert text.count("\r") == 2 and text.endswith(" a second\n") and text.count("\n") == 1


def test_the_script_runs_by_its_path(pictures, tmp_path, monkeypatch):
    monkeypatch.delenv("MXNET_HOME", raising=False)
    path = mx.test_utils.get_im2rec_path()
    assert path == os.path.join(os.path.dirname(mx.__file__), "tools", "im2rec.py")
    _run("--list", "--recursive", "--no-shuffle", tmp_path / "set", pictures)
    done = subprocess.run([sys.executable, path, "--num-thread", "2", tmp_path / "set", pictures],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert list(_records(tmp_path / "set")) == [0, 1, 2, 3]


def test_path_of_the_script(tmp_path, monkeypatch):
    monkeypatch.setenv("MXNET_HOME", str(tmp_path / "python" / "mxnet"))
    with pytest.raises(OSError, match="Could not find path to tools/im2rec.py"):
        mx.test_utils.get_im2rec_path()
    (tmp_path / "tools").mkdir()
    (tmp_path / "python" / "mxnet").mkdir(parents=True)
    (tmp_path / "tools" / "im2rec.py").touch()
    assert os.path.samefile(mx.test_utils.get_im2rec_path(), tmp_path / "tools" / "im2rec.py")
