"""Reasons that tests of several files are left out for."""

import pytest

from mxjax.passes import onednn

# releases of jaxlib are tried one by one (docs/design/0028): with another one there is nothing to test, XLA convolves
needs_onednn = pytest.mark.skipif(not onednn.available(), reason="this release of jaxlib is not known to have oneDNN")
