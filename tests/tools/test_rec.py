"""`mxjax rec`: records out to other formats, compared; interrupted runs go on; and back by im2rec."""

import json
import tarfile

import numpy as np
import pytest

import mxjax as mx
from mxjax import __main__ as commands
from mxjax import recordio
from mxjax.tools import rec

PNG = b"\x89PNG\r\n\x1a\n"
LABELS = [0.0, 1.0, 2.5, np.array([1.0, 2.0, 3.0], "float32"), 4.0, 5.0, 6.0]


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "data.rec"
    with recordio.MXRecordIO(path, "w") as file:
        for i, label in enumerate(LABELS):
            file.write(recordio.pack(recordio.IRHeader(0, label, i, 0), PNG + bytes([i]) * (i + 1)))
    return path


def run(*given):
    return commands.main(["rec", *map(str, given)])


def test_tar(source, tmp_path, capsys):
    out = tmp_path / "web"
    assert run(source, out, "--to", "tar", "--per-shard", 3) == 0
    assert "7 records in 3 shards" in capsys.readouterr().out
    shards = sorted(tmp_path.glob("web-*.tar"))
    assert len(shards) == 3
    names = [name for shard in shards for name in tarfile.open(shard).getnames()]
    assert names[:2] == ["000000000.png", "000000000.cls"] and "000000003.json" in names and len(names) == 14
    with tarfile.open(shards[1]) as archive:
        assert archive.extractfile("000000003.png").read() == PNG + b"\3" * 4
        assert json.load(archive.extractfile("000000003.json"))["label"] == [1, 2, 3]
        assert archive.extractfile("000000004.cls").read() == b"4"
    with tarfile.open(shards[0]) as archive:
        assert json.load(archive.extractfile("000000002.json"))["label"] == 2.5


def test_an_interrupted_run_goes_on(source, tmp_path, monkeypatch):
    out, (write, read) = tmp_path / "web", rec.FORMATS["tar"]
    calls = []

    def interrupted(output, number, records):
        calls.append(number)
        if number == 1 and len(calls) == 2:
            raise KeyboardInterrupt
        return write(output, number, records)
    monkeypatch.setitem(rec.FORMATS, "tar", (interrupted, read))
    with pytest.raises(KeyboardInterrupt):
        run(source, out, "--to", "tar", "--per-shard", 3)
    assert len(list(tmp_path.glob("web-*.tar"))) == 1
    assert run(source, out, "--to", "tar", "--per-shard", 3) == 0
    assert calls == [0, 1, 1, 2]
    known = json.loads((tmp_path / "web.json").read_text())
    assert known["records"] == 7 and [s["records"] for s in known["shards"]] == [3, 3, 1]
    with pytest.raises(SystemExit) as stopped:
        run(source, out, "--to", "tar", "--per-shard", 4)
    assert stopped.value.code == 2


def test_what_was_written_is_compared(source, tmp_path, monkeypatch, capsys):
    write, read = rec.FORMATS["tar"]
    monkeypatch.setitem(rec.FORMATS, "tar", (write, lambda *given: list(read(*given))[:-1]))
    with pytest.raises(SystemExit):
        run(source, tmp_path / "web", "--to", "tar")
    assert "does not contain the records" in capsys.readouterr().err and not (tmp_path / "web.json").exists()


def test_folder_and_back(source, tmp_path):
    out = tmp_path / "files"
    assert run(source, out, "--to", "folder", "--per-shard", 4) == 0
    assert sorted(p.name for p in out.iterdir()) == ["00000", "data.lst"]
    assert commands.main(["im2rec", "--pass-through", "--pack-label", str(out / "data"), str(out)]) == 0
    first = [recordio.unpack(r) for _, r in rec.records_of(source)]
    again = [recordio.unpack(r) for _, r in rec.records_of(out / "data.rec")]
    assert [data for _, data in first] == [data for _, data in again]
    for (one, _), (other, _) in zip(first, again, strict=True):
        np.testing.assert_array_equal(np.ravel(one.label), np.ravel(other.label))


def test_array_records(source, tmp_path, capsys):
    pytest.importorskip("array_record")
    assert run(source, tmp_path / "grain", "--to", "arrayrecord", "--per-shard", 5) == 0
    from array_record.python.array_record_data_source import ArrayRecordDataSource
    records = ArrayRecordDataSource([str(p) for p in sorted(tmp_path.glob("grain-*.arrayrecord"))])
    assert len(records) == 7 and mx.recordio.unpack(records[6])[1] == PNG + b"\6" * 7


def test_damaged_and_missing_files(tmp_path, capsys):
    with pytest.raises(SystemExit):
        run(tmp_path / "none.rec", tmp_path / "web", "--to", "tar")
    (tmp_path / "bad.rec").write_bytes(b"no records at all")
    with pytest.raises(SystemExit):
        run(tmp_path / "bad.rec", tmp_path / "web", "--to", "tar")
    assert "bad.rec" in capsys.readouterr().err
