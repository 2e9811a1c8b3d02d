"""Arrays: mutable handles over immutable buffers, and calls on them. `mx.nd` is their public module. See README.md."""
