"""Tests of the error of a write whose outcome is unknown."""

from __future__ import annotations

import copy
import pickle
import traceback
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from freight_exchange.errors import ConfigurationError, OutcomeUnknownError
from freight_exchange.models import NotApplied, Reconciliation, SubmitOffer, Write

WRITE = SubmitOffer(4, Decimal("1840.50"), 840, rates={"Ocean Freight": Decimal(1700)}, terms="14 days")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Client:
    """Client that records its calls and, like a real one, does not pickle."""

    def __init__(self) -> None:
        self.calls: list[tuple[Write, timedelta, Sequence[object] | None]] = []

    async def reconcile(self, write: Write, *, settle: timedelta, baseline: Sequence[object] | None) -> Reconciliation:
        self.calls.append((write, settle, baseline))
        return NotApplied()

    def __reduce__(self) -> str:
        raise TypeError("a client does not pickle")


async def test_reconcile_asks_the_client_that_raised_the_error() -> None:
    client = Client()
    error = OutcomeUnknownError("unknown", write=WRITE, exchange=client)
    assert await error.reconcile() == NotApplied()
    assert await copy.copy(error).reconcile(settle=timedelta(seconds=5), baseline=[]) == NotApplied()
    assert client.calls == [(WRITE, timedelta(seconds=30), None), (WRITE, timedelta(seconds=5), [])]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))])
async def test_deep_copy_and_pickle_keep_the_write_and_need_a_client(copied: Any) -> None:
    first, second = Client(), Client()
    error = copied(OutcomeUnknownError("unknown", write=WRITE, exchange=first))
    with pytest.raises(ConfigurationError, match="needs the client"):
        await error.reconcile()
    await error.reconcile(second)
    assert [call[0] for call in second.calls] == [WRITE]
    assert first.calls == []


async def test_another_client_may_be_asked() -> None:
    first, second = Client(), Client()
    await OutcomeUnknownError("unknown", write=WRITE, exchange=first).reconcile(second)
    assert (len(first.calls), len(second.calls)) == (0, 1)


@pytest.mark.parametrize("client", ["x", 5, object()])
async def test_reconcile_refuses_a_value_that_is_no_client(client: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"must be a FreightExchange, not {type(client).__name__}"):
        await OutcomeUnknownError("unknown", write=WRITE, exchange=Client()).reconcile(client)


async def test_reconcile_refuses_an_error_without_a_write() -> None:
    with pytest.raises(ConfigurationError, match="no write"):
        await OutcomeUnknownError("unknown", exchange=Client()).reconcile()


def test_raised_error_prints_its_sentence_last() -> None:
    with pytest.raises(OutcomeUnknownError) as caught:
        raise OutcomeUnknownError("whether it was carried out is not known", write=WRITE)
    assert "".join(traceback.format_exception_only(caught.value)).endswith(
        "OutcomeUnknownError: whether it was carried out is not known\n"
    )
