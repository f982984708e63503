"""Parses from a client's request the fields a router needs: model, size, options, and the start of the prompt."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from typing import Literal

import msgspec

from evenstep.engines.streams import splice
from evenstep.engines.streams.cleaning import is_list_of_ids
from evenstep.engines.view import UsageOptions
from evenstep.errors import InputError

#: Most output tokens of a completion without ``max_tokens``, as in OpenAI's API and vLLM.
DEFAULT_COMPLETION_TOKENS = 16
#: Members of a body by which a client could pick an engine's rank or memory; they are never forwarded.
ROUTING_FIELDS = (
    *("kv_transfer_params", "data_parallel_rank", "routed_dp_rank", "disagg_prefill_dp_rank"),
    *("bootstrap_host", "bootstrap_port", "bootstrap_room"),
)

Kind = Literal["chat", "completions", "other"]
_PATHS: dict[str, Kind] = {"/v1/chat/completions": "chat", "/v1/completions": "completions"}
_WHERE = "request"
_MOST, _MOST_SLOTS = 2**31, 128  # limits of a number, and of the sequences of one request
_ROUTING = frozenset(ROUTING_FIELDS)
_NOTHING = msgspec.Raw()
_FIRST = re.compile(rb"\[[ \t\r\n]*+(.)", re.DOTALL)


class GenerationRequest(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A parsed request for tokens."""

    kind: Literal["chat", "completions"]  # the endpoint
    body: bytes  # as the client sent it
    fields: Mapping[str, msgspec.Raw]  # the JSON of each member, as windows on the body
    model: str  # the name of the model as the client wrote it
    stream: bool
    n: int  # answers the client gets for each prompt
    best_of: int  # sequences the engine runs for each prompt, at least `n`; equal to `n` for a chat
    #: most output tokens of one sequence; -1 if only the context limits it. A completion without the field has 16, one with
    #: null as many as fit, as in vLLM.
    max_tokens: int
    min_tokens: int  # least output tokens of one sequence, 0 if not given
    user: str  # a key that may pin a request to the worker of similar ones; empty if not given
    asked: UsageOptions  # accounting the client asked for; `Dialect.given` says what it gets
    #: engines get the body as it is: no stream, and no member that would choose an engine's rank or memory
    goes_unchanged: bool
    prompts: int  # number of prompts; more than one only in completions
    prompt_tokens: int  # the number of ids, over all prompts, if they came as ids; else -1
    #: the JSON of ``prompt`` or ``messages``, a window on the body; empty if there are prompts as embeddings
    prompt: msgspec.Raw

    @property
    def chat(self) -> bool:
        """True if the request is for chat completions."""
        return self.kind == "chat"

    @property
    def echoes(self) -> bool:
        """True if the answer begins with the prompt (``echo``), with log probabilities of its tokens if asked for."""
        return bytes(self.fields.get("echo", b"")) == b"true"

    @property
    def prompt_bytes(self) -> int:
        """The size of the JSON of the prompt or messages in bytes, quotes and brackets included."""
        return len(self.prompt)

    @property
    def slots(self) -> int:
        """Sequences the engine runs at once: `best_of` times the number of prompts."""
        return self.best_of * self.prompts

    @property
    def stops_at_recomputed(self) -> bool:
        """True if the client's ``stop`` has the string ``recomputed``, by which some engines hand a request back."""
        return "stop" in self.fields and b'"recomputed"' in self.value("stop")

    def value(self, name: str) -> bytes:
        """The JSON of the member `name` of the body; empty if it is absent."""
        return bytes(self.fields.get(name, _NOTHING))


class _StreamOptions(msgspec.Struct):
    include_usage: bool | None = False
    continuous_usage_stats: bool | None = False


_NO_OPTIONS = _StreamOptions()


def kind_of(method: str, target: str) -> Kind:
    """The kind of an HTTP request by method and target: ``chat`` and ``completions`` ask for tokens, ``other`` does not.

    A query after ``?`` is ignored; any method but ``POST`` gives ``other``.
    """
    if method != "POST":
        return "other"
    return _PATHS.get(target) or _PATHS.get(target.partition("?")[0], "other")


def read_request(kind: Kind, body: bytes) -> GenerationRequest:
    """Parse and check the body of a request for tokens; the result refers to the body without copying the prompt.

    Raises:
        InputError: not UTF-8, not a JSON object, a duplicate key, no model or prompt, a field of the wrong type or out of
            range, ``best_of`` below ``n``, or more than 128 sequences.
        ValueError: `kind` is ``other``.
    """
    if kind == "other":
        raise ValueError("only requests for tokens are read")
    if not body.isascii():
        try:
            body.decode()
        except UnicodeDecodeError as error:
            raise InputError(_WHERE, "body", f"byte {error.start}", "UTF-8") from None
    fields = splice.values_of(body, _WHERE)
    given = _given(fields)
    if given.stream_options is not None and (raw := bytes(fields["stream_options"])).count(b":") > 1:
        splice.values_of(raw, _WHERE)  # each key once, since our own are written into it
    if not given.model:
        raise InputError(_WHERE, "model", "missing", "the name of a model")
    is_chat = kind == "chat"
    n = 1 if given.n is None else _count("n", given.n, 1)
    best_of = n if is_chat or given.best_of is None else _count("best_of", given.best_of, 1)
    if best_of < n:
        raise InputError(_WHERE, "best_of", best_of, f"an integer >= n, {n}")
    max_tokens = -1 if is_chat or "max_tokens" in fields else DEFAULT_COMPLETION_TOKENS
    if given.max_tokens is not None:  # a completion may ask for the echo of its prompt alone
        max_tokens = _count("max_tokens", given.max_tokens, 1 if is_chat else 0)
    if is_chat and given.max_completion_tokens is not None:
        max_tokens = _count("max_completion_tokens", given.max_completion_tokens, 1)
    min_tokens = 0 if given.min_tokens is None else _count("min_tokens", given.min_tokens, 0)
    prompt, prompts, prompt_tokens = fields.get("messages" if is_chat else "prompt", _NOTHING), 1, -1
    if is_chat:
        if _first_inside(prompt) != b"{":
            raise InputError(_WHERE, "messages", _beginning(prompt) or "missing", "a list of one or more messages")
    elif embedded := _embedded(fields.get("prompt_embeds", _NOTHING)):
        prompts = embedded + (0 if bytes(prompt) in {b"", b"null", b"[]", b'""'} else _prompts(prompt)[0])
        prompt = _NOTHING
    else:
        prompts, prompt_tokens = _prompts(prompt)
    if best_of * prompts > _MOST_SLOTS:
        name, expected = "n" if prompts == 1 else "prompt", f"at most {_MOST_SLOTS} sequences, prompts times answers to each"
        raise InputError(_WHERE, name, best_of * prompts, expected)
    is_stream, options = bool(given.stream), given.stream_options or _NO_OPTIONS
    accounting = bool(options.include_usage), bool(options.continuous_usage_stats), bool(given.return_token_ids)
    return GenerationRequest(
        kind,
        body,
        fields,
        given.model,
        is_stream,
        n,
        best_of,
        max_tokens,
        min_tokens,
        given.user or "",
        _ASKED[accounting],
        not is_stream and _ROUTING.isdisjoint(fields),
        prompts,
        prompt_tokens,
        prompt,
    )


#: What a client may ask for, by the fields of `UsageOptions`.
_ASKED = {key: UsageOptions(*key) for key in itertools.product((False, True), repeat=3)}


class _Given(msgspec.Struct, gc=False):
    """The members of a body that are read, without its prompt; null is the same as absent."""

    model: str | None = None
    stream: bool | None = None
    n: int | None = None
    best_of: int | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    min_tokens: int | None = None
    user: str | None = None
    stream_options: _StreamOptions | None = None
    return_token_ids: bool | None = None


_GIVEN = msgspec.json.Decoder(_Given)
_EXPECTED = {
    **dict.fromkeys(("model", "user"), "text"),
    **dict.fromkeys(("stream", "return_token_ids"), "true or false"),
    **dict.fromkeys(("n", "best_of", "max_tokens", "max_completion_tokens", "min_tokens"), "an integer"),
    "stream_options": "an object of true and false",
}
_FORMS = {name: b'"%b":%%b' % name.encode() for name in _EXPECTED}
_FLOAT = re.compile(rb"-?\d+[.eE].*")
_FIELD = re.compile(r"`\$\.(\w+)")


def _given(fields: Mapping[str, msgspec.Raw]) -> _Given:
    """Parse the members of `_Given` from their JSON; an `InputError` names the first of the wrong type.

    A whole number may be written as 16.0 or 1e2, as some languages do, and as vLLM takes it.
    """
    wanted = [form % fields[name] for name, form in _FORMS.items() if name in fields]
    try:
        return _GIVEN.decode(b"{%b}" % b",".join(wanted))
    except (msgspec.MsgspecError, RecursionError) as error:
        found = _FIELD.search(str(error))
        name = found[1] if found else "body"
        is_float = _EXPECTED.get(name) == "an integer" and _FLOAT.fullmatch(fields.get(name, _NOTHING))
        if is_float and (number := float(bytes(fields[name]))).is_integer():
            return _given({**fields, name: msgspec.Raw(b"%d" % number)})
        value = _beginning(fields.get(name, _NOTHING))
        raise InputError(_WHERE, name, value, _EXPECTED.get(name, "JSON as the protocol has it")) from None


def _count(name: str, found: int, least: int) -> int:
    """The value `found` of a field, after a check that it is in `least` .. 2**31 - 1; else an `InputError`."""
    if not least <= found < _MOST:
        raise InputError(_WHERE, name, found, f"an integer from {least} to {_MOST - 1}")
    return found


def _prompts(given: msgspec.Raw) -> tuple[int, int]:
    """The number of prompts in the JSON of ``prompt``, and of tokens if all are ids, else -1; an `InputError` if invalid."""
    first = _first_inside(given)
    if first.isdigit() and is_list_of_ids(bytes(given)):
        return 1, bytes(given).count(b",") + 1
    if first in (b'"', b"["):
        rows = splice.items(given)
        if first == b'"' and all(bytes(row[:1]) == first for row in rows):
            return len(rows), -1
        if first == b"[" and all(_first_inside(row).isdigit() and is_list_of_ids(bytes(row)) for row in rows):
            return len(rows), bytes(given).count(b",") + 1
    elif bytes(memoryview(given)[:1]) == b'"':
        return 1, -1
    raise InputError(_WHERE, "prompt", _beginning(given) or "missing", "text, a list of token ids, or a list of prompts")


def _embedded(given: msgspec.Raw) -> int:
    """The number of prompts in the JSON of vLLM's ``prompt_embeds``, 0 if it is absent or null; the engine checks it."""
    if _first_inside(given):
        return len(splice.items(given))
    return 1 if bytes(memoryview(given)[:1]) == b'"' else 0


def _beginning(given: msgspec.Raw) -> str:
    """The first 40 bytes of a value as text, for messages."""
    return bytes(memoryview(given)[:40]).decode("utf-8", "replace")


def _first_inside(given: msgspec.Raw | bytes) -> bytes:
    """The first byte inside a JSON array that is not white space; empty if the value is not an array."""
    found = _FIRST.match(given)
    return found[1] if found else b""
