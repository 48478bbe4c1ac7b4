"""HTTP/1.1 of the sandbox without I/O: bytes of requests in, the script of each reply out.

Two players perform a script: `memory` within the process, and `server` over sockets.
"""

from __future__ import annotations

import enum
import http
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, Self
from urllib.parse import parse_qsl, unquote

import attrs
import h11


class Cut(enum.Enum):
    """Failure of a connection, with its meaning. The first group strikes before the server has the whole request."""

    meaning: str

    def __new__(cls, value: str, meaning: str) -> Self:
        cut = object.__new__(cls)
        cut._value_, cut.meaning = value, meaning
        return cut

    REFUSED = "refused", "nothing listens"
    DNS = "dns", "the name does not resolve"
    CONNECT_STALL = "connect_stall", "the connection is never established"
    TLS_STALL = "tls_stall", "the TLS hello is never answered"
    BAD_CERTIFICATE = "bad_certificate", "the certificate is not trusted"
    POOL_EXHAUSTED = "pool_exhausted", "no connection is free"
    RESET_BEFORE_HEADERS = "reset_before_headers", "reset before the request's head was read"
    RESET_MID_BODY = "reset_mid_body", "reset in the middle of the request's body"

    RESET_AFTER_SEND = "reset_after_send", "the request received whole, not processed, then a reset"
    RESET_AFTER_PROCESSING = "reset_after_processing", "processed, then a reset instead of the reply"
    RESET_MID_REPLY = "reset_mid_reply", "a reset in the middle of the reply's body"
    FIN_NO_BYTES = "fin_no_bytes", "closed cleanly without a byte"
    STALL = "stall", "no reply, ever"
    STALL_MID_REPLY = "stall_mid_reply", "silence in the middle of the reply's body"
    DRIP = "drip", "the reply byte by byte"
    TRUNCATED_LENGTH = "truncated_length", "less than Content-Length"
    TRUNCATED_CHUNKS = "truncated_chunks", "no last chunk"
    GARBAGE_STATUS = "garbage_status", "a status line that is not HTTP"
    HEADER_FLOOD = "header_flood", "headers without end"
    BYTES_AFTER_REPLY = "bytes_after_reply", "a good reply, and its bytes again on the open connection"
    IDLE_FIN = "idle_fin", "a good reply, then the idle connection is closed"

    @property
    def early(self) -> bool:
        """`True` for a cut before the server has the whole request, so that nothing can have taken effect."""
        return self in CONNECTING or self in _WITHIN_REQUEST


CONNECTING = frozenset([*Cut][:6])
"""Cuts before there is a connection."""
_WITHIN_REQUEST = frozenset([*Cut][6:8])


@attrs.frozen
class WireFault:
    """One cut. `seconds` is the pause of a drip or an idle FIN."""

    cut: Cut
    seconds: float = 0.0


@attrs.frozen
class Call:
    """HTTP request as the server received it.

    `path` is relative to the API root and has no leading slash (`quote/getrequests`); the names of `headers`
    are lower case.
    """

    method: str
    path: str
    query: Mapping[str, str] = attrs.field(factory=dict)
    headers: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    body: bytes = attrs.field(default=b"", repr=False)


@attrs.frozen
class Reply:
    """HTTP reply, with the cut that breaks its connection.

    `delay` is the time in seconds before the first byte. If a cut prevents a reply, `status` is 0 and `body` is empty.
    """

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = attrs.field(default=b"", repr=False)
    wire: WireFault | None = None
    delay: float = 0.0


API = "/api/"


class End(enum.Enum):
    """End of a connection."""

    FIN = "close"
    RST = "reset"


Script = Sequence[bytes | float | End]
"""Answer of a connection to a request: bytes to send, seconds to wait (`inf` is a stall), and the end.

A pause with nothing but `FIN` behind it is the time that an idle connection is kept: the next request ends the pause.
"""

_PHRASES = {status.value: status.phrase for status in http.HTTPStatus}
_FLOOD = b"HTTP/1.1 200 OK\r\n" + (b"x-flood: " + b"a" * 1_000 + b"\r\n") * 1_000  # no client takes such a head
_GARBAGE = b"\x16\x03\x01 this is not HTTP\r\n\r\n"
_BAD_REQUEST = Reply(400, (("connection", "close"),))
NOT_FOUND = Reply(404, (("content-type", "text/html"),), b"<html><body><h1>Not Found</h1></body></html>")


def script(reply: Reply) -> Script:
    """Write the script of a reply, with the cut that breaks its connection."""
    body, wire, whole = reply.body, reply.wire, _head(reply) + reply.body
    if wire is None:
        return [reply.delay, whole] if reply.delay else [whole]
    half = body[: len(body) // 2]
    short = _head(reply, f"content-length: {max(len(body), 1)}") + half
    chunk = b"%x\r\n%b\r\n" % (len(half), half) if half else b""
    scripts: Mapping[Cut, Script] = {
        Cut.RESET_MID_REPLY: [short, 0.05, End.RST],  # at once, it would discard what the client has not read yet
        Cut.FIN_NO_BYTES: [End.FIN],
        Cut.STALL: [math.inf],
        Cut.STALL_MID_REPLY: [short, math.inf],
        Cut.TRUNCATED_LENGTH: [short, End.FIN],
        Cut.TRUNCATED_CHUNKS: [_head(reply, "transfer-encoding: chunked") + chunk, End.FIN],
        Cut.GARBAGE_STATUS: [_GARBAGE, End.FIN],
        Cut.HEADER_FLOOD: [_FLOOD, math.inf],
        Cut.BYTES_AFTER_REPLY: [whole + whole],  # one part, so that a client that reads the reply has received the rest
        Cut.IDLE_FIN: [whole, wire.seconds, End.FIN] if wire.seconds else [whole],
    }
    if wire.cut in CONNECTING:
        text = f'{{"message": "This connection cannot perform the fault {wire.cut.value}."}}'
        return script(Reply(500, (("content-type", "application/json"),), text.encode()))
    parts = scripts.get(wire.cut, [End.RST])
    if wire.cut is Cut.DRIP:
        parts = [part for at in range(len(whole)) for part in (whole[at : at + 1], wire.seconds)]
    return [reply.delay, *parts] if reply.delay else parts


def _head(reply: Reply, framing: str | None = None) -> bytes:
    """Write the head of a reply. `framing` replaces the header that announces the length of the body."""
    fields = [field for field in reply.headers if framing is None or field[0].lower() != "content-length"]
    is_announced = any(name.lower() == "content-length" for name, _ in fields)
    if framing is None and not is_announced and reply.status not in (204, 304):
        framing = f"content-length: {len(reply.body)}"
    lines = [f"{name}: {text}" for name, text in fields] + ([framing] if framing else [])
    first = f"HTTP/1.1 {reply.status} {_PHRASES.get(reply.status, '')}"
    return "\r\n".join([first, *lines, "", ""]).encode("latin-1")


def parse_call(
    method: bytes, target: bytes, headers: Iterable[tuple[bytes, bytes]], body: bytes = b"", root: str = API
) -> Call | None:
    """Make the call of a request, or `None` if its path is not below `root`."""
    path, _, query = target.decode("latin-1").partition("?")
    if not (path := unquote(path)).startswith(root):
        return None
    named = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in headers}
    parameters = dict(parse_qsl(query, keep_blank_values=True)) if query else {}
    return Call(method.decode("ascii"), path[len(root) :], parameters, named, body)


class Answering(Protocol):
    """Exchange, or something in front of one."""

    @property
    def faults(self) -> Any: ...

    def handle(self, call: Call, now: float) -> Reply: ...


class Conversation:
    """Server's side of a connection without I/O: takes the client's bytes, and says what to do.

    The exchange receives a call with the last byte of its request, or, if a fault resets the connection within the
    request, with the last byte of the head.
    """

    def __init__(self, exchange: Answering, clock: Callable[[], float]) -> None:
        self._exchange = exchange
        self._clock = clock
        self._parser = h11.Connection(h11.SERVER)
        self._head: h11.Request | None = None
        self._body = bytearray()
        self._ends_at_next = self._is_over = False
        self.heads = 0  # requests whose head was read

    def feed(self, data: bytes) -> Script | Call | None:
        """Return the script of the next reply, or a request outside of the API (`say` its reply), or `None`.

        `None` asks for more bytes. Otherwise call it again without bytes, since more requests may have come.
        """
        if data:
            self._parser.receive_data(data)
        while not self._is_over:
            try:
                event = self._parser.next_event()
            except h11.RemoteProtocolError:
                return [*script(_BAD_REQUEST), End.FIN]
            if event is h11.NEED_DATA:
                return None
            if isinstance(event, h11.Request):
                self._head, self._body = event, bytearray()
                self.heads += 1
                # A fault may reset the connection before the body is read.
                faults = self._exchange.faults
                call = self._call() if faults.waiting and not self._ends_at_next else None
                fault = None if call is None else faults.peek(call)
                if call is not None and fault is not None and fault.cut in _WITHIN_REQUEST:
                    return self.say(self._exchange.handle(call, self._clock()))
            elif isinstance(event, h11.Data):
                self._body += event.data
            elif not isinstance(event, h11.EndOfMessage) or self._ends_at_next:
                return [End.FIN]
            elif (call := self._call()) is not None:
                return self.say(self._exchange.handle(call, self._clock()))
            else:
                return self._call("/") or self.say(NOT_FOUND)
        return None

    def say(self, reply: Reply) -> Script:
        """Return the script of the reply to the last request."""
        parts = script(reply)
        if self._parser.their_state is not h11.DONE:  # the client wants that, or its request is incomplete
            self._is_over = True
            return [*parts, End.FIN]
        self._ends_at_next = reply.wire == WireFault(Cut.IDLE_FIN)
        left, self._parser = self._parser.trailing_data[0], h11.Connection(h11.SERVER)
        if left:
            self._parser.receive_data(left)
        return parts

    def _call(self, root: str = API) -> Call | None:
        head = self._head
        assert head is not None
        return parse_call(head.method, head.target, head.headers, bytes(self._body), root)
