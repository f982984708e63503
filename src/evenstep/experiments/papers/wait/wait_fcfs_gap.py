"""WAIT Propositions 4 and 5: policies that do not know types, with exactly the memory of the fluid equilibrium."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from evenstep import streams
from evenstep.cost.affine_kv import AffineKv
from evenstep.experiments import vocabulary as ex
from evenstep.experiments.papers.wait._wait import free_engine, share_said
from evenstep.experiments.papers.wait.wait_scaling import D1_S, LAW, PAIR, RATE, TOKENS_PER_S
from evenstep.request import Trace
from evenstep.scheduling.policies.nested_wait import NestedWait
from evenstep.scheduling.policies.sarathi import Sarathi
from evenstep.scheduling.policies.vanilla_vllm import VanillaVllm
from evenstep.scheduling.policies.wait import Wait
from evenstep.scheduling.view import SchedulingPolicy
from evenstep.sim.engine.simulation import simulate_engine

#: M*, KV tokens of the equilibrium: one request of each type at each of its stages.
MEMORY = 9
OVERFLOWS, GROWTH = 1 - 4.5 * math.exp(-2), 0.3
#: Seconds between the starts of two trials, so that each begins empty, and of a long run.
APART_S, LONG_S = 30.0, 20_000.0
POLICIES: dict[str, SchedulingPolicy] = {
    "FCFS": Sarathi(),
    "vanilla vLLM": VanillaVllm(),
    "Nested WAIT": NestedWait((2, 1), (1,), max_hold_s=1e9),
    "WAIT": Wait((1, 1), max_hold_s=1e9),
}
#: Policies that do not know types, and the proposition about each.
PROPOSITION = {"FCFS": 4, "vanilla vLLM": 5, "Nested WAIT": 5}
#: The gap over that of a quarter of the horizon: 1 where a constant share is lost, 1/2 where it falls like 1 / sqrt(T).
CONSTANT = 0.75


def poisson(seed: int, count: int, draw: int) -> list[int]:
    """`count` Poisson numbers of mean 1 from keyed draws; `draw` numbers independent series of one seed."""
    from scipy.special import pdtr

    u = streams.uniform(seed, "fcfs-gap", np.arange(count), draw=draw)
    return np.searchsorted(pdtr(np.arange(20), 1.0), u).tolist()


def trials(count: int, seed: int, is_later_random: bool) -> int:
    """The number of trials, of `count`, in which memory overflows within two iterations after the first random prefills.

    A trial starts in equilibrium. Then Poisson(1) requests of each type arrive in the next iteration. In each of the two
    after that one of each type arrives, or Poisson(1) if `is_later_random`. Memory overflows if a request is evicted, or has
    to wait for memory.
    """
    arrivals: list[tuple[float, int, int]] = []
    drawn = [[poisson(seed, count, 10 * kind + later) for later in range(3)] for kind in range(2)]
    for trial in range(count):
        for kind in range(2):
            numbers = [1, 1, 1, *(drawn[kind][k][trial] if k == 0 or is_later_random else 1 for k in range(3))]
            times = (0.0, 0.9, 1.9, 2.9, 3.9, 4.9)
            arrivals += [(trial * APART_S + t, kind, trial) for t, n in zip(times, numbers, strict=True) for _ in range(n)]
    at, kinds, which = (np.array(column) for column in zip(*sorted(arrivals), strict=True))
    trace = Trace(np.ones(at.size, np.int64), kinds + 1, arrival_s=at, request_class=kinds, synthetic=True)
    tiny = 1e-6  # an iteration that holds less than M* is shorter by less than anything here
    engine = free_engine(MEMORY, "restart")
    done = simulate_engine(trace, POLICIES["FCFS"], engine=engine, batch_time=AffineKv(1 - 9 * tiny, tiny))
    table, iterations = done.requests, done.iterations
    assert iterations is not None
    found = np.zeros(count, bool)
    found[which[table.request_id[table.scheduled_s - table.arrival_s > 1.0]]] = True
    starts = iterations.start_s[iterations.evicted > 0]
    soon = np.mod(starts, APART_S)
    found[(starts[(soon > 2.5) & (soon < 5.5)] // APART_S).astype(int)] = True
    return int(found.sum())


def long_run(policy: SchedulingPolicy, horizon_s: float, seed: int, replicate: int) -> tuple[float, float]:
    """(requests of type 2 left over, throughput in tokens), both a second of the run; a prefill counts as a token."""
    trace = PAIR.trace(RATE, int(RATE * horizon_s), seed, replicate)
    horizon_s = float(trace.column("arrival_s")[-1])
    engine = free_engine(MEMORY, "restart")
    done = simulate_engine(trace, policy, engine=engine, batch_time=LAW, records=False, until_s=horizon_s)
    left = int((trace.output_tokens == 2).sum() - (done.requests.output_tokens == 2).sum())
    return left / horizon_s, float((done.requests.output_tokens + 1).sum()) / horizon_s


@ex.experiment(
    "policies that do not know types, with the memory of the fluid equilibrium", "WAIT Propositions 4 and 5", most_traces=0
)
def experiment(setting: ex.Setting) -> ex.Findings:
    count, horizon_s = setting.pick(20_000, 1_000), setting.pick(LONG_S, 2_000.0)
    seen = {kind: trials(count, setting.seed, kind == "random") for kind in ("their mean", "random")}
    shares = {kind: ex.share_interval(hits, count) for kind, hits in seen.items()}
    each = range(setting.replicates)
    long = {name: np.array([long_run(own, horizon_s, setting.seed, r) for r in each]) for name, own in POLICIES.items()}
    growth = ex.mean_interval(long["FCFS"][:, 0].tolist())
    early = {n: [long_run(own, horizon_s / 4, setting.seed, r)[1] for r in each] for n, own in POLICIES.items()}
    gap = {name: (TOKENS_PER_S - own[:, 1]).tolist() for name, own in long.items()}
    stays = {name: ex.ratio(own, [TOKENS_PER_S - one for one in early[name]]) for name, own in gap.items()}
    lost = {name: f"{ex.mean_text(ex.mean_interval(own))} of {TOKENS_PER_S:g}" for name, own in gap.items()}
    start, queue, claimed = "FCFS in equilibrium, later arrivals", "growth of the queue of type 2", {"FCFS": GROWTH}
    loses = "loses a constant share of the fluid throughput (Proposition"
    letter, exact = shares["their mean"], ex.Interval(OVERFLOWS, OVERFLOWS, OVERFLOWS)
    overflows = f"memory overflows within two iterations with probability {OVERFLOWS:.3f} = 1 - 4.5 e^-2"
    return ex.Findings(
        rows=[
            *(
                ex.Row(f"{start} {kind}", "overflows within two iterations", "", OVERFLOWS, one)
                for kind, one in shares.items()
            ),
            *(ex.row(name, queue, "requests/s", own[:, 0].tolist(), claimed.get(name)) for name, own in long.items()),
            *(ex.row(name, "throughput", "tokens/s", own[:, 1].tolist(), TOKENS_PER_S) for name, own in long.items()),
            *(ex.Row(name, "gap over that of a quarter of the horizon", "", None, one) for name, one in stays.items()),
        ],
        claims=[
            ex.Claim(overflows, ex.within(exact, letter.low or 0.0, letter.high or 1.0), share_said(letter)),
            ex.placed(f"the queue of type 2 is at least {GROWTH:g} t", growth, GROWTH, math.inf),
            *(
                ex.limited(f"{name} {loses} {number})", stays[name], CONSTANT, 1, f"{lost[name]} tokens/s")
                for name, number in PROPOSITION.items()
            ),
        ],
        constants=ex.constants(f"""
            types | prompts 1, outputs 1 and 2, one arrival a second each | the paper's
            memory | M* = {MEMORY} KV tokens, overflow restarts | the paper's
            batch time | d0 = 1 - 9 d1, d1 = {D1_S:g} s | the paper leaves d1 open; trials have 1e-6 s
            FCFS | running requests first, then the queue while memory lasts | the one admitted last restarts
            trials | {count} | each from the equilibrium
            horizon | {horizon_s:g} s | of the long runs
        """),
        remark="the paper counts arrivals of (0, 2) as an overflow: it comes when both are at their last stage and later "
        "arrivals are one of each. The queue grows in proportion to time, at half the claimed rate: an overflow delays "
        "requests and does not add one of type 2 each time. WAIT with equality has no linear growth",
        stands_in="nothing: the instance is the paper's",
        data=ex.curves({name: own.T for name, own in long.items()}, "policy", ("type_2_left_per_s", "tokens_per_s")),
        draw=lambda figure: _draw(figure, long),
        size=(6.0, 3.4),
        intervals=f"Probabilities have Clopper-Pearson intervals over {count:,} trials, the others t-intervals.",
    )


def _draw(figure: ex.Figure, long: Any) -> None:
    axes = figure.subplots()
    axes.bar(list(long), [own[:, 0].mean() for own in long.values()], color=ex.COLOURS[0])
    axes.axhline(GROWTH, color=ex.COLOURS[1])
    ex.labelled(axes, "", "type 2 left over, requests/s")
