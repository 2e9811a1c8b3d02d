"""Marks that tests of several files share."""

import pytest

from mxjax.passes import onednn

# releases of jaxlib are tried one by one (docs/design/0028): with another one there is nothing to test, XLA convolves
needs_onednn = pytest.mark.skipif(not onednn.available(), reason="this release of jaxlib is not known to have oneDNN")


def sampled(cases, every=2):
    """Returns cases of which `make test` runs each `every`-th; the others are marked slow."""
    return [pytest.param(*case if isinstance(case, tuple) else (case,), marks=pytest.mark.slow if place % every else ())
            for place, case in enumerate(cases)]
