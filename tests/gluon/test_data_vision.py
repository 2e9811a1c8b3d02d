"""Tests of image data sets from local files, and of transforms."""

import gzip
import hashlib
import importlib
import struct

import numpy as np
import pytest

import mxjax as mx
from mxjax.gluon.data import DataLoader, vision
from mxjax.gluon.data.vision import transforms

cv2 = pytest.importorskip("cv2")
pixels = np.random.RandomState(0).randint(0, 256, (7, 9, 3)).astype(np.uint8)


def sha1(content):
    return hashlib.sha1(content).hexdigest()


def test_mnist(tmp_path):
    images = np.arange(3 * 784, dtype=np.int64).astype(np.uint8).reshape(3, 28, 28)
    contents = {"images": gzip.compress(struct.pack(">IIII", 2051, 3, 28, 28) + images.tobytes()),
                "labels": gzip.compress(struct.pack(">II", 2049, 3) + bytes([4, 5, 6]))}
    files = tuple((name, sha1(content)) for name, content in contents.items())
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)

    class Small(vision.MNIST):
        _files = {True: files, False: files}
    digits = Small(str(tmp_path), transform=lambda image, label: (image.astype("float32"), label + 1))
    image, label = digits[1]
    assert len(digits) == 3 and label == 6 and image.dtype == np.float32
    assert np.array_equal(image.asnumpy()[:, :, 0], images[1])
    assert [batch[0].shape for batch in DataLoader(digits, 2)] == [(2, 28, 28, 1), (1, 28, 28, 1)]


@pytest.mark.parametrize("kind,options,label", [(vision.CIFAR10, {}, 3), (vision.CIFAR100, {}, 3),
                                                (vision.CIFAR100, {"fine_label": True}, 8)])
def test_cifar(tmp_path, kind, options, label):
    image = np.arange(3072, dtype=np.int64).astype(np.uint8)
    content = bytes([3] if kind is vision.CIFAR10 else [3, 8]) + image.tobytes()
    (tmp_path / "x.bin").write_bytes(content)

    class Small(kind):
        _files = {True: (("x.bin", sha1(content)),), False: ()}
    found, found_label = Small(str(tmp_path), **options)[0]
    assert found_label == label
    assert np.array_equal(found.asnumpy(), image.reshape(3, 32, 32).transpose(1, 2, 0))


def test_image_folder(tmp_path):
    for folder, names in {"cat": ["b.png", "a.PNG", "notes.txt"], "dog": ["c.png"]}.items():
        (tmp_path / folder).mkdir()
        for name in names:
            cv2.imwrite(str(tmp_path / folder / "x.png"), pixels[:, :, ::-1])
            (tmp_path / folder / "x.png").rename(tmp_path / folder / name)
    (tmp_path / "readme").write_text("")
    with pytest.warns(UserWarning, match="Ignoring"):
        images = vision.ImageFolderDataset(str(tmp_path))
    assert images.synsets == ["cat", "dog"] and [label for _, label in images.items] == [0, 0, 1]
    image, label = images[2]
    assert label == 1 and np.array_equal(image.asnumpy(), pixels)


def test_image_records(tmp_path):
    with mx.recordio.MXIndexedRecordIO(tmp_path / "x.idx", tmp_path / "x.rec", "w") as writer:
        writer.write_idx(0, mx.recordio.pack_img((0, 3.0, 0, 0), pixels[:, :, ::-1], 3, ".png"))
        writer.write_idx(1, mx.recordio.pack((0, 4.0, 1, 0), b"no image"))
    images = vision.ImageRecordDataset(str(tmp_path / "x.rec"))
    image, label = images[0]
    assert label == 3 and np.array_equal(image.asnumpy(), pixels)
    with pytest.raises(mx.MXNetError, match="x.rec, record 1: Decoding failed"):
        images[1]


# -------------------------------------------------------------------- transforms
image = mx.nd.array(pixels, dtype="uint8")


def test_to_tensor_and_normalize():
    chain = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.1, 0.2, 0.3), 2.0)])
    assert len(chain) == 1  # compiled together
    expected = (pixels.transpose(2, 0, 1) / 255 - np.array([0.1, 0.2, 0.3]).reshape(3, 1, 1)) / 2
    np.testing.assert_allclose(chain(image).asnumpy(), expected, rtol=1e-5, atol=1e-6)


def test_sizes():
    assert transforms.Resize((4, 5))(image).shape == (5, 4, 3)
    assert transforms.Resize(14, keep_ratio=True)(image).shape == (14, 18, 3)
    assert transforms.RandomResizedCrop((4, 5))(image).shape == (5, 4, 3)
    assert np.array_equal(transforms.CenterCrop((3, 5))(image).asnumpy(), pixels[1:6, 3:6])
    assert np.array_equal(transforms.CropResize(1, 2, 3, 4)(image).asnumpy(), pixels[2:6, 1:4])
    assert transforms.CropResize(1, 2, 3, 4, (6, 5))(image).shape == (5, 6, 3)


def test_random_transforms():
    flipped = [transforms.RandomFlipLeftRight()(image).asnumpy() for _ in range(8)]
    assert all(np.array_equal(f, pixels) or np.array_equal(f, pixels[:, ::-1]) for f in flipped)
    brighter = transforms.RandomBrightness(0.5)(image.astype("float32")).asnumpy() / np.maximum(pixels, 1)
    brighter = brighter[pixels > 0]
    assert brighter.max() == pytest.approx(brighter.min(), rel=1e-4) and 0.5 <= brighter.max() <= 1.5
    assert np.array_equal(transforms.RandomApply(transforms.Cast("float32"), p=0)(image).asnumpy(), pixels)
    assert transforms.RandomApply(transforms.Cast("float32"), p=1)(image).dtype == np.float32


@pytest.mark.parametrize("make, measure", [
    (transforms.RandomBrightness, lambda p: p.mean() - 100), (transforms.RandomContrast, lambda p: np.ptp(p) - 100),
    (transforms.RandomSaturation, lambda p: np.ptp(p) - 100), (transforms.RandomHue, lambda p: p[..., 1] - p[..., 2])])
def test_colours_change_both_ways(make, measure):
    colour = mx.nd.array([[[150, 50, 50]]] if make is not transforms.RandomBrightness else [[[100, 100, 100]]])
    jitter = make(0.5)
    found = [float(np.mean(measure(jitter(colour).asnumpy()))) for _ in range(40)]
    assert min(found) < -1 and max(found) > 1
    assert abs(float(np.mean(measure(make(0)(colour).asnumpy())))) < 1


def test_rotation():
    tensor = mx.nd.array(np.arange(9).reshape(1, 3, 3))
    np.testing.assert_allclose(transforms.Rotate(90)(tensor).asnumpy()[0], [[2, 5, 8], [1, 4, 7], [0, 3, 6]], atol=1e-4)
    with pytest.raises(TypeError, match="float32 images, got uint8.*ToTensor"):
        transforms.Rotate(90)(image)
    with pytest.raises(ValueError, match="ordered"):
        transforms.RandomRotation((5, 5))


def test_chain_in_workers():
    chain = transforms.Compose([transforms.Resize(6), transforms.ToTensor()])
    images = mx.gluon.data.SimpleDataset([image, image, image]).transform(chain)
    expected = chain(image).asnumpy()
    for batch in DataLoader(images, 2, num_workers=1):
        assert all(np.array_equal(one, expected) for one in batch.asnumpy())


def test_level_2s_module_of_transforms_hides_nothing():
    importlib.import_module("mxjax.gluon.data.vision.transforms.image")
    crop = mx.gluon.data.vision.transforms.CenterCrop(4)
    assert crop(mx.nd.ones((6, 8, 3), dtype="uint8")).shape == (4, 4, 3)
