"""WAIT secs. 7.1, 8.1: changing rates, with thresholds for their mean, for their peak, and solved anew."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evenstep.cost.affine_kv import AffineKv
from evenstep.experiments import vocabulary as ex
from evenstep.experiments.papers.wait._wait import ENERGY, drawn_types, energy_j_per_token
from evenstep.measure.engine_records import EngineRun
from evenstep.request import F8, Trace
from evenstep.scheduling.policies.nested_wait import NestedWait
from evenstep.scheduling.policies.sarathi import Sarathi
from evenstep.scheduling.policies.wait import Wait
from evenstep.scheduling.view import SchedulingPolicy
from evenstep.sim.engine.simulation import Engine, simulate_engine
from evenstep.theory import nested_thresholds, wait_thresholds
from evenstep.theory.fluid import Types
from evenstep.workload.synthetic.arrivals import Poisson

LAW = AffineKv()
#: Seconds of a run. Each profile has shares of the engine's capacity, in turns of one length.
WHOLE_S = 360.0
PROFILES: Mapping[str, tuple[float, ...]] = {
    "surge": (0.3, 0.85, 0.3),
    "sine": tuple((0.5 + 0.35 * np.sin(2 * np.pi * (np.arange(36) + 0.5) / 18)).tolist()),
}
#: Share of the capacity of the constant rate, and of the thresholds it starts with.
STEADY, BEFORE = 0.85, 0.3
#: `solve_s` of policies that solve their thresholds anew: from what they observed in one to two times so many seconds.
SOLVE_S = 20.0
#: How far the mean of a solved threshold may be from the theory's, as a share of it.
NEAR = 0.1
FIELDS = {
    "e2e_mean_s": ("mean latency", "s"),
    "throughput_tokens_per_s": ("throughput", "tokens/s"),
    "iterations": ("iterations", ""),
    "energy_j_per_token": ("energy", "J/token"),
}
#: Fields that are lower for a policy with gates than for Sarathi: the field, the words and the figure's text.
SAVED = (("iterations", "fewer iterations", "{} iterations"), ("energy_j_per_token", "less energy a token", "{} J"))


@dataclass(frozen=True, slots=True)
class Family:
    """Types of requests that WAIT or Nested WAIT serves."""

    name: str  # of the policy
    prompts: tuple[int, ...]  # tokens of each type
    outputs: tuple[int, ...]  # tokens of each type
    shares: tuple[float, ...]  # arrivals of each type, in proportion
    is_nested: bool  # True if Nested WAIT serves them, because the types are unknown; else WAIT

    def types(self, load: float) -> Types:
        """The types, with arrivals at this share of the engine's capacity."""
        return Types(self.shares, self.prompts, self.outputs, LAW.d0_s, LAW.d1_s).at_load(load)

    def thresholds(self, load: float) -> tuple[int, ...]:
        """The theory's least thresholds for the true rates at a load, one a type or segment."""
        types = self.types(load)
        if self.is_nested:
            found = nested_thresholds.with_slack(types, 0.0, iterations=1e6, delta=0.01).thresholds
        else:
            found = wait_thresholds.least(types).thresholds
        return tuple(found.tolist())

    def policy(self, thresholds: tuple[int, ...], solve_s: float = 0.0) -> SchedulingPolicy:
        if self.is_nested:
            return NestedWait(thresholds, self.outputs[:-1], solve_s=solve_s)
        return Wait(thresholds, solve_s=solve_s)

    def policies(self, loads: Sequence[float]) -> dict[str, SchedulingPolicy]:
        """Policies for a load profile, by label: thresholds for its mean, for its peak, solved anew, and `sarathi`.

        The one solved anew starts with the mean's thresholds, and solves from the last one to two times `SOLVE_S` seconds.
        """
        mean, peak = self.thresholds(float(np.mean(loads))), self.thresholds(max(loads))
        return {
            "for the mean": self.policy(mean),
            "for the peak": self.policy(peak),
            "solved anew": self.policy(mean, SOLVE_S),
            "Sarathi": Sarathi(),
        }

    def trace(self, loads: Sequence[float], phase_s: float, seed: int, replicate: int) -> Trace:
        """Poisson arrivals, each of a type drawn by the shares; each phase of `phase_s` seconds has one of the loads."""
        rates = [sum(self.types(load).arrivals_per_s) for load in loads]
        expected = np.concatenate([[0.0], np.cumsum(rates) * phase_s])
        events = Poisson(1.0).times(int(1.1 * expected[-1]) + 100, seed, replicate)
        arrival_s = np.interp(events, expected, np.arange(expected.size) * phase_s)[events < expected[-1]]
        which = drawn_types(self.shares, arrival_s.size, seed, replicate)
        prompt, output = (np.asarray(of, np.int64)[which] for of in (self.prompts, self.outputs))
        return Trace(prompt, output, synthetic=True, arrival_s=arrival_s, request_class=which, name=self.name)


FAMILIES = (
    Family("WAIT", (100, 200), (50, 100), (1, 1), is_nested=False),
    Family("Nested WAIT", (50,) * 4, (20, 40, 80, 160), (4, 3, 2, 1), is_nested=True),
)
#: Runs by (family, profile, policy), one a replicate.
Runs = Mapping[tuple[str, str, str], Sequence[EngineRun]]


def one(trace: Trace, policy: SchedulingPolicy, label: str) -> EngineRun:
    """Simulate a policy, called `label`, on an engine without limits. The run ends with the last arrival."""
    engine = Engine(token_budget=0, batch_limit=0, first_token="decode")
    until_s = float(trace.column("arrival_s")[-1])
    return simulate_engine(trace, policy, engine=engine, batch_time=LAW, name=label, until_s=until_s)


@ex.experiment(
    "WAIT where rates change: thresholds for mean and peak, and solved anew", "WAIT secs. 7.1, 8.1", most_traces=0
)
def experiment(setting: ex.Setting) -> ex.Findings:
    whole_s, many = setting.pick(WHOLE_S, 120.0), range(setting.replicates)
    runs: dict[tuple[str, str, str], list[EngineRun]] = {}
    steady: dict[str, list[EngineRun]] = {}
    for family in FAMILIES:
        for profile, loads in PROFILES.items():
            traces = [family.trace(loads, whole_s / len(loads), setting.seed, r) for r in many]
            for label, policy in family.policies(loads).items():
                runs[family.name, profile, label] = [one(trace, policy, label) for trace in traces]
        solving = family.policy(family.thresholds(BEFORE), SOLVE_S)
        traces = [family.trace((STEADY,), whole_s / 2, setting.seed, r) for r in many]
        steady[family.name] = [one(trace, solving, "solved anew") for trace in traces]
    middles, latency = _by_arrival(runs, whole_s)
    curves = {key: (middles, own) for key, own in latency.items()}
    return ex.Findings(
        **ex.told(_changing(runs), _steady(steady)),
        constants=_constants(whole_s),
        remark="the paper names conditions on thresholds for rates that change and runs static ones; what is estimated, "
        "from what, and when it is solved is ours. Without waiting (Sarathi) every rate is served with less latency and "
        "more iterations: solving anew does not change what WAIT is for. Thresholds solved from a window stray from run "
        "to run by more than their mean does, the more the nearer the load is to 1",
        stands_in="the batch-time law of the paper's eq. 1",
        data=ex.curves(curves, ("policy_family", "profile", "policy"), ("arrival_s", "mean_latency_s")),
        draw=lambda figure: _draw(figure, middles, latency),
        size=(9.0, 6.4),
    )


def _values(runs: Sequence[EngineRun], field: str) -> list[float]:
    return [energy_j_per_token(run) for run in runs] if field == "energy_j_per_token" else ex.values(runs, field)


def _changing(runs: Runs) -> ex.Told:
    for (family, profile, label), own in runs.items():
        for field, (quantity, unit) in FIELDS.items():
            base = () if label == "solved anew" else _values(runs[family, profile, "solved anew"], field)
            case = f"{label} on the types of {family}, {profile}" if label == "Sarathi" else f"{family} {label}, {profile}"
            yield ex.row(case, quantity, unit, _values(own, field), None, base, "solved anew")
    for family, profile in itertools.product([family.name for family in FAMILIES], PROFILES):
        anew, sarathi = (family, profile, "solved anew"), runs[family, profile, "Sarathi"]
        for other in ("for the mean", "for the peak"):
            text = f"{family} solved anew has a lower latency than with thresholds {other}, {profile}"
            yield ex.compared(text, *ex.pair(runs, anew, (family, profile, other), "e2e_mean_s"), -1, "{} s")
        for field, less, said in SAVED:
            text = f"{family} solved anew still takes {less} than Sarathi, {profile}"
            yield ex.compared(text, _values(runs[anew], field), _values(sarathi, field), -1, said)


def _steady(steady: Mapping[str, Sequence[EngineRun]]) -> ex.Told:
    for family in FAMILIES:
        wanted, means = family.thresholds(STEADY), list[ex.Interval]()
        for k, n in enumerate(wanted):
            case, quantity = f"{family.name} at a constant rate", f"n_{k + 1} at the end (the theory's beside it)"
            solved = [float(run.totals.counted[f"threshold_{k + 1}"]) for run in steady[family.name]]
            means.append(ex.mean_interval(solved))
            yield ex.row(case, quantity, "requests", solved, float(n))
        off = [max(NEAR * n, 1.0) for n in wanted]
        near = ex.all_of([ex.within(mean, n - by, n + by) for mean, n, by in zip(means, wanted, off, strict=True)])
        said = ", ".join(f"{ex.mean_text(mean)} of {n}" for mean, n in zip(means, wanted, strict=True))
        text = f"at a constant rate {family.name}'s mean thresholds are within {NEAR:.0%}, or one request, of the theory's"
        yield ex.Claim(text, near, said)


def _constants(whole_s: float) -> list[ex.Constant]:
    surge = ", ".join(f"{load:g}" for load in PROFILES["surge"])
    families = "; ".join(
        f"{f.name}: prompts {f.prompts}, outputs {f.outputs}, {f.shares} in proportion, thresholds "
        + ", ".join(f"{p} {f.thresholds(float(np.mean(own)))} and {f.thresholds(max(own))}" for p, own in PROFILES.items())
        for f in FAMILIES
    )
    return ex.constants(f"""
        rates | surge {surge}; sine .5 +-.35, two periods | of capacity, {whole_s:g} s; the paper has none
        types | {families} | the least thresholds of eqs. 9 and 10 for the mean and the peak rates
        solve_s | {SOLVE_S} | several times as long as a request stays, and short compared with a turn
        batch time | d0 = {LAW.d0_s:g} s, d1 = {LAW.d1_s:g} s a KV token | the paper prints neither
        memory, token budget, batch limit | no limit | as in the paper's model
        max_hold_s | 1.0 | the paper's rules never run the last of a burst
        {ENERGY}
        end | the last arrival | what is left over shows as throughput
        constant rate | {STEADY:g} of the capacity, {whole_s / 2:g} s | from the thresholds of {BEFORE:g} on
    """)


def _by_arrival(runs: Runs, whole_s: float) -> tuple[F8, dict[tuple[str, str, str], F8]]:
    """(arrival times, mean latency of completed requests that arrived near each) in the first replicate; nan for none."""
    edges = np.linspace(0.0, whole_s, 61)
    found: dict[tuple[str, str, str], F8] = {}
    for key, (first, *_) in runs.items():
        took = first.requests.finished_s - first.requests.arrival_s
        place = np.clip(np.digitize(first.requests.arrival_s, edges) - 1, 0, edges.size - 2)
        count = np.bincount(place, minlength=edges.size - 1)
        total = np.bincount(place, weights=took, minlength=edges.size - 1)
        found[key] = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return (edges[1:] + edges[:-1]) / 2, found


def _draw(figure: ex.Figure, middles: F8, latency: Mapping[tuple[str, str, str], F8]) -> None:
    panels = figure.subplots(len(PROFILES), len(FAMILIES))
    shown = [(profile, family.name) for profile in PROFILES for family in FAMILIES]
    for axes, (profile, family) in zip(panels.flat, shown, strict=True):
        own = {label: (middles, line) for (name, at, label), line in latency.items() if (name, at) == (family, profile)}
        ex.lines(axes, own, lw=1.3)
        axes.set_yscale("log")
        ex.labelled(axes, "arrival, s", title=f"{family}, {profile}")
    panels[0][0].set_ylabel("mean latency, s")
    panels[0][0].legend(frameon=False, fontsize=7)
