"""The memory that the lane's host and its compiled part share, and the rows of it that are handed out."""

from __future__ import annotations

import re
import secrets
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenstep.addresses import placed
from evenstep.dispatch.turn_kernel import TOLD
from evenstep.engines.prompt_blocks import keyed_state
from evenstep.engines.prompt_blocks_kernel import MOST_MODEL, SPACE
from evenstep.gateway import lane_layout as at
from evenstep.gateway.system_calls import WORDS
from evenstep.request import F8, I8

_CONNECTIONS, _REQUESTS, _KINDS = at.CONNECTIONS_MOST, at.REQUESTS_MOST, at.KINDS_MOST
_ROUTES, _ENGINES = at.ROUTES_MOST, at.ENGINES_MOST
_DATE = re.compile(rb"\r\n[Dd]ate: ([\x20-\x7e]{%d})\r\n" % at.DATE)
Bytes = NDArray[np.uint8]


class Tables:
    """All of it; what was never used takes no memory.

    Args:
        salt: prompts are hashed under it.

    Attributes:
        table: int64[PLACES], see `lane_layout`. name: what names of requests begin with.
        connections, heard_s, requests, sent_s, kinds, around, routes, lines, heads, told, idle, models, arrivals,
            answers, sendings: as there. to_send, came, answered: numbers of `sendings`, `arrivals` and `answers`, one
            after the other. ended: rows of `answers` that the dispatcher is told.
        bytes: of requests, one after the other.
        held: connections of each engine, with something to do or not.
    """

    def __init__(self, salt: bytes) -> None:
        self.table: I8 = np.zeros(at.PLACES, np.int64)
        self.read: Any = memoryview(self.table.data)  # one number of it is read twice as fast so
        self.of_file: I8 = np.full(256, -1, np.int64)
        self.connections: I8 = np.zeros((_CONNECTIONS, at.CONNECTION), np.int64)
        self.heard_s: F8 = np.zeros(_CONNECTIONS)
        self.requests: I8 = np.zeros((_REQUESTS, at.REQUEST), np.int64)
        self.sent_s: F8 = np.zeros(_REQUESTS)
        self.space: Bytes = np.zeros(_REQUESTS * at.MOST_REQUEST, np.uint8)
        self.bytes: Any = memoryview(self.space.data)
        self.kinds: I8 = np.zeros((_KINDS, at.REQUEST_KIND), np.int64)
        self.around: Bytes = np.zeros((_KINDS, at.MOST_AROUND), np.uint8)
        self.routes: I8 = np.zeros((_ROUTES, at.ROUTE), np.int64)
        self.lines: Bytes = np.zeros((_ROUTES, at.MOST_LINES), np.uint8)
        self.heads: I8 = np.zeros((_ENGINES, at.HEAD), np.int64)
        self.told: Bytes = np.zeros((_ENGINES, at.MOST_AROUND), np.uint8)
        self.idle: I8 = np.zeros((_ENGINES, 1 + at.MOST_IDLE), np.int64)
        self.models: Bytes = np.zeros((_KINDS, MOST_MODEL), np.uint8)
        self.keyed, self._hashed = keyed_state(salt), np.zeros(8 + SPACE // 8, np.uint64)
        self.arrivals: I8 = np.zeros((at.MOST, at.ARRIVAL), np.int64)
        self.answers: I8 = np.zeros((at.ANSWER, at.MOST), np.int64)
        self.sendings: I8 = np.zeros((at.MOST, at.SENDING), np.int64)
        # all numbers of each, row after row
        self.to_send, self.came, self.answered = (
            memoryview(one.data).cast("B").cast("q") for one in (self.sendings, self.arrivals, self.answers)
        )
        self.ended = self.answers[:TOLD]
        self.free: I8 = np.arange(_REQUESTS - 1, -1, -1, dtype=np.int64)
        self.name = f"{secrets.token_hex(6)}-"
        self._name: Bytes = np.frombuffer(self.name.encode(), np.uint8)
        self._events, self._room = np.zeros(at.MOST * WORDS, np.int32), np.zeros(at.MOST_ANSWER, np.uint8)
        self._clock: I8 = np.zeros(2, np.int64)
        self.table[[at.READY, at.FREE, at.NAME_FRONT]] = -1, _REQUESTS, self._name.size
        self._free = list(range(_CONNECTIONS - 1, -1, -1))
        self.held = [0] * _ENGINES
        self.look()

    def look(self) -> None:
        """Tell the compiled part where everything is."""
        arrays: tuple[NDArray[Any], ...] = (
            self.of_file, self.connections, self.heard_s, self.requests, self.sent_s, self.space, self.free, self.kinds,
            self.around, self.routes, self.lines, self.heads, self.told, self.idle, self._name, self._events, self._room,
            self.arrivals, self.answers, self.sendings, self._clock, self.models, self.keyed, self._hashed,
        )  # fmt: skip
        self.table[at.FILES] = self.of_file.size
        self.table[at.OF_FILE :] = [placed(one) for one in arrays]

    def add(self, file: int, kind: int, engine: int, heard_s: float) -> int:
        """A connection, by its file descriptor; its number, -1 = there is no room."""
        if not self._free or (engine >= 0 and self.held[engine] == at.MOST_IDLE):
            return -1
        if file >= self.of_file.size:
            self.of_file = np.concatenate([self.of_file, np.full(file, -1, np.int64)])
            self.look()
        number = self._free.pop()
        if engine >= 0:
            self.held[engine] += 1
        self.connections[number] = file, -1, kind, engine
        self.heard_s[number] = heard_s
        self.of_file[file] = number
        return number

    def drop(self, number: int) -> int:
        """A connection is not here any more; its file descriptor."""
        file, _, _, engine = self.connections[number].tolist()
        self.of_file[file] = -1
        self.connections[number] = -1
        if engine >= 0:
            self.held[engine] -= 1
            idle = self.idle[engine]
            left = [one for one in idle[1 : 1 + idle[0]].tolist() if one != number]
            idle[: 1 + len(left)] = len(left), *left
        self._free.append(number)
        return file

    def set_kind(
        self, number: int, around: tuple[bytes, bytes, bytes], model: bytes, numbers: tuple[int, ...]
    ) -> None:
        """What a kind of request says around its prompt, and of which model.

        Args:
            around: up to the digits of the length, from there to the prompt, behind it.
            numbers: columns HEAD_MORE, BODY_MOST, IS_CHAT, SIZES, LAST_NUMBER, CAP, SESSION, CLASS and EXPECTED.
        """
        before, after, behind = around
        more, most, is_chat, *others = numbers
        self.kinds[number] = len(before), len(after), more, len(behind), most, is_chat, len(model), *others
        write(self.around[number], before + after + behind)
        write(self.models[number], model)

    def set_route(self, number: int, engine: int, front: bytes, back: bytes) -> None:
        """How heads of a kind of request to a worker begin and go on."""
        self.routes[number] = engine, len(front), len(back)
        write(self.lines[number], front + back)

    def set_head(self, engine: int, before: bytes, after: bytes) -> None:
        """How heads of an engine's whole answers look but for their date, if they have one; empty = nobody knows."""
        dates = [place for place in (_date_in(before), _date_in(after, len(before))) if place >= 0]
        self.heads[engine] = len(before), len(after), dates[0] if len(dates) == 1 else -1
        write(self.told[engine], before + after)

    @property
    def most(self) -> tuple[int, int, int]:
        """Kinds, routes and engines there is room for."""
        return _KINDS, _ROUTES, _ENGINES

    def free_request(self, place: int) -> None:
        """A request is not here any more."""
        self.free[self.table[at.FREE]] = place
        self.table[at.FREE] += 1

    @property
    def places(self) -> int:
        """Requests there is room for."""
        return _REQUESTS


def _date_in(lines: bytes, more: int = 0) -> int:
    """Where the date stands in a part of a head, and so many bytes on; -1 where there is none."""
    found = _DATE.search(lines)
    return -1 if found is None else found.start(1) + more


def write(row: Bytes, text: bytes) -> None:
    """Put bytes at the beginning of a row."""
    row[: len(text)] = np.frombuffer(text, np.uint8)
