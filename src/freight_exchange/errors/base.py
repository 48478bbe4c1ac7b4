"""One hierarchy of errors, each stating whether the call may have taken effect.

Every error is built from plain values: it pickles, copies and prints one sentence, and none of its values holds a
secret. Nothing here does I/O.
"""

from __future__ import annotations

import copy
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from freight_exchange.errors.reply_headers import NO_HEADERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from freight_exchange.errors.reply_headers import ReplyHeaders
    from freight_exchange.models import Bid, Listing, RateRequest, Route
    from freight_exchange.models.writes import Reconciliation, Write

__all__ = [
    "APIStatusError",
    "AlreadyOfferedError",
    "AuthenticationError",
    "BadRequestError",
    "ConfigurationError",
    "DeadlineExceededError",
    "DecodeError",
    "FeedProtocolError",
    "FreightExchangeError",
    "HeldError",
    "LoginRejectedError",
    "NotFoundError",
    "OfferInDoubtError",
    "OfferRejectedError",
    "OutcomeUnknownError",
    "RateLimitedError",
    "ServerError",
    "StoreError",
    "TransportError",
    "ValidationError",
]


class FreightExchangeError(Exception):
    """The root of everything this package raises on purpose.

    Attributes:
        message: One sentence: what went wrong and, where there is something to do, what to do.
        method: The HTTP method of the call, or `None` where no call was made.
        path: The path of the call relative to the API root, e.g. `quote/submitoffer`.
        status: The HTTP status of the last reply, or `None` without one.
        attempts: How many times the request was handed to the network: 0 where the call ended before that, in the
            login or waiting for a free connection.
        elapsed: Seconds from the start of the call to the error, waits and logins included.
        body: The last reply's body: its JSON where it is JSON, else its text; secrets are masked. Of a body over
            8 KB it is the first 8 KB, as text.
        headers: The last reply's headers, looked up whatever the case; without cookies and secrets.
        call_id: The id that the client gave the call: the same in hook records and log lines about it. It is not sent.
        may_have_taken_effect: Whether the service may have carried the call out. Only writes have effects.
    """

    may_have_taken_effect: ClassVar[bool] = False

    headers: ReplyHeaders = NO_HEADERS
    call_id: str | None = None

    settled: bool = False
    """Whether the call that raised it has ended: its retries are over, and nothing above may start them again."""

    def __init__(
        self,
        message: str = "",
        *,
        method: str | None = None,
        path: str | None = None,
        status: int | None = None,
        attempts: int = 0,
        elapsed: float | None = None,
        body: object = None,
    ) -> None:
        super().__init__(message)
        self.method = method
        self.path = path
        self.status = status
        self.attempts = attempts
        self.elapsed = elapsed
        self.body = body

    @property
    def message(self) -> str:
        return str(self.args[0]) if self.args else ""

    @property
    def request_id(self) -> str | None:
        """The service's or a gateway's name for the request, from the reply's headers, or `None`."""
        return self.headers.request_id

    def __str__(self) -> str:
        call = f" [{self._circumstances()}]" if self.method else ""
        return f"{self.message}{call}"

    def _circumstances(self) -> str:
        facts = [f"{self.method} {self._called()}"]
        if self.status is not None:
            facts.append(f"status {self.status}")
        if self.attempts > 1:
            facts.append(f"{self.attempts} attempts")
        if self.elapsed is not None:
            facts.append(f"{self.elapsed:.2f} s")
        if self.request_id is not None:
            facts.append(f"request id {self.request_id}")
        return ", ".join(facts)

    def _called(self) -> str | None:
        return self.path

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


class ConfigurationError(FreightExchangeError):
    """The client was built or used wrongly: a bad URL, no credentials, not entered, closed, on another event loop.

    Raised before anything is sent.
    """


class ValidationError(FreightExchangeError, ValueError):
    """An argument cannot be right. Raised before anything is sent.

    Attributes:
        field: The argument or draft field at fault, in this package's spelling.
    """

    def __init__(self, message: str = "", *, field: str = "") -> None:
        super().__init__(message)
        self.field = field


class TransportError(FreightExchangeError):
    """No usable reply came: a failed connection, a reset, a timeout. The call had no effect that matters.

    A write raises it only with proof that nothing was sent; any other write ends in `OutcomeUnknownError`.

    Attributes:
        unsent: There is proof that no byte of the request left.
        permanent: Trying again cannot help: the server's certificate is not valid, the client is closed.
    """

    def __init__(
        self,
        message: str = "",
        *,
        unsent: bool = False,
        permanent: bool = False,
        method: str | None = None,
        path: str | None = None,
        status: int | None = None,
        attempts: int = 0,
        elapsed: float | None = None,
        body: object = None,
    ) -> None:
        super().__init__(
            message, method=method, path=path, status=status, attempts=attempts, elapsed=elapsed, body=body
        )
        self.unsent = unsent
        self.permanent = permanent


class DeadlineExceededError(FreightExchangeError):
    """The call's `deadline`, which bounds attempts, waits and login together, has passed. Nothing took effect."""


class DecodeError(FreightExchangeError):
    """A reply, or one record of it, is not what the service document describes.

    Attributes:
        path: Where in the reply, e.g. `raterequests.3.weight`; `$` for the reply as a whole.
        request_path: The path of the call that was answered, or `None`.
        raw: The value that could not be read, secrets masked.
    """

    def __init__(
        self,
        message: str = "",
        *,
        path: str = "$",
        raw: object = None,
        method: str | None = None,
        request_path: str | None = None,
        status: int | None = None,
        attempts: int = 0,
        elapsed: float | None = None,
        body: object = None,
    ) -> None:
        super().__init__(
            message, method=method, path=path, status=status, attempts=attempts, elapsed=elapsed, body=body
        )
        self.path: str = path
        self.request_path = request_path
        self.raw = raw

    def __str__(self) -> str:
        where = f" at {self.path}" if self.path != "$" else ""
        call = f" [{self._circumstances()}]" if self.method else ""
        return f"{self.message}{where}{call}"

    def _called(self) -> str | None:
        return self.request_path


class APIStatusError(FreightExchangeError):
    """The service answered, and the answer is no (service document, section 7). What was asked did not happen."""


class BadRequestError(APIStatusError):
    """Status 400, 413 or 422: the service found the request malformed or wrong."""


class AuthenticationError(APIStatusError):
    """The service does not accept the token, and a new one would not help (service document, section 5).

    Attributes:
        retry_after: Seconds until the client tries the next login, where a refused one holds it back; else `None`.
    """

    retry_after: float | None = None


class LoginRejectedError(AuthenticationError):
    """The service rejected the email or password. No further login is tried until the credentials change.

    `FreightExchange.reset_login()` allows another try with the same ones. An account that has logged in before counts
    as rejected after three such replies in a row only; until then calls raise `AuthenticationError` with `retry_after`.
    """


class NotFoundError(APIStatusError):
    """No record has that index, or there is nothing at that address (a wrong `base_url` looks like that)."""


class RateLimitedError(APIStatusError):
    """Status 429: too many calls.

    Attributes:
        retry_after: Seconds after which the service said to come back, or `None` where it did not say.
    """

    def __init__(
        self,
        message: str = "",
        *,
        retry_after: float | None = None,
        method: str | None = None,
        path: str | None = None,
        status: int | None = None,
        attempts: int = 0,
        elapsed: float | None = None,
        body: object = None,
    ) -> None:
        super().__init__(
            message, method=method, path=path, status=status, attempts=attempts, elapsed=elapsed, body=body
        )
        self.retry_after = retry_after


class ServerError(APIStatusError):
    """A 5xx status on a read or a login. On a write it is an `OutcomeUnknownError`.

    Attributes:
        retry_after: Seconds after which the service said to come back, or `None` where it did not say.
    """

    retry_after: float | None = None


class Reconciler(Protocol):
    """What `OutcomeUnknownError.reconcile()` needs of a client: a `FreightExchange` is one."""

    async def reconcile(
        self, write: Write, *, settle: timedelta, baseline: Sequence[object] | None
    ) -> Reconciliation: ...


class OutcomeUnknownError(FreightExchangeError):
    """A write that may or may not have happened: its request may have left, and no answer settles the question.

    It is never sent again by this package. `await error.reconcile()` finds out.

    Attributes:
        write: What was being written, as a value: enough to recognise it, or to do it again by decision.
    """

    may_have_taken_effect: ClassVar[bool] = True

    def __init__(
        self,
        message: str = "",
        *,
        write: Write | None = None,
        exchange: Reconciler | None = None,
        method: str | None = None,
        path: str | None = None,
        status: int | None = None,
        attempts: int = 0,
        elapsed: float | None = None,
        body: object = None,
    ) -> None:
        super().__init__(
            message, method=method, path=path, status=status, attempts=attempts, elapsed=elapsed, body=body
        )
        self.write = write
        self._exchange = exchange

    async def reconcile(
        self,
        exchange: Reconciler | None = None,
        settle: timedelta = timedelta(seconds=30),
        *,
        baseline: Sequence[Bid] | Sequence[Listing] | Sequence[RateRequest] | Sequence[Route] | None = None,
    ) -> Reconciliation:
        """Find out whether the write happened, by reading what the service shows now.

        Args:
            exchange: The client to ask; needed once the error has been pickled, else the client that raised it.
            settle: How long the service may take to show a write. Absence is proof only after complete, agreeing
                readings over this time.
            baseline: The records of the same listing from before the send, where the caller kept them: for an offer
                what `bids.list(sweep=True)` gave without a type, listings or requests for a publication, routes for a
                route. Without it an equal record counts, whoever wrote it, and for an offer any other own bid on that
                request leaves doubt: it may be this one, rounded.

        Returns:
            `Applied(record)`, `NotApplied()`, `Conflict(record)` or `StillUnknown(candidates)`.

        Raises:
            ConfigurationError: There is no client to ask, or what was given is none, or the error carries no write.
        """
        client = exchange if exchange is not None else self._exchange
        if client is None:
            raise ConfigurationError("reconcile() needs the client as an argument: this error came from elsewhere")
        if not callable(getattr(client, "reconcile", None)):
            raise ConfigurationError(f"reconcile() asks a FreightExchange, not {type(client).__name__}")
        if self.write is None:
            raise ConfigurationError("this error carries no write to look for")
        return await client.reconcile(self.write, settle=settle, baseline=baseline)

    def __copy__(self) -> Self:
        twin = type(self)(*self.args)
        twin.__dict__.update(self.__dict__)
        return twin

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.args, self.__dict__ | {"_exchange": None}


class StoreError(FreightExchangeError):
    """The durable store cannot be used as asked: held by another, made for another account, newer, or damaged."""


class HeldError(StoreError):
    """Somebody else holds the feed, and only one at a time may.

    Attributes:
        holder: Who: the process, its host, and since when, as far as known.
    """

    def __init__(
        self,
        message: str = "",
        *,
        holder: str = "",
        method: str | None = None,
        path: str | None = None,
        status: int | None = None,
        attempts: int = 0,
        elapsed: float | None = None,
        body: object = None,
    ) -> None:
        super().__init__(
            message, method=method, path=path, status=status, attempts=attempts, elapsed=elapsed, body=body
        )
        self.holder = holder


class FeedProtocolError(FreightExchangeError):
    """A listing does not behave like one, so that nothing true can be said about what it holds."""


class AlreadyOfferedError(FreightExchangeError):
    """An offer of this account stands on the request already, and the ledger did not make it."""

    def __init__(self, message: str = "", *, request: int | None = None) -> None:
        super().__init__(message)
        self.request = request


class OfferRejectedError(BadRequestError):
    """The service refused the offer, now or when it was sent before: a refused offer is not sent again.

    Attributes:
        request: The index of the request.
    """

    request: int | None = None


class OfferInDoubtError(FreightExchangeError):
    """An offer for this request may or may not have been sent; it is being looked for, and will not be sent again
    before that is known."""

    may_have_taken_effect: ClassVar[bool] = True

    def __init__(self, message: str = "", *, request: int | None = None) -> None:
        super().__init__(message)
        self.request = request


def twin(error: FreightExchangeError) -> FreightExchangeError:
    """A copy for another task to raise: one exception raised in many tasks would grow one shared traceback."""
    return copy.copy(error)
