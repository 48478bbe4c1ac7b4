"""Tests of the README: it is short, and its parts are in order."""

from __future__ import annotations

import re

from tools.snippets.pages import PAGES, ROOT, snippets_of

README = (ROOT / "README.md").read_text()
LIMIT = 1_500
"""Words of a guide without its code."""
REFERENCE = {
    "bot-reference.md",
    "service.md",
    "benchmark-figures.md",
    "watcher-measurements.md",
    "fleet-measurements.md",
}


def test_readme_has_at_most_600_words_before_the_links() -> None:
    before, links, _ = README.partition("\n## Documentation\n")
    assert links
    assert len(before.split()) <= 600


def test_readme_has_its_parts_in_order() -> None:
    parts = [
        "A typed Python SDK",
        "pip install ",
        "freight-exchange demo",
        'title="quickstart.py"',
        'title="my_bot.py"',
        'title="approve.py"',
        "docs/img/board-busy.png",
        "make demo",
        "make test",
        "## Documentation",
    ]
    places = [README.index(part) for part in parts]
    assert places == sorted(places)


def test_readme_has_one_script_for_each_side_and_one_bot() -> None:
    snippets = snippets_of(ROOT / "README.md")
    assert [(snippet.name, snippet.way) for snippet in snippets] == [
        ("quickstart.py", "program"),
        ("my_bot.py", "bot"),
        ("approve.py", "program"),
    ]


def test_readme_has_few_words_beside_its_code() -> None:
    assert len(re.sub(r"```.*?```", "", README, flags=re.DOTALL).split()) < 500


def test_no_guide_is_too_long() -> None:
    for page in PAGES:
        prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
        assert len(prose.split()) <= LIMIT or page.name in REFERENCE, page


def test_guide_to_bots_is_short_with_its_code() -> None:
    assert len((ROOT / "docs" / "bot.md").read_text().split()) <= LIMIT
