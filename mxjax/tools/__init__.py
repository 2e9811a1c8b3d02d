"""Command-line tools: `python -m mxjax launch`, `python -m mxjax im2rec`."""
