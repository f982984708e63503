"""Faults that an emulator injects, and the choice of the requests that they hit.

A fault is written as text, e.g. ``die:after_tokens=5,count=3``, or sent as a JSON object with the key ``fault``. A request
for tokens is hit by the first active fault that applies to its rank and whose random draw, by `Fault.share`, includes it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

from evenstep import names, streams
from evenstep.errors import InputError, check_known, check_range

#: Kinds that strike before any token of an answer.
Early: TypeAlias = Literal["refuse", "status", "html", "empty", "slow-metrics"]
Kind: TypeAlias = Literal[Early, "stall", "die", "kill-rank", "kill-group", "malformed", "cut", "error-event", "recomputed"]


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault for the emulator to inject; a value out of range raises `InputError`."""

    fault: Kind  # as described in ``docs/reference/emulator.md``
    rank: int = -1  # number in the fleet of the rank that it applies to; -1 = any
    count: int = 1  # number of requests that it hits; 0 = no limit
    share: float = 1.0  # share of requests that it hits, 0 to 1, drawn from the emulator's seed and the request's number
    after_tokens: int = 0  # tokens of the answer (all its sequences) before it strikes; 0 for kinds that come before any
    status: int = 503  # HTTP status of a ``status`` fault
    retry_after_s: int = 0  # Retry-After of a ``status`` fault, seconds; 0 = no such header
    location: str = ""  # Location header of a ``status`` fault; empty = no such header
    seconds: float = 5.0  # wall-clock delay of a metrics page by ``slow-metrics``
    peers_after_s: float = 6.0  # wall-clock seconds after which the other ranks of a killed rank's group die, too
    down_s: float = 0.0  # wall-clock seconds after `peers_after_s` until the group is revived, empty; 0 = never

    def __post_init__(self) -> None:
        check_range(self.fault, "a number in 0..1", low=0, high=1, share=self.share)
        check_range(self.fault, "an HTTP status in 300..599", low=300, high=599, status=self.status)
        for name in ("count", "after_tokens", "retry_after_s", "seconds", "peers_after_s", "down_s"):
            check_range(self.fault, "a number >= 0", low=0, finite=True, **{name: getattr(self, name)})
        if self.after_tokens and self.fault in get_args(Early):
            raise InputError(self.fault, "after_tokens", self.after_tokens, "0", "It strikes before any token.")
        if "\r" in self.location or "\n" in self.location:
            raise InputError(self.fault, "location", self.location, "one line")


def fault_of(given: str | Mapping[str, Any], ranks: int, dialect: str = "vllm") -> Fault:
    """Make a fault from text or from a JSON object, for an emulator with this number of ranks and this dialect.

    An unknown kind, option or rank, a wrong value, and a kind that the dialect lacks raise `InputError`.
    """
    if isinstance(given, str):
        options: dict[str, Any] = dict(names.parse(given))
        kind = options.pop("name")
    else:
        options = dict(given)
        kind = options.pop("fault", "missing")
    check_known("fault", "fault", kind, get_args(Kind), "a known fault")
    if kind == "recomputed" and dialect != "vllm":
        raise InputError(kind, "dialect", dialect, "vllm", "No other engine hands a request back.")
    found: Fault = names.make(Fault, {**options, "fault": kind}, where=str(kind))
    if not -1 <= found.rank < ranks:
        raise InputError(kind, "rank", found.rank, f"a rank in 0..{ranks - 1}, or -1 for any")
    return found


class Faults:
    """The active faults, in the list `on`, oldest first. Their `Fault.count` is the number of hits left; 0 = no limit."""

    def __init__(self, seed: int) -> None:
        self.on: list[Fault] = []
        self._seed, self._asked = seed, {"fault": 0, "slow-metrics": 0}

    def hit(self, rank: int) -> Fault | None:
        """The fault that hits the next token request to this rank, or None. Lowers its count; removes it at its last hit."""
        return self._first("fault", (rank,))

    def metrics_delay_s(self, ranks: Collection[int]) -> float:
        """Wall-clock seconds to delay the next metrics page of these ranks; 0 = no fault. A hit lowers the fault's count."""
        fault = self._first("slow-metrics", ranks)
        return 0.0 if fault is None else fault.seconds

    def _first(self, stream: str, ranks: Collection[int]) -> Fault | None:
        """As `hit`, for a stream of requests to any of these ranks: ``slow-metrics`` = metrics pages, ``fault`` = tokens."""
        if not self.on:
            return None
        self._asked[stream] += 1
        for index, fault in enumerate(self.on):
            if (fault.fault == "slow-metrics") != (stream == "slow-metrics"):
                continue
            if fault.rank != -1 and fault.rank not in ranks:
                continue
            if fault.share == 1 or streams.uniform(self._seed, stream, self._asked[stream], index) < fault.share:
                if fault.count:
                    self.on[index : index + 1] = [replace(fault, count=fault.count - 1)] if fault.count > 1 else []
                return fault
        return None
