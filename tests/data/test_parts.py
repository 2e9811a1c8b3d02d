"""Tests of what several processes read of files: all parts together have each record once."""

import functools
import itertools
import struct

import numpy as np
import pytest

import mxjax as mx

cv2 = pytest.importorskip("cv2")

PARTS = [1, 2, 3, 5, 8]


def write(folder, count):
    """Record files of small images and of images with one object, whose label is their number."""
    random = np.random.RandomState(count)
    with mx.recordio.MXIndexedRecordIO(folder / "a.idx", folder / "a.rec", "w") as plain, \
            mx.recordio.MXIndexedRecordIO(folder / "b.idx", folder / "b.rec", "w") as objects:
        for i in range(count):
            image = random.randint(0, 256, (8 + random.randint(20), 9, 3)).astype(np.uint8)  # of different lengths
            plain.write_idx(i, mx.recordio.pack_img((0, float(i), i, 0), image, 1, ".png"))
            label = [2, 5, i, 0.1, 0.1, 0.5, 0.6]
            objects.write_idx(i, mx.recordio.pack_img((0, label, i, 0), image, 1, ".png"))
    return folder


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return {count: write(tmp_path_factory.mktemp("records"), count) for count in (9, 21)}


def numbers(batch):
    """The labels of a batch, without those that only fill it."""
    found = batch.label[0].asnumpy()
    found = found[:, 0, 0] if found.ndim == 3 else found[:, 6] if found.ndim == 2 and found.shape[1] > 4 else found
    return found[:len(found) - batch.pad].astype(int).tolist()


def epoch(batches):
    return [number for batch in batches for number in numbers(batch)]


def record_iter(kind, folder, **options):
    name = "b" if "Det" in kind else "a"
    index = {"path_imgidx": str(folder / f"{name}.idx")} if options.pop("indexed") else {}
    return getattr(mx.io, kind)(path_imgrec=str(folder / f"{name}.rec"), data_shape=(3, 8, 8), preprocess_threads=1,
                                prefetch_buffer=1, verbose=False, **index, **options)


def read(make, count, rounds=2):
    """Two epochs of all parts together; parts without a record have no iterator."""
    found = [[] for _ in range(rounds)]
    for i in range(count):
        try:
            batches = make(num_parts=count, part_index=i)
        except mx.MXNetError as error:
            assert "the iterator has no batch" in str(error)
            continue
        for numbers_of_round in found:
            numbers_of_round += epoch(batches)
            batches.reset()
    return found


@pytest.mark.parametrize("kind,indexed", [("ImageRecordIter", True), ("ImageRecordIter", False),
                                          ("ImageDetRecordIter", False)])
def test_records_are_read_once(files, kind, indexed):
    for length, count, shuffle in itertools.product(files, PARTS, (False, True)):
        make = functools.partial(record_iter, kind, files[length], indexed=indexed, batch_size=2, shuffle=shuffle,
                                 round_batch=False)
        for found in read(make, count):
            assert sorted(found) == list(range(length)), (length, count, shuffle)


@pytest.mark.parametrize("indexed", [True, False])
def test_pieces_are_read_once(files, indexed, monkeypatch):
    monkeypatch.setattr("mxjax.io.record_source._CHUNK", 2000)  # shuffled together
    records, contents = mx.io.record_source.open_records, mx.io.record_source.Contents()
    path, index = str(files[21] / "a.rec"), str(files[21] / "a.idx") if indexed else ""
    for count in PARTS:
        parts = [records(path, index, i, count, True, 3) for i in range(count)]
        found = [contents(record) for part in parts for record in part.round(5)]
        assert len(found) == 21 == len(set(found))
    part = records(path, index, 1, 2, True, 3)
    assert [contents(r) for r in part.round(4, 3)] == [contents(r) for r in part.round(4)][3:]
    if not indexed:
        part.pieces = [(i, 8) for i in range(8)]
        assert len({contents(r) for r in part.round(1)}) == 21
        assert [r.place for r in part.round(1)] != [r.place for r in part.round(2)]


@pytest.mark.parametrize("indexed", [True, False])
def test_filled_batches_take_from_the_next_round(files, indexed):
    """With round_batch an epoch begins behind the records that filled the one before: with those, it has each once."""
    for count, shuffle in itertools.product([1, 2, 3], (False, True)):
        rounds, filling = [[], []], []
        for i in range(count):
            batches = record_iter("ImageRecordIter", files[21], indexed=indexed, batch_size=4, shuffle=shuffle,
                                  num_parts=count, part_index=i)
            for number, found in enumerate(rounds):
                for batch in batches:
                    found += numbers(batch)
                    if batch.pad and number == 0:
                        filling += batch.label[0].asnumpy()[-batch.pad:].astype(int).tolist()
                batches.reset()
        assert sorted(rounds[0]) == sorted(rounds[1] + filling) == list(range(21))


def test_a_reset_in_mid_epoch_leads_to_the_next_order(files):
    """Whatever had been read ahead by then."""
    orders = []
    for taken in (1, 5):
        batches = record_iter("ImageRecordIter", files[21], indexed=True, batch_size=4, shuffle=True)
        for _ in range(taken):
            next(batches)
        batches.reset()
        orders.append(epoch(batches))
    assert orders[0] == orders[1]


@pytest.mark.parametrize("indexed", [True, False])
def test_a_reset_within_the_prefetched_batches(files, indexed):
    """As in MXNet, the last batch was filled already, so the next epoch begins behind those records."""
    batches = record_iter("ImageRecordIter", files[21], indexed=indexed, batch_size=4)
    batches.reset()
    assert epoch(batches) == list(range(3, 21))
    whole = record_iter("ImageRecordIter", files[21], indexed=indexed, batch_size=4, round_batch=False)
    whole.reset()
    assert epoch(whole) == list(range(21))


@pytest.mark.parametrize("kind", ["ImageIter", "ImageDetIter"])
def test_image_iterators_read_once(files, kind):
    name = "b" if "Det" in kind else "a"
    for length, count, shuffle, last in itertools.product((9, ), PARTS, (False, True), ("pad", "roll_over")):
        source = {"path_imgrec": str(files[length] / f"{name}.rec"), "path_imgidx": str(files[length] / f"{name}.idx")}
        parts = [getattr(mx.image, kind)(2 if last == "pad" else 1, (3, 8, 8), num_parts=count, part_index=i,
                                         shuffle=shuffle, last_batch_handle=last, **source) for i in range(count)]
        for _ in range(2):
            read_ones = sum(map(epoch, parts), [])
            # as in MXNet, parts have one length: what is left of the division is in none
            assert len(set(read_ones)) == len(read_ones) == length - length % count
            for part in parts:
                part.reset()


def test_rows_are_read_once(tmp_path):
    for length in (7, 13, 49):
        (tmp_path / "image").write_bytes(struct.pack(">4i", 2051, length, 1, 1) + bytes(range(length)))
        (tmp_path / "label").write_bytes(struct.pack(">2i", 2049, length) + bytes(range(length)))
        (tmp_path / "x.svm").write_text("".join(f"{i} 0:1\n" for i in range(length)))
        for count in (*PARTS, 23, 49):
            found = read(lambda **part: mx.io.MNISTIter(image=str(tmp_path / "image"), label=str(tmp_path / "label"),
                                                        batch_size=1, silent=True, **part), count)
            assert [sorted(numbers) for numbers in found] == [list(range(length))] * 2
            found, = read(lambda **part: mx.io.LibSVMIter(data_libsvm=str(tmp_path / "x.svm"), data_shape=(1,),
                                                          batch_size=2, **part), count, rounds=1)
            assert sorted(found) == list(range(length))


def test_parts_of_libsvm_files_are_ranges_of_bytes(tmp_path):
    (tmp_path / "x.svm").write_text("0 1:0.5 3:0.25\n# no row\n1 2:1\n2 0:1\n3 1:1\r\n4 0:1 1:1 2:1 3:1\n5 2:1")
    found = {count: [[int(batch.label[0].asscalar()) for batch in mx.io.LibSVMIter(
        data_libsvm=str(tmp_path / "x.svm"), data_shape=(4,), batch_size=1, num_parts=count, part_index=i)]
        for i in range(count)] for count in (2, 3)}
    assert found == {2: [[0, 1, 2], [3, 4, 5]], 3: [[0], [1, 2, 3, 4], [5]]}  # recorded from MXNet


def test_a_part_of_nothing_is_an_error(files):
    with pytest.raises(mx.MXNetError, match="no batch.*fewer records than parts"):
        record_iter("ImageRecordIter", files[9], indexed=True, batch_size=1, num_parts=10, part_index=0)
