"""Runs cases with one package and tells what came out, as plain data.

    python hunt_run.py PACKAGE     PACKAGE is mxnet or mxjax; a case (JSON) a line comes in, an answer a line goes out

A case is `{"kind": "program", "body": [statement, ...]}` or `{"kind": "call", ...}`, which `as_program` turns into one.
A statement that raises ends alone: those that need its value are left out, the others run. What a case may say stands
in README.md. The file runs under every Python from 3.7 on, for MXNet's sake.
"""

import json
import operator
import os
import sys

import numpy as np

LARGEST = 4096  # values of an array that are told
BINARY = {"+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow", "@": "matmul",
          "==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge", "&": "and_", "|": "or_", "^": "xor",
          "+=": "iadd", "-=": "isub", "*=": "imul", "/=": "itruediv", "%=": "imod", "**=": "ipow"}


class Skipped(Exception):
    """A statement needs a value that an earlier one failed to make."""


def numbers(spec):
    """The NumPy array that a description means: its `data`, or numbers drawn by `values` and `seed`."""
    dtype, shape = np.dtype(spec.get("dtype", "float32")), tuple(spec.get("shape", ()))
    if "data" in spec:
        return np.array(spec["data"], dtype="float64" if dtype.kind == "f" else None).astype(dtype).reshape(shape)
    rng, how = np.random.RandomState(spec.get("seed", 0)), spec.get("values", "eighths")
    if how in ("zeros", "ones"):
        return np.full(shape, how == "ones", dtype)
    if how == "index":
        return rng.randint(0, spec.get("below", 2), shape).astype(dtype)
    if dtype.kind == "b":
        return rng.randint(0, 2, shape).astype(dtype)
    if dtype.kind in "iu":
        if how == "special":
            limits = np.iinfo(dtype)
            return rng.choice(np.array([limits.min, limits.max, 0, 1, 100], dtype), shape)
        return rng.randint(1 if how == "positive" else 0 if dtype.kind == "u" else -4, 6, shape).astype(dtype)
    if how == "special":
        return rng.choice(np.array([np.nan, np.inf, -np.inf, 0, -0.0, 1.5, -2.5, 300, 3e4]), shape).astype(dtype)
    if how == "positive":
        return (rng.randint(1, 24, shape) / 8).astype(dtype)
    if how == "unit":
        return (rng.randint(-7, 8, shape) / 8).astype(dtype)
    if how == "normal":
        return rng.normal(size=shape).astype(dtype)
    if how == "distinct":
        return (rng.permutation(int(np.prod(shape))).reshape(shape) / 4 - 1).astype(dtype)
    return (rng.randint(-24, 25, shape) / 8).astype(dtype)


def _sparse_values(values, spec):
    """The same with whole rows (row_sparse) or single places (csr) at zero."""
    rng = np.random.RandomState(spec.get("seed", 0) + 1)
    if values.ndim:
        kept = rng.randint(0, 2, values.shape[:1] if spec["stype"] == "row_sparse" else values.shape)
        values = np.where(kept.reshape(kept.shape + (1,) * (values.ndim - kept.ndim)), values, 0).astype(values.dtype)
    return values


class Run:
    """One case in one package."""

    def __init__(self, mx, case):
        self.mx, self.names, self.steps, self.numpy = mx, {}, [], bool(case.get("np"))

    def answer(self, case):
        """{"steps": outcomes of the statements, "values": what the names hold at the end}."""
        self.body(as_program(case))
        values = {}
        for name, value in self.names.items():
            try:
                values[name] = self.tell(value)
            except Exception as e:  # noqa: BLE001
                values[name] = {"error": kinds(e), "said": _said(e)}
        return {"steps": self.steps, "values": values}

    def body(self, statements):
        for statement in statements:
            if "with" in statement:
                with self.scope(statement["with"]):
                    self.body(statement["body"])
                continue
            try:
                self.do(statement)
                self.steps.append("ok")
            except Skipped:
                self.steps.append("skipped")
            except Exception as e:  # noqa: BLE001
                self.names.pop(statement.get("to"), None)
                self.steps.append({"error": kinds(e), "said": _said(e)})

    def scope(self, name):
        autograd = self.mx.autograd
        if name == "record_predict":
            return autograd.record(train_mode=False)
        return getattr(autograd, name)()

    def do(self, statement):
        verb = next(v for v in VERBS if v in statement)
        value = getattr(self, "do_" + verb)(statement, statement[verb])
        if "to" in statement:
            self.names[statement["to"]] = value
        self.wait(value)

    def wait(self, value):
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(item, self.mx.nd.NDArray):
                item.wait_to_read()

    def do_array(self, statement, spec):
        array = self.array(spec)
        if statement.get("grad"):
            array.attach_grad(statement["grad"])
        return array

    def do_call(self, statement, path):
        function = self.named(path)
        args = [self.value(a) for a in statement.get("args", ())]
        return function(*args, **{k: self.value(v) for k, v in statement.get("kwargs", {}).items()})

    def do_attr(self, statement, path):
        return self.named(path)

    def do_item(self, statement, name):
        return self.find(name)[self.value(statement["key"])]

    def do_set(self, statement, name):
        self.find(name)[self.value(statement["key"])] = self.value(statement["value"])

    def do_update(self, statement, name):
        self.names[name] = self.operator(statement["op"], self.find(name), self.value(statement["value"]))

    def do_binary(self, statement, sign):
        return self.operator(sign, *[self.value(a) for a in statement["args"]])

    def do_backward(self, statement, names):
        heads = [h for name in names for h in self.flat(self.find(name))]
        self.mx.autograd.backward(heads, self.head_grads(statement, heads), retain_graph=statement.get("retain", False))
        self.mx.nd.waitall()

    def do_grad(self, statement, names):
        heads = [h for name in names for h in self.flat(self.find(name))]
        return self.mx.autograd.grad(heads, [self.find(v) for v in statement["of"]], self.head_grads(statement, heads),
                                     create_graph=statement.get("create", False), retain_graph=True)

    def head_grads(self, statement, heads):
        """Arrays like the heads, by the statement's seed; None without one."""
        seed = statement.get("heads")
        return None if seed is None else [self.like(h, seed + i) for i, h in enumerate(heads)]

    def do_bind(self, statement, name):
        """An executor of a symbol: [outputs, gradients by name, auxiliary states by name]."""
        symbol, mx = self.find(name), self.mx
        given = {k: self.array(v) for k, v in statement["arrays"].items()}
        shapes, _, aux_shapes = symbol.infer_shape(**{k: v.shape for k, v in given.items()
                                                      if k in symbol.list_arguments()})
        if shapes is None:
            raise Skipped("shapes that cannot be told")
        args, aux = {}, {}
        for kept, names, inferred in ((args, symbol.list_arguments(), shapes),
                                      (aux, symbol.list_auxiliary_states(), aux_shapes)):
            for key, shape in zip(names, inferred):
                kept[key] = given[key] if key in given else self.array({"shape": shape, "values": "ones"})
        req = statement.get("grad_req", "null")
        grads = {k: v * 0 + 1 for k, v in args.items()} if req != "null" else None
        executor = symbol.bind(mx.cpu(), args, grads, req, aux)
        train = statement.get("train", False)
        for _ in range(statement.get("times", 1)):
            executor.forward(is_train=train)
            if req != "null":
                executor.backward([self.like(o, i) for i, o in enumerate(executor.outputs)])
        mx.nd.waitall()
        return [list(executor.outputs), grads, aux]

    def do_infer(self, statement, name):
        """What a symbol infers of shapes ("partial" ones too) and types."""
        symbol = self.find(name)
        shapes = {k: tuple(v) for k, v in statement.get("shapes", {}).items()}
        found = [getattr(symbol, "infer_shape" + statement.get("how", ""))(**shapes)]
        if "types" in statement:
            types = symbol.infer_type(**statement["types"])
            found.append([t if t is None else [np.dtype(d).name if d is not None else None for d in t]
                          for t in types])
        return found

    def do_fill(self, statement, name):
        """Gives a block's parameters numbers that do not hang on the package's random ones."""
        for i, parameter in enumerate(self.find(name).collect_params().values()):
            how = "positive" if parameter.name.endswith(("gamma", "var")) else "unit"
            parameter.set_data(self.array({"shape": parameter.shape, "dtype": np.dtype(parameter.dtype).name,
                                           "values": how, "seed": i + statement.get("seed", 0)}))

    def do_params(self, statement, name):
        """A block's parameters: [shape, values, gradient] in their order."""
        return [[list(p.shape), p.data(), p.grad() if p.grad_req != "null" else None]
                for p in self.find(name).collect_params().values()]

    def operator(self, sign, *args):
        return getattr(operator, BINARY[sign])(*args)

    def flat(self, value):
        return [f for v in value for f in self.flat(v)] if isinstance(value, (list, tuple)) else [value]

    def like(self, array, seed):
        return self.array({"shape": array.shape, "dtype": np.dtype(array.dtype).name, "seed": seed}, like=array)

    def array(self, spec, like=None):
        values, mx = numbers(spec), self.mx
        np_array = self.numpy if like is None else isinstance(like, mx.np.ndarray)
        if np_array:
            return mx.np.array(values, dtype=values.dtype)
        stype = spec.get("stype", "default")
        if stype != "default":
            return mx.nd.array(_sparse_values(values, spec), dtype=values.dtype).tostype(stype)
        return mx.nd.array(values, dtype=values.dtype)

    def find(self, name):
        if name not in self.names:
            raise Skipped(name)
        return self.names[name]

    def named(self, path):
        first, *rest = path.split(".")
        found = self.find(first[1:]) if first.startswith("$") else getattr(self.mx, first)
        for name in rest:
            found = getattr(found, name)
        return found

    def value(self, form):
        """The Python value that a JSON form means."""
        if isinstance(form, list):
            return [self.value(f) for f in form]
        if not isinstance(form, dict):
            return form
        (kind, what), = form.items() if len(form) == 1 else [(None, None)]
        if kind == "ref":
            return self.find(what)
        if kind == "array":
            return self.array(what)
        if kind == "numpy":
            return numbers(what)
        if kind == "tuple":
            return tuple(self.value(w) for w in what)
        if kind == "dict":
            return {k: self.value(v) for k, v in what.items()}
        if kind == "slice":
            return slice(*what)
        if kind == "float":
            return float(what)
        if kind == "type":
            return np.dtype(what).type
        if kind == "ellipsis":
            return Ellipsis
        if kind == "named":
            return self.named(what)
        if kind == "call":
            return self.named(what[0])(**{k: self.value(v) for k, v in what[1].items()})
        raise ValueError("no such form: %r" % (form,))

    def tell(self, value, depth=0):
        """A value as plain data."""
        if value is None or isinstance(value, (bool, str)):
            return value
        if isinstance(value, (int, float)):  # NumPy's float64 is a float too
            return value
        if isinstance(value, np.generic):
            return {"type": "number", "dtype": value.dtype.name, "data": value.item()}
        if isinstance(value, np.ndarray):
            return dict(self.told(value), type="numpy")
        if isinstance(value, (list, tuple)) and depth < 5:
            return {"type": type(value).__name__ if type(value) in (list, tuple) else "tuple",
                    "items": [self.tell(v, depth + 1) for v in value]}
        if isinstance(value, dict):
            return {"type": "dict", "items": {str(k): self.tell(v, depth + 1) for k, v in value.items()}}
        mx = self.mx
        if isinstance(value, mx.nd.NDArray):
            told = dict(self.told(value.asnumpy()), type=type(value).__name__, ctx=str(value.context),
                        stype=value.stype)
            told.update(dtype=np.dtype(value.dtype).name, shape=list(value.shape))
            if value.stype != "default":
                told["indices"] = self.told(value.indices.asnumpy())
            if value.grad is not None and depth < 5:
                told["grad"] = self.tell(value.grad, depth + 5)
            return told
        if isinstance(value, mx.sym.Symbol):
            return {"type": "Symbol", "arguments": value.list_arguments(), "outputs": value.list_outputs(),
                    "aux": value.list_auxiliary_states()}
        return {"type": "object"}

    def told(self, array):
        data = array.ravel()[:LARGEST]
        return {"shape": list(array.shape), "dtype": array.dtype.name,
                "data": data.astype("float64").tolist() if array.dtype.kind not in "biu" else data.tolist()}


VERBS = ("array", "call", "attr", "item", "set", "update", "binary", "backward", "grad", "bind", "infer", "fill",
         "params")


def kinds(error):
    """The names of an error's classes, the nearest first."""
    return [c.__name__ for c in type(error).__mro__ if c not in (BaseException, object)]


def _said(error):
    """The end of its message, where MXNet's errors come to the point."""
    return str(error).strip()[-300:]


def as_program(case):
    """The statements of a case: a call makes its inputs, calls, and walks back as far as it says."""
    if case["kind"] == "program":
        return case["body"]
    inputs, names, body = case["inputs"], [], []
    record, symbolic = case.get("record", 0), case["fn"].startswith("sym.")
    if symbolic:
        names = ["x%d" % i for i in range(len(inputs))]
        body += [{"to": "s" + n, "call": "sym.var", "args": [n]} for n in names]
        call = {"to": "s", "call": case["fn"], "args": _given(case, ["s" + n for n in names]),
                "kwargs": case.get("params", {})}
        shapes = {n: list(i["shape"]) for n, i in zip(names, inputs)}
        for n, places in (case.get("unknown") or {}).items():  # lengths that inference has to find
            shapes[n] = [0 if k in places else d for k, d in enumerate(shapes.get(n, []))]
        if "unknown" in case:
            return body + [call, {"to": "found", "infer": "s", "shapes": shapes, "how": "_partial"}]
        return body + [call, {"to": "bound", "bind": "s", "arrays": dict(zip(names, inputs)),
                              "train": case.get("train", False), "times": case.get("times", 1),
                              "grad_req": case.get("grad_req", "write") if record else "null"}]
    for i, spec in enumerate(inputs):
        names.append("x%d" % i)
        body.append({"to": names[-1], "array": spec})
        if record and spec.get("grad", True):
            body[-1]["grad"] = case.get("grad_req", "write")
    kwargs = dict(case.get("params", {}))
    if case.get("out") is not None:
        out = case["out"]
        if isinstance(out, dict):
            body.append({"to": "o", "array": out})
        kwargs["out"] = {"ref": "o" if isinstance(out, dict) else names[out]}
    call = {"to": "y", "call": case["fn"], "args": _given(case, names), "kwargs": kwargs}
    if not record:
        return body + [{"with": "train_mode", "body": [call]}] if case.get("train") else body + [call]
    scope = "record" if case.get("train", True) else "record_predict"
    wanted = [n for n, spec in zip(names, inputs)
              if spec.get("grad", True) and spec.get("dtype", "float32").startswith("float")]
    if record == 2 and wanted:
        first = {"to": "g", "grad": ["y"], "of": wanted, "create": True, "heads": case.get("heads", 0)}
        return body + [{"with": scope, "body": [call, first]}, {"backward": ["g"], "heads": 7}]
    body += [{"with": scope, "body": [call]}, {"backward": ["y"], "heads": case.get("heads")}]
    return body + body[-2:] if case.get("grad_req") == "add" else body


def _given(case, names):
    refs = case.get("before", []) + [{"ref": n} for n in names]
    if case.get("packed"):
        refs = [refs] if case["packed"] == "list" else [{"tuple": refs}]
    return refs


def run(mx, case):
    """The answer to a case with the package `mx`."""
    if case.get("np"):
        mx.npx.set_np()
    try:
        for _ in range(case.get("repeat", 1) if mx.__name__ == "mxjax" else 1):
            mx.random.seed(5)
            np.random.seed(5)
            with mx.name.NameManager():  # names count from 0
                answer = Run(mx, case).answer(case)
        return answer
    finally:
        if case.get("np"):
            mx.npx.reset_np()


def main(package):
    """Answers the cases on standard input until it ends."""
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != os.path.dirname(os.path.abspath(__file__))]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the package prints is no answer
    mx = __import__(package)
    np.seterr(all="ignore")
    for line in sys.stdin:
        try:
            answer = run(mx, json.loads(line))
        except Exception as e:  # noqa: BLE001
            answer = {"broken": kinds(e) + [_said(e)]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main(sys.argv[1])
