"""State and actions of the board: requests, offers, faults, quirks and traffic."""

from __future__ import annotations

import json

import pytest
from tests.board.rig import HERE, BoardClient
from tests.sandbox.rig import NOW, PUBLISH

from freight_sandbox import Call, Profile
from freight_sandbox.samples import samples


@pytest.fixture
def client() -> BoardClient:
    return BoardClient()


# A request from its form to its contacts


async def test_publish_adds_an_open_request(client: BoardClient) -> None:
    (request,) = (await client.act("requests", **PUBLISH))["requests"]
    assert request["state"] == "open"
    assert request["offers"] == []
    assert (request["commodity"], request["origin"], request["arrival"]) == ("Green tea", "Shenzhen", "2030-03-15")
    assert (request["volume"], request["weight"], request["hazardous"]) == ("3.60", "842", True)
    listed = json.loads(client.call("quote/getrequests", by="forwarder").body)["raterequests"]
    assert listed["0"]["commodityname"] == "Green tea"
    assert client.controller.exchange.audit_log.publications[0].call is None


async def test_publish_follows_the_rules_of_the_exchange(client: BoardClient) -> None:
    reply = await client.send("requests", **{**PUBLISH, "weight": "-3"})
    assert reply.status == 400
    assert json.loads(reply.body) == {"message": "The field weight must be a number above zero.", "field": "weight"}
    assert (await client.state())["requests"] == []


async def test_forwarder_is_named_only_after_approval(client: BoardClient) -> None:
    await client.act("requests", **PUBLISH)
    client.offer(amount=1840.5, rates={"Ocean Freight": 1700, "Chassis Fee": 140.5}, terms="valid 14 days")
    seen = await client.state()
    (offer,) = seen["requests"][0]["offers"]
    assert (offer["amount"], offer["currency"], offer["status"]) == ("1,840.50", "USD", "pending")
    assert offer["rates"] == [["Ocean Freight", "1,700.00"], ["Chassis Fee", "140.50"]]
    assert seen["counts"] == {"open": 1, "selected": 0, "withdrawn": 0, "waiting": 1, "struck": 0, "duplicates": 0}
    # Nothing of the forwarder, anywhere in what is known of the request.
    assert "Fergus" not in json.dumps(seen["requests"])
    assert "forwarder" not in json.dumps(seen["requests"]).replace('"forwarder": null', "")

    seen = await client.act("respond", offer=offer["id"], approved=1)
    (offer,) = seen["requests"][0]["offers"]
    assert offer["status"] == "selected"
    assert offer["forwarder"] == {
        "name": "Fergus Forward",
        "email": "forwarder@demo.example",
        "company": "Forward & Co. Ltd",
        "phone": "+852 5550 0100",
        "address": "1 Harbour Road, Hong Kong, Hong Kong",
    }
    assert offer["shipper"]["name"] == "Sylvia Ship"
    assert seen["counts"]["waiting"] == 0
    assert await client.refusal("respond", offer=offer["id"], approved=1) == "An offer has already been selected."


async def test_events_of_both_sides_are_listed_with_the_side_that_hears_of_them(client: BoardClient) -> None:
    await client.act("requests", **PUBLISH)
    for amount in (900, 800):
        client.now += 1
        client.offer(amount=amount)
    client.now += 1
    await client.act("respond", offer=5001, approved=0)
    client.now += 1
    events = (await client.act("respond", offer=5002, approved=1))["events"]
    shipper, forwarder = "shipper@demo.example", "forwarder@demo.example"
    assert [(event["kind"], event["amount"], event["by"], event["to"]) for event in events] == [
        ("approved", "USD 800.00", shipper, forwarder),
        ("declined", "USD 900.00", shipper, forwarder),
        ("offered", "USD 800.00", forwarder, shipper),
        ("offered", "USD 900.00", forwarder, shipper),
        ("published", None, shipper, "forwarders"),
    ]
    assert {event["request"] for event in events} == {1}
    client.now += 1
    await client.act("requests", **PUBLISH)
    assert [event["kind"] for event in (await client.act("withdraw", request=2))["events"]][:2] == [
        "withdrawn",
        "published",
    ]


async def test_decline_marks_the_offer(client: BoardClient) -> None:
    await client.act("requests", **PUBLISH)
    client.offer()
    (request,) = (await client.act("respond", offer=5001, approved=0))["requests"]
    assert request["state"] == "open"
    assert [offer["status"] for offer in request["offers"]] == ["declined"]
    assert await client.refusal("respond", offer=5001, approved=0) == "The offer is no longer pending."
    assert await client.refusal("respond", offer=7, approved=0) == "There is no such offer."


async def test_board_answers_for_any_shipper(client: BoardClient) -> None:
    client.call("quote/submitrequest", by="rival", **PUBLISH)
    client.offer()
    (request,) = (await client.act("respond", offer=5001, approved=1))["requests"]
    assert request["offers"][0]["shipper"]["name"] == "Rita Rival"


async def test_withdraw_closes_an_open_request(client: BoardClient) -> None:
    await client.act("requests", **PUBLISH)
    (request,) = (await client.act("withdraw", request=1))["requests"]
    assert request["state"] == "withdrawn"
    assert await client.refusal("withdraw", request=1) == "That request is not open any more."
    assert await client.refusal("withdraw", request=9) == "That request is not open any more."


async def test_rival_offers_below_the_best_offer(client: BoardClient) -> None:
    await client.act("requests", **PUBLISH)
    seen = await client.act("offer_as_rival", request=1)
    assert [offer["amount"] for offer in seen["requests"][0]["offers"]] == ["252.00"]  # 3.6 m3 at 70 dollars
    client.offer(amount=100)
    seen = await client.act("offer_as_rival", request=1)
    assert [offer["amount"] for offer in seen["requests"][0]["offers"]] == ["252.00", "100.00", "97.00"]
    # Those of the forwarder, whose account the board gives to a bot.
    assert [offer["own"] for offer in seen["requests"][0]["offers"]] == [False, True, False]
    assert seen["counts"]["duplicates"] == 0
    assert await client.refusal("offer_as_rival", request=2) == "There is no such request."


async def test_rival_offers_no_less_than_one_dollar(client: BoardClient) -> None:
    """Repeated offers of the same amount would count as one that was sent twice."""
    await client.act("requests", **PUBLISH)
    client.offer(amount=1.04)
    seen = await client.act("offer_as_rival", request=1)
    assert [offer["amount"] for offer in seen["requests"][0]["offers"]] == ["1.04", "1.01"]
    assert await client.refusal("offer_as_rival", request=1) == "The rival goes no lower: its least offer is 1.00."
    assert (await client.state())["counts"]["duplicates"] == 0


@pytest.mark.parametrize("size", ["0.000001", "9" * 30])
async def test_rival_offers_the_default_on_extreme_cargo(client: BoardClient, size: str) -> None:
    await client.act("requests", **{**PUBLISH, "length": size, "width": size, "height": size, "weight": size})
    seen = await client.act("offer_as_rival", request=1)
    assert [offer["amount"] for offer in seen["requests"][0]["offers"]] == ["1,000.00"]


async def test_open_requests_are_shown_before_closed_ones(client: BoardClient) -> None:
    """The page has a limit of requests, and those that wait for an answer must be on it."""
    for _ in range(204):
        client.controller.exchange.publish(client.controller.exchange.shipper, NOW)
    client.offer(2)
    for request in (204, 203):
        client.controller.exchange.withdraw(request, NOW)
    client.offer(202)
    client.controller.exchange.select(5002, NOW)
    seen = await client.state()
    assert [request["index"] for request in seen["requests"]] == [*range(201, 2, -1), 2]
    assert seen["hidden"] == 4
    assert sum(len(request["offers"]) for request in seen["requests"]) == seen["counts"]["waiting"] == 1


@pytest.mark.parametrize("text", ["\udfff\udffeNaN", "\ud800", "\x00\u2028</script>"])
async def test_any_text_is_valid_json(client: BoardClient, text: str) -> None:
    assert client.call("quote/submitrequest", by="shipper", **{**PUBLISH, "commodityname": text}).status == 200
    assert [request["commodity"] for request in (await client.state())["requests"]] == [text]


# Faults and quirks


async def test_lost_answer_and_second_offer_are_counted(client: BoardClient) -> None:
    await client.act("requests", **PUBLISH)
    seen = await client.act("arm", name="reset_after_processing", operation="submit", times=1)
    assert [(armed["label"], armed["at"]) for armed in seen["armed"]] == [
        ("The answer to an offer gets lost", "Submitting an offer")
    ]
    # Not what the fault is for, and so not struck.
    assert client.call("quote/getrequests").wire is None
    assert client.call("quote/bid", requestIndex=1, offer=100, currencyIndex=840).wire is not None
    client.call("quote/bid", "GET")
    seen = await client.state()
    assert seen["armed"] == []
    assert seen["counts"]["struck"] == 1
    (strike,) = seen["strikes"]
    assert strike["fault"] == "The answer to an offer gets lost"
    assert (strike["caller"], strike["processed"], strike["request"]) == ("forwarder@demo.example", True, 1)
    assert [step["actions"] for step in strike["next_calls"]] == [["lists its own offers"]]
    assert strike["offers"] == 1

    client.offer()
    seen = await client.state()
    assert seen["strikes"][0]["offers"] == 2
    assert seen["counts"]["duplicates"] == 1


async def test_offer_of_another_amount_is_no_duplicate(client: BoardClient) -> None:
    """A bot may improve an offer after a decline, even if the reply to the offer is lost."""
    await client.act("requests", **PUBLISH)
    client.offer(amount=900)
    await client.act("respond", offer=5001, approved=0)
    await client.act("arm", name="reset_after_processing", operation="submit", times=1)
    client.offer(amount=850)
    assert (await client.state())["strikes"][0]["offers"] == 1
    client.offer(amount=800)
    assert (await client.state())["strikes"][0]["offers"] == 1
    client.offer(amount=850)
    assert (await client.state())["strikes"][0]["offers"] == 2


async def test_caller_of_an_unprocessed_call_is_known(client: BoardClient) -> None:
    await client.act("requests", **PUBLISH)
    await client.act("arm", name="reset_after_send", operation="submit", times=1)
    client.offer()
    (strike,) = (await client.state())["strikes"]
    assert (strike["caller"], strike["processed"], strike["offers"]) == ("forwarder@demo.example", False, 0)


async def test_calls_about_other_requests_are_left_out(client: BoardClient) -> None:
    for _ in range(2):
        await client.act("requests", **PUBLISH)
    await client.act("arm", name="reset_after_send", operation="submit", times=1)
    client.offer(1)
    client.offer(2)
    client.call("quote/getrequests", by="rival")
    client.call("quote/bid", "GET")
    client.offer(1)
    (strike,) = (await client.state())["strikes"]
    assert [(step["actions"], step["request"]) for step in strike["next_calls"]] == [
        (["lists its own offers"], None),
        (["submits an offer"], 1),
    ]


async def test_faults_do_not_strike_actions_of_the_board(client: BoardClient) -> None:
    await client.act("arm", name="unavailable_forever")
    (request,) = (await client.act("requests", **PUBLISH))["requests"]
    assert request["index"] == 1
    assert client.call("quote/getrequests").status == 503
    assert client.call("login", by=None, email="x", password="y").status == 503
    (armed,) = (await client.state())["armed"]
    assert armed["times"] is None
    seen = await client.act("disarm", id=armed["id"])
    assert seen["armed"] == []
    assert client.call("quote/getrequests").status == 200


async def test_equal_faults_are_switched_off_one_by_one(client: BoardClient) -> None:
    await client.act("arm", name="unavailable", operation="search", times=3)
    first, second = (await client.act("arm", name="unavailable", operation="search", times=1))["armed"]
    assert [armed["id"] for armed in (await client.act("disarm", id=first["id"]))["armed"]] == [second["id"]]
    assert [client.call("quote/getrequests").status for _ in range(2)] == [503, 200]
    await client.act("arm", name="unavailable")
    assert (await client.act("disarm"))["armed"] == []


async def test_fault_strikes_at_the_chosen_phase(client: BoardClient) -> None:
    await client.act("requests", **PUBLISH)
    await client.act("arm", name="unavailable", operation="submit", times=2, processed=True)
    assert [client.offer(amount=amount).status for amount in (1, 2, 3)] == [503, 503, 200]
    assert len((await client.state())["requests"][0]["offers"]) == 3
    assert (
        await client.refusal("arm", name="reset_after_send", processed=True)
        == "This fault cannot strike at that moment."
    )
    assert await client.refusal("arm", name="slow", seconds=600) == "Give seconds from 0 to 60."
    assert await client.refusal("arm", name="slow", times=0) == "The field times is out of range."
    for missing in ({"name": "refused"}, {"name": "nonsense"}, {"name": "slow", "operation": "nonsense"}):
        assert await client.refusal("arm", **missing) == "There is no such fault."


async def test_quirks_are_set_and_reset(client: BoardClient) -> None:
    seen = await client.act("set_quirk", name="rows_clamp", value=3)
    assert seen["quirks"] == {"rows_clamp": 3}
    await client.act("set_quirk", name="order", value="random")
    seen = await client.act("set_quirk", name="latency", value=0.25)
    assert seen["quirks"] == {"rows_clamp": 3, "order": "random", "latency": 0.25}
    assert client.controller.exchange.profile == Profile(rows_clamp=3, order="random", latency=0.25)
    seen = await client.act("set_quirk", name="rows_clamp", value=None)
    assert "rows_clamp" not in seen["quirks"]
    assert (await client.act("reset_quirks"))["quirks"] == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("order", "sideways"),
        ("order", None),
        ("latency", -1),
        ("latency", 61),
        pytest.param("latency", 10**400, id="a giant"),
        ("latency", "1"),
        ("latency", True),
        ("rows_clamp", 0),
        ("rows_clamp", 1.5),
        ("rows_clamp", True),
        ("token_lifetime", None),
        ("bom", 1),
        ("unauthorized_status", True),
        ("unauthorized_status", 404),
        ("colour", "blue"),
        ("__init__", "blue"),
    ],
)
async def test_invalid_quirk_is_refused(client: BoardClient, name: str, value: object) -> None:
    assert await client.refusal("set_quirk", name=name, value=value)
    assert client.controller.exchange.profile == Profile()


async def test_every_fault_and_quirk_of_the_catalogue_can_be_switched_on(client: BoardClient) -> None:
    offered = json.loads((await client.get("board/catalogue")).body)
    for fault in offered["faults"]:
        await client.act("arm", name=fault["name"], operation=fault["operation"], processed=fault["phases"][-1])
    for quirk in offered["quirks"]:
        for choice in quirk["choices"] or [quirk["default"]]:
            await client.act("set_quirk", name=quirk["name"], value=choice)
    shelved = {fault["name"]: fault for fault in offered["faults"]}
    operations = {operation["key"] for operation in offered["operations"]}
    for entry in offered["suggested_faults"]:
        assert entry["fault"] in shelved
        assert entry["operation"] in operations | {""}
    assert len(offered["faults"]) == 84
    assert len(offered["quirks"]) == len(Profile.knobs())


async def test_every_example_can_be_published(client: BoardClient) -> None:
    for cargo in json.loads((await client.get("board/catalogue")).body)["samples"]:
        await client.act("requests", **cargo)
    assert len((await client.state())["requests"]) == len(list(samples(8, NOW)))


# Traffic


async def test_replicas_of_a_bot_are_told_apart_by_their_logins(client: BoardClient) -> None:
    """Three replicas share an account: a fault strikes one, and another one looks for its offer."""
    await client.act("requests", **PUBLISH)
    for replica in (0, 1, 2, 1, 1):
        client.call("quote/getrequests", replica=replica)
    await client.act("arm", name="reset_after_processing", operation="submit", times=1)
    client.call("quote/submitoffer", replica=2, requestIndex=1, offer=100, currencyIndex=840)
    client.call("quote/bid", method="GET", replica=0)
    seen = await client.state()
    assert {call["caller"] for call in seen["calls"]} == {"forwarder@demo.example"}
    assert [(call["login"], call["count"]) for call in seen["calls"]] == [
        (1, 1),
        (3, 1),
        (2, 2),
        (3, 1),
        (2, 1),
        (1, 1),
    ]
    (strike,) = seen["strikes"]
    assert (strike["login"], [step["login"] for step in strike["next_calls"]]) == (3, [1])


async def test_polls_are_grouped(client: BoardClient) -> None:
    for _ in range(5):
        client.call("quote/getrequests")
        client.call("quote/bid", "GET")
    client.call("quote/getrequests", by="rival")
    client.call("nowhere")
    calls = (await client.state())["calls"]
    assert [(call["caller"].partition("@")[0], call["actions"], call["status"], call["count"]) for call in calls] == [
        ("forwarder", ["calls POST nowhere"], 404, 1),
        ("rival", ["lists requests"], 200, 1),
        ("forwarder", ["lists requests", "lists its own offers"], 200, 10),
    ]


async def test_login_line_names_the_email_and_no_password(client: BoardClient) -> None:
    client.call("login", by=None, email="forwarder@demo.example", password="wrong")
    client.controller.handle(Call("POST", "login", {}, HERE, b"\xff{"), NOW)
    calls = (await client.state())["calls"]
    assert [(call["caller"], call["status"]) for call in calls] == [(None, 400), ("forwarder@demo.example", 401)]
    assert "wrong" not in json.dumps(await client.state())


async def test_old_calls_are_dropped(client: BoardClient) -> None:
    await client.act("arm", name="unavailable_forever", times=None)
    for _ in range(5_000):
        client.call("quote/getrequests")
    audit_log, script = client.controller.exchange.audit_log, client.controller.exchange.faults
    assert max(len(audit_log.calls), len(script.fired)) <= 2_000
    seen = await client.state()
    assert seen["counts"]["struck"] == 5_000
    assert len(json.dumps(seen)) < 50_000
