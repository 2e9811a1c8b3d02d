"""Arrays: mutable handles over immutable buffers, calls on them, and the tape. `mx.nd` is their face. See README.md."""
