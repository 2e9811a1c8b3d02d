"""Type errors of the core, by folder: they may become fewer, never more (`make lint`).

    python tools/check_types.py [--show]

Runs basedpyright, level "standard", over the folders below. A folder with fewer errors than are allowed fails, too: its
number is to be lowered here, so that they stay away.
"""

from __future__ import annotations

import argparse
import collections
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
                    "extraPaths": [str(ROOT)], "pythonVersion": "3.11"}
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
    wrong = {room: allowed for room, allowed in ALLOWED.items() if rooms[room] != allowed}
    for room, allowed in wrong.items():
        more = "lower the number in tools/check_types.py" if rooms[room] < allowed else "--show prints them"
        print(f"mxjax/{room}: {rooms[room]} type errors, {allowed} allowed; {more}")
    print(f"{sum(rooms.values())} type errors in the core")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
