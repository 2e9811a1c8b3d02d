"""Tests of Gluon's contributed layers, cells and data sets."""

import hashlib
import zipfile

import numpy as np
import pytest

import mxjax as mx
from mxjax.gluon import contrib, nn, rnn

random = np.random.RandomState(0)


def array(*shape):
    return mx.nd.array(random.rand(*shape))


# -------------------------------------------------------------------- layers
@pytest.mark.parametrize("kind", [contrib.nn.Concurrent, contrib.nn.HybridConcurrent])
def test_side_by_side(kind):
    both = kind(axis=1)
    both.add(contrib.nn.Identity(), nn.HybridLambda(lambda F, x: x * 2))
    if kind is contrib.nn.HybridConcurrent:
        both.hybridize()
    x = array(2, 3)
    assert np.array_equal(both(x).asnumpy(), np.concatenate([x.asnumpy(), 2 * x.asnumpy()], axis=1))


@pytest.mark.parametrize("rank,factors", [(1, 3), (2, (2, 3)), (3, (2, 1, 3))])
def test_pixel_shuffle(rank, factors):
    layer = getattr(contrib.nn, f"PixelShuffle{rank}D")(factors)
    factors = (factors,) * rank if isinstance(factors, int) else factors
    sizes = (2, 3, 4)[:rank]
    x = random.rand(2, 5 * int(np.prod(factors)), *sizes).astype(np.float32)
    split = x.reshape(2, 5, *factors, *sizes)
    order = [0, 1] + [axis for i in range(rank) for axis in (2 + rank + i, 2 + i)]
    expected = split.transpose(order).reshape(2, 5, *(n * f for n, f in zip(sizes, factors, strict=True)))
    layer.hybridize()
    assert np.array_equal(layer(mx.nd.array(x)).asnumpy(), expected)
    with pytest.raises(AssertionError, match="3 factors, got 2"):
        contrib.nn.PixelShuffle3D((1, 2))


def test_sparse_embedding():
    layer = contrib.nn.SparseEmbedding(6, 3)
    layer.initialize()
    trainer = mx.gluon.Trainer(layer.collect_params(), "sgd", {"learning_rate": 1.0})
    x = mx.nd.array([1, 4, 1])
    before = layer.weight.row_sparse_data(mx.nd.arange(6)).asnumpy()
    with mx.autograd.record():
        out = layer(x)
    out.backward()
    assert out.shape == (3, 3) and repr(layer) == "SparseEmbedding(6 -> 3, float32)"
    trainer.step(1)
    after = layer.weight.row_sparse_data(mx.nd.arange(6)).asnumpy()
    np.testing.assert_allclose((before - after)[:, 0], [0, 2, 0, 0, 1, 0], atol=1e-6)


def test_sync_batch_norm():
    plain, layer = nn.BatchNorm(in_channels=3), contrib.nn.SyncBatchNorm(in_channels=3, num_devices=1)
    x = array(4, 3, 2)
    outs = []
    for one in (plain, layer):
        one.initialize()
        with mx.autograd.record():
            outs.append(one(x).asnumpy())
    np.testing.assert_allclose(*outs, rtol=1e-5, atol=1e-5)
    with pytest.warns(UserWarning, match="num_devices"):
        contrib.nn.SyncBatchNorm()


@pytest.mark.parametrize("kind,operators", [("DeformableConvolution", 2), ("ModulatedDeformableConvolution", 3)])
def test_deformable_convolution(kind, operators):
    layer = getattr(contrib.cnn, kind)(4, kernel_size=3, padding=1, in_channels=2, activation="relu")
    plain = nn.Conv2D(4, 3, padding=1, in_channels=2, activation="relu")
    layer.initialize()
    plain.initialize()
    x = array(1, 2, 5, 5)
    out = layer(x)  # offsets are zero at first, masks one: a plain convolution
    plain.weight.set_data(layer.deformable_conv_weight.data())
    np.testing.assert_allclose(out.asnumpy(), plain(x).asnumpy(), rtol=1e-4, atol=1e-5)
    assert layer.offset_weight.shape == (9 * operators, 2, 3, 3)
    names = ["offset_weight", "offset_bias", "deformable_conv_weight", "deformable_conv_bias"]
    wanted = names if operators == 2 else names[2:] + names[:2]  # MXNet's order
    assert [name.removeprefix(layer.prefix) for name in layer.collect_params()] == wanted
    told = f"{kind}(2 -> 4, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1)"
    assert repr(layer).startswith(told if operators == 2 else f"{kind}(\n  (act): Activation(relu)\n)")  # as MXNet's


# -------------------------------------------------------------------- cells
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("kind,states,gates", [("RNN", 1, 1), ("LSTM", 2, 4), ("GRU", 1, 3)])
def test_convolutional_cells(rank, kind, states, gates):
    size = (6, 5, 4)[:rank]
    cell = getattr(contrib.rnn, f"Conv{rank}D{kind}Cell")((2, *size), 3, 3, 3, prefix="c_")
    assert {key: p.shape for key, p in cell.params.items()} == {
        "c_i2h_weight": (3 * gates, 2, *(3,) * rank), "c_h2h_weight": (3 * gates, 3, *(3,) * rank),
        "c_i2h_bias": (3 * gates,), "c_h2h_bias": (3 * gates,)}
    assert [info["shape"] for info in cell.state_info(7)] == [(7, 3, *(n - 2 for n in size))] * states
    x = mx.sym.Variable("x")
    outputs, _ = cell.unroll(2, [x, x])
    _, shapes, _ = mx.sym.Group(outputs).infer_shape(x=(7, 2, *size))
    assert shapes == [(7, 3, *(n - 2 for n in size))] * 2


def test_convolutional_cell_is_a_cell_at_single_pixels():
    conv, plain = contrib.rnn.Conv1DLSTMCell((2, 1), 3, 1, 1), rnn.LSTMCell(3, input_size=2)
    conv.initialize()
    plain.initialize()
    for name, param in plain.params.items():
        other = conv.params[name.replace(plain.prefix, conv.prefix)]
        other.set_data(param.data().reshape(other.shape))
    x, states = array(4, 2), [array(4, 3), array(4, 3)]
    expected = plain(x, states)[1]
    found = conv(x.reshape((4, 2, 1)), [state.reshape((4, 3, 1)) for state in states])[1]
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_allclose(one.asnumpy(), other.asnumpy()[:, :, 0], rtol=1e-5, atol=1e-6)
    with pytest.raises(AssertionError, match="odd"):
        contrib.rnn.Conv1DRNNCell((2, 5), 3, 3, 2)


def test_projected_lstm():
    cell = contrib.rnn.LSTMPCell(4, 2, input_size=3, prefix="p_")
    cell.initialize()
    x, r, c = array(5, 3), array(5, 2), array(5, 4)
    p = {name[2:]: param.data().asnumpy() for name, param in cell.params.items()}
    gates = x.asnumpy() @ p["i2h_weight"].T + r.asnumpy() @ p["h2h_weight"].T + p["i2h_bias"] + p["h2h_bias"]
    i, f, g, o = np.split(gates, 4, axis=1)

    def sigmoid(v):
        return 1 / (1 + np.exp(-v))
    state = sigmoid(f) * c.asnumpy() + sigmoid(i) * np.tanh(g)
    output, states = cell(x, [r, c])
    np.testing.assert_allclose(states[1].asnumpy(), state, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(output.asnumpy(), (sigmoid(o) * np.tanh(state)) @ p["h2r_weight"].T, rtol=1e-4,
                               atol=1e-6)
    assert repr(cell) == "LSTMPCell(3 -> 16 -> 2)"


def test_dropout_stays_over_time():
    cell = contrib.rnn.VariationalDropoutCell(rnn.RNNCell(20, input_size=4), drop_outputs=0.5, drop_states=0.3)
    cell.initialize(mx.init.One())
    with mx.autograd.record():
        outputs, _ = cell.unroll(3, mx.nd.ones((2, 3, 4)), merge_outputs=True)
    dropped = outputs.asnumpy() == 0
    assert dropped.any() and not dropped.all() and (dropped == dropped[:, :1]).all()
    with pytest.raises(AssertionError, match="bidirectional"):
        contrib.rnn.VariationalDropoutCell(rnn.BidirectionalCell(rnn.RNNCell(2), rnn.RNNCell(2)), drop_states=0.5)


@pytest.mark.parametrize("layout", ["TNC", "NTC"])
def test_dynamic_unroll(layout):
    cell = rnn.GRUCell(3, input_size=2)
    cell.initialize()
    x, lengths, begin = array(4, 4, 2), mx.nd.array([1, 4, 2, 3]), [mx.nd.zeros((4, 3))]
    for valid in (None, lengths):
        expected, expected_states = cell.unroll(4, x, begin, layout, merge_outputs=True, valid_length=valid)
        found, states = contrib.rnn.rnn_cell.dynamic_unroll(cell, x, begin, layout=layout, valid_length=valid)
        np.testing.assert_allclose(found.asnumpy(), expected.asnumpy(), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(states[0].asnumpy(), expected_states[0].asnumpy(), rtol=1e-5, atol=1e-6)


# -------------------------------------------------------------------- data
@pytest.mark.parametrize("kind, folder", [("WikiText2", "wikitext-2"), ("WikiText103", "wikitext-103")])
def test_wikitext_reads_the_file_of_its_segment(kind, folder, tmp_path, monkeypatch):
    asked = []

    def download(url, root, sha1_hash):
        asked.append((url.rpartition("/")[2], len(sha1_hash)))
        with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
            for name in ("train", "valid", "test"):
                archive.writestr(f"{folder}/wiki.{name}.tokens", f"{name} a b c\n" * 2)
        return str(tmp_path / "archive.zip")
    monkeypatch.setattr(contrib.data.text, "download", download)
    for segment, word in (("train", "train"), ("validation", "valid"), ("test", "test")):
        words = getattr(contrib.data.text, kind)(str(tmp_path), segment, seq_len=4)
        assert words.frequencies[word] == 2
    assert asked == [(f"{folder}-v1.zip", 40)] * 3


def test_intervals():
    assert list(contrib.data.IntervalSampler(7, 3)) == [0, 3, 6, 1, 4, 2, 5]
    assert list(contrib.data.IntervalSampler(7, 3, rollover=False)) == [0, 3, 6]
    with pytest.raises(AssertionError, match="Interval 4"):
        contrib.data.IntervalSampler(3, 4)


def test_wikitext(tmp_path):
    content = " a b c a \n\n = b = \n a b c a b\n"
    (tmp_path / "x").write_text(content)

    class Small(contrib.data.text.WikiText2):
        _files = {"train": ("x", hashlib.sha1(content.encode()).hexdigest())}
    words = Small(str(tmp_path), seq_len=4)
    assert len(words) == 3 and words.frequencies["a"] == 4
    rows = [words.vocabulary.to_tokens(words[i][0].astype(int).asnumpy().tolist()) for i in range(2)]
    assert rows == [["a", "b", "c", "a"], ["<eos>", "=", "b", "="]]
    data, label = words[1]
    assert np.array_equal(data.asnumpy()[1:], label.asnumpy()[:-1])
    with pytest.raises(ValueError, match="segment must be one of train; got 'test'"):
        Small(str(tmp_path), segment="test")
