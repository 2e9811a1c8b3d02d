"""What the scripts of this folder share: a comparison that is printed, and ends the script where it fails."""

from __future__ import annotations

from typing import Any

import numpy as np


def check(what: str, got: Any, wanted: Any, tolerance: float = 1e-5) -> None:
    """Prints `what` where `got` is `wanted`; else raises, so that the script ends with an error.

    Args:
        what: a sentence for the reader.
        got: an NDArray, or anything that is compared by ==.
        wanted: a NumPy array for an NDArray, else the value itself.
        tolerance: relative and absolute, for arrays.
    """
    if hasattr(got, "asnumpy"):
        np.testing.assert_allclose(got.asnumpy(), wanted, rtol=tolerance, atol=tolerance, err_msg=what)
    elif got != wanted:
        raise SystemExit(f"FAILED  {what}: got {got!r}, wanted {wanted!r}")
    print(f"ok      {what}")
