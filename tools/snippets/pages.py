"""Blocks of a page: their code, their file names, and how they run."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["PAGES", "ROOT", "WAYS", "Snippet", "extract", "requirements_of", "snippets_of"]

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

WAYS: Final = {
    "program": "ends by itself",
    "bot": "runs until it is stopped; makes an offer",
    "watcher": "runs until it is stopped; prints a line",
    "test": "pytest runs it",
    "recorded": "pytest runs it with an exchange, and again without one",
    "saved": "another block needs it",
}
"""First word of a mark, `<!-- run: program, forwarder -->`. The other words name the account and what happens."""

_BLOCK: Final = re.compile(
    r"(?:<!-- run: (?P<marks>[a-z, ]+) -->\n)?```(?P<kind>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<text>.*?)\n?```",
    re.DOTALL,
)
_INSTALL: Final = re.compile(r"\bpip install ((?:\"[^\"]+\"|[\w./\[\]-]+|[ ](?![ #]))+)")
_CLONE: Final = re.compile(r"^\.{0,2}/?freight-exchange(?P<extras>\[.*\])?$")


@dataclass(frozen=True)
class Snippet:
    """Block that is saved under a name.

    Attributes:
        page: The page that shows it.
        name: The name of its file: the block's title, or one made of the page and a number.
        marks: One of `WAYS`, then the account and what happens.
        code: Its text.
    """

    page: Path
    name: str
    marks: tuple[str, ...]
    code: str

    @property
    def way(self) -> str:
        return self.marks[0]


def snippets_of(page: Path) -> list[Snippet]:
    """Return the marked blocks of a page.

    Raises:
        ValueError: A Python block is not marked and is not a file of the project.
    """
    found: list[Snippet] = []
    for number, match in enumerate(_BLOCK.finditer(page.read_text()), 1):
        if match["marks"] is not None and (match["kind"] == "python" or match["title"] is not None):
            name = match["title"] or f"{page.stem.lower().replace('-', '_')}_{number}.py"
            found.append(Snippet(page, name, tuple(match["marks"].split(", ")), f"{match['text']}\n"))
        elif match["kind"] == "python" and "--8<--" not in match["text"]:
            raise ValueError(f"{page}: a Python block is not marked:\n{match['text']}")
    return found


def requirements_of(page: Path) -> frozenset[str]:
    """Return the page's packages; only this package if it names none."""
    words = [word for match in _INSTALL.finditer(page.read_text()) for word in shlex.split(match[1])]
    return frozenset({"freight-exchange", *(_CLONE.sub(r"freight-exchange\g<extras>", word) for word in words)})


def extract(folder: Path, pages: Iterable[Path] = PAGES) -> list[Path]:
    """Save the Python blocks in one folder, where a type checker reads them, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {
        folder / snippet.name: snippet.code
        for page in pages
        for snippet in snippets_of(page)
        if snippet.name.endswith(".py")
    }
    for old in set(folder.glob("*.py")) - wanted.keys():
        old.unlink()
    for path, code in wanted.items():
        if not path.exists() or path.read_text() != code:
            path.write_text(code)
    return sorted(wanted)


if __name__ == "__main__":
    extract(Path(sys.argv[1]))
