"""BF-IO App. A.1.1: instances on which round robin and JSQ put every long request on one worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evenstep import names
from evenstep.cost.linear import Linear
from evenstep.experiments import vocabulary as ex
from evenstep.request import F8, I8, Trace
from evenstep.routing.view import RoutingDecision, RoutingPolicy, RoutingView
from evenstep.sim.cluster.simulation import Cluster, simulate

WORKERS = (2, 4, 8, 16, 32)
#: Long requests for each worker that a balanced assignment would give it.
EACH = 2
#: Steps between waves, and decode steps of a short and (times `GAP` and the waves) of a long request.
GAP, SHORT, LONG = 4, 2, 20
_STEP_S = 0.01  # seconds of a step: constant, so that waves meet the same steps under every policy

#: (victim, its spec, the instance built against it, True if it draws at random and so has replicates).
VICTIMS = (
    ("round robin", "round-robin", "round-robin", False),
    ("JSQ, ties to the lowest index", "jsq:ties=lowest", "jsq", False),
    ("JSQ, ties by chance", "jsq", "jsq", True),
)


@ex.experiment("adversarial instances for round robin and JSQ", "BF-IO App. A.1.1", most_traces=0)
def experiment(setting: ex.Setting) -> ex.Findings:
    sizes: Sequence[int] = setting.pick(WORKERS, (2, 4, 8))
    found = {
        (name, g): [_ratio(spec, against, g, setting.seed + s) for s in range(setting.replicates if chance else 1)]
        for name, spec, against, chance in VICTIMS
        for g in sizes
    }
    work = "step work over that of an even deal"
    slopes = {name: ex.mean_interval(ex.slopes(sizes, [found[name, g] for g in sizes])) for name, *_ in VICTIMS}
    return ex.Findings(
        rows=[
            *(ex.row(f"{name}, G = {g}", work, "", own, f"grows like {g}") for (name, g), own in found.items()),
            *(ex.Row(name, "exponent of the growth in G", "", 1.0, slope) for name, slope in slopes.items()),
        ],
        claims=[_claim(name, slopes[name], chance) for name, *_, chance in VICTIMS],
        constants=ex.constants(f"""
            G | {ex.listed(sizes)} | swept
            B | {4 * EACH} G, never full | the paper has no slot limit here
            long requests | {EACH} G, one a wave | any multiple of G
            waves | every {GAP} steps; short requests decode {SHORT} steps, long ones {LONG} x {GAP} x the number of waves |
              the paper says L much larger than s; all prompts are one token
            step | constant | waves then meet the same steps under every policy; work is the envelope summed over steps
            compared with | long requests dealt out in turn, offline | the paper's balanced assignment; it need not be
              optimal
        """),
        remark="the JSQ instance needs ties that go to a worker known beforehand: the paper says 'ties arbitrary', and with "
        f"ties by chance the growth in G has exponent {slopes[VICTIMS[2][0]].value:.2f} in place of 1",
        stands_in="nothing: the instances are made as the paper describes them",
        data=ex.long_values(found, ("policy", "workers"), "ratio"),
        draw=lambda figure: _draw(figure, found, sizes),
        size=(6.2, 4.4),
        intervals=""
        if setting.replicates == 1
        else f"± is half a 95 % t-interval over {setting.replicates} keys of the dice; what throws none has none.",
    )


def instance(against: str, workers: int) -> Trace:
    """The requests of the paper's instance, in order, with arrival times in seconds and prompts of one token.

    Each wave has one long request. If `against` is ``round-robin``, every G-th request is long. If it is ``jsq``, short
    requests first bring the other workers to the first worker's number of requests, so that a tie decides.
    """
    waves = EACH * workers
    counts = [(workers - 1) * (wave if against == "jsq" else 1) for wave in range(waves)]
    outputs: list[I8] = []
    times: list[F8] = []
    for wave, short in enumerate(counts):
        lengths = np.full(short + 1, SHORT, np.int64)
        lengths[-1 if against == "jsq" else 0] = LONG * GAP * waves
        outputs.append(lengths)
        times.append(np.full(short + 1, wave * GAP * _STEP_S))
    tokens = np.concatenate(outputs)
    return Trace(
        np.ones(tokens.size, np.int64), tokens, arrival_s=np.concatenate(times), name=f"against {against}", synthetic=True
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Dealt:
    """A policy with an assignment made beforehand: `worker`, int64[N], by request id."""

    worker: I8

    def route(self, view: RoutingView) -> RoutingDecision:
        return RoutingDecision(self.worker[view.waiting_id], view.memory)


def _work(policy: RoutingPolicy, trace: Trace, workers: int, seed: int) -> float:
    """The envelope summed over all steps of a run, KV tokens."""
    cluster = Cluster(workers=workers, slots=4 * EACH * workers, arrivals="timed")
    law = Linear(overhead_s=_STEP_S, per_token_s=0.0)
    done = simulate(trace, policy, cluster=cluster, step_time=law, seed=seed)
    assert done.steps is not None
    return float(np.cumsum(done.steps.envelope)[-1])


def _ratio(spec: str, against: str, workers: int, seed: int) -> float:
    """The `_work` of a policy over that of an offline assignment, which deals out long and short requests in turn."""
    trace = instance(against, workers)
    is_long = trace.output_tokens > SHORT
    place = np.where(is_long, np.cumsum(is_long) - 1, np.cumsum(~is_long) - 1)
    victim: RoutingPolicy = names.build("routing", spec)
    dealt = _Dealt(np.ascontiguousarray(place % workers))
    return _work(victim, trace, workers, seed) / _work(dealt, trace, workers, seed)


def _claim(name: str, slope: ex.Interval, chance: bool) -> ex.Claim:
    """The claim that a victim's ratio grows like G; without random draws (`chance`) the exponent is exact."""
    exact = slope if chance else ex.Interval(slope.value, slope.value, slope.value)
    holds = ex.clearly(ex.beyond(exact, 0.9), +1)
    return ex.Claim(f"{name}: the ratio grows like G on its instance", holds, f"exponent {ex.mean_text(slope)}")


def _draw(figure: ex.Figure, found: Mapping[tuple[str, int], Sequence[float]], sizes: Sequence[int]) -> None:
    axes = figure.add_subplot(1, 1, 1)
    axes.plot(sizes, sizes, color="#888888", ls=":", label="G")
    for (name, *_), colour, marker in zip(VICTIMS, ex.COLOURS, "osD", strict=False):
        ex.band_line(axes, sizes, [ex.mean_interval(found[name, g]) for g in sizes], name, colour, marker)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xticks(sizes, sizes)
    axes.set_yticks([1, *sizes], [1, *sizes])
    ex.labelled(axes, "workers G", "work over that of an even deal", legend=True)
