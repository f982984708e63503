"""Common parts of the BalanceRoute experiments: fleet, stand-in workloads, the paper's methods and numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from evenstep.experiments import vocabulary as ex
from evenstep.experiments.papers import _heavy
from evenstep.measure.records import Run
from evenstep.sim.cluster.simulation import Cluster
from evenstep.workload.replicate import Source

RANDOM, ROBIN, P2C, JSQ, BR0 = "Random", "Round-Robin", "P2C", "JSQ", "BR-0"
#: Horizons of the two oracle rows of Table 1; the paper's own are lost from its text.
SHORT, LONG = 20, 40
ORACLE_SHORT, ORACLE = f"BR-H oracle, H = {SHORT}", f"BR-H oracle, H = {LONG}"
SURVIVAL, MEMORISED = "BR-H survival", "BR-H memorised"
SPREAD, TPOT, RATE = "imbalance_spread_tokens", "tpot_p95_s", "window_tokens_per_s"
SLOTS, POOL = 10, 4  # slots a worker; waiting requests a worker
#: Kinds of workloads, and the paper's data that each stands in for.
HEAVY, NEAR_CAP, TRACE = "heavy", "near cap", "trace"
MISSING = {
    HEAVY: "the proprietary trace, which is not to be had",
    NEAR_CAP: "Azure-2024 with long outputs only, which is not to be had",
    TRACE: "both of the paper's traces, which are not to be had",
}

BASELINES = {RANDOM: "random", ROBIN: "round-robin", P2C: "power-of-d:d=2", JSQ: "jsq"}


def br_h(horizon: int = LONG, predictor: str = "oracle", options: str = "") -> str:
    """The spec of BR-H in paper mode, without an age bound; `options` is appended as written, with a comma first."""
    return f"br-h:horizon={horizon},age_limit=0,predictor={predictor}{options}"


METHODS = {
    **BASELINES,
    BR0: "br-0:age_limit=0",
    ORACLE_SHORT: br_h(SHORT),
    ORACLE: br_h(),
    SURVIVAL: br_h(predictor="survival"),
    MEMORISED: br_h(predictor="memorised"),
}


def fleet(workers: int) -> Cluster:
    """A saturated fleet with `SLOTS` slots and `POOL` waiting requests a worker; policies may hold requests."""
    return Cluster(workers=workers, slots=SLOTS, pool=POOL * workers, may_hold=True)


def kinds(setting: ex.Setting) -> tuple[str, ...]:
    """The workload kinds of a table: `HEAVY` and `NEAR_CAP`, or only `TRACE` if the user gave a trace."""
    return (TRACE,) if setting.traces else (HEAVY, NEAR_CAP)


def run_on(
    setting: ex.Setting, kind: str, workers: int, methods: Mapping[str, str], *, samples: int = 0
) -> tuple[dict[str, list[Run]], str]:
    """Run methods (spec by label) on a workload of this kind, 500 requests a worker (40 when quick), or the user's trace.

    Returns runs by label, then by replicate, and a phrase on what stands in for the paper's data. The first replicate keeps
    up to `samples` samples of every worker's load.
    """
    count = requests(setting, workers)
    source, cluster, stands_in = workload(setting, kind, count, workers)
    return ex.run_policies(setting, source, methods, cluster, _heavy.STEP_TIME, samples=samples), stands_in


def workload(setting: ex.Setting, kind: str, count: int, workers: int) -> tuple[Source, Cluster, str]:
    """(`count` requests of a kind, or the user's trace; their `fleet`; a phrase on what stands in for the paper's data)."""
    drawn = _heavy.near_cap(count) if kind == NEAR_CAP else _heavy.heavy(count, recurring=True)
    cluster = fleet(workers)
    source, stands_in = ex.workload(setting, drawn, MISSING[kind], cluster, _heavy.STEP_TIME)
    return source, cluster, stands_in


def requests(setting: ex.Setting, workers: int) -> int:
    """The number of requests to draw: 500 a worker, 40 when quick, so every slot is used as often at each fleet size."""
    return workers * setting.pick(500, 40)


def rows(
    runs: ex.Runs, said: str, paper: Mapping[str, tuple[float, float, float]], against: str, spread: str = "spread"
) -> Iterator[ex.Row]:
    """Yield rows of spread, then of TPOT p95, then of throughput, one a method, next to the paper's numbers.

    Args:
        runs: runs by label.
        said: text before each quantity.
        paper: label to the paper's spread (tokens), TPOT p95 (ms) and throughput (tokens/s).
        against: the method others are compared with; empty = the first.
        spread: the table's name of the spread.
    """
    columns = ((SPREAD, spread, "tokens", 1.0), (TPOT, "TPOT p95", "ms", 1e3), (RATE, "throughput", "tok/s", 1.0))
    for place, (field, quantity, unit, factor) in enumerate(columns):
        numbers = {method: printed[place] for method, printed in paper.items()}
        yield from ex.rows_of(runs, field, f"{said}: {quantity}", unit, factor, numbers, against)


def constants(setting: ex.Setting, workers: Sequence[int], kinds: Sequence[str] = (HEAVY, NEAR_CAP)) -> list[ex.Constant]:
    """The constants of findings that all these experiments share, for these sizes G, with workloads of these `kinds`."""
    found = ex.constants(f"""
        G | {ex.listed(workers)} | the paper's decode workers
        B | {SLOTS} | the batch limit is lost from the text; the spreads of its tables suggest about 10
        pool | {POOL} G | not given; saturated arrivals for its 'heavy load', growing with G as its request rate does
        requests | {requests(setting, 1)} G | not given; all are run to completion; a trace file's own rows where one is
          given
        {_heavy.STEP_TIME_LINE}
        H | {LONG}, and {SHORT} for the shorter oracle row | lost from the text
        beta, gamma | G and 0.9 | the main setting is lost from the text; the marginal reading of eq. 2 (see br-sweep)
        U_th, K | G and 8 | lost from the text
        age bound | off | ours, not the paper's
        predictors | learn online from nothing | the paper trains on an earlier part of the trace
        window | first to last step with 98 % of the slots busy | spread and throughput; TPOT is of all requests
        {_heavy.RECURRING_LINE}
        {_heavy.NEAR_CAP_LINE}
    """)
    return [one for one in found if one.name in kinds or one.name not in (HEAVY, NEAR_CAP)]
