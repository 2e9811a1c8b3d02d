"""Compilation and execution of operators. See README.md."""
