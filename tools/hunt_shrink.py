"""Smaller cases that differ in the same way: parts are left out or made plain, one after the other."""

import copy
from collections.abc import Callable, Iterator


def shrunk(case: dict, still: Callable[[list], list], rounds: int = 12) -> dict:
    """The smallest case found.

    still: takes cases, tells of each whether it differs as the first did.  rounds: how many steps at most.
    """
    for _ in range(rounds):
        tries = list(simpler(case))
        if not tries:
            break
        smaller = next((t for t, differs in zip(tries, still(tries), strict=True) if differs), None)
        if smaller is None:
            break
        case = smaller
    return case


def simpler(case: dict) -> Iterator[dict]:
    """Cases that are a step simpler, the boldest first."""
    yield from (_calls if case["kind"] == "call" else _programs)(case)


def _calls(case):
    for key in ("repeat", "grad_req", "heads", "train", "out", "times", "args"):
        if key in case:
            yield {k: v for k, v in case.items() if k != key}
    if case.get("record"):
        yield dict(case, record=case["record"] - 1)
    for name in case["params"]:
        yield dict(case, params={k: v for k, v in case["params"].items() if k != name})
    for i, spec in enumerate(case["inputs"]):
        for smaller in _arrays(spec):
            yield dict(case, inputs=case["inputs"][:i] + [smaller] + case["inputs"][i + 1:])
    lengths = {n for spec in case["inputs"] for n in spec["shape"] if n > 1}
    for length in sorted(lengths, reverse=True):  # in all arrays at once
        yield dict(case, inputs=[dict({k: v for k, v in s.items() if k != "data"},
                                      shape=[1 if n == length else n for n in s["shape"]]) for s in case["inputs"]])
    dtypes = {spec.get("dtype") for spec in case["inputs"]} - {"float32"}
    for dtype in sorted(filter(None, dtypes)):
        yield dict(case, inputs=[dict(s, dtype="float32") if s.get("dtype") == dtype else s for s in case["inputs"]])


def _arrays(spec):
    if spec.get("values", "eighths") not in ("eighths", "index", "positive"):  # some wait for ever for others
        yield dict(spec, values="eighths")
    if spec.get("seed"):
        yield dict(spec, seed=0)
    if spec.get("stype", "default") != "default":
        yield dict(spec, stype="default")
    if spec.get("dtype", "float32") != "float32":
        yield dict(spec, dtype="float32")


def _programs(case):
    yield from ({**case, "body": body} for body in _bodies(case["body"]))


def _bodies(body):
    for i in range(len(body) - 1, -1, -1):
        yield body[:i] + body[i + 1:]
    for i, statement in enumerate(body):
        if "body" in statement:
            yield body[:i] + statement["body"] + body[i + 1:]
            for inner in _bodies(statement["body"]):
                yield body[:i] + [dict(statement, body=inner)] + body[i + 1:]
        for key in ("kwargs", "grad", "retain"):
            if statement.get(key):
                yield body[:i] + [{k: v for k, v in statement.items() if k != key}] + body[i + 1:]
        for name in statement.get("kwargs", {}):
            fewer = copy.copy(statement["kwargs"])
            del fewer[name]
            yield body[:i] + [dict(statement, kwargs=fewer)] + body[i + 1:]
        if isinstance(statement.get("array"), dict):
            for smaller in _arrays(statement["array"]):
                yield body[:i] + [dict(statement, array=smaller)] + body[i + 1:]
