"""Calls on arrays: dispatch, traces, the tape, the backward pass. See README.md."""
