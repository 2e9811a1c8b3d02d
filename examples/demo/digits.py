"""LeNet on real digits: train, save, reload, predict; load MXNet's own model; go on in plain JAX.

    python examples/demo/digits.py [--epochs 12] [--output demo-output]
"""

from __future__ import annotations

import argparse
import os
import pathlib
import time

import jax
import jax.numpy as jnp
import numpy as np

import mxjax as mx

HERE = pathlib.Path(__file__).resolve().parent


def digits() -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """(images, labels) for training and test; images (n, 1, 8, 8) in [0, 1]."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split
    data = load_digits()
    images = (data.images / 16.0).astype(np.float32)[:, None]
    x_train, x_test, y_train, y_test = train_test_split(images, data.target.astype(np.float32), test_size=0.25,
                                                        random_state=0, stratify=data.target)
    return (x_train, y_train), (x_test, y_test)


def lenet() -> mx.sym.Symbol:
    """LeNet for 8 x 8 pictures."""
    net = mx.sym.Variable("data")
    for number, filters in enumerate((20, 50), 1):
        net = mx.sym.Convolution(net, kernel=(3, 3), pad=(1, 1), num_filter=filters, name=f"conv{number}")
        net = mx.sym.Activation(net, act_type="tanh")
        net = mx.sym.Pooling(net, kernel=(2, 2), stride=(2, 2), pool_type="max")
    net = mx.sym.Activation(mx.sym.FullyConnected(mx.sym.Flatten(net), num_hidden=128, name="fc1"), act_type="tanh")
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(net, num_hidden=10, name="fc2"), name="softmax")


def train_with_module(train: tuple, test: tuple, epochs: int, output: pathlib.Path) -> str:
    """Trains with Module.fit, draws the learning curve, saves a checkpoint; returns its prefix."""
    from tqdm import tqdm
    batch = 50
    train_iter = mx.io.NDArrayIter(*train, batch_size=batch, shuffle=True)
    test_iter = mx.io.NDArrayIter(*test, batch_size=batch)
    module = mx.mod.Module(lenet(), context=mx.cpu())
    curve: list[tuple[float, float]] = []
    steps = epochs * -(-len(train[0]) // batch)
    with tqdm(total=steps, desc="Module.fit", unit="batch") as bar:
        def after_batch(param: mx.model.BatchEndParam) -> None:
            bar.update()

        def after_epoch(epoch: int, symbol: mx.sym.Symbol, args: dict, aux: dict) -> None:
            scores = [dict(module.score(data, "acc"))["accuracy"] for data in (train_iter, test_iter)]
            curve.append(tuple(scores))
            bar.set_postfix(test=f"{scores[1]:.3f}")
        module.fit(train_iter, optimizer="sgd", optimizer_params={"learning_rate": 0.1, "momentum": 0.9},
                   initializer=mx.init.Xavier(), num_epoch=epochs, batch_end_callback=after_batch,
                   epoch_end_callback=after_epoch)
    print(f"test accuracy after {epochs} epochs: {curve[-1][1]:.4f}")
    if curve[-1][1] < 0.97:
        raise SystemExit("the network did not reach 97 %")
    draw(curve, output / "learning-curve.png")
    prefix = str(output / "lenet")
    module.save_checkpoint(prefix, epochs, save_optimizer_states=True)
    return prefix


def draw(curve: list[tuple[float, float]], path: pathlib.Path) -> None:
    """Saves accuracies per epoch as a picture."""
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    epochs = range(1, len(curve) + 1)
    figure, axes = plt.subplots(figsize=(6, 4))
    axes.plot(epochs, [c[0] for c in curve], label="training", zorder=3)
    axes.plot(epochs, [c[1] for c in curve], label="test")
    axes.set(xlabel="epoch", ylabel="accuracy", title="LeNet on the UCI digits", ylim=(min(0.9, curve[0][1]), 1.01))
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    print(f"learning curve: {path}")


def train_imperatively(train: tuple, test: tuple, epochs: int) -> None:
    """The same network as a function of NDArrays, with autograd and an optimizer."""
    nd = mx.nd
    shapes = {"w1": (20, 1, 3, 3), "b1": (20,), "w2": (50, 20, 3, 3), "b2": (50,), "w3": (128, 200), "b3": (128,),
              "w4": (10, 128), "b4": (10,)}
    params = {k: nd.random.uniform(-1, 1, s) * np.sqrt(3 / max(np.prod(s[1:]), 1)) if k[0] == "w" else nd.zeros(s)
              for k, s in shapes.items()}
    for p in params.values():
        p.attach_grad()

    def forward(x: mx.nd.NDArray) -> mx.nd.NDArray:
        for w, b, filters in (("w1", "b1", 20), ("w2", "b2", 50)):
            x = nd.tanh(nd.Convolution(x, params[w], params[b], kernel=(3, 3), pad=(1, 1), num_filter=filters))
            x = nd.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max")
        x = nd.tanh(nd.FullyConnected(x, params["w3"], params["b3"], num_hidden=128))
        return nd.FullyConnected(x, params["w4"], params["b4"], num_hidden=10)

    update = mx.optimizer.get_updater(mx.optimizer.SGD(learning_rate=0.1, momentum=0.9, rescale_grad=1 / 50))
    images, labels = train
    order = np.random.RandomState(0)
    for _ in range(epochs):
        chosen = order.permutation(len(images))
        for start in range(0, len(images) - 49, 50):
            rows = chosen[start:start + 50]
            x, y = nd.array(images[rows]), nd.array(labels[rows])
            with mx.autograd.record():
                loss = -nd.pick(nd.log_softmax(forward(x)), y)
            loss.backward()
            for i, p in enumerate(params.values()):
                update(i, p.grad, p)
    found = forward(nd.array(test[0])).argmax(axis=1).asnumpy()
    print(f"imperatively, {epochs} epochs: test accuracy {(found == test[1]).mean():.4f}")


def reload_and_predict(prefix: str, epoch: int, test: tuple) -> None:
    """Loads the saved checkpoint and predicts."""
    module = mx.mod.Module.load(prefix, epoch, label_names=None, context=mx.cpu())
    data = mx.io.NDArrayIter(test[0], batch_size=50)
    module.bind(data.provide_data, for_training=False)
    probabilities = module.predict(data).asnumpy()
    print(f"reloaded {os.path.basename(prefix)}-{epoch:04d}.params: test accuracy "
          f"{(probabilities.argmax(1) == test[1]).mean():.4f}")


def compare_with_mxnet() -> tuple[mx.sym.Symbol, dict, dict, np.ndarray]:
    """Loads the model the real MXNet trained and compares probabilities; returns it."""
    symbol, args, aux = mx.model.load_checkpoint(str(HERE / "mxnet_model" / "lenet_digits"), 8)
    expected = np.load(HERE / "mxnet_model" / "lenet_digits_expected.npz")
    executor = symbol.bind(mx.cpu(), {**args, "data": mx.nd.array(expected["data"]),
                                      "softmax_label": mx.nd.array(expected["label"])}, aux_states=aux)
    ours = executor.forward()[0].asnumpy()
    difference = float(np.abs(ours - expected["prob"]).max())
    print(f"MXNet's own lenet_digits: probabilities differ from MXNet's by at most {difference:.1e}")
    if difference > 1e-5:
        raise SystemExit("the probabilities differ from MXNet's")
    return symbol, args, aux, expected["data"]


def go_on_in_jax(symbol: mx.sym.Symbol, args: dict, aux: dict, images: np.ndarray) -> None:
    """The same graph as a pure JAX function: a gradient and a vmap."""
    function = symbol.get_internals()["fc2_output"].to_jax()
    params, states = mx.interop.params_to_jax(args), mx.interop.params_to_jax(aux)

    def logits(params: dict, x: jax.Array) -> jax.Array:
        return function({**params, "data": x}, states)[0][0]

    def loss(params: dict, x: jax.Array) -> jax.Array:
        return -jax.nn.log_softmax(logits(params, x))[:, 3].mean()
    grads = jax.jit(jax.grad(loss))(params, jnp.asarray(images))
    one_by_one = jax.vmap(lambda x: logits(params, x[None])[0])(jnp.asarray(images))
    same = float(jnp.abs(one_by_one - logits(params, jnp.asarray(images))).max())
    print(f"in plain JAX: jax.grad of {len(grads)} parameters, |d fc2_weight| = "
          f"{float(jnp.linalg.norm(grads['fc2_weight'])):.4f}; vmap and batch differ by {same:.1e}")


def main() -> None:
    """Runs the demo."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("demo-output"))
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    mx.random.seed(0)
    np.random.seed(0)
    start = time.perf_counter()
    train, test = digits()
    prefix = train_with_module(train, test, options.epochs, options.output)
    train_imperatively(train, test, 5)
    reload_and_predict(prefix, options.epochs, test)
    go_on_in_jax(*compare_with_mxnet())
    print(f"done in {time.perf_counter() - start:.1f} s; files in {options.output}/")


if __name__ == "__main__":
    main()
