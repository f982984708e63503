"""Runs emulated engines as a server: opens and closes their sockets, and waits for the signal to end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING

from evenstep.emulator.settings import EmulatorSettings
from evenstep.errors import InputError
from evenstep.sockets import allow_files, collect_rarely, in_url, listen, listening, loop_factory, need_package, on_end
from evenstep.wording import counted

if TYPE_CHECKING:
    from evenstep.emulator.connection import Connection

_BACKLOG = 4096
_WHERE = "evenstep emulate"


class Emulator:
    """A server of emulated engines; it needs the package httptools. Await `open` in a running event loop, `close` last."""

    def __init__(self, settings: EmulatorSettings) -> None:
        need_package(_WHERE, "httptools")
        self.settings = settings
        self._alive: set[Connection] = set()
        self._servers: dict[int, asyncio.Server] = {}
        self._opening: dict[int, asyncio.Task[None]] = {}  # by index in `ports`, as `_servers`
        #: Each port with the numbers of its ranks in the fleet.
        self.ports: list[tuple[int, tuple[int, ...]]] = []

    async def open(self) -> None:
        """Start the ranks, listen at each port, and set `fleet` and `ports` (each port and the numbers of its ranks).

        A port that is in use, an address that is not this machine's, or a law that does not fit the groups raises
        `InputError`, and no port stays open.
        """
        from evenstep.emulator.fleet import Fleet

        settings = self.settings
        every = tuple(range(settings.ranks))
        behind = [(rank,) for rank in every] if settings.port_per_rank else [every]
        with ExitStack() as bound:
            numbers = [settings.port + offset if settings.port else 0 for offset in range(len(behind))]
            sockets = [bound.enter_context(listening(_WHERE, settings.host, port)) for port in numbers]
            for one in sockets:
                listen(_WHERE, one, _BACKLOG)
            self.ports = [(int(one.getsockname()[1]), ranks) for one, ranks in zip(sockets, behind, strict=True)]
            by_rank = [number for number, ranks in self.ports for _ in ranks]
            self.fleet = Fleet(settings, asyncio.get_running_loop(), by_rank)
            bound.pop_all()  # all of them stay open
        self.fleet.ranks_changed = self._ranks_changed
        for index, one in enumerate(sockets):
            await self._listen(index, one)

    async def close(self) -> None:
        """Stop the ranks, stop listening, and close every connection at once. Call it only after `open`."""
        self.fleet.close()
        await asyncio.gather(*self._opening.values())
        for server in self._servers.values():
            server.close()
        for connection in list(self._alive):
            connection.abort()
        for server in self._servers.values():
            await server.wait_closed()

    async def _listen(self, index: int, bound: socket.socket) -> None:
        """Serve, on a socket that listens, requests to the ranks of the port with this index in `ports`."""
        from evenstep.emulator.connection import Connection
        from evenstep.emulator.service import PortService

        service = PortService(self.fleet, self.ports[index][1])
        self._servers[index] = await asyncio.get_running_loop().create_server(
            lambda: Connection(service.serve, self._alive), sock=bound, backlog=_BACKLOG
        )

    def _ranks_changed(self) -> None:
        """If each rank has a port, stop listening at the ports of dead ranks, and listen again at those of revived ones."""
        if not self.settings.port_per_rank:  # the shared port stays open, so that dead ranks can be revived there
            return
        taken: InputError | None = None
        for index, (port, ranks) in enumerate(self.ports):
            dead = all(self.fleet.rank(number).dead for number in ranks)
            if dead and index in self._servers:
                self._servers.pop(index).close()
            elif not (dead or index in self._servers or index in self._opening):
                try:
                    bound = listening(_WHERE, self.settings.host, port)
                    listen(_WHERE, bound, _BACKLOG)
                except InputError as error:
                    taken = taken or error
                    continue
                task = asyncio.get_running_loop().create_task(self._listen(index, bound))
                self._opening[index] = task
                task.add_done_callback(partial(self._opened, index))
        if taken is not None:
            raise taken

    def _opened(self, index: int, _task: asyncio.Task[None]) -> None:
        """Note that a port has been opened, and close it again if its rank has died meanwhile."""
        del self._opening[index]
        with suppress(InputError):
            self._ranks_changed()


def serve(settings: EmulatorSettings, say: Callable[[str], None]) -> None:
    """Run emulated engines until SIGINT or SIGTERM, then close them. `say` is called with each line of `introduction`."""
    allow_files()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve(settings, say))


async def _serve(settings: EmulatorSettings, say: Callable[[str], None]) -> None:
    """Run emulated engines in a running event loop, until a signal ends them."""
    ended = asyncio.Event()
    on_end(ended.set)
    emulator = Emulator(settings)
    await emulator.open()
    for line in introduction(emulator):
        say(line)
    collect_rarely()
    await ended.wait()
    await emulator.close()


def introduction(emulator: Emulator) -> list[str]:
    """The start-up lines of an open emulator: its ranks and groups, each address with its ranks, and the URL for faults."""
    settings = emulator.settings
    sizes = ", ".join(map(str, settings.sizes))
    groups = f"{counted(len(settings.sizes), 'barrier group')} of {sizes}"
    ranks = f"{counted(settings.ranks, f'emulated {settings.dialect} rank')} in {groups}"
    held = f"{counted(settings.slots, 'slot')} and {settings.blocks * settings.block_size:,} KV tokens each"
    lines = [f"{ranks}: {held}, model {settings.model}, role {settings.role}"]
    for port, ranks in emulator.ports:
        behind = f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks 0-{ranks[-1]}, by header X-data-parallel-rank"
        lines.append(f"http://{in_url(settings.host)}:{port}  {behind}")
    lines.append(f"faults: POST http://{in_url(settings.host)}:{emulator.ports[0][0]}/emulator/fault; Ctrl-C ends")
    return lines
