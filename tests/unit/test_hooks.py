"""Hooks: sync or async, in order, and their bugs are not hidden."""

from __future__ import annotations

import attrs
import pytest

from freight_exchange.errors import DecodeError, TransportError
from freight_exchange.hooks import Attempt, BrokenRecord, Event, Hooks, Login, Retry

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


async def test_a_bug_in_a_hook_is_not_hidden() -> None:
    def sync(_: Event) -> None:
        raise KeyError("sync")

    async def awaited(_: Event) -> None:
        raise KeyError("async")

    for hook in (sync, awaited):
        with pytest.raises(KeyError):
            await Hooks((hook,)).emit(RECORDS[0])


def test_hooks_are_true_where_there_are_any() -> None:
    assert not Hooks()
    assert Hooks((print,))


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_records_are_frozen(record: Event) -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        record.elapsed = None  # type: ignore[misc, union-attr]  # what must fail
