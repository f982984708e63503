"""Builds the body sent to an engine: a few members are added, changed or removed; every other byte stays."""

from __future__ import annotations

from evenstep.engines.requests.parsing import ROUTING_FIELDS, GenerationRequest
from evenstep.engines.streams import splice
from evenstep.engines.view import Dialect, UsageOptions
from evenstep.errors import EngineError

#: (usage at the end, usage in every chunk) -> ``stream_options`` of a request that has none.
_OPTIONS = {
    (False, False): b"{}",
    (True, False): b'{"include_usage":true}',
    (False, True): b'{"continuous_usage_stats":true}',
    (True, True): b'{"include_usage":true,"continuous_usage_stats":true}',
}
_PREFILL = b'{"do_remote_decode":true,"do_remote_prefill":false%s}'


def upstream(request: GenerationRequest, dialect: Dialect, *, token_ids: bool = False) -> tuple[bytes, UsageOptions]:
    """The body to send to an engine: the client's own, and if it streams, with options so that the engine reports counts.

    Members that would choose an engine's rank or memory (`ROUTING_FIELDS`) are removed.

    Args:
        token_ids: ask for ids too, so that the answer can be continued exactly; ignored unless the request streams and the
            engine counts (`Dialect.counts`).

    Returns:
        The body, the client's own bytes if nothing has to change; and the options that the body asks for.
    """
    if request.goes_unchanged:
        return request.body, request.asked
    fields, asked, added = request.fields, dialect.given(request.asked), dict[str, bytes]()
    if request.stream and dialect.counts:
        asked = UsageOptions(asked.usage or dialect.usage_needs_final, True, asked.token_ids or token_ids)
        if asked.usage != request.asked.usage or not request.asked.continuous:
            added["stream_options"] = _stream_options(request, asked)
        if asked.token_ids and not request.asked.token_ids:
            added["return_token_ids"] = b"true"
    removed = [name for name in ROUTING_FIELDS if name in fields]
    if removed or not fields.keys().isdisjoint(added):
        return splice.replaced(request.body, {**dict.fromkeys(removed), **added}), asked
    return splice.extended(request.body, added) if added else request.body, asked


def prefill_leg(body: bytes) -> bytes:
    """The body for a prefill engine: the same request, but one choice of one token, no stream, KV kept for a decode engine.

    `body` is a result of `upstream` or a continuation. Prompt ids in its ``kv_transfer_params`` are kept.
    """
    fields = splice.members(body)
    changes: dict[str, bytes | None] = {
        "stream": b"false",
        "max_tokens": b"1",
        "min_tokens": b"1",
        "kv_transfer_params": _PREFILL % _prompt_ids(body, fields),
    }
    changes |= {name: b"1" for name in ("max_completion_tokens", "n", "best_of") if name in fields}
    changes |= dict.fromkeys(("stream_options", "return_token_ids"))  # removed
    return splice.replaced(body, changes, spans=fields)


def decode_leg(body: bytes, handover: bytes) -> bytes:
    """The body for a decode engine: `body`, the argument of `prefill_leg`, with `handover` as its ``kv_transfer_params``.

    `handover` is ``kv_transfer_params`` of the prefill engine's answer, inserted without parsing; prompt ids in that member
    of `body` are appended to it.

    Raises:
        EngineError: `handover` does not begin and end with a brace.
    """
    fields = splice.members(body)
    more = _prompt_ids(body, fields)
    end = handover.rstrip()
    if not end.startswith(b"{") or not end.endswith(b"}"):
        raise EngineError("engine: its prefill answer has no kv_transfer_params; expected an object.")
    if more:
        more = more if end[1:-1].strip() else more[1:]
        handover = end[:-1] + more + b"}"
    return splice.replaced(body, {"kv_transfer_params": handover}, spans=fields)


def _stream_options(request: GenerationRequest, asked: UsageOptions) -> bytes:
    """The JSON of ``stream_options``: those of the client with the options that are `asked` set to true."""
    given = request.value("stream_options")
    if not given:
        return _OPTIONS[asked.usage, asked.continuous]
    wanted = {"include_usage": asked.usage, "continuous_usage_stats": asked.continuous}
    changes = {name: b"true" for name, value in wanted.items() if value}
    return splice.replaced(b"{}" if given == b"null" else given, changes)


def _prompt_ids(body: bytes, fields: dict[str, splice.Span]) -> bytes:
    """``,"prompt_token_ids":[...]`` if the body continues a chat from ids, else empty; `fields` are its `splice.members`."""
    span = fields.get("kv_transfer_params")
    if span is None:
        return b""
    value = body[span[1] : span[2]]
    ids = splice.members(value).get("prompt_token_ids")
    return b"" if ids is None else b',"prompt_token_ids":' + value[ids[1] : ids[2]]
