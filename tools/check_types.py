"""Type errors of the package: there may be none (`make lint`).

    python tools/check_types.py

Runs basedpyright, level "standard", and prints every error. Other releases than basedpyright 1.40 and jax 0.10 find
other errors; with these the errors are printed, and do not fail.
"""

from __future__ import annotations

import importlib.metadata
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parents[1]


def errors() -> list[dict]:
    """Returns what basedpyright finds in the package."""
    command = shutil.which("basedpyright", path=str(pathlib.Path(sys.executable).parent)) or "basedpyright"
    with tempfile.TemporaryDirectory() as folder:
        settings = {"include": [str(ROOT / "mxjax")], "typeCheckingMode": "standard", "extraPaths": [str(ROOT)],
                    # without a platform basedpyright takes any, where `sys.platform` tells nothing
                    "pythonVersion": "3.11", "pythonPlatform": "Linux"}
        pathlib.Path(folder, "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
        done = subprocess.run([command, "--project", folder, "--pythonpath", sys.executable, "--outputjson"],
                              capture_output=True, text=True, check=False)
    try:
        return [row for row in json.loads(done.stdout)["generalDiagnostics"] if row["severity"] == "error"]
    except json.JSONDecodeError:
        sys.exit(f"basedpyright failed: {done.stderr[-2000:] or done.stdout[-2000:]}")


def main() -> None:
    """Prints the errors; the exit status says whether there are some."""
    found = errors()
    for row in found:
        print(f"{pathlib.Path(row['file']).relative_to(ROOT)}:{row['range']['start']['line'] + 1}: {row['message']}")
    print(f"{len(found)} type errors")
    counted = importlib.metadata.version("jax").startswith("0.10.") and \
        importlib.metadata.version("basedpyright").startswith("1.40.")
    sys.exit(counted and bool(found))


if __name__ == "__main__":
    main()
