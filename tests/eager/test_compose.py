"""Lists of calls as one function."""

import numpy as np

from mxjax.eager.compose import Numbers, composed


def both(a, b):
    return a + b, a * b


def test_references_name_values_results_numbers_and_constants():
    fn = composed([(both, (0, 1)), (both, ((0, 1), Numbers(1, 3))), (both, ((1, 0), 0.5))], [(2, 1), (0, 0), (1, 1)])
    results = fn(3.0, 4.0, np.array([7.0, 1.0, 2.0]))
    assert [np.ravel(value).tolist() for value in results] == [[6.5, 7.0], [7.0], [12.0, 24.0]]


def test_values_and_results_can_be_replaced_before_a_call():
    seen = []

    def before(calls, values, done):
        seen.append((len(calls), list(done)))
        values[0], done[0] = 10, (20, 0)
    calls = [(both, (0, 1)), (both, (0, (0, 0))), (both, ((1, 0), 1))]
    fn = composed(calls, [(0, 0), (2, 0)], 1, before)
    for _ in range(2):  # each call of the function starts from its own values
        assert fn(1, 2) == (20, 32)
    assert seen == [(2, [(3, 2)])] * 2


def test_a_trace_may_end_where_its_updates_would_begin():
    left = []
    assert composed([(both, (0, 0))], [(0, 1)], 1, lambda calls, values, done: left.append(calls))(3) == (9,)
    assert left == [[]]
