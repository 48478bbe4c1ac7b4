"""Faults of HTTP/1.1 on the wire: a reply as a script of bytes, pauses and ends. Pure."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random

import attrs
from tests.model.socket_runs.replies import SentReply
from tests.model.socket_runs.service import Target

__all__ = ["GREETINGS", "WIRE1", "End", "Script", "Wire", "plain"]


class End(enum.Enum):
    """Ways in which a connection ends."""

    FIN = "closed"
    RESET = "reset"
    STALL = "nothing more is sent, until the client leaves"
    NEXT = "closed as the next request comes, unread"


Script = Sequence[bytes | float | End]
"""Parts to send in turn, and pauses in seconds. Without an end, the connection stays open."""


@attrs.frozen(kw_only=True)
class Wire:
    """Fault in the sending of a reply.

    Attributes:
        make: Makes the script from the reply, and a text to echo, a secret at times.
        after: Whether a write may be committed first, or may not.
        targets: The calls that it may strike.
    """

    make: Callable[[SentReply, Random, str], Script]
    after: tuple[bool, ...] = (False, True)
    targets: tuple[Target, ...] = ("login", "read", "write")


def head(reply: SentReply, *more: str, length: int | str | None = -1) -> bytes:
    lines = [f"HTTP/1.1 {reply.status} Said", *(f"{name}: {value}" for name, value in reply.headers), *more]
    if length is not None:
        lines.append(f"Content-Length: {len(reply.content) if length == -1 else length}")
    return "\r\n".join([*lines, "", ""]).encode()


def plain(reply: SentReply) -> Script:
    """Send a correct reply."""
    return [head(reply) + reply.content]


def _half(data: bytes, chance: Random) -> bytes:
    return data[: chance.randrange(1, max(2, len(data)))]


def _chunked(reply: SentReply, *chunks: bytes) -> bytes:
    return head(reply, "Transfer-Encoding: chunked", length=None) + b"".join(chunks)


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def _drips(reply: SentReply, pieces: int, pause: float) -> Iterator[bytes | float]:
    whole = head(reply) + reply.content
    size = max(1, -(-len(whole) // pieces))
    for start in range(0, len(whole), size):
        yield whole[start : start + size]
        yield pause


_GARBAGE = (
    b"HTTP/1.1 2OO OK\r\n\r\n",
    b"\x00\x01\x02\r\n\r\n",
    b"HTTP/9.9 500 OK\r\n\r\n",
    b"HTTP/1.1 99999 OK\r\n\r\n",
    b"HTTP/1.1\r\n\r\n",
    b"ICY 500 OK\r\n\r\n",
    b"HTTP/1.1 200 " + b"long" * 30_000,
    b"\x16\x03\x01\x02\x00\x01\x00\x01",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"220 mail.example ESMTP\r\n",
)
_BROKEN_HEADERS = (
    "broken header",
    ": no name",
    "X Y: a space",
    "X: \x01\x00",
    "Transfer-Encoding: nonsense",
    "Content-Length: 7",
    "Transfer-Encoding: chunked",
    " folded: at once",
    "Connection: upgrade",
    "Set-Cookie: a=b",
)


def _garbage(_: SentReply, chance: Random, echo: str) -> Script:
    return [chance.choice(_GARBAGE).replace(b"OK", b"OK " + echo.encode()), chance.choice((End.FIN, End.STALL))]


def _broken_header(reply: SentReply, chance: Random, echo: str) -> Script:
    return [head(reply, chance.choice(_BROKEN_HEADERS), f"X-Echo: {echo}") + reply.content, End.FIN]


def _cut(reply: SentReply, chance: Random, _: str) -> Script:
    ends = (End.FIN, End.RESET, End.STALL)
    return [_half(head(reply) + reply.content, chance), chance.choice(ends)]


def _length(reply: SentReply, chance: Random, _: str) -> Script:
    size = len(reply.content)
    length = chance.choice((size + 9, size + 10_000, "-5", "x", "1e3", f"{size}, {size + 1}", "9" * 30))
    return [head(reply, length=length) + reply.content, chance.choice((End.FIN, End.STALL))]


def _bad_chunks(reply: SentReply, chance: Random, _: str) -> Script:
    content = reply.content
    chunks = chance.choice(
        [
            (b"zz\r\n", content),
            (b"-1\r\n",),
            (_chunk(content),),
            (b"%x\r\n" % len(content), content[:3]),
            (_chunk(content)[:-2], b"0\r\n\r\n"),
            (b"F" * 40 + b"\r\n", content),
            (_chunk(content), b"0\r\nbroken trailer\r\n\r\n"),
        ]
    )
    return [_chunked(reply, *chunks), chance.choice((End.FIN, End.STALL))]


def _interim(reply: SentReply, chance: Random, echo: str) -> Script:
    interim = chance.choice((b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n"))
    times = chance.choice((1, 1, 3, 60))
    return [interim * times, chance.choice((0.0, 0.02)), *plain(reply)]


def _unended(reply: SentReply, chance: Random, _: str) -> Script:
    return [head(reply, length=None) + reply.content, End.FIN]


def _endless(reply: SentReply, __: Random, ___: str) -> Script:
    script: list[bytes | float | End] = [_chunked(reply)]
    for _ in range(90):
        script += [_chunk(b" " * 9), 0.02]
    return [*script, End.FIN]


_FORGED = b'HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{"forged": 1}'
_TIMED_OUT = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

WIRE1: Mapping[str, Wire] = {
    "reset": Wire(make=lambda _, __, ___: [End.RESET]),
    "closed": Wire(make=lambda _, __, ___: [End.FIN]),
    "stall": Wire(make=lambda _, __, ___: [End.STALL]),
    "stall in the head": Wire(make=lambda reply, chance, _: [_half(head(reply), chance), End.STALL]),
    "late": Wire(make=lambda reply, chance, _: [chance.uniform(0.05, 0.35), *plain(reply)]),
    "cut": Wire(make=_cut),
    "garbage": Wire(make=_garbage),
    "broken header": Wire(make=_broken_header),
    "flood of headers": Wire(
        make=lambda reply, _, echo: [head(reply, *(f"X-{n}: {echo}{'y' * 60}" for n in range(2000))) + reply.content]
    ),
    "wrong length": Wire(make=_length),
    "length too short": Wire(
        make=lambda reply, chance, _: [head(reply, length=chance.randrange(len(reply.content) + 1)) + reply.content],
    ),
    "chunks": Wire(make=lambda reply, _, __: [_chunked(reply, _chunk(reply.content or b" "), b"0\r\n\r\n")]),
    "broken chunks": Wire(make=_bad_chunks),
    "no length": Wire(make=_unended),
    "no head": Wire(make=lambda reply, _, __: [reply.content, End.FIN]),
    "interim replies": Wire(make=_interim),
    "only interim replies": Wire(
        make=lambda _, chance, __: [
            b"HTTP/1.1 100 Continue\r\n\r\n" * chance.choice((1, 40)),
            chance.choice((End.FIN, End.STALL)),
        ]
    ),
    "another protocol": Wire(
        make=lambda _, __, ___: [b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n\x00", End.FIN]
    ),
    "drip": Wire(make=lambda reply, _, __: [*_drips(reply, 12, 0.005)]),
    "slow drip": Wire(make=lambda reply, _, __: [*_drips(reply, 80, 0.03), End.STALL]),
    "endless": Wire(make=_endless),
    "trailing bytes": Wire(make=lambda reply, _, __: [head(reply) + reply.content + b"\r\n\r\nmore"]),
    "two replies": Wire(make=lambda reply, _, __: [(head(reply) + reply.content) * 2]),
    "a forged reply behind": Wire(make=lambda reply, _, __: [head(reply) + reply.content + _FORGED]),
    "closed behind": Wire(make=lambda reply, chance, _: [*plain(reply), chance.choice((0.0, 0.002)), End.FIN]),
    "reset behind": Wire(make=lambda reply, _, __: [*plain(reply), 0.002, End.RESET]),
    "timed out behind": Wire(make=lambda reply, _, __: [*plain(reply), 0.002, _TIMED_OUT, End.FIN]),
    "closed as the next comes": Wire(make=lambda reply, _, __: [*plain(reply), End.NEXT], targets=("login", "read")),
}
"""Faults in the sending of a reply, by name."""

GREETINGS: Mapping[str, Script] = {
    "reset at once": [End.RESET],
    "closed at once": [End.FIN],
    "silent": [End.STALL],
    "garbage at once": [b"\x00garbage\r\n\r\n", End.FIN],
    "a reply at once": [_TIMED_OUT, End.FIN],
    "another protocol at once": [b"220 mail.example ESMTP\r\n", End.STALL],
}
"""Faults of a new connection before a request is read, by name."""
