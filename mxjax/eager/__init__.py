"""Imperative execution: dispatch, traces, the tape, the backward pass. See README.md."""
