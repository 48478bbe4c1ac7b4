"""Records of the exchange. Each change is written into the audit log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import ROUND_HALF_UP, Context, Decimal
from random import Random
from typing import Literal

import attrs

from freight_exchange.sandbox.core.audit_log import (
    AuditLog,
    LoginRecord,
    OfferChange,
    OfferRecord,
    Publication,
    RequestChange,
)
from freight_exchange.sandbox.core.sorter import Sorter
from freight_exchange.sandbox.model.profile import Profile
from freight_exchange.sandbox.model.reference import CARRIERS, CURRENCIES, ROUTES
from freight_exchange.sandbox.model.state import (
    Account,
    Cargo,
    Carrier,
    Company,
    Currency,
    Number,
    Offer,
    Request,
    Role,
    Route,
    Table,
    Token,
)

__all__ = ["Database"]

# Each kind of record has its own range of ids, so that an id of the wrong kind finds nothing.
_FIRST_REQUEST = 1
_FIRST_OFFER = 5001
_FIRST_ROUTE = 301
# Rounding a large amount fails with the default of 28 digits.
_WIDE = Context(prec=100)


class Database:
    """All state of an exchange except for the profile. The methods apply and log changes, which must be valid."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.sorter = Sorter(seed)
        self.audit_log = AuditLog()
        self.accounts: dict[int, Account] = {}
        self.by_email: dict[str, Account] = {}
        self.tokens: dict[str, Token] = {}
        self.requests: Table[Request] = Table()
        self.offers: Table[Offer] = Table()
        self.routes: Table[Route] = Table()
        self.carriers: Mapping[int, Carrier] = CARRIERS
        self.currencies: Mapping[int, Currency] = CURRENCIES
        self.pages_served = 0
        self._offers_of_request: dict[int, list[int]] = {}
        self._offers_of_account: dict[int, list[int]] = {}
        self._owned: dict[int, list[int]] = {}
        for number, route in enumerate(ROUTES):
            self.routes.put(_FIRST_ROUTE + number, float("-inf"), attrs.evolve(route, index=_FIRST_ROUTE + number))

    def restore(
        self,
        requests: Iterable[tuple[float, Request]],
        offers: Iterable[tuple[float, Offer]],
        routes: Iterable[tuple[float, Route]],
    ) -> None:
        """Load records into a new database, each with the time of its last change, in the order of these times.

        The audit log stays empty, as it covers one run only.
        """
        self.routes = Table()
        for time, request in requests:
            self.requests.put(request.index, time, request)
        for time, offer in offers:
            self.offers.put(offer.index, time, offer)
        for time, route in routes:
            self.routes.put(route.index, time, route)
        for index in self.requests.indexes():
            self._owned.setdefault(self._request(index).owner, []).append(index)
        for index, _, _, offer in sorted(self.offers.latest(), key=lambda entry: entry[0]):
            self._offers_of_request.setdefault(offer.request, []).append(index)
            self._offers_of_account.setdefault(offer.account, []).append(index)

    # Accounts and tokens

    def add_account(
        self,
        email: str,
        password: str,
        *,
        role: Role,
        firstname: str,
        lastname: str,
        title: str,
        company: Company | None,
    ) -> Account:
        index = len(self.accounts) + 11
        account = Account(
            index=index,
            email=email,
            password=password,
            role=role,
            firstname=firstname,
            middlename="",
            lastname=lastname,
            title=title,
            image_url=f"https://images.example/avatars/{index}.png",
            company=company or Company(index=index + 60, name=f"{lastname} & Co. Ltd"),
            lastlogin="2029-12-31 08:00:00",
        )
        self.accounts[index] = account
        self.by_email[email.casefold()] = account
        return account

    def issue_token(self, account: Account, now: float, profile: Profile) -> Token:
        if profile.tokens == "same":
            for token in self.tokens.values():
                if token.account == account.index and token.expires > now:
                    return token
        if profile.tokens == "latest":
            self.revoke(account)
        secret = f"{self.random.getrandbits(256):064x}"
        if profile.token_form == "jwt":
            # {"alg":"none"} and {"exp":1}: a client that trusts the claims takes a fresh token for an expired one.
            secret = f"eyJhbGciOiJub25lIn0.eyJleHAiOjF9.{secret}"
        token = Token(secret, account.index, now + profile.token_lifetime)
        self.tokens[secret] = token
        return token

    def revoke(self, account: Account | None = None) -> None:
        """Revoke the tokens of one account, or of all."""
        for value in [v for v, token in self.tokens.items() if account is None or token.account == account.index]:
            del self.tokens[value]

    def record_login(self, email: str, accepted: bool, now: float, call: int | None) -> None:
        self.audit_log.logins.append(LoginRecord(email, accepted, now, call))

    # Rate requests

    def publish(self, owner: Account, cargo: Cargo, now: float, call: int | None) -> Request:
        index = _FIRST_REQUEST + len(self.requests)
        request = Request(index=index, owner=owner.index, refid=f"FX{index:06d}", cargo=cargo, created=now, updated=now)
        self._owned.setdefault(owner.index, []).append(index)
        self.audit_log.publications.append(Publication(index, owner.email, now, call))
        return self._record_change(request, now, "published", call)

    def change(
        self,
        index: int,
        now: float,
        what: Literal["updated", "touched", "withdrawn"],
        cargo: Cargo | None = None,
    ) -> Request:
        """Change a request: replace its cargo, renew its time of update, or withdraw it."""
        request = self._request(index)
        if cargo is not None:
            request = attrs.evolve(request, cargo=cargo)
        if what == "withdrawn":
            request = attrs.evolve(request, state="withdrawn")
        return self._record_change(attrs.evolve(request, updated=now), now, what, None)

    def _request(self, index: int) -> Request:
        request = self.requests.get(index)
        if request is None:
            raise LookupError(f"no request {index}")
        return request

    def _record_change(self, request: Request, now: float, what: str, call: int | None) -> Request:
        self.requests.put(request.index, now, request)
        self.audit_log.changes.append(RequestChange(request.index, now, what, request, call))
        return request

    def requests_of(self, account: Account, at: float) -> list[Request]:
        """Return the account's own requests as they were at a time."""
        return self._requests_at(self._owned.get(account.index, ()), at)

    def _requests_at(self, indexes: Iterable[int], at: float) -> list[Request]:
        seen = (self.requests.seen(index, at) for index in indexes)
        return [request for request in seen if request is not None and request.state != "withdrawn"]

    def all_requests(self, at: float) -> list[Request]:
        """Return the requests of all accounts as they were at a time."""
        return self._requests_at(self.requests.indexes(), at)

    # Offers

    def offer(
        self,
        account: Account,
        request: int,
        amount: Number,
        currency: int,
        rates: Mapping[str, Number],
        terms: str | None,
        now: float,
        call: int | None,
        rounding: str = "none",
    ) -> Offer:
        index = _FIRST_OFFER + len(self.offers)
        offer = Offer(
            index=index,
            request=request,
            account=account.index,
            amount=_round(amount, rounding),
            currency=currency,
            rates=rates,
            terms=terms,
            status="pending",
            created=now,
        )
        self.offers.put(index, now, offer)
        self._offers_of_request.setdefault(request, []).append(index)
        self._offers_of_account.setdefault(account.index, []).append(index)
        self.audit_log.offers.append(OfferRecord(offer, account.email, now, call))
        return offer

    def set_offer_status(self, offer: Offer, status: str, now: float) -> Offer:
        changed = attrs.evolve(offer, status=status)
        self.offers.put(offer.index, now, changed)
        self.audit_log.offer_changes.append(OfferChange(changed, now))
        return changed

    def select(self, request: Request, offer: Offer, now: float, call: int | None) -> tuple[Request, Offer]:
        """Select an offer. The request leaves the open list; its other offers keep their status."""
        changed = attrs.evolve(request, state="selected", selected=offer.index, updated=now)
        return self._record_change(changed, now, "selected", call), self.set_offer_status(offer, "selected", now)

    def offers_on(self, request: int, at: float) -> list[Offer]:
        return self._offers_at(self._offers_of_request.get(request, ()), at)

    def offers_by(self, account: Account, at: float) -> list[Offer]:
        return self._offers_at(self._offers_of_account.get(account.index, ()), at)

    def all_offers(self, at: float) -> list[Offer]:
        """Return the offers of all accounts as they were at a time."""
        return self._offers_at(self.offers.indexes(), at)

    def _offers_at(self, indexes: Iterable[int], at: float) -> list[Offer]:
        seen = (self.offers.seen(index, at) for index in indexes)
        return [offer for offer in seen if offer is not None and offer.status != "removed"]

    # Routes

    def put_route(self, route: Route, now: float) -> Route:
        """Add a route whose index is 0, or replace the route of that index."""
        if route.index == 0:
            route = attrs.evolve(route, index=_FIRST_ROUTE + len(self.routes))
        self.routes.put(route.index, now, route)
        return route


def _round(amount: Number, rounding: str) -> Number:
    match rounding:
        case "cents":
            return Decimal(amount).quantize(Decimal("0.01"), ROUND_HALF_UP, _WIDE)
        case "whole":
            return int(Decimal(amount).to_integral_value(ROUND_HALF_UP))
        case _:
            return amount
