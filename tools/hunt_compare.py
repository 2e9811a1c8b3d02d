"""What differs between two answers to a case."""

import math

import numpy as np

# relative to the number, and to the largest of its array: rounding differs where sums run in another order
TOLERANCE = {"float16": (8e-3, 4e-3), "float32": (3e-5, 3e-6), "float64": (1e-6, 1e-7)}


def differences(case: dict, theirs: dict, ours: dict) -> list:
    """[(kind, where, what they say, what we say)], empty when the answers agree."""
    if "died" in ours or "hung" in ours:
        return [("mxjax died" if "died" in ours else "mxjax hung", "", "", "")]
    if "broken" in ours or "broken" in theirs:
        return [] if "broken" in ours and "broken" in theirs else [("case broken", "", theirs, ours)]
    found = []
    for i, (a, b) in enumerate(zip(theirs["steps"], ours["steps"], strict=True)):
        if a == b or "skipped" in (a, b):
            continue
        if a == "ok":
            found.append(("only mxjax raises", f"step {i}", a, b))
        elif b == "ok":
            found.append(("only MXNet raises", f"step {i}", a, b))
        elif a["error"][0] not in b["error"]:
            found.append(("error type", f"step {i}", a, b))
    if found:
        return found
    loose = case.get("random", False)
    for name, value in theirs["values"].items():
        if name in ours["values"]:
            found += _differ(value, ours["values"][name], name, loose)
    return found


def _differ(a, b, where, loose):
    if isinstance(a, dict) and isinstance(b, dict):
        return _dicts(a, b, where, loose)
    if isinstance(a, bool) or isinstance(b, bool) or not (_number(a) and _number(b)):
        return [] if type(a) is type(b) and (a == b or loose) else [("value", where, a, b)]
    if type(a) is not type(b):
        return [("type", where, a, b)]
    return [] if loose or math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-6) or a != a and b != b else [
        ("value", where, a, b)]


def _number(value):
    return isinstance(value, (int, float))


def _dicts(a, b, where, loose):
    if "error" in a or "error" in b:
        if "error" in a and "error" in b:
            return [] if a["error"][0] in b["error"] else [("error type", where, a, b)]
        return [("only MXNet raises" if "error" in a else "only mxjax raises", where, a, b)]
    for field in ("type", "stype", "dtype", "shape", "ctx", "arguments", "outputs", "aux"):
        if a.get(field) != b.get(field):
            return [(field, where, a.get(field), b.get(field))]
    if "items" in a:
        return _items(a["items"], b["items"], where, loose)
    found = []
    if "data" in a and not loose and not isinstance(a["data"], list):
        found += _differ(a["data"], b["data"], where, loose)
    elif "data" in a and not loose:
        found += _values(a, b, where)
    if "indices" in a and not loose and a["indices"] != b["indices"]:
        found.append(("stored places", where, a["indices"], b["indices"]))
    if ("grad" in a) != ("grad" in b):
        found.append(("grad there", where, "grad" in a, "grad" in b))
    elif "grad" in a:
        found += _dicts(a["grad"], b["grad"], where + ".grad", loose)
    return found


def _items(a, b, where, loose):
    if len(a) != len(b) or isinstance(a, dict) and set(a) != set(b):
        return [("items", where, len(a), len(b))]
    keys = a if isinstance(a, dict) else range(len(a))
    return [d for k in keys for d in _differ(a[k], b[k], f"{where}[{k}]", loose)]


def _values(a, b, where):
    kind = a["dtype"]
    if kind not in TOLERANCE:
        return [] if a["data"] == b["data"] else [("values", where, a["data"], b["data"])]
    x, y = np.array(a["data"], "float64"), np.array(b["data"], "float64")
    if (np.isnan(x) != np.isnan(y)).any():
        return [("NaN places", where, a["data"], b["data"])]
    finite = np.isfinite(x) & np.isfinite(y)
    if (x[~finite] != y[~finite])[~np.isnan(x[~finite])].any():
        return [("infinities", where, a["data"], b["data"])]
    x, y = x[finite], y[finite]
    relative, of_largest = TOLERANCE[kind]
    allowed = relative * np.abs(x) + of_largest * np.abs(x).max(initial=0) + 1e-7
    return [("values", where, a["data"], b["data"])] if (np.abs(x - y) > allowed).any() else []
