"""Invalid options of handlers."""

from __future__ import annotations

import functools
import math
import re
from datetime import timedelta
from typing import Any

import pytest
from tests.bot.registration import FILTERED, KINDS, on, quote

from freight_exchange import (
    ConfigurationError,
    Router,
)

BARE = KINDS[4:]


class TestInvalidOptions:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("retries", [-1, 1.0, True, "3", None, math.inf], ids=repr)
    def test_retries(self, kind: str, retries: Any) -> None:
        refused(kind, f"retries must be a whole number from 0, not {retries!r}", retries=retries)

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize(
        "timeout", [0, -1, timedelta(0), timedelta(seconds=-1), True, "5", None, math.nan, math.inf, 10**400],
        ids=lambda timeout: repr(timeout)[:20],
    )  # fmt: skip
    def test_timeout(self, kind: str, timeout: Any) -> None:
        refused(kind, "timeout must be ", timeout=timeout)

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("name", ["", "  \n", 5, b"quote", True], ids=repr)
    def test_id(self, kind: str, name: Any) -> None:
        refused(kind, f"id must be a text that is not empty, not {name!r}", id=name)

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("half", ["\ud800", "quote\udfff"], ids=ascii)
    def test_id_with_surrogate(self, kind: str, half: str) -> None:
        refused(kind, "id holds half a character (a lone surrogate), which cannot be kept", id=half)

    def test_name_with_surrogate(self) -> None:
        async def named(request: Any, ctx: Any) -> None: ...

        named.__qualname__ = "\ud800"
        router = Router()
        with pytest.raises(ConfigurationError, match=r"^id holds half a character"):
            router.on_new(named)
        assert list(router) == []

    @pytest.mark.parametrize("value", [1, 0, None, "yes"], ids=repr)
    @pytest.mark.parametrize("kind", ["new", "selected"])
    def test_from_start(self, kind: str, value: Any) -> None:
        refused(kind, f"from_start must be True or False, not {value!r}", from_start=value)

    @pytest.mark.parametrize("kind", ["updated", "withdrawn", "gap", "unreadable"])
    def test_from_start_of_other_kinds(self, kind: str) -> None:
        refused(kind, f"on_{kind} has no from_start", from_start=True)

    @pytest.mark.parametrize("kind", FILTERED)
    @pytest.mark.parametrize("name", ["orgin", "volume", "_wanted", "name", "function", "self"])
    def test_unknown_keyword(self, kind: str, name: str) -> None:
        text = refused(kind, f"on_{kind} has no {name}=: its keywords are ", **{name: 5})
        choices = text.partition(": its keywords are ")[2].split(", ")
        assert {"origin", "where", "max_volume", "id", "retries", "timeout"} <= set(choices)
        assert not [choice for choice in choices if choice.startswith("_")]

    @pytest.mark.parametrize("kind", FILTERED)
    def test_message_lists_keywords(self, kind: str) -> None:
        text = refused(kind, f"on_{kind} has no fromstart=: its keywords are ", fromstart=True)
        assert ("from_start" in text) == (kind in ("new", "selected"))

    @pytest.mark.parametrize("kind", BARE)
    @pytest.mark.parametrize("name", ["origin", "where", "max_volume", "orgin"])
    def test_filter_of_gap(self, kind: str, name: str) -> None:
        text = refused(kind, f"on_{kind} has no {name}=: its keywords are id, retries, timeout", **{name: "Oslo"})
        assert text.endswith("timeout")

    @pytest.mark.parametrize("kind", KINDS)
    def test_function_that_is_not_async(self, kind: str) -> None:
        def plain(request: Any, ctx: Any) -> None: ...

        async def many(request: Any, ctx: Any) -> Any:
            yield request

        for function in (plain, many, lambda request, ctx: quote(request, ctx)):
            router = Router()
            with pytest.raises(ConfigurationError, match=r"must be an async function \(request, ctx\)$") as caught:
                on(router, kind)(function)
            assert repr(function.__qualname__) in str(caught.value)
            with pytest.raises(ConfigurationError, match="must be an async function"):
                on(router, kind)(retries=3)(function)
            assert list(router) == []

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("value", [5, "Hong Kong", {"origin": "Hong Kong"}], ids=repr)
    def test_other_object(self, kind: str, value: Any) -> None:
        router = Router()
        for register in (on(router, kind), on(router, kind)(id="it")):
            with pytest.raises(ConfigurationError, match=f"^@on_{kind} decorates an async function, not a ") as caught:
                register(value)
            assert type(value).__name__ in str(caught.value)
        assert list(router) == []

    def test_object_without_name(self) -> None:
        router = Router()
        with pytest.raises(ConfigurationError, match="needs id="):
            router.on_new(functools.partial(quote))
        assert list(router) == []

    @pytest.mark.parametrize("kind", FILTERED)
    @pytest.mark.parametrize("more", [{"origin": "Oslo"}, {"retries": 3}, {"id": "it"}, {"orgin": "Oslo"}], ids=str)
    def test_function_beside_keywords(self, kind: str, more: dict[str, Any]) -> None:
        """Its filter would be lost, and the handler would offer on each request."""
        router = Router()
        with pytest.raises(ConfigurationError, match=f"on_{kind}"):
            on(router, kind)(quote, **more)
        assert list(router) == []

    @pytest.mark.parametrize("kind", KINDS)
    def test_wrong_signature(self, kind: str) -> None:
        """Each call would fail, and the delivery would become a dead letter after eight retries."""

        async def none() -> None: ...

        async def one(request: Any) -> None: ...

        async def named(request: Any, *, ctx: Any) -> None: ...

        async def hidden(request: Any, ctx: Any, pool: Any, /) -> None: ...

        for function in (none, one, named, hidden):
            router = Router()
            with pytest.raises(ConfigurationError, match=r"\(request, ctx\)"):
                on(router, kind)(function)
            assert list(router) == []

    def test_further_parameters_are_accepted(self) -> None:
        async def anything(*args: Any, **named: Any) -> None: ...

        async def with_pool(request: Any, ctx: Any, /, pool: Any, *, tariff: Any = None) -> None: ...

        router = Router()
        router.on_new(anything)
        router.on_new(with_pool)
        assert len([*router]) == 2


def refused(kind: str, message: str, **keywords: Any) -> str:
    """Check that a decorator raises and registers nothing, and return the message."""
    router = Router()
    with pytest.raises(ConfigurationError, match=f"^{re.escape(message)}") as caught:
        on(router, kind)(**keywords)
    assert list(router) == []
    assert len(str(caught.value)) < 250
    return str(caught.value)
