"""What public classes make of each of their options, in MXNet or mxjax.

    python options.py mxnet options.json.gz

writes the record that tests/test_options.py compares: a row for each class with its defaults, and with each option
changed alone.
"""

import gzip
import importlib
import inspect
import json
import sys
import warnings

import numpy as np

# values of arguments that have no default
GIVEN = {
    "channels": 2, "units": 3, "hidden_size": 3, "hidden_channels": 2, "kernel_size": 3, "pool_size": 2, "rate": 0.5,
    "axes": (1,), "input_dim": 5, "output_dim": 3, "activation": "relu", "function": "tanh", "factor": 2, "alpha": 0.1,
    "i2h_kernel": 3, "h2h_kernel": 3, "projection_size": 2, "num_groups": 2, "num_hidden": 3, "step": 2, "value": 0.5,
    "init": "zeros", "patterns": [".*"], "max_update": 10, "size": (6, 5), "area": 0.5, "ratio": (0.5, 2.0),
    "mean": 0.5,
    "std": 0.25, "min_area": 0.2, "brightness": 0.1, "contrast": 0.1, "saturation": 0.1, "hue": 0.1, "alphastd": 0.1,
    "eigval": np.array([1., 2., 3.]), "eigvec": np.eye(3), "p": 0.5,
    "dropout": 0.5, "feval": lambda label, pred: float((label * pred[:, 0]).sum()), "angle_limits": (-20, 20),
    "rotation_degrees": 30, "x": 1, "y": 2, "width": 4, "height": 3, "transforms": [], "ts": [], "num_layers": 2,
    "mode": "lstm", "outputs": [], "inputs": [],
}
# values of options whose default tells no type, or next to whose default no valid value lies
MORE = {"activation": "tanh", "strides": 2, "weight_initializer": "ones", "in_channels": 4, "in_units": 4,
        "input_size": 4, "ignore_label": 0, "factor": 0.5, "warmup_begin_lr": 0.005, "h2h_kernel": (5, 5),
        "dropout": 0.25, "input_shape": (1, 2, 8, 8)}
# options of a base class, which signatures do not name
INHERITED = {"optimizer": [{"wd": 0.25}, {"clip_gradient": 0.5}, {"rescale_grad": 0.5},
                           {"momentum": 0.5, "wd": 0.25, "clip_gradient": 0.5}]}
LEFT_OUT = {"prefix", "params", "dtype", "ctx", "name", "num_devices", "index", "clip_weights", "cudnn_off"}


def changed(value, name):
    """Returns another value of an option's type, or None."""
    if name in MORE:
        return MORE[name]
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + 1 if isinstance(value, int) else value * 0.5 + 0.125
    if isinstance(value, tuple) and value and all(isinstance(v, (int, float)) for v in value):
        return tuple(changed(v, name) for v in value)
    if isinstance(value, str) and value[:1] == "N" and "C" in value and len(value) < 6:
        return {"NTC": "TNC", "TNC": "NTC"}.get(value, f"N{value[2:]}C" if value[1] == "C" else None)
    return None


def arguments(cls, given):
    """Yields the keyword arguments of each row: the defaults, and each option changed alone."""
    parameters = [p for p in list(inspect.signature(cls.__init__).parameters.values())[1:]
                  if p.kind is p.POSITIONAL_OR_KEYWORD]
    needed = {p.name: given.get(p.name, GIVEN.get(p.name)) for p in parameters if p.default is p.empty}
    yield needed
    for p in parameters:
        if p.default is not p.empty and p.name not in LEFT_OUT:
            value = changed(p.default, p.name)
            if value is not None:
                yield {**needed, p.name: value}


def _nodes(mx, outputs):
    flat, rest = [], [outputs]
    while rest:
        value = rest.pop()
        flat, rest = (flat, rest + list(value)) if isinstance(value, (list, tuple)) else (flat + [value], rest)
    graph = json.loads(mx.sym.Group(flat[::-1]).tojson())
    return [[n["op"], n["name"], {k: v for k, v in n.get("attrs", {}).items() if k[:2] != "__" and v != "None"},
             [i[:2] for i in n["inputs"]]] for n in graph["nodes"]]


def _parameter(p):
    return [list(p.shape or ()), p.grad_req, np.dtype(p.dtype).name, p._stype, p.lr_mult, p.wd_mult,
            p.init if isinstance(p.init, str) else type(p.init).__name__]


def _made(cls, options):
    taken = inspect.signature(cls.__init__).parameters
    named = "prefix" in taken or any(p.kind is p.VAR_KEYWORD for p in taken.values())
    return cls(**options, **({"prefix": "n_"} if named and not {"base_cell", "l_cell"} & set(options) else {}))


def _block(mx, module, cls, options):
    """A layer, cell or loss: what it shows, its parameters, and its graph."""
    layer = _made(cls, options)
    named = layer if any("cell" in key for key in options) else cls(**options)
    parameters = {k: _parameter(p) for k, p in layer.collect_params().items()}
    told = {"repr": repr(layer), "name": named.name, "params": parameters}
    if module == "loss":
        taken = list(inspect.signature(cls.hybrid_forward).parameters.values())[2:]
        out = layer(*[mx.sym.var(p.name) for p in taken if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD])
    elif hasattr(layer, "unroll"):
        out = layer.unroll(2, [mx.sym.var("x0"), mx.sym.var("x1")], merge_outputs=False)
    elif "rnn" in module:
        out = layer(mx.sym.var("x"), [mx.sym.var(f"s{i}") for i in range(len(layer.state_info()))])
    else:
        out = layer(mx.sym.var("x"))
    return {**told, "nodes": _nodes(mx, out)}


def _symbolic_cell(mx, module, cls, options):
    """A cell of mx.rnn: its graph and the shapes of its states."""
    cell = _made(cls, options)
    if hasattr(cell, "unroll"):
        outputs = cell.unroll(2, mx.sym.var("x"), layout="NTC")
        return {"nodes": _nodes(mx, outputs), "states": [[list(s["shape"]), s["__layout__"]] for s in cell.state_info]}


def _schedule(mx, module, cls, options):
    """A schedule of learning rates: the rates."""
    schedule = cls(**options)
    return [float(schedule(t)) for t in (0, 1, 2, 3, 5, 6, 9, 10, 11, 30)]


def _initializer(mx, module, cls, options):
    return cls(**options).dumps()


_SCORES = np.array([[.1, .6, .3], [.5, .2, .3], [.3, .3, .4], [.8, .1, .1]], "float32")


def _metric(mx, module, cls, options):
    """A metric: its configuration and the values of two batches."""
    metric = cls(**options)
    name = cls.__name__
    if name in ("F1", "MCC"):
        pair = np.array([1, 0, 1, 1], "float32"), _SCORES[:, :2]
    elif name in ("MAE", "MSE", "RMSE", "PearsonCorrelation"):
        pair = _SCORES[::-1].copy(), _SCORES
    else:
        pair = np.array([1, 0, 0, 2], "float32"), _SCORES
    found = []
    for part in (slice(0, 3), slice(1, 4)):
        metric.update([mx.nd.array(pair[0][part])], [mx.nd.array(pair[1][part])])
        found.append([metric.get_name_value(), metric.get_global_name_value()])
    metric.reset_local()
    return [metric.get_config(), found, metric.get_global_name_value(), str(metric)[:11]]


def _optimizer(mx, module, cls, options):
    """An optimizer: the weight after each of two steps, and its states."""
    optimizer = cls(**options)
    optimizer.set_lr_mult({})
    weight = mx.nd.array(np.linspace(-1, 1, 6).reshape(2, 3).astype("float32"))
    state, found = optimizer.create_state_multi_precision(0, weight), []
    for step in range(2):
        grad = mx.nd.array(np.cos(np.arange(6) + step).reshape(2, 3).astype("float32"))
        single = not isinstance(state, list)
        optimizer.update_multi_precision(*(([0], [weight], [grad], [state]) if optimizer.aggregate_num and single and
                                          cls.__name__ in ("SGD", "LAMB", "LARS") else (0, weight, grad, state)))
        found.append([round(float(v), 5) for v in weight.asnumpy().ravel()])
    states = state if isinstance(state, (list, tuple)) else [state]
    return [found, [[round(float(v), 5) for v in s.asnumpy().ravel()] for s in states if hasattr(s, "asnumpy")]]


def _augmenter(mx, module, cls, options):
    return cls(**options).dumps()


def _transform(mx, module, cls, options):
    """A transform: its kind and what it computes, where it is not random."""
    transform = cls(**options)
    if "Random" in cls.__name__ or cls.__name__ in ("Compose", "HybridCompose"):
        return repr(transform)
    image = mx.nd.array(np.arange(192).reshape(8, 8, 3) % 251, dtype="uint8")
    if cls.__name__ in ("Normalize", "Rotate"):
        image = image.astype("float32").transpose((2, 0, 1))
    out = transform(image)
    return [out.dtype.__name__ if isinstance(out.dtype, type) else str(out.dtype), list(out.shape),
            [round(float(v), 3) for v in out.asnumpy().ravel()[::7]]]


KINDS = {
    "gluon.nn": ("gluon.nn", "gluon.Block", _block), "gluon.rnn": ("gluon.rnn", "gluon.Block", _block),
    "gluon.loss": ("gluon.loss", "gluon.Block", _block),
    "gluon.contrib.nn": ("gluon.contrib.nn", "gluon.Block", _block),
    "gluon.contrib.rnn": ("gluon.contrib.rnn", "gluon.Block", _block),
    "gluon.contrib.cnn": ("gluon.contrib.cnn", "gluon.Block", _block),
    "rnn": ("rnn", "rnn.BaseRNNCell", _symbolic_cell), "lr_scheduler": (
        "lr_scheduler", "lr_scheduler.LRScheduler", _schedule),
    "initializer": ("initializer", "initializer.Initializer", _initializer),
    "metric": ("metric", "metric.EvalMetric", _metric), "optimizer": ("optimizer", "optimizer.Optimizer", _optimizer),
    "image": ("image", "image.Augmenter", _augmenter),
    "transforms": ("gluon.data.vision.transforms", "gluon.Block", _transform),
}


def _special(mx, module, name):
    if name[:4] == "Conv" and name[4].isdigit() and name.endswith("Cell"):
        return {"input_shape": (2,) + (8,) * int(name[4])}
    lstm = mx.rnn.LSTMCell if module == "rnn" else mx.gluon.rnn.LSTMCell
    return {"l_cell": lstm(3, prefix="l_"), "r_cell": lstm(3, prefix="r_"), "base_cell": lstm(3, prefix="b_"),
            "input_shape": (1, 2, 8, 8), **({"step": [2, 5]} if name == "MultiFactorScheduler" else {})}


def rows(mx, kind, names=None):
    """Yields (class and options, what it makes of them) of a kind; errors are rows, too."""
    module_name, base, describe = KINDS[kind]
    module = importlib.import_module(mx.__name__ + "." + module_name)
    base = getattr(importlib.import_module(mx.__name__ + "." + base.rpartition(".")[0]), base.rpartition(".")[2])
    for name in names or sorted(vars(module)):
        cls = getattr(module, name)
        if not (inspect.isclass(cls) and issubclass(cls, base)) or cls is base or name[0] == "_":
            continue
        for options in [*arguments(cls, _special(mx, kind, name)), *INHERITED.get(kind, [])]:
            if "momentum" in options and "momentum" not in inspect.signature(cls.__init__).parameters:
                continue
            cells = {k: v for k, v in _special(mx, kind, name).items() if "cell" in k and k in options}  # used but once
            options = {**options, **cells}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                mx.random.seed(0)
                try:
                    with mx.name.NameManager():
                        found = describe(mx, kind.rpartition(".")[2], cls, options)
                except Exception:
                    found = "raises"
            shown = {k: v for k, v in options.items() if "cell" not in k and not isinstance(v, np.ndarray) and
                     k not in ("transforms", "ts", "feval")}
            yield f"{name}({', '.join(f'{key}={value!r}' for key, value in shown.items())})", found


if __name__ == "__main__":
    library = importlib.import_module(sys.argv[1])
    record = {kind: dict(rows(library, kind)) for kind in KINDS}
    with gzip.GzipFile(sys.argv[2], "wb", mtime=0) as file:
        file.write(json.dumps(record).encode())
