# pyright: basic
"""The compiled part of `lane`: requests like earlier ones from clients to engines, whole answers back.

It reads and writes sockets by the system's own calls, so that nothing of Python is touched for the bytes of a request.
Whatever is not the usual case ends a call, with all that was read and not used. Every row that is written, and every socket
that is written to, is one whose number was compared with the length of its table and whose owner names it back: an answer
goes only to the client whose row names the request, a request only to a connection of its engine that has nothing to do.
Where that does not hold nothing is written, and BROKE is set.
"""

from __future__ import annotations

import numpy as np

from evenstep.compiled import array_at, check, inlined, jit, part_of
from evenstep.dispatch.turn_kernel import (
    CAME_CAP,
    CAME_CLASS,
    CAME_EXPECTED,
    CAME_KEY,
    CAME_PROMPT,
    CAME_REQUEST,
    CAME_SESSION,
    ENDED_LEG,
    ROW,
    TOLD_OUTPUT,
    TOLD_PROMPT,
)  # fmt: skip
from evenstep.engines.answers_kernel import read_whole
from evenstep.engines.json_kernel import end_of_value
from evenstep.engines.prompt_blocks_kernel import MOST_MODEL, SPACE, key_of
from evenstep.engines.prompt_size_kernel import NUMBERS, estimate, learn
from evenstep.gateway import lane_layout as at
from evenstep.gateway import system_calls as system
from evenstep.gateway.heads import DIGITS

_OK, _KIND = b"HTTP/1.1 200 OK\r\nX-Request-Id: ", b"\r\nContent-Type: application/json\r\nContent-Length: "
_FIRST_LINE, _MORE_LINES, _END = (np.frombuffer(text, np.uint8) for text in (_OK, _KIND, b"\r\n\r\n"))
_QUOTE, _OPEN, _OPEN_LIST, _CR = 34, 123, 91, 13


@jit
def _equal(data, begin, other, start, size):
    """Whether these bytes are the same."""
    here, there, found = np.uint64(begin), np.uint64(start), np.uint8(0)  # unsigned: many bytes at a time
    for i in range(np.uint64(size)):
        found |= data[here + i] ^ other[there + i]
    return found == 0


@jit
def _is_part(data, begin, told, start, size, date):
    """Whether bytes are a part of a head as it was told; a date that stands at `date` of it may be any."""
    if date < start or date >= start + size:
        return _equal(data, begin, told, start, size)
    first, behind = date - start, date - start + at.DATE
    for i in range(begin + first, begin + behind):
        if not 32 <= data[i] <= 126:
            return False
    is_same = _equal(data, begin, told, start, first)
    return is_same and _equal(data, begin + behind, told, start + behind, size - behind)


@jit
def _length(data, begin, stop):
    """The number whose digits begin here, and where the line behind it ends; -1 where there is none."""
    found, place, last = 0, begin, min(stop, begin + DIGITS)
    while place < last and 48 <= data[place] <= 57:
        found = 10 * found + data[place] - 48
        place += 1
    if place == begin or place >= stop or data[place] != _CR:
        return -1, -1
    return found, place


@jit
def _is_like(data, begin, stop, kind, around, request):
    """Whether bytes are one whole request of a kind; see `Alike.split`. `request` is told where body and prompt lie."""
    before, after, behind = kind[at.BEFORE], kind[at.AFTER], kind[at.BEHIND]
    if stop - begin < before + after + behind or not _equal(data, begin, around, 0, before):
        return False
    length, place = _length(data, begin + before, stop)
    if place < 0 or stop - place < after + behind:
        return False
    body, prompt, end = place + kind[at.HEAD_MORE], place + after, stop - behind
    if length != stop - body or length > kind[at.BODY_MOST] or prompt + 2 > end:
        return False
    if not _equal(data, place, around, before, after) or not _equal(
        data, end, around, before + after, behind
    ):
        return False
    if kind[at.IS_CHAT] == 1:
        if data[prompt] != _OPEN_LIST or data[prompt + 1] != _OPEN:
            return False
    elif data[prompt] != _QUOTE:
        return False
    if end_of_value(data, prompt, end) != end:
        return False
    request[at.BODY], request[at.BODY_END], request[at.PROMPT], request[at.PROMPT_END] = (
        body,
        stop,
        prompt,
        end,
    )
    return True


@jit
def _put(out, end, text, size):
    """Write bytes in front of a place; where they begin."""
    check(size <= end <= out.size)
    begin = np.uint64(end - size)
    for i in range(np.uint64(size)):
        out[begin + i] = text[i]
    return end - size


@jit
def _put_number(out, end, number, base):
    """Write a number in front of a place; where it begins."""
    while True:
        digit, number = number % base, number // base
        end -= 1
        out[end] = 48 + digit if digit < 10 else 87 + digit
        if number == 0:
            return end


@jit
def _put_name(table, out, end, number):
    """Write the name of a request in front of a place; where it begins."""
    end = _put_number(out, end, number, 16)
    return _put(out, end, array_at(table[at.NAMES], table[at.NAME_FRONT], np.uint8), table[at.NAME_FRONT])


@inlined
def _row(table, address, size, number):
    """One row of a table of integers."""
    return part_of(table[address], 8 * size * number, size, np.int64)


@inlined
def _bytes(table, address, size, number):
    """One row of a table of bytes."""
    return part_of(table[address], size * number, size, np.uint8)


@inlined
def _set_time(table, address, number, seconds):
    """Note a time in one row."""
    part_of(table[address], 8 * number, 1, np.float64)[0] = seconds


@jit
def _break(table):
    """An index is out of its table, or two rows disagree."""
    table[at.BROKE] = 1
    check(False)
    return False


@jit
def _look(table, number, data, size, is_unsent):
    """Somebody has to look at a connection."""
    table[at.LOOK_AT], table[at.DATA], table[at.DATA_SIZE], table[at.UNSENT] = number, data, size, is_unsent


@jit
def _ask(table, number, connection, now_s):
    """A client that had nothing to do wrote; whether that was usual."""
    left, of = table[at.FREE], connection[at.KIND]
    if left == 0:
        _look(table, number, 0, 0, 0)
        return False
    if not (0 < left <= at.REQUESTS_MOST and 0 <= of < at.KINDS_MOST and 0 <= table[at.ARRIVED] < at.MOST):
        return _break(table)
    passage = array_at(table[at.FREE_ONES], at.REQUESTS_MOST, np.int64)[left - 1]
    if not 0 <= passage < at.REQUESTS_MOST:
        return _break(table)
    begin = at.MOST_REQUEST * passage + at.HEADROOM
    size = system.read_into(connection[at.FILE], table[at.BYTES], begin, at.MOST_REQUEST - at.HEADROOM)
    data, request = (
        _bytes(table, at.BYTES, at.MOST_REQUEST, passage),
        _row(table, at.REQUESTS, at.REQUEST, passage),
    )
    kind = _row(table, at.KINDS, at.REQUEST_KIND, of)
    around = _bytes(table, at.AROUND, at.MOST_AROUND, of)
    if not 0 <= kind[at.MODEL] <= MOST_MODEL:
        return _break(table)
    if size <= 0 or not _is_like(data, at.HEADROOM, at.HEADROOM + size, kind, around, request):
        _look(table, number, table[at.BYTES] + begin, max(0, size), 0)
        return False
    table[at.FREE] -= 1
    table[at.LAST_NAME] += 1
    request[at.CLIENT], request[at.SENT_TO], request[at.NAME] = number, -1, table[at.LAST_NAME]
    request[at.OF_KIND], request[at.WAY] = of, -1
    connection[at.PASSAGE] = passage
    _set_time(table, at.HEARD, number, now_s)
    _tell(table, passage, request, kind, data)
    return True


@jit
def _tell(table, passage, request, kind, data):
    """A request is to be told of."""
    last = array_at(kind[at.LAST_NUMBER], 1, np.int64)
    last[0] += 1
    request[at.NUMBER] = last[0]
    told = _row(table, at.ARRIVALS, at.ARRIVAL, table[at.ARRIVED])
    table[at.ARRIVED] += 1
    told[CAME_REQUEST], told[at.PLACE], told[at.PLACED_KIND] = last[0], passage, request[at.OF_KIND]
    told[CAME_CAP], told[CAME_SESSION] = kind[at.CAP], kind[at.SESSION]
    told[CAME_CLASS], told[CAME_EXPECTED] = kind[at.CLASS], kind[at.EXPECTED]
    sizes = array_at(kind[at.SIZES], NUMBERS, np.float64)
    told[at.PROMPT_BYTES] = request[at.PROMPT_END] - request[at.PROMPT]
    told[CAME_PROMPT] = estimate(sizes, told[at.PROMPT_BYTES])
    model = _bytes(table, at.MODELS, MOST_MODEL, request[at.OF_KIND])
    keyed = array_at(table[at.KEYED], 8, np.uint64)
    space = array_at(table[at.HASHED], 8 + SPACE // 8, np.uint64)
    told[CAME_KEY] = key_of(
        data, request[at.PROMPT], request[at.PROMPT_END], model, kind[at.MODEL], keyed, space
    )


@jit
def _is_whole(table, connection, request, client, number):
    """Whether an engine's connection, a request and its client name each other, and there is room to say so."""
    passage, engine = connection[at.PASSAGE], connection[at.ENGINE]
    idle = _row(table, at.IDLE, 1 + at.MOST_IDLE, engine)
    names_each_other = (
        request[at.SENT_TO] == number and client[at.PASSAGE] == passage and client[at.ENGINE] < 0
    )
    has_room = 0 <= idle[0] < at.MOST_IDLE and 0 <= table[at.ANSWERS] < at.MOST
    return names_each_other and has_room and 0 <= request[at.OF_KIND] < at.KINDS_MOST


@jit
def _answer(table, number, connection, now_s):
    """An engine wrote; whether that was a whole answer as usual, and the client took it."""
    passage, engine = connection[at.PASSAGE], connection[at.ENGINE]
    if not (-1 <= passage < at.REQUESTS_MOST and engine < at.ENGINES_MOST):
        return _break(table)
    size = system.read_into(connection[at.FILE], table[at.ROOM], at.HEADROOM, at.MOST_ANSWER - at.HEADROOM)
    data, stop = array_at(table[at.ROOM], at.MOST_ANSWER, np.uint8), at.HEADROOM + size
    head, told = _row(table, at.HEADS, at.HEAD, engine), _bytes(table, at.TOLD, at.MOST_AROUND, engine)
    prompt, output, body = -1, -1, 0
    if (
        passage >= 0
        and head[0] > 0
        and size > head[0] + head[1]
        and _is_part(data, at.HEADROOM, told, 0, head[0], head[2])
    ):
        length, place = _length(data, at.HEADROOM + head[0], stop)
        body = place + head[1]
        is_whole = place >= 0 and length == stop - body
        if is_whole and _is_part(data, place, told, head[0], head[1], head[2]):
            prompt, output = read_whole(data, body, stop)
    if prompt < 1 or output < 1:
        _look(table, number, table[at.ROOM] + at.HEADROOM, max(0, size), 0)
        return False
    request = _row(table, at.REQUESTS, at.REQUEST, passage)
    asker = request[at.CLIENT]
    if not 0 <= asker < at.CONNECTIONS_MOST:
        return _break(table)
    client = _row(table, at.CONNECTIONS, at.CONNECTION, asker)
    if not _is_whole(table, connection, request, client, number):
        return _break(table)
    answers, place = array_at(table[at.ANSWERED_ONES], at.ANSWER * at.MOST, np.int64), table[at.ANSWERS]
    answers[ROW * at.MOST + place], answers[ENDED_LEG * at.MOST + place] = request[at.ROW], request[at.LEG]
    answers[TOLD_PROMPT * at.MOST + place], answers[TOLD_OUTPUT * at.MOST + place] = prompt, output
    answers[at.ANSWERED_NUMBER * at.MOST + place] = request[at.NUMBER]
    answers[at.ANSWERED_PLACE * at.MOST + place] = passage
    table[at.ANSWERS] += 1
    kind = _row(table, at.KINDS, at.REQUEST_KIND, request[at.OF_KIND])
    learn(array_at(kind[at.SIZES], NUMBERS, np.float64), request[at.PROMPT_END] - request[at.PROMPT], prompt)
    client[at.PASSAGE] = connection[at.PASSAGE] = -1
    _set_time(table, at.HEARD, number, now_s)
    _set_time(table, at.HEARD, asker, now_s)
    idle = _row(table, at.IDLE, 1 + at.MOST_IDLE, engine)
    idle[0] += 1
    idle[idle[0]] = number
    begin = _put(data, body, _END, _END.size)
    begin = _put(data, _put_number(data, begin, stop - body, 10), _MORE_LINES, _MORE_LINES.size)
    begin = _put(data, _put_name(table, data, begin, request[at.NAME]), _FIRST_LINE, _FIRST_LINE.size)
    taken = max(0, system.send_from(client[at.FILE], table[at.ROOM], begin, stop - begin))
    if taken < stop - begin:
        _look(table, asker, table[at.ROOM] + begin + taken, stop - begin - taken, 1)
        return False
    return True


@jit
def read(table):
    """Take what came, until nothing is left or a connection has to be looked at; READY < 0 = see what is there.

    Requests of the last call's answers are free from now on.

    Args:
        table: int64[PLACES].

    Returns:
        OVER or LOOK.
    """
    table[at.BROKE], told = 0, table[at.ANSWERS]
    if not (0 <= told <= at.MOST and table[at.FREE] >= 0 and table[at.FREE] + told <= at.REQUESTS_MOST):
        _break(table)
        return at.LOOK
    free = array_at(table[at.FREE_ONES], at.REQUESTS_MOST, np.int64)
    answers = array_at(table[at.ANSWERED_ONES], at.ANSWER * at.MOST, np.int64)
    for i in range(told):
        free[table[at.FREE]] = answers[at.ANSWERED_PLACE * at.MOST + i]
        table[at.FREE] += 1
    table[at.ARRIVED] = table[at.ANSWERS] = 0
    table[at.LOOK_AT] = -1
    now_s = system.now_s(table[at.CLOCK])
    if table[at.READY] < 0:
        table[at.NEXT], table[at.READY] = 0, system.ready(table[at.EPOLL], table[at.EVENTS], at.MOST)
    of_file = array_at(table[at.OF_FILE], table[at.FILES], np.int64)
    events = array_at(table[at.EVENTS], at.MOST * system.WORDS, np.int32)
    while 0 <= table[at.NEXT] < table[at.READY] <= at.MOST:
        file = events[table[at.NEXT] * system.WORDS + system.WORDS - 2]
        table[at.NEXT] += 1
        number = of_file[file] if 0 <= file < table[at.FILES] else -1
        if number < 0:
            continue
        is_usual = number < at.CONNECTIONS_MOST
        if not is_usual:
            _break(table)
            return at.LOOK
        connection = _row(table, at.CONNECTIONS, at.CONNECTION, number)
        if connection[at.FILE] != file:
            is_usual = _break(table)
        elif connection[at.ENGINE] >= 0:
            is_usual = _answer(table, number, connection, now_s)
        elif connection[at.PASSAGE] < 0:
            is_usual = _ask(table, number, connection, now_s)
        else:  # it leaves, or writes more than was asked for
            _look(table, number, 0, 0, 0)
            is_usual = False
        if not is_usual:
            return at.LOOK
    table[at.READY] = -1
    return at.OVER


@jit
def _takes(table, request, passage, route):
    """A connection of a route's engine that has nothing to do, taken for a request; -1 = there is none, or BROKE."""
    client, engine = request[at.CLIENT], route[at.ROUTE_TO]
    if not (0 <= client < at.CONNECTIONS_MOST and 0 <= engine < at.ENGINES_MOST):
        _break(table)
        return -1
    idle = _row(table, at.IDLE, 1 + at.MOST_IDLE, engine)
    if idle[0] == 0:
        return -1
    asks = _row(table, at.CONNECTIONS, at.CONNECTION, client)[at.PASSAGE] == passage
    if not (asks and request[at.SENT_TO] < 0 and 0 < idle[0] <= at.MOST_IDLE):
        _break(table)
        return -1
    number = idle[idle[0]]
    if not 0 <= number < at.CONNECTIONS_MOST:
        _break(table)
        return -1
    connection = _row(table, at.CONNECTIONS, at.CONNECTION, number)
    if connection[at.ENGINE] != engine or connection[at.PASSAGE] >= 0:
        _break(table)
        return -1
    idle[0] -= 1
    connection[at.PASSAGE], request[at.SENT_TO] = passage, number
    return number


@jit
def _fits(request, route):
    """Whether a request's bytes lie in its row, with room for the head of a route in front of them."""
    front, back, body = route[at.FRONT], route[at.BACK], request[at.BODY]
    is_there = at.HEADROOM <= body <= request[at.BODY_END] <= at.MOST_REQUEST
    return is_there and front >= 0 and back >= 0 and front + back <= at.MOST_LINES


@jit
def send(table):
    """Send what is to be sent, each on a connection of its engine that has nothing to do; FAILED says how many were not.

    Returns:
        Requests that were to be sent.
    """
    now_s, count = system.now_s(table[at.CLOCK]), table[at.SENT]
    table[at.SENT] = table[at.FAILED] = table[at.BROKE] = 0
    if not 0 <= count <= at.MOST:
        _break(table)
        return 0
    for i in range(count):
        sending = _row(table, at.SENDINGS, at.SENDING, i)
        passage, by = sending[at.TO_SEND], sending[at.BY_ROUTE]
        sending[at.BECAME] = at.IS_SENT
        if passage < 0:  # somebody else sends it
            continue
        if not (passage < at.REQUESTS_MOST and 0 <= by < at.ROUTES_MOST):
            _break(table)
            return i
        route, request = (
            _row(table, at.ROUTES, at.ROUTE, by),
            _row(table, at.REQUESTS, at.REQUEST, passage),
        )
        request[at.LEG], request[at.ROW], request[at.WAY] = sending[at.BY_LEG], sending[at.FROM_ROW], by
        _set_time(table, at.SENT_AT, passage, now_s)
        number = _takes(table, request, passage, route) if _fits(request, route) else -1
        if number < 0:
            if table[at.BROKE] == 1:
                return i
            sending[at.BECAME] = at.NO_CONNECTION
            table[at.FAILED] += 1
            continue
        connection = _row(table, at.CONNECTIONS, at.CONNECTION, number)
        data = _bytes(table, at.BYTES, at.MOST_REQUEST, passage)
        begin = _put_head(table, data, request, route, by)
        size = request[at.BODY_END] - begin
        taken = system.send_from(
            connection[at.FILE], table[at.BYTES], at.MOST_REQUEST * passage + begin, size
        )
        if taken != size:
            sending[at.BECAME] = max(0, taken)
            table[at.FAILED] += 1
    return count


@jit
def _put_head(table, data, request, route, number):
    """Write an engine's head in front of a body; where it begins."""
    lines = _bytes(table, at.LINES, at.MOST_LINES, number)
    front, back, body = route[at.FRONT], route[at.BACK], request[at.BODY]
    begin = _put(data, body, _END, _END.size)
    begin = _put_number(data, begin, request[at.BODY_END] - body, 10)
    begin = _put(data, begin, lines[front : front + back], back)
    begin = _put_name(table, data, begin, request[at.NAME])
    return _put(data, begin, lines, front)
