"""NumPy forms of operators, one file per family (see `interpret.direct`)."""
