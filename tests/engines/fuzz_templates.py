"""Random bytes for the compiled function that reads chunks: what it takes, and that it stays inside its buffers.

EVENSTEP_CHECKED=1 python -m tests.engines.fuzz_templates 1000000 1 10
"""

from __future__ import annotations

import random
import re
import sys

import numpy as np

from evenstep.engines.streams.template import ChunkTemplate, learned
from evenstep.engines.streams.usual_events import BARE, CHUNKED, FRAMED, read_events
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


def _events(template: ChunkTemplate, pattern: re.Pattern[bytes], data: bytes, count: int) -> tuple[int, int, bytes]:
    """What the function has to take of bare events, by a regular expression: length, tokens, and the client's bytes."""
    at, out, tail = 0, b"", template.pieces[5]
    while found := pattern.match(data, at):
        numbers = [int(value) for value in found.groups()[1 + bool(template.pieces[1]) :]]
        total = template.prompt_tokens + count + 1
        wanted = [total, count + 1] if template.total_first else [count + 1, total]
        try:
            found[1].decode()
        except UnicodeDecodeError:
            break
        if numbers and numbers != wanted:
            break
        out += data[at : found.end(1)] + tail if tail else found[0]
        at, count = found.end(), count + 1
    return at, count, out


def _expected(
    template: ChunkTemplate, pattern: re.Pattern[bytes], data: bytes, count: int, form: int
) -> tuple[int, int, bytes]:
    """What the function has to take of these bytes: of HTTP chunks those that hold nothing else."""
    at, out = 0, b""
    if form == BARE:
        at, count, out = _events(template, pattern, data, count)
    while form != BARE and (size := re.compile(rb"([0-9a-fA-F]{1,8})\r\n").match(data, at)):
        begin, stop = size.end(), size.end() + int(size[1], 16)
        if begin == stop or data[stop : stop + 2] != b"\r\n":
            break
        length, tokens, events = _events(template, pattern, data[begin:stop], count)
        if begin + length != stop:
            break
        at, count, out = stop + 2, tokens, out + events
    return at, count, framed(out) if form == FRAMED and out else out


def _pattern(template: ChunkTemplate) -> re.Pattern[bytes]:
    prefix, lead, *ends, _ = map(re.escape, template.pieces)
    rest = _NUMBER.join(ends) if template.counts else ends[0]
    return re.compile(prefix + rb'([^"\\\x00-\x1f]*)' + (lead + _NUMBER if lead else b"") + rest)


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
        is_chunked, bare = draw.random() < 0.7, b"".join(made)
        whole = bare if not is_chunked else b"".join(map(framed, made)) if draw.random() < 0.7 else framed(bare)
        data = _mutated(whole, draw)
        begin, end = (0, len(data)) if draw.random() < 0.8 else (draw.randrange(-3, 9), draw.randrange(len(data) + 4))
        is_framed, is_small = draw.random() < 0.5, draw.random() < 0.2
        around = small if is_small else large
        out = around[_GUARD:-_GUARD]
        shape, parts, form = template.shape, template.parts, (FRAMED if is_framed else CHUNKED) if is_chunked else BARE
        at, count, start, stop, kept = read_events(data, begin, end, form, shape, parts, before, out)
        assert (around[:_GUARD] == _CANARY).all() and (around[-_GUARD:] == _CANARY).all(), data
        assert 0 <= start <= stop <= out.size // 2 <= kept <= out.size
        first = max(begin, 0)
        taken += at > first
        if is_small or number % every:
            continue
        given = template, pattern, data[first : max(first, end)], before, form
        assert (at - first, count, bytes(out[start:stop])) == _expected(*given), (data, begin, end)
    return taken, inputs - taken


if __name__ == "__main__":
    print(fuzz(int(sys.argv[1]), seed=int(sys.argv[2]), every=int(sys.argv[3])))
