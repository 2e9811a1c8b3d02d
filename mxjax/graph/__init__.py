"""Graphs of operators as plain values: nodes, files, inference, rewriting, lowering to JAX. See README.md."""
