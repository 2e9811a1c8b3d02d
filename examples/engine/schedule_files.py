"""A job without arrays: files and transforms, put in order by the dependency engine.

    python examples/engine/schedule_files.py

Twelve log files are written, each is cleaned and counted as soon as it exists, all counts go into one table, and a
report is made of it.  No line below says in which order or in which thread things happen; each says what it reads and
what it changes.  One file is damaged: its error reaches whoever waits for something made of it, and nobody else.
Finally all intermediate files are deleted, each when nobody needs it any more.  (With MXNET_ENGINE_TYPE=NaiveEngine
the error comes out of the push itself, with the line that pushed it: that is what this type is for.)
"""

from __future__ import annotations

import collections
import pathlib
import random
import tempfile
import threading
import time

from mxjax import engine

DAYS = 12
DAMAGED = 7
WORDS = "ok ok ok ok warning warning error".split()


def main() -> None:
    eng = engine.get()
    started = time.perf_counter()
    threads = set()
    counts: dict[int, collections.Counter] = {}
    table: collections.Counter = collections.Counter()
    table_var = eng.new_variable("table")

    def download(day: int, path: pathlib.Path) -> None:
        threads.add(threading.current_thread().name)
        time.sleep(0.05)    # a slow server
        words = random.Random(day).choices(WORDS, k=1000)
        path.write_bytes(b"\xff" if day == DAMAGED else "\n".join(words).upper().encode())

    def clean(source: pathlib.Path, target: pathlib.Path) -> None:
        threads.add(threading.current_thread().name)
        target.write_text(source.read_text(encoding="ascii").lower())

    def count(day: int, path: pathlib.Path) -> None:
        counts[day] = collections.Counter(path.read_text().split())

    with tempfile.TemporaryDirectory() as folder:
        results = {}
        for day in range(DAYS):
            raw, cleaned = (pathlib.Path(folder, f"{kind}-{day}.log") for kind in ("raw", "clean"))
            raw_var, clean_var, count_var = (eng.new_variable(f"{kind}-{day}") for kind in ("raw", "clean", "count"))
            eng.push(lambda run_ctx, d=day, p=raw: download(d, p), (), (raw_var,), lane="io", name=f"download {day}")
            eng.push(lambda run_ctx, s=raw, t=cleaned: clean(s, t), (raw_var,), (clean_var,), name=f"clean {day}")
            eng.push(lambda run_ctx, d=day, p=cleaned: count(d, p), (clean_var,), (count_var,), name=f"count {day}")
            eng.delete_variable(raw_var, lambda run_ctx, p=raw: p.unlink(missing_ok=True))
            eng.delete_variable(clean_var, lambda run_ctx, p=cleaned: p.unlink(missing_ok=True))
            results[day] = count_var
        print(f"pushed {5 * DAYS} functions in {(time.perf_counter() - started) * 1e3:.1f} ms")

        for day, count_var in results.items():
            try:
                eng.wait_for_var(count_var)
            except UnicodeDecodeError as error:
                print(f"day {day} is left out: {error}")
            else:
                eng.push(lambda run_ctx, d=day: table.update(counts[d]), (count_var,), (table_var,), name=f"add {day}")
        eng.wait_for_var(table_var)
        eng.wait_for_all()
        print(f"{table_var.version} days counted: {dict(sorted(table.items()))}")
        print(f"files left: {len(list(pathlib.Path(folder).iterdir()))}")
    print(f"done in {time.perf_counter() - started:.2f} s ({DAYS * 0.05:.2f} s of it slow server), "
          f"on {len(threads)} worker threads")


if __name__ == "__main__":
    main()
