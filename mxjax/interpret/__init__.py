"""Programs as NumPy computes them, without a compiler. See README.md."""
