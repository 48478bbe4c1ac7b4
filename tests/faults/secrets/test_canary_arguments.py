"""Tests that errors about invalid arguments contain no password."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx
import pytest
from tests.faults.secrets.canary import PASSWORD, PROXY_PASSWORD, TOKEN, Catch

from freight_exchange import FreightExchange, FreightExchangeError

EMAIL = "canary@demo.example"
BEARER = f"Bearer {TOKEN}"
_QUOTED = quote(PROXY_PASSWORD, safe="")


@pytest.mark.parametrize(
    "options",
    [
        {"deadline": -1},
        {"max_connections": 0},
        {"max_writes": 0},
        {"get_parameters": "nowhere"},
        {"addresses": {"submit": "elsewhere"}},
        {"timeouts": 5},
        {"verify": False},
        {"http_client": 7},
        {"proxy": "nonsense"},
        {"proxy": f"nonsense {PROXY_PASSWORD}"},
        {"proxy": f"ftp://me:{_QUOTED}@proxy.example"},
        {"proxy": f"http://me:{_QUOTED}@"},
        {"proxy": f"http://me:{PROXY_PASSWORD}@proxy.example:no"},
        {"proxy": f"http://me:{_QUOTED}@proxy.example:70000"},
        {"proxy": f"http://me:{_QUOTED}@[::1"},
        {"proxy": f"http://me:{_QUOTED}@proxy.example\x00"},
        {"proxy": f"http://me:{_QUOTED}@xn--a\u2603.example"},
        {"proxy": f"http://me:{_QUOTED}\x01@proxy.example"},
        {"proxy": f"http://me:{_QUOTED}@proxy.example", "http_client": httpx.AsyncClient()},
        {"proxy": f"http://me:{_QUOTED}@proxy.example", "verify": 7},
        {"proxy": f"http://me:{_QUOTED}@proxy.example", "keepalive": -1},
        {"proxy": f"http://me:{_QUOTED}@proxy.example", "base_url": "https://host\x00/api"},
        {"credentials": lambda: None},
        {"email": ""},
        {"token_store": 1},
        {"base_url": "http://exchange.example/api"},
        {"base_url": "https://me:word@exchange.example/api"},
        {"base_url": "https://exchange.example/api?token=word"},
    ],
    ids=lambda options: next(iter(options)),
)
async def test_wrong_arguments_beside_a_password(options: dict[str, Any]) -> None:
    arguments = {"base_url": "https://exchange.example/api", "email": EMAIL, **options}
    catch = Catch()
    with catch:
        catch.error(await _refused(arguments))
    # The test's own frames hold what it gives.
    hits = [hit for hit in catch.hits() if "arguments" not in hit and "options" not in hit]
    assert hits == []


async def _refused(arguments: dict[str, Any]) -> FreightExchangeError:
    with pytest.raises(FreightExchangeError) as caught:
        async with FreightExchange(password=PASSWORD, **arguments):
            pytest.fail("it was taken")
    error = caught.value
    return error.with_traceback(error.__traceback__.tb_next if error.__traceback__ is not None else None)
