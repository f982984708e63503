"""A streamed answer with every event parsed in full: counted, checked, and stripped of members that only evenstep asked for.

Tokens are counted by ``usage.completion_tokens``, a running count per choice, else by ``token_ids``; one event can carry
several. If an engine reports neither, tokens are estimated from its events and `FullReply.estimated` is set. A stream is
complete when every choice has its finish_reason, or at ``[DONE]`` if the engine gives none. An earlier end is a failure; so
are an error object in the stream, a chunk that is not JSON, and a finish_reason that reports an abort.
"""

from __future__ import annotations

import re

from evenstep.engines.requests.continuation import goes_on, is_longer
from evenstep.engines.streams import cleaning
from evenstep.engines.streams.chunks import DONE, GAVE_UP, Choice, Chunk, Usage, is_given, read_chunk, read_head
from evenstep.engines.streams.closing import usage_event
from evenstep.engines.streams.sse import Event, EventReader
from evenstep.engines.streams.template import ChunkTemplate
from evenstep.engines.streams.template_cache import TemplateCache
from evenstep.engines.streams.usage import SoFar, rewritten
from evenstep.engines.view import Dialect, Off, UsageOptions
from evenstep.errors import EngineError, InputError

#: Text of more than one token: tokenizers cut before each word, so no token has a blank between words.
_SEVERAL = re.compile(r"\S\s+\S")
DONE_EVENT = b"data: [DONE]\n\n"
LONG = 16 * 1024  # the prompt's ids in a chunk of more bytes are not parsed
_ALIKE = 64  # equal first letters by which a repeated answer is recognised, if the engine reports no counts
LESSONS = 4  # templates learned per stream; one that changes more often is parsed in full


class FullReply:
    """One stream from one engine. `reply.ReplyStream` adds faster paths for events that resemble earlier ones.

    Give it all bytes by `feed`, then call `end`. Afterwards exactly one of `done`, `failure` and `recomputed` is set. The
    counts `produced` and `prompt_tokens` may be read at any time.

    Args:
        dialect: how this engine's streams differ from others.
        chat: chat completions, else completions.
        client, engine: options that the client asked for, and those that the engine was asked for.
        choices, prompts: number of answers to each prompt, and of prompts; every answer has its own index.
        before: the part of this answer from other engines (`so_far`), even if only its first chunk; None for a new answer.
        given: token ids from which the engine continues, as a JSON list; empty = none were given.
        keep: keep id, ids and text, so that another engine can continue, before or after the first token (`so_far`).
        fingerprint: the engine's ``system_fingerprint`` as JSON, if an earlier stream reported it (`fingerprint`).
        bytes_per_token: bytes of a token's text, for estimates if events tell no counts; 0 = one token an event.
        limit: bytes of the largest event; a larger one is a failure.
        templates: forms of this engine's earlier streams, used and learned by `ReplyStream`; None = not used.
        hands_back: the stop reason ``recomputed`` hands the request back; False = it is the request's stop string.
    """

    __slots__ = (
        *("_before", "_bundled", "_bytes", "_bytes_per_token", "_changes", "_chat", "_counted", "_created", "_cut"),
        *("_dialect", "_drop_final", "_drop_ids", "_drop_usage", "_events", "_final", "_given", "_hands_back"),
        *("_has_guessed", "_has_shown", "_held", "_ids", "_ids_seen", "_is_between", "_is_new", "_is_told"),
        *("_is_whole", "_keep", "_kept", "_known", "_later", "_lessons", "_limit", "_open", "_over", "_plain"),
        *("_prompt_ids", "_prompts", "_reader", "_repeats", "_request_id", "_said", "_settled", "_settled_tokens"),
        *("_surplus", "_template", "_templates", "_texts", "_usage_off", "_wants_usage", "_withheld", "done"),
        *("error_body", "estimated", "failure", "fingerprint", "finished", "produced", "prompt_tokens", "recomputed"),
        *("restarts", "starts_anew"),
    )

    def __init__(
        self,
        dialect: Dialect,
        *,
        chat: bool,
        client: UsageOptions,
        engine: UsageOptions,
        choices: int = 1,
        prompts: int = 1,
        before: SoFar | None = None,
        given: bytes = b"",
        keep: bool = False,
        fingerprint: bytes = b"",
        bytes_per_token: float = 0.0,
        limit: int = 1 << 20,
        templates: TemplateCache | None = None,
        hands_back: bool = True,
    ) -> None:
        self.produced = before.produced if before else 0  #: output tokens, of all choices and engines
        self.prompt_tokens = before.prompt_tokens if before else -1  #: of the client's prompt; -1 until reported
        self.finished = False  #: every choice has its finish_reason, or `done`
        self.done = False  #: the stream has ended correctly
        self.recomputed = False  #: the engine hands the request back: continue it elsewhere
        self.estimated = False  #: tokens were estimated from events
        self.starts_anew = False  #: it failed: the engine answers from the start, or does not say that it goes on
        self.restarts = False  #: with `starts_anew`: the engine does so every time; do not ask it again
        self.failure: EngineError | None = None  #: why it cannot go on
        self.error_body = b""  #: the error object the engine sent inside the stream
        self.fingerprint = fingerprint
        self._reader = EventReader(limit)
        self._chat, self._dialect, self._before = chat, dialect, before
        self._drop_final = engine.usage and not client.usage
        self._drop_usage = engine.continuous and not client.continuous
        self._drop_ids = engine.token_ids and not client.token_ids
        self._changes = self._drop_usage or self._drop_ids or before is not None or keep
        self._ids_seen = client.token_ids
        self._usage_off: Off = "absent" if chat else dialect.completion_usage_off
        self._counted = [0] * (choices * prompts)
        self._open = set(range(choices * prompts))
        self._prompts, self._keep, self._plain = prompts, keep, before.plain if before else True
        self._ids = list(before.ids) if before else []
        self._prompt_ids = before.prompt_ids if before else b""
        self._texts = [before.text] if before else []
        self._settled, self._settled_tokens = len(self._ids), self.produced
        self._request_id, self._created = (before.request_id, before.created) if before else (b"", b"")
        self._wants_usage, self._is_told = client.usage, False
        self._final = b""  # the last chunk sent to the client
        self._is_whole = False  # every choice has ended, and the client gets the event that ended it
        self._held = b""  # the last chunk of the only choice, while the fingerprint is unknown
        self._bytes_per_token = bytes_per_token
        self._events = self._bytes = self._surplus = 0
        self._given, self._bundled = given, before.bundled if before else False
        # The engine has shown that it continues the answer; True for a new answer.
        self._has_shown = before is None or not before.produced
        self._known = ""  # first letters of the answer, kept while the rest has only repeated them
        self._said, self._withheld = "", b""  # the repeated text, and its events
        self._over = self._is_between = False  # nothing more is read; the last byte ended an event
        self._is_new = True  # nothing was read
        self._limit, self._hands_back = limit, hands_back
        self._template: ChunkTemplate | None = None
        self._cut = list[bytes]()  # lists of the prompt's ids removed from the current chunk
        self._kept = bytearray() if keep else None  # text and id of events not parsed in full
        #: deferred: `_kept` bytes, or the ids and the text of one event; and the tokens of the answer after them
        self._later: list[tuple[bytes | list[int], str, int]] = []
        self._lessons = LESSONS if before is None and choices * prompts == 1 else 0
        self._templates = templates[dialect, chat, client, engine, keep] if templates is not None else None
        self._has_guessed, self._repeats = False, templates is not None and self._lessons > 0
        self._changes |= self._repeats  # `_cleaned` also reads id and time

    def feed(self, data: bytes) -> bytes:
        """Take bytes from the engine; returns the bytes for the client, whole events only, maybe empty.

        It never raises: a fault sets `failure`. After the stream's end or failure it returns nothing.
        """
        return b"" if self._over else self._read(data)

    def _read(self, data: bytes) -> bytes:
        """Split bytes from the engine into events; returns the client's bytes of them. Too long an event sets `failure`."""
        events = self._reader.feed(data)
        out = self._next(*events[0]) if len(events) == 1 else self._each(events)
        if self._reader.fault is not None and not self._over:
            out += self._fail(self._reader.fault)
        self._is_between = self._reader.is_between and not self._over
        return out

    def _each(self, events: list[Event]) -> bytes:
        """The bytes for the client of events that arrived together."""
        return b"".join([self._next(raw, payload) for raw, payload in events])

    def _next(self, raw: bytes, data: bytes | None) -> bytes:
        """The bytes for the client of one event: its bytes `raw`, and its data, None without data."""
        return self._take(raw, data)

    def _learn(self, raw: bytes, out: bytes, choice: Choice, has_usage: bool) -> None:
        """Called after an event with text was parsed in full, so that a subclass learns the form of later ones."""

    def _keep_last(self, raw: bytes, out: bytes, choice: Choice) -> None:
        """Called after a last chunk was parsed in full, so that a subclass learns its form."""

    def _keep_usage(self, raw: bytes, data: bytes, usage: Usage) -> None:
        """Called after a usage event was parsed in full, so that a subclass learns its form."""

    def end(self) -> bytes:
        """Handle the end of the body; returns the client's last bytes. Then `done`, `failure` or `recomputed` is set.

        A stream that ended before ``[DONE]`` is a failure, unless every choice has ended. Then the missing usage and
        ``[DONE]`` are added.
        """
        out = b"".join([self._take(raw, payload) for raw, payload in self._reader.end()])
        if self._over:
            return out
        return out + self._fail(EngineError("engine: its stream ended before the answer was complete."))

    def so_far(self) -> SoFar:
        """The part of the answer that the client has, by all engines so far; valid only with `keep` and for one choice."""
        if self._before is not None and (self.starts_anew or self._withheld):
            return self._before
        self._settle()
        produced = self.produced - self._surplus  # estimates by bytes are only for loads; a token limit needs the events
        # If one of the engines told no ids of its own, those of the others would leave out what it said.
        has_ids = len(self._ids) >= produced
        by_text = not (self._ids_seen and has_ids)
        ids = (self._ids[: self._settled] if by_text else self._ids) if has_ids else ()
        if by_text and not self.estimated:
            produced = self._settled_tokens
        return SoFar(
            request_id=self._request_id,
            created=self._created,
            prompt_tokens=self.prompt_tokens,
            produced=produced,
            prompt_ids=self._prompt_ids if cleaning.is_list_of_ids(self._prompt_ids) else b"",
            ids=tuple(ids),
            text="".join(self._texts),
            plain=self._plain,
            bundled=self._bundled,
        )

    def _take(self, raw: bytes, data: bytes | None) -> bytes:
        """Parse one event in full: a comment, ``[DONE]`` or a chunk. Returns the client's bytes; a fault sets `failure`."""
        if self._over or data is None:  # a comment keeps a connection alive; data that is not an event is dropped
            return raw if raw[:1] == b":" and not self._over else b""
        if data == DONE:
            return self._ended(raw)
        try:
            return self._take_long(raw, data) if len(data) > LONG else self._take_chunk(raw, data)
        except (EngineError, InputError) as error:
            return self._fail(EngineError(str(error)))

    def _take_long(self, raw: bytes, data: bytes) -> bytes:
        """Take a long chunk as `_take_chunk` does, without parsing its prompt's ids; they are put back if they were left."""
        short, self._cut = cleaning.cut_prompt_ids(data)
        out = self._take_chunk(cleaning.framed(raw, data, short) if self._cut else raw, short)
        out = cleaning.with_prompt_ids(out, self._cut)
        self._held = cleaning.with_prompt_ids(self._held, self._cut)  # this chunk may be the held one
        self._cut = []
        return out

    def _take_chunk(self, raw: bytes, data: bytes) -> bytes:
        """Parse a chunk, count its tokens and return the bytes for the client; an `EngineError` if it is invalid."""
        self._put_off()
        chunk = read_chunk(data)
        if chunk.error is not None or chunk.object == "error":
            self.error_body = data
            return self._fail(EngineError("engine: it reported an error inside its stream."))
        choices = chunk.choices
        if not choices:
            return self._without_choices(raw, data, chunk)
        if not self._has_shown:
            self._see_that_it_goes_on(chunk, choices[0])
        out, new = raw, data
        if self._changes:  # before counting, since a chunk that cannot be cleaned must not count
            new = self._cleaned(data, chunk, choices)
            if new is not data:
                out = cleaning.framed(raw, data, new) if new else b""
        if not self._count(chunk, choices):
            return b""
        if self._known:
            out = self._see_that_it_differs(out, choices[0])
        if choices[0].finish_reason is not None:
            self._final, self._is_whole = new, self.finished
            if self._repeats:
                self._keep_last(raw, out, choices[0])
            return self._stamped(out) if self._drop_final else out
        if self._lessons and out:
            self._learn(raw, out, choices[0], chunk.usage is not None)
        return out

    def _see_that_it_goes_on(self, chunk: Chunk, choice: Choice) -> None:
        """Check, by the first chunk with content, that the engine continues the answer; if it restarts, an `EngineError`.

        The error comes with `starts_anew`, and with `restarts` if the engine was given ids or reports nothing of its prompt.
        A completion of an engine that reports neither counts nor ids is judged later, by its text.
        """
        assert self._before is not None
        tokens, ids = -1 if chunk.usage is None else chunk.usage.prompt_tokens, self._ids_told(chunk, choice)
        found = goes_on(self._given, ids, tokens) if self._given else is_longer(self._before, ids, tokens)
        ends = not self._is_handed_back(choice) and (choice.finish_reason or choice.stop_reason)
        brings = choice.content or choice.token_ids or ends or choice.others
        if found is None and not brings:
            return
        if found is False or (found is None and (self._chat or self._dialect.counts)):
            has_told = tokens >= 0 or bool(ids)  # a count alone can be wrong: text at the joint may merge into one token
            self.starts_anew, self.restarts = True, not has_told or (found is False and bool(self._given))
            said = "answers another prompt" if found is False else "does not say which prompt it answers"
            raise EngineError(f"engine: it {said}; expected the rest of an answer.")
        self._has_shown = True
        if found is None:
            self._known = self._before.text[:_ALIKE]

    def _see_that_it_differs(self, out: bytes, choice: Choice) -> bytes:
        """Withhold events (`out`) while the rest repeats the beginning of the answer; returns the bytes that may be sent.

        A rest that repeats the known beginning in full raises an `EngineError`.
        """
        self._said += choice.content
        if self._said.startswith(self._known):
            self.starts_anew = True
            raise EngineError("engine: it repeats the beginning of the answer; expected the rest of it.")
        if self._known.startswith(self._said) and choice.finish_reason is None:
            self._withheld += out
            return b""
        self._known = ""
        return self._let_go() + out

    def _let_go(self) -> bytes:
        """Return the withheld events and forget them."""
        withheld, self._withheld = self._withheld, b""
        return withheld

    def _ids_told(self, chunk: Chunk, choice: Choice) -> bytes:
        """The prompt's token ids that a chunk reports, as a JSON list; empty = not reported."""
        told = chunk.prompt_token_ids if self._chat else choice.prompt_token_ids
        return bytes(told) if is_given(told) else b"".join(self._cut[:1])

    def _settle(self) -> None:
        """Parse the deferred texts and ids into `_texts` and `_ids`; only `so_far` needs it."""
        self._put_off()
        for kept, content, produced in self._later:
            if isinstance(kept, list):
                self._note(kept, content, produced)
                continue
            texts = kept.split(b'"')
            produced -= len(texts) // 2
            for text, number in zip(texts[:-1:2], texts[1::2], strict=True):
                produced += 1
                self._note([int(number)] if number else [], text.decode(), produced)
        self._later.clear()

    def _put_off(self) -> None:
        """Move the kept texts and ids to the end of the deferred ones, before those of the next event."""
        if self._kept:
            self._later.append((bytes(self._kept), "", self.produced))
            self._kept.clear()

    def _note(self, ids: list[int], content: str, produced: int) -> None:
        """Append ids and text of an event to those of the answer, which then has `produced` tokens."""
        self._ids += ids
        if content:
            self._texts.append(content)
            self._settled, self._settled_tokens = len(self._ids), produced

    def _count(self, chunk: Chunk, choices: list[Choice]) -> bool:
        """Count the tokens of a chunk. False if the engine hands the request back: the client must not get the chunk."""
        usage, counted = chunk.usage, self._counted
        if self.prompt_tokens < 0 and usage is not None and self._prompts == 1:
            self.prompt_tokens = usage.prompt_tokens - (self._before.produced if self._before else 0)
        for choice in choices:
            index = choice.index
            if not 0 <= index < len(counted):
                raise EngineError(f"engine: a chunk is of choice {index}; expected one that was asked for.")
            if index not in self._open and choice.content:
                raise EngineError("engine: a choice continues after its finish_reason.")
            ends = choice.finish_reason is not None or choice.stop_reason is not None
            if ends and not self._judge(choice):
                return False
            if usage is not None and len(choices) == 1:
                news = (usage.completion_tokens or 0) - counted[index]
            elif choice.token_ids is not None:
                news = len(choice.token_ids)
            else:
                news = self._estimate(choice)
            if news > 0:
                counted[index] += news
                self.produced += news
            if self._keep and index == 0:
                self._remember(chunk, choice)
        return True

    def _judge(self, choice: Choice) -> bool:
        """Handle the end of a choice. Handed back: set `recomputed` and return False; given up: raise an `EngineError`."""
        reason = choice.finish_reason
        if choice.index in self._open and self._is_handed_back(choice):  # a choice that has ended is not handed back
            self.recomputed = self._over = True
            return False
        if reason in GAVE_UP:
            raise EngineError(f"engine: a choice ended with finish_reason {reason!r}.")
        if reason is not None:
            self._open.discard(choice.index)
            self.finished = not self._open
        return True

    def _is_handed_back(self, choice: Choice) -> bool:
        """True if the choice ends with ``recomputed`` and this hands the request back."""
        return self._hands_back and "recomputed" in (choice.stop_reason, choice.finish_reason)

    def _estimate(self, choice: Choice) -> int:
        """Estimated new tokens of a choice without counts; 0 if it has neither text nor `others`."""
        content = choice.content
        if not content and not choice.others:
            return 0
        self._bundled |= _SEVERAL.search(content) is not None
        return self._guess(1, len(content.encode("utf-8", "surrogatepass")))

    def _guess(self, events: int, size: int) -> int:
        """Estimated new tokens of so many further events with text of `size` bytes in all."""
        self.estimated = True
        self._events += events
        self._bytes += size
        known = int(self._bytes / self._bytes_per_token) if self._bytes_per_token else 0
        news = max(0, max(self._events, known) - sum(self._counted))
        self._surplus += news - events
        return news

    def _remember(self, chunk: Chunk, choice: Choice) -> None:
        """Keep ids and text of a choice for `so_far`."""
        if not self._prompt_ids:
            self._prompt_ids = self._ids_told(chunk, choice)
        if choice.others:
            self._plain = False
        if self._later:
            self._later.append((choice.token_ids or [], choice.content, self.produced))
        else:
            self._note(choice.token_ids or [], choice.content, self.produced)

    def _cleaned(self, data: bytes, chunk: Chunk, choices: list[Choice]) -> bytes:
        """The client's data of a chunk: without members only evenstep asked for, with the first stream's id; maybe empty."""
        if (self._keep or self._repeats) and not self._request_id:
            head = read_head(data)
            self._request_id, self._created = bytes(head.id), bytes(head.created)
        new = data
        if self._drop_usage and chunk.usage is not None:
            new = cleaning.without_usage(new, self._usage_off)
        if self._drop_ids:
            if self._chat and b'"delta":{}' in data and choices[0].is_silent:
                return b""
            new = cleaning.without_ids(new)
        if self._before is not None and self._before.request_id:
            if self._chat and all(choice.is_role for choice in choices):
                return b""
            new = rewritten(new, self._before)
            if not self._drop_ids:
                new = cleaning.without_prompt_ids(new)
        return new

    def _without_choices(self, raw: bytes, data: bytes, chunk: Chunk) -> bytes:
        """The bytes for the client of a chunk without choices, the usage at the end; anything else is a failure."""
        usage = chunk.usage
        if chunk.choices is None and usage is None:
            return self._fail(EngineError("engine: an event of its stream is not a chunk; it has no choices."))
        if usage is None:
            return raw
        self._told(usage)
        if self._repeats:
            self._keep_usage(raw, data, usage)
        if self._drop_final:
            self.fingerprint = bytes(read_head(data).system_fingerprint) or self.fingerprint
            return self._release()
        if self._before is not None:
            return self._release() + cleaning.framed(raw, data, rewritten(data, self._before))
        return self._release() + raw

    def _missing_usage(self) -> bytes:
        """The usage event that the client asked for, if the stream broke off before it; empty if not needed or not known."""
        if not self._wants_usage or self._is_told or self.estimated or self.prompt_tokens < 0:
            return b""
        return usage_event(read_head(self._final), self.prompt_tokens, self.produced, chat=self._chat)

    def _told(self, usage: Usage) -> None:
        """Take over the counts of the usage at the end, which covers all choices and prompts."""
        self._is_told = True
        before = self._before
        if before is None:
            self.prompt_tokens = usage.prompt_tokens
        elif self.prompt_tokens < 0:
            self.prompt_tokens = usage.prompt_tokens - before.produced
        produced = (before.produced if before else 0) + (usage.completion_tokens or 0)
        if produced > self.produced or (self.estimated and usage.completion_tokens):  # a count of 0 is no count of text
            self.produced, self._surplus = produced, 0

    def _stamped(self, out: bytes) -> bytes:
        """The last chunk with the fingerprint; until that is known, hold an only choice's and return the one held."""
        if len(self._counted) > 1 or self.fingerprint:
            return cleaning.with_fingerprint(out, self.fingerprint)
        held, self._held = self._held, out  # an engine may send two last chunks
        return held

    def _release(self) -> bytes:
        """Return the held last chunk, with the fingerprint if known, and forget it; empty without one."""
        held, self._held = self._held, b""
        return cleaning.with_fingerprint(held, self.fingerprint) if held else b""

    def _ended(self, raw: bytes) -> bytes:
        """Handle ``[DONE]``: a failure if a choice lacks the finish_reason it must have."""
        if self.finished or not self._dialect.finish_reasons:
            return self._finish(raw)
        return self._fail(EngineError("engine: its stream ended without a finish_reason."))

    def _finish(self, raw: bytes) -> bytes:
        """Mark the stream as done; returns the client's last bytes, with the event `raw` at the end."""
        self.done = self._over = self.finished = True
        return self._let_go() + self._release() + raw

    def _fail(self, error: EngineError) -> bytes:
        """Set `failure` and return nothing; if every choice has ended, add missing usage and ``[DONE]`` instead."""
        if self._is_whole and not self._over:
            out = self._release()
            try:
                return out + self._missing_usage() + self._finish(DONE_EVENT)
            except EngineError as fault:
                self.failure, self._over = fault, True
                return out
        self.failure, self._over = error, True
        return b""
