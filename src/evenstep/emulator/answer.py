"""One HTTP answer under construction: tokens in, bytes out, and the faults injected in mid-stream."""

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
    """The connection that an answer is written to.

    It is `paused` while the client does not read. When the client reads again, it calls `resumed`.
    """

    paused: bool
    resumed: Callable[[], None] | None  # called when the client reads again

    @property
    def reached(self) -> str:
        """The address of this machine that the client reached."""
        ...

    def reply(self, status: int, body: bytes, kind: str = JSON, headers: Sequence[tuple[str, str]] = ()) -> None:
        """Send a whole answer: status, body of media type `kind`, and further header fields."""

    def start(self) -> None:
        """Send the head of a stream, with status 200."""

    def send(self, data: bytes, *, last: bool = False) -> None:
        """Send bytes of a started stream in one write; `last` ends the stream cleanly."""

    def abort(self) -> None:
        """Close the connection at once; bytes that were not sent are lost."""


class Host(Protocol):
    """Runs the sequences of an answer."""

    def stop(self, key: int, finish: str) -> None:
        """Stop a sequence, whose further tokens are not wanted; `finish` is counted as the reason (stop, abort).

        A key that is unknown, or whose sequence has ended, changes nothing.
        """

    def strike(self, rank: int, fault: Fault) -> None:
        """Kill the rank with this number in the fleet, or its group, as the fault says."""


class Answer:
    """One answer to a request, under construction.

    Args:
        out: the client's connection; its `resumed` is set to `flush`.
        fault: strikes it; None = none.
        rank: number of its rank in the fleet.
        keys: names of its sequences towards the host, `asked.n` for each prompt in turn.

    Attributes:
        parts: its sequences, in the order of `keys`.
        over: whether nothing more is sent.
        transfer: ``kv_transfer_params`` that a whole answer shows; empty = null.
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
        """Send the head of a stream, or a fault that strikes before any token. Call it first.

        Returns:
            False if the answer is over, so that no sequence is to be run for it.
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
        """Take the next token of a sequence, to be sent by `flush`; `finish` is set with the last one.

        `finish` is ``stop`` or ``length``, else None. A complete stop text ends the sequence, also at the host. The fault
        may strike in place of the token.
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
        """Send the new text of a stream in one write, or a whole answer once it is complete.

        While the client of a stream does not read, nothing is sent; the text comes later, in fewer events.
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
        """Fail the answer: send an error event, or status 500 with an error object if it does not stream.

        A stalled answer breaks its connection instead; one that is over stays as it is.
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
        """Break the connection, as when the process that answers is gone; nothing happens if the answer is over."""
        if not self.over:
            self.over = True
            self._out.abort()

    def _events(self, part: Choice) -> list[bytes]:
        if part.stopping is None and len(part.ids) != 1:
            part.text = tokens.text_of(part.ids)
        events = self._wording.events(part)
        part.told = part.finish is not None
        part.ids, part.text, part.prompt = [], "", None
        return events

    def _whole(self) -> bytes:
        for part in self.parts:
            if part.stopping is None:
                part.text = tokens.text_of(part.ids)
        body = self._wording.whole(self.parts, self.transfer or None)
        cut = self._fault is not None and self._fault.fault in ("cut", "malformed")
        return body[: len(body) // 2] if cut else body

    def _trips(self) -> bool:
        """Apply the fault in place of a token; False if the token still comes."""
        fault = self._fault
        assert fault is not None
        if not self.asked.stream and fault.fault in ("cut", "malformed"):
            return False  # the body will show it
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
        self.over = over
        for part in self.parts:
            self._host.stop(part.key, "abort")

    def _status(self) -> None:
        assert self._fault is not None
        given = {"Retry-After": self._fault.retry_after_s, "Location": self._fault.location}
        headers = [(name, str(value)) for name, value in given.items() if value]
        body = error_body(self._fault.status, "the engine was told to fail") if self._fault.status != 304 else b""
        self._out.reply(self._fault.status, body, JSON, headers)
