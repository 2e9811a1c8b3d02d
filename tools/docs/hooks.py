"""What MkDocs does besides: the reference, the map, the search, pages with code that is run, the gallery, borrowed
files.
"""

import concurrent.futures
import json
import logging
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import gallery
import mapping
import reference
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

import mxjax
from mxjax._support import settings
from mxjax.tools import counterparts

ROOT = Path(__file__).resolve().parents[2]
# files of the repository that are pages of the site, too
BORROWED = {"benchmarks/RESULTS.md": "how/results.md", "SECURITY.md": "how/security.md",
            "CHANGELOG.md": "how/changelog.md", "CONTRIBUTING.md": "how/contributing.md",
            "mxjax/README.md": "how/architecture.md", "mxjax/tools/errors.md": "errors.md"}
_LINK = re.compile(r"(?<!!)\[([^\]\n]*(?:\n[^\]\n]*)?)\]\(([^)\s]+)\)")
_EXAMPLE = re.compile(r"<!-- example (\S+) -->\n")
_DRAWING = re.compile(r"<!-- drawing (assets/[\w-]+\.svg) -->")
_log = logging.getLogger("mkdocs.hooks.docs")
_state: dict[str, Any] = {"runs": {}}
_SURROUNDINGS = {"JAX_PLATFORMS": "cpu", "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}


def on_config(config: Any) -> Any:
    """Makes the reference and its part of the navigation."""
    made = _state.setdefault("reference", reference.Reference())
    config.site_name = f"mxjax {mxjax.libinfo.__mxjax_version__}"  # the header shows it
    for entry in config.nav or []:
        if isinstance(entry, dict) and "API reference" in entry:
            entry["API reference"] = made.navigation()
    return config


def on_files(files: Files, config: Any) -> Files:
    """Adds the generated and the borrowed pages; starts the pages with code, two at a time."""
    for path, text in _state["reference"].pages.items():
        files.append(File.generated(config, path, content=text))
    files.append(File.generated(config, "environment-variables.md", content=_settings()))
    for path, target in BORROWED.items():
        files.append(File.generated(config, target, content=(ROOT / path).read_text(encoding="utf-8")))
    differences = (Path(config.docs_dir) / "differences.md").read_text(encoding="utf-8")
    table = mapping.rows(_state["reference"].names, mapping.present(), mapping.mentioned(differences),
                         counterparts.find)
    known = {**_state["reference"].methods, **_state["reference"].names}
    for name, content in (("map", table), ("names", mapping.searched(known, table))):
        files.append(File.generated(config, f"assets/{name}.json", content=json.dumps(content, separators=(",", ":"))))
    _state["gallery"] = gallery.examples(Path(config.docs_dir) / "gallery")
    for name, example in _state["gallery"].items():
        for ext, content in (("ipynb", gallery.notebook(example)), ("py", gallery.script(example))):
            files.append(File.generated(config, f"gallery/{name}.{ext}", content=content))
    _state["cache"] = tempfile.TemporaryDirectory()  # compiled programs of this build's pages, and their pictures
    pool = concurrent.futures.ThreadPoolExecutor(int(os.environ.get("DOCS_WORKERS", "2")))
    pages = {page.relative_to(config.docs_dir).as_posix(): page for page in Path(config.docs_dir).rglob("*.md")}
    for name, page in sorted({**pages, **{target: ROOT / path for path, target in BORROWED.items()}}.items()):
        text = page.read_text(encoding="utf-8")
        if re.match(r"---\n(?:.*\n)*?execute: true\n", text):
            _state["runs"][name] = pool.submit(_run, page, re.search(r"^devices: (\d+)$", text, re.MULTILINE),
                                               _folder(name))
    page = Path(_state["cache"].name) / "examples.md"
    page.write_text("".join(f"<!-- example {name} -->\n\n```python\nimport mxjax as mx\n\n{code}\n```\n\n"
                            for name, code in _state["reference"].examples.items()), encoding="utf-8")
    _state["examples"] = pool.submit(_run, page, None, _folder("examples"))
    pool.shutdown(wait=False)
    return files


def _settings() -> str:
    """The page of environment variables."""
    rows = [f"| `{one.name}` | {one.shown} | {one.meaning} |" for one in settings.TABLE.values()]
    return "\n".join([
        "# Environment variables", "",
        "Settings that mxjax reads, most of them MXNet's. A text that cannot be read is an error that says what was "
        "expected. Variables of MXNet's that change nothing here are listed in [From MXNet](from-mxnet.md).", "",
        "| variable | default | meaning |", "|---|---|---|", *rows, ""])


def _folder(src: str) -> Path:
    """The folder of a page's pictures."""
    return Path(_state["cache"].name) / "pictures" / src


def _run(page: Path, devices: re.Match | None, pictures: Path) -> str:
    pictures.mkdir(parents=True)
    flags = f"--xla_force_host_platform_device_count={devices[1]}" if devices else ""
    given = {k: v for k, v in os.environ.items() if not k.startswith(("MXNET_", "MXJAX_", "DMLC_", "JAX_", "XLA_"))}
    command = [sys.executable, str(Path(__file__).with_name("execute.py")), str(page), "--pictures", str(pictures)]
    done = subprocess.run(command, capture_output=True, text=True, env={
        **given, **_SURROUNDINGS, "XLA_FLAGS": flags, "MXJAX_CACHE_DIR": _state["cache"].name})
    if done.returncode:
        raise PluginError(done.stderr)
    return done.stdout


def _pictures(src: str, files: Files, config: Any) -> list[str]:
    """Waits for a page's run and makes its pictures files of the site; returns their addresses, the last one last."""
    _state["runs"][src].result()
    found = []
    for picture in sorted(_folder(src).glob("*.png"), key=lambda path: (len(path.name), path.name)):
        found.append(os.path.join(os.path.dirname(src), "images", picture.name))
        if files.get_file_from_path(found[-1]) is None:
            files.append(File.generated(config, found[-1], content=picture.read_bytes()))
    return found


def _drawing(path: Path) -> str:
    """A drawing as part of the page, so that it has the colours of the site's light or dark scheme."""
    return f'<div class="drawing">\n{path.read_text(encoding="utf-8").strip()}\n</div>'


def _examples() -> dict[str, str]:
    """The examples made for classes with what they print, by full name."""
    if "printed" not in _state:
        parts = _EXAMPLE.split(_state["examples"].result())
        _state["printed"] = dict(zip(parts[1::2], parts[2::2], strict=True))
    return _state["printed"]


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Has the theme ask this site's search instead of its own, and names the search for screen readers."""
    output = output.replace('data-md-component="search" role="dialog"', 'data-md-component="search" role="dialog" '
                            'aria-label="Search"')
    changed, count = re.subn(r"assets/javascripts/workers/search\.\w+\.min\.js", "assets/search.js", output)
    if not count:
        raise PluginError("the theme names no search worker: it has changed, and assets/search.js must follow")
    return changed


def on_post_build(config: Any) -> None:
    """Removes what the pages' runs have left."""
    _state["cache"].cleanup()


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Puts in what the page's code prints, and turns links to files of the repository."""
    src = page.file.src_uri
    if src in _state["runs"]:
        count, _, text = _state["runs"][src].result().partition("\n")
        shown = _pictures(src, files, config)
        _log.info(f"{src}: {count} blocks run" + f", {len(shown)} pictures" * bool(shown))
        markdown = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL)
    markdown = _DRAWING.sub(lambda match: _drawing(Path(config.docs_dir) / match[1]), markdown)
    if src == "gallery/index.md":
        last = {name: shown[-1].removeprefix("gallery/") for name in _state["gallery"]
                if (shown := _pictures(f"gallery/{name}.md", files, config))}
        markdown = gallery.cards(markdown, _state["gallery"], last)
    elif src.startswith("gallery/"):
        markdown = gallery.with_downloads(markdown, Path(src).stem)
    if src.startswith("api/"):
        return _EXAMPLE.sub(lambda match: _examples()[match[1]], markdown)
    home = next((Path(p) for p, target in BORROWED.items() if target == src), Path("docs") / src).parent

    def turned(match: re.Match) -> str:
        text, link = match[1], match[2]
        if re.match(r"[a-z]+:|#|/", link):
            return match[0]
        path, _, anchor = link.partition("#")
        target = os.path.normpath(home / path)
        inside = BORROWED.get(target) or (target.removeprefix("docs/") if target.startswith("docs/") else "")
        if not inside:
            if not (ROOT / target).exists():
                return match[0]  # MkDocs tells that it is wrong
            return f"{text} (`{target}`)" if target not in text else text
        relative = os.path.relpath(inside, os.path.dirname(src) or ".")
        return f"[{text}]({relative}{'#' + anchor if anchor else ''})"
    pieces = re.split(r"(^```.*?^```)", markdown, flags=re.MULTILINE | re.DOTALL)
    return "".join(p if i % 2 else _LINK.sub(turned, p) for i, p in enumerate(pieces))
