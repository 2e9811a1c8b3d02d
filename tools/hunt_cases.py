"""Cases of one call each: Hypothesis draws them, from what MXNet's API file says of each operator and function."""

import json
import re
from dataclasses import dataclass

import hunt_recipes
from hypothesis import strategies as st

FLOATS = ("float32", "float32", "float32", "float64", "float16")
DTYPES = FLOATS * 2 + ("int32", "int64", "uint8", "int8", "int32")
SHAPES = ((2, 3), (2, 3), (3,), (1,), (2, 1), (2, 3, 2), (1, 3), (4, 1, 2), (2, 2))
NUMPY_SHAPES = SHAPES + ((), (0,), (2, 0))
VALUES = ("eighths",) * 6 + ("normal", "special", "positive", "unit", "distinct", "zeros")
RANDOM = re.compile(r"random|sample|multinomial|bernoulli|choice|gumbel|pareto|weibull|logistic$|rayleigh|laplace|zipf|"
                    r"uniform|_normal|exponential|poisson")
UNSETTLED = re.compile(r"empty|multivariate_normal|[rR][nN][nN]$")  # no memory written, no seed, other dropout
# not a function of its arguments, or somebody else's: state of the process, files, other languages, host programs
LEFT_OUT = re.compile(r"imdecode|imread|imresize|copyMakeBorder|Custom|CachedOp|_NDArray|_Native|NoGradient|_foreach|"
                      r"while_loop|_cond|CrossDevice|sg_mkldnn|CustomFunction|\.(save|load|loadtxt|genfromtxt|fromfile|set_"
                      r"printoptions|waitall|from_dlpack|to_dlpack_\w+|from_numpy|onehot_encode|imports?|set_np|reset_np|"
                      r"seed|memmap|share_memory|shares_memory|may_share_memory|num_gpus|gpu|current_context|cpu\w*)$|"
                      r"concurrent|tvm|_copyto|dgl_csr_neighbor|fft$|_TensorRT|calibrate_entropy|histogramdd|mirr|npv|ppmt"
                      r"|\.rate$|\.pv$|\.rtc$|apply_along|apply_over|piecewise|load_frombuffer|_npi_share|_np\w*$|"
                      r"_set_value|_scatter_|_zeros_without")


@dataclass
class Target:
    """A function to call: its path from the package, tensors, [(parameter, type)], and the operator behind it."""

    path: str
    tensors: list
    params: list
    op: str
    many: bool = False  # any number of tensors
    packed: str = ""  # they come as one "list" or "tuple"
    numpy: bool = False
    out: bool = True  # takes out=
    recorded: bool = True  # NumPy's own functions refuse to be


class Draw:
    """Hypothesis' `draw` in the few forms that are needed here."""

    def __init__(self, draw):
        self.draw = draw

    def of(self, choices):
        return self.draw(st.sampled_from(choices))

    def once_in(self, n):
        return self.draw(st.integers(1, n)) == n

    def int(self, low, high):
        return self.draw(st.integers(low, high))

    def list(self, make, low, high):
        return [make() for _ in range(self.int(low, high))]


def targets(api: str) -> list:
    """What can be called, by MXNet's API file (`api`: its path)."""
    with open(api) as f:
        known = json.load(f)
    found = {}
    for name, op in known["operators"].items():
        for front in op.get("front") or ():
            if not front.startswith(("nd.", "sym.")) or re.match(r"(nd|sym)\.np(x)?\.", front):
                continue
            found[front] = _of_operator(front, name, op)
    for module, short in (("mx.numpy", "np"), ("mx.numpy.linalg", "np.linalg"), ("mx.numpy_extension", "npx"),
                          ("mx.numpy_extension.image", "npx.image"), ("mx.numpy.random", "np.random"),
                          ("mx.ndarray", "nd"), ("mx.ndarray.random", "nd.random"),
                          ("mx.ndarray.contrib", "nd.contrib"), ("mx.ndarray.sparse", "nd.sparse"),
                          ("mx.ndarray.linalg", "nd.linalg")):
        for name, function in known["modules"][module]["names"].items():
            path = f"{short}.{name}"
            if path in found or function.get("kind") != "function":
                continue
            op = known["operators"].get(function.get("op"))
            if op:
                found[path] = _of_operator(path, function["op"], op)
            elif function.get("code_sig") or function.get("sig"):
                found[path] = _of_signature(path, function.get("code_sig") or function["sig"])
    for name in known["modules"]["mx.numpy.fallback"]["names"]:
        if f"np.{name}" in found:
            found[f"np.{name}"].recorded = found[f"np.{name}"].out = False
    return [t for t in found.values() if not LEFT_OUT.search(t.path)]


def _of_operator(path, name, op):
    tensors = [a for a, kind in op["args"] if kind.startswith("NDArray") or kind == "Symbol"]
    params = [(a, kind) for a, kind in op["args"] if a not in tensors and a != op.get("key_var_num_args")]
    many = any(kind == "NDArray-or-Symbol[]" for _, kind in op["args"])
    return Target(path, tensors, params, name, many=many, numpy=path.startswith("np"))


ARRAYS = set("a b x x1 x2 arr ary m data A p y v q lhs rhs array condition indices base exp a1 a2 u prototype obj "
             "values element test_elements ar ar1 ar2 xp fp bins filt weights y_true val prepend append object "
             "source_array weight gamma beta".split())
LISTS = {"seq": "list", "arrays": "list", "tup": "tuple", "arys": "", "xi": "", "args": "", "choices": "list",
         "condlist": "list", "choicelist": "list", "operands": ""}


def _of_signature(path, signature):
    """By the names of a Python function's parameters."""
    tensors, params, many, packed = [], [], False, ""
    value = r"=(?:\([^)]*\)|\[[^]]*\]|[^,)]*(?:\([^)]*\))?)"  # a tuple, a list, or up to the next comma
    for part in re.findall(rf"(\*{{0,2}}\w+)((?:{value})?)", signature[1:-1]):
        name, default = part[0].lstrip("*"), part[1][1:]
        if part[0].startswith("**") or name in ("out", "ctx", "name", "kwargs", "order", "subok"):
            continue
        if name in LISTS or part[0].startswith("*"):
            many, packed = True, LISTS.get(name, "")
        elif name in ARRAYS and (not default or default == "None" and name in ("x", "y")) and not (params or many):
            tensors.append(name)
        else:
            params.append((name, ", optional, default=" + default if default else ", required"))
    return Target(path, tensors, params, path, many=many, packed=packed, numpy=path.startswith("np"),
                  out="out=" in signature)


@st.composite
def calls(draw, target: Target) -> dict:
    """Cases that call a target."""
    d = Draw(draw)
    symbolic = target.path.startswith("sym.")
    recipe = hunt_recipes.RECIPES.get(target.op) or hunt_recipes.RECIPES.get(target.op.split(".")[-1])
    if recipe and not d.once_in(12):
        inputs, params = recipe(d)
    else:
        inputs = _inputs(d, target)
        params = _params(d, target, [i["shape"] for i in inputs])
    dtype = d.of(DTYPES) if not recipe else d.of(FLOATS + ("float32",) * 8)
    values = d.of(VALUES) if not recipe or d.once_in(4) else "eighths"
    for i in inputs:
        i.setdefault("dtype", dtype if not d.once_in(25) else d.of(DTYPES))
        i.setdefault("values", values)
        i.setdefault("seed", d.int(0, 3))
    case = {"kind": "call", "fn": target.path, "inputs": inputs, "params": params}
    if "*" in params:
        case["before"] = params.pop("*")
    if target.packed:
        case["packed"] = target.packed
    if target.numpy:
        case["np"] = True
    if RANDOM.search(target.path):  # MXNet draws for ever where a parameter is NaN or negative
        for i in inputs:
            i["values"] = "positive"
    if UNSETTLED.search(target.path):
        case["random"] = True
    if not recipe and not target.numpy and not symbolic and d.once_in(12) and inputs:
        for i in inputs:
            if len(i["shape"]) == 2 and not d.once_in(3):
                i["stype"] = d.of(["csr", "row_sparse"])
            elif len(i["shape"]) > 2:
                i["stype"] = "row_sparse"
    case["record"] = d.of([0, 1, 1, 1, 2]) if not symbolic else d.of([0, 1, 1])
    if not target.recorded or not any(i["dtype"].startswith("float") for i in inputs) and not d.once_in(10):
        case["record"] = 0
    if case["record"]:
        if d.once_in(5):
            case["grad_req"] = "add"
            if symbolic:
                case["times"] = 2
        if d.once_in(2):
            case["heads"] = d.int(0, 3)
    if d.once_in(3):
        case["train"] = d.once_in(2)
    if symbolic and d.once_in(4):
        names = [f"x{i}" for i in range(len(inputs))]
        case["unknown"] = {n: sorted({d.int(0, 3) for _ in range(d.int(0, 2))}) for n in names}
    if not symbolic and inputs and target.out and d.once_in(8):
        case["record"] = 0
        case["out"] = 0 if d.once_in(2) else {"shape": inputs[0]["shape"] if not d.once_in(4) else list(d.of(SHAPES)),
                                             "dtype": inputs[0]["dtype"] if not d.once_in(4) else d.of(DTYPES),
                                             "seed": 9}
    if d.once_in(30):
        case["repeat"] = 3
    return case


def _inputs(d, target):
    count = len(target.tensors) if not target.many else d.int(1, 3)
    shapes = NUMPY_SHAPES if target.numpy else SHAPES
    shape = list(d.of(shapes))
    how = d.of(["same", "same", "same", "broadcast", "broadcast", "other"])
    inputs = []
    for i in range(count):
        if not i or how == "same":
            inputs.append({"shape": list(shape)})
        elif how == "broadcast":
            cut = d.int(0, len(shape)) if target.numpy else 0
            inputs.append({"shape": [1 if d.once_in(3) else n for n in shape[cut:]]})
        else:
            inputs.append({"shape": list(d.of(shapes))})
    names = target.tensors if not target.many else []
    for name, i in zip(names, inputs, strict=False):
        if name in hunt_recipes.INDEX_NAMES and not d.once_in(4):
            i.update(values="index", below=d.of([2, 3]), dtype=d.of(["float32", "int32", "int64", "float32"]))
            if target.numpy:
                i["dtype"] = d.of(["int32", "int64"])
    return inputs


def _params(d, target, shapes):
    params, shape = {}, shapes[0] if shapes else list(d.of(SHAPES))
    for name, kind in target.params:
        if "required" not in kind and d.once_in(2) or name in ("ctx", "name", "order", "cudnn_tune", "cudnn_off"):
            continue
        value = hunt_recipes.parameter(d, target, name, kind, shape)
        if value is not hunt_recipes.NONE:
            params[name] = value
    return params
