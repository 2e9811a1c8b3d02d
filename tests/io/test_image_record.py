"""Tests of the iterators over image records; figures recorded with MXNet 1.9.1 are marked."""

import logging
import os
import signal
import struct
import time
import types
from random import Random

import numpy as np
import pytest

import mxjax as mx
from mxjax.io import record_batches
from mxjax.io.image_det_augment import DetAugmenter
from mxjax.io.image_parameters import DetParameters

from ..internals import decoders_of, decodes_by_processes, forgotten, read_ahead, rooms_of, workers_of

cv2 = pytest.importorskip("cv2")
contents = mx.io.record_source.Contents()


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Ten PNGs of 20 to 29 by 24 pixels, with and without objects."""
    folder = tmp_path_factory.mktemp("records")
    random = np.random.RandomState(0)
    with mx.recordio.MXIndexedRecordIO(folder / "a.idx", folder / "a.rec", "w") as plain, \
            mx.recordio.MXIndexedRecordIO(folder / "b.idx", folder / "b.rec", "w") as objects:
        for i in range(10):
            image = (random.rand(20 + i, 24, 3) * 255).astype(np.uint8)
            label = [4, 5, i, 20, 1, 0.1, 0.1, 0.5, 0.6] + ([] if i % 2 else [2, 0.2, 0.2, 0.7, 0.8])
            plain.write_idx(i, mx.recordio.pack_img((0, float(i), i, 0), image, 3, ".png"))
            objects.write_idx(i, mx.recordio.pack_img((0, label, i, 0), image, 3, ".png"))
    return folder


@pytest.fixture
def make(path):
    def make(kind="ImageRecordIter", **options):
        name = "b.rec" if "Det" in kind else "a.rec"
        return getattr(mx.io, kind)(**{"path_imgrec": str(path / name), "data_shape": (3, 16, 16), "batch_size": 4,
                                       "preprocess_threads": 2, "verbose": False, **options})
    return make


def test_logging_is_left_to_the_script(make, tmp_path, monkeypatch):
    monkeypatch.setattr(logging.root, "handlers", [])
    make(verbose=True, mean_img=str(tmp_path / "mean"))
    assert not logging.root.handlers


def labels(batches):
    return [batch.label[0].asnumpy().tolist() for batch in batches]


def means(batches):
    return [round(float(batch.data[0].asnumpy().astype(float).mean()), 3) for batch in batches]


# -------------------------------------------------------------------- order
@pytest.mark.parametrize("indexed", [False, True])
def test_round_batches(make, path, indexed):
    batches = make(path_imgidx=str(path / "a.idx") if indexed else "")
    assert batches.provide_data[0].shape == (4, 3, 16, 16) and batches.provide_label[0].shape == (4,)
    first = list(batches)
    assert labels(first) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 0, 1]] and [b.pad for b in first] == [0, 0, 2]
    batches.reset()
    assert labels(batches) == [[2, 3, 4, 5], [6, 7, 8, 9]]
    batches.reset()
    next(batches)
    batches.reset()  # in the middle; MXNet has prefetched the last batch by then
    assert labels(batches) == [[2, 3, 4, 5], [6, 7, 8, 9]]


def test_short_batches(make):
    batches = list(make(round_batch=False))
    assert batches[2].pad == 2 and labels(batches)[2] == [8, 9, 0, 0]
    with pytest.raises(mx.MXNetError, match="number of input images must be bigger than the batch size 24"):
        make(batch_size=24)


@pytest.mark.parametrize("indexed", [False, True])
def test_parts(make, path, indexed):
    index = {"path_imgidx": str(path / "a.idx")} if indexed else {}
    parts = [labels(make(num_parts=3, part_index=i, **index)) for i in range(3)]
    assert parts == [[[0, 1, 2, 3]], [[4, 5, 6, 7]], [[8, 9, 8, 9]]]  # as MXNet's
    if indexed:  # where that would leave MXNet's last part nothing
        assert sum(sum([sum(labels(make(num_parts=6, part_index=i, batch_size=1, **index)), []) for i in range(6)],
                       []), 0) == 45


@pytest.mark.parametrize("indexed", [True, False])
def test_shuffled_as_in_mxnet(make, path, indexed):
    """The orders of three rounds, recorded with MXNet."""
    batches = make(shuffle=True, batch_size=5, seed=3, **({"path_imgidx": str(path / "a.idx")} if indexed else {}))
    for order in ([8, 0, 1, 7, 3, 5, 2, 9, 6, 4], [4, 5, 0, 6, 7, 3, 9, 1, 2, 8], [9, 6, 5, 2, 7, 0, 4, 8, 3, 1]):
        assert sum(labels(batches), []) == order
        batches.reset()


def test_pictures_with_objects_are_shuffled_as_in_mxnet(make):
    batches = make("ImageDetRecordIter", shuffle=True, batch_size=5, seed=3, label_pad_width=20)
    for order in ([5, 0, 4, 9, 6, 1, 8, 2, 7, 3], [5, 1, 2, 3, 6, 0, 8, 4, 9, 7]):  # recorded with MXNet
        assert [int(label[6]) for batch in batches for label in batch.label[0].asnumpy()] == order
        batches.reset()


def test_chunks_are_shuffled_as_in_mxnet(path, tmp_path, monkeypatch):
    """What is shuffled together begins where the last of so many bytes' records does."""
    with mx.recordio.MXRecordIO(tmp_path / "a.rec", "w") as file:
        for i in range(12):
            file.write(bytes([i]) * 92)  # 100 with its header
        file.write(bytes([12]) * 392)
    monkeypatch.setattr("mxjax.io.record_source._CHUNK", 300)
    records = mx.io.record_source.open_records(str(tmp_path / "a.rec"), "", 0, 1, True, 0)
    chunks = [[contents(record)[0] for record in chunk] for chunk in records.chunks(0)]
    assert chunks == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10, 11], [12]]
    once = [contents(record)[0] for record in records.round(0)]
    twice = [contents(record)[0] for record in records.round(1)]
    assert sorted(once) == sorted(twice) == list(range(13)) and once != twice
    anew = mx.io.record_source.open_records(str(tmp_path / "a.rec"), "", 0, 1, True, 0)
    assert [contents(record)[0] for record in anew.round(1)] == twice
    broken_off = anew.round(0)
    next(broken_off)
    assert [contents(record)[0] for record in anew.round(1)] == twice


@pytest.mark.parametrize("options", [{}, {"indexed": True}, {"shuffle_chunk_size": 1}])
def test_shuffling(make, path, options):
    index = {"path_imgidx": str(path / "a.idx")} if options.pop("indexed", False) else {}
    batches = make(shuffle=True, batch_size=5, seed=3, **index, **options)
    rounds = []
    for _ in range(3):
        rounds.append(sum(labels(batches), []))
        batches.reset()
    assert all(sorted(numbers) == list(range(10)) for numbers in rounds)
    assert len(set(map(tuple, rounds))) == 3
    assert sum(labels(make(shuffle=True, batch_size=5, seed=3, **index, **options)), []) == rounds[0]


# -------------------------------------------------------------------- images
@pytest.mark.parametrize("options,expected", [  # means of the batches, recorded with MXNet
    ({}, [126.644, 125.154, 126.52]), ({"dtype": "uint8"}, [126.644, 125.154, 126.52]),
    ({"dtype": "int8", "mean_r": 10}, [92.948, 92.221, 92.808]),
    ({"mean_r": 100, "std_r": 2, "scale": 0.5, "mirror": True}, [44.362, 43.767, 44.349]),
    ({"resize": 40}, [123.611, 125.363, 124.18]), ({"data_shape": "(3, 40, 40)"}, [125.935, 125.304, 126.458]),
    ({"max_crop_size": 12, "min_crop_size": 12}, [124.752, 125.05, 124.403]), ({"pad": 4}, [126.644, 125.154, 126.52]),
    ({"data_shape": (1, 16, 16)}, [126.238, 124.026, 125.325])])
def test_sizes_and_normalization(make, options, expected):
    assert means(make(**options)) == pytest.approx(expected, abs=0.002)


def test_kinds(make):
    assert make("ImageRecordUInt8Iter").provide_data[0].dtype == np.uint8
    assert make("ImageRecordInt8Iter").provide_data[0].dtype == np.int8
    assert labels(make("ImageRecordIter_v1"))[0] == [0, 1, 2, 3]


AUGMENTED = {"rand_crop": True, "rand_mirror": True, "max_rotate_angle": 10, "max_aspect_ratio": 0.2,
             "max_shear_ratio": 0.1, "max_random_scale": 1.2, "min_random_scale": 0.9, "brightness": 0.2,
             "contrast": 0.2, "saturation": 0.2, "pca_noise": 0.1, "random_h": 10, "random_s": 10, "random_l": 10,
             "max_random_contrast": 0.1, "max_random_illumination": 5, "inter_method": 10}


def test_augmentation_is_reproducible(make):
    def images(**options):
        return np.stack([batch.data[0].asnumpy() for batch in make(**AUGMENTED, **options)])
    first = images(seed=1)
    assert np.array_equal(first, images(seed=1, preprocess_threads=1)) and not np.array_equal(first, images(seed=2))
    batches = make(**AUGMENTED, seed_aug=3, batch_size=5)
    rounds = []
    for _ in range(2):
        rounds.append(np.stack([batch.data[0].asnumpy() for batch in batches]))
        batches.reset()
    assert np.array_equal(*rounds)


@pytest.mark.parametrize("indexed, options, expected", [  # means of the batches, and of columns, recorded with MXNet
    (False, {"rand_crop": True, "rand_mirror": True}, [127.077, 124.887, 127.077, 14924.78]),
    (False, {"rand_crop": True, "shuffle": True}, [125.809, 124.572, 125.655, 14983.95]),
    (True, {"rand_crop": True, "rand_mirror": True, "shuffle": True}, [128.017, 124.479, 124.867, 15109.39]),
    (True, {"random_resized_crop": True, "min_random_area": 0.3, "max_random_area": 0.9, "min_aspect_ratio": 0.75,
            "max_aspect_ratio": 1.3, "inter_method": 10}, [127.224, 124.857, 126.4, 15058.76]),
    (True, {"min_crop_size": 8, "max_crop_size": 20, "rand_crop": True, "pca_noise": 0.1, "brightness": 0.4},
     [146.572, 147.276, 147.839, 17331.72]),
    (True, {"max_random_contrast": 0.3, "max_random_illumination": 20, "scale": 0.5},
     [66.163, 65.092, 65.685, 7816.95])])
def test_what_a_seed_of_augmentations_draws(make, path, indexed, options, expected):
    index = {"path_imgidx": str(path / "a.idx")} if indexed else {}
    batches = make(seed=3, seed_aug=7, **index, **options)
    found = means(batches)
    batches.reset()
    columns = np.concatenate([batch.data[0].asnumpy() for batch in batches]).mean((0, 1, 2))
    np.testing.assert_allclose([*found, columns @ np.arange(16)], expected, rtol=2e-4)


@pytest.mark.parametrize("method", [0, 1, 2, 3, 4, 9, 10])
def test_every_method_of_interpolation(make, method):
    whole, enlarged = (next(make(inter_method=method, **options)).data[0].asnumpy() for options in ({}, {"resize": 40}))
    assert enlarged.shape == whole.shape and 0 < enlarged.mean() < 255
    assert not np.array_equal(enlarged, whole)


def test_resized_crops(make):
    batch = next(make(random_resized_crop=True, min_random_area=0.2, max_random_area=0.6, max_aspect_ratio=0.3))
    assert batch.data[0].shape == (4, 3, 16, 16)
    with pytest.raises(mx.MXNetError, match="random_resized_crop cannot be combined"):
        make(random_resized_crop=True, rand_crop=True)


def test_mean_image(make, tmp_path):
    file = str(tmp_path / "mean.bin")
    made = make(mean_img=file, batch_size=10)
    mean = mx.nd.load(file)["mean_img"].asnumpy()
    plain = next(make(batch_size=10)).data[0].asnumpy()
    np.testing.assert_allclose(mean, plain.mean(axis=0), rtol=1e-5)
    for batches in (made, make(mean_img=file, batch_size=10)):
        np.testing.assert_allclose(next(batches).data[0].asnumpy(), plain - mean, atol=1e-4)


def test_labels_from_a_list(make, tmp_path):
    file = tmp_path / "x.lst"
    file.write_text("".join(f"{i}\t{i * 10}\t{i * 20}\tx.png\n" for i in range(10)))
    assert labels(make(path_imglist=str(file), label_width=2))[0][1] == [10, 20]
    with pytest.raises(mx.MXNetError, match="label_width is 2"):
        make(label_width=2)
    file.write_text("0\tnothing\tx.png\n")
    with pytest.raises(mx.MXNetError, match="x.lst at line 1"):
        make(path_imglist=str(file))


# -------------------------------------------------------------------- damage
@pytest.mark.parametrize("shuffle", [False, True])
def test_records_before_damage_come(path, tmp_path, shuffle):
    content = (path / "a.rec").read_bytes()
    (tmp_path / "x.rec").write_bytes(content[:len(content) * 3 // 4 // 4 * 4] + b"nonsense" * 20)
    records = mx.io.record_source.open_records(str(tmp_path / "x.rec"), "", 0, 1, shuffle, 0).round(0)
    found = []
    with pytest.raises(mx.MXNetError, match="x.rec at offset"):
        for record in records:
            found.append(mx.recordio.unpack(contents(record))[0].label)
    assert sorted(found) == list(range(len(found))) and 5 <= len(found) < 10


def test_damaged_images_are_named(path, tmp_path):
    file = tmp_path / "x.rec"
    with mx.recordio.MXRecordIO(file, "w") as writer, mx.recordio.MXRecordIO(path / "a.rec", "r") as reader:
        for _ in range(4):
            writer.write(reader.read())
        writer.write(mx.recordio.pack((0, 1.0, 4, 0), b"no image"))
    options = {"path_imgrec": str(file), "data_shape": (3, 16, 16), "batch_size": 2, "verbose": False}
    batches = mx.io.ImageRecordIter(**options)
    next(batches)
    next(batches)
    with pytest.raises(mx.MXNetError, match="x.rec, the record at offset .*cannot be decoded"):
        next(batches)
    file.write_bytes(file.read_bytes()[:3000])
    with pytest.raises(mx.MXNetError, match="x.rec at offset .*ends within a part"):
        list(mx.io.ImageRecordIter(**options))


@pytest.mark.parametrize("options,words", [
    ({"path_imgrec": "/nowhere.rec"}, "'/nowhere.rec'"), ({"path_imgrec": ""}, "path_imgrec is required"),
    ({"data_shape": (3, 16)}, "channels, height, width"), ({"data_shape": (2, 16, 16)}, "1, 3 or 4 channels"),
    ({"preprocess_threads": 0}, "preprocess_threads must be int >= 1"), ({"dtype": "float16"}, "dtype"),
    ({"part_index": 2, "num_parts": 2}, "part_index must be from 0 to 1"), ({"inter_method": 7}, "inter_method 7"),
    ({"max_crop_size": 30}, "smaller than max_crop_size")])
def test_bad_parameters(make, options, words):
    with pytest.raises(mx.MXNetError, match=words):
        make(**options)


def test_keywords_only():
    with pytest.raises(TypeError, match="ImageRecordIter can only accept keyword arguments"):
        mx.io.ImageRecordIter("x.rec")
    with pytest.raises(mx.MXNetError, match="required parameter data_shape is missing"):
        mx.io.ImageRecordIter(path_imgrec="x.rec", batch_size=3)


# -------------------------------------------------------------------- detection
def test_objects(make):
    batches = make("ImageDetRecordIter")
    batch = next(batches)
    assert means([batch]) == pytest.approx([125.94], abs=0.002)  # recorded with MXNet
    assert batch.label[0].shape == (4, 18) and batch.index.tolist() == [0, 1, 2, 3]
    first, second = batch.label[0].asnumpy()[:2]
    np.testing.assert_allclose(first, [3, 16, 16, 14, 4, 5, 0, 20, 1, 0.1, 0.1, 0.5, 0.6, 2, 0.2, 0.2, 0.7, 0.8],
                               rtol=1e-6)
    assert second[3] == 9 and (second[13:] == -1).all()
    padded = next(make("ImageDetRecordIter", label_pad_width=30, label_pad_value=-2)).label[0].asnumpy()
    assert padded.shape == (4, 34) and (padded[:, 18:] == -2).all()
    with pytest.raises(mx.MXNetError, match="label_pad_width 5 is smaller"):
        make("ImageDetRecordIter", label_pad_width=5)


def test_mirrored_objects(make):
    batch = next(make("ImageDetRecordIter", rand_mirror_prob=1, mean_r=10, std_r=2))
    assert means([batch]) == pytest.approx([103.223], abs=0.002)  # recorded with MXNet
    np.testing.assert_allclose(batch.label[0].asnumpy()[0, 8:13], [1, 0.5, 0.1, 0.9, 0.6], rtol=1e-6)


def test_cropped_and_padded_objects(make):
    options = {"rand_crop_prob": 1, "num_crop_sampler": 2, "min_crop_scales": (0.5, 0.7),
               "max_crop_aspect_ratios": 2, "min_crop_aspect_ratios": 0.5, "min_crop_object_coverages": 0.5,
               "rand_pad_prob": 0.5, "max_pad_scale": 2, "random_hue_prob": 1, "max_random_hue": 10}
    for batch in make("ImageDetRecordIter", **options):
        for label in batch.label[0].asnumpy():
            boxes = label[8:4 + int(label[3])].reshape(-1, 5)[:, 1:]
            assert len(boxes) and (boxes >= 0).all() and (boxes <= 1).all() and (boxes[:, :2] < boxes[:, 2:]).all()


@pytest.mark.parametrize("box, kept", [((0.0, 0.0, 0.5, 1.0), [1]), ((0.5, 0.0, 0.5, 1.0), [2, 3]),
                                       ((0.0, 0.5, 1.0, 0.5), [3]), ((0.0, 0.0, 1.0, 0.5), [1, 2])])
def test_crops_keep_objects_whose_middle_is_inside(box, kept):
    """The left and upper edge belong to a box, the right and lower one do not."""
    rows = [[1, 0.125, 0.125, 0.5, 0.5], [2, 0.25, 0.125, 0.75, 0.5], [3, 0.5, 0.25, 0.75, 0.75]]
    objects = mx.io.image_det_augment.Objects(np.array([2, 5, *np.ravel(rows)]))
    assert objects.crop(box, [(0, 1)] * 3, None)
    assert objects.rows[:, 0].tolist() == kept and (objects.rows[:, 1:] >= 0).all() and (objects.rows[:, 1:] <= 1).all()


def test_crops_without_the_middle_of_an_object():
    objects = mx.io.image_det_augment.Objects(np.array([2, 5, 1, 0.0, 0.0, 0.5, 0.5]))
    before = objects.rows.copy()
    assert not objects.crop((0.3, 0.0, 0.7, 1.0), [(0, 1)] * 3, None) and np.array_equal(objects.rows, before)
    assert objects.crop((0.3, 0.0, 0.7, 1.0), [(0, 1)] * 3, 0.3)  # two fifths of it remain


@pytest.mark.parametrize("rows, columns", [(40, 160), (160, 40), (90, 90)])
def test_crops_have_the_ratios_that_are_asked_for(rows, columns):
    """Pixels tell their position, so the ends of a crop tell its width and height, whatever it is resized to."""
    given = DetParameters(data_shape=(3, 64, 64), batch_size=1, rand_crop_prob=1, num_crop_sampler=1, inter_method=0,
                          min_crop_scales=(0.4,), max_crop_scales=(0.6,), min_crop_aspect_ratios=(0.8,),
                          max_crop_aspect_ratios=(1.25,), min_crop_overlaps=(0.0,), max_crop_trials=(25,))
    augment, rng = DetAugmenter(given), Random(3)
    y, x = np.mgrid[:rows, :columns]
    pixels, label = np.stack([x, y, y], -1).astype("uint8"), np.array([2, 5, 1, 0.0, 0.0, 1.0, 1.0], "float32")
    ratios = []
    for _ in range(40):
        crop, _ = augment(pixels, label, rng)
        width, height = (int(crop[..., i].max()) - int(crop[..., i].min()) + 1 for i in (0, 1))
        if (width, height) != (columns, rows):  # no crop keeps the middle of the object
            ratios.append(width / height)
    assert len(ratios) > 8 and min(ratios) > 0.7 and max(ratios) < 1.45


@pytest.mark.parametrize("mode,size", [("shrink", (12, 15)), ("fit", (30, 36))])
def test_resize_modes(make, mode, size):
    shape = (3, 12, 30) if mode == "shrink" else (3, 30, 60)
    label = next(make("ImageDetRecordIter", resize_mode=mode, data_shape=shape)).label[0].asnumpy()[0]
    assert tuple(label[1:3]) == (size[0], pytest.approx(size[1], abs=1))


@pytest.mark.parametrize("mode,shape", [("shrink", (3, 12, 30)), ("fit", (3, 30, 60))])
def test_the_rest_of_a_resized_image_is_black_before_normalization(make, tmp_path, mode, shape):
    batch = next(make("ImageDetRecordIter", resize_mode=mode, data_shape=shape, mean_r=10, std_r=2, scale=0.5))
    rows, columns = batch.label[0].asnumpy()[0, 1:3].astype(int)
    red = batch.data[0].asnumpy()[0, 0]
    assert (red[rows:] == -2.5).all() and (red[:, columns:] == -2.5).all() and red[rows:].size + red[:, columns:].size
    file = str(tmp_path / "mean")
    image = next(make("ImageDetRecordIter", resize_mode=mode, data_shape=shape, mean_img=file)).data[0].asnumpy()
    assert image.shape[1:] == mx.nd.load(file)["mean_img"].shape == shape


def test_empty_files_are_refused(tmp_path):
    path = tmp_path / "empty.rec"
    path.touch()
    with pytest.raises(mx.MXNetError, match="empty.rec: there are no records"):
        mx.io.ImageRecordIter(path_imgrec=str(path), data_shape=(3, 8, 8), batch_size=2)


# --------------------------------------------------------------- processes
@pytest.fixture
def by_processes(monkeypatch):
    """Iterators over records decode by processes from the first batch on; a function that waits until one does."""
    monkeypatch.setattr(record_batches, "_THREADS", 1)
    monkeypatch.setattr(record_batches, "_BEGUN", 0)
    monkeypatch.setattr(mx.io.image_parameters.RecordParameters, "threads", 2)

    def begun(batches):
        for _ in range(1200):
            if decodes_by_processes(batches):
                return batches
            time.sleep(0.05)
        raise AssertionError("no process has begun")
    return begun


@pytest.mark.parametrize("copied", [True, False])
@pytest.mark.parametrize("kind, options", [
    ("ImageRecordIter", {"rand_crop": True, "rand_mirror": True, "mean_r": 100}),
    ("ImageRecordIter", {"round_batch": False, "shuffle": True, "path_imgidx": "a.idx", "dtype": "uint8"}),
    ("ImageRecordIter", {"seed_aug": 3, "rand_crop": True, "max_random_contrast": 0.3, "label_width": 1}),
    ("ImageDetRecordIter", {"shuffle": True, "resize_mode": "shrink", "data_shape": (3, 40, 24)}),
])
def test_processes_make_the_batches_that_threads_make(make, path, by_processes, monkeypatch, copied, kind, options):
    if "path_imgidx" in options:
        options = {**options, "path_imgidx": str(path / options["path_imgidx"])}
    if not copied:
        monkeypatch.setattr(record_batches, "_COPIED", 0)

    def rounds(batches):
        found = []
        for _ in range(4):
            found += [(b.data[0], b.label[0], b.pad, b.index) for b in batches]
            batches.reset()
        return [(d.asnumpy().tolist(), l.asnumpy().tolist(), pad, i.tolist()) for d, l, pad, i in found]
    ours = by_processes(make(kind, **options))
    ours.reset()
    made = rounds(ours)
    monkeypatch.setattr(record_batches, "_THREADS", 8)
    theirs = make(kind, **options)
    theirs.reset()
    assert made == rounds(theirs) and decoders_of(theirs) is None
    assert len(rooms_of(ours)) <= 8


def test_rounds_that_are_broken_off_leave_nothing_in_processes(make, by_processes):
    batches = by_processes(make())
    for _ in range(12):
        batches.reset()
        next(batches)
    pool = decoders_of(batches)
    for ahead in read_ahead(batches):
        for part in ahead.result().parts if ahead.result() is not None else ():
            part()
    kept, dropped = forgotten(pool)
    assert kept == 0 and dropped <= 8


def test_batches_that_were_dropped_are_not_written_over_later_ones(path, by_processes):
    """A process may still be decoding for a batch that nobody wants any more."""
    def load(record, rng, data, label):
        time.sleep(0.01 * (struct.unpack_from("f", record, 4)[0] % 4))
        data[:] = label[:] = struct.unpack_from("f", record, 4)
        return 0
    parameters = mx.io.image_parameters.ImageParameters(path_imgrec=str(path / "a.rec"), data_shape=(3, 16, 16),
                                                        batch_size=2, round_batch=False)
    batches = record_batches.RecordBatches(parameters, 1, load, np.float32, "ImageRecordIter")
    by_processes(types.SimpleNamespace(handle=batches))
    for _ in range(40):
        batches.reset()  # drops what was loaded ahead
        assert batches.next()
        data, label, *_ = batches.batch()
        time.sleep(0.01)
        assert label.tolist() == [0, 1] and data[:, 0, 0, 0].tolist() == [0, 1]


def test_a_killed_process_is_an_error(make, by_processes, path):
    batches = by_processes(make())
    os.kill(workers_of(decoders_of(batches))[0].pid, signal.SIGKILL)
    with pytest.raises(mx.MXNetError, match="ImageRecordIter worker .* was killed by SIGKILL"):
        for _ in range(9):
            batches.reset()
            list(batches)
    assert len(list(make())) == 3  # others go on


def test_threads_go_on_where_processes_cannot_be_started(make, by_processes, monkeypatch, caplog):
    def refuse(*args):
        raise mx.MXNetError("there are no processes here")
    monkeypatch.setattr(record_batches, "ProcessPool", refuse)
    assert labels(make()) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 0, 1]]
    assert caplog.text.count("decodes with 1 threads instead of processes: there are no processes here") == 1


def test_what_processes_cannot_decode_is_named(path, tmp_path, make, by_processes):
    with mx.recordio.MXRecordIO(tmp_path / "x.rec", "w") as file:
        for i in range(8):
            image = np.zeros((16, 16, 3), np.uint8)
            packed = mx.recordio.pack_img((0, float(i), i, 0), image, 3, ".png")
            file.write(packed if i != 6 else packed[:30] + b"no picture")
    batches = by_processes(make(path_imgrec=str(tmp_path / "x.rec")))
    batches.reset()
    with pytest.raises(mx.MXNetError, match="x.rec, the record at offset .* cannot be decoded"):
        list(batches)
