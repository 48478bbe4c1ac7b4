"""Server of one run: its service, and the faults that are armed."""

from __future__ import annotations

from collections import Counter
from random import Random

import attrs
from anyio.abc import ByteStream
from tests.model.socket_runs import face1
from tests.model.socket_runs.face2 import converse2
from tests.model.socket_runs.plan import Strike
from tests.model.socket_runs.replies import CONTENTS, SentReply
from tests.model.socket_runs.service import PASSWORD, TOKEN, Call, Reply, Service
from tests.model.socket_runs.sockets import Socket
from tests.model.socket_runs.wire1 import GREETINGS, WIRE1, Script, plain
from tests.model.socket_runs.wire2 import GREETINGS2, WIRE2, Frames, plain2

__all__ = ["Host"]


@attrs.define
class Host:
    """Server that answers calls by the service, and applies the armed faults to their calls.

    Attributes:
        fired: Number of strikes of each fault, by its name and whether a write was committed first.
    """

    service: Service
    http2: bool
    chance: Random
    fired: Counter[tuple[str, bool]] = attrs.field(factory=Counter)
    _armed: list[Strike] = attrs.field(factory=list)

    def arm(self, strikes: tuple[Strike, ...]) -> None:
        self._armed += strikes

    def disarm(self) -> None:
        self._armed.clear()

    async def meet(self, connection: Socket, stream: ByteStream) -> None:
        """Serve one connection."""
        greeting = self._take("connect")
        if greeting is not None:
            self.fired[greeting.name, False] += 1
            greetings = GREETINGS2 if self.http2 else GREETINGS
            if not await face1.play(connection, stream, greetings[greeting.name]):
                return
        if self.http2:
            await converse2(connection, stream, self._script2)
        else:
            await face1.converse(connection, stream, self._script)

    def _script(self, call: Call) -> Script:
        reply, strike = self.answer(call)
        if strike is None:
            return plain(reply)
        return WIRE1[strike.name].make(reply, self.chance, self._echo(strike, call))

    def _script2(self, call: Call, frames: Frames) -> Script:
        committed = self.service.commits.total()
        reply, strike = self.answer(call)
        if strike is None or strike.name != "GOAWAY, spared" or self.service.commits.total() > committed:
            frames.link.latest = max(frames.link.latest, frames.number)
        if strike is None:
            return plain2(frames, reply)
        return WIRE2[strike.name].make(frames, reply, self.chance, self._echo(strike, call))

    def answer(self, call: Call) -> tuple[SentReply, Strike | None]:
        """Return the reply, and the fault with which it is sent."""
        strike = self._take(call.target)
        if strike is None:
            return SentReply.of(self.service.handle(call)), None
        before = self.service.commits.total()
        # A reply never reports a write that was not carried out.
        reply = self.service.handle(call) if strike.after else self._refusal(call)
        committed = self.service.commits.total() > before
        self.fired[strike.name, committed] += 1
        content = CONTENTS.get(strike.name)
        if content is None or not (committed or content.excludable or not call.is_undocumented):
            return SentReply.of(reply), strike if content is None else None
        return content.make(call, reply, self.chance, self._echo(strike, call)), None

    def _refusal(self, call: Call) -> Reply:
        status = 500 if call.target == "login" else self.chance.choice((400, 500, 503))
        return Reply(status=status, data={"message": "Nothing was done."})

    def _take(self, target: str) -> Strike | None:
        for number, strike in enumerate(self._armed):
            if strike.target == target:
                if strike.times > 1:
                    self._armed[number] = attrs.evolve(strike, times=strike.times - 1)
                else:
                    del self._armed[number]
                return strike
        return None

    def _echo(self, strike: Strike, call: Call) -> str:
        # A login's reply may repeat its own token; of any other, the client knows what it sent.
        token = f"{TOKEN}-{self.service.logins}" if call.target == "login" else call.token
        return {"nothing": "x", "token": token, "password": PASSWORD}[strike.echo]
