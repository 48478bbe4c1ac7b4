"""Errors of this package: one hierarchy. Each error states whether the call may have taken effect.

The root, `FreightExchangeError`, and `ValidationError` are in `base`, as records and drafts are below this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, ClassVar, Final, Generic, Protocol, Self, cast

from freight_exchange.base import FreightExchangeError, ValidationError
from freight_exchange.models import Bid, Listing, Reconciliation, RecordT_co, Route, Write

__all__ = [
    "APIStatusError", "AlreadyApprovedError", "AlreadyOfferedError", "AuthenticationError", "BadRequestError",
    "ConfigurationError", "DeadlineExceededError", "DecodeError", "FeedProtocolError", "FencedError",
    "FreightExchangeError", "HeldError", "LoginRejectedError", "NotFoundError", "OfferChangedError",
    "OfferInDoubtError", "OfferRejectedError", "OutcomeUnknownError", "RateLimitedError", "ServerError",
    "StoreAwayError", "StoreError", "TransportError", "ValidationError",
]  # fmt: skip

DEFAULT_SETTLE: Final = timedelta(seconds=30)
"""Time within which the service shows a write in its listings."""


class ConfigurationError(FreightExchangeError):
    """The client was made or used wrongly: a bad URL, no credentials, not entered, closed, on another event loop.

    It is raised before anything is sent.
    """


class TransportError(FreightExchangeError):
    """No usable reply came: a failed connection, a reset, a timeout. The call had no lasting effect.

    A write raises it only with proof that nothing was sent. Without proof it raises `OutcomeUnknownError`.

    Attributes:
        unsent: Whether there is proof that no byte of the request was sent.
        permanent: Whether a retry cannot help, for example because the server's certificate is not valid.
    """

    unsent: bool = False
    permanent: bool = False


class DeadlineExceededError(FreightExchangeError):
    """The call's `deadline`, which bounds attempts, waits and login together, has passed. Nothing took effect."""


class DecodeError(FreightExchangeError):
    """A reply, or one record of it, does not match the service document.

    Attributes:
        path: The position in the reply, e.g. `raterequests.3.weight`; `$` for the whole reply.
        request_path: The path of the call, or `None`.
        raw: The record with the unreadable value, or the reply, with secrets masked.
    """

    path: str = "$"  # pyright: ignore[reportIncompatibleVariableOverride]  # never `None` here
    request_path: str | None = None
    raw: object = None
    is_torn: bool = False
    """`True` if the reply begins like the right one, but is no JSON."""

    @property
    def call_path(self) -> str | None:
        return self.request_path

    def __str__(self) -> str:
        position = f" at {self.path}" if self.path != "$" else ""
        call = f" [{self._describe_call()}]" if self.method else ""
        return f"{self.message}{position}{call}"


class APIStatusError(FreightExchangeError):
    """The service refused the call (service document, section 7). The call had no effect.

    Attributes:
        retry_after: Seconds until the service asks to try again or, after a refused login, until the client tries the
            next one; otherwise `None`.
    """

    retry_after: float | None = None


class BadRequestError(APIStatusError):
    """Status 400, 413 or 422: the service found the request malformed or wrong."""


class AuthenticationError(APIStatusError):
    """The service does not accept the token, and a new one would not help (service document, section 5)."""


class LoginRejectedError(AuthenticationError):
    """The service rejected the email or password. No further login is tried until the credentials change.

    `FreightExchange.reset_login()` allows another try with the same ones. An account that has logged in before counts
    as rejected only after three such replies in a row. Until then calls raise `AuthenticationError` with `retry_after`.
    """


class NotFoundError(APIStatusError):
    """No record has that index, or nothing is at that address, for example because `base_url` is wrong."""


class RateLimitedError(APIStatusError):
    """Status 429: too many calls."""


class ServerError(APIStatusError):
    """Status 5xx on a read or a login. For a write it becomes an `OutcomeUnknownError`."""


class StoreError(FreightExchangeError):
    """The store cannot be used: another process holds it, it is of another account or a newer version, or damaged."""


class HeldError(StoreError):
    """Another process or feed holds the feed. Only one at a time can.

    Attributes:
        holder: Its process, its host, and since when it has held the feed, as far as known.
    """

    holder: str = ""


class StoreAwayError(StoreError):
    """The database cannot be reached, or has closed the connection. A running write may or may not be committed."""


class FencedError(StoreError):
    """The lease of this replica has expired and another one has taken over. It writes nothing more under this lease."""


class FeedProtocolError(FreightExchangeError):
    """A listing contradicts itself, so its content is uncertain."""


class AlreadyOfferedError(FreightExchangeError):
    """The request already has an offer of this account that the bot's ledger does not know.

    Attributes:
        request: Its index.
    """

    request: int | None = None


class AlreadyApprovedError(FreightExchangeError):
    """An offer on the request is approved already, so the bot does not send another approval.

    Attributes:
        request: The index of the request.
        offer: The identifier of the approved offer, or `None` if it is not known.
    """

    request: int | None = None
    offer: int | None = None


class OfferChangedError(FreightExchangeError):
    """The offer is not as the handler saw it: its price or terms changed, it was answered, or it is gone.

    Attributes:
        request: The index of the request.
        offer: The identifier of the offer, or `None` if the request itself is gone.
    """

    request: int | None = None
    offer: int | None = None


class OfferRejectedError(BadRequestError):
    """The service has refused the offer, or the answer to an offer, now or earlier. It is not sent again.

    Attributes:
        request: The index of the request.
        request_closed: `True` if a reading after the refusal showed that the request is awarded or gone.
    """

    request: int | None = None
    request_closed: bool = False


class OfferInDoubtError(FreightExchangeError):
    """An offer on this request, or an answer to one, may or may not have been carried out.

    It is not sent again until that is known.

    Attributes:
        request: The index of the request.
    """

    may_have_taken_effect: ClassVar[bool] = True

    request: int | None = None


class Reconciler(Protocol):
    """A client that can find out whether a write took effect, such as a `FreightExchange`."""

    async def reconcile(
        self, write: Write, *, settle: timedelta, baseline: Sequence[object] | None
    ) -> Reconciliation: ...


class OutcomeUnknownError(FreightExchangeError, Generic[RecordT_co]):
    """A write may or may not have taken effect: its request may have been sent, and no reply shows the outcome.

    This package never sends the write again. `await error.reconcile()` finds out. The type parameter is the record that
    shows the write: `OutcomeUnknownError[Bid]` reconciles to an `Applied[Bid]`.

    Attributes:
        write: The write as a value, to recognise its effect or to repeat it deliberately.
    """

    may_have_taken_effect: ClassVar[bool] = True

    write: Write | None = None
    _exchange: Reconciler | None = None

    async def reconcile(
        self,
        exchange: Reconciler | None = None,
        settle: timedelta = DEFAULT_SETTLE,
        *,
        baseline: Sequence[Bid] | Sequence[Listing] | Sequence[Route] | None = None,
    ) -> Reconciliation[RecordT_co]:
        """Find out whether the write happened, by reading what the service shows now.

        Args:
            exchange: The client to read with; by default the client that raised the error. Required after pickling.
            settle: Time that the service may take to show a write. Absence is proven only by complete, agreeing
                readings over this time.
            baseline: Records that were listed before the write was sent, if the caller has them. For an offer: the
                result of `bids.list(sweep=True)` without a type. For a publication: listings. For a route:
                routes. Without a baseline, an equal record of any age counts as the write. For an offer, any other own
                bid on the request leaves a doubt, because it may be the same one with a rounded amount.

        Returns:
            `Applied(record)`, `NotApplied()`, `Conflict(record)` or `StillUnknown(candidates)`.

        Raises:
            ConfigurationError: There is no client to read with, or the error has no write.
        """
        client = exchange if exchange is not None else self._exchange
        if client is None:
            raise ConfigurationError("reconcile() needs the client as an argument: this error was pickled or copied")
        if not callable(getattr(client, "reconcile", None)):
            raise ConfigurationError(f"exchange must be a FreightExchange, not {type(client).__name__}")
        if self.write is None:
            raise ConfigurationError("this error carries no write to look for")
        found = await client.reconcile(self.write, settle=settle, baseline=baseline)
        return cast(Reconciliation[RecordT_co], found)

    def __copy__(self) -> Self:
        return type(self)(*self.args, **self.__dict__)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.args, {name: value for name, value in self.__dict__.items() if name != "_exchange"}


READ_ERRORS: Final = (TransportError, DeadlineExceededError, DecodeError, APIStatusError, FeedProtocolError)
"""Classes of errors after which a read may succeed later. A rejected login is among them, but is permanent."""


def is_transient(error: FreightExchangeError) -> bool:
    """Return whether the same read may succeed later."""
    if isinstance(error, AuthenticationError):
        return error.retry_after is not None
    if isinstance(error, APIStatusError):
        return isinstance(error, ServerError | RateLimitedError)
    return isinstance(error, READ_ERRORS) and not getattr(error, "permanent", False)


def retry_delay(error: FreightExchangeError) -> float | None:
    """Return the seconds until the service accepts another request or the client tries another login, if known."""
    return error.retry_after if isinstance(error, APIStatusError) else None


def is_from_login(error: FreightExchangeError) -> bool:
    """Return whether a login failed, so that the call itself was not sent."""
    return error.call_path == "login"
