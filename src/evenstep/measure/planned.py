"""The result of ``evenstep plan``: for each policy and number of slots the least fleet, and the fleets that were tried."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Tried:
    """What one fleet did, means over replicates; None = not known.

    Args:
        workers: of the fleet.
        slo_share: share of the requests that meet the objective.
        requests_per_s: requests a second served while the pool is kept full; None if the objective is not met.
        is_enough: it keeps up, and enough requests meet the objective.
        figures: further means by name, of the runs in which requests arrive at the rate.
    """

    workers: int
    slo_share: float
    requests_per_s: float | None
    is_enough: bool
    figures: dict[str, float | None] = field(default_factory=dict[str, "float | None"])


@dataclass(frozen=True, slots=True)
class Size:
    """The least fleet for one policy and one number of slots; None = not known, or no such fleet.

    Args:
        policy: as the user wrote it.
        slots: concurrent requests a worker.
        closed_form_workers: workers that would keep up with even loads, by the closed form.
        workers: workers of the least fleet that keeps up and meets the objective.
        closed_form_requests_per_s, requests_per_s: requests a second that it serves while its pool is kept full, by the
            closed form and by simulation.
        slo_share, idle_time_share, ttft_p95_s, tpot_p95_s: of that fleet at the rate, as in ``evenstep compare``.
        joules_per_token: energy of an output token, joules.
        cost_per_million_tokens: price of a million output tokens; None without the price of a worker.
        fcfs_workers: workers that would keep up under FCFS by the closed form, with extreme values for the heaviest load.
        tried: every fleet that was simulated, the smallest first.
    """

    policy: str
    slots: int
    closed_form_workers: int | None
    workers: int | None = None
    closed_form_requests_per_s: float | None = None
    requests_per_s: float | None = None
    slo_share: float | None = None
    idle_time_share: float | None = None
    ttft_p95_s: float | None = None
    tpot_p95_s: float | None = None
    joules_per_token: float | None = None
    cost_per_million_tokens: float | None = None
    fcfs_workers: int | None = None
    tried: list[Tried] = field(default_factory=list["Tried"])

    @property
    def next_smaller(self) -> Tried | None:
        """The largest of the fleets tried that was not enough; None if the smallest possible fleet is enough."""
        return max((one for one in self.tried if not one.is_enough), key=lambda one: one.workers, default=None)


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan; its fields are those of the command's JSON.

    Args:
        arrivals: a description of the arrivals.
        rate, tokens_per_s: requests and output tokens a second that arrive.
        slo, share: the objective as the user wrote it, and the share of the requests that have to meet it.
        replicates: runs behind each mean.
        unit: workers by which a fleet grows.
        most_workers: workers of the largest fleet that may be tried.
        prefill: whether prefill takes time, which TTFT then contains.
        sizes: the least fleet for each number of slots and policy, in the order asked.
        smallest: index of the size with the fewest workers, of several the one that can serve most; None if no fleet is
            enough.
        within_reach: share of the requests that would meet the objective alone in an idle fleet; if it is below `share`, no
            fleet is simulated.
    """

    arrivals: str
    rate: float
    tokens_per_s: float
    slo: str
    share: float
    replicates: int
    unit: int
    most_workers: int
    prefill: bool
    sizes: list[Size]
    smallest: int | None
    within_reach: float = 1.0
