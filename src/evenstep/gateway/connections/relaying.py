# pyright: basic
"""The compiled part of `relay`: from the sockets of engines to those of clients, for streams whose events are usual ones.

It reads and writes sockets by the system's own calls, so that nothing of Python is touched for a chunk. Whatever is not the
usual case ends a call, with all that was read and not handed on still in `room`. Every number of a flow is compared with
the length of its table, and a flow's own socket with the one that was ready, before anything is written by it; where that
does not hold, nothing is written and the flow has to be looked at.
"""

from __future__ import annotations

import select

import numpy as np

from evenstep.compiled import I1, INT, array_at, check, declared, jit, part_of
from evenstep.dispatch.steps.counting import TABLES, count_chunks
from evenstep.engines.streams.template_kernel import PARTS, read_chunks
from evenstep.gateway.connections import system_calls as system

#: Columns of the table of flows: sockets of engine and client, tokens so far, whether the client gets HTTP chunks, whether
#: texts and ids are kept, the dispatcher's row and the number of its model, bytes that are kept, bytes of the shape.
ENGINE, CLIENT, COUNT, FRAMED, KEEPS, ROW, MODEL, KEPT, SHAPE = range(9)
COLUMNS = 9
#: Places in `table`. READY, NEXT: events that were there, and the next of them to look at. TOLD, COUNTED: entries of `told`,
#: all of the model ABOUT, and how many of them are counted. FLOW: who has to be looked at. Then ranges: of `room` what was
#: not read, of `space` what was not sent and what there was no room to keep.
READY, NEXT, TOLD, COUNTED, ABOUT, FLOW, REST, REST_END, UNSENT, UNSENT_END, EXTRA, EXTRA_END = range(12)
#: What the host says: the file descriptor that tells which sockets are ready, the model whose chunks are counted at once,
#: entries of `flow_of`, flows there is room for.
EPOLL, AT_ONCE, FILES, FLOWS_MOST = range(12, 16)
#: Addresses. Of F flows: `flow_of` int64[FILES] (flow by file descriptor, -1 = none), `flows` int64[F, COLUMNS], `heard_s`
#: float64[F], `shapes` uint8[F, MOST_SHAPE], `parts` int64[F, PARTS], `kept` uint8[F, MOST_KEPT]. Of a call: `events`
#: int32[MOST * WORDS], `room` uint8[MOST_ROOM], `space` uint8[8 * MOST_ROOM] (see `template_kernel`), `told` int64[2, MOST]
#: (rows, and how many tokens each produced), `clock` int64[2], `now_s` float64[1].
FLOW_OF, FLOWS, HEARD, SHAPES, PARTS_OF, KEPT_OF, EVENTS, ROOM, SPACE, TOLD_OF, CLOCK, NOW = range(16, 28)
PLACES = 28
#: What a call ends with: nothing is left; a flow has to be looked at; `told` is full, or of another model than what follows;
#: nothing is left, but not all is counted.
OVER, LOOK, TELL, COUNTS = range(4)
#: Events looked at in one turn of the loop; bytes of a usual event, kept for one flow, and read at once.
MOST, MOST_SHAPE, MOST_KEPT, MOST_ROOM = 64, 2048, 8192, 32 * 1024

_ENDS = getattr(select, "EPOLLERR", 0) | getattr(select, "EPOLLHUP", 0) | getattr(select, "EPOLLRDHUP", 0)


def _run(table, steps):
    """Hand on what is there, until nothing is left or Python has to look.

    Args:
        table: int64[PLACES], read and written; READY < 0 = see what is there.
        steps: what chunks of the model AT_ONCE change, for `count_chunks`.

    Returns:
        OVER, LOOK, TELL or COUNTS.
    """
    table[TOLD], table[COUNTED], table[FLOW] = 0, 0, -1
    for place in range(REST, EXTRA_END + 1):
        table[place] = 0
    now_s = array_at(table[NOW], 1, np.float64)
    now_s[0] = system.now_s(table[CLOCK])
    if table[READY] < 0:
        table[NEXT], table[READY] = 0, system.ready(table[EPOLL], table[EVENTS], MOST)
    found = _handed_on(table, now_s[0])
    if table[TOLD] > 0 and table[ABOUT] == table[AT_ONCE]:
        told = array_at(table[TOLD_OF], 2 * MOST, np.int64)
        table[COUNTED] = count_chunks(told, 0, table[TOLD], now_s[0], -1, steps)
    if found == OVER:
        table[READY] = -1
        is_left = table[COUNTED] < table[TOLD] or steps.ended[0] >= 0
        return COUNTS if is_left else OVER
    return found


@jit
def _handed_on(table, now_s):
    """As `run`, from events to `told`."""
    flow_of, events = (
        array_at(table[FLOW_OF], table[FILES], np.int64),
        array_at(table[EVENTS], MOST * system.WORDS, np.int32),
    )
    while 0 <= table[NEXT] < table[READY] <= MOST:
        at = table[NEXT] * system.WORDS
        fd = events[at + system.WORDS - 2]
        number = flow_of[fd] if 0 <= fd < table[FILES] else -1
        check(number < table[FLOWS_MOST])
        if not 0 <= number < table[FLOWS_MOST]:
            table[NEXT] += 1
            continue
        flow = part_of(table[FLOWS], 8 * COLUMNS * number, COLUMNS, np.int64)
        is_sound = flow[ENGINE] == fd and 0 <= flow[SHAPE] <= MOST_SHAPE and 0 <= flow[KEPT] <= MOST_KEPT
        check(is_sound)
        if not is_sound:
            table[NEXT] += 1
            table[FLOW] = number
            return LOOK
        if table[TOLD] >= MOST or (table[TOLD] > 0 and flow[MODEL] != table[ABOUT]):
            return TELL
        size = system.read_into(fd, table[ROOM], 0, MOST_ROOM)
        if size <= 0 or (size < MOST_ROOM and events[at] & _ENDS == 0):  # no more is there
            table[NEXT] += 1
        if size < 0 and events[at] & _ENDS == 0:
            continue
        if size <= 0:
            table[FLOW] = number
            return LOOK
        _pass_on(table, flow, number, size, now_s)
        if table[FLOW] >= 0:
            return LOOK
    return OVER


@jit
def _pass_on(table, flow, number, size, now_s):
    """So many bytes of a flow's engine: what is usual of them goes to its client; FLOW and ranges say what is left."""
    room, space = array_at(table[ROOM], size, np.uint8), array_at(table[SPACE], 8 * MOST_ROOM, np.uint8)
    shape = part_of(table[SHAPES], MOST_SHAPE * number, flow[SHAPE], np.uint8)
    parts = part_of(table[PARTS_OF], 8 * PARTS * number, PARTS, np.int64)
    done, tokens, begin, end, stop = read_chunks(room, shape, parts, flow[COUNT], flow[FRAMED] == 1, space)
    if done > 0:
        sent = max(0, system.send_from(flow[CLIENT], table[SPACE], begin, end - begin))
        if sent < end - begin:
            table[FLOW], table[UNSENT], table[UNSENT_END] = number, begin + sent, end
        part_of(table[HEARD], 8 * number, 1, np.float64)[0] = now_s
        if tokens > flow[COUNT]:
            told, entry = array_at(table[TOLD_OF], 2 * MOST, np.int64), table[TOLD]
            told[entry], told[MOST + entry] = flow[ROW], tokens - flow[COUNT]
            table[TOLD], table[ABOUT], flow[COUNT] = entry + 1, flow[MODEL], tokens
        if flow[KEEPS] == 1:
            half = space.size // 2
            if flow[KEPT] + stop - half > MOST_KEPT:
                table[FLOW], table[EXTRA], table[EXTRA_END] = number, half, stop
            else:
                kept = part_of(table[KEPT_OF], MOST_KEPT * number, MOST_KEPT, np.uint8)
                for i in range(stop - half):
                    kept[flow[KEPT] + i] = space[half + i]
                flow[KEPT] += stop - half
    if done < size:
        table[FLOW], table[REST], table[REST_END] = number, done, size


#: Compiled where the system has what it calls.
run = declared(None if INT is None else INT(I1, TABLES))(_run) if hasattr(select, "epoll") else _run
