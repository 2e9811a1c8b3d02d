"""Passes over programs before XLA compiles them. See README.md."""
