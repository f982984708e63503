"""The result of ``evenstep plan``: for each policy and number of slots the least fleet, and the fleets that were tried."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Tried:
    """What one fleet did, means over replicates; None = not known."""

    workers: int  # of the fleet
    slo_share: float  # share of the requests that meet the objective
    requests_per_s: float | None  # requests a second served while the pool is kept full; None if the objective is not met
    is_enough: bool  # it keeps up, and enough requests meet the objective
    #: further means by name, of the runs in which requests arrive at the rate
    figures: dict[str, float | None] = field(default_factory=dict[str, "float | None"])


@dataclass(frozen=True, slots=True)
class Size:
    """The least fleet for one policy and one number of slots; None = not known, or no such fleet."""

    policy: str  # as the user wrote it
    slots: int  # concurrent requests a worker
    closed_form_workers: int | None  # workers that would keep up with even loads, by the closed form
    workers: int | None = None  # workers of the least fleet that keeps up and meets the objective
    #: requests a second that it serves while its pool is kept full, by the closed form
    closed_form_requests_per_s: float | None = None
    requests_per_s: float | None = None  # the same by simulation
    slo_share: float | None = None  # of that fleet at the rate, as in ``evenstep compare``
    idle_time_share: float | None = None  # likewise
    ttft_p95_s: float | None = None  # likewise
    tpot_p95_s: float | None = None  # likewise
    joules_per_token: float | None = None  # energy of an output token, joules
    cost_per_million_tokens: float | None = None  # price of a million output tokens; None without the price of a worker
    #: workers that would keep up under FCFS by the closed form, with extreme values for the heaviest load
    fcfs_workers: int | None = None
    tried: list[Tried] = field(default_factory=list["Tried"])  # every fleet that was simulated, the smallest first

    @property
    def next_smaller(self) -> Tried | None:
        """The largest of the fleets tried that was not enough; None if the smallest possible fleet is enough."""
        return max((one for one in self.tried if not one.is_enough), key=lambda one: one.workers, default=None)


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan; its fields are those of the command's JSON."""

    arrivals: str  # a description of the arrivals
    rate: float  # requests a second that arrive
    tokens_per_s: float  # output tokens a second that arrive
    slo: str  # the objective as the user wrote it
    share: float  # share of the requests that have to meet it
    replicates: int  # runs behind each mean
    unit: int  # workers by which a fleet grows
    most_workers: int  # workers of the largest fleet that may be tried
    prefill: bool  # whether prefill takes time, which TTFT then contains
    sizes: list[Size]  # the least fleet for each number of slots and policy, in the order asked
    #: index of the size with the fewest workers, of several the one that can serve most; None if no fleet is enough
    smallest: int | None
    #: share of the requests that would meet the objective alone in an idle fleet; if it is below `share`, no fleet is
    #: simulated
    within_reach: float = 1.0
