"""Tests of image functions, augmenters and ImageIter."""

import random

import numpy as np
import pytest

import mxjax as mx

cv2 = pytest.importorskip("cv2")
pixels = np.random.RandomState(0).randint(0, 256, (8, 10, 3)).astype(np.uint8)  # RGB
png = cv2.imencode(".png", pixels[:, :, ::-1])[1].tobytes()
image = mx.nd.array(pixels, dtype="uint8")


# -------------------------------------------------------------------- functions
def test_decoding(tmp_path):
    (tmp_path / "x.png").write_bytes(png)
    assert np.array_equal(mx.img.imdecode(png).asnumpy(), pixels)
    assert np.array_equal(mx.img.imdecode(np.frombuffer(png, np.uint8), to_rgb=0).asnumpy(), pixels[:, :, ::-1])
    assert mx.img.imread(str(tmp_path / "x.png"), flag=0).shape == (8, 10, 1)
    out = mx.nd.zeros((8, 10, 3), dtype="uint8")
    mx.img.imdecode(png, out=out)
    assert np.array_equal(out.asnumpy(), pixels)


class Labelled(mx.img.DetAugmenter):
    """Replaces the objects of an image."""

    def __init__(self, label):
        super().__init__()
        self.label = label

    def __call__(self, src, label):
        return src, self.label


def images(**options):
    settings = {"data_shape": (3, 4, 4), "imglist": [[0, "x.png"]], "path_root": ".", **options}
    return mx.img.ImageIter(1, **settings)


def boxes(label=(2, 5, 0, 0, 0, 1, 1), **options):
    settings = {"data_shape": (3, 4, 4), "imglist": [[np.array(label), "x.png"]], "path_root": ".", **options}
    return mx.img.ImageDetIter(1, **settings)


@pytest.mark.parametrize("call,error,words", [
    (lambda: mx.img.imdecode(b"junk"), mx.MXNetError, "Invalid image file"),
    (lambda: mx.img.imdecode(b""), mx.MXNetError, "empty buffer"),
    (lambda: mx.img.imdecode("text"), ValueError, "bytes"),
    (lambda: mx.img.imdecode(png, flag=-1), mx.MXNetError, "flag"),
    (lambda: mx.img.imread("/nowhere/x.png"), mx.MXNetError, "'/nowhere/x.png'"),
    (lambda: mx.img.imresize(image, 0, 3), mx.MXNetError, "positive"),
    (lambda: mx.img.imresize(image, 3, 3, interp=7), mx.MXNetError, "interpolation method 7"),
    (lambda: mx.img.imrotate(image.astype("float32"), 3, True, True), ValueError, "cannot be both"),
    (lambda: mx.img.imrotate(mx.nd.ones((2, 2)), 3), ValueError, "3 axes or batches with 4, got 2"),
    (lambda: mx.img.imrotate(image, 3), TypeError, "expects float32 images, got uint8"),
    (lambda: mx.img.imrotate(mx.nd.ones((3, 2, 2)), mx.nd.ones(1)), TypeError, "requires one angle, a number"),
    (lambda: mx.img.imrotate(mx.nd.ones((2, 3, 2, 2)), mx.nd.ones(3)), ValueError, "2 images require the same number"),
    (lambda: mx.img.Augmenter()(image), NotImplementedError, "Augmenter must define __call__"),
    (lambda: mx.img.DetAugmenter()(image, None), NotImplementedError, "DetAugmenter must define __call__"),
    (lambda: mx.img.DetBorrowAug(3), TypeError, "Borrowing from invalid Augmenter int"),
    (lambda: mx.img.DetRandomSelectAug([3]), ValueError, "Allow DetAugmenter in list only, got int"),
    (lambda: mx.img.CreateAugmenter((3, 4, 4), mean=np.ones(2)), AssertionError,
     "mean must be True or an array of 1 or 3 numbers"),
    (lambda: mx.img.CreateAugmenter((3, 4, 4), std=3), AssertionError,
     "std must be True or an array of 1 or 3 numbers"),
    (lambda: mx.img.CreateMultiRandCropAugmenter([0.1, 0.2], [(0.7, 1.3)] * 3), AssertionError,
     "lists of arguments must have the same length"),
    (lambda: images(imglist=None), AssertionError, "ImageIter needs path_imgrec, path_imglist or imglist"),
    (lambda: images(dtype="int8"), AssertionError, "int8 label not supported; known: int32, float32, int64, float64"),
    (lambda: images(num_parts=2, part_index=2), AssertionError, r"part_index must be in \[0, 2\), got 2"),
    (lambda: images(data_shape=(3, 4)), ValueError, "data_shape should have length 3, with dimensions CxHxW"),
    (lambda: images(data_shape=(1, 4, 4)), ValueError, "expects inputs to have 3 channels"),
    (lambda: images().check_valid_image([mx.nd.ones(1)[0].reshape(1).asnumpy()[0]]), RuntimeError,
     "Data shape is wrong"),
    (lambda: images(label_width=2).next(), ValueError, "has 1 labels, but label_width is 2"),
    (lambda: boxes().reshape(label_shape=(1, 5, 1)), ValueError, "label_shape should have length 2"),
    (lambda: boxes([2, 5] + [0, 0, 0, 1, 1] * 2).reshape(label_shape=(1, 5)), ValueError,
     "Attempts to reduce label count from 2 to 1"),
    (lambda: boxes().reshape(label_shape=(1, 6)), ValueError, "label_shape object width inconsistent: 5 vs 6"),
    (lambda: boxes().sync_label_shape(3), AssertionError, "Synchronize with invalid iterator int"),
    (lambda: boxes().sync_label_shape(boxes([2, 6, 0, 0, 0, 1, 1, 1])), AssertionError,
     "object width mismatch: 5 and 6"),
    (lambda: mx.img.CreateAugmenter((3, 4, 4), rand_resize=True), AssertionError, "rand_crop")])
def test_bad_arguments(tmp_path, monkeypatch, call, error, words):
    (tmp_path / "x.png").write_bytes(png)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize("label", [np.ones((1, 4)), np.zeros((1, 5)), np.array([[-1.0, 0, 0, 1, 1]]),
                                   np.array([[0.0, 1, 0, 1, 1]]), np.array([[0.0, 0, 1, 1, 1]])])
def test_images_without_valid_objects_are_left_out(tmp_path, monkeypatch, label):
    """Here by an augmenter; a label of the file without any is an error."""
    (tmp_path / "x.png").write_bytes(png)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StopIteration):
        boxes(aug_list=[Labelled(label)]).next()
    good = np.array([[0.0, 0, 0, 1, 1]])
    assert boxes(data_shape=(3, 8, 10), aug_list=[Labelled(good)]).next().label[0].asnumpy().tolist() == [good.tolist()]


def test_missing_opencv_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cv2", None)
    with pytest.raises(mx.MXNetError, match=r"pip install 'mxjax\[image\]'"):
        mx.img.imdecode(png)


@pytest.mark.parametrize("interp", range(5))
def test_resizing(interp):
    expected = cv2.resize(pixels, (5, 4), interpolation=interp)
    assert np.array_equal(mx.img.imresize(image, 5, 4, interp).asnumpy(), expected)
    assert mx.img.imresize(mx.img.imdecode(png, 0), 5, 4).shape == (4, 5, 1)
    assert mx.img.resize_short(image, 4, interp).shape == (4, 5, 3)


def test_bicubic_pixels_are_those_of_mxnets_opencv():
    """Intel's IPP, which pip's OpenCV uses, rounds some differently; a thread's setting stays what it is."""
    before = cv2.ipp.useIPP()
    given = (np.arange(6 * 8 * 3) ** 2 * 37 % 251).reshape(6, 8, 3).astype("uint8")
    found = mx.img.imresize(mx.nd.array(given, dtype="uint8"), 11, 5, interp=2).asnumpy()[:, :, 0]
    assert found[2:4].tolist() == [[89, 53, 109, 224, 170, 121, 110, 115, 10, 82, 248],
                                   [93, 137, 187, 184, 69, 41, 78, 93, 124, 189, 244]]
    assert cv2.ipp.useIPP() == before


def test_bilinear_in_exact_arithmetic():
    """Method 5, recorded from MXNet; 9 and 10, which choose a method, are no methods of the operators."""
    given = mx.nd.array(np.random.RandomState(0).randint(0, 256, (6, 5, 3)), dtype="uint8")
    for found in (mx.nd.image.resize(given, (4, 3), interp=5), mx.img.imresize(given, 4, 3, interp=5)):
        assert found.asnumpy().ravel()[:12].tolist() == [185, 75, 143, 122, 117, 185, 137, 68, 162, 45, 78, 88]
    for method in (6, 9, 10):
        with pytest.raises(mx.MXNetError, match=f"unknown interpolation method {method}; known: 0 to 5"):
            mx.nd.image.resize(given, (4, 3), interp=method).asnumpy()


@pytest.mark.parametrize("crop", [
    lambda: mx.img.fixed_crop(image, 0, 0, 0, 3), lambda: mx.img.fixed_crop(image, 1, 1, 0, 0, (2, 2)),
    lambda: mx.img.center_crop(image, (0, 3)), lambda: mx.img.random_crop(image, (0, 3)),
    lambda: mx.img.CenterCropAug((0, 3))(image)])
def test_crops_without_columns(crop):
    with pytest.raises(mx.MXNetError, match="a crop of 0 columns"):
        crop()
    assert mx.img.fixed_crop(image, 0, 0, 3, 0).shape == (0, 3, 3)  # without rows there is a result, as in MXNet


def test_crops():
    assert np.array_equal(mx.img.fixed_crop(image, 1, 2, 3, 4).asnumpy(), pixels[2:6, 1:4])
    crop, rectangle = mx.img.center_crop(image, (4, 6))
    assert rectangle == (3, 1, 4, 6) and np.array_equal(crop.asnumpy(), pixels[1:7, 3:7])
    random.seed(1)
    crop, (x, y, w, h) = mx.img.random_crop(image, (4, 6))
    assert (w, h) == (4, 6) and np.array_equal(crop.asnumpy(), pixels[y:y + 6, x:x + 4])
    crop, (x, y, w, h) = mx.img.random_size_crop(image, (3, 3), (0.2, 0.5), (0.5, 2))
    assert crop.shape == (3, 3, 3) and 0 <= x <= 10 - w and 0 <= y <= 8 - h and w * h <= 0.6 * 80
    with pytest.warns(DeprecationWarning, match="min_area"):
        mx.img.random_size_crop(image, (3, 3), None, (0.5, 2), min_area=0.2)
    assert mx.img.scale_down((640, 480), (720, 120)) == (640, 106)


def test_border():
    grown = mx.img.copyMakeBorder(image, 1, 2, 3, 4, values=(7, 8, 9)).asnumpy()
    assert grown.shape == (11, 17, 3) and grown[0, 0].tolist() == [7, 8, 9]
    assert np.array_equal(grown[1:9, 3:13], pixels)
    assert mx.img.copyMakeBorder(image, 1, 1, 1, 1, values=3.).asnumpy()[0, 0].tolist() == [3, 0, 0]


def test_rotation():
    rows = mx.nd.array(np.arange(9).reshape(1, 1, 3, 3))
    np.testing.assert_allclose(mx.img.imrotate(rows, 180).asnumpy()[0, 0], [[8, 7, 6], [5, 4, 3], [2, 1, 0]], atol=1e-4)
    both = mx.img.imrotate(mx.nd.concat(rows, rows, dim=0), mx.nd.array([0, 90])).asnumpy()
    np.testing.assert_allclose(both[0], rows.asnumpy()[0], atol=1e-4)
    np.testing.assert_allclose(both[1, 0], [[2, 5, 8], [1, 4, 7], [0, 3, 6]], atol=1e-4)
    ones = mx.nd.ones((1, 1, 9, 9))
    assert mx.img.imrotate(ones, 45).asnumpy().min() < 0.1
    assert mx.img.imrotate(ones, 45, zoom_in=True).asnumpy().min() > 0.9


# -------------------------------------------------------------------- augmenters
def apply(augmenter, seed=0, like=image.astype("float32")):
    random.seed(seed)
    np.random.seed(seed)
    return augmenter(like.copy()).asnumpy()


def test_colour_augmenters():
    x = pixels.astype(np.float32)
    grey = (x * [0.299, 0.587, 0.114]).sum(2, keepdims=True)
    random.seed(0)
    alpha = 1 + random.uniform(-0.5, 0.5)
    np.testing.assert_allclose(apply(mx.img.BrightnessJitterAug(0.5)), x * alpha, rtol=1e-5)
    np.testing.assert_allclose(apply(mx.img.ContrastJitterAug(0.5)), x * alpha + (1 - alpha) * grey.mean(), rtol=1e-4)
    np.testing.assert_allclose(apply(mx.img.SaturationJitterAug(0.5)), x * alpha + (1 - alpha) * grey, rtol=1e-4,
                               atol=1e-3)
    np.testing.assert_allclose(apply(mx.img.HueJitterAug(0.0)), x, atol=1.5)
    np.testing.assert_allclose(apply(mx.img.ColorNormalizeAug(np.array([1, 2, 3]), mx.nd.array([2, 4, 8]))),
                               (x - [1, 2, 3]) / [2, 4, 8], rtol=1e-6)
    assert np.ptp(apply(mx.img.RandomGrayAug(1)), axis=2).max() < 1e-3
    assert np.array_equal(apply(mx.img.HorizontalFlipAug(1)), x[:, ::-1])
    colours = next(a for a in mx.img.CreateAugmenter((3, 4, 5), pca_noise=0.1) if isinstance(a, mx.img.LightingAug))
    np.testing.assert_allclose(colours.eigvec @ colours.eigvec.T, np.eye(3), atol=1e-4)  # of ImageNet's colours
    assert colours.eigval.tolist() == [55.46, 4.794, 1.148] and colours.alphastd == 0.1
    noise = apply(mx.img.LightingAug(0.1, np.ones(3), np.eye(3))) - x
    assert np.ptp(noise.reshape(-1, 3), axis=0).max() < 1e-4 and np.abs(noise).max() > 0


def test_colour_augmenters_of_bytes():
    """As of floats, cut off to whole numbers; what is beyond the ends of uint8 stays at the ends."""
    beyond = 0
    for augmenter in (mx.img.BrightnessJitterAug(0.9), mx.img.ContrastJitterAug(0.9), mx.img.SaturationJitterAug(0.9),
                      mx.img.HueJitterAug(0.9), mx.img.LightingAug(90, np.ones(3), np.eye(3)), mx.img.RandomGrayAug(1)):
        floats = np.concatenate([apply(augmenter, seed) for seed in range(6)])
        result = np.concatenate([apply(augmenter, seed, image) for seed in range(6)])
        assert result.dtype == np.uint8, augmenter
        near = np.abs(floats - np.rint(floats)) < 1e-3  # the last bits of such a number decide between two
        assert np.array_equal(result[~near], np.clip(floats, 0, 255).astype(np.uint8)[~near]), augmenter
        beyond += (floats >= 256).any() + (floats <= -1).any()
    assert beyond >= 4


def test_chain():
    augmenters = mx.img.CreateAugmenter((3, 4, 5), resize=6, rand_crop=True, rand_mirror=True, mean=True, std=True,
                                        brightness=0.1, contrast=0.1, saturation=0.1, hue=0.1, pca_noise=0.1,
                                        rand_gray=0.5, inter_method=10)
    first, second = (apply(mx.img.SequentialAug(augmenters), 3, image) for _ in range(2))
    assert first.shape == (4, 5, 3) and first.dtype == np.float32 and np.array_equal(first, second)
    assert augmenters[0].dumps() == '["resizeaug", {"size": 6, "interp": 10}]'
    assert mx.img.ColorJitterAug(0.1, 0, 0).dumps() == \
        ["colorjitteraug", ['["brightnessjitteraug", {"brightness": 0.1}]']]


# -------------------------------------------------------------------- ImageIter
@pytest.fixture
def files(tmp_path):
    with mx.recordio.MXIndexedRecordIO(tmp_path / "x.idx", tmp_path / "x.rec", "w") as writer:
        for i in range(5):
            (tmp_path / f"{i}.png").write_bytes(png)
            writer.write_idx(i, mx.recordio.pack((0, float(i), i, 0), png))
    (tmp_path / "x.lst").write_text("".join(f"{i}\t{i}\t{i}.png\n" for i in range(5)))
    return tmp_path


def labels(batches):
    return [(batch.label[0].asnumpy().tolist(), batch.pad) for batch in batches]


@pytest.mark.parametrize("source", [
    lambda d: {"path_imgrec": str(d / "x.rec")},
    lambda d: {"path_imgrec": str(d / "x.rec"), "path_imgidx": str(d / "x.idx")},
    lambda d: {"path_imglist": str(d / "x.lst"), "path_root": str(d)},
    lambda d: {"imglist": [[i, f"{i}.png"] for i in range(5)], "path_root": str(d)}])
@pytest.mark.parametrize("last,first,second", [
    ("pad", [([0, 1], 0), ([2, 3], 0), ([4, 0], 1)], [([0, 1], 0), ([2, 3], 0), ([4, 0], 1)]),
    ("discard", [([0, 1], 0), ([2, 3], 0)], [([0, 1], 0), ([2, 3], 0)]),
    ("roll_over", [([0, 1], 0), ([2, 3], 0)], [([4, 0], 1), ([1, 2], 0), ([3, 4], 0)])])
def test_image_iter(files, source, last, first, second):
    batches = mx.image.ImageIter(2, (3, 8, 8), last_batch_handle=last, **source(files))
    batch = next(batches)
    assert batch.data[0].shape == (2, 3, 8, 8)
    assert np.array_equal(batch.data[0].asnumpy()[1], pixels[:, 1:9].transpose(2, 0, 1))
    assert labels([batch, *batches]) == first
    batches.reset()
    assert labels(batches) == second
    batches.hard_reset()
    label, encoded = batches.next_sample()
    assert isinstance(label, mx.nd.NDArray) == (batches.imglist is not None) and encoded[1:4] == b"PNG"


def test_parts_and_shuffling(files):
    source = {"path_imgrec": str(files / "x.rec"), "path_imgidx": str(files / "x.idx")}
    def parts(count):
        return [[n for row, pad in labels(mx.image.ImageIter(1, (3, 8, 8), num_parts=count, part_index=i, **source))
                 for n in row] for i in range(count)]
    assert parts(2) == [[0, 1], [2, 3]]  # of five images: equal parts, as in MXNet
    assert parts(3) == [[0], [1], [2]]
    assert sorted(sum(parts(6), [])) == [0, 1, 2, 3, 4]
    random.seed(0)
    shuffled = mx.image.ImageIter(5, (3, 8, 8), shuffle=True, **source)
    orders = []
    for _ in range(3):
        orders.append(labels(shuffled)[0][0])
        shuffled.reset()
    assert all(sorted(order) == [0, 1, 2, 3, 4] for order in orders) and len(set(map(tuple, orders))) > 1
    with pytest.raises(AssertionError, match="path_imgidx"):
        mx.image.ImageIter(2, (3, 8, 8), path_imgrec=str(files / "x.rec"), shuffle=True)


def test_broken_images_are_named(files):
    (files / "3.png").write_bytes(b"junk")
    with pytest.raises(RuntimeError, match="Broken image filename: 3.png"):
        list(mx.image.ImageIter(2, (3, 8, 8), path_imglist=str(files / "x.lst"), path_root=str(files)))


def test_own_augmenters_get_ndarrays(files):
    seen = []

    def mine(x):
        seen.append(type(x))
        return x * 0 + 7
    batches = mx.image.ImageIter(2, (3, 8, 8), path_imgrec=str(files / "x.rec"),
                                 aug_list=[mx.img.CenterCropAug((8, 8)), mx.img.CastAug(), mine])
    assert (next(batches).data[0].asnumpy() == 7).all() and set(seen) == {mx.nd.NDArray}


def test_colours_are_changed_in_the_image_itself():
    """MXNet writes over an image of floats, and gives it back; so does what comes before another shape in a chain."""
    pixels = np.random.default_rng(3).integers(0, 255, (4, 5, 3)).astype(np.float32)
    own = [mx.image.BrightnessJitterAug(0.5), mx.image.ContrastJitterAug(0.5), mx.image.SaturationJitterAug(0.5),
           mx.image.LightingAug(0.1, np.ones(3), np.eye(3)), mx.image.ColorNormalizeAug(np.ones(3), np.full(3, 2.0)),
           mx.image.ColorJitterAug(0.3, 0.3, 0.3)]
    for augmenter in own:
        image = mx.nd.array(pixels)
        assert augmenter(image) is image and (image.asnumpy() != pixels).any()
    for other in (mx.image.HueJitterAug(0.5), mx.image.HorizontalFlipAug(1), mx.image.CastAug()):
        image = mx.nd.array(pixels)
        assert other(image) is not image and (image.asnumpy() == pixels).all()

    seen = []

    class Looks(mx.image.Augmenter):
        def __call__(self, src):
            seen.append(src)
            return src
    image, crop = mx.nd.array(pixels), mx.image.CenterCropAug((2, 2))
    chain = mx.image.SequentialAug([own[0], Looks(), own[1], crop, own[4], Looks()])
    found = chain(image)
    assert seen[0] is image and seen[1] is found and found is not image
    np.testing.assert_allclose(found.asnumpy(), (crop(image).asnumpy() - 1) / 2, rtol=1e-6)
    assert (image.asnumpy() != pixels).any()
    small = mx.nd.array(pixels.astype(np.uint8), dtype="uint8")
    assert own[0](small) is not small and (small.asnumpy() == pixels).all()


@pytest.mark.parametrize("size", [(30, 40), (7, 9), (30, 9)])
def test_methods_of_resizing(size):
    """Numbers 0 to 5 are OpenCV's, 9 chooses by the sizes, 10 draws one of 0 to 4."""
    pixels = np.random.RandomState(0).randint(0, 256, (20, 20, 3)).astype(np.uint8)
    height, width = size

    def resized(interp):
        return mx.image.imresize(mx.nd.array(pixels, dtype="uint8"), width, height, interp).asnumpy()
    used = cv2.ipp.useIPP()
    cv2.ipp.setUseIPP(False)
    try:
        expected = [cv2.resize(pixels, (width, height), interpolation=number) for number in range(6)]
    finally:
        cv2.ipp.setUseIPP(used)
    for number in range(6):
        assert np.array_equal(resized(number), expected[number])
    chosen = {(30, 40): 2, (7, 9): 3, (30, 9): 1}[size]
    assert np.array_equal(resized(9), expected[chosen])
    drawn = resized(10)
    assert any(np.array_equal(drawn, one) for one in expected[:5])


# ------------------------------------------------------------ functions; results of MXNet 1.9.1
PIXELS = (np.arange(4 * 6 * 3) % 251).reshape(4, 6, 3).astype("uint8")


def planes(count=1):
    """Images as imrotate takes them: (count, 3, height, width)."""
    one = mx.nd.array(PIXELS.transpose(2, 0, 1) / 255)
    return one if count == 1 else mx.nd.stack(*[one] * count)


@pytest.mark.parametrize("call, wanted", [
    (lambda: mx.image.imrotate(planes(), 90), 6.6824), (lambda: mx.image.imrotate(planes(), 30, zoom_in=True), 9.9589),
    (lambda: mx.image.imrotate(planes(), 30, zoom_out=True), 3.8243),
    (lambda: mx.image.imrotate(planes(2), mx.nd.array([0, 90])), 16.7059),
    (lambda: mx.image.random_rotate(planes(), (10, 10)), 9.2013),
    (lambda: mx.image.random_rotate(planes(2), (0, 0)), 2 * PIXELS.sum() / 255)])
def test_rotated_images(call, wanted):
    found = call()
    assert found.asnumpy().sum() == pytest.approx(wanted, abs=2e-3) and found.shape[-3:] == (3, 4, 6)


def test_sizes_and_crops():
    image = mx.nd.array(PIXELS, dtype="uint8")
    assert [mx.image.scale_down(*sizes) for sizes in (((6, 4), (10, 10)), ((6, 4), (3, 8)), ((6, 4), (5, 5)),
                                                      ((100, 20), (30, 10)))] == [(4, 4), (1, 4), (4, 4), (30, 10)]
    assert mx.image.center_crop(image, (2, 3))[1] == (2, 0, 2, 3)
    assert mx.image.random_size_crop(image, (2, 2), (0.5, 1), (9, 9))[1] == (2, 1, 2, 2)  # none fits: the centre
    assert mx.image.fixed_crop(image, 1, 1, 2, 2).asnumpy().tolist() == PIXELS[1:3, 1:3].tolist()
    assert [mx.image.resize_short(image, size).shape for size in (3, 8)] == [(3, 4, 3), (8, 12, 3)]
    assert mx.image.imresize(image, 3, 2, interp=0)[0, :, 0].asnumpy().tolist() == [0, 6, 12]


def test_colours_are_normalized_in_place():
    image = mx.nd.array(PIXELS, dtype="float32")
    given = image * 1
    found = mx.image.color_normalize(given, mx.nd.array([1, 2, 3]), mx.nd.array([2, 2, 2]))
    assert found is given and given[0, 0].asnumpy().tolist() == [-0.5, -0.5, -0.5]
    assert mx.image.color_normalize(image * 1, None, None)[0, 1].asnumpy().tolist() == [3, 4, 5]


def test_bytes_of_images():
    encoded = cv2.imencode(".png", PIXELS)[1].tobytes()
    array = mx.nd.array(np.frombuffer(encoded, "uint8"), dtype="uint8")
    assert mx.image.imdecode(array).asnumpy().tolist() == PIXELS[..., ::-1].tolist()
    assert mx.image.imdecode(bytearray(encoded), to_rgb=0).asnumpy().tolist() == PIXELS.tolist()
    assert mx.image.imdecode(encoded, flag=0).shape == (4, 6, 1)


@pytest.mark.parametrize("call, error, told", [
    (lambda: mx.image.imdecode(b""), mx.MXNetError, "cannot be an empty buffer"),
    (lambda: mx.image.imdecode(b"abc"), mx.MXNetError, "Decoding failed"),
    (lambda: mx.image.imdecode(b"abc", foo=1), mx.MXNetError, "decoded by flag, to_rgb and out, got foo"),
    (lambda: mx.image.imrotate(mx.nd.array(PIXELS, dtype="uint8"), 9), TypeError, "expects float32 images, got uint8"),
    (lambda: mx.image.imrotate(planes(), mx.nd.array([1, 2])), TypeError, "one image .* requires one angle"),
    (lambda: mx.image.imrotate(planes(2), [0, 90, 1]), ValueError, "2 images require the same number of angles, got 3"),
    (lambda: mx.image.imrotate(planes(2), 30, zoom_in=True, zoom_out=True), ValueError, "cannot be both True"),
    (lambda: mx.image.imrotate(mx.nd.zeros((2, 2)), 3), ValueError, "3 axes or batches with 4, got 2"),
    (lambda: mx.image.random_size_crop(mx.nd.array(PIXELS), (2, 2), (0.5, 1), (9, 9), foo=1), AssertionError, "foo"),
])
def test_what_functions_of_images_refuse(call, error, told):
    with pytest.raises(error, match=told):
        call()
