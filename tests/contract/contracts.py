"""Contracts of the service document: for each call of the SDK its request, reply and typed result.

The JSON of `bodies` and `replies` is typed by hand from the document's tables and sentences. It tests the SDK and the
sandbox alike, and neither generated it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any, Final, Literal

import attrs
from tests.contract import expected
from tests.contract.coverage import ROWS, Row, row_named
from tests.sandbox.rig import NOW, ExchangeRig

from freight_exchange import FreightExchange
from freight_sandbox import Account

__all__ = ["CONTRACTS", "Contract"]

Call = Callable[[FreightExchange], Awaitable[object]]
Side = Literal["shipper", "forwarder"]
Scene = Callable[[ExchangeRig], object]


@attrs.frozen(kw_only=True)
class Contract:
    """Request of a call and its reply.

    Attributes:
        name: The name of the test and of `bodies/<name>.json`.
        row: The operation and its address.
        call: The call of the SDK.
        body: Whether the request has a body.
        reply: The name of `replies/<reply>.json`.
        result: The typed result of that reply.
        by: The account that calls.
        scene: Prepares the sandbox.
        is_shown_state: Whether the sandbox is in the state that the reply shows, so that its own has the same form.
        options: Options of the client.
    """

    name: str
    row: Row
    call: Call
    reply: str
    result: object
    body: bool = True
    by: Side = "forwarder"
    scene: Scene = lambda rig: None
    is_shown_state: bool = True
    options: Mapping[str, Any] = attrs.field(factory=dict)

    def __str__(self) -> str:
        return f"{self.name} at {self.row}"

    def account(self, rig: ExchangeRig) -> Account:
        return rig.shipper if self.by == "shipper" else rig.forwarder


def _published(rig: ExchangeRig) -> None:
    """Publish the requests 4 and 5, after three that are withdrawn."""
    for _ in range(3):
        rig.exchange.withdraw(rig.exchange.publish(rig.shipper, NOW - 50), NOW - 40)
    for _ in range(2):
        rig.exchange.publish(rig.shipper, NOW - 30, expected.CARGO)


def _offered(rig: ExchangeRig) -> None:
    """Submit two offers on request 4, the first with fees and terms."""
    _published(rig)
    rig.exchange.offer(
        rig.forwarder, 4, NOW - 20, amount=expected.AMOUNT, currency=978, rates=expected.RATES, terms="valid 14 days"
    )
    rig.exchange.offer(rig.rival, 4, NOW - 20, amount=expected.AMOUNT, currency=840)


def _selected(rig: ExchangeRig) -> None:
    """Approve the first of them."""
    _offered(rig)
    rig.exchange.select(5001, NOW - 10)


def _selected_and_pending(rig: ExchangeRig) -> None:
    _selected(rig)
    rig.exchange.offer(rig.forwarder, 5, NOW - 5, amount=expected.AMOUNT, currency=840)


def _only_the_selected(rig: ExchangeRig) -> None:
    _selected(rig)
    rig.exchange.withdraw(5, NOW - 5)


def _registered(rig: ExchangeRig) -> None:
    rig.exchange.add_account("me@co.example", "correct horse", role="both")


def _read_contracts() -> list[Contract]:
    open_, search, route = map(row_named, ("GET quote/request", "POST quote/getrequests", "GET route"))
    offers, found, bids = map(row_named, ("GET quote/offer", "POST quote/getoffers", "GET quote/bid"))
    carrier, currency = row_named("GET carrier"), row_named("GET currency")
    one, one_route = [expected.REQUEST], [expected.ROUTE]

    def requests(name: str, row: Row, call: Call, **other: Any) -> Contract:
        return Contract(**{"name": name, "row": row, "call": call, "scene": _published, **_ONE_REQUEST, **other})

    def routes(name: str, call: Call, **other: Any) -> Contract:
        return Contract(name=name, row=route, call=call, **{"reply": "routes", "result": one_route, **other})

    def listings(name: str, row: Row, call: Call, **other: Any) -> Contract:
        usual: dict[str, Any] = {"reply": "offers", "result": expected.LISTINGS, "scene": _offered}
        return Contract(name=name, row=row, call=call, by="shipper", **{**usual, **other})

    def mine(name: str, call: Call, **other: Any) -> Contract:
        usual: dict[str, Any] = {
            "reply": "bids",
            "result": expected.BIDS,
            "scene": _selected_and_pending,
            "is_shown_state": False,
        }
        return Contract(name=name, row=bids, call=call, **{**usual, **other})

    hour = timedelta(hours=1)
    return [
        requests("open", open_, lambda fx: fx.requests.open().collect(), result=one),
        requests("open_page", open_, lambda fx: fx.requests.open(since=hour, page_size=10).collect(), result=one),
        requests("open_lookup", open_, lambda fx: fx.requests.get_open(4)),
        requests("search", search, lambda fx: fx.requests.search().collect(), result=one),
        requests(
            "search_pending",
            search,
            lambda fx: fx.requests.search(type="pending", since=timedelta(minutes=1), page_size=20).collect(),
            result=one,
        ),
        requests(
            "search_accept",
            search,
            lambda fx: fx.requests.search(type="accept").collect(),
            reply="requests_none",
            result=[],
        ),
        requests("search_lookup", search, lambda fx: fx.requests.get(4)),
        routes("routes", lambda fx: fx.routes.list().collect()),
        routes("routes_lookup", lambda fx: fx.routes.get(301), result=expected.ROUTE),
        routes(
            "routes_lookup_by_text",
            lambda fx: fx.routes.get(301),
            result=expected.ROUTE,
            options={"index_type": "string"},
        ),
        routes(
            "routes_filtered",
            lambda fx: fx.routes.list(**expected.FILTERS, page_size=25).collect(),
            reply="routes_none",
            result=[],
        ),
        listings("offers", offers, lambda fx: fx.offers.list().collect()),
        listings(
            "offers_lookup",
            offers,
            lambda fx: fx.offers.get(4),
            reply="offers_selected",
            result=expected.SELECTED,
            scene=_selected,
        ),
        listings(
            "offers_lookup_by_post",
            found,
            lambda fx: fx.offers.get(4),
            reply="offers_selected",
            result=expected.SELECTED,
            scene=_selected,
            options={"addresses": {"get_offer": "quote/getoffers"}},
        ),
        listings("offers_search", found, lambda fx: fx.offers.search().collect()),
        listings(
            "offers_search_offers", found, lambda fx: fx.offers.search(type="offers").collect(), is_shown_state=False
        ),
        listings(
            "offers_search_selected",
            found,
            lambda fx: fx.offers.search(type="sel").collect(),
            reply="offers_selected",
            result=[expected.SELECTED],
            scene=_selected,
        ),
        listings(
            "offers_search_not_selected",
            found,
            lambda fx: fx.offers.search(type="nsel").collect(),
            reply="offers_none",
            result=[],
            scene=_only_the_selected,
        ),
        mine("bids", lambda fx: fx.bids.list().collect(), is_shown_state=True),
        mine("bids_active", lambda fx: fx.bids.list(type="active").collect()),
        mine("bids_selected", lambda fx: fx.bids.list(type="sel").collect()),
        mine("bids_not_selected", lambda fx: fx.bids.list(type="nsel").collect(), reply="bids_none", result=[]),
        mine("bids_offers", lambda fx: fx.bids.list(type="offers").collect(), is_shown_state=True),
        Contract(
            name="carriers",
            row=carrier,
            call=lambda fx: fx.carriers.list().collect(),
            body=False,
            reply="carriers",
            result=expected.CARRIERS,
        ),
        Contract(
            name="carriers_lookup",
            row=carrier,
            call=lambda fx: fx.carriers.get(3),
            reply="carriers",
            result=expected.CARRIERS[0],
        ),
        Contract(
            name="currencies",
            row=currency,
            call=lambda fx: fx.currencies.list().collect(),
            body=False,
            reply="currencies",
            result=expected.CURRENCIES,
        ),
        Contract(
            name="currencies_lookup",
            row=currency,
            call=lambda fx: fx.currencies.get(978),
            reply="currencies",
            result=expected.CURRENCIES[1],
        ),
    ]


_ONE_REQUEST: Final[Mapping[str, Any]] = {"reply": "requests", "result": expected.REQUEST}


def _write_contracts() -> list[Contract]:
    contracts = [
        Contract(
            name="login",
            row=row_named("POST login"),
            call=lambda fx: fx.login(),
            reply="login",
            result=expected.USER,
            scene=_registered,
        )
    ]
    for row in ROWS:
        if row.call == "requests.publish()":
            contracts += _publish_contracts(row)
        elif row.call == "bids.submit()":
            contracts += _submit_contracts(row)
        elif row.call.startswith("offers.approve()"):
            contracts += _respond_contracts(row)
    post, put = row_named("POST route"), row_named("PUT route")
    created: dict[str, Any] = {"row": post, "call": lambda fx: fx.routes.create(expected.ROUTE_DRAFT)}
    written: dict[str, Any] = {"reply": "routes", "result": expected.ROUTE}
    return [
        *contracts,
        Contract(name="route_create", **created, **written),
        *(
            Contract(
                name=f"route_create_carrier_{option}",
                **created,
                **written,
                options={"carrier_field": {"id": "carrierId"}.get(option, option)},
            )
            for option in ("id", "both")
        ),
        Contract(name="route_update", row=put, call=lambda fx: fx.routes.update(expected.ROUTE), **written),
    ]


def _publish_contracts(row: Row) -> list[Contract]:
    usual: dict[str, Any] = {"row": row, "by": "shipper", "options": {"addresses": row.addresses}, **_ONE_REQUEST}
    return [
        Contract(name="publish", call=lambda fx: fx.requests.publish(expected.DRAFT), **usual),
        Contract(
            name="publish_bare", call=lambda fx: fx.requests.publish(expected.BARE_DRAFT), is_shown_state=False, **usual
        ),
    ]


def _submit_contracts(row: Row) -> list[Contract]:
    usual: dict[str, Any] = {"row": row, "reply": "submit", "result": expected.SUBMITTED, "scene": _published}
    addresses = {"addresses": row.addresses}

    def submit(fx: FreightExchange) -> Awaitable[object]:
        return fx.bids.submit(4, amount="1840.5", currency=978, rates=expected.RATES, terms="valid 14 days")

    return [
        Contract(name="submit", call=submit, options=addresses, **usual),
        Contract(
            name="submit_currency_id", call=submit, options={"currency_field": "currencyId", **addresses}, **usual
        ),
        Contract(name="submit_currency_both", call=submit, options={"currency_field": "both", **addresses}, **usual),
        Contract(
            name="submit_bare",
            call=lambda fx: fx.bids.submit(4, amount="1840.5", currency=978),
            options=addresses,
            is_shown_state=False,
            **usual,
        ),
    ]


def _respond_contracts(row: Row) -> list[Contract]:
    usual: dict[str, Any] = {"row": row, "by": "shipper", "scene": _offered, "options": {"addresses": row.addresses}}
    approval: dict[str, Any] = {"reply": "approve", "result": expected.SELECTED, **usual}
    return [
        Contract(name="approve", call=lambda fx: fx.offers.approve(5001), **approval),
        # The document shows no reply to a declined offer, so only the request is tested.
        Contract(name="decline", call=lambda fx: fx.offers.decline(5001), is_shown_state=False, **approval),
    ]


CONTRACTS: Final = (*_read_contracts(), *_write_contracts())
