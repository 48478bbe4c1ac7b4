"""Bots that record what they receive."""

from __future__ import annotations

from typing import Any

from freight_exchange import Bot

LOGGER = "freight_exchange.bot"


def hearing(bot: Bot, received: list[int], **options: Any) -> Bot:
    """Register a handler of new requests that records them."""

    async def record(request: Any, ctx: Any) -> None:
        received.append(request.index)

    bot.on_new(**{"id": "records", **options})(record)
    return bot
