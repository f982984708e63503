"""Counts the tokens of one streamed answer, and finds its first error. Bytes in, counts out; no I/O.

An answer without an error is good. The kinds of error are:

* ``error-event``: an error object in the stream; ``bad-chunk``: an invalid chunk, or the stream ends inside an event;
* ``no-finish``: no finish_reason; ``no-done``: no ``[DONE]``; ``after-done``: data after ``[DONE]``;
* ``finish-REASON``: a finish_reason other than stop, length and tool_calls, or the stop_reason ``recomputed`` of an engine
  that hands a request back; ``empty``: an end without any token;
* ``tokens-missing``: fewer token ids than the usage says, or finish_reason length with fewer tokens than requested;
* ``tokens-twice``: more token ids than the usage says, more tokens than requested, a usage that decreases, or tokens after
  the finish_reason. Estimated counts are not compared with the request.

The owner of the connection adds: ``connect``, ``cut``, ``timeout``, ``cancelled``, ``not-http``, ``not-a-stream``, and
``status-503`` and the like.
"""

from __future__ import annotations

import math
import zlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from evenstep.engines.streams.chunks import DONE, Choice, Chunk, Usage, read_chunk
from evenstep.engines.streams.sse import EventReader
from evenstep.errors import EngineError
from evenstep.wording import counted

#: How an answer's tokens were counted; estimated: from events.
Counting = Literal["usage", "ids", "estimated"]
_LIMIT, _64_BITS = 16 << 20, (1 << 64) - 1
_GOOD = frozenset(("stop", "length", "tool_calls"))
_HANDED_BACK = "recomputed"  # in place of a finish_reason, or as stop_reason beside one


@dataclass(slots=True, eq=False)
class Meters:
    """Counters that all answers of a run add to: output tokens over time, and gaps between chunks."""

    start_s: float  # clock time of the run's start
    width_s: float  # seconds of a bucket of `tokens`
    # output tokens by bucket; the first bucket begins at `start_s`, the last is the latest with tokens
    tokens: list[int] = field(default_factory=list[int])
    # seconds between successive chunks with tokens of one answer, for all answers; the host may empty it
    gaps_s: array[float] = field(default_factory=lambda: array("d"))

    def count(self, now_s: float, tokens: int) -> None:
        """Add output tokens that arrived at clock time `now_s` to the bucket of that time; `now_s` must be >= `start_s`."""
        bucket = int((now_s - self.start_s) / self.width_s)
        try:
            self.tokens[bucket] += tokens
        except IndexError:
            self.tokens.extend([0] * (bucket + 1 - len(self.tokens)))
            self.tokens[bucket] += tokens

    def spread(self, times_s: Sequence[float], tokens: int) -> None:
        """Give events at clock times `times_s`, each counted as one token, even shares of `tokens` in place of that."""
        events = len(times_s)
        for place, at_s in enumerate(times_s):
            self.count(at_s, tokens * (place + 1) // events - tokens * place // events - 1)


@dataclass(slots=True, eq=False)
class Answer:
    """One streamed answer: counts its tokens and keeps its first error. Times are those that the host passes to `feed`."""

    max_tokens: int  # requested output tokens
    meters: Meters  # counters of the run, to which its tokens and gaps are added
    counting: Counting = "estimated"  # how its tokens were counted (`Counting`); valid for a good answer
    # output tokens so far: number of token ids; else the usage, and from the first event with output but without usage (or
    # with 0) on, one token for each event with output. Then `end` takes the count from the last usage, if it is not 0, and
    # spreads the rest over these events in `meters`.
    tokens: int = 0
    prompt_tokens: int = -1  # prompt tokens that the server reported; -1 = not reported
    first_s: float = math.nan  # clock time of its first token; nan before it
    last_s: float = math.nan  # clock time of its last token so far; nan before the first
    finish: str | None = None  # its finish_reason, or ``recomputed``; None before it comes
    error: str = ""  # kind of its first error, from the module's list; empty = no error so far
    message: str = ""  # that error in words
    crc: int = 0  # CRC-32 of its token ids, or of its text if the server sends no ids
    _events: EventReader = field(default_factory=lambda: EventReader(_LIMIT))
    _done: bool = False
    _estimated_s: array[float] = field(default_factory=lambda: array("d"))  # times of events counted as one token each
    _ids: int = -1
    _usage: int = -1

    def feed(self, body: bytes, now_s: float) -> None:
        """Parse a piece of the HTTP body, of any size, that came at `now_s`; count its tokens. Ignored after an error."""
        if self.error:
            return
        for _, data in self._events.feed(body):
            if data is not None:
                self._event(data, now_s)
        if self._events.fault is not None:
            self.fail("bad-chunk", str(self._events.fault))

    def end(self, now_s: float) -> None:
        """Check, at the regular end of the HTTP body, that the answer is complete; set its final `tokens` and `counting`.

        The answer is good if `error` is empty afterwards. Does nothing after an error. If the connection broke, call `fail`.
        """
        if self.error:
            return
        for _, data in self._events.end():
            if data is not None:
                self._event(data, now_s)
        if self._events.tail.strip():
            self.fail("bad-chunk", "the stream ends inside an event")
        elif self.finish is None:
            self.fail("no-finish", "the stream ended without a finish_reason")
        elif not self._done:
            self.fail("no-done", "the stream ended without [DONE]")
        elif self.finish not in _GOOD:
            self.fail(f"finish-{self.finish}", f"finish_reason is {self.finish}")
        else:
            self._settle()

    def fail(self, kind: str, message: str) -> None:
        """Set `error` to a kind of the module's list, and `message`, unless one is set; `feed` then ignores all bytes."""
        if not self.error:
            self.error, self.message = kind, message

    def _event(self, data: bytes, now_s: float) -> None:
        """Parse one event of the stream: count its tokens and the gap before them, or record its error."""
        if self.error:
            return
        if self._done:
            self.fail("after-done", "an event follows [DONE]")
            return
        if data == DONE:
            self._done = True
            return
        try:
            chunk = read_chunk(data)
        except EngineError as error:
            self.fail("bad-chunk", str(error))
            return
        before = self.tokens
        if chunk.error is not None or chunk.object == "error":
            self.fail("error-event", _said(chunk.error))
        elif chunk.choices is None:
            self.fail("bad-chunk", "a chunk without choices")
        elif not chunk.choices:
            if chunk.usage is not None:
                self._told(chunk.usage)
        elif len(chunk.choices) > 1 or chunk.choices[0].index != 0:
            self.fail("bad-chunk", "a chunk of another choice than the one asked for")
        else:
            self._chunk(chunk, chunk.choices[0], now_s)
        if self.tokens > before:
            self.meters.count(now_s, self.tokens - before)
            if before == 0:
                self.first_s = now_s
            else:
                self.meters.gaps_s.append(now_s - self.last_s)
            self.last_s = now_s

    def _chunk(self, chunk: Chunk, choice: Choice, now_s: float) -> None:
        """Count the tokens of a chunk's only choice, add them to `crc`, and keep its finish_reason."""
        content = choice.content
        before = self.tokens
        if choice.token_ids is not None:
            self._ids = max(self._ids, 0) + len(choice.token_ids)
            self.tokens = self._ids
            for token in choice.token_ids:
                self.crc = zlib.crc32((token & _64_BITS).to_bytes(8, "little"), self.crc)
        elif content:
            self.crc = zlib.crc32(content.encode(), self.crc)
        tells = chunk.usage is not None and bool(chunk.usage.completion_tokens)
        if chunk.usage is not None:
            self._told(chunk.usage)
        if self._ids < 0 and (content or choice.others) and (self._estimated_s or not tells):
            self._estimated_s.append(now_s)
            self.tokens += 1
        if self.finish is not None and self.tokens > before:
            self.fail("tokens-twice", "tokens after the finish_reason")
        if choice.finish_reason is not None:  # no request has stop texts, so this stop_reason is the engine's own
            self.finish = _HANDED_BACK if choice.stop_reason == _HANDED_BACK else choice.finish_reason

    def _told(self, usage: Usage) -> None:
        """Set the counts from a usage object; record an error if its tokens decrease or differ from the number of ids."""
        self.prompt_tokens = max(self.prompt_tokens, usage.prompt_tokens)
        count = usage.completion_tokens or 0
        if count < self._usage:
            self.fail("tokens-twice", f"usage went back from {self._usage} to {counted(count, 'token')}")
        elif 0 <= self._ids != count:
            kind = "tokens-missing" if self._ids < count else "tokens-twice"
            self.fail(kind, f"{self._ids} token ids came, usage tells {count}")
        self._usage = count
        if self._ids < 0:
            self.tokens = self.tokens if self._estimated_s else max(self.tokens, count)

    def _settle(self) -> None:
        """Set the final count of tokens, and record an error if it is 0 or does not fit the request."""
        self.counting = "ids" if self._ids >= 0 else "usage" if self._usage > 0 else "estimated"
        if self.counting == "usage":
            told = self.tokens - len(self._estimated_s)  # by usage, before the first estimated event
            self.meters.spread(self._estimated_s, self._usage - told)
            self.tokens = self._usage
        if self.tokens == 0:
            self.fail("empty", "the answer ended without a token")
        elif self.counting == "estimated":
            return
        elif self.tokens > self.max_tokens:
            self.fail("tokens-twice", f"{self.tokens} tokens came of {self.max_tokens} asked for")
        elif self.finish == "length" and self.tokens < self.max_tokens:
            self.fail("tokens-missing", f"ended by its length with {counted(self.tokens, 'token')} of {self.max_tokens}")


def _said(error: object) -> str:
    if isinstance(error, dict):
        return str(error.get("message", error))[:300]  # pyright: ignore[reportUnknownArgumentType]
    return str(error)[:300]
