"""Hands KV over from a prefill engine to a decode engine, with the fields of vLLM's NIXL connector.

The answer to a prefill leg has ``kv_transfer_params`` that say where the KV is; the decode leg sends them unchanged. The
decode engine then fetches the KV, from another emulator by ``POST /emulator/pull``, and the prefiller's blocks are freed.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from typing import Any

import orjson

from evenstep.emulator.emulated_request import EmulatedRequest, RefusedError
from evenstep.emulator.rank import Sequence as Work
from evenstep.emulator.settings import EmulatorSettings
from evenstep.sockets import in_url

_TIMEOUT_S = 10.0
_EVERY = ("", "0.0.0.0", "::")  # listening at one of these means at every address of this machine


class Transfer:
    """Both ends of the hand-over of KV for one process; `ports` has the port of each rank, and `give` is `Fleet.pulled`."""

    def __init__(self, settings: EmulatorSettings, ports: Sequence[int], give: Callable[[int, int], bool]) -> None:
        self._settings, self._ports, self._give = settings, ports, give

    def left(self, name: str, one: Work, rank: int, reached: str) -> dict[str, Any]:
        """The ``kv_transfer_params`` of a prefill leg's answer with the id `name`: where the KV of its sequence is kept.

        `rank` is a number in the fleet. The host in it is the engine's; if the engine listens at every address, it is
        `reached`, the address that the client connected to.
        """
        settings = self._settings
        blocks = -(-one.prompt // settings.block_size)
        return {
            "do_remote_prefill": True,
            "do_remote_decode": False,
            "remote_block_ids": [list(range(1, blocks + 1))],
            "remote_engine_id": f"emulated-{self._ports[0]}-{settings.seed}",
            "remote_request_id": f"{name}-{one.key}-{one.begun:016x}",
            "remote_host": reached if settings.host in _EVERY else settings.host,
            "remote_port": self._ports[rank],
            "tp_size": 1,
            "remote_num_tokens": one.prompt,
            "remote_blocks_expiry_time": time.time() + settings.lease_s / settings.speed,
            "transfer_mode": "pull",
        }

    def source(self, asked: EmulatedRequest) -> tuple[str, int, str]:
        """Host, port and ``remote_request_id`` of the KV that a decode leg must fetch.

        Incomplete or invalid ``kv_transfer_params`` raise `RefusedError`.
        """
        given = asked.transfer
        host, port, name = (given.get(f"remote_{key}") for key in ("host", "port", "request_id"))
        if not (isinstance(host, str) and isinstance(port, int) and isinstance(name, str)):
            said = "kv_transfer_params asks for a remote prefill, and has no remote_host, remote_port or remote_request_id."
            raise RefusedError(400, said, "kv_transfer_params")
        if not isinstance(given.get("remote_block_ids"), list) or given.get("remote_num_tokens") is None:
            said = "kv_transfer_params lacks remote_block_ids or remote_num_tokens; bring the prefill leg's object."
            raise RefusedError(400, said, "kv_transfer_params")
        if not 0 < port < 65536:
            raise RefusedError(400, "remote_port of kv_transfer_params is not in 1..65535.", "kv_transfer_params")
        return host, port, name

    async def fetch(self, source: tuple[str, int, str], begun: int) -> bool:
        """Fetch the KV with this host, port and ``remote_request_id``; True = found, and its blocks there are freed.

        `begun` is the model's state after the prompt. Returns False if the KV is gone or belongs to another prompt, or if
        the other engine cannot be reached or does not answer within 10 s.
        """
        host, port, name = source
        if host == self._settings.host and port in self._ports:
            return self.give(name, begun)
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                return await _pull(host, port, orjson.dumps({"remote_request_id": name, "prompt": f"{begun:016x}"}))
        except (OSError, TimeoutError, asyncio.IncompleteReadError, ValueError, OverflowError):  # invalid host
            return False

    def give(self, name: str, begun: int) -> bool:
        """Hand over this engine's KV with the ``remote_request_id`` `name`: free its blocks, and return True.

        `begun` is the model's state after the prompt. Returns False if the KV is gone or belongs to another prompt.
        """
        found = re.fullmatch(rf".*-(\d{{1,20}})-{begun:016x}", name, re.DOTALL)
        return found is not None and self._give(int(found[1]), begun)


async def _pull(host: str, port: int, body: bytes) -> bool:
    """Send ``POST /emulator/pull`` with a body to another emulator; returns True if the status of its answer is 200."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        head = f"POST /emulator/pull HTTP/1.1\r\nHost: {in_url(host)}:{port}\r\nConnection: close\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        line = await reader.readline()
        return line.split(b" ")[1:2] == [b"200"]
    finally:
        writer.close()
