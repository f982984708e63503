"""Requests in their usual course, from clients to engines and their whole answers back, by compiled code.

Rules of this file. A client's connection is taken when it has nothing to do and its last request was known by the one before
(`alike`); an engine's when it has nothing to do and one was lacking. From then on the lane alone reads and writes them, by
file descriptors of its own. What comes is taken as usual only if it is one whole request that differs from the last in its
prompt alone, or one whole answer that says what most do; decisions are the dispatcher's, as for any request. Anything else,
and anybody who has business with a connection, gets it back at once, with whatever was read and not used, and the
request it was busy with goes on as any other.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import select
import time
from array import array
from typing import TYPE_CHECKING, Any

import numpy as np

from evenstep import compiled
from evenstep.dispatch.commands import SendDecode
from evenstep.dispatch.events import Arrived, ClientGone, Finished
from evenstep.dispatch.settings import LEAST_BLOCK_BYTES
from evenstep.dispatch.turn_kernel import CAME_PROMPT, CAME_REQUEST
from evenstep.engines.requests import GenerationRequest
from evenstep.gateway import lane_kernel as kernel
from evenstep.gateway import lane_layout as at
from evenstep.gateway.attached import Attached
from evenstep.gateway.client import Client
from evenstep.gateway.endpoint import Endpoint
from evenstep.gateway.engine import EngineConnection
from evenstep.gateway.exchange import Exchange
from evenstep.gateway.lane_kinds import Kind, Kinds
from evenstep.gateway.lane_tables import Tables
from evenstep.gateway.passage import Passage
from evenstep.gateway.served import SMALL, ServedModel
from evenstep.routing.view import HOLD

if TYPE_CHECKING:
    from evenstep.gateway.front import Front

_IS_POSSIBLE = compiled.numba is not None and hasattr(select, "epoll")
_LOOK_S = 0.25  # how often somebody sees whether an engine is silent for too long
_JSON = "application/json"


class Held:
    """One connection that was taken.

    Args:
        lane: by whom.
        number: its row in the lane's tables.
        owner: whose it is.
    """

    __slots__ = ("_lane", "number", "owner")

    def __init__(self, lane: Lane, number: int, owner: Client | EngineConnection) -> None:
        self._lane, self.number, self.owner = lane, number, owner

    @property
    def heard_s(self) -> float:
        """When something came last; now, while a request is under way."""
        return time.monotonic() if self.is_busy else self._lane.heard_s(self.number)

    @property
    def is_busy(self) -> bool:
        """Whether a request is under way."""
        return self._lane.is_busy(self.number)

    def end(self) -> None:
        """Give it back."""
        self._lane.give_back(self.number)


class Lane:
    """All connections of a loop that are in their usual course.

    Args:
        loop: the loop.
        front: takes requests.
        salt: prompts and names are hashed under it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, front: Front, salt: bytes) -> None:
        self._loop, self._front, self._salt = loop, front, salt
        self._epoll = select.epoll()
        self._tables = Tables(salt)
        self._table = self._tables.read
        self._held: dict[int, Held] = {}
        self._passages = [Passage(self, place) for place in range(self._tables.places)]
        self.kinds = Kinds(self._tables, salt)
        self._wanted: dict[Endpoint, int] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._read = self._send = kernel.read
        self._is_listening = self._is_closed = False
        self._tables.table[at.EPOLL] = self._epoll.fileno()

    # --- connections ---------------------------------------------------------------------------------------------

    def take(self, client: Client) -> None:
        """A client's connection from here on, if that can be."""
        front, alike = self._front, client.alike
        if alike is None or alike.heads is not front.heads or front.is_draining or self._is_closed:
            return
        file = client.socket(between=True)
        if file < 0:
            return
        if self.kinds.is_full:
            self.release()
        kind = self.kinds.find(alike, front)
        held = None if kind is None else self._hold(file, client, kind.number, -1)
        if kind is not None and held is not None:
            kind.model.lane = self
            client.lend(held)

    def keep(self, connection: EngineConnection, endpoint: Endpoint) -> bool:
        """An engine's connection from here on, if one is lacking and that can be."""
        wanted, engine = self._wanted.get(endpoint, 0), self.kinds.engine(endpoint)
        if not wanted or engine is None or self._is_closed or self._tables.held[engine] >= at.MOST_IDLE:
            return False
        last, file = endpoint.heads.last, connection.socket()
        is_usual = last is not None and last[2].status == 200 and last[2].kind == _JSON and last[2].is_plain
        if last is None or not is_usual or not last[2].keep_alive or file < 0:
            return False
        before, after, _ = last
        if len(before) + len(after) > at.MOST_AROUND:
            return False
        self._tables.set_head(engine, before, after)
        held = self._hold(file, connection, -1, engine)
        if held is None:
            return False
        self._wanted[endpoint] = wanted - 1
        idle = self._tables.idle[engine]
        idle[0] += 1
        idle[idle[0]] = held.number
        connection.lend(held, endpoint.settings.idle_s)
        return True

    def heard_s(self, number: int) -> float:
        """When something came last on a connection."""
        return float(self._tables.heard_s[number])

    def is_busy(self, number: int) -> bool:
        """Whether a connection has a request under way."""
        return bool(self._tables.connections[number, at.PASSAGE] >= 0)

    def give_back(self, number: int) -> None:
        """A connection goes on as before it was taken, and so does the request it is busy with."""
        if number not in self._held:  # its tables were wrong
            return
        place = int(self._tables.connections[number, at.PASSAGE])
        if place >= 0:
            self.hand_over(place)
        else:
            held, heard_s = self._drop(number)
            held.owner.returned(heard_s)

    def release(self) -> None:
        """Give everything back, and begin anew."""
        for number in list(self._held):
            self.give_back(number)
        self.kinds.clear()
        self._wanted.clear()

    def close(self) -> None:
        """Give everything back, and take nothing more."""
        self.release()
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._is_listening:
            self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()

    def _hold(self, file: int, owner: Client | EngineConnection, kind: int, engine: int) -> Held | None:
        try:
            own = os.dup(file)
        except OSError:  # no file descriptor is left
            return None
        number = self._tables.add(own, kind, engine, time.monotonic())
        if number < 0:
            os.close(own)
            return None
        if not self._is_listening:
            self._is_listening = True
            self._loop.add_reader(self._epoll.fileno(), self._ready)
            self._read, self._send = runners()
        self._epoll.register(own, select.EPOLLIN | select.EPOLLRDHUP)
        self._held[number] = Held(self, number, owner)
        return self._held[number]

    def _drop(self, number: int) -> tuple[Held, float]:
        """A connection is not here any more; when something came last on it."""
        heard_s = self.heard_s(number)
        file = self._tables.drop(number)
        self._epoll.unregister(file)
        os.close(file)
        return self._held.pop(number), heard_s

    # --- what comes ----------------------------------------------------------------------------------------------

    def _ready(self) -> None:
        """Somebody wrote."""
        table, found = self._table, at.LOOK
        while found == at.LOOK:
            found = self._read(self._tables.table)
            if table[at.BROKE]:
                self._break()
                return
            answers, came, looked = table[at.ANSWERS], table[at.ARRIVED], None
            if found == at.LOOK:  # before telling of answers gives it back, and another has its number
                address, size = table[at.DATA], table[at.DATA_SIZE]
                looked = self._held[table[at.LOOK_AT]], ctypes.string_at(address, size), table[at.UNSENT]
            if answers or came:
                model = self.kinds.only
                self._front.codes[200] += answers
                if model is not None and model.has_room and not self._has_blocks(model, came):
                    self._turn(model, answers, came)
                else:
                    self._answered(answers)
                    self._arrived(came)
            if looked is not None:
                self._look(*looked)

    def _turn(self, model: ServedModel, answers: int, came: int) -> None:
        """Whole answers went out, and requests came, all of one model that has room for them."""
        tables, passages, here = self._tables, self._passages, self.kinds.here
        first = at.ANSWERED_NUMBER * at.MOST
        told = tables.came[: at.ARRIVAL * came].tolist()
        places, kinds = told[at.PLACE :: at.ARRIVAL], [here[of] for of in told[at.PLACED_KIND :: at.ARRIVAL]]
        for i, prompt in enumerate(told[CAME_PROMPT :: at.ARRIVAL]):
            if prompt > SMALL:
                tables.came[at.ARRIVAL * i + CAME_PROMPT] = model.bounded(prompt)
        rows, passed = model.turn(
            time.monotonic(), (tables.ended, tables.answered[first : first + answers].tolist()),
            (tables.arrivals, told[CAME_REQUEST :: at.ARRIVAL], [kind.tenant for kind in kinds]),
            [passages[place] for place in places],
        )  # fmt: skip
        if len(rows) != came:
            self._arrived(came)
        elif passed:
            self._pass_on(model, places, kinds, rows, passed)

    def _pass_on(
        self, model: ServedModel, places: list[int], kinds: list[Kind], rows: list[int], passed: list[int]
    ) -> None:
        """Send requests that came to the workers that a round says."""
        leg, attached, names = model.dispatcher.first_leg, model.attached, model.dispatcher.mirror.names
        sending: list[int] = []
        unusual: list[tuple[int, Attached, int, int]] = []
        for place, kind, row, worker in zip(places, kinds, rows, passed, strict=True):
            if worker != HOLD:
                leg += 1
                to = attached[names[worker]]
                route = self._route(kind, to)
                if route is None:
                    unusual.append((place, to, leg, row))
                else:
                    sending += place, route, leg, row, at.IS_SENT
        begin = at.SENDING * self._table[at.SENT]
        self._tables.to_send[begin : begin + len(sending)] = array("q", sending)
        self._table[at.SENT] += len(sending) // at.SENDING
        for one in unusual:
            self._unusual(*one)
        self.flush()

    def _has_blocks(self, model: ServedModel, came: int) -> bool:
        """Whether the policy looks at caches, and prompts that came are long enough for these to hold some of them."""
        if not model.reads_cached:
            return False
        return bool((self._tables.arrivals[:came, at.PROMPT_BYTES] > LEAST_BLOCK_BYTES).any())

    def _answered(self, count: int) -> None:
        """Whole answers went out: they are told of as any others."""
        now_s, told = time.monotonic(), self._tables.answers[:, :count].tolist()
        _, legs, prompts, outputs, numbers, places = told
        for leg, prompt, output, number, place in zip(legs, prompts, outputs, numbers, places, strict=True):
            model = self.kind_of(place).model
            model.later(
                Finished(now_s=now_s, request=number, leg=leg, prompt_tokens=prompt, output_tokens=output)
            )
            model.passed(number)

    def _arrived(self, count: int) -> None:
        """Requests came: they are told of as any others."""
        now_s, tables = time.monotonic(), self._tables
        for told in tables.arrivals[:count].tolist():
            number, tokens, cap, key, session, group, expected, place, of, size = told
            kind = self.kinds.here[of]
            begin = place * at.MOST_REQUEST + int(tables.requests[place, at.PROMPT])
            kind.model.passes(number, self._passages[place])
            event = Arrived(
                now_s=now_s, request=number, prompt_tokens=kind.model.bounded(tokens), tenant=kind.tenant,
                request_class=group, key=key, session=session, max_tokens=cap, expected_tokens=expected,
                can_continue=False, blocks=kind.blocks(tables.bytes[begin : begin + size], self._salt),
            )  # fmt: skip
            kind.model.later(event)

    def kind_of(self, place: int) -> Kind:
        """What a request is one of."""
        return self.kinds.here[self._tables.requests[place, at.OF_KIND]]

    def _look(self, held: Held, data: bytes, is_unsent: int) -> None:
        """Something was not as usual with a connection: data came, or is not sent."""
        owner = held.owner
        if self._held.get(held.number) is held:  # telling of answers did not give it back
            if isinstance(owner, EngineConnection) and held.is_busy and data:
                self._want(owner.endpoint)
            self.give_back(held.number)
        if is_unsent:
            owner.transport.write(data)  # type: ignore[union-attr]  # only clients are written to
        elif data:
            owner.data_received(data)

    def _break(self) -> None:
        """Its tables are wrong: close every connection rather than write to one that may be another's."""
        tables, owners = self._tables, [held.owner for held in self._held.values()]
        self._is_closed, self._is_listening, self._held = True, False, {}
        self._loop.remove_reader(self._epoll.fileno())
        for file in np.flatnonzero(tables.of_file >= 0).tolist():
            os.close(file)
        for place in set(range(tables.places)).difference(tables.free[: self._table[at.FREE]].tolist()):
            number, model = int(tables.requests[place, at.NUMBER]), self.kind_of(place).model
            model.passed(number)
            model.tell(ClientGone(now_s=time.monotonic(), request=number))
        for owner in owners:
            owner.abort() if isinstance(owner, Client) else owner.close()
        raise RuntimeError("the fast path's tables disagree: its connections were closed, and it is off")

    # --- what goes out -------------------------------------------------------------------------------------------

    def sends(self, place: int, kind: Kind, attached: Attached, leg: int, row: int) -> bool:
        """Whether a request goes out with the next `flush`."""
        route = self._route(kind, attached)
        if route is None:
            return False
        count = self._table[at.SENT]
        if count == at.MOST:
            self.flush()
            count = 0
        sending, begin = self._tables.to_send, at.SENDING * count
        sending[begin], sending[begin + 1], sending[begin + 2], sending[begin + 3] = place, route, leg, row
        self._table[at.SENT] = count + 1
        return True

    def _route(self, kind: Kind, attached: Attached) -> int | None:
        """How requests of a kind go to a worker; None where they go in another way."""
        route = kind.routes.get(attached)
        return self.kinds.route(kind, attached) if route is None and attached not in kind.routes else route

    def flush(self) -> None:
        """Send what is to be sent."""
        if not self._table[at.SENT]:
            return
        count = self._send(self._tables.table)
        if self._table[at.BROKE]:
            self._break()
        if self._timer is None:
            self._timer = self._loop.call_later(_LOOK_S, self._late)
        if self._table[at.FAILED]:
            for place, route, _, _, became in self._tables.sendings[:count].tolist():
                if place >= 0 and became == at.NO_CONNECTION:
                    self._want(self.kinds.ways[route].endpoint)
                if place >= 0 and became != at.IS_SENT:
                    self.hand_over(place, max(0, became))

    def hand_over(self, place: int, taken: int = -1) -> Exchange:
        """A request goes on as any other; its engine's socket took so many bytes of it, -1 = all, if it was sent."""
        tables, kind = self._tables, self.kind_of(place)
        client, engine, body, end, prompt, stop, name, _, number, row, leg, way = tables.requests[
            place
        ].tolist()
        begin, alike, sent_s = place * at.MOST_REQUEST, kind.alike, float(tables.sent_s[place])
        data, named = bytes(tables.bytes[begin + body : begin + end]), f"{tables.name}{name:x}"
        text = data[prompt - body : stop - body]
        request = GenerationRequest(alike.frame, data, text, session=alike.asking.session)
        held, heard_s = self._drop(client)
        assert isinstance(held.owner, Client)
        exchange = Exchange(kind.model, held.owner, request, named, alike.asking)
        exchange.size = stop - prompt
        kind.model.goes_on(exchange, number)
        held.owner.returned(heard_s, named)
        tables.free_request(place)
        way, leg, row = self._not_to_send(place) or (way, leg, row)
        if way >= 0:
            attached = self.kinds.ways[way]
            command = SendDecode(number, leg, attached.name, row)
            if engine < 0:
                exchange.decode(command, attached)
            else:
                connection, heard_s = self._drop(engine)
                assert isinstance(connection.owner, EngineConnection)
                connection.owner.returned(heard_s)
                exchange.carries(command, attached, connection.owner, taken, sent_s)
        return exchange

    def _unusual(self, place: int, attached: Attached, leg: int, row: int) -> None:
        """A request cannot go to its worker from here."""
        exchange = self.hand_over(place)
        exchange.decode(SendDecode(exchange.number, leg, attached.name, row), attached)

    def _not_to_send(self, place: int) -> tuple[int, int, int] | None:
        """Route, leg and row of a request that was about to be sent, and is not now; None where it was not."""
        for sending in self._tables.sendings[: self._table[at.SENT]]:
            if sending[at.TO_SEND] == place:
                sending[at.TO_SEND] = -1
                _, way, leg, row, _ = sending.tolist()
                return way, leg, row
        return None

    def _want(self, endpoint: Endpoint) -> None:
        """One of an engine's connections is of use here as soon as it has nothing to do."""
        self._wanted[endpoint] = self._wanted.get(endpoint, 0) + 1
        endpoint.keeper = self

    def _late(self) -> None:
        """See whether an engine is silent for too long."""
        self._timer, now_s = None, time.monotonic()
        found = self._tables.connections[list(self._held)]
        places = found[(found[:, at.ENGINE] >= 0) & (found[:, at.PASSAGE] >= 0), at.PASSAGE].tolist()
        for place in places:
            patience_s = self.kinds.ways[self._tables.requests[place, at.WAY]].endpoint.settings.answer_s
            if self._tables.sent_s[place] + patience_s <= now_s:
                self.hand_over(place)
        if places:
            self._timer = self._loop.call_later(_LOOK_S, self._late)


def runners() -> tuple[Any, Any]:
    """The compiled parts, called without looking at their arguments' types."""
    tables = Tables(b"")
    tables.table[at.READY] = 0  # no event is there, none is asked for
    kernel.read(tables.table)
    kernel.send(tables.table)
    return compiled.entry(kernel.read), compiled.entry(kernel.send)


def warm() -> None:
    """Have the compiled parts ready, compiled where they were not yet."""
    if _IS_POSSIBLE:
        runners()


def lane_on(loop: asyncio.AbstractEventLoop, front: Front, salt: bytes) -> Lane | None:
    """A lane, where this system and what is installed can have one; without it requests take the way in plain Python."""
    return Lane(loop, front, salt) if _IS_POSSIBLE else None
