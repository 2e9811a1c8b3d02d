"""Whether the numbers of a device are right: what `accelerator.py` asks in many processes at once.

Each check yields what it asked and what was wrong, "" where nothing was. A part of it is every n-th question.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import json
import os
import sys
import time
import zlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mxjax as mx

__all__ = ["CALLS", "Part", "agree", "golden", "operators", "suite", "tests"]

ROOT = Path(__file__).parent.parent
CALLS = ROOT / "tools" / "operator_calls.jsonl"
TOLERANCE = {"float64": 1e-6, "float32": 2e-4, "float16": 2e-2, "bfloat16": 1e-1}
# of our own suite, what computes with arrays of the default context
FOLDERS = ("test_gpu.py", "ops", "numpy", "ndarray", "gluon", "autograd", "symbol", "operator", "contrib",
           "test_executor.py", "test_module.py", "test_optimizer.py", "test_metric.py", "test_bulk.py", "test_rnn.py",
           "test_random.py", "test_kvstore.py", "test_callback.py", "test_nested_segments.py", "test_predictor.py")
# of MXNet's: those for a GPU, which hold most of the unit tests, first
FILES = ("gpu/test_operator_gpu.py", "gpu/test_gluon_gpu.py", "gpu/test_gluon_contrib_gpu.py",
         "gpu/test_kvstore_gpu.py", "gpu/test_fusion.py", "gpu/test_contrib_amp.py", "gpu/test_forward.py",
         "gpu/test_device.py", "gpu/test_gluon_transforms.py", "unittest/test_gluon.py",
         "unittest/test_gluon_rnn.py", "unittest/test_loss.py", "unittest/test_module.py", "unittest/test_executor.py",
         "unittest/test_numpy_gluon.py", "unittest/test_contrib_control_flow.py", "unittest/test_autograd.py")


class Part:
    """A share of a check's questions, and until when they are asked.

    Args:
        spec: "3/8", the fourth of eight shares.
        end: by `time.time()`.
        passed: what need not be asked again.
    """

    def __init__(self, spec: str, end: float, passed: set[str]) -> None:
        self._number, self._of = map(int, spec.split("/"))
        self._passed, self._end = passed, end

    @property
    def over(self) -> bool:
        """Whether the time is."""
        return time.time() > self._end

    def share(self, questions: dict[str, Any]) -> list[tuple[str, Any]]:
        """This part's questions, with what belongs to them."""
        return [(q, of) for q, of in questions.items() if q not in self._passed][self._number::self._of]

    def of(self, questions: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        """The same, until the time is over."""
        return itertools.takewhile(lambda _: not self.over, self.share(questions))


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:400]


# ------------------------------------------------------------ operators
def operators(part: Part, ctx: Any) -> Iterator[tuple[str, str]]:
    """Every operator's recorded calls beside those on the CPU: results and gradients."""
    lines = {line: json.loads(line) for line in CALLS.read_text(encoding="utf-8").splitlines()}
    for line, call in part.of(lines):
        with contextlib.suppress(_Nothing):
            yield line, _beside_the_host(call, ctx)


class _Nothing(Exception):
    """There is nothing to compare."""


def _beside_the_host(recorded: list, ctx: Any) -> str:
    from mxjax.ops import registry
    name, inputs, params, train = recorded
    op = registry.get(name)
    if op.uses_key or op.get_attr("FDraw") or not inputs:
        raise _Nothing
    sys.path.insert(0, str(CALLS.parent))
    from accelerators import arguments
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(0.1, 0.9, s).astype(t) if "float" in t else rng.integers(0, 2, s).astype(t)
              for s, t in inputs]
    params = arguments(op, {k: v for k, v in params.items() if k != "ctx"}, len(inputs))
    try:
        host = _answers(op, arrays, params, train, mx.cpu())
    except Exception:
        try:
            _answers(op, arrays, params, train, ctx)
        except Exception:
            raise _Nothing from None  # refused on both
        return "refused on the host alone"
    try:
        return agree(host, _answers(op, arrays, params, train, ctx))
    except Exception as error:  # noqa: BLE001
        return _told(error)


def _answers(op: Any, arrays: list, params: dict, train: bool, ctx: Any) -> list[np.ndarray]:
    from mxjax.eager.dispatch import call
    held = [mx.nd.array(a, ctx=ctx, dtype=a.dtype) for a in arrays]
    for a in held:
        if "float" in str(a.dtype):
            a.attach_grad()
    with mx.autograd.record(train_mode=train):
        out = call(op, held, dict(params))
        out = out if isinstance(out, list) else [out]
    with contextlib.suppress(mx.MXNetError):  # nothing to be walked back from
        mx.autograd.backward([o for o in out if o.entry is not None])
    return [v.asnumpy() for v in [*out, *[a.grad for a in held if a.grad is not None]]]


def agree(wanted: list, got: list) -> str:
    """Where two answers differ by more than their dtype allows; "" where they don't."""
    for i, (a, b) in enumerate(zip(wanted, got, strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{i}: {a.dtype}{a.shape} is {b.dtype}{b.shape}"
        limit = TOLERANCE.get(str(a.dtype), 0)
        a, b = a.astype("float64"), b.astype("float64")
        off = np.abs(a - b) - limit * (np.abs(a) + np.abs(a).max(initial=0) + 1e-6)
        if (np.isnan(a) != np.isnan(b)).any() or (off[np.isfinite(off)] > 0).any():
            return f"{i}: differs by {np.nanmax(np.abs(a - b)):.3g} of {np.nanmax(np.abs(a)):.3g}"
    return ""


# ------------------------------------------------------------ recorded cases
def golden(part: Part, ctx: Any, folder: str) -> Iterator[tuple[str, str]]:
    """Recorded cases by the `check.py` beside them; first one of each operator, then another."""
    spec = importlib.util.spec_from_file_location("check", Path(folder, "check.py"))
    check: Any = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    spec.loader.exec_module(check)  # type: ignore[union-attr]
    cases, get = check.load(folder)
    by_operator = defaultdict(list)
    for case in cases:
        by_operator[case["op"]].append(case)
    turns = itertools.chain.from_iterable(itertools.zip_longest(*by_operator.values()))
    mx.Context.default_ctx = ctx
    for name, case in part.of({f"{c['op']} {c['id']}": c for c in turns if c}):
        try:
            yield name, check.check(mx, case, get)
        except Exception as error:  # noqa: BLE001
            yield name, _told(error)


# ------------------------------------------------------------ test suites
def tests(part: Part, ctx: Any, folder: str, plugins: list[str]) -> Iterator[tuple[str, str]]:
    """MXNet's own tests with the device as the default context."""
    os.chdir(folder)
    found = [name for name in FILES if Path(name).exists()]
    return _pytest(part, ctx, ["-c", os.devnull, "--rootdir", ".", *[f"-p{name}" for name in plugins], *found])


def suite(part: Part, ctx: Any) -> Iterator[tuple[str, str]]:
    """Our own tests with the device as the default context."""
    os.chdir(ROOT)
    return _pytest(part, ctx, [f"tests/{name}" for name in FOLDERS])


def _pytest(part: Part, ctx: Any, arguments: list[str]) -> Iterator[tuple[str, str]]:
    watching = _Watching(part, ctx)
    timeout = ["--timeout", "90"] if importlib.util.find_spec("pytest_timeout") else []
    pytest.main(["-q", "-W", "ignore", "-p", "no:cacheprovider", "--tb=short", *timeout, *arguments], [watching])
    return iter(())  # it has told what came of them


class _Watching:
    """A plugin: a part of the tests, in an order that begins with those for devices, with a default context."""

    def __init__(self, part: Part, ctx: Any) -> None:
        self._part, self._ctx = part, ctx

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, session: Any, config: Any, items: list) -> None:
        items.sort(key=lambda item: ("test_operator_gpu" in item.nodeid and "unittest" in str(item.function.__code__),
                                     "gpu" not in item.nodeid, zlib.crc32(item.nodeid.encode())))
        items[:] = [item for _, item in self._part.share({item.nodeid: item for item in items})]

    def pytest_runtest_protocol(self, item: Any) -> None:
        if self._part.over:
            item.session.shouldstop = "the time is over"
        mx.Context.default_ctx = self._ctx

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed or report.when == "call" and report.passed:
            lines = [line[1:].strip() for line in report.longreprtext.splitlines() if line.startswith("E ")]
            why = " | ".join(lines)[:400] or report.longreprtext[-300:]
            say(report.nodeid, why if report.failed else "", report.duration)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            say(report.nodeid, "not collected: " + report.longreprtext[-400:], 0.0)


_out: Any = None


def say(question: str, why: str, seconds: float) -> None:
    """Writes an outcome."""
    print(json.dumps([question, why, round(seconds, 2)]), file=_out, flush=True)


def main() -> None:
    """Runs a part: CHECK PART SECONDS DEVICE PASSED OUT [FOLDER [PLUGIN ...]]."""
    global _out
    check, part, seconds, on, passed, out, *rest = sys.argv[1:]
    end = time.time() + float(seconds)
    known = set(json.loads(Path(passed).read_text(encoding="utf-8")).get(check, ()))
    folder = [rest[0]] if check in ("golden", "tests") else []
    with open(out, "w", encoding="utf-8") as _out:
        asked = globals()[check](Part(part, end, known), getattr(mx, on)(0), *folder,
                                 *([rest[1:]] if check == "tests" else []))
        last = time.time()
        for question, why in asked:
            say(question, why, time.time() - last)
            last = time.time()


if __name__ == "__main__":
    main()
