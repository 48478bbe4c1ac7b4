"""Tests of hooks: sync or async, in order; their errors are logged and change nothing."""

from __future__ import annotations

import logging

import anyio
import attrs
import pytest

from freight_exchange.errors import DecodeError, TransportError
from freight_exchange.hooks import HOOK_TIMEOUT, Attempt, BrokenRecord, Event, Hooks, Login, Retry

RECORDS: list[Event] = [
    Attempt(
        method="GET",
        path="carrier",
        number=1,
        status=200,
        elapsed=0.1,
        error=None,
        abandoned=False,
        may_have_taken_effect=False,
    ),
    Retry(method="GET", path="carrier", number=1, delay=0.5, error=TransportError("reset")),
    Login(generation=1, reason="first", elapsed=0.2, error=None),
    BrokenRecord(method="GET", path="carrier", error=DecodeError("no number", path="carriers.0.index")),
]


async def test_each_hook_gets_each_record_in_order() -> None:
    seen: list[tuple[str, Event]] = []

    def sync(event: Event) -> None:
        seen.append(("sync", event))

    async def awaited(event: Event) -> None:
        seen.append(("async", event))

    class Callable:
        async def __call__(self, event: Event) -> None:
            seen.append(("object", event))

    hooks = Hooks((sync, awaited, Callable()))
    for record in RECORDS:
        await hooks.emit(record)
    assert seen == [(name, record) for record in RECORDS for name in ("sync", "async", "object")]


async def test_failing_hook_is_logged_once_in_full_and_others_still_run(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[Event] = []

    def sync(_: Event) -> None:
        raise KeyError("sync")

    async def awaited(_: Event) -> None:
        raise TransportError("of another call", unsent=True)

    hooks = Hooks((sync, awaited, seen.append))
    with caplog.at_level(logging.INFO, logger="freight_exchange.hooks"):
        await hooks.emit(RECORDS[0])
        await hooks.emit(RECORDS[0])
    assert seen == [RECORDS[0], RECORDS[0]]
    assert len(caplog.records) == 2
    whys = [record.getMessage().split(": ")[1].split(";")[0] for record in caplog.records]
    assert whys == ["KeyError", "TransportError"]
    assert all(record.exc_info for record in caplog.records)


@pytest.mark.virtual_time
async def test_hanging_hook_is_cancelled(caplog: pytest.LogCaptureFixture) -> None:
    async def hangs(_: Event) -> None:
        await anyio.sleep_forever()

    began = anyio.current_time()
    await Hooks((hangs,)).emit(RECORDS[0])
    assert anyio.current_time() - began == pytest.approx(HOOK_TIMEOUT)
    assert "hangs failed on a record" in caplog.text


def test_hooks_are_true_where_there_are_any() -> None:
    assert not Hooks()
    assert Hooks((print,))


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_records_are_frozen(record: Event) -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        record.elapsed = None  # type: ignore[misc, union-attr]  # what must fail
