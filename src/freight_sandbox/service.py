"""The exchange as the service's document describes it: its state, its seventeen operations and their JSON.

It has no I/O, no clock and no event loop: a reply follows from the call, the time and the state. `quirks` changes the
documented records and replies; the quirks that change what the exchange does are read here.
"""

from __future__ import annotations

import datetime as dt
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Any, Final, Literal, NamedTuple, TypeVar

import attrs

from freight_sandbox import audit, quirks
from freight_sandbox.codec import decode
from freight_sandbox.faults import Fault, FaultScript, Fired
from freight_sandbox.fields import INCOTERM, Fields, Refusal
from freight_sandbox.quirks import Json, Kind, Profile
from freight_sandbox.records import Account, Cargo, Company, Number, Offer, Request, Role, Route, Table, Token
from freight_sandbox.samples import CARRIERS, CURRENCIES, ROUTES
from freight_sandbox.wire import Call, Reply

_Sorted = TypeVar("_Sorted", Request, Offer, Route)
_NOW: Final = float("inf")
# Each kind of record has its own range of ids, so that an id of the wrong kind finds nothing.
_FIRST_REQUEST, _FIRST_ROUTE, _FIRST_OFFER = 1, 301, 5001


class Context(NamedTuple):
    """One call of an operation: who calls it, where, with what, and when.

    Reads show the state at the time `seen`.
    """

    exchange: Exchange
    quirk: Profile
    method: str
    path: str
    fields: Fields
    account: Account
    now: float
    seen: float


class Operation(NamedTuple):
    """Operation of the service: its function, the side of the market that may call it, and whether it writes."""

    name: str
    serve: Callable[[Context], Any]
    role: Role
    writes: bool


OPERATIONS: dict[tuple[str, str], Operation] = {}
"""Operations by method and path."""


def operation(name: str, *addresses: str, role: Role = "both", writes: bool = False) -> Callable[..., Any]:
    """Register a function at its addresses, such as `GET quote/bid`."""

    def register(function: Callable[[Context], Any]) -> Callable[[Context], Any]:
        for address in addresses:
            method, path = address.split()
            OPERATIONS[method, path] = Operation(name, function, role, writes)
        return function

    return register


class _Answer(NamedTuple):
    """Reply to a call, its account and parameters, and whether it was carried out."""

    reply: Reply
    account: Account | None = None
    parameters: Mapping[str, Any] = {}
    processed: bool = False


class Exchange:
    """Freight exchange in memory.

    It starts with three accounts: `shipper`, `forwarder` and `rival`. The password of each is its name, and its
    email is `<name>@demo.example`.

    Attributes:
        faults: The faults that strike calls.
        audit_log: Record of all that happened.
        accounts: All accounts, by index.
        tokens: All access tokens, by value.
        requests: All rate requests, with their versions.
        offers: All offers, with their versions.
        routes: All routes, with their versions.
        random: Source of tokens and of random faults.
    """

    def __init__(self, profile: Profile = Profile(), *, seed: int = 0) -> None:  # noqa: B008  # it is frozen
        self.profile = profile
        self.faults, self.audit_log, self.random = FaultScript(), audit.AuditLog(), Random(seed)
        self.accounts: dict[int, Account] = {}
        self.tokens: dict[str, Token] = {}
        self.requests: Table[Request] = Table()
        self.offers: Table[Offer] = Table()
        self.routes: Table[Route] = Table()
        self._seed, self._is_reordered = seed, False
        self._call: int | None = None
        self._by_email: dict[str, Account] = {}
        self._on_request: defaultdict[int, list[int]] = defaultdict(list)
        for route in ROUTES:
            self.routes.put(route.index, float("-inf"), route)
        add = self.add_account
        self.shipper = add("shipper@demo.example", "shipper", role="shipper", firstname="Sylvia", lastname="Ship")
        self.forwarder = add(
            "forwarder@demo.example", "forwarder", role="forwarder", firstname="Fergus", lastname="Forward"
        )
        self.rival = add("rival@demo.example", "rival", role="forwarder", firstname="Rita", lastname="Rival")

    @property
    def profile(self) -> Profile:
        """The quirks of the exchange; assign a `Profile` at any time."""
        return self._profile

    @profile.setter
    def profile(self, profile: Profile) -> None:
        self._profile = profile
        self._rewrites = quirks.rewrites(profile)
        self._pages = 0
        self._note("profile", profile)

    # HTTP

    def handle(self, call: Call, now: float) -> Reply:
        """Answer one call. `now` is the server's time in seconds since the epoch.

        A server passes the call when it has the whole request. Before it reads the body it checks `faults.peek(call)`:
        if that fault is `early`, it passes the call without the body.
        """
        self.audit_log.count = number = self.audit_log.count + 1
        fault = self.faults.take(call)
        answer = self._answer(call, now, number) if fault is None else self._strike(fault, call, now, number)
        who = None if answer.account is None else answer.account.email
        name = None if fault is None else fault.name
        seen = (call.method, call.path, call.query, answer.parameters, call.body)
        record = audit.CallRecord(number, now, *seen, who, answer.reply.status, answer.processed, name)
        self.audit_log.calls.append(record)
        return answer.reply

    def _strike(self, fault: Fault, call: Call, now: float, number: int) -> _Answer:
        if fault.change is not None:
            fault.change(self, now)
        answer = self._answer(call, now, number) if fault.processed and not fault.early else _Answer(Reply(0))
        reply = answer.reply if fault.mutate is None else fault.mutate(answer.reply, now, self.random)
        self.faults.fired.append(Fired(fault.name, number, answer.processed))
        return answer._replace(
            reply=attrs.evolve(reply, wire=fault.wire or reply.wire, delay=reply.delay + fault.delay)
        )

    def _answer(self, call: Call, now: float, number: int) -> _Answer:
        account: Account | None = None
        parameters: Mapping[str, Any] = {}
        self._call = number
        try:
            if call.path not in _PATHS:
                raise Refusal(404, "Not Found")
            if call.path != "login":
                account = self._caller(call, now)
            fields = self._fields(call)
            parameters = fields.merged()
            if account is None:
                payload, writes = self._login(call.method, fields, now), False
            else:
                payload, writes = self._operate(call.method, call.path, fields, account, now)
            return _Answer(quirks.success(self._profile, payload, is_write=writes), account, parameters, True)
        except Refusal as refusal:
            return _Answer(quirks.refused(self._profile, refusal), account, parameters)
        finally:
            self._call = None

    def _caller(self, call: Call, now: float) -> Account:
        scheme, _, value = call.headers.get("authorization", "").partition(" ")
        token = self.tokens.get(value) if scheme.lower() == "bearer" else None
        if token is None or token.expires <= now:
            sentence = "Access denied. The token is missing, invalid or expired."
            raise Refusal(self._profile.unauthorized_status, sentence, key="Unauthorized")
        return self.accounts[token.account]

    def _fields(self, call: Call) -> Fields:
        quirk = self._profile
        if not call.body or (call.method == "GET" and quirk.get_body == "dropped"):
            return Fields({}, call.query, quirk.index_type)
        content_type = call.headers.get("content-type", "").partition(";")[0].strip().lower()
        if content_type != "application/json" and quirk.content_type_check == "required":
            raise Refusal(400, "Content-Type must be application/json.")
        try:
            values = decode(call.body)
        except ValueError:
            raise Refusal(400, "The body is not well-formed JSON.") from None
        if not isinstance(values, dict):
            raise Refusal(400, "The body must be a JSON object.")
        return Fields(values, call.query, quirk.index_type)

    def _operate(self, method: str, path: str, fields: Fields, account: Account, now: float) -> tuple[Any, bool]:
        """Run an operation, and return its payload and whether it writes."""
        # A sample in the document posts offers to quote/request too (4.9).
        is_offer = (method, path) == ("POST", "quote/request") and "requestIndex" in fields
        operation = OPERATIONS.get((method, "quote/bid" if is_offer else path))
        if operation is None:
            raise Refusal(405, "Method Not Allowed")
        quirk = self._profile
        is_permitted = operation.role == "both" or account.role in (operation.role, "both")
        if quirk.roles == "enforced" and not is_permitted:
            raise Refusal(403, "This operation is not permitted for your account.")
        seen = now - quirk.late_visibility if quirk.late_visibility else _NOW
        return operation.serve(Context(self, quirk, method, path, fields, account, now, seen)), operation.writes

    def _login(self, method: str, fields: Fields, now: float) -> Json:
        if method != "POST":
            raise Refusal(405, "Method Not Allowed")
        email, password = fields.text("email"), fields.text("password")
        account = self._by_email.get(email.casefold())
        accepted = account is not None and account.password == password
        self.audit_log.logins.append(audit.LoginRecord(email, accepted, now, self._call))
        if account is None or not accepted:
            quirk = self._profile
            sentence = "The user name or password is invalid."
            raise Refusal(quirk.failed_login_status, sentence, key=quirk.failed_login_key)
        token = self.tokens[self.token(account, now)]
        user: Json = {"access_token": token.value, "expires_on": int(token.expires - now)}
        user |= {name: getattr(account, name) for name in ("firstname", "middlename", "lastname", "email", "title")}
        user |= {"enabled": "TRUE", "lastlogin": account.lastlogin, "imageUrl": account.image_url}
        user["company"] = _company(self, account.company, "phone")
        account.lastlogin = f"{dt.datetime.fromtimestamp(now, dt.UTC):%Y-%m-%d %H:%M:%S}"
        return {"user": self.shown("user", user, token)}

    # Actions without HTTP, for tests and demonstrations

    def add_account(
        self,
        email: str,
        password: str,
        *,
        role: Role = "both",
        firstname: str = "Alex",
        lastname: str = "Sample",
        company: Company | None = None,
    ) -> Account:
        """Register a user. `role` matters only if the profile enforces roles."""
        index = len(self.accounts) + 11
        names = (firstname, "", lastname, "Manager", f"https://images.example/avatars/{index}.png")
        home = company or Company(index=index + 60, name=f"{lastname} & Co. Ltd")
        account = Account(index, email, password, role, *names, home, lastlogin="2029-12-31 08:00:00")
        self.accounts[index] = self._by_email[email.casefold()] = account
        return account

    def act(self, account: Account, method: str, path: str, parameters: Mapping[str, Any], now: float) -> None:
        """Run an operation for an account by the rules of a call, but without faults.

        Raises:
            Refusal: The exchange refuses it.
        """
        self._operate(method, path, Fields(parameters, {}), account, now)

    def publish(self, account: Account, now: float, cargo: Cargo = Cargo()) -> int:  # noqa: B008  # it is frozen
        """Publish a rate request and return its index."""
        index = _FIRST_REQUEST + len(self.requests)
        request = Request(index, account.index, f"FX{index:06d}", cargo, created=now, updated=now)
        self._put(request, now, "published")
        self._note("publish", account, now, cargo)
        return index

    def touch(self, request: int, now: float) -> None:
        """Renew a request's time of update and nothing else."""
        self._put(attrs.evolve(self.requests[request], updated=now), now, "touched")
        self._note("touch", request, now)

    def update(self, request: int, now: float, cargo: Cargo) -> None:
        """Replace the cargo of a request."""
        self._put(attrs.evolve(self.requests[request], updated=now, cargo=cargo), now, "updated")
        self._note("update", request, now, cargo)

    def withdraw(self, request: int, now: float) -> None:
        """Withdraw a request: it leaves every listing."""
        self._put(attrs.evolve(self.requests[request], updated=now, state="withdrawn"), now, "withdrawn")
        self._note("withdraw", request, now)

    def offer(
        self,
        account: Account,
        request: int,
        now: float,
        *,
        amount: Number = 1000,
        currency: int = 840,
        rates: Mapping[str, Number] | None = None,
        terms: str | None = None,
    ) -> int:
        """Make an offer and return its index."""
        index = _FIRST_OFFER + len(self.offers)
        made = Offer(index, request, account.index, amount, currency, rates or {}, terms, "pending", created=now)
        self.offers.put(index, now, made)
        self._on_request[request].append(index)
        self.audit_log.offers.append(audit.OfferRecord(made, account.email, now, self._call))
        return index

    def select(self, offer: int, now: float) -> None:
        """Approve an offer. The request leaves the open list; its other offers keep their status."""
        self._put(
            attrs.evolve(self.requests[self.offers[offer].request], updated=now, state="selected", selected=offer),
            now,
            "selected",
        )
        self.set_offer_status(offer, "selected", now)

    def set_offer_status(self, offer: int, status: str, now: float) -> None:
        """Change the status of an offer, and nothing else."""
        self.offers.put(offer, now, attrs.evolve(self.offers[offer], status=status))

    def offers_on(self, request: int, at: float = _NOW) -> list[Offer]:
        """Return the offers on a request as they were at a time, in the order in which they were made."""
        found = (self.offers.get(index, at) for index in self._on_request.get(request, ()))
        return [offer for offer in found if offer is not None and offer.status != "removed"]

    def open_requests(self) -> list[int]:
        """Return the indexes of the open requests, in the order in which they were published."""
        return sorted(request.index for request in self.requests if request.state == "open")

    def reorder(self) -> None:
        """Give every listing a new random order, which stays until the next `reorder`."""
        self._seed, self._is_reordered = self._seed + 1, True
        self._note("reorder")

    def token(self, account: Account, now: float) -> str:
        """Issue a token as a login does, by the rules of the profile."""
        quirk = self._profile
        held = [it.value for it in self.tokens.values() if it.account == account.index and it.expires > now]
        if quirk.tokens == "same" and held:
            return held[0]
        if quirk.tokens == "latest":
            self.expire_tokens(account)
        secret = f"{self.random.getrandbits(256):064x}"
        if quirk.token_form == "jwt":
            # {"alg":"none"} and {"exp":1}: a client that trusts the claims takes a fresh token for an expired one.
            secret = f"eyJhbGciOiJub25lIn0.eyJleHAiOjF9.{secret}"
        self.tokens[secret] = Token(secret, account.index, now + quirk.token_lifetime)
        return secret

    def expire_tokens(self, account: Account | None = None) -> None:
        """Revoke the tokens of one account, or of all."""
        for token in [it for it in self.tokens.values() if account is None or it.account == account.index]:
            del self.tokens[token.value]

    def _put(self, request: Request, now: float, what: str) -> None:
        self.requests.put(request.index, now, request)
        self.audit_log.changes.append(audit.RequestChange(request.index, now, what, request, self._call))

    def _note(self, change: str, *arguments: object) -> None:
        """Receive each change after it happened: the name of the method or attribute, and its arguments."""

    # For operations

    def shown(self, kind: Kind, record: Json, source: object) -> Json:
        """Change a documented record into that of the profile."""
        for rewrite in self._rewrites.get(kind, ()):
            rewrite(self._profile, record, source)
        return record

    def sorted(self, rows: Iterable[_Sorted]) -> list[_Sorted]:
        order, seed = "random" if self._is_reordered else self._profile.order, self._seed
        # Offers are listed by the time at which they were made, routes by their index.
        keys: Mapping[str, Callable[[Any], Any]] = {
            "random": lambda row: zlib.crc32(b"%d %d" % (seed, row.index)),
            "updated": lambda row: (getattr(row, "updated", getattr(row, "created", 0)), row.index),
            "index": lambda row: row.index,
        }
        newest: Any = lambda row: (getattr(row, "created", 0), row.index)  # noqa: E731
        key = keys.get(order) or newest
        return sorted(rows, key=key, reverse=order in ("newest", "updated"))

    def clamp(self, now: float) -> int | None:
        """Count a page, and return the most rows that it may have."""
        self._pages += 1
        return quirks.clamp(self._profile, self._pages - 1, now)


# Rate requests (4.2 to 4.4)


@operation("publish", "POST quote/submitrequest", "POST quote/request", "POST request", role="shipper", writes=True)
def _publish(context: Context) -> Any:
    exchange, cargo = context.exchange, read_cargo(context.fields)
    index = exchange.publish(context.account, context.now, cargo)
    return quirks.collection(context.quirk, "raterequests", [_request(exchange, exchange.requests[index])])


def read_cargo(fields: Fields) -> Cargo:
    """Read the cargo of a request to publish."""
    plain: dict[str, Any] = {name: fields.text(name) for name in ("commodityname", "origin", "destination")}
    plain |= {name: fields.number(name) for name in ("length", "width", "height", "weight")}
    return Cargo(
        **plain,
        requesttype=fields.word("requesttype", {"Shipping", "Air Freight", "Trucking", "Warehousing"}),
        arrival=fields.date("arrival"),
        packaging=fields.word("packaging", {"pallet", "carton", "piece"}),
        quantity=fields.integer("quantity", least=1),
        incoterm=fields.text("incoterm", INCOTERM, "a 3-letter Incoterm"),
        hazardous=fields.integer("hazardous", least=0, most=1),
        notes=fields.optional_text("notes") or "",
    )


@operation("search", "GET quote/request", "POST quote/getrequests", role="forwarder")
def _requests(context: Context) -> Any:
    """List the requests of other parties: the open ones, or those of a type, selected ones included."""
    exchange, quirk, fields, own = context.exchange, context.quirk, context.fields, context.account.index
    kind, default_rows = "open", 10
    if context.path == "quote/getrequests":
        kind, default_rows = fields.word("type", {"all", "accept", "pending"}, "all"), 20
    window = 3600
    if "secondsSinceUpdate" in fields and quirk.since_out_of_range == "clamped":
        window = min(max(fields.integer("secondsSinceUpdate"), 1), 432000)
    elif "secondsSinceUpdate" in fields:
        window = fields.integer("secondsSinceUpdate", least=1, most=432000)
    since = context.now - window
    if "index" in fields and not (
        quirk.since_lookup == "applied" or (quirk.since_lookup == "applied_if_sent" and "secondsSinceUpdate" in fields)
    ):
        since = -_NOW

    def is_listed(request: Request) -> bool:
        if request.updated < since:
            return False
        if kind == "all" and quirk.search_default == "all":
            return request.state != "withdrawn"
        if kind == "pending" and quirk.pending_means == "no_offers" and exchange.offers_on(request.index, context.seen):
            return False
        return request.state == ("selected" if kind == "accept" else "open")

    def is_visible(request: Request) -> bool:
        return request.owner != own and not quirks.is_hidden(quirk, request.index)

    rows = _rows(context, exchange.requests, is_listed, is_visible, default_rows=default_rows, since=since)
    return quirks.collection(quirk, "raterequests", [_request(exchange, request) for request in rows])


# Offers as their forwarder sees them (4.9 and 4.10)


@operation("submit", "POST quote/submitoffer", "POST quote/bid", role="forwarder", writes=True)
def _submit(context: Context) -> Any:
    exchange, quirk, fields, account = context.exchange, context.quirk, context.fields, context.account
    index, amount = fields.identifier("requestIndex"), fields.number("offer")
    # The document names the field currencyIndex, its sample currencyId (4.10).
    currency = _named(fields, quirk.currency_field, "currencyIndex", "currencyId", CURRENCIES, "currency")
    rates, terms = fields.amounts("rates"), fields.optional_text("terms")
    request = exchange.requests.get(index)
    if request is None or request.state == "withdrawn" or request.owner == account.index:
        raise Refusal(quirk.unknown_id_status, "There is no such rate request.", "requestIndex")
    if request.state == "selected" and quirk.late_offer == "400":
        raise Refusal(400, "The rate request is closed.", "requestIndex")
    for earlier in exchange.offers_on(index) if quirk.second_offer != "added" else ():
        if earlier.account == account.index and earlier.status == "pending":
            if quirk.second_offer == "400":
                raise Refusal(400, "You have already submitted an offer.", "requestIndex")
            exchange.set_offer_status(earlier.index, "removed", context.now)
    sent: dict[str, Any] = {
        "amount": quirks.rounded(quirk, amount),
        "currency": currency,
        "rates": rates,
        "terms": terms,
    }
    offer = exchange.offer(account, index, context.now, **sent)
    record = _shipment(request) | {"refId": request.refid}
    record["offer"] = _offer(exchange, exchange.offers[offer], "submitted offer")
    return {"bid": exchange.shown("submission", record, request)}


def _named(fields: Fields, wanted: str, documented: str, other: str, known: Mapping[int, object], what: str) -> int:
    """Read the index of a reference that has two names in the document."""
    if wanted == "either":
        wanted = documented if documented in fields or other not in fields else other
    index = fields.identifier(wanted)
    if index not in known:
        raise Refusal(400, f"There is no such {what}.", wanted)
    return index


@operation("bids", "GET quote/bid", role="forwarder")
def _bids(context: Context) -> Any:
    exchange, own = context.exchange, context.account.index
    kind = context.fields.word("type", {"active", "nsel", "sel", "offers"}, context.quirk.bid_default)
    requests: dict[int, Request] = {}

    def is_listed(offer: Offer) -> bool:
        # With late visibility an offer can show before its request.
        request = exchange.requests.get(offer.request, context.seen)
        if request is None or offer.status == "removed":
            return False
        requests[offer.index] = request
        if kind == "offers":
            return True
        if request.selected == offer.index:
            return kind == "sel"
        return kind == ("active" if request.state == "open" and offer.status == "pending" else "nsel")

    rows = _rows(context, exchange.offers, is_listed, lambda offer: offer.account == own, by_index=False)
    return quirks.collection(context.quirk, "bids", [_bid(exchange, requests[offer.index], offer) for offer in rows])


# Offers as their shipper sees them (4.6 to 4.8)


@operation("offers", "GET quote/offer", "POST quote/getoffers", role="shipper")
def _offers(context: Context) -> Any:
    """List the shipper's requests with their offers: all of them, or those of a type."""
    kind = "all"
    if context.path == "quote/getoffers":
        kind = context.fields.word("type", {"all", "offers", "sel", "nsel"}, kind)
    exchange, own = context.exchange, context.account.index

    def is_listed(request: Request) -> bool:
        if request.state == "withdrawn" or kind == "all":
            return request.state != "withdrawn"
        if kind == "offers":
            return bool(exchange.offers_on(request.index, context.seen))
        return (request.state == "selected") == (kind == "sel")

    rows = _rows(context, exchange.requests, is_listed, lambda request: request.owner == own)
    return quirks.collection(context.quirk, "offers", [_listing(context, request) for request in rows])


@operation("approve", "POST quote/approveoffer", "POST quote/offer", role="shipper", writes=True)
def _respond(context: Context) -> Any:
    exchange, quirk, index = context.exchange, context.quirk, context.fields.identifier("offerIndex")
    approved = context.fields.integer("approved", least=0, most=1)
    offer = exchange.offers.get(index)
    request = exchange.requests.get(offer.request) if offer is not None else None
    if offer is None or request is None or request.owner != context.account.index or offer.status == "removed":
        raise Refusal(quirk.unknown_id_status, "There is no such offer.", "offerIndex")
    if request.state == "withdrawn":
        raise Refusal(400, "The rate request is withdrawn.", "offerIndex")
    is_repeated = approved and request.selected == index and quirk.second_approval == "repeated"
    is_switched = approved and request.selected not in (None, index) and quirk.second_approval == "switched"
    if approved and request.selected is not None and not is_repeated and not is_switched:
        raise Refusal(400, "An offer has already been selected.", "offerIndex")
    if offer.status != "pending" and not is_repeated and not is_switched:
        raise Refusal(400, "The offer is no longer pending.", "offerIndex")
    if is_switched and request.selected is not None:
        exchange.set_offer_status(request.selected, "pending", context.now)
    if approved and not is_repeated:
        exchange.select(index, context.now)
    elif not approved and quirk.decline_outcome != "unchanged":
        exchange.set_offer_status(index, quirk.decline_outcome, context.now)
    payload = quirks.collection(quirk, "offers", [_approval(exchange, exchange.offers[index], approved=bool(approved))])
    return payload if approved else quirks.replaced(quirk.decline_reply, payload)


# Routes (4.5)

_TEXTS: Final = ("origin", "destination", "vessel", "voyageId", "timezone")
_TIMES: Final = {"departure": "depart", "arrival": "arrival", "cycutoff": "cy", "cfscutoff": "cfs"}
"""Times of a route, with the prefix of the filters for their bounds."""
_REPLIED: Final = {"departure": "estDeparture", "arrival": "estArrival", "vessel": "vesselName"}
"""Fields that have another name in replies."""


@operation("routes", "GET route")
def _routes(context: Context) -> Any:
    wanted = _route_filter(context.fields, contains=context.quirk.route_text_match == "contains")
    rows = _rows(context, context.exchange.routes, wanted, lambda route: True)
    return quirks.collection(context.quirk, "routes", [_route(context.exchange, route) for route in rows])


def _route_filter(fields: Fields, *, contains: bool) -> Callable[[Route], bool]:
    """Return whether a route meets every filter. Date-times compare as text; both bounds are included."""
    texts = {name: fields.text(name) for name in _TEXTS if name in fields}
    bounds: list[tuple[str, str, str]] = []
    for name, prefix in _TIMES.items():
        if name in fields:
            bounds.append((name, fields.date(name), fields.date(name)))
        start, end = f"{prefix}Start", f"{prefix}End"
        bounds.append((name, fields.date(start) if start in fields else "", fields.date(end) if end in fields else "~"))
    carrier = fields.identifier("carrierId") if "carrierId" in fields else None

    is_text: Any = (lambda text, part: part.casefold() in text.casefold()) if contains else str.__eq__
    return lambda route: (
        (carrier is None or route.carrier == carrier)
        and all(low <= getattr(route, name) <= high for name, low, high in bounds)
        and all(is_text(getattr(route, name), wanted) for name, wanted in texts.items())
    )


@operation("routes", "POST route", "PUT route", role="forwarder", writes=True)
def _write_route(context: Context) -> Any:
    """Create a route, or replace one. PUT needs all fields; it does not keep the values of omitted ones."""
    fields, exchange, quirk = context.fields, context.exchange, context.quirk
    index = _FIRST_ROUTE + len(exchange.routes)
    if context.method == "PUT":
        index = fields.identifier("index")
        if exchange.routes.get(index) is None:
            raise Refusal(quirk.unknown_id_status, "There is no such route.", "index")
    # The parameter table names the field carrierId, the sample carrier.
    carrier = _named(fields, quirk.carrier_field, "carrier", "carrierId", CARRIERS, "carrier")
    texts = {name: fields.text(name) for name in _TEXTS} | {name: fields.date(name) for name in _TIMES}
    route = Route(index=index, carrier=carrier, **texts)
    exchange.routes.put(index, context.now, route)
    record = _route(exchange, route)
    return quirks.replaced(quirk.route_write, quirks.collection(quirk, "routes", [record]), record)


def _route(exchange: Exchange, route: Route) -> Json:
    record = {_REPLIED.get(name, name): value for name, value in attrs.asdict(route).items()}
    return exchange.shown("route", record, route)


# Reference lists (4.11 and 4.12)


@operation("lists", "GET carrier", "GET currency")
def _references(context: Context) -> Any:
    """List carriers or currencies. The document gives them no pages, but the profile may."""
    quirk, fields = context.quirk, context.fields
    key, table = ("carriers", CARRIERS) if context.path == "carrier" else ("currencies", CURRENCIES)
    rows: Sequence[Json] = list(table.values())
    if "index" in fields:
        index = fields.identifier("index")
        rows = quirks.found(quirk, [row for row in rows if row["index"] == index])
    elif quirk.reference_rows is not None:
        rows = quirks.page(quirk, fields, rows, quirk.reference_rows, context.exchange.clamp(context.now))
    return quirks.collection(quirk, key, [context.exchange.shown("reference", {**row}, row) for row in rows])


_PATHS: Final = frozenset(path for _, path in OPERATIONS) | {"login"}


# Listings


def _rows(
    context: Context,
    table: Table[_Sorted],
    is_listed: Callable[[_Sorted], bool],
    is_visible: Callable[[_Sorted], bool],
    *,
    by_index: bool = True,
    default_rows: int | None = None,
    since: float = -_NOW,
) -> Sequence[_Sorted]:
    """Return the row with the requested index, or else the requested page.

    The profile decides whether hidden rows are removed before or after paging.
    """
    exchange, quirk, early = context.exchange, context.quirk, context.quirk.rights == "before_paging"
    if by_index and "index" in context.fields:
        row = table.get(context.fields.identifier("index"), context.seen)
        is_found = row is not None and is_listed(row) and is_visible(row)
        return quirks.found(quirk, [row] if row is not None and is_found else [])
    rows = table.recent(context.seen, since)
    listed = exchange.sorted(row for row in rows if (not early or is_visible(row)) and is_listed(row))
    page = quirks.page(quirk, context.fields, listed, default_rows or quirk.default_rows, exchange.clamp(context.now))
    return page if early else [row for row in page if is_visible(row)]


# Records as the document shows them (2)


_COMPANY: Final = ("name", "address1", "city", "state", "postal", "country", "otilicense")


def _company(exchange: Exchange, company: Company, number: Literal["phone", "fax"]) -> Json:
    """Make the record of a company: one's own has a phone number, that of another party a fax number."""
    record = {name: getattr(company, name) for name in (*_COMPANY, number)}
    return exchange.shown("own company" if number == "phone" else "company", record, company)


def _contacts(exchange: Exchange, account: Account) -> Json:
    company = _company(exchange, account.company, "fax")
    return {"loadingPOC": {"name": account.name, "email": account.email}, "loadingCompany": company}


def _request(exchange: Exchange, request: Request) -> Json:
    cargo = request.cargo
    more = {"refId": request.refid, "requesttype": cargo.requesttype}
    record = _shipment(request, ("commodityname", "packaging", "width", "height", "length"), more)
    record["incoterm"], record["hazardous"] = cargo.incoterm, cargo.hazardous
    return exchange.shown("request", record, request)


_CARGO_KEYS: Final = ("cargoname", "packingtype", "cargowidth", "cargoheight", "cargolength")


def _shipment(request: Request, keys: Sequence[str] = _CARGO_KEYS, more: Mapping[str, Any] = {}) -> Json:
    """Make the fields that all records of a request share; by default with the keys of listings and bids."""
    cargo, (name, packaging, width, height, length) = request.cargo, keys
    goods = f"{cargo.quantity} {cargo.packaging}(s) of {cargo.commodityname}"
    return {
        "index": request.index, name: cargo.commodityname, **more,
        "status": "Available" if request.state == "open" else "Selected",
        "origin": cargo.origin, "destination": cargo.destination, "needdate": f"{cargo.arrival[:10]} 00:00:00",
        "notes": f"{goods} from {cargo.origin} to {cargo.destination}.", "qty": cargo.quantity,
        "measureUnit": "m", "massUnit": "kg", "weight": cargo.weight, packaging: cargo.packaging.capitalize(),
        width: cargo.width, height: cargo.height, length: cargo.length,
    }  # fmt: skip


_OFFER_KEYS: Final[Mapping[Kind, tuple[str, str]]] = {
    "listed offer": ("offerId", "currencyId"),
    "approved offer": ("offerIndex", "currencyId"),
    "submitted offer": ("index", "currencyIndex"),
}


def _offer(exchange: Exchange, offer: Offer, kind: Kind) -> Json:
    id_key, currency_key = _OFFER_KEYS[kind]
    record: Json = {id_key: str(offer.index), "offerAmount": offer.amount, currency_key: offer.currency}
    record["status"] = offer.status
    if offer.terms is not None:
        record["terms"] = offer.terms
    if offer.rates:
        record["rates"] = dict(offer.rates)
    return exchange.shown(kind, record, offer)


def _listing(context: Context, request: Request) -> Json:
    """Make a record of `offers`: a request with all offers, or with the selected one and its forwarder."""
    exchange, quirk = context.exchange, context.quirk
    offers = exchange.offers_on(request.index, context.seen)
    record = _shipment(request)
    if request.selected is not None and quirk.selected_offer_shape == "entry":
        selected = [offer for offer in offers if offer.index == request.selected]
        record["offer"] = _offer(exchange, selected[0], "listed offer") if selected else {}
    else:
        record["offer"] = {str(at): _offer(exchange, offer, "listed offer") for at, offer in enumerate(offers)}
    if request.selected is not None:
        record |= _contacts(exchange, exchange.accounts[exchange.offers[request.selected].account])
    return exchange.shown("listing", record, request)


def _approval(exchange: Exchange, offer: Offer, *, approved: bool) -> Json:
    """Make the record that answers an approval, with the contacts of the forwarder, or a decline."""
    request = exchange.requests[offer.request]
    entry = _offer(exchange, offer, "approved offer") if offer.status != "removed" else {}
    contacts = _contacts(exchange, exchange.accounts[offer.account]) if approved else {}
    return exchange.shown("approval", _shipment(request) | {"offer": entry | contacts}, request)


def _bid(exchange: Exchange, request: Request, offer: Offer) -> Json:
    """Make a record of `bids`: a request with the forwarder's offer, and with the shipper once it is selected."""
    is_selected = request.selected == offer.index
    record = _shipment(request) | {"status": "Selected" if is_selected else "Available", "refId": request.refid}
    record |= {"price": offer.amount, "currencyIndex": offer.currency}
    if is_selected:
        record |= _contacts(exchange, exchange.accounts[request.owner])
    return exchange.shown("bid", record, request)
