"""Builds one HTTP answer: takes tokens, sends bytes, and applies the fault that hits the answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import InitVar, dataclass, field
from typing import TYPE_CHECKING, Any

from evenstep.emulator import tokens
from evenstep.emulator.emulated_request import EmulatedRequest
from evenstep.emulator.faults import Fault
from evenstep.emulator.stopping import Stopping
from evenstep.emulator.wording import DONE, EVENTS, HTML, JSON, Choice, Wording, error_body, error_event

if TYPE_CHECKING:
    from evenstep.emulator.connection import Connection

_PAGE = b"<html><body><h1>It works!</h1></body></html>"


@dataclass(slots=True, eq=False)
class Answer:
    """The answer to one request, built from the tokens of its sequences."""

    asked: EmulatedRequest
    _wording: Wording
    _out: Connection  # to the client; its `resumed` is set to `flush`
    _stop: Callable[[int, str], None]  # ends a sequence early: its key, and stop or abort; an unknown or old key is ignored
    # kills the rank with this number in the fleet now, and the rest of its group now or later, as the fault says
    _strike: Callable[[int, Fault], None]
    _fault: Fault | None  # hits this answer
    rank: int  # number of its rank in the fleet
    keys: InitVar[Sequence[int]]  # by which the host knows its sequences, `asked.n` for each prompt in turn
    parts: list[Choice] = field(init=False)  # one for each sequence, in the order of `keys`
    # ``kv_transfer_params`` of an answer that is not streamed, set by the host; empty = null
    transfer: dict[str, Any] = field(default_factory=dict[str, Any])
    over: bool = False  # nothing more will be sent
    _silent: bool = False
    _begun: bool = False
    _count: int = 0
    _garbage: bytes = b""

    def __post_init__(self, keys: Sequence[int]) -> None:
        asked = self.asked
        self._out.resumed = self.flush
        self.parts = [
            Choice(
                index,
                [],
                prompt=asked.prompts[index // asked.n].tolist() if asked.return_ids else None,
                prompt_tokens=int(asked.prompts[index // asked.n].size),
                key=key,
                stopping=Stopping(asked.stop) if asked.stop else None,
            )
            for index, key in enumerate(keys)
        ]

    def begin(self) -> bool:
        """Send the head of a stream, or apply a fault that comes before any token. Call it first.

        Returns False if the fault ended the answer: its sequences must not run. Those of a stalled answer run, unsent.
        """
        fault = self._fault
        kind = None if fault is None or fault.after_tokens else fault.fault
        if fault is not None and kind == "status":
            self._status(fault)
        elif kind == "html":
            self._out.reply(200, _PAGE, HTML)
        elif kind == "empty" or (kind == "cut" and not self.asked.stream):
            half = b"" if kind == "empty" else b'{"id":"cmpl-cut","object":"text_comp'
            self._out.reply(200, half, EVENTS if self.asked.stream else JSON)
        elif kind == "refuse":
            self._out.abort()
        elif kind == "stall":
            self._silent = True
            return True
        else:
            if self.asked.stream:
                self._out.start()
            return True
        self.over = True
        return False

    def produced(self, part: Choice, token: int, finish: str | None) -> None:
        """Add the next token of a sequence, to be sent by `flush`; `finish` is ``stop`` or ``length`` with its last token.

        A complete stop text ends the sequence, also at the host. The answer's fault may strike in place of the token.
        Ignored if the answer is over or stalled, or the sequence has ended.
        """
        if self.over or self._silent or part.finish is not None:
            return
        self._count += 1
        if self._fault is not None and self._count > self._fault.after_tokens and self._trips(self._fault):
            return
        part.ids.append(token)
        part.produced += 1
        if part.stopping is not None:
            shown, stop = part.stopping.feed(tokens.TEXT[token], part.produced > self.asked.min_tokens)
            part.text += shown
            if stop is not None:
                part.stop_reason = stop
                if finish is None:
                    self._stop(part.key, "stop")
                finish = "stop"
            elif finish is not None:
                part.text += part.stopping.rest()
        if finish == "stop" and part.stop_reason is None and token != tokens.END:
            part.stop_reason = token
        part.finish = finish

    def flush(self) -> None:
        """Send the new text of a stream in one write, or an answer that is not streamed once it is complete.

        While the client of a stream does not read, nothing is sent; a later call sends it. Sets `over` after the last byte.
        """
        if self.over or self._silent or (self._out.paused and self.asked.stream):
            return
        if self._count == 0 and all(part.finish is None for part in self.parts):
            return
        done = all(part.finish is not None for part in self.parts)
        if not self.asked.stream:
            if done:
                self.over = True
                self._out.reply(200, self._whole())
            return
        events = [self._garbage] if self._garbage else []
        self._garbage = b""
        if not self._begun and self.asked.chat:
            events += map(self._wording.role_event, self.parts)
        self._begun = True
        for part in self.parts:
            if not part.told and (part.ids or part.finish is not None):
                events += self._events(part)
        if done:
            if self.asked.usage_last:
                events.append(self._wording.usage_event(self._count))
            events.append(DONE)
        if data := b"".join(events):
            self.over = done
            self._out.send(data, last=done)

    def fail(self, message: str) -> None:
        """End the answer with an error event, or with status 500 and an error object if it is not streamed.

        A stalled answer closes its connection instead. Ignored if the answer is over. The caller ends the sequences.
        """
        if self._silent:
            self.die()
        elif not self.over:
            self.over = True
            if self.asked.stream:
                self._out.send(error_event(message) + DONE, last=True)
            else:
                self._out.reply(500, error_body(500, message))

    def die(self) -> None:
        """Close the connection at once, as if the engine had died; ignored if `over`. The caller ends the sequences."""
        if not self.over:
            self.over = True
            self._out.abort()

    def gone(self) -> None:
        """End the answer without sending anything, as when its client has left; its sequences stop and count as aborted."""
        self.over = True
        for part in self.parts:
            self._stop(part.key, "abort")

    def _events(self, part: Choice) -> list[bytes]:
        """The events with the new tokens of a sequence, which are then removed from it."""
        if part.stopping is None and len(part.ids) != 1:
            part.text = tokens.text_of(part.ids)
        events = self._wording.events(part)
        part.told = part.finish is not None
        if self.asked.logprobs:
            part.offset += len(tokens.text_of(part.ids))
        part.ids, part.text, part.prompt = [], "", None
        return events

    def _whole(self) -> bytes:
        """The body of an answer that is not streamed; half of it if ``cut`` or ``malformed`` has struck."""
        for part in self.parts:
            if part.stopping is None:
                part.text = tokens.text_of(part.ids)
        body = self._wording.whole(self.parts, self.transfer or None)
        fault = self._fault
        cut = fault is not None and fault.fault in ("cut", "malformed") and self._count > fault.after_tokens
        return body[: len(body) // 2] if cut else body

    def _trips(self, fault: Fault) -> bool:
        """Apply the answer's fault, at the token that it comes with; returns True if it replaces the token."""
        if not self.asked.stream and fault.fault in ("cut", "malformed"):
            return False  # `_whole` applies it
        self._fault = None
        self.flush()
        match fault.fault:
            case "die":
                self.gone()
                self._out.abort()
            case "stall":
                self._silent = True
            case "kill-rank" | "kill-group":
                self._strike(self.rank, fault)
            case "cut":
                self.gone()
                self._out.send(b"", last=True)
            case "error-event":
                self.fail("the engine was told to fail")
                self.gone()
            case "recomputed":
                self._count -= 1  # the token does not come
                for other in self.parts:
                    if other.finish is None:
                        self._stop(other.key, "stop")
                        other.finish, other.stop_reason = "stop", "recomputed"
                        other.text += other.stopping.rest() if other.stopping else ""
            case "malformed":
                self._garbage = b'data: {"id": "cmpl-malformed", "choices": [{"index": 0, "te\n\n'
                return False
            case _:
                return False
        return True

    def _status(self, fault: Fault) -> None:
        given = {"Retry-After": fault.retry_after_s, "Location": fault.location}
        headers = [(name, str(value)) for name, value in given.items() if value]
        body = error_body(fault.status, "the engine was told to fail") if fault.status != 304 else b""
        self._out.reply(fault.status, body, JSON, headers)
