"""Short programs: statements over named values, one kind of program for each part of the API."""

from hunt_cases import Draw
from hypothesis import strategies as st

SHAPES = ((2, 3), (3, 2), (4,), (2, 1), (2, 3, 2), (1, 3))
UNARY = "exp log sqrt square abs sin tanh sigmoid relu sign floor ceil round rint log1p cbrt rsqrt negative".split()


def ref(name):
    return {"ref": name}


def call(path, *args, to=None, **kwargs):
    statement = {"call": path, "args": list(args), "kwargs": kwargs}
    return dict(statement, to=to) if to else statement


def new(name, shape, **more):
    statement = {"to": name, "array": dict({"shape": list(shape)}, **more)}
    grad = statement["array"].pop("grad", None)
    return dict(statement, grad=grad) if grad else statement


# numbers that don't hang on the package's random ones, where nothing else gives them
START = call("$net.initialize", {"call": ["init.Constant", {"value": 0.25}]})


# -------------------------------------------------------------------- arrays: views, writes, gradients
def _key(d, shape, numpy):
    """An index for an array of this shape."""
    parts = []
    for n in shape[:d.int(1, max(len(shape), 1))]:
        kind = d.int(0, 9)
        if kind < 3:
            parts.append(d.int(-n, n - 1) if not d.once_in(15) else n)
        elif kind < 8:
            parts.append({"slice": [d.of([None, 0, 1, -1]), d.of([None, n, 1, -1, 5]), d.of([None, None, 1, 2, -1])]})
        elif kind == 8:
            parts.append({"array": {"shape": [2], "dtype": d.of(["int64", "int32"]), "values": "index", "below": n}})
        else:
            parts.append(None if d.once_in(2) else [0, n - 1])
    if d.once_in(8):
        parts.insert(d.int(0, len(parts)), {"ellipsis": 1})
    return parts[0] if len(parts) == 1 and d.once_in(2) else {"tuple": parts}


def _number(d):
    return d.of([2, 0.5, -1, 1.5, 3, 0])


def _statement(d, names, numpy, fresh):
    """One step of a program over arrays; `names`: those that exist."""
    a, b = d.of(names), d.of(names)
    kind = d.int(0, 13)
    other = ref(b) if d.once_in(2) else _number(d)
    if kind == 0:
        return {"to": fresh, "binary": d.of(["+", "-", "*", "/", "%", "**", "==", "<", ">=", "!="]),
                "args": [ref(a), other] if not d.once_in(4) else [other, ref(a)]}
    if kind in (1, 2):
        return {"to": fresh, "item": a, "key": _key(d, [2, 3], numpy)}
    if kind in (3, 4):
        return {"set": a, "key": _key(d, [2, 3], numpy), "value": other}
    if kind == 5:
        return {"update": a, "op": d.of(["+=", "-=", "*=", "/=", "%="]), "value": other}
    if kind == 6:
        return call(f"{'np' if numpy else 'nd'}.{d.of(UNARY[:12] if numpy else UNARY)}", ref(a), to=fresh)
    if kind == 7:
        shape = d.of([[-1], [3, 2], [1, -1], [2, 3], [-1, 1], [0, -1], [-2], [1, 6], [6, 1], [-3]])
        return call(f"${a}.reshape", *([{"tuple": shape}] if d.once_in(2) else shape), to=fresh)
    if kind == 8:
        name, args = d.of([("sum", []), ("mean", []), ("max", []), ("min", []), ("sum", [0]), ("sum", [-1]),
                           ("mean", [1]), ("argmax", [0]), ("argmin", [-1]), ("prod", [0]), ("norm", []), ("max", [1])])
        return call(f"${a}.{name}", *args, to=fresh)
    if kind == 9:
        name, args = d.of([("transpose", []), ("flatten", []), ("copy", []), ("detach", []), ("squeeze", []),
                           ("expand_dims", [0]), ("expand_dims", [-1]), ("astype", ["float64"]), ("astype", ["int32"]),
                           ("astype", ["float16"]), ("swapaxes", [0, 1]), ("zeros_like", []), ("ones_like", []),
                           ("repeat", [2]), ("tile", [{"tuple": [2]}]), ("slice_axis", [0, 0, 1]), ("sort", []),
                           ("argsort", []), ("clip", [-1, 1]), ("flip", [0]), ("broadcast_to", [{"tuple": [2, 3]}]),
                           ("tostype", ["row_sparse"]), ("tostype", ["csr"]), ("asscalar", []), ("item", []),
                           ("slice", [{"tuple": [0]}, {"tuple": [1]}]), ("split", [1]), ("as_np_ndarray", []),
                           ("as_nd_ndarray", []), ("asnumpy", [])])
        return call(f"${a}.{name}", *args, to=fresh)
    if kind == 10:
        return call(f"${a}.copyto", ref(b))
    if kind == 11:
        return {"to": fresh, "attr": f"${a}.{d.of(['T', 'size', 'ndim', 'shape', 'grad', 'stype', 'dtype'])}"}
    if kind == 12:
        return call(f"${a}.attach_grad", *([d.of(["write", "add", "null"])] if d.once_in(3) else []))
    path = "np." + d.of(["add", "multiply", "maximum", "subtract", "dot", "concatenate"]) if numpy else "nd." + d.of(
        ["broadcast_add", "elemwise_mul", "broadcast_maximum", "dot", "concat", "elemwise_sub", "stack"])
    return call(path, ref(a), ref(b), to=fresh, **({"out": ref(d.of(names))} if d.once_in(3) else {}))


def _arrays(d):
    numpy = d.once_in(3)
    dtype = d.of(["float32", "float32", "float32", "float64", "int32", "float16", "uint8", "int64"])
    shape = d.of(SHAPES[:2] + SHAPES[:1] + SHAPES)
    body = [new(n, shape if not d.once_in(4) else d.of(SHAPES), seed=i, dtype=dtype if not d.once_in(8) else "float32",
                **({"grad": d.of(["write", "write", "add"])} if d.once_in(2) else {}))
            for i, n in enumerate("ab")]
    names, inner, at = ["a", "b"], [], d.int(0, 3)
    for i in range(d.int(2, 7)):
        statement = _statement(d, names, numpy, f"v{i}")
        (inner if i >= at else body).append(statement)
        if "to" in statement:
            names.append(statement["to"])
    if d.once_in(2):
        body.append({"with": d.of(["record", "record", "record_predict"]), "body": inner})
        heads = [n for n in names if n.startswith("v")] or ["a"]
        body.append({"backward": [d.of(heads[-2:])], **({"heads": 1} if d.once_in(2) else {}),
                     **({"retain": True} if d.once_in(3) else {})})
        if d.once_in(4):
            body.append({"backward": [d.of(heads[-2:])]})
    else:
        body += inner
    return {"about": "np arrays" if numpy else "arrays", "body": body, **({"np": True} if numpy else {})}


# -------------------------------------------------------------------- gluon
def _layers(d):
    conv = lambda n: {"kernel_size": d.int(1, 3), "strides": d.int(1, 2), "padding": d.int(0, 1), "groups": d.int(1, 2)}
    pool = lambda: {"pool_size": d.int(1, 3), "strides": d.of([None, 1, 2]), "padding": d.int(0, 1),
                    "ceil_mode": d.once_in(2)}
    act = lambda: {} if d.once_in(2) else {"activation": d.of(["relu", "tanh", "sigmoid", "softrelu", "softsign"])}
    n = d.int(1, 3)
    picture = [2, 2] + [d.int(3, 5) for _ in range(n)]
    bias = lambda: {"use_bias": d.once_in(2)}
    return d.of([
        lambda: ("Dense", d.of([[2, 3], [2, 2, 3], [1, 4]]),
                 {"units": d.int(1, 3), "flatten": d.once_in(2), **act(), **bias()}),
        lambda: (f"Conv{n}D", picture, {"channels": 2 * d.int(1, 2), **conv(n), **act(), **bias()}),
        lambda: (f"Conv{n}DTranspose", picture, {"channels": 2 * d.int(1, 2), **conv(n), **bias()}),
        lambda: (f"MaxPool{n}D", picture, pool()),
        lambda: (f"AvgPool{n}D", picture, {**pool(), "count_include_pad": d.once_in(2)}),
        lambda: (d.of([f"GlobalAvgPool{n}D", f"GlobalMaxPool{n}D"]), picture, {}),
        lambda: ("LayerNorm", [2, 3], {"axis": d.of([-1, 0, 1]), "center": d.once_in(2), "scale": d.once_in(2)}),
        lambda: ("InstanceNorm", [2, 3, 4], {"axis": d.of([1, 2, -1]), "scale": d.once_in(2)}),
        lambda: ("GroupNorm", [2, 4, 3], {"num_groups": d.of([1, 2, 4]), "center": d.once_in(2)}),
        lambda: (d.of(["ELU", "SELU", "GELU", "Flatten", "Swish", "PReLU"]), d.of([[2, 3], [2, 3, 2]]), {}),
        lambda: ("LeakyReLU", [2, 3], {"alpha": d.of([0.1, 0.5, 0])}),
        lambda: ("ReflectionPad2D", [1, 2, 4, 4], {"padding": d.int(0, 2)}),
        lambda: ("Embedding", [2, 3], {"input_dim": 4, "output_dim": 2}),
        lambda: ("Activation", [2, 3], {"activation": d.of(["relu", "tanh", "sigmoid", "softrelu", "softsign"])}),
    ])()


def _gluon(d):
    name, shape, kwargs = _layers(d)
    data = {"shape": shape, "seed": d.int(0, 3), **({"values": "index", "below": 4} if name == "Embedding" else {})}
    body = [call(f"gluon.nn.{name}", to="net", **kwargs), START,
            {"to": "x", "array": data, "grad": "write"}, call("$net", ref("x"), to="y0")]
    body += [{"fill": "net"}]
    if d.once_in(2):
        body.append(call("$net.hybridize", **({"static_alloc": True} if d.once_in(3) else {})))
    if d.once_in(6):
        body += [call("$net.cast", d.of(["float64", "float16"])), call("$x.astype", "float64", to="x")]
    body += [{"with": "record" if "Pool" in name else d.of(["record", "record", "record_predict"]),
              "body": [call("$net", ref("x"), to="y")]},
             {"backward": ["y"], "heads": 1}, {"to": "p", "params": "net"}]
    return {"about": f"gluon.nn.{name}", "body": body}


def _rnn(d):
    name = d.of(["LSTM", "GRU", "RNN"])
    kwargs = {"hidden_size": d.int(1, 2), "num_layers": d.int(1, 2), "bidirectional": d.once_in(3),
              "layout": d.of(["TNC", "NTC"])}
    if name == "RNN":
        kwargs["activation"] = d.of(["relu", "tanh"])
    cell = d.once_in(3)
    if cell:
        body = [call(f"gluon.rnn.{name}Cell", kwargs["hidden_size"], to="net"), START]
        use = call("$net.unroll", 2, ref("x"), to="y", layout=kwargs["layout"], merge_outputs=d.of([True, False, None]))
    else:
        body = [call(f"gluon.rnn.{name}", to="net", **kwargs), START]
        use = call("$net", ref("x"), to="y")
    body += [new("x", (2, 2, 3), grad="write"), use, {"fill": "net"}, {"with": "record", "body": [use]}]
    body += [{"backward": ["y"], "heads": 1}, {"to": "p", "params": "net"}]
    return {"about": f"gluon.rnn.{name}", "body": body}


LOSSES = {"L1Loss": {}, "L2Loss": {}, "HuberLoss": {"rho": [0.5, 2]}, "HingeLoss": {"margin": [0.5, 2]},
          "SquaredHingeLoss": {"margin": [0.5, 2]}, "LogisticLoss": {"label_format": ["signed", "binary"]},
          "KLDivLoss": {"from_logits": [True, False], "axis": [0, 1]},
          "SigmoidBCELoss": {"from_sigmoid": [False, True]},
          "SoftmaxCELoss": {"sparse_label": [True, False], "axis": [1, -1], "from_logits": [True, False]},
          "PoissonNLLLoss": {"from_logits": [True, False], "compute_full": [True]}, "TripletLoss": {"margin": [0.5]},
          "CosineEmbeddingLoss": {"margin": [0.5]}, "SDMLLoss": {"smoothing_parameter": [0.1]}}


def _loss(d):
    name = d.of(sorted(LOSSES))
    kwargs = {k: d.of(v) for k, v in LOSSES[name].items() if d.once_in(2)}
    if d.once_in(3):
        kwargs["weight"] = d.of([0.5, 2])
    if d.once_in(4):
        kwargs["batch_axis"] = d.of([0, 1])
    values = "positive" if name in ("PoissonNLLLoss",) or kwargs.get("from_sigmoid") else "eighths"
    body = [new("x", (2, 3), grad="write", values="unit" if kwargs.get("from_sigmoid") else values)]
    label = {"shape": [2, 3], "seed": 2, "values": d.of(["positive", "index", "eighths"])}
    if name == "SoftmaxCELoss" and kwargs.get("sparse_label", True):
        label = {"shape": [2], "values": "index", "below": 3}
    body += [{"to": "l", "array": label}, new("z", (2, 3), seed=5), call(f"gluon.loss.{name}", to="loss", **kwargs)]
    args = [ref("x"), ref("l")]
    if name in ("TripletLoss", ):
        args.append(ref("z"))
    if name == "CosineEmbeddingLoss":
        body.append({"to": "sign", "array": {"shape": [2], "data": [1, -1]}})
        args.append(ref("sign"))
    elif d.once_in(4):
        body.append(new("w", d.of([(2, 1), (2, 3), (1, 3)]), values="positive"))
        args.append(ref("w"))
    if d.once_in(3):
        body.append(call("$loss.hybridize"))
    body += [{"with": "record", "body": [call("$loss", *args, to="y")]}, {"backward": ["y"]}]
    return {"about": f"gluon.loss.{name}", "body": body}


# -------------------------------------------------------------------- metrics, optimizers, iterators, schedules
METRICS = {"Accuracy": ("index", "class"), "TopKAccuracy": ("index", "class"), "F1": ("binary", "class"),
           "MCC": ("binary", "class"), "MAE": ("same", "same"), "MSE": ("same", "same"), "RMSE": ("same", "same"),
           "CrossEntropy": ("index", "prob"), "NegativeLogLikelihood": ("index", "prob"),
           "Perplexity": ("index", "prob"), "PearsonCorrelation": ("same", "same"), "Loss": ("same", "same"),
           "PCC": ("index", "class")}


def _metric(d):
    name = d.of(sorted(METRICS))
    label, how = METRICS[name]
    kwargs = {}
    if name == "Accuracy" and d.once_in(3):
        kwargs["axis"] = d.of([0, 1, -1])
    if name == "TopKAccuracy":
        kwargs["top_k"] = d.int(1, 3)
    if name in ("F1", "MCC", "PearsonCorrelation") and d.once_in(2):
        kwargs["average"] = d.of(["macro", "micro"])
    if name == "Perplexity":
        kwargs["ignore_label"] = d.of([None, 0, 1])
    if name in ("CrossEntropy", "NegativeLogLikelihood") and d.once_in(2):
        kwargs["eps"] = 1e-6
    classes, body = 2 if label == "binary" else 3, [call(f"metric.{name}", to="m", **kwargs)]
    for i in range(d.int(1, 3)):
        rows = d.int(1, 4)
        labels = {"shape": [rows] if label != "same" or d.once_in(2) else [rows, 2], "seed": i}
        if label != "same":
            labels.update(values="index", below=classes, dtype=d.of(["float32", "int32"]))
        preds = dict(labels, seed=i + 7) if label == "same" else {
            "shape": [rows, classes], "values": "distinct" if how == "class" else "positive", "seed": i + 3}
        if how == "class" and name == "Accuracy" and d.once_in(3):
            preds = dict(labels, seed=9)
        body += [{"to": f"l{i}", "array": labels}, {"to": f"p{i}", "array": preds},
                 call("$m.update", [ref(f"l{i}")], [ref(f"p{i}")]), call("$m.get", to=f"g{i}")]
        if d.once_in(5):
            body.append(call(d.of(["$m.reset", "$m.reset_local"])))
    body += [call("$m.get_global", to="all"), call("$m.get_name_value", to="pairs"), call("$m.get_config", to="config")]
    return {"about": f"metric.{name}", "body": body}


OPTIMIZERS = {"SGD": {"momentum": [0.9], "lazy_update": [False]}, "NAG": {"momentum": [0.9]}, "Adam": {"beta1": [0.5]},
              "AdaGrad": {"eps": [1e-3]}, "AdaDelta": {"rho": [0.5]}, "Adamax": {"beta1": [0.5]},
              "Nadam": {"beta1": [0.5]}, "Ftrl": {"lamda1": [0.1]}, "FTML": {"beta1": [0.5]},
              "RMSProp": {"centered": [True, False], "gamma1": [0.5], "clip_weights": [0.5]},
              "Signum": {"momentum": [0.5, 0], "wd_lh": [0.01]}, "LARS": {"momentum": [0.9], "eta": [0.1]},
              "LAMB": {"bias_correction": [False], "lower_bound": [0.1], "upper_bound": [2]}, "DCASGD": {},
              "LBSGD": {"momentum": [0.9], "warmup_strategy": ["linear", "power2", "sqrt", "lars"]}}


def _optimizer(d):
    name = d.of(sorted(OPTIMIZERS))
    kwargs = {k: d.of(v) for k, v in OPTIMIZERS[name].items() if d.once_in(2)}
    for key, values in (("learning_rate", [0.1, 0.01]), ("wd", [0.1, 0.01]), ("rescale_grad", [0.5]),
                        ("clip_gradient", [0.5]), ("multi_precision", [True]), ("begin_num_update", [2])):
        if d.once_in(3):
            kwargs[key] = d.of(values)
    if d.once_in(5):
        kwargs["lr_scheduler"] = {"call": ["lr_scheduler.FactorScheduler", {"step": 2, "factor": 0.5}]}
    dtype = d.of(["float32"] * 4 + ["float16", "float64"])
    body = [call(f"optimizer.{name}", to="opt", **kwargs), call("optimizer.get_updater", ref("opt"), to="u")]
    shapes = [d.of([(2, 3), (3,)]) for _ in range(d.int(1, 2))]
    body += [new(f"w{i}", shape, dtype=dtype, seed=i) for i, shape in enumerate(shapes)]
    for step in range(d.int(1, 4)):
        for i, shape in enumerate(shapes):
            grad = f"g{step}{i}"
            body += [new(grad, shape, dtype=dtype, seed=step * 5 + i + 10), call("$u", i, ref(grad), ref(f"w{i}"))]
    body += [{"to": "lr", "attr": "$opt.learning_rate"}, {"to": "n", "attr": "$opt.num_update"}]
    return {"about": f"optimizer.{name}", "body": body}


def _trainer(d):
    name = d.of(sorted(OPTIMIZERS))
    body = [call("gluon.nn.Dense", 2, to="net", in_units=3), START, {"fill": "net"}, new("x", (2, 3)),
            call("gluon.Trainer", ref("ps"), name.lower(),
                 {"dict": {"learning_rate": 0.1}}, to="t")]
    body.insert(3, call("$net.collect_params", to="ps"))
    for _ in range(d.int(1, 3)):
        body += [{"with": "record", "body": [call("$net", ref("x"), to="y")]}, {"backward": ["y"]},
                 call("$t.step", d.int(1, 3))]
        if d.once_in(4):
            body.append(call("$t.set_learning_rate", 0.5))
    return {"about": "gluon.Trainer " + name, "body": body + [{"to": "p", "params": "net"}]}


def _iterator(d):
    rows, size = d.int(1, 6), d.int(1, 4)
    kwargs = {"batch_size": size, "last_batch_handle": d.of(["pad", "discard", "roll_over"])}
    data = {"array": {"shape": [rows, 2], "dtype": d.of(["float32", "int32", "float64"])}}
    label = {"array": {"shape": [rows], "seed": 3}}
    args = [data] + ([label] if d.once_in(2) else [])
    if d.once_in(4):
        args = [{"dict": {"b": data, "a": label}}]
    body = [call("io.NDArrayIter", *args, to="it", **kwargs)]
    for i in range(d.int(2, 5)):
        body.append(call("$it.next", to=f"n{i}"))
        body += [{"to": f"{part}{i}", "attr": f"$n{i}.{part}"} for part in ("data", "label", "pad")]
        if d.once_in(4):
            body.append(call(d.of(["$it.reset", "$it.hard_reset"])))
    return {"about": "io.NDArrayIter", "body": body + [{"to": "pd", "attr": "$it.provide_data"}]}


def _schedule(d):
    kwargs = {"base_lr": 0.5}
    if d.once_in(2):
        kwargs.update(warmup_steps=d.int(0, 3), warmup_begin_lr=0.1, warmup_mode=d.of(["linear", "constant"]))
    name, own = d.of([("FactorScheduler", {"step": d.int(1, 3), "factor": 0.5, "stop_factor_lr": d.of([1e-8, 0.2])}),
                         ("MultiFactorScheduler", {"step": [2, 4], "factor": 0.5}),
                         ("PolyScheduler", {"max_update": d.int(1, 6), "pwr": d.int(1, 3), "final_lr": d.of([0, 0.1])}),
                         ("CosineScheduler", {"max_update": d.int(1, 6), "final_lr": d.of([0, 0.1])})])
    return {"about": f"lr_scheduler.{name}", "body": [call(f"lr_scheduler.{name}", to="s", **own, **kwargs)] + [
        call("$s", n, to=f"r{n}") for n in range(0, 8)]}


# -------------------------------------------------------------------- symbols
def _node(d, x, y):
    """A statement that makes a symbol of two others."""
    return d.of([
        lambda: {"binary": d.of(["+", "-", "*", "/"]), "args": [x, y]},
        lambda: {"binary": d.of(["+", "*", "-", "/", "**", ">"]), "args": [x, d.of([2, 0.5, 1.5])]},
        lambda: call(f"sym.{d.of(UNARY)}", x),
        lambda: call("sym.FullyConnected", x, num_hidden=d.int(1, 3), no_bias=d.once_in(2), flatten=d.once_in(2)),
        lambda: call("sym.reshape", x, shape={"tuple": d.of([[-1], [0, -1], [3, 2], [-1, 2], [-2]])}),
        lambda: call("sym.transpose", x),
        lambda: call("sym.sum", x, axis=d.of([0, 1, -1]), keepdims=d.once_in(2)),
        lambda: call("sym.concat", x, y, dim=d.of([0, 1])),
        lambda: call(f"sym.{d.of(['dot', 'broadcast_add', 'broadcast_mul'])}", x, y),
        lambda: call("sym.expand_dims", x, axis=d.of([0, 1, -1])),
        lambda: call("sym.slice_axis", x, axis=0, begin=0, end=1),
        lambda: call(f"sym.{d.of(['SoftmaxOutput', 'BlockGrad'])}", x),
        lambda: call("sym.Cast", x, dtype=d.of(["float64", "float16", "int32"])),
        lambda: call("sym.Group", [x, y]),
        lambda: call("sym.softmax", x, axis=d.of([-1, 0])),
    ])()


def _symbol(d):
    body, names = [call("sym.var", n, to=n) for n in "ab"], ["a", "b"]
    for i in range(d.int(1, 4)):
        body.append(dict(_node(d, ref(d.of(names)), ref(d.of(names))), to=f"v{i}"))
        names.append(f"v{i}")
    last = names[-1]
    shapes = {n: [k if not d.once_in(4) else 0 for k in d.of([(2, 3), (2, 3), (3, 2), (3, 3)])]
              for n in "ab" if not d.once_in(5)}
    body += [call(f"${last}.list_arguments", to="args"), call(f"${last}.list_outputs", to="outs"),
             {"to": "found", "infer": last, "shapes": shapes, "how": d.of(["", "_partial"]),
              "types": d.of([{}, {"a": "float64"}, {"a": "float32"}])}]
    if d.once_in(2):
        body += [call(f"${last}.tojson", to="json"), call("sym.load_json", ref("json"), to="again"),
                 {"to": "json", "attr": "$again.name"}]
        last = "again"
    arrays = {n: {"shape": [2, 3] if not d.once_in(4) else [3, 3], "seed": i} for i, n in enumerate("ab")}
    body.append({"to": "bound", "bind": last, "arrays": arrays, "grad_req": d.of(["write", "add", "null"]),
                 "train": d.once_in(2), "times": d.int(1, 2)})
    return {"about": "symbols", "body": body}


KINDS = (_arrays,) * 8 + (_gluon,) * 4 + (_symbol,) * 4 + (_optimizer,) * 2 + (_metric,) * 2 + (
    _loss, _rnn, _trainer, _iterator, _schedule)


@st.composite
def programs(draw) -> dict:
    """Cases that are short programs."""
    d = Draw(draw)
    return {"kind": "program", **d.of(KINDS)(d)}
