"""A relay in front of an engine that dies like one: at a given token its connections break, and it refuses new ones."""

from __future__ import annotations

import asyncio
import re
import threading
from dataclasses import dataclass, field

_END = b"0\r\n\r\n"  # of a body in chunks
_EVENTS = re.compile(rb".*?\n\n\r\n|.+", re.DOTALL)  # up to the end of each event's chunk
_IDS = re.compile(rb'[^_]token_ids":\[([\d,\s]+)\]')


@dataclass
class Trap:
    """Springs once, for whichever relay first has passed this many token ids of one answer.

    Args:
        after: token ids; none = it does not spring.
        sprung: how many the answer had when it did.
    """

    after: int | None = None
    sprung: int | None = None

    def springs(self, ids: int) -> bool:
        if self.after is None or self.sprung is not None or ids < self.after:
            return False
        self.sprung = ids
        return True


@dataclass(eq=False)
class Cutter:
    """One relay. All of them live on one loop in a thread of their own (`Relays`).

    Args:
        target: port of the engine.
        trap: shared by the relays.
        answers: answers with token ids it has passed, or begun to.
        running: token ids so far of each stream that has not ended.
    """

    target: int
    trap: Trap
    port: int = 0
    answers: int = 0
    running: dict[asyncio.StreamWriter, int] = field(default_factory=dict)
    _server: asyncio.Server | None = None
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def open(self) -> None:
        """Listen, on the same port as before."""
        if self._server is None:
            self._server = await asyncio.start_server(self._relay, "127.0.0.1", self.port)
            self.port = self._server.sockets[0].getsockname()[1]

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self.target)
        except ConnectionError:  # the engine itself is gone
            writer.transport.abort()
            return
        self._writers |= {writer, up_writer}
        try:
            await asyncio.gather(_pass(reader, up_writer), self._answer(up_reader, writer))
        except ConnectionError:
            pass
        finally:
            self._writers -= {writer, up_writer}
            self.running.pop(writer, None)
            writer.close()
            up_writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ids = 0
        while data := await reader.read(65536):
            for part in _EVENTS.findall(data):  # one at a time, however many came in one read
                if part.startswith(b"HTTP/1.1 "):
                    ids = 0  # the next answer on this connection
                new = sum(found.count(b",") + 1 for found in _IDS.findall(part))
                self.answers += ids == 0 and new > 0
                ids += new
                if b"\r\ntransfer-encoding: chunked\r\n" in part or writer in self.running:
                    self.running[writer] = ids
                if part.endswith(_END):
                    self.running.pop(writer, None)
                writer.write(part)
                if self.trap.springs(ids):
                    await writer.drain()
                    self.die()
                    return
            await writer.drain()
        writer.close()

    def die(self) -> None:
        """Break every connection and refuse new ones."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in self._writers:
            writer.transport.abort()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


class Relays:
    """Relays in front of these ports; a context manager."""

    def __init__(self, ports: list[int]) -> None:
        self.trap = Trap()
        self.all = [Cutter(port, self.trap) for port in ports]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Relays:
        self._thread.start()
        self.revive()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        for cutter in self.all:
            cutter.die()
        await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))

    def revive(self) -> None:
        """Every relay listens again."""
        for cutter in self.all:
            asyncio.run_coroutine_threadsafe(cutter.open(), self._loop).result(10)

    def arm(self, after: int | None) -> None:
        """The next answer that has this many token ids ends there."""
        self.trap.after, self.trap.sprung = after, None
