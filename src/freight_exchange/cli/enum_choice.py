"""Parameter type of an option whose value is a word of an enum."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import click
from click.shell_completion import CompletionItem

import freight_exchange

if TYPE_CHECKING:
    from freight_exchange.words import Word

    ParamType = click.ParamType[Any]
else:
    # Generic only in recent releases of click.
    ParamType = click.ParamType

__all__ = ["EnumChoice", "ParamType"]

_NO_NAMES: Final[Mapping[str, str]] = MappingProxyType({})


class EnumChoice(ParamType):
    """Value of an enum, in any case; `-` and `_` count as blanks.

    Args:
        enum_name: The name of an enum of `freight_exchange`, imported on first use.
        names: Plain names of values that the service abbreviates; the values are valid too.
    """

    def __init__(self, enum_name: str, names: Mapping[str, str] = _NO_NAMES) -> None:
        self.name = "word"
        self._enum_name = enum_name
        self._names = names

    @property
    def words(self) -> list[str]:
        """Names of the values, plain ones where there are some."""
        members: type[Word] = getattr(freight_exchange, self._enum_name)
        plain = {value: name for name, value in self._names.items()}
        return [plain.get(member.value, member.value) for member in members]

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return f"[{'|'.join(self.words)}]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        normalized = _normalize(str(value))
        words = [*self.words, *self._names.values()]
        match = next((word for word in words if _normalize(word) == normalized), None)
        if match is None:
            self.fail(f"{value!r} is none of {', '.join(self.words)}", param, ctx)
        return self._names.get(match, match)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(word) for word in self.words if word.casefold().startswith(incomplete.casefold())]


def _normalize(word: str) -> str:
    return " ".join(re.split(r"[\s_-]+", word.strip())).casefold()
