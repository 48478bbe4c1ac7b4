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
    """The client was built or used wrongly: a bad URL, no credentials, not entered, closed, on another event loop.

    Raised before anything is sent.
    """


class TransportError(FreightExchangeError):
    """No usable reply came: a failed connection, a reset, a timeout. The call had no effect that matters.

    A write raises it only with proof that nothing was sent; any other write ends in `OutcomeUnknownError`.

    Attributes:
        unsent: There is proof that no byte of the request was sent.
        permanent: Trying again cannot help: the server's certificate is not valid, the client is closed.
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
        path: The position in the reply, e.g. `raterequests.3.weight`; `$` for the reply as a whole.
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
        retry_after: Seconds until the client tries the next login, after one was refused; else `None`.
    """

    retry_after: float | None = None


class LoginRejectedError(AuthenticationError):
    """The service rejected the email or password. No further login is tried until the credentials change.

    `FreightExchange.reset_login()` allows another try with the same ones. An account that has logged in before counts
    as rejected after three such replies in a row only; until then calls raise `AuthenticationError` with `retry_after`.
    """


class NotFoundError(APIStatusError):
    """No record has that index, or nothing is at that address (a wrong `base_url` looks like that)."""


class RateLimitedError(APIStatusError):
    """Status 429: too many calls.

    Attributes:
        retry_after: Seconds after which the service asks to try again, or `None` without one.
    """

    def __init__(self, message: str = "", *, retry_after: float | None = None, **call: Unpack[CallFacts]) -> None:
        super().__init__(message, **call)
        self.retry_after = retry_after


class ServerError(APIStatusError):
    """A 5xx status on a read or a login. On a write it is an `OutcomeUnknownError`.

    Attributes:
        retry_after: Seconds after which the service asks to try again, or `None` without one.
    """

    retry_after: float | None = None


class StoreError(FreightExchangeError):
    """The durable store cannot be used: held by another, made for another account, newer, or damaged."""


class HeldError(StoreError):
    """Another holder has the feed, and only one at a time may.

    Attributes:
        holder: The process, its host, and since when it holds the feed, as far as known.
    """

    def __init__(self, message: str = "", *, holder: str = "", **call: Unpack[CallFacts]) -> None:
        super().__init__(message, **call)
        self.holder = holder


class StoreAwayError(StoreError):
    """The database cannot be reached, or has cut the connection. A write under way may or may not be committed."""


class FencedError(StoreError):
    """Another replica has taken over this one's work: its lease was over. It writes nothing more under this lease."""


class FeedProtocolError(FreightExchangeError):
    """A listing contradicts itself, so that its content is uncertain."""


class AlreadyOfferedError(FreightExchangeError):
    """An offer of this account that the ledger did not make is on the request already.

    Attributes:
        request: The index of the request.
    """

    def __init__(self, message: str = "", *, request: int | None = None) -> None:
        super().__init__(message)
        self.request = request


class AlreadyApprovedError(FreightExchangeError):
    """An offer on the request is approved, so that a bot sends no second approval.

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
    """The service refused the offer, or the answer to one, now or when it was sent before: it is not sent again.

    Attributes:
        request: The index of the request.
        request_closed: `True` if a reading after the refusal showed the request as awarded, or not at all.
    """

    request: int | None = None
    request_closed: bool = False


class OfferInDoubtError(FreightExchangeError):
    """An offer for this request, or an answer to one, may or may not have been carried out.

    It is not sent again before that is known.

    Attributes:
        request: The index of the request.
    """

    may_have_taken_effect: ClassVar[bool] = True

    def __init__(self, message: str = "", *, request: int | None = None) -> None:
        super().__init__(message)
        self.request = request


def copy_error(error: AnyError) -> AnyError:
    """Copy an error for another task to raise: one exception raised in many tasks would grow one shared traceback."""
    return copy.copy(error)
