"""Builds one HTTP answer: takes tokens, sends bytes, and applies the fault that hits the answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from evenstep.emulator import tokens
from evenstep.emulator.emulated_request import EmulatedRequest
from evenstep.emulator.faults import Fault
from evenstep.emulator.stopping import Stopping
from evenstep.emulator.wording import DONE, Choice, Wording, error_body, error_event

JSON, HTML, EVENTS = "application/json", "text/html; charset=utf-8", "text/event-stream; charset=utf-8"
_PAGE = b"<html><body><h1>It works!</h1></body></html>"


class Out(Protocol):
    """The connection that an answer is written to: `paused` while the client does not read; it calls `resumed` after that.

    Without an answer under way, `reply`, `start` and `send` do nothing.
    """

    paused: bool
    resumed: Callable[[], None] | None

    @property
    def reached(self) -> str:
        """The address of this machine that the client connected to."""
        ...

    def reply(self, status: int, body: bytes, kind: str = JSON, headers: Sequence[tuple[str, str]] = ()) -> None:
        """Send a complete response: status, body of media type `kind`, and further header fields."""

    def start(self) -> None:
        """Send the head of an event stream, with status 200."""

    def send(self, data: bytes, *, last: bool = False) -> None:
        """Send bytes of a started stream in one write; `last` ends the stream cleanly."""

    def abort(self) -> None:
        """Close the connection at once; bytes that were not sent are lost."""


class Host(Protocol):
    """The interface through which an answer acts on the fleet that runs its sequences."""

    def stop(self, key: int, finish: str) -> None:
        """End the sequence with this key early, for the reason `finish` (stop, abort); an unknown or old key is ignored."""

    def strike(self, rank: int, fault: Fault) -> None:
        """Kill the rank with this number in the fleet now, and the rest of its group now or later, as the fault says."""


class Answer:
    """The answer to one request, built from the tokens of its sequences.

    Args:
        out: connection to the client; its `resumed` is set to `flush`.
        fault: fault that hits this answer; None = no fault.
        rank: number of its rank in the fleet.
        keys: keys by which the host knows its sequences, `asked.n` for each prompt in turn.

    Attributes:
        parts: a `Choice` for each sequence, in the order of `keys`.
        over: True if nothing more will be sent.
        transfer: ``kv_transfer_params`` of an answer that is not streamed, set by the host; empty = null.
    """

    def __init__(
        self,
        asked: EmulatedRequest,
        wording: Wording,
        out: Out,
        host: Host,
        fault: Fault | None,
        rank: int,
        keys: Sequence[int],
    ) -> None:
        self.asked, self.rank, self.transfer = asked, rank, dict[str, Any]()
        self._wording, self._out, self._host, self._fault = wording, out, host, fault
        self._count, self._garbage = 0, b""
        self.over = self._silent = self._begun = False
        out.resumed = self.flush
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
        kind = None if self._fault is None or self._fault.after_tokens else self._fault.fault
        if kind == "status":
            self._status()
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
        if self._fault is not None and self._count > self._fault.after_tokens and self._trips():
            return
        part.ids.append(token)
        part.produced += 1
        if part.stopping is not None:
            shown, stop = part.stopping.feed(tokens.TEXT[token])
            part.text += shown
            if stop is not None:
                part.stop_reason = stop
                if finish is None:
                    self._host.stop(part.key, "stop")
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
        if self._count == 0 and not self._garbage and all(part.finish is None for part in self.parts):
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
        data = events[0] if len(events) == 1 else b"".join(events)
        if data:
            self.over = done
            self._out.send(data, last=done)

    def fail(self, message: str) -> None:
        """End the answer with an error event, or with status 500 and an error object if it is not streamed.

        A stalled answer closes its connection instead. Ignored if the answer is over. The caller ends the sequences.
        """
        if self.over:
            return
        if self._silent:
            self.die()
            return
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

    def _events(self, part: Choice) -> list[bytes]:
        """The events with the new tokens of a sequence, which are then removed from it."""
        if part.stopping is None and len(part.ids) != 1:
            part.text = tokens.text_of(part.ids)
        events = self._wording.events(part)
        part.told = part.finish is not None
        part.ids, part.text, part.prompt = [], "", None
        return events

    def _whole(self) -> bytes:
        """The body of an answer that is not streamed; half of it if the fault is ``cut`` or ``malformed``."""
        for part in self.parts:
            if part.stopping is None:
                part.text = tokens.text_of(part.ids)
        body = self._wording.whole(self.parts, self.transfer or None)
        cut = self._fault is not None and self._fault.fault in ("cut", "malformed")
        return body[: len(body) // 2] if cut else body

    def _trips(self) -> bool:
        """Apply the fault, at the token that it comes with; returns True if it replaces the token."""
        fault = self._fault
        assert fault is not None
        if not self.asked.stream and fault.fault in ("cut", "malformed"):
            return False  # `_whole` applies it
        self._fault = None
        self.flush()
        match fault.fault:
            case "die":
                self._drop()
                self._out.abort()
            case "stall":
                self._silent = True
            case "kill-rank" | "kill-group":
                self._host.strike(self.rank, fault)
            case "cut":
                self._drop()
                self._out.send(b"", last=True)
            case "error-event":
                self._drop(over=False)
                self.fail("the engine was told to fail")
            case "recomputed":
                self._count -= 1  # the token does not come
                for other in self.parts:
                    if other.finish is None:
                        self._host.stop(other.key, "stop")
                        other.finish, other.stop_reason = "stop", "recomputed"
            case "malformed":
                self._garbage = b'data: {"id": "cmpl-malformed", "choices": [{"index": 0, "te\n\n'
                return False
            case _:
                return False
        return True

    def _drop(self, *, over: bool = True) -> None:
        """Abort all sequences at the host, and set the attribute `over` to the argument."""
        self.over = over
        for part in self.parts:
            self._host.stop(part.key, "abort")

    def _status(self) -> None:
        """Send the error response of a ``status`` fault."""
        assert self._fault is not None
        given = {"Retry-After": self._fault.retry_after_s, "Location": self._fault.location}
        headers = [(name, str(value)) for name, value in given.items() if value]
        body = error_body(self._fault.status, "the engine was told to fail") if self._fault.status != 304 else b""
        self._out.reply(self._fault.status, body, JSON, headers)
