"""Access to JAX's runtime and its private modules: devices, processes, transfers, program files. See README.md."""
