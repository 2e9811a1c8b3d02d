"""NumPy forms of operators that make arrays beside XLA's programs."""

import numpy as np
import pytest

from .forms import check


@pytest.mark.parametrize("name, options", [
    ("_arange", {"start": 5}), ("_arange", {"start": 1, "stop": 2, "step": 0.3, "repeat": 2}),
    ("_arange", {"start": 9.7, "stop": 1.2, "step": -2.5, "dtype": "int32"}),
    ("_arange", {"start": 0, "stop": 4, "dtype": "int64"}), ("_arange", {"start": 0.5, "stop": 4, "dtype": "float64"}),
    ("_arange", {"start": 0.5, "stop": 4, "dtype": "float16"}),
    ("_npi_arange", {"start": 5, "stop": 2}), ("_npi_arange", {"start": 2, "stop": 5, "dtype": "uint8"}),
    ("_npi_arange", {"start": 1}), ("_npi_arange", {"start": 0, "stop": 0.3, "step": 0.1}),
    ("_npi_arange", {"start": 1, "stop": 0, "step": -0.25}), ("_npi_arange", {"start": 2, "stop": 2}),
    ("_linspace", {"start": 0, "stop": 1, "num": 7}),
    ("_linspace", {"start": 3, "stop": 1, "num": 4, "endpoint": False}),
    ("_linspace", {"start": 3, "stop": 1, "num": 1, "dtype": "float64"}),
    ("_zeros", {"shape": (2, 3)}), ("_ones", {"shape": (2,), "dtype": "int8"}), ("_npi_zeros", {"shape": ()}),
    ("_npi_ones", {"shape": (0, 2), "dtype": "bool"}), ("_full", {"shape": (2, 3), "value": 2.5}),
    ("_full", {"shape": (2, 3), "value": -2.5, "dtype": "int32"}),
    ("_eye", {"N": 3}), ("_eye", {"N": 3, "M": 4, "k": -1, "dtype": "int32"}), ("_npi_eye", {"N": 3, "M": 0}),
    ("_npi_identity", {"shape": (3, 3)}), ("_npi_indices", {"dimensions": (2, 3)}),
])
def test_arrays_out_of_nothing(name, options):
    check(name, [], options, gradients=False)


@pytest.mark.parametrize("name, options", [
    ("zeros_like", {}), ("ones_like", {}), ("_npi_full_like", {"fill_value": 2.5}),
    ("_npi_full_like", {"fill_value": 2, "dtype": "int32"}),
    ("_contrib_arange_like", {}), ("_contrib_arange_like", {"axis": -1, "start": 1, "step": 0.5, "repeat": 2}),
])
def test_arrays_in_the_form_of_another(name, options):
    check(name, [np.ones((3, 4), "float32")], options, gradients=options.get("dtype") is None)
