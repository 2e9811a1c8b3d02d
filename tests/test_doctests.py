"""Examples in docstrings run and print what they say; most operators and layers have one."""

import doctests


def test_a_sample_of_the_examples_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = dict(doctests.examples("", (0, 25)))
    assert len(said) > 20
    assert not [text for text in said.values() if text]


def test_most_operators_and_layers_have_an_example():
    found = doctests.count()
    for kind in ("operators", "layers and losses"):
        some, every = found[kind]
        assert some >= 0.8 * every, f"{some} of {every} {kind} have an example"
