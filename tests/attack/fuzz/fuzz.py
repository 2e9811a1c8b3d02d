"""Gives readers damaged files, in processes that are watched: whatever they do, it is counted.

    python fuzz.py                       all readers, mutations of the corpus, some seconds each
    python fuzz.py states symbol -s 60   these readers, a minute each
    python fuzz.py -c states -s 60       guided by coverage (Atheris): what led further is changed further
    python fuzz.py states -i FILE        one file, in this process, with its traceback

An input that crashes, hangs, takes memory or ends in an error that is no refusal is kept in the folder given by -o.
"""

import argparse
import collections
import hashlib
import json
import os
import random
import re
import resource
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
SLOW, STUCK, MEMORY = 5.0, 20.0, 512  # seconds that one input may take; until it is killed; MB that it may add
_HEAD = struct.Struct("<QQ")  # number of the input, its length


def _children(names, seconds, seed, path):
    """What the watched process does: prints a line of JSON for each reader."""
    import mutate
    import readers
    import seeds
    with open(path, "r+b", buffering=0) as current:
        for name in names:
            rng, files = random.Random(f"{name} {seed}"), seeds.corpus(name)
            read, refusals = readers.READERS[name], readers.refusals(name)
            counts, notes, number = collections.Counter(), [], 0
            for raw in files:  # not counted: what is loaded and compiled at first use
                try:
                    read(raw)
                except refusals:
                    pass
            print(json.dumps({"begins": name}), flush=True)
            until = time.perf_counter() + seconds
            while (began := time.perf_counter()) < until:
                raw, number = mutate.mutated(files, rng), number + 1
                os.pwrite(current.fileno(), _HEAD.pack(number, len(raw)) + raw, 0)
                before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                told = ""
                try:
                    read(raw)
                    outcome = "ok"
                except refusals as error:
                    outcome = "refused" if str(error) else "crash"
                except Exception as error:
                    outcome, told = "crash", f"{type(error).__name__}: {str(error)[:200]}"
                added = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
                if time.perf_counter() - began > SLOW:
                    outcome, told = "hang", f"{time.perf_counter() - began:.0f} s"
                elif added > MEMORY:
                    outcome, told = "crash", f"{added} MB"
                counts[outcome] += 1
                if outcome in ("crash", "hang") and len(notes) < 20:
                    notes.append([outcome, told, raw.hex()])
            os.pwrite(current.fileno(), _HEAD.pack(0, 0), 0)
            print(json.dumps({"name": name, "counts": counts, "notes": notes}), flush=True)


def attack(names, seconds, seed=0):
    """Counts of outcomes by reader, and notes (reader, outcome, what happened, input).

    Args:
        names: the readers.
        seconds: for each.
        seed: another one gives other damages.
    """
    found, notes, left = {name: collections.Counter() for name in names}, [], list(names)
    while left:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "current")
            open(path, "wb").close()
            command = [sys.executable, __file__, "--child", path, "-s", str(seconds), "--seed", str(seed), *left]
            with open(os.path.join(folder, "out"), "w+b") as out, open(os.path.join(folder, "err"), "w+b") as err:
                process = subprocess.Popen(command, stdout=out, stderr=err)
                stuck = not _watch(process, path)
                out.seek(0)
                rows = [json.loads(line) for line in out.read().decode().splitlines() if line.startswith("{")]
                err.seek(0)
                said = err.read().decode(errors="replace")[-2000:]
            done = {row["name"]: row for row in rows if "name" in row}
            for name, row in done.items():
                found[name].update(row["counts"])
                notes += [(name, outcome, told, bytes.fromhex(raw)) for outcome, told, raw in row["notes"]]
            left = [name for name in left if name not in done]
            if left and (stuck or process.returncode):
                with open(path, "rb") as current:
                    raw = current.read()
                number, length = _HEAD.unpack_from(raw) if len(raw) >= _HEAD.size else (0, 0)
                outcome = "hang" if stuck else "crash"
                found[left[0]][outcome] += 1
                notes.append((left[0], outcome, f"the process ended ({process.returncode}) at input {number}: "
                              f"{said}", raw[_HEAD.size:_HEAD.size + length]))
                left, seed = left if number else left[1:], f"{seed} again"
                if found[left[0] if left else names[0]]["crash"] > 3:
                    left = left[1:]
            elif left:
                raise RuntimeError(f"the process said nothing of {left}: {said}")
    return found, notes


def _watch(process, path):
    """Waits for a process; whether it ended by itself, rather than for being stuck with one input."""
    number, since = None, time.perf_counter()
    while True:
        try:
            process.wait(0.2)
            return True
        except subprocess.TimeoutExpired:
            with open(path, "rb") as current:
                head = current.read(_HEAD.size)
            now = _HEAD.unpack(head)[0] if len(head) == _HEAD.size else 0
            if now != number or not now:
                number, since = now, time.perf_counter() if now else since
            if time.perf_counter() - since > (STUCK if now else 120):
                process.kill()
                process.wait()
                return False


def _guided(name, seconds, seed):
    """One reader by Atheris, in this process, which ends with it."""
    import atheris
    with atheris.instrument_imports(include=["mxjax"]):
        import readers
    import seeds
    read, refusals = readers.READERS[name], readers.refusals(name)

    def one(raw):
        try:
            read(raw)
        except refusals:
            pass
    with tempfile.TemporaryDirectory() as kept:
        for raw in seeds.corpus(name):
            with open(os.path.join(kept, hashlib.sha1(raw).hexdigest()), "wb") as file:
                file.write(raw)
        atheris.Setup([sys.argv[0], f"-max_total_time={seconds:.0f}", f"-timeout={STUCK:.0f}", "-rss_limit_mb=4096",
                       "-max_len=65536", f"-seed={seed + 1}", "-print_final_stats=1", kept], one)
        atheris.Fuzz()


def main():
    """The command; returns the number of failures."""
    import readers
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("readers", nargs="*", choices=[[], *readers.READERS], metavar="READER", default=[])
    parser.add_argument("-s", "--seconds", type=float, default=10)
    parser.add_argument("--seed", default=0)
    parser.add_argument("-c", "--coverage", action="store_true")
    parser.add_argument("-o", "--output", default="fuzz-output")
    parser.add_argument("-i", "--input")
    parser.add_argument("--child")
    given = parser.parse_args()
    names = given.readers or list(readers.READERS)
    if given.child:
        _children(names, given.seconds, given.seed, given.child)
        return 0
    if given.input:
        with open(given.input, "rb") as file:
            readers.READERS[names[0]](file.read())
        return 0
    if given.coverage:
        return sum(_round(name, given) for name in names)
    found, notes = attack(names, given.seconds, given.seed)
    for name, counts in found.items():
        print(f"{name:20}{sum(counts.values()):9} inputs  {dict(counts)}")
    for name, outcome, told, raw in notes:
        _keep(given.output, name, raw)
        print(f"{name}: {outcome}: {told}")
    return len(notes)


def _round(name, given):
    """Coverage-guided fuzzing of a reader in a process of its own."""
    os.makedirs(given.output, exist_ok=True)
    code = (f"import sys; sys.path.insert(0, {HERE!r}); import fuzz; "
            f"fuzz._guided({name!r}, {given.seconds}, {given.seed})")
    done = subprocess.run([sys.executable, "-c", code], cwd=given.output, stderr=subprocess.STDOUT,
                          stdout=subprocess.PIPE, text=True, errors="replace")
    tried = re.findall(r"stat::number_of_executed_units: *(\d+)", done.stdout)
    reached = re.findall(r" cov: (\d+)", done.stdout)
    print(f"{name:20}{tried[-1] if tried else '?':>9} inputs, from {reached[0] if reached else '?'} to "
          f"{reached[-1] if reached else '?'} edges: {'FAILED' if done.returncode else 'all read or refused'}",
          flush=True)
    if done.returncode:
        print(done.stdout[-3000:])
    return int(done.returncode != 0)


def _keep(folder, name, raw):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, f"{name}-{hashlib.sha1(raw).hexdigest()[:12]}"), "wb") as file:
        file.write(raw)


if __name__ == "__main__":
    sys.exit(bool(main()))
