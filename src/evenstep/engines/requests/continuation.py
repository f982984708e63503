"""Continues a broken answer on another engine: the body that asks for the rest, or the reason why that is impossible.

The text the client has becomes part of the prompt, and the token limits shrink by it. With ids that is exact: the next
token is drawn from the same distribution, and with temperature 0 it is the same token. Some requests cannot be joined:
state that an engine keeps over the output alone (penalties, a seeded draw, a grammar, an open tool call) starts again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from evenstep.engines.requests.parsing import GenerationRequest
from evenstep.engines.streams import splice
from evenstep.engines.streams.usage import SoFar
from evenstep.engines.view import Dialect

#: Members that require an output form; an engine would apply it to the rest alone.
_FORMS = (
    *("response_format", "structured_outputs", "regex", "ebnf", "json_schema"),
    *("guided_json", "guided_regex", "guided_choice", "guided_grammar"),
)
_LOGPROBS = ("logprobs", "top_logprobs", "prompt_logprobs")
_WHOLE = ("echo", "suffix", "use_beam_search", "truncate_prompt_tokens", "prompt_embeds")
_PENALTIES = ("frequency_penalty", "presence_penalty")
#: Types of text parts in a message. A part with one of the members below is more than text, of any type.
_TEXTS = frozenset((b'"text"', b'"input_text"', b'"output_text"', b'"refusal"', b'"thinking"', b'"tool_reference"'))
_MEDIA = frozenset(
    (
        *("image_url", "image_embeds", "image_pil", "input_image", "audio_url", "audio_embeds", "input_audio"),
        *("video_url", "video_embeds", "prompt_embeds"),
    )
)
#: All members that may forbid continuing.
_HINDERING = frozenset((*_FORMS, *_LOGPROBS, *_WHOLE, *_PENALTIES, "seed", "tools"))


class _Message(msgspec.Struct, gc=False):
    content: msgspec.Raw = msgspec.Raw(b"null")


_MESSAGES, _PARTS = msgspec.json.Decoder(list[_Message]), msgspec.json.Decoder(list[dict[str, msgspec.Raw] | str])
_TEXT, _LIST = msgspec.Raw(b'"text"'), ord("[")


@dataclass(frozen=True, slots=True)
class Continuation:
    """How to continue an answer."""

    body: bytes  # for the next engine; empty if the answer cannot continue, or if only its end is missing (`spent`)
    why_not: str  # the reason why it cannot continue, as a clause; empty if it can
    #: token ids from which the next engine continues, as a JSON list: the rest is drawn as in an unbroken answer. Empty if
    #: it starts anew, or continues from text, which is joined without that guarantee.
    ids: bytes = b""
    is_engines: bool = False  # True if the reason lies with this engine: another one may be able to continue

    @property
    def spent(self) -> bool:
        """True if every requested token has been produced, so that only the end of the answer is missing."""
        return not self.body and not self.why_not


def continuation(request: GenerationRequest, body: bytes, before: SoFar, dialect: Dialect) -> Continuation:
    """The `Continuation` of an answer after the part that the client has.

    Args:
        body: the body sent to the failed engine, of `bodies.upstream` (before any prefill or decode leg).
        before: of `ReplyStream.so_far`.

    Returns:
        If no token was produced, `body` unchanged. Else a body whose prompt (for a chat, whose ids in
        ``kv_transfer_params``) is the prompt with the answer so far, and whose token limits are lower by the tokens
        produced. With an empty body, `why_not` says why the answer cannot continue, or is empty if no token is left.
    """
    if before.produced == 0:
        return Continuation(body, "")
    if why_not := _hindrance(request, before.plain):
        return Continuation(b"", why_not)
    if before.bundled and request.max_tokens >= 0:
        why_not = "the engine sent several tokens at a time without counting them, so what is left of the limit is unknown"
        return Continuation(b"", why_not)
    changes = _limits(request, before.produced)
    if changes is None:
        return Continuation(b"", "")
    if not request.chat and not dialect.completions_go_on:
        return Continuation(b"", "the engine answers a continued completion from the start", is_engines=True)
    stop, ids = _is_set(request, "stop"), b""
    if before.prompt_ids and before.ids and not stop:
        ids = before.prompt_ids.rstrip()[:-1] + b"," + msgspec.json.encode(before.ids)[1:]
    if request.chat:
        if not (ids and dialect.chat_from_ids):
            return Continuation(b"", _chat_hindrance(bool(stop), dialect), is_engines=bool(ids))
        changes["kv_transfer_params"] = b'{"prompt_token_ids":' + ids + b"}"
    elif ids:
        changes["prompt"] = ids
    elif before.text and (text := _text(request.prompt)) is not None:
        changes["prompt"] = msgspec.json.encode(text + before.text)
    elif stop:
        return Continuation(b"", "its stop strings hold text back, so its token ids cannot be joined")
    else:
        lacking = "its prompt came as token ids" if before.text else "no text of the answer has come"
        return Continuation(b"", f"{lacking}, and the engine told no ids of the answer")
    return Continuation(splice.replaced(body, changes), "", ids)


def goes_on(given: bytes, told: bytes, prompt_tokens: int) -> bool | None:
    """True if an engine continues from the token ids it was given; None if it reports neither ids nor their number.

    Args:
        given: the ids sent to the engine, as a JSON list.
        told: the prompt's ids that the engine reports, a JSON list; empty = not reported, and the numbers are compared.
        prompt_tokens: number of prompt tokens that the engine reports; -1 = not reported.
    """
    if told:
        return _packed(told) == _packed(given)
    return None if prompt_tokens < 0 else prompt_tokens == given.count(b",") + 1


def is_longer(before: SoFar, told: bytes, prompt_tokens: int) -> bool | None:
    """True if an engine reports a longer prompt than the client's: it continues the appended text. None if unknown.

    `before` has the length of the client's prompt. `told` is the JSON list of prompt ids that the engine reports. If it
    is empty, the engine's own count `prompt_tokens` is used (-1 = not reported).
    """
    tokens = told.count(b",") + 1 if told else prompt_tokens
    clients = before.prompt_ids.count(b",") + 1 if before.prompt_ids else before.prompt_tokens
    return None if tokens < 0 or clients < 0 else tokens > clients


def _packed(ids: bytes) -> bytes:
    """A JSON list of ids without white space."""
    return bytes(ids).translate(None, b" \t\r\n")


def _text(prompt: bytes) -> str | None:
    """A prompt that is text, alone or the first of a list; None if it is ids."""
    try:
        found = msgspec.json.decode(prompt, type=str | list[str])
    except msgspec.ValidationError:
        return None
    return found if isinstance(found, str) else found[0]


def can_break(request: GenerationRequest) -> bool:
    """True if the request itself allows a broken answer to be continued; only then are token ids worth asking for.

    False for several choices, log probabilities, ``echo``, ``suffix``, beam search, a prompt to truncate or as embeddings,
    messages with more than text, penalties, a seeded draw, tools it may use or a required output form.
    """
    if request.slots == 1 and request.fields.keys().isdisjoint(_HINDERING):
        return not (request.chat and _has_media(request.prompt))
    return not _hindrance(request)


def _hindrance(request: GenerationRequest, plain: bool = True) -> str:
    """A clause on why the request, or an answer that is not `plain` (`SoFar`), forbids continuing; empty if none does."""
    if request.slots > 1:
        return "it has several choices"
    if not plain:
        return "it has more than text (a tool call or reasoning)"
    for name in _LOGPROBS:
        value = _given(request, name)
        if value is not None and value is not False:  # 0 asks for that of the chosen token alone
            return "log probabilities were asked for"
    for name in _WHOLE:
        if _is_set(request, name):
            return f"the request has {name}"
    for name in _PENALTIES:
        if _is_set(request, name):
            return f"the request has a {name}, which counts the answer's tokens alone"
    if _given(request, "seed") is not None and _given(request, "temperature") != 0:
        return "the request draws with a seed, which would start again"
    for name in _FORMS:
        if _is_set(request, name) and _given(request, name) != {"type": "text"}:
            return f"the request has {name}, which would start again"
    if _is_set(request, "tools") and _given(request, "tool_choice") != "none":
        return "the request has tools"
    if request.chat and _has_media(request.prompt):
        return "its messages have more than text, and an engine that is given token ids would not see that"
    return ""


def _has_media(messages: msgspec.Raw) -> bool:
    """True if a part of a message is not text: a picture or a sound, for example. vLLM ignores token ids then."""
    try:
        contents = [one.content for one in _MESSAGES.decode(messages) if memoryview(one.content)[0] == _LIST]
        parts = [part for content in contents for part in _PARTS.decode(content) if not isinstance(part, str)]
    except (msgspec.MsgspecError, RecursionError):  # the engine judges them
        return True
    return any(bytes(part.get("type", _TEXT)) not in _TEXTS or not part.keys().isdisjoint(_MEDIA) for part in parts)


def _chat_hindrance(stop: bool, dialect: Dialect) -> str:
    """A clause on why a chat cannot be continued from ids; `stop`: it has stop strings."""
    if stop:
        return "a chat with stop strings cannot be joined, since the engine holds text back"
    if not dialect.chat_from_ids:
        return "the engine cannot continue a chat from token ids"
    return "the engine told no token ids"


def _limits(request: GenerationRequest, produced: int) -> dict[str, bytes | None] | None:
    """The members for token limits, reduced by `produced`, as JSON by name; None if no token is left to produce."""
    changes: dict[str, bytes | None] = {}
    if request.max_tokens >= 0:
        left = request.max_tokens - produced
        if left <= 0:
            return None
        names = [n for n in ("max_completion_tokens", "max_tokens") if _given(request, n) is not None]
        changes |= dict.fromkeys(names or ["max_tokens"], b"%d" % left)
    if request.min_tokens:
        changes["min_tokens"] = b"%d" % max(0, request.min_tokens - produced)
    return changes


def _given(request: GenerationRequest, name: str) -> Any:
    """The parsed value of a member of the body; None if it is absent or null."""
    raw = request.value(name)
    try:
        return msgspec.json.decode(raw) if raw else None
    except (msgspec.MsgspecError, RecursionError):  # a number like 1e999, or nested too deep: the engine judges it
        return raw


def _is_set(request: GenerationRequest, name: str) -> bool:
    """True if a member of the body has a value other than null, false, 0 or an empty one."""
    return bool(_given(request, name))
