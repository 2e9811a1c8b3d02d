"""NumPy forms of softmax, losses and output layers beside XLA's programs."""

import numpy as np
import pytest

from .forms import check, leaves_out

rng = np.random.RandomState(0)


def numbers(*shape, dtype="float32"):
    return rng.uniform(-2, 2, shape).astype(dtype)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
@pytest.mark.parametrize("params", [{}, {"axis": 0}, {"axis": 1, "temperature": 2.5}])
def test_softmax(name, params):
    check(name, [numbers(3, 4, 2)], params)
    check(name, [numbers(3, 4, dtype="float64")], params, tolerance=1e-12)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
def test_softmax_of_unusual_numbers(name):
    check(name, [np.array([[0, 1e4, 3], [-np.inf, 2, 3], [1, np.nan, 2], [300, -300, 0]], "float32")])
    leaves_out(name, [numbers(3, 0)])
    leaves_out(name, [numbers(3, 4)], {"axis": 2})
    leaves_out(name, [numbers(3, 4)], {"dtype": "float64"})


@pytest.mark.parametrize("shape, mode", [((3, 4), "instance"), ((2, 3, 4), "instance"), ((2, 3, 4), "channel")])
def test_softmax_as_activation(shape, mode):
    check("SoftmaxActivation", [numbers(*shape)], {"mode": mode})


def test_softmax_with_lengths_is_left_out():
    leaves_out("softmax", [numbers(3, 4), np.array([1, 2, 4], "int32")], {"use_length": True})


def test_cross_entropy():
    check("softmax_cross_entropy", [numbers(4, 3), np.array([0, 2, 1, 1], "float32")])
    check("softmax_cross_entropy", [np.array([[100, 0], [0, 1]], "float32"), np.array([1, 0], "float32")])
    leaves_out("softmax_cross_entropy", [numbers(2, 3), np.array([0, 3], "float32")])


# ------------------------------------------------------------ output layers
LABELS = np.array([0, 2, -1, 1], "float32")


@pytest.mark.parametrize("params", [
    {}, {"grad_scale": 0.5, "normalization": "batch"}, {"normalization": "valid"}, {"use_ignore": True},
    {"use_ignore": True, "normalization": "valid", "ignore_label": 2}, {"smooth_alpha": 0.1},
    {"preserve_shape": True, "smooth_alpha": 0.1, "use_ignore": True, "normalization": "batch"},
])
def test_softmax_output(params):
    check("SoftmaxOutput", [numbers(4, 3), LABELS], params)


@pytest.mark.parametrize("params", [{}, {"use_ignore": True, "normalization": "valid"}, {"normalization": "batch"},
                                    {"normalization": "batch", "smooth_alpha": 0.1}])
@pytest.mark.parametrize("label", [(2, 4), (2, 2, 2), (2, 1, 2, 2), (2, 3, 2, 2)])
def test_softmax_output_of_places(label, params):
    labels = rng.randint(-1, 3, label).astype("float32")
    check("SoftmaxOutput", [numbers(2, 3, 2, 2), labels], {**params, "multi_output": True})


def test_softmax_output_of_rows():
    labels = rng.randint(-1, 3, (2, 4)).astype("float32")
    check("SoftmaxOutput", [numbers(2, 4, 3), labels], {"preserve_shape": True})
    check("SoftmaxOutput", [numbers(4, 3, dtype="float64"), LABELS.astype("float64")], tolerance=1e-12)


@pytest.mark.parametrize("train", [False, True])
def test_softmax_output_of_images(train):
    images = numbers(2, 3, 2, 2)
    check("SoftmaxOutput", [images, numbers(2, 3, 2, 2)], train=train)


def test_softmax_output_of_transposed_data():
    check("SoftmaxOutput", [numbers(3, 4).T, LABELS])


def test_softmax_output_leaves_out():
    leaves_out("SoftmaxOutput", [numbers(4, 3), LABELS], {"out_grad": True}, gradient=True)
    leaves_out("SoftmaxOutput", [numbers(4, 3), LABELS[:3]])
    leaves_out("SoftmaxOutput", [numbers(2, 2, 3), LABELS.reshape(2, 2)])


@pytest.mark.parametrize("name", ["LinearRegressionOutput", "MAERegressionOutput", "LogisticRegressionOutput"])
@pytest.mark.parametrize("shape, label, params", [((4, 3), (4, 3), {}), ((4, 1), (4,), {"grad_scale": 2.5}),
                                                  ((2, 3, 2), (2, 6), {})])
def test_regression(name, shape, label, params):
    check(name, [numbers(*shape), numbers(*label)], params)
    leaves_out(name, [numbers(4, 3), numbers(4, 2)])


# ------------------------------------------------------------ connectionist temporal classification
DATA_ALONE = [(True, False)]


@pytest.mark.parametrize("dtype, tolerance", [("float32", 2e-5), ("float64", 1e-11)])
@pytest.mark.parametrize("blank, label", [("first", [[1, 2, 0], [2, 2, 1], [0, 0, 0], [3, 3, 3]]),
                                          ("last", [[0, 1, -1], [1, 1, 2], [-1, -1, -1], [2, 2, 2]])])
@pytest.mark.parametrize("steps", [3, 7])
def test_ctc(dtype, tolerance, blank, label, steps):
    check("CTCLoss", [numbers(steps, 4, 4, dtype=dtype), np.array(label, dtype)], {"blank_label": blank},
          tolerance=tolerance, choices=DATA_ALONE)


@pytest.mark.parametrize("times, lengths", [([5, 3, 1], None), (None, [2, 0, 3]), ([5, 3, 4], [3, 1, 2])])
def test_ctc_with_lengths(times, lengths):
    data = numbers(5, 3, 4)
    for i, end in enumerate(times or ()):
        data[end:, i] = np.nan  # not read
    given = [np.array(each, "float32") for each in (times, lengths) if each]
    params = {"use_data_lengths": times is not None, "use_label_lengths": lengths is not None}
    check("CTCLoss", [data, np.array([[1, 2, 3], [3, 0, 0], [1, 1, 0]], "float32"), *given], params, tolerance=2e-5,
          choices=[(True, *[False] * (1 + len(given)))])


def test_ctc_leaves_out_what_fits_badly():
    data, label = numbers(4, 2, 3), np.array([[1, 2], [2, 0]], "float32")
    leaves_out("CTCLoss", [data, label + 2])
    leaves_out("CTCLoss", [data, label, np.array([4, 5], "float32")], {"use_data_lengths": True})
    leaves_out("CTCLoss", [data, label, np.array([1, 3], "float32")], {"use_label_lengths": True})
