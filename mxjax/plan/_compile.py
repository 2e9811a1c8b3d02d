"""Compiles an exported program for devices that this machine lacks, in a separate process, where
JAX finds no other devices.

    python -m mxjax.plan._compile REQUEST RESULT

REQUEST (JSON): `program`, a file of `jax.export`; `platform`; `topology`, its description;
`donate`; `mesh`, lengths of the mesh axes by name; `arguments` and `results`, their shardings;
`follows`, indices of results with the layout that XLA chooses for an argument; `options`, options
of XLA. RESULT receives the memory sizes and the text of the program, or the name of a missing
package.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any


def main(request: str, result: str) -> None:
    """Runs a request."""
    job = json.loads(Path(request).read_text(encoding="utf-8"))
    import numpy as np
    from jax import export, jit, tree
    from jax.experimental import topologies
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    from mxjax.passes.layouts import compile_laid, preferred
    try:
        devices = topologies.get_topology_desc(platform=job["platform"], **job["topology"]).devices
    except Exception as error:  # noqa: BLE001  any error of a plugin that is missing or of another version
        Path(result).write_text(json.dumps({"missing": f"{type(error).__name__}: {error}"}), encoding="utf-8")
        return
    exported = export.deserialize(bytearray(Path(job["program"]).read_bytes()))
    lengths = list(job["mesh"].values())
    mesh = Mesh(np.array(devices[:int(np.prod(lengths))]).reshape(lengths), tuple(job["mesh"]))

    def lies(spec: list) -> NamedSharding:
        return NamedSharding(mesh, PartitionSpec(*[tuple(n) if isinstance(n, list) else n for n in spec]))
    arguments, results = (tuple(map(lies, job[name])) for name in ("arguments", "results"))
    start = time.time()

    def compile(before: tuple, after: tuple) -> Any:
        return jit(exported.call, donate_argnums=tuple(job["donate"]), in_shardings=before,
                   out_shardings=tree.unflatten(exported.out_tree, after)).trace(*exported.in_avals).lower(
            lowering_platforms=(job["platform"],)).compile(job["options"] or None)
    try:
        compiled, _ = compile_laid(dict(job["follows"]), arguments, results,
                                   lambda i: preferred(exported.in_avals[i].shape), compile)
    except Exception as error:  # noqa: BLE001  any error of XLA
        Path(result).write_text(json.dumps({"refused": f"{type(error).__name__}: {error}"}), encoding="utf-8")
        return
    memory = compiled.memory_analysis()
    Path(result).write_text(json.dumps({
        "seconds": time.time() - start, "text": compiled.as_text(),
        "memory": {name: int(getattr(memory, f"{name}_size_in_bytes")) for name in
                   ("argument", "output", "alias", "temp", "generated_code")},
    }), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
