"""Forwards streams of usual events from engine to client in compiled code.

Rules of this file. A stream is handed to the relay when its last event was a usual one (`engines.quick`), its client has
received all data, and neither side uses TLS. From then on only the relay reads the engine's socket and writes the
client's. It uses duplicated descriptors: if an original is closed and its number reused, the relay is not affected. It
returns the stream at once, with all bytes read but not forwarded, in four cases: an unusual event arrives, the client
does not take all data, the engine's side ends, or another part of the gateway needs the stream. Chunks are reported to
the dispatcher before anything else happens.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
import time
from array import array
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evenstep import compiled
from evenstep.addresses import placed
from evenstep.engines.streams.template_kernel import PARTS
from evenstep.gateway.connections import relaying as kernel
from evenstep.gateway.connections.system_calls import WORDS
from evenstep.late import change
from evenstep.request import F8, I8

if TYPE_CHECKING:
    from evenstep.dispatch.steps.state import StepTables
    from evenstep.gateway.serve.legs import Counter, Stream

_FIRST = 4096  # flows at first; their memory is taken up only as they come
_IS_POSSIBLE = compiled.numba is not None and hasattr(select, "epoll")
_READS = getattr(select, "EPOLLIN", 0) | getattr(select, "EPOLLRDHUP", 0) | getattr(select, "EPOLLET", 0)
_AT_ONCE: int | None = getattr(socket, "TCP_QUICKACK", None)  # acknowledge all that comes at once
Bytes = NDArray[np.uint8]


class Flow:
    """One stream in the relay.

    Args:
        relay: the relay that has it.
        number: its row in the relay's table.
        stream: takes reports and gets it back.
    """

    __slots__ = ("number", "relay", "stream")

    def __init__(self, relay: Relay, number: int, stream: Stream) -> None:
        self.relay, self.number, self.stream = relay, number, stream

    @property
    def heard_s(self) -> float:
        """When something came last."""
        return float(self.relay.heard_s[self.number])

    def end(self) -> None:
        """Give it back; nothing more happens to its sockets here."""
        self.relay.give_back(self)


class Relay:
    """All streams of a loop that are in their usual course.

    Args:
        loop: the loop.

    Attributes:
        heard_s: float64[F], when something came last, by number of flow.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._epoll = select.epoll()
        self._flows: list[Flow | None] = []
        self._free: list[int] = []
        self._models: list[Counter] = []
        self._table: I8 = np.zeros(kernel.PLACES, np.int64)
        self._read: Any = memoryview(self._table.data)  # one number of it is read twice as fast so
        self._flow_of: I8 = np.full(256, -1, np.int64)
        self._columns: I8 = np.zeros((0, kernel.COLUMNS), np.int64)
        self._cells: Any = memoryview(self._table[:0].data)  # numbers of that, row after row; as `_read`
        self.heard_s: F8 = np.zeros(0)
        self._shapes: Bytes = np.zeros((0, kernel.MOST_SHAPE), np.uint8)
        self._parts: I8 = np.zeros((0, PARTS), np.int64)
        self._kept: Bytes = np.zeros((0, kernel.MOST_KEPT), np.uint8)
        self._room: Bytes = np.zeros(kernel.MOST_ROOM, np.uint8)
        self._space: Bytes = np.zeros(8 * kernel.MOST_ROOM, np.uint8)
        self._told: I8 = np.zeros(2 * kernel.MOST, np.int64)
        self._events: NDArray[np.int32] = np.zeros(kernel.MOST * WORDS, np.int32)
        self._clock: I8 = np.zeros(2, np.int64)
        self._now_s: F8 = np.zeros(1)
        self._run: Callable[[I8, StepTables], int] = kernel.run
        self._table[kernel.READY], self._table[kernel.AT_ONCE] = -1, -1
        self._look_again()
        self._is_listening = False

    def take(self, stream: Stream) -> Flow | None:
        """Hand a stream to the relay, if possible.

        Returns:
            The new flow; None if the stream stays on the plain path.
        """
        exchange, reply, quick = stream.exchange, stream.reply, stream.reply.usual
        client, connection = exchange.client, stream.connection
        if not change.is_compiled or quick is None or connection is None or quick.shape.size > kernel.MOST_SHAPE:
            return None
        reads, writes = connection.socket(), client.socket()
        if reads < 0 or writes < 0:
            return None
        try:
            engine = os.dup(reads)
        except OSError:  # no file descriptor is left
            return None
        try:
            sends = os.dup(writes)
        except OSError:
            os.close(engine)
            return None
        if not self._is_listening:
            self._is_listening = True
            self._loop.add_reader(self._epoll.fileno(), self._ready)
            self._run = compiled.entry(kernel.run)
        _acknowledge_late(engine)
        number = self._number(engine)
        model, size = self._model(exchange.model), quick.shape.size
        begin = number * kernel.COLUMNS
        self._cells[begin : begin + kernel.COLUMNS] = array(
            "q",
            (
                engine,
                sends,
                reply.counted,
                client.is_framed,
                reply.keeps,
                stream.row,
                model,
                0,
                size,
            ),
        )
        self._shapes[number, :size], self._parts[number] = quick.shape, quick.parts
        self.heard_s[number] = time.monotonic()
        flow = self._flows[number] = Flow(self, number, stream)
        self._flow_of[engine] = number
        connection.lend(flow, stream.silence_s)
        self._epoll.register(engine, _READS)
        return flow

    def give_back(self, flow: Flow, kept: bytes = b"") -> None:
        """Return a stream to the plain path.

        Args:
            kept: the bytes that did not fit into the table.
        """
        number, stream = flow.number, flow.stream
        begin = number * kernel.COLUMNS
        engine, client = self._cells[begin + kernel.ENGINE], self._cells[begin + kernel.CLIENT]
        self._flow_of[engine] = -1
        self._epoll.unregister(engine)
        os.close(engine)
        os.close(client)
        self._flows[number] = None
        self._free.append(number)
        self._fetch(flow, kept)
        stream.flow = None
        if stream.connection is not None:
            stream.connection.returned(flow.heard_s)

    def close(self) -> None:
        """Give everything back, and read nothing more."""
        for flow in self._flows:
            if flow is not None:
                self.give_back(flow)
        if self._is_listening:
            self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()

    def _ready(self) -> None:
        """Some engines wrote."""
        found = self._run(self._table, self._steps())
        if found != kernel.OVER:
            self._attend(found)

    def _attend(self, found: int) -> None:
        """Handle the results of a compiled call: chunks to count, flows that need attention, more to read."""
        table = self._read
        while found != kernel.OVER:
            if table[kernel.TOLD]:
                model = self._models[table[kernel.ABOUT]]
                model.produced_all(self._told, table[kernel.COUNTED], table[kernel.TOLD], float(self._now_s[0]))
            if found == kernel.COUNTS:
                return
            if found == kernel.LOOK:
                self._look()
            found = self._run(self._table, self._steps())

    def _look(self) -> None:
        """Something was not as usual with one of them."""
        number, rest, rest_end, unsent, unsent_end, extra, extra_end = self._read[
            kernel.FLOW : kernel.EXTRA_END + 1
        ].tolist()
        flow = self._flows[number]
        if flow is None:  # telling of its chunks ended it
            return
        stream, kept = flow.stream, self._space[extra:extra_end].tobytes() if extra_end else b""
        if extra_end and not rest_end and not unsent_end:
            self._fetch(flow, kept)
            return
        left, data = self._space[unsent:unsent_end].tobytes(), self._room[rest:rest_end].tobytes()
        connection, client = stream.connection, stream.exchange.client
        self.give_back(flow, kept)
        if left:
            client.forward(left)
        if connection is None:
            return
        if client.paused:
            connection.pause()
        if data:
            connection.goes_on(data)

    def _fetch(self, flow: Flow, more: bytes) -> None:
        """Pass to the stream's reply the bytes read since the hand-over or the last fetch."""
        number, cells, begin = flow.number, self._cells, flow.number * kernel.COLUMNS
        count, size = cells[begin + kernel.COUNT], cells[begin + kernel.KEPT]
        cells[begin + kernel.KEPT] = 0
        if size:
            more = self._kept[number, :size].tobytes() + more
        flow.stream.passed(count, more)

    def _steps(self) -> StepTables:
        """What chunks of the first model change."""
        return self._models[0].dispatcher.deliveries.tables()

    def _model(self, model: Counter) -> int:
        """The number of a model."""
        if model not in self._models:
            self._models.append(model)
            if len(self._models) == 1:
                self._table[kernel.AT_ONCE] = -1 if model.dispatcher.is_logged else 0
        return self._models.index(model)

    def _number(self, engine: int) -> int:
        """A free row for a stream, and a place for its file descriptor."""
        if engine >= self._flow_of.size:
            self._flow_of = np.concatenate([self._flow_of, np.full(engine, -1, np.int64)])
            self._look_again()
        if not self._free:
            size = len(self._flows)
            room = size or _FIRST
            self._flows += [None] * room
            self._free += range(size + room - 1, size - 1, -1)
            self._columns, self._shapes = _longer(self._columns, room), _longer(self._shapes, room)
            self._cells = memoryview(self._columns.data).cast("B").cast("q")
            self._parts, self._kept = _longer(self._parts, room), _longer(self._kept, room)
            self.heard_s = np.concatenate([self.heard_s, np.zeros(room)])
            self._look_again()
        return self._free.pop()

    def _look_again(self) -> None:
        """Tell the compiled part where everything is."""
        self._table[kernel.EPOLL], self._table[kernel.FILES] = self._epoll.fileno(), self._flow_of.size
        arrays = (
            self._flow_of,
            self._columns,
            self.heard_s,
            self._shapes,
            self._parts,
            self._kept,
            self._events,
            self._room,
            self._space,
            self._told,
            self._clock,
            self._now_s,
        )
        self._table[kernel.FLOWS_MOST] = len(self._flows)
        self._table[kernel.FLOW_OF :] = [placed(one) for one in arrays]


def _acknowledge_late(file: int) -> None:
    """Have the system acknowledge two chunks of an engine at a time, if they arrive within 40 ms.

    Acknowledging each chunk is most of the cost of reading it. If the next chunk is later, the system returns to single
    acknowledgements by itself: an engine that waits for one before it writes again (Nagle) has waited for some by then.
    """
    if _AT_ONCE is not None:
        own = socket.SocketType(socket.AF_INET, socket.SOCK_STREAM, 0, file)  # of a number alone
        with suppress(OSError):  # it is gone, or no socket of this kind
            own.setsockopt(socket.IPPROTO_TCP, _AT_ONCE, 0)
        own.detach()


def _longer(rows: NDArray[Any], more: int) -> NDArray[Any]:
    fresh = np.zeros((more, rows.shape[1]), rows.dtype)
    return np.concatenate([rows, fresh]) if rows.size else fresh


def relay_on(loop: asyncio.AbstractEventLoop) -> Relay | None:
    """A relay if this system and the installed packages support it; otherwise streams use the plain Python path."""
    return Relay(loop) if _IS_POSSIBLE else None
