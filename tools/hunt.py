"""Hunts for differences between MXNet 1.9.1 and mxjax: random calls and programs, answered by both.

    python tools/hunt.py --oracle PYTHON --api FILE [--calls N] [--programs N] [--seed S] [--only REGEX] [--out FILE]
    python tools/hunt.py --oracle PYTHON --replay FILE

PYTHON is an interpreter that has MXNet 1.9.1; FILE (`--api`) a description of its API, as README.md tells.
"""

import argparse
import collections
import json
import re
import sys
import time
from pathlib import Path

from hunt_compare import differences
from hunt_known import reason
from hunt_pair import Pair, pair
from hunt_shrink import shrunk

CHUNK = 1000  # cases that one run of Hypothesis makes: it remembers them all
BATCH = 200  # cases on their way to the workers
EACH = 1  # differences of one signature that are kept
AS_FOUND = ("mxjax hung", "only MXNet raises")  # kinds that are not worth the time to shrink a case


def signature(case: dict, difference: tuple) -> str:
    """What groups differences: the function, the kind, and where it shows, or for an error what it says."""
    kind, where, theirs, ours = difference
    said = next((_gist(side["said"]) for side in (theirs, ours) if isinstance(side, dict) and "said" in side), "")
    return f"{_function(case)} | {kind} | {said or re.sub('[0-9]+', '#', where)}"


def _gist(said):
    """What an error says, without the numbers, the names and where it was raised."""
    line = re.split(r"Error: |Check failed: ", said.strip())[-1].splitlines()[0] if said.strip() else ""
    return re.sub(r"[0-9]+", "#", re.sub(r"\b_?\w*_\w+|'[^']*'|\([^)]*\)|\[[^]]*\]", "*", line))[:70].strip()


def _function(case):
    if case["kind"] == "call":
        return case["fn"]
    return case.get("about", "program")


class Hunt:
    """Cases asked of a pair, and what came of them.

    both: the pair.  out: a file to which differences are written, a JSON object a line, or None.
    """

    def __init__(self, both: Pair, out: str | None = None) -> None:
        self.both, self._out = both, out and open(out, "w")
        self.asked, self.agreed_errors, self.died, self.waiting = 0, 0, 0, []
        self.found, self.known, self.undetermined = collections.Counter(), collections.Counter(), 0
        self.examples, self.succeeded = {}, collections.Counter()
        self.tried = collections.Counter()

    def add(self, case: dict) -> None:
        """Asks a case, with others when there are enough of them."""
        self.waiting.append(case)
        if len(self.waiting) >= BATCH:
            self.flush()

    def flush(self) -> None:
        """Asks what waits."""
        cases, self.waiting = self.waiting, []
        for case, (theirs, ours) in zip(cases, self.both.ask(cases), strict=True):
            self.asked += 1
            if not self.asked % 5000:
                print(f"{self.asked} asked, {sum(self.found.values())} differ", file=sys.stderr)
            self.judge(case, theirs, ours)

    def judge(self, case: dict, theirs: dict, ours: dict) -> None:
        """Counts a case; keeps it, shrunk, where the answers differ."""
        if "died" in theirs or "hung" in theirs:
            self.died += 1
            return
        name = _function(case)
        self.tried[name] += 1
        if all(isinstance(s, str) for s in theirs.get("steps", ())):
            self.succeeded[name] += 1
        found = differences(case, theirs, ours)
        if not found:
            return
        marks = [(signature(case, f), f) for f in found]
        accepted = [reason(mark, case, f) for mark, f in marks]
        if all(accepted):
            self.known[accepted[0]] += 1
            return
        mark, first = next(m for m, why in zip(marks, accepted, strict=True) if not why)
        if self.found[mark] < EACH and not self.settled(case, theirs):
            self.undetermined += 1
            return
        self.found[mark] += 1
        if self.found[mark] <= EACH:
            self.keep(case, mark, first)

    def settled(self, case: dict, theirs: dict) -> bool:
        """Whether MXNet gives the same answer again: it doesn't where it reads memory that it never wrote."""
        return not differences(case, theirs, self.both.again(case))

    def keep(self, case: dict, mark: str, first: tuple) -> None:
        """Shrinks a case and writes it down."""
        def still(tries):
            return [not {"died", "hung"} & set(answers[0]) and self.differs(t, mark, answers) is not None
                    for t, answers in zip(tries, self.both.ask(tries), strict=True)]
        small = shrunk(case, still) if first[0] not in AS_FOUND else case
        told = self.differs(small, mark, self.both.ask([small])[0]) or first
        entry = {"signature": mark, "case": small, "theirs": told[2], "ours": told[3]}
        self.examples.setdefault(mark, []).append(entry)
        if self._out:
            self._out.write(json.dumps(entry) + "\n")
            self._out.flush()

    def differs(self, case: dict, mark: str, answers: tuple) -> tuple | None:
        """The difference of this signature that nobody knows yet."""
        return next((f for f in differences(case, *answers)
                     if signature(case, f) == mark and not reason(mark, case, f)), None)

    def summary(self) -> str:
        """Counts by kind, and the groups."""
        kinds, per = collections.Counter(), 10000 / max(self.asked, 1)
        for mark, count in self.found.items():
            kinds[mark.split(" | ")[1]] += count
        total = sum(self.found.values())
        lines = [f"{self.asked} cases, {total} differences ({total * per:.0f} per 10 000) in {len(self.found)} groups; "
                 f"{sum(self.known.values())} known, {self.undetermined} where MXNet gives another answer each time, "
                 f"{self.died} where MXNet died"]
        lines += [f"  {count:6d}  {count * per:7.1f} per 10 000  {kind}" for kind, count in kinds.most_common()]
        lines += [f"  {count:6d}  known: {why}" for why, count in self.known.most_common()]
        lines += [f"{count:6d}  {mark}" for mark, count in self.found.most_common()]
        return "\n".join(lines)


def generate(strategy, count: int, seed: int, take) -> None:
    """Hands `count` cases of a strategy to `take`; the same for the same seed."""
    import hypothesis
    for chunk in range(0, count, CHUNK):
        @hypothesis.seed(seed * 1_000_003 + chunk)
        @hypothesis.settings(max_examples=min(CHUNK, count - chunk), database=None, deadline=None,
                             phases=[hypothesis.Phase.generate], suppress_health_check=list(hypothesis.HealthCheck))
        @hypothesis.given(strategy)
        def each(case):
            take(case)
        each()


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--oracle", required=True, help="an interpreter that has MXNet 1.9.1")
    parser.add_argument("--api", help="a description of MXNet's API (JSON)")
    parser.add_argument("--calls", type=int, default=1000, help="how many single calls")
    parser.add_argument("--programs", type=int, default=100, help="how many programs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="a regular expression for the functions")
    parser.add_argument("--out", default="hunt.jsonl", help="where the differences go")
    parser.add_argument("--log", help="beginning of the names of files for what the packages print")
    parser.add_argument("--seconds", type=float, default=8, help="how long a case may take")
    parser.add_argument("--coverage", action="store_true", help="tell which functions never succeeded in MXNet")
    parser.add_argument("--replay", help="ask the cases of such a file again")
    options = parser.parse_args()
    hunt = Hunt(pair(options.oracle, options.seconds, options.log), options.out if not options.replay else None)
    started = time.time()
    try:
        if options.replay:
            for line in Path(options.replay).read_text().splitlines():
                hunt.add(json.loads(line)["case"])
        else:
            import hunt_cases
            import hunt_programs
            wanted = [t for t in hunt_cases.targets(options.api) if re.search(options.only, t.path)]
            for i, target in enumerate(wanted):  # the same number for each
                count = options.calls * (i + 1) // len(wanted) - options.calls * i // len(wanted)
                generate(hunt_cases.calls(target), count, options.seed * 10_007 + i, hunt.add)
            if not options.only or re.search(options.only, "program"):
                generate(hunt_programs.programs(), options.programs, options.seed, hunt.add)
        hunt.flush()
    except KeyboardInterrupt:
        print("interrupted")
    finally:  # what has been found is told whatever happens
        hunt.both.stop()
        print(hunt.summary())
    if options.coverage:
        print("never succeeded:", " ".join(sorted(n for n in hunt.tried if not hunt.succeeded[n])))
    print(f"{time.time() - started:.0f} s")
    return int(bool(hunt.found))


if __name__ == "__main__":
    sys.exit(main())
