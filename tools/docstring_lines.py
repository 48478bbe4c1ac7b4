"""Extension of the documentation's docstring reader: a line about several names becomes one line for each.

`origin, destination: Port or city.` reads well in the code, but the reader expects one name per line: it would take the
second one for the type of the first. `mkdocs.yml` names this file.
"""

from __future__ import annotations

import re
from typing import Any

import griffe  # type: ignore[import-not-found]  # only the documentation's environment has it

SHARED = re.compile(
    r"^(?P<indent> +)(?P<names>[a-z_0-9]+(?:, [a-z_0-9]+)+)(?P<description>: .*\n?(?:(?P=indent) {4}.*\n?)*)",
    re.MULTILINE,
)


def lines_of_their_own(docstring: str) -> str:
    """Give each name a separate line with the text of the shared line."""

    def apart(shared: re.Match[str]) -> str:
        description = shared["description"] if shared["description"].endswith("\n") else f"{shared['description']}\n"
        return "".join(f"{shared['indent']}{name}{description}" for name in shared["names"].split(", "))

    return SHARED.sub(apart, docstring)


class DocstringLines(griffe.Extension):  # type: ignore[misc]  # as above
    """Griffe extension that splits shared lines before docstrings are parsed."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = lines_of_their_own(obj.docstring.value)
