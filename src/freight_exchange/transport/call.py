"""Call of the service: its request, its reply, and the state of its attempts."""

from __future__ import annotations

import enum
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import anyio
import attrs

from freight_exchange.models import Write

if TYPE_CHECKING:
    from freight_exchange.config import Config
    from freight_exchange.errors import FreightExchangeError, Reconciler
    from freight_exchange.transport.redact import Redactor, Secret


class RequestKind(enum.Enum):
    """Kind of a request: the effect of repeating it."""

    READ = "read"
    """Read: GET and the POST listings. A repeat has no effect."""
    LOGIN = "login"
    """Login: a repeat returns another token, which is harmless, but each try counts against the account."""
    WRITE = "write"
    """Write: a repeat would make a second publication, offer, answer or route, so it must not happen."""


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
    content: bytes | None = attrs.field(default=None, repr=False)
    params: tuple[tuple[str, str], ...] = ()
    headers: tuple[tuple[str, str], ...] = attrs.field(default=(), repr=False)
    attempt: int = 1
    call_id: str = ""
    write: Write | None = attrs.field(default=None, repr=False)

    def with_header(self, name: str, value: str) -> Request:
        """Return the same request with one more header."""
        return attrs.evolve(self, headers=(*self.headers, (name, value)))


@attrs.frozen(eq=False, kw_only=True)
class Response:
    """Complete and decompressed reply.

    Attributes:
        status: The HTTP status.
        content: The bytes of the body. `repr` does not show them, since they may be a login's reply.
        headers: Raw name and value pairs, as received.
        attempt: How often the network had received the requests of this call by then.
    """

    status: int
    content: bytes = attrs.field(repr=False)
    headers: Sequence[tuple[bytes, bytes]] = attrs.field(default=(), repr=False)
    attempt: int = 1

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


Describe = Callable[["FreightExchangeError"], None]
"""Function that adds the circumstances of a call and its reply to an error, and redacts it."""


@attrs.define(eq=False, kw_only=True, repr=False)
class Call:
    """One call, and what is known of its current attempt.

    The state is here and not in the `Request`: a middleware cannot change whether a write may have taken effect.
    """

    kind: RequestKind
    method: str
    path: str
    read: Callable[[Response, Describe], Any]
    limits: Config
    redactor: Redactor
    started: float
    call_id: str = attrs.Factory(lambda: os.urandom(8).hex())
    write: Write | None = None
    reconciler: Reconciler | None = None
    token: Secret | None = None
    sends: int = 0
    # Logins that followed a refusal of the token.
    replays: int = 0
    # Of the current attempt: the network has it, a byte may have left, nothing more may be sent, the whole reply.
    handed: bool = False
    began: bool = False
    stopped: bool = False
    reply: Response | None = None
    # Description of the wait in which the deadline would pass.
    queue: str = ""
    scope: anyio.CancelScope = attrs.field(init=False)

    @property
    def ends_at(self) -> float:
        return self.started + self.limits.deadline

    @property
    def in_doubt(self) -> bool:
        """`True` if this is a write that the service may have received in part."""
        return self.kind is RequestKind.WRITE and self.began

    @property
    def latest_start(self) -> float:
        """Latest time at which it may be sent. A write needs a quarter of its deadline to learn its outcome."""
        return self.ends_at - (0.25 * self.limits.deadline if self.kind is RequestKind.WRITE else 0.0)

    def is_late(self) -> bool:
        return self.kind is RequestKind.WRITE and anyio.current_time() > self.latest_start

    def reset(self) -> None:
        """Forget an attempt that had no effect, with proof."""
        self.handed = self.began = False
        self.reply = None


Send = Callable[[Call, Request], Awaitable[Response]]
