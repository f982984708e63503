"""Runs emulated engines as a server: opens and closes their sockets, and waits for the signal to end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from evenstep.emulator.settings import EmulatorSettings
from evenstep.errors import InputError
from evenstep.sockets import allow_files, collect_rarely, in_url, listening, loop_factory, need_package, on_end

_BACKLOG = 4096
_WHERE = "evenstep emulate"


class Emulator:
    """A server of emulated engines; it needs the package httptools. Await `open` in a running event loop, `close` last."""

    def __init__(self, settings: EmulatorSettings) -> None:
        need_package(_WHERE, "httptools")
        from evenstep.emulator.connection import Connection
        from evenstep.emulator.service import PortService

        self.settings = settings
        self._connection, self._service = Connection, PortService
        self._alive: set[Connection] = set()
        self._servers: dict[int, asyncio.Server] = {}
        self._changes: set[asyncio.Task[None]] = set()
        #: Each port with the numbers of its ranks in the fleet.
        self.ports: list[tuple[int, tuple[int, ...]]] = []

    async def open(self) -> None:
        """Start the ranks, listen at each port, and set `fleet` and `ports` (each port and the numbers of its ranks).

        A port that is in use, or an address that is not this machine's, raises `InputError`.
        """
        from evenstep.emulator.fleet import Fleet

        settings = self.settings
        sockets: list[socket.socket] = []
        try:
            for offset in range(settings.ranks if settings.port_per_rank else 1):
                sockets.append(listening(_WHERE, settings.host, settings.port + offset if settings.port else 0))
        except InputError:
            for bound in sockets:
                bound.close()
            raise
        numbers = [int(bound.getsockname()[1]) for bound in sockets]
        every = tuple(range(settings.ranks))
        behind = [(rank,) for rank in every] if settings.port_per_rank else [every]
        self.ports = list(zip(numbers, behind, strict=True))
        by_rank = [number for number, ranks in self.ports for _ in ranks]
        self.fleet = Fleet(settings, asyncio.get_running_loop(), by_rank)
        self.fleet.ranks_changed = self._ranks_changed
        for index, bound in enumerate(sockets):
            await self._listen(index, bound)

    async def close(self) -> None:
        """Stop the ranks, stop listening, and close every connection at once. Call it only after `open`."""
        self.fleet.close()
        for server in self._servers.values():
            server.close()
        for connection in list(self._alive):
            connection.abort()
        for server in self._servers.values():
            await server.wait_closed()

    async def _listen(self, index: int, bound: socket.socket) -> None:
        """Listen on a bound socket for requests to the ranks of the port with this index in `ports`."""
        loop = asyncio.get_running_loop()
        service = self._service(self.fleet, self.ports[index][1])
        self._servers[index] = await loop.create_server(
            lambda: self._connection(service.serve, self._alive), sock=bound, backlog=_BACKLOG
        )

    def _ranks_changed(self) -> None:
        """If each rank has a port, stop listening at the ports of dead ranks, and listen again at those of revived ones."""
        if not self.settings.port_per_rank:  # the shared port stays open, so that dead ranks can be revived there
            return
        for index, (_, ranks) in enumerate(self.ports):
            dead = all(self.fleet.rank(number).dead for number in ranks)
            if dead and index in self._servers:
                self._servers.pop(index).close()
            elif not dead and index not in self._servers:
                bound = listening(_WHERE, self.settings.host, self.ports[index][0])
                task = asyncio.get_running_loop().create_task(self._listen(index, bound))
                self._changes.add(task)
                task.add_done_callback(self._changes.discard)


def serve(settings: EmulatorSettings, say: Callable[[str], None]) -> None:
    """Run emulated engines until SIGINT or SIGTERM, then close them. `say` is called with each line of `introduction`."""
    allow_files()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve(settings, say))


async def _serve(settings: EmulatorSettings, say: Callable[[str], None]) -> None:
    """Run emulated engines in a running event loop, until a signal ends them."""
    emulator = Emulator(settings)
    await emulator.open()
    for line in introduction(emulator):
        say(line)
    ended = asyncio.Event()
    on_end(ended.set)
    collect_rarely()
    await ended.wait()
    await emulator.close()


def introduction(emulator: Emulator) -> list[str]:
    """The start-up lines of an open emulator: its ranks and groups, each address with its ranks, and the URL for faults."""
    settings = emulator.settings
    sizes = ", ".join(map(str, settings.sizes))
    groups = f"{len(settings.sizes)} barrier group{'s' * (len(settings.sizes) > 1)} of {sizes}"
    ranks = f"{settings.ranks} emulated {settings.dialect} rank{'s' * (settings.ranks > 1)} in {groups}"
    held = f"{settings.slots} slots and {settings.blocks * settings.block_size:,} KV tokens each"
    lines = [f"{ranks}: {held}, model {settings.model}, role {settings.role}"]
    for port, ranks in emulator.ports:
        behind = f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks 0-{ranks[-1]}, by header X-data-parallel-rank"
        lines.append(f"http://{in_url(settings.host)}:{port}  {behind}")
    lines.append(f"faults: POST http://{in_url(settings.host)}:{emulator.ports[0][0]}/emulator/fault; Ctrl-C ends")
    return lines
