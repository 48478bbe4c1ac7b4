"""Check the built site: its links and anchors exist, it fetches nothing from other sites, and no name is missing.

`make docs` runs `python tools/check_site.py site` after the build. `tests/unit/docs/test_site.py` checks the sources.
This program checks what only the built pages have: the anchors of the reference, and the files that the theme fetches.
"""

from __future__ import annotations

import importlib
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

__all__ = ["Page", "problems"]

FETCHED = {
    "audio": "src",
    "embed": "src",
    "iframe": "src",
    "img": "src",
    "link": "href",
    "object": "data",
    "script": "src",
    "source": "src",
    "video": "src",
}
LINKS_THAT_FETCH_NOTHING = {"canonical", "prev", "next", "edit"}
IN_STYLES = re.compile(r"@import\s+['\"]?https?:|url\(\s*['\"]?(?:https?:)?//")


class Page(HTMLParser):
    """Page with its links, its anchors, and the files that a browser fetches for it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        self.anchors.update(attributes[name] for name in ("id", "name") if name in attributes)
        if tag == "a" and "href" in attributes:
            self.links.append(attributes["href"])
        elif tag in FETCHED and FETCHED[tag] in attributes and attributes.get("rel") not in LINKS_THAT_FETCH_NOTHING:
            self.fetched.append(attributes[FETCHED[tag]])


def problems(site: Path) -> list[str]:
    """Return the problems of the site, one per line."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    found: list[str] = [] if pages else [f"there is no page in {site}"]
    for path, page in pages.items():
        # The page of status 404 has absolute links, because it is shown at any depth.
        links = [] if path.name == "404.html" else [*page.links, *page.fetched]
        for link in links:
            if problem := _wrong(path, link, pages):
                found.append(f"{path.relative_to(site)}: {link} {problem}")
        found += [
            f"{path.relative_to(site)}: a browser fetches {link}"
            for link in page.fetched
            if urlsplit(link).scheme in ("http", "https") or link.startswith("//")
        ]
    for sheet in site.rglob("*.css"):
        if IN_STYLES.search(sheet.read_text(encoding="utf-8")):
            found.append(f"{sheet.relative_to(site)}: a browser fetches something from elsewhere")
    there = set().union(*(page.anchors for path, page in pages.items() if path.parent.name == "reference"))
    public = importlib.import_module("freight_exchange").__all__
    found += [
        f"reference: {name} is missing" for name in public if name[0] != "_" and f"freight_exchange.{name}" not in there
    ]
    return found


def _wrong(page: Path, link: str, pages: dict[Path, Page]) -> str | None:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc or link.startswith("//"):
        return None
    there = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if there.is_dir():
        there /= "index.html"
    if not there.exists():
        return "leads nowhere"
    anchor = unquote(parts.fragment)
    if anchor and there in pages and anchor not in pages[there].anchors and not anchor.startswith("__"):
        return "leads to no such place on its page"
    return None


def main(folder: str) -> int:
    found = problems(Path(folder).resolve())
    for line in found:
        print(line, file=sys.stderr)
    print(f"{folder}: {len([*Path(folder).rglob('*.html')])} pages, {len(found)} problems")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
