"""Every operation under every habit of a server: the typed results are the same, but for what `knobs.py` says."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import attrs
import httpx
import pytest
from tests.contract.conftest import Fill
from tests.contract.knobs import BESIDE, DIFFERENCES, SUITED
from tests.contract.stories import NOW, Outcomes, new_exchange, tell
from tests.contract.table import KNOB_VALUES, ROWS, Row
from tests.unit.sandbox.model.test_profile import BESIDE as BESIDE_IN_SCENES
from tests.unit.sandbox.model.test_profile import SCENES
from tests.unit.sandbox.rig import ExchangeRig, RigReply

from freight_exchange import FreightExchange
from freight_exchange.sandbox import Account, Profile
from freight_exchange.sandbox.faces.inprocess import transport

TURNS: dict[str, tuple[str, Any]] = {
    f"{knob.name}={value}": (knob.name, value) for knob in Profile.knobs() for value in knob.values
}
SAMPLE = KNOB_VALUES[::6]
"""What trio is asked as well: the habits are the service's, and the backend does not see them."""

EVERY_TURN = [*(("asyncio", name) for name in KNOB_VALUES), *(("trio", name) for name in SAMPLE)]
_documented: dict[tuple[Profile, str], Outcomes] = {}


def turned(name: str) -> tuple[Profile, Profile]:
    """The profile without and with a value of a knob."""
    knob, value = TURNS[name]
    plain = BESIDE.get(knob, Profile())
    return plain, attrs.evolve(plain, **{knob: value})


async def told(row: Row, profile: Profile, **options: Any) -> Outcomes:
    exchange = new_exchange(profile)

    def connect(account: Account, *, password: str | None = None, **other: Any) -> FreightExchange:
        http = httpx.AsyncClient(transport=transport(exchange, clock=lambda: NOW), trust_env=False)
        secret = account.password if password is None else password
        return FreightExchange("http://127.0.0.1/api", email=account.email, password=secret, http_client=http, **other)

    return await tell(row, exchange, connect, **options)


async def as_documented(row: Row, profile: Profile) -> Outcomes:
    key = profile, row.name
    if key not in _documented:
        _documented[key] = await told(row, profile)
    return _documented[key]


def without_order(outcomes: Outcomes) -> Outcomes:
    return {name: sorted(value, key=repr) if isinstance(value, list) else value for name, value in outcomes.items()}


def differing(got: Outcomes, due: Outcomes) -> dict[str, tuple[object, object]]:
    """The outcomes that are not what is due, each beside what is."""
    assert got.keys() == due.keys()
    return {name: (got[name], due[name]) for name in got if got[name] != due[name]}


@pytest.mark.virtual_time
@pytest.mark.parametrize(("anyio_backend", "name"), EVERY_TURN, indirect=["anyio_backend"])
async def test_a_habit_changes_what_it_must_and_nothing_else(name: str, fill: Fill) -> None:
    plain, profile = turned(name)
    difference = DIFFERENCES.get(name)
    wrong: dict[str, object] = {}
    for row in ROWS:
        due, got = await as_documented(row, plain), await told(row, profile)
        if difference is not None:
            due = difference.change(row.name, due)
            if not difference.in_order:
                due, got = without_order(due), without_order(got)
        wrong |= {f"{row}: {part}": pair for part, pair in differing(got, due).items()}
        fill(row.name, "knobs", name)
    assert wrong == {}


@pytest.mark.parametrize("name", DIFFERENCES)
async def test_a_difference_that_is_written_down_is_there(name: str) -> None:
    """A line of the table that no story meets would excuse a fault some day."""
    plain, _ = turned(name)
    difference = DIFFERENCES[name]
    assert name in KNOB_VALUES
    assert difference.reason
    met = []
    for row in ROWS:
        due = await as_documented(row, plain)
        changed = difference.change(row.name, due)
        met.append(bool(differing(changed, due)) or not difference.in_order)
    assert any(met)


@pytest.mark.parametrize("name", SUITED)
async def test_the_option_that_suits_a_habit_leaves_no_difference(name: str) -> None:
    plain, profile = turned(name)
    for row in ROWS:
        assert differing(await told(row, profile, **SUITED[name]), await as_documented(row, plain)) == {}


@pytest.mark.parametrize("value", ["currencyIndex", "currencyId"])
@pytest.mark.parametrize("option", ["currency_field", "carrier_field"])
async def test_both_spellings_at_once_suit_any_service(option: str, value: str) -> None:
    wanted: Any = (
        value if option == "currency_field" else {"currencyIndex": "carrier", "currencyId": "carrierId"}[value]
    )
    profile = attrs.evolve(Profile(), **{option: wanted})
    for row in ROWS:
        got = await told(row, profile, **{option: "both"})
        assert differing(got, await as_documented(row, Profile())) == {}


class WatchedDesk(ExchangeRig):
    """A desk that keeps every reply with the address that gave it."""

    def __init__(self, profile: Profile) -> None:
        super().__init__(profile)
        self.seen: list[tuple[str, RigReply]] = []

    def send(self, method: str, path: str, body: bytes = b"", **other: Any) -> RigReply:
        seen = super().send(method, path, body, **other)
        self.seen.append((f"{method} {path}", seen))
        return seen


@functools.cache
def replies(knob: str, value: Any) -> list[tuple[str, RigReply]]:
    plain = BESIDE_IN_SCENES.get(knob, Profile())
    desk = WatchedDesk(plain if value is None else attrs.evolve(plain, **{knob: value}))
    SCENES[knob](desk)
    return desk.seen


@pytest.mark.parametrize("name", KNOB_VALUES)
def test_a_habit_changes_a_reply_that_is_named(name: str, changes: Callable[[str, list[str]], None]) -> None:
    knob, value = TURNS[name]
    pairs = zip(replies(knob, None), replies(knob, value), strict=True)
    changed = {address for (address, plain), (_, other) in pairs if plain.reply != other.reply}
    assert changed
    changes(name, sorted(changed))
