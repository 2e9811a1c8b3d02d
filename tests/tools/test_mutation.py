"""Changes of sources that no test notices."""

import shutil
import subprocess
import sys
from pathlib import Path

import mutation
import pytest

TOY = '''"""A module."""

__all__ = ["larger"]


def larger(one: int, other: int = 1) -> bool:
    """Returns whether one number is larger."""
    if not one:
        raise ValueError("one is " + "0")
    return one > other
'''
TEST = '''from mxjax.toy import larger

def test_larger():
    assert larger(3) and not larger(1, 2) and larger(2)
'''


@pytest.fixture
def tree(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # they take longer than the tests
    files = {"mxjax/__init__.py": "", "mxjax/toy.py": TOY, "tests/test_toy.py": TEST,
             "pytest.ini": "[pytest]\naddopts = -p no:mxjax"}
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def test_places_that_are_changed():
    assert [(one.line, one.before, one.after) for one in mutation.mutants("toy.py", TOY)] == [
        (6, "1 (default)", "2"), (8, "not one", "(one)"), (9, 'raise ValueError("one is " + "0")', "pass"),
        (10, "return one > other", "return None"), (10, "one > other", "(one >= other)")]


@pytest.mark.parametrize("source, changed", [
    ("é = [f(1 < x, -y)]", ["é = [f((1 <= x), -y)]", "é = [f(2 < x, -y)]", "é = [f(1 < x, (y))]"]),
    ("a.b = c and d", ["pass", "a.b = (c or d)"]), ("a = b", []), ("a = f'{b + 1}'", []), ("a = E.Error('b' * 2)", []),
    ("a = '%d' % b", ["a = '%d?' % b"]), ("a = f'{b}' + c", []), ("a = b.c + d", ["a = (b.c - d)"]),
    ("a = (b\n is c)", ["a = ((b is not c))"]), ("__slots__ = ('a',)", []),
    # words for readers
    ("a = f('two words', help='no')", []), ("a = '{0} words'", ["a = '{0} words?'"]), ("a = ', '", ["a = ', ?'"]),
    ("a = 'a b'.split()", ["a = 'a b?'.split()"]), ("a = b == 'a b'", ["a = (b != 'a b')", "a = b == 'a b?'"])])
def test_changes_of_sources(source, changed):
    content = source.encode()
    assert [(content[:one.start] + one.after.encode() + content[one.end:]).decode()
            for one in mutation.mutants("a.py", source)] == changed


@pytest.mark.slow
def test_what_survives(tree, tmp_path, capsys):
    out = tmp_path / "out.json"
    asked = ["--sample", "9", "--seed", "3", "--rooms", "toy.py", "--out", str(out)]
    assert mutation.main(asked, tree) == 0
    told = capsys.readouterr().out.splitlines()
    assert {line.split(" at ")[0] for line in told if line.startswith("survived")} == {
        "survived  toy.py:10: one > other -> (one >= other)",
        'survived  toy.py:9: raise ValueError("one is " + "0") -> pass'}
    assert told[-1] == "3 killed, 2 survived of 5; killed: 60 %"
    assert (tree / "mxjax/toy.py").read_text() == TOY
    (tree / "tests/test_toy.py").write_text("def test_fails(): assert 0")
    kept = out.read_text()
    mutation.main(asked, tree)
    again = capsys.readouterr().out.splitlines()
    assert out.read_text() == kept and again[:5] == told[:5]  # nothing was tried twice
    assert "fails without a mutant" in again[5]


def test_a_limit(tree):
    (tree / "tests/test_toy.py").write_text("import time\n\ndef test_slow(): time.sleep(60)")
    assert mutation.run(tree, ["tests"], 0.5) == ("timed out", "")


def test_nearest_tests():
    assert mutation.nearest(mutation.ROOT, "gluon/data/sampler.py")[0] == "tests/gluon/test_data.py"
    assert mutation.nearest(mutation.ROOT, "metric.py") == ["tests/test_metric.py", "tests/gluon/test_metric.py"]
    assert all((mutation.ROOT / "tests" / test).exists() for tests in mutation.TESTS.values() for test in tests)
    assert all((mutation.ROOT / "mxjax" / room).exists() for room in mutation.TESTS)
    assert all((mutation.ROOT / test).exists() for test in mutation.TABLES)


def test_the_tests_of_a_line():
    lines = {9: [[5, "b"]], 10: [[5, "b"], [2, "a"]]}
    assert mutation.covering(lines, TOY, 10) == ["a", "b"]  # those that run the fewest lines first
    assert mutation.covering(lines, TOY, 8) == ["b"]  # the `if` to which the line belongs
    assert mutation.covering(lines, TOY, 6) == ["a", "b"]  # the function: its own line runs with the import
    assert mutation.covering(lines, TOY, 3) == ["a", "b"] and mutation.covering({}, TOY, 3) == []


def test_tables_belong_to_what_imports_define(tree):
    lines, (first, *_, last) = {10: [[2, "a"]]}, mutation.mutants("toy.py", TOY)
    assert mutation.tests_of(tree, first, lines) == mutation.tests_of(tree, last, lines) == ["a"]
    (tree / mutation.TABLES[0]).write_text("")
    assert mutation.tests_of(tree, first, lines) == [mutation.TABLES[0], "a"]
    assert mutation.tests_of(tree, last, lines) == ["a"]
    assert mutation.tests_of(tree, last, {}) == [mutation.TABLES[0], "tests/test_toy.py"]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="needs sys.monitoring")
def test_what_tests_run(tree, tmp_path):
    (tree / "tools").mkdir()
    shutil.copy(mutation.ROOT / "tools/covered.py", tree / "tools")
    (tree / "tests/test_toy.py").write_text(TEST + "\ndef test_other(): pass\n")
    environment = {"PYTHONPATH": f"{tree}:{tree / 'tools'}", "COVERED": str(tmp_path / "out"), "PATH": "",
                   "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    subprocess.run([sys.executable, "-m", "pytest", "-p", "covered", "tests"], cwd=tree, env=environment, check=True)
    covered = mutation.read_covered(Path(tmp_path / "out"))
    assert covered == {"toy.py": {line: [[2, "tests/test_toy.py::test_larger"]] for line in (8, 10)}}
