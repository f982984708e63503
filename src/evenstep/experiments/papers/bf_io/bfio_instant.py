"""BF-IO sec. 7.3, an open question: the gain that remains if requests are bound to per-worker queues at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from evenstep.experiments import vocabulary as ex
from evenstep.experiments.papers.bf_io import _bf_io as bf
from evenstep.sim.cluster.simulation import Cluster

#: Queue depth in slots a worker; None = the pool of the paper, as a reference.
DEPTHS = (None, 0.0, 0.25, 1.0, 2.0, 4.0)
POLICIES = {p: bf.POLICIES[p] for p in (bf.FCFS, bf.BF0, bf.BF20)}
_FIELDS = (bf.IMBALANCE, "idle_share", "full_slot_tokens_per_s")

Found = Mapping[float | None, ex.Runs]


@ex.experiment("gain against the depth of per-worker queues", "BF-IO sec. 7.3 (an open question)")
def experiment(setting: ex.Setting) -> ex.Findings:
    depths: Sequence[float | None] = setting.pick(DEPTHS, (None, 0.0, 2.0))
    workers, slots = setting.pick((16, 72), (4, 12))
    requests = setting.pick(16_000, 800)
    found, stands_in = ex.parted(
        {depth: bf.run_on(setting, _cluster(workers, slots, depth), requests, POLICIES) for depth in depths}
    )
    return ex.Findings(
        rows=[one for depth, runs in found.items() for one in _rows(depth, runs)],
        claims=[_claim(found, policy) for policy in (bf.BF0, bf.BF20)],
        constants=bf.constants(_cluster(workers, slots, None), requests)
        + ex.constants(f"""
            queue depth | {ex.listed(_name(d) for d in depths)} | the paper asks the question and gives no numbers
            instant dispatch | one decision a request, oldest first; it waits in the worker's queue for a slot | 'bind
              requests immediately to per-worker queues'; nothing is moved afterwards
        """),
        remark="the paper leaves this open; instant dispatch takes away which request is admitted, and a queue makes the "
        "loads seen at binding stale at the start: the gain of BF-IO(0) over FCFS is "
        f"{bf.gain(found[None]).value:.1f} times with the pool and {bf.gain(found[depths[-1]]).value:.1f} times "
        "with the deepest queues",
        stands_in=stands_in,
        data=ex.joined([ex.long_table(runs, _FIELDS, depth=_name(d)) for d, runs in found.items()]),
        draw=lambda figure: _draw(figure, found),
        size=(9.5, 3.9),
    )


def _cluster(workers: int, slots: int, depth: float | None) -> Cluster:
    """The fleet: with a pool if `depth` is None, else with instant dispatch and queues of `depth` times the slots."""
    pooled = Cluster(workers=workers, slots=slots, pool=max(32, workers * 8))
    return pooled if depth is None else replace(pooled, dispatch="instant", queue_depth=round(depth * slots))


def _name(depth: float | None) -> str:
    return "pool" if depth is None else f"{depth:g} B"


def _rows(depth: float | None, runs: ex.Runs) -> Iterator[ex.Row]:
    numbers = {policy: ex.values(own, bf.IMBALANCE, 1e-4) for policy, own in runs.items()}
    for policy, own in numbers.items():
        case = f"{policy}, {_name(depth)}"
        yield ex.row(case, "average imbalance", "10^4 tokens", own, None, numbers[bf.FCFS], bf.FCFS)
        if policy != bf.FCFS:
            yield ex.Row(case, "imbalance of FCFS over it", "times", None, bf.gain(runs, policy))


def _claim(found: Found, policy: str) -> ex.Claim:
    last = list(found)[-1]
    first, end = bf.gain(found[None], policy), bf.gain(found[last], policy)
    seen = f"{ex.mean_text(first)} times with the pool, {ex.mean_text(end)} at a depth of {_name(last)}"
    return ex.Claim(f"the gain of {policy} over FCFS weakens as requests are bound early", ex.below(end, first), seen)


def _draw(figure: ex.Figure, found: Found) -> None:
    loads, gains = figure.subplots(1, 2)
    x = list(range(len(found)))
    ex.bands(loads, {p: (x, [ex.mean(runs[p], bf.IMBALANCE, 1e-4) for runs in found.values()]) for p in POLICIES})
    ex.bands(gains, {p: (x, [bf.gain(runs, p) for runs in found.values()]) for p in (bf.BF0, bf.BF20)}, ex.COLOURS[1:])
    for axes in (loads, gains):
        axes.set_xticks(x, [_name(depth) for depth in found])
        axes.set_ylim(bottom=0)
        ex.labelled(axes, "per-worker queue depth", legend=True)
    loads.set_ylabel("average imbalance, 10^4 tokens")
    gains.set_ylabel("imbalance of FCFS over it")
