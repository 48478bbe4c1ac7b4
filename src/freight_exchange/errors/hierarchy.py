"""The errors of calls, stores, feeds and bots. Each states whether the call may have taken effect."""

from __future__ import annotations

import copy
from typing import ClassVar, TypeVar, Unpack

from freight_exchange.platform.errors import CallFacts, FreightExchangeError

__all__ = [
    "APIStatusError",
    "AlreadyApprovedError",
    "AlreadyOfferedError",
    "AuthenticationError",
    "BadRequestError",
    "ConfigurationError",
    "DeadlineExceededError",
    "DecodeError",
    "FeedProtocolError",
    "FencedError",
    "HeldError",
    "LoginRejectedError",
    "NotFoundError",
    "OfferChangedError",
    "OfferInDoubtError",
    "OfferRejectedError",
    "RateLimitedError",
    "ServerError",
    "StoreAwayError",
    "StoreError",
    "TransportError",
    "copy_error",
]

AnyError = TypeVar("AnyError", bound=FreightExchangeError)


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

    def __init__(
        self, message: str = "", *, unsent: bool = False, permanent: bool = False, **call: Unpack[CallFacts]
    ) -> None:
        super().__init__(message, **call)
        self.unsent = unsent
        self.permanent = permanent


class DeadlineExceededError(FreightExchangeError):
    """The call's `deadline`, which bounds attempts, waits and login together, has passed. Nothing took effect."""


class DecodeError(FreightExchangeError):
    """A reply, or one record of it, does not match the service document.

    Attributes:
        path: The position in the reply, e.g. `raterequests.3.weight`; `$` for the whole reply.
        request_path: The path of the call, or `None`.
        raw: The record with the unreadable value, or the reply, with secrets masked.
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

    @property
    def call_path(self) -> str | None:
        return self.request_path

    def __str__(self) -> str:
        position = f" at {self.path}" if self.path != "$" else ""
        call = f" [{self._describe_call()}]" if self.method else ""
        return f"{self.message}{position}{call}"


class APIStatusError(FreightExchangeError):
    """The service refused the call (service document, section 7). The call had no effect."""


class BadRequestError(APIStatusError):
    """Status 400, 413 or 422: the service found the request malformed or wrong."""


class AuthenticationError(APIStatusError):
    """The service does not accept the token, and a new one would not help (service document, section 5).

    Attributes:
        retry_after: Seconds until the client tries the next login, if a login was refused; otherwise `None`.
    """

    retry_after: float | None = None


class LoginRejectedError(AuthenticationError):
    """The service rejected the email or password. No further login is tried until the credentials change.

    `FreightExchange.reset_login()` allows another try with the same ones. An account that has logged in before counts
    as rejected only after three such replies in a row. Until then calls raise `AuthenticationError` with `retry_after`.
    """


class NotFoundError(APIStatusError):
    """No record has that index, or nothing is at that address, for example because `base_url` is wrong."""


class RateLimitedError(APIStatusError):
    """Status 429: too many calls.

    Attributes:
        retry_after: Seconds after which the service asks to try again, or `None` without one.
    """

    def __init__(self, message: str = "", *, retry_after: float | None = None, **call: Unpack[CallFacts]) -> None:
        super().__init__(message, **call)
        self.retry_after = retry_after


class ServerError(APIStatusError):
    """Status 5xx on a read or a login. For a write it becomes an `OutcomeUnknownError`.

    Attributes:
        retry_after: Seconds after which the service asks to try again, or `None` without one.
    """

    retry_after: float | None = None


class StoreError(FreightExchangeError):
    """The store cannot be used: another process holds it, it is of another account or a newer version, or damaged."""


class HeldError(StoreError):
    """Another process or feed holds the feed. Only one at a time can.

    Attributes:
        holder: Its process, its host, and since when it has held the feed, as far as known.
    """

    def __init__(self, message: str = "", *, holder: str = "", **call: Unpack[CallFacts]) -> None:
        super().__init__(message, **call)
        self.holder = holder


class StoreAwayError(StoreError):
    """The database cannot be reached, or has closed the connection. A running write may or may not be committed."""


class FencedError(StoreError):
    """The lease of this replica has expired and another one has taken over. It writes nothing more under this lease."""


class FeedProtocolError(FreightExchangeError):
    """A listing contradicts itself, so its content is uncertain."""


class AlreadyOfferedError(FreightExchangeError):
    """The request already has an offer of this account that the bot's ledger does not know.

    Attributes:
        request: The index of the request.
    """

    def __init__(self, message: str = "", *, request: int | None = None) -> None:
        super().__init__(message)
        self.request = request


class AlreadyApprovedError(FreightExchangeError):
    """An offer on the request is approved already, so the bot does not send another approval.

    Attributes:
        request: The index of the request.
        offer: The identifier of the approved offer, or `None` if it is not known.
    """

    def __init__(self, message: str = "", *, request: int | None = None, offer: int | None = None) -> None:
        super().__init__(message)
        self.request = request
        self.offer = offer


class OfferChangedError(FreightExchangeError):
    """The offer is not as the handler saw it: its price or terms changed, it was answered, or it is gone.

    Attributes:
        request: The index of the request.
        offer: The identifier of the offer, or `None` if the request itself is gone.
    """

    def __init__(self, message: str = "", *, request: int | None = None, offer: int | None = None) -> None:
        super().__init__(message)
        self.request = request
        self.offer = offer


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

    def __init__(self, message: str = "", *, request: int | None = None) -> None:
        super().__init__(message)
        self.request = request


def copy_error(error: AnyError) -> AnyError:
    """Copy an error for another task, since an exception raised in many tasks would collect all their tracebacks."""
    return copy.copy(error)
