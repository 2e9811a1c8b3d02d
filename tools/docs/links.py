"""Checks the links of a built site: files and anchors inside it, the form of those that lead out.

    python tools/docs/links.py SITE
"""

import re
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class _Page(HTMLParser):
    """Links and anchors of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors.update(v for v in (given.get("id"), given.get("name") if tag == "a" else None) if v)
        self.links += [v for v in (given.get("href"), given.get("src")) if v and tag != "base"]


@cache
def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def check(site: Path) -> tuple[list[str], dict[str, int]]:
    """What is wrong, and how many links of each kind there are."""
    wrong: list[str] = []
    counts = {"pages": 0, "inside": 0, "outside": 0}
    for path in sorted(site.rglob("*.html")):
        counts["pages"] += 1
        for link in _read(path).links:
            where = f"{path.relative_to(site)}: {link}"
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                counts["outside"] += 1
                if parts.scheme not in ("data", "mailto") and not re.fullmatch(r"https?", parts.scheme):
                    wrong.append(f"{where}: what scheme is that?")
                elif parts.scheme in ("http", "https") and not re.fullmatch(r"[\w.-]+(:\d+)?", parts.netloc):
                    wrong.append(f"{where}: no host")
                continue
            counts["inside"] += 1
            base = site if parts.path.startswith("/") else path.parent
            target = (base / unquote(parts.path).lstrip("/")).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            if not target.is_file():
                wrong.append(f"{where}: there is no such file")
            elif parts.fragment and target.suffix == ".html" and path.name != "404.html" and \
                    unquote(parts.fragment) not in _read(target).anchors:
                wrong.append(f"{where}: there is no such anchor")
    return wrong, counts


def main() -> int:
    """Checks the site of the command line; returns the exit status."""
    wrong, counts = check(Path(sys.argv[1]).resolve())
    for line in wrong:
        print(line)
    print(f"{counts['pages']} pages, {counts['inside']} links inside the site, {counts['outside']} out of it: "
          f"{len(wrong)} wrong")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
