"""What the library needs that is neither MXNet nor JAX: files, bounded caches, text, images. See README.md."""
