"""Tests of the client of a command, and of interrupted writes."""

from __future__ import annotations

import pytest
from tests.unit.cli.harness import Shell

from freight_exchange import FreightExchange
from freight_exchange.cli.client.session import run_with_client
from freight_exchange.cli.exit_status import InterruptedWriteError
from freight_exchange.cli.options import GlobalOptions


def test_url_without_api_is_warned_of(shell: Shell) -> None:
    result = shell("--url", shell.url.removesuffix("/api"), "currencies")
    assert result.err.startswith("Warning: the URL usually ends in /api")
    assert "warnings.warn" not in result.err


def test_verbose_logs_requests(shell: Shell) -> None:
    result = shell("-vv", "currencies")
    assert "freight_exchange.auth: logged in" in result.err


def test_interruption_after_write_reports_unknown_outcome(shell: Shell) -> None:
    request = shell.publish()

    async def offer(exchange: FreightExchange) -> None:
        await exchange.bids.submit(request, amount=1, currency="USD")
        raise KeyboardInterrupt

    async def read(exchange: FreightExchange) -> None:
        await exchange.requests.get(request)
        raise KeyboardInterrupt

    options = GlobalOptions(url=shell.url, email=shell.exchange.forwarder.email)
    with pytest.raises(InterruptedWriteError, match="may or may not have taken it") as caught:
        run_with_client(options, offer, lookup_command="bids list")
    assert "Check with `freight-exchange bids list`" in caught.value.__notes__[0]
    with pytest.raises(KeyboardInterrupt):
        run_with_client(options, read, lookup_command="bids list")
