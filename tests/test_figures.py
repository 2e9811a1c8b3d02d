"""`make figures`: its table and plots from sample figures; every package's script has every program."""

import ast
import importlib
import json
import pathlib
import xml.etree.ElementTree as ElementTree

import pytest

ROOT = pathlib.Path(__file__).parent.parent


@pytest.fixture
def figures(monkeypatch):
    """The module."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("figures")


@pytest.fixture
def sample():
    """Two programs under three packages, as the JSON has them."""
    def run(scale, parameters, losses):
        return {"version": "1.0+cpu", "import": 1.5, "first": 2.0 * scale, "step": 0.004 * scale, "steps": 10,
                "memory": 300.0 * scale, "parameters": parameters, "losses": losses, "others": 0.1 * scale}
    return {"date": "2026-01-02", "machine": "Linux, x86_64, 2 processors", "settings": {"threads": 2, "seconds": 5.0},
            "runs": {"lstm": {"mxjax": [run(1, 5000, [7.6, 7.5]), run(3, 5000, [7.6, 7.5])],
                              "flax": [{**run(4, 5000 - 2048, [7.6, 7.4]), "jax": "0.10"}] * 2},
                     "resnet18-predict": {"mxjax": [run(1, 9, [])] * 2, "torch": [run(0.5, 9, [])] * 2}}}


def test_the_table_has_the_best_rounds_and_ratios(figures, sample):
    lines = figures.table(sample).splitlines()
    assert {line.count("|") for line in lines[:12]} == {len(figures.SIDES) + 3}
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    at = {side: i + 2 for i, side in enumerate(figures.SIDES)}
    assert rows[0][at["flax"]] == "flax 1.0"
    step = rows[[row[0] for row in rows].index(figures.PROGRAMS["lstm"]) + 1]
    assert step[:2] == ["", "step, ms"]
    assert (step[at["mxjax"]], step[at["flax"]], step[at["mxnet"]]) == ("**4.00**", "16.0", "-")
    ratios = next(row for row in rows if row[0].startswith("all"))
    assert (ratios[at["mxjax"]], ratios[at["flax"]], ratios[at["torch"]]) == ("1.00", "4.00", "0.500")
    assert "Other work kept 0.19 processors busy meanwhile, 0.40 at most." in " ".join(lines)
    assert "MXNet" in lines[-1] and "Keras" in lines[-1]  # not there


def test_networks_that_differ_are_told(figures, sample):
    assert figures.odd(sample) == []
    sample["runs"]["lstm"]["flax"][0]["parameters"] = 5000
    sample["runs"]["lstm"]["mxjax"][0]["losses"] = [7.5, 7.5]
    assert [line.split(": ")[1] for line in figures.odd(sample)] == [
        "the numbers of parameters differ", "does not learn under mxjax"]


def test_the_table_goes_between_the_marks(figures, sample, tmp_path):
    path = tmp_path / "x.md"
    path.write_text(f"a\n{figures.BEGIN}\nold\n{figures.END}\nb\n", encoding="utf-8")
    for body in ("new", "newer"):
        figures.place(path, body)
    assert path.read_text(encoding="utf-8") == f"a\n{figures.BEGIN}\nnewer\n{figures.END}\nb\n"
    path.write_text(figures.BEGIN, encoding="utf-8")
    with pytest.raises(ValueError, match=r"x\.md: no <!-- figures:begin"):
        figures.place(path, "new")
    text = figures.TABLE.read_text(encoding="utf-8")
    assert text.count(figures.BEGIN) == text.count(figures.END) == 1


def test_plots_are_drawn_the_same_each_time(figures, sample, tmp_path):
    pytest.importorskip("matplotlib")
    once, again = figures.plots(sample, tmp_path / "a"), figures.plots(sample, tmp_path / "b")
    assert [p.name for p in once] == ["first.svg", "step.svg", "memory.svg"]
    for one, two in zip(once, again, strict=True):
        assert one.read_bytes() == two.read_bytes()
    words = " ".join(ElementTree.parse(once[1]).getroot().itertext())
    assert "ms" in words and figures.TITLES["lstm"] in words and "16.0" in words


def test_other_settings_do_not_mix(figures, sample, tmp_path):
    path = tmp_path / "figures.json"
    path.write_text(json.dumps(sample), encoding="utf-8")
    assert figures.opened(path, False, sample["settings"]) == figures.opened(path, False, None) == sample
    assert figures.opened(path, True, {"threads": 1})["runs"] == {}
    with pytest.raises(SystemExit, match="--fresh"):
        figures.opened(path, False, {"threads": 1})


def test_every_package_has_every_network(figures):
    folder = ROOT / "benchmarks" / "references"
    for script in {side.script for side in figures.SIDES.values()}:
        tree = ast.parse((folder / f"{script}_reference.py").read_text(encoding="utf-8"))
        keys = [{k.value for k in node.keys if isinstance(k, ast.Constant)} for node in ast.walk(tree)
                if isinstance(node, ast.Dict)]
        assert {program.partition("-")[0] for program in figures.PROGRAMS} in keys, script


def test_measured_figures_are_of_the_same_networks(figures):
    shown = figures.TABLE.read_text(encoding="utf-8").partition(figures.BEGIN)[2].partition(figures.END)[0]
    assert figures.JSON.exists() == ("|" in shown)  # no table that nobody has measured
    if figures.JSON.exists():
        text = figures.JSON.read_text(encoding="utf-8")
        assert figures.odd(json.loads(text)) == []
        assert "/" not in text  # no paths of the machine
