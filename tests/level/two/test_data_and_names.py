"""Transforms, the model zoo, the estimator and names around Gluon at level 2."""

import functools
import gzip
import importlib
import inspect
import json
import operator
import pathlib
import struct
import sys

import numpy as onp
import pytest

import mxjax as mx
import mxjax.cuda
from mxjax import dlpack
from mxjax.base import MXNetError
from mxjax.gluon import nn, rnn
from mxjax.ops import registry


def test_transforms_take_and_give_mx_np_arrays():
    import numpy as np

    import mxjax as mx
    T = mx.gluon.data.vision.transforms
    from mxjax.gluon.data.vision.transforms.image import RandomCrop
    assert T.RandomCrop is RandomCrop
    x = mx.np.array(np.arange(5 * 7 * 3).reshape(5, 7, 3), dtype="uint8")
    middle, label = T.CenterCrop((3, 3))(x, 4)
    assert label == 4 and type(middle) is mx.np.ndarray
    np.testing.assert_array_equal(middle.asnumpy(), x.asnumpy()[1:4, 2:5])
    assert T.CenterCrop((10, 4))(x).shape == (4, 10, 3)
    assert T.RandomCrop(9, pad=4)(x).shape == (9, 9, 3)
    assert T.RandomResizedCrop((4, 3), scale=0.5)(mx.np.stack([x, x])).shape == (2, 3, 4, 3)
    np.testing.assert_array_equal(T.RandomFlipLeftRight(p=1)(x).asnumpy(), x.asnumpy()[:, ::-1])
    np.testing.assert_array_equal(T.RandomFlipTopBottom(p=0)(x).asnumpy(), x.asnumpy())
    flipped = sum(bool((T.RandomFlipLeftRight(0.2)(x) != x).any()) for _ in range(300))
    assert 30 < flipped < 95, flipped
    grey = T.RandomGray(1.1)(x).asnumpy()
    np.testing.assert_allclose(grey[..., 0], x.asnumpy() @ np.full(3, 0.2989), rtol=1e-5)
    assert isinstance(T.Cast("float16")(x), tuple) and T.Cast("float16")(x)[0].dtype == np.float16
    for make, kind in ((lambda: T.RandomCrop(3, pad=(1, 1)), AssertionError),
                       (lambda: T.HybridRandomApply(T.Rotate(3)), AssertionError),
                       (lambda: T.Rotate(3)(x), TypeError), (lambda: T.CenterCrop(0)(x), mx.MXNetError)):
        try:
            make()
        except kind:
            continue
        raise SystemExit(f"no {kind.__name__}")


def test_random_crops_draw_as_mxnet_does():
    import numpy as np

    import mxjax as mx
    x = mx.np.array(np.arange(5 * 7 * 3).reshape(5, 7, 3), dtype="uint8")
    mx.random.seed(1)
    drawn = [int(mx.npx.image.random_crop(x, (0, 1), (0, 1), 1, 1)[0, 0, 0].item() / 3) for _ in range(6)]
    assert drawn == [3, 14, 15, 25, 3, 7]
    y = mx.np.array(np.arange(2500).reshape(50, 50, 1), dtype="float32")
    mx.random.seed(1)
    for place in ((0, 1, 37, 45), (7, 13, 39, 35), (1, 1, 37, 45)):
        r = mx.npx.image.random_resized_crop(y, width=40, height=40, area=(0.5, 0.9), ratio=(0.8, 1.25),
                                             interp=0).asnumpy()[:, :, 0]
        assert (r[0, 0] % 50, r[0, 0] // 50, r[0, -1] - r[0, 0], (r[-1, 0] - r[0, 0]) // 50) == place


def test_layers_and_crops_refuse_what_is_out_of_range():
    import pytest

    import mxjax as mx
    x, data, image = mx.np.ones((4, 4, 3), dtype="uint8"), mx.sym.var("data"), mx.npx.image
    layer = mx.gluon.nn.LayerNorm(axis=-3)
    layer.initialize()
    with pytest.raises(ValueError, match="axis -3 is out of range"):
        layer(mx.np.ones((2, 3)))
    for crop in (lambda: image.random_crop(x, (0.8, 0.2), (0, 1), 2, 2),
                 lambda: image.random_resized_crop(x, width=2, height=2, area=(0.0, 0.0)),
                 lambda: image.random_resized_crop(x, width=2, height=2, ratio=(-1.0, 1.0)),
                 lambda: mx.sym.image.random_crop(data, xrange=(0, 2), width=2, height=2)._simple_bind(
                     ctx=mx.cpu(), data=(4, 4, 3))):
        with pytest.raises(mx.MXNetError, match="must be two"):
            crop()


def test_estimator_and_model_zoo_take_devices():
    import inspect

    import mxjax as mx
    from mxjax.gluon.contrib.estimator import Estimator
    vision = mx.gluon.model_zoo.vision
    assert list(inspect.signature(vision.get_resnet).parameters)[3] == "device"
    net = vision.resnet18_v1(classes=3, device=mx.cpu())
    net.initialize()
    assert net(mx.np.ones((1, 3, 32, 32))).shape == (1, 3)
    dense = mx.gluon.nn.Dense(3)
    loader = mx.gluon.data.DataLoader(mx.gluon.data.ArrayDataset(mx.np.ones((6, 4)), mx.np.zeros((6,))), 3,
                                      try_nopython=False)
    trained = Estimator(dense, mx.gluon.loss.SoftmaxCrossEntropyLoss(), device=mx.cpu())
    assert trained.device == [mx.cpu()]
    assert [m.name for m in trained.train_metrics] == ["training accuracy", "training SoftmaxCrossEntropyLoss"]
    trained.fit(loader, epochs=1)
    try:
        Estimator(dense, mx.gluon.loss.L2Loss(), device=mx.cpu(), context=mx.cpu())
    except TypeError:
        pass
    else:
        raise SystemExit("both names")


def test_parameters_of_recurrent_layers():
    import numpy as np

    import mxjax as mx
    init = mx.init.RNNFused("lstm", 2, 5, True, 4, "uniform", "normal", "zeros", "ones", "one")
    from mxjax._rnn_packing import packed_shapes
    rnn = mx.np.zeros((sum(int(np.prod(s)) for s in packed_shapes(4, 2, 3, 5, 2, 4).values()),))
    init(mx.init.InitDesc("rnn_weight"), rnn)
    parts = mx.gluon.utils.split_rnn_params(rnn, "lstm", 2, 3, 5, True, 4)
    assert parts["r1_i2h_weight"].shape == (20, 8) and parts["l0_h2r_weight"].shape == (4, 5)
    assert (parts["l1_h2h_bias"] == 1).all() and (parts["l1_i2h_bias"] == 0).all()
    assert (parts["l0_h2r_weight"] == 1).all() and 0 < abs(parts["l0_i2h_weight"]).max() <= 0.07
    for make in (lambda: mx.init.RNNFused("rnn", 1, 2),
                 lambda: mx.gluon.utils.split_rnn_params(rnn, "lstm", 1, 3, 5),
                 lambda: mx.init.RNNFused("gru", 1, 2)(mx.init.InitDesc("a_weight"), mx.np.zeros((30,)))):
        try:
            make()
        except ValueError:
            continue
        raise SystemExit("no ValueError")


def test_small_names():
    import mxjax as mx
    assert mx.library.compiled_with_gcc_cxx11_abi() == -1 and mx.library.loaded_libs == []
    assert mx.runtime.get_branch().startswith("mxjax-") and mx.runtime.get_commit_hash() == ""
    assert mx.test_utils.default_device() == mx.cpu()


def test_rows_of_labels_and_transforms_of_loaders():
    import numpy as np

    import mxjax as mx
    from mxjax.gluon.contrib.data.vision import create_image_augment, dataloader
    image, label = mx.np.zeros((10, 20, 3), dtype="uint8"), np.array([2, 5, 7, 0.1, 0.2, 0.5, 1.0], "float32")
    same, rows = dataloader.BboxLabelTransform()(image, label)
    assert same is image
    np.testing.assert_allclose(rows.asnumpy(), [[2, 2, 10, 10, 7]], rtol=1e-6)
    names = [type(b).__name__ for b in create_image_augment((3, 8, 8), resize=9, rand_crop=True, rand_mirror=True,
                                                            mean=True, brightness=0.1)]
    assert names == ["Resize", "RandomCrop", "RandomFlipLeftRight", "Cast", "RandomColorJitter", "ToTensor",
                     "Normalize", "Cast"], names
    for make, kind in ((lambda: create_image_augment((3, 8, 8), rand_resize=True), AssertionError),
                       (lambda: dataloader.ImageDataLoader(1, (3, 8, 8)), AssertionError),
                       (lambda: dataloader.BboxLabelTransform()(image, label[:-1]), ValueError),
                       (lambda: mx.kv.create("horovod"), mx.MXNetError)):
        try:
            make()
        except kind:
            continue
        raise SystemExit(f"no {kind.__name__}")


def test_handles_of_data_sets_and_batchify_functions():
    data, batchify = mx.gluon.data, mx.gluon.data.batchify
    numbers = data.SimpleDataset(onp.arange(6)).filter(lambda x: x % 2 == 0).__mx_handle__()
    assert list(numbers) == [0, 2, 4]
    loader = data.DataLoader(data.ArrayDataset(mx.np.ones((4, 2))).transform_first(lambda x: x * 2).__mx_handle__(), 2)
    assert [batch.tolist() for batch in loader] == [[[2, 2], [2, 2]]] * 2
    both = batchify.Group(batchify.Stack(), batchify.Pad()).__mx_handle__()
    assert [x.shape for x in both([(1, [1, 2, 3]), (2, [4])])] == [(2,), (2, 3)]
    assert not hasattr(batchify.AsList(), "__mx_handle__")


def test_clipped_gradients():
    import mxjax as mx
    arrays = [mx.np.array([3.0]), mx.np.array([[4.0]])]
    assert type(mx.gluon.utils.clip_global_norm(arrays, 1.0)) is float and abs(arrays[0].item() - 0.6) < 1e-6
    assert mx.gluon.utils.clip_global_norm(arrays, 1.0, check_isfinite=False).shape == (1,)



def test_modules_of_mxnet_2():
    names = {"gluon.probability.distributions.half_normal": "HalfNormal", "optimizer.adamW": "AdamW",
             "gluon.probability.distributions.studentT": "StudentT", "gluon.probability.block.stochastic_block":
             "StochasticBlock", "gluon.probability.transformation.transformation": "ExpTransform",
             "gluon.nn.basic_layers": "SyncBatchNorm", "gluon.nn.conv_layers": "PixelShuffle2D"}
    for module, name in names.items():
        assert isinstance(getattr(importlib.import_module(f"mxjax.{module}"), name), type), module
    assert mx.gluon.probability.distributions.Normal is mx.gluon.probability.Normal
    assert mx.rnd is mx.random and mx.np_symbol.zeros


def test_layers_show_no_arguments_of_mxnet_1():
    for kind in (nn.Dense, nn.HybridSequential, nn.GroupNorm, rnn.LSTMCell, rnn.GRU):
        assert not {"prefix", "params"} & set(inspect.signature(kind).parameters), kind
    assert nn.GroupNorm(2, 1e-5, True, True, "zeros", "ones", 4).gamma.shape == (4,)
    with pytest.raises(TypeError, match="no prefix"):
        nn.Dense(2, prefix="x_")
    with pytest.raises(TypeError, match="at most"):
        nn.GroupNorm(2, 1e-5, True, True, "zeros", "ones", 4, 5)
    with pytest.raises(AttributeError, match="params cannot be assigned"):
        nn.Dense(2).params = {}
    assert "device" in inspect.signature(mx.gluon.Block.initialize).parameters


def test_reprs_of_layers_and_names_of_devices():
    assert repr(nn.GroupNorm(4, in_channels=8)).endswith("scale=True, in_channels=8)")
    layer = nn.Conv2DTranspose(3, 2)
    layer.initialize()
    layer(mx.np.ones((1, 5, 4, 4)))
    assert repr(layer) == "Conv2DTranspose(5 -> 3, kernel_size=(2, 2), stride=(1, 1))"
    assert type(mx.cpu()).__name__ == "Device" and type(mx.cpu()).__module__ == "mxjax.device"


def test_results_of_numpy_functions():
    assert type(mx.np.linalg.slogdet(mx.np.eye(2))) is tuple
    chances = mx.gluon.probability.Uniform(0, 1).log_prob(mx.np.array([0, 1], dtype="float32"))
    assert chances.dtype == "float64" and chances.asnumpy().tolist() == [0, -onp.inf]


def test_arguments_of_symbols():
    x = mx.sym.var("x").as_np_ndarray()
    s = mx.sym.np
    for made in (s.std(x, axis=1, ddof=1), s.zeros((2, 3), ctx=mx.cpu()), s.ones((2, 3), device=mx.cpu()),
                 s.squeeze(x=x), s.max(x, 1), s.prod(x, axis=0), mx.sym.npx.softmax(x, axis=0, name="s")):
        made.eval(x=mx.np.ones((2, 3)))


def test_ranges_and_profiler():
    with mxjax.cuda.nvtx.range("outer", mxjax.cuda.nvtx.RED):
        mxjax.cuda.nvtx.range_push("inner")
        mxjax.cuda.nvtx.range_pop()
    with pytest.raises(mx.MXNetError, match="no range is open"):
        mxjax.cuda.nvtx.range_pop()


def test_makers_of_exchange():
    make = dlpack.ndarray_from_numpy(mx.np.ndarray, mx.np.array)
    source = onp.arange(3.0, dtype="float32")
    assert type(make(source)) is mx.np.ndarray and make(source, zero_copy=False).tolist() == [0, 1, 2]
    capsule = dlpack.ndarray_to_dlpack_for_read()(mx.np.ones(2))
    assert dlpack.ndarray_from_dlpack(mx.nd.NDArray)(capsule).asnumpy().tolist() == [1, 1]


@pytest.mark.parametrize("space, name, message", [
    ("nd.contrib", "intgemm_fully_connected", "mx.contrib.quantization"),
    ("npx", "intgemm_maxabsolute", "8-bit integers"),
    ("nd.contrib", "tvm_vadd", "XLA"),
])
def test_operators_that_are_not_here_say_why(space, name, message):
    with pytest.raises(AttributeError, match=message):
        getattr(operator.attrgetter(space)(mx), name)


def test_kvstores_of_other_libraries_say_what_to_use():
    for name in ("horovod", "byteps"):
        with pytest.raises(MXNetError, match="dist_sync"):
            mx.kv.create(name)


def test_workers_give_numpy_arrays_in_float32():
    import numpy as np

    import mxjax as mx
    data = mx.gluon.data
    wide, small = np.ones((4, 2)), mx.np.ones((4, 2), dtype="uint8")

    def kinds(dataset, several=list, **arguments):
        batch = next(iter(data.DataLoader(dataset, 2, thread_pool=True, **arguments)))
        assert type(batch) in (several, mx.np.ndarray)
        parts = batch if isinstance(batch, list | tuple) else [batch]
        return [str(getattr(part, "dtype", "texts")) for part in parts]

    pair, doubled = data.ArrayDataset(small, np.arange(4)), lambda x: x * 2
    for dataset in (pair, pair.take(3), pair.transform_first(mx.gluon.nn.Identity())):
        assert kinds(dataset, tuple, num_workers=1) == ["uint8", "float32"]
    assert kinds(data.SimpleDataset(wide), num_workers=1, batchify_fn=data.batchify.Stack()) == ["float32"]
    # what C++ cannot load, or may not
    for dataset, more in ((pair, {"num_workers": 0}), (pair, {"num_workers": 1, "try_nopython": False}),
                          (pair.transform_first(doubled), {"num_workers": 1}),
                          (pair, {"num_workers": 1, "batchify_fn": lambda batch: data.batchify.Stack()(batch)}),
                          (pair, {"num_workers": 1, "sampler": data.IntervalSampler(4, 2)})):
        assert kinds(dataset, **more) == ["uint8", "int64"]
    assert kinds(data.ArrayDataset(list("abcd"), wide), num_workers=1)[1:] == ["float64"]


def test_positions_in_the_default_dtype():
    import mxjax as mx
    row, column = mx.np.unravel_index(mx.np.array([3, 5]), (2, 3))
    assert (row.tolist(), column.tolist(), row.dtype) == ([1, 1], [0, 2], "float32")


def test_codes_in_the_shapes_of_reshape():
    import mxjax as mx
    x = mx.np.ones((2, 3, 4))
    for codes, shape in (((-2, -1), (2, 12)), ((-5, 4), (6, 4)), ((-4,), (2, 3, 4)), ((-6, 1, 2, -4), (1, 2, 3, 4))):
        assert x.reshape(*codes).shape == x.reshape(codes).shape == mx.np.reshape(x, codes).shape == shape
    for wrong in ((-3,), (0, -1)):
        try:
            x.reshape(wrong)
        except mx.MXNetError:
            continue
        raise SystemExit(f"{wrong} was accepted")


def _digits(folder, count):
    (folder / "images").write_bytes(struct.pack(">4i", 2051, count, 1, 1) + bytes(count))
    (folder / "labels").write_bytes(struct.pack(">2i", 2049, count) + bytes(range(count)))
    return mx.io.MNISTIter(image=str(folder / "images"), label=str(folder / "labels"), batch_size=3, shuffle=True,
                           seed=1, silent=True)


@pytest.mark.parametrize("count, places", [(6, [1, 0, 2, 5, 3, 4]), (9, [1, 0, 6, 3, 8, 4, 2, 7, 5])])
def test_the_order_of_shuffled_files(tmp_path, count, places):
    """Recorded from MXNet 2.0, whose C++ library draws the places of two numbers at once."""
    assert [int(label) for batch in _digits(tmp_path, count) for label in batch.label[0].asnumpy()] == places


def test_the_order_of_jittered_colours():
    factors = []
    for seed in (1, 2, 3):
        mx.np.random.seed(seed)
        factors.append(mx.npx.image.random_color_jitter(mx.np.full((1, 1, 3), 100.0), 0.5, 0, 0, 0).item(0) / 100)
    onp.testing.assert_allclose(factors, [0.539963, 1.140118, 0.941391], rtol=1e-5)  # recorded from MXNet 2.0


def test_iterators_over_files_follow_the_mode(tmp_path):
    onp.savetxt(tmp_path / "a.csv", onp.ones((4, 3)), delimiter=",")
    (tmp_path / "a.svm").write_text("1 0:1\n0 1:2\n")
    kinds = []
    for switch in (mx.npx.reset_np, mx.npx.set_np):
        switch()
        batches = mx.io.CSVIter(data_csv=str(tmp_path / "a.csv"), data_shape=(3,), batch_size=2)
        batch = next(batches)
        kinds.append({type(a) for a in (batch.data[0], batch.label[0], batches.getdata(), batches.getlabel())})
    assert kinds == [{mx.nd.NDArray}, {mx.np.ndarray}]
    sparse = next(mx.io.LibSVMIter(data_libsvm=str(tmp_path / "a.svm"), data_shape=(3,), batch_size=2))
    assert type(sparse.data[0]) is mx.nd.sparse.CSRNDArray and type(sparse.label[0]) is mx.np.ndarray


# ------------------------------------------------------------ defaults, beside those recorded from MXNet 2.0.0b1
TESTS = pathlib.Path(__file__).parents[2]
DEFAULTS = json.loads(gzip.decompress((TESTS / "data/mxnet/defaults_of_2.json.gz").read_bytes()))
# classes without these options; stores of other packages; a module of MXNet 1
WITHOUT = ("mx.executor.Executor", "mx.nd.CachedOp", "mx.kv.BytePS", "mx.kv.Horovod", "mx.misc")
# no effect; None stands for ()
OTHER_DEFAULTS = {("_npx_deconvolution", "workspace"), ("_contrib_AdaptiveAvgPooling2D", "output_size"),
                  ("_linspace", "stop"), ("_contrib_quantized_transpose", "axes"), ("quantized_transpose", "axes")}


def comparison(monkeypatch):
    """Returns the module of the tests for MXNet 1.9.1, which compares."""
    monkeypatch.syspath_prepend(str(TESTS))
    __import__("test_defaults")
    return sys.modules.pop("test_defaults")


def test_defaults_of_functions_and_classes(monkeypatch):
    compare, wrong, compared = comparison(monkeypatch).differences, [], 0
    for path, defaults in DEFAULTS["functions"].items():
        if path.startswith(WITHOUT):
            continue
        parameters = inspect.signature(functools.reduce(getattr, path.split(".")[1:], mx)).parameters
        more, count = compare(path, parameters, defaults)
        wrong, compared = wrong + more, compared + count
    assert not wrong, "\n".join(wrong)
    assert compared > 3500


def test_defaults_of_operators(monkeypatch):
    """Those that MXNet 1.9.1 does not have, or has with other defaults."""
    equal, wrong, compared = comparison(monkeypatch).same, [], 0
    for name, defaults in DEFAULTS["operators"].items():
        op = registry.find(name)
        for key, text in defaults.items() if op is not None else ():
            # None stands for the dtype that the caller gives
            if key not in op.params or (name, key) in OTHER_DEFAULTS or (key, text) == ("dtype", "None"):
                continue
            compared += 1
            if not equal(op.params[key].parse(text), op.params[key].filled):
                wrong.append(f"{name}({key}={op.params[key].default!r}), not {text!r}")
    assert not wrong, "\n".join(wrong)
    assert compared > 500
