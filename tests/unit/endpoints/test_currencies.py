"""Tests of currency codes, which the list of the service resolves."""

from __future__ import annotations

import anyio
import pytest
from tests.unit.endpoints.scripted import ScriptedService, replies

from freight_exchange import (
    ValidationError,
)


class TestCurrencies:
    USD = {"index": 1, "name": "US Dollar", "code": " usd "}
    EUR = {"index": 2, "name": "Euro", "code": "EUR"}

    async def test_an_empty_list_is_not_kept(self) -> None:
        service = ScriptedService(replies({"currencies": []}), replies({"currencies": [self.USD]}))
        async with service.client() as exchange:
            with pytest.raises(ValidationError, match="none"):
                await exchange.currencies.by_code("USD")
            assert (await exchange.currencies.by_code("Usd ")).index == 1

    @pytest.mark.virtual_time
    async def test_a_code_that_the_list_lacks_is_looked_for_again_after_a_minute(self) -> None:
        service = ScriptedService(replies({"currencies": [self.USD]}), replies({"currencies": [self.USD, self.EUR]}))
        async with service.client() as exchange:
            await exchange.currencies.by_code("USD")
            with pytest.raises(ValidationError, match="which has USD"):
                await exchange.currencies.by_code("EUR")
            assert len(service.requests) == 1
            await anyio.sleep(61)
            await exchange.currencies.by_code("USD")
            assert len(service.requests) == 1
            assert (await exchange.currencies.by_code("EUR")).index == 2
            with pytest.raises(ValidationError, match="which has EUR, USD"):
                await exchange.currencies.by_code("GBP")
            assert len(service.requests) == 2

    @pytest.mark.parametrize("listed", [[], [USD]], ids=["an empty list", "a list"])
    async def test_many_who_wait_for_the_list_fetch_it_once(self, listed: list[object]) -> None:
        service = ScriptedService(replies({"currencies": listed}))
        refused: list[ValidationError] = []

        async def look() -> None:
            try:
                await exchange.currencies.by_code("EUR")
            except ValidationError as error:
                refused.append(error)

        async with service.client() as exchange:
            await exchange.login()
            async with anyio.create_task_group() as group:
                for _ in range(50):
                    group.start_soon(look)
        assert len(refused) == 50
        assert len(service.requests) == 1

    async def test_one_code_of_two_currencies(self) -> None:
        service = ScriptedService(replies({"currencies": [self.USD, self.EUR | {"code": "USD"}]}))
        async with service.client() as exchange:
            with pytest.raises(ValidationError, match="index, one of 1, 2") as caught:
                await exchange.currencies.by_code("USD")
            assert caught.value.field == "code"
            with pytest.raises(ValidationError, match="index, one of 1, 2") as caught:
                await exchange.bids.submit(4, amount=5, currency="USD")
            assert caught.value.field == "currency"
