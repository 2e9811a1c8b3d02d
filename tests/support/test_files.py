"""The writer of files: old or new, never in between."""

import errno
import io
import os
import signal
import stat
import subprocess
import sys
import tarfile
import tempfile
import threading
import zipfile

import pytest

import mxjax as mx
from mxjax import MXNetError
from mxjax._support import files as _files
from mxjax._support.files import ENDING, reading, refusals, replacing, together, unpack, write_file


def test_content_appears_at_the_end(tmp_path):
    path = tmp_path / "a"
    path.write_text("old")
    with replacing(path, "w") as file:
        file.write("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new" and os.listdir(tmp_path) == ["a"]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a"
    write_file(path, b"old")
    with pytest.raises(KeyError), replacing(path) as file:
        file.write(b"new")
        raise KeyError
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["a"]


def test_modes_stay_and_new_files_follow_the_umask(tmp_path):
    path = tmp_path / "a"
    before = os.umask(0o027)
    try:
        write_file(path, b"1")
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        for mode in (0o600, 0o666, 0o755):
            path.chmod(mode)
            write_file(path, b"2")
            assert stat.S_IMODE(path.stat().st_mode) == mode
    finally:
        os.umask(before)


@pytest.mark.skipif(os.name == "nt", reason="files have no such owners")
def test_owners_stay(tmp_path, monkeypatch):
    path, given = tmp_path / "a", []
    write_file(path, b"1")
    old = os.stat_result((*path.stat()[:4], 12345, 23456, *path.stat()[6:]))
    monkeypatch.setattr(_files, "_status", lambda path: old)
    monkeypatch.setattr(os, "fchown", lambda handle, user, group: given.append((user, group)))
    write_file(path, b"2")
    assert given == [(12345, 23456)] and path.read_bytes() == b"2"
    monkeypatch.undo()
    monkeypatch.setattr(os, "fchown", lambda *given: pytest.fail("the owner is right"))
    write_file(path, b"3")


@pytest.mark.skipif(os.name == "nt", reason="folders cannot be synced")
def test_files_and_their_folders_are_on_the_disk(tmp_path, monkeypatch):
    synced, sync = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (synced.append(os.fstat(handle).st_ino), sync(handle)))
    write_file(tmp_path / "a", b"1")
    assert synced == [(tmp_path / "a").stat().st_ino, tmp_path.stat().st_ino]  # the folder after the renaming
    synced.clear()
    (tmp_path / "other").mkdir()
    with together():
        for name in ("b", "other/c", "d"):
            write_file(tmp_path / name, b"1")
    files = [(tmp_path / name).stat().st_ino for name in ("b", "other/c", "d")]
    assert synced == [*files, tmp_path.stat().st_ino, (tmp_path / "other").stat().st_ino]


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everything")
def test_a_protected_file_stays(tmp_path):
    path = tmp_path / "a"
    path.write_text("old")
    path.chmod(0o444)
    with pytest.raises(PermissionError, match=str(path)):
        write_file(path, "new")
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["a"]


def test_links_stay_links(tmp_path):
    (tmp_path / "store").mkdir()
    target, link = tmp_path / "store" / "a", tmp_path / "latest"
    target.write_bytes(b"old")
    link.symlink_to(target)
    write_file(link, b"new")
    assert link.is_symlink() and target.read_bytes() == b"new" and os.listdir(tmp_path / "store") == ["a"]


def test_pipes_and_devices_are_written_to(tmp_path):
    write_file(os.devnull, b"gone")
    assert not stat.S_ISREG(os.stat(os.devnull).st_mode)
    reader, writer = os.pipe()
    write_file(f"/dev/fd/{writer}", b"through")
    os.close(writer)
    with open(reader, "rb") as file:
        assert file.read() == b"through"


@pytest.mark.parametrize("old", [b"", b"a good deal of old content"])
def test_who_has_a_file_open_sees_what_is_saved(tmp_path, old):
    (tmp_path / "a").write_bytes(old)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    for name in ("a", "link"):
        with open(tmp_path / "a", "r+b") as file:
            write_file(tmp_path / name, b"new")
            assert file.read() == b"new"
        with open(tmp_path / "a", "wb") as file:
            file.write(old)
    done, seen = threading.Event(), []

    def read():
        with open(tmp_path / "a", "rb") as file:
            done.set()
            while not (content := file.read()).endswith(b"for another thread"):
                file.seek(0)
            seen.append(content)

    another = threading.Thread(target=read)
    another.start()
    assert done.wait(20)
    write_file(tmp_path / "a", b"for another thread")
    another.join(20)
    assert seen == [b"for another thread"] and sorted(os.listdir(tmp_path)) == ["a", "link"]


def test_temporary_files_can_be_saved_to_and_read():
    symbol = mx.sym.FullyConnected(mx.sym.var("x"), num_hidden=2, name="layer")
    net = mx.gluon.nn.Dense(2, in_units=3)
    net.initialize()
    net(mx.nd.ones((1, 3)))
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"momentum": 0.9}, update_on_kvstore=False)
    for save in (lambda path: mx.nd.save(path, {"w": mx.nd.ones((2, 3))}), net.save_parameters, symbol.save,
                 trainer.save_states):
        with tempfile.NamedTemporaryFile() as file:
            for _ in range(2):  # empty, then not
                save(file.name)
                content = file.read()
                assert content and len(content) == os.path.getsize(file.name)
                file.seek(0)


def test_all_hard_links_see_what_is_saved(tmp_path):
    for old in (b"", b"old content, longer"):
        (tmp_path / "a").write_bytes(old)
        os.link(tmp_path / "a", tmp_path / "b")
        write_file(tmp_path / "a", b"new")
        assert (tmp_path / "b").read_bytes() == b"new" == (tmp_path / "a").read_bytes()
        with pytest.raises(KeyError), replacing(tmp_path / "a") as file:
            file.write(b"half")
            raise KeyError
        assert (tmp_path / "b").read_bytes() == b"new" and sorted(os.listdir(tmp_path)) == ["a", "b"]
        os.unlink(tmp_path / "b")


@pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="no names for open files")
def test_an_open_file_by_its_number(tmp_path):
    for gone in (False, True):
        with open(tmp_path / "a", "w+b") as file:
            if gone:
                os.unlink(tmp_path / "a")
            for content in (b"first, longer", b"second"):
                write_file(f"/dev/fd/{file.fileno()}", content)
                file.seek(0)
                assert file.read() == content
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_a_named_pipe_stays_one(tmp_path):
    path, got = tmp_path / "a", []
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: got.append(path.read_bytes()))
    reader.start()
    write_file(path, b"through")
    reader.join(20)
    assert got == [b"through"] and stat.S_ISFIFO(path.stat().st_mode) and os.listdir(tmp_path) == ["a"]


def test_other_files_are_replaced(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    before = path.stat().st_ino
    write_file(path, b"new")
    after = path.stat().st_ino
    assert after != before
    with reading(path, "content"), open(path, "rb") as own:  # as the library's own readers are in it
        write_file(path, b"newer")
        assert own.read() == b"new"
    assert path.read_bytes() == b"newer" and path.stat().st_ino != after and not _files.being_read


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everything")
def test_a_folder_that_takes_no_files_may_have_an_empty_one(tmp_path):
    path = tmp_path / "a"
    path.touch()
    tmp_path.chmod(0o555)
    try:
        write_file(path, b"new")
        assert path.read_bytes() == b"new"
        with pytest.raises(PermissionError, match=str(path)):
            write_file(path, b"newer")
    finally:
        tmp_path.chmod(0o755)


def test_an_empty_file_where_no_other_can_be_made(tmp_path, monkeypatch):
    opened = os.open
    monkeypatch.setattr(_files.os, "open", lambda path, *rest: refuse() if str(path).endswith(ENDING) else
                        opened(path, *rest))

    def refuse():
        raise PermissionError(errno.EACCES, "Permission denied", str(tmp_path / "x"))
    (tmp_path / "a").touch()
    write_file(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"new" and os.listdir(tmp_path) == ["a"]
    with pytest.raises(PermissionError):
        write_file(tmp_path / "a", b"newer")
    assert (tmp_path / "a").read_bytes() == b"new"


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="the system cannot tell")
def test_a_full_disk_is_noticed_before_a_copy(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(_files.os, "posix_fallocate", full)
    (tmp_path / "a").write_bytes(b"old")
    with open(tmp_path / "a", "rb") as file:
        with pytest.raises(OSError, match=f"No space left on device: '{tmp_path}/a'"):
            write_file(tmp_path / "a", b"content that is longer")
        assert file.read() == b"old" and os.listdir(tmp_path) == ["a"]


_KILLED = """
import os, signal, sys
from mxjax._support import files as _files
path, kind = sys.argv[1:]
class System:
    def __getattr__(self, name):
        return getattr(os, name)
    def write(self, handle, part):
        os.write(handle, part[:len(part) // 2])
        os.kill(os.getpid(), signal.SIGKILL)
if kind == "copied":
    os.link(path, path + "-link")
    _files.os = System()
with _files.replacing(path) as file:
    file.write(open(path + "-new", "rb").read()[:-9])
    file.flush()
    if kind == "renamed":
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="POSIX signals and links")
@pytest.mark.parametrize("kind", ["renamed", "copied"])
def test_a_kill_leaves_the_old_content_or_what_is_refused(tmp_path, kind):
    path = str(tmp_path / "a")
    mx.nd.save(path, {"w": mx.nd.zeros((30, 20))})
    mx.nd.save(path + "-new", {"w": mx.nd.ones((30, 20))})
    done = subprocess.run([sys.executable, "-c", _KILLED, path, kind])
    assert done.returncode == -signal.SIGKILL
    if kind == "renamed":
        assert mx.nd.load(path)["w"].sum().asscalar() == 0
    else:
        with pytest.raises(MXNetError, match="a: "):
            mx.nd.load(path)
    mx.nd.save(path, {"w": mx.nd.ones((30, 20))})
    assert mx.nd.load(path)["w"].sum().asscalar() == 600


def test_missing_folders_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        write_file(tmp_path / "nowhere" / "a", b"")


def test_errors_name_the_file_and_keep_their_words(tmp_path):
    path = tmp_path / "a"
    with pytest.raises(OSError, match=f"full: '{path}'$"), replacing(path):
        raise OSError(28, "full")
    with pytest.raises(OSError, match="^no answer$"), replacing(path):
        raise OSError("no answer")
    with pytest.raises(FileNotFoundError, match="'elsewhere'$"), replacing(path):
        open("elsewhere")
    (tmp_path / "b").mkdir()
    with pytest.raises(IsADirectoryError, match=f"directory: '{tmp_path}/b'$"):
        write_file(tmp_path / "b", b"")
    with pytest.raises(IsADirectoryError, match=f"directory: '{path}'$"), replacing(path):
        path.mkdir()
    with pytest.raises(MXNetError, match="cannot write b: Is a directory$"), refusals("cannot write b"):
        open(tmp_path / "b", "wb")
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


def test_files_that_belong_together_change_together(tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    with together():
        write_file(a, b"1")
        with together():
            write_file(b, b"1")
        assert not a.exists() and not b.exists()
    assert a.read_bytes() == b"1" == b.read_bytes()
    with pytest.raises(KeyError), together():
        write_file(a, b"2")
        write_file(b, b"2")
        raise KeyError
    with pytest.raises(OSError, match="nowhere"), together():
        write_file(a, b"2")
        write_file(tmp_path / "nowhere" / "b", b"2")
    assert a.read_bytes() == b"1" == b.read_bytes() and sorted(os.listdir(tmp_path)) == ["a", "b"]
    write_file(a, b"3")
    assert a.read_bytes() == b"3"


def test_files_that_belong_together_and_are_copied(tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    a.write_bytes(b"old a, longer")
    os.link(a, tmp_path / "link")
    with open(b, "w+b") as file:
        with pytest.raises(KeyError), together():
            write_file(a, b"new a")
            write_file(b, b"new b")
            raise KeyError
        assert (tmp_path / "link").read_bytes() == b"old a, longer" and file.read() == b""
        with together():
            write_file(a, b"new a")
            write_file(b, b"new b")
            assert file.read() == b""
        assert (tmp_path / "link").read_bytes() == b"new a" and file.read() == b"new b"
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "link"]


def test_a_file_that_waits_for_others_is_not_abandoned(tmp_path):
    path = tmp_path / "a"
    with together():
        write_file(path, b"1")
        waiting, = tmp_path.iterdir()
        os.utime(waiting, (0, 0))
        another = threading.Thread(target=write_file, args=(path, b"2"))
        another.start()
        another.join()
        assert path.read_bytes() == b"2"
    assert path.read_bytes() == b"1" and os.listdir(tmp_path) == ["a"]


def test_what_the_dead_have_left_is_removed(tmp_path):
    path = tmp_path / "a"
    left, fresh, other = (tmp_path / f".{name}.{digit * 16}{ENDING}" for name, digit in (("a", "0"), ("a", "1"),
                                                                                        ("ab", "0")))
    for one in (left, fresh, other):
        one.write_bytes(b"half")
    os.utime(left, (0, 0)), os.utime(other, (0, 0))
    write_file(path, b"new")
    assert sorted(os.listdir(tmp_path)) == sorted(["a", fresh.name, other.name])


def test_a_long_name_is_no_obstacle(tmp_path):
    write_file(tmp_path / ("n" * 250), b"1")
    assert os.listdir(tmp_path) == ["n" * 250]


def test_archives_are_unpacked_within_their_folder(tmp_path):
    folder, packed = tmp_path / "data", tmp_path / "packed"
    for name in ("sub/a", "../a"):
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("sub/", b"")
            archive.writestr(name, b"content")
        if name == "sub/a":
            unpack(packed, folder)
        else:
            with pytest.raises(OSError, match="the name '../a' points outside the directory .*packed"):
                unpack(packed, folder)
    assert (folder / "sub" / "a").read_bytes() == b"content"
    with tarfile.open(packed, "w:gz") as archive:
        entry = tarfile.TarInfo("sub/b")
        entry.size = 3
        archive.addfile(entry, io.BytesIO(b"new"))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    unpack(packed, folder)
    assert (folder / "sub" / "b").read_bytes() == b"new" and os.listdir(folder) == ["sub"]


def test_reading_tells_what_and_where():
    with pytest.raises(MXNetError, match="x.json cannot be read as a symbol: KeyError: 'nodes'") as caught:
        with reading("x.json", "a symbol"):
            {}["nodes"]
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(FileNotFoundError), reading("x.json", "a symbol"):
        open("/nonexistent")


READERS = {
    "nd.load": mx.nd.load, "sym.load": mx.sym.load, "init.Load": mx.init.Load,
    "load_parameters": lambda path: mx.gluon.nn.Dense(1).load_parameters(path),
    "imports": lambda path: mx.gluon.SymbolBlock.imports(path, ["data"]),
    "Trainer": lambda path: mx.gluon.Trainer(mx.gluon.ParameterDict(), "sgd").load_states(path),
    "record": lambda path: mx.recordio.MXRecordIO(path, "r"),
    "csv": lambda path: mx.io.CSVIter(data_csv=path, data_shape=(1,), batch_size=1),
    "libsvm": lambda path: mx.io.LibSVMIter(data_libsvm=path, data_shape=(1,), batch_size=1),
    "mnist": lambda path: mx.io.MNISTIter(image=path, label=path, batch_size=1),
    "records": lambda path: mx.io.ImageRecordIter(path_imgrec=path, data_shape=(3, 4, 4), batch_size=1),
    "list": lambda path: mx.image.ImageIter(1, (3, 4, 4), path_imglist=path, path_root="."),
    "image": lambda path: next(mx.image.ImageIter(1, (3, 4, 4), imglist=[[0.0, path]], path_root="")),
    "imread": mx.image.imread, "onnx": lambda path: (pytest.importorskip("onnx"), mx.contrib.onnx.import_model(path)),
}


@pytest.mark.parametrize("name", READERS)
def test_folders_are_no_files(tmp_path, name):
    """A folder's path, or one that goes through a file, is MXNet's error; where Python opens files, its own too."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "folder", tmp_path / "file" / "x"):
        with pytest.raises(MXNetError, match=path.name):
            READERS[name](str(path))


def test_an_index_that_is_a_folder(tmp_path):
    (tmp_path / "x.rec").write_bytes(b"")
    (tmp_path / "x.idx").mkdir()
    with pytest.raises(IsADirectoryError, match="x.idx") as caught:
        mx.recordio.MXIndexedRecordIO(str(tmp_path / "x.idx"), str(tmp_path / "x.rec"), "r")
    assert isinstance(caught.value, MXNetError)
