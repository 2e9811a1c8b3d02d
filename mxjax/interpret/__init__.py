"""Programs executed by NumPy, without a compiler. See README.md."""
