"""Helpers that are neither MXNet's nor JAX's: files, bounded caches, text, images. See README.md."""
