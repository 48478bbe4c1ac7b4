"""HTTP/2 server over a socket: h2 reads the requests, and replies are scripts of frames."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import anyio
import h2.config
import h2.connection
import h2.events
import h2.exceptions
from anyio.abc import ByteStream, TaskGroup
from tests.model.socket_runs import face1
from tests.model.socket_runs.service import Call
from tests.model.socket_runs.sockets import BROKEN, Socket
from tests.model.socket_runs.wire1 import End, Script
from tests.model.socket_runs.wire2 import Frames, Link

__all__ = ["converse2"]


async def converse2(connection: Socket, stream: ByteStream, answer: Callable[[Call, Frames], Script]) -> None:
    """Answer concurrent requests of one connection."""
    async with anyio.create_task_group() as tasks:
        with contextlib.suppress(*BROKEN, h2.exceptions.ProtocolError):
            await _Conversation(connection, stream, answer, tasks).run()
        tasks.cancel_scope.cancel()


class _Conversation:
    def __init__(
        self, connection: Socket, stream: ByteStream, answer: Callable[[Call, Frames], Script], tasks: TaskGroup
    ) -> None:
        self._connection = connection
        self._stream = stream
        self._answer = answer
        self._tasks = tasks
        self._sending = anyio.Lock()
        self._link = Link()
        self._heads: dict[int, dict[bytes, bytes]] = {}
        self._bodies: dict[int, bytes] = {}
        self._h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding=None))

    async def run(self) -> None:
        self._h2.initiate_connection()
        while True:
            if data := self._h2.data_to_send():
                async with self._sending:
                    await self._stream.send(data)
            for event in self._h2.receive_data(await self._stream.receive()):
                match event:
                    case h2.events.RequestReceived():
                        self._heads[event.stream_id] = {bytes(name): bytes(value) for name, value in event.headers}
                        self._bodies[event.stream_id] = b""
                    case h2.events.DataReceived():
                        self._bodies[event.stream_id] += event.data
                        self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                    case h2.events.StreamEnded():
                        self._tasks.start_soon(self._reply, event.stream_id)

    async def _reply(self, number: int) -> None:
        if number > self._link.last:
            return
        head = self._heads.pop(number)
        call = face1.call_of(
            head[b":method"].decode(),
            head[b":path"].decode(),
            head.get(b"authorization", b""),
            self._bodies.pop(number),
        )
        with contextlib.suppress(*BROKEN):
            for step in self._answer(call, Frames(number, self._link)):
                if isinstance(step, bytes):
                    async with self._sending:
                        await self._stream.send(step)
                elif isinstance(step, float):
                    await anyio.sleep(step)
                elif step is not End.STALL:
                    if step is End.RESET:
                        self._connection.reset()
                    self._tasks.cancel_scope.cancel()
