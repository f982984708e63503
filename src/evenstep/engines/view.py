"""The public types of this room: the dialect of an engine, a sample of its state, and the adapter that reads both."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Protocol

from evenstep.errors import EngineError

#: How a field looks that was not asked for: not there, or there and null.
Off = Literal["absent", "null"]


class NotItsPageError(EngineError):
    """A page lacks metrics of this engine, so it is not the engine's metrics page."""


@dataclass(frozen=True, slots=True)
class UsageOptions:
    """The accounting a request asks for.

    Args:
        usage: one usage object at the end of the stream.
        continuous: a usage object in every chunk.
        token_ids: the ids of prompt and output.
    """

    usage: bool = False
    continuous: bool = False
    token_ids: bool = False


@dataclass(frozen=True, slots=True)
class Dialect:
    """The ways in which engines differ in their streams.

    Args:
        counts: can tell the tokens of every chunk, by usage or ids; else they are estimated from events.
        finish_reasons: ends every choice with a finish_reason; else ``[DONE]`` alone is its end.
        usage_needs_final: continuous usage comes only together with the usage at the end.
        completion_usage_off: form of ``usage`` in the chunks of a completion that did not ask for it.
        chat_usage_off: the same in chunks of a chat.
        token_ids_off: form of ``token_ids`` and ``prompt_token_ids`` where they were not asked for.
        chat_from_ids: a chat body with ``kv_transfer_params.prompt_token_ids`` is continued from these ids.
        completions_go_on: a completion is continued from the prompt it is given.
        handover: how prefill and decode legs find each other's KV; empty where only one leg is spoken.
    """

    counts: bool = True
    finish_reasons: bool = True
    usage_needs_final: bool = True
    completion_usage_off: Off = "absent"
    chat_usage_off: Off = "absent"
    token_ids_off: Off = "null"
    chat_from_ids: bool = False
    completions_go_on: bool = True
    handover: Literal["kv_transfer_params", ""] = ""


@dataclass(frozen=True, slots=True)
class EngineSample:
    """One rank of an engine as its metrics page shows it.

    Args:
        rank: data-parallel rank, 0 where there is only one.
        running: requests that run.
        waiting: requests that wait.
        kv_tokens: resident KV tokens, to a block; nan where it does not say.
        kv_capacity: KV tokens it can hold; inf where it does not say.
        block_size: tokens of a KV block; 0 where it does not say.
        generated_tokens: output tokens since it started; nan where it does not say.
        prefix_queried: prompt tokens it looked up in its prefix cache since it started; nan where it does not say.
        prefix_hit: those of them that it found there.
    """

    rank: int
    running: int
    waiting: int
    kv_tokens: float
    kv_capacity: float
    block_size: int
    generated_tokens: float
    prefix_queried: float = math.nan
    prefix_hit: float = math.nan


class EngineAdapter(Protocol):
    """One engine: paths, headers, dialect, and how to read its metrics. A frozen dataclass, found by name."""

    @property
    def dialect(self) -> Dialect:
        """The ways in which this engine's streams differ."""
        ...

    @property
    def health_path(self) -> str:
        """The path that answers 200 while the engine serves."""
        ...

    @property
    def metrics_path(self) -> str:
        """The path of the engine's Prometheus page; empty if it has none."""
        ...

    @property
    def rank_header(self) -> str:
        """Header that pins a request to a data-parallel rank; empty if the engine has no such header."""
        ...

    def samples(self, page: bytes) -> tuple[EngineSample, ...]:
        """Parse each rank's state from a metrics page, by rank.

        Raises:
            NotItsPageError: a line that is needed is not there.
            EngineError: a value is not a number, or a needed one is not finite.
        """
        ...
