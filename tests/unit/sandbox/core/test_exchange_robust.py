"""Tests of the exchange under any input and profile: it never raises."""

from __future__ import annotations

import json
from typing import Any

import attrs
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.sandbox.rig import OFFER, PUBLISH, ROUTE, ExchangeRig

from freight_sandbox import Profile
from freight_sandbox.service import OPERATIONS

ADDRESSES = sorted(OPERATIONS)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.sampled_from(["all", "sel", "0", "1", "-1", "9999-12-31 23:59:59", "2030-01-01 00:00:00", "FOB"])
)
BODIES = st.builds(
    lambda good, changes: {**good, **changes},
    st.sampled_from([{}, OFFER, PUBLISH, ROUTE, {"index": 301, **ROUTE}, {"offerIndex": 5001, "approved": 1}]),
    st.dictionaries(
        st.sampled_from(
            sorted(
                {
                    *OFFER,
                    *PUBLISH,
                    *ROUTE,
                    "index",
                    "offset",
                    "rowsperpage",
                    "secondsSinceUpdate",
                    "type",
                    "approved",
                }
            )
        ),
        SCALARS | st.lists(SCALARS, max_size=2) | st.dictionaries(st.text(max_size=3), SCALARS, max_size=2),
        max_size=4,
    ),
)
KNOBS = st.sampled_from([(knob.name, value) for knob in Profile.knobs() for value in knob.values])


@given(st.lists(st.tuples(st.sampled_from(ADDRESSES), BODIES), max_size=6), st.lists(KNOBS, max_size=4))
def test_any_calls_under_any_profile_are_answered(calls: list[Any], knobs: list[tuple[str, Any]]) -> None:
    rig = ExchangeRig(attrs.evolve(Profile(), **dict(knobs)))
    rig.exchange.offer(rig.forwarder, rig.exchange.publish(rig.shipper, rig.now), rig.now)
    accounts = {"quote/submitoffer": rig.forwarder, "quote/bid": rig.forwarder}
    for (method, path), body in calls:
        seen = rig.call(method, path, body, by=accounts.get(path, rig.shipper))
        assert seen.status in {200, 201, 202, 204, 400, 403, 404, 405}
        assert rig.exchange.audit_log.calls[-1].processed == (seen.status < 300)


@given(st.binary(max_size=30), st.sampled_from(ADDRESSES))
def test_any_body_is_answered(body: bytes, address: tuple[str, str]) -> None:
    rig = ExchangeRig()
    token = rig.exchange.token(rig.shipper, rig.now)
    seen = rig.send(*address, body, token=token)
    assert seen.status in {200, 400}
    json.loads(seen.reply.body)
