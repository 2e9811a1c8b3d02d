"""Record files: MXNet's format both ways, and what becomes of damaged ones."""

import hashlib
import pickle
import struct
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from mxjax.base import MXNetError
from mxjax.io import ImageRecordIter
from mxjax.recordio import IRHeader, MXIndexedRecordIO, MXRecordIO, pack, pack_img, unpack, unpack_img

MAGIC = struct.pack("<I", 0xCED7230A)

# awkward records: empty, every residue of 4, the magic number aligned, unaligned, doubled, at both ends
RECORDS = [b"", b"a", b"ab", b"abc", b"abcd", MAGIC, b"x" + MAGIC, MAGIC + b"x", b"1234" + MAGIC + b"5678" + MAGIC,
           MAGIC * 3 + b"12", b"12" + MAGIC + b"34", bytes(range(256)) * 40, MAGIC[:3], b"\0" * 5]


def write(path, records=RECORDS):
    with MXRecordIO(path, "w") as writer:
        for record in records:
            writer.write(record)
    return path


def read_all(path):
    reader = MXRecordIO(path, "r")
    return list(iter(reader.read, None))


def test_round_trip(tmp_path):
    assert read_all(write(tmp_path / "a.rec")) == RECORDS


def test_bytes_are_those_of_mxnet(tmp_path):
    """The digest of what MXNet 1.9.1 writes for these records."""
    written = write(tmp_path / "a.rec").read_bytes()
    assert hashlib.sha256(written).hexdigest() == "2dda0e6ab430c7d3bd63ec88e03e2ac21a51e2ca876a61284002a9dfd9d44486"


def test_parts_by_hand(tmp_path):
    data = b"1234" + MAGIC + b"56"
    path = write(tmp_path / "a.rec", [data])
    first, last = MAGIC + struct.pack("<I", 1 << 29 | 4) + b"1234", MAGIC + struct.pack("<I", 3 << 29 | 2) + b"56\0\0"
    assert path.read_bytes() == first + last


def indexed(folder, records=RECORDS, kind=MXIndexedRecordIO):
    """A reader of records by their numbers."""
    names = folder / "a.idx", folder / "a.rec"
    with MXIndexedRecordIO(*names, "w") as writer:
        for i, record in enumerate(records):
            writer.write_idx(i, record)
    return kind(*names, "r")


def test_indexed(tmp_path):
    reader = indexed(tmp_path)
    assert reader.keys == list(range(len(RECORDS)))
    for i in np.random.RandomState(0).permutation(len(RECORDS)):
        assert reader.read_idx(i) == RECORDS[i]
    with pytest.raises(KeyError):
        reader.read_idx(99)


def test_an_index_of_some_records(tmp_path):
    """Records behind which others stand that the index does not name, one that is read in several pieces, a cut."""
    large = bytes(range(256)) * 8192
    path = write(tmp_path / "a.rec", [large, *RECORDS, b"last"])
    with MXRecordIO(path, "r") as reader:
        begins = [0] + [reader.handle.tell() for _ in iter(reader.read, None)]
    chosen = [0, *range(1, len(RECORDS) + 1, 3), len(RECORDS) + 1]
    (tmp_path / "a.idx").write_text("".join(f"{i}\t{begins[i]}\n" for i in chosen))
    reader = MXIndexedRecordIO(tmp_path / "a.idx", path, "r")
    for i in reversed(chosen):
        assert reader.read_idx(i) == [large, *RECORDS, b"last"][i]
        for size in (0, 20, 1 << 30):  # whatever was said of it
            assert reader.read_at(begins[i], size) == [large, *RECORDS, b"last"][i]
    path.write_bytes(path.read_bytes()[:-1])
    for read in (reader.read_idx, lambda i: reader.read_at(begins[i])):
        with pytest.raises(MXNetError, match="a.rec at offset .*ends within a part"):
            read(chosen[-1])


def test_reading_goes_on_behind_the_record_of_a_key(tmp_path):
    reader = indexed(tmp_path)
    for i in (7, 0, 4):
        assert reader.read_idx(i) == RECORDS[i]
        for k in (9, 5):  # one in one part, one in several: iterators read so, and disturb nobody
            assert reader.read_at(reader.idx[k]) == RECORDS[k]
        assert reader.read() == RECORDS[i + 1]


@pytest.mark.parametrize("offset", [-8, 7, 10 ** 6, 10 ** 30])
def test_iterators_name_what_an_index_has_wrong(tmp_path, offset):
    write(tmp_path / "a.rec")
    (tmp_path / "a.idx").write_text(f"5\t{offset}\n")
    with pytest.raises(MXNetError, match="a.rec, record 5: invalid record file .*offset"):
        ImageRecordIter(path_imgrec=str(tmp_path / "a.rec"), path_imgidx=str(tmp_path / "a.idx"),
                        data_shape=(3, 4, 4), batch_size=1)


def test_own_ways_of_reading_are_those_of_keys(tmp_path):
    class Doubled(MXIndexedRecordIO):
        def read(self):
            return super().read() * 2
    assert indexed(tmp_path, [b"ab"], Doubled).read_idx(0) == b"abab"


def test_reset_and_pickle(tmp_path):
    reader = MXRecordIO(write(tmp_path / "a.rec"), "r")
    reader.read()
    reader.reset()
    assert reader.read() == RECORDS[0]
    assert pickle.loads(pickle.dumps(reader)).read() == RECORDS[0]
    assert reader.read() == RECORDS[1], "the original goes on where it was"


def test_threads_read_one_indexed_file(tmp_path):
    path = str(tmp_path / "x")
    with MXIndexedRecordIO(path + ".idx", path + ".rec", "w") as writer:
        for i in range(50):
            writer.write_idx(i, bytes([i]) * 3000)
    reader = MXIndexedRecordIO(path + ".idx", path + ".rec", "r")
    with ThreadPoolExecutor(8) as pool:
        numbers = [i % 50 for i in range(4000)]
        assert all(record == bytes([i]) * 3000 for i, record in zip(numbers, pool.map(reader.read_idx, numbers),
                                                                    strict=True))


def test_wrong_use(tmp_path):
    path = write(tmp_path / "a.rec")
    with pytest.raises(ValueError, match="flag"):
        MXRecordIO(path, "a")
    with pytest.raises(MXNetError, match="none.rec"):
        MXRecordIO(tmp_path / "none.rec", "r")
    reader = MXRecordIO(path, "r")
    with pytest.raises(MXNetError, match="reading only"):
        reader.write(b"x")
    reader.close()
    with pytest.raises(MXNetError, match="closed"):
        reader.read()
    other = MXRecordIO(path, "r")
    other.pid = -1
    with pytest.raises(RuntimeError, match="process"):
        other.read()


@pytest.mark.parametrize("damage, message", [
    (lambda b: b[:-1], "offset .*ends within a part"),
    (lambda b: b[:5], "offset 0: the file ends within a header"),
    (lambda b: b"\0" + b[1:], "offset 0: expected the magic number"),
    (lambda b: b[:4] + struct.pack("<I", 2 << 29) + b[8:], "offset .*continuation of another"),
    (lambda b: b[:4] + struct.pack("<I", 1 << 29 | 8) + b[8:], "starts within another"),
    (lambda b: b[:4] + struct.pack("<I", 7 << 29) + b[8:], "offset 0: a part of unknown kind 7"),
    (lambda b: b[:4] + struct.pack("<I", 2 ** 29 - 1) + b[8:], "offset 0: the file ends within a part of 536870911"),
    (lambda b: MAGIC + struct.pack("<I", 1 << 29), "ends within a record"),
], ids=["cut", "header", "magic", "middle", "nested", "kind", "length", "open"])
def test_damage_is_named(tmp_path, damage, message):
    path = write(tmp_path / "a.rec", [b"12345678", b"abc"])
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(MXNetError, match="a.rec.*" + message):
        read_all(path)


def test_mutated_files_never_do_worse_than_an_error(tmp_path):
    """1000 files with bytes changed, cut or inserted: each gives records or a clear error, and no big allocation."""
    import tracemalloc
    rng = np.random.RandomState(7)
    good = write(tmp_path / "good.rec").read_bytes()
    path, failures = tmp_path / "bad.rec", 0
    for _ in range(1000):
        bad = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            at = rng.randint(len(bad))
            kind = rng.randint(3)
            if kind == 0:
                bad[at] = rng.randint(256)
            elif kind == 1:
                del bad[at:at + rng.randint(1, 9)]
            else:
                bad[at:at] = rng.bytes(rng.randint(1, 9))
        path.write_bytes(bad)
        tracemalloc.start()
        try:
            read_all(path)
        except MXNetError as error:
            failures += 1
            assert "bad.rec" in str(error) and "offset" in str(error)
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert peak < 4 * len(bad) + 300_000
    assert failures > 500


@pytest.mark.parametrize("line", ["x\t0", "3", "", "3\tx"])
def test_damaged_index(tmp_path, line):
    write(tmp_path / "a.rec")
    (tmp_path / "a.idx").write_text(f"0\t0\n{line}\n")
    with pytest.raises(MXNetError, match="a.idx at line 2"):
        MXIndexedRecordIO(tmp_path / "a.idx", tmp_path / "a.rec", "r")


def test_index_beyond_the_file(tmp_path):
    write(tmp_path / "a.rec")
    (tmp_path / "a.idx").write_text("0\t99999999\n")
    with pytest.raises(MXNetError, match="offset 99999999"):
        MXIndexedRecordIO(tmp_path / "a.idx", tmp_path / "a.rec", "r").read_idx(0)


@pytest.mark.parametrize("label", [3.0, np.float32(2), [1.0, 2.0], np.arange(5.0)])
def test_pack(label):
    header, data = unpack(pack(IRHeader(9, label, 7, 1), b"data"))
    assert data == b"data" and header.id == 7 and header.id2 == 1
    assert header.flag == (0 if np.ndim(label) == 0 else len(label))
    np.testing.assert_array_equal(header.label, np.asarray(label, np.float32))


def test_pack_damaged():
    with pytest.raises(MXNetError, match="at least 24 bytes"):
        unpack(b"short")
    with pytest.raises(MXNetError, match="1000 labels"):
        unpack(struct.pack("<IfQQ", 1000, 0, 0, 0) + b"abcd")


def test_images():
    pytest.importorskip("cv2")
    img = np.random.RandomState(0).randint(0, 256, (8, 6, 3), np.uint8)
    header, back = unpack_img(pack_img((0, 1.0, 2, 0), img, quality=9, img_fmt=".png"))
    assert header.label == 1.0
    np.testing.assert_array_equal(back, img)
    smooth = np.full((16, 16, 3), 100, np.uint8)
    assert abs(unpack_img(pack_img((0, 1.0, 2, 0), smooth))[1].astype(int) - 100).max() <= 2
    assert unpack_img(pack((0, 1.0, 2, 0), b"no image"))[1] is None
    with pytest.raises(MXNetError, match="encode"):
        pack_img((0, 1.0, 2, 0), img, img_fmt=".nothing")
