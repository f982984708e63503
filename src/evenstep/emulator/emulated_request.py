"""Parses the body of a client's completion or chat request, and rejects wrong values of the fields that it uses.

Fields that the emulator does not use (e.g. sampling, tools, penalties) are accepted and ignored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from evenstep.emulator import tokens
from evenstep.errors import EvenstepError, InputError
from evenstep.request import I8

_MOST_LOGPROBS = 20  # vLLM's --max-logprobs
_GREEDY = 1e-5  # temperature below which vLLM takes the likeliest token


class RefusedError(EvenstepError):
    """A refused request: the engine answers with this HTTP status and an error object; `param` names the wrong field."""

    def __init__(self, status: int, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.param = status, message, param


class _StreamOptions(msgspec.Struct):
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class _Message(msgspec.Struct):
    role: str
    content: str | list[dict[str, Any]] | None = None


class _Body(msgspec.Struct, kw_only=True):
    model: str | None = None
    n: int | None = 1
    stream: bool | None = False
    stream_options: _StreamOptions | None = None
    max_tokens: int | msgspec.UnsetType | None = msgspec.UNSET
    min_tokens: int | None = 0
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool | None = False
    temperature: float | None = None
    seed: int | None = None
    return_token_ids: bool | None = False
    kv_transfer_params: dict[str, Any] | None = None
    data_parallel_rank: int | None = None
    routed_dp_rank: int | None = None


class _Completion(_Body):
    prompt: str | list[str | int | list[int]]
    logprobs: int | None = None
    echo: bool | None = False
    best_of: int | None = None


class _Chat(_Body):
    messages: list[_Message]
    max_completion_tokens: int | None = None
    logprobs: bool | None = False
    top_logprobs: int | None = 0
    add_generation_prompt: bool = True
    continue_final_message: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class EmulatedRequest:
    """A parsed completion or chat request. Its answer has `n` sequences for each prompt."""

    chat: bool
    prompts: tuple[I8, ...]  # int64 token ids of each prompt; no prompt is empty
    n: int
    max_tokens: tuple[int, ...]  # most output tokens of a sequence of each prompt
    min_tokens: int  # output tokens before which a sequence does not end, neither by itself nor by `stop` or `stop_ids`
    stream: bool
    usage_last: bool  # whether a stream reports usage in a last event
    usage_each: bool  # whether a stream reports the usage so far in each event
    stop: tuple[str, ...]  # texts that end a sequence
    stop_ids: frozenset[int]  # token ids that end a sequence
    ends: bool  # whether the model may end a sequence by itself (no ``ignore_eos``)
    seed: int | None  # seed of sampled answers; None = greedy
    logprobs: bool  # whether the answer has log-probabilities
    top_logprobs: int  # tokens at each place that have one
    return_ids: bool
    transfer: dict[str, Any]  # ``kv_transfer_params`` as received; empty if the body has no such member
    rank: int | None  # rank that the body names, from 0 among those of the port; None if it names no rank

    @property
    def prompt_tokens(self) -> int:
        """Number of tokens of all prompts. Each prompt counts once; `n` does not matter."""
        return sum(int(prompt.size) for prompt in self.prompts)

    @property
    def leaves_kv(self) -> bool:
        """True for a prefill leg, whose KV another engine will fetch."""
        return self.transfer.get("do_remote_decode") is True

    @property
    def brings_kv(self) -> bool:
        """True for a decode leg, whose KV is at another engine."""
        return self.transfer.get("do_remote_prefill") is True


def asked(body: bytes, *, chat: bool, model: str, longest: int, sglang: bool = False) -> EmulatedRequest:
    """Parse the body of a chat or completion request; a wrong body, or another model's name, raises `RefusedError`.

    Prompt and answer together have `longest` tokens at most. As in SGLang (`sglang`), ``continuous_usage_stats`` works
    without ``include_usage``; ``stream_options`` without ``stream``, several greedy answers, and any number of likely tokens
    are not refused as by vLLM.
    """
    kind = _Chat if chat else _Completion
    try:
        read = msgspec.json.decode(body, type=kind, strict=False)  # as pydantic, which takes 16.0
    except msgspec.ValidationError as error:
        _, _, place = str(error).partition(" - at `$")
        raise RefusedError(400, str(error), place.strip(".`") or None) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RefusedError(400, f"The body is not JSON: {error}") from None
    if read.model is not None and read.model != model:
        raise RefusedError(404, f"The model `{read.model}` does not exist.", "model")
    try:
        prompts = _chat_prompt(read) if isinstance(read, _Chat) else _prompts(read)
    except (InputError, msgspec.ValidationError) as error:
        raise RefusedError(400, str(error), "prompt") from None
    _check(read, prompts, sglang)
    top_logprobs = _top_logprobs(read, sglang)
    options = read.stream_options or _StreamOptions()
    max_tokens = tuple(_max_tokens(read, int(prompt.size), longest, sglang) for prompt in prompts)
    if (read.min_tokens or 0) > min(max_tokens):
        said = f"min_tokens must be less than or equal to max_tokens={min(max_tokens)}, got {read.min_tokens}."
        raise RefusedError(400, said, "min_tokens")
    return EmulatedRequest(
        chat=chat,
        prompts=prompts,
        n=read.n or 1,
        max_tokens=max_tokens,
        min_tokens=read.min_tokens or 0,
        stream=bool(read.stream),
        usage_last=bool(options.include_usage),
        usage_each=bool(options.continuous_usage_stats) and (sglang or bool(options.include_usage)),
        stop=(read.stop,) if isinstance(read.stop, str) else tuple(read.stop or ()),
        stop_ids=frozenset(read.stop_token_ids or ()),
        ends=not read.ignore_eos,
        seed=None if read.temperature is not None and read.temperature < _GREEDY else read.seed,
        logprobs=read.logprobs is not None and read.logprobs is not False,
        top_logprobs=top_logprobs,
        return_ids=bool(read.return_token_ids),
        transfer=read.kv_transfer_params or {},
        rank=read.data_parallel_rank if read.routed_dp_rank is None else read.routed_dp_rank,
    )


def _check(read: _Completion | _Chat, prompts: tuple[I8, ...], sglang: bool) -> None:
    """Raise `RefusedError` if a field is out of range, out of place or not emulated, or if a prompt has no tokens."""
    if read.n is not None and not 1 <= read.n <= 128:
        raise RefusedError(400, f"n must be in 1..128, got {read.n}.", "n")
    if read.temperature is not None and read.temperature < _GREEDY and (read.n or 1) > 1 and not sglang:
        raise RefusedError(400, f"n must be 1 when using greedy sampling, got {read.n}.", "n")
    if read.min_tokens is not None and read.min_tokens < 0:
        raise RefusedError(400, f"min_tokens must be >= 0, got {read.min_tokens}.", "min_tokens")
    if read.stream_options not in (None, _StreamOptions()) and not (read.stream or sglang):
        raise RefusedError(400, "Stream options can only be defined when `stream=True`.", "stream_options")
    if not prompts or any(prompt.size == 0 for prompt in prompts):
        raise RefusedError(400, "The prompt has no tokens.", "prompt")
    if read.stop == "" or "" in (read.stop if isinstance(read.stop, list) else ()):
        raise RefusedError(400, "stop cannot contain an empty string.", "stop")
    if isinstance(read, _Completion) and read.echo:
        raise RefusedError(400, "echo is not emulated.", "echo")
    if isinstance(read, _Completion) and read.best_of is not None and read.best_of != (read.n or 1):
        raise RefusedError(400, "best_of other than n is not emulated.", "best_of")


def _top_logprobs(read: _Completion | _Chat, sglang: bool) -> int:
    """How many tokens at each place are wanted with their log-probabilities; out of vLLM's bounds, `RefusedError`.

    SGLang has no bounds, and ignores ``top_logprobs`` without ``logprobs``.
    """
    name = "top_logprobs" if isinstance(read, _Chat) else "logprobs"
    count = (read.top_logprobs if isinstance(read, _Chat) else read.logprobs) or 0
    if sglang:
        return max(0, min(count, tokens.WORDS))
    if not 0 <= count <= _MOST_LOGPROBS:
        raise RefusedError(400, f"{name} must be in 0..{_MOST_LOGPROBS}, got {count}.", name)
    if count and not read.logprobs:
        raise RefusedError(400, "when using `top_logprobs`, `logprobs` must be set to true.", name)
    return count


def _prompts(read: _Completion) -> tuple[I8, ...]:
    """Token ids of each prompt of a completion: it has one text, one list of ids, or a list of texts and lists of ids."""
    given = read.prompt
    if isinstance(given, str):
        return (np.array(tokens.tokenise(given), np.int64),)
    single = [one for one in given if isinstance(one, int)]
    if len(single) == len(given):
        return (tokens.ids_of(single, "prompt"),)
    if single:
        raise RefusedError(400, "A list of prompts holds texts or lists of token ids.", "prompt")
    many = [tokens.tokenise(one) if isinstance(one, str) else one for one in given]
    return tuple(tokens.ids_of(one, "prompt") for one in many if not isinstance(one, int))


def _chat_prompt(read: _Chat) -> tuple[I8, ...]:
    """Token ids of a chat as one prompt: those in ``kv_transfer_params.prompt_token_ids``, else of the rendered text."""
    given = (read.kv_transfer_params or {}).get("prompt_token_ids")
    if given is not None:
        return (tokens.ids_of(msgspec.convert(given, list[int]), "prompt_token_ids"),)
    if not read.messages:
        return ()
    texts = [f" <{one.role}>{_content(one)}" for one in read.messages]
    if read.add_generation_prompt and not read.continue_final_message:
        texts.append(" <assistant>")
    return (np.array(tokens.tokenise("".join(texts)), np.int64),)


def _content(message: _Message) -> str:
    """Text of a message; parts other than text raise `RefusedError`."""
    if message.content is None or isinstance(message.content, str):
        return message.content or ""
    parts = [part.get("text") for part in message.content]
    if not all(isinstance(part, str) for part in parts):
        raise RefusedError(400, "Only text parts are emulated.", "messages")
    return "".join(map(str, parts))


def _max_tokens(read: _Completion | _Chat, size: int, longest: int, sglang: bool) -> int:
    """Most output tokens for a prompt of `size` tokens. Without a limit: what fits, or 16 if a completion does not name it.

    A limit < 1, and a limit or prompt above `longest`, raise `RefusedError`. If only both together are above it, the answer
    gets what is left, as in vLLM; SGLang refuses that, too.
    """
    wish = read.max_tokens
    if isinstance(read, _Chat) and read.max_completion_tokens is not None:
        wish = read.max_completion_tokens
    left = longest - size
    if wish is None or wish is msgspec.UNSET:
        wish = max(1, left) if wish is None or isinstance(read, _Chat) else min(16, max(1, left))
    if wish < 1:
        raise RefusedError(400, f"max_tokens must be at least 1, got {wish}.", "max_tokens")
    if left < 1 or wish > (left if sglang else longest):
        said = f"This model's maximum context length is {longest} tokens; the request asks for {size + wish} "
        raise RefusedError(400, f"{said}({size} in the prompt, {wish} for the answer).", "max_tokens")
    return min(wish, left)
