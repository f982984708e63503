"""The public types of this room: the dialect of an engine, a sample of its state, and the adapter that reads both."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Protocol

from evenstep.errors import EngineError

#: The form of a field that was not asked for: absent, or present and null.
Off = Literal["absent", "null"]


class NotItsPageError(EngineError):
    """A page lacks metrics of this engine, so it is not the engine's metrics page."""


@dataclass(frozen=True, slots=True)
class UsageOptions:
    """The token accounting that a request asks for, as three flags."""

    usage: bool = False  # one usage object at the end of the stream (``stream_options.include_usage``)
    continuous: bool = False  # a usage object in every chunk (``stream_options.continuous_usage_stats``)
    token_ids: bool = False  # the token ids of prompt and output in the chunks (``return_token_ids``)


@dataclass(frozen=True, slots=True)
class Dialect:
    """The ways in which engines differ in their streams.

    Args:
        counts: the engine can report the tokens of every chunk, by usage or ids; else it is asked only if the client asks.
        finish_reasons: the engine ends every choice with a finish_reason; else ``[DONE]`` alone ends a stream.
        usage_needs_final: a request for continuous usage must also ask for the usage at the end.
        completion_usage_off: form of ``usage`` in chunks of a completion whose request asked for no usage; in those of a
            chat it is absent.
        chat_from_ids: the engine continues a chat from the ids in ``kv_transfer_params.prompt_token_ids`` of its body.
        completions_go_on: given a prompt with the answer so far appended, the engine returns only the rest of the answer;
            else it answers from the start.
        handover: body member that hands the KV of a prefill leg to the decode leg; empty = no split into two legs.
    """

    counts: bool = True
    finish_reasons: bool = True
    usage_needs_final: bool = True
    completion_usage_off: Off = "absent"
    chat_from_ids: bool = False
    completions_go_on: bool = True
    handover: Literal["kv_transfer_params", ""] = ""

    def given(self, asked: UsageOptions) -> UsageOptions:
        """What a client that asks for `asked` gets: no continuous usage without one at the end, if `usage_needs_final`."""
        if asked.continuous and not asked.usage and self.usage_needs_final:
            return UsageOptions(token_ids=asked.token_ids)
        return asked


@dataclass(frozen=True, slots=True)
class EngineSample:
    """One rank of an engine as its metrics page shows it."""

    rank: int  # data-parallel rank, 0 where there is only one
    running: int  # requests that run now
    waiting: int  # requests that wait inside the engine now
    kv_tokens: float  # resident KV tokens, possibly rounded to whole blocks; nan = not on the page
    kv_capacity: float  # KV tokens the rank can hold; inf = not on the page
    #: prompt tokens looked up in the prefix cache since the engine started; nan = not on the page
    prefix_queried: float = math.nan
    prefix_hit: float = math.nan  # of `prefix_queried`, the tokens that were in the cache; nan = not on the page
    kv_share: float = math.nan  # share of its KV memory in use, 0..1, as the page has it; nan = not on the page

    @property
    def kv_used(self) -> float:
        """Share of its KV memory in use, 0..1, from tokens if their capacity is known, else `kv_share`; 0 without either."""
        known = 0 < self.kv_capacity < math.inf
        share = self.kv_tokens / self.kv_capacity if known else self.kv_share
        return 0.0 if math.isnan(share) else min(1.0, max(0.0, share))


class EngineAdapter(Protocol):
    """One kind of engine: paths, headers, dialect, and how to read its metrics. A frozen dataclass, found by name."""

    @property
    def dialect(self) -> Dialect:
        """How this engine's streams and bodies differ from those of other engines."""
        ...

    @property
    def health_path(self) -> str:
        """The path, with its leading slash, at which GET answers 200 while the engine serves."""
        ...

    @property
    def metrics_path(self) -> str:
        """The path of the engine's Prometheus page; empty if it has none."""
        ...

    @property
    def rank_header(self) -> str:
        """Name of the HTTP header that pins a request to a data-parallel rank by its number; empty = no such header."""
        ...

    def samples(self, page: bytes) -> tuple[EngineSample, ...]:
        """Parse a metrics page: one sample for each rank, in ascending order; empty if the engine has no such page.

        Raises:
            NotItsPageError: a required line is missing.
            EngineError: a value is not a number, or a required one is not finite.
        """
        ...
