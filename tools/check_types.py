"""Type errors of the package, all but the rooms that are not clean yet: there may be none (`make lint`).

    python tools/check_types.py [--all]

Runs basedpyright, level "standard", and prints every error. A room leaves `LEFT_OUT` when it has none. Other releases
than basedpyright 1.40 and jax 0.10 find other errors; with these the errors are printed, and do not fail.
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
LEFT_OUT = ("io", "onnx", "tools")


def errors(left_out: tuple[str, ...]) -> list[dict]:
    """Returns what basedpyright finds in the package without these folders and files."""
    command = shutil.which("basedpyright", path=str(pathlib.Path(sys.executable).parent)) or "basedpyright"
    with tempfile.TemporaryDirectory() as folder:
        settings = {"include": [str(ROOT / "mxjax")], "exclude": [str(ROOT / "mxjax" / room) for room in left_out],
                    "typeCheckingMode": "standard", "extraPaths": [str(ROOT)], "pythonVersion": "3.11",
                    "pythonPlatform": "Linux"}  # else basedpyright takes any, where `sys.platform` tells nothing
        pathlib.Path(folder, "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
        done = subprocess.run([command, "--project", folder, "--pythonpath", sys.executable, "--outputjson"],
                              capture_output=True, text=True, check=False)
    try:
        return [row for row in json.loads(done.stdout)["generalDiagnostics"] if row["severity"] == "error"]
    except json.JSONDecodeError:
        sys.exit(f"basedpyright failed: {done.stderr[-2000:] or done.stdout[-2000:]}")


def main() -> None:
    """Prints the errors; the exit status says whether there are some."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="count the errors of all rooms, those left out among them")
    every = parser.parse_args().all
    found = errors(() if every else LEFT_OUT)
    if every:
        rooms = collections.Counter(pathlib.Path(row["file"]).relative_to(ROOT / "mxjax").parts[0] for row in found)
        for room, count in rooms.most_common():
            print(f"mxjax/{room}: {count} type errors")
        return
    for row in found:
        print(f"{pathlib.Path(row['file']).relative_to(ROOT)}:{row['range']['start']['line'] + 1}: {row['message']}")
    print(f"{len(found)} type errors, without {', '.join(LEFT_OUT)}")
    counted = importlib.metadata.version("jax").startswith("0.10.") and \
        importlib.metadata.version("basedpyright").startswith("1.40.")
    sys.exit(counted and bool(found))


if __name__ == "__main__":
    main()
