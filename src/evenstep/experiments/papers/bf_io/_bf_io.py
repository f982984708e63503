"""Common parts of the BF-IO experiments: a workload in place of BurstGPT, the fleet, the paper's policies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evenstep.cost.linear import Linear
from evenstep.experiments import vocabulary as ex
from evenstep.measure import metrics
from evenstep.measure.records import Run, StepTable
from evenstep.sim.cluster.simulation import Cluster
from evenstep.workload.synthetic.laws import Gamma, Lognormal
from evenstep.workload.synthetic.synthetic import Synthetic

FCFS, JSQ, BF0, BF20 = "FCFS", "JSQ", "BF-IO (H = 0)", "BF-IO (H = 20)"
IMBALANCE = "imbalance_envelope_tokens"

#: The four strategies of the paper. The age bound is ours, so it is off; remaining lengths in the window are the true ones.
POLICIES = {FCFS: "fcfs", JSQ: "jsq", BF0: "bf-io:age_limit=0", BF20: "bf-io:horizon=20,age_limit=0,predictor=oracle"}
STEP_TIME = Linear()
#: Joules of a step under each accounting, and what tables call it.
ACCOUNTINGS = {"energy_busy_idle_j": "busy and idle apart", "energy_step_average_j": "step average"}
#: An exponent is known well enough if half its interval is at most this.
TOLD = 0.1
MISSING = "BurstGPT, of which no long enough piece is to be had"


def horizon(steps: int, discount: float = 1.0) -> str:
    """The spec of BF-IO in paper mode with a window of `steps` decode steps; if above 0, its predictor is an oracle."""
    tail = f"horizon={steps},predictor=oracle," if steps else ""
    return f"bf-io:{tail}discount={discount},age_limit=0"


def burst(requests: int) -> Synthetic:
    """A generator of `requests` chat-like requests, whose loads are near those of the paper's Fig. 6 at 72 slots."""
    return Synthetic(
        requests,
        prompt=Lognormal(sigma=1.15, mu=6.1, low=4, high=4096),
        output=Gamma(shape=1.5, scale=180, low=1, high=2000),
        name="burst",
    )


def fleet(workers: int = 16, slots: int = 72, pool: int = 128) -> Cluster:
    """A saturated fleet of one barrier group, `slots` a worker, `pool` waiting requests in all; policies may hold."""
    return Cluster(workers=workers, slots=slots, pool=pool, may_hold=True)


def run_on(
    setting: ex.Setting, cluster: Cluster, requests: int, policies: Mapping[str, str] = POLICIES, **kept: Any
) -> tuple[dict[str, list[Run]], str]:
    """Run policies (spec by label) on a stand-in workload of `requests` requests, or on the user's trace.

    `kept` are options of `run_policies`, such as ``records=True``. Returns runs by label, then by replicate, and a phrase on
    what stands in for the paper's data.
    """
    source, stands_in = ex.workload(setting, burst(requests), MISSING, cluster, STEP_TIME)
    return ex.run_policies(setting, source, policies, cluster, STEP_TIME, **kept), stands_in


def steady(run: Run) -> tuple[StepTable, slice]:
    """The step table of a run, and the rows of its steady window. The run needs records."""
    assert run.steps is not None
    _, first, last = metrics.steady_window(metrics.full(run.steps, run.conditions.slots_total))
    return run.steps, slice(first, last + 1)


def gain(runs: ex.Runs, policy: str = BF0) -> ex.Interval:
    """Imbalance of FCFS over that of a policy, BF-IO(0) by default: mean ratio with its interval."""
    return ex.ratio(*ex.pair(runs, FCFS, policy, IMBALANCE))


def reaches(slope: ex.Interval, least: float) -> bool | None:
    """True if an exponent reaches `least`: its interval lies at or above `least`. False if the interval lies below.

    If the interval contains `least`: True if half of its width is at most `TOLD`, else None. None with one replicate.
    """
    if slope.low is None or slope.high is None:
        return None
    if slope.low >= least or slope.high < least:
        return slope.low >= least
    return True if slope.high - slope.low <= 2 * TOLD else None


def constants(cluster: Cluster, requests: int) -> list[ex.Constant]:
    """The constants of findings that all experiments which call `run_on` share, for this fleet and number of requests."""
    return ex.constants(f"""
        requests | {requests} | the paper does not give the length of a run; all are run to completion
        workload | prompts lognormal(6.1, 1.15) in 4..4096, outputs gamma(1.5, 180) in 1..2000 | chosen so that loads are
          near those of Fig. 6; correlations of the real trace are lost
        G | {cluster.workers} | Fig. 6; Table 1's throughput over its TPOT means about 1,150 running requests, 16 x 72
        B | {cluster.slots} | sec. 6.2
        R (pool) | {cluster.pool} | sec. 6.2, the revelation target
        C | {STEP_TIME.overhead_s:g} s | not given; no fit to the table, our default
        t_l | {STEP_TIME.per_token_s:g} s/token | not given; our default, which puts a step of even loads near 13 ms
        window | first to last step with 98 % of the slots busy | the paper averages over a run of unknown length; fill-up
          and drain say nothing about routing
        prediction | true departures inside the window | the paper does not say how it predicts; this is its best case
        JSQ ties | keyed chance | 'arbitrary' in the paper; with the lowest index first it would be FCFS
        age bound | off | ours, not the paper's
    """)
