"""The root of all errors, and the error for a wrong argument; `freight_exchange.errors` has the others."""

from __future__ import annotations

from typing import ClassVar, TypedDict

from freight_exchange.platform.reply_headers import NO_HEADERS, ReplyHeaders

__all__ = ["CallFacts", "FreightExchangeError", "ValidationError"]


class CallFacts(TypedDict, total=False):
    """The keyword arguments by which an error describes its call; `FreightExchangeError` explains them."""

    method: str | None
    path: str | None
    status: int | None
    attempts: int
    elapsed: float | None
    body: object


class FreightExchangeError(Exception):
    """Base class of all errors of this package.

    Errors consist of plain values: they pickle, copy and print as one sentence, and contain no secret.

    Attributes:
        message: One sentence: the problem and, if possible, what to do.
        method: The HTTP method of the call, or `None` if no call was made.
        path: The path of the call relative to the API root, e.g. `quote/submitoffer`.
        status: The HTTP status of the last reply, or `None` without one.
        attempts: Number of times that the request was handed to the network: 0 if the call ended before that, during
            the login or the wait for a free connection.
        elapsed: Seconds from the start of the call to the error, including waits and logins.
        body: The body of the last reply, as JSON or else as text, with secrets masked. For more than 8 KB: the first
            8 KB as text.
        headers: The headers of the last reply, case-insensitive, without cookies and secrets.
        call_id: The client's id of the call, which hook records and log lines have too. It is not sent.
        may_have_taken_effect: Whether the service may have carried the call out. Only writes have effects.
    """

    may_have_taken_effect: ClassVar[bool] = False

    headers: ReplyHeaders = NO_HEADERS
    call_id: str | None = None

    settled: bool = False
    """`True` after the call has ended with this error: callers must not repeat the call for it."""

    token_refused: bool = False
    """`True` if the service refused the token of the call: this error is of the login after that, or of the replay."""

    login_pending: bool = False
    """`True` if the deadline passed while the call waited for a login."""

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
        """Id of the request by the service or a gateway, from the headers of the reply, or `None`."""
        return self.headers.request_id

    @property
    def call_path(self) -> str | None:
        """The path of the call; a `DecodeError` has it in another attribute than `path`."""
        return self.path

    def __str__(self) -> str:
        call = f" [{self._describe_call()}]" if self.method else ""
        return f"{self.message}{call}"

    def _describe_call(self) -> str:
        facts = [f"{self.method} {self.call_path}"]
        if self.status is not None:
            facts.append(f"status {self.status}")
        if self.attempts > 1:
            facts.append(f"{self.attempts} attempts")
        if self.elapsed is not None:
            facts.append(f"{self.elapsed:.2f} s")
        if self.request_id is not None:
            facts.append(f"request id {self.request_id}")
        return ", ".join(facts)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


class ValidationError(FreightExchangeError, ValueError):
    """An argument is invalid. It is raised before anything is sent.

    Attributes:
        field: Name of the invalid argument or draft field, in this package's spelling.
    """

    def __init__(self, message: str = "", *, field: str = "") -> None:
        super().__init__(message)
        self.field = field
