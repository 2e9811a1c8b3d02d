"""No-op pushes per second through each engine type, prepared and unprepared.

    python benchmarks/engine.py [--pushes 20000]

`chain`: all functions mutate one variable, so each waits for the one before; `free`: each mutates one of 64 variables
and reads another.  `push` is the time the pushing thread spends, `done` the time until all functions have run.
`round trip` is one push and a wait for it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

from mxjax import engine

VARIABLES = 64


def no_op(run_ctx: engine.RunContext) -> None:
    """Do nothing."""


def pushers(eng: engine.Engine, prepared: bool, free: bool) -> list[Callable[[], Any]]:
    """Functions without arguments that push a no-op, one for each variable in turn."""
    variables = [eng.new_variable() for _ in range(VARIABLES if free else 1)]
    calls = []
    for i, var in enumerate(variables):
        const = (variables[(i + 1) % VARIABLES],) if free else ()
        if prepared:
            op = eng.new_operator(no_op, const, (var,))
            calls.append(lambda op=op: eng.push_operator(op))
        else:
            calls.append(lambda const=const, var=var: eng.push(no_op, const, (var,)))
    return calls


def measure(eng: engine.Engine, calls: list[Callable[[], Any]], pushes: int, bulk: int) -> tuple[float, float]:
    """Seconds for pushing, and until everything has run."""
    rounds = pushes // len(calls)
    start = time.perf_counter()
    with engine.bulk(bulk):
        for _ in range(rounds):
            for call in calls:
                call()
    pushed = time.perf_counter()
    eng.wait_for_all()
    return pushed - start, time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pushes", type=int, default=20000)
    pushes = parser.parse_args().pushes
    print(f"{'engine':24} {'shape':6} {'call':10} {'bulk':>4} {'push us':>8} {'done us':>8} {'pushes/s':>10}")
    for kind in (engine.ThreadedEnginePerDevice, engine.ThreadedEngine, engine.NaiveEngine):
        eng = kind()
        for free in (False, True):
            for prepared in (False, True):
                for bulk in (0, 15):
                    calls = pushers(eng, prepared, free)
                    push, done = min((measure(eng, calls, pushes, bulk) for _ in range(3)), key=lambda t: t[1])
                    count = pushes // len(calls) * len(calls)
                    print(f"{kind.__name__:24} {'free' if free else 'chain':6} "
                          f"{'prepared' if prepared else 'unprepared':10} {bulk:4} {push / count * 1e6:8.2f} "
                          f"{done / count * 1e6:8.2f} {count / done:10.0f}")
        var = eng.new_variable()
        start = time.perf_counter()
        for _ in range(pushes // 10):
            eng.push(no_op, (), (var,))
            eng.wait_for_var(var)
        print(f"{kind.__name__:24} round trip {(time.perf_counter() - start) / (pushes // 10) * 1e6:.1f} us")
        eng.stop()


if __name__ == "__main__":
    main()
