"""For the reference: a line of a docstring that is about several names becomes a line for each.

`origin, destination: Port or city.` reads well in the code. The site's reader of docstrings knows one name a line: it
would show the second one as the type of the first. `mkdocs.yml` names this file.
"""

from __future__ import annotations

import re
from typing import Any

import griffe  # type: ignore[import-not-found]  # only the documentation's environment has it

SHARED = re.compile(
    r"^(?P<indent> +)(?P<names>[a-z_0-9]+(?:, [a-z_0-9]+)+)(?P<said>: .*\n?(?:(?P=indent) {4}.*\n?)*)", re.MULTILINE
)


def lines_of_their_own(docstring: str) -> str:
    """The docstring with each name on a line of its own, which says what the shared line said."""

    def apart(shared: re.Match[str]) -> str:
        said = shared["said"] if shared["said"].endswith("\n") else f"{shared['said']}\n"
        return "".join(f"{shared['indent']}{name}{said}" for name in shared["names"].split(", "))

    return SHARED.sub(apart, docstring)


class DocstringLines(griffe.Extension):  # type: ignore[misc]  # as above
    """Puts the lines of every docstring apart, before they are read."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = lines_of_their_own(obj.docstring.value)
