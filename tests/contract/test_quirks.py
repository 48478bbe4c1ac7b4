"""Tests of every operation under every quirk of a service: results change only as in `differences`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from tests.contract.conftest import Fill
from tests.contract.coverage import KNOB_VALUES, ROWS, Row
from tests.contract.differences import BESIDE, DIFFERENCES, SUITED
from tests.contract.scenarios import NOW, Outcomes, RecordingExchange, new_exchange, run_scenario
from tests.sandbox.rig import ExchangeRig, RigReply
from tests.sandbox.test_quirks import BESIDE as BESIDE_IN_SCENES
from tests.sandbox.test_quirks import SCENES

from freight_exchange import FreightExchange
from freight_exchange.testing import Sandbox
from freight_sandbox import Account, Exchange, Profile

QUIRKS: dict[str, tuple[str, Any]] = {
    f"{knob.name}={value}": (knob.name, value) for knob in Profile.knobs() for value in knob.values
}
SAMPLE = KNOB_VALUES[::12]
"""Quirks tested on trio too; a sample, since no quirk depends on the backend."""

CASES = [*(("asyncio", name) for name in KNOB_VALUES), *(("trio", name) for name in SAMPLE)]
_documented: dict[tuple[Profile, str], tuple[Outcomes, RecordingExchange]] = {}


def profiles(name: str) -> tuple[Profile, Profile]:
    """Return the profile without and with a value of a knob."""
    knob, value = QUIRKS[name]
    plain = BESIDE.get(knob, Profile())
    return plain, attrs.evolve(plain, **{knob: value})


class StoppedSandbox(Sandbox):
    def now(self) -> float:
        return NOW


def connector(exchange: Exchange) -> Callable[..., FreightExchange]:
    """Return the function that creates clients of an exchange in memory."""
    sandbox = StoppedSandbox()
    sandbox.exchange = exchange

    def connect(account: Account, *, password: str | None = None, **options: Any) -> FreightExchange:
        return sandbox.client(account, password=account.password if password is None else password, **options)

    return connect


async def run_in_process(row: Row, exchange: Exchange, **options: Any) -> Outcomes:
    return await run_scenario(row, exchange, connector(exchange), **options)


async def run_once(row: Row, profile: Profile) -> tuple[Outcomes, RecordingExchange]:
    key = profile, row.name
    if key not in _documented:
        exchange = new_exchange(profile)
        _documented[key] = await run_in_process(row, exchange), exchange
    return _documented[key]


async def as_documented(row: Row, profile: Profile) -> Outcomes:
    outcomes, _ = await run_once(row, profile)
    return outcomes


def without_order(outcomes: Outcomes) -> Outcomes:
    return {name: sorted(value, key=repr) if isinstance(value, list) else value for name, value in outcomes.items()}


def differing(outcomes: Outcomes, expected: Outcomes) -> dict[str, tuple[object, object]]:
    """Return the outcomes that differ, each with the expected one."""
    assert outcomes.keys() == expected.keys()
    return {name: (outcomes[name], expected[name]) for name in outcomes if outcomes[name] != expected[name]}


@pytest.mark.virtual_time
@pytest.mark.parametrize(("anyio_backend", "name"), CASES, indirect=["anyio_backend"])
async def test_quirk_changes_results_only_as_listed(name: str, fill: Fill) -> None:
    plain, profile = profiles(name)
    difference = DIFFERENCES.get(name)
    wrong: dict[str, object] = {}
    for row in ROWS:
        expected, documented = await run_once(row, plain)
        if documented.answers_alike(new_exchange(profile)):
            outcomes = expected
        else:
            outcomes = await run_in_process(row, new_exchange(profile))
        if difference is not None:
            expected = difference.change(row.name, expected)
            if not difference.in_order:
                expected, outcomes = without_order(expected), without_order(outcomes)
        wrong |= {f"{row}: {part}": pair for part, pair in differing(outcomes, expected).items()}
        fill(row.name, "knobs", name)
    assert wrong == {}


@pytest.mark.parametrize("name", DIFFERENCES)
async def test_listed_difference_occurs(name: str) -> None:
    """A listed difference that no scenario shows would hide a bug one day."""
    plain, _ = profiles(name)
    difference = DIFFERENCES[name]
    assert name in KNOB_VALUES
    assert difference.reason
    occurrences = []
    for row in ROWS:
        expected = await as_documented(row, plain)
        changed = difference.change(row.name, expected)
        occurrences.append(bool(differing(changed, expected)) or not difference.in_order)
    assert any(occurrences)


@pytest.mark.parametrize("name", SUITED)
async def test_matching_client_option_removes_difference(name: str) -> None:
    plain, profile = profiles(name)
    for row in ROWS:
        assert (
            differing(await run_in_process(row, new_exchange(profile), **SUITED[name]), await as_documented(row, plain))
            == {}
        )


@pytest.mark.parametrize("value", ["currencyIndex", "currencyId"])
@pytest.mark.parametrize("option", ["currency_field", "carrier_field"])
async def test_both_field_names_match_any_service(option: str, value: str) -> None:
    documented_name: Any = (
        value if option == "currency_field" else {"currencyIndex": "carrier", "currencyId": "carrierId"}[value]
    )
    profile = attrs.evolve(Profile(), **{option: documented_name})
    for row in ROWS:
        outcomes = await run_in_process(row, new_exchange(profile), **{option: "both"})
        assert differing(outcomes, await as_documented(row, Profile())) == {}


class RecordingRig(ExchangeRig):
    """Rig that records every reply with its address."""

    def __init__(self, profile: Profile) -> None:
        super().__init__(profile)
        self.replies: list[tuple[str, RigReply]] = []

    def send(self, method: str, path: str, body: bytes = b"", **other: Any) -> RigReply:
        reply = super().send(method, path, body, **other)
        self.replies.append((f"{method} {path}", reply))
        return reply


@functools.cache
def replies(knob: str, value: Any) -> list[tuple[str, RigReply]]:
    plain = BESIDE_IN_SCENES.get(knob, Profile())
    rig = RecordingRig(plain if value is None else attrs.evolve(plain, **{knob: value}))
    SCENES[knob](rig)
    return rig.replies


@pytest.mark.parametrize("name", KNOB_VALUES)
def test_quirk_changes_a_reply(name: str, changes: Callable[[str, list[str]], None]) -> None:
    knob, value = QUIRKS[name]
    pairs = zip(replies(knob, None), replies(knob, value), strict=True)
    changed = {address for (address, plain), (_, other) in pairs if plain.reply != other.reply}
    assert changed
    changes(name, sorted(changed))
