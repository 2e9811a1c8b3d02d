"""The READMEs of the package: each module has a row in the one it belongs to, and each row has a file.

A module belongs to the README of its folder, or where there is none to the nearest one above, with its path from there;
`__init__.py` is then what the folder's own row is about. Each folder with modules is a row in the README above it.
"""

import collections
import pathlib
import re

import mxjax

PACKAGE = pathlib.Path(mxjax.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
MOST = 4  # modules that a folder may have without a README of its own
ROW = re.compile(r"^\| `([\w/]+(?:\.py|/))` \| *(.*?) *\|$", re.MULTILINE)


def _home(folder):
    """The folder with the README for what is in this one."""
    while not (folder / "README.md").exists():
        folder = folder.parent
    return folder


def _rows(folder):
    """[(path from the folder, what is said of it)] of a README's tables of files."""
    return ROW.findall((folder / "README.md").read_text(encoding="utf-8"))


def _expected():
    """For each folder with a README the paths that it has to list."""
    paths = collections.defaultdict(set)
    for module in MODULES:
        folder = module.parent
        home = _home(folder)
        if home == folder or module.name != "__init__.py":
            paths[home].add(module.relative_to(home).as_posix())
        if folder != PACKAGE:
            above = _home(folder.parent)
            paths[above].add(f"{folder.relative_to(above).as_posix()}/")
    return paths


def test_each_module_is_in_its_readme_and_each_row_has_a_file():
    expected = _expected()
    assert {p.parent for p in PACKAGE.rglob("README.md")} == set(expected)
    for folder, paths in expected.items():
        names = [name for name, _ in _rows(folder)]
        assert not paths - set(names), f"{folder}/README.md lacks {sorted(paths - set(names))}"
        gone = [name for name in names if not (folder / name).exists()]
        assert not gone, f"{folder}/README.md has rows for {gone}, which are not there"
        twice = [name for name, count in collections.Counter(names).items() if count > 1]
        assert not twice, f"{folder}/README.md lists {twice} more than once"


def test_each_row_says_something():
    for folder in _expected():
        for name, said in _rows(folder):
            assert said, f"{folder}/README.md: {name}"


def test_folders_with_several_modules_have_a_readme():
    counts = collections.Counter(m.parent for m in MODULES if m.name != "__init__.py")
    assert not [str(folder) for folder, count in counts.items() if count > MOST and _home(folder) != folder]


def test_files_named_in_the_readmes_exist():
    """In their text too: by the path from the folder, the package or the repository, or by the name alone."""
    names = {m.name for m in MODULES}
    for readme in PACKAGE.rglob("README.md"):
        for name in re.findall(r"`([\w/.-]+\.(?:py|md))`", readme.read_text(encoding="utf-8")):
            places = [readme.parent / name, PACKAGE / name, PACKAGE.parent / name]
            assert any(p.exists() for p in places) or "/" not in name and name in names, f"{readme}: {name}"


def test_places_named_for_contributors_exist():
    text = (PACKAGE.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for name in re.findall(r"`((?:mxjax|tests|tools|docs|benchmarks)/[\w/.*-]*)`", text):
        assert list(PACKAGE.parent.glob(name.rstrip("/"))), f"CONTRIBUTING.md: {name}"
