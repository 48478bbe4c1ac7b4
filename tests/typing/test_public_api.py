"""What a user's type checker must see. mypy and pyright judge this file; pytest only imports it."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_type

if TYPE_CHECKING:
    from freight_exchange import FreightExchange, User


async def logging_in_gives_a_user(exchange: FreightExchange) -> None:
    assert_type(await exchange.login(), User)
