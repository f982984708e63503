"""Where things are in the lane's tables; its host and its compiled part read the same numbers."""

from __future__ import annotations

#: Columns of a connection: its socket, the request it is busy with (-1 = none), by what a client's next request is known
#: (-1 = it is an engine), whose engine it is (-1 = it is a client).
FILE, PASSAGE, KIND, ENGINE = range(4)
CONNECTION = 4
#: Columns of a request: connections of client and engine (-1 = none yet), where body and prompt lie in its bytes, the number
#: in its name, its kind; its number, row and leg, as the dispatcher has them, and its route (-1 = none yet).
CLIENT, SENT_TO, BODY, BODY_END, PROMPT, PROMPT_END, NAME, OF_KIND, NUMBER, ROW, LEG, WAY = range(12)
REQUEST = 12
#: Columns of a kind of request: bytes of its head up to the digits of its length, from there to the prompt, of these in the
#: head, behind the prompt, of the longest body, whether the prompt is a list of messages; bytes of the model's name;
#: addresses of what is known of its prompts (`prompt_size_kernel`) and of the number of the last request; what is the same
#: for all.
(
    BEFORE,
    AFTER,
    HEAD_MORE,
    BEHIND,
    BODY_MOST,
    IS_CHAT,
    MODEL,
    SIZES,
    LAST_NUMBER,
    CAP,
    SESSION,
    CLASS,
    EXPECTED,
) = range(13)
REQUEST_KIND = 13
#: Columns of a route, a kind of request on its way to a worker: whose engine that is, bytes in front of the request's name
#: and from there to the digits of its length.
ROUTE_TO, FRONT, BACK = range(3)
ROUTE = 3
#: Columns of what arrived: those of `turn_kernel.CAME_REQUEST` and on, then place and kind of the request here, bytes
#: of its prompt.
PLACE, PLACED_KIND, PROMPT_BYTES = 7, 8, 9
ARRIVAL = 10
#: Rows of what was answered: those of `turn_kernel.ROW` and on, the request's number and its place here.
ANSWERED_NUMBER, ANSWERED_PLACE = 4, 5
ANSWER = 6
#: Columns of what is to be sent: request, route, leg and row; and what became of it: `IS_SENT`, `NO_CONNECTION`, or bytes
#: that were taken.
TO_SEND, BY_ROUTE, BY_LEG, FROM_ROW, BECAME = range(5)
SENDING = 5
IS_SENT, NO_CONNECTION = -1, -2

#: Places of the lane's table. READY, NEXT: events that were there, and the next of them to look at. How many ARRIVED, were
#: ANSWERS, are to be SENT, and FAILED at that. What has to be looked at: LOOK_AT a connection, with the bytes from address
#: DATA on, DATA_SIZE of them, read from it, or UNSENT to it. BROKE: 1 = tables disagree, or an index lies outside its table;
#: nothing was written or sent by it.
READY, NEXT, ARRIVED, ANSWERS, SENT, FAILED, LOOK_AT, DATA, DATA_SIZE, UNSENT, BROKE = range(11)
#: What the host says: the file descriptor that tells which sockets are ready, entries of `of_file`, free requests, the
#: number in the name of the last request, bytes of the names' front.
EPOLL, FILES, FREE, LAST_NAME, NAME_FRONT = range(11, 16)
#: Addresses. `of_file` int64[FILES], connection by file descriptor, -1 = none. Of C connections: `connections` int64[C,
#: CONNECTION], `heard_s` float64[C]. Of S requests: `requests` int64[S, REQUEST], `sent_s` float64[S], `bytes` uint8[S,
#: MOST_REQUEST], `free` int64[S]. Of kinds: `kinds` int64[K, REQUEST_KIND], `around` uint8[K, MOST_AROUND]. Of routes:
#: `routes` int64[R, ROUTE], `lines` uint8[R, MOST_LINES]. Of E engines: `heads` int64[E, HEAD] (bytes of their answers'
#: heads before and behind the digits of the length, where in these a date stands, -1 = nowhere), `told` uint8[E,
#: MOST_AROUND], `idle` int64[E, 1 + MOST_IDLE] (how many connections, and these). `name` uint8[NAME_FRONT]. Of a call:
#: `events` int32[MOST * WORDS], `room` uint8[MOST_ANSWER], `arrived` int64[MOST, ARRIVAL], `answers` int64[ANSWER,
#: MOST], `sending` int64[MOST, SENDING], `clock` int64[2]. For keys (`prompt_blocks_kernel`): `models` uint8[K,
#: MOST_MODEL], `keyed` uint64[8], `hashed` uint64[8 + SPACE / 8].
(
    OF_FILE, CONNECTIONS, HEARD, REQUESTS, SENT_AT, BYTES, FREE_ONES, KINDS, AROUND, ROUTES, LINES, HEADS, TOLD, IDLE, NAMES,
    EVENTS, ROOM, ARRIVALS, ANSWERED_ONES, SENDINGS, CLOCK, MODELS, KEYED, HASHED,
) = range(16, 40)  # fmt: skip
PLACES = 40

#: Bytes free in front of what is read, for the head that is written there; of a request and of an answer, with these; around
#: a prompt; of the lines of a head; connections of an engine that are held, busy ones included.
HEADROOM, MOST_REQUEST, MOST_ANSWER, MOST_AROUND, MOST_LINES, MOST_IDLE = (
    1024,
    34 * 1024,
    66 * 1024,
    2048,
    800,
    256,
)
#: Rows of the tables: connections, requests, kinds, routes and engines.
CONNECTIONS_MOST, REQUESTS_MOST, KINDS_MOST, ROUTES_MOST, ENGINES_MOST = 4096, 512, 256, 1024, 512
#: Columns of an engine's head; bytes of a date in it.
HEAD, DATE = 3, 29
#: Events looked at in one call.
MOST = 64
#: What a call ends with: nothing is left; a connection has to be looked at.
OVER, LOOK = range(2)
