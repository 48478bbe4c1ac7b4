"""Messages of the send path: request, progress of its attempt, and response."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import attrs

from freight_exchange.errors.outcome import Reconciler
from freight_exchange.models.writes import Write
from freight_exchange.options import RetryPolicy, Timeouts
from freight_exchange.platform.clock import SendLimit
from freight_exchange.transport.secrets import Secret

__all__ = ["UNCONNECTED", "CallContext", "Middleware", "Next", "Request", "RequestKind", "Response", "SendProgress"]


class RequestKind(enum.Enum):
    """Kind of a request: the effect of repeating it."""

    READ = "read"
    """Read: GET and the POST listings. A repeat has no effect."""
    LOGIN = "login"
    """Login: a repeat returns another token, which is harmless, but each try counts against the account."""
    WRITE = "write"
    """Write: a repeat would make a second publication, offer, answer or route, so it must not happen."""


_STEPS = (".connect_tcp", ".connect_unix_socket", ".start_tls", ".connect_tunnel", ".setup_socks5_connection")
_CONNECTING = tuple(f"{step}.started" for step in _STEPS)
_CONNECTED = tuple(f"{step}.complete" for step in _STEPS)
UNCONNECTED = tuple(f"{step}.failed" for step in _STEPS)
"""Endings of the names of trace events for a failed connection."""


class SendProgress:
    """Progress of a request's current attempt, which decides whether a write may have taken effect.

    A transport with a trace proves its state. A transport without one counts as having sent everything as soon as it
    receives the request.
    """

    __slots__ = (
        "_abandoned",
        "_connecting",
        "_handed",
        "_limit",
        "_sending",
        "_unconnected",
        "before_first_byte",
        "queue",
        "replays",
        "reply",
        "sends",
        "waits_for_login",
    )

    def __init__(self, limit: SendLimit | None = None) -> None:
        """Create the progress of a request; after `limit`, no further part of the request is sent."""
        self._limit = limit
        self.sends = 0
        """Number of times that the network received the request, over all attempts of its call."""
        self.replays = 0
        """Number of logins that followed a refusal of the token."""
        self.waits_for_login = False
        """`True` while the call waits for a login, its first or one after a refusal."""
        self.before_first_byte: Callable[[], None] | None = None
        """Called right before the first byte of an attempt is sent; it may raise `AbandonedError` to stop it."""
        self._abandoned = False
        self.reset()

    def reset(self) -> None:
        """Start without an attempt, or after one whose reply proves that it had no effect."""
        self._handed = self._connecting = self._sending = self._unconnected = False
        self.reply: Response | None = None
        """The reply to the attempt, once it is complete."""
        self.queue = ""
        """Name of the queue in which the attempt waited when its deadline passed."""

    def record_send(self) -> int:
        """Record that the network receives the request; return how often it has so far, from 1.

        Raises:
            AbandonedError: The limit has passed. For a transport without a trace this is the only check.
        """
        if self._limit is not None and self._limit.is_over:
            raise AbandonedError
        self._handed = True
        self.sends += 1
        return self.sends

    def trace(self, event: str) -> None:
        """Record one event of the transport's trace."""
        if ".send_request" in event or ".send_connection_init" in event:
            # Checked at each send, as a request without the end of its body has no effect.
            if self._limit is not None and event.endswith(".started") and self._limit.is_over:
                raise AbandonedError
            if not self._sending:
                if self._abandoned:
                    raise AbandonedError
                if self.before_first_byte is not None:
                    self.before_first_byte()
            self._sending = True
        elif event.endswith(_CONNECTING):
            self._connecting, self._unconnected = True, False
        elif event.endswith(_CONNECTED):
            # From here on, a transport with other names for its steps, or without any, may send the request.
            self._connecting = False
        elif event.endswith(UNCONNECTED):
            # Until the transport raises, it may try another connection, perhaps without a trace. An abandoned attempt
            # is cancelled at this point, and tries nothing else.
            self._connecting, self._unconnected = self._connecting and self._abandoned, True

    def abandon(self) -> None:
        """Record that no caller waits any more. A transport that has not begun to send must not begin."""
        self._abandoned = True

    @property
    def abandoned(self) -> bool:
        return self._abandoned

    @property
    def began(self) -> bool:
        """`True` if the trace shows that sending has begun."""
        return self._sending

    @property
    def may_have_begun(self) -> bool:
        """`True` if the service may have received part of the request."""
        return self._sending or (self._handed and not self._connecting)

    @property
    def surely_unsent(self) -> bool:
        """`True` if the trace shows no connection. It is proof once the transport has raised for that reason."""
        return self._unconnected and not self._sending


class AbandonedError(Exception):
    """A request is not sent, because it was abandoned or its limit has passed."""


def _content(response: Response) -> bytes:
    return response.content


@attrs.frozen(eq=False, kw_only=True)
class CallContext:
    """Facts of a call that all its attempts share.

    Attributes:
        read: Turns a successful reply into the call's result.
        retries: The retry policy.
        started: Time on the loop's clock from which the deadline counts.
        reconciler: The client that can reconcile the call's write.
    """

    read: Callable[[Response], Any] = _content
    retries: RetryPolicy = attrs.field(factory=RetryPolicy)
    started: float = 0.0
    reconciler: Reconciler | None = attrs.field(default=None, repr=False)


_NO_CALL = CallContext()


def _no_slots() -> None:
    """Release nothing: the request has passed no limiter."""


@attrs.frozen(eq=False, kw_only=True)
class Request:
    """Request, as middleware receives it. Its `repr` shows no body and no secret.

    Attributes:
        method: The HTTP method.
        path: Path relative to the API root, without a leading slash.
        kind: Read, login or write: the effect of a repeat.
        content: The JSON body, encoded, or `None`.
        params: The query string's pairs.
        headers: Headers in addition to the SDK's own.
        attempt: Number of the attempt within its call, from 1.
        call_id: The id of its call, the same for all attempts. To send the id, add it as a header.
        write: The write as a value; `None` for reads and logins.
    """

    method: str
    path: str
    kind: RequestKind
    timeouts: Timeouts = attrs.field(repr=False)
    content: bytes | None = attrs.field(default=None, repr=False)
    params: tuple[tuple[str, str], ...] = ()
    headers: tuple[tuple[str, str], ...] = attrs.field(default=(), repr=False)
    attempt: int = 1
    call_id: str = ""
    write: Write | None = attrs.field(default=None, repr=False)
    replayable: bool = attrs.field(default=True, repr=False)
    token: Secret | None = attrs.field(default=None, repr=False)
    progress: SendProgress = attrs.field(factory=SendProgress, repr=False)
    deadline: float = attrs.field(default=float("inf"), repr=False)
    ends_at: float = attrs.field(default=float("inf"), repr=False)
    context: CallContext = attrs.field(default=_NO_CALL, repr=False)
    release_slots: Callable[[], None] = attrs.field(default=_no_slots, repr=False)

    def with_header(self, name: str, value: str) -> Request:
        """Return the same request with one more header."""
        return attrs.evolve(self, headers=(*self.headers, (name, value)))

    def with_token(self, token: Secret) -> Request:
        return attrs.evolve(self, token=token)

    def in_place_of(self, original: Request) -> Request:
        """Return this request with the attempt of `original`, in case a middleware has built a new request."""
        return attrs.evolve(
            self,
            kind=original.kind,
            attempt=original.attempt,
            call_id=original.call_id,
            write=original.write,
            replayable=original.replayable,
            token=original.token,
            progress=original.progress,
            deadline=original.deadline,
            ends_at=original.ends_at,
            context=original.context,
        )


@attrs.frozen(eq=False, kw_only=True)
class Response:
    """Complete and decompressed reply.

    Attributes:
        status: The HTTP status.
        content: The bytes of the body. `repr` does not show them, since they may be a login's reply.
        headers: Raw name and value pairs, as received.
        attempt: How often the network had received the requests of this call by then.
        result: Result of the call, once the body was decoded.
    """

    status: int
    content: bytes = attrs.field(repr=False)
    headers: Sequence[tuple[bytes, bytes]] = attrs.field(default=(), repr=False)
    attempt: int = 1
    result: Any = attrs.field(default=None, repr=False)

    def header(self, name: str) -> str | None:
        """Return the value of a header, or `None`; case is ignored."""
        wanted = name.lower().encode("ascii")
        for key, value in self.headers:
            if key.lower() == wanted:
                return value.decode("latin-1")
        return None


Next = Callable[[Request], Awaitable[Response]]
Middleware = Callable[[Request, Next], Awaitable[Response]]
"""An async callable `(request, call_next) -> response`.

It is called once for each attempt, before the token is attached. To send the request it calls `call_next`: at most once
for a write (a second call is refused), any number of times for a read. An exception that is not an error of this
package reaches the caller unchanged.
"""
