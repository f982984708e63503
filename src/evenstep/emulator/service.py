"""The HTTP endpoints of emulated engines: those of the engine's API, and the emulator's own under ``/emulator``."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import msgspec
import orjson

from evenstep import __version__
from evenstep.emulator.connection import Connection
from evenstep.emulator.emulated_request import RefusedError, asked
from evenstep.emulator.faults import fault_of
from evenstep.emulator.fleet import Fleet, rank_of
from evenstep.emulator.metrics_page import metrics_page
from evenstep.emulator.wording import error_body, models_body
from evenstep.engines.metrics.page import CONTENT_TYPE
from evenstep.errors import InputError
from evenstep.http.head import RequestHead

#: The release of each engine that the emulator imitates.
_SPEAKS = {"vllm": "0.32.0", "sglang": "0.5.9"}
_GENERATES = {"/v1/completions": False, "/v1/chat/completions": True}


class PortService:
    """The endpoints of one port; `ranks` are the numbers in the fleet of the ranks at this port."""

    def __init__(self, fleet: Fleet, ranks: Sequence[int]) -> None:
        self._fleet, self._ranks = fleet, ranks

    def serve(self, head: RequestHead, body: bytes, out: Connection) -> Callable[[], None] | None:
        """Answer a request on `out`, now or later; an invalid request is answered with an error.

        If all ranks of the port or the named one are dead, the connection is closed instead, except for ``/emulator``.
        Returns a function to call if the client leaves before the answer is over, or None if there is nothing to do then.
        """
        path = head.path
        try:
            if all(self._fleet.rank(n).dead for n in self._ranks) and not path.startswith("/emulator/"):
                raise ConnectionError("dead")
            if path in _GENERATES:
                return self._generate(head, body, out)
            if path.startswith("/emulator/"):
                self._own(head, body, out)
                return None
            return self._other(path, out)
        except RefusedError as error:
            out.reply(error.status, error_body(error.status, error.message, error.param))
        except InputError as error:
            out.reply(400, error_body(400, str(error), error.field))
        except ConnectionError:
            out.abort()
        return None

    def _generate(self, head: RequestHead, body: bytes, out: Connection) -> Callable[[], None] | None:
        """Start the answer to a completion or chat, on the rank that it names or the lightest; returns as `serve`."""
        if head.method != "POST":
            raise RefusedError(405, f"{head.path} takes POST.")
        fleet, settings = self._fleet, self._fleet.settings
        sglang, chat = settings.dialect == "sglang", _GENERATES[head.path]
        read = asked(body, chat=chat, model=settings.model, longest=settings.longest, sglang=sglang)
        named = rank_of(read, head.headers.get("x-data-parallel-rank"), self._ranks)
        rank = fleet.lightest(self._ranks) if named is None else named
        if fleet.rank(rank).dead:
            raise ConnectionError("dead")
        name = head.headers.get("x-request-id") or uuid.uuid4().hex
        answer = fleet.submit(read, rank, name, out)
        return None if answer is None else answer.gone

    def _other(self, path: str, out: Connection) -> Callable[[], None] | None:
        """Answer a request for health, models, version, load or metrics; returns as `serve`."""
        fleet, settings = self._fleet, self._fleet.settings
        dead = any(fleet.rank(number).dead for number in self._ranks)
        match path:
            case "/health" | "/ping" | "/health_generate":
                out.reply(503 if dead else 200, b"")
            case "/v1/models":
                out.reply(200, models_body(settings.model, settings.longest, fleet.created))
            case "/version":
                out.reply(200, orjson.dumps({"version": f"{_SPEAKS[settings.dialect]}+evenstep.{__version__}"}))
            case "/load":
                load = sum(len(fleet.rank(n).running) + len(fleet.rank(n).waiting) for n in self._ranks)
                out.reply(200, orjson.dumps({"server_load": load}))
            case "/metrics":
                delay_s = fleet.faults.metrics_delay_s(self._ranks)
                if delay_s > 0:
                    waits = asyncio.get_running_loop().call_later(delay_s, self._metrics, out)
                    return waits.cancel
                self._metrics(out)
            case _:
                raise RefusedError(404, f"There is nothing at {path}.")
        return None

    def _metrics(self, out: Connection) -> None:
        out.reply(200, metrics_page(self._fleet, self._ranks), CONTENT_TYPE)

    def _own(self, head: RequestHead, body: bytes, out: Connection) -> None:
        """Answer a request to the emulator's own endpoints: list, add or clear faults, or hand over KV."""
        fleet = self._fleet
        match head.path, head.method:
            case "/emulator/fault", "GET" | "POST" | "DELETE":
                if head.method == "POST":
                    self._fault(_object(body))
                elif head.method == "DELETE":
                    fleet.heal()
                dead = [number for number in range(fleet.settings.ranks) if fleet.rank(number).dead]
                out.reply(200, orjson.dumps({"faults": list(map(asdict, fleet.faults.on)), "dead_ranks": dead}))
            case "/emulator/pull", "POST":
                given = _object(body)
                name, prompt = str(given.get("remote_request_id")), str(given.get("prompt"))
                found = fleet.transfer.give(name, int(prompt, 16) if re.fullmatch("[0-9a-f]{1,16}", prompt) else -1)
                out.reply(200 if found else 404, b"{}" if found else error_body(404, "That KV is not here."))
            case _:
                raise RefusedError(404, f"There is nothing at {head.method} {head.path}.")

    def _fault(self, given: dict[str, Any]) -> None:
        """Activate a fault; one that kills a named rank or its group, and has no ``after_tokens``, strikes at once."""
        settings = self._fleet.settings
        fault = fault_of(given, settings.ranks, settings.dialect)
        if fault.fault in ("kill-rank", "kill-group") and fault.rank >= 0 and given.get("after_tokens") is None:
            self._fleet.strike(fault.rank, fault)
        else:
            self._fleet.faults.on.append(fault)


def _object(body: bytes) -> dict[str, Any]:
    """Parse a JSON object; another body raises `RefusedError`."""
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RefusedError(400, f"The body is not a JSON object: {error}") from None
