"""`python -m mxjax alias [status | install | remove]`: a distribution named `mxnet` that stands for mxjax.

It equals the build of `packaging/mxnet`, without building, pip or network: the module and a `.dist-info` with the
list of its files, so that `pip uninstall mxnet` and `importlib.metadata` know it.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import glob
import hashlib
import importlib.machinery
import importlib.metadata
import os
import pathlib
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from .. import level
from .._support.files import refusals, together, write_file
from ..base import MXNetError

__all__ = ["VERSION", "VERSIONS", "Installed", "add_arguments", "install", "installed", "main", "remove"]

# by level of the API; the last number is the version of the stand-in itself
VERSIONS = {api: f"{version}+mxjax.1" for api, version in level.VERSIONS.items()}
VERSION = VERSIONS[1]
_OURS = "+mxjax."
_FOR_CHILDREN = pathlib.Path(__file__).parents[1] / "interop" / "for_children"
_STAND_IN = _FOR_CHILDREN.parent / "stand_in"
_MODULES = {"mxnet/__init__.py": _STAND_IN / "mxnet" / "__init__.py",
            "_mxnet_finder.py": _STAND_IN / "_mxnet_finder.py",
            "mxnet_predict.py": _FOR_CHILDREN / "mxnet_predict.py"}
_AT_START = _STAND_IN / "_mxnet_finder.pth"
DIST_INFO = {api: f"mxnet-{version}.dist-info" for api, version in VERSIONS.items()}
_CHOICE = b"install_mxnet_alias()"  # in the module's text, replaced for MXNet 2
_CHOICE_2 = b'install_mxnet_alias(api=int(__import__("os").environ.get("MXJAX_API") or 2))'


class Installed(NamedTuple):
    """A distribution that brings `mxnet`: its name, version, folder, and whether it is the stand-in."""

    name: str
    version: str
    folder: pathlib.Path
    ours: bool
    distribution: importlib.metadata.Distribution

    def __str__(self) -> str:
        return f"{'the stand-in' if self.ours else self.name} {self.version} in {self.folder}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("what", nargs="?", choices=("status", "install", "remove"), default="status",
                        help="status exits with 0 if `import mxnet` imports the stand-in; install adds it to the "
                             "environment of this Python; remove removes it, and nothing else")
    parser.add_argument("--target", metavar="FOLDER", help="a folder for PYTHONPATH instead of the environment")
    parser.add_argument("--api", type=int, choices=(1, 2), help="install: the level of MXNet's API, 1 (MXNet 1.9.1) or "
                                                                "2 (MXNet 2.0), unless MXJAX_API is set; default: the "
                                                                "level of this process")
    parser.add_argument("--force", action="store_true", help="install: replace another mxnet, whose files are removed, "
                                                             "and install into a Python that the operating system "
                                                             "manages")


def main(args: argparse.Namespace) -> int:
    """Runs the command with its parsed arguments; returns the exit status."""
    if args.force and args.what != "install":
        raise MXNetError(f"alias {args.what} does not accept --force; only alias install does")
    api = getattr(args, "api", None)
    if api and args.what != "install":
        raise MXNetError(f"alias {args.what} does not accept --api; only alias install does")
    if args.what == "install":
        print(f"installed {install(args.target, args.force, api)}")
        return 0
    if args.what == "remove":
        gone = remove(args.target)
        for one in gone:
            print(f"removed {one}")
        if not gone:
            print(f"the stand-in is not in {_folder(args.target)}")
        return 0
    return _status(args.target)


def installed(target: str | os.PathLike[str] | None = None) -> list[Installed]:
    """Returns the distributions that bring `mxnet`, in the order in which Python looks for them.

    Args:
        target: look into this folder alone; by default into all that Python looks into, but the current folder.
    """
    result = {}
    for distribution in importlib.metadata.distributions(path=[str(folder) for folder in _searched(target)]):
        name = distribution.metadata["Name"] or ""
        if re.sub(r"[-_.]+", "-", name).lower() == "mxnet" or name.lower().startswith("mxnet") and any(
                str(file) == "mxnet/__init__.py" for file in distribution.files or ()):
            folder = pathlib.Path(str(distribution.locate_file(""))).resolve()
            one = Installed(name, distribution.version, folder, name == "mxnet" and _OURS in distribution.version,
                            distribution)
            result.setdefault((folder, name, one.version), one)
    return list(result.values())


def install(target: str | os.PathLike[str] | None = None, force: bool = False, api: int | None = None) -> Installed:
    """Writes the stand-in into an environment; one of another version is replaced.

    Args:
        target: a folder for `PYTHONPATH`; by default the environment of this Python.
        force: also where another `mxnet` is installed. One in the same folder is removed, file by file of its own list.
        api: 1 or 2, the level of MXNet's API in its processes unless `MXJAX_API` sets another; by
            default that of this process.

    Raises:
        MXNetError: another `mxnet` is there, the system refuses to write, or has Python for itself.

    Example:
        >>> install("/srv/site")  # doctest: +SKIP
    """
    folder = _folder(target)
    there = installed(target)
    others = [one for one in there if not one.ours]
    if others and not force:
        raise MXNetError(f"{others[0]} is installed and does not belong to mxjax: uninstall it (pip uninstall "
                         f"{others[0].name}), or pass --force to replace it with the stand-in")
    here = [one for one in there if one.folder == folder]
    for one in here:
        if one.distribution.files is None and not one.ours:
            raise MXNetError(f"{one} has no list of its files; remove it with the tool that installed it")
    if not here:
        for name in ("mxnet", "mxnet.py", "mxnet_predict.py"):
            if os.path.lexists(folder / name) and not _is_empty(folder / name):
                raise MXNetError(f"{folder / name} does not belong to any distribution; move it away first")
    if target is None and not force and _system_has_it():
        raise MXNetError(f"{sys.prefix} is managed by the operating system (EXTERNALLY-MANAGED): use a virtual "
                         "environment, --target FOLDER, or --force")
    new = _contents(level.current() if api is None else api)
    with _writing(folder):
        for name in new:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
        with together():
            for name, content in new.items():
                write_file(folder / name, content)
        for one in here:
            _delete(folder, [name for name in _files(one) if name not in new])
    return next(one for one in installed(folder) if one.ours)


def remove(target: str | os.PathLike[str] | None = None) -> list[Installed]:
    """Removes the stand-in from an environment, or from a folder; returns its removed files.

    Raises:
        MXNetError: the system refuses.
    """
    folder = _folder(target)
    gone = [one for one in installed(folder) if one.ours]
    with _writing(folder):
        for one in gone:
            _delete(folder, _files(one))
    return gone


def _status(target: str | None) -> int:
    there = installed(target)
    for one in there:
        print(one)
    if not there:
        print(f"no mxnet is installed in {_folder(target) if target else sys.prefix}")
    spec = importlib.machinery.PathFinder.find_spec("mxnet", [str(folder) for folder in _searched(target)])
    origin = None if spec is None else spec.origin
    same = origin is not None and pathlib.Path(origin).read_bytes() in [_module(api) for api in VERSIONS]
    if origin is not None:
        print(f"import mxnet finds {origin}: {'mxjax' if same else 'not mxjax'}")
    stale = [one for one in there if one.ours and one.version not in VERSIONS.values()]
    if stale:
        print(f"this mxjax has {' and '.join(VERSIONS.values())}: python -m mxjax alias install")
    return 0 if same and not stale else 1


def _folder(target: str | os.PathLike[str] | None) -> pathlib.Path:
    """The folder that modules are installed into."""
    return pathlib.Path(sysconfig.get_path("purelib") if target is None else target).resolve()


def _searched(target: str | os.PathLike[str] | None) -> list[pathlib.Path]:
    """The folders to look into, in Python's order."""
    if target is not None:
        return [_folder(target)]
    here = pathlib.Path.cwd()  # `python -m` imports from here first, and packages here are not installed
    folders = dict.fromkeys(pathlib.Path(path).resolve() for path in sys.path if path)
    folders.setdefault(_folder(None))
    return [folder for folder in folders if folder not in (here, _FOR_CHILDREN.resolve()) and folder.is_dir()]


def _system_has_it() -> bool:
    return sys.prefix == sys.base_prefix and os.path.exists(
        os.path.join(sysconfig.get_path("stdlib", sysconfig.get_default_scheme()), "EXTERNALLY-MANAGED"))


def _is_empty(path: pathlib.Path) -> bool:
    """Returns whether a folder has no files except compiled Python modules."""
    return path.is_dir() and {entry.name for entry in path.iterdir()} <= {"__pycache__"}


def _module(api: int, name: str = "mxnet/__init__.py") -> bytes:
    text = _MODULES[name].read_bytes()
    return text if api == 1 else text.replace(_CHOICE, _CHOICE_2)


def _contents(api: int) -> dict[str, bytes]:
    """Returns the stand-in's files by path: first those needed for its removal, last the imported module."""
    info = DIST_INFO[api]
    modules = {name: _module(api, name) for name in sorted(_MODULES, reverse=True)}
    rest = {
        f"{info}/METADATA": f"Metadata-Version: 2.4\nName: mxnet\nVersion: {VERSIONS[api]}\nSummary: The API of Apache "
        f"MXNet {level.VERSIONS[api]}, by mxjax\nLicense-Expression: Apache-2.0\nRequires-Python: >=3.11\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: mxjax\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/INSTALLER": b"mxjax\n", f"{info}/top_level.txt": b"mxnet\nmxnet_predict\n", **modules,
        _AT_START.name: _AT_START.read_bytes()}
    record = "".join(f"{name},sha256={_digest(content)},{len(content)}\n" for name, content in rest.items())
    return {f"{info}/RECORD": f"{record}{info}/RECORD,,\n".encode(), **rest}


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def _files(one: Installed) -> Iterator[str]:
    """The paths of a distribution's files from its folder; for a stand-in that has lost its list, the ones it has."""
    if one.distribution.files is not None:
        yield from (file.as_posix() for file in one.distribution.files)
    else:
        yield from (name.replace(DIST_INFO[1], f"mxnet-{one.version}.dist-info") for name in _contents(1))


def _delete(folder: pathlib.Path, names: Iterable[str]) -> None:
    """Removes files, the last first, their compiled modules, and folders that become empty."""
    prefix = pathlib.Path(sys.prefix).resolve()  # scripts are beside the folder of modules, and in the environment
    root = prefix if folder.is_relative_to(prefix) else folder
    parents = set()
    for name in reversed([*names]):
        path = pathlib.Path(os.path.normpath(folder / name))
        if not path.is_relative_to(root):
            continue  # a list of files may be anybody's
        compiled = path.parent / "__pycache__"
        for file in (path, *map(pathlib.Path, glob.glob(f"{glob.escape(str(compiled / path.stem))}.*.pyc"))):
            file.unlink(missing_ok=True)
        parents.update(above for above in (compiled, *path.parents) if above != folder and folder in above.parents)
    for above in sorted(parents, key=lambda path: len(path.parts), reverse=True):
        with contextlib.suppress(OSError):  # it is not empty
            above.rmdir()


@contextlib.contextmanager
def _writing(folder: pathlib.Path) -> Iterator[None]:
    """A block that changes an environment; its error names the remedy if that is not permitted."""
    try:
        with refusals(f"cannot change {folder}"):
            yield
    except MXNetError as error:
        raise MXNetError(f"{error}. Use a virtual environment, or --target FOLDER with FOLDER in PYTHONPATH") from error
