"""Helpers that depend on neither MXNet's API nor JAX: files, bounded caches, text, images. See README.md."""
