"""Sparse arrays, growing with what they store: mxjax against MXNet 1.9.1 and against dense arrays, time and memory.

    python benchmarks/sparse.py --mxnet /path/to/python/that/has/mxnet --out table.md

Milliseconds are the best of all repeats; memory (Linux only) is what a process needs at most beyond what it had before
it made the arrays, for the largest size, after the same program has run with the smallest one.
"""

# ruff: noqa: B905  (it runs under the Python 3.9 of an MXNet installation, too)
from __future__ import annotations

import fnmatch
import importlib

import _measure
import numpy as np

_MATRIX, _TABLE = (4096, 16384), (100000, 64)
_STORED = (3, 30, 300)  # values of each row of a matrix
_ROWS = (100, 1000, 10000)  # rows of a table


def _random(*shape):
    return np.random.RandomState(0).rand(*shape).astype("float32")


def _matrix(mx, stored, dense):
    rows, columns = _MATRIX
    step = columns // stored
    places = np.arange(stored) * step + np.random.RandomState(1).randint(0, step, (rows, stored))
    if dense:
        full = np.zeros(_MATRIX, "float32")
        np.put_along_axis(full, places, _random(rows, stored), 1)
        return mx.nd.array(full)
    return mx.nd.sparse.csr_matrix((_random(rows * stored), places.reshape(-1), np.arange(rows + 1) * stored), _MATRIX)


def _row_numbers(count, seed=0):
    return np.sort(np.random.RandomState(seed).choice(_TABLE[0], count, replace=False))


def _rows(mx, count, dense, seed=0):
    if dense:
        return mx.nd.array(_random(*_TABLE))
    return mx.nd.sparse.row_sparse_array((_random(count, _TABLE[1]), _row_numbers(count, seed)), _TABLE)


def _call(function, *arrays, **params):
    return lambda: function(*arrays, **params).wait_to_read()


def _dot(mx, stored, dense):
    return _call(mx.nd.dot, _matrix(mx, stored, dense), mx.nd.array(_random(_MATRIX[1], 32)))


def _dot_transposed(mx, stored, dense):
    return _call(mx.nd.dot, _matrix(mx, stored, dense), mx.nd.array(_random(_MATRIX[0], 32)), transpose_a=True)


def _sum(mx, stored, dense):
    return _call(mx.nd.sum, _matrix(mx, stored, dense), axis=1)


def _square(mx, count, dense):
    return _call(mx.nd.square, _rows(mx, count, dense))


def _add(mx, count, dense):
    return _call(mx.nd.elemwise_add, _rows(mx, count, dense), _rows(mx, count, dense, 1))


def _retain(mx, count, dense):
    if dense:
        return None
    return _call(mx.nd.sparse.retain, _rows(mx, 10000, False), mx.nd.array(_row_numbers(count, 1)))


def _embedding(optimizer):
    def case(mx, count, dense):
        table = mx.nd.array(_random(*_TABLE))
        table.attach_grad(stype="default" if dense else "row_sparse")
        ids = mx.nd.array(_row_numbers(count))
        update = mx.optimizer.get_updater(mx.optimizer.create(optimizer, learning_rate=0.1))

        def step():
            with mx.autograd.record():
                found = mx.nd.Embedding(ids, table, input_dim=_TABLE[0], output_dim=_TABLE[1], sparse_grad=not dense)
            found.backward()
            update(0, table.grad, table)
            table.wait_to_read()
        return step
    return case


def _hybridized(mx, count, dense):
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Embedding(*_TABLE, sparse_grad=not dense), mx.gluon.nn.Dense(32, flatten=False))
    net.initialize()
    net.hybridize()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    ids = mx.nd.array(_row_numbers(count))

    def step():
        with mx.autograd.record():
            loss = (net(ids) ** 2).sum()
        loss.backward()
        trainer.step(count)
        net[0].weight.data().wait_to_read()
    return step


def _kvstore(mx, count, dense):
    store, value = mx.kv.create("local"), _rows(mx, count, dense)
    store.init("table", value)
    target, ids = _rows(mx, count, dense), mx.nd.array(_row_numbers(count))

    def step():
        store.push("table", [value, value])
        if dense:
            store.pull("table", out=target)
        else:
            store.row_sparse_pull("table", out=target, row_ids=ids)
        target.wait_to_read()
    return step


# name: (function(mx, how much is stored, dense) -> a call, or None; what is stored in three sizes)
CASES = {
    "dot(csr, dense)": (_dot, _STORED),
    "dot(csr.T, dense)": (_dot_transposed, _STORED),
    "sum(csr, axis=1)": (_sum, _STORED),
    "square(row_sparse)": (_square, _ROWS),
    "row_sparse + row_sparse": (_add, _ROWS),
    "retain": (_retain, _ROWS),
    "Embedding, SGD": (_embedding("sgd"), _ROWS),
    "Embedding, Adam": (_embedding("adam"), _ROWS),
    "hybridized Embedding and Dense, SGD": (_hybridized, _ROWS),
    "kvstore push + pull": (_kvstore, _ROWS),
}


def _kilobytes(what):
    with open("/proc/self/status", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith(what))


def _needed(case, mx, stored, dense):
    """MiB at most beyond those before, while the arrays are made and used; None where the system does not tell."""
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as f:
            f.write("5")  # the peak counts anew
        before = _kilobytes("VmRSS")
    except OSError:
        return None
    step = case(mx, stored, dense)
    for _ in range(3):
        step()
    return max(0, _kilobytes("VmHWM") - before) / 1024


def measure(side, only, seconds):
    """Yields names and [MiB, milliseconds of three sizes (dense arrays: of the largest)]."""
    mx, dense = importlib.import_module(side.split()[0]), side.endswith("dense")
    for name, (case, sizes) in CASES.items():
        step = case(mx, sizes[0], dense) if fnmatch.fnmatch(name, only) else None
        if step is None:
            continue
        step()
        memory = _needed(case, mx, sizes[-1], dense)
        yield name, [memory, *(_measure.best(case(mx, n, dense), seconds) for n in (sizes[-1:] if dense else sizes))]


def _cells(figures):
    return " / ".join(f"{f:.3g}" for f in figures) or "-"


def _table(ours, theirs, dense):
    lines = ["| program | mxjax / MXNet | mxjax ms | MXNet ms | mxjax dense ms | MiB: mxjax, MXNet, mxjax dense |",
             "|---|---|---|---|---|---|"]
    ratios = []
    for name, (memory, *times) in ours.items():
        their_memory, *their_times = theirs.get(name, [None])
        dense_memory, *dense_times = dense.get(name, [None])
        known = [a / b for a, b in zip(times, their_times)]
        ratios += known
        megabytes = ", ".join("-" if m is None else f"{m:.0f}" for m in (memory, their_memory, dense_memory))
        lines.append(f"| `{name}` | {' / '.join(f'{r:.2f}' for r in known) or '-'} | {_cells(times)} | "
                     f"{_cells(their_times)} | {_cells(dense_times)} | {megabytes} |")
    return "\n".join([*lines, "", _measure.summary(ratios)] if ratios else lines)


if __name__ == "__main__":
    _measure.main(__file__, __doc__, measure, _table, further=["mxjax dense"])
