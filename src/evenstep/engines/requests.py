"""What a router reads of a client's request: who may answer it, how much it asks for, how its prompt begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from evenstep.engines import splice
from evenstep.engines.view import Asked
from evenstep.errors import InputError

#: Completions that take no ``max_tokens`` produce this many, as OpenAI's and vLLM's do.
DEFAULT_COMPLETION_TOKENS = 16
#: Headers that name a session, the first that is there.
SESSION_HEADERS = ("x-evenstep-session", "x-session-id")

Kind = Literal["chat", "completions", "other"]
_PATHS: dict[str, Kind] = {"/v1/chat/completions": "chat", "/v1/completions": "completions"}
_WHERE = "request"


@dataclass(frozen=True, slots=True, eq=False)
class GenerationRequest:
    """A request for tokens.

    Args:
        kind: ``chat`` or ``completions``.
        body: as the client sent it.
        fields: where each member of the body lies.
        model: the model asked for.
        stream: whether the answer is a stream.
        prompts: prompts of the body; more than one only in completions.
        n: answers the client gets for each prompt.
        slots: sequences the engine runs at once: the larger of n and best_of, for each prompt.
        max_tokens: output tokens of one sequence at most; -1 where only the context limits it.
        min_tokens: output tokens of one sequence at least.
        prompt: bytes of the prompt: the value of ``prompt`` or ``messages``.
        prompt_tokens: where the prompt came as ids, their number; else -1.
        user, session: keys that may pin a request to where its like went; empty where not given.
        asked: what is to be told beside the text.
    """

    kind: Literal["chat", "completions"]
    body: bytes
    fields: Mapping[str, splice.Span]
    model: str
    stream: bool
    prompts: int
    n: int
    slots: int
    max_tokens: int
    min_tokens: int
    prompt: bytes
    prompt_tokens: int
    user: str
    session: str
    asked: Asked

    @property
    def chat(self) -> bool:
        """Whether it is a chat."""
        return self.kind == "chat"

    def value(self, name: str) -> bytes:
        """The bytes of one member; empty where it is not there."""
        span = self.fields.get(name)
        return b"" if span is None else self.body[span[1] : span[2]]


class _StreamOptions(msgspec.Struct):
    include_usage: bool | None = False
    continuous_usage_stats: bool | None = False


def kind_of(method: str, target: str) -> Kind:
    """Whether a request generates tokens, and how; everything else is passed on and not counted."""
    return _PATHS.get(target.partition("?")[0], "other") if method == "POST" else "other"


def read_request(
    kind: Kind,
    body: bytes,
    headers: Mapping[str, str] | None = None,
    *,
    max_slots: int = 128,
    session_headers: Sequence[str] = SESSION_HEADERS,
) -> GenerationRequest:
    """Read a request for tokens.

    Args:
        kind: of `kind_of`, not ``other``.
        body: a JSON object.
        headers: the client's, names in lower case.
        max_slots: slots one request may take.
        session_headers: see `SESSION_HEADERS`.

    Raises:
        InputError: not UTF-8, not a JSON object, a key twice, or a field that is missing or of no use.
    """
    if kind == "other":
        raise ValueError("only requests for tokens are read")
    if not body.isascii():
        try:
            body.decode()
        except UnicodeDecodeError as error:
            raise InputError(_WHERE, "body", f"byte {error.start}", "UTF-8") from None
    fields = splice.members(body, _WHERE)
    read = _Reader(body, fields)
    model = read.text("model")
    if not model:
        raise InputError(_WHERE, "model", "missing", "the name of a model")
    prompt = read.raw("messages" if kind == "chat" else "prompt")
    prompts, prompt_tokens = _messages(prompt) if kind == "chat" else _prompts(prompt)
    n = read.count("n", 1, least=1)
    best_of = n if kind == "chat" else read.count("best_of", n, least=1)
    if best_of < n:
        raise InputError(_WHERE, "best_of", best_of, f"an integer >= n, {n}")
    slots = best_of * prompts
    if slots > max_slots:
        raise InputError(_WHERE, "n", slots, f"at most {max_slots} sequences in one request")
    max_tokens = read.count("max_completion_tokens", -1, least=1) if kind == "chat" else -1
    if max_tokens < 0:
        least = 1 if kind == "chat" else 0  # completions may ask for the echo of a prompt alone
        max_tokens = read.count(
            "max_tokens", -1 if kind == "chat" else DEFAULT_COMPLETION_TOKENS, least=least
        )
    options = read.convert("stream_options", _StreamOptions, "an object") or _StreamOptions()
    usage = bool(options.include_usage)
    sent = headers or {}
    return GenerationRequest(
        kind=kind,
        body=body,
        fields=fields,
        model=model,
        stream=read.flag("stream"),
        prompts=prompts,
        n=n,
        slots=slots,
        max_tokens=max_tokens,
        min_tokens=read.count("min_tokens", 0, least=0),
        prompt=prompt,
        prompt_tokens=prompt_tokens,
        user=read.text("user"),
        session=next((sent[name] for name in session_headers if sent.get(name)), ""),
        asked=Asked(usage, usage and bool(options.continuous_usage_stats), read.flag("return_token_ids")),
    )


class _Reader:
    """Fields of a body with their types; null is as good as absent."""

    def __init__(self, body: bytes, fields: Mapping[str, splice.Span]) -> None:
        self._body, self._fields = body, fields

    def raw(self, name: str) -> bytes:
        span = self._fields.get(name)
        return b"" if span is None else self._body[span[1] : span[2]]

    def convert(self, name: str, kind: Any, expected: str) -> Any:
        raw = self.raw(name)
        if not raw or raw == b"null":
            return None
        try:
            return msgspec.json.decode(raw, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise InputError(_WHERE, name, raw[:40].decode("utf-8", "replace"), expected) from None

    def text(self, name: str) -> str:
        return self.convert(name, str, "text") or ""

    def flag(self, name: str) -> bool:
        return bool(self.convert(name, bool, "true or false"))

    def count(self, name: str, default: int, least: int) -> int:
        found = self.convert(name, int, f"an integer >= {least}")
        if found is None:
            return default
        if not least <= found < 2**31:
            raise InputError(_WHERE, name, found, f"an integer >= {least}")
        return found


def _messages(raw: bytes) -> tuple[int, int]:
    if not raw.startswith(b"[") or not raw[1:].lstrip(b" \t\r\n").startswith(b"{"):
        raise InputError(
            _WHERE, "messages", raw[:40].decode("utf-8", "replace") or "missing", "a list of messages"
        )
    return 1, -1


def _prompts(raw: bytes) -> tuple[int, int]:
    """How many prompts there are, and their tokens where they are ids."""
    if raw.startswith(b'"'):
        return 1, -1
    start = raw[1:].lstrip(b" \t\r\n")[:1]
    if raw.startswith(b"[") and start.isdigit():
        return 1, raw.count(b",") + 1
    if raw.startswith(b"[") and start == b'"':
        return len(splice.items(raw)), -1
    if raw.startswith(b"[") and start == b"[":
        rows = splice.items(raw)
        if all(row[1:].lstrip(b" \t\r\n")[:1].isdigit() for row in rows):
            return len(rows), raw.count(b",") + 1
    shown = raw[:40].decode("utf-8", "replace") or "missing"
    raise InputError(_WHERE, "prompt", shown, "text, a list of token ids, or a list of prompts")
