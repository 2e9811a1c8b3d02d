"""The hunt for differences: its interpreter, its comparison, its workers, with mxjax on both sides."""

import copy
import json
import sys

import hunt
import hunt_compare
import hunt_pair
import hunt_run
import pytest
from hunt_shrink import shrunk

import mxjax as mx

X = {"shape": [2, 3], "data": [1, 2, 3, 4, 5, 6]}


def values(case):
    """What the names hold at the end; the case and the answer are plain data."""
    answer = json.loads(json.dumps(hunt_run.run(mx, json.loads(json.dumps(case)))))
    assert set(answer["steps"]) == {"ok"}, answer["steps"]
    return answer["values"]


def test_calls():
    found = values({"kind": "call", "fn": "nd.sum", "inputs": [X], "params": {"axis": 1}, "record": 1, "heads": None})
    assert found["y"]["data"] == [6, 15] and found["y"]["dtype"] == "float32" and found["y"]["ctx"] == "cpu(0)"
    assert found["x0"]["grad"]["data"] == [1] * 6
    case = {"kind": "call", "fn": "nd.square", "inputs": [X], "params": {}, "record": 1, "grad_req": "add"}
    assert values(case)["x0"]["grad"]["data"] == [4, 8, 12, 16, 20, 24]
    assert values(dict(case, record=2))["x0"]["grad"]["data"] != values(case)["x0"]["grad"]["data"]
    assert values(dict(case, record=0, out=0))["x0"]["data"] == [1, 4, 9, 16, 25, 36]
    assert values(dict(case, fn="np.square", record=0, np=True))["y"]["type"] == "ndarray"


def test_calls_of_symbols():
    case = {"kind": "call", "fn": "sym.FullyConnected", "params": {"num_hidden": 1, "no_bias": True}, "record": 1,
            "inputs": [X, {"shape": [1, 3], "values": "ones"}]}
    outputs, grads, aux = values(case)["bound"]["items"]
    assert outputs["items"][0]["data"] == [6, 15] and set(grads["items"]) == {"x0", "x1"} and not aux["items"]
    assert values(dict(case, unknown={"x1": [0, 1]}))["found"]["items"][0]["items"][0]["items"] == [
        {"type": "tuple", "items": [2, 3]}, {"type": "tuple", "items": [1, 3]}]


def test_programs():
    found = values({"kind": "program", "body": [
        {"to": "a", "array": X, "grad": "write"},
        {"to": "b", "item": "a", "key": {"tuple": [1, {"slice": [0, 2, None]}]}},
        {"set": "b", "key": {"slice": [None, None, None]}, "value": 7}, {"update": "a", "op": "+=", "value": 1},
        {"with": "record", "body": [{"to": "c", "binary": "*", "args": [{"ref": "a"}, 2]}]},
        {"backward": ["c"]}, {"to": "d", "call": "$c.reshape", "args": [-1]}, {"to": "shape", "attr": "$d.shape"},
        {"to": "net", "call": "gluon.nn.Dense", "args": [1], "kwargs": {"in_units": 3}},
        {"call": "$net.initialize"}, {"fill": "net"}, {"to": "p", "params": "net"}]})
    assert found["a"]["data"] == [2, 3, 4, 8, 8, 7] and found["a"]["grad"]["data"] == [2] * 6
    assert found["shape"]["items"] == [6] and found["net"] == {"type": "object"}
    assert [p["items"][0]["items"] for p in found["p"]["items"]] == [[1, 3], [1]]


def test_statements_that_raise_end_alone():
    answer = hunt_run.run(mx, {"kind": "program", "body": [
        {"to": "a", "array": X}, {"to": "b", "call": "$a.reshape", "args": [4]}, {"to": "c", "attr": "$b.shape"},
        {"to": "d", "attr": "$a.size"}]})
    ok, error, skipped, last = answer["steps"]
    assert (ok, skipped, last) == ("ok", "skipped", "ok") and "ValueError" in error["error"]
    assert set(answer["values"]) == {"a", "d"}


def test_what_differs():
    case = {"kind": "call", "fn": "nd.sqrt", "inputs": [X], "params": {}, "record": 1}
    theirs = hunt_run.run(mx, case)

    def kinds(change):
        ours = copy.deepcopy(theirs)
        change(ours)
        return [kind for kind, *_ in hunt_compare.differences(case, theirs, ours)]
    assert kinds(lambda a: None) == []
    assert kinds(lambda a: a["values"]["y"].update(dtype="float64")) == ["dtype"]
    assert kinds(lambda a: a["values"]["y"].update(stype="csr")) == ["stype"]
    assert kinds(lambda a: a["values"]["y"]["data"].__setitem__(0, 1.00001)) == []
    assert kinds(lambda a: a["values"]["y"]["data"].__setitem__(0, 1.001)) == ["values"]
    assert kinds(lambda a: a["values"]["y"]["data"].__setitem__(0, float("nan"))) == ["NaN places"]
    assert kinds(lambda a: a["values"]["y"]["data"].__setitem__(0, float("inf"))) == ["infinities"]
    assert kinds(lambda a: a["values"]["x0"]["grad"]["data"].__setitem__(0, 9)) == ["values"]
    assert kinds(lambda a: a["values"]["x0"].pop("grad")) == ["grad there"]
    raised = {"error": ["MXNetError", "RuntimeError"], "said": "so"}
    assert kinds(lambda a: a["steps"].__setitem__(1, raised)) == ["only mxjax raises"]
    assert [k for k, *_ in hunt_compare.differences(case, theirs, {"died": True})] == ["mxjax died"]


class Planted:
    """mxjax on both sides; the second one is wrong where a sum keeps its axes."""

    def ask(self, cases):
        answers = []
        for case in cases:
            theirs = hunt_run.run(mx, case)
            ours = copy.deepcopy(theirs)
            if case["params"].get("keepdims"):
                ours["values"]["y"]["data"][0] += 1
            answers.append((theirs, ours))
        return answers

    def again(self, case):
        return hunt_run.run(mx, case)


def test_a_planted_difference_is_found_and_shrunk(tmp_path):
    case = {"kind": "call", "fn": "nd.sum", "params": {"axis": 1, "keepdims": True}, "record": 2, "train": True,
            "inputs": [{"shape": [2, 3], "dtype": "float64", "values": "normal", "seed": 3}]}
    hunted = hunt.Hunt(Planted(), str(tmp_path / "found.jsonl"))
    for params in ({"axis": 0}, {"axis": 1, "keepdims": True}, {"keepdims": True}):
        hunted.add(dict(case, params=params))
    hunted.flush()
    assert dict(hunted.found) == {"nd.sum | values | y": 2} and hunted.asked == 3
    entry = json.loads((tmp_path / "found.jsonl").read_text())
    assert entry["case"] == {"kind": "call", "fn": "nd.sum", "params": {"keepdims": True}, "record": 0, "inputs": [
        {"shape": [1, 1], "dtype": "float32", "values": "eighths", "seed": 0}]}
    assert entry["ours"][0] - entry["theirs"][0] == pytest.approx(1)
    assert "2 differences" in hunted.summary() and "nd.sum | values | y" in hunted.summary()


def test_programs_shrink_too():
    body = [{"to": "a", "array": dict(X, dtype="float64")}, {"to": "b", "binary": "+", "args": [{"ref": "a"}, 1]},
            {"with": "record", "body": [{"to": "c", "call": "$a.sum", "kwargs": {"axis": 0}},
                                        {"to": "d", "attr": "$a.T"}]}]
    small = shrunk({"kind": "program", "body": body}, lambda cases: ["$a.sum" in json.dumps(c) for c in cases])
    assert small["body"] == [{"to": "c", "call": "$a.sum"}]


@pytest.mark.slow
def test_a_worker_that_dies_or_hangs_is_started_anew():
    worker = hunt_pair.Worker(sys.executable, "mxjax", seconds=5)
    good = {"kind": "program", "body": [{"to": "n", "attr": "base.os.sep"}]}
    dying = {"kind": "program", "body": [{"call": "base.os._exit", "args": [3]}]}
    hanging = {"kind": "program", "body": [
        {"to": "pipe", "call": "base.os.pipe"}, {"to": "end", "item": "pipe", "key": 0},
        {"call": "base.os.read", "args": [{"ref": "end"}, 1]}]}
    try:
        worker.send([good, dying, good, hanging, good])
        first, died, second, hung, third = worker.receive()
    finally:
        worker.stop()
    assert first == second == third and first["values"]["n"] == "/"
    assert died == hunt_pair.DIED and hung == hunt_pair.HUNG


def test_cases_are_made_from_a_description_of_the_api(tmp_path):
    pytest.importorskip("hypothesis")
    import hunt_cases
    import hunt_programs
    api = tmp_path / "api.json"
    modules = ("numpy numpy.linalg numpy_extension numpy_extension.image numpy.random numpy.fallback ndarray "
               "ndarray.random ndarray.contrib ndarray.sparse ndarray.linalg").split()
    api.write_text(json.dumps({
        "operators": {"topk": {"args": [["data", "NDArray-or-Symbol"], ["axis", "int or None, optional, default='-1'"]],
                               "front": ["nd.topk", "sym.topk"]}},
        "modules": {f"mx.{m}": {"names": {}} for m in modules} | {"mx.numpy": {"names": {
            "tril": {"kind": "function", "sig": "(m, k=0)"},
            "stack": {"kind": "function", "sig": "(arrays, axis=0)"}}}}}))
    found = {t.path: t for t in hunt_cases.targets(str(api))}
    assert set(found) == {"nd.topk", "sym.topk", "np.tril", "np.stack"} and found["np.stack"].packed == "list"
    made, again, programs = [], [], []
    for cases in (made, again):
        for target in found.values():
            hunt.generate(hunt_cases.calls(target), 20, 1, cases.append)
    assert len(made) == 80 and {c["fn"] for c in made} == set(found) and json.loads(json.dumps(made)) == again
    hunt.generate(hunt_programs.programs(), 30, 1, programs.append)
    assert len(programs) == 30 and json.loads(json.dumps(programs)) == programs
