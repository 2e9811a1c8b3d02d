"""NumPy forms of recurrent layers beside XLA's programs."""

import numpy as np
import pytest
from marks import sampled

from mxjax.interpret.program import Unknown
from mxjax.ops import registry

from .forms import check

rng = np.random.RandomState(0)
STEPS, BATCH, WIDTH, SIZE = 4, 3, 5, 6


def arrays_of(params, steps=STEPS):
    directions = 1 + params.get("bidirectional", False)
    op = registry.get("RNN")
    shapes = [(steps, BATCH, WIDTH), *[None] * (2 + (params["mode"] == "lstm"))]
    op.get_attr("FInferShape")(op.parse(params), shapes, [None] * 3, op.inputs(op.parse(params), len(shapes)))
    assert shapes[2] == (params["num_layers"] * directions, BATCH, SIZE)
    return [rng.uniform(-1, 1, shape).astype("float32") for shape in shapes]


@pytest.mark.parametrize("mode", ["rnn_relu", "rnn_tanh", "lstm", "gru"])
@pytest.mark.parametrize("more", sampled([{"num_layers": 2, "bidirectional": True, "state_outputs": True},
                                          {"num_layers": 1}]))
def test_layers(mode, more):
    params = {"mode": mode, "state_size": SIZE, **more}
    arrays = arrays_of(params)
    others = [False] * (len(arrays) - 2)
    check("RNN", arrays, params, choices=[[True] * len(arrays), [False, True, *others], [True, False, *others]])


@pytest.mark.parametrize("mode", ["lstm", "gru"])
def test_single_step(mode):
    params = {"mode": mode, "state_size": SIZE, "num_layers": 1, "state_outputs": True}
    arrays = arrays_of(params, 1)
    check("RNN", arrays, params, choices=[[True] * len(arrays)])


@pytest.mark.parametrize("more", [{"lstm_state_clip_min": -0.1, "lstm_state_clip_max": 0.1}, {
    "num_layers": 2, "p": 0.5}])
def test_limits_of_cells_and_dropout_are_left_to_the_formula(more):
    params = {"mode": "lstm", "state_size": SIZE, "num_layers": 1, **more}
    with pytest.raises(Unknown):
        check("RNN", arrays_of(params), params)
