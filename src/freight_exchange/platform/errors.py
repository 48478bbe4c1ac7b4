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
    """The root of everything this package raises on purpose.

    Errors are built from plain values: they pickle, copy and print one sentence, and contain no secret.

    Attributes:
        message: One sentence: what went wrong and, if something can be done, what to do.
        method: The HTTP method of the call, or `None` where no call was made.
        path: The path of the call relative to the API root, e.g. `quote/submitoffer`.
        status: The HTTP status of the last reply, or `None` without one.
        attempts: How many times the request was handed to the network: 0 where the call ended before that, in the
            login or waiting for a free connection.
        elapsed: Seconds from the start of the call to the error, including waits and logins.
        body: The last reply's body, as JSON where it is JSON, else as text; secrets are masked. Of a body over 8 KB it
            is the first 8 KB, as text.
        headers: The last reply's headers, case-insensitive, without cookies and secrets.
        call_id: The id that the client gave the call: the same in hook records and log lines about it. It is not sent.
        may_have_taken_effect: Whether the service may have carried the call out. Only writes have effects.
    """

    may_have_taken_effect: ClassVar[bool] = False

    headers: ReplyHeaders = NO_HEADERS
    call_id: str | None = None

    settled: bool = False
    """True once the call that raised it has ended: nothing above may start its retries again."""

    token_refused: bool = False
    """True where the service had refused the call's token, and then the login failed: the call was sent as well."""

    login_pending: bool = False
    """True where the call's deadline passed while it waited for a login."""

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
        """The id that the service or a gateway gave the request, from the reply's headers, or `None`."""
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
    """An argument is invalid. Raised before anything is sent.

    Attributes:
        field: The argument or draft field at fault, in this package's spelling.
    """

    def __init__(self, message: str = "", *, field: str = "") -> None:
        super().__init__(message)
        self.field = field
