"""The simulated exchange: computes a reply from a call and a time. No I/O, no clock, no event loop."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, NamedTuple

import attrs

from freight_exchange.sandbox.core.audit_log import AuditLog, CallRecord
from freight_exchange.sandbox.core.database import Database
from freight_exchange.sandbox.core.operations import OPERATIONS
from freight_exchange.sandbox.core.request_context import Answer, RequestContext
from freight_exchange.sandbox.core.validation import Fields, Refusal
from freight_exchange.sandbox.faults.script import Fault, FaultScript
from freight_exchange.sandbox.model.messages import Call, Reply
from freight_exchange.sandbox.model.profile import Profile
from freight_exchange.sandbox.model.state import Account, Cargo, Company, Number, Role
from freight_exchange.sandbox.rendering.codec import decode
from freight_exchange.sandbox.rendering.envelope import Envelope
from freight_exchange.sandbox.rendering.renderer import Renderer

__all__ = ["Exchange"]

_PATHS = frozenset(path for _, path in OPERATIONS) | {"login"}
_DENIED = "Access denied. The token is missing, invalid or expired."
_NEVER = float("inf")
_PLAIN = Profile()
_CARGO = Cargo()


class _Outcome(NamedTuple):
    """Outcome of a call. `done` is whether the operation was carried out."""

    reply: Reply
    account: Account | None
    parameters: Mapping[str, Any]
    done: bool


class Exchange:
    """Freight exchange in memory.

    It starts with three accounts: `shipper`, `forwarder` and `rival`. The password of each is its name, and its
    email is `<name>@demo.example`.

    Attributes:
        faults: The faults that strike calls.
    """

    def __init__(self, profile: Profile = _PLAIN, *, seed: int = 0) -> None:
        self._profile = profile
        self._renderer = Renderer(profile)
        self._envelope = Envelope(profile)
        self._database = Database(seed)
        self.faults = FaultScript()
        self.shipper = self.add_account(
            "shipper@demo.example", "shipper", role="shipper", firstname="Sylvia", lastname="Ship"
        )
        self.forwarder = self.add_account(
            "forwarder@demo.example", "forwarder", role="forwarder", firstname="Fergus", lastname="Forward"
        )
        self.rival = self.add_account(
            "rival@demo.example", "rival", role="forwarder", firstname="Rita", lastname="Rival"
        )

    @property
    def profile(self) -> Profile:
        """The quirks of the exchange; assign a `Profile` at any time."""
        return self._profile

    @profile.setter
    def profile(self, profile: Profile) -> None:
        self._profile = profile
        self._renderer = Renderer(profile)
        self._envelope = Envelope(profile)

    @property
    def audit_log(self) -> AuditLog:
        """Record of all that happened."""
        return self._database.audit_log

    @property
    def database(self) -> Database:
        """All records, for reading. The methods of the exchange change them."""
        return self._database

    # HTTP

    def handle(self, call: Call, now: float) -> Reply:
        """Answer one call. `now` is the server's time in seconds since the epoch.

        A face passes the call when it has the whole request. Before it reads the body it checks `faults.peek(call)`: if
        that fault is `early`, it passes the call without the body.
        """
        number = self.audit_log.next_call()
        fault = self.faults.take(call)
        outcome = self._answer(call, now, number) if fault is None else self._strike(fault, call, now, number)
        self.audit_log.calls.append(
            CallRecord(
                number=number,
                time=now,
                method=call.method,
                path=call.path,
                query=call.query,
                parameters=outcome.parameters,
                body=call.body,
                account=outcome.account.email if outcome.account is not None else None,
                status=outcome.reply.status,
                processed=outcome.done,
                fault=fault.name if fault is not None else None,
            )
        )
        return outcome.reply

    def _strike(self, fault: Fault, call: Call, now: float, number: int) -> _Outcome:
        if fault.change is not None:
            fault.change(self, now)
        outcome = _Outcome(Reply(0), None, {}, done=False)
        if fault.processed and not fault.early:
            outcome = self._answer(call, now, number)
        reply = outcome.reply
        if fault.mutate is not None:
            reply = fault.mutate(reply, now, self._database.random)
        if fault.wire is not None:
            reply = attrs.evolve(reply, wire=fault.wire)
        if fault.delay:
            reply = attrs.evolve(reply, delay=reply.delay + fault.delay)
        self.faults.note(fault, number, outcome.done)
        return outcome._replace(reply=reply)

    def _answer(self, call: Call, now: float, number: int) -> _Outcome:
        account: Account | None = None
        parameters: Mapping[str, Any] = {}
        try:
            if call.path not in _PATHS:
                raise Refusal(404, "Not Found")
            login = call.path == "login"
            if not login:
                account = self._authenticated(call, now)
            fields = self._fields(call)
            parameters = fields.merged()
            if login or account is None:
                answer = self._login(call, fields, now, number)
            else:
                answer = self._operate(call.method, call.path, fields, account, now, number)
            reply = self._envelope.success(answer.payload, answer.status, is_empty=answer.is_empty)
            return _Outcome(reply, account, parameters, done=True)
        except Refusal as refusal:
            reply = self._envelope.refusal(refusal.status, refusal.sentence, refusal.field, refusal.key)
            return _Outcome(reply, account, parameters, done=False)

    def _operate(
        self, method: str, path: str, fields: Fields, account: Account, now: float, number: int | None
    ) -> Answer:
        operation = OPERATIONS.get((method, path))
        if operation is None:
            raise Refusal(405, "Method Not Allowed")
        late = self._profile.late_visibility
        context = RequestContext(
            database=self._database,
            profile=self._profile,
            renderer=self._renderer,
            fields=fields,
            account=account,
            now=now,
            read_time=now - late if late else _NEVER,
            call=number,
        )
        return operation(context)

    def _fields(self, call: Call) -> Fields:
        body = call.body
        if call.method == "GET" and self._profile.get_body == "dropped":
            body = b""
        if not body:
            return Fields({}, call.query, self._profile.index_type)
        typed = call.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"
        if not typed and self._profile.content_type_check == "required":
            raise Refusal(400, "Content-Type must be application/json.")
        try:
            values = decode(body)
        except ValueError:
            raise Refusal(400, "The body is not well-formed JSON.") from None
        if not isinstance(values, dict):
            raise Refusal(400, "The body must be a JSON object.")
        return Fields(values, call.query, self._profile.index_type)

    def _authenticated(self, call: Call, now: float) -> Account:
        scheme, _, value = call.headers.get("authorization", "").partition(" ")
        token = self._database.tokens.get(value) if scheme.lower() == "bearer" else None
        if token is None or token.expires <= now:
            raise Refusal(self._profile.unauthorized_status, _DENIED, key="Unauthorized")
        return self._database.accounts[token.account]

    def _login(self, call: Call, fields: Fields, now: float, number: int) -> Answer:
        if call.method != "POST":
            raise Refusal(405, "Method Not Allowed")
        email, password = fields.text("email"), fields.text("password")
        account = self._database.by_email.get(email.casefold())
        accepted = account is not None and account.password == password
        self._database.record_login(email, accepted, now, number)
        if account is None or not accepted:
            profile = self._profile
            sentence = "The user name or password is invalid."
            raise Refusal(profile.failed_login_status, sentence, key=profile.failed_login_key)
        token = self._database.issue_token(account, now, self._profile)
        user = self._renderer.user(account, token, now)
        moment = dt.datetime.fromtimestamp(now, dt.UTC)
        account.lastlogin = f"{moment:%Y-%m-%d %H:%M:%S}"
        return Answer({"user": user})

    # Actions without HTTP, for tests and demonstrations

    def add_account(
        self,
        email: str,
        password: str,
        *,
        role: Role = "both",
        firstname: str = "Alex",
        lastname: str = "Sample",
        title: str = "Manager",
        company: Company | None = None,
    ) -> Account:
        """Register a user. `role` matters only if the profile enforces roles."""
        return self._database.add_account(
            email, password, role=role, firstname=firstname, lastname=lastname, title=title, company=company
        )

    def act(self, account: Account, method: str, path: str, parameters: Mapping[str, Any], now: float) -> None:
        """Run an operation for an account by the rules of a call, but without faults.

        Raises:
            Refusal: The exchange refuses it.
        """
        self._operate(method, path, Fields(parameters, {}), account, now, None)

    def publish(self, account: Account, now: float, cargo: Cargo = _CARGO) -> int:
        """Publish a rate request and return its index."""
        return self._database.publish(account, cargo, now, None).index

    def touch(self, request: int, now: float) -> None:
        """Renew a request's time of update and nothing else."""
        self._database.change(request, now, "touched")

    def update(self, request: int, now: float, cargo: Cargo) -> None:
        """Replace the cargo of a request."""
        self._database.change(request, now, "updated", cargo)

    def withdraw(self, request: int, now: float) -> None:
        """Withdraw a request: it leaves every listing."""
        self._database.change(request, now, "withdrawn")

    def newest_open(self) -> int | None:
        """Return the index of the open request that was published last."""
        return max(self._open(), default=None)

    def oldest_open(self) -> int | None:
        """Return the index of the open request that was published first."""
        return min(self._open(), default=None)

    def _open(self) -> list[int]:
        return [request.index for request in self._database.requests.recent(_NEVER) if request.state == "open"]

    def reorder(self) -> None:
        """Give every listing a new random order, which stays until the next `reorder`."""
        self._database.sorter.reorder()

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
        return self._database.offer(account, request, amount, currency, rates or {}, terms, now, None).index

    def select(self, offer: int, now: float) -> None:
        """Approve an offer."""
        chosen = self._database.offers.get(offer)
        request = self._database.requests.get(chosen.request) if chosen is not None else None
        if chosen is None or request is None:
            raise LookupError(f"no offer {offer}")
        self._database.select(request, chosen, now, None)

    def token(self, account: Account, now: float) -> str:
        """Issue a valid token without a login."""
        return self._database.issue_token(account, now, self._profile).value

    def expire_tokens(self, account: Account | None = None) -> None:
        """Revoke the tokens of one account, or of all."""
        self._database.revoke(account)
