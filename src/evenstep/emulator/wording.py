"""Writes the bytes of an engine's answers: events of a stream, answers that are not streamed, error objects. No I/O.

An emulator spends most of its time on events, one for each token, so they are filled into a template made once a request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Literal, TypeAlias

import orjson

from evenstep.emulator import tokens
from evenstep.emulator.emulated_request import EmulatedRequest
from evenstep.emulator.stopping import Stopping

Dialect: TypeAlias = Literal["vllm", "sglang"]
#: Media types of answers.
JSON, HTML, EVENTS = "application/json", "text/html; charset=utf-8", "text/event-stream; charset=utf-8"
DONE = b"data: [DONE]\n\n"
#: Placeholder for the log-probability of a chosen token; engines send a number, and clients only pass it on. Each less
#: likely token at its place has 2 less.
LOGPROB = -0.25
_TEXT = tuple(text.encode() for text in tokens.TEXT)
_TYPES = {400: "BadRequestError", 404: "NotFoundError", 413: "RequestEntityTooLarge", 500: "InternalServerError"}


@dataclass(slots=True, eq=False)
class Choice:
    """One sequence of an answer: one for each prompt and each of its ``n`` samples."""

    index: int  # in the answer
    ids: list[int]  # token ids not yet sent; all of them if the answer is not streamed
    text: str = ""  # not yet sent, without stop text and text held back; an event of one id without `stopping` ignores it
    finish: str | None = None  # ``stop`` or ``length``; None while it runs
    stop_reason: str | int | None = None  # the stop text, the id of the stop token, or ``recomputed``; None otherwise
    prompt: list[int] | None = None  # ids of its prompt, if the request asks for them and they were not sent, else None
    prompt_tokens: int = 0
    produced: int = 0  # tokens so far
    key: int = -1  # by which the host knows it
    stopping: Stopping | None = None  # watches for stop texts; None = the request has no stop texts
    told: bool = False  # whether its last event was sent
    offset: int = 0  # characters of its tokens that were sent, for ``text_offset``; counted only for log-probabilities


class Wording:
    """Writes the bytes of the answer to one request, in an engine's dialect; `created` is a Unix time in seconds."""

    def __init__(self, asked: EmulatedRequest, dialect: Dialect, answer_id: str, created: int, model: str) -> None:
        self._asked, self._dialect = asked, dialect
        self._stop_key = "stop_reason" if dialect == "vllm" else "matched_stop"
        kind = "chat.completion" if asked.chat else "text_completion"
        self._head = {"id": answer_id, "object": kind, "created": created, "model": model}
        self._plain = orjson.dumps({**self._head, "object": "chat.completion.chunk" if asked.chat else kind})[:-1]
        head = b"data: " + self._plain.replace(b"%", b"%%") + b',"choices":[{"index":%d,'
        self._template = head + b'%b,"logprobs":%b,"finish_reason":%b%b}]%b}\n\n'
        self._body = b'"delta":{"content":"%b"}' if asked.chat else b'"text":"%b"'
        self._each = asked.usage_each
        self._quiet = b',"usage":null' if dialect == "sglang" and not asked.chat else b""
        self._ids = asked.return_ids and dialect == "vllm"
        self._usual_tail = self._tail(Choice(0, []))

    def events(self, choice: Choice) -> list[bytes]:
        """The events for the unsent tokens of a choice: one, or two at the end of a chat by SGLang; some may be empty."""
        if choice.finish is None or not (self._asked.chat and self._dialect == "sglang"):
            return [self.event(choice)]
        end = {"delta": {}, "logprobs": None, "finish_reason": choice.finish, self._stop_key: choice.stop_reason}
        usage = self._usage_so_far(choice.prompt_tokens, choice.produced)
        text = self.event(replace(choice, finish=None, stop_reason=None))
        return [text, self._textless_event(choice, end, usage)]

    def event(self, choice: Choice) -> bytes:
        """The event for the unsent tokens of a choice; `events` calls it, and adds the second event that ends SGLang's chat.

        It is empty for a choice of a chat that does not end and has nothing to show: no new text, nor a token whose id or
        log-probability is asked for.
        """
        alone = len(choice.ids) == 1 and not self._asked.stop
        text = _TEXT[choice.ids[0]] if alone else orjson.dumps(choice.text)[1:-1]
        body = self._body % text
        if self._asked.chat and not text and choice.finish is None:
            if not (choice.ids and (self._ids or self._asked.logprobs)):
                return b""
            body = b'"delta":{}'
        usual = choice.finish is None and not self._ids
        return self._template % (
            choice.index,
            body,
            orjson.dumps(self._logprobs(choice)) if self._asked.logprobs else b"null",
            b"null" if choice.finish is None else b'"%b"' % choice.finish.encode(),
            self._usual_tail if usual else self._tail(choice),
            self._usage_so_far(choice.prompt_tokens, choice.produced),
        )

    def role_event(self, choice: Choice) -> bytes:
        """The first event of a choice of a chat: the role ``assistant``, without a token."""
        value = {"delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
        tail = self._usage_so_far(choice.prompt_tokens, 0)
        if self._dialect == "vllm":
            tail += b',"prompt_token_ids":%b,"prompt_text":null' % orjson.dumps(choice.prompt)
        return self._textless_event(choice, value, tail)

    def _textless_event(self, choice: Choice, value: dict[str, Any], tail: bytes) -> bytes:
        """An event whose choice has its index and the fields of `value`; `tail` is the text after the choices."""
        shown = orjson.dumps({"index": choice.index, **value})
        return b'data: %b,"choices":[%b]%b}\n\n' % (self._plain, shown, tail)

    def _usage_so_far(self, prompt: int, produced: int) -> bytes:
        """The field ``usage`` of an event: tokens of a choice so far if the request asks for them, else null or no field."""
        if not self._each:
            return self._quiet
        counts = prompt, prompt + produced, produced
        return b',"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d}' % counts

    def _tail(self, choice: Choice) -> bytes:
        """The fields that follow ``finish_reason`` in a choice of an event."""
        stop = f',"{self._stop_key}":'.encode() + orjson.dumps(choice.stop_reason)
        if self._dialect == "sglang":
            return stop
        ids = b',"token_ids":' + (orjson.dumps(choice.ids) if self._ids else b"null")
        if self._asked.chat:
            return (b"" if choice.finish is None else stop) + ids
        return stop + b',"prompt_token_ids":' + orjson.dumps(choice.prompt) + ids

    def usage_event(self, completion_tokens: int) -> bytes:
        """The event with usage and without choices, which precedes `DONE` if the request asks for usage."""
        usage = orjson.dumps(self._usage(completion_tokens))
        return b"data: " + self._plain + b',"choices":[],"usage":' + usage + b"}\n\n"

    def whole(self, choices: Sequence[Choice], transfer: dict[str, Any] | None) -> bytes:
        """The JSON of an answer that is not streamed, from ended choices; `transfer`: ``kv_transfer_params``, vLLM only."""
        completion_tokens = sum(len(choice.ids) for choice in choices)
        value: dict[str, Any] = {**self._head, "choices": [self._whole_choice(choice) for choice in choices]}
        value["usage"] = self._usage(completion_tokens)
        if self._ids and self._asked.chat and choices[0].prompt is not None:
            value["prompt_token_ids"] = choices[0].prompt
        if self._dialect == "vllm":
            value["kv_transfer_params"] = transfer
        return orjson.dumps(value)

    def _usage(self, completion_tokens: int) -> dict[str, int]:
        """A usage object: tokens of the request's prompts, and `completion_tokens` of all choices."""
        prompt = self._asked.prompt_tokens
        total = prompt + completion_tokens
        return {"prompt_tokens": prompt, "total_tokens": total, "completion_tokens": completion_tokens}

    def _whole_choice(self, choice: Choice) -> dict[str, Any]:
        value: dict[str, Any] = {"index": choice.index}
        value |= {"message": {"role": "assistant", "content": choice.text}} if self._asked.chat else {"text": choice.text}
        value["logprobs"] = self._logprobs(choice) if self._asked.logprobs else None
        value |= {"finish_reason": choice.finish, self._stop_key: choice.stop_reason}
        if self._ids:
            value["token_ids"] = choice.ids
            if not self._asked.chat and choice.prompt is not None:
                value["prompt_token_ids"] = choice.prompt
        return value

    def _logprobs(self, choice: Choice) -> dict[str, Any]:
        """The object ``logprobs`` of a choice's unsent tokens, `LOGPROB` each, in the form of a chat or a completion."""
        texts = [tokens.TEXT[i] for i in choice.ids]
        if not self._asked.chat:
            offsets = [*accumulate(map(len, texts), initial=choice.offset)][:-1]
            values = [LOGPROB] * len(texts)
            top = [self._likely(i) for i in choice.ids]
            return {"tokens": texts, "token_logprobs": values, "text_offset": offsets, "top_logprobs": top}
        shown = [[_shown(*one) for one in self._likely(i).items()] for i in choice.ids]
        content = [{**one[0], "top_logprobs": one[: self._asked.top_logprobs]} for one in shown]
        return {"content": content}

    def _likely(self, token: int) -> dict[str, float]:
        """The likeliest tokens in place of a token, text -> log-probability: itself first, others if the request asks."""
        others = (
            tokens.FIRST_WORD + (token - tokens.FIRST_WORD + i) % tokens.WORDS for i in range(1, self._asked.top_logprobs)
        )
        return {tokens.TEXT[one]: LOGPROB - 2 * i for i, one in enumerate((token, *others))}


def _shown(text: str, logprob: float) -> dict[str, Any]:
    """A token with its log-probability, as a chat has it."""
    return {"token": text, "logprob": logprob, "bytes": list(text.encode())}


def error_body(status: int, message: str, param: str | None = None) -> bytes:
    """The JSON of an OpenAI error object; its ``code`` is the status, its ``param`` the name of the invalid field."""
    kind = _TYPES.get(status, "BadRequestError" if status < 500 else "ServiceUnavailableError")
    return orjson.dumps({"error": {"message": message, "type": kind, "param": param, "code": status}})


def error_event(message: str) -> bytes:
    """The event of a stream that fails: an error object with status 500."""
    return b"data: " + error_body(500, message) + b"\n\n"


def models_body(model: str, longest: int, created: int) -> bytes:
    """The JSON of ``/v1/models`` with one model; `longest` is its ``max_model_len``, `created` a Unix time in seconds."""
    one = {"id": model, "object": "model", "created": created, "owned_by": "evenstep", "root": model}
    return orjson.dumps({"object": "list", "data": [{**one, "parent": None, "max_model_len": longest}]})
