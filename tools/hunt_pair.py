"""Two processes that answer the same cases: one with MXNet, one with mxjax."""

import json
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path

RUN = Path(__file__).with_name("hunt_run.py")
DIED, HUNG = {"died": True}, {"hung": True}


class Worker:
    """A process that answers cases, started anew when it dies or takes too long.

    python: the interpreter it runs under.  package: "mxnet" or "mxjax".  seconds: how long a case may take.
    log: a file for what the packages print, or None.
    """

    def __init__(self, python: str, package: str, seconds: float = 60, log: str | None = None) -> None:
        self._command, self._seconds, self._log = [python, str(RUN), package], seconds, log
        self._process, self._fresh = None, True

    def _start(self):
        environment = dict(os.environ, OMP_NUM_THREADS="1", MXNET_STORAGE_FALLBACK_LOG_VERBOSE="0")
        log = open(self._log, "a") if self._log else subprocess.DEVNULL
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                                         text=True, env=environment)
        self._lines, self._fresh = queue.Queue(), True
        threading.Thread(target=_read, args=(self._process, self._lines), daemon=True).start()

    def send(self, cases: list) -> None:
        """Hands a batch over; `receive` gets the answers."""
        self._batch = list(cases)
        if self._process is None:
            self._start()
        self._write(self._batch)

    def _write(self, cases):
        text = "".join(json.dumps(case) + "\n" for case in cases)
        threading.Thread(target=_feed, args=(self._process, text), daemon=True).start()

    def receive(self) -> list:
        """The answers to the batch, in order; `DIED` or `HUNG` for a case that ended the process."""
        answers = []
        while len(answers) < len(self._batch):
            try:
                line = self._lines.get(timeout=self._seconds + 60 * self._fresh)  # the first case waits for the import
            except queue.Empty:
                line, why = None, HUNG
            else:
                why = DIED
            self._fresh = False
            if line is not None:
                answers.append(json.loads(line))
                continue
            answers.append(why)
            self.stop()
            self._start()
            self._write(self._batch[len(answers):])
        return answers

    def stop(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def _read(process, lines):
    for line in process.stdout:
        lines.put(line)
    lines.put(None)


def _feed(process, text):
    try:
        process.stdin.write(text)
        process.stdin.flush()
    except (OSError, ValueError):
        pass  # it died; whoever reads the answers sees that


class Pair:
    """Answers of two workers to the same cases.

    theirs, ours: the workers, MXNet's first.
    """

    def __init__(self, theirs: Worker, ours: Worker) -> None:
        self._theirs, self._ours = theirs, ours

    def ask(self, cases: list) -> list:
        """[(their answer, our answer)] for each case; both sides work at once."""
        self._theirs.send(cases)
        self._ours.send(cases)
        return list(zip(self._theirs.receive(), self._ours.receive(), strict=True))

    def again(self, case) -> dict:
        """MXNet's answer a second time: where it tells of memory that it never wrote, another one."""
        self._theirs.send([case])
        return self._theirs.receive()[0]

    def stop(self) -> None:
        """Ends both."""
        self._theirs.stop()
        self._ours.stop()


def pair(oracle: str, seconds: float = 60, log: str | None = None, packages: tuple = ("mxnet", "mxjax")) -> Pair:
    """The pair of MXNet under the interpreter `oracle` and mxjax under this one.

    seconds: how long a case may take.  log: beginning of the names of two files for what they print.
    """
    logs = [log and f"{log}.{side}.txt" for side in ("theirs", "ours")]
    return Pair(Worker(oracle, packages[0], seconds, logs[0]), Worker(sys.executable, packages[1], seconds, logs[1]))
