"""Tests of LibSVMIter; values as MXNet 1.9.1 gives them."""

import sys

import numpy as np
import pytest

import mxjax as mx


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "x.svm"
    path.write_text("1.0 0:0.5 2:1.2\n-2.0\n-3.0 0:0.6 1:2.4 2:1.2\n4 2:-1.2\n")
    return path


def test_rounds(file):
    batches = mx.io.LibSVMIter(data_libsvm=str(file), data_shape=(3,), batch_size=3)
    first, second = batches
    assert first.data[0].stype == "csr" and first.label[0].shape == (3,)
    np.testing.assert_allclose(first.data[0].asnumpy(), [[0.5, 0, 1.2], [0, 0, 0], [0.6, 2.4, 1.2]], rtol=1e-6)
    assert second.label[0].asnumpy().tolist() == [4, 1, -2] and second.pad == 2 and second.index.tolist() == [3, 0, 1]
    batches.reset()
    third, = batches
    assert third.label[0].asnumpy().tolist() == [-3, 4, 1] and third.pad == 1


def test_short_batches_and_parts(file):
    batches = list(mx.io.LibSVMIter(data_libsvm=str(file), data_shape="(3,)", batch_size=3, round_batch=False))
    assert batches[1].pad == 2 and not batches[1].data[0].asnumpy()[1:].any()
    assert batches[1].label[0].asnumpy().tolist() == [4, 0, 0]
    parts = []  # as MXNet divides the file: by bytes
    for index in range(2):
        part = mx.io.LibSVMIter(data_libsvm=str(file), data_shape=(3,), batch_size=2, num_parts=2, part_index=index)
        parts.append([(batch.label[0].asnumpy().tolist(), batch.pad) for batch in part])
    assert parts == [[([1, -2], 0), ([-3, 1], 1)], [([4, 4], 1)]]


def test_short_batches_while_somebody_else_holds_the_arrays(file):
    """As a debugger does, which looks at the variables of each line."""
    seen = []

    def note(frame, event, argument):
        seen.append(dict(frame.f_locals))
        return note
    before = sys.gettrace()
    sys.settrace(note)
    try:
        batches = list(mx.io.LibSVMIter(data_libsvm=str(file), data_shape=(3,), batch_size=3, round_batch=False))
    finally:
        sys.settrace(before)
    assert seen and [batch.label[0].asnumpy().tolist() for batch in batches] == [[1, -2, -3], [4, 0, 0]]


def test_labels_from_a_file(file, tmp_path):
    labels = tmp_path / "y.svm"
    labels.write_text("0 0:1\n0 1:2\n0 0:3 1:4\n0\n")
    batch = next(mx.io.LibSVMIter(data_libsvm=str(file), data_shape=(3,), label_libsvm=str(labels), label_shape=(2,),
                                  batch_size=4))
    assert batch.label[0].stype == "csr"
    assert batch.label[0].asnumpy().tolist() == [[1, 0], [0, 2], [3, 4], [0, 0]]


@pytest.mark.parametrize("text,words", [("1 0:x\n", "line 1: could not"), ("1 0:1\n2 5:1\n", "line 2: column 5"),
                                        ("1 0:1\n1 2 0:1\n", "line 2: expected 1 labels .*, got 2"), ("", "no rows")])
def test_damaged_files(tmp_path, text, words):
    (tmp_path / "x.svm").write_text(text)
    with pytest.raises(mx.MXNetError, match=words):
        mx.io.LibSVMIter(data_libsvm=str(tmp_path / "x.svm"), data_shape=(3,), batch_size=1)


def test_missing_file():
    with pytest.raises(mx.MXNetError, match="/nowhere.svm: No such file"):
        mx.io.LibSVMIter(data_libsvm="/nowhere.svm", data_shape=(3,), batch_size=1)
