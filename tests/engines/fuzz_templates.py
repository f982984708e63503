"""Random bytes for the compiled function that reads chunks: what it takes, and that it stays inside its buffers.

EVENSTEP_CHECKED=1 python -m tests.engines.fuzz_templates 1000000 1 10
"""

from __future__ import annotations

import random
import re
import sys

import numpy as np

from evenstep.engines.streams.template import ChunkTemplate, learned
from evenstep.engines.streams.template_kernel import read_chunks
from evenstep.http.framing import framed

_NUMBER = rb"(0|[1-9][0-9]{0,17})"
_TEXTS = [text.encode() for text in (" word", "", "é", "漢字", "😀", "a" * 40)]
_WRONG = [b"\x80", b"\xc1\x81", b"\xe0\x80\x80", b"\xed\xa0\x80", b"\xf0\x80\x80\x80", b"\xf4\x90\x80\x80", b"\xe9", b"\x1f"]
_PIECES = [b"\r\n", b"0\r\n\r\n", b'"', b"\\", b"ffffffff\r\n", b"\x80", b"9" * 19, b"data: ", b"{}", b"\x00"]
_GUARD, _CANARY = 64, 0xA5


def _event(text: bytes, count: int, ids: bool, usage: bool, chat: bool) -> bytes:
    said = b'"delta":{"content":"%b"}' % text if chat else b'"text":"%b"' % text
    told = b',"token_ids":[%d]' % (7 * count) if ids else b""
    counts = b',"usage":{"prompt_tokens":4,"total_tokens":%d,"completion_tokens":%d}' % (4 + count, count)
    return b'data: {"id":"c-1","choices":[{"index":0,%b%b}]%b}\n\n' % (said, told, counts if usage else b"")


def _templates() -> list[tuple[ChunkTemplate, tuple[bool, bool, bool]]]:
    """Templates with ids, counts, both, and with other bytes for the client."""
    found: list[tuple[ChunkTemplate, tuple[bool, bool, bool]]] = []
    for kind in ((True, True, True), (True, False, False), (False, True, True), (True, True, False)):
        raw = _event(b" a", 1, *kind)
        out = re.sub(rb',"usage":\{[^}]*\}|,"token_ids":\[\d+\]', b"", raw)
        for given in {raw, out}:
            template = learned(raw, given, " a", kind[2])
            assert template is not None
            found.append((template, kind))
    return found


def _expected(
    template: ChunkTemplate, pattern: re.Pattern[bytes], data: bytes, count: int, is_framed: bool
) -> tuple[int, int, bytes]:
    """What the function has to take of these bytes, by a regular expression a chunk."""
    at, out = 0, b""
    while size := re.compile(rb"([0-9a-fA-F]{1,8})\r\n").match(data, at):
        begin, stop = size.end(), size.end() + int(size[1], 16)
        if begin == stop or data[stop : stop + 2] != b"\r\n":
            break
        events, tokens, place = b"", count, begin
        while place < stop and (found := pattern.match(data, place, stop)):
            tokens += 1
            numbers = [int(value) for value in found.groups()[1 + bool(template.lead) :]]
            wanted = (
                [template.prompt_tokens + tokens, tokens]
                if template.total_first
                else [tokens, template.prompt_tokens + tokens]
            )
            try:
                found[1].decode()
            except UnicodeDecodeError:
                break
            if numbers and numbers != wanted:
                break
            events += data[place : found.end(1)] + template.tail if template.tail else found[0]
            place = found.end()
        if place != stop:
            break
        at, count, out = stop + 2, tokens, out + events
    return at, count, framed(out) if is_framed and out else out


def _pattern(template: ChunkTemplate) -> re.Pattern[bytes]:
    rest = re.escape(template.rest.replace(b"%%", b"%")).replace(re.escape(b"%d"), _NUMBER)
    lead = re.escape(template.lead) + _NUMBER if template.lead else b""
    return re.compile(re.escape(template.prefix) + rb'([^"\\\x00-\x1f]*)' + lead + rest)


def _text(draw: random.Random) -> bytes:
    return draw.choice(_WRONG if draw.random() < 0.1 else _TEXTS)


def _error(draw: random.Random) -> int:
    """By how much an engine's counts are wrong."""
    return draw.choice((-1, 1)) if draw.random() < 0.1 else 0


def _mutated(data: bytes, draw: random.Random) -> bytes:
    """The bytes with up to two changes."""
    found = bytearray(data)
    for _ in range(draw.choice((0, 0, 1, 2))):
        at = draw.randrange(len(found) + 1)
        match draw.randrange(4):
            case 0:
                found[at : at + 1] = bytes([draw.randrange(256)])
            case 1:
                del found[at : at + draw.randrange(1, 9)]
            case 2:
                found[at:at] = draw.choice(_PIECES)
            case _:
                del found[at:]
    return bytes(found)


def fuzz(inputs: int, seed: int, every: int = 1) -> tuple[int, int]:
    """Read so many random inputs.

    Args:
        every: each so many-th input is compared with `_expected`; of all others only the bounds are checked.

    Returns:
        How many inputs had a chunk that was taken, and how many had none.

    Raises:
        AssertionError: something else was taken than is right, or bytes outside the buffer were written.
        IndexError: an index outside its array, in the checked build.
    """
    draw, taken = random.Random(seed), 0
    kinds = [(template, kind, _pattern(template)) for template, kind in _templates()]
    large, small = (np.full(size + 2 * _GUARD, _CANARY, np.uint8) for size in (1 << 14, 256))
    for number in range(inputs):
        template, kind, pattern = kinds[number % len(kinds)]
        before, events = draw.randrange(12), draw.randrange(1, 4)
        made = [_event(_text(draw), max(1, before + 1 + i + _error(draw)), *kind) for i in range(events)]
        whole = b"".join(map(framed, made)) if draw.random() < 0.7 else framed(b"".join(made))
        data = _mutated(whole, draw)
        begin, end = (0, len(data)) if draw.random() < 0.8 else (draw.randrange(-3, 9), draw.randrange(len(data) + 4))
        is_framed, is_small = draw.random() < 0.5, draw.random() < 0.2
        around = small if is_small else large
        out = around[_GUARD:-_GUARD]
        at, count, start, stop, kept = read_chunks(data, begin, end, template.shape, template.parts, before, is_framed, out)
        assert (around[:_GUARD] == _CANARY).all() and (around[-_GUARD:] == _CANARY).all(), data
        assert 0 <= start <= stop <= out.size // 2 <= kept <= out.size
        first = max(begin, 0)
        taken += at > first
        if is_small or number % every:
            continue
        read, tokens, given = _expected(template, pattern, data[first : max(first, end)], before, is_framed)
        assert (at - first, count, bytes(out[start:stop])) == (read, tokens, given), (data, begin, end)
    return taken, inputs - taken


if __name__ == "__main__":
    print(fuzz(int(sys.argv[1]), seed=int(sys.argv[2]), every=int(sys.argv[3])))
