"""Operators as compiled programs. See README.md."""
