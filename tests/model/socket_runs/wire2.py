"""Faults of HTTP/2 on the wire: correct and wrong frames, made by hand. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random

import attrs
import hpack
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PushPromiseFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)
from tests.model.socket_runs.replies import SentReply
from tests.model.socket_runs.service import Target
from tests.model.socket_runs.wire1 import End, Script

__all__ = ["GREETINGS2", "WIRE2", "Frames", "Link", "Wire2", "plain2"]

Fields = Sequence[tuple[str, str]]
_LONGEST = 16_384
_CODES = (0, 1, 2, 3, 5, 7, 8, 11, 13, 99)


@attrs.define
class Link:
    """Connection as its streams see it.

    Attributes:
        latest: The highest stream that was answered.
        last: The highest stream that will be answered after a GOAWAY.
    """

    encoder: hpack.Encoder = attrs.field(factory=hpack.Encoder)
    latest: int = 0
    last: int = 2**31


@attrs.frozen
class Frames:
    """Frames of one stream, as bytes."""

    number: int
    link: Link

    def headers(self, fields: Fields, *, end: bool = False) -> bytes:
        block = self.link.encoder.encode([(name.encode(), value.encode()) for name, value in fields])
        return self.block(block, end=end)

    def block(self, block: bytes, *, end: bool = False) -> bytes:
        """Send an encoded header block in as many frames as it needs."""
        first, rest = block[:_LONGEST], block[_LONGEST:]
        frames: list[Frame] = [HeadersFrame(self.number, first, flags=["END_STREAM"] if end else [])]
        while rest:
            frames.append(ContinuationFrame(self.number, rest[:_LONGEST]))
            rest = rest[_LONGEST:]
        frames[-1].flags.add("END_HEADERS")
        return b"".join(frame.serialize() for frame in frames)

    def head(self, reply: SentReply, *more: tuple[str, str], end: bool = False) -> bytes:
        fields = [(":status", str(reply.status)), *((name.lower(), value) for name, value in reply.headers), *more]
        return self.headers(fields, end=end)

    def data(self, content: bytes, *, end: bool = True) -> bytes:
        pieces = [content[start : start + _LONGEST] for start in range(0, len(content), _LONGEST)] or [b""]
        frames = [DataFrame(self.number, piece) for piece in pieces]
        if end:
            frames[-1].flags.add("END_STREAM")
        return b"".join(frame.serialize() for frame in frames)

    def reset(self, code: int) -> bytes:
        return RstStreamFrame(self.number, error_code=code).serialize()

    def goaway(self, last: int, code: int = 0, debug_data: str = "") -> bytes:
        """Send GOAWAY that names no answered stream, and answer no later stream."""
        last = self.link.last = max(last, self.link.latest)
        return GoAwayFrame(0, last_stream_id=last, error_code=code, additional_data=debug_data.encode()).serialize()


def plain2(frames: Frames, reply: SentReply) -> Script:
    """Send a correct reply."""
    return [frames.head(reply, ("content-length", str(len(reply.content)))) + frames.data(reply.content)]


@attrs.frozen(kw_only=True)
class Wire2:
    """Fault in the sending of a reply.

    Attributes:
        make: Makes the script from the stream, the reply, and a text to echo, a secret at times.
        after: Whether a write may be committed first, or may not.
        targets: The calls that it may strike.
    """

    make: Callable[[Frames, SentReply, Random, str], Script]
    after: tuple[bool, ...] = (False, True)
    targets: tuple[Target, ...] = ("login", "read", "write")


def _end(chance: Random) -> End:
    return chance.choice((End.FIN, End.RESET, End.STALL))


def _abrupt(frames: Frames, reply: SentReply, chance: Random, _: str) -> Script:
    """Cut the frames of a correct reply anywhere."""
    whole = b"".join(piece for piece in plain2(frames, reply) if isinstance(piece, bytes))
    return [whole[: chance.randrange(1, len(whole))], _end(chance)]


def _cut_data(frames: Frames, reply: SentReply, chance: Random, _: str) -> Script:
    half = frames.data(reply.content[: len(reply.content) // 2], end=False)
    ends: Sequence[bytes | End] = (frames.reset(chance.choice(_CODES)), _end(chance), frames.data(b"", end=True))
    length = chance.choice([(), (("content-length", str(len(reply.content))),)])
    return [frames.head(reply, *length) + half, chance.choice(ends)]


def _goaway(frames: Frames, _: SentReply, chance: Random, echo: str) -> Script:
    """End the connection with this stream in progress."""
    return [frames.goaway(frames.number, chance.choice(_CODES), echo), chance.choice((End.FIN, End.STALL))]


def _spared(frames: Frames, _: SentReply, chance: Random, echo: str) -> Script:
    """End the connection, and declare this stream unprocessed."""
    last = chance.choice((0, frames.number - 2))
    return [frames.goaway(last, chance.choice(_CODES), echo), chance.choice((End.FIN, End.STALL, 0.0))]


def _goaway_behind(frames: Frames, reply: SentReply, chance: Random, _: str) -> Script:
    pause = chance.choice((0.0, 0.002, 0.01))
    return [*plain2(frames, reply), pause, frames.goaway(frames.number), pause, chance.choice((End.FIN, End.STALL))]


def _goaway_between(frames: Frames, reply: SentReply, _: Random, __: str) -> Script:
    return [frames.head(reply), frames.goaway(frames.number), 0.005, frames.data(reply.content)]


def _bad_frame(frames: Frames, reply: SentReply, chance: Random, echo: str) -> Script:
    number = frames.number
    window = WindowUpdateFrame(number, window_increment=2**31 - 1).serialize()
    padded = b"\x00\x00\x02\x00\x09" + number.to_bytes(4, "big") + b"\xffx"
    settings = [{2: 2}, {4: 2**31}, {5: 1}, {5: 2**24}]
    bad = chance.choice(
        [
            echo.encode() * 30,
            b"\xff" * 100,
            b"\x00\x40\x01\x00\x00" + number.to_bytes(4, "big") + b"x" * 16_385,
            b"\x00\x00\x04\x63\x00\x00\x00\x00\x00odd!",
            b"\x00\x00\x01\x00\x00\x00\x00\x00\x00x",
            HeadersFrame(number + 1, b"\x88", flags=["END_HEADERS"]).serialize(),
            HeadersFrame(number + 20, b"\x88", flags=["END_HEADERS"]).serialize(),
            PushPromiseFrame(number, promised_stream_id=2, data=b"\x82", flags=["END_HEADERS"]).serialize(),
            DataFrame(number, reply.content).serialize(),
            ContinuationFrame(number, b"\x88").serialize(),
            window + window,
            padded,
            *(SettingsFrame(0, settings=each).serialize() for each in settings),
            b"\x00\x00\x01\x04\x01\x00\x00\x00\x00x",
            RstStreamFrame(number + 40, error_code=1).serialize(),
            b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
        ]
    )
    return [bad, chance.choice((0.0, 0.002)), *plain2(frames, reply)]


def _bad_block(frames: Frames, reply: SentReply, chance: Random, echo: str) -> Script:
    block = chance.choice((b"\xff" * 9, b"\xfe", b"\x3f\xe1\xff\xff\x7f", b"\x40", b"\x00\x7f" + echo.encode()))
    return [frames.block(block) + frames.data(reply.content), _end(chance)]


def _odd_headers(frames: Frames, reply: SentReply, chance: Random, echo: str) -> Script:
    status = (":status", str(reply.status))
    fields: Fields = chance.choice(
        [
            [(":status", "abc")],
            [(":status", "")],
            [(":status", "99999")],
            [status, status],
            [("x", echo), status],
            [status, ("X-Upper", echo)],
            [status, ("connection", "close")],
            [status, ("", echo)],
            [status, ("x", f"{echo}\r\ny: z")],
            [status, (":path", "/")],
            [status, ("content-length", "-1")],
            [status, ("content-length", "3")],
            [status, ("content-length", "nonsense")],
            [status, ("transfer-encoding", "chunked")],
            [status, ("content-encoding", "gzip")],
            [(":status", "101")],
        ]
    )
    return [frames.headers(fields) + frames.data(reply.content)]


def _interim(frames: Frames, reply: SentReply, chance: Random, echo: str) -> Script:
    interim = frames.headers([(":status", chance.choice(("100", "103"))), ("link", echo)])
    return [interim * chance.choice((1, 1, 5)), *plain2(frames, reply)]


def _only_interim(frames: Frames, _: SentReply, chance: Random, __: str) -> Script:
    return [frames.headers([(":status", "100")], end=chance.random() < 0.5), _end(chance)]


def _trailers(frames: Frames, reply: SentReply, chance: Random, echo: str) -> Script:
    trailers: Fields = chance.choice([[("grpc-status", echo)], [(":status", "500")], [("content-length", "1")]])
    body = frames.data(reply.content, end=False)
    return [frames.head(reply) + body + frames.headers(trailers, end=chance.random() < 0.8), 0.002]


def _drip(frames: Frames, reply: SentReply, pause: float, pieces: int) -> Script:
    size = max(1, -(-len(reply.content) // pieces))
    script: list[bytes | float | End] = [frames.head(reply)]
    for start in range(0, len(reply.content), size):
        script += [frames.data(reply.content[start : start + size], end=False), frames.data(b"", end=False), pause]
    return [*script, frames.data(b"")]


def _twice(frames: Frames, reply: SentReply, _: Random, __: str) -> Script:
    return [*plain2(frames, reply), *plain2(frames, reply)]


def _flood(frames: Frames, reply: SentReply, chance: Random, echo: str) -> Script:
    ping = PingFrame(0, opaque_data=b"12345678").serialize()
    settings = SettingsFrame(0, settings={3: chance.choice((1, 5))}).serialize()
    headers = frames.head(reply, *(("x", f"{echo}{'y' * 60}") for _ in range(1500)))
    match chance.randrange(3):
        case 0:
            return [ping * 300, *plain2(frames, reply)]
        case 1:
            return [settings * 100, *plain2(frames, reply)]
        case _:
            return [headers + frames.data(reply.content)]


def _fewer_streams(frames: Frames, reply: SentReply, chance: Random, _: str) -> Script:
    """Lower the limit of streams, or close the window for bodies."""
    settings = chance.choice(({3: 0}, {3: 1}, {4: 0}, {4: 3}))
    return [SettingsFrame(0, settings=settings).serialize(), *plain2(frames, reply)]


def _window_late(frames: Frames, reply: SentReply, chance: Random, _: str) -> Script:
    """Close the window for bodies, and open it a little later."""
    more = SettingsFrame(0, settings={4: 65_535}).serialize()
    none = SettingsFrame(0, settings={4: 0}).serialize()
    return [none, *plain2(frames, reply), chance.choice((0.01, 0.1, 0.3)), more]


def _closed_behind(frames: Frames, reply: SentReply, chance: Random, _: str) -> Script:
    return [*plain2(frames, reply), 0.002, chance.choice((End.FIN, End.RESET))]


WIRE2: Mapping[str, Wire2] = {
    "reset": Wire2(make=lambda *_: [End.RESET]),
    "closed": Wire2(make=lambda *_: [End.FIN]),
    "stall": Wire2(make=lambda *_: [End.STALL]),
    "late": Wire2(make=lambda frames, reply, chance, _: [chance.uniform(0.05, 0.35), *plain2(frames, reply)]),
    "cut": Wire2(make=_abrupt),
    "cut data": Wire2(make=_cut_data),
    "headers alone": Wire2(make=lambda frames, reply, chance, _: [frames.head(reply), _end(chance)]),
    "no data": Wire2(make=lambda frames, reply, _, __: [frames.head(reply, ("content-length", "9"), end=True)]),
    "RST_STREAM": Wire2(make=lambda frames, _, chance, __: [frames.reset(chance.choice(_CODES))]),
    "RST_STREAM behind": Wire2(make=lambda frames, reply, _, __: [*plain2(frames, reply), frames.reset(0)]),
    "GOAWAY": Wire2(make=_goaway),
    # That no stream above the last was looked at, a client may rely on, and httpcore does.
    "GOAWAY, spared": Wire2(make=_spared, after=(False,)),
    "GOAWAY behind": Wire2(make=_goaway_behind),
    "GOAWAY between": Wire2(make=_goaway_between),
    "bad frame": Wire2(make=_bad_frame),
    "bad block": Wire2(make=_bad_block),
    "odd headers": Wire2(make=_odd_headers),
    # httpcore takes both for a 200, and nothing of the reply shows that they are none.
    "no status": Wire2(
        make=lambda frames, reply, _, echo: [frames.headers([("x", echo)]) + frames.data(reply.content)], after=(True,)
    ),
    "no headers": Wire2(
        make=lambda frames, reply, _, __: [frames.block(b"") + frames.data(reply.content)], after=(True,)
    ),
    "interim replies": Wire2(make=_interim),
    "only interim replies": Wire2(make=_only_interim),
    "trailers": Wire2(make=_trailers),
    "drip": Wire2(make=lambda frames, reply, _, __: _drip(frames, reply, 0.005, 10)),
    "slow drip": Wire2(make=lambda frames, reply, _, __: _drip(frames, reply, 0.05, 40)),
    "twice": Wire2(make=_twice),
    "flood": Wire2(make=_flood),
    "fewer streams": Wire2(make=_fewer_streams),
    "window late": Wire2(make=_window_late),
    "closed behind": Wire2(make=_closed_behind),
}
"""Faults in the sending of a reply, by name."""

GREETINGS2: Mapping[str, Script] = {
    "reset at once": [End.RESET],
    "closed at once": [End.FIN],
    "silent": [End.STALL],
    "garbage at once": [b"\x00garbage\r\n\r\n" * 9, End.FIN],
    "another protocol at once": [b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", End.FIN],
    "GOAWAY at once": [SettingsFrame(0).serialize() + GoAwayFrame(0, last_stream_id=0).serialize(), End.STALL],
    "no body, ever": [SettingsFrame(0, settings={4: 0}).serialize()],
    "no streams": [SettingsFrame(0, settings={3: 0}).serialize()],
}
"""Faults of a new connection before a request is read, by name."""
