"""Operators by NumPy, a file for each family (see `interpret.direct`)."""
