"""BalanceRoute's open questions: a limiting prefill tier (sec. 6.3), pool against bypass (D.6), noise and G (sec. 7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from evenstep.cost.token_budget import TokenBudget
from evenstep.experiments import vocabulary as ex
from evenstep.experiments.papers._heavy import KEYS, STEP_TIME, heavy
from evenstep.experiments.papers.balance_route import _balance_route as br
from evenstep.request import Trace, offsets_of
from evenstep.sim.cluster.drift import Drift, Profiles
from evenstep.sim.cluster.simulation import Cluster
from evenstep.sim.prefill_tier import PrefillTier
from evenstep.workload.synthetic.arrivals import Poisson
from evenstep.workload.synthetic.synthetic import Recurring, Synthetic

#: Decode workers and prefillers of sec. 6.3: 2P1D, 4P1D, 5P1D.
TIERS: Mapping[int, int] = {4: 2, 8: 4, 16: 5}
#: Arrivals over what the fleet serves when saturated, and the load of a prefiller for two decode workers.
LOAD, PREFILL_LOAD, PREFILL_BUDGET = 0.9, 0.8, 2048
#: Decode steps that a transfer of KV takes with the pool, loads, and requests a worker may be sent beyond its slots.
TRANSFERS, LOADS, MARGIN = (0, 1, 4), (0.7, 0.95), 2
BYPASS = "bypass"
#: Tokens by which outputs of one prompt differ.
NOISES = (3, 60, 250)
#: Differences smaller than this share of BR-0's spread do not count as a dependence on G.
ALIKE = 0.1
#: Times as many replicates as in the first part at full size: queues near capacity, and spreads, differ by much.
MORE_LATENCIES, MORE_NOISES = 8, 16
PER_WORKER = "output tokens a second and worker"


@ex.experiment("a prefill tier, pool against bypass, noise and G", "BalanceRoute sec. 6.3, D.6, sec. 7", most_traces=0)
def experiment(setting: ex.Setting) -> ex.Findings:
    served = _served(setting)
    tiers = _prefill(setting, served)
    latency = _latency(setting, served)
    kept = _noise(setting)
    shared = br.constants(setting, tuple(TIERS), (br.HEAVY,))
    return ex.Findings(
        **ex.told(_of_tiers(tiers), _of_latency(latency), _of_noise(kept)),
        constants=ex.constants(f"""
            rate | {LOAD:g} of {served:.3g} requests/s a worker | saturated BR-0 at G = 8; not given
            prefiller | load {PREFILL_LOAD:g} with two decode workers each, {PREFILL_BUDGET} tokens a batch, a tenth of it
              fixed | not given; 5P1D then has 1.28 times its capacity to prefill
            transfer | {ex.listed(TRANSFERS)} decode steps in the slot | not given; none with the bypass
            margin | {MARGIN} requests beyond the slots | the paper: a small fixed margin
            alike | within {ALIKE:g} of BR-0's spread | ours, set after the first runs were seen: without a limit, whether
              noise costs more at one G stays unsettled at 80 replicates
            replicates | {MORE_LATENCIES} times as many for latency, {MORE_NOISES} times for noise | queues near capacity and
              spreads differ by much
            noise | outputs of a prompt within ±{", ±".join(map(str, NOISES))} tokens | memorised predicts their past
        """)
        + [one for one in shared if one.name in ("B", "step time", "age bound", "heavy")],
        remark="the paper leaves these three open; its 5P1D row mixes a larger G with fewer prefillers for each worker, "
        "which are told apart here by running every G with and without its prefill tier",
        stands_in="the synthetic workload 'heavy' for the proprietary trace, and Poisson arrivals",
        data={
            "part": ["noise"] * len(ex.flat(kept)),
            **ex.grouped(kept, ("workers", "noise")),
            "spread_over_br_0": ex.flat(kept),
        },
        draw=lambda figure: _draw(figure, kept),
        size=(6.5, 4.0),
        intervals=setting.pick(_intervals(setting.replicates), ""),
    )


def _intervals(replicates: int) -> str:
    """The sentence on intervals at full size."""
    more = f"{MORE_LATENCIES * replicates} for latencies and {MORE_NOISES * replicates} for noise"
    if replicates == 1:
        return f"One replicate: no intervals but those over {more}; ± is half a 95 % t-interval."
    return (
        f"± is half a 95 % t-interval over {replicates} replicates, {more}; differences are paired, replicate by replicate."
    )


def _workload(setting: ex.Setting, workers: int, rate: float | None = None) -> Synthetic:
    """`heavy` with recurring prompts for a fleet size; with a `rate`, Poisson arrivals at so many requests a second."""
    found = heavy(workers * setting.pick(400, 30), recurring=True)
    return replace(found, arrivals=Poisson(rate)) if rate else found


def _served(setting: ex.Setting) -> float:
    """Requests a second that a worker of a saturated fleet of eight serves under BR-0."""
    runs = ex.run_policies(setting, _workload(setting, 8), {br.BR0: br.METHODS[br.BR0]}, br.fleet(8), STEP_TIME)[br.BR0]
    return float(np.mean([run.summary["requests"] / run.summary["makespan_s"] for run in runs])) / 8


#: (G, method, whether there is a prefill tier) -> output tokens a second and worker, one a replicate.
Tiers = Mapping[tuple[int, str, bool], Sequence[float]]


def _prefill(setting: ex.Setting, served: float) -> Tiers:
    """Run JSQ and BR-H at each G with a limiting prefill tier and without, and return tokens a second and worker (`Tiers`).

    `served` is the capacity of a worker, requests a second, from `_served`.
    """
    methods = {name: br.METHODS[name] for name in (br.JSQ, br.ORACLE)}
    rate = LOAD * served
    prompt = float(_workload(setting, 8).draw(setting.seed).prompt_tokens.mean())
    full_s = PREFILL_BUDGET / (2 * rate * prompt / PREFILL_LOAD)  # of a full batch, a tenth of it fixed
    law = TokenBudget(c_s=0.1 * full_s, a_s=0.9 * full_s / PREFILL_BUDGET, b0=0.0)
    found: dict[tuple[int, str, bool], list[float]] = {}
    for workers, prefillers in TIERS.items():
        workload = _workload(setting, workers, rate * workers)
        cluster = Cluster(workers=workers, slots=br.SLOTS, arrivals="timed", may_hold=True)
        for limited in (False, True):
            tier = PrefillTier(prefillers, law, PREFILL_BUDGET) if limited else None
            runs = ex.run_policies(setting, workload, methods, replace(cluster, prefill=tier), STEP_TIME)
            for name, own in runs.items():
                found[workers, name, limited] = ex.values(own, "tokens_per_s", 1 / workers)
    return found


def _of_tiers(tiers: Tiers) -> ex.Told:
    for (g, name, is_limited), own in tiers.items():
        prompts = "its prefillers" if is_limited else "ready prompts"
        yield ex.row(f"{TIERS[g]}P1D, G = {g}, {name}", f"{PER_WORKER}, {prompts}", "", own)
    ours, ready = (ex.quotients(tiers[16, br.ORACLE, k], tiers[8, br.ORACLE, k]) for k in (True, False))
    share, other = (ex.mean_text(ex.mean_interval(own)) for own in (ours, ready))
    says = "5P1D serves less a worker than 4P1D because of its prefillers (sec. 6.3), with BR-H and an oracle"
    yield ex.compared(says, ours, ready, -1, f"{share} of 4P1D a worker with prefillers, {other} if prompts are ready")


#: (load, steps of a transfer or `BYPASS`) -> mean end-to-end seconds from the end of the prefill, one a replicate.
Latency = Mapping[tuple[float, int | str], Sequence[float]]


def _latency(setting: ex.Setting, served: float) -> Latency:
    """Run BR-0 with the pool and with the bypass, and return mean latencies in seconds (`Latency`).

    With the pool, a transfer of KV takes steps in the slot; the bypass transfers before. `served` comes from `_served`.
    """
    workers, single = 8, replace(setting, seeds=1)
    replicates = setting.pick(MORE_LATENCIES, 1) * setting.replicates
    found: dict[tuple[float, int | str], list[float]] = {}
    for load in setting.pick(LOADS, LOADS[1:]):
        for replicate in range(replicates):
            trace = _workload(setting, workers, load * served * workers).draw(setting.seed, replicate)
            pool = Cluster(workers=workers, slots=br.SLOTS, arrivals="timed", may_hold=True)
            ways: dict[int | str, tuple[str, Cluster]] = {
                steps: (br.METHODS[br.BR0], replace(pool, drift=received(trace, steps))) for steps in TRANSFERS
            }
            ways[BYPASS] = (f"{br.METHODS[br.BR0]},bypass=true", replace(pool, dispatch="instant", queue_depth=MARGIN))
            for way, (spec, cluster) in ways.items():
                (done,) = ex.run_policies(single, trace, {br.BR0: spec}, cluster, STEP_TIME)[br.BR0]
                found.setdefault((load, way), []).append(float(done.summary["e2e_mean_s"]))
    return found


def received(trace: Trace, steps: int) -> Drift:
    """The drift of this trace's requests if they hold a slot and their prompt's KV for `steps` steps before they decode."""
    if steps == 0:
        return Drift()
    counts = trace.output_tokens + steps
    offsets = offsets_of(counts)
    since = np.arange(offsets[-1]) - np.repeat(offsets[:-1] + steps, counts)
    return Drift(profiles=Profiles(np.repeat(trace.prompt_tokens, counts) + np.maximum(since, 0.0), offsets))


def _of_latency(latency: Latency) -> ex.Told:
    after = "mean latency from the end of prefill"
    for (load, way), own in latency.items():
        base, case = latency[load, BYPASS], "bypass" if way == BYPASS else f"pool, transfer {way} steps"
        yield ex.row(f"BR-0, {case}", f"{after}, load {load:g}", "s", own, None, base, BYPASS)
        if way != BYPASS:
            says = f"at load {load:g} the bypass is faster than the pool where a transfer takes {way} steps (D.6)"
            yield ex.compared(says, own, base, +1, "the pool takes {} s more")


#: (G, noise) -> spread of BR-H with the memorised predictor over that of BR-0, one a replicate.
Kept = Mapping[tuple[int, int], Sequence[float]]


def _noise(setting: ex.Setting) -> Kept:
    """Run BR-0 and BR-H memorised at each G and each noise of outputs, and return the ratios of their spreads (`Kept`)."""
    methods = {name: br.METHODS[name] for name in (br.BR0, br.MEMORISED)}
    found: dict[tuple[int, int], list[float]] = {}
    setting = replace(setting, seeds=setting.pick(MORE_NOISES, 1) * setting.replicates)
    for workers in setting.pick(tuple(TIERS), (4, 8)):
        for noise in setting.pick(NOISES, NOISES[::2]):
            workload = replace(_workload(setting, workers), recurring=Recurring(KEYS, noise))
            runs = ex.run_policies(setting, workload, methods, br.fleet(workers), STEP_TIME)
            found[workers, noise] = ex.quotients(*ex.pair(runs, br.MEMORISED, br.BR0, br.SPREAD))
    return found


def _of_noise(kept: Kept) -> ex.Told:
    for (g, noise), own in kept.items():
        yield ex.row(f"G = {g}, outputs ±{noise}", "spread of BR-H memorised over that of BR-0", "", own)
    sizes = sorted({g for g, _ in kept})
    few, many = sizes[0], sizes[-1]
    loss = {g: [b - a for a, b in zip(kept[g, NOISES[0]], kept[g, NOISES[-1]], strict=True)] for g in sizes}
    rises = {g: ex.mean_text(ex.mean_interval(own)) for g, own in loss.items()}
    says = f"noise costs the same share of the balance at G = {many} as at G = {few} (within {ALIKE:g}, sec. 7)"
    seen = ex.listed(f"G = {g}: the spread over BR-0's rises by {rise}" for g, rise in rises.items())
    yield ex.placed(says, ex.paired_difference(loss[many], loss[few]), -ALIKE, ALIKE, f"{seen}; {{}} apart")


def _draw(figure: ex.Figure, kept: Kept) -> None:
    axes = figure.add_subplot(1, 1, 1)
    means = {key: ex.mean_interval(own).value for key, own in kept.items()}
    noises = list(dict.fromkeys(noise for _, noise in kept))
    sizes = sorted({g for g, _ in kept})
    ex.lines(axes, {f"G = {g}": (noises, [means[g, noise] for noise in noises]) for g in sizes}, marker="o", ls="-")
    ex.labelled(axes, "spread of a prompt's outputs, ± tokens", "spread of BR-H memorised over BR-0's", legend=True)
