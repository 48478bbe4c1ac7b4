"""Tests of each HTTP transport against a server over real sockets: no duplicate, wrong result or foreign error."""

from __future__ import annotations

import pytest
from tests.model.socket_runs import TRANSPORTS, Transport, summarize

_SEED = 0


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_reports_of_calls_are_true(transport: Transport) -> None:
    total = summarize(transport, range(_SEED, _SEED + 20))
    assert total.is_clean, total.summary()


@pytest.mark.long
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_two_thousand_seeded_runs_break_no_rule(transport: Transport, backend: str) -> None:
    total = summarize(transport, range(_SEED, _SEED + 2000), "trio" if backend == "trio" else "asyncio")
    assert total.is_clean, total.summary()
