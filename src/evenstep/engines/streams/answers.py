"""Parses answers that do not stream, and the hand-over of a prefill engine."""

from __future__ import annotations

import msgspec

from evenstep.engines.streams.chunks import GAVE_UP, Tokens
from evenstep.errors import EngineError


class Answer(msgspec.Struct, frozen=True, gc=False):
    """An answer that did not stream."""

    prompt_tokens: int  # as the engine counts them; -1 if it does not report them
    produced: int  # output tokens of all choices; -1 if the engine does not report them
    recomputed: bool  # the engine hands the request back, to be run elsewhere; the client must not get this answer


class _Choice(msgspec.Struct, gc=False):
    finish_reason: str | None = None
    stop_reason: int | str | None = None


class _Usage(msgspec.Struct, gc=False):
    prompt_tokens: Tokens = -1
    completion_tokens: Tokens | None = -1


class _Body(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    kv_transfer_params: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()


_BODY = msgspec.json.Decoder(_Body)


def read_answer(body: bytes, finish_reasons: bool = True, hands_back: bool = True) -> Answer:
    """Parse and check an answer with status 200; its token counts are those in the engine's ``usage``.

    Args:
        finish_reasons: every choice must have a finish_reason (`Dialect.finish_reasons`).
        hands_back: a finish_reason or stop_reason ``recomputed`` hands the request back; False = it is only a stop string.

    Raises:
        EngineError: not JSON, cut off, an error object, no choices, or a choice that ends with ``abort`` or ``error``, or
            lacks the finish_reason it must have. If the engine hands one choice back, the others do not raise.
    """
    read = _read(body)
    if not read.choices:
        raise EngineError("engine: its answer has no choices.")
    again, bad = False, None
    for choice in read.choices:
        reason = choice.finish_reason
        if hands_back and "recomputed" in (reason, choice.stop_reason):
            again = True
        elif reason in GAVE_UP or (finish_reasons and not reason):
            bad = choice
    if bad is not None and not again:
        raise EngineError(f"engine: a choice has finish_reason {bad.finish_reason!r}; expected its end.")
    usage = read.usage
    if usage is None:
        return Answer(-1, -1, again)
    produced = usage.completion_tokens
    return Answer(usage.prompt_tokens, -1 if produced is None else produced, again)


def read_prefilled(body: bytes) -> tuple[int, bytes]:
    """Parse the answer of the prefill leg; an `EngineError` if it has no object ``kv_transfer_params``.

    Returns the prompt's tokens, -1 if the engine does not report them, and that object's JSON, for `bodies.decode_leg`.
    """
    read = _read(body)
    handover = bytes(read.kv_transfer_params)
    if not handover.startswith(b"{"):
        raise EngineError("engine: its prefill answer has no kv_transfer_params; expected an object.")
    return -1 if read.usage is None else read.usage.prompt_tokens, handover


def _read(body: bytes) -> _Body:
    """Parse an answer; an `EngineError` if it is not JSON or an error object."""
    try:
        if not body.isascii():  # skipped texts are not validated either
            body.decode()
        read = _BODY.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise EngineError(f"engine: its answer cannot be read; expected JSON. {error}.") from None
    if read.error and bytes(read.error) != b"null":
        raise EngineError("engine: its answer is an error object.")
    return read
