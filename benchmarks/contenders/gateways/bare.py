"""What any router in Python pays at least: bytes handed from socket to socket by uvloop's protocols, round robin.

It does not parse, count, check or decide anything: a request is what a client sent in one read, an answer has ended where
its last bytes say so. Nobody can use it; it is the floor under ours.
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

NAME, SHARE = "bare", 1.0


def have() -> str:
    return f"uvloop {version('uvloop')}"


def command(folder: Path, engines: list[int], port: int) -> list[str]:
    return [sys.executable, __file__, str(port), *map(str, engines)]


def serve(port: int, engines: list[int]) -> None:
    import asyncio

    import uvloop

    loop = uvloop.new_event_loop()
    idle: list[list[Upstream]] = [[] for _ in engines]
    turn = 0

    class Upstream(asyncio.Protocol):
        def __init__(self, of: int) -> None:
            self.of, self.client = of, None

        def connection_made(self, transport) -> None:
            self.transport = transport

        def data_received(self, data: bytes) -> None:
            client = self.client
            if client is None:
                return
            if data[-5:] == b"0\r\n\r\n" or data[-1:] == b"}":  # of a stream, or of an answer of JSON
                self.client = client.upstream = None
                idle[self.of].append(self)
            client.transport.write(data)

        def connection_lost(self, exc) -> None:
            if self.client is not None:
                self.client.transport.abort()
            elif self in idle[self.of]:
                idle[self.of].remove(self)

    class Client(asyncio.Protocol):
        def __init__(self) -> None:
            self.upstream, self.early = None, None

        def connection_made(self, transport) -> None:
            self.transport = transport

        def data_received(self, data: bytes) -> None:
            nonlocal turn
            if self.upstream is not None:  # a large body goes on
                self.upstream.transport.write(data)
                return
            if self.early is not None:
                self.early += data
                return
            turn = (turn + 1) % len(engines)
            if idle[turn]:
                self.upstream = upstream = idle[turn].pop()
                upstream.client = self
                upstream.transport.write(data)
            else:
                self.early = data
                loop.create_task(self.open(turn))

        async def open(self, of: int) -> None:
            _, upstream = await loop.create_connection(lambda: Upstream(of), "127.0.0.1", engines[of])
            self.upstream, upstream.client = upstream, self
            upstream.transport.write(self.early)
            self.early = None

        def connection_lost(self, exc) -> None:
            if self.upstream is not None:
                self.upstream.client = None
                self.upstream.transport.abort()

    loop.run_until_complete(loop.create_server(Client, "127.0.0.1", port, backlog=4096))
    loop.run_forever()


if __name__ == "__main__":
    serve(int(sys.argv[1]), [int(text) for text in sys.argv[2:]])
