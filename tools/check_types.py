"""Type errors of the core, by folder: they may become fewer, never more (`make lint`).

    python tools/check_types.py [--show]

Runs basedpyright, level "standard", over the folders below. More errors than the number of a folder fail. Where there
are fewer, lower the number. They are those of basedpyright 1.40 and jax 0.10: other releases find other errors, and
with these nothing is compared.
"""

from __future__ import annotations

import argparse
import collections
import importlib.metadata
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parents[1]
ALLOWED = {"_random": 0, "_support": 0, "_xla": 0, "array": 0, "eager": 0, "engine": 0, "executor": 0, "graph": 0,
           "interpret": 0, "kernel": 0, "passes": 0}


def errors() -> list[dict]:
    """Returns what basedpyright finds in these folders."""
    command = shutil.which("basedpyright", path=str(pathlib.Path(sys.executable).parent)) or "basedpyright"
    with tempfile.TemporaryDirectory() as folder:
        settings = {"include": [str(ROOT / "mxjax" / room) for room in ALLOWED], "typeCheckingMode": "standard",
                    "extraPaths": [str(ROOT)], "pythonVersion": "3.11", "pythonPlatform": "Linux"}
        pathlib.Path(folder, "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
        done = subprocess.run([command, "--project", folder, "--pythonpath", sys.executable, "--outputjson"],
                              capture_output=True, text=True, check=False)
    try:
        return [row for row in json.loads(done.stdout)["generalDiagnostics"] if row["severity"] == "error"]
    except json.JSONDecodeError:
        sys.exit(f"basedpyright failed: {done.stderr[-2000:] or done.stdout[-2000:]}")


def main() -> None:
    """Prints the table; the exit status says whether it is as allowed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", action="store_true", help="print every error")
    show, found = parser.parse_args().show, errors()
    rooms = collections.Counter(pathlib.Path(row["file"]).relative_to(ROOT / "mxjax").parts[0] for row in found)
    for row in found if show else ():
        print(f"{pathlib.Path(row['file']).relative_to(ROOT)}:{row['range']['start']['line'] + 1}: {row['message']}")
    counted = importlib.metadata.version("jax").startswith("0.10.") and \
        importlib.metadata.version("basedpyright").startswith("1.40.")
    for room, allowed in ALLOWED.items() if counted else ():
        if rooms[room] != allowed:
            more = "lower the number in tools/check_types.py" if rooms[room] < allowed else "--show prints them"
            print(f"mxjax/{room}: {rooms[room]} type errors, {allowed} allowed; {more}")
    print(f"{sum(rooms.values())} type errors in the core")
    sys.exit(counted and any(rooms[room] > allowed for room, allowed in ALLOWED.items()))


if __name__ == "__main__":
    main()
