"""Board under any request: no request raises, and the page stays readable."""

from __future__ import annotations

import json
from typing import Any

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sandbox.rig import NOW, PUBLISH

from freight_sandbox import Call, Exchange, Profile
from freight_sandbox.board import Board, BoardController
from freight_sandbox.board.labels import AVAILABLE_FAULTS, OPERATIONS

PAGE = {"host": "localhost:1", "origin": "http://localhost:1", "content-type": "application/json"}
REVISION = 12_345
# A request for the current revision waits for the next one: these ask for others.
AFTER = (st.integers().map(str) | st.text()).filter(lambda text: text.lstrip("+0") != str(REVISION))
NUMBERS = st.integers() | st.sampled_from([1, 5001, 10**18, 10**31, 10**400, -(10**400)])
VALUES = (
    st.none()
    | st.booleans()
    | NUMBERS
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec=None), max_size=5)
    | st.sampled_from(["\udfff\udffeNaN", "random", "1", "1e5", *OPERATIONS, *list(AVAILABLE_FAULTS)[:5]])
    | st.lists(st.integers(), max_size=2)
    | st.dictionaries(st.text(max_size=2), st.integers(), max_size=2)
)
NAMES = st.sampled_from([*AVAILABLE_FAULTS, *(knob.name for knob in Profile.knobs())])
# What an act takes beside the fields of a request.
FIELDS = ["request", "offer", "approved", "id", "name", "operation", "times", "processed", "seconds", "value"]
BODIES = st.builds(
    lambda good, changes: {**good, **changes},
    st.sampled_from([{}, PUBLISH, {"request": 1}, {"offer": 5001, "approved": 1}, {"offer": 5001, "approved": 0}]),
    st.dictionaries(
        st.sampled_from([*PUBLISH, *FIELDS]),
        VALUES | NAMES,
        max_size=5,
    ),
)
ACTS = st.sampled_from(
    ["requests", "withdraw", "respond", "offer_as_rival", "arm", "disarm", "set_quirk", "reset_quirks", "nonsense", ""]
)


@settings(max_examples=30)
@given(st.lists(st.tuples(ACTS, BODIES), max_size=6))
def test_any_sequence_of_actions_is_answered(acts: list[tuple[str, Any]]) -> None:
    controller = BoardController(Exchange(), clock=lambda: NOW)
    controller.exchange.offer(
        controller.exchange.forwarder, controller.exchange.publish(controller.exchange.shipper, NOW), NOW
    )
    board = Board(controller)

    async def run() -> None:
        for act, body in acts:
            reply = await board(Call("POST", f"board/{act}", {}, PAGE, json.dumps(body).encode()))
            assert reply.status in {200, 400, 403, 404}
            json.loads(reply.body)
        for path in ("state", "catalogue"):
            reply = await board(Call("GET", f"board/{path}", {}, PAGE))
            assert reply.status == 200
            json.loads(reply.body, parse_constant=int)

    anyio.run(run)


@given(
    st.sampled_from(["GET", "POST", "HEAD", "PUT", "\x00"]),
    st.sampled_from(["", "board", "board/", "board/state", "board/catalogue", "api", "board/requests"]) | st.text(),
    st.dictionaries(st.sampled_from(["after", "x"]), AFTER),
    st.dictionaries(st.sampled_from([*PAGE, "sec-fetch-site"]), st.text(st.characters(codec="latin-1"), max_size=20)),
    st.binary(max_size=30),
)
def test_any_call_to_the_board_is_answered(
    method: str, path: str, query: dict[str, str], headers: dict[str, str], body: bytes
) -> None:
    controller = BoardController(Exchange(), clock=lambda: NOW)
    controller.revision = REVISION
    board = Board(controller)
    reply = anyio.run(board, Call(method, path, query, {**PAGE, **headers}, body))
    assert reply.status in {200, 302, 400, 403, 404, 405, 415, 421}
