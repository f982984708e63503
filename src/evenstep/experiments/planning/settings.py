"""The settings of ``evenstep plan``: traffic, objective, and the fleets to choose from.

Its imports stay light, so that ``--help`` answers at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from evenstep.errors import MOST, InputError
from evenstep.experiments.settings import FleetSettings

if TYPE_CHECKING:
    from typing import Literal

    from evenstep.config.layers import Settled

_WHERE = "evenstep plan"
#: Most requests of a run, and most workers of a fleet that are tried.
MOST_REQUESTS, _MOST_WORKERS = 10_000_000, 100_000
#: Lowest value of each number.
_AT_LEAST = {
    **dict.fromkeys(("seeds", "limit", "most_workers"), 1),
    **dict.fromkeys(("seed", "group_size", "prefill_base_s", "prefill_per_token_s", "overhead_s", "per_token_s"), 0),
    "requests": 1_000,
}


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """The traffic, the objective, and the kinds of fleet to choose from.

    Args:
        source: a trace file, a workload YAML, sample:azure-conv, or laws of lengths as PROMPT/OUTPUT, for instance 129/112
            or geometric:mean=129/pareto:alpha=1.6,mean=112.
        policies: routing policies as NAME:key=value,key=value.
        rate: requests a second; the trace's own rate when left out.
        slo: objective that requests have to meet, e.g. ttft=2s,tpot=50ms.
        share: share of the requests that have to meet it.
        slots: concurrent requests a worker, B; each of several numbers is tried, e.g. 32,64,128.
        group_size: workers of a barrier group, and the fleet grows by whole groups; 0 = all workers are one group.
        most_workers: workers of the largest fleet to try.
        kv_tokens: KV tokens a worker holds; left out = only slots limit.
        prefill_base_s: seconds of prefill before a request can be decoded.
        prefill_per_token_s: seconds of prefill a prompt token.
        overhead_s: seconds of a decode step at any load, C.
        per_token_s: seconds of a decode step a resident KV token of the heaviest worker, t_l.
        sync_s: seconds of synchronisation added to C, or pairs of group size and seconds, e.g. 8:0.0002/64:0.0009.
        law: step-time law in place of overhead_s, per_token_s and sync_s, e.g.
            piecewise:knots=0:0/40000:0.003/110000:0.012; table:path=h100.csv.
        model_params: parameters of the served model, for energy.
        peak_flops: peak of one worker in operations a second, for energy.
        worker_cost: price of one worker for an hour, in any currency.
        requests: arrivals of a run, 40 at least for each that runs at a time; the first quarter and last tenth do not count.
        seeds: replicates of each run.
        limit: use only the first rows of the trace, or draw only so many requests of a workload file; not with laws.
        format_name: format of the trace file where it is not recognised.
        seed: key of lengths, arrivals and the policies' random draws.
    """

    source: str = ""
    policies: list[str] = field(default_factory=lambda: ["jsq", "br-0", "best"])
    rate: float | None = None
    slo: str = field(default="", metadata={"shape": "ttft=X,tpot=X", "once": "Write ttft=2s,tpot=50ms."})
    share: float = 0.95
    slots: list[int] = field(default_factory=lambda: [72])
    group_size: int = 0
    most_workers: int = 1024
    kv_tokens: float | None = None
    prefill_base_s: float = 0.0
    prefill_per_token_s: float = 0.0
    overhead_s: float = 0.0049
    per_token_s: float = 1.1e-7
    sync_s: float | str = field(default=0.0, metadata={"shape": "X|N:X/N:X"})
    law: str | None = field(default=None, metadata={"shape": "NAME[:KEY=VALUE,...]"})
    model_params: float = 8e9
    peak_flops: float = 312e12
    worker_cost: float | None = None
    requests: int = 20_000
    seeds: int = 3
    limit: int | None = None
    format_name: str | None = None
    seed: int = 0

    def fleet(self, workers: int, slots: int, arrivals: Literal["saturated", "timed"]) -> FleetSettings:
        """The settings of a fleet of so many workers with so many slots each, at which requests arrive so."""
        names = ("kv_tokens", "prefill_base_s", "prefill_per_token_s", "overhead_s", "per_token_s", "sync_s", "law")
        kept = {name: getattr(self, name) for name in (*names, "model_params", "peak_flops", "slo", "seed")}
        groups = [self.group_size] * (workers // self.group_size) if self.group_size else []
        return FleetSettings(workers=workers, slots=slots, groups=groups, arrivals=arrivals, **kept)


def checked(settled: Settled[PlanSettings]) -> PlanSettings:
    """The settings after all checks.

    `InputError` for a missing objective, or a number out of range: the field is named as its layer writes it.
    """
    value = settled.value
    settled.check_numbers(_AT_LEAST, ("kv_tokens", "model_params", "peak_flops", "worker_cost"))
    for name, most in (("requests", MOST_REQUESTS), ("most_workers", _MOST_WORKERS), ("group_size", value.most_workers)):
        if getattr(value, name) > most:
            raise settled.refusal(name, f"an integer of at most {most}")
    if not value.slots or not all(0 < slots <= MOST for slots in value.slots):
        raise settled.refusal("slots", "integers >= 1 with commas between, e.g. 32,64")
    if len(set(value.slots)) < len(value.slots):
        raise settled.refusal("slots", "each number once")
    if not 0 < value.share <= 1:
        raise settled.refusal("share", "a share above 0 and at most 1")
    if not value.slo:
        raise InputError(_WHERE, "--slo", "missing", "the objective", "Write --slo ttft=2s,tpot=50ms.")
    return value
