# pyright: basic
"""Calls of the system from compiled code do what Python's own do."""

from __future__ import annotations

import select
import socket
import time

import numpy as np
import pytest

from evenstep import compiled
from evenstep.gateway.connections import system_calls as system

pytestmark = pytest.mark.skipif(
    compiled.numba is None or not hasattr(select, "epoll"), reason="nothing is compiled here, or no epoll"
)


@compiled.jit
def _pass(poll, events, to, out, begin, room):
    """What was read from the socket that is ready, after something was sent to its other end."""
    sent = system.send(to, out, begin, system.AT_ONCE)
    ready = system.epoll_wait(poll, events, 4, 1000)
    words = compiled.array_at(events, 4 * system.WORDS, np.int32)
    return sent, ready, system.recv(words[system.WORDS - 2], room, 64, system.AT_ONCE)


@compiled.jit
def _read_clock(place):
    return system.clock_gettime(system.MONOTONIC, place)


def test_what_is_sent_is_ready_and_read():
    near, far = socket.socketpair()
    with near, far, select.epoll() as poll:
        poll.register(far.fileno(), select.EPOLLIN)
        events, out, room = (
            np.zeros(4 * system.WORDS, np.int32),
            np.frombuffer(b"even", np.uint8),
            np.zeros(64, np.uint8),
        )
        found = _pass(poll.fileno(), events.ctypes.data, near.fileno(), out.ctypes.data, 4, room.ctypes.data)
        assert found == (4, 1, 4)
        assert bytes(room[:4]) == b"even"


def test_the_clock_is_that_of_the_loop():
    place = np.zeros(2, np.int64)
    before = time.monotonic()
    assert _read_clock(place.ctypes.data) == 0
    assert before <= place[0] + place[1] / 1e9 <= time.monotonic()
