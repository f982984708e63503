"""Interval scheduling's competitive ratios: Figs. 1-3, and its closed forms against the simulator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np

from evenstep import streams
from evenstep.experiments import vocabulary as ex
from evenstep.experiments.papers.interval._a_min_of_proof import AMinOfProof
from evenstep.experiments.papers.interval.interval_instances import engine_run
from evenstep.measure.engine_records import EngineRun
from evenstep.request import F8, I8
from evenstep.scheduling.order import QueueOrder
from evenstep.scheduling.policies.a_min import AMin
from evenstep.scheduling.view import BatchDecision, Belief, EngineView, SchedulingPolicy
from evenstep.theory import intervals as theory

#: Fig. 1: the paper's a, b and c of a ln(u + b) + c, and the lengths it is fitted over.
FIT, LENGTHS = (0.2555, 0.2793, 1.1587), range(1, 101)
#: Lengths u at which the printed fit is compared.
SPREAD = (1, 2, 5, 10, 20, 50, 80, 120, 200, 300, 500, 750, 1000)
#: Fig. 3: values of q.
SHARES = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999)
#: How near a simulated latency is to be to its closed form, and a share of completed requests to that of Proposition 4.5.
NEAR, NEAR_COMPLETED = 0.02, 0.01
#: H-SF's mean latency over the longest output; with less, the end of a run has too much weight.
LOADED = 25
#: The same where the periods of Proposition 4.5 are watched, which takes long.
WATCHED = 3
#: The same for A_min as proved, and the most requests of a run. Its periods are counted in runs of that many.
SETTLED, MOST = 100, 150_000
#: Memory over s + u in the runs whose periods decide the claim.
ROOMY = 200
A_MIN, HINDSIGHT = "A_min", "H-SF"
#: Policies that see bounds alone.
BLIND = {
    A_MIN: "a-min",
    "A_min, repaired": "a-min:reading=repaired",
    "A_min, evicts the least KV": "a-min:victim=least-kv",
    "A_min, evicts the last": "a-min:victim=last",
    "A_max": "a-max",
    "A_ell": "a-ell",
}
#: A_min with the assumptions of Lemma 4.6's proof: all of them, or with Algorithm 2's order of victims.
VICTIMS: Mapping[Literal["grown", "any"], str] = {"grown": "as proved", "any": "freed memory to the queue"}
#: Values by (part, case, quantity), one a replicate.
Values = dict[tuple[str, str, str], list[float]]


@dataclass(eq=False)
class _Watched:
    """A_min that records, for each evicted request, the bound that it ran under last (`bound`, by request id)."""

    policy: AMin
    bound: dict[int, int] = field(default_factory=dict[int, int])  # request to bound, of those that were evicted
    believes: ClassVar[Belief] = "bounds"

    @property
    def order(self) -> QueueOrder:
        return self.policy.order

    def form_batch(self, view: EngineView) -> BatchDecision:
        lost = np.flatnonzero(view.running & (view.evictions > 0))
        self.bound.update(zip(view.request_id[lost].tolist(), view.lost_at[lost].tolist(), strict=True))
        return self.policy.form_batch(view)


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """An instance: prompts of s tokens, outputs from l to u, and how often each output occurs."""

    prompt: int  # s, tokens
    lower: int  # l, tokens
    mix: F8  # float64[u], requests of each output 1..u, in proportion
    times: int = 100  # memory over s + u

    @property
    def name(self) -> str:
        return f"s = {self.prompt}, l = {self.lower}, u = {self.mix.size}"

    @property
    def memory(self) -> int:
        """M, memory in KV tokens: `times` (s + u); the paper lets M go to infinity."""
        return self.times * (self.prompt + self.mix.size)

    def output(self, count: int) -> I8:
        """int64, about `count` output lengths in the proportions of the mix, ascending."""
        counts = np.round(self.mix / self.mix.sum() * count).astype(np.int64)
        return np.repeat(np.arange(1, self.mix.size + 1), counts)

    @property
    def outputs(self) -> list[int]:
        """The output lengths that occur, ascending."""
        return [int(j) for j in np.flatnonzero(self.mix) + 1]

    def run(self, policy: SchedulingPolicy | str, count: int, seed: int, *, tells: bool = False) -> EngineRun:
        """Simulate about `count` requests, all present at the start, under a policy that is told l and u as bounds.

        If `tells`, a request's class is its output, for policies that count by it.
        """
        output = self.output(count)
        bounds = np.full_like(output, self.lower), np.full_like(output, self.mix.size)
        prompt, holds, classes = max(self.prompt, 1), self.prompt > 0, output if tells else None
        return engine_run(policy, output, bounds, self.memory, seed, prompt=prompt, holds=holds, request_class=classes)

    def completions(self, count: int, seed: int) -> F8:
        """float64[u+1, u+1]: the share of each output j that A_min completes in each period i, by i and j.

        A request ends in the period of the bound it ran under last; a bound that an eviction lowered counts as l.
        """
        watched = _Watched(AMin())
        table = self.run(watched, count, seed).requests
        period = np.full(table.request_id.size, self.lower)
        at = np.searchsorted(table.request_id, np.array(list(watched.bound), np.int64))
        period[at] = np.maximum(list(watched.bound.values()), self.lower)
        found = np.zeros((self.mix.size + 1, self.mix.size + 1))
        np.add.at(found, (period, table.output_tokens), 1.0)
        return found / np.maximum(found.sum(axis=0), 1)

    def as_proved(self, victim: Literal["grown", "any"], count: int, seed: int) -> tuple[float, F8]:
        """(mean latency in iterations, shares completed by period and output as `completions`) of `AMinOfProof`."""
        size = self.mix.size + 1
        run = self.run(AMinOfProof(victim=victim, longest=self.mix.size), count, seed, tells=True)
        stays = np.array([[run.totals.counted[f"{i} of {j}"] for j in range(size)] for i in range(size)], float)
        every = np.bincount(self.output(count), minlength=size)
        stays[self.lower] += every
        return float(run.summary["e2e_mean_s"]), stays / np.maximum(every, 1)

    def latencies(self, policy: SchedulingPolicy | str, count: int, seed: int) -> tuple[float, F8]:
        """(mean latency in iterations, float64[u]: share of the requests of each output 1..u never evicted)."""
        run = self.run(policy, count, seed)
        table = run.requests
        kept = np.bincount(table.output_tokens, table.evictions == 0, self.mix.size + 1)
        every = np.bincount(table.output_tokens, minlength=self.mix.size + 1)
        return float(run.summary["e2e_mean_s"]), (kept / np.maximum(every, 1))[1:]

    def mean_latencies(self, setting: ex.Setting, policy: str, count: int) -> list[float]:
        """The mean latency in iterations of about `count` requests under a policy, one number a replicate."""
        return [self.latencies(policy, count, setting.seed + r)[0] for r in range(setting.replicates)]

    def enough(self, lengths: float) -> int:
        """The number of requests at which H-SF's mean latency is `lengths` times the longest output."""
        return round(lengths * self.mix.size / self.hindsight(1))

    def hindsight(self, count: int) -> float:
        """H-SF's mean latency in iterations with `count` requests, by the closed form in the proof of Lemma 4.6."""
        k = np.arange(1, self.mix.size + 1, dtype=float)
        x = self.mix / self.mix.sum()
        later = np.cumsum(x[::-1])[::-1] - x
        return count / (2 * self.memory) * float((k * (self.prompt + k) * x * (x + 2 * later)).sum())


def even(prompt: int, lower: int, upper: int) -> Case:
    """A case with equally many requests of every output from `lower` to `upper`."""
    return Case(prompt, lower, np.where(np.arange(1, upper + 1) < lower, 0.0, 1.0))


CASES = (
    Case(0, 1, theory.a_min_worst(8)[1]),
    even(2, 2, 10),
    even(5, 3, 6),
    even(10, 4, 8),
    Case(20, 10, np.where(np.arange(1, 61) < 10, 0.0, 0.95 ** np.arange(60))),
)


@ex.experiment("competitive ratios", "Interval scheduling Figs. 1-3, Lemma 4.6, Theorem 4.2", most_traces=0)
def experiment(setting: ex.Setting) -> ex.Findings:
    values: Values = {}
    return ex.Findings(
        **ex.told(_figures(), *(part(setting, values) for part in (_lemma, _proof, _periods, _random, _search))),
        constants=ex.constants(f"""
            M | 100 (s + u) | the paper: M -> inf
            requests | H-SF's mean latency is {setting.pick(LOADED, 3)} u, {WATCHED} u for periods | the paper: n -> inf
            A_min as proved | {setting.pick(SETTLED, 3)} u, at most {MOST:,} requests; periods {setting.pick(MOST, 3_000):,},
              M = {ROOMY} (s + u) | ours; queue and victims by chance
            near | {NEAR:.0%}, completions {NEAR_COMPLETED:.0%} of an output's requests | ours; the paper says O(1/M)
            eq. 3 | a request beyond its bound is believed to end next | read literally it would count nothing
            Theorem 4.2 | {setting.pick(24, 3)} random mixes of 2 to 9 outputs, up to 12 tokens | the paper: any instance
        """),
        remark="the proof of Lemma 4.6 assumes that memory is full at every age: the queue takes memory that a completion "
        "frees, and for tokens beyond bounds requests beyond their bounds are evicted, by chance. The bound of an "
        "evicted request is the token it was about to produce. A control that does this has the printed completions "
        "and ratio. Algorithm 2 lets running requests grow into freed memory first, so it evicts few. Its latency "
        "is below the form where evictions would cost much, and above it at s = 0, where only evictions would teach "
        "it the order. With its own order of victims, but with freed memory for the queue, it comes within 3 % of "
        "the form. H-SF's side is as the proof has it. Fig. 1's printed fit is that of long outputs",
        stands_in="nothing: instances are the paper's or made",
        data=ex.long_values(values, ("part", "case", "quantity"), "value"),
        draw=_draw,
        size=(11.0, 3.4),
    )


def _curve(u: F8, a: float, b: float, c: float) -> F8:
    return a * np.log(u + b) + c


def fitted() -> tuple[F8, float]:
    """([a, b, c], R^2) of a ln(u + b) + c, fitted by least squares to A_min's worst ratio over Fig. 1's lengths."""
    from scipy.optimize import curve_fit

    y = [theory.a_min_worst(n)[0] for n in LENGTHS]
    found: F8 = curve_fit(_curve, np.array(LENGTHS, float), y, p0=FIT)[0]
    return found, explained(LENGTHS, found)


def explained(lengths: Sequence[int], coefficients: Sequence[float] | F8) -> float:
    """R^2 of the curve a ln(u + b) + c, `coefficients` a, b and c, against A_min's worst ratio, at these lengths u."""
    y = np.array([theory.a_min_worst(n)[0] for n in lengths])
    gap = y - _curve(np.array(lengths, float), *coefficients)
    return 1 - float((gap**2).sum() / ((y - y.mean()) ** 2).sum())


def geometric(q: float, *, weighted: bool = False) -> float:
    """A_min's closed ratio if output k has weight q^(k-1), or k q^(k-1) if `weighted`; 0 < q < 1. The far tail is cut."""
    k = np.arange(1, min(int(40 / (1 - q)), 100_000) + 2, dtype=float)
    return theory.a_min_mixed((k if weighted else 1.0) * q ** (k - 1), 0, 1)


def two_points(lower: int, upper: int) -> float:
    """The largest closed ratio of A_min over 400 mixes of two outputs, `lower` and `upper`."""
    mixes = np.zeros((400, upper))
    mixes[:, lower - 1] = np.geomspace(1e-2, 1e3, 400)
    mixes[:, -1] = 1.0
    return max(theory.a_min_mixed(mix, 0, lower) for mix in mixes)


def _figures() -> ex.Told:
    """Figs. 1 and 3, and the closed forms in Theorems 4.3, 5.1 and 5.2."""
    found, square = fitted()
    as_printed = {first: explained([u for u in SPREAD if u >= first], FIT) for first in (1, 50)}
    longest, harmonic = theory.a_min_worst(1000)[0], theory.a_min_bound(1000)
    plain, weighted = ([geometric(q, weighted=w) for q in SHARES] for w in (False, True))
    two = {(low, up): two_points(low, up) for low, up in ((1, 2), (1, 4), (2, 8), (1, 16))}
    mixes = np.geomspace(1e-3, 1e3, 601).tolist()
    ell = {a: max(theory.a_ell_ratio(a, x, 1.0) for x in mixes) for a in (0.1, 0.3, 0.5, 0.7, 0.9)}
    of_two = {case: theory.a_min_two_points(case[0] / case[1]) for case in two}
    of_ell = {alpha: theory.a_ell_bound(alpha) for alpha in ell}
    numbers: list[tuple[str, str, float | str, float]] = [
        *(("Fig. 1", f"{n} of a ln(u + b) + c", p, v) for n, p, v in zip("abc", FIT, found, strict=True)),
        ("Fig. 1", "R^2 of the fit", "> 0.9999", square),
        *((f"Fig. 1, u from {u} to 1,000", "R^2 of the printed fit", "> 0.9999", v) for u, v in as_printed.items()),
        ("Fig. 1, u = 1,000", "CR(A_min)", theory.a_min_fit(1000), longest),
        ("Theorem 4.3, u = 1,000", "CR(A_min)", f"<= {harmonic:.6g}", longest),
        *((f"Fig. 3, q = {q:g}", "CR(A_min), geometric", "< 1.7", v) for q, v in zip(SHARES, plain, strict=True)),
        *(
            (f"Fig. 3, q = {q:g}", "CR(A_min), weighted geometric", theory.a_min_weighted_geometric(q), v)
            for q, v in zip(SHARES, weighted, strict=True)
        ),
        *((f"Theorem 5.1, {low} and {up}", "CR(A_min)", of_two[low, up], v) for (low, up), v in two.items()),
        *((f"Theorem 5.2, alpha = {a:g}", "CR(A_ell)", f"<= {of_ell[a]:.6g}", v) for a, v in ell.items()),
    ]
    above = max(own / of_two[case] for case, own in two.items())
    used = [own / of_ell[alpha] for alpha, own in ell.items()]
    grows = bool((np.diff(plain) > 0).all() and (np.diff(weighted) > 0).all())
    printed = "; ".join(f"{share:.5f} from u = {first} on" for first, share in as_printed.items())
    yield from (ex.row(case, quantity, "", [float(own)], paper) for case, quantity, paper, own in numbers)
    yield ex.Claim("Fig. 1: a fit of this form has R^2 > 0.9999", square > 0.9999, f"{square:.6f}")
    yield ex.Claim("Fig. 1: so have the printed numbers", as_printed[1] > 0.9999, printed)
    says = "Fig. 3: the ratio grows with q, and stays below 1.7 and 14/9"
    below = grows and max(plain) < 1.7 and max(weighted) <= 14 / 9
    yield ex.Claim(says, below, f"at most {max(plain):.4f} and {max(weighted):.4f}")
    says = "Theorem 5.1: the closed form is at most (3 - alpha)/2 on two outputs"
    yield ex.Claim(says, above <= 1 + 1e-9, f"at most {above:.4f} of it")
    says = "Theorem 4.3: CR(A_min) is at most the harmonic number of u"
    yield ex.Claim(says, longest <= harmonic, f"{longest:.4f} of {harmonic:.4f} at u = 1,000")
    says = "Theorem 5.2: A_ell's closed form is at most its bound on two outputs"
    yield ex.Claim(says, max(used) <= 1 + 1e-9, f"{min(used):.3f} to {max(used):.3f} of it")


def _lemma(setting: ex.Setting, values: Values) -> ex.Told:
    """Lemma 4.6, with H-SF's side of it, and Proposition 4.5; measurements go into `values`."""
    ratios: list[tuple[ex.Interval, float]] = []
    sides: list[tuple[ex.Interval, float]] = []
    first: list[_Shares] = []
    later: list[_Shares] = []
    for case in CASES:
        count = case.enough(setting.pick(LOADED, 3))
        seeds = [setting.seed + r for r in range(setting.replicates)]
        learned = [case.latencies(BLIND[A_MIN], count, seed) for seed in seeds]
        best = case.mean_latencies(setting, "h-sf", count)
        own = values["Lemma 4.6", case.name, "ratio"] = ex.quotients([mine for mine, _ in learned], best)
        values["Lemma 4.6", case.name, "H-SF"] = best
        first.append(_at_first(case, [shares for _, shares in learned]))
        later.append(_later(case, [case.completions(case.enough(WATCHED), seed) for seed in seeds]))
        for which, shares in (("at first", first[-1]), ("in its last period", later[-1])):
            completed, printed = shares[-1]
            values["Proposition 4.5", case.name, which] = completed
            what = f"share of the longest that A_min completes {which}, Proposition 4.5"
            yield ex.row(case.name, what, "", completed, round(printed, 4))
        for pairs, what, printed, mine in (
            (ratios, "CR(A_min), Lemma 4.6", theory.a_min_mixed(case.mix, case.prompt, case.lower), own),
            (sides, "mean latency of H-SF, iterations", case.hindsight(case.output(count).size), best),
        ):
            pairs.append((ex.mean_interval(mine), printed))
            yield ex.Row(case.name, what, "", round(printed, 4), pairs[-1][0])
    yield _all_within("Lemma 4.6: A_min's ratio is the closed form's", ratios)
    yield _all_within("Lemma 4.6: H-SF's latency is the closed form's", sides)
    yield _completed("Proposition 4.5: in the first period (s + l) / (s + j) of each output j are completed", first)
    yield _completed("Proposition 4.5: in each later period i <= j, 1 / (s + j) of each output j are completed", later)


def _proof(setting: ex.Setting, values: Values) -> ex.Told:
    """Lemma 4.6, for A_min as its proof has it and for it with the victims of Algorithm 2."""
    found: list[tuple[ex.Interval, float]] = []
    for case in CASES:
        count = min(case.enough(setting.pick(SETTLED, 3)), MOST)
        best = case.mean_latencies(setting, "h-sf", count)
        printed = theory.a_min_mixed(case.mix, case.prompt, case.lower)
        for victim, which in VICTIMS.items():
            proved = [case.as_proved(victim, count, setting.seed + r)[0] for r in range(setting.replicates)]
            own = ex.quotients(proved, best)
            values["Lemma 4.6", case.name, f"ratio, {which}"] = own
            yield ex.row(case.name, f"CR(A_min), {which}, Lemma 4.6", "", own, round(printed, 4))
            if victim == "grown":
                found.append((ex.mean_interval(own), printed))
    yield _all_within("Lemma 4.6: the ratio of A_min as proved is the closed form's", found)


def _periods(setting: ex.Setting, values: Values) -> ex.Told:
    """Proposition 4.5 for A_min as its proof has it, in cases with enough requests of each output."""
    first: list[_Shares] = []
    later: list[_Shares] = []
    count = setting.pick(MOST, 3_000)
    for case in (even(0, 1, 8), *CASES[1:4]):
        for times in (case.times, ROOMY):
            of = replace(case, times=times)
            found = [of.as_proved("grown", count, setting.seed + r)[1] for r in range(setting.replicates)]
            shares = _at_first(of, [one[case.lower, 1:] for one in found]), _later(of, found)
            off = max(abs(float(np.mean(own)) - printed) for part in shares for own, printed in part)
            what = f"largest gap of A_min as proved to Proposition 4.5, M = {times} (s + u)"
            values["Proposition 4.5", case.name, what] = [off]
            yield ex.row(case.name, what, "", [off], "O(1/M)")
            if times == ROOMY:
                first.append(shares[0])
                later.append(shares[1])
    yield _completed("Proposition 4.5: A_min as proved completes (s + l) / (s + j) of output j in the first period", first)
    yield _completed("Proposition 4.5: A_min as proved completes 1 / (s + j) of output j in each later period i <= j", later)


#: (measured shares, one a replicate; printed share), one entry an output, or a period and an output.
_Shares = list[tuple[list[float], float]]


def _at_first(case: Case, kept: Sequence[F8]) -> _Shares:
    """The shares of each output completed in the first period, next to the printed (s + l) / (s + j)."""
    s, low = case.prompt, case.lower
    return [([float(own[j - 1]) for own in kept], (s + low) / (s + j)) for j in case.outputs]


def _later(case: Case, completed: Sequence[F8]) -> _Shares:
    """The shares of each output j completed in each later period, next to the printed 1 / (s + j)."""
    periods = [(i, j) for j in case.outputs for i in range(case.lower + 1, j + 1)]
    return [([float(own[i, j]) for own in completed], 1 / (case.prompt + j)) for i, j in periods]


def _completed(says: str, of_cases: Sequence[_Shares]) -> ex.Claim:
    """The claim `says` on the shares of all cases: each is within `NEAR_COMPLETED` of the printed one."""
    every: list[bool | None] = []
    told: list[str] = []
    for shares in of_cases:
        every += [ex.within(ex.mean_interval(own), p - NEAR_COMPLETED, p + NEAR_COMPLETED) for own, p in shares]
        means, printed = [100 * float(np.mean(own)) for own, _ in shares], [100 * one for _, one in shares]
        told.append(f"{min(means):.3g} to {max(means):.3g} % ({min(printed):.3g} to {max(printed):.3g} % printed)")
    return ex.Claim(f"{says} (within {NEAR_COMPLETED:.0%})", ex.all_of(every), "; ".join(told))


def _all_within(says: str, pairs: Sequence[tuple[ex.Interval, float]]) -> ex.Claim:
    """The claim `says`: each value of `pairs` is within `NEAR` of its printed number."""
    holds = ex.all_of([ex.near(own, paper, NEAR) for own, paper in pairs])
    apart = "; ".join(f"{100 * (own.value / paper - 1):+.1f} %" for own, paper in pairs)
    return ex.Claim(f"{says} (within {NEAR:.0%})", holds, apart)


def _random(setting: ex.Setting, values: Values) -> ex.Told:
    """Lemma 8.8 and Theorems 3.3 and 8.6: A_max(M), A_random(alpha M) and A_random(M)."""
    tested: dict[str, list[ex.Interval]] = {"Lemma 8.8": [], "Theorem 3.3": [], "Theorem 8.6": []}
    for case in (even(0, 5, 10), even(0, 2, 8), even(10, 5, 20), Case(0, 2, np.eye(8)[1] * 3 + np.eye(8)[7])):
        alpha, count = case.lower / case.mix.size, case.enough(setting.pick(LOADED, 3))
        policies = {
            "A_max": "a-max",
            "A_random(alpha M)": f"a-random:memory_scale={alpha}",
            "A_random": "a-random",
            HINDSIGHT: "h-sf",
        }
        own = {name: case.mean_latencies(setting, policy, count) for name, policy in policies.items()}
        outputs = f"{case.name}, {np.count_nonzero(case.mix)} outputs"
        for where, above, below, bound in (
            ("Lemma 8.8", "A_max", "A_random(alpha M)", 1.0),
            ("Theorem 3.3", "A_max", HINDSIGHT, theory.a_max_ratio(alpha)[1]),
            ("Theorem 8.6", "A_random", HINDSIGHT, theory.a_random_ratio(alpha)),
        ):
            values[where, outputs, "ratio"] = ex.quotients(own[above], own[below])
            found = ex.mean_interval(values[where, outputs, "ratio"])
            yield ex.Row(f"{where}, {outputs}", f"latency of {above} over {below}", "", f"<= {bound:.4g}", found)
            tested[where].append(ex.beyond(found, bound))
    for where, own in tested.items():
        seen = "; ".join(map(ex.mean_text, own))
        yield ex.all_limited(f"{where}: its bound holds on every instance", own, 0, -1, seen)


def _search(setting: ex.Setting, values: Values) -> ex.Told:
    """Theorem 4.2 on random mixes: no policy that sees the same bounds is better than A_min."""
    tried = setting.pick(24, 3)
    cases = [random_case(setting.seed, draw) for draw in range(tried)]
    counts = [case.enough(setting.pick(LOADED, 3)) for case in cases]
    best = [case.mean_latencies(setting, "h-sf", n) for case, n in zip(cases, counts, strict=True)]
    found: dict[str, list[list[float]]] = {name: [] for name in BLIND}
    for name, policy in BLIND.items():
        for case, n, base in zip(cases, counts, best, strict=True):
            own = ex.quotients(case.mean_latencies(setting, policy, n), base)
            found[name].append(own)
            key = ("Theorem 4.2", f"{case.name}, {np.count_nonzero(case.mix)} outputs", name)
            values[key] = values.get(key, []) + own
    most = {name: np.max(own, axis=0).tolist() for name, own in found.items()}
    yield from (ex.Row(name, "largest ratio found", "", None, ex.mean_interval(own)) for name, own in most.items())
    broken: dict[str, int] = {}
    for name, own in found.items():
        pairs = zip(own, found[A_MIN], strict=True)
        broken[name] = sum(ex.clearly(ex.paired_difference(one, base), -1) is True for one, base in pairs)
        yield ex.row(name, "instances with a lower latency than A_min", "", [float(broken[name])], "0")
    apart = {name: ex.paired_difference(own, most[A_MIN]) for name, own in most.items() if name != A_MIN}
    says = "proof of Theorem 4.2: on no instance has a policy that sees the same bounds a lower latency than A_min"
    seen = ex.listed(f"{name} has on {broken[name]} of {tried}" for name in apart)
    yield ex.Claim(says, not any(broken.values()), seen)
    says = "Theorem 4.2: no such policy has a smaller largest ratio than A_min over the instances searched"
    seen = ex.listed(f"{name} {ex.mean_text(one)}" for name, one in apart.items())
    yield ex.all_limited(says, apart.values(), 0, +1, f"{seen} apart")


def random_case(seed: int, draw: int) -> Case:
    """A random instance: prompts of 0, 2 or 10 tokens, a lower bound of 1 to 4, outputs up to 12, of all lengths or two."""
    dice = streams.uniform(seed, "interval-search", np.arange(16), draw=draw)
    prompt, lower = (0, 2, 10)[int(3 * dice[0])], 1 + int(4 * dice[1])
    mix = np.zeros(lower + 1 + int(8 * dice[2]))
    shares = dice[3 : 3 + mix.size - lower + 1] ** 2 + 0.02
    mix[lower - 1 :] = shares
    if dice[15] < 0.5:
        mix[lower:-1] = 0.0
    return Case(prompt, lower, mix)


def _draw(figure: ex.Figure) -> None:
    left, middle, right = figure.subplots(1, 3)
    left.plot(LENGTHS, [theory.a_min_worst(n)[0] for n in LENGTHS], color=ex.COLOURS[0], label="largest eigenvalue")
    left.plot(LENGTHS, [theory.a_min_fit(n) for n in LENGTHS], "k:", label="the paper's fit")
    ex.labelled(left, "u", "CR(A_min)", "Fig. 1", legend=True)
    alphas = np.linspace(0.01, 0.99, 99)
    bounds = {"A_min": theory.a_min_two_points, "A_ell": theory.a_ell_bound}
    ex.lines(middle, {says: (alphas, [of(float(a)) for a in alphas]) for says, of in bounds.items()})
    ex.labelled(middle, "alpha", "", "Fig. 2, two outputs", legend=True)
    laws = {"geometric": False, "weighted": True}
    ex.lines(right, {says: (SHARES, [geometric(q, weighted=w) for q in SHARES]) for says, w in laws.items()}, marker=".")
    ex.labelled(right, "q", "", "Fig. 3", legend=True)
