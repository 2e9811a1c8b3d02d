"""Runs scripts of this folder under `python -m mxjax launch`."""

import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def environment(**env):
    """The variables of a process that belongs to no job yet."""
    own = {k: v for k, v in os.environ.items() if not k.startswith(("DMLC_", "MXJAX_", "SLURM_", "OMPI_", "PMI_",
                                                                     "JOB_COMPLETION_", "KUBERNETES_"))}
    return own | {"PYTHONPATH": os.pathsep.join([str(ROOT), own.get("PYTHONPATH", "")]), "JAX_PLATFORMS": "cpu", **env}


def launch(*args, timeout=250, **env):
    """(exit status, output) of `mxjax launch` with these arguments."""
    done = subprocess.run([sys.executable, "-m", "mxjax", "launch", *map(str, args)], env=environment(**env), cwd=HERE,
                          timeout=timeout, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def checks(script):
    """The names of a script's checks."""
    return re.findall(r"^def (check_\w+)", (HERE / script).read_text(), re.MULTILINE)
