"""JAX's runtime and its private parts: devices, processes, transfers, files of programs. See README.md."""
